"""Hamiltonian Monte Carlo for the sums of products of a regression, all chains at once.

Chains start at possible sums near the released ones, spread wider than their posterior.

The density with weights and variance integrated out is smooth at the scale of the noise, so one trajectory moves every
sum; weights, variance and the hyperparameters of their prior are then drawn from their exact conditional laws.

Given the features, and so given A = X'X, the target's sums are exactly r = X'y ~ N(A w, s2 A) and, independent of r,
R = y'y - r'A^-1 r ~ s2 chi-square(n - d): whatever law the features have, nothing but A of it matters. So A is an
unknown like the others, with a prior of its own, and no fourth moment is needed (proofs.md P63; Bernstein and Sheldon
2019 integrate the features out under a normal approximation, and need them for that). With the least-squares weights
f = A^-1 r and a normal-inverse-gamma prior, w ~ N(m, s2 / L) and 1/s2 ~ Gamma(a0, b0),

    p(r, y'y | A) ~ |A|^(-1/2) R^((n - d)/2 - 1) |A + L|^(-1/2) b^(-a),     a = a0 + n/2,
    b = b0 + (R + (f - m)' (A^-1 + L^-1)^-1 (f - m)) / 2,

and A, f and log R are coordinates in which this and the noise are smooth. ``_kernels.density`` computes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpgraph.inference.regression._kernels import Given, Metric, Problem, compiled
from dpgraph.inference.regression.prior import RegressionPrior
from dpgraph.structure.design import Bounded, LinearDesign
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.tables import Integers, Reals


@dataclass(frozen=True)
class Layout:
    """The positions of a design's sums, all in units of ``size``, a rough number of rows.

    Attributes:
        source: The place of each entry of X'X among the sums of features, shape (d, d), any where it is known; where n
            is private it counts as the last of the sums.
        factor: The increase of the entry by a unit of that sum, shape (d, d); 0 where it is known.
        fixed: The known part of X'X, shape (d, d).
        squares: The places of squares of numbers, at most n, among the sums of features.
        features: The places of sums of features among the released sums.
        target: The places of X'y, in the order of the columns, and last of y'y among the released sums.
        size: The unit.
        n: The number of rows, None where it is unknown.
        intercept: True if the first column is one.
    """

    source: Integers
    factor: Reals
    fixed: Reals
    squares: Integers
    features: Integers
    target: Integers
    size: float
    n: float | None
    intercept: bool

    @property
    def d(self) -> int:
        """The columns but the target."""
        return len(self.target) - 1

    @property
    def entries(self) -> int:
        """How many sums of features there are."""
        return len(self.features)

    @property
    def is_number(self) -> npt.NDArray[np.bool_]:
        """Flags of the columns that are numbers: their squares are sums of their own, shape (d,)."""
        return np.isin(self.source.diagonal(), self.squares) & (self.factor.diagonal() != 0)

    def matrix(self, sums: Reals) -> Reals:
        """X'X over ``size``, shape (chains, d, d); where n is private it is the last of the sums."""
        return self.fixed + sums[:, self.source] * self.factor

    def rows(self, sums: Reals) -> Reals:
        """The number of rows, shape (chains,)."""
        return np.full(len(sums), self.n) if self.n is not None else sums[:, -1] * self.size

    def averages(self, sums: Reals) -> Reals:
        """The averages of the columns, shape (chains, d), where the first is the intercept; its own is 1."""
        return self.matrix(sums)[:, 0] / (self.rows(sums) / self.size)[:, None]


def sums_layout(design: LinearDesign, n: float | None, size: float) -> Layout:
    """The layout of a design's sums; n is None where it is private."""
    count, last = len(design.pairs), len(design.columns) - 1
    features = np.array([k for k, pair in enumerate(design.pairs) if last not in pair], np.int64)
    by_column = {i: k for k, (i, j) in enumerate(design.pairs) if j == last}
    unit = np.eye(count)
    basis = np.stack([design.matrix(unit[k], 0.0)[:last, :last] for k in features])
    known = design.matrix(np.zeros(count), 1.0)[:last, :last]
    kinds = [design.columns[i].kind if i == j else "" for i, j in (design.pairs[k] for k in features)]
    squares = np.array([k for k, kind in enumerate(kinds) if kind == "number"], np.int64)
    if n is None:
        basis, known = np.concatenate([basis, known[None]]), np.zeros_like(known)
    else:
        known = known * (n / size)
    source = np.abs(basis).argmax(axis=0)
    factor = np.take_along_axis(basis, source[None], 0)[0]
    target = np.array([by_column[i] for i in range(last + 1)], np.int64)
    return Layout(source, factor, known, squares, features, target, size, n, design.intercept)


@dataclass(frozen=True)
class WeightPrior:
    """Normal-inverse-gamma priors, one a chain: w ~ N(mean, s2 / precision), 1/s2 ~ Gamma(shape, rate).

    The precision matrix of the slopes is the columns' covariance times the roots of its row's and its column's
    precision (proofs.md P99). The first precision of a design with an intercept is that of the average prediction, not
    of the weight alone: the prediction where other columns are 0 may be far from any row. Shapes: mean and precision
    (chains, d), rate (chains,).
    """

    mean: Reals
    precision: Reals
    shape: float
    rate: Reals

    def matrix(self, mean_products: Reals, intercept: bool) -> Reals:
        """The precision matrices, given the averages of the columns' products, shape (chains, d, d)."""
        slopes = self.of_slopes(intercept)
        if not intercept:
            return slopes * mean_products
        average = mean_products[:, :, 0]
        products = average[:, :, None] * average[:, None, :]
        return slopes * (mean_products - products) + self.precision[:, 0, None, None] * products

    def of_slopes(self, intercept: bool) -> Reals:
        """The factors of the columns' covariance in the precision matrices, shape (chains, d, d)."""
        root = np.sqrt(self.precision)
        made = root[:, :, None] * root[:, None, :]
        if intercept:
            made[:, 0, 0] = 0.0
        return made


@dataclass(frozen=True)
class ConjugatePosterior:
    """The conjugate posterior of each chain: weights' mean and covariance over s2, Gamma law of 1/s2, prior precision.

    Shapes: mean (chains, d), covariance and prior (chains, d, d), shape and rate (chains,).
    """

    mean: Reals
    covariance: Reals
    shape: Reals
    rate: Reals
    prior: Reals


def conjugate_update(
    gram: Reals, fitted: Reals, residual: Reals, n: Reals, prior: WeightPrior, intercept: bool
) -> ConjugatePosterior:
    """The posterior of weights and variance given exact sums: X'X, least-squares weights and residual sum of squares.

    Written so that nothing cancels: b - b0 is half of R + (f - m)' L (A + L)^-1 A (f - m).
    """
    before = prior.matrix(gram / n[:, None, None], intercept)
    covariance: Any = np.linalg.inv(gram + before)
    apart = fitted - prior.mean
    pulled = matrix_vector(covariance, matrix_vector(before, apart))
    rate = prior.rate + (residual + (pulled * matrix_vector(gram, apart)).sum(axis=1)) / 2
    return ConjugatePosterior(fitted - pulled, covariance, prior.shape + n / 2, rate, before)


@dataclass(frozen=True)
class Noise:
    """Noisy sums and the scale of their noise, Laplace or normal, in units of ``size``; where n is private n last."""

    observed: Reals
    scale: Reals
    laplace: bool


@dataclass(frozen=True)
class Point:
    """Coordinates of every chain: sums of features (and n), least-squares weights, log of the residual sum of squares.

    In units of ``size``; shapes (chains, sums of features), (chains, d) and (chains,).
    """

    sums: Reals
    fitted: Reals
    log_residual: Reals


def sums_are_possible(sums: Reals, layout: Layout) -> npt.NDArray[np.bool_]:
    """Flags of possible sums of features of bounded columns: X'X positive definite, squares at most n."""
    rows = layout.rows(sums) / layout.size
    sound = np.isfinite(sums).all(axis=1) & (rows > 0)
    sound &= (sums[:, layout.squares] < rows[:, None]).all(axis=1)
    least = np.zeros(len(sums))
    if sound.any():
        least[sound] = np.linalg.eigvalsh(layout.matrix(sums[sound]))[:, 0]
    return sound & (least > 1e-12)


def matrix_vector(matrix: Reals, vector: Reals) -> Reals:
    """The product of a matrix and a vector, for each chain."""
    return (matrix @ vector[..., None])[..., 0]


#: How far a trajectory goes, in deviations, and the least and most steps that it takes.
DISTANCE, STEPS = 2.2, (6, 160)
#: The share of proposals to accept, and the first step size.
ACCEPTED, FIRST_STEP = 0.65, 0.1
#: A kind of trajectory with steps shorter than this part of another's is left off, after so many eighths of burn-in.
SHORTER, DECIDED = 1 / 3, 3
#: Pseudo-points per coordinate in covariance shrinkage.
PSEUDO_POINTS = 0.5
#: How far towards uniform, unrelated features impossible sums are moved, in tries.
SHRINKING = (0.0, *(0.01 * 1.3**k for k in range(18)), 1.0)
#: The share of the target's square that residuals begin with at least.
LEAST_RESIDUAL = 0.2


@dataclass(frozen=True)
class Model:
    """The model whose unknowns are sampled, in coordinates of order 1.

    Attributes:
        layout: Where the sums stand.
        noise: The released sums and the law of their noise.
        prior: The prior of weights, variance and features.
        centre: The prior mean of the weights, shape (d,).
        scale: Their prior deviation over that of the noise, shape (d,).
        middle: A rough estimate of the centred weights, shape (d,); of other problems in each chain, (chains, d).
        root: Coordinates of the centred weights: these are ``middle`` and the root of the residuals' share times
            ``root @ u``, so that weights and residuals may shrink together.

    Centred weights are the least-squares weights with the average prediction in the intercept's place: where noise
    drowns the columns' averages, but not the target's, the intercept alone would have to follow every one of them.
    """

    layout: Layout
    noise: Noise
    prior: RegressionPrior
    centre: Reals
    scale: Reals
    middle: Reals
    root: Reals

    def point(self, flat: Reals) -> Point:
        """Coordinates from vectors, shape (chains, coordinates)."""
        d = self.layout.d
        sums = flat[:, : -d - 1]
        centred = self.middle + np.exp(flat[:, -1:] / 2) * matrix_vector(self.root, flat[:, -d - 1 : -1])
        return Point(sums, self.uncentred(sums, centred), flat[:, -1])

    def flat(self, point: Point) -> Reals:
        """The inverse of ``point``."""
        centred = point.fitted.copy()
        if self.layout.intercept:
            centred[:, 0] = (self.layout.averages(point.sums) * point.fitted).sum(axis=1)
        u = np.linalg.solve(self.root, (centred - self.middle)[..., None])[..., 0]
        scaled = u / np.exp(point.log_residual / 2)[:, None]
        return np.concatenate([point.sums, scaled, point.log_residual[:, None]], axis=1)

    def uncentred(self, sums: Reals, centred: Reals) -> Reals:
        """Least-squares weights from centred ones, shape (chains, d)."""
        if not self.layout.intercept:
            return centred
        fitted = centred.copy()
        fitted[:, 0] -= (self.layout.averages(sums)[:, 1:] * centred[:, 1:]).sum(axis=1)
        return fitted

    @cached_property
    def problem(self) -> Problem:
        """The model as arrays, the same in all chains."""
        layout, noise, private = self.layout, self.noise, self.layout.n is None
        numbers = [layout.size, -1.0 if layout.n is None else layout.n, self.prior.inverse_gamma[0]]
        features = np.append(layout.features, [len(noise.scale) - 1] * private).astype(np.int64)
        return Problem(
            layout.source, layout.factor, layout.fixed, layout.squares, features, layout.target, noise.scale,
            self.centre, np.array([*numbers, *self.prior.exponents(layout.d)]),
            np.argsort(layout.is_number, kind="stable"), int((~layout.is_number).sum()), layout.intercept,
            noise.laplace,
        )  # fmt: skip

    def given(self, prior: WeightPrior) -> Given:
        """The arrays of each chain."""
        chains, d = prior.mean.shape
        observed = np.broadcast_to(self.noise.observed, (chains, len(self.noise.scale)))
        coordinates = np.broadcast_to(self.middle, (chains, d)), np.broadcast_to(self.root, (chains, d, d))
        weights = prior.of_slopes(self.layout.intercept), prior.precision[:, 0], prior.rate
        return Given(*(np.array(one, order="C") for one in (observed, *coordinates, *weights)))


def as_model(noisy: NoisyMoments, prior: RegressionPrior, design: LinearDesign) -> Model:
    """The model of a release, in coordinates of order 1."""
    size = 1.0 if noisy.n is None else float(noisy.n)
    if noisy.n is None:  # a number that cannot be far below the rows
        size = max(float(noisy.values[-1]), float(noisy.scales[-1]), float(len(noisy.description.names)))
    size = max(1.0, size)
    layout = sums_layout(design, None if noisy.n is None else max(1.0, float(noisy.n)), size)
    noise = Noise(noisy.values / size, noisy.scales / size, not noisy.law.gaussian)
    centre, (middle, root) = prior.centre(design), _rough(layout, noise, prior, design)
    return Model(layout, noise, prior, centre, prior.scale(design), middle, root)


def starting_points(model: Model, design: LinearDesign, chains: int, rng: np.random.Generator) -> Reals:
    """A starting point for each chain, shape (chains, coordinates)."""
    layout, noise = model.layout, model.noise
    scale = np.minimum(noise.scale[layout.features], 0.3)
    sums = noise.observed[..., layout.features] + scale * rng.laplace(size=(chains, layout.entries))
    share = np.full((chains, 1), 1.0 if layout.n is None else layout.n / layout.size)
    if layout.n is None:
        near = noise.observed[..., -1:] + min(noise.scale[-1], 0.3) * rng.laplace(size=(chains, 1))
        share = np.clip(near, 0.3, 3.0)
    sums = possible_sums(sums / share, layout, design) * share
    sums = np.hstack([sums, share]) if layout.n is None else sums
    gram = layout.matrix(sums)
    square = _square(layout, noise)
    u = rng.standard_normal((chains, layout.d))
    fitted = model.uncentred(sums, model.middle + np.sqrt(square)[..., None] * matrix_vector(model.root, u))
    explained = (fitted * matrix_vector(gram, fitted)).sum(axis=1)
    residual = np.maximum(noise.observed[..., layout.target[-1]] - explained, LEAST_RESIDUAL * square)
    log_residual = np.log(residual) + 0.2 * rng.standard_normal(chains)
    return model.flat(Point(sums, fitted, log_residual))


def possible_sums(sums: Reals, layout: Layout, design: LinearDesign) -> Reals:
    """Sums over n, moved towards unrelated features as little as makes them possible; shape (chains, sums)."""
    centre = unrelated_averages(layout, design)
    made, open_ = np.clip(sums, -1.0, 1.0), np.ones(len(sums), bool)
    shares = np.ones((len(sums), 1)) if layout.n is None else np.full((len(sums), 1), layout.n / layout.size)
    clipped = made.copy()
    for weight in SHRINKING:
        moved = (1 - weight) * clipped + weight * centre
        # further than needed where it is needed: at the very edge the density has no scale
        inner = moved + weight / 2 * (centre - moved)
        whole = np.hstack([moved * shares, shares]) if layout.n is None else moved * shares
        fits = sums_are_possible(whole, layout) & open_
        made[fits], open_ = inner[fits], open_ & ~fits
    return made


def unrelated_averages(layout: Layout, design: LinearDesign) -> Reals:
    """The averages of products of independent features, numbers uniform in their bounds and levels alike."""
    columns = design.columns[:-1]
    averages, squares = [], []
    for column in columns:
        feature = design.features.get(column.variable)
        chance = 1 / feature.size if column.kind == "level" and not isinstance(feature, Bounded | None) else 0.0
        averages.append(1.0 if column.kind == "intercept" else chance)
        squares.append({"number": 1 / 3, "level": chance}.get(column.kind, 1.0))
    pairs = (design.pairs[k] for k in layout.features)
    return np.array([squares[i] if i == j else averages[i] * averages[j] for i, j in pairs])


def _square(layout: Layout, noise: Noise) -> Reals:
    return np.clip(noise.observed[..., layout.target[-1]], 0.02, 0.5)


def _rough(layout: Layout, noise: Noise, prior: RegressionPrior, design: LinearDesign) -> tuple[Reals, Reals]:
    """A rough estimate of the centred weights, and a root of its covariance over the residuals' share."""
    share = 1.0 if layout.n is None else layout.n / layout.size
    sums = possible_sums(noise.observed[..., layout.features][None] / share, layout, design) * share
    gram = layout.matrix(np.hstack([sums, [[share]]]) if layout.n is None else sums)[0]
    square, centre = _square(layout, noise), prior.centre(design)
    scale = prior.scale(design) ** -2.0 / square
    before = np.diag(scale)
    if design.intercept:
        before[0, 0] = 0.0
        before += scale[0] * np.outer(gram[0], gram[0]) / share**2
    known = 1 / (4 * noise.scale[layout.target[:-1]] ** 2)
    covariance = np.linalg.inv(gram @ (known[:, None] * gram) + before)
    right = noise.observed[..., layout.target[:-1]] - gram @ centre
    middle = centre + covariance @ gram @ (known * right)
    if design.intercept:
        to_centred = np.eye(layout.d)
        to_centred[0] = gram[0] / share
        middle, covariance = to_centred @ middle, to_centred @ covariance @ to_centred.T
    return middle, np.linalg.cholesky((covariance + covariance.T) / 2) / np.sqrt(square)


@dataclass(frozen=True)
class State:
    """The current state of every chain: coordinates, weights, variance, and the normal-inverse-gamma prior."""

    flat: Reals
    weights: Reals
    variance: Reals
    prior: WeightPrior


@dataclass(frozen=True)
class Tuning:
    """Step sizes by dual averaging (Hoffman and Gelman 2014), a metric by the spread of recent points within chains.

    Trajectories move in units of the metric. Sums are in it each by itself, as the kinks of Laplace noise are. The
    metric is common; each chain has a step size of its own, as one that began far off would not move by the others'.
    ``factors`` says whether factors of coordinates move (``_kernels.unfolded``), or coordinates.
    """

    factors: bool
    metric: Metric
    log_step: Reals
    averaged: Reals
    error: Reals
    recent: tuple[Reals, ...] = ()

    def adapted(self, flat: Reals, chance: Reals, i: int, burn_in: int) -> Tuning:
        """After one iteration of burn-in; the metric is taken at a quarter, half and three quarters of it."""
        recent = (*self.recent, flat)
        k, error = len(recent), self.error + ACCEPTED - chance
        log_step = np.log(FIRST_STEP) - np.sqrt(k) / (k + 10) * error / 0.05
        averaged = k**-0.75 * log_step + (1 - k**-0.75) * self.averaged
        made = Tuning(self.factors, self.metric, log_step, averaged, error, recent)
        if i + 1 == burn_in:
            return replace(made, log_step=made.averaged)
        if i + 1 not in {burn_in * part // 4 for part in (1, 2, 3)} or k < 10:
            return made
        return _untuned(self.factors, _spread(np.stack(recent), self.metric), len(flat))


def _untuned(factors: bool, metric: Metric, chains: int) -> Tuning:
    first = np.full(chains, np.log(FIRST_STEP))
    return Tuning(factors, metric, first, first, np.zeros(chains))


def _spread(points: Reals, metric: Metric) -> Metric:
    """The spread of points, shape (iterations, chains, coordinates), about the mean of their chain.

    Correlations are a little shrunk; no variance is far below that of ``metric``.
    """
    sums = len(metric.scale)
    apart = (points - points.mean(axis=0)).reshape(-1, points.shape[2])
    least = 1e-6 * np.append(metric.scale**2, (metric.root**2).sum(axis=1))
    variance = np.maximum((apart**2).mean(axis=0), least)
    others = apart[:, sums:]
    made = others.T @ others / (len(others) + PSEUDO_POINTS * apart.shape[1])
    made[np.diag_indices(len(made))] = variance[sums:]
    root: Any = np.linalg.cholesky(made)
    return Metric(np.sqrt(variance[:sums]), root)


@dataclass(frozen=True)
class Chains:
    """Chains at one moment, with settled tunings: whoever holds the value may sample from it again and again."""

    model: Model
    state: State
    tunings: tuple[Tuning, ...]


class Kept(NamedTuple):
    """The kept draws of chains.

    Attributes:
        weights: Shape (chains, draws, d).
        variance: Shape (chains, draws).
        prior: The precision that the prior gives weights at each draw's variance and hyperparameters, the mean of all
            chains, shape (1, draws, d, d).
        products: The averages of the columns' products at each draw, the mean of all chains, shape (1, draws, d, d).
    """

    weights: Reals
    variance: Reals
    prior: Reals
    products: Reals

    @property
    def length(self) -> int:
        """The number of draws of each chain."""
        return self.variance.shape[1]

    def then(self, later: Kept) -> Kept:
        """These draws and later ones of the same chains."""
        return Kept(*(np.concatenate(both, axis=1) for both in zip(self, later, strict=True)))

    def later_half(self) -> Kept:
        """Without the earlier half of each chain."""
        return Kept(*(one[:, self.length // 2 :] for one in self))


Tick = Callable[[int], None] | None


def settled_chains(model: Model, start: Reals, burn_in: int, rng: np.random.Generator, progress: Tick = None) -> Chains:
    """Chains after ``burn_in`` iterations of learning step sizes and scales; ``start`` has shape (chains, coordinates).

    ``progress`` is called with the number of each iteration.
    """
    chains = len(start)
    zero = np.zeros((chains, model.layout.d))
    state = _refreshed(model, State(start, zero, np.ones(chains), _first_prior(model, chains)), rng)
    tunings = _first_tunings(model, chains)
    for i in range(burn_in):
        state, moved = _iteration(model, state, tunings, rng)
        tunings = tuple(one.adapted(*each, i, burn_in) for one, each in zip(tunings, moved, strict=True))
        if i + 1 == DECIDED * burn_in // 8:
            # factors where noise drowns the sums, coordinates where it does not, both between
            steps = [float(np.exp(one.averaged.mean())) for one in tunings]
            tunings = tuple(one for one, step in zip(tunings, steps, strict=True) if step > SHORTER * max(steps))
        if progress is not None:
            progress(i)
    return Chains(model, state, tunings)


def _first_tunings(model: Model, chains: int) -> tuple[Tuning, ...]:
    """Trajectories of factors, if any column is a number, and of coordinates.

    Factors are of order 1 where noise drowns the sums, and move by no more than their prior.
    """
    metric = _first_metric(model)
    of_coordinates = _untuned(False, metric, chains)
    if not model.layout.squares.size:
        return (of_coordinates,)
    return _untuned(True, Metric(np.minimum(metric.scale, 0.2), metric.root), chains), of_coordinates


def sampled(
    chains: Chains, draws: int, thin: int, rng: np.random.Generator, progress: Tick = None
) -> tuple[Chains, Kept]:
    """The chains after ``draws * thin`` iterations, and their kept draws; ``progress`` gets each iteration's number."""
    model, state, many, d = chains.model, chains.state, len(chains.state.flat), chains.model.layout.d
    kept = Kept(*(np.empty(shape) for shape in ((many, draws, d), (many, draws), (1, draws, d, d), (1, draws, d, d))))
    for i in range(draws * thin):
        state, _ = _iteration(model, state, chains.tunings, rng)
        at, rest = divmod(i, thin)
        if rest == thin - 1:
            sums = model.point(state.flat).sums
            products = model.layout.matrix(sums) * (model.layout.size / model.layout.rows(sums))[:, None, None]
            precision = state.prior.matrix(products, model.layout.intercept) / state.variance[:, None, None]
            kept.weights[:, at], kept.variance[:, at] = state.weights, state.variance
            kept.prior[:, at], kept.products[:, at] = precision.mean(axis=0), products.mean(axis=0)
        if progress is not None:
            progress(i)
    return replace(chains, state=state), kept


def _iteration(
    model: Model, state: State, tunings: tuple[Tuning, ...], rng: np.random.Generator
) -> tuple[State, list[tuple[Reals, Reals]]]:
    """A trajectory of each kind, then all else given the sums; and each kind's places and chances of acceptance."""
    moved = []
    for tuning in tunings:
        flat, place, chance = _move(model, state, tuning, rng)
        state = replace(state, flat=flat)
        moved.append((place, chance))
    return _refreshed(model, state, rng), moved


def _first_metric(model: Model) -> Metric:
    """Each sum moves by its noise, by no more than a part of the rows; the residuals by theirs, relative to theirs."""
    noise, layout = model.noise.scale, model.layout
    sums = np.append(noise[layout.features], noise[-1:] if layout.n is None else [])
    relative = noise[layout.target[-1]] / model.prior.typical_variance
    others = np.append(np.ones(layout.d), 1 / np.sqrt(relative**-2.0 + 1))
    return Metric(1 / np.sqrt(sums**-2.0 + 0.2**-2.0), np.diag(others))


def _first_prior(model: Model, chains: int) -> WeightPrior:
    shape, rate = model.prior.inverse_gamma
    tiled = np.tile(np.stack([model.centre, model.scale**-2.0]), (chains, 1, 1))
    return WeightPrior(tiled[:, 0], tiled[:, 1], shape, np.full(chains, rate))


def _refreshed(model: Model, state: State, rng: np.random.Generator) -> State:
    """Weights and variance given the sums, then hyperparameters given both."""
    layout, point = model.layout, model.point(state.flat)
    residual = np.exp(point.log_residual) * layout.size
    gram = layout.matrix(point.sums) * layout.size
    rows = layout.rows(point.sums)
    after = conjugate_update(gram, point.fitted, residual, rows, state.prior, layout.intercept)
    variance = after.rate / rng.standard_gamma(after.shape)
    root: Any = np.linalg.cholesky(after.covariance)
    z = rng.standard_normal(point.fitted.shape)
    weights = after.mean + np.sqrt(variance)[:, None] * matrix_vector(root, z)
    prior = _hyperparameters(model, weights, variance, gram / rows[:, None, None], rng)
    return State(state.flat, weights, variance, prior)


def _hyperparameters(
    model: Model, weights: Reals, variance: Reals, products: Reals, rng: np.random.Generator
) -> WeightPrior:
    """The scales of the intercept and of all other weights, and of a half-Cauchy deviation."""
    base, apart, first = _first_prior(model, len(weights)), weights - model.centre, int(model.layout.intercept)
    rate, scale = base.rate, model.prior.half_cauchy
    average = products[:, :, 0]
    covariance = products
    if first:
        apart[:, 0] = (apart * average).sum(axis=1)
        covariance = products - average[:, :, None] * average[:, None, :]
    scaled = apart / model.scale / np.sqrt(variance)[:, None]
    misfit = scaled * matrix_vector(covariance, scaled)
    if first:
        misfit[:, 0] = scaled[:, 0] ** 2
    common = np.ones_like(base.precision)
    for together in (slice(0, first), slice(first, None)):
        part = misfit[:, together]
        common[:, together] = _precision(model.prior.degrees, part.shape[1], part.sum(axis=1), rng)[:, None]
    if scale is not None:
        # s2 given c is inverse gamma (1/2, c), c ~ Gamma(1/2, rate scale^-2 ...): then s is half-Cauchy
        rate = rng.standard_gamma(1.0, variance.shape) / (1 / variance + 1 / scale**2)
    return replace(base, precision=base.precision * common, rate=rate)


def _precision(degrees: float, many: Any, misfit: Reals, rng: np.random.Generator) -> Reals:
    """The precision that makes ``many`` normal numbers Student-t, given the sum of their squares; 1 if these are."""
    if not np.isfinite(degrees):
        return np.ones(misfit.shape)
    return rng.standard_gamma((degrees + many) / 2, misfit.shape) / ((degrees + misfit) / 2)


def _move(model: Model, state: State, tuning: Tuning, rng: np.random.Generator) -> tuple[Reals, Reals, Reals]:
    """A trajectory of each chain, accepted or not: coordinates, the same or factors, the chance of acceptance."""
    _, trajectories, folded = compiled()
    before = folded(model.problem, state.flat, False) if tuning.factors else state.flat
    place, speed = before.copy(), rng.standard_normal(state.flat.shape)
    step = np.exp(tuning.log_step) * rng.uniform(0.7, 1.3, len(place))
    steps = round(float(np.clip(DISTANCE * rng.uniform(0.5, 1.3) / np.exp(tuning.log_step.mean()), *STEPS)))
    fell = trajectories(
        model.problem, model.given(state.prior), tuning.metric, place, speed, step, steps, tuning.factors
    )
    chance = np.exp(np.clip(fell, -700.0, 0.0))
    accepted = (np.log(rng.random(len(place))) < fell)[:, None]
    place = np.where(accepted, place, before)
    flat = np.where(accepted, folded(model.problem, place, True), state.flat) if tuning.factors else place
    return flat, place, chance
