"""What benchmarks/splits.py prints: splitters lose more than is charged, and folds by position do not."""

import itertools
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.model_selection import KFold, StratifiedKFold

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import splits as study


@pytest.fixture(autouse=True)
def small_classes():
    """scikit-learn speaks of classes with fewer members than folds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@pytest.mark.proof
@pytest.mark.parametrize(
    ("splitter", "unit", "rows", "at_least"),
    [
        (StratifiedKFold(5), "replace", 20, 11.5),
        (StratifiedKFold(5, shuffle=True, random_state=0), "replace", 50, 32),
        (KFold(5), "add-remove", 20, 12),
        (KFold(5, shuffle=True, random_state=0), "add-remove", 50, 56),
    ],
    ids=str,
)
def test_a_splitter_that_moves_other_rows_loses_more_than_the_five_charged(splitter, unit, rows, at_least):
    """Found by search, so these are lower bounds; the search is seeded."""
    assert study.largest_loss(splitter, unit, rows, steps=500, restarts=2) >= at_least


def test_without_a_shuffle_kfold_under_add_remove_loses_twelve_and_no_more():
    """The row is in 4 training sets, and at each of 4 borders one row at most leaves one and enters another."""
    assert study.largest_loss(KFold(5), "add-remove", 20, steps=500, restarts=2) == 12


@pytest.mark.parametrize("shuffle", [False, True])
def test_kfold_under_replace_loses_four_of_the_five_whatever_the_rows(shuffle):
    """All data sets of 5 rows of one feature level and all replacements; more rows by search."""
    splitter = KFold(5, shuffle=shuffle, random_state=0 if shuffle else None)
    largest = 0.0
    for label in itertools.product((0, 1), repeat=5):
        for row, other in itertools.product(range(5), itertools.product(range(2), range(2))):
            pair = study.Pair(np.zeros(5, np.int64), np.array(label), row, other)
            largest = max(largest, study.loss(splitter, pair, "replace"))
    assert largest == 4
    assert study.largest_loss(splitter, "replace", 50, steps=200, restarts=1) <= 4


def test_a_loss_is_the_distance_of_the_exact_tables_over_the_scale():
    """Two training sets of one row each: row 0 of label 0 becomes label 1, so two cells of one table move by 1."""
    pair = study.Pair(np.array([0, 1]), np.array([0, 0]), 0, (0, 1))
    assert study.loss(KFold(2), pair, "replace") == 1
    last, first = (study.Pair(np.arange(4), np.zeros(4, int), row, (0, 0)) for row in (3, 0))
    assert study.loss(KFold(2), last, "add-remove") == 1
    assert study.loss(KFold(2), first, "add-remove") == 1 + 2  # row 2 leaves one training set and enters the other


def test_ten_bootstraps_copy_one_row_up_to_seventeen_times():
    assert max(study.bootstrap_loss(50, 10, seed) for seed in range(20)) >= 17
