"""The cap on a person's rows: what is kept depends on a key and that person's rows alone."""

import itertools
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.scope import RowCap, relation
from dpgraph.statistics.rows.persons import PersonCap, cap_rows, capped_codes
from tests.small_tables import chain

DOMAIN = dg.Domain.of({"kind": list(range(6))})
LOGS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=30)


def frame(pairs):
    return pd.DataFrame(pairs, columns=["who", "kind"]).astype("int64")


KEY = b"a key of the tests"


def kept(pairs, cap):
    """The rows kept by one fixed key."""
    codes = capped_codes(frame(pairs), DOMAIN, PersonCap("who", cap, KEY))
    return codes.columns["kind"].tolist()


@given(LOGS, st.integers(1, 4))
def test_so_many_rows_of_each_person_are_kept_in_the_order_of_the_table(pairs, cap):
    """Of pairs that are all different, so that each kept row is known."""
    different = [(who, 5 * i + kind % 5) for i, (who, kind) in enumerate(pairs)]
    wide = dg.Domain.of({"kind": list(range(150))})
    codes = cap_rows(frame(different), wide, "who", cap).columns["kind"].tolist()
    whose = {kind: who for who, kind in different}
    assert codes == sorted(codes)
    for who in {who for who, _ in pairs}:
        assert sum(whose[kind] == who for kind in codes) == min(cap, sum(one == who for one, _ in pairs))


@given(LOGS, st.integers(1, 3), st.integers(0, 4))
def test_a_person_changes_at_most_rows_per_person_counted_rows(pairs, cap, person):
    """The counts with and without one person differ by that person's kept rows, at most the cap."""
    others = [pair for pair in pairs if pair[0] != person]
    with_person = np.bincount(kept(pairs, cap), minlength=6)
    without = np.bincount(kept(others, cap), minlength=6)
    assert (with_person >= without).all()
    assert (with_person - without).sum() <= cap


def test_every_choice_has_a_key_of_its_own():
    """Else who knows one choice knows the others; 64 fresh keys choose both of two rows of a person."""
    keys = {PersonCap("who", 1).key for _ in range(64)}
    assert len(keys) == 64
    assert {len(key) for key in keys} == {16}
    log = frame([(1, 0), (1, 1)])
    assert {cap_rows(log, DOMAIN, "who", 1).columns["kind"].tolist()[0] for _ in range(64)} == {0, 1}
    counted = [dg.count(log, NETWORK, person="who").sensitive_margin(("kind",))[0] for _ in range(64)]
    assert set(counted) == {0, 1}


def test_neither_a_key_nor_what_was_dropped_is_shown():
    cap, log = PersonCap("who", 1, KEY), frame([(1, 0), (1, 1), (2, 2)])
    assert repr(cap) == "PersonCap(person='who', rows_per_person=1)"
    counts = dg.count(log, NETWORK, person=cap)
    for made in (counts, capped_codes(log, DOMAIN, cap)):
        held = [value for value in vars(made).values() if isinstance(value, RowCap)]
        assert [vars(one).keys() for one in held] == [vars(RowCap("who", 1)).keys()]
        assert not any(isinstance(value, bytes) for one in held for value in vars(one).values())


def test_every_kind_of_table_is_read(tmp_path):
    rows = frame([(1, 0), (1, 1), (2, 2), (1, 3)])
    rows.to_csv(tmp_path / "log.csv", index=False)
    rows.to_parquet(tmp_path / "log.parquet")
    categorical = rows.assign(who=rows["who"].astype("category"))
    for table in (rows, pl.from_pandas(rows), tmp_path / "log.csv", tmp_path / "log.parquet", categorical):
        assert sorted(cap_rows(table, DOMAIN, "who", 3).columns["kind"].tolist()) == [0, 1, 2, 3]
        found = capped_codes(table, DOMAIN, PersonCap("who", 1, KEY)).columns["kind"].tolist()
        assert found == kept([(1, 0), (1, 1), (2, 2), (1, 3)], 1)


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


def part_counted(pairs, cap, part):
    """A part, by the one fixed key."""
    codes = capped_codes(frame(pairs), DOMAIN, PersonCap("who", cap, KEY), frozenset([part]))
    return dg.count(codes, NETWORK)


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
    one, two, three = (part_counted(part, cap, f"{digit}") for digit, part in enumerate(parts))
    whole = np.bincount(kept(pairs, cap), minlength=6).tolist()
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


def test_the_cap_travels_with_the_rows():
    """Through encoding again and through a group: the counts know it."""
    wide = dg.Domain.of({"kind": list(range(6)), "spare": [0, 1]})
    codes = cap_rows(frame([(1, 0), (1, 1)]).assign(spare=0), wide, "who", 2, part="a")
    made = [
        dg.count(codes, NETWORK),
        dg.count(codes, NETWORK, where={"spare": 0}),
        dg.count(dg.statistics.encode(codes, DOMAIN), NETWORK),
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


# --- count, and sums of a regression ----------------------------------------------------------------------------------


DESIGN = dg.LinearDesign({"kind": (0, 5)}, "pay", (0, 1))


def paid(pairs):
    return frame(pairs).assign(pay=[kind / 5 for _, kind in pairs])


@given(LOGS, st.integers(1, 3))
def test_counts_and_sums_are_of_the_rows_that_are_kept(pairs, cap):
    by = PersonCap("who", cap, KEY)
    counts = dg.count(frame(pairs), NETWORK, person=by)
    assert counts.sensitive_margin(("kind",)).tolist() == np.bincount(kept(pairs, cap), minlength=6).tolist()
    assert counts.cap == RowCap("who", cap)
    sums = dg.statistics.regression_moments(paid(pairs), DESIGN, person=by)
    assert sums.sensitive_rows == counts.sensitive_rows
    assert sums.cap == RowCap("who", cap)


@given(LOGS, st.integers(1, 3), st.integers(0, 4))
def test_a_person_changes_the_sums_by_those_of_at_most_so_many_rows(pairs, cap, person):
    """The difference is within what the design says one person moves."""
    others = [pair for pair in pairs if pair[0] != person]
    by, unit = PersonCap("who", cap, KEY), dg.PrivacyUnit("add-remove", cap)
    one, other = (
        dg.statistics.regression_moments(paid(rows), DESIGN, person=by).sensitive_sums for rows in (pairs, others)
    )
    assert np.abs(one - other).sum() <= DESIGN.sensitivity(unit)


def test_a_row_that_a_design_drops_takes_nobodys_place():
    design = dg.LinearDesign({"kind": (0, 5)}, "pay", (0, 1), on_missing="drop")
    rows = pd.DataFrame({"who": [1] * 9, "kind": [1.0] + [None] * 8, "pay": [0.5] * 9})
    alone = dg.statistics.regression_moments(rows[:1], design)
    for number in range(8):
        made = dg.statistics.regression_moments(rows, design, person=PersonCap("who", 1, bytes([number + 1])))
        assert made.sensitive_rows == 1
        assert made.sensitive_sums.tolist() == alone.sensitive_sums.tolist()


def test_zero_is_zero_whatever_its_sign():
    """By every key the same one of three rows is kept, two of which hold a zero."""
    zeros = ([0.0, 0.0, 5.0], [0.0, -0.0, 5.0], [-0.0, -0.0, 5.0])
    tables = [pd.DataFrame({"who": [1] * 3, "kind": kinds, "pay": [0.5] * 3}) for kinds in zeros]
    for number in range(32):
        by = PersonCap("who", 1, bytes([number + 1]))
        made = [dg.statistics.regression_moments(table, DESIGN, person=by).sensitive_sums.tolist() for table in tables]
        assert made[0] == made[1] == made[2]


READERS = {
    "count": lambda rows, **who: dg.count(rows, NETWORK, **who),
    "regression_moments": lambda rows, **who: dg.statistics.regression_moments(rows, DESIGN, **who),
}
REFUSED = {
    "a declared variable": ({"person": "kind"}, "not a declared variable"),
    "no column": ({"person": "nobody"}, "nobody"),
    "no name": ({"person": 7}, "person must name a column"),
    "no row": ({"person": "who", "rows_per_person": 0}, "rows_per_person"),
    "no number": ({"person": "who", "rows_per_person": 1.5}, "rows_per_person"),
    "rows of nobody": ({"rows_per_person": 2}, "needs person"),
    "a group": ({"person": "who", "where": {"kind": 1}}, "where and person do not go together"),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("settings", "message"), REFUSED.values(), ids=REFUSED)
def test_settings_that_are_none_are_refused(reader, settings, message):
    with pytest.raises(dg.errors.DomainError, match=message):
        READERS[reader](paid([(1, 0), (2, 1)]), **settings)


def test_rows_that_name_nobody_refuse_a_table_and_are_dropped_in_a_strict_domain():
    rows = paid([(1, 0), (2, 1)]).assign(who=["a", None])
    for reader in READERS.values():
        with pytest.raises(dg.errors.DomainError, match="holds nulls"):
            reader(rows, person="who")
    strict = dg.Domain.of({"kind": dg.Categories(list(range(6)), other=0, missing=0)}, strict=True)
    counts = dg.count(rows, dg.Network.of(strict, {}), person="who")
    assert counts.sensitive_rows == 1
    with pytest.raises(dg.errors.ReleaseError, match="names no person is dropped"):
        dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1))
    capped = dg.count(cap_rows(rows, strict, "who", 1), dg.Network.of(strict, {}))
    with pytest.raises(dg.errors.ReleaseError, match="names no person is dropped"):
        dg.release(capped, dg.LaplaceMechanism(1), budget=dg.Budget(1))


def test_codes_and_pairs_of_arrays_have_no_persons():
    with pytest.raises(dg.errors.DomainError, match="codes hold no person"):
        dg.count(dg.statistics.encode(frame([(1, 0)]), DOMAIN), NETWORK, person="who")
    with pytest.raises(dg.errors.DomainError, match="no column of persons"):
        dg.statistics.regression_moments(([[1.0]], [0.5]), DESIGN, person="who")


def test_sums_that_were_capped_apart_do_not_add():
    sums = [dg.statistics.regression_moments(paid([(1, 0)]), DESIGN, person="who") for _ in range(2)]
    with pytest.raises(dg.errors.ReleaseError, match="capped apart"):
        sums[0] + sums[1]
    with pytest.raises(dg.errors.ReleaseError, match="counts without do not add"):
        sums[0] + dg.statistics.regression_moments(paid([(1, 0)]), DESIGN)


def test_the_door_takes_sums_whose_cap_the_unit_covers():
    mechanism = dg.LaplaceMechanism(1)
    sums = dg.statistics.regression_moments(paid([(1, 0), (1, 1)]), DESIGN, person="who", rows_per_person=2)
    for unit in (dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace", 2)):
        with pytest.raises(dg.errors.ReleaseError, match=r"rows_per_person=2|number of rows is private"):
            dg.release(sums, mechanism, budget=dg.Budget(1, unit=unit))
    assert dg.release(sums, mechanism, budget=dg.Budget(1, unit=dg.PrivacyUnit("add-remove", 2))).private


# --- groups -----------------------------------------------------------------------------------------------------------


def test_the_groups_of_one_split_are_of_one_choice_of_rows():
    """Person 1 has two rows in each of two groups: capped twice, both could be counted in each."""
    log, mechanism = frame([(1, 0), (1, 0), (1, 1), (1, 1)]), dg.LaplaceMechanism("1/4")
    budget = dg.Budget(2, unit=dg.PrivacyUnit("add-remove", 2))
    groups = budget.parallel(DOMAIN, "kind", epsilon=1)
    once, again = (cap_rows(log, DOMAIN, "who", 2) for _ in range(2))
    for kind in (0, 1):
        dg.release(dg.count(once, NETWORK, where={"kind": kind}), mechanism, budget=groups[kind])
    spent = groups[1].spent
    with pytest.raises(dg.errors.ReleaseError, match="capped in two calls"):
        dg.release(dg.count(again, NETWORK, where={"kind": 1}), mechanism, budget=groups[1])
    assert groups[1].spent == spent
    other = budget.parallel(DOMAIN, "kind", epsilon=1)
    dg.release(dg.count(again, NETWORK, where={"kind": 1}), mechanism, budget=other[1])


def test_a_group_within_a_group_keeps_the_choice():
    wide = dg.Domain.of({"kind": list(range(6)), "sex": ["F", "M"]})
    log = frame([(1, 0), (1, 1)]).assign(sex=["F", "M"])
    once, again = (cap_rows(log, wide, "who", 1) for _ in range(2))
    groups = dg.Budget(1, unit=dg.PrivacyUnit("add-remove")).parallel(wide, "kind", epsilon=1)
    inner = groups[1].parallel(wide, "sex", epsilon="1/2")["M"]
    dg.release(dg.count(once, NETWORK, where={"kind": 0}), dg.LaplaceMechanism("1/4"), budget=groups[0])
    with pytest.raises(dg.errors.ReleaseError, match="capped in two calls"):
        dg.release(dg.count(again, NETWORK, where={"kind": 1, "sex": "M"}), dg.LaplaceMechanism("1/4"), budget=inner)


def test_only_releases_of_one_choice_are_of_the_same_rows():
    """Two choices of rows are two data sets: what is learned from both may not take their counts for one."""
    log, mechanism = frame([(1, 0), (1, 1)]), dg.LaplaceMechanism(1)
    budget = dg.Budget(9, unit=dg.PrivacyUnit("add-remove"))
    codes = cap_rows(log, DOMAIN, "who", 1)
    same = [dg.release(dg.count(codes, NETWORK), mechanism, budget=budget).scope for _ in range(2)]
    other = dg.release(dg.count(log, NETWORK, person="who"), mechanism, budget=budget).scope
    whole = dg.release(dg.count(log, NETWORK), mechanism, budget=budget).scope
    assert relation(*same) == "same"
    assert relation(same[0], other) == relation(same[0], whole) == "overlapping"


@pytest.mark.parametrize(
    ("one", "same"),
    [
        (pa.array([Decimal("7.0")]), pa.array([Decimal("7.00")])),
        (pa.array([Decimal("7.00")]), pa.array([7])),
        (pa.array([Decimal("0.5")]), pa.array([0.5])),
        (pa.array([Decimal("0.0000001")]), pa.array([Decimal("0.00000010")])),
        (pa.array([Decimal(2**60 + 1)], pa.decimal128(38, 0)), pa.array([2**60 + 1])),
        (pa.array([90], pa.timestamp("s")), pa.array([90_000_000], pa.timestamp("us"))),
        (pa.array([90], pa.timestamp("s", "UTC")), pa.array([90_000], pa.timestamp("ms", "UTC"))),
    ],
    ids=str,
)
def test_a_person_is_the_same_in_columns_of_two_types(one, same):
    """Two tables of one log, whose columns of persons hold one value with more or fewer decimal places."""
    tables = [pa.table({"who": array, "kind": pa.array([0])}) for array in (one, same)]
    assert cap_rows(iter(tables), DOMAIN, "who", 1).sensitive_rows == 1


def test_persons_of_near_decimals_are_told_apart():
    names = pa.array([Decimal(text) for text in ("70", "7", "0.7", "7.01", "7.10", "123456789012345678901234567890.1")])
    log = pa.table({"who": names, "kind": pa.array([0] * 6)})
    assert cap_rows(log, DOMAIN, "who", 1).sensitive_rows == 6


@pytest.mark.parametrize(("blank", "name"), [("", "x"), (" ", "x"), (b"", b"x"), ("\t", "x")], ids=repr)
def test_a_blank_names_nobody(blank, name):
    """Taken for one person, adding somebody without a name would change which rows of others without one are kept."""
    log = pa.table({"who": [blank, blank, name], "kind": [0, 1, 2]})
    with pytest.raises(dg.errors.DomainError, match="holds nulls"):
        cap_rows(log, DOMAIN, "who", 1)
    strict = dg.Domain.of({"kind": dg.Categories(list(range(6)), other=0, missing=0)}, strict=True)
    assert cap_rows(log, strict, "who", 1).sensitive_rows == 1


def test_persons_by_bytes_that_are_no_text_are_told_apart():
    """Numbers of two bytes: read as text with replacement characters, 128 persons would be one."""
    names = pa.array([number.to_bytes(2, "big") for number in range(1, 512) if number not in (32, 9, 10, 11, 12, 13)])
    log = pa.table({"who": names, "kind": pa.array(np.zeros(len(names), int))})
    assert cap_rows(log, DOMAIN, "who", 1).sensitive_rows == len(names)


def test_a_person_who_is_no_column_is_not_said_to_be_declared():
    frame, domain = chain(30, 2)
    with pytest.raises(
        dg.errors.DomainError, match=r"column 'who' is not in the table; each of these once: a, b, who$"
    ):
        dg.statistics.cap_rows(frame, domain, "who", 2)
