"""The parts that pages share, and ``page_of``, which finds the function of a value's class.

Only public values have a page: released ones, learned ones and declared ones. Rows, codes, counts and moments have
none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch
from typing import Any

from dpgraph.files.codecs import refuse_unfitted
from dpgraph.pages.blocks import Facts, Graph, Page, Section, Table, Words
from dpgraph.pages.words import AFTERWARDS, NO_RECORD, NOT_PRIVATE, cost, neighbours, number, promise, whom
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.layout import layered
from dpgraph.structure.network import Network

#: The names of a measurement, and the levels of a variable, that a page lists.
MOST_NAMES, MOST_LEVELS = 8, 60
#: Letters of a variable's name in the drawing, its margin, and the height of rows and boxes, in pixels.
LONGEST_NAME, MARGIN, ROW, BOX = 14, 16.0, 78.0, 28.0


@singledispatch
def page_of(value: Any) -> Page:
    """The page of a public value."""
    refuse_unfitted(value)
    raise FileError(
        f"{type(value).__name__} has no page: only public values do, that were declared, left through a release or "
        "were learned from one"
    )


def protection(record: Provenance | None, *, learned: bool = True) -> Section:
    """The protection and its unit, of a value that was released or learned."""
    if record is None:
        return Section("What was protected", [Words([NO_RECORD])])
    warning = [] if record.private else [Words([NOT_PRIVATE], "warning")]
    sentences = [whom(record.unit), *promise(record.unit, record.event.epsilon, record.event.delta)]
    spent = f"The release cost {cost(record)}. Other releases of the same people's data add to it."
    facts = [("mechanism", record.event.mechanism), ("cost", cost(record)), ("unit", neighbours(record.unit))]
    if record.receipts:
        facts.append(("paid by ledger rows", ", ".join(digest[:16] for digest in record.receipts)))
    after = [AFTERWARDS] if learned else []
    return Section("What was protected", [*warning, Words([*sentences, spent, *after]), Facts(facts)])


def measurements(record: Provenance) -> Section:
    """Every measurement behind a release, with its noise and the movement by one person."""
    rows: list[list[Any]] = []
    for event in record.event.events:
        for m in event.measurements:
            names = (", " if m.cells == len(m.table) else " x ").join(m.table) or "number of rows"
            if len(m.table) > MOST_NAMES:
                names = f"{', '.join(m.table[:MOST_NAMES])} and {len(m.table) - MOST_NAMES} more"
            deviation = float(m.law.variance(m.cells)) ** 0.5
            rows.append([names, m.cells, type(m.law).__name__, float(m.law.scale), float(m.movement.l1), deviation])
        for law in dict.fromkeys(selection.law for selection in event.selections):
            draws = sum(selection.draws for selection in event.selections if selection.law == law)
            rows.append([f"choices among public candidates, {law}", draws, "-", "-", "-", "-"])
    columns = ["what was measured", "numbers", "noise law", "scale", "moved by one person (L1)", "noise sd"]
    note = "In the whole numbers that noise was added to: rows for counts, fixed-point units for sums."
    return Section("What was measured", [Table(columns, rows, note)])


def facts_of(pairs: dict[str, Any]) -> Facts:
    """Names and numbers as facts."""
    return Facts([(name, number(value)) for name, value in pairs.items()])


def computed(value: Any) -> Section:
    """The diagnostics of draws."""
    return Section("How it was computed", [facts_of(dict(value.diagnostics))])


def drawn(network: Network, label: str, hint: str, shares: Mapping[tuple[str, str], float] | None = None) -> Graph:
    """The DAG, with arcs as wide as their shares; ``hint`` tells the reader to choose a variable."""
    layout, position, names = layered(network), network.position, network.domain.names
    box = max(44.0, 18 + 8.0 * min(LONGEST_NAME, max(map(len, names))))
    pitch = box + 14
    places = [
        (MARGIN + (x + 0.5) * pitch, MARGIN + (y + 0.5) * ROW) for x, y in zip(layout.across, layout.down, strict=True)
    ]
    arcs = []
    for child, parents in network.parents.items():
        for parent in parents:
            (x, y), (u, v) = places[position[parent]], places[position[child]]
            y, v = y + BOX / 2, v - BOX / 2 - 3
            bend = (v - y) / 2
            path = f"M{x:.1f} {y:.1f}C{x:.1f} {y + bend:.1f} {u:.1f} {v - bend:.1f} {u:.1f} {v:.1f}"
            arcs.append((position[parent], position[child], path, round(4 * (shares or {}).get((parent, child), 0.0))))
    short = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}\u2026" for name in names]
    size = layout.width * pitch + 2 * MARGIN, layout.height * ROW + 2 * MARGIN
    return Graph(names, short, places, arcs, box, *size, label, hint)


def plain_graph(network: Network, measures: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Names, parents, levels, and numbers to colour variables by: ``name``, ``words`` and ``values`` of each."""
    position, domain = network.position, network.domain
    return {
        "names": list(domain.names),
        "parents": [[position[parent] for parent in network.parents[name]] for name in domain.names],
        "levels": [
            [
                *map(str, levels[:MOST_LEVELS]),
                *([f"and {len(levels) - MOST_LEVELS:,} more"] if levels[MOST_LEVELS:] else []),
            ]
            for levels in map(domain.levels, domain.names)
        ],
        "cells": [network.cells(family) for family in network.families],
        "measures": list(measures),
    }
