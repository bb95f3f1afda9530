"""Bins and levels read off noisy counts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.inference.discovery import expected_counts, found_bins, found_levels
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
    assert found_levels(sex, counts, 10.0, 1000.0, 0.005) == (
        dg.Categories(["F", "M", "missing"], missing="missing"),
        "all 2 levels of the list",
    )
    assert found_levels(sex, counts, 10.0, 1000.0, 0.005, strict=True)[0].other == "other"
    assert found_levels(sex, counts | {"other": 60}, 10.0, 1000.0, 0.005)[0].other == "other"
    assert found_levels(sex, counts | {"M": -9}, 10.0, 500.0, 0.01)[0].levels == ("F", "other", "missing")


@pytest.mark.parametrize(("rare", "kept"), [(0.0, ("a", "b", "c", "d", "other")), (0.03, ("a", "b", "other"))])
def test_words_without_a_list_are_kept_that_are_not_rare(rare, kept):
    levels, words = found_levels(dg.Words(), {"a": 900, "b": 50, "c": 25, "d": 9, "other": 80}, 0.0, 1000.0, rare)
    assert levels.levels == kept
    assert levels.other == "other"
    assert words == f"{len(kept) - 1} levels; rarer ones are 'other'"


@pytest.mark.parametrize("deviation", [4.0, 40.0, 300.0])
def test_expected_counts_are_those_of_all_worlds_added_up(deviation):
    """Each number of levels that somebody has, each choice of them, and each count on a grid."""
    noisy, rows = [70.0, 25.0, -12.0], 90.0
    grid = np.arange(0.005, 4000, 0.01)
    noise = [np.exp(-((y - grid) ** 2) / (2 * deviation**2)) for y in noisy]
    chance, total = 0.0, np.zeros(3)
    for many in (1, 2, 3):
        prior = np.exp(-grid * many / rows) * many / rows * 0.01
        masses = [float((prior * one).sum()) for one in noise]
        means = [float((prior * one * grid).sum()) / mass for one, mass in zip(noise, masses, strict=True)]
        for chosen in itertools.product((0, 1), repeat=3):
            each = [many / 3 * mass if on else (1 - many / 3) * np.exp(-(y**2) / (2 * deviation**2))
                    for on, mass, y in zip(chosen, masses, noisy, strict=True)]  # fmt: skip
            world = float(np.prod(each))
            chance += world
            total += world * np.array(chosen) * means
    assert expected_counts(noisy, deviation, rows) == pytest.approx(total / chance, rel=1e-4)


def test_where_noise_hides_all_each_level_is_expected_to_have_its_part_and_no_number_is_too_large():
    assert expected_counts([0, 5, -3], 1e9, 900) == pytest.approx([300, 300, 300])
    assert expected_counts([1e6, 0, -1e6], 1.0, 1e6) == pytest.approx([1e6, 0, 0], abs=0.1)
    assert expected_counts([1e9, 0], 1e-3, 0) == pytest.approx([1e9, 0], abs=1e-2)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30), st.floats(1e-3, 1e6), st.floats(0, 1e6))
def test_a_larger_noisy_count_is_never_expected_to_be_less(noisy, deviation, rows):
    counts = expected_counts(sorted(noisy), deviation, rows)
    assert np.isfinite(counts).all()
    assert (counts >= 0).all()
    assert (np.diff(counts) >= -1e-6 * (1 + counts[1:])).all()
