"""Rows of a database query: a cursor of any DB-API driver, block by block, or of one that speaks Arrow (ADBC).

A cursor gives its rows once. What a driver raises never leaves, since it may quote a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dpgraph.structure.conversion import converted
from dpgraph.structure.domain import DomainError

if TYPE_CHECKING:
    import pandas as pd

#: How many rows are fetched at once.
BLOCK = 1 << 16

PROBLEM = "the rows of the cursor cannot be fetched"


def is_cursor(rows: Any) -> bool:
    """Whether rows are a cursor of PEP 249, by its methods."""
    return callable(getattr(rows, "fetchmany", None)) and hasattr(rows, "description") and not hasattr(rows, "columns")


def tables_of(cursor: Any) -> Iterator[Any]:
    """The rows of a cursor as tables: one Arrow stream where the driver has it, else frames of objects."""
    description = converted(lambda: cursor.description, PROBLEM)
    if description is None:
        raise DomainError("the cursor has no rows; execute a SELECT with it first, and give it unread")
    if callable(getattr(cursor, "fetch_record_batch", None)):
        return iter([converted(cursor.fetch_record_batch, PROBLEM)])
    return _fetched(cursor, converted(lambda: [str(column[0]) for column in description], PROBLEM))


def _fetched(cursor: Any, names: list[str]) -> Iterator[pd.DataFrame]:
    """The rows block by block; of no rows one empty frame, which has the columns."""
    first = True
    while True:
        rows: list[Any] = converted(lambda: list(cursor.fetchmany(BLOCK)), PROBLEM)
        if rows or first:
            yield _frame(rows, names)
        if not rows:
            return
        first = False


def _frame(rows: list[Any], names: list[str]) -> pd.DataFrame:
    """Rows as columns of objects, typed where all of a column is of one type."""
    import pandas as pd

    def made() -> pd.DataFrame:
        columns = [pd.Series([row[i] for row in rows], dtype=object) for i in range(len(names))]
        frame = pd.DataFrame(dict(enumerate(columns)))
        frame.columns = names
        return frame

    return converted(made, PROBLEM)
