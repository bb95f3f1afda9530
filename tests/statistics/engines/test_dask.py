"""Dask counts what memory counts, on threads and on processes, and passes on no word of a row."""

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.statistics.engines import dask as engine
from dpgraph.statistics.engines import workers
from dpgraph.statistics.rows import files as parquet
from dpgraph.statistics.rows.files import place_of
from tests.statistics.engines.single_rows import NUMBERS, STAY, not_taken
from tests.statistics.engines.test_spark import REFUSED, refusal, tables, tally
from tests.statistics.test_summary import DOMAIN, GROUPS, NETWORK, SECRET, STRICT, folder, frame, strict
from tests.statistics.test_summary import parquet as write

pytestmark = pytest.mark.systems


@pytest.fixture(params=["synchronous", "threads"])
def scheduler(request):
    with dask.config.set(scheduler=request.param):
        yield request.param


@pytest.mark.parametrize("partitions", [1, 3, 40])
def test_a_frame_is_counted_as_in_memory(scheduler, partitions):
    rows = frame(300)
    held = dd.from_pandas(rows, npartitions=partitions)
    assert tables(dg.count(held, NETWORK)) == tables(dg.count(rows, NETWORK))


@pytest.mark.parametrize("n", [0, 1])
def test_no_row_and_one_row(scheduler, n, tmp_path):
    rows = frame(300).head(n)
    expected = tables(dg.count(rows, NETWORK))
    assert tables(dg.count(dd.from_pandas(rows, npartitions=1), NETWORK)) == expected
    assert tables(dg.count(write(rows, tmp_path / "rows.parquet"), NETWORK, engine="dask")) == expected


def test_a_path_is_counted_as_in_memory(scheduler, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "PIECE_ROWS", 5)
    path = folder(frame(300), tmp_path / "rows")
    write(frame(100, 5), path / "c.parquet", row_group_size=3)
    expected = tables(dg.count(pd.concat([frame(300), frame(100, 5)]), NETWORK))
    assert tables(dg.count(path, NETWORK, engine="dask")) == expected
    expected = tables(dg.count(frame(100, 5), NETWORK))
    assert tables(dg.count(dd.read_parquet(path / "c.parquet"), NETWORK)) == expected


def test_processes_count_the_same(tmp_path):
    path = write(frame(100), tmp_path / "rows.parquet")
    expected = tables(dg.count(frame(100), NETWORK))
    with dask.config.set(scheduler="processes", num_workers=1):
        assert tables(dg.count(path, NETWORK, engine="dask")) == expected
        held = dd.from_pandas(strict(word=["a", SECRET]), npartitions=1)
        assert refusal(held, dg.Network.of(STRICT, {})).startswith("column 'word' holds values outside")


@pytest.mark.parametrize("where", GROUPS, ids=str)
def test_a_declared_group_alone_is_counted(where, scheduler, tmp_path):
    rows = frame(200)
    held = dd.from_pandas(rows, npartitions=4)
    expected = tables(dg.count(rows, NETWORK, where=where))
    assert tables(dg.count(held, NETWORK, where=where)) == expected
    path = write(rows, tmp_path / "rows.parquet")
    assert tables(dg.count(path, NETWORK, where=where, engine="dask")) == expected


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.DomainWarning")
@pytest.mark.parametrize("case", REFUSED)
def test_rows_that_do_not_fit_are_refused_as_in_memory(case, scheduler):
    rows, network = strict(**REFUSED[case]), dg.Network.of(STRICT, {})
    assert refusal(dd.from_pandas(rows, npartitions=1), network) == refusal(rows, network)


def test_a_missing_or_repeated_column_is_named():
    network = dg.Network.of(STRICT, {})
    held = dd.from_pandas(strict(), npartitions=1)
    assert refusal(held.drop(columns="word"), network).startswith("column 'word' is not in the table")
    twice = pd.concat([strict(), strict()[["word"]]], axis=1)
    with dask.config.set({"dataframe.convert-string": False}):
        assert refusal(dd.from_pandas(twice, npartitions=1), network).startswith("column 'word' is there more than on")


def test_what_dask_says_of_a_row_that_it_cannot_make_is_not_passed_on(scheduler):
    held = dd.from_pandas(strict(number=["1", SECRET]), npartitions=1)
    held["number"] = held["number"].astype(int)
    assert refusal(held, dg.Network.of(STRICT, {})) == "Dask could not make or count the rows (ValueError)"


def test_what_reads_single_rows_takes_none_of_dask_and_says_what_to_do():
    """Each before a charge, in one sentence that names no column and no value."""
    for said in not_taken(dd.from_pandas(NUMBERS, npartitions=2), lambda held, name: held[name]):
        assert said == STAY.format("dask", "table.compute()")


def test_a_worker_passes_on_no_word_of_what_it_meets():
    """A task that fails for another reason than its rows' domain is quoted by its kind alone."""
    answer = workers.worker_task(fail)([SECRET])
    assert answer == ("a worker could not count its rows (KeyError)", None)


def fail(rows):
    raise KeyError(rows[0])


def test_answers_add_beyond_32_bits_and_the_first_refusal_wins():
    large, small = np.array([2**31 - 1, 2**40], np.int64), np.array([5, 2**40], np.int64)
    refusal, vector = workers.merge_answers([(None, large), (None, small), (None, small)])
    assert refusal is None
    assert vector.dtype == np.int64
    assert vector.tolist() == [2**31 + 9, 3 * 2**40]
    assert workers.merge_answers([(None, large), ("first", None), ("second", None)]) == ("first", None)


def test_many_answers_are_merged_in_a_tree(monkeypatch, tmp_path):
    monkeypatch.setattr(engine, "FAN_IN", 2)
    path = write(frame(50), tmp_path / "rows.parquet")
    pieces = parquet.pieces(place_of(path), DOMAIN) * 7
    once = dg.count(frame(50), NETWORK).sensitive_tables
    vector = engine.count_path(pieces, tally())
    assert vector.tolist() == np.concatenate([7 * table.ravel() for table in once.values()]).tolist()
