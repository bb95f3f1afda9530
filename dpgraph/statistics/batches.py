"""One batch of rows: the declared columns of a table, and nothing else of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from dpgraph.structure.domain import Domain, DomainError

#: The declared columns by name, of one length.
Batch = dict[str, pa.Array]

#: How many values and rows one batch may hold, so that memory does not grow with the table.
BATCH_VALUES, BATCH_ROWS = 8_000_000, 1 << 17


def batch_rows(domain: Domain) -> int:
    """The rows of one batch."""
    return max(1, min(BATCH_ROWS, BATCH_VALUES // len(domain.names)))


def select_columns(batch: pa.RecordBatch, domain: Domain, where: str = "the table") -> Batch:
    """The declared columns of one Arrow batch.

    Raises:
        DomainError: As ``require``.
    """
    require(batch.schema.names, domain, where)
    return {name: batch.column(batch.schema.get_field_index(name)) for name in domain.names}


def require(names: Iterable[Any], domain: Domain, where: str) -> None:
    """Refuses a table in which a declared column is missing or repeated.

    Raises:
        DomainError: Naming the column and what the domain declares.
    """
    held = list(names)
    for name in domain.names:
        if held.count(name) != 1:
            problem = "is not in" if name not in held else "is there more than once in"
            raise DomainError(f"column {name!r} {problem} {where}; the domain declares {', '.join(domain.names)}")
