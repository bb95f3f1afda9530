"""Scores from joint tables are the sums of the features' own numbers, whatever is packed and wherever blocks end."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.models import naive_bayes as module
from dpgraph.models.naive_bayes import label_scores
from tests.tiers import examples


@st.composite
def problems(draw):
    """A start, tables with some -inf, and rows enough that features are packed."""
    sizes = draw(st.lists(st.integers(1, 6), min_size=0, max_size=8))
    labels, rows = draw(st.integers(1, 5)), draw(st.integers(0, 600))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    tables = {f"f{i}": rng.normal(size=(size, labels)) for i, size in enumerate(sizes)}
    for table in tables.values():
        table[rng.random(table.shape) < 0.1] = -np.inf
    kinds = [np.uint8, np.int64, np.uint16, np.int8]
    codes = {name: rng.integers(0, len(t), rows).astype(kinds[i % 4]) for i, (name, t) in enumerate(tables.items())}
    return rng.normal(size=labels), tables, codes if codes else {"another": np.zeros(rows)}


def scored(start, tables, codes):
    """All rows, shape (rows, labels)."""
    return np.concatenate(
        [
            np.zeros((0, len(start))),
            *(part.T[: rows.stop - rows.start].copy() for rows, part in label_scores(start, tables, codes)),
        ]
    )


def by_definition(start, tables, codes):
    rows = len(next(iter(codes.values())))
    return np.array([start + sum(t[codes[name][i]] for name, t in tables.items()) for i in range(rows)]).reshape(
        rows, len(start)
    )


@settings(deadline=None, max_examples=examples(100))
@given(problems())
def test_scores_are_the_sums_of_the_features_numbers(problem):
    np.testing.assert_allclose(scored(*problem), by_definition(*problem), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows", [255, 256, 257, 4096, 5000])
@pytest.mark.parametrize("most", [1, 12, 4096])
def test_blocks_and_groups_change_nothing(monkeypatch, rows, most):
    monkeypatch.setattr(module, "JOINT_LEVELS", most)
    monkeypatch.setattr(module, "BLOCK_CELLS", 1)  # blocks of 256 rows
    rng = np.random.default_rng(rows)
    tables = {name: rng.normal(size=(size, 3)) for name, size in zip("abcd", (4, 3, 5, 2), strict=True)}
    codes = {name: rng.integers(0, len(table), rows).astype(np.uint8) for name, table in tables.items()}
    start = np.array([0.5, -1.0, 2.0])
    np.testing.assert_allclose(scored(start, tables, codes), by_definition(start, tables, codes), rtol=1e-12)


def test_hundreds_of_one_level_features_and_a_wide_one_are_packed_within_their_types():
    """A joint table has no axis for each feature, and a position above 65 535 does not wrap."""
    rng = np.random.default_rng(0)
    tables = {"wide": rng.normal(size=(70_000, 2)), **{f"one{i}": rng.normal(size=(1, 2)) for i in range(100)}}
    codes = {name: np.zeros(100, int) for name in tables} | {"wide": np.arange(69_900, 70_000)}
    assert [len(group) for group in module._groups({name: len(t) for name, t in tables.items()}, 25)] == [1, 100]
    np.testing.assert_allclose(scored(np.zeros(2), tables, codes), by_definition(np.zeros(2), tables, codes))


def test_positions_in_joint_tables_do_not_wrap():
    assert module.JOINT_LEVELS < 2**16


@pytest.mark.parametrize("rows", [1, 2, 15, 16, 17, 255, 257, 1023, 1024, 16_383, 16_384, 16_385])
def test_the_scores_of_a_row_are_its_own_to_the_last_bit(rows):
    """Whatever the number of rows, their order and their place: sums of floats depend on their order."""
    rng = np.random.default_rng(0)
    tables = {
        name: np.log(rng.dirichlet(np.ones(size), 2).T) for name, size in zip("abcde", (2, 3, 4, 2, 5), strict=True)
    }
    codes = {name: rng.integers(0, len(table), rows) for name, table in tables.items()}
    start = np.log([0.3, 0.7])
    found = scored(start, tables, codes)
    backwards = scored(start, tables, {name: column[::-1] for name, column in codes.items()})
    assert (found == backwards[::-1]).all()
    for place in {0, rows // 2, rows - 1}:
        alone = scored(start, tables, {name: column[[place]] for name, column in codes.items()})
        assert (found[place] == alone[0]).all()


TABLES = {"f": np.zeros((3, 2)), "g": np.zeros((2, 2))}


@pytest.mark.parametrize(
    ("codes", "match"),
    [
        ({"f": np.array([0])}, "'g' are missing"),
        ({"f": np.array([0, 3]), "g": np.array([0, 0])}, "'f' must be whole numbers from 0 to 2"),
        ({"f": np.array([0, -1]), "g": np.array([0, 0])}, "'f' must be whole numbers from 0 to 2"),
        ({"f": np.array([0, 0]), "g": np.array([0.0, 0.5])}, "'g' must be whole numbers from 0 to 1"),
        ({"f": np.array([0, 0]), "g": np.array([True, False])}, "'g' must be whole numbers from 0 to 1"),
        ({"f": np.array([0, 0]), "g": np.array([0])}, "'g' must be one column, as long as the others"),
        ({"f": np.zeros((2, 1), int), "g": np.zeros(2, int)}, "'f' must be one column of whole numbers"),
    ],
)
def test_codes_that_do_not_fit_are_refused(codes, match):
    """Joint positions would hide them: a level too many of one feature is a level of the next."""
    with pytest.raises(dg.errors.DomainError, match=match):
        list(label_scores(np.zeros(2), TABLES, codes))
