"""Sums of sufficient statistics, and sums over held-out rows that judge a model: public descriptions, noisy releases.

Records are rounded to a public grid of points, and statistics of each to whole multiples of a public step, a power of
two: sums are exact, and their sensitivity is the largest over the rows of a public table.

Of outcomes a part of counts partitions the rows: a replaced row moves two cells by one, an added row one. A part of one
bounded sum gets from each row a loss between 0 and 1 on a public grid. Where n is public the last cell of a partition
into two is not released. All parts share one noise scale, each times its public weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise, product
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals, check_choice
from dpgraph.privacy.display import short
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Movement
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import DomainError, Level, show_levels
from dpgraph.structure.expfam import MOST_POINTS, Binomial, ExponentialFamily, Multinomial
from dpgraph.structure.frozen import frozen_array
from dpgraph.structure.tables import NoisySums, OneBlock

#: Intervals between the bounds of a continuous record, and steps up to a statistic's largest size.
RESOLUTION = 1 << 16
SIZE_STEPS = 1 << 20


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
        whole = (sizes == np.round(sizes)).all(axis=0) & (np.abs(sizes).max(axis=0) < SIZE_STEPS)
        return tuple(
            1.0 if integer else 2.0 ** math.ceil(math.log2(size)) / SIZE_STEPS if size > 0 else 1.0
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


ClassifierScore = Literal["accuracy", "confusion", "reliability", "log_loss", "brier", "auc"]
#: Steps from 0 to the largest loss: losses are rounded to whole steps.
STEPS = 1 << 16
#: Edges between bins of the confidence in the predicted class, where they exceed one over the number of classes.
EDGES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99)
#: The most cells of truth by prediction.
MOST_CONFUSED = 1 << 20
#: The most classes whose scores are counted by bins, and the weight of these counts.
MOST_RANKED, RANKED = 12, 16
#: A probability below one over this many times the number of outcomes counts as that in a log-loss.
FLOOR = 50


@dataclass(frozen=True)
class Part:
    """One part of sums: name, cells, weight, less noise where larger; ``counts`` if cells partition the rows."""

    name: str
    cells: int
    weight: int
    counts: bool = False

    def kept(self, unit: PrivacyUnit) -> int:
        """The cells that are released: all but the last of a partition into at most two where n is public."""
        return self.cells - (self.counts and self.cells <= 2 and unit.n_is_public)

    def moved(self, unit: PrivacyUnit) -> int:
        """The L1 distance that one row moves the released cells, in rows or largest losses; its squared L2 as well."""
        return min(self.kept(unit), 2 if self.counts and unit.n_is_public else 1)


@dataclass(frozen=True)
class Classification:
    """Judging a classifier: its public classes, its log-loss's clip, bins of its confidence, the scores to pay for."""

    classes: tuple[Level, ...]
    largest_loss: float | None = None
    edges: tuple[float, ...] | None = None
    scores: tuple[ClassifierScore, ...] = get_args(ClassifierScore)

    def __post_init__(self) -> None:
        size = len(self.classes)
        if size < 2:
            raise DomainError(f"a classifier has at least two classes; got {show_levels(self.classes)}")
        loss = math.log(FLOOR * size) if self.largest_loss is None else self.largest_loss
        object.__setattr__(self, "largest_loss", checked_bound(loss, "largest_loss"))
        edges = tuple(edge for edge in EDGES if edge * size > 1 + 1e-9) if self.edges is None else self.edges
        object.__setattr__(self, "edges", _checked_edges(edges, size))
        known, asked = get_args(ClassifierScore), self.scores
        if isinstance(asked, str) or not asked:
            raise DomainError(f"scores must be a list, some of {', '.join(map(repr, known))}; got {short(asked)}")
        for name in asked:
            check_choice("scores", name, known, error=DomainError)
        object.__setattr__(self, "scores", tuple(name for name in known if name in asked))
        if size > MOST_RANKED:
            object.__setattr__(self, "scores", tuple(name for name in self.scores if name != "auc"))
        if "confusion" in self.scores and size**2 > MOST_CONFUSED:
            raise DomainError(f"{size:,} classes have more than {MOST_CONFUSED:,} confusions; leave them out of scores")

    @property
    def bins(self) -> tuple[tuple[float, float], ...]:
        """The bins of the confidence: each holds its upper edge, the first its lower one too."""
        return tuple(pairwise((1 / len(self.classes), *(self.edges or ()), 1.0)))

    @cached_property
    def cuts(self) -> tuple[float, ...]:
        """Edges between bins of P(class): for two classes those of the confidence, and their mirror images."""
        upper = (self.edges or ()) if len(self.classes) == 2 else [edge for edge in EDGES if edge > 0.5]
        return (*(round(1 - edge, 12) for edge in reversed(upper)), 0.5, *upper)

    @property
    def ranked(self) -> tuple[str, ...]:
        """The parts of bins of P(class) by truth: one of the second of two classes, else one of each class."""
        if "auc" not in self.scores:
            return ()
        size = len(self.classes)
        return ("scores",) if size == 2 else tuple(f"scores of class {k}" for k in range(size))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """Right and wrong, truth by prediction, bins (not of two classes with scores), losses, squares, scores."""
        size = len(self.classes)
        bins = Part("reliability", 2 * len(self.bins), 8, counts=True)
        ranked = (
            Part(name, 2 * len(self.cuts) + 2, RANKED // (1 if size == 2 else size), True) for name in self.ranked
        )
        every = {
            "accuracy": (Part("right", 2, 40, counts=True),),
            "confusion": (Part("confusion", size * size, 10, counts=True),),
            "reliability": () if self.ranked == ("scores",) else (bins,),
            "log_loss": (Part("log-loss", 1, 12), Part("log-loss squared", 1, 3)),
            "brier": (Part("brier", 1, 8), Part("brier squared", 1, 2)),
            "auc": tuple(ranked),
        }
        return tuple(part for name in self.scores for part in every[name])


@dataclass(frozen=True)
class Regression:
    """Judging a regression: the target's bounds, and the clip of an error's size; None is half their distance."""

    low: float
    high: float
    largest_error: float | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low < self.high):
            raise DomainError(f"the target's bounds must be finite and increase; got {self.low!r}, {self.high!r}")
        largest = (self.high - self.low) / 2 if self.largest_error is None else self.largest_error
        object.__setattr__(self, "largest_error", checked_bound(largest, "largest_error"))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The rows; squared errors and their squares."""
        return Part("rows", 1, 20, counts=True), Part("squared error", 1, 40), Part("squared error squared", 1, 10)


@dataclass(frozen=True)
class Entries:
    """Judging a model of log entries: how many outcomes a cell can hold, and where -ln P(entry) is clipped."""

    outcomes: int
    largest_loss: float | None = None

    def __post_init__(self) -> None:
        loss = math.log(FLOOR * self.outcomes) if self.largest_loss is None else self.largest_loss
        object.__setattr__(self, "largest_loss", checked_bound(loss, "largest_loss"))

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The entries; their losses and the squares of these."""
        return Part("rows", 1, 10, counts=True), Part("log-loss", 1, 40), Part("log-loss squared", 1, 10)


Task = Classification | Regression | Entries


@dataclass(frozen=True)
class OutcomeDescription(OneBlock):
    """The sums over held-out rows that judge a task, and the part of them that is released: public."""

    task: Task
    holds: ClassVar[str] = "NoisyOutcomes"

    @property
    def parts(self) -> tuple[Part, ...]:
        """The parts, in the order of the sums."""
        return self.task.parts

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Every sum."""
        return tuple(name for part in self.parts for name in _cell_names(part, part.cells))

    def released_names(self, unit: PrivacyUnit) -> tuple[str, ...]:
        """The sums that are released."""
        return tuple(name for part in self.parts for name in _cell_names(part, part.kept(unit)))

    def released(self, sums: Integers, n: int, unit: PrivacyUnit) -> Integers:
        """The integers that noise is added to: the kept cells, counts in steps too, times the parts' weights."""
        pairs = zip(self.parts, np.split(sums, self.ends[:-1]), strict=True)
        kept = [cells[: p.kept(unit)] * (p.weight * (STEPS if p.counts else 1)) for p, cells in pairs]
        return np.concatenate(kept).astype(np.int64)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """Where each part of the sums ends."""
        return tuple(accumulate(part.cells for part in self.parts))

    def sensitivity(self, unit: PrivacyUnit) -> int:
        """The L1 sensitivity in weighted steps: replaced, all parts move by all they can, added by 1 (P70)."""
        return unit.rows_per_person * STEPS * sum(part.weight * part.moved(unit) for part in self.parts)

    def squared_sensitivity(self, unit: PrivacyUnit) -> int:
        """The squared L2 distance of the same: cells move by 1 each, and all of a person's rows may be alike."""
        return (unit.rows_per_person * STEPS) ** 2 * sum(part.weight**2 * part.moved(unit) for part in self.parts)

    def movement(self, unit: PrivacyUnit) -> Movement:
        """The L1 and squared L2 sensitivities of the released integers, in weighted steps."""
        return Movement(self.sensitivity(unit), self.squared_sensitivity(unit))

    def row_limits(self, unit: PrivacyUnit) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """The least and the largest part of one row in each released integer: Python integers, without overflow."""
        most = np.array([part.weight * STEPS for part in self.parts for _ in range(part.kept(unit))], object)
        return 0 * most, most


@dataclass(frozen=True, repr=False)
class NoisyOutcomes(NoisySums):
    """The value of a release of outcomes: the noisy integers, in ``names`` order, and their noise law.

    Attributes:
        description: The sums.
        sums: The noisy integers, weighted.
        law: The noise of every sum, one independent draw each.
        n: The exact number of rows where it is public, else None.
    """

    description: OutcomeDescription

    def block(self, name: str) -> Reals | None:
        """The noisy cells of a part, in rows or largest losses; None if it was not released."""
        start = 0
        for part in self.description.parts:
            end = start + part.kept(self.unit_kind)
            if part.name == name and end > start:
                return self.sums[start:end] / (part.weight * STEPS)
            start = end
        return None

    def scale(self, name: str) -> float:
        """The noise scale of a part's cells, in rows or largest losses."""
        (weight,) = (part.weight for part in self.description.parts if part.name == name)
        return self.law.scale / (weight * STEPS)


def checked_bound(value: object, name: str) -> float:
    """A public bound above 0, whose square is a number."""
    number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
    if not 1e-100 < number < 1e100:
        raise DomainError(f"{name} must be a finite number above 0, from 1e-100 to 1e100; got {value!r:.60}")
    return number


def _checked_edges(edges: Iterable[float], classes: int) -> tuple[float, ...]:
    try:
        made = tuple(float(edge) for edge in edges)
    except (TypeError, ValueError):
        raise DomainError(f"edges must be numbers; got {edges!r:.60}") from None
    if not all(low < high for low, high in pairwise((1 / classes, *made, 1.0))):
        raise DomainError(f"edges must increase between 1 / {classes} and 1; got {made!r:.200}")
    return made


def _cell_names(part: Part, kept: int) -> tuple[str, ...]:
    return (part.name,) * kept if part.cells == 1 else tuple(f"{part.name} {i}" for i in range(kept))
