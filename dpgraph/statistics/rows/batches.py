"""Batches of rows: the declared columns of a table and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpgraph.structure.domain import Domain, DomainError

#: The declared columns by name, of one length.
Batch = dict[str, pa.Array]


@dataclass(frozen=True)
class Columns:
    """Declared columns that are not a domain: with a person's column, or those of a regression."""

    variables: Mapping[str, Any]
    strict: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(self.variables)


#: A declaration of the columns to read; where it is strict no row may refuse the table.
Declared = Domain | Columns

#: Words of a CSV file that mean a null unless they are declared levels, as ``pandas.read_csv`` reads them.
TEXT_NULLS = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA")
) | {"NULL", "NaN", "None", "n/a", "nan", "null"}
#: The same in lower case: in a column of numbers or booleans they are nulls in any case.
NULL_WORDS = tuple(sorted({word.lower() for word in TEXT_NULLS}))

#: How many values and rows one batch may hold, so that memory does not grow with the table.
BATCH_VALUES, BATCH_ROWS = 8_000_000, 1 << 17


def batch_rows(domain: Declared) -> int:
    """The rows of one batch."""
    return max(1, min(BATCH_ROWS, BATCH_VALUES // len(domain.names)))


def batch_length(batch: Mapping[str, pa.Array]) -> int:
    """How many rows a batch has; sensitive."""
    return len(next(iter(batch.values())))


def slices(batch: Batch, rows: int | None) -> Iterator[Batch]:
    """A batch in parts of at most so many rows, without a copy; None for one part."""
    many = batch_length(batch)
    for start in range(0, max(1, many), rows or max(1, many)):
        yield batch if rows is None or many <= rows else {name: a.slice(start, rows) for name, a in batch.items()}


def select_columns(batch: pa.RecordBatch, domain: Declared, where: str = "the table") -> Batch:
    """The declared columns of one Arrow batch."""
    check_columns(batch.schema.names, domain, where)
    return {name: batch.column(batch.schema.get_field_index(name)) for name in domain.names}


def check_columns(names: Iterable[Any], domain: Declared, where: str) -> None:
    """Refuses a table in which a declared column is missing or repeated."""
    held = list(names)
    for name in domain.names:
        if held.count(name) != 1:
            problem = "is not in" if name not in held else "is there more than once in"
            raise DomainError(f"column {name!r} {problem} {where}; each of these once: {', '.join(domain.names)}")


#: How the rows of each library are brought into memory.
COLLECTED = {"dask": "table.compute()", "pyspark": "table.toPandas()"}


def library_of(rows: Any) -> str:
    """The library of an object's class."""
    return type(rows).__module__.partition(".")[0]


def refuse_clusters(*parts: Any) -> None:
    """Refuses tables and columns of Spark and Dask where a step reads rows one by one, in memory."""
    for part in parts:
        if (library := library_of(part)) in COLLECTED:
            raise DomainError(
                f"the rows of a {library} table stay on its cluster: count takes them, as fit does, and this does not; "
                f"collect them, or a sample of them, first: {COLLECTED[library]}"
            )


def value_type(array: pa.Array) -> pa.DataType:
    """The type of a column's values, in a dictionary or not."""
    kind: Any = array.type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_string(kind: pa.DataType) -> bool:
    """True if a column's type is text, in any of Arrow's layouts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
