"""The unknowns of a regression given noisy sums of products, weights and noise variance integrated out.

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

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.structure.design import LinearDesign
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
