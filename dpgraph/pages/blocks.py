"""The parts of a page: plain values, each drawn by the template macro of its class's name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

#: The most rows of a table: more would be no page to read.
MOST_ROWS = 5_000


@dataclass(frozen=True)
class Words:
    """Paragraphs; ``kind`` is ``""``, ``"warning"`` or ``"advice"``."""

    sentences: Sequence[str]
    kind: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and their values."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """A sortable table of strings and numbers, of which the first ``MOST_ROWS`` rows are shown."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    note: str = ""
    digits: int = 3

    @property
    def shown(self) -> Sequence[Sequence[Any]]:
        """The rows that the page holds."""
        return self.rows[:MOST_ROWS]

    @property
    def left_out(self) -> int:
        """How many it does not."""
        return max(0, len(self.rows) - MOST_ROWS)


@dataclass(frozen=True)
class Intervals:
    """Estimates with intervals, one below the other on a common axis; all finite."""

    names: Sequence[str]
    middle: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    axis: str
    bounds: tuple[float, float] | None = None
    zero: bool = False

    @cached_property
    def span(self) -> tuple[float, float]:
        """The ends of the axis."""
        if self.bounds is not None:
            return self.bounds
        low, high = min([*self.low, *self.middle]), max([*self.high, *self.middle])
        if self.zero:
            low, high = min(low, 0.0), max(high, 0.0)
        room = 0.04 * (high - low) or 1.0
        return low - room, high + room

    def at(self, value: float) -> float:
        """Where a value lies on the axis, 0 to 1."""
        low, high = self.span
        return (min(max(value, low), high) - low) / (high - low)

    @property
    def ticks(self) -> list[float]:
        """Round numbers along the axis."""
        low, high = self.span
        step = 10.0 ** math.floor(math.log10((high - low) / 4))
        step *= next(factor for factor in (1, 2, 2.5, 5, 10) if (high - low) / (factor * step) <= 6)
        first = math.ceil(low / step - 1e-9)
        return [round(tick * step, 12) for tick in range(first, math.floor(high / step + 1e-9) + 1)]

    @property
    def bars(self) -> list[tuple[str, float, float, float]]:
        """Name, middle, low and high of each."""
        return list(zip(self.names, self.middle, self.low, self.high, strict=True))


@dataclass(frozen=True)
class Curve:
    """The shares of true claims against those of false ones that pass a test, with the diagonal of a blind guess."""

    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Shades:
    """A matrix of probabilities, darker where larger, with its numbers."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    corner: str


@dataclass(frozen=True)
class Ribbons:
    """The most probable state of each sequence over time, paler where its probability is lower."""

    sequences: Sequence[str]
    steps: Sequence[str]
    states: Sequence[Sequence[int]]
    sure: Sequence[Sequence[float]]
    count: int
    time: str


@dataclass(frozen=True)
class Graph:
    """A DAG in layers (box middles; arcs with path and class of width 0 to 4) and what the page's program knows."""

    names: Sequence[str]
    short: Sequence[str]
    places: Sequence[tuple[float, float]]
    arcs: Sequence[tuple[int, int, str, int]]
    box: float
    width: float
    height: float
    label: str
    hint: str


@dataclass(frozen=True)
class Costs:
    """The sliders, the mechanisms compared and the recommendation, over the grid in the page's data."""

    delta: float
    n_given: bool


@dataclass(frozen=True)
class Families:
    """Where the page's program lists what each family costs."""


@dataclass(frozen=True)
class Section:
    """A heading and the blocks under it."""

    title: str
    blocks: Sequence[Any]


@dataclass(frozen=True)
class Page:
    """A page: its title, its sections, and the data of its program."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    data: Mapping[str, Any] = field(default_factory=dict)
