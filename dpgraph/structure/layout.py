"""Where the variables of a DAG are drawn: in layers, parents above their children, few arcs crossing.

Sugiyama, Tagawa and Toda 1981: layers by the longest path, orders by averages of neighbours, a few sweeps down and up.
Arcs that span layers are not routed around what lies between. A layer wider than the drawing is broken into rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import isotonic_regression

from dpgraph.structure.network import Network

#: Sweeps down and up, each over all layers.
SWEEPS = 12
#: Rows are at least this wide, in variables; wider for large graphs, so that these are drawn about as wide as high.
LEAST_ROW, ROW_FACTOR = 9, 1.0


@dataclass(frozen=True)
class Layout:
    """Places of variables in the domain's order, columns from the left and rows from the top, and the whole's size."""

    across: tuple[float, ...]
    down: tuple[int, ...]
    width: float
    height: int


def layered(network: Network) -> Layout:
    """The places of a network's variables."""
    position = network.position
    above = [[position[parent] for parent in network.parents[name]] for name in network.domain.names]
    below: list[list[int]] = [[] for _ in above]
    for child, parents in enumerate(above):
        for parent in parents:
            below[parent].append(child)
    rows = _rows(_layers([position[name] for name in network.order], above, below), above, below)
    across = _places(rows, above, below)
    left = min(across)
    down = [0] * len(above)
    for at, row in enumerate(rows):
        for node in row:
            down[node] = at
    across = [place - left for place in across]
    return Layout(tuple(across), tuple(down), max(across) + 1, len(rows))


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


def _rows(layers: list[list[int]], above: Sequence[list[int]], below: Sequence[list[int]]) -> list[list[int]]:
    """Layers in an order of few crossings, those that are too wide broken into rows."""
    place = [0.0] * len(above)

    def settle(layer: list[int]) -> None:
        for at, node in enumerate(layer):
            place[node] = (at + 0.5) / len(layer)

    for layer in layers:
        settle(layer)
    for sweep in range(SWEEPS):
        near, order = (above, layers) if sweep % 2 == 0 else (below, layers[::-1])
        for layer in order:
            mean = {node: sum(place[other] for other in near[node]) / len(near[node]) for node in layer if near[node]}
            layer.sort(key=lambda node, mean=mean: mean.get(node, place[node]))
            settle(layer)
    widest = max(LEAST_ROW, round(ROW_FACTOR * math.sqrt(len(above))))
    rows: list[list[int]] = []
    for layer in layers:
        parts = -(-len(layer) // widest)
        rows += [layer[part::parts] for part in range(parts)]
    return rows


def _places(rows: list[list[int]], above: Sequence[list[int]], below: Sequence[list[int]]) -> list[float]:
    """Places across: each towards the average of its neighbours, at least one column from the next of its row."""
    widest = max(map(len, rows))
    place = [0.0] * len(above)
    for row in rows:
        for at, node in enumerate(row):
            place[node] = at + (widest - len(row)) / 2
    for sweep in range(SWEEPS):
        near, order = (above, rows) if sweep % 2 == 0 else (below, rows[::-1])
        for row in order:
            wanted = [
                sum(place[other] for other in near[node]) / len(near[node]) if near[node] else place[node]
                for node in row
            ]
            for node, at in zip(row, _apart(wanted, widest), strict=True):
                place[node] = at
    return place


def _apart(wanted: list[float], widest: int) -> list[float]:
    """The least-squares places at least 1 apart, in order, between 0 and the width."""
    index = np.arange(len(wanted))
    shifts = isotonic_regression(np.array(wanted) - index).x
    return (np.clip(shifts, 0.0, widest - len(wanted)) + index).tolist()
