"""Public bounds and levels of a regression's features and target, declared or, by name, read off the rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.errors import PrivacyLeakWarning
from dpgraph.structure.design import LinearDesign, bounds_of, feature_of
from dpgraph.structure.domain import DomainError, NetworkError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class DeclaredBounds:
    """``bounds_X`` and ``bounds_y`` as an estimator was given them."""

    bounds_X: Any
    bounds_y: Any

    def __post_init__(self) -> None:
        if isinstance(self.bounds_X, LinearDesign):
            if self.bounds_y is not None:
                raise DomainError("bounds_X is a LinearDesign, which declares the target's bounds; leave bounds_y out")
            return
        for name in ("bounds_X", "bounds_y"):
            if getattr(self, name) is None:
                raise DomainError(
                    f"PrivateLinearRegression needs {name}=..., public bounds or levels; they are never read off the "
                    f'rows, unless {name}="infer" says so by name, which leaks'
                )

    @property
    def infer(self) -> bool:
        """Whether something is read off the rows, which are public then."""
        return any(isinstance(bounds, str) and bounds == "infer" for bounds in (self.bounds_X, self.bounds_y))

    def names(self, features: int) -> list[str]:
        """Names for the columns of an array."""
        self.check_count(features, arrays=True)
        by_name = self._by_name()
        return [f"x{i}" for i in range(features)] if by_name is None else list(by_name)

    def _by_name(self) -> Mapping[str, Any] | None:
        declared = self.bounds_X.features if isinstance(self.bounds_X, LinearDesign) else self.bounds_X
        return declared if isinstance(declared, Mapping) else None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The columns of a table that are read; None for all of them."""
        by_name = self._by_name()
        return None if by_name is None else tuple(by_name)

    def check_count(self, features: int, *, arrays: bool = False) -> None:
        """Refuses another number of columns than a list declares, or of an array's than a mapping does."""
        by_name = self._by_name()
        if isinstance(self.bounds_X, str) or (by_name is not None and not arrays):
            return
        try:
            declared = len(self.bounds_X if by_name is None else by_name)
        except TypeError:
            raise DomainError(f"bounds_X must be a mapping or a list of bounds; got {self.bounds_X!r}") from None
        if declared != features:
            raise DomainError(f"X has {features} columns, and bounds_X declares {declared}")

    def design(
        self, frame: pd.DataFrame, target: tuple[str, npt.NDArray[Any]], intercept: bool, strict: bool = False
    ) -> LinearDesign:
        """The design of what is declared."""
        features, bounds = self._features(frame), self.bounds_y
        if isinstance(self.bounds_X, LinearDesign):
            return self.bounds_X
        if isinstance(bounds, str):
            bounds = self._read_off({target[0]: target[1]}, "bounds_y")[target[0]]
        return _design(features, target[0], bounds, intercept, strict)

    def design_in_place(self, target: str, intercept: bool, strict: bool = False) -> LinearDesign:
        """The design of rows that stay where they lie, so that nothing is read off them."""
        if isinstance(self.bounds_X, LinearDesign):
            if self.bounds_X.target != target:
                raise DomainError(f"y is {target!r}, and the design predicts {self.bounds_X.target!r}")
            return self.bounds_X
        by_name = self._by_name()
        if by_name is None or isinstance(self.bounds_y, str):
            raise DomainError(
                "rows in a file, of a query or on a cluster need bounds_X by name and the target's bounds_y"
            )
        if target in by_name and not self._bounds_alike(target, by_name[target]):
            raise DomainError(
                f"y names {target!r}, which bounds_X declares otherwise than bounds_y: name the column to predict, and "
                "leave it out of bounds_X"
            )
        features = {name: value for name, value in by_name.items() if name != target}
        return _design(features, target, self.bounds_y, intercept, strict)

    def _bounds_alike(self, target: str, declared: Any) -> bool:
        try:
            return feature_of(target, declared) == bounds_of(target, self.bounds_y)
        except NetworkError as error:
            raise DomainError(str(error)) from None

    def _features(self, frame: pd.DataFrame) -> dict[str, Any]:
        declared = self._by_name() or self.bounds_X
        if isinstance(declared, str):
            return self._read_off({name: frame[name].to_numpy() for name in frame.columns}, "bounds_X")
        if isinstance(declared, Mapping):
            absent = [name for name in declared if name not in frame.columns]
            if absent:
                raise DomainError(f"X has no column {', '.join(map(repr, absent))}, which bounds_X declares")
            return dict(declared)
        return dict(zip(frame.columns, declared, strict=True))

    def _read_off(self, columns: Mapping[str, npt.NDArray[Any]], name: str) -> dict[str, tuple[float, float]]:
        """The least and the largest value of each column; a leak, asked for by name."""
        if getattr(self, name) != "infer":
            raise DomainError(f'{name} must hold bounds or levels, or be "infer" by name; got {getattr(self, name)!r}')
        warnings.warn(
            f'{name}="infer" reads bounds off the rows: the result is not differentially private',
            PrivacyLeakWarning,
            stacklevel=6,  # past design, PrivateLinearRegression's reading and fit
        )
        ends = {column: (float(np.min(v)), float(np.max(v))) for column, v in columns.items()}
        return {column: (low, high if high > low else low + 1.0) for column, (low, high) in ends.items()}


def _design(features: Mapping[str, Any], target: str, bounds: Any, intercept: bool, strict: bool) -> LinearDesign:
    try:
        return LinearDesign(features, target, bounds, intercept=intercept, strict=strict)
    except NetworkError as error:
        raise DomainError(str(error)) from None
