"""Rows to Arrow columns: data frames, Arrow streams, CSV and Parquet files, one batch at a time.

Only the declared columns are read. No message repeats what a row holds, and none chains an exception that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.statistics.rows import parquet
from dpgraph.statistics.rows.batches import (
    Batch,
    Declared,
    batch_length,
    batch_rows,
    check_columns,
    library_of,
    refuse_clusters,
    select_columns,
)
from dpgraph.statistics.rows.cells import pandas_column
from dpgraph.statistics.rows.locations import Place, is_there, place_of
from dpgraph.structure.conversion import OURS, converted, converted_each
from dpgraph.structure.domain import DomainError

if TYPE_CHECKING:
    import pandas as pd

#: The message about rows that fail in an unforeseen way.
UNREADABLE = "the rows cannot be read"

#: The endings of CSV files.
CSV = (".csv", ".csv.gz")

#: How many rows are fetched at once.
BLOCK = 1 << 16

FETCHING = "the rows of the cursor cannot be fetched"


def read_columns(
    rows: Any, declared: Declared, read: Callable[[Batch, bool], Sequence[npt.NDArray[Any]]]
) -> list[npt.NDArray[Any]]:
    """All rows as arrays, in memory: the arrays that ``read`` makes of each batch, joined. Sensitive.

    ``read`` is told whether the batch is untyped text; it is also given a batch without rows.
    """
    empty: Batch = {name: pa.nulls(0) for name in declared.names}

    def parts() -> list[Sequence[npt.NDArray[Any]]]:
        return [read(batch, is_text) for batch, is_text in batches(rows, declared)] or [read(empty, False)]

    return [
        np.concatenate(found) for found in zip(*converted(parts, UNREADABLE, passing=OURS, quiet=False), strict=True)
    ]


def batches(rows: Any, domain: Declared) -> Iterator[tuple[Batch, bool]]:
    """The declared columns of any rows outside a cluster, batch by batch, each with whether it is untyped text."""
    engine = foreign_engine(rows)
    if isinstance(rows, Held):
        yield from (({name: batch[name] for name in domain.names}, is_text) for batch, is_text in rows.parts)
    elif isinstance(rows, str | Path):
        yield from _from_path(place_of(rows), domain)
    elif engine == "pandas":
        yield _from_pandas(rows, domain), False
    elif engine in ("pyspark", "dask"):
        refuse_clusters(rows)
    elif hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        yield from ((batch, False) for batch in _from_arrow(rows, domain))
    elif is_cursor(rows):
        yield from _from_iterator(tables_of(rows), domain)
    elif isinstance(rows, Iterator):
        yield from _from_iterator(rows, domain)
    else:
        raise DomainError(
            "rows must be a pandas, polars or Arrow table, an iterator of tables, a database cursor, or the path of a "
            f"CSV or Parquet file; got {type(rows).__name__}{_remedy(rows)}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Held:
    """Rows as one reading gives them: batches, each with whether it is untyped text. Sensitive."""

    parts: Iterable[tuple[Batch, bool]]

    def where(self, kept: npt.NDArray[np.bool_]) -> Held:
        """The rows whose flag is set."""
        parts = tuple(self.parts)
        ends = np.cumsum([batch_length(batch) for batch, _ in parts])
        flags = [pa.array(part) for part in np.split(kept, ends[:-1])]
        found = zip(parts, flags, strict=True) if parts else ()
        return Held(tuple(({n: _flagged(a, flag, n) for n, a in batch.items()}, text) for (batch, text), flag in found))


def read_once(rows: Any, columns: Declared) -> Held:
    """All columns that a step needs, by one reading: a second one may have the rows in another order, or none."""
    parts = converted(lambda: tuple(batches(rows, columns)), UNREADABLE, passing=OURS, quiet=False)
    return Held(parts)


def _flagged(array: pa.Array, flags: pa.Array, name: str) -> pa.Array:
    """The values whose flag is set; Arrow has no filter of views."""
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    plain = array.cast(views[array.type]) if array.type in views else array
    return converted(lambda: plain.filter(flags), f"column {name!r} cannot be read by its declaration", quiet=False)


def _remedy(rows: Any) -> str:
    """What to give instead of rows that are plain Python, or no result of a query yet."""
    if isinstance(rows, dict | list):
        return ": of plain lists make a table first, pd.DataFrame(rows)"
    if callable(getattr(rows, "cursor", None)):
        return ": of a connection give the cursor of a SELECT, connection.execute(...)"
    if callable(getattr(rows, "collect", None)):
        return ": of a lazy table give rows.collect()"
    return ""


def foreign_engine(rows: Any) -> str | None:
    """The library of a data frame, found without importing it."""
    library = library_of(rows)
    return library if library in ("pandas", "pyspark", "dask") and hasattr(rows, "columns") else None


def _from_pandas(frame: Any, domain: Declared) -> Batch:
    check_columns(converted(lambda: list(frame.columns), "the table's columns cannot be listed"), domain, "the table")
    return {name: pandas_column(frame, name, domain) for name in domain.names}


def _from_arrow(rows: Any, domain: Declared) -> Iterator[Batch]:
    """The declared columns of an Arrow stream, or of one batch; a large batch is taken in slices."""
    problem = f"the Arrow data of {type(rows).__name__} cannot be read; is it a table?"
    reader = converted(lambda: _reader(rows), problem, quiet=False)
    check_columns(converted(lambda: reader.schema.names, problem), domain, "the table")
    for batch in converted_each(iter(reader), problem):
        for start in range(0, batch.num_rows, batch_rows(domain)):
            yield select_columns(batch.slice(start, batch_rows(domain)), domain)


def _reader(rows: Any) -> pa.RecordBatchReader:
    if isinstance(rows, pa.RecordBatchReader):  # as it is, so that interruptions of its source pass through
        return rows
    if isinstance(rows, pa.Table):  # the way out and in again ends the process on short string views, at least up to 22
        return rows.to_reader()
    if hasattr(rows, "__arrow_c_stream__") and not isinstance(rows, pa.RecordBatch):
        return pa.RecordBatchReader.from_stream(rows)
    one = rows if isinstance(rows, pa.RecordBatch) else pa.record_batch(rows)
    return pa.Table.from_batches([one]).to_reader()


def _from_iterator(tables: Iterator[Any], domain: Declared) -> Iterator[tuple[Batch, bool]]:
    for table in converted_each(tables, f"the iterator {type(tables).__name__} failed before its last table"):
        if isinstance(table, str | Path) and not is_there(table):
            raise DomainError("the iterator yields text that is no path of a file; it must yield tables")
        yield from batches(table, domain)


def _from_path(path: Place, domain: Declared) -> Iterator[tuple[Batch, bool]]:
    if path.is_folder() or parquet.is_parquet(path):
        for piece in parquet.pieces(path, domain):
            yield from ((batch, False) for batch in parquet.read(piece, domain, threads=True))
    elif path.name.lower().endswith(CSV):
        yield from ((batch, True) for batch in _from_csv(path, domain))
    else:
        known = ", ".join(CSV + parquet.SUFFIXES)
        raise DomainError(f"{path} is neither {known} nor a folder of Parquet")


def _from_csv(path: Place, domain: Declared) -> Iterator[Batch]:
    """The declared columns of a CSV file: every column as text, an empty unquoted field as null.

    In a strict declaration a line of too few or too many fields is a row of nulls, and text that is not UTF-8 is text:
    no line refuses the file. A file that does not end where its quotes and lines end is damaged, and is refused.
    """
    import pyarrow.csv as csv

    problem = f"{path} cannot be read as CSV; is it truncated or of another format?"
    ragged: list[int] = []

    def skip(row: Any) -> str:
        ragged.append(1)
        return "skip"

    options: Any = {"newlines_in_values": True, "invalid_row_handler": skip if domain.strict else None}
    with path.open() as source:
        header = csv.ParseOptions(**options)
        names = converted(lambda: csv.open_csv(source, parse_options=header).schema.names, problem)
    check_columns(names, domain, path.name)
    ragged.clear()
    # In a file of one column an empty line is a row with a null; skipping it would let a value change n.
    parsing = csv.ParseOptions(ignore_empty_lines=len(names) > 1, **options)
    columns = csv.ConvertOptions(
        include_columns=list(domain.names),
        column_types=dict.fromkeys(domain.names, pa.binary() if domain.strict else pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    with path.open() as source:
        reader = converted(lambda: csv.open_csv(source, convert_options=columns, parse_options=parsing), problem)
        for batch in converted_each(iter(reader), problem):
            yield select_columns(batch, domain)
    for start in range(0, len(ragged), batch_rows(domain)):
        rows = min(batch_rows(domain), len(ragged) - start)
        yield {name: pa.nulls(rows, pa.binary()) for name in domain.names}


def is_cursor(rows: Any) -> bool:
    """Whether rows are a cursor of PEP 249, by its methods."""
    return callable(getattr(rows, "fetchmany", None)) and hasattr(rows, "description") and not hasattr(rows, "columns")


def tables_of(cursor: Any) -> Iterator[Any]:
    """The rows of a cursor as tables: one Arrow stream where the driver has it, else frames of objects."""
    description = converted(lambda: cursor.description, FETCHING)
    if description is None:
        raise DomainError("the cursor has no rows; execute a SELECT with it first, and give it unread")
    if callable(getattr(cursor, "fetch_record_batch", None)):
        return iter([converted(cursor.fetch_record_batch, FETCHING)])
    return _fetched(cursor, converted(lambda: [str(column[0]) for column in description], FETCHING))


def _fetched(cursor: Any, names: list[str]) -> Iterator[pd.DataFrame]:
    """The rows block by block; of no rows one empty frame, which has the columns."""
    rows: list[Any] = converted(lambda: list(cursor.fetchmany(BLOCK)), FETCHING)
    yield _frame(rows, names)
    while rows:
        rows = converted(lambda: list(cursor.fetchmany(BLOCK)), FETCHING)
        if rows:
            yield _frame(rows, names)


def _frame(rows: list[Any], names: list[str]) -> pd.DataFrame:
    """Rows as columns of objects, typed where all of a column is of one type."""
    import pandas as pd

    def made() -> pd.DataFrame:
        columns = [pd.Series([row[i] for row in rows], dtype=object) for i in range(len(names))]
        frame = pd.DataFrame(dict(enumerate(columns)))
        frame.columns = names
        return frame

    return converted(made, FETCHING)
