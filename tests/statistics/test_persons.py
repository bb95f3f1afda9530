"""The cap on a person's rows: what is kept depends on that person's rows alone."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.statistics.persons import cap_rows

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
    with pytest.raises(dg.DomainError, match=message):
        cap_rows(frame([(1, 0)]), DOMAIN, person, cap)


def test_rows_without_a_person_and_codes_are_refused():
    rows = pd.DataFrame({"who": [1, None], "kind": [0, 1]})
    with pytest.raises(dg.DomainError, match="nulls"):
        cap_rows(rows, DOMAIN, "who", 1)
    with pytest.raises(dg.DomainError, match="codes"):
        cap_rows(dg.encode(rows[["kind"]], DOMAIN), DOMAIN, "who", 1)
