"""Contingency tables by joint histograms: each row's cell number, then one more in that cell.

The work grows with the rows alone and the memory besides the table with the block alone, so it serves large tables,
however sparse. Small tables are packed: one joint table is counted and each is a margin of it.
Arrays in, arrays out; codes, sizes and tables are as in ``bitslice``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dpgraph.statistics.bitslice import Column, Table

Integers = npt.NDArray[np.int64]

#: Rows numbered at once: their cells stay in cache.
BLOCK = 1 << 14
#: The most cells of a joint table that holds several: their numbers are uint16.
PACKED = 1 << 16


def histogram_counts(
    columns: Sequence[Column], sizes: Sequence[int], tables: Sequence[Table], packed: int = PACKED, block: int = BLOCK
) -> Integers:
    """Counts tables by numbering each row's cell.

    Args:
        columns: Codes, one array of n for each variable.
        sizes: The number of levels of each variable, above every code.
        tables: The tables to count.
        packed: The most cells of a joint table that is counted in place of several.
        block: Rows at once.

    Returns:
        The cells of all tables, one after another.

    >>> histogram_counts([np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint8)], [2, 3], [(0, 1), (1,)]).tolist()
    [0, 0, 1, 2, 0, 0, 2, 0, 1]
    """
    starts = np.cumsum([0, *(math.prod(sizes[v] for v in table) for table in tables)])
    total = np.zeros(starts[-1], np.int64)
    for joint, members in packs(tables, sizes, packed):
        alone = tables[members[0]] == joint
        into = total[starts[members[0]] : starts[members[0] + 1]] if alone else None
        counted = _joint_counts(columns, sizes, joint, into, block).reshape([sizes[v] for v in joint])
        for member in members[alone:]:
            axes = [joint.index(v) for v in tables[member]]
            rest = tuple(set(range(len(joint))) - set(axes))
            margin = counted.sum(axis=rest).transpose(np.argsort(np.argsort(axes)))
            total[starts[member] : starts[member + 1]] = margin.reshape(-1)
    return total


def packs(tables: Sequence[Table], sizes: Sequence[int], packed: int = PACKED) -> list[tuple[Table, list[int]]]:
    """Joint tables of at most ``packed`` cells and the tables that are margins of each; a larger table is alone.

    Greedy: each table, largest first, joins the pack whose joint table it enlarges least.

    >>> packs([(0, 1), (1, 2), (2, 3)], [10, 10, 10, 10], 1000)
    [((0, 1, 2), [0, 1]), ((2, 3), [2])]
    """
    made: list[tuple[Table, list[int]]] = []
    cells = [math.prod(sizes[v] for v in table) for table in tables]
    for at in sorted(range(len(tables)), key=lambda at: -cells[at]):
        best, least = None, packed + 1
        for number, (joint, _) in enumerate(made):
            grown = math.prod(sizes[v] for v in {*joint, *tables[at]})
            if grown < least:
                best, least = number, grown
        if best is None:
            made.append((tables[at], [at]))
        else:
            joint, members = made[best]
            made[best] = ((*joint, *(v for v in tables[at] if v not in joint)), [*members, at])
    return made


def _joint_counts(
    columns: Sequence[Column], sizes: Sequence[int], table: Table, total: Integers | None, block: int
) -> Integers:
    """One table's cells, added up in place block by block."""
    cells = math.prod(sizes[v] for v in table)
    if total is None:
        total = np.zeros(cells, np.int64)
    number = np.empty(block, np.uint16 if cells <= 1 << 16 else np.int64)
    for start in range(0, len(columns[table[0]]), block):
        cell = number[: len(columns[table[0]]) - start]
        np.copyto(cell, columns[table[0]][start : start + block])
        for v in table[1:]:
            np.multiply(cell, sizes[v], out=cell)
            np.add(cell, columns[v][start : start + block], out=cell)
        np.add.at(total, cell.astype(np.int64, copy=False), 1)
    return total
