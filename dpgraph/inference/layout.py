"""A network and its evidence as flat arrays for the kernels, and tables back from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference._kernels import Layout
from dpgraph.inference.evidence import Evidence, MeasuredTable
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Integers, Reals


def layout_of(given: Evidence, concentration: Mapping[str, Reals]) -> Layout:
    """The arrays.

    Args:
        given: The released tables.
        concentration: The Dirichlet prior of every variable, axes (variable, *parents).
    """
    network, tables = given.network, given.tables
    position = {name: v for v, name in enumerate(network.order)}
    parents = [network.parents[name] for name in network.order]
    below = _descendants(network)
    touched = [
        [t for t, table in enumerate(tables) if any(position[u] in {v, *below[v]} for u in table.variables)]
        for v in range(len(position))
    ]
    weights = [table.weights for table in tables]
    weight_sizes = [0 if matrix is None else matrix.size for matrix in weights]
    dense = [-1 if matrix is None else at for matrix, at in zip(weights, _starts(weight_sizes), strict=False)]
    return Layout(
        levels=_integers(network.domain.sizes[name] for name in network.order),
        parent_start=_starts(map(len, parents)),
        parents=_integers(position[u] for names in parents for u in names),
        parent_strides=_integers(s for names in parents for s in _strides(network, names)),
        theta_start=_starts(network.cells(network.family(name)) for name in network.order),
        row_start=_starts(network.cells(names) for names in parents),
        prior=flattened(network, concentration),
        below_start=_starts(map(len, below)),
        below=_integers(u for under in below for u in under),
        touched_start=_starts(map(len, touched)),
        touched=_integers(t for mine in touched for t in mine),
        table_start=_starts(len(table.variables) for table in tables),
        table_variables=_integers(position[u] for table in tables for u in table.variables),
        table_strides=_integers(s for table in tables for s in _strides(network, table.variables)),
        residual_start=_starts(table.values.size for table in tables),
        weight_start=_integers(dense),
        weights=np.concatenate([np.zeros(0, np.int64), *(m.reshape(-1) for m in weights if m is not None)]),
        rate=np.array([_rate(table) for table in tables], float),
        gaussian=np.array([table.gaussian for table in tables], bool),
    )


def flattened(network: Network, tables: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Tables with axes (variable, *parents) end to end, parents before children, row by row."""
    return np.concatenate([tables[name].reshape(network.domain.sizes[name], -1).T.reshape(-1) for name in network.order])


def unflattened(network: Network, flat: Reals) -> dict[str, Reals]:
    """The inverse of ``flattened`` along the last axis; other axes come first in each table."""
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


def _rate(table: MeasuredTable) -> float:
    """What a unit of |residual|, or of its square, costs in log-likelihood."""
    return 1 / (2 * table.scale**2) if table.gaussian else 1 / table.scale


def _strides(network: Network, names: Family) -> Sequence[int]:
    """How far apart neighbouring levels of each variable are in a table stored in C order."""
    sizes = network.shape(names)
    return list(accumulate(sizes[:0:-1], int.__mul__, initial=1))[::-1] if sizes else []


def _starts(sizes: Any) -> Integers:
    """Where each part starts, and the end."""
    return np.concatenate([[0], np.cumsum(_integers(sizes))]).astype(np.int64)


def _integers(values: Any) -> Integers:
    return np.array(list(values), np.int64)
