"""The method ``"plug-in"`` of a regression: the conjugate posterior with the nearest possible sums taken as exact."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.inference.regression.density import WeightPrior, conjugate_update, matrix_vector, sums_layout
from dpgraph.inference.regression.prior import RegressionPrior
from dpgraph.inference.regression.start import SHRINKING, unrelated_averages
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.tables import Reals

#: Rounds of alternating projections.
ROUNDS = 200
#: Eigenvalues are kept above this share of n.
LEAST_EIGENVALUE = 1e-6


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
    precision, structure = prior.scale(design)[None] ** -2.0, prior.structure(design)
    before = WeightPrior(prior.centre(design)[None], precision, shape, np.array([rate]), structure, prior.g_prior)
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
    for weight in SHRINKING:
        mixed = (1 - weight) * made + weight * _unrelated_matrix(n, design)
        if np.linalg.eigvalsh(mixed)[0] >= LEAST_EIGENVALUE * n:
            return mixed
    return _unrelated_matrix(n, design)


def _unrelated_matrix(n: float, design: LinearDesign) -> Reals:
    """The moment matrix of uniform, unrelated columns."""
    layout, target = sums_layout(design, n, n), len(design.columns) - 1
    sums = np.array([1 / 3 if i == j == target else 0.0 for i, j in design.pairs])
    sums[layout.features] = unrelated_averages(layout, design)
    return design.matrix(sums * n, n)
