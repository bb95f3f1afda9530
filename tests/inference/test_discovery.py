"""Bins and levels read off noisy counts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.inference.discovery import found_bins, found_levels
from tests.tiers import examples

AGES = dg.Numbers(0, 100)


def test_bins_of_exact_counts_hold_about_equal_numbers_of_rows():
    counts = np.full(100, 100)
    bins, words = found_bins(dg.Numbers(0, 100, bins=5), counts, 0.0)
    assert bins == dg.Bins([0, 20, 40, 60, 80, 100])
    assert words == "5 bins"


def test_numbers_that_are_not_whole_stay_so():
    bins, _ = found_bins(dg.Numbers(0.0, 100), np.full(len(dg.Numbers(0.0, 100).grid) - 1, 100), 0.0)
    assert bins.whole is False


def test_a_value_that_many_rows_have_is_a_bin_of_its_own():
    counts = np.full(100, 10)
    counts[0], counts[40] = 5000, 900
    bins, words = found_bins(dg.Numbers(0, 100, bins=8, missing=True), counts, 3.0)
    assert {0, 1, 40, 41, 100} <= set(bins.edges)
    assert bins.missing
    assert "2 of one frequent value" in words


@settings(deadline=None, max_examples=examples(60))
@given(st.integers(0, 2**32), st.floats(0, 1e4), st.floats(0, 1e5))
def test_edges_are_of_the_grid_whatever_the_noise(seed, deviation, rows):
    rng = np.random.default_rng(seed)
    noisy = (rng.dirichlet(np.full(100, 0.2)) * rows + rng.laplace(0, deviation + 1e-9, 100)).astype(np.int64)
    bins, _ = found_bins(AGES, noisy, deviation)
    assert (bins.edges[0], bins.edges[-1]) == (0, 100)
    assert set(bins.edges) <= set(AGES.grid)
    assert len(bins.edges) <= 60


def test_noise_alone_makes_few_bins_and_no_frequent_value():
    rng = np.random.default_rng(5)
    alone = 0
    for _ in range(400):
        _, words = found_bins(AGES, rng.laplace(0, 100 / np.sqrt(2), 100).astype(np.int64), 100.0)
        alone += "frequent" in words
    assert alone <= 50  # at most a twentieth is expected; more than 50 of 400 has a chance below 1e-6


def test_a_list_all_of_whose_levels_are_kept_leaves_nothing_over():
    sex = dg.Words(["F", "M"], missing=True)
    counts = {"F": 500, "M": 480, "other": -4, "missing": 3}
    assert found_levels(sex, counts, 10.0, 5.0) == (
        dg.Categories(["F", "M", "missing"], missing="missing"),
        "all 2 levels of the list",
    )
    assert found_levels(sex, counts, 10.0, 5.0, strict=True)[0].other == "other"
    assert found_levels(sex, counts | {"other": 60}, 10.0, 5.0)[0].other == "other"
    assert found_levels(sex, counts | {"M": 9}, 10.0, 5.0)[0].levels == ("F", "other", "missing")


@pytest.mark.parametrize(("least", "kept"), [(0.0, ("a", "b", "c", "other")), (30.0, ("a", "b", "other"))])
def test_levels_are_kept_that_are_clear_of_noise_and_not_rare(least, kept):
    levels, words = found_levels(dg.Words(), {"a": 900, "b": 50, "c": 25, "d": 9, "other": 80}, 10.0, least)
    assert levels.levels == kept
    assert levels.other == "other"
    assert words == f"{len(kept) - 1} levels; rarer ones are 'other'"
