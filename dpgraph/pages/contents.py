"""Parts that pages share: ``page_of``, which finds the function of a value's class, privacy in sentences, the drawing.

Only public values have a page: released ones, learned ones and declared ones. Rows, codes, counts and moments have
none.

A DAG is drawn in rows, parents above their children, few arcs crossing (Sugiyama, Tagawa and Toda 1981): layers by the
longest path, broken into rows where wide, ordered by averages of neighbours. Arcs to a row further down pass at
waypoints, which take places as variables do, so none runs behind a box.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from scipy.optimize import isotonic_regression

from dpgraph.files.codecs import refuse_unfitted
from dpgraph.pages.blocks import Curve, Facts, Graph, Page, Section, Table, Words
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Event, PrivacyUnit, Provenance, decimal
from dpgraph.privacy.risk import Risk
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
        f"{type(value).__name__} has no page: pages show public values, which were declared, released or learned from "
        "a release"
    )


def protection(record: Provenance | None, *, learned: bool = True) -> Section:
    """The protection and its unit, of a value that was released or learned."""
    if record is None:
        return Section("What was protected", [Words([NO_RECORD])])
    warning = [] if record.private else [Words([NOT_PRIVATE], "warning")]
    spent = f"The release cost {cost(record)}."
    facts = [("mechanism", record.event.mechanism), ("cost", cost(record)), ("unit", neighbours(record.unit))]
    if record.receipts:
        facts.append(("paid by ledger rows", ", ".join(digest[:16] for digest in record.receipts)))
    after = [AFTERWARDS] if learned else []
    said = [Words([whom(record.unit)]), *promise(Risk.of(record.event, record.unit)), Words([spent, *after])]
    return Section("What was protected", [*warning, *said, Facts(facts)])


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
    layout, names = layered(network), network.domain.names
    box = max(44.0, 18 + 8.0 * min(LONGEST_NAME, max(map(len, names))))
    pitch = box + 14
    middles = [MARGIN + (y + 0.5) * ROW for y in range(layout.height)]
    places = [(MARGIN + x * pitch, middles[y]) for x, y in zip(layout.across, layout.down, strict=True)]
    arcs = []
    for (parent, child), route in layout.routes.items():
        x, y = places[parent][0], places[parent][1] + BOX / 2
        path = f"M{x:.1f} {y:.1f}"
        stops = [(MARGIN + place * pitch, middles[layout.down[parent] + at]) for at, place in enumerate(route, 1)]
        for u, middle in [*stops, places[child]]:  # bent between rows alone, straight along boxes
            v, gap = middle - BOX / 2, (ROW - BOX) / 2
            path += f"C{x:.1f} {v - gap:.1f} {u:.1f} {v - gap:.1f} {u:.1f} {v:.1f}V{v + BOX:.1f}"
            x = u
        share = (shares or {}).get((names[parent], names[child]), 0.0)
        arcs.append((parent, child, path[: path.rindex("V")], round(4 * share)))
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


def number(value: Any, digits: int = 3) -> str:
    """A number as people read it: whole ones with thin groups, others, and huge ones, to some digits; a dash for none.

    >>> number(1234567), number(0.012345), number(float("nan")), number(2.0), number("a"), number(2.6881e43)
    ('1,234,567', '0.0123', '-', '2', 'a', '2.69e+43')
    """
    if isinstance(value, str) or value is None:
        return value or "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    size = float(value)
    if not math.isfinite(size):
        return "-" if math.isnan(size) else ("more than can be said" if size > 0 else "-")
    if size == int(size) and abs(size) < 1e15:
        return f"{int(size):,}"
    if 1000 <= abs(size) < 1e15:
        return f"{size:,.0f}"
    return f"{size:.{digits}g}"


def whom(unit: PrivacyUnit) -> str:
    """Who is protected.

    >>> whom(PrivacyUnit("add-remove"))
    'Each person with one row or none is protected: whether they are in the data, and all that is said there.'
    """
    rows = "one row" if unit.rows_per_person == 1 else f"up to {unit.rows_per_person} rows"
    if unit.n_is_public:
        what = "All that a person's row says" if unit.rows_per_person == 1 else "All that a person's rows say"
        return f"{what} is protected, for each person; each has {rows}. How many rows there are is public, and exact."
    return f"Each person with {rows} or none is protected: whether they are in the data, and all that is said there."


def promise(risk: Risk) -> list[Any]:
    """The promise to one person, with the power of an attacker and its assumptions.

    >>> promise(Risk(1, 0, PrivacyUnit()))[0].sentences[0]
    'Any outcome is at most 2.72 times as likely as it would be had any one person said something else.'
    """
    size, slack = float(risk.epsilon), float(risk.delta)
    ratio = math.exp(size) if size < 700 else math.inf
    but = "" if slack == 0 else f" This may fail with a probability of {slack:.2g} (delta)."
    other = (
        "had any one person said something else" if risk.unit.n_is_public else "with or without any one person's data"
    )
    words = [f"Any outcome is at most {number(ratio)} times as likely as it would be {other}.{but}", str(risk)]
    return [Words(words), Curve(risk.curve()), Facts(risk.facts()), Words([risk.assumption])]


def cost(event: Event | Provenance) -> str:
    """An event's epsilon and delta."""
    made = event.event if isinstance(event, Provenance) else event
    slack = f", delta {float(made.delta):.3g}" if made.delta else ""
    return f"epsilon {decimal(made.epsilon)}{slack}"


def neighbours(unit: PrivacyUnit) -> str:
    """The unit in the terms of the theory."""
    return f"{unit.neighbours}, {unit.rows_per_person} row{'s' if unit.rows_per_person > 1 else ''} a person"


NOT_PRIVATE = (
    "NOT PRIVATE: the noise was drawn from a seed, for tests or studies. Whoever knows the seed can take it off again; "
    "do not show this where real people's data are in it."
)
NO_RECORD = (
    "No release is on record here: these numbers were declared or made up, or their record was lost. Nothing is said "
    "of whom they protect."
)
AFTERWARDS = (
    "All below was computed from what was released, at no further cost: whatever is computed from it alone keeps the "
    "promise."
)


#: Sweeps down and up, each over all layers.
SWEEPS = 12
#: Rows are at least this wide, in variables; wider for large graphs, so that these are drawn about as wide as high.
LEAST_ROW, ROW_FACTOR = 9, 1.0
#: The width of a waypoint, in columns.
WAYPOINT = 0.1


@dataclass(frozen=True)
class Layout:
    """Middles of variables, in columns and rows; the places across of each arc in the rows between; and the size."""

    across: tuple[float, ...]
    down: tuple[int, ...]
    routes: Mapping[tuple[int, int], tuple[float, ...]]
    width: float
    height: int


def layered(network: Network) -> Layout:
    """The places of a network's variables, and of its arcs between them."""
    position = network.position
    above = [[position[parent] for parent in network.parents[name]] for name in network.domain.names]
    count = len(above)
    rows = _rows(_layers([position[name] for name in network.order], above, _below(above)), above)
    down = [0] * count
    for at, row in enumerate(rows):
        for node in row:
            down[node] = at
    trunks, passed = _with_waypoints(rows, down, above)
    _sort(rows, passed)
    sizes = [1.0] * count + [WAYPOINT] * (len(passed) - count)
    places = _places(rows, passed, sizes)
    left = min(place - size / 2 for place, size in zip(places, sizes, strict=True))
    right = max(place + size / 2 for place, size in zip(places, sizes, strict=True))
    across = [place - left for place in places]
    routes = {
        (parent, child): tuple(across[point] for point in trunks[parent][: down[child] - down[parent] - 1])
        for child, parents in enumerate(above)
        for parent in parents
    }
    return Layout(tuple(across[:count]), tuple(down), routes, right - left, len(rows))


def _with_waypoints(
    rows: list[list[int]], down: Sequence[int], above: Sequence[list[int]]
) -> tuple[list[list[int]], list[list[int]]]:
    """The waypoints below each variable, which the rows get too, and the parents of variables and of waypoints."""
    trunks: list[list[int]] = [[] for _ in above]
    passed: list[list[int]] = [[] for _ in above]
    for child, parents in enumerate(above):
        for parent in parents:
            trunk, between = trunks[parent], down[child] - down[parent] - 1
            while len(trunk) < between:
                rows[down[parent] + len(trunk) + 1].append(len(passed))
                passed.append([trunk[-1] if trunk else parent])
                trunk.append(len(passed) - 1)
            passed[child].append(trunk[between - 1] if between else parent)
    return trunks, passed


def _below(above: Sequence[list[int]]) -> list[list[int]]:
    below: list[list[int]] = [[] for _ in above]
    for child, parents in enumerate(above):
        for parent in parents:
            below[parent].append(child)
    return below


def _layers(order: Sequence[int], above: Sequence[list[int]], below: Sequence[list[int]]) -> list[list[int]]:
    """Layers by the longest path; a node without parents stands just above its first child."""
    depth = [0] * len(above)
    for node in order:
        depth[node] = 1 + max((depth[parent] for parent in above[node]), default=-1)
    for node in order:
        if not above[node] and below[node]:
            depth[node] = min(depth[child] for child in below[node]) - 1
    layers: list[list[int]] = [[] for _ in range(max(depth) + 1)]
    for node in order:
        layers[depth[node]].append(node)
    return [layer for layer in layers if layer]


def _rows(layers: list[list[int]], above: Sequence[list[int]]) -> list[list[int]]:
    """Layers in an order of few crossings, those that are too wide broken into rows."""
    _sort(layers, above)
    widest = max(LEAST_ROW, round(ROW_FACTOR * math.sqrt(len(above))))
    rows: list[list[int]] = []
    for layer in layers:
        parts = -(-len(layer) // widest)
        rows += [layer[part::parts] for part in range(parts)]
    return rows


def _sort(rows: list[list[int]], above: Sequence[list[int]]) -> None:
    """Puts each row into the order of the averages of its neighbours' places, sweep after sweep."""
    below = _below(above)
    place = [0.0] * len(above)

    def settle(row: list[int]) -> None:
        for at, node in enumerate(row):
            place[node] = (at + 0.5) / len(row)

    for row in rows:
        settle(row)
    for sweep in range(SWEEPS):
        near, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in order:
            mean = {node: sum(place[other] for other in near[node]) / len(near[node]) for node in row if near[node]}
            row.sort(key=lambda node, mean=mean: mean.get(node, place[node]))
            settle(row)


def _places(rows: list[list[int]], above: Sequence[list[int]], sizes: Sequence[float]) -> list[float]:
    """Middles across: each towards the average of its neighbours, and clear of the next of its row."""
    below = _below(above)
    widest = max(sum(sizes[node] for node in row) for row in rows)
    place = [0.0] * len(above)
    for row in rows:
        taken = np.array([sizes[node] for node in row])
        for node, at in zip(row, np.cumsum(taken) - taken / 2 + (widest - taken.sum()) / 2, strict=True):
            place[node] = float(at)
    for sweep in range(SWEEPS):
        near, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in order:
            wanted = []
            for node in row:
                others = near[node] or [node]
                if sizes[node] < 1:  # routes are straight where they can be
                    others = [other for other in others if sizes[other] < 1] or others
                wanted.append(sum(place[other] for other in others) / len(others))
            for node, at in zip(row, _apart(wanted, [sizes[node] for node in row], widest), strict=True):
                place[node] = at
    return place


def _apart(wanted: list[float], sizes: list[float], widest: float) -> list[float]:
    """The least-squares places that do not overlap, in order, between 0 and the width."""
    taken = np.array(sizes)
    first = np.cumsum(taken) - taken / 2
    shifts = isotonic_regression(np.array(wanted) - first).x
    return (np.clip(shifts, 0.0, widest - taken.sum()) + first).tolist()
