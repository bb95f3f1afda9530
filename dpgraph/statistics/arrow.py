"""Rows to Arrow columns: data frames, Arrow streams, CSV and Parquet files, one batch at a time.

Only the declared columns are read. No message repeats what a row holds, and none chains an exception that does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpgraph.statistics.pandas_columns import pandas_array
from dpgraph.structure.domain import Domain, DomainError

#: One batch: the declared columns, and whether they are the untyped text of a CSV file.
Batch = dict[str, pa.Array]

CSV_SUFFIXES = (".csv", ".csv.gz")
PARQUET_SUFFIXES = (".parquet", ".pq")


def batches(rows: Any, domain: Domain) -> Iterator[tuple[Batch, bool]]:
    """Yields the declared columns batch by batch, with whether they are untyped text.

    Args:
        rows: A pandas DataFrame, anything with ``__arrow_c_stream__`` (pyarrow, polars, DuckDB), or the path of a
            CSV file, a Parquet file or a folder of Parquet files.
        domain: Which columns to read.

    Raises:
        DomainError: If the rows cannot be read or a declared column is missing or repeated.
    """
    if isinstance(rows, str | Path):
        yield from _from_path(Path(rows), domain)
    elif type(rows).__module__.partition(".")[0] == "pandas" and hasattr(rows, "columns"):
        yield _from_pandas(rows, domain), False
    elif hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        yield from ((batch, False) for batch in _from_arrow(rows, domain))
    else:
        raise DomainError(
            "rows must be a pandas, polars or Arrow table, or the path of a CSV or Parquet file; "
            f"got {type(rows).__name__}"
        )


def _from_pandas(frame: Any, domain: Domain) -> Batch:
    """The declared columns of a DataFrame; NaN becomes null."""
    _require(list(frame.columns), domain, "the table")
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
    """The declared columns of an Arrow stream, or of one batch."""
    try:
        whole = rows if hasattr(rows, "__arrow_c_stream__") else pa.Table.from_batches([pa.record_batch(rows)])
        reader = pa.RecordBatchReader.from_stream(whole)
        _require(reader.schema.names, domain, "the table")
        for batch in reader:
            yield _select(batch, domain)
    except DomainError:
        raise
    except Exception as error:  # the engine behind the stream raises its own, and those may repeat a value
        failure = type(error).__name__
    else:
        return
    raise DomainError(f"the Arrow data of {type(rows).__name__} cannot be read; is it a table? ({failure})")


def _select(batch: pa.RecordBatch, domain: Domain) -> Batch:
    """The declared columns of one Arrow batch."""
    _require(batch.schema.names, domain, "the table")
    return {name: batch.column(batch.schema.get_field_index(name)) for name in domain.names}


def _from_path(path: Path, domain: Domain) -> Iterator[tuple[Batch, bool]]:
    """The declared columns of a file or of a folder of Parquet files."""
    if not os.path.exists(path):
        raise DomainError(f"there is no file {path}")
    if path.is_dir():
        files = sorted(
            file
            for file in path.rglob("*")
            if file.name.lower().endswith(PARQUET_SUFFIXES) and file.is_file() and _visible(file, path)
        )
        if not files:
            raise DomainError(f"the folder {path} holds no Parquet file")
        for file in files:
            yield from ((batch, False) for batch in _from_parquet(file, domain))
    elif path.name.lower().endswith(PARQUET_SUFFIXES):
        yield from ((batch, False) for batch in _from_parquet(path, domain))
    elif path.name.lower().endswith(CSV_SUFFIXES):
        yield from ((batch, True) for batch in _from_csv(path, domain))
    else:
        raise DomainError(f"{path} is neither {', '.join(CSV_SUFFIXES + PARQUET_SUFFIXES)} nor a folder of Parquet")


def _visible(file: Path, folder: Path) -> bool:
    """Spark and Hive keep bookkeeping in files whose names start with a dot or an underscore."""
    return not any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _from_parquet(path: Path, domain: Domain) -> Iterator[Batch]:
    """Batches of one Parquet file."""
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _require(file.schema_arrow.names, domain, path.name)
            for batch in file.iter_batches(columns=list(domain.names)):
                yield _select(batch, domain)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        failure = type(error).__name__
    else:
        return
    raise DomainError(f"{path} cannot be read as Parquet; is it truncated or of another format? ({failure})")


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
        _require(names, domain, path.name)
        # In a file of one column an empty line is a row with a null; skipping it would let a value change n.
        parsing = csv.ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
        for batch in csv.open_csv(path, convert_options=options, parse_options=parsing):
            yield _select(batch, domain)
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError) as error:
        failure = type(error).__name__
    else:
        return
    raise DomainError(f"{path} cannot be read as CSV; is it truncated or of another format? ({failure})")


def _require(names: list[Any], domain: Domain, where: str) -> None:
    """Refuses a table in which a declared column is missing or repeated."""
    for name in domain.names:
        if names.count(name) != 1:
            problem = "is not in" if name not in names else "is there more than once in"
            raise DomainError(f"column {name!r} {problem} {where}; the domain declares {', '.join(domain.names)}")
