"""Every engine keeps the same rows of each person for one key, in counts and in sums (proofs.md P87)."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph.statistics.engines import dask as dask_engine
from dpgraph.statistics.engines import spark as spark_engine
from dpgraph.statistics.rows import files as parquet_files
from dpgraph.statistics.rows.persons import PersonCap
from tests.statistics.test_summary import NETWORK, SECRET, folder, frame, gzipped, parquet, written
from tests.tiers import Later

dd = Later("dask.dataframe")

KEY = b"one key"
DESIGN = dg.LinearDesign({"age": dg.Bounded(0, 90, missing=30), "flag": [False, True]}, "size", (1, 3))

#: Ways to write who somebody is; the first three are the same texts.
WHO = {
    "numbers": lambda ids: ids,
    "text": lambda ids: ids.astype(str),
    "fractions of one": lambda ids: np.where(ids == 0, -0.0, ids.astype(float)),
    "dates": lambda ids: pd.Series(pd.to_datetime("2020-01-01") + pd.to_timedelta(ids, "D")).dt.date,
}


def rows_of(n=300, who="numbers", seed=4):
    rng = np.random.default_rng(seed)
    return frame(n).assign(who=WHO[who](rng.integers(0, 40, n)))


def tables(rows, cap=2, **how):
    return dg.count(rows, NETWORK, person=PersonCap("who", cap, KEY), **how).sensitive_tables


def sums(rows, cap=2, **how):
    made = dg.statistics.regression_moments(rows, DESIGN, person=PersonCap("who", cap, KEY), **how)
    return made.sensitive_rows, made.sensitive_sums.tolist()


LOCAL = {
    "shuffled": lambda rows, tmp: rows.sample(frac=1, random_state=2),
    "polars": lambda rows, tmp: pl.from_pandas(rows),
    "arrow": lambda rows, tmp: pa.Table.from_pandas(rows),
    "arrow reader": lambda rows, tmp: pa.Table.from_pandas(rows).to_reader(max_chunksize=11),
    "categories": lambda rows, tmp: rows.assign(who=rows["who"].astype("category")),
    "an iterator": lambda rows, tmp: iter([rows[:7], pa.Table.from_pandas(rows[7:150]), rows[150:]]),
    "csv": lambda rows, tmp: written(rows, tmp / "rows.csv"),
    "csv.gz": lambda rows, tmp: gzipped(rows, tmp / "rows.csv.gz"),
    "parquet": lambda rows, tmp: parquet(rows, tmp / "rows.parquet", row_group_size=13),
    "folder": lambda rows, tmp: folder(rows, tmp / "rows"),
    "dask": lambda rows, tmp: dd.from_pandas(rows, npartitions=5),
    "dask, one part": lambda rows, tmp: dd.from_pandas(rows, npartitions=1),
}


@pytest.mark.parametrize("engine", LOCAL)
def test_every_engine_keeps_the_same_rows(engine, tmp_path):
    rows = rows_of()
    assert tables(LOCAL[engine](rows, tmp_path)) == tables(rows)
    if not engine.startswith("csv"):  # whose words are no booleans and nulls of a design
        (tmp_path / "again").mkdir()
        assert sums(LOCAL[engine](rows, tmp_path / "again")) == sums(rows)


@pytest.mark.parametrize("count", [tables, sums, lambda rows: dg.count(rows, NETWORK)])
def test_dask_makes_each_partition_once(count):
    """A partition made again may be another: whose rows count, and what is counted, are of one making."""
    parts, made = np.array_split(np.arange(300), 3), []

    def part(i):
        made.append(i)
        return rows_of().iloc[np.random.default_rng(len(made)).permutation(parts[i])]

    lazy = dd.from_map(part, range(3), meta=rows_of().head(0))
    assert count(lazy) == count(rows_of()) if count in (tables, sums) else count(lazy)
    assert sorted(made) == [0, 1, 2]


def test_who_somebody_is_does_not_depend_on_how_it_is_written():
    texts = [tables(rows_of(who=who)) for who in ("numbers", "text", "fractions of one")]
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize("who", WHO)
def test_dask_reads_any_column_of_persons(who, tmp_path, monkeypatch):
    monkeypatch.setattr(dask_engine, "BUCKETS", 3)
    monkeypatch.setattr(parquet_files, "PIECE_ROWS", 20)
    rows = rows_of(who=who)
    path = parquet(rows, tmp_path / "rows.parquet", row_group_size=13)
    assert tables(dd.from_pandas(rows, npartitions=6)) == tables(rows)
    assert tables(path, engine="dask") == tables(rows)


@pytest.mark.parametrize("who", WHO)
def test_spark_reads_any_column_of_persons(who, spark, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "PIECE_ROWS", 40)
    monkeypatch.setattr(spark_engine, "CLUSTER_CELLS", 0 if who == "text" else 1 << 14)
    rows = rows_of(who=who)
    held = spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False)).repartition(3)
    assert tables(held) == tables(rows)
    assert tables(parquet(rows, tmp_path / "rows.parquet", row_group_size=13), engine=spark) == tables(rows)


@pytest.mark.parametrize("cap", [1, 5])
def test_sums_on_clusters_are_those_in_memory(cap, spark, tmp_path):
    rows = rows_of(200)
    path = parquet(rows, tmp_path / "rows.parquet", row_group_size=50)
    held = spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False))
    for made in (dd.from_pandas(rows, npartitions=3), held):
        assert sums(made, cap) == sums(rows, cap)
    for engine in ("dask", spark):
        assert sums(path, cap, engine=engine) == sums(rows, cap)


def test_no_row_is_counted_of_none(spark, tmp_path):
    rows = rows_of(20).head(0)
    path = parquet(rows_of(20), tmp_path / "rows.parquet")
    assert all(table.sum() == 0 for table in tables(rows).values())
    empty = spark.createDataFrame(pa.Table.from_pandas(rows_of(20), preserve_index=False)).limit(0)
    assert tables(empty) == tables(rows)
    assert tables(dd.from_pandas(rows_of(20), npartitions=2).query("size > 9")) == tables(rows)
    assert sum(next(iter(tables(path, 9, engine="dask").values())).ravel()) == 20


REFUSED = {
    "a null person": (lambda rows: rows.assign(who=[None, *rows["who"].astype(str)[1:]]), "column 'who' holds nulls"),
    "a null size": (lambda rows: rows.assign(size=[None, *rows["size"][1:]]), "column 'size' holds nulls"),
    "an unknown size": (lambda rows: rows.assign(size=[471_193, *rows["size"][1:]]), "column 'size' holds values"),
    "no persons": (lambda rows: rows.drop(columns="who"), "column 'who' is not in"),
}


@pytest.mark.parametrize(("spoil", "message"), REFUSED.values(), ids=REFUSED)
def test_a_refusal_is_the_same_everywhere_and_says_nothing_of_rows(spoil, message, spark, tmp_path):
    rows = spoil(rows_of(60))
    path = parquet(rows, tmp_path / "rows.parquet", row_group_size=20)
    held = spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False))
    tried = [(rows, {}), (dd.from_pandas(rows, npartitions=3), {}), (held, {})]
    tried += [(path, {}), (path, {"engine": "dask"}), (path, {"engine": spark})]
    for given, how in tried:
        with pytest.raises(dg.errors.DomainError, match=message) as caught:
            tables(given, **how)
        assert SECRET not in str(caught.value)
        assert "471" not in str(caught.value)
        assert caught.value.__cause__ is caught.value.__context__ is None


def test_in_a_strict_domain_rows_of_nobody_are_dropped_everywhere(spark, tmp_path):
    declared = {name: NETWORK.domain[name] for name in ("color", "age")}
    strict = dg.Network.of(dg.Domain.of(declared, strict=True), {"age": ["color"]})
    rows = rows_of(90, "text")
    rows.loc[::7, "who"] = None
    path = parquet(rows, tmp_path / "rows.parquet", row_group_size=20)
    held = spark.createDataFrame(pa.Table.from_pandas(rows, preserve_index=False))
    cap = PersonCap("who", 2, KEY)
    expected = dg.count(rows.dropna(subset=["who"]), strict, person=cap).sensitive_tables
    for given, how in ((rows, {}), (dd.from_pandas(rows, npartitions=3), {}), (held, {}), (path, {"engine": "dask"})):
        assert dg.count(given, strict, person=cap, **how).sensitive_tables == expected
    assert dg.count(path, strict, person=cap, engine=spark).sensitive_tables == expected
