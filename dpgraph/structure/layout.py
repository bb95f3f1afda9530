"""Where the variables of a DAG are drawn: in rows, parents above their children, few arcs crossing.

Sugiyama, Tagawa and Toda 1981: layers by the longest path, broken into rows where wide, ordered by averages of
neighbours. Arcs to a row further down pass at waypoints, which take places as variables do, so none runs behind a box.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from dpgraph.structure.network import Network

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
