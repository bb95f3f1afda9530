"""Contingency tables by bit-slicing: one bitmap per level, ANDed along each table and counted.

A block of rows becomes one bit a row for each variable and level. A cell's count is the number of bits left when the
bitmaps of its levels are ANDed. The work grows with the cells, so it pays for small tables; see ``histograms`` for
large ones, and for small ones where nothing is compiled. Arrays in, arrays out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import Event

import numpy as np

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.contingency import _kernels
from dpgraph.statistics.contingency.histograms import Column, Table

#: Rows of a block, eight words a row of bitmaps in the first cache; and the bytes of the bitmaps made at once.
BLOCK = 1 << 15
MASKS = 1 << 22
#: Tables that are counted over a block of rows without hearing that nobody waits, some hundredths of a second.
LINES = 1 << 9
#: The most levels of a variable: its codes are bytes.
MOST_LEVELS = 256


def sliced_counts(
    columns: Sequence[Column],
    sizes: Sequence[int],
    tables: Sequence[Table],
    kernels: tuple[Callable[..., None], Callable[..., None]],
    block: int = BLOCK,
    stopped: Event | None = None,
) -> Integers:
    """The cells of all tables, one after another, each in C order, counted by ANDing bitmaps.

    ``kernels`` are ``slice_column`` and ``count_blocks``, compiled or plain; ``block``, the rows at once, is a multiple
    of 64. Once ``stopped`` is set the rest is left out, as nobody waits for it.
    """
    slice_column, count_blocks = kernels
    used = sorted({v for table in tables for v in table})
    first = dict(zip(used, np.cumsum([0, *(sizes[v] for v in used)]).tolist(), strict=False))
    rows_of_masks = sum(sizes[v] for v in used)
    lines, cells = _lines(sizes, tables, first)
    total, words, n = np.zeros(cells, np.int64), block // 64, len(columns[used[0]])
    blocks = min(max(1, MASKS // (rows_of_masks * words * 8)), max(1, -(-n // block)))
    codes = np.zeros(blocks * words * 8, np.uint64)
    masks, plane = np.empty((blocks, rows_of_masks, words), np.uint64), np.empty(words, np.uint64)
    every, path = np.full(words, ~np.uint64(0)), np.empty((max(map(len, tables)), words), np.uint64)
    at = np.zeros((max(map(len, tables)), 3), np.int64)
    for start in range(0, n, blocks * block):
        stop = min(start + blocks * block, n)
        taken = -(-(stop - start) // block)
        for v in used:
            if stopped is not None and stopped.is_set():
                return total
            codes.view(np.uint8)[: stop - start] = columns[v][start:stop]
            codes.view(np.uint8)[stop - start :] = 0
            slice_column(codes, sizes[v], first[v], masks[:taken], plane.view(np.uint8), plane)
        for line in range(0, len(lines), LINES):
            if stopped is not None and stopped.is_set():
                return total
            count_blocks(masks[:taken], lines[line : line + LINES], total, every, path, at)
    total[lines[:, _kernels.CELLS]] -= -n % block  # the last block was filled up with rows of zeros
    return total


def _lines(sizes: Sequence[int], tables: Sequence[Table], first: dict[int, int]) -> tuple[Integers, int]:
    """The tables as the kernels read them, the variable of most levels last, and the cells of all."""
    lines, start = np.zeros((len(tables), 2 + 3 * max(map(len, tables))), np.int64), 0
    for line, table in zip(lines, tables, strict=True):
        axes = [(first[v], sizes[v], math.prod(sizes[u] for u in table[i + 1 :])) for i, v in enumerate(table)]
        axes.sort(key=lambda axis: axis[1])
        line[: 2 + 3 * len(axes)] = [len(table), start, *(number for axis in axes for number in axis)]
        start += math.prod(sizes[v] for v in table)
    return lines, start
