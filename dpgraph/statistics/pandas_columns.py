"""pandas columns as Arrow arrays; a categorical column keeps its codes, without a copy where none is null."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def pandas_array(series: Any) -> pa.Array:
    """One column of a DataFrame, NaN as null.

    Raises:
        pyarrow.ArrowException: If its values are of more than one kind; also TypeError, ValueError, OverflowError.
    """
    values: Any = series.array
    if not hasattr(values, "categories") or not hasattr(values, "codes"):
        return pa.array(series, from_pandas=True)
    words = pa.array(values.categories, from_pandas=True)
    words = words.combine_chunks() if isinstance(words, pa.ChunkedArray) else words
    codes = values.codes
    if codes.min(initial=0) < 0:  # a null of the dictionary in place of one of the column: no bitmap to make and read
        words = pa.concat_arrays([words, pa.nulls(1, words.type)])
        codes = codes.copy()
        codes[codes < 0] = len(words) - 1
    return pa.DictionaryArray.from_arrays(pa.array(codes), words, ordered=values.ordered, safe=False)
