"""Rows of a query: SQLite and DuckDB give the counts that the table gives, block by block; errors tell of no row."""

import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph.statistics.rows import arrow
from tests.tiers import Later

duckdb = Later("duckdb")

NETWORK = dg.Network.of(
    {"a": ["x", "y"], "b": [0, 1, 2], "c": dg.Bins([0, 10, 20], missing=True)}, {"b": ["a"], "c": ["b"]}
)


def people(n=500):
    rng = np.random.default_rng(0)
    c = np.where(rng.random(n) < 0.2, None, rng.uniform(0, 20, n))
    return pd.DataFrame({"a": rng.choice(["x", "y"], n), "b": rng.integers(0, 3, n), "c": c, "id": range(n)})


@pytest.fixture
def database():
    connection = sqlite3.connect(":memory:")
    people().astype({"c": float}).to_sql("people", connection, index=False)
    yield connection
    connection.close()


@pytest.mark.parametrize("block", [1, 7, 500, 1 << 16])
def test_a_cursor_of_sqlite_counts_as_the_table_does(database, block, monkeypatch):
    monkeypatch.setattr(arrow, "BLOCK", block)
    cursor = database.execute("select a, b, c, id from people")
    assert_same(dg.count(cursor, NETWORK), dg.count(people(), NETWORK))


def assert_same(found, wanted):
    noise = dg.testing.SeededNoise
    made = [
        dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=noise(3)).value
        for counts in (found, wanted)
    ]
    assert made[0] == made[1]


def test_a_relation_of_duckdb_counts_as_the_table_does():
    frame = people()
    with duckdb.connect() as connection:
        connection.register("people", frame.astype({"c": float}))
        assert_same(dg.count(connection.sql("select b, a, c from people"), NETWORK), dg.count(frame, NETWORK))


def test_a_cursor_that_speaks_arrow_is_read_as_arrow():
    class Adbc:
        description = (("a",), ("b",), ("c",))

        def fetchmany(self, size):
            pytest.fail("rows were fetched one by one")

        def fetch_record_batch(self):
            return pa.Table.from_pandas(people().astype({"c": float})).to_reader(50)

    assert_same(dg.count(Adbc(), NETWORK), dg.count(people(), NETWORK))


def test_persons_are_capped_in_a_query_too(database):
    whose = {"person": "id", "rows_per_person": 1}
    assert_same(
        dg.count(database.execute("select a, b, c, id from people"), NETWORK, **whose),
        dg.count(people(), NETWORK, **whose),
    )


def test_an_empty_result_is_an_empty_table(database):
    none = database.execute("select a, b, c from people where b > 7")
    assert_same(dg.count(none, NETWORK), dg.count(people(0), NETWORK))
    with pytest.raises(dg.errors.DomainError, match="column 'c' is not in the table"):
        dg.count(database.execute("select a, b from people where b > 7"), NETWORK)


def test_what_has_no_rows_is_refused_with_what_to_do(database):
    with pytest.raises(dg.errors.DomainError, match=r"give the cursor of a SELECT, connection\.execute"):
        dg.count(database, NETWORK)
    with pytest.raises(dg.errors.DomainError, match="execute a SELECT"):
        dg.count(database.execute("create table t (a text)"), NETWORK)


def test_a_driver_that_fails_tells_of_no_row():
    class Failing:
        description = (("a",), ("b",), ("c",))

        def fetchmany(self, size):
            raise RuntimeError("row 17 holds SECRET")

    with pytest.raises(dg.errors.DomainError) as refused:
        dg.count(Failing(), NETWORK)
    assert "SECRET" not in f"{refused.value!r}{refused.value.__cause__!r}{refused.value.__context__!r}"


@pytest.mark.parametrize("levels", [[False, True], ["false", "true"]])
@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
def test_booleans_of_sqlite_are_numbers_and_count_as_the_booleans_declared(levels):
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table people (flag boolean)")
        connection.executemany("insert into people values (?)", [(True,), (False,)])
        flags = dg.statistics.encode(connection.execute("select flag from people"), dg.Domain.of({"flag": levels}))
        assert flags.columns["flag"].tolist() == [1, 0]
        declared = dg.Network.of({"flag": [0, 1]}, {})
        expected = dg.count(pd.DataFrame({"flag": [0, 1]}), declared)
        assert_same(dg.count(connection.execute("select flag from people"), declared), expected)
