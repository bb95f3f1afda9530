"""Folds in which no row has a say about another row's fold, and persons known by their ids alone."""

import uuid

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.estimators.cross_validation import first_rows, folds_by_person, folds_by_position, person_ids, readable

IDS = st.lists(st.one_of(st.integers(-50, 50), st.text(max_size=3), st.uuids()), min_size=1, max_size=12)


@pytest.mark.proof
@given(IDS, st.data(), st.integers(2, 7), st.binary(min_size=1, max_size=16))
def test_a_rows_fold_is_the_same_whichever_other_rows_are_there(ids, data, folds, key):
    whole = folds_by_person(person_ids(ids), folds, key)
    kept = sorted(data.draw(st.sets(st.integers(0, len(ids) - 1), min_size=1)))
    part = folds_by_person(person_ids([ids[i] for i in kept]), folds, key)
    assert part.tolist() == whole[kept].tolist()
    assert set(whole) <= set(range(folds))


@given(IDS, st.data(), st.integers(1, 3))
def test_a_person_gone_changes_no_other_persons_counted_rows(ids, data, rows_per_person):
    names = person_ids(ids)
    gone = data.draw(st.sampled_from(names))
    kept = [i for i in first_rows(names, rows_per_person) if names[i] != gone]
    others = [i for i, name in enumerate(names) if name != gone]
    assert [others[j] for j in first_rows([names[i] for i in others], rows_per_person)] == kept
    assert all(sum(names[i] == name for i in first_rows(names, rows_per_person)) <= rows_per_person for name in names)


def test_one_person_is_in_one_fold_and_a_key_decides_which():
    """64 persons and 2 folds: two keys would agree by chance once in 2^64."""
    names = [str(i // 2) for i in range(128)]
    found = folds_by_person(names, 2, b"a key")
    assert (found[::2] == found[1::2]).all()
    assert found.tolist() != folds_by_person(names, 2, b"another").tolist()
    assert found.tolist() == folds_by_person(names, 2, b"a key").tolist()


def test_hashed_folds_are_about_equal():
    """10 000 persons, 5 folds: each holds 2 000, sd 40; seven deviations miss less than once in 10^11."""
    sizes = np.bincount(folds_by_person([str(i) for i in range(10_000)], 5, b"fixed"))
    assert len(sizes) == 5
    assert abs(sizes - 2000).max() < 7 * 40


def test_folds_by_position_read_nothing_but_the_number_of_rows():
    assert folds_by_position(7, 3).tolist() == [0, 1, 2, 0, 1, 2, 0]


@pytest.mark.parametrize(
    "ids",
    [
        [1, 2, 1],
        ["1", "2", "1"],
        np.array([1, 2, 1]),
        np.array([1, 2, 1], object),
        np.array([1, 2, 1], np.uint8),
        np.array([1, "2", 1]),
        pd.Series([1, 2, 1], index=[5, 5, 5]),
        pd.Series([1, 2, 1], dtype="Int64"),
        pd.Series(["1", "2", "1"], dtype="category"),
        pl.Series([1, 2, 1]),
        pa.chunked_array([[1], [2, 1]]),
    ],
    ids=lambda ids: type(ids).__name__,
)
def test_ids_in_any_column_are_the_same_text(ids):
    assert person_ids(ids) == ("1", "2", "1")


def test_an_odd_id_changes_how_no_other_is_read():
    """numpy makes text of all when one text joins them."""
    for odd in ("a", uuid.UUID(int=1), 2**70):
        assert person_ids(np.array([7, 8, odd]))[:2] == person_ids(np.array([7, 8]))


@pytest.mark.parametrize(
    "ids",
    [
        [1, None],
        [1.5, 2.0],
        [1.0, 2.0],
        [True, False],
        pd.Series([1, None]),
        pd.Series([1, None], dtype="Int64"),
        [b"canary"],
        [("canary",)],
        np.array("canary"),
        np.array([["canary"]]),
        {"canary": 1},
        3,
        "canary",
    ],
    ids=str,
)
def test_what_is_no_id_is_refused_and_not_repeated(ids):
    with pytest.raises(dg.errors.DomainError) as refusal:
        person_ids(ids)
    assert "canary" not in str(refusal.value)
    assert refusal.value.__cause__ is refusal.value.__context__ is None


FRAME = pd.DataFrame({"who": ["a", "b", "c"], "f": [3, 4, 5]}, index=[9, 9, 9])


@pytest.mark.parametrize("hold", [lambda frame: frame, pl.from_pandas, lambda f: pa.Table.from_pandas(f, None, False)])
def test_a_person_column_of_any_table_is_taken_out_of_the_features(hold):
    rows = readable(hold(FRAME), [1, 2, 3], "who", keep=False)
    assert rows.persons == ("a", "b", "c")
    X, y = rows.take(np.array([2, 0]))
    assert X.to_dict("list") == {"f": [5, 3]}
    assert list(y) == [3, 1]
    assert list(readable(hold(FRAME), None, "who", keep=True).X.columns) == ["who", "f"]
    assert "DataFrame" not in repr(rows)


def test_arrays_and_lists_are_taken_by_position():
    for X in (np.array([[1, 2], [3, 4], [5, 6]]), [[1, 2], [3, 4], [5, 6]]):
        taken, y = readable(X, pd.Series(["x", "y", "z"], index=[3, 4, 5]), None, keep=False).take(np.array([1]))
        assert taken.tolist() == [[3, 4]]
        assert y.tolist() == ["y"]


class Canary:
    """An object that tells of itself when it is converted."""

    def __len__(self):
        raise ValueError("canary 12345")

    def __array__(self, dtype=None, copy=None):
        raise ValueError("canary 12345")


BAD = [
    (Canary(), None, None),
    ("canary.csv", None, None),
    (np.array(["canary"]), None, None),
    ([["canary"], ["canary", 1]], None, None),
    (FRAME, [1, 2], None),
    (FRAME, None, ["canary", "b"]),
    (FRAME, Canary(), None),
    (FRAME, "canary", None),
    (FRAME, None, pa.array([b"\xffcanary"] * len(FRAME)).view(pa.string())),
    (FRAME[["f"]], None, "who"),
    (np.zeros((3, 1)), None, "who"),
]


@pytest.mark.parametrize(("X", "y", "person"), BAD, ids=range(len(BAD)))
def test_what_are_no_rows_is_refused_and_not_repeated(X, y, person):
    with pytest.raises(dg.errors.DomainError) as refusal:
        readable(X, y, person, keep=False)
    assert "canary" not in str(refusal.value)
    assert refusal.value.__cause__ is refusal.value.__context__ is None
