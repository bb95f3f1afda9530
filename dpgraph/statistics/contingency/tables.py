"""Contingency tables of encoded columns, by the fastest method; all methods give the same cells.

Plain numpy counts packed joint histograms. Where there are enough rows to repay loading the compiler, small tables are
bit-sliced by compiled loops in threads, also after calls that would have repaid it together. Arrays in, arrays out;
the choice affects the time only.
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
from dpgraph.statistics.contingency import _kernels, bitslice
from dpgraph.statistics.contingency.histograms import Column, Table, histogram_counts, packs
from dpgraph.waiting import result_of

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
    few = all(sizes[v] <= bitslice.MOST_LEVELS for v in table)
    return few and math.prod(sizes[v] for v in table) <= SLICED


def _paying_kernels(
    rows: int, sizes: Sequence[int], tables: Sequence[Table]
) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """The compiled loops if they are loaded already, or repaid by these rows, or would have been by those before."""
    if rows < bitslice.BLOCK:
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
    return bitslice.sliced_counts(columns, sizes, tables, kernels, stopped=stopped)


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
    part = -(-rows // threads // bitslice.BLOCK) * bitslice.BLOCK
    parts = [[column[start : start + part] for column in columns] for start in range(0, rows, part)]
    with ThreadPoolExecutor(threads) as pool:
        try:
            begun = [pool.submit(counted, stopped, one) for one in parts]
            return np.sum([result_of(one) for one in begun], axis=0)
        except BaseException:
            stopped.set()
            raise
