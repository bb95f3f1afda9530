"""The parts of a page: plain values, each drawn by the template macro of its class's name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

#: The most rows of a table, and the most bars of a list of intervals: more would be no page to read.
MOST_ROWS = 5_000
#: Points of a curve.
MOST_POINTS = 200
#: Letters of a variable's name in the drawing, its margin, and the height of rows and boxes, in pixels.
LONGEST_NAME, MARGIN, ROW, BOX = 14, 16.0, 78.0, 28.0


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
class Quantiles:
    """Sorted ranks, 0 to 1, against uniform quantiles: ranks of a right posterior are within the band."""

    ranks: Sequence[float]
    band: float
    across: str
    up: str

    @property
    def path(self) -> str:
        """The curve through at most ``MOST_POINTS`` of them, in per mille of the square, from its lower left corner."""
        many = len(self.ranks)
        chosen = sorted({round(at * (many - 1) / MOST_POINTS) for at in range(MOST_POINTS + 1)})
        return "M" + "L".join(f"{1000 * (at + 0.5) / many:.0f} {1000 - 1000 * self.ranks[at]:.0f}" for at in chosen)


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
    """A DAG in layers, and beside it what the page's program knows of the variable that is chosen."""

    names: Sequence[str]
    arcs: Sequence[tuple[int, int, float]]
    across: Sequence[float]
    down: Sequence[int]
    width: float
    height: int
    label: str
    hint: str

    @property
    def box(self) -> float:
        """The width of a variable's box: that of the longest name, cut at ``LONGEST_NAME`` letters."""
        return max(44.0, 18 + 8.0 * min(LONGEST_NAME, max(map(len, self.names))))

    @property
    def pitch(self) -> float:
        """From one column to the next."""
        return self.box + 14

    @property
    def short(self) -> list[str]:
        """Names as they fit the boxes."""
        return [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}\u2026" for name in self.names]

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the drawing."""
        return self.width * self.pitch + 2 * MARGIN, self.height * ROW + 2 * MARGIN

    @property
    def places(self) -> list[tuple[float, float]]:
        """The middle of each box."""
        return [
            (MARGIN + (x + 0.5) * self.pitch, MARGIN + (y + 0.5) * ROW)
            for x, y in zip(self.across, self.down, strict=True)
        ]

    @property
    def curves(self) -> list[tuple[int, int, str, int]]:
        """Parent, child, path, and class of width from 0 to 4 of each arc; from box to box."""
        places, found = self.places, []
        for parent, child, weight in self.arcs:
            (x, y), (u, v) = places[parent], places[child]
            if v > y:
                y, v = y + BOX / 2, v - BOX / 2 - 3
            bend = (v - y) / 2 if v > y else ROW / 2
            path = f"M{x:.1f} {y:.1f}C{x:.1f} {y + bend:.1f} {u:.1f} {v - bend:.1f} {u:.1f} {v:.1f}"
            found.append((parent, child, path, round(4 * weight)))
        return found


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
