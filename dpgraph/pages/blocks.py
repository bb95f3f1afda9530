"""The parts of a page: plain values, each drawn by the template macro of its class's name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

#: The most rows of a table, and the most bars of a list of intervals: more would be no page to read.
MOST_ROWS = 5_000


@dataclass(frozen=True)
class Words:
    """Paragraphs; ``kind`` is ``""``, ``"warning"`` or ``"advice"``."""

    sentences: Sequence[str]
    kind: str = ""


@dataclass(frozen=True)
class Facts:
    """Names and what they are."""

    rows: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Table:
    """A sortable table: columns, and rows of strings and numbers; of more than ``MOST_ROWS`` the first are shown."""

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


@dataclass(frozen=True)
class Shades:
    """A matrix of probabilities, darker where larger, with its numbers."""

    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    corner: str


@dataclass(frozen=True)
class Ribbons:
    """The most probable state of each sequence over time; paler where it is less sure."""

    sequences: Sequence[str]
    steps: Sequence[str]
    states: Sequence[Sequence[int]]
    sure: Sequence[Sequence[float]]
    count: int
    time: str


@dataclass(frozen=True)
class Graph:
    """A DAG in layers. ``data`` is what the page's program knows of each variable when it is chosen."""

    names: Sequence[str]
    arcs: Sequence[tuple[int, int, float]]
    across: Sequence[float]
    down: Sequence[int]
    width: float
    height: int
    label: str


@dataclass(frozen=True)
class Costs:
    """The sliders, the mechanisms compared, the recommendation and the families; numbers come from closed forms."""

    epsilon: float
    n: int | None
    delta: float


@dataclass(frozen=True)
class Chosen:
    """Where the page's program shows what it knows of the variable that was chosen."""

    hint: str


@dataclass(frozen=True)
class Section:
    """A heading and what stands under it."""

    title: str
    blocks: Sequence[Any]


@dataclass(frozen=True)
class Page:
    """A page: what it is of, its sections, and the data of its program."""

    title: str
    subtitle: str
    sections: Sequence[Section]
    data: Mapping[str, Any] = field(default_factory=dict)
