"""pandas columns as Arrow arrays; a categorical column keeps its codes, without a copy where none is null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from dpgraph.statistics.rows.batches import Declared
from dpgraph.statistics.rows.cells import typed_cells
from dpgraph.structure.conversion import converted


def pandas_column(frame: Any, name: str, domain: Declared) -> pa.Array:
    """One column of a DataFrame by its declared name, NaN as null."""
    problem = f"column {name!r} holds values of more than one kind; make it all text or all numbers"
    if not domain.strict:
        return converted(lambda: pandas_array(frame[name]), problem)
    return converted(lambda: strict_array(frame[name], domain.variables[name]), problem)


def pandas_array(series: Any) -> pa.Array:
    """One column of a DataFrame, NaN as null."""
    values: Any = series.array
    if hasattr(values, "sp_values"):
        return pa.array(values.to_dense(), from_pandas=True)
    if not _is_categorical(values):
        return _single_array(pa.array(series, from_pandas=True))
    return _dictionary_array(values, _single_array(pa.array(values.categories, from_pandas=True)))


def strict_array(series: Any, declared: Any) -> pa.Array:
    """One column, of which no value is refused: columns without a type are converted cell by cell."""
    values: Any = series.array
    if _is_categorical(values):
        return _dictionary_array(values, _typed_array(values.categories, declared))
    return _typed_array(series, declared)


def _typed_array(values: Any, declared: Any) -> pa.Array:
    """Values converted by their type, or cell by cell where they have none."""
    if values.dtype != object:
        try:
            return _single_array(pa.array(values, from_pandas=True))
        except Exception:  # text that is no Unicode, in a column that Python holds
            pass
    return typed_cells(values.to_numpy(dtype=object), declared)


def _dictionary_array(values: Any, words: pa.Array) -> pa.Array:
    """The codes of a categorical column over its words."""
    codes = values.codes
    if codes.min(initial=0) < 0:  # a null of the dictionary in place of one of the column: no bitmap to make and read
        words = pa.concat_arrays([words, pa.nulls(1, words.type)])
        codes = codes.copy()
        codes[codes < 0] = len(words) - 1
    return pa.DictionaryArray.from_arrays(pa.array(codes), words, ordered=values.ordered, safe=False)


def _is_categorical(values: Any) -> bool:
    return hasattr(values, "categories") and hasattr(values, "codes")


def _single_array(array: Any) -> pa.Array:
    return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
