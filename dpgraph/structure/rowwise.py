"""Arithmetic on rows in which each row's result depends on that row alone, to the last bit (promise.md S24).

A float sum depends on its order, and BLAS and numpy's reductions choose it by the number of rows and their place in
memory: one row more may then flip the predictions of all others. Sums here are element-wise, in a public order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]

#: Rows of a block.
BLOCK = 1024


def added(parts: Iterable[Reals]) -> Reals:
    """The sum of arrays of one shape, or over the first axis of an array: one after another.

    >>> added(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist()
    [4.0, 6.0]
    """
    return reduce(np.add, parts)


def weighted(columns: Reals, weights: Reals) -> Reals:
    """The sum of columns times their weights, shape (rows,): no product of matrices.

    >>> weighted(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([10.0, 1.0])).tolist()
    [12.0, 34.0]
    """
    return added(column * weight for column, weight in zip(columns.T, weights, strict=True))


@np.errstate(all="ignore")
def in_blocks(function: Callable[[npt.NDArray[Any]], Reals], rows: npt.NDArray[Any], length: int = BLOCK) -> Reals:
    """The numbers that a function has for rows, asked in blocks of one length, the last filled with rows of zeros.

    For functions whose last bits may differ between the body and the rest of an array: exp, log. No warning of numpy
    tells of a row.

    >>> in_blocks(np.exp, np.array([0.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    found = np.empty(len(rows))
    for start in range(0, len(rows), length):
        part, block = rows[start : start + length], np.zeros((length, *rows.shape[1:]), rows.dtype)
        block[: len(part)] = part
        found[start : start + length] = function(block)[: len(part)]
    return found
