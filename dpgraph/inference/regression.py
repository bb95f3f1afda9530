"""The posterior of a linear regression given noisy sums of products, the noise taken into account.

``"noise-aware"``: the sums are unknown, and Markov chains move through those that bounded rows can have, weighed by the
release and the law of its noise (``regression_density``, ``regression_chain``). Where the noise drowns the rows this
falls back to the prior. ``"plug-in"``: the nearest possible sums are taken for true; overconfident, for comparison.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.inference.chains import effective_size, r_hat
from dpgraph.inference.draws import ConvergenceWarning
from dpgraph.inference.regression_chain import run_chains
from dpgraph.inference.regression_draws import RegressionDraws
from dpgraph.inference.regression_plug_in import plug_in_draws
from dpgraph.inference.regression_prior import RegressionPrior
from dpgraph.inference.regression_start import model_of, starts
from dpgraph.privacy.records import Release, ReleaseError, released_value
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.moments import NoisyMoments

Reals = npt.NDArray[np.float64]
Method = Literal["noise-aware", "plug-in"]

#: Chains, which together cost little more than one, and the least draws of each: fewer say nothing of mixing.
CHAINS, LEAST_DRAWS = 16, 60
#: Iterations of each chain before its first draw.
BURN_IN = 300
#: Beyond this R-hat, or below this effective size, a warning.
WORST_R_HAT, LEAST_SIZE = 1.1, 100.0


def regression_posterior(
    noisy: NoisyMoments | Release[NoisyMoments],
    prior: RegressionPrior | None = None,
    *,
    method: str = "noise-aware",
    draws: int = 2000,
    rng: np.random.Generator,
    burn_in: int = BURN_IN,
    thin: int = 1,
    progress: Callable[[int], None] | None = None,
) -> RegressionDraws:
    """Draws weights and noise variance given noisy sums of products of a design's columns.

    Args:
        noisy: A release of noisy moments of a ``LinearDesign``, or its value.
        prior: What is believed before; the default is weak in the scaled units.
        method: ``"noise-aware"`` or ``"plug-in"``.
        draws: How many.
        rng: Randomness for post-processing; the release is already public.
        burn_in: Iterations of each of sixteen chains before its first draw.
        thin: Iterations of a chain for each draw.
        progress: Called with the number of each iteration.

    Raises:
        ReleaseError: If the release is of something else, or a setting is out of range.

    Warns:
        ConvergenceWarning: If the chains have not mixed; accuracy is at stake, not privacy.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> design = LinearDesign({"x": (-1, 1)}, "y", (-1, 1))
    >>> sums = (np.array([0.0, 0.0, 300.0, 150.0, 100.0]) / np.array(design.steps)).astype(np.int64)
    >>> noisy = NoisyMoments(design, sums, DiscreteLaplace(5.0 / design.steps[0]), n=1000)
    >>> made = regression_posterior(noisy, rng=np.random.default_rng(0))
    >>> made.coefficients().loc["x", "mean"].round(1)
    np.float64(0.5)
    """
    value, provenance = released_value(noisy)
    prior = RegressionPrior() if prior is None else prior
    design = _checked(value, prior, method, draws, burn_in, thin)
    if method == "plug-in":
        weights, variance = plug_in_draws(value, prior, design, draws, rng)
        return RegressionDraws(design, weights, variance, "plug-in", provenance=provenance)
    model = model_of(value, prior, design)
    length = _length(draws)
    begin = starts(model, design, CHAINS, rng)
    weights, variance, _ = run_chains(model, begin, length, burn_in=burn_in, thin=thin, rng=rng, progress=progress)
    found = _diagnostics(weights, variance)
    kept = np.linspace(0, CHAINS * length - 1, draws).round().astype(np.intp)
    flat = weights.swapaxes(0, 1).reshape(-1, weights.shape[2])[kept]
    return RegressionDraws(design, flat, variance.T.ravel()[kept], "noise-aware", FrozenMap(found), provenance)


def chain_iterations(draws: int, burn_in: int = BURN_IN, thin: int = 1) -> int:
    """How many iterations ``regression_posterior`` runs its chains for."""
    return burn_in + _length(draws) * thin


def _length(draws: int) -> int:
    """Draws of each chain."""
    return max(LEAST_DRAWS, -(-draws // CHAINS))


def _checked(value: Any, prior: Any, method: Any, draws: Any, burn_in: Any, thin: Any) -> LinearDesign:
    """The design; refuses other releases and settings out of range."""
    if not isinstance(value, NoisyMoments) or not isinstance(value.description, LinearDesign):
        raise ReleaseError(f"this posterior takes noisy moments of a LinearDesign; got {type(value).__name__}")
    if not isinstance(prior, RegressionPrior):
        raise ReleaseError(f"prior must be a RegressionPrior; got {prior!r}")
    if method not in get_args(Method):
        raise ReleaseError(f"method must be one of {', '.join(map(repr, get_args(Method)))}; got {method!r}")
    for name, number, least in (("draws", draws, 1), ("burn_in", burn_in, 0), ("thin", thin, 1)):
        if isinstance(number, bool) or not isinstance(number, int) or number < least:
            raise ReleaseError(f"{name} must be a whole number, at least {least}; got {number!r}")
    return value.description


def _diagnostics(weights: Reals, variance: Reals) -> dict[str, float]:
    """The worst R-hat and the least effective size; a warning where the chains are not to be trusted."""
    every = np.concatenate([weights, np.log(variance)[..., None]], axis=2)
    worst, least = float(r_hat(every).max()), float(effective_size(every).min())
    if not (worst <= WORST_R_HAT and least >= min(LEAST_SIZE, every.shape[0] * every.shape[1] / 4)):
        warnings.warn(
            f"the chains have not mixed: R-hat {worst:.3f}, effective size {least:.0f}; raise draws, burn_in or thin. "
            "The posterior may be inaccurate; privacy is not at stake",
            ConvergenceWarning,
            stacklevel=3,
        )
    return {"r_hat": worst, "effective_size": least}
