"""Exact sums of sufficient statistics: a commutative monoid, like counts.

Law: ``sufficient_statistics(a, f) + sufficient_statistics(b, f) == sufficient_statistics(a and b, f)``, with zero the
moments of no records. The sums are integers, each record's contribution rounded to a public grid first, so addition is
exact and the order of records does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.descriptions import Name
from dpgraph.privacy.records import PrivacyUnit, ReleaseError
from dpgraph.privacy.scope import RowCap, RowGroup, joined
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import DomainError
from dpgraph.structure.expfam import ExponentialFamily
from dpgraph.structure.frozen import frozen_array
from dpgraph.structure.moments import MomentDescription
from dpgraph.structure.outcomes import OutcomeDescription

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Exact integer sums of statistics and the number of records: sensitive.

    There are no numbers in its ``repr``, it is not pickled and has no saver; ``release`` is the way out.
    """

    description: MomentDescription | LinearDesign | OutcomeDescription
    sensitive_sums: Integers
    sensitive_rows: int
    group: RowGroup | None = None
    cap: RowCap | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitive_sums", frozen_array(self.sensitive_sums, np.int64))
        if self.sensitive_sums.shape != (len(self.description.names),):
            raise ReleaseError("moments need one sum for each statistic of their description")

    @classmethod
    def zero(cls, description: MomentDescription | LinearDesign | OutcomeDescription) -> Moments:
        """The moments of no records."""
        return cls(description, np.zeros(len(description.names), np.int64), 0)

    def sensitive_block(self, name: Name, unit: PrivacyUnit) -> Integers:
        """The exact integers that a release under this unit adds noise to."""
        return self.description.released(self.sensitive_sums, self.sensitive_rows, unit)

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        if other.description != self.description:
            raise ReleaseError("moments of different families or bounds do not add")
        if other.group != self.group:
            raise ReleaseError("moments of different groups of rows do not add")
        rows = self.sensitive_rows + other.sensitive_rows
        cap = joined(self.cap, other.cap)
        return Moments(self.description, self.sensitive_sums + other.sensitive_sums, rows, self.group, cap)

    def __repr__(self) -> str:
        about = getattr(self.description, "family", self.description)
        return f"Moments({type(about).__name__}, {len(self.description.names)} statistics, sensitive)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("moments are sensitive and are not pickled; release them")


def sums_of_records(records: npt.NDArray[np.float64], description: MomentDescription) -> Integers:
    """The exact sums of what numbers contribute; those outside the bounds, and NaN, contribute 0. Sensitive."""
    low, high = description.limits
    index = _nearest(description, records[(records >= low) & (records <= high)])
    times = np.bincount(index, minlength=description.points.size)
    return times @ description.contributions


def check_support(records: npt.NDArray[np.float64], family: ExponentialFamily) -> None:
    """Refuses numbers that are none of a family's, NaN among them.

    Raises:
        DomainError: Naming the support.
    """
    name, (low, high) = type(family).__name__, family.support
    if not (np.isfinite(records) & (records >= low) & (records <= high)).all():
        raise DomainError(f"every record of a {name} family must be a finite number from {low:g} to {high:g}")
    if family.discrete and (records != np.round(records)).any():
        raise DomainError(f"every record of a {name} family must be a whole number")


def _nearest(description: MomentDescription, records: npt.NDArray[np.float64]) -> Integers:
    """The index of the nearest public point of each record; ties and errors of rounding go to either neighbour."""
    low, high = float(description.points[0]), float(description.points[-1])
    last = description.points.size - 1
    if last == 0:
        return np.zeros(records.size, np.int64)
    return np.clip(np.rint((records - low) / (high - low) * last), 0, last).astype(np.int64)
