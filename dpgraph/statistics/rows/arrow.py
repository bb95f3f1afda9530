"""Rows to Arrow columns, one batch at a time: data frames, Arrow streams, cursors; files are read by ``files``.

Only the declared columns are read. No message repeats what a row holds, and none chains an exception that does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.privacy.display import DataFrame
from dpgraph.statistics.rows.batches import (
    Batch,
    Declared,
    batch_length,
    batch_rows,
    check_columns,
    converted,
    library_of,
    refuse_clusters,
    select_columns,
    typed_cells,
    warn_of_types,
)
from dpgraph.statistics.rows.files import is_there, read_path
from dpgraph.structure.conversion import OURS, PublicWords, converted_each
from dpgraph.structure.domain import DomainError

#: The message about rows that fail in an unforeseen way.
UNREADABLE = "the rows cannot be read"
#: How many rows are fetched at once.
BLOCK = 1 << 16
FETCHING = "the rows of the cursor cannot be fetched"


def read_columns(
    rows: Any, declared: Declared, read: Callable[[Batch, bool], Sequence[npt.NDArray[Any]]]
) -> list[npt.NDArray[Any]]:
    """All rows in memory: the arrays that ``read`` makes of each batch, an empty one too, joined. Sensitive."""
    empty: Batch = {name: pa.nulls(0) for name in declared.names}
    with PublicWords(UNREADABLE, passing=OURS, quiet=False):
        parts = [read(batch, is_text) for batch, is_text in batches(rows, declared)] or [read(empty, False)]
        return [np.concatenate(found) for found in zip(*parts, strict=True)]


def batches(rows: Any, domain: Declared) -> Iterator[tuple[Batch, bool]]:
    """The declared columns by batch, with a flag for untyped text; last a warning if the first's types differ."""
    first = None
    for batch, is_text in _batches(rows, domain):
        if first is None:
            first = [] if is_text else converted(batch, domain)
        yield batch, is_text
    warn_of_types(first or [])


def _batches(rows: Any, domain: Declared) -> Iterator[tuple[Batch, bool]]:
    engine = foreign_engine(rows)
    if isinstance(rows, Held):
        yield from (({name: batch[name] for name in domain.names}, is_text) for batch, is_text in rows.parts)
    elif isinstance(rows, str | Path):
        yield from read_path(rows, domain)
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
    with PublicWords(UNREADABLE, passing=OURS, quiet=False):
        return Held(tuple(_batches(rows, columns)))


def _flagged(array: pa.Array, flags: pa.Array, name: str) -> pa.Array:
    """The values whose flag is set; Arrow has no filter of views."""
    views = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    plain = array.cast(views[array.type]) if array.type in views else array
    with PublicWords(f"column {name!r} cannot be read by its declaration", quiet=False):
        return plain.filter(flags)


def _remedy(rows: Any) -> str:
    """Advice for rows that are plain Python, or a query that has not been run."""
    if isinstance(rows, dict | list):
        return ": of plain lists make a table first, pd.DataFrame(rows)"
    if isinstance(rows, np.ndarray):
        return ": of an array make a table, which has names, pd.DataFrame(rows, columns=[...])"
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
    with PublicWords("the table's columns cannot be listed"):
        names = list(frame.columns)
    check_columns(names, domain, "the table")
    found: Batch = {}
    for name, declared in domain.variables.items():
        with PublicWords(f"column {name!r} holds values of more than one kind; make it all text or all numbers"):
            found[name] = pandas_array(frame[name], partial(_typed, declared=declared) if domain.strict else _plain)
    return found


def _plain(values: Any) -> pa.Array:
    dense = values.array.to_dense() if hasattr(values.array, "sp_values") else values
    return _single_array(pa.array(dense, from_pandas=True))


def _typed(values: Any, declared: Any) -> pa.Array:
    """Values of which none is refused: converted by their type, or cell by cell where they have none."""
    if values.dtype != object:
        try:
            return _single_array(pa.array(values, from_pandas=True))
        except Exception:  # text that is no Unicode, in a column that Python holds
            pass
    return typed_cells(values.to_numpy(dtype=object), declared)


def _single_array(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array


def pandas_array(series: Any, convert: Callable[[Any], pa.Array] = _plain) -> pa.Array:
    """One column of a DataFrame, NaN as null; of a categorical one ``convert`` is given the categories."""
    values: Any = series.array
    if not (hasattr(values, "categories") and hasattr(values, "codes")):
        return convert(series)
    words, codes = convert(values.categories), values.codes
    if codes.min(initial=0) < 0:  # a null of the dictionary in place of one of the column: no bitmap to make and read
        words = pa.concat_arrays([words, pa.nulls(1, words.type)])
        codes = codes.copy()
        codes[codes < 0] = len(words) - 1
    return pa.DictionaryArray.from_arrays(pa.array(codes), words, ordered=values.ordered, safe=False)


def _from_arrow(rows: Any, domain: Declared) -> Iterator[Batch]:
    """The declared columns of an Arrow stream, or of one batch; a large batch is taken in slices."""
    problem = f"the Arrow data of {type(rows).__name__} cannot be read; is it a table?"
    with PublicWords(problem, quiet=False):
        reader = _reader(rows)
        names = reader.schema.names
    check_columns(names, domain, "the table")
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
            raise DomainError("the iterator yields a text that is not the path of a file; it must yield tables")
        yield from _batches(table, domain)


def is_cursor(rows: Any) -> bool:
    """True if rows are a cursor of PEP 249, by its methods."""
    return callable(getattr(rows, "fetchmany", None)) and hasattr(rows, "description") and not hasattr(rows, "columns")


def tables_of(cursor: Any) -> Iterator[Any]:
    """The rows of a cursor as tables: one Arrow stream where the driver has it, else frames of objects."""
    with PublicWords(FETCHING):
        description = cursor.description
        names = [str(column[0]) for column in description or ()]
    if description is None:
        raise DomainError("the cursor has no rows; execute a SELECT with it first, and give it unread")
    if not callable(getattr(cursor, "fetch_record_batch", None)):
        return _fetched(cursor, names)
    with PublicWords(FETCHING):
        return iter([cursor.fetch_record_batch()])


def _fetched(cursor: Any, names: list[str]) -> Iterator[DataFrame]:
    """The rows block by block; of no rows one empty frame, which has the columns."""
    import pandas as pd

    first = True
    while True:
        with PublicWords(FETCHING):
            rows = list(cursor.fetchmany(BLOCK))
            columns = [pd.Series([row[i] for row in rows], dtype=object) for i in range(len(names))]
            frame = pd.DataFrame(dict(enumerate(columns)))
            frame.columns = names
        if not rows and not first:
            return
        yield frame
        first = False
