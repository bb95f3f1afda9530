"""A cap on the rows of each person, who is identified by a column.

Whether a row is kept depends on its place among its own person's rows alone, so no person affects which rows of another
are counted: adding or removing a person changes that person's kept rows and nothing else.

A cap holds for the rows of one call. A person in two parts that are capped separately may have as many kept rows in
each, so counts of such parts are not added (``privacy.scope.joined``), unless the parts are declared to share no
person.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dpgraph.privacy.checks import check_whole
from dpgraph.privacy.scope import RowCap
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import Columns
from dpgraph.statistics.rows.cells import person_name
from dpgraph.statistics.rows.codes import UNREADABLE, Codes, encode_column
from dpgraph.statistics.rows.levels import is_string, mended, text_words, value_type
from dpgraph.structure.conversion import OURS, converted
from dpgraph.structure.domain import Domain, DomainError
from dpgraph.structure.frozen import FrozenMap


def cap_rows(rows: Any, domain: Domain, person: str, rows_per_person: int, *, part: str | None = None) -> Codes:
    """Encodes the first rows of each person, in the order of the table, and drops the rest.

    Give it the whole log. For the groups of ``Budget.parallel`` cap first and then count with ``where=``: groups that
    are capped separately have up to ``rows_per_person`` rows of a person each, more than the unit allows in all.

    Args:
        rows: A pandas, polars or Arrow table, anything with ``__arrow_c_stream__``, a CSV or Parquet path, a folder of
            Parquet files, or an iterator of tables.
        domain: The declared variables, without the person.
        person: The column that identifies the person; its values are compared, never kept. In a strict domain they are
            compared as text, and a row without a person is dropped.
        rows_per_person: How many rows of one person count.
        part: A name, if these rows are one of several parts of a log and no person has rows in two of them, as where
            a log is cut by a digest of the person. Counts of parts with different names then add. dpgraph takes
            this on trust; leave it out for parts by time or place.

    Returns:
        Codes, sensitive like the rows. They and their counts remember the cap, so that ``release`` refuses a budget
        whose unit does not cover it.

    Raises:
        DomainError: If the rows do not fit the domain, ``person`` is declared in it or no column, or holds nulls,
            ``rows_per_person`` is not a whole number, at least 1, or ``part`` is no name.

    >>> import pandas as pd
    >>> log = pd.DataFrame({"who": [7, 7, 8], "kind": ["a", "b", "b"]})
    >>> cap_rows(log, Domain.of({"kind": ["a", "b"]}), "who", 1).sensitive_rows
    2
    """
    if not isinstance(person, str) or person in domain:
        raise DomainError(f"person must name a column that is not a declared variable; got {person!r}")
    check_whole("rows_per_person", rows_per_person, error=DomainError)
    if part is not None and (not isinstance(part, str) or not part):
        raise DomainError(f"part must be a name, text that is not empty; got {part!r}")
    if isinstance(rows, Codes):
        raise DomainError("codes hold no person column; give the rows themselves")
    columns, persons = converted(lambda: _read(rows, domain, person), UNREADABLE, passing=OURS, quiet=False)
    cap = RowCap(person, rows_per_person, frozenset() if part is None else frozenset([part]))
    if not persons:
        return Codes(domain, Codes.empty(domain).columns, cap)
    problem = f"column {person!r} cannot tell persons apart"
    codes = converted(lambda: _person_codes(persons), problem, quiet=False)
    if not domain.strict and (codes < 0).any():
        raise DomainError(f"column {person!r} holds nulls; every row needs its person")
    kept = (_row_numbers(codes) < rows_per_person) & (codes >= 0)
    return Codes(domain, FrozenMap((name, np.concatenate(found)[kept]) for name, found in columns.items()), cap)


def _read(rows: Any, domain: Domain, person: str) -> tuple[dict[str, list[Any]], list[pa.Array]]:
    """The encoded columns and the persons, batch by batch."""
    columns: dict[str, list[Any]] = {name: [] for name in domain.names}
    persons: list[pa.Array] = []
    for batch, is_text in batches(rows, Columns({**domain.variables, person: None}, domain.strict)):
        for name in domain.names:
            columns[name].append(encode_column(batch[name], domain[name], name, is_text, domain.strict))
        persons.append(_person_column(batch[person], person, domain.strict))
    return columns, persons


def _person_codes(persons: list[pa.Array]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """A number for each person, -1 for none."""
    indices = pa.chunked_array(persons).combine_chunks().dictionary_encode().indices
    return indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)


def _row_numbers(codes: np.ndarray[Any, np.dtype[np.int64]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Each row's place among the rows of its person, from 0."""
    order = np.argsort(codes, kind="stable")
    place = np.empty(len(codes), np.int64)
    starts = np.flatnonzero(np.diff(codes[order], prepend=-2))
    lengths = np.diff(np.append(starts, len(codes)))
    place[order] = np.arange(len(codes)) - np.repeat(starts, lengths)
    return place


def _person_column(array: pa.Array, person: str, strict: bool) -> pa.Array:
    """Persons without a dictionary, whose numbering may differ from batch to batch; as text in a strict domain."""
    if pa.types.is_nested(value_type(array)):
        raise DomainError(f"column {person!r} must hold text, numbers or dates, by which persons are told apart")
    problem = f"column {person!r} cannot tell persons apart"
    return converted(lambda: _person_names(array) if strict else _without_dictionary(array), problem, quiet=False)


def _without_dictionary(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _person_names(array: pa.Array) -> pa.Array:
    """The text by which each person is known."""
    words = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    kind, found = value_type(array), words.dictionary
    if pa.types.is_binary(kind) or is_string(kind):
        names = text_words(found)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        names = [person_name(value) for value in found.to_pylist()]
    else:
        names = found.cast(pa.string()).to_pylist()
    return pa.array(names, pa.string()).take(mended(words.indices, len(names)))
