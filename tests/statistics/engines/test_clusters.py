"""Spark Connect and dask.distributed, each once on a cluster of this machine's processes: the integers of memory."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph.statistics.engines import dask as dask_engine
from dpgraph.statistics.engines.workers import question
from dpgraph.statistics.rows.persons import PersonCap
from tests.statistics.engines.test_capped import DESIGN, KEY, rows_of
from tests.statistics.engines.test_spark import refusal
from tests.statistics.test_summary import NETWORK, SECRET, STRICT, parquet, strict

pytestmark = pytest.mark.systems

ROWS = rows_of(200)


def made(rows, **settings):
    """Everything that is counted or summed of some rows, as integers."""
    cap = PersonCap("who", 2, KEY)
    return [
        dg.count(rows, NETWORK, **settings).sensitive_tables,
        dg.count(rows, NETWORK, where={"flag": True}, **settings).sensitive_tables,
        dg.count(rows, NETWORK, person=cap, **settings).sensitive_tables,
        dg.statistics.regression_moments(rows, DESIGN, **settings).sensitive_sums.tolist(),
        dg.statistics.regression_moments(rows, DESIGN, person=cap, **settings).sensitive_sums.tolist(),
    ]


def test_spark_connect_counts_what_memory_counts(connected, tmp_path):
    held = connected.createDataFrame(pa.Table.from_pandas(ROWS, preserve_index=False)).repartition(3)
    assert not hasattr(connected, "sparkContext")
    expected = made(ROWS)
    assert made(held) == expected
    path = parquet(ROWS, tmp_path / "rows.parquet", row_group_size=40)
    assert made(path, engine=connected) == expected
    spoilt = connected.createDataFrame(pa.Table.from_pandas(strict(word=["a", SECRET]), preserve_index=False))
    assert refusal(spoilt, dg.Network.of(STRICT, {})).startswith("column 'word' holds values outside")


def test_dask_distributed_counts_what_memory_counts(distributed, tmp_path):
    path = parquet(ROWS, tmp_path / "rows.parquet", row_group_size=40)
    with distributed.as_current():
        assert dask_engine.cluster() is distributed
        expected = made(ROWS)
        assert made(dd.from_pandas(ROWS, npartitions=3)) == expected
        assert made(path, engine="dask") == expected
        spoilt = dd.from_pandas(strict(word=["a", SECRET]), npartitions=1)
        assert refusal(spoilt, dg.Network.of(STRICT, {})).startswith("column 'word' holds values outside")
    logged = [line for lines in distributed.get_worker_logs().values() for line in lines]
    assert SECRET not in repr(logged)
    assert dask_engine.cluster() is None


LOG = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})


def released(rows):
    """What a hidden Markov model and a classifier release of a log, two rows of a person, by seeded noise."""
    settings = {"iterations": 5, "burn_in": 5, "chains": 1, "noise": dg.testing.SeededNoise(3)}
    hmm = dg.PrivateHMM(2, LOG, 1, person="who", rows_per_person=2, **settings)
    unit = dg.PrivacyUnit("add-remove", 2)
    yield hmm.fit(rows).release_.value.tables
    if not isinstance(rows, pd.DataFrame):
        classifier = dg.PrivateNaiveBayes(LOG, 1, unit=unit, inference="plug-in", noise=dg.testing.SeededNoise(3))
        yield classifier.fit(rows, "kind", person="who").release_.value.tables


def test_estimators_release_the_same_wherever_the_log_lies(spark):
    rng = np.random.default_rng(0)
    log = pd.DataFrame({name: rng.choice(np.array(LOG.levels(name), object), 120) for name in LOG.names})
    log["month"], log["who"] = log["month"].astype(int), rng.integers(0, 30, 120)
    hmm, naive_bayes = released(spark.createDataFrame(pa.Table.from_pandas(log, preserve_index=False)))
    assert [hmm, naive_bayes] == list(released(dd.from_pandas(log, npartitions=3)))
    assert [hmm] == list(released(log))


class Cluster:
    """A client whose workers answer as they are told."""

    def __init__(self, python="", **answer):
        self.python, self.answer = python, answer

    def get(self, *graph):
        raise AssertionError("rows were asked for")

    def get_versions(self):
        import platform

        python = self.python or platform.python_version()
        return {"workers": {"tcp://127.0.0.1:1": {"host": {"python": f"{python}.final.0"}}}}

    def run(self, ask):
        assert not self.python  # another Python cannot read a function
        return {"tcp://127.0.0.1:1": ask() | self.answer}


CLUSTERS = {
    "another Python": (Cluster("3.9.1"), "the workers run Python 3.9, this process 3."),
    "an old dpgraph": (Cluster(dpgraph="0.0.1"), "a worker has dpgraph 0.0.1; install dpgraph"),
    "no dpgraph": (Cluster(dpgraph="", problem="no such module"), "a worker cannot import dpgraph (no such module)"),
}


@pytest.mark.parametrize("case", CLUSTERS)
def test_workers_of_dask_are_asked_before_a_row_is_touched(case, tmp_path):
    import dask

    client, says = CLUSTERS[case]
    path = parquet(ROWS, tmp_path / "rows.parquet")
    with dask.config.set(scheduler=client.get):
        for rows, settings in ((path, {"engine": "dask"}), (dd.from_pandas(ROWS, npartitions=2), {"person": "who"})):
            said = refusal(rows, NETWORK, **settings)
            assert said.startswith(says)
            assert "dask worker" in said
            assert said.endswith("No row was read")


def test_a_cluster_that_does_not_answer_is_told_of_in_its_own_words():
    import dask

    class Gone(Cluster):
        def get_versions(self):
            raise TimeoutError("no scheduler at tcp://10.0.0.1:8786")

    with dask.config.set(scheduler=Gone().get):
        said = refusal(dd.from_pandas(ROWS, npartitions=2), NETWORK)
    assert said.startswith("Dask's workers did not answer: start the scheduler")
    assert said.endswith("Dask says: no scheduler at tcp://10.0.0.1:8786")


def test_a_worker_answers_for_itself():
    assert question()() == question()() | {"dpgraph": dg.__version__, "problem": ""}
