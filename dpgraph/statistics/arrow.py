"""Rows to Arrow columns: data frames, Arrow streams, CSV and Parquet files, one batch at a time.

Only the declared columns are read. No message repeats what a row holds, and none chains an exception that does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpgraph.statistics import parquet
from dpgraph.statistics.batches import Batch, batch_rows, require, select_columns
from dpgraph.statistics.pandas_columns import pandas_array
from dpgraph.structure.domain import Domain, DomainError

CSV_SUFFIXES = (".csv", ".csv.gz")


def batches(rows: Any, domain: Domain) -> Iterator[tuple[Batch, bool]]:
    """Yields the declared columns batch by batch, with whether they are untyped text.

    Args:
        rows: A pandas DataFrame, anything with ``__arrow_c_stream__`` (pyarrow, polars, DuckDB), the path of a CSV
            file, a Parquet file or a folder of Parquet files, or an iterator of any of these.
        domain: Which columns to read.

    Raises:
        DomainError: If the rows cannot be read or a declared column is missing or repeated.
    """
    engine = foreign_engine(rows)
    if isinstance(rows, str | Path):
        yield from _from_path(existing(rows), domain)
    elif engine == "pandas":
        yield _from_pandas(rows, domain), False
    elif engine in ("pyspark", "dask"):
        raise DomainError(f"the rows of a {engine} table stay on its cluster: count takes them, this does not")
    elif hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        yield from ((batch, False) for batch in _from_arrow(rows, domain))
    elif isinstance(rows, Iterator):
        yield from _from_iterator(rows, domain)
    else:
        raise DomainError(
            "rows must be a pandas, polars or Arrow table, an iterator of tables, or the path of a CSV or Parquet "
            f"file; got {type(rows).__name__}"
        )


def foreign_engine(rows: Any) -> str | None:
    """Which library a data frame is of, without importing it."""
    library = type(rows).__module__.partition(".")[0]
    return library if library in ("pandas", "pyspark", "dask") and hasattr(rows, "columns") else None


def existing(path: str | Path) -> Path:
    """A path that is there.

    Raises:
        DomainError: If it is not.
    """
    if not os.path.exists(path):
        raise DomainError(f"there is no file {path}")
    return Path(path)


def _from_pandas(frame: Any, domain: Domain) -> Batch:
    """The declared columns of a DataFrame; NaN becomes null."""
    require(list(frame.columns), domain, "the table")
    columns: Batch = {}
    for name in domain.names:
        try:
            array = pandas_array(frame[name])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            array = None
        if array is None:
            raise DomainError(f"column {name!r} holds values of more than one kind; make it all text or all numbers")
        columns[name] = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return columns


def _from_arrow(rows: Any, domain: Domain) -> Iterator[Batch]:
    """The declared columns of an Arrow stream, or of one batch; a large batch is taken in slices."""
    try:
        whole = rows if hasattr(rows, "__arrow_c_stream__") else pa.Table.from_batches([pa.record_batch(rows)])
        # A reader is read as it is, so that an interruption of the Python that feeds it stays one.
        reader = rows if isinstance(rows, pa.RecordBatchReader) else pa.RecordBatchReader.from_stream(whole)
        require(reader.schema.names, domain, "the table")
        for batch in reader:
            for start in range(0, batch.num_rows, batch_rows(domain)):
                yield select_columns(batch.slice(start, batch_rows(domain)), domain)
    except DomainError:
        raise
    except Exception as error:  # the engine behind the stream raises its own, and those may repeat a value
        failure = type(error).__name__
    else:
        return
    raise DomainError(f"the Arrow data of {type(rows).__name__} cannot be read; is it a table? ({failure})")


def _from_iterator(tables: Iterator[Any], domain: Domain) -> Iterator[tuple[Batch, bool]]:
    """The declared columns of one table after the other, each by its own types."""
    while True:
        try:
            table = next(tables)
        except StopIteration:
            return
        except Exception as error:  # whatever makes the tables may repeat a value
            failure = type(error).__name__
            break
        yield from batches(table, domain)
    raise DomainError(f"the iterator {type(tables).__name__} failed before its last table ({failure})")


def _from_path(path: Path, domain: Domain) -> Iterator[tuple[Batch, bool]]:
    """The declared columns of a file or of a folder of Parquet files."""
    if path.is_dir() or parquet.is_parquet(path):
        for piece in parquet.pieces(path, domain):
            yield from ((batch, False) for batch in parquet.read(piece, domain, threads=True))
    elif path.name.lower().endswith(CSV_SUFFIXES):
        yield from ((batch, True) for batch in _from_csv(path, domain))
    else:
        known = ", ".join(CSV_SUFFIXES + parquet.SUFFIXES)
        raise DomainError(f"{path} is neither {known} nor a folder of Parquet")


def _from_csv(path: Path, domain: Domain) -> Iterator[Batch]:
    """Batches of one CSV file, every declared column as text, an empty unquoted field as null."""
    import pyarrow.csv as csv

    options = csv.ConvertOptions(
        include_columns=list(domain.names),
        column_types=dict.fromkeys(domain.names, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    try:
        names = csv.open_csv(path).schema.names
        require(names, domain, path.name)
        # In a file of one column an empty line is a row with a null; skipping it would let a value change n.
        parsing = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
        for batch in csv.open_csv(path, convert_options=options, parse_options=parsing):
            yield select_columns(batch, domain)
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        failure = type(error).__name__
    else:
        return
    raise DomainError(f"{path} cannot be read as CSV; is it truncated or of another format? ({failure})")
