"""Reading rows: what is refused, whatever holds them, and that no refusal repeats what a row holds."""

import traceback

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpgraph as dg
from tests.statistics.engines.rows import ENGINES, ON_DISK, ArrayOnly, StreamOnly, csv, parquet

#: Distinctive, and made here, so that no source line in a traceback holds them.
SECRET = "-".join(["Xq7", "hush", "93c1"])
SECRET_NUMBER = 10**9 + 918_273_645

DOMAIN = dg.Domain.of({"text": ["a", "b"], "number": [0, 1], "flag": [True, False], "age": dg.Bins([0, 1, 2])})
NETWORK = dg.Network.of(DOMAIN, {"text": ["flag"]})


def rows(**changes):
    good = {"text": ["a", "b", "a"], "number": [0, 1, 0], "flag": [True, False, True], "age": [0.5, 1.5, 9.0]}
    return pd.DataFrame(good | changes)


def refusal(made):
    """The refusal of some rows, after checking that its whole traceback holds nothing of them."""
    with pytest.raises(dg.errors.DomainError) as caught:
        dg.count(made, NETWORK)
    assert type(caught.value) is dg.errors.DomainError
    shown = "".join(traceback.format_exception(caught.value))
    assert SECRET not in shown
    assert str(SECRET_NUMBER) not in shown
    assert caught.value.__cause__ is None
    return str(caught.value)


SECRETS = {
    "an unknown word": rows(text=["a", "b", SECRET]),
    "an unknown number": rows(number=[0, 1, SECRET_NUMBER]),
    "an unknown real": rows(number=[0.0, 1.0, SECRET_NUMBER + 0.5]),
    "words for numbers": rows(number=[SECRET, SECRET, SECRET]),
    "words for bins": rows(age=["0-1", SECRET, "1-2"]),
    "numbers for words": rows(text=[SECRET_NUMBER] * 3),
    "numbers for booleans": rows(flag=[SECRET_NUMBER] * 3),
    "words for booleans": rows(flag=[SECRET] * 3),
    "a null among secrets": rows(text=[SECRET, None, "a"]),
}


@pytest.mark.parametrize("case", SECRETS)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
def test_no_refusal_repeats_a_private_value(engine, case):
    column = next(name for name in DOMAIN.names if not SECRETS[case][name].equals(rows()[name]))
    assert f"column {column!r}" in refusal(ENGINES[engine](SECRETS[case]))


@pytest.mark.parametrize(
    "values",
    [
        ["a", 1, SECRET],
        [SECRET, 1, 2],
        [SECRET_NUMBER, SECRET, None],
        [2**70, SECRET_NUMBER, 0],
        [{SECRET: 1}, {SECRET: 2}, None],
        [[SECRET], [], None],
        [SECRET.encode()] * 3,
        [complex(SECRET_NUMBER)] * 3,
        [type(SECRET, (), {})()] * 3,
        ["a", "b", f"{SECRET}\ud800"],
    ],
    ids=["a", "b", "c", "huge", "struct", "list", "bytes", "complex", "object", "surrogate"],
)
@pytest.mark.parametrize("column", DOMAIN.names)
def test_no_refusal_of_a_pandas_object_column_repeats_one(column, values):
    assert f"column {column!r}" in refusal(rows().assign(**{column: pd.Series(values, dtype=object)}))


def test_no_refusal_names_a_category_that_no_row_has():
    extra = pd.Categorical(["a", "b", None], categories=["a", "b", SECRET])
    assert "column 'text' holds nulls" in refusal(rows().assign(text=extra))
    polars = pl.DataFrame({"text": pl.Series(["a", None, "b"], dtype=pl.Enum(["a", "b", SECRET]))})
    assert "column 'text' holds nulls" in refusal(polars.with_columns(number=0, flag=True, age=0.5))


BROKEN_CSV = {
    "a ragged row": f"text,number,flag,age\na,0,True,0.5\n{SECRET},1\n",
    "a row too long": f"text,number,flag,age\na,0,True,0.5,{SECRET}\n",
    "cut inside quotes": f'text,number,flag,age\na,0,True,0.5\n"{SECRET}',
    "cut inside a row": f"text,number,flag,age\na,0,True,0.5\n{SECRET}",
    "no header": f"{SECRET},0,True,0.5\n",
    "a missing column": f"text,number,flag,{SECRET}\na,0,True,0.5\n",
    "a repeated column": f"text,number,flag,age,text\na,0,True,0.5,{SECRET}\n",
    "not UTF-8": f"text,number,flag,age\na,0,True,0.5\n{SECRET}\udcff,1,True,1\n",
    "a NUL": f"text,number,flag,age\na,0,True,0.5\n{SECRET}\0,1,True,1\n",
    "empty": "",
    "blank": "\n\n",
}


@pytest.mark.parametrize("case", BROKEN_CSV)
@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
def test_a_broken_csv_is_refused(case, name, tmp_path):
    import gzip

    data = BROKEN_CSV[case].encode("utf-8", "surrogateescape")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    assert "column " in refusal(tmp_path / name) or name in refusal(tmp_path / name)


def test_random_bytes_are_refused_under_every_suffix(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("rows.csv", "rows.csv.gz", "rows.parquet", "rows.pq"):
        for size in (1, 100, 5000):
            (tmp_path / name).write_bytes(rng.bytes(size))
            refusal(tmp_path / name)


@pytest.mark.parametrize("tenth", range(10))
@pytest.mark.parametrize("make", [parquet, lambda frame: csv(frame, "rows.csv.gz")], ids=["parquet", "csv.gz"])
def test_a_file_cut_short_is_refused_and_never_read_in_part(make, tenth):
    path = make(pd.concat([rows(text=["a", "b", "b"])] * 2000, ignore_index=True))
    assert dg.count(path, NETWORK).sensitive_rows == 6000
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * tenth // 10])
    assert "truncated" in refusal(path)


def test_one_cut_file_refuses_a_whole_folder():
    root = ON_DISK["parquet folder"](rows())
    part = next(root.rglob("0000.parquet"))
    part.write_bytes(part.read_bytes()[:-20])
    assert "0000.parquet cannot be read as Parquet" in refusal(root)


def test_a_file_of_another_format_is_refused(tmp_path):
    parquet(rows(text=[SECRET] * 3)).rename(tmp_path / "rows.csv")
    refusal(tmp_path / "rows.csv")
    csv(rows(text=[SECRET] * 3)).rename(tmp_path / "rows.parquet")
    assert "cannot be read as Parquet" in refusal(tmp_path / "rows.parquet")


@pytest.mark.parametrize(
    "name", ["none.csv", "none.parquet", "none", "deep/er/none.csv", "n" * 5000 + ".csv", "\0.csv"]
)
def test_a_file_that_is_not_there_is_named(name, tmp_path):
    assert f"there is no file {tmp_path}" in refusal(tmp_path / name)
    assert f"there is no file {tmp_path}" in refusal(str(tmp_path / name))


def test_a_folder_without_parquet_is_refused(tmp_path):
    assert "holds no Parquet file" in refusal(tmp_path)
    (tmp_path / "_part.parquet").write_bytes(parquet(rows()).read_bytes())
    (tmp_path / "rows.csv").write_bytes(csv(rows()).read_bytes())
    assert "holds no Parquet file" in refusal(tmp_path)


@pytest.mark.parametrize("name", ["rows.xlsx", "rows.txt", "rows", "rows.csv.zip", "rows.json"])
def test_a_file_of_an_unknown_kind_is_refused(name, tmp_path):
    (tmp_path / name).write_text(SECRET)
    assert "is neither .csv" in refusal(tmp_path / name)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", DOMAIN.names)
def test_a_missing_column_is_named(engine, name):
    message = refusal(ENGINES[engine](rows(other=[SECRET] * 3).drop(columns=name)))
    assert message.startswith(f"column {name!r} is not in ")
    assert "each of these once: text, number, flag, age" in message


def test_a_repeated_column_is_refused(tmp_path):
    twice = [*rows().columns, "text"]
    frame = pd.concat([rows(), pd.Series([SECRET] * 3)], axis=1)
    frame.columns = twice
    table = pa.Table.from_arrays([pa.array(frame.iloc[:, i]) for i in range(5)], names=twice)
    pq.write_table(table, tmp_path / "rows.parquet")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    batch = table.combine_chunks().to_batches()[0]
    for held in (
        frame,
        table,
        batch,
        table.to_reader(),
        StreamOnly(table),
        tmp_path / "rows.parquet",
        tmp_path / "rows.csv",
    ):
        assert "column 'text' is there more than once" in refusal(held)


def test_a_repeated_column_that_no_one_declared_is_ignored():
    frame = pd.concat([rows(), rows(other=1)[["other"]], rows(other=2)[["other"]]], axis=1)
    assert dg.count(frame, NETWORK).sensitive_rows == 3


@pytest.mark.parametrize(
    "held",
    [None, 1, [], [{"text": "a"}], {"text": ["a"]}, b"rows.csv", np.zeros((2, 4)), DOMAIN, pl.LazyFrame()],
    ids=type,
)
def test_what_holds_no_rows_is_refused(held):
    assert f"got {type(held).__name__}" in refusal(held)


def test_an_arrow_value_that_is_no_table_is_refused():
    for held in (
        pd.Series([SECRET]),
        pl.Series([SECRET]),
        pa.array([SECRET]),
        pa.chunked_array([[SECRET]]),
        ArrayOnly(pa.array([1])),
    ):
        streams = hasattr(held, "__arrow_c_stream__") or hasattr(
            held, "__arrow_c_array__"
        )  # columns of old pandas do not
        assert ("is it a table?" if streams else "rows must be a pandas") in refusal(held)


def test_an_engine_that_fails_in_mid_stream_is_quoted_by_no_one():
    """A lazy engine meets its bad value after the first batches; its own message holds the value."""

    def failing():
        yield pa.RecordBatch.from_pandas(rows())
        raise RuntimeError(f"could not convert {SECRET}")

    class Failing:
        def __arrow_c_stream__(self, requested_schema=None):
            raise RuntimeError(f"could not convert {SECRET}")

    schema = pa.RecordBatch.from_pandas(rows()).schema
    assert "RecordBatchReader cannot be read" in refusal(pa.RecordBatchReader.from_batches(schema, failing()))
    assert "StreamOnly cannot be read" in refusal(StreamOnly(pa.RecordBatchReader.from_batches(schema, failing())))
    assert "Failing cannot be read" in refusal(Failing())


def test_columns_whose_names_hold_dots_are_found(tmp_path):
    """Parquet paths are dotted; a struct's field is not the column of that name."""
    network = dg.Network.of({"a.b": ["x", "y"], "a": [0, 1]}, {})
    pq.write_table(pa.table({"s": [{"b": "y"}], "a.b": ["x"], "a": [1]}), tmp_path / "rows.parquet")
    counts = dg.count(tmp_path / "rows.parquet", network)
    assert counts.sensitive_margin(("a.b",)).tolist() == [1, 0]
    assert counts.sensitive_margin(("a",)).tolist() == [0, 1]
