"""The cap on a person's rows: what is kept depends on that person's rows alone."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.scope import RowCap
from dpgraph.statistics.rows.persons import cap_rows

DOMAIN = dg.Domain.of({"kind": list(range(6))})
LOGS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=30)


def frame(pairs):
    return pd.DataFrame(pairs, columns=["who", "kind"]).astype("int64")


def kept(pairs, cap):
    return cap_rows(frame(pairs), DOMAIN, "who", cap).columns["kind"].tolist()


@given(LOGS, st.integers(1, 4))
def test_the_first_rows_of_each_person_are_kept_in_order(pairs, cap):
    seen, wanted = {}, []
    for who, kind in pairs:
        seen[who] = seen.get(who, 0) + 1
        wanted += [kind] if seen[who] <= cap else []
    assert kept(pairs, cap) == wanted


@given(LOGS, st.integers(1, 3), st.integers(0, 4))
def test_a_person_changes_at_most_rows_per_person_counted_rows(pairs, cap, person):
    """The counts with and without one person differ by that person's kept rows, at most the cap."""
    others = [pair for pair in pairs if pair[0] != person]
    with_person = np.bincount(kept(pairs, cap), minlength=6)
    without = np.bincount(kept(others, cap), minlength=6)
    assert (with_person >= without).all()
    assert (with_person - without).sum() <= cap


def test_every_kind_of_table_is_read(tmp_path):
    rows = frame([(1, 0), (1, 1), (2, 2), (1, 3)])
    rows.to_csv(tmp_path / "log.csv", index=False)
    rows.to_parquet(tmp_path / "log.parquet")
    categorical = rows.assign(who=rows["who"].astype("category"))
    for table in (rows, pl.from_pandas(rows), tmp_path / "log.csv", tmp_path / "log.parquet", categorical):
        assert cap_rows(table, DOMAIN, "who", 2).columns["kind"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("person", "cap", "message"),
    [("kind", 1, "person"), (None, 1, "person"), ("no", 1, "no"), ("who", 0, "rows_per_person"), ("who", True, "rows")],
)
def test_bad_settings_are_refused(person, cap, message):
    with pytest.raises(dg.errors.DomainError, match=message):
        cap_rows(frame([(1, 0)]), DOMAIN, person, cap)


def test_rows_without_a_person_and_codes_are_refused():
    rows = pd.DataFrame({"who": [1, None], "kind": [0, 1]})
    with pytest.raises(dg.errors.DomainError, match="nulls"):
        cap_rows(rows, DOMAIN, "who", 1)
    with pytest.raises(dg.errors.DomainError, match="codes"):
        cap_rows(dg.statistics.encode(rows[["kind"]], DOMAIN), DOMAIN, "who", 1)


NETWORK = dg.Network.of(DOMAIN, {})


def counted(pairs, cap=2, **settings):
    return dg.count(cap_rows(frame(pairs), DOMAIN, "who", cap, **settings), NETWORK)


def test_parts_that_were_capped_apart_do_not_add():
    """Person 1 has two rows in each part: the sum would hold four of at most two."""
    january, february = [(1, 0), (1, 1), (2, 2)], [(1, 3), (1, 3), (3, 0)]
    parts = [counted(january), counted(february)]
    assert sum(part.sensitive_rows for part in parts) == 6
    for one, other in itertools.product(parts, parts):
        with pytest.raises(dg.errors.ReleaseError, match="a person in both parts would count twice"):
            one + other
    assert dg.count(cap_rows(iter([frame(january), frame(february)]), DOMAIN, "who", 2), NETWORK).sensitive_rows == 4


@given(LOGS, st.integers(1, 3))
def test_parts_that_share_no_person_add_up_to_the_whole(pairs, cap):
    parts = [[pair for pair in pairs if pair[0] % 3 == digit] for digit in range(3)]
    one, two, three = (counted(part, cap, part=f"{digit}") for digit, part in enumerate(parts))
    whole = counted(pairs, cap).sensitive_margin(("kind",)).tolist()
    assert ((one + two) + three).sensitive_margin(("kind",)).tolist() == whole
    assert (one + (two + three)).sensitive_margin(("kind",)).tolist() == whole
    assert ((three + one) + two).cap == RowCap("who", cap, frozenset("012"))
    for sums in ((one + two, two), (one, one), (three + one, one + two)):
        with pytest.raises(dg.errors.ReleaseError, match="capped apart"):
            sums[0] + sums[1]


def test_counts_add_only_under_one_known_cap():
    log = [(1, 0), (1, 1)]
    named = counted(log, part="a")
    other_person = cap_rows(frame(log).rename(columns={"who": "whose"}), DOMAIN, "whose", 2, part="b")
    refused = {
        "without": dg.count(frame(log), NETWORK),
        "different caps": counted(log, 1, part="b"),
        "caps on": dg.count(other_person, NETWORK),
        "capped apart": counted(log),
    }
    for message, counts in refused.items():
        for one, other in ((named, counts), (counts, named)):
            with pytest.raises(dg.errors.ReleaseError, match=message):
                one + other
    uncapped = refused["without"]
    assert (uncapped + uncapped).sensitive_rows == 4


def test_the_cap_travels_with_the_rows(tmp_path):
    """Through encoding again, through a group, through a file: the counts know it."""
    wide = dg.Domain.of({"kind": list(range(6)), "spare": [0, 1]})
    codes = cap_rows(frame([(1, 0), (1, 1)]).assign(spare=0), wide, "who", 2, part="a")
    dg.statistics.write_codes(codes, tmp_path / "codes.arrow")
    dg.statistics.write_codes(dg.statistics.encode(codes, DOMAIN), tmp_path / "narrow.arrow")
    made = [
        dg.count(codes, NETWORK),
        dg.count(codes, NETWORK, where={"spare": 0}),
        dg.count(dg.statistics.encode(codes, DOMAIN), NETWORK),
        dg.count(dg.statistics.read_codes(tmp_path / "codes.arrow", wide), NETWORK),
        dg.count(dg.statistics.read_codes(tmp_path / "narrow.arrow", DOMAIN), NETWORK),
        dg.count(cap_rows(frame([]).assign(spare=0), wide, "who", 2, part="a"), NETWORK),
    ]
    assert [counts.cap for counts in made] == [RowCap("who", 2, frozenset("a"))] * len(made)
    assert dg.count(frame([]), NETWORK).cap is None


def test_the_door_refuses_a_unit_that_the_cap_does_not_fit():
    mechanism = dg.LaplaceMechanism(1)
    for unit, message in (
        (dg.PrivacyUnit("add-remove"), "rows_per_person=2"),
        (dg.PrivacyUnit("replace", 2), "the number of rows is private"),
    ):
        budget = dg.Budget(1, unit=unit)
        with pytest.raises(dg.errors.ReleaseError, match=message):
            dg.release(counted([(1, 0)]), mechanism, budget=budget)
        assert budget.spent == 0
    for unit, cap in (
        (dg.PrivacyUnit("add-remove", 2), 2),
        (dg.PrivacyUnit("add-remove", 3), 2),
        (dg.PrivacyUnit(), 1),
    ):
        budget = dg.Budget(1, unit=unit)
        dg.release(counted([(1, 0)], cap), mechanism, budget=budget)
        assert budget.spent == 1


@pytest.mark.parametrize("part", ["", 1, ["a"]], ids=repr)
def test_a_part_has_a_name(part):
    with pytest.raises(dg.errors.DomainError, match="part must be a name"):
        counted([(1, 0)], part=part)
