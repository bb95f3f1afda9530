"""Synthetic rows follow the joint law, and the log-likelihood is the log of the joint."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpgraph as dg
from dpgraph.inference.network.queries import BLOCK, code_columns, log_likelihood, sample_codes
from dpgraph.privacy.records import Event, Release
from tests.strategies import joint, networks, probabilities

#: The domain's order is not the arcs' order, and the parents of "c" come in an order of their own.
NETWORK = dg.Network.of(
    {"c": ["p", "q"], "a": [1, 2, 3], "b": dg.Bins([0, 5, 10, 20, 50])}, {"c": ["b", "a"], "b": ["a"]}
)
LEARNED = dg.Probabilities(
    NETWORK,
    {
        "a": [0.3, 0.3, 0.4],
        "b": [[0.1, 0.2, 0.4], [0.2, 0.2, 0.3], [0.3, 0.3, 0.2], [0.4, 0.3, 0.1]],
        "c": [
            [[0.2, 0.5, 0.7], [0.4, 0.3, 0.6], [0.5, 0.5, 0.2], [0.9, 0.1, 0.5]],
            [[0.8, 0.5, 0.3], [0.6, 0.7, 0.4], [0.5, 0.5, 0.8], [0.1, 0.9, 0.5]],
        ],
    },
)


def chi_square(rows, learned):
    """The p-value of the rows' joint counts under the joint law."""
    names = learned.network.domain.names
    counts = np.zeros(learned.network.shape(names))
    np.add.at(counts, tuple(rows[name].cat.codes.to_numpy() for name in names), 1)
    expected = joint(learned) * len(rows)
    return stats.chisquare(counts.ravel(), expected.ravel()).pvalue


def test_synthetic_rows_follow_the_joint_law():
    """Chi-square over all 24 cells, 200 000 rows, level 1e-6. Power above 0.9999 against 0.004 of probability in the
    wrong one of two cells of size 1/24 (noncentrality 2 n 0.004^2 24 = 154, 23 degrees of freedom)."""
    assert chi_square(dg.sample_rows(LEARNED, 200_000, np.random.default_rng(11), numbers="level"), LEARNED) > 1e-6


def test_the_chi_square_sees_rows_of_another_law():
    """The same test on rows of a network whose tables are off by 0.02 in one row."""
    tables = dict(LEARNED.tables) | {"a": [0.32, 0.28, 0.4]}
    rows = dg.sample_rows(dg.Probabilities(NETWORK, tables), 200_000, np.random.default_rng(11), numbers="level")
    assert chi_square(rows, LEARNED) < 1e-6


def test_rows_of_different_blocks_are_independent():
    """Rows are drawn 65 536 at a time; a block that repeated the last one would match it row by row. The share of
    matches is that of chance within 6 standard errors (level 1e-8); a repeat would be 1."""
    rows = dg.sample_rows(LEARNED, 2 * 65_536, np.random.default_rng(3))
    first, second = rows.iloc[:65_536].reset_index(drop=True), rows.iloc[65_536:].reset_index(drop=True)
    same = (first["c"] == second["c"]).mean()
    p = joint(LEARNED).sum(axis=(1, 2))
    chance = float((p**2).sum())
    assert abs(same - chance) < 6 * math.sqrt(chance * (1 - chance) / 65_536)


def test_columns_are_categorical_with_the_declared_levels():
    rows = dg.sample_rows(LEARNED, 7, np.random.default_rng(0), numbers="level")
    assert list(rows.columns) == ["c", "a", "b"]
    assert len(rows) == 7
    for name in rows:
        assert isinstance(rows[name].dtype, pd.CategoricalDtype)
        assert list(rows[name].cat.categories) == list(NETWORK.domain.levels(name))
        assert not rows[name].isna().any()
    assert rows["a"].cat.categories.dtype.kind == "i"


def test_no_rows_keep_their_columns():
    rows = dg.sample_rows(LEARNED, 0, np.random.default_rng(0))
    assert (rows.shape, rows["b"].dtype) == ((0, 3), np.int64)
    rows = dg.sample_rows(LEARNED, 0, np.random.default_rng(0), numbers="level")
    assert list(rows["b"].cat.categories) == ["0-5", "5-10", "10-20", "20-50"]


def test_the_same_generator_state_gives_the_same_rows_and_a_release_is_taken_for_its_value():
    first = dg.sample_rows(LEARNED, 50, np.random.default_rng(2))
    pd.testing.assert_frame_equal(first, dg.sample_rows(LEARNED, np.int64(50), np.random.default_rng(2)))
    release = Release(LEARNED, Event("m", 1), dg.PrivacyUnit())
    pd.testing.assert_frame_equal(first, dg.sample_rows(release, 50, np.random.default_rng(2)))
    assert not first.equals(dg.sample_rows(LEARNED, 50, np.random.default_rng(3)))


@pytest.mark.parametrize("n", [-1, 1.5, "3", None, True, math.nan], ids=repr)
def test_a_number_of_rows_that_is_none_is_refused(n):
    with pytest.raises(dg.errors.InferenceError, match="n must be a whole number, at least 0"):
        dg.sample_rows(LEARNED, n, np.random.default_rng(0))


@settings(deadline=None)
@given(networks().flatmap(lambda network: probabilities(network, zeros=True)), st.integers(0, 2**32))
def test_no_impossible_row_is_drawn(learned, seed):
    codes = sample_codes(learned, 40, np.random.default_rng(seed))
    table = joint(learned)
    cells = zip(*(codes[name].tolist() for name in learned.network.domain.names), strict=True)
    assert all(table[cell] > 0 for cell in cells)


@pytest.mark.proof
@settings(deadline=None)
@given(st.booleans().flatmap(lambda zeros: networks().flatmap(lambda network: probabilities(network, zeros))))
def test_the_log_likelihood_is_the_log_of_the_joint(learned):
    table = joint(learned)
    cells = np.array(list(np.ndindex(*table.shape)), dtype=np.uint8)
    codes = {name: cells[:, i] for i, name in enumerate(learned.network.domain.names)}
    with np.errstate(divide="ignore"):
        expected = np.log([table[tuple(cell)] for cell in cells])
    np.testing.assert_allclose(log_likelihood(learned, codes), expected, rtol=1e-9, atol=1e-9)


def test_many_unlikely_levels_do_not_underflow():
    """A joint of 1e-600 is 0 as a double; its log is not."""
    names = [f"v{i}" for i in range(200)]
    network = dg.Network.of(dict.fromkeys(names, (0, 1)), {})
    learned = dg.Probabilities(network, dict.fromkeys(names, (1e-3, 1 - 1e-3)))
    row = {name: np.zeros(1, np.uint8) for name in names}
    assert log_likelihood(learned, row)[0] == pytest.approx(200 * math.log(1e-3))


def test_wide_columns_do_not_wrap():
    """300 levels squared do not fit the narrow types that hold the codes."""
    network = dg.Network.of({"a": range(300), "b": range(300), "c": [0, 1]}, {"c": ["a", "b"]})
    tables = {"a": np.full(300, 1 / 300), "b": np.full(300, 1 / 300), "c": np.full((2, 300, 300), 0.5)}
    tables["c"][:, 299, 298] = [0.125, 0.875]
    learned = dg.Probabilities(network, tables)
    codes = {"a": np.array([299], np.uint16), "b": np.array([298], np.uint16), "c": np.array([0], np.uint8)}
    assert log_likelihood(learned, codes)[0] == pytest.approx(-2 * math.log(300) + math.log(0.125))
    rows = dg.sample_rows(learned, 1000, np.random.default_rng(0))
    assert rows["a"].astype(int).max() > 255


def test_the_log_likelihood_of_more_rows_than_a_block():
    """The last block is ragged; codes are of narrow, wide and signed types."""
    codes = sample_codes(LEARNED, BLOCK + 77, np.random.default_rng(4))
    mixed = {"a": codes["a"].astype(np.int64), "b": codes["b"].astype(np.int8), "c": codes["c"]}
    table = joint(LEARNED)
    expected = np.log(table[tuple(codes[name].astype(int) for name in LEARNED.network.domain.names)])
    np.testing.assert_allclose(log_likelihood(LEARNED, mixed), expected, rtol=1e-9)


def test_sampled_codes_are_narrow_and_a_draw_is_the_inverse_of_the_cumulative_table():
    """A uniform number u gives the first level whose cumulative probability is above u: one number a row and variable,
    variables in the network's order."""
    codes = sample_codes(LEARNED, 500, np.random.default_rng(6))
    assert all(column.dtype == np.uint8 for column in codes.values())
    rng = np.random.default_rng(6)
    drawn = {}
    for name in LEARNED.network.order:
        uniform, table = rng.random(500), LEARNED.table(name)
        parents = LEARNED.network.parents[name]
        drawn[name] = [
            next(k for k in range(len(table)) if u < table[: k + 1].sum(axis=0)[*(drawn[p][i] for p in parents)])
            for i, u in enumerate(uniform)
        ]
        assert codes[name].tolist() == drawn[name]


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (np.array([0, 3]), "'a' must be whole numbers from 0 to 2"),
        (np.array([0, -1]), "'a' must be whole numbers from 0 to 2"),
        (np.array([0.0, 1.0]), "'a' must be whole numbers from 0 to 2"),
        (np.array([0]), "'a' must be one column, as long as the others"),
        (None, "'a' are missing"),
    ],
)
def test_codes_that_are_no_level_positions_are_refused(column, match):
    codes = {"c": np.array([0, 1]), "b": np.array([3, 3])} | ({} if column is None else {"a": column})
    with pytest.raises(dg.errors.DomainError, match=match):
        log_likelihood(LEARNED, codes)


def test_no_rows_are_no_refusal():
    assert log_likelihood(LEARNED, {name: np.zeros(0) for name in "abc"}).shape == (0,)
    assert code_columns({}, {}) == {}
