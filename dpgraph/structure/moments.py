"""Sums of a family's sufficient statistics: how a record is written in integers, and the released sums.

Records are rounded to a public grid of points, and statistics of each to whole multiples of a public step, a power of
two: sums are exact, and their sensitivity is the largest over the rows of a public table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Movement
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import DomainError
from dpgraph.structure.expfam import MOST_POINTS, Binomial, ExponentialFamily, Multinomial
from dpgraph.structure.frozen import frozen_array
from dpgraph.structure.tables import NoisySums, OneBlock

#: Intervals between the bounds of a continuous record, and steps up to a statistic's largest size.
RESOLUTION = 1 << 16
STEPS = 1 << 20


@dataclass(frozen=True)
class MomentDescription(OneBlock):
    """The sums, and how each record contributes: public.

    A record outside the bounds of an unbounded family contributes 0 to every statistic (it is redacted), and is still
    counted. A continuous record is rounded to one of 65 537 points between the bounds, its statistics to a millionth
    of their largest size; the rounding is part of the statistic. It moves a sum by at most n times that much, far
    below the noise unless epsilon n is above a hundred thousand.

    Raises:
        DomainError: If bounds are missing, not needed, not finite, do not increase, or leave the support.
    """

    family: ExponentialFamily
    bounds: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        name, family = type(self.family).__name__, self.family
        if not all(hasattr(family, part) for part in ("statistics", "statistic", "support", "bounded")):
            raise DomainError(f"family must be one of dg.expfam; got {name}")
        if not family.bounded:
            object.__setattr__(self, "bounds", _checked_bounds(family, self.bounds))
        elif self.bounds is not None:
            raise DomainError(f"{name} is bounded by itself; leave bounds out")
        if self.partitions:
            return
        t = family.statistic(self.points)
        if t.shape != (self.points.size, len(self.names)):
            raise DomainError(f"the statistics of {name} must have shape (records, {len(self.names)}); got {t.shape}")
        if self.points.size == 0 or not np.isfinite(t).all():
            raise DomainError(f"the statistics of {name} must be finite everywhere within the bounds")

    @property
    def limits(self) -> tuple[float, float]:
        """The bounds, or the support of a bounded family."""
        return self.family.support if self.bounds is None else self.bounds

    @property
    def names(self) -> tuple[str, ...]:
        """The statistics."""
        return self.family.statistics

    @cached_property
    def points(self) -> Reals:
        """The values that a record can have, in increasing order."""
        low, high = self.limits
        if self.family.discrete:
            if high - low > MOST_POINTS:
                raise DomainError(f"bounds hold more than {MOST_POINTS} whole numbers")
            return np.arange(math.ceil(low), math.floor(high) + 1, dtype=float)
        return np.linspace(low, high, RESOLUTION + 1)

    @cached_property
    def steps(self) -> tuple[float, ...]:
        """The value of one unit of each integer sum: 1 for whole numbers, else a power of two."""
        if isinstance(self.family, Multinomial):
            return (1.0,) * len(self.names)
        sizes = self.family.statistic(self.points)
        whole = (sizes == np.round(sizes)).all(axis=0) & (np.abs(sizes).max(axis=0) < STEPS)
        return tuple(
            1.0 if integer else 2.0 ** math.ceil(math.log2(size)) / STEPS if size > 0 else 1.0
            for integer, size in zip(whole, np.abs(sizes).max(axis=0), strict=True)
        )

    @cached_property
    def contributions(self) -> Integers:
        """The integers that each point contributes, shape (points, statistics)."""
        whole = np.rint(self.family.statistic(self.points) / np.array(self.steps)).astype(np.int64)
        return frozen_array(whole, np.int64)

    @property
    def partitions(self) -> bool:
        """True if the statistics sum to n: each record contributes one 1."""
        return isinstance(self.family, Multinomial)

    @cached_property
    def weight(self) -> int:
        """A record's addition to the released number of records where n is private: as much as to a statistic."""
        return 1 << round(math.log2(max(1, int(np.abs(self.contributions).max()))))

    def companion(self, unit: PrivacyUnit) -> str | None:
        """The statistic released beside the others where n is private: n or, for a binomial, the failures.

        A success and a failure move the pair (successes, failures) by ``trials`` each; (successes, n) would move more.
        """
        if unit.n_is_public or self.partitions:
            return None
        return "failures" if isinstance(self.family, Binomial) else "n"

    def released(self, sums: Integers, n: int, unit: PrivacyUnit) -> Integers:
        """The integers that noise is added to: the sums and their companion."""
        return self._with_companion(sums[None], n, unit)[0]

    def _with_companion(self, sums: Integers, n: int, unit: PrivacyUnit) -> Integers:
        """Sums of n records each, shape (sums, statistics), and their companion in a last column."""
        match self.companion(unit):
            case None:
                return sums.copy()
            case "failures":
                return np.column_stack([sums, int(self.limits[1]) * n - sums[:, 0]])
            case _:
                return np.column_stack([sums, np.full(len(sums), self.weight * n)])

    def released_names(self, unit: PrivacyUnit) -> tuple[str, ...]:
        """The names of the released statistics."""
        beside = self.companion(unit)
        return self.names if beside is None else (*self.names, beside)

    def sensitivity(self, unit: PrivacyUnit) -> int:
        """The L1 distance, in steps, that one person's rows can move the released statistics: attained, not a bound.

        Replace: the diameter of the set of contributions, that of a redacted record among them (Bernstein and Sheldon
        2018, Appendix C, in which the largest |t| stands for it). Add/remove: the largest contribution.
        """
        if self.partitions:
            return (2 if unit.n_is_public else 1) * unit.rows_per_person
        rows = self._rows(unit)
        if not unit.n_is_public:
            return unit.rows_per_person * int(np.abs(rows).sum(axis=1).max())
        signs = [np.array([1, *rest]) for rest in product((1, -1), repeat=rows.shape[1] - 1)]
        along = (rows @ sign for sign in signs)
        return unit.rows_per_person * max(int(one.max() - one.min()) for one in along)

    def movement(self, unit: PrivacyUnit) -> Movement:
        """How far one person's rows move the released statistics, in steps.

        Categories move as the cells of a table do. For other families the squared L2 distance is exact under
        add-remove, and under replace bounded by the sum of the squared ranges of the statistics.
        """
        l1, people = self.sensitivity(unit), unit.rows_per_person
        if self.partitions:
            moved = l1 // people
            return Movement(l1, moved * people**2, moved if people == 1 else None, fixed_total=unit.n_is_public)
        rows = self._rows(unit)
        if not unit.n_is_public:
            reach, square = np.abs(rows).max(axis=0), int((rows**2).sum(axis=1).max())
        else:
            reach = rows.max(axis=0) - rows.min(axis=0)
            square = int((reach**2).sum())
        square = min(square * people**2, l1**2)
        return Movement(l1, square, l1 if people == 1 and reach.max() <= 1 else None)

    def row_limits(self, unit: PrivacyUnit) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The least and most that a record adds to each released integer where n is public, Python integers."""
        if self.partitions:
            return np.zeros(len(self.names), object), np.ones(len(self.names), object)
        low, high = (edge.astype(object) for edge in (self.contributions.min(axis=0), self.contributions.max(axis=0)))
        return np.minimum(low, 0), np.maximum(high, 0)

    def _rows(self, unit: PrivacyUnit) -> Integers:
        rows = self.contributions
        if not self.family.bounded:
            rows = np.vstack([rows, np.zeros((1, rows.shape[1]), np.int64)])
        return self._with_companion(rows, 1, unit)


def _checked_bounds(family: ExponentialFamily, bounds: Any) -> tuple[float, float]:
    name, support = type(family).__name__, family.support
    if bounds is None:
        raise DomainError(f"bounds are needed: the statistics of {name} are unbounded; give public (low, high)")
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise DomainError(f"bounds must be two numbers; got {bounds!r}") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise DomainError(f"bounds must be finite and increase; got {bounds!r}")
    if not support[0] <= low < high <= support[1]:
        raise DomainError(f"bounds must be within {support}, where {name} has its records; got {bounds!r}")
    return low, high


@dataclass(frozen=True, repr=False)
class NoisyMoments(NoisySums):
    """The release of an additive mechanism: noisy integer sums and their noise law.

    Attributes:
        description: The sums.
        sums: The noisy integers, in ``names`` order; times ``steps`` they are the statistics.
        law: The noise of every sum: one independent draw each, unless it is sum-zero.
        n: The exact number of records where it is public, else None; ``names`` then ends in n or the failures, unless
            the statistics sum to n.

    Raises:
        ReleaseError: If the sums or n are not whole numbers, or noise that sums to zero leaves another total than n.
    """

    description: MomentDescription | LinearDesign

    @property
    def of_family(self) -> MomentDescription:
        """The description, where it is that of an exponential family; a regression's is refused."""
        if not isinstance(self.description, MomentDescription):
            raise ReleaseError("these are the moments of a regression, not of an exponential family")
        return self.description

    @property
    def steps(self) -> Reals:
        """The value of one unit of each sum."""
        beside = {"failures": [1.0], "n": [1 / self.description.weight]}
        return np.array([*self.description.steps, *beside.get(self.names[-1] if self.n is None else "", [])])

    @property
    def values(self) -> Reals:
        """The noisy statistics in their own units."""
        return self.sums * self.steps

    @property
    def scales(self) -> Reals:
        """The noise scale of each statistic in its own units."""
        return self.law.scale * self.steps
