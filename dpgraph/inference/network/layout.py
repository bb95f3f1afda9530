"""A network and its evidence as flat arrays for the kernels, and tables back from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network._kernels import Layout
from dpgraph.inference.network.evidence import Evidence
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Integers, Reals


def kernel_layout(given: Evidence, concentration: Mapping[str, Reals]) -> Layout:
    """The arrays of the released tables and of the Dirichlet prior of every variable, axes (variable, *parents)."""
    network, tables = given.network, given.tables
    position = {name: v for v, name in enumerate(network.order)}
    below = _descendants(network)
    reached = [{v, *mine} for v, mine in enumerate(below)]
    held = [{position[name] for name in table.variables} for table in tables]
    touched = [[t for t, mine in enumerate(held) if mine & under] for under in reached]
    sizes = [network.domain.sizes[name] for name in network.order]
    rows = [network.cells(network.parents[name]) for name in network.order]
    cells = [many * size for many, size in zip(rows, sizes, strict=True)]
    nodes = zip(sizes, _starts(cells), _starts(rows), strict=True)
    widths = [table.values.size for table in tables]
    dense = [0 if table.weights is None else table.weights.size for table in tables]
    weights = [start if size else -1 for start, size in zip(_starts(dense), dense, strict=True)]
    measured = zip(_starts(widths), widths, weights, strict=True)
    return Layout(
        nodes=_lines(nodes, [_pairs(network, position, network.parents[name]) for name in network.order]),
        tables=_lines(measured, [_pairs(network, position, table.variables) for table in tables]),
        laws=np.array([table.noise.penalties for table in tables], float).reshape(-1, 2),
        weights=np.concatenate(
            [np.zeros(0, np.int64), *(t.weights.reshape(-1) for t in tables if t.weights is not None)]
        ),
        prior=flat_tables(network, concentration),
        below=_padded([[len(mine), *mine] for mine in below]),
        touched=_padded([[len(mine), *mine] for mine in touched]),
    )


def flat_tables(network: Network, tables: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Tables with axes (variable, *parents) end to end, parents before children, row by row."""
    return np.concatenate([tables[name].reshape(len(tables[name]), -1).T.reshape(-1) for name in network.order])


def tables_from_flat(network: Network, flat: Reals) -> dict[str, Reals]:
    """The inverse of ``flat_tables`` along the last axis; other axes come first in each table."""
    tables: dict[str, Reals] = {}
    at = 0
    for name in network.order:
        family = network.family(name)
        size, cells, lead = network.domain.sizes[name], network.cells(family), flat.shape[:-1]
        rows = flat[..., at : at + cells].reshape(*lead, cells // size, size)
        tables[name] = np.moveaxis(rows, -1, len(lead)).reshape(*lead, *network.shape(family))
        at += cells
    return {name: tables[name] for name in network.domain.names}


def _descendants(network: Network) -> list[list[int]]:
    """The descendants of each variable, by number, parents before children."""
    position = {name: v for v, name in enumerate(network.order)}
    under: list[set[int]] = [set() for _ in position]
    for name in reversed(network.order):
        for parent in network.parents[name]:
            under[position[parent]] |= {position[name], *under[position[name]]}
    return [sorted(mine) for mine in under]


def _pairs(network: Network, position: Mapping[str, int], names: Family) -> list[int]:
    """Each variable's number, and how far apart its neighbouring levels are in a table stored in C order."""
    pairs: list[int] = []
    stride = network.cells(names)
    for name in names:
        stride //= network.domain.sizes[name]
        pairs += [position[name], stride]
    return pairs


def _lines(headers: Iterable[tuple[int, int, int]], pairs: list[list[int]]) -> Integers:
    """A line for each node or table: how many pairs, its header, the pairs."""
    return _padded([[len(mine) // 2, *header, *mine] for header, mine in zip(headers, pairs, strict=True)])


def _padded(lines: list[list[int]]) -> Integers:
    """Lists of unequal length as one array."""
    array = np.zeros((len(lines), max(map(len, lines), default=0)), np.int64)
    for at, line in enumerate(lines):
        array[at, : len(line)] = line
    return array


def _starts(sizes: list[int]) -> list[int]:
    return list(accumulate(sizes, initial=0))[:-1]
