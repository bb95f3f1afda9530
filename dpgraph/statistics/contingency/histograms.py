"""Contingency tables by joint histograms of cell numbers.

The work grows with the rows alone and the memory besides the table with the block alone, so it serves large tables,
however sparse. Small tables are packed: one joint table is counted and each is a margin of it.
Arrays in, arrays out; codes, sizes and tables are as in ``tables``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from dpgraph.privacy.arrays import Integers, Unsigned

Column = Unsigned
#: A table is the positions of its variables; its cells are in C order.
Table = tuple[int, ...]

#: Rows numbered at once: their cells stay in cache.
BLOCK = 1 << 16
#: The most cells of a joint table that holds several: their numbers are uint16.
PACKED = 1 << 16
#: A variable in more packs than this is a hub: of its packs only the smallest is looked at.
HUB = 32


def histogram_counts(
    columns: Sequence[Column],
    sizes: Sequence[int],
    tables: Sequence[Table],
    totals: Sequence[Integers],
    packed: int | None = None,
    block: int = BLOCK,
) -> None:
    """Adds the counts of tables, in place, by numbering each row's cell, ``block`` rows at once.

    ``sizes`` are the numbers of levels, above every code; ``totals`` the cells of each table in C order, flat. A joint
    table of at most ``packed`` cells is counted in place of several: by default about a quarter of the rows, as its
    cells are all read once, and PACKED at most.

    >>> totals = np.zeros(6, np.int64), np.zeros(3, np.int64)
    >>> columns = [np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint8)]
    >>> histogram_counts(columns, [2, 3], [(0, 1), (1,)], totals)
    >>> totals[0].tolist(), totals[1].tolist()
    ([0, 0, 1, 2, 0, 0], [2, 0, 1])
    """
    if packed is None:
        packed = min(PACKED, 1 << len(columns[0]).bit_length() >> 2) if columns else 1
    for joint, members in packs(tuple(tables), tuple(sizes), packed):
        alone = len(members) == 1
        cells = math.prod(sizes[v] for v in joint)
        total = totals[members[0]] if alone else np.zeros(cells, np.int64)
        _add_joint(columns, sizes, joint, total, block)
        for member in () if alone else members:
            totals[member][:] += _margin(total.reshape([sizes[v] for v in joint]), joint, tables[member])


@lru_cache(maxsize=64)
def packs(
    tables: tuple[Table, ...], sizes: tuple[int, ...], packed: int = PACKED
) -> tuple[tuple[Table, tuple[int, ...]], ...]:
    """Joint tables of at most ``packed`` cells and the tables that are margins of each; a larger table is alone.

    Greedy: each table, largest first, joins the pack whose joint table it enlarges least. It looks at the packs that
    share a variable with it, where few do, and at the smallest of each variable of many packs and of all: of the packs
    that share the same variables with a table the smallest is enlarged least.

    >>> packs(((0, 1), (1, 2), (2, 3)), (10, 10, 10, 10), 1000)
    (((0, 1, 2), (0, 1)), ((2, 3), (2,)))
    """
    packing = _Packing(sizes)
    cells = [math.prod(sizes[v] for v in table) for table in tables]
    for at in sorted(range(len(tables)), key=lambda at: -cells[at]):
        grown, best = min(packing.grown(tables[at]), default=(0, -1))
        packing.put(tables[at], at, best if best >= 0 and grown <= packed else None)
    return tuple((tuple(joint), tuple(members)) for joint, members in packing.made)


class _Packing:
    """Packs as they are made: a joint table, its variables in the order they came, and its members; see ``packs``."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self._sizes = sizes
        self.made: list[tuple[dict[int, None], list[int]]] = []
        self._cells: list[int] = []
        self._with: dict[int, list[int]] = {}
        self._smallest: dict[int | None, list[tuple[int, int]]] = {None: []}  # heaps, with entries that are out of date

    def grown(self, table: Table) -> Iterator[tuple[int, int]]:
        """The cells of each pack worth a look once a table has joined it, and which pack."""
        near = set(self._least(None))
        for v in table:
            sharing = self._with.get(v, [])
            near.update(sharing if len(sharing) <= HUB else self._least(v))
        for pack in near:
            joint = self.made[pack][0]
            yield self._cells[pack] * math.prod(self._sizes[v] for v in table if v not in joint), pack

    def put(self, table: Table, at: int, pack: int | None) -> None:
        """Adds a table to a pack, or to a new one."""
        if pack is None:
            pack = len(self.made)
            self.made.append(({}, []))
            self._cells.append(1)
        joint, members = self.made[pack]
        members.append(at)
        new = [v for v in table if v not in joint]
        joint.update(dict.fromkeys(new))
        for v in new:
            self._with.setdefault(v, []).append(pack)
        if new or len(members) == 1:
            self._cells[pack] *= math.prod(self._sizes[v] for v in new)
            for v in (None, *joint):
                heapq.heappush(self._smallest.setdefault(v, []), (self._cells[pack], pack))

    def _least(self, v: int | None) -> list[int]:
        """The smallest pack with a variable, or of all; none where there is none."""
        heap = self._smallest[v]
        while heap and self._cells[heap[0][1]] != heap[0][0]:
            heapq.heappop(heap)
        return [heap[0][1]] if heap else []


def _margin(counted: Integers, joint: Table, table: Table) -> Integers:
    """The cells of one table, flat, from a joint table that holds its variables."""
    rest = tuple(axis for axis, v in enumerate(joint) if v not in table)
    kept = [v for v in joint if v in table]
    return counted.sum(axis=rest).transpose([kept.index(v) for v in table]).reshape(-1)


def _add_joint(columns: Sequence[Column], sizes: Sequence[int], table: Table, total: Integers, block: int) -> None:
    """Adds one table's counts block by block."""
    rows = len(columns[table[0]])
    room = [np.empty(min(block, rows), kind) for kind in (np.uint8, np.uint16, np.int64)]
    varying = tuple(v for v in table if sizes[v] > 1) or table[:1]  # one level adds nothing
    pieces = list(_pieces(varying, sizes))
    for start in range(0, rows, block):
        taken = {v: columns[v][start : start + block] for v in varying}
        np.add.at(total, _cell_numbers(taken, sizes, pieces, len(total), room), 1)


def _pieces(table: Table, sizes: Sequence[int]) -> Iterator[Table]:
    """Parts of a table whose cells fit in a byte each, since narrow numbers are faster to compute."""
    piece: Table = ()
    for v in table:
        if piece and math.prod(sizes[u] for u in (*piece, v)) > 1 << 8:
            yield piece
            piece = ()
        piece = (*piece, v)
    yield piece


def _cell_numbers(
    columns: Mapping[int, Column], sizes: Sequence[int], pieces: Sequence[Table], cells: int, room: Sequence[Any]
) -> Integers:
    """The cell of each row of a block, written into the given buffers."""
    narrow, middle, wide = (array[: len(columns[pieces[0][0]])] for array in room)
    whole = middle if cells <= 1 << 16 else wide
    for at, piece in enumerate(pieces):
        levels = math.prod(sizes[v] for v in piece)
        part = _raveled(columns, sizes, piece, narrow) if levels <= 1 << 8 else columns[piece[0]]
        if at == 0:
            np.copyto(whole, part, casting="unsafe")
        else:
            np.multiply(whole, levels, out=whole)
            np.add(whole, part, out=whole, casting="unsafe")
    np.copyto(wide, whole)
    return wide


def _raveled(columns: Mapping[int, Column], sizes: Sequence[int], piece: Table, into: Column) -> Column:
    """The cell numbers of a part of a table; those of a single column are its codes."""
    if len(piece) == 1:
        return columns[piece[0]]
    np.multiply(columns[piece[0]], sizes[piece[1]], out=into, casting="unsafe")
    np.add(into, columns[piece[1]], out=into, casting="unsafe")
    for v in piece[2:]:
        np.multiply(into, sizes[v], out=into)
        np.add(into, columns[v], out=into, casting="unsafe")
    return into
