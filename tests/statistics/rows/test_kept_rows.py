"""Which rows of a person are kept: a function of the key and of that person's rows alone (proofs.md P86, P87)."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.statistics.rows import persons as module
from dpgraph.statistics.rows.persons import kept_rows

KEYS = (b"one", b"another", b"a third key")
ROWS = st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 2), st.integers(0, 1)), max_size=14)


def kept_of(rows, cap, key):
    """What is kept of each person, as a multiset."""
    names = sorted({who for who, *_ in rows})
    persons = np.array([names.index(who) for who, *_ in rows], np.int64)
    held = [np.array([row[i] for row in rows], np.uint8) for i in range(1, len(rows[0]) if rows else 2)]
    flags = kept_rows(persons, names, held, cap, key) if rows else []
    found = {who: Counter() for who in names}
    for (who, *row), flag in zip(rows, flags, strict=True):
        found[who][tuple(row)] += int(flag)
    return {who: +count for who, count in found.items()}


def all_of(who, kinds, most):
    """Every sequence of up to so many rows of a person."""
    for many in range(most + 1):
        for row in itertools.product(range(kinds), repeat=many):
            yield [(who, kind) for kind in row]


@pytest.fixture(params=["as it is", "one digest for all", "one number for all", "both"])
def mixing(request, monkeypatch):
    """Also with collisions everywhere, which 64 bits leave to chance: then contents are compared, and order decides."""
    if request.param in ("one digest for all", "both"):
        monkeypatch.setattr(module, "_digest", lambda start, held: np.zeros_like(start))
    if request.param in ("one number for all", "both"):
        monkeypatch.setattr(module, "_number", lambda digest, before, key: np.zeros_like(digest))


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("cap", [1, 2])
def test_every_other_person_keeps_the_same_rows_whoever_is_there(key, cap, mixing):
    """All sequences of p's rows, beside and between all of q's: q keeps the same, p at most the cap."""
    for ours in all_of("q", 2, 3):
        alone = kept_of(ours, cap, key).get("q", Counter())
        assert alone.total() == min(cap, len(ours))
        for theirs in all_of("p", 2, 3):
            for rows in (
                theirs + ours,
                ours + theirs,
                [r for p in itertools.zip_longest(theirs, ours) for r in p if r],
            ):
                found = kept_of(rows, cap, key)
                assert found.get("q", Counter()) == alone
                assert found.get("p", Counter()).total() == min(cap, len(theirs))


@given(ROWS, st.integers(1, 3), st.randoms(use_true_random=False), st.sampled_from(KEYS))
def test_the_order_of_rows_does_not_matter(rows, cap, random, key):
    found = kept_of(rows, cap, key)
    shuffled = random.sample(rows, len(rows))
    assert kept_of(shuffled, cap, key) == found
    for who, kept in found.items():
        held = Counter(tuple(row) for person, *row in rows if person == who)
        assert kept <= held
        assert kept.total() == min(cap, held.total())


def test_the_order_of_rows_does_not_matter_where_numbers_collide(mixing):
    rows = [("p", a, b) for a, b in itertools.product(range(2), range(2))] + [("p", 0, 0), ("q", 0, 1), ("q", 1, 0)]
    for cap in (1, 2, 3):
        found = {
            tuple(sorted((who, *sorted(kept.items())) for who, kept in kept_of(order, cap, b"key").items()))
            for order in itertools.permutations(rows, len(rows))
            if order[-1][0] == "q"
        }
        assert len(found) == 1


def test_rows_of_nobody_do_not_count_and_names_without_rows_do_no_harm():
    flags = kept_rows(np.array([-1, 2, 2, -1]), ["x", "y", "z"], [np.arange(4)], 1, b"key")
    assert flags.tolist() in ([False, True, False, False], [False, False, True, False])
    assert not kept_rows(np.array([-1, -1]), [], [np.arange(2)], 1, b"key").any()
    assert kept_rows(np.zeros(0, np.int64), [], [np.zeros(0, np.int64)], 1, b"key").shape == (0,)


def test_each_row_of_a_person_is_kept_as_often_as_any_other():
    """4000 fixed keys, three rows "a" and one "b", cap 1: "b" is kept by 1/4 of them, within 6 standard deviations.

    It rejects that rows which hold the same count as one, which would keep "b" by 1/2 of them.
    """
    keys = [number.to_bytes(4, "little") for number in range(1, 4001)]
    rows = [("p", 0), ("p", 0), ("p", 1), ("p", 0)]
    share = np.mean([kept_of(rows, 1, key)["p"][(1,)] for key in keys])
    assert abs(share - 1 / 4) < 6 * np.sqrt(3 / 16 / len(keys))


def test_persons_with_the_same_rows_choose_apart():
    """Both of two persons keep their row "a" of "a" and "b" by 1/4 of 4000 fixed keys, within 6 standard deviations.

    It rejects one choice for all persons (1/2), and that a choice ignores the key (0 or 1).
    """
    keys = [number.to_bytes(4, "little") for number in range(1, 4001)]
    rows = [(who, kind) for who in "pq" for kind in (0, 1)]
    both = np.mean([all(kept[(0,)] for kept in kept_of(rows, 1, key).values()) for key in keys])
    assert abs(both - 1 / 4) < 6 * np.sqrt(3 / 16 / len(keys))


def test_what_columns_hold_is_told_apart_by_column():
    """(0, 1) and (1, 0) are two contents: by some key one of them is kept, by some the other."""
    rows = [("p", 0, 1), ("p", 1, 0)]
    kept = {next(iter(kept_of(rows, 1, bytes([number]))["p"])) for number in range(1, 65)}
    assert kept == {(0, 1), (1, 0)}
