"""Contingency tables of encoded columns, by the fastest method; all methods give the same cells.

Plain numpy counts packed joint histograms: work grows with the rows alone. Where enough rows repay loading the
compiler, small tables are bit-sliced in threads: a cell's count is the bits left when bitmaps of its levels are ANDed.
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from threading import Event

import numpy as np

from dpgraph.privacy.checks import Integers, Unsigned
from dpgraph.waiting import result_of

Column = Unsigned
#: A table is the positions of its variables; its cells are in C order.
Table = tuple[int, ...]
#: Rows numbered at once: their cells stay in cache.
NUMBERED = 1 << 16
#: The most cells of a joint table that holds several: their numbers are uint16.
PACKED = 1 << 16
#: A variable in more packs than this is a hub: of its packs only the smallest is looked at.
HUB = 32
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


#: The rows times histograms that numpy has counted in this process, where the loops could have.
_PAST = {"work": 0.0}


def add_tables(
    columns: Sequence[Column],
    sizes: Sequence[int],
    tables: Sequence[Table],
    totals: Sequence[Integers],
    fast: bool | None = None,
) -> None:
    """Adds counts of tables (positions of variables) to ``totals``, flat in C order; compiled where it pays."""
    rows = len(columns[0]) if columns else 0
    kernels = _paying_kernels(rows, sizes, tables, fast)
    narrow = [all(sizes[v] <= MOST_LEVELS for v in table) for table in tables]
    cells = [math.prod(sizes[v] for v in table) for table in tables]
    sliced = [at for at in range(len(tables)) if kernels and narrow[at] and cells[at] <= SLICED]
    if kernels and sliced and rows:
        small = [tables[at] for at in sliced]

        def counted(stopped: Event, part: Sequence[Column]) -> Integers:
            return sliced_counts(part, sizes, small, kernels, stopped=stopped)

        ends = np.cumsum([len(totals[at]) for at in sliced])[:-1]
        for at, found in zip(sliced, np.split(_in_threads(counted, columns, rows), ends), strict=True):
            np.add(totals[at], found, out=totals[at])
    rest = sorted(set(range(len(tables))) - set(sliced))
    histogram_counts(columns, sizes, [tables[at] for at in rest], [totals[at] for at in rest])


def _paying_kernels(
    rows: int, sizes: Sequence[int], tables: Sequence[Table], fast: bool | None
) -> tuple[Callable[..., None], Callable[..., None]] | None:
    """The compiled loops if they are loaded already, or repaid by these rows, or would have been by those before."""
    if fast is False or (fast is None and rows < BLOCK):
        return None
    from dpgraph.statistics import _kernels

    if fast:
        return _kernels.compiled()
    loaded = _kernels.compiled.cache_info().currsize > 0
    work = 0 if loaded else rows * len(packs(tuple(tables), tuple(sizes)))
    if not (loaded or work >= START_UP or _PAST["work"] >= LOADING):
        _PAST["work"] += work
        return None
    try:
        return _kernels.compiled()
    except RuntimeError:  # numba has nowhere to keep its machine code
        _PAST["work"] = -math.inf
        return None


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
    """The cells of all tables, each in C order, by ANDing bitmaps of ``block`` rows until ``stopped`` is set."""
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
    total[lines[:, 1]] -= -n % block  # the last block was filled up with rows of zeros
    return total


def _lines(sizes: Sequence[int], tables: Sequence[Table], first: dict[int, int]) -> tuple[Integers, int]:
    """Tables as lines (axes, first cell; bitmap, levels, stride by variable, most levels last), and all cells."""
    lines, start = np.zeros((len(tables), 2 + 3 * max(map(len, tables))), np.int64), 0
    for line, table in zip(lines, tables, strict=True):
        axes = [(first[v], sizes[v], math.prod(sizes[u] for u in table[i + 1 :])) for i, v in enumerate(table)]
        axes.sort(key=lambda axis: axis[1])
        line[: 2 + 3 * len(axes)] = [len(table), start, *(number for axis in axes for number in axis)]
        start += math.prod(sizes[v] for v in table)
    return lines, start


def histogram_counts(
    columns: Sequence[Column],
    sizes: Sequence[int],
    tables: Sequence[Table],
    totals: Sequence[Integers],
    packed: int | None = None,
    block: int = NUMBERED,
) -> None:
    """Adds the counts of tables in place, by each row's cell; a joint of at most ``packed`` cells counts several."""
    if packed is None:
        packed = min(PACKED, 1 << len(columns[0]).bit_length() >> 2) if columns else 1
    for joint, members in packs(tuple(tables), tuple(sizes), packed):
        alone = len(members) == 1
        cells = math.prod(sizes[v] for v in joint)
        total = totals[members[0]] if alone else np.zeros(cells, np.int64)
        _add_joint(columns, sizes, joint, total, block)
        whole = total.reshape([sizes[v] for v in joint])
        for member in () if alone else members:
            table = tables[member]
            rest = tuple(axis for axis, v in enumerate(joint) if v not in table)
            kept = [v for v in joint if v in table]
            totals[member][:] += whole.sum(axis=rest).transpose([kept.index(v) for v in table]).reshape(-1)


@lru_cache(maxsize=64)
def packs(
    tables: tuple[Table, ...], sizes: tuple[int, ...], packed: int = PACKED
) -> tuple[tuple[Table, tuple[int, ...]], ...]:
    """Joint tables of at most ``packed`` cells and their margins: each table joins the pack it enlarges least."""
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


def _add_joint(columns: Sequence[Column], sizes: Sequence[int], table: Table, total: Integers, block: int) -> None:
    """Adds the counts of one table, by each row's cell number, in the narrowest numbers that hold it."""
    rows = len(columns[table[0]])
    varying = [v for v in table if sizes[v] > 1] or table[:1]  # one level adds nothing
    narrow, wide = (np.empty(min(block, rows), kind) for kind in (np.uint16, np.int64))
    for start in range(0, rows, block):
        cells = wide[: rows - start]
        numbers = narrow[: rows - start] if len(total) <= PACKED else cells
        np.copyto(numbers, columns[varying[0]][start : start + block], casting="unsafe")
        for v in varying[1:]:
            np.multiply(numbers, sizes[v], out=numbers)
            np.add(numbers, columns[v][start : start + block], out=numbers, casting="unsafe")
        np.copyto(cells, numbers)
        np.add.at(total, cells, 1)
