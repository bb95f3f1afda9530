"""Sums over held-out rows that judge a model, their sensitivity to one row, and their noisy release.

A part of counts partitions the rows: a replaced row moves two cells by one, an added row one. A part of one bounded sum
gets from each row a loss between 0 and 1 on a public grid. Where n is public the last cell of a partition into two is
not released. All parts share one noise scale, each times its public weight.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals, check_choice
from dpgraph.privacy.display import short
from dpgraph.privacy.measurements import Movement
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.domain import DomainError, Level, show_levels
from dpgraph.structure.tables import NoisySums, OneBlock

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
