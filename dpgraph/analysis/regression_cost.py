"""Expected standard errors of a private linear regression, with and without noise, before any data.

First order in the noise: from X'X + E and X'y + e least squares errs by (X'X)^-1 (e - E theta), beside its sampling
error. Rows, features and coefficients are hypothetical.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.additive.plans import weighted_design
from dpgraph.privacy.checks import Reals, check_whole
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.records import Number, PrivacyUnit, exact
from dpgraph.structure.design import Bounded, LinearDesign


def regression_cost(
    design: LinearDesign,
    budgets: Sequence[Number],
    sizes: Sequence[int],
    delta: Number,
    unit: PrivacyUnit,
    noise: float,
    spread: float | None,
    second_moments: npt.ArrayLike | None,
) -> DataFrame:
    """The expected standard error of each coefficient: ``privacy_cost`` of a design explains the rows."""
    _number_between(noise, "noise", 0, 1)
    for size in sizes:
        check_whole("n", int(size) if isinstance(size, np.integer) else size)
    half = design.bounds.half
    deviation = 1 / math.sqrt(3) if spread is None else _number_between(spread, "spread", 0, math.inf) / half
    features = len(design.columns) - 1
    moments = _uniform_moments(design) if second_moments is None else _positive_definite(second_moments, features)
    inverse = np.linalg.inv(moments)
    slopes = _slope_products(design, moments, (1 - noise) * deviation**2)
    declared = [design.features.get(column.variable) for column in design.columns[:-1]]
    units = np.array([half / (one.half if isinstance(one, Bounded) else 1.0) for one in declared])
    rows: list[tuple[Any, ...]] = []
    gaussian = exact(delta, "delta", zero=True) > 0
    for budget, size in itertools.product(budgets, sizes):
        shown = int(size) if unit.n_is_public else None
        planned = weighted_design(design, budget, unit, shown, gaussian=gaussian)
        mechanism = GaussianMechanism(budget, delta) if gaussian else LaplaceMechanism(budget)
        (plan,) = mechanism.event(planned, unit).measurements
        variance = plan.law.variance(plan.cells) / planned.weight**2  # of one product of weight 1
        shaped = _noise_covariance(planned, slopes, unit)
        noisy = np.einsum("ij,jk,ik->i", inverse, shaped, inverse) * variance
        share = 2 * math.sqrt(variance * len(moments)) * np.linalg.eigvalsh(inverse)[-1] / size
        plain = noise * deviation**2 * np.diag(inverse) / size
        both = np.sqrt(plain + noisy / size**2) * units
        for column, alone, together in zip(design.columns, np.sqrt(plain) * units, both, strict=False):
            ratio = together / alone if alone > 0 else math.inf
            rows.append((float(exact(budget)), int(size), column.name, alone, together, ratio, share))
    return data_frame(rows, columns=["epsilon", "n", "coefficient", "without", "with", "ratio", "noise share"])


def _number_between(value: float, name: str, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not low < value <= high:
        raise ReleaseError(f"{name} must be a number above {low:g}, at most {high:g}; got {value!r}")
    if not math.isfinite(value):
        raise ReleaseError(f"{name} must be finite; got {value!r}")
    return float(value)


def _positive_definite(second_moments: npt.ArrayLike, size: int) -> Reals:
    made = np.asarray(second_moments, dtype=float)
    if made.shape != (size, size) or not np.isfinite(made).all() or not np.allclose(made, made.T):
        raise ReleaseError(f"second_moments must be a symmetric matrix of shape ({size}, {size}); got {made.shape}")
    if np.linalg.eigvalsh(made)[0] <= 1e-12:
        raise ReleaseError("second_moments must be positive definite: no column may be a combination of others")
    return made


def _uniform_moments(design: LinearDesign) -> Reals:
    """Expected products of columns for independent features, uniform within their bounds or over their levels."""
    columns = design.columns[:-1]
    level = {name: 1 / feature.size for name, feature in design.features.items() if not isinstance(feature, Bounded)}
    mean = np.array([{"intercept": 1.0, "level": level.get(c.variable, 0.0)}.get(c.kind, 0.0) for c in columns])
    made = np.outer(mean, mean)
    for i, one in enumerate(columns):
        for j, two in enumerate(columns):
            if one.kind == two.kind == "level" and one.variable == two.variable:
                made[i, j] = mean[i] * (i == j)
        if one.kind in ("number", "sign"):
            made[i, i] = 1 / 3 if one.kind == "number" else 1.0
    return made


def _slope_products(design: LinearDesign, moments: Reals, explained: float) -> Reals:
    """The expected products of two coefficients: slopes of one size and no common sign that explain so much."""
    size = len(moments)
    if not design.intercept:
        return np.eye(size) * explained / np.trace(moments)
    mean = moments[0, 1:]
    covariance = moments[1:, 1:] - np.outer(mean, mean)
    around = np.vstack([-mean, np.eye(size - 1)])  # the intercept keeps the target's mean at 0
    return around @ around.T * explained / np.trace(covariance)


def _noise_covariance(design: LinearDesign, slopes: Reals, unit: PrivacyUnit) -> Reals:
    """The covariance of e - E theta where noise of variance 1 is added to every released number of weight 1."""
    size, kinds = len(slopes), [column.kind for column in design.columns]
    released: list[tuple[list[tuple[int, int]], int]] = []  # entries of X'X, or of X'y as column ``size``; their weight
    for (i, j), weight in zip(design.pairs, design.weights, strict=True):
        entries = [(i, j)] if i == j or j == size else [(i, j), (j, i)]
        if kinds[i] == "intercept" and kinds[j] == "level":
            entries.append((j, j))
        released += [(entries, weight)] if i < size else []
    if not unit.n_is_public:
        released.append(([(i, i) for i, kind in enumerate(kinds) if kind in ("intercept", "sign")], 1))
    made = np.zeros((size, size))
    for entries, weight in released:
        for i, j in entries:
            if j == size:
                made[i, i] += 1 / weight**2
            else:
                for k, m in entries:
                    made[i, k] += slopes[j, m] / weight**2
    return made
