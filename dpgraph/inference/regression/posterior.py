"""The posterior of a linear regression given noisy sums of products, the noise taken into account.

``Hamiltonian``: the sums are unknown, and Markov chains move through those that bounded rows can have, weighed by the
release and the law of its noise (``density``, ``chain``). Where the noise drowns the rows this falls back to the prior.
``PlugIn``: the nearest possible sums are taken as exact; overconfident, for comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.inference.chains import effective_size, r_hat
from dpgraph.inference.methods import Automatic, Hamiltonian, PlugIn, chosen_method
from dpgraph.inference.progress import progress_bar
from dpgraph.inference.regression.chain import run_chains
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.inference.regression.plug_in import plug_in_draws
from dpgraph.inference.regression.prior import RegressionPrior
from dpgraph.inference.regression.start import as_model, starting_points
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.tables import Reals

Method = Automatic | Hamiltonian | PlugIn

#: The methods of a linear regression, by name.
METHODS: dict[str, Method] = {"auto": Automatic(), "hamiltonian": Hamiltonian(), "plug-in": PlugIn()}

#: Chains, which together cost little more than one, and the least draws of each: fewer say nothing of mixing.
CHAINS, LEAST_DRAWS = 16, 60


def regression_posterior(
    design: LinearDesign,
    noisy: NoisyMoments,
    *,
    prior: RegressionPrior | None = None,
    method: Any = "auto",
    draws: int = 1000,
    rng: np.random.Generator,
    progress: bool = False,
) -> RegressionDraws:
    """Draws weights and noise variance given noisy sums of products of a design's columns.

    Args:
        design: The columns and the target, with their public bounds.
        noisy: What was released of the sums.
        prior: The prior; None is ``RegressionPrior()``, weak in the scaled units.
        method: ``Hamiltonian(...)`` or ``PlugIn()``, or one of their names; ``Automatic()`` is the former.
        draws: How many.
        rng: Randomness for post-processing; the release is already public.
        progress: A bar on a terminal while chains run.

    Raises:
        InferenceError: If the prior or the method is refused, or the value is not of noisy moments.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> design = LinearDesign({"x": (-1, 1)}, "y", (-1, 1))
    >>> sums = (np.array([0.0, 0.0, 300.0, 150.0, 100.0]) / np.array(design.steps)).astype(np.int64)
    >>> noisy = NoisyMoments(design, sums, DiscreteLaplace(5.0 / design.steps[0]), n=1000)
    >>> made = regression_posterior(design, noisy, rng=np.random.default_rng(0))
    >>> made.coefficients().loc["x", "mean"].round(1)
    np.float64(0.5)
    """
    prior = RegressionPrior() if prior is None else prior
    _check(noisy, prior)
    chosen = chosen_method(method, METHODS)
    if isinstance(chosen, PlugIn):
        weights, variance = plug_in_draws(noisy, prior, design, draws, rng)
        return RegressionDraws(design, weights, variance, "plug-in")
    chosen = chosen if isinstance(chosen, Hamiltonian) else Hamiltonian()
    model = as_model(noisy, prior, design)
    length = max(LEAST_DRAWS, -(-draws // CHAINS))
    begin = starting_points(model, design, CHAINS, rng)
    burn_in, thin = chosen.burn_in, chosen.thin
    with progress_bar(progress, burn_in + length * thin, "iterations of each chain") as tick:
        weights, variance, _ = run_chains(model, begin, length, burn_in=burn_in, thin=thin, rng=rng, progress=tick)
    mixing = FrozenMap({"chains": float(CHAINS), **_mixing(weights, variance)})
    kept = np.linspace(0, CHAINS * length - 1, draws).round().astype(np.intp)
    flat = weights.swapaxes(0, 1).reshape(-1, weights.shape[2])[kept]
    return RegressionDraws(design, flat, variance.T.ravel()[kept], "hamiltonian", mixing)


def _check(value: object, prior: object) -> None:
    """Refuses values and priors of another kind."""
    if not isinstance(value, NoisyMoments):
        raise InferenceError(f"this posterior takes noisy moments; got {type(value).__name__}")
    if not isinstance(prior, RegressionPrior):
        raise InferenceError(f"prior must be a RegressionPrior; got {prior!r}")


def _mixing(weights: Reals, variance: Reals) -> dict[str, float]:
    """The worst R-hat and the least effective size of weights and log variance."""
    every = np.concatenate([weights, np.log(variance)[..., None]], axis=2)
    return {"r_hat": float(r_hat(every).max()), "effective_size": float(effective_size(every).min())}
