"""A domain inferred from public rows."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from dpgraph.statistics.rows.batches import refuse_clusters
from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, DomainWarning, Variable

pc: Any = pyarrow.compute  # its functions are made when it is imported, out of a type checker's sight

#: Numeric columns with more distinct values than this are cut into quartiles.
MOST_LEVELS = 20


def infer_domain(public_rows: Any, *, strict: bool = False) -> Domain:
    """Infers levels and bin edges from PUBLIC rows. Never give it private rows.

    The levels of a column are a function of the rows: a level that only one person has reveals that person. Declare
    the domain of private rows by hand, from a code book.

    Text and boolean columns, and numeric ones with up to 20 distinct values, get their distinct values as levels;
    other numeric columns are cut at their quartiles. Nulls get a level of their own.

    Args:
        public_rows: A pandas, polars or Arrow table.
        strict: Makes a domain under which no row of other, private rows can refuse a table, as in ``Domain.of``: text
            gets levels ``"other"`` and ``"missing"``, numbers get bins.

    Raises:
        DomainError: If a column's type has no levels; under ``strict``, if it holds booleans.

    Warns:
        DomainWarning: Always, as a reminder that the rows must be public.
    """
    warnings.warn("infer_domain reads the rows; use it on public rows only", DomainWarning, stacklevel=2)
    return domain_of_rows(public_rows, strict)


def domain_of_rows(rows: Any, strict: bool = False) -> Domain:
    """The domain of some rows, without the warning, which callers give."""
    refuse_clusters(rows)
    table = pa.Table.from_pandas(rows, preserve_index=False) if hasattr(rows, "iloc") else pa.table(rows)
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    return Domain.of({name: _variable(column, name, strict) for name, column in columns.items()}, strict=strict)


def _variable(column: pa.Array, name: str, strict: bool) -> Variable:
    """Levels or quartile bins of one column."""
    array = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    missing = strict or array.null_count > 0
    values = pc.unique(array.drop_null()).to_pylist()
    numeric = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    if not values or not (numeric or isinstance(values[0], str | bool)):
        raise DomainError(f"no levels can be read off column {name!r} of type {array.type}; declare them")
    if numeric and len(values) > MOST_LEVELS:
        edges = np.unique(np.quantile(array.drop_null().to_numpy(zero_copy_only=False), [0, 0.25, 0.5, 0.75, 1]))
        return Bins([float(edge) for edge in edges], missing=missing)
    if numeric and missing:
        edges = sorted(float(value) for value in values)
        return Bins([*edges, edges[-1] + 1], missing=True)
    levels = sorted(values)
    if not missing:
        return Categories(levels)
    if not isinstance(levels[0], str):
        what = "which leaves a strict domain no level for other values" if strict else "and nulls"
        raise DomainError(f"column {name!r} holds booleans {what}; declare text levels for it")
    added = [level for level in (["other", "missing"] if strict else ["missing"]) if level not in levels]
    return Categories([*levels, *added], other="other" if strict else None, missing="missing")
