"""The inner loops of bit-sliced counting: arrays in, arrays out.

The source is plain Python. numba compiles it; tests run it plain too, and both give the same counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Words

#: Columns of a table's line: how many variables, where its cells start; then for each variable the row of its first
#: bitmap, its levels and its stride in the cell's number.
DEPTH, CELLS, AXES = 0, 1, 2
ROW, LEVELS, STRIDE = 0, 1, 2
_LOW_BITS, _GATHER = np.uint64(0x0101010101010101), np.uint64(0x0102040810204080)
_ONES, _PAIRS = np.uint64(0x5555555555555555), np.uint64(0x3333333333333333)
_NIBBLES = np.uint64(0x0F0F0F0F0F0F0F0F)
_1, _2, _4, _56 = np.uint64(1), np.uint64(2), np.uint64(4), np.uint64(56)


def slice_column(
    codes: Words, levels: int, first: int, masks: Words, plane: npt.NDArray[np.uint8], bits: Words
) -> None:
    """Makes the bitmap of each level of one variable, one bit a row."""
    blocks, words = masks.shape[0], masks.shape[2]
    for block in range(blocks):
        part = codes[block * words * 8 : (block + 1) * words * 8]
        for level in range(levels):
            masks[block, first + level, :] = ~np.uint64(0)
        bit = 0
        while (levels - 1) >> bit:
            shift = np.uint64(bit)
            for i in range(part.size):
                plane[i] = (((part[i] >> shift) & _LOW_BITS) * _GATHER) >> _56
            for level in range(levels):
                flip = np.uint64(0) if (level >> bit) & 1 else ~np.uint64(0)
                mask = masks[block, first + level]
                for w in range(words):
                    mask[w] &= bits[w] ^ flip
            bit += 1


def popcount(word: Any) -> Any:
    """The number of bits set in a word, in a form that compilers recognise."""
    word = word - ((word >> _1) & _ONES)
    word = (word & _PAIRS) + ((word >> _2) & _PAIRS)
    return (((word + (word >> _4)) & _NIBBLES) * _LOW_BITS) >> _56


def intersect(one: Words, other: Words, both: Words) -> Any:
    """Writes the AND of two bitmaps and counts its bits."""
    count = np.uint64(0)
    for w in range(one.size):
        word = one[w] & other[w]
        both[w] = word
        count += popcount(word)
    return np.int64(count)


def count_common(one: Words, other: Words) -> Any:
    """Counts the bits of the AND of two bitmaps."""
    count = np.uint64(0)
    for w in range(one.size):
        count += popcount(one[w] & other[w])
    return np.int64(count)


def count_leaves(whole: Words, found: int, masks: Words, axis: Integers, cell: int, total: Integers) -> None:
    """Adds the counts of the last variable's levels under one configuration; the last level has the rest."""
    row, levels, stride = axis[ROW], axis[LEVELS], axis[STRIDE]
    for level in range(levels - 1):
        if found == 0:
            return
        count = count_common(whole, masks[row + level])
        total[cell + level * stride] += count
        found -= count
    total[cell + (levels - 1) * stride] += found


def count_block(masks: Words, tables: Integers, total: Integers, every: Words, path: Words, at: Integers) -> None:
    """Adds one block's counts of all tables, depth first over configurations and never under an empty one."""
    rows = 64 * every.size
    for t in range(tables.shape[0]):
        depth, last = 0, tables[t, DEPTH] - 1
        axes = tables[t, AXES : AXES + 3 * (last + 1)].reshape(last + 1, 3)
        if last == 0:
            count_leaves(every, rows, masks, axes[0], tables[t, CELLS], total)
            continue
        at[0, 0], at[0, 1], at[0, 2] = 0, rows, tables[t, CELLS]
        while depth >= 0:
            level = at[depth, 0]
            if level == axes[depth, LEVELS] or at[depth, 1] == 0:
                depth -= 1
                continue
            found = intersect(every if depth == 0 else path[depth - 1], masks[axes[depth, ROW] + level], path[depth])
            cell = at[depth, 2] + level * axes[depth, STRIDE]
            at[depth, 0] += 1
            at[depth, 1] -= found
            if found == 0:
                continue
            if depth == last - 1:
                count_leaves(path[depth], found, masks, axes[last], cell, total)
            else:
                depth += 1
                at[depth, 0], at[depth, 1], at[depth, 2] = 0, found, cell


def count_blocks(masks: Words, tables: Integers, total: Integers, every: Words, path: Words, at: Integers) -> None:
    """``count_block`` for each of some blocks, masks of shape (blocks, rows, words)."""
    for block in range(masks.shape[0]):
        count_block(masks[block], tables, total, every, path, at)


@cache
def compiled() -> tuple[Callable[..., None], Callable[..., None]]:
    """``slice_column`` and ``count_blocks`` compiled; the machine code is kept on disk."""
    import numba
    from numba.extending import register_jitable

    for function in (popcount, intersect, count_common, count_leaves, count_block):
        register_jitable(forceinline=function is not count_block)(function)
    return numba.njit(slice_column, cache=True, nogil=True), numba.njit(count_blocks, cache=True, nogil=True)
