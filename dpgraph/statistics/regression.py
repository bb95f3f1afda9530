"""Rows to the moments of a regression: columns clipped, rounded to integers, multiplied and summed exactly.

Law: ``regression_moments(a, design) + regression_moments(b, design) == regression_moments(a and b, design)``. What is
clipped is what is used: sums are of the clipped integers and of nothing else. Blocks are multiplied by BLAS in floating
point, which is exact: every product and partial sum is an integer below 2^53.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from dpgraph.statistics.arrow import Batch, batches
from dpgraph.statistics.codes import NULL, NULL_WORDS, encode_column, level_codes
from dpgraph.statistics.moments import Moments
from dpgraph.structure.design import RESOLUTION, Bounded, Feature, LinearDesign
from dpgraph.structure.domain import Bins, Categories, DomainError

pc: Any = pyarrow.compute

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

#: Rows multiplied at once: their columns stay in the processor's cache, and sums of products far below 2^53.
BLOCK = 1 << 14
#: Beyond these many rows an integer sum might not fit.
MOST_ROWS = 1 << 32


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
    size = len(design.columns)
    gram, many = np.zeros((size, size), np.int64), 0
    for batch, is_text in _batches(rows, design):
        for start in range(0, _length(batch), BLOCK):
            z = _columns({name: array.slice(start, BLOCK) for name, array in batch.items()}, design, is_text)
            gram += np.rint(z @ z.T).astype(np.int64)
            many += z.shape[1]
            if many > MOST_ROWS:
                raise DomainError(f"more than {MOST_ROWS} rows; sum them in parts, release each, or coarsen the table")
    first, second = np.array(design.pairs).T
    return Moments(design, gram[first, second], many)


def _batches(rows: Any, design: LinearDesign) -> Iterator[tuple[Batch, bool]]:
    """The declared columns, batch by batch."""
    names = _Names((*design.features, design.target))
    if isinstance(rows, tuple | list) and len(rows) == 2:
        yield _from_arrays(rows[0], rows[1], names.names), False
        return
    yield from batches(rows, names)  # type: ignore[arg-type] # only their names are read


def _from_arrays(X: Any, y: Any, names: tuple[str, ...]) -> Batch:
    """The columns of a pair of arrays."""
    table, target = np.asarray(X), np.asarray(y)
    if table.ndim != 2 or target.ndim != 1 or len(table) != len(target):
        raise DomainError(f"X must have two axes and y one, of equal length; got {table.ndim} and {target.ndim} axes")
    if table.shape[1] != len(names) - 1:
        raise DomainError(f"X has {table.shape[1]} columns, and the design declares {len(names) - 1} features")
    batch: Batch = {}
    for name, column in zip(names, [*table.T, target], strict=True):
        try:
            batch[name] = pa.array(np.ascontiguousarray(column), from_pandas=True)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            batch = {}
        if not batch:
            raise DomainError(f"column {name!r} holds values of more than one kind; make it all text or all numbers")
    return batch


def _length(batch: Mapping[str, pa.Array]) -> int:
    return len(next(iter(batch.values())))


def _columns(batch: Batch, design: LinearDesign, is_text: bool) -> Reals:
    """The columns of a block as whole numbers up to ``RESOLUTION`` in size, shape (columns, rows kept)."""
    made = np.empty((len(design.columns), _length(batch)))
    kept = np.ones(_length(batch), bool)
    filled = {name: _column(batch[name], design, name, is_text, kept) for name in (*design.features, design.target)}
    for row, column in enumerate(design.columns):
        match column.kind:
            case "intercept":
                made[row] = RESOLUTION
            case "sign":
                made[row] = (2.0 * filled[column.variable] - 1.0) * RESOLUTION
            case "level":
                made[row] = (filled[column.variable] == column.level) * float(RESOLUTION)
            case _:
                made[row] = filled[column.variable]
    return made if kept.all() else made[:, kept]


def _column(array: pa.Array, design: LinearDesign, name: str, is_text: bool, kept: Flags) -> npt.NDArray[Any]:
    """One variable: whole numbers, or the codes of levels; rows that are dropped are struck off ``kept``."""
    declared = design.bounds if name == design.target else design.features[name]
    drop = design.on_missing == "drop"
    if isinstance(declared, Bounded):
        values = _numbers(array, name, is_text)
        gone = np.isnan(values)
        if gone.any():
            values = np.where(gone, declared.middle if declared.missing is None else declared.missing, values)
            if declared.missing is None:
                _strike(gone, name, drop, kept)
        return np.rint(declared.scaled(values) * RESOLUTION)
    if drop and not declared.missing:
        gone = _nulls(array, declared, is_text)
        if gone.any():
            _strike(gone, name, drop, kept)
            codes = np.zeros(len(gone), np.int64)
            codes[~gone] = encode_column(array.filter(pa.array(~gone)), declared, name, is_text)
            return codes
    return encode_column(array, declared, name, is_text)


def _strike(gone: Flags, name: str, drop: bool, kept: Flags) -> None:
    """Drops rows, or refuses them."""
    if not drop:
        raise DomainError(
            f"column {name!r} holds nulls or NaN; declare what they count as, Bounded(low, high, missing=...), or "
            'on_missing="drop" with an add-remove unit'
        )
    kept &= ~gone


def _nulls(array: pa.Array, declared: Feature, is_text: bool) -> Flags:
    """Which values of a column of levels are null."""
    if is_text and isinstance(declared, Categories | Bins):
        return level_codes(array, declared, is_text) == NULL
    return pc.is_null(array, nan_is_null=pa.types.is_floating(array.type)).to_numpy(zero_copy_only=False)


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
