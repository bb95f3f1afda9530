"""Contingency tables by bit-slicing: one bitmap per level, ANDed along each table and counted.

A block of rows becomes one bit a row for each variable and level. A cell's count is the number of bits left when the
bitmaps of its levels are ANDed. The work grows with the cells, so it pays for small tables; see ``histograms`` for
large ones. Arrays in, arrays out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Column = npt.NDArray[np.unsignedinteger[Any]]
#: A table is the positions of its variables; its cells are in C order.
Table = tuple[int, ...]
Step = tuple[Callable[..., Any], tuple[Any, ...]]

#: Rows sliced at once: the bitmaps of a table stay in cache. Fewer than 2^16, as the cells of a block are uint16.
BLOCK = 1 << 14
#: Cells whose words are summed at once.
CHUNK = 1024


def sliced_counts(
    columns: Sequence[Column], sizes: Sequence[int], tables: Sequence[Table], block: int = BLOCK
) -> Integers:
    """Counts tables by ANDing bitmaps.

    Args:
        columns: Codes, one array of n for each variable.
        sizes: The number of levels of each variable, above every code.
        tables: The tables to count.
        block: Rows at once, a multiple of 64 below 2^16.

    Returns:
        The cells of all tables, one after another.

    >>> sliced_counts([np.array([0, 1, 1], np.uint8), np.array([2, 0, 0], np.uint8)], [2, 3], [(0, 1)]).tolist()
    [0, 0, 1, 2, 0, 0]
    """
    rows = len(columns[0]) if columns else 0
    shapes = [[sizes[v] for v in table] for table in tables]
    total = np.zeros(sum(int(np.prod(shape)) for shape in shapes), np.int64)
    block = min(block, -(-rows // 64) * 64)
    if not rows or not tables:
        return total
    valid = np.empty(block // 64, np.uint64)
    masks: dict[int, Words] = {}
    groups: list[Callable[[int, int], None]] = []
    for size, members in groupby(sorted({v for table in tables for v in table}, key=sizes.__getitem__), sizes.__getitem__):
        group = list(members)
        stacked, fill = _level_masks([columns[v] for v in group], size, valid)
        masks.update(zip(group, stacked, strict=True))
        groups.append(fill)
    in_block = np.empty(len(total), np.uint16)
    program = list(_count_program([[masks[v] for v in table] for table in tables], in_block))
    for start in range(0, rows, block):
        stop = min(start + block, rows)
        valid.view(np.uint8)[:] = np.packbits(np.arange(block) < stop - start)
        for fill in groups:
            fill(start, stop)
        for function, arguments in program:
            function(*arguments)
        total += in_block
    return total


def _level_masks(columns: list[Column], size: int, valid: Words) -> tuple[Words, Callable[[int, int], None]]:
    """The bitmaps of variables alike in size, (variables, levels, words), and what fills them from rows start:stop."""
    kind = np.result_type(*columns)
    bits = (size - 1).bit_length()
    spread = np.zeros((len(columns), len(valid) * 64), kind)
    stages = [np.empty((len(columns), (size - 1 >> bit) + 1, len(valid)), np.uint64) for bit in range(bits, -1, -1)]

    def fill(start: int, stop: int) -> None:
        stages[0][:] = valid
        spread[:, stop - start :] = 0
        for bit, whole, parts in zip(range(bits - 1, -1, -1), stages, stages[1:], strict=False):
            for column, row in zip(columns, spread, strict=True):
                np.bitwise_and(column[start:stop], kind.type(1 << bit), out=row[: stop - start])
            plane = np.packbits(spread).view(np.uint64).reshape(len(columns), 1, -1)
            half = parts.shape[1] // 2
            np.bitwise_and(whole[:, :half], plane, out=parts[:, 1::2])
            np.bitwise_xor(whole[:, :half], parts[:, 1::2], out=parts[:, : 2 * half : 2])
            if parts.shape[1] % 2:  # no code has this bit after the last of an odd number of prefixes
                parts[:, -1] = whole[:, half]

    return stages[-1], fill


def _count_program(tables: Sequence[Sequence[Words]], in_block: npt.NDArray[np.uint16]) -> Iterator[Step]:
    """The steps that count one block from its bitmaps; every operand is a view made here, once."""
    words = tables[0][0].shape[1]
    cells = [int(np.prod([len(mask) for mask in table])) for table in tables]
    spare = [np.empty(max(cells) * words, np.uint64) for _ in range(2)]
    popcounts = np.empty((max(CHUNK, *cells) if len(cells) > 1 else max(CHUNK, cells[0]), words), np.uint8)
    first = last = 0
    for table, size in zip(tables, cells, strict=True):
        if last + size - first > len(popcounts):
            yield _sums(popcounts, in_block, first, last)
            first = last
        joint = table[0]
        for turn, mask in enumerate(table[1:]):
            both = spare[turn % 2][: len(joint) * len(mask) * words].reshape(len(joint), len(mask), words)
            yield np.bitwise_and, (joint[:, None], mask[None], both)
            joint = both.reshape(-1, words)
        yield np.bitwise_count, (joint, popcounts[last - first : last - first + size])
        last += size
    yield _sums(popcounts, in_block, first, last)


def _sums(popcounts: npt.NDArray[np.uint8], in_block: npt.NDArray[np.uint16], first: int, last: int) -> Step:
    """The step that sums the words of some cells."""
    return np.add.reduce, (popcounts[: last - first], 1, np.uint16, in_block[first:last])
