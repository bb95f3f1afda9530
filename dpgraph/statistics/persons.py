"""How many rows of one person are counted: a cap that a person column enforces.

A row is kept by its place among its own person's rows alone, so no person decides which rows of another are counted:
adding or removing a person moves that person's kept rows and nothing else.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dpgraph.statistics.arrow import batches
from dpgraph.statistics.codes import Codes, encode, encode_column
from dpgraph.structure.domain import Categories, Domain, DomainError
from dpgraph.structure.frozen import FrozenMap


def cap_rows(rows: Any, domain: Domain, person: str, rows_per_person: int) -> Codes:
    """Encodes the first rows of each person, in the order of the table, and drops the rest.

    Args:
        rows: A pandas, polars or Arrow table, anything with ``__arrow_c_stream__``, or a CSV or Parquet path.
        domain: The declared variables, without the person.
        person: The column that says whose row it is; its values are compared, never kept.
        rows_per_person: How many rows of one person count.

    Returns:
        Codes, sensitive like the rows.

    Raises:
        DomainError: If the rows do not fit the domain, ``person`` is declared in it or no column, or holds nulls, or
            ``rows_per_person`` is not a whole number, at least 1.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"who": [7, 7, 8], "kind": ["a", "b", "b"]})
    >>> cap_rows(log, Domain.of({"kind": ["a", "b"]}), "who", 1).sensitive_rows
    2
    """
    if not isinstance(person, str) or person in domain:
        raise DomainError(f"person must name a column that is not a declared variable; got {person!r}")
    if isinstance(rows_per_person, bool) or not isinstance(rows_per_person, int) or rows_per_person < 1:
        raise DomainError(f"rows_per_person must be a whole number, at least 1; got {rows_per_person!r}")
    if isinstance(rows, Codes):
        raise DomainError("codes hold no person column; give the rows themselves")
    wide = Domain(FrozenMap({**domain.variables, person: Categories(["person"])}))
    columns: dict[str, list[Any]] = {name: [] for name in domain.names}
    persons: list[pa.Array] = []
    for batch, is_text in batches(rows, wide):
        for name in domain.names:
            columns[name].append(encode_column(batch[name], domain[name], name, is_text))
        persons.append(batch[person])
    if not persons:
        return encode(rows, domain)
    kept = _place(persons, person) < rows_per_person
    return Codes(domain, FrozenMap((name, np.concatenate(parts)[kept]) for name, parts in columns.items()))


def _place(persons: list[pa.Array], person: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Each row's place among the rows of its person, from 0."""
    column = pa.chunked_array([_plain(array) for array in persons])
    if column.null_count:
        raise DomainError(f"column {person!r} holds nulls; every row needs its person")
    codes = column.combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    order = np.argsort(codes, kind="stable")
    place = np.empty(len(codes), np.int64)
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    lengths = np.diff(np.append(starts, len(codes)))
    place[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return place


def _plain(array: pa.Array) -> pa.Array:
    """Without a dictionary, whose numbering may differ from batch to batch."""
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
