"""The result of a row is its own to the last bit, whatever rows stand beside it and wherever it lies in memory."""

import warnings

import numpy as np
import pytest

from dpgraph.structure.conversion import BLOCK, added, in_blocks, weighted

ROWS = np.random.default_rng(0).random((300, 9))


def placed(rows):
    """The same rows by numbers, orders of memory and places."""
    yield rows
    yield np.asfortranarray(rows)
    yield np.repeat(rows, 3, axis=0)[::3]
    yield rows[::-1][::-1].copy()


def test_sums_are_those_of_each_row_alone():
    """numpy's own sum over the last axis of these is another one in C's order and in Fortran's."""
    weights = np.linspace(-1, 2, 9) ** 3
    assert (ROWS.sum(axis=1) != np.asfortranarray(ROWS).sum(axis=1)).any()
    for function in (lambda rows: added(rows.T), lambda rows: weighted(rows, weights)):
        alone = np.concatenate([function(row[None]) for row in ROWS])
        for rows in placed(ROWS):
            assert (function(rows) == alone).all()


@pytest.mark.parametrize("rows", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1])
def test_a_function_is_asked_in_blocks_of_one_length(rows):
    asked = []

    def function(block):
        asked.append(block.shape)
        return np.log(block[:, 0])

    values = np.resize(ROWS, (rows, 9))
    assert (in_blocks(function, values) == np.log(values[:, 0])).all()
    assert set(asked) <= {(BLOCK, 9)}


def test_no_warning_of_numpy_tells_of_a_row():
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert in_blocks(np.log, np.array([0.0, 1.0])).tolist() == [-np.inf, 0.0]
