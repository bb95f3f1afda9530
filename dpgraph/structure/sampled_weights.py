"""Weights of a linear regression drawn from a posterior, and coefficients in the units of the rows: public values."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.printed import counted, summary
from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.design import Bounded, LinearDesign
from dpgraph.structure.frozen import FrozenMap, frozen_array


@dataclass(frozen=True, eq=False)
class SampledWeights:
    """Draws of the weights w of a linear regression, which predicts the scaled target by the design's other columns.

    Attributes:
        design: The design; its columns are between -1 and 1.
        weights: Shape (draws, columns - 1), in the order of the columns; every row has
            ||w|| <= radius / sqrt(largest_squared_norm(design)), so no prediction leaves [-radius, radius].
        radius: The declared bound on predictions, where the target is between -1 and 1.
        precision: The prior precision of sqrt(largest_squared_norm(design)) w.

    Raises:
        ReleaseError: If the parts do not fit.
    """

    design: LinearDesign
    weights: Reals
    radius: float
    precision: float

    def __post_init__(self) -> None:
        for name in ("radius", "precision"):
            check_positive(name, getattr(self, name))
        weights = frozen_array(self.weights, np.float64)
        object.__setattr__(self, "weights", weights)
        if weights.ndim != 2 or not len(weights) or weights.shape[1] != len(self.design.columns) - 1:
            raise ReleaseError(f"weights must have shape (draws, {len(self.design.columns) - 1}); got {weights.shape}")
        largest = self.radius / math.sqrt(largest_squared_norm(self.design))
        if not (np.linalg.norm(weights, axis=1) <= largest * (1 + 1e-9)).all():
            raise ReleaseError(f"weights must be finite and of a norm up to {largest:g}")

    def coefficients(self) -> FrozenMap[str, Reals]:
        """Every draw in the units of the rows; see ``original_coefficients``."""
        return original_coefficients(self.design, self.weights)

    def __repr__(self) -> str:
        draws, weights = self.weights.shape
        return summary(
            "SampledWeights", counted(draws, "draw"), counted(weights, "weight"), f"radius {self.radius:.3g}"
        )


def largest_squared_norm(design: LinearDesign) -> int:
    """The largest squared norm of a row's columns without the target: exact, and attained.

    The intercept, a number and a two-level variable can each add 1; of the indicators of one variable at most one is 1.

    >>> largest_squared_norm(LinearDesign({"age": (18, 90), "city": ["a", "b", "c"]}, "income", (0, 9)))
    3
    """
    columns = design.columns[:-1]
    groups = {column.variable for column in columns if column.kind == "level"}
    return sum(column.kind != "level" for column in columns) + len(groups)


def original_coefficients(design: LinearDesign, weights: Reals) -> FrozenMap[str, Reals]:
    """Weights of scaled columns as coefficients of the variables as they are in the rows.

    The target is the intercept, plus each number (clipped to its bounds) times its coefficient, plus the coefficient of
    each level that the row has. The first level of a variable is the one the others are compared with.

    Args:
        design: The design.
        weights: Shape (..., columns - 1).

    Returns:
        For ``"intercept"`` (always, as the target's and the numbers' middles add to it) and each other column's name,
        an array of shape (...).

    >>> design = LinearDesign({"age": (0, 100)}, "income", (0, 1000))
    >>> {k: v.tolist() for k, v in original_coefficients(design, np.array([[0.0, 0.5]])).items()}
    {'intercept': [250.0], 'age': [5.0]}
    """
    target = design.bounds
    weights = np.asarray(weights, np.float64)
    made: dict[str, Any] = {"intercept": np.full(weights.shape[:-1], target.middle)}
    for column, weight in zip(design.columns[:-1], np.moveaxis(weights, -1, 0), strict=True):
        slope = weight * target.half
        match column.kind:
            case "intercept":
                made["intercept"] = made["intercept"] + slope
            case "number":
                feature = design.features[column.variable]
                assert isinstance(feature, Bounded)
                made[column.name] = slope / feature.half
                made["intercept"] = made["intercept"] - made[column.name] * feature.middle
            case "sign":
                made[column.name] = 2 * slope
                made["intercept"] = made["intercept"] - slope
            case _:
                made[column.name] = slope
    return FrozenMap((name, frozen_array(values, np.float64)) for name, values in made.items())


def check_positive(name: str, value: Any) -> None:
    """Refuses a setting that is not a number above 0 of a reasonable size.

    Raises:
        ReleaseError: Naming it.
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 1e-6 <= value <= 1e6:
        raise ReleaseError(f"{name} must be a number from 1e-6 to 1e6; got {value!r}")
