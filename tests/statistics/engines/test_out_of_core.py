"""Files and streams in bounded memory: the integers of memory, all of the rows or a refusal, nothing charged."""

import io
import signal
import sys
import threading

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph import waiting
from dpgraph.statistics import counts
from dpgraph.statistics import summary as engines
from dpgraph.statistics.counts import Counts
from dpgraph.statistics.rows import batches
from dpgraph.statistics.rows import files as parquet
from dpgraph.statistics.rows.files import place_of
from dpgraph.structure.frozen import FrozenMap
from tests.statistics.engines.rows import folder_of_its_own
from tests.statistics.test_summary import DOMAIN, GROUPS, NETWORK, SECRET, STRICT, frame, strict
from tests.tiers import Later, examples

duckdb = Later("duckdb")

pytestmark = pytest.mark.usefixtures("uncollected")


def tables(rows, network=NETWORK, **settings):
    return dg.count(rows, network, **settings).sensitive_tables


def refusal(rows, network=NETWORK):
    """The refusal of rows that were to be released, after checking that nothing was charged."""
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError) as caught:
        dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=budget)
    assert budget.spent == 0
    assert SECRET not in str(caught.value)
    return str(caught.value)


def written(rows, path, **options):
    pq.write_table(pa.Table.from_pandas(rows, preserve_index=False), path, **options)
    return path


@settings(max_examples=examples(25), deadline=None)
@given(st.integers(0, 60), st.integers(1, 70), st.integers(1, 50), st.integers(1, 20), st.booleans(), st.integers(1, 3))
def test_any_cut_of_a_file_gives_the_same_integers(n, row_group, piece, batch, dictionaries, threads):
    rows = frame(n)
    path = written(rows, folder_of_its_own() / "a.parquet", row_group_size=row_group, use_dictionary=dictionaries)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parquet, "PIECE_ROWS", piece)
        patch.setattr(batches, "BATCH_ROWS", batch)
        patch.setattr(engines, "THREADS", threads)
        held = parquet.pieces(place_of(path), DOMAIN)
        assert sum(found.sensitive_rows for found in held) == n
        assert sorted(i for found in held for i in found.row_groups) == list(range(-(-n // row_group) or len(held)))
        assert tables(path) == tables(rows)
        table = pa.Table.from_pandas(rows)
        assert tables(table) == tables(rows)
        assert tables(table.to_reader(max_chunksize=row_group)) == tables(rows)


def test_a_batch_is_bounded_in_rows_and_in_values():
    wide = dg.Domain.of({f"v{i}": [0, 1] for i in range(1000)})
    assert batches.batch_rows(wide) == 8000
    assert batches.batch_rows(DOMAIN) == 1 << 17
    large = pa.table({name: pa.nulls(300_000, pa.int64()) for name in ("a", "b")})
    from dpgraph.statistics.rows.arrow import batches as read

    domain = dg.Domain.of({"a": [0], "b": [1]})
    assert [len(batch["a"]) for batch, _ in read(large, domain)] == [131_072, 131_072, 37_856]


STREAMS = {
    "frames": lambda rows: (rows[i : i + 50] for i in range(0, len(rows), 50)),
    "polars and pandas": lambda rows: iter([pl.from_pandas(rows[:100]), rows[100:]]),
    "record batches": lambda rows: iter(pa.Table.from_pandas(rows).to_batches(max_chunksize=7)),
    "reader": lambda rows: pa.Table.from_pandas(rows).to_reader(max_chunksize=7),
    "duckdb": lambda rows: duckdb.connect().from_arrow(pa.Table.from_pandas(rows)),
    "duckdb query": lambda rows: duckdb.connect().from_arrow(pa.Table.from_pandas(rows)).filter("size > 0"),
}


@pytest.mark.parametrize("stream", STREAMS)
def test_streams_are_counted_as_in_memory(stream):
    assert tables(STREAMS[stream](frame())) == tables(frame())
    for where in GROUPS:
        assert tables(STREAMS[stream](frame()), where=where) == tables(frame(), where=where)


@pytest.mark.parametrize("piece", [7, 1000])
def test_groups_of_a_file_are_counted_as_in_memory(piece, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "PIECE_ROWS", piece)
    path = written(frame(), tmp_path / "rows.parquet", row_group_size=20)
    for where in GROUPS:
        assert tables(path, where=where) == tables(frame(), where=where)


def test_pandas_chunks_and_globbed_paths_are_streams(tmp_path):
    rows = frame()
    rows[:100].to_csv(tmp_path / "rows.csv", index=False)
    written(rows[100:], tmp_path / "rows.parquet")
    assert tables(pd.read_csv(tmp_path / "rows.csv", chunksize=9)) == tables(rows[:100])
    assert tables(tmp_path.glob("rows.*")) == tables(rows)


def test_an_iterator_that_fails_is_quoted_by_no_one():
    def failing():
        yield frame()
        raise RuntimeError(f"could not convert {SECRET}")

    assert refusal(failing()) == "the iterator generator failed before its last table (RuntimeError)"
    assert "got int" in refusal(iter([frame(), 3]))


class Watched:
    """A tally that says how many batches it has counted."""

    rows_at_once = cap = None

    def __init__(self, domain):
        self.domain, self.done = domain, 0
        self._lock = threading.Lock()

    def add(self, batch, vector, is_text=False):
        with self._lock:
            self.done += 1
        vector += 1

    def zero(self):
        return np.zeros(1, np.int64)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_few_batches_are_held_at_once(threads, monkeypatch):
    """Whoever reads is never more than the threads and two parts ahead of who counts."""
    monkeypatch.setattr(engines, "THREADS", threads)
    monkeypatch.setattr(engines.os, "cpu_count", lambda: 8)
    tally, ahead = Watched(DOMAIN), []

    def stream():
        for made in range(200):
            ahead.append(made - tally.done)
            yield frame(2)

    assert engines.total(stream(), tally).tolist() == [200]
    assert max(ahead) <= threads + 2


def interrupted(rows, **settings):
    """Asks for a release that Ctrl-C stops while the rows are counted."""
    budget = dg.Budget(1)
    with pytest.raises(KeyboardInterrupt):
        dg.release(dg.count(rows, NETWORK, **settings), dg.LaplaceMechanism(1), budget=budget)
    assert budget.spent == 0
    assert budget.events == ()


@pytest.fixture
def ctrl_c():
    """Ctrl-C is KeyboardInterrupt, also in a process that was started to ignore it, as a background job is."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("held", ["file", "stream"])
def test_an_interruption_stops_the_count_and_charges_nothing(held, threads, tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "THREADS", threads)
    monkeypatch.setattr(engines.os, "cpu_count", lambda: 8)
    monkeypatch.setattr(parquet, "PIECE_ROWS", 1)
    calls, before = [], set(threading.enumerate())

    def pressed(network, codes, vector, count=counts._add):
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        count(network, codes, vector)

    path = written(frame(2000), tmp_path / "rows.parquet", row_group_size=2)
    monkeypatch.setattr(counts, "_add", pressed)
    interrupted(path if held == "file" else pa.Table.from_pandas(frame(2000)).to_reader(max_chunksize=2))
    assert len(calls) < 1000
    for thread in set(threading.enumerate()) - before:  # one that was just being started ends by itself
        thread.join(60)
    assert set(threading.enumerate()) <= before


def test_an_interrupted_stream_is_no_refusal():
    def stopped():
        yield from pa.Table.from_pandas(frame()).to_batches(max_chunksize=50)
        raise KeyboardInterrupt

    interrupted(stopped())
    schema = pa.Table.from_pandas(frame()).schema
    interrupted(pa.RecordBatchReader.from_batches(schema, stopped()))


def test_a_column_missing_in_one_file_of_many_is_refused_before_any_row_is_counted(tmp_path, monkeypatch):
    for part in range(5):
        written(frame(3).drop(columns="age") if part == 3 else frame(3), tmp_path / f"{part}.parquet")
    monkeypatch.setattr(counts, "_add", lambda *_: pytest.fail("rows were counted"))
    assert refusal(tmp_path).startswith("column 'age' is not in 3.parquet; each of these once: color, size, flag, age")


def test_files_may_differ_in_types_and_order_as_long_as_each_fits(tmp_path):
    """Levels 1, 2 as integers of any width and as reals; other columns come and go."""
    network = dg.Network.of({"number": [1, 2], "word": ["a", "b"]}, {"word": ["number"]})
    held = [
        pa.table({"number": pa.array([1, 2], kind), "word": pa.array(["a", "b"], text)})
        for kind in (pa.int8(), pa.uint64(), pa.float32(), pa.dictionary(pa.int8(), pa.int64()))
        for text in (pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string()))
    ]
    held.append(pa.table({"word": ["b"], "more": [SECRET], "number": [2.0]}))
    for part, table in enumerate(held):
        pq.write_table(table, tmp_path / f"{part:02}.parquet")
    expected = {("word", "number"): [[12, 0], [0, 13]]}
    for rows in (tmp_path, iter(held)):
        assert {key: table.tolist() for key, table in tables(rows, network).items()} == expected


@pytest.mark.parametrize(
    ("second", "says"),
    [
        ({"number": ["1", SECRET]}, "column 'number' is of type string"),
        ({"number": [1, 4711]}, "column 'number' holds values outside"),
        ({"word": [1, 2]}, "column 'word' is of type int64"),
        ({"word": ["a", None]}, "column 'word' holds nulls"),
        ({"flag": [0, 2]}, "column 'flag' holds values outside"),
    ],
)
def test_a_later_batch_that_does_not_fit_refuses_the_whole(second, says, tmp_path):
    parts, network = [strict(), strict(**second), strict()], dg.Network.of(STRICT, {})
    for number, part in enumerate(parts):
        written(part, tmp_path / f"{number}.parquet")
    for rows in (tmp_path, iter(parts)):
        assert refusal(rows, network).startswith(says)


def test_the_first_refusal_is_the_one_that_is_told(tmp_path, monkeypatch):
    """Whichever thread is done first."""
    monkeypatch.setattr(engines.os, "cpu_count", lambda: 4)
    network = dg.Network.of(STRICT, {})
    for number in range(8):
        bad = {"word": ["a", SECRET]} if number == 2 else {"age": [None, None]} if number > 2 else {}
        written(pd.concat([strict()] * 2000 + [strict(**bad)]), tmp_path / f"{number}.parquet")
    for _ in range(10):
        assert refusal(tmp_path, network).startswith("column 'word' holds values outside")


@pytest.mark.parametrize("cut", [0, 1, 12, 200, -20, -1])
def test_a_truncated_or_empty_file_among_whole_ones_refuses_the_folder(cut, tmp_path):
    for number in range(3):
        written(frame(200), tmp_path / f"{number}.parquet")
    whole = (tmp_path / "1.parquet").read_bytes()
    (tmp_path / "1.parquet").write_bytes(whole[:cut])
    assert "1.parquet cannot be read as Parquet; is it truncated" in refusal(tmp_path)


def test_a_file_with_damaged_pages_is_refused(tmp_path):
    """The footer is whole; the damage is met while rows are counted."""
    path = written(frame(20_000), tmp_path / "a.parquet", row_group_size=5000)
    data = bytearray(path.read_bytes())
    data[4:20_000] = bytes(19_996)
    path.write_bytes(bytes(data))
    assert "a.parquet cannot be read as Parquet" in refusal(path)


def test_a_file_without_rows_counts_nothing(tmp_path):
    written(frame(0), tmp_path / "a.parquet")
    assert dg.count(tmp_path, NETWORK).sensitive_rows == 0
    written(frame(4), tmp_path / "b.parquet")
    assert dg.count(tmp_path, NETWORK).sensitive_rows == 4


def test_counts_add_beyond_32_bits():
    """More rows than an int32 numbers, from counts made by hand rather than from rows."""
    network = dg.Network.of({"a": ["x", "y"]}, {})

    def made(*cells):
        return Counts(network, FrozenMap({("a",): np.array(cells, np.int64)}))

    whole = made(2**31 - 1, 2**40) + made(2**31 - 1, 1) + dg.count(pd.DataFrame({"a": ["x", "x", "x"]}), network)
    assert whole.sensitive_margin(("a",)).tolist() == [2**32 + 1, 2**40 + 1]
    assert whole.sensitive_rows == 2**40 + 2**32 + 2
    noisy = dg.release(whole, dg.LaplaceMechanism(1), budget=dg.Budget(1)).value
    assert abs(int(noisy.tables[("a",)][1]) - 2**40) < 1000


@pytest.mark.parametrize("threads", [1, 2])
def test_engines_add_beyond_32_bits(threads, monkeypatch):
    monkeypatch.setattr(engines, "THREADS", threads)
    monkeypatch.setattr(engines.os, "cpu_count", lambda: 8)

    class Crowd(Watched):
        def add(self, batch, vector, is_text=False):
            vector += 2**30

    assert engines.total(iter([frame(1)] * 9), Crowd(DOMAIN)).tolist() == [9 * 2**30]


class Terminal(io.StringIO):
    def isatty(self):
        return True


ROWS = {
    "parquet": lambda path: written(frame(271), path / "rows.parquet", row_group_size=90),
    "stream": lambda path: pa.Table.from_pandas(frame(271)).to_reader(max_chunksize=90),
}


@pytest.mark.parametrize("held", ROWS)
def test_progress_is_asked_for_is_for_a_terminal_and_shows_no_number_of_rows(held, tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "PIECE_ROWS", 1)
    monkeypatch.setattr(waiting, "AFTER", 0.0)
    for stderr, asked, shown in (
        (Terminal(), {"progress": True}, True),
        (Terminal(), {}, False),
        (io.StringIO(), {"progress": True}, False),
    ):
        monkeypatch.setattr(sys, "stderr", stderr)
        assert tables(ROWS[held](tmp_path), **asked) == tables(frame(271))
        assert ("counting" in stderr.getvalue()) == shown
        assert not [number for number in ("271", "270", "180", "90", "91") if number in stderr.getvalue()]
