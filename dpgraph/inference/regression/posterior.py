"""The posterior of a linear regression given noisy sums of products, the noise taken into account.

``Hamiltonian``: the sums are unknown, and Markov chains move through those that bounded rows can have, weighed by the
release and the law of its noise (``chain``). Where the noise drowns the rows this falls back to the prior.
``PlugIn``: the nearest possible sums are taken as exact; overconfident, for comparison.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.inference.chains import effective_size, progress_bar, r_hat
from dpgraph.inference.draws import mixed
from dpgraph.inference.methods import Automatic, Hamiltonian, PlugIn, chosen_method
from dpgraph.inference.regression import chain
from dpgraph.inference.regression.chain import WeightPrior, conjugate_update, matrix_vector, sums_layout
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.inference.regression.prior import RegressionPrior
from dpgraph.privacy.errors import InferenceError
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.tables import Reals

Method = Automatic | Hamiltonian | PlugIn

#: The methods of a linear regression, by name.
METHODS: dict[str, Method] = {"auto": Automatic(), "hamiltonian": Hamiltonian(), "plug-in": PlugIn()}

#: Chains, which together cost little more than one, and the least draws of each: fewer say nothing of mixing.
CHAINS, LEAST_DRAWS = 8, 60
#: Chains that have not mixed go on until they are this many times as long as what was asked for.
LONGEST = 8
#: The most squared error of predictions by chance in the chains, in residual variances; they go on until then.
MOST_EXCESS = 0.005
#: Points of the target's average, within so many scales of the noise; degrees from which a Student-t counts as normal.
POINTS, WIDEST, MOST_DEGREES = 2001, 30.0, 1e8
#: Rounds of alternating projections of plug-in sums, and the share of n above which eigenvalues are kept.
ROUNDS, LEAST_EIGENVALUE = 200, 1e-6


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
    """Draws weights and noise variance given noisy sums of products; arguments as of ``inference.posterior``.

    ``Automatic()`` is ``Hamiltonian()``; a missing prior is ``RegressionPrior()``, weak in the scaled units.

    >>> from dpgraph.privacy.measurements import DiscreteLaplace
    >>> design = LinearDesign({"x": (-1, 1)}, "y", (-1, 1))
    >>> sums = (np.array([0.0, 0.0, 300.0, 150.0, 100.0]) / np.array(design.steps)).astype(np.int64)
    >>> noisy = NoisyMoments(design, sums, DiscreteLaplace(5.0 / design.steps[0]), n=1000)
    >>> made = regression_posterior(design, noisy, rng=np.random.default_rng(0))
    >>> made.coefficients().loc["x", "mean"].round(1)
    np.float64(0.5)
    """
    prior = RegressionPrior() if prior is None else prior
    if not isinstance(noisy, NoisyMoments):
        raise InferenceError(f"this posterior takes noisy moments; got {type(noisy).__name__}")
    if not isinstance(prior, RegressionPrior):
        raise InferenceError(f"prior must be a RegressionPrior; got {prior!r}")
    chosen = chosen_method(method, METHODS)
    if isinstance(chosen, PlugIn):
        weights, variance, covariance = plug_in_draws(noisy, prior, design, draws, rng)
        return RegressionDraws(design, weights, variance, "plug-in", prior_covariance=covariance)
    chosen = chosen if isinstance(chosen, Hamiltonian) else Hamiltonian()
    model = chain.as_model(noisy, prior, design)
    length = max(LEAST_DRAWS, -(-draws // CHAINS))
    begin = chain.starting_points(model, design, CHAINS, rng)
    found, mixing = _until_mixed(model, begin, length, chosen, rng, progress)
    kept = np.linspace(0, CHAINS * found.length - 1, draws).round().astype(np.intp)
    every = found.weights.swapaxes(0, 1).reshape(-1, found.weights.shape[2])
    # the returned draws have the average of all
    flat = every[kept] + (every.mean(axis=0) - every[kept].mean(axis=0))
    diagnostics = FrozenMap({"chains": float(CHAINS), **mixing})
    before: Any = np.linalg.inv(found.prior.mean(axis=(0, 1)))
    averages = None
    if design.intercept:
        of_target = target_average(model, float(np.sqrt(found.variance.mean())))
        averages = np.append(found.products.mean(axis=(0, 1))[0], of_target)
    return RegressionDraws(design, flat, found.variance.T.ravel()[kept], "hamiltonian", diagnostics, before, averages)


def target_average(model: chain.Model, deviation: float) -> float:
    """The posterior mean of the target's average given its own released sum alone, in the scaled target's units.

    Its prior is that of the average prediction at this deviation s about the line, within the bounds; n counts as the
    released one. All sums together would move it, where they leave less for s than the prior of s allows.
    """
    noise, prior, sum_ = model.noise, model.prior, model.layout.target[0]
    released, scale = noise.observed[sum_], noise.scale[sum_]
    nearest, reach = float(np.clip(released, -1.0, 1.0)), WIDEST * scale
    average = np.linspace(max(-1.0, nearest - reach), min(1.0, nearest + reach), POINTS)
    degrees = min(prior.degrees, MOST_DEGREES)
    apart, off = (average - model.centre[0]) / (prior.intercept * deviation), np.abs(average - released) / scale
    log = -(degrees + 1) / 2 * np.log1p(apart**2 / degrees) - (off if noise.laplace else off**2 / 2)
    chance = np.exp(log - log.max())
    return float(chance @ average / chance.sum())


def _until_mixed(
    model: chain.Model, begin: Reals, length: int, method: Hamiltonian, rng: np.random.Generator, progress: bool
) -> tuple[chain.Kept, dict[str, float]]:
    """Chains that go on, each time as long again, until they have mixed or are ``LONGEST`` times ``length``.

    Mixed chains go on while chance in them makes predictions worse (``_excess``). All draws are kept, or the later half
    where that has mixed and all have not.
    """
    burn_in, thin = method.burn_in, method.thin
    with progress_bar(progress, burn_in + length * thin, "iterations of each chain") as bar:
        settled = chain.settled_chains(model, begin, burn_in, rng, bar)
        later = None if bar is None else lambda i: bar(burn_in + i)
        chains, made = chain.sampled(settled, length, thin, rng, later)
    while True:
        longest = made.length >= LONGEST * length
        for part in (made, made.later_half()):
            mixing = _mixing(part.weights, part.variance)
            enough = part.length >= length and mixed(mixing["r_hat"], mixing["effective_size"])
            if enough and (longest or _excess(part) <= MOST_EXCESS):
                return part, mixing
        if longest:
            return made, _mixing(made.weights, made.variance)
        with progress_bar(progress, made.length * thin, "iterations more, as means are not settled") as tick:
            chains, more = chain.sampled(chains, made.length, thin, rng, tick)
        made = made.then(more)


def _excess(kept: chain.Kept) -> float:
    """The squared error that predictions have as means of chains' weights differ, in residual variances.

    The variance of the mean of the chains' mean weights, over rows of the columns' mean products (proofs.md P106).
    """
    means = kept.weights.mean(axis=1)
    apart = means - means.mean(axis=0)
    spread = np.trace(apart @ kept.products.mean(axis=(0, 1)) @ apart.T) / (len(means) * (len(means) - 1))
    return float(spread / kept.variance.mean())


def _mixing(weights: Reals, variance: Reals) -> dict[str, float]:
    """The worst R-hat and the least effective size of weights and log variance."""
    every = np.concatenate([weights, np.log(variance)[..., None]], axis=2)
    return {"r_hat": float(r_hat(every).max()), "effective_size": float(effective_size(every).min())}


def plug_in_draws(
    noisy: NoisyMoments, prior: RegressionPrior, design: LinearDesign, draws: int, rng: np.random.Generator
) -> tuple[Reals, Reals, Reals]:
    """Independent draws of weights, shape (draws, d), and variances, shape (draws,); their prior covariance, (d, d)."""
    n = max(1.0, float(noisy.values[-1] if noisy.n is None else noisy.n))
    matrix = nearest_moment_matrix(noisy.values[: len(design.pairs)], n, design)
    d = len(matrix) - 1
    gram = matrix[None, :d, :d]
    fitted: Any = np.linalg.solve(matrix[:d, :d], matrix[:d, d])[None]
    residual = np.maximum(matrix[d, d] - matrix[:d, d] @ fitted[0], 0.0)
    shape, rate = prior.inverse_gamma
    before = WeightPrior(prior.centre(design)[None], prior.scale(design)[None] ** -2.0, shape, np.array([rate]))
    after = conjugate_update(gram, fitted, np.array([residual]), np.array([n]), before, design.intercept)
    variance = after.rate[0] / rng.standard_gamma(after.shape[0], draws)
    root = np.linalg.cholesky(after.covariance[0])
    z = rng.standard_normal((draws, d))
    weights = after.mean + np.sqrt(variance)[:, None] * matrix_vector(root[None], z)
    return weights, variance, variance.mean() * np.linalg.inv(after.prior[0])


def nearest_moment_matrix(values: Reals, n: float, design: LinearDesign) -> Reals:
    """A positive definite moment matrix with its known entries, near the released one (Dykstra's projections).

    ``values`` are the released sums of products, in ``design.names`` order; n is the number of rows.
    """
    pairs = np.array(design.pairs)
    made = design.matrix(values, n)
    correction = np.zeros_like(made)
    for _ in range(ROUNDS):
        values_, vectors = np.linalg.eigh(made + correction)
        positive = (vectors * np.maximum(values_, 2 * LEAST_EIGENVALUE * n)) @ vectors.T
        correction = made + correction - positive
        made = design.matrix(positive[pairs[:, 0], pairs[:, 1]], n)
        if np.linalg.eigvalsh(made)[0] >= LEAST_EIGENVALUE * n:
            return made
    for weight in chain.SHRINKING:
        mixed = (1 - weight) * made + weight * _unrelated_matrix(n, design)
        if np.linalg.eigvalsh(mixed)[0] >= LEAST_EIGENVALUE * n:
            return mixed
    return _unrelated_matrix(n, design)


def _unrelated_matrix(n: float, design: LinearDesign) -> Reals:
    layout, target = sums_layout(design, n, n), len(design.columns) - 1
    sums = np.array([1 / 3 if i == j == target else 0.0 for i, j in design.pairs])
    sums[layout.features] = chain.unrelated_averages(layout, design)
    return design.matrix(sums * n, n)
