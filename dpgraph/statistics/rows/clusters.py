"""Rows on a cluster, told without importing its library: what cannot take them says what to do instead."""

from __future__ import annotations

from typing import Any

from dpgraph.structure.domain import DomainError

#: How the rows of each library are brought into memory.
COLLECTED = {"dask": "table.compute()", "pyspark": "table.toPandas()"}


def library_of(rows: Any) -> str:
    """The library that an object is of.

    >>> library_of([1, 2])
    'builtins'
    """
    return type(rows).__module__.partition(".")[0]


def refuse_clusters(*parts: Any) -> None:
    """Refuses tables and columns of Spark and Dask; what a step reads row by row must be in memory."""
    for part in parts:
        if (library := library_of(part)) in COLLECTED:
            raise DomainError(
                f"the rows of a {library} table stay on its cluster: count takes them, as fit does, and this does not; "
                f"collect them, or a sample of them, first: {COLLECTED[library]}"
            )
