"""A network as a drawing, and what the page's program knows of its variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpgraph.pages.blocks import Graph
from dpgraph.structure.layout import layered
from dpgraph.structure.network import Network

#: Levels of a variable that the page names.
MOST_LEVELS = 60


def drawn(network: Network, label: str, hint: str, arc_rows: Sequence[Mapping[str, Any]] = ()) -> Graph:
    """The DAG; ``hint`` says what choosing a variable shows, and arcs are as wide as they cost."""
    places, position = layered(network), network.position
    prices = {(row["parent"], row["child"]): row["cost"] for row in arc_rows}
    dearest = max(prices.values(), default=1.0)
    arcs = [
        (
            position[parent],
            position[child],
            (prices.get((parent, child), 1.0) - 1) / (dearest - 1) if dearest > 1 else 0.0,
        )
        for child, parents in network.parents.items()
        for parent in parents
    ]
    return Graph(network.domain.names, arcs, places.across, places.down, places.width, places.height, label, hint)


def plain_graph(network: Network, measures: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """Names, parents, levels, and numbers to colour variables by: ``name``, ``words`` and ``values`` of each."""
    position, domain = network.position, network.domain
    return {
        "names": list(domain.names),
        "parents": [[position[parent] for parent in network.parents[name]] for name in domain.names],
        "levels": [_levels(network, name) for name in domain.names],
        "cells": [network.cells(family) for family in network.families],
        "measures": list(measures),
    }


def _levels(network: Network, name: str) -> list[str]:
    """The levels' names, the first ones of very many."""
    levels = [str(level) for level in network.domain.levels(name)]
    more = len(levels) - MOST_LEVELS
    return levels if more <= 0 else [*levels[:MOST_LEVELS], f"and {more:,} more"]
