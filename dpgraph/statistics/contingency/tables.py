"""Contingency tables of encoded columns, by the fastest method; all methods give the same cells.

Plain numpy counts packed joint histograms. Where there are enough rows to repay loading the compiler, small tables are
bit-sliced by compiled loops in threads, also after calls that would have repaid it together. Arrays in, arrays out;
the choice affects the time only.

Bit-slicing: a block of rows becomes one bit a row for each variable and level. The count of a cell is the number of
bits left when the bitmaps of its levels are ANDed. The work grows with the cells, so it pays for small tables.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event

import numpy as np

from dpgraph.privacy.arrays import Integers
from dpgraph.statistics.contingency import _kernels
from dpgraph.statistics.contingency.histograms import Column, Table, histogram_counts, packs
from dpgraph.waiting import result_of

#: Rows of a block, eight words a row of bitmaps in the first cache; and the bytes of the bitmaps made at once.
BLOCK = 1 << 15
MASKS = 1 << 22
#: Tables that are counted over a block of rows without hearing that nobody waits, some hundredths of a second.
LINES = 1 << 9
#: The most levels of a variable: its codes are bytes.
MOST_LEVELS = 256

#: The most cells of a table that is bit-sliced; above it a histogram is quicker (docs/performance.md).
SLICED = 600
#: Rows times histograms that take numpy about 1.5 s; loading compiled loops takes .6 s, and seconds the first time.
START_UP = 500_000_000
#: Rows times histograms that take numpy as long as loading the loops does.
LOADING = 200_000_000
#: Values that are worth a thread of their own, some ten milliseconds, and the most threads: more wait for memory.
THREAD_VALUES, THREADS = 1 << 25, 4


@dataclass
class _Past:
    """The rows times histograms that numpy has counted in this process, where the loops could have."""

    work: float = 0


_PAST = _Past()


def add_tables(
    columns: Sequence[Column],
    sizes: Sequence[int],
    tables: Sequence[Table],
    totals: Sequence[Integers],
    fast: bool | None = None,
) -> None:
    """Adds the counts of tables over encoded columns, in place.

    ``columns`` are codes, one array of n for each variable; ``sizes`` are the numbers of levels, above every code;
    ``tables`` the positions of their variables; ``totals`` the cells of each table in C order, flat. Compiled loops are
    used where they pay, unless ``fast`` says.

    >>> total = np.zeros(4, np.int64)
    >>> add_tables([np.array([0, 1, 1], np.uint8)] * 2, [2, 2], [(0, 1)], [total])
    >>> total.tolist()
    [1, 0, 0, 2]
    """
    rows = len(columns[0]) if columns else 0
    kernels = _kernels.compiled() if fast else None if fast is False else _paying_kernels(rows, sizes, tables)
    sliced = [at for at, table in enumerate(tables) if kernels and _small(table, sizes)]
    if kernels and sliced and rows:
        cells = _in_threads(partial(_sliced, sizes, [tables[at] for at in sliced], kernels), columns, rows)
        ends = np.cumsum([len(totals[at]) for at in sliced])[:-1]
        for at, counted in zip(sliced, np.split(cells, ends), strict=True):
            np.add(totals[at], counted, out=totals[at])
    rest = sorted(set(range(len(tables))) - set(sliced))
    histogram_counts(columns, sizes, [tables[at] for at in rest], [totals[at] for at in rest])


def _small(table: Table, sizes: Sequence[int]) -> bool:
    few = all(sizes[v] <= MOST_LEVELS for v in table)
    return few and math.prod(sizes[v] for v in table) <= SLICED


def _paying_kernels(
    rows: int, sizes: Sequence[int], tables: Sequence[Table]
) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """The compiled loops if they are loaded already, or repaid by these rows, or would have been by those before."""
    if rows < BLOCK:
        return None
    loaded = _kernels.compiled.cache_info().currsize > 0
    work = 0 if loaded else rows * len(packs(tuple(tables), tuple(sizes)))
    if not (loaded or work >= START_UP or _PAST.work >= LOADING):
        _PAST.work += work
        return None
    try:
        return _kernels.compiled()
    except RuntimeError:  # numba has nowhere to keep its machine code
        _PAST.work = -math.inf
        return None


def _sliced(
    sizes: Sequence[int],
    tables: Sequence[Table],
    kernels: tuple[Callable[..., None], Callable[..., None]],
    stopped: Event,
    columns: Sequence[Column],
) -> Integers:
    """``sliced_counts`` with the columns as the last argument."""
    return sliced_counts(columns, sizes, tables, kernels, stopped=stopped)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _in_threads(
    counted: Callable[[Event, Sequence[Column]], Integers], columns: Sequence[Column], rows: int
) -> Integers:
    """The sum of the counts of equal parts of the rows, one thread each; an interruption stops them all."""
    stopped = Event()
    threads = max(1, min(THREADS, processors(), rows * len(columns) // THREAD_VALUES))
    if threads == 1:
        return counted(stopped, columns)
    part = -(-rows // threads // BLOCK) * BLOCK
    parts = [[column[start : start + part] for column in columns] for start in range(0, rows, part)]
    with ThreadPoolExecutor(threads) as pool:
        try:
            begun = [pool.submit(counted, stopped, one) for one in parts]
            return np.sum([result_of(one) for one in begun], axis=0)
        except BaseException:
            stopped.set()
            raise


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
