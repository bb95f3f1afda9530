"""Draws of a regression's weights and noise variance, and their reading in the units of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import tails
from dpgraph.inference.draws import Draws
from dpgraph.privacy.display import DataFrame
from dpgraph.privacy.errors import DomainError, InferenceError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.conversion import PublicWords, array_of, columns_to_predict, weighted
from dpgraph.structure.design import Bounded, LinearDesign
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.tables import Reals


@dataclass(frozen=True, repr=False)
class RegressionDraws(Draws):
    """Draws from the posterior of a linear regression.

    Attributes:
        design: The columns and the target, with their public bounds.
        weights: Of the scaled columns, for the scaled target, shape (draws, columns - 1).
        variance: The noise variance, scaled, shape (draws,).
        method: ``"hamiltonian"`` or ``"plug-in"``.
        mixing: Of chains their number, the worst R-hat and the least effective size; empty for independent draws.
        prior_covariance: The prior covariance of the weights at the learned variance and scales, the inverse of their
            mean precision, shape (columns - 1, columns - 1); None if it is not known.
        averages: The learned averages of the scaled columns, the target's last and from its own released sum alone,
            shape (columns,); None if they are not known, or there is no intercept.
        provenance: The release behind it.

    Raises:
        InferenceError: If shapes do not fit the design, or a draw is not finite.
    """

    design: LinearDesign
    weights: Reals
    variance: Reals
    method: str
    mixing: FrozenMap[str, float] = field(default_factory=lambda: FrozenMap(()))
    prior_covariance: Reals | None = None
    averages: Reals | None = None
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", frozen_array(self.weights, np.float64))
        object.__setattr__(self, "variance", frozen_array(self.variance, np.float64))
        object.__setattr__(self, "mixing", FrozenMap(self.mixing.items()))
        draws, d = len(self.variance), len(self.design.columns) - 1
        if self.weights.shape != (draws, d) or self.variance.shape != (draws,) or draws < 1:
            raise InferenceError(f"weights must have shape (draws, {d}) and variances (draws,)")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.variance).all() and (self.variance > 0).all()):
            raise InferenceError("draws must be finite numbers, and variances above 0")
        if self.prior_covariance is not None:
            object.__setattr__(self, "prior_covariance", frozen_array(self.prior_covariance, np.float64))
            if self.prior_covariance.shape != (d, d) or not np.isfinite(self.prior_covariance).all():
                raise InferenceError(f"the prior's covariance must be finite, of shape ({d}, {d})")
            if not (self.prior_covariance.diagonal() > 0).all():
                raise InferenceError("variances of the prior's covariance must be above 0")
        if self.averages is not None:
            object.__setattr__(self, "averages", frozen_array(self.averages, np.float64))
            if self.averages.shape != (d + 1,) or not (np.abs(self.averages) < 1 + 1e-9).all():
                raise InferenceError(f"averages must be numbers from -1 to 1, of shape ({d + 1},)")

    @property
    def reason(self) -> str:  # type: ignore[override]
        """The reason for the method."""
        return "as asked" if self.method == "plug-in" else "the noise-aware method of a regression"

    @cached_property
    def in_units(self) -> Reals:
        """Draws of the intercept and of each coefficient in the units of the rows, shape (draws, 1 + columns).

        A two-level feature's coefficient is of its second level against the first, as of every other level.
        """
        made = self.weights @ self._to_units.T
        made[:, 0] += self.design.bounds.middle
        return made

    @cached_property
    def _to_units(self) -> Reals:
        """The change of intercept and coefficients by a unit of each weight, shape (1 + columns, columns - 1)."""
        half, columns = self.design.bounds.half, self.design.columns[:-1]
        made = np.zeros((1 + len(columns) - self.design.intercept, len(columns)))
        at = 1
        for i, column in enumerate(columns):
            feature = self.design.features.get(column.variable)
            match column.kind:
                case "intercept":
                    made[0, i] = half
                    continue
                case "sign":
                    made[0, i], made[at, i] = -half, 2 * half
                case "level":
                    made[at, i] = half
                case _:
                    assert isinstance(feature, Bounded)
                    made[0, i], made[at, i] = -half * feature.middle / feature.half, half / feature.half
            at += 1
        return made

    @cached_property
    def prior_share(self) -> Reals:
        """How much of the posterior of the intercept and of each coefficient is prior, 0 to 1, shape (1 + columns,).

        The posterior variance over the variance that the prior alone gives, at the deviation s and the scales of the
        weights that were learned: near 0 the release decides, at 1 it says nothing of this coefficient. nan where the
        prior is not known.
        """
        if self.prior_covariance is None:
            return np.full(len(self._to_units), np.nan)
        before = ((self._to_units @ self.prior_covariance) * self._to_units).sum(axis=1)
        return np.minimum(self.in_units.var(axis=0) / before, 1.0)

    @property
    def names(self) -> tuple[str, ...]:
        """The intercept and the coefficients, as columns are named."""
        return ("intercept", *(column.name for column in self.design.columns[:-1] if column.kind != "intercept"))

    @property
    def arrays(self) -> Mapping[str, Reals]:
        """The intercept and each coefficient, in the units of the rows."""
        return dict(zip(self.names, self.in_units.T.reshape(len(self.names), 1, -1), strict=True))

    def labels(self, name: str) -> list[dict[str, Any]]:
        """The coefficient's name."""
        return [{"coefficient": name}]

    def coefficients(self, probability: float = 0.9) -> DataFrame:
        """A row for the intercept and each coefficient, in the units of the rows: mean, std, a credible interval.

        And ``prior``, how much of the posterior is prior (``prior_share``).

        Raises:
            InferenceError: If the probability is not between 0 and 1.
        """
        frame = self.to_frame(probability).set_index("coefficient").rename_axis(None)
        frame.columns = ["mean", "std", "lower", "upper"]
        return frame.assign(prior=self.prior_share)

    def noise_deviation(self, probability: float = 0.9) -> tuple[float, float, float]:
        """The deviation of the target about its prediction, in its units: mean, and the ends of a credible interval."""
        deviation = np.sqrt(self.variance) * self.design.bounds.half
        low, high = np.quantile(deviation, tails(probability))
        return float(deviation.mean()), float(low), float(high)

    def predict(self, X: Any) -> Reals:
        """The mean prediction for each row, in the target's units; ``LinearRegressionModel`` has intervals as well.

        Args:
            X: A table, of which the features are read, the path of a CSV or Parquet file, or an array with the features
                in order as its columns; or a mapping, for each feature an array: numbers, or of a feature with levels
                the codes of these.
        """
        scaled = weighted(scaled_columns(self.design, X), self.weights.mean(axis=0))
        return self.design.bounds.middle + self.design.bounds.half * scaled


def scaled_columns(design: LinearDesign, values: Any) -> Reals:
    """The scaled columns of rows to predict, shape (rows, columns - 1).

    Args:
        design: The columns.
        values: Rows as ``columns_to_predict`` takes them; or a mapping, for each feature an array of numbers, or of the
            codes of its levels.

    Raises:
        DomainError: If a feature is missing, or a number is NaN and the design declares no value for it.
    """
    values = columns_to_predict(values, design)
    absent = [name for name in design.features if name not in values]
    if absent:
        raise DomainError(f"no values of the features {', '.join(map(repr, absent))}")
    arrays = {name: _values(design, name, values[name]) for name in design.features}
    rows = len(next(iter(arrays.values())))
    if any(len(array) != rows for array in arrays.values()):
        raise DomainError("the features must be columns of one length")
    made = np.ones((rows, len(design.columns) - 1))
    for i, column in enumerate(design.columns[:-1]):
        if column.kind == "intercept":
            continue
        feature, array = design.features[column.variable], arrays[column.variable]
        if isinstance(feature, Bounded):
            made[:, i] = feature.scaled(_present(column.variable, feature, array))
        elif column.kind == "sign":
            made[:, i] = 2.0 * array - 1.0
        else:
            made[:, i] = array == column.level
    return made


def _values(design: LinearDesign, name: str, values: npt.ArrayLike) -> npt.NDArray[Any]:
    coded = not isinstance(design.features[name], Bounded)
    problem = f"feature {name!r} must be one column of " + ("the codes of its levels" if coded else "numbers")
    array = array_of(values, problem)
    if not coded:
        with PublicWords(problem):
            array = array.astype(np.float64)
    if array.ndim != 1 or array.dtype.kind not in ("biuf" if coded else "iuf"):
        raise DomainError(problem)
    return array


def _present(name: str, feature: Bounded, array: Reals) -> Reals:
    """Numbers with the declared value in the place of NaN."""
    gone = np.isnan(array)
    if gone.any() and feature.missing is None:
        raise DomainError(
            f"feature {name!r} holds nulls or NaN; fill them, or declare a value for them before the fit, "
            "Bounded(low, high, missing=...)"
        )
    return np.where(gone, feature.missing or 0.0, array)
