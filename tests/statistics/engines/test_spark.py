"""Spark counts what memory counts, on a real Java, and neither it nor its log repeats a row."""

import sys
import traceback

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpgraph as dg
from dpgraph.statistics.engines import spark as engine
from dpgraph.statistics.rows import files as parquet
from dpgraph.structure.margins import measured_families
from tests.statistics.engines.single_rows import NUMBERS, STAY, not_taken
from tests.statistics.test_summary import GROUPS, NETWORK, SECRET, STRICT, folder, frame, strict
from tests.statistics.test_summary import parquet as write

pytestmark = pytest.mark.systems


def tables(counts):
    assert all(table.dtype == np.int64 for table in counts.sensitive_tables.values())
    return counts.sensitive_tables


def arrow(rows):
    return pa.Table.from_pandas(rows, preserve_index=False)


def refusal(rows, network, **settings):
    """The refusal of some rows, after checking that its whole traceback holds nothing of them."""
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError) as caught:
        dg.release(dg.count(rows, network, **settings), dg.LaplaceMechanism(1), budget=budget)
    assert budget.spent == 0
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    return str(caught.value)


@pytest.fixture(params=["driver adds", "cluster adds"])
def both_sums(request, monkeypatch):
    """Few cells are added by the driver, many by the cluster."""
    monkeypatch.setattr(engine, "CLUSTER_CELLS", 0 if request.param == "cluster adds" else 1 << 14)


@pytest.mark.parametrize("partitions", [1, 5])
def test_a_frame_is_counted_as_in_memory(spark, both_sums, partitions):
    rows = frame(300)
    held = spark.createDataFrame(arrow(rows)).repartition(partitions)
    assert tables(dg.count(held, NETWORK)) == tables(dg.count(rows, NETWORK))


def test_every_engine_makes_the_same_vector(spark, tmp_path):
    """Rows of asia in memory, as a stream, from Parquet, on Dask and on Spark."""
    network = dg.read_network("example:asia")
    rows = dg.sample_rows(dg.load("example:asia"), 3000, np.random.default_rng(3)).astype(object)
    path, table = write(rows, tmp_path / "rows.parquet", row_group_size=700), arrow(rows)
    held = [table, table.to_reader(max_chunksize=600), path, spark.createDataFrame(table).repartition(3)]
    held.append(dd.from_pandas(rows, npartitions=3))
    made = [dg.count(one, network) for one in held]
    made += [dg.count(path, network, engine=one) for one in (spark, "dask")]
    expected = tables(dg.count(rows, network))
    assert sum(expected[measured_families(network)[0]].ravel()) == 3000
    assert all(tables(counts) == expected for counts in made)


@pytest.mark.parametrize("n", [0, 1])
def test_no_row_and_one_row(spark, both_sums, n, tmp_path):
    rows, expected = frame(300).head(n), tables(dg.count(frame(300).head(n), NETWORK))
    assert tables(dg.count(spark.createDataFrame(arrow(rows)), NETWORK)) == expected
    path = write(rows, tmp_path / "rows.parquet")
    assert tables(dg.count(path, NETWORK, engine=spark)) == expected


def test_a_path_is_counted_as_in_memory(spark, both_sums, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "PIECE_ROWS", 20)
    path = folder(frame(300), tmp_path / "rows")
    write(frame(100, 5), path / "c.parquet", row_group_size=7)
    expected = tables(dg.count(pd.concat([frame(300), frame(100, 5)]), NETWORK))
    assert tables(dg.count(path, NETWORK, engine=spark)) == expected
    assert tables(dg.count(str(path), NETWORK, engine=spark)) == expected
    assert tables(dg.count(spark.read.parquet(str(path / "c.parquet")), NETWORK)) == tables(
        dg.count(frame(100, 5), NETWORK)
    )


@pytest.mark.parametrize("where", GROUPS, ids=str)
def test_a_declared_group_alone_is_counted(where, spark, tmp_path):
    rows = frame(200)
    expected = tables(dg.count(rows, NETWORK, where=where))
    held = spark.createDataFrame(arrow(rows))
    assert tables(dg.count(held, NETWORK, where=where)) == expected
    path = write(rows, tmp_path / "rows.parquet")
    assert tables(dg.count(path, NETWORK, where=where, engine=spark)) == expected


def test_columns_are_found_by_their_exact_names(spark):
    """Spark itself ignores case and reads a dot as a field."""
    network = dg.Network.of({"a.b": ["x", "y"], "a": ["u", "v"], "A": [1, 2]}, {"a": ["a.b"]})
    rows = pd.DataFrame({"A": [2, 2], "a": ["u", "v"], "a.b": ["y", "x"], "`": ["never", "read"]})
    assert tables(dg.count(spark.createDataFrame(arrow(rows)), network)) == tables(dg.count(rows, network))


#: So long that no time or port in a log holds it by chance.
NUMBER = 471_193_558_620_417

REFUSED = {
    "unknown text": {"word": ["a", SECRET]},
    "null text": {"word": ["a", None]},
    "unknown number": {"number": [1, NUMBER]},
    "null number": {"number": [1, None]},
    "nan in a binned column": {"age": [0.5, np.nan]},
    "text for numbers": {"number": ["1", SECRET]},
    "numbers for text": {"word": [NUMBER, NUMBER]},
    "numbers for booleans": {"flag": [0, 7]},
    "dates in a binned column": {"age": pd.to_datetime(["2020-01-01", "2021-01-01"])},
}


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.DomainWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_fit_are_refused_as_in_memory_and_nothing_of_them_is_logged(case, cluster, tmp_path):
    session, log = cluster
    rows, network = arrow(strict(**REFUSED[case])), dg.Network.of(STRICT, {})
    expected = refusal(rows, network)
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path)
    assert refusal(path, network, engine=session) == expected
    assert refusal(session.createDataFrame(rows), network) == expected
    logged = log.read_text()
    assert "TaskSetManager" in logged  # the log is the one that Spark writes
    assert SECRET not in logged
    assert str(NUMBER) not in logged


def test_the_cluster_passes_a_refusal_on_when_it_adds(spark, monkeypatch):
    monkeypatch.setattr(engine, "CLUSTER_CELLS", 0)
    held = spark.createDataFrame(arrow(strict(word=["a", SECRET])))
    assert refusal(held, dg.Network.of(STRICT, {})).startswith("column 'word' holds values outside")


def test_a_missing_or_repeated_column_is_named_before_any_job(spark, tmp_path):
    held = spark.createDataFrame(arrow(strict()))
    network = dg.Network.of(STRICT, {})
    assert refusal(held.drop("word"), network).startswith("column 'word' is not in the table")
    twice = held.select("*", held["word"])
    assert refusal(twice, network).startswith("column 'word' is there more than once")
    write(strict(), tmp_path / "a.parquet")
    write(strict().drop(columns="age"), tmp_path / "b.parquet")
    assert refusal(tmp_path, network, engine=spark).startswith("column 'age' is not in b.parquet")


def test_what_spark_says_of_a_row_that_it_cannot_make_is_not_passed_on(spark):
    """Its own message quotes the value."""
    held = spark.createDataFrame(arrow(strict(number=["1", SECRET])))
    held = held.withColumn("number", held["number"].cast("int"))
    with pytest.raises(Exception, match=SECRET):
        held.collect()
    said = refusal(held, dg.Network.of(STRICT, {}))
    assert said.startswith("Spark could not make or count the rows (")


def test_a_file_that_only_the_driver_sees_is_named(spark, tmp_path):
    pieces = [parquet.Piece(str(tmp_path / "gone.parquet"), (0,), 1)]
    with pytest.raises(
        dg.errors.DomainError, match=r"there is no file .*gone\.parquet; every worker must be able to read it"
    ):
        engine.count_path(pieces, tally(), spark)


def tally():
    from dpgraph.statistics.counts import families
    from dpgraph.statistics.tally import Tally

    return Tally(families(NETWORK))


def other_python(tmp_path, prologue):
    """The tests' Python, with something run before a worker starts."""
    (tmp_path / "sitecustomize.py").write_text(prologue)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    return str(python)


WITHOUT = """
import sys
from importlib.abc import MetaPathFinder
class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "dpgraph" or name.startswith("dpgraph."):
            raise ModuleNotFoundError("No module named 'dpgraph'", name=name)
sys.meta_path.insert(0, Without())
"""

OLD = """
import importlib.util, sys, types
sys.modules["dpgraph"] = old = types.ModuleType("dpgraph")
old.__version__, old.__spec__ = "0.0.1", importlib.util.spec_from_loader("dpgraph", None)
"""


OTHER = """
import collections, sys
V = collections.namedtuple("V", "major minor micro releaselevel serial")
sys.version_info = V(3, 9, 1, "final", 0)
"""

BROKEN = """
import sys
from importlib.abc import MetaPathFinder
class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "dpgraph.statistics.counts":
            raise ModuleNotFoundError("No module named 'numba'", name="numba")
sys.meta_path.insert(0, Without())
"""

NO_ARROW = """
import sys
from importlib.abc import MetaPathFinder
class Without(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "pyarrow":
            raise ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
sys.meta_path.insert(0, Without())
"""

#: What a worker has in place of this Python and this dpgraph, and what is said of it.
WORKERS = {
    "without dpgraph": (WITHOUT, "a worker cannot import dpgraph (ModuleNotFoundError: No module named 'dpgraph')"),
    "an old dpgraph": (OLD, "a worker has dpgraph 0.0.1"),
    "another Python": (OTHER, "the workers run Python 3.9, this process 3."),
    "a Python without pyarrow": (NO_ARROW, "the Python that the workers run has no pyarrow: set PYSPARK_PYTHON"),
    "a dpgraph that lacks something": (BROKEN, "a worker cannot use its dpgraph"),
}


@pytest.mark.parametrize("case", WORKERS)
def test_workers_that_cannot_count_are_told_of_before_a_row_is_touched(case, spark, tmp_path, monkeypatch):
    """In full, with the setting that mends it: the question holds no rows."""
    prologue, says = WORKERS[case]
    held = spark.createDataFrame(arrow(frame(20)))
    path = write(frame(20), tmp_path / "rows.parquet")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", other_python(tmp_path, prologue))
    monkeypatch.setattr(engine, "_total", None)  # whoever asks for rows fails
    capped = {"person": "unused", "rows_per_person": 2}
    for rows, settings in ((held, capped), (path, {"engine": spark})):
        said = refusal(rows, NETWORK, **settings)
        assert said.startswith(says)
        assert "PYSPARK_PYTHON" in said
        assert said.endswith("No row was read")


def test_a_python_that_is_not_there_is_named(spark, tmp_path, monkeypatch):
    path = write(frame(20), tmp_path / "rows.parquet")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "no python"))
    said = refusal(path, NETWORK, engine=spark)
    assert said.startswith(f"the workers cannot run {tmp_path / 'no python'}: set PYSPARK_PYTHON")


def test_workers_are_asked_once_a_session_and_again_where_their_python_is_another(spark, monkeypatch, tmp_path):
    asked = []
    answers = engine._answers_without_rows
    monkeypatch.setattr(engine, "_ASKED", engine.WeakKeyDictionary())
    monkeypatch.setattr(engine, "_answers_without_rows", lambda session: asked.append(1) or answers(session))
    assert engine.ask_workers(spark) == engine.ask_workers(spark) == spark.sparkContext.defaultParallelism
    assert len(asked) == 1
    monkeypatch.setattr(spark.sparkContext, "pythonExec", other_python(tmp_path, ""))
    engine.ask_workers(spark)
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("prologue", "says"),
    [(WITHOUT, "a worker cannot import dpgraph"), (OLD, "a worker has dpgraph 0.0.1")],
    ids=["without", "old"],
)
def test_a_worker_that_joins_later_is_told_of_as_well(spark, prologue, says, tmp_path, monkeypatch):
    held = spark.createDataFrame(arrow(frame(20)))
    path = write(frame(20), tmp_path / "rows.parquet")
    monkeypatch.setattr(engine, "ask_workers", lambda session: 2)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", other_python(tmp_path, prologue))
    for rows, settings in ((held, {}), (path, {"engine": spark})):
        said = refusal(rows, NETWORK, **settings)
        assert said == f"{says}; install dpgraph {dg.__version__} on every worker"


def test_what_reads_single_rows_takes_none_of_spark_and_says_what_to_do(spark):
    for said in not_taken(spark.createDataFrame(arrow(NUMBERS)), lambda held, name: held.select(name)):
        assert said == STAY.format("pyspark", "table.toPandas()")


def test_an_engine_is_for_a_parquet_path(spark, tmp_path):
    frame(5).to_csv(tmp_path / "rows.csv", index=False)
    for rows in (tmp_path / "rows.csv", frame(5), spark.createDataFrame(arrow(frame(5)))):
        assert "engine is for the path of a Parquet file or folder" in refusal(rows, NETWORK, engine=spark)
    path = write(frame(5), tmp_path / "rows.parquet")
    for wrong in ("spark", "sparkle", 3, spark.createDataFrame(arrow(frame(5)))):
        assert "engine must be a SparkSession or 'dask'" in refusal(path, NETWORK, engine=wrong)
