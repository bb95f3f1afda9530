"""The same rows, held by every engine that ``count`` and ``encode`` take: one contract, tested over all of them."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import dpgraph as dg
from tests.tiers import Later

duckdb = Later("duckdb")

#: Removed when the interpreter ends; a hypothesis test cannot use ``tmp_path``.
_ROOT = tempfile.TemporaryDirectory(prefix="dpgraph-engines-")


def folder_of_its_own():
    """A fresh folder for one example."""
    return Path(tempfile.mkdtemp(dir=_ROOT.name))


class StreamOnly:
    """Anything with ``__arrow_c_stream__``, and nothing else."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


class ArrayOnly:
    """Anything with ``__arrow_c_array__``, and nothing else."""

    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


def table_of(frame):
    """A pyarrow table; a column without a value that tells its type is null."""
    return pa.table({name: pa.array(frame[name], from_pandas=True) for name in frame.columns})


def chunked(frame):
    """A table in chunks of three rows, an empty one among them."""
    whole = table_of(frame)
    parts = [whole.slice(start, 3) for start in range(0, len(whole), 3)]
    return pa.concat_tables([*parts, whole.slice(0, 0), whole.slice(0, 0)])


def dictionary(table):
    """A table whose columns are dictionaries, where Arrow can make them so."""
    return pa.table(
        {
            name: column if pa.types.is_null(column.type) else column.dictionary_encode()
            for name, column in zip(table.column_names, table.columns, strict=True)
        }
    )


def unused_categories(frame):
    """Categorical columns with categories that no row has and no domain declares, in front of the others."""
    made = {}
    for name in frame.columns:
        values = frame[name]
        kinds = {type(value) for value in values.dropna()}
        extra = ["never seen"] if kinds == {str} else [-98765] if kinds and kinds <= {int, float} else []
        dtype = pd.CategoricalDtype([*extra, *values.dropna().unique()])
        made[name] = pd.Categorical(values, dtype=dtype)
    return pd.DataFrame(made)


def polars_categorical(frame):
    made = pl.from_arrow(table_of(frame))
    return made.with_columns(pl.col(pl.String).cast(pl.Categorical))


def batches(frame):
    """A reader of single-row batches."""
    whole = table_of(frame)
    return pa.RecordBatchReader.from_batches(whole.schema, whole.to_batches(max_chunksize=1))


def csv(frame, name="rows.csv", **settings):
    """A CSV file, with a column that no one declared: a lone null field would be written as a quoted, empty word."""
    path = folder_of_its_own() / name
    frame.assign(**{"undeclared column": range(len(frame))}).to_csv(path, index=False, **settings)
    return path


def parquet(frame, name="rows.parquet", **settings):
    path = folder_of_its_own() / name
    pq.write_table(table_of(frame), path, **settings)
    return path


def folder(frame):
    """Parquet parts in nested folders, beside the bookkeeping of Spark."""
    root = folder_of_its_own() / "rows"
    for part, start in enumerate(range(0, max(1, len(frame)), 2)):
        inner = root / f"part={part // 2:04}"
        inner.mkdir(parents=True, exist_ok=True)
        pq.write_table(table_of(frame).slice(start, 2), inner / f"{part:04}.parquet")
    (root / "_SUCCESS").write_text("")
    (root / ".crc").mkdir()
    (root / ".crc" / "0.parquet").write_text("not Parquet")
    return root


def aside(frame):
    """Columns that no one declared, first, last and in between, in another order, under a repeated index."""
    made = frame[list(frame.columns)[::-1]].copy()
    made.insert(0, "undeclared: text", "never read")
    made["undeclared: objects"] = [object()] * len(made)
    made.index = pd.Index([0] * len(made))
    return made


IN_MEMORY = {
    "pandas object": lambda frame: frame.astype(object),
    "pandas inferred": lambda frame: frame.infer_objects(),
    "pandas nullable": lambda frame: frame.convert_dtypes(),
    "pandas on pyarrow": lambda frame: frame.convert_dtypes(dtype_backend="pyarrow"),
    "pandas string": lambda frame: frame.astype(
        {name: "string" for name in frame if {type(value) for value in frame[name].dropna()} == {str}}
    ),
    "pandas categorical": lambda frame: frame.astype("category"),
    "pandas unused categories": unused_categories,
    "pandas undeclared columns": aside,
    "polars": lambda frame: pl.from_arrow(table_of(frame)),
    "polars categorical": polars_categorical,
    "pyarrow table": table_of,
    "pyarrow chunks": chunked,
    "pyarrow dictionaries": lambda frame: dictionary(table_of(frame)),
    "pyarrow batch": lambda frame: pa.RecordBatch.from_arrays(
        [column.combine_chunks() for column in table_of(frame).columns], names=list(frame.columns)
    ),
    "pyarrow reader": batches,
    "duckdb relation": lambda frame: duckdb.connect().from_arrow(table_of(frame)),
    "iterator of tables": lambda frame: iter([frame[:2], table_of(frame[2:])]),
    "any stream": lambda frame: StreamOnly(chunked(frame)),
    "any array": lambda frame: ArrayOnly(IN_MEMORY["pyarrow batch"](frame)),
}

ON_DISK = {
    "csv": csv,
    "csv path as text": lambda frame: str(csv(frame)),
    "csv gz": lambda frame: csv(frame, "rows.csv.gz"),
    "csv crlf": lambda frame: csv(frame, lineterminator="\r\n"),
    "csv with a byte order mark": lambda frame: csv(frame, encoding="utf-8-sig"),
    "parquet": parquet,
    "parquet dictionaries": lambda frame: parquet(frame, use_dictionary=True, row_group_size=2),
    "parquet .pq": lambda frame: parquet(frame, "rows.pq", use_dictionary=False),
    "parquet folder": folder,
}

ENGINES = IN_MEMORY | ON_DISK


def codes(frame, domain):
    """Rows that are encoded already, by a domain that declares more than is asked for."""
    more = dg.Domain.of({**{f"{domain.names[0]} again": domain[domain.names[0]]}, **dict(domain.variables)})
    return dg.statistics.encode(frame.assign(**{f"{domain.names[0]} again": frame[domain.names[0]]}), more)
