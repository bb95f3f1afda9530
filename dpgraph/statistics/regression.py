"""Rows to the moments of a regression: columns clipped, rounded to integers, multiplied and summed exactly.

Law: ``regression_moments(a, design) + regression_moments(b, design) == regression_moments(a and b, design)``. What is
clipped is what is used: sums are of the clipped integers and of nothing else. Blocks are multiplied by BLAS in floating
point, which is exact: every product and partial sum is an integer below 2^53.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from dpgraph.statistics.arrow import Batch, batches
from dpgraph.statistics.codes import encode_column
from dpgraph.statistics.levels import NULL_WORDS
from dpgraph.statistics.moments import Moments
from dpgraph.structure.design import RESOLUTION, Bounded, Column, Feature, LinearDesign
from dpgraph.structure.domain import Bins, Categories, DomainError

pc: Any = pyarrow.compute

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Entries of the columns multiplied at once: a few megabytes; a block's sums of products stay below 2^53.
BLOCK = 1 << 21
#: Rows that one thread takes at a time, and how many threads.
BATCH = 1 << 17
THREADS = min(4, os.cpu_count() or 1)
#: What a sum times its weight stays below, with room for noise.
MOST_SUM = 1 << 62
#: The weight there is always room for.
LEAST_ROOM = 8


class _Names(NamedTuple):
    """What reading a table needs of a domain: which columns."""

    names: tuple[str, ...]


def regression_moments(rows: Any, design: LinearDesign) -> Moments:
    """Sums the products of a design's columns over the rows, in whole steps of a public grid.

    Args:
        rows: A pandas, polars or Arrow table, anything with ``__arrow_c_stream__``, the path of a CSV file, a Parquet
            file or a folder of Parquet files; or a pair (X, y) of arrays, the columns of X in the design's order.
        design: The features, the target and their public bounds.

    Returns:
        Sensitive moments; they add.

    Raises:
        DomainError: If the rows do not fit the design. Nothing is summed then.

    >>> design = LinearDesign({"age": (18, 90)}, "income", (0, 100))
    >>> regression_moments(([[20.0], [50.0]], [10.0, 150.0]), design)
    Moments(LinearDesign, 5 statistics, sensitive)
    """
    size, most = len(design.columns), MOST_SUM // (RESOLUTION**2 * max(LEAST_ROOM, *design.weights))
    gram, many = np.zeros((size, size), np.int64), 0
    for part, kept in _in_threads(_batches(rows, design), design):
        gram += part
        many += kept
        if many > most:
            raise DomainError(f"more than {most} rows; sum them in parts, release each, or coarsen the table")
    first, second = np.array(design.pairs).T
    return Moments(design, gram[first, second], many)


def regression_features(rows: Any, design: LinearDesign) -> dict[str, npt.NDArray[Any]]:
    """Reads a design's features as ``regression_moments`` does, for rows to predict; the target need not be there.

    Args:
        rows: As for ``regression_moments``, but for a pair of arrays.
        design: The features and their public bounds or levels.

    Returns:
        For each feature an array, one value a row: numbers, not clipped, or codes of levels. No row is dropped: a null
        number that has no declared meaning is NaN.

    Raises:
        DomainError: If a column is missing or of the wrong type, or holds a level that is not declared.

    >>> import pandas as pd
    >>> design = LinearDesign({"age": (18, 90), "sex": ["F", "M"]}, "income", (0, 100))
    >>> read = regression_features(pd.DataFrame({"age": [20, None], "sex": ["M", "F"]}), design)
    >>> {name: values.tolist() for name, values in read.items()}
    {'age': [20.0, nan], 'sex': [1, 0]}
    """
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in design.features}
    for batch, is_text in batches(rows, _Names(tuple(parts))):  # type: ignore[arg-type] # only their names are read
        for name, declared in design.features.items():
            parts[name].append(_feature(batch[name], declared, name, is_text))
    return {name: np.concatenate(found) if found else np.zeros(0) for name, found in parts.items()}


def _in_threads(found: Iterator[tuple[Batch, bool]], design: LinearDesign) -> Iterator[tuple[Integers, int]]:
    """The sums of each batch, in order, a few batches at a time while the next is read."""
    waiting: deque[Future[tuple[Integers, int]]] = deque()
    with ThreadPoolExecutor(THREADS) as pool:
        for batch, is_text in found:
            for start in range(0, _length(batch), BATCH):
                part = {name: array.slice(start, BATCH) for name, array in batch.items()}
                waiting.append(pool.submit(_summed, part, design, is_text))
                if len(waiting) > THREADS:
                    yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _summed(batch: Batch, design: LinearDesign, is_text: bool) -> tuple[Integers, int]:
    """The sums of products of the columns of one batch, and its rows that were kept."""
    kept = np.ones(_length(batch), bool)
    read = {name: _column(batch[name], design, name, is_text, kept) for name in (*design.features, design.target)}
    if not kept.all():
        read = {name: values[kept] for name, values in read.items()}
    many, size = int(kept.sum()), len(design.columns)
    step = max(1, min(many, BLOCK // size))
    gram, z = np.zeros((size, size), np.int64), np.empty((size, step))
    for start in range(0, many, step):
        stop = min(start + step, many)
        block = z[:, : stop - start]
        for column, out in zip(design.columns, block, strict=True):
            _fill(out, column, design, read, slice(start, stop))
        gram += np.rint(block @ block.T).astype(np.int64)
    return gram, many


def _fill(out: Reals, column: Column, design: LinearDesign, read: Mapping[str, npt.NDArray[Any]], rows: slice) -> None:
    """Writes one column of a block: whole numbers up to ``RESOLUTION`` in size."""
    match column.kind:
        case "intercept":
            out[:] = RESOLUTION
        case "sign":
            np.multiply(read[column.variable][rows], 2.0 * RESOLUTION, out=out)
            out -= RESOLUTION
        case "level":
            np.multiply(read[column.variable][rows] == column.level, float(RESOLUTION), out=out)
        case _:
            declared = design.declared(column.variable)
            assert isinstance(declared, Bounded)
            declared.on_grid(read[column.variable][rows], out)


def _batches(rows: Any, design: LinearDesign) -> Iterator[tuple[Batch, bool]]:
    """The declared columns, batch by batch."""
    names = _Names((*design.features, design.target))
    if isinstance(rows, tuple | list) and len(rows) == 2:
        yield from ((batch, False) for batch in _from_arrays(rows[0], rows[1], names.names))
    else:
        yield from batches(rows, names)  # type: ignore[arg-type] # only their names are read


def _from_arrays(X: Any, y: Any, names: tuple[str, ...]) -> Iterator[Batch]:
    """The columns of a pair of arrays, some rows at a time."""
    table, target = np.asarray(X), np.asarray(y)
    if table.ndim != 2 or target.ndim != 1 or len(table) != len(target):
        raise DomainError(
            f"X must have two axes and y one, of equal length; got {table.ndim} and {target.ndim} axes, or two lengths"
        )
    if table.shape[1] != len(names) - 1:
        raise DomainError(f"X has {table.shape[1]} columns, and the design declares {len(names) - 1} features")
    for start in range(0, len(table), BATCH):
        columns = [*table[start : start + BATCH].T, target[start : start + BATCH]]
        yield {name: _from_array(column, name) for name, column in zip(names, columns, strict=True)}


def _from_array(column: npt.NDArray[Any], name: str) -> pa.Array:
    """One column of an array; what stands for nothing becomes null."""
    try:
        return pa.array(np.ascontiguousarray(column), from_pandas=column.dtype.kind != "f")
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass
    raise DomainError(f"column {name!r} holds values of more than one kind; make it all text or all numbers")


def _length(batch: Mapping[str, pa.Array]) -> int:
    return len(next(iter(batch.values())))


def _column(array: pa.Array, design: LinearDesign, name: str, is_text: bool, kept: Flags) -> npt.NDArray[Any]:
    """One variable: numbers, none of them NaN, or the codes of levels; dropped rows are struck off ``kept``."""
    declared, drop = design.declared(name), design.on_missing == "drop"
    if isinstance(declared, Bounded):
        values = _numbers(array, name, is_text)
        with np.errstate(invalid="ignore", over="ignore"):
            suspect = math.isnan(values.sum())  # one NaN makes the sum NaN; so do infinities of both signs
        if suspect and declared.missing is not None:
            values = np.where(np.isnan(values), declared.missing, values)
        elif suspect:
            gone = np.isnan(values)
            _strike(gone, name, drop, kept)
            values = np.where(gone, declared.middle, values)
        return values
    has_level = declared.missing if isinstance(declared, Bins) else declared.missing is not None
    if has_level or not drop or declared.size == 1:
        return encode_column(array, declared, name, is_text)
    if isinstance(declared, Bins):
        codes = encode_column(array, Bins(declared.edges, missing=True), name, is_text)
        _strike(codes == declared.size, name, drop, kept)
        return codes
    # Nulls counted once as the first level and once as the last: where the two differ there was one.
    ends = (Categories(declared.levels, declared.other, end) for end in (declared.levels[0], declared.levels[-1]))
    codes, others = (encode_column(array, one, name, is_text) for one in ends)
    _strike(codes != others, name, drop, kept)
    return codes


def _feature(array: pa.Array, declared: Feature, name: str, is_text: bool) -> npt.NDArray[Any]:
    """One variable of rows to predict, none of them dropped."""
    if not isinstance(declared, Bounded):
        return encode_column(array, declared, name, is_text)
    values = _numbers(array, name, is_text)
    return values if declared.missing is None else np.where(np.isnan(values), declared.missing, values)


def _strike(gone: Flags, name: str, drop: bool, kept: Flags) -> None:
    """Drops rows, or refuses them."""
    if gone.any() and not drop:
        raise DomainError(
            f"column {name!r} holds nulls or NaN; declare what they count as, Bounded(low, high, missing=...), or "
            'on_missing="drop" with an add-remove unit'
        )
    kept &= ~gone


def _numbers(array: pa.Array, name: str, is_text: bool) -> Reals:
    """A column of numbers as doubles, null as NaN."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if is_text:
        words = pc.utf8_trim_whitespace(array)
        array = pc.if_else(pc.is_in(pc.utf8_lower(words), value_set=pa.array(NULL_WORDS)), None, words)
    kind = array.type
    fits = is_text or pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    try:
        numbers = array.cast(pa.float64(), safe=False) if fits else None
    except pa.ArrowException:
        numbers = None
    if numbers is None:
        bare = "text" if is_text else str(kind).partition("<")[0].partition("[")[0]
        raise DomainError(f"column {name!r} is of type {bare} where numbers between declared bounds are wanted")
    return numbers.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
