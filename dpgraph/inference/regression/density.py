"""The posterior density of a regression's sums of products given noisy ones, weights and noise variance integrated out.

Given the features, and so given A = X'X, the target's sums are exactly r = X'y ~ N(A w, s2 A) and, independent of r,
R = y'y - r'A^-1 r ~ s2 chi-square(n - d): whatever law the features have, nothing but A of it matters. So A is an
unknown like the others, with a prior of its own, and no fourth moment is needed (proofs.md P63; Bernstein and Sheldon
2019 integrate the features out under a normal approximation, and need them for that). With the least-squares weights
f = A^-1 r and a normal-inverse-gamma prior, w ~ N(m, s2 / L) and 1/s2 ~ Gamma(a0, b0),

    p(r, y'y | A) ~ |A|^(-1/2) R^((n - d)/2 - 1) |A + L|^(-1/2) b^(-a),     a = a0 + n/2,
    b = b0 + (R + (f - m)' (A^-1 + L^-1)^-1 (f - m)) / 2,

and A, f and log R are coordinates in which this and the noise are smooth.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import digamma, gammaln

from dpgraph.structure.design import LinearDesign
from dpgraph.structure.tables import Reals

#: Degrees of freedom left for the residuals where there are hardly more rows than columns.
LEAST_DEGREES = 2.0


@dataclass(frozen=True)
class Layout:
    """The positions of a design's sums, all in units of ``size``, a rough number of rows.

    Attributes:
        basis: What each sum of features adds to the flattened X'X, shape (sums of features, d^2), and where n is
            private a last row, what n adds.
        fixed: The known part of X'X, shape (d^2,).
        squares: Which sums of features are squares of numbers, and so at most n.
        features: Which released sums these are.
        target: Which released sums are X'y, in the order of the columns, and last y'y.
        size: The unit.
        n: The number of rows, None where it is unknown.
        intercept: Whether the first column is one.
    """

    basis: Reals
    fixed: Reals
    squares: npt.NDArray[np.intp]
    features: npt.NDArray[np.intp]
    target: npt.NDArray[np.intp]
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

    @cached_property
    def source(self) -> npt.NDArray[np.int64]:
        """Which sum each entry of the flattened X'X is, shape (d^2,); any where it is known."""
        found: npt.NDArray[np.int64] = np.abs(self.basis).argmax(axis=0)
        return found

    @cached_property
    def factor(self) -> Reals:
        """What a unit of that sum adds to it, shape (d^2,); 0 where it is known."""
        return self.basis[self.source, np.arange(self.d**2)]

    @cached_property
    def is_number(self) -> npt.NDArray[np.bool_]:
        """Which columns are numbers: their squares are sums of their own, shape (d,)."""
        own = self.source.reshape(self.d, self.d).diagonal()
        found: npt.NDArray[np.bool_] = np.isin(own, self.squares) & (
            self.factor.reshape(self.d, self.d).diagonal() != 0
        )
        return found

    def matrix(self, sums: Reals) -> Reals:
        """X'X over ``size``, shape (chains, d, d); where n is private it is the last of the sums."""
        return (self.fixed + sums[:, self.source] * self.factor).reshape(-1, self.d, self.d)

    def rows(self, sums: Reals) -> Reals:
        """The number of rows, shape (chains,)."""
        return np.full(len(sums), self.n) if self.n is not None else sums[:, -1] * self.size

    def averages(self, sums: Reals) -> Reals:
        """The averages of the columns, shape (chains, d), where the first is the intercept; its own is 1."""
        first = self.fixed[: self.d] + sums[:, self.source[: self.d]] * self.factor[: self.d]
        return first / (self.rows(sums) / self.size)[:, None]

    def slope_by_sums(self, sums: Reals, slope: Reals) -> Reals:
        """Chain rule from averages to sums: ``slope`` is the derivative by all averages but the first, which is 1."""
        slope = np.hstack([np.zeros((len(slope), 1)), slope[:, 1:]])
        share = (self.rows(sums) / self.size)[:, None]
        made = slope / share @ self.basis[:, : self.d].T
        if self.n is None:
            made[:, -1:] -= (slope * self.averages(sums)).sum(axis=1, keepdims=True) / share
        return made


def sums_layout(design: LinearDesign, n: float | None, size: float) -> Layout:
    """The layout of a design's sums; n is None where it is private."""
    count, last = len(design.pairs), len(design.columns) - 1
    features = np.array([k for k, pair in enumerate(design.pairs) if last not in pair], np.intp)
    by_column = {i: k for k, (i, j) in enumerate(design.pairs) if j == last}
    unit = np.eye(count)
    basis = np.stack([design.matrix(unit[k], 0.0)[:last, :last].ravel() for k in features])
    known = design.matrix(np.zeros(count), 1.0)[:last, :last].ravel()
    kinds = [design.columns[i].kind if i == j else "" for i, j in (design.pairs[k] for k in features)]
    squares = np.array([k for k, kind in enumerate(kinds) if kind == "number"], np.intp)
    if n is None:
        basis, known = np.vstack([basis, known]), np.zeros_like(known)
    else:
        known = known * (n / size)
    target = np.array([by_column[i] for i in range(last + 1)], np.intp)
    return Layout(basis, known, squares, features, target, size, n, design.intercept)


@dataclass(frozen=True)
class WeightPrior:
    """Normal-inverse-gamma priors, one a chain: w ~ N(mean, s2 / precision), 1/s2 ~ Gamma(shape, rate).

    Precisions are a matrix: the entries of ``structure``, the identity if None, times the roots of those of its row and
    column; of a g-prior the columns' covariance is in the place of ``structure`` (proofs.md P99). The first precision
    of a design with an intercept is that of the average prediction, not of the weight alone: what is predicted where
    other columns are 0 may be far from any row. Shapes: mean and precision (chains, d), rate (chains,).
    """

    mean: Reals
    precision: Reals
    shape: float
    rate: Reals
    structure: Reals | None = None
    g_prior: bool = False

    def matrix(self, mean_products: Reals, intercept: bool) -> Reals:
        """The precision matrices, given the averages of the columns' products, shape (chains, d, d)."""
        made = self.of_weights(intercept)
        average = mean_products[:, :, 0]
        if self.g_prior:
            made = made * (mean_products - (average[:, :, None] * average[:, None, :] if intercept else 0.0))
        return made + outer(self.precision[:, 0], average) if intercept else made

    def of_weights(self, intercept: bool) -> Reals:
        """The precision matrices without that of the average prediction, shape (chains, d, d).

        Of a g-prior what the columns' covariance is multiplied by, entry by entry.
        """
        root = np.sqrt(self.precision)
        structure = np.eye(root.shape[1]) if self.structure is None else self.structure
        made = root[:, :, None] * (1.0 if self.g_prior else structure) * root[:, None, :]
        if intercept:
            made[:, 0, 0] = 0.0
        return made


@dataclass(frozen=True)
class ConjugatePosterior:
    """The conjugate posterior of each chain.

    Attributes:
        mean: Shape (chains, d).
        covariance: The inverse of the precision.
        log_precision: The log determinant of the precision.
        shape: Of 1/s2.
        rate: Of 1/s2.
        pulled: How far the least-squares weights are from the mean, shape (chains, d).
        prior: The prior's precision matrix.
    """

    mean: Reals
    covariance: Reals
    log_precision: Reals
    shape: Reals
    rate: Reals
    pulled: Reals
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
    quadratic = (pulled * matrix_vector(gram, apart)).sum(axis=1)
    log_precision = -np.linalg.slogdet(covariance)[1]
    rate = prior.rate + (residual + quadratic) / 2
    return ConjugatePosterior(fitted - pulled, covariance, log_precision, prior.shape + n / 2, rate, pulled, before)


@dataclass(frozen=True)
class Noise:
    """Noisy sums and the scale of their noise, Laplace or normal, in units of ``size``; where n is private n last."""

    observed: Reals
    scale: Reals
    laplace: bool

    def log(self, sums: Reals) -> tuple[Reals, Reals]:
        """The log likelihood of sums, shape (chains,), and its gradient."""
        z = (self.observed - sums) / self.scale
        if self.laplace:
            return -np.abs(z).sum(axis=1), np.sign(z) / self.scale
        return -(z**2).sum(axis=1) / 2, z / self.scale


@dataclass(frozen=True)
class Point:
    """Coordinates of every chain: sums of features (and n), least-squares weights, log of the residual sum of squares.

    In units of ``size``; shapes (chains, sums of features), (chains, d) and (chains,).
    """

    sums: Reals
    fitted: Reals
    log_residual: Reals


def log_density(
    point: Point, layout: Layout, prior: WeightPrior, features: tuple[float, float, float], noise: Noise
) -> tuple[Reals, Point]:
    """The log posterior density of points by their coordinates, shape (chains,), and its gradient.

    The prior of S = A / n is proportional to |S|^a times the product of S_jj^low (1 - S_jj)^high over numbers, on
    positive definite matrices of bounded columns, with ``features`` = (a, low, high). Where ``possible`` says no the
    density has no meaning.
    """
    a, low, high = features
    sums, fitted, size = point.sums, point.fitted, layout.size
    gram, n = layout.matrix(sums), layout.rows(sums)
    degrees, share = np.maximum(n - layout.d, LEAST_DEGREES), n / size
    residual = np.exp(point.log_residual)
    right = matrix_vector(gram, fitted)
    average = gram[:, :, 0] / share[:, None] if layout.intercept else None
    after = conjugate_update(gram * size, fitted, residual * size, n, prior, layout.intercept)
    ratio = after.shape * size / (2 * after.rate)

    squares = sums[:, layout.squares] / share[:, None]
    by_squares = low / squares - high / (1 - squares)
    # the Jacobian of (r, y'y) by (f, log R) is |A| R
    value = (a + 0.5) * np.linalg.slogdet(gram)[1] + degrees / 2 * point.log_residual
    value += (low * np.log(squares) + high * np.log1p(-squares)).sum(axis=1)
    value -= after.log_precision / 2 + after.shape * np.log(after.rate)
    by_gram = (a + 0.5) * np.linalg.inv(gram) - size / 2 * after.covariance - outer(ratio, after.pulled)
    by_fitted = -2 * ratio[:, None] * matrix_vector(after.prior, after.mean - prior.mean) / size
    by_log_residual = degrees / 2 - ratio * residual

    likelihood, pull = noise.log(_all_sums(layout, sums, right, residual + (right * fitted).sum(axis=1)))
    on_target, on_square = pull[:, layout.target[:-1]], pull[:, layout.target[-1]]
    by_fitted += matrix_vector(gram, on_target + 2 * on_square[:, None] * fitted)
    by_log_residual += on_square * residual
    by_gram += on_target[:, :, None] * fitted[:, None, :] + outer(on_square, fitted)
    by_prior = -after.covariance / 2 - outer(ratio / size, after.mean - prior.mean)
    by_average = _slope_by_averages(average, by_prior, prior)
    by_gram[:, :, 0] += by_average / share[:, None]
    by_share = np.zeros_like(share)
    if prior.g_prior:
        # what the prior's precision is made of, and the root of its determinant
        value += (np.linalg.slogdet(gram)[1] - layout.d * np.log(share)) / 2
        apart = prior.of_weights(layout.intercept) * by_prior / share[:, None, None]
        by_gram += apart + np.linalg.inv(gram) / 2
        by_share = -((apart * gram).sum(axis=(1, 2)) + layout.d / 2) / share
    by_sums = by_gram.reshape(len(n), -1) @ layout.basis.T
    by_sums[:, : layout.entries] += pull[:, layout.features]
    by_sums[:, layout.squares] += by_squares / share[:, None]
    if layout.n is None:
        more, slope = _rows_term(n, point.log_residual, after, layout, a)
        value, slope = value + more, slope + by_share
        if average is not None:
            slope = slope - (by_average * average).sum(axis=1) / share
        by_sums[:, -1] += slope - (by_squares * squares).sum(axis=1) / share + pull[:, -1]
    return value + likelihood, Point(by_sums, by_fitted, by_log_residual)


def _all_sums(layout: Layout, sums: Reals, right: Reals, square: Reals) -> Reals:
    """All sums in the order they were released."""
    made = np.empty((len(sums), layout.entries + layout.d + 1 + (layout.n is None)))
    made[:, layout.features] = sums[:, : layout.entries]
    made[:, layout.target[:-1]], made[:, layout.target[-1]] = right, square
    if layout.n is None:
        made[:, -1] = sums[:, -1]
    return made


def _slope_by_averages(average: Reals | None, by_prior: Reals, prior: WeightPrior) -> Reals:
    """The derivative by the columns' averages, through the prior's precision, by which it is ``by_prior``."""
    if average is None:
        return np.zeros(by_prior.shape[:2])
    each = prior.precision[:, 0, None, None] * by_prior
    if prior.g_prior:
        each = each - prior.of_weights(True) * by_prior
    return 2 * matrix_vector(each, average)


def _rows_term(
    n: Reals, log_residual: Reals, after: ConjugatePosterior, layout: Layout, a: float
) -> tuple[Reals, Reals]:
    """What depends on a private n beside the sums, and its derivative by n / size."""
    size, share, power = layout.size, n / layout.size, a * layout.d + layout.entries
    degrees = np.maximum(n - layout.d, LEAST_DEGREES)
    value = -power * np.log(share) + gammaln(after.shape) - gammaln(degrees / 2) + degrees / 2 * np.log(size / 2)
    slope = digamma(after.shape) / 2 - np.log(after.rate) / 2
    slope += np.where(n - layout.d > LEAST_DEGREES, (log_residual + np.log(size / 2) - digamma(degrees / 2)) / 2, 0.0)
    return value, -power / share + size * slope


def sums_are_possible(sums: Reals, layout: Layout) -> npt.NDArray[np.bool_]:
    """Which sums of features bounded columns can have: X'X positive definite, squares at most n."""
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


def outer(weight: Reals, vector: Reals) -> Reals:
    """Weighted outer products of vectors with themselves, for each chain."""
    return weight[:, None, None] * vector[:, :, None] * vector[:, None, :]
