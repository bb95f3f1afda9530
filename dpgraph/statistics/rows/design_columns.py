"""Columns of rows as a regression's design declares them: numbers between bounds, or the codes of levels.

A null that has no declared meaning refuses the table, or strikes its row off where the design drops such rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from dpgraph.privacy.checks import Flags, Reals
from dpgraph.statistics.rows.arrow import read_columns
from dpgraph.statistics.rows.batches import NULL_WORDS, Batch, Columns, batch_length, is_string, value_type
from dpgraph.statistics.rows.cells import cells_of, typed_cells, word_number
from dpgraph.statistics.rows.codes import STRICT, encode_column, mended, text_words
from dpgraph.structure.conversion import PublicWords, array_of
from dpgraph.structure.design import Bounded, Feature, LinearDesign
from dpgraph.structure.domain import Bins, Categories, DomainError

pc: Any = pyarrow.compute


def array_batches(X: Any, y: Any, declared: Columns, rows: int) -> Iterator[Batch]:
    """The columns of a pair of arrays, some rows at a time."""
    names = declared.names
    if declared.strict and isinstance(X, tuple | list):
        raise DomainError("a strict design takes X as an array or a table: a list of rows may be no rectangle")
    table = array_of(X, "X must be an array of two axes, with as many values in each row")
    target = cells_of(y) if declared.strict else array_of(y, "y must be an array of one axis")
    if table.ndim != 2 or target.ndim != 1 or len(table) != len(target):
        raise DomainError(
            f"X must have two axes and y one, of equal length; got {table.ndim} and {target.ndim} axes, or two lengths"
        )
    if table.shape[1] != len(names) - 1:
        raise DomainError(f"X has {table.shape[1]} columns, and the design declares {len(names) - 1} features")
    for start in range(0, len(table), rows):
        columns = [*table[start : start + rows].T, target[start : start + rows]]
        yield {name: _from_array(column, name, declared) for name, column in zip(names, columns, strict=True)}


def _from_array(column: npt.NDArray[Any], name: str, declared: Columns) -> pa.Array:
    """One column of an array; marks of missing values become null."""
    with PublicWords(f"column {name!r} holds values of more than one kind; make it all text or all numbers"):
        if declared.strict and column.dtype == object:
            return typed_cells(column, declared.variables[name])
        return pa.array(np.ascontiguousarray(column), from_pandas=column.dtype.kind != "f")


def columns_of(design: LinearDesign) -> Columns:
    """The features and the target of a design."""
    names = (*design.features, design.target)
    return Columns({name: design.declared(name) for name in names}, design.strict)


def design_values(design: LinearDesign, batch: Batch, is_text: bool) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
    """Codes and numbers of a batch, and flags of the rows without a null that drops them. Sensitive."""
    kept = np.ones(batch_length(batch), bool)
    names = columns_of(design).names
    return {name: _column_values(batch[name], design, name, is_text, kept) for name in names}, kept


def regression_features(rows: Any, design: LinearDesign) -> dict[str, npt.NDArray[Any]]:
    """A design's features of rows to predict: numbers, not clipped, NaN for an undeclared null, or codes."""

    def read(batch: Batch, is_text: bool) -> list[Any]:
        return [one(batch[name], feature, name, is_text) for name, feature in design.features.items()]

    def one(array: pa.Array, feature: Feature, name: str, is_text: bool) -> npt.NDArray[Any]:
        if not isinstance(feature, Bounded):
            return encode_column(array, feature, name, is_text, design.strict)
        values = real_values(array, name, is_text, design.strict)
        return values if feature.missing is None else np.where(np.isnan(values), feature.missing, values)

    found = read_columns(rows, Columns(dict(design.features), design.strict), read)
    return dict(zip(design.features, found, strict=True))


def judged_columns(rows: Any, design: LinearDesign) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
    """Features and target of rows to judge a model by, and flags of those that a sum would hold."""

    def read(batch: Batch, is_text: bool) -> list[Any]:
        found, kept = design_values(design, batch, is_text)
        return [*found.values(), kept]

    declared = columns_of(design)
    *found, kept = read_columns(rows, declared, read)
    return dict(zip(declared.names, found, strict=True)), kept


def _column_values(array: pa.Array, design: LinearDesign, name: str, is_text: bool, kept: Flags) -> npt.NDArray[Any]:
    """One variable: numbers, none of them NaN, or the codes of levels; dropped rows are struck off ``kept``."""
    declared, drop = design.declared(name), design.on_missing == "drop"
    if isinstance(declared, Bounded):
        values = real_values(array, name, is_text, design.strict)
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
        return encode_column(array, declared, name, is_text, design.strict)
    if isinstance(declared, Bins):
        codes = encode_column(array, Bins(declared.edges, missing=True), name, is_text, design.strict)
        _strike(codes == declared.size, name, drop, kept)
        return codes
    # Nulls counted once as the first level and once as the last: where the two differ there was one.
    ends = (Categories(declared.levels, declared.other, end) for end in (declared.levels[0], declared.levels[-1]))
    codes, others = (encode_column(array, one, name, is_text, design.strict) for one in ends)
    _strike(codes != others, name, drop, kept)
    return codes


def _strike(gone: Flags, name: str, drop: bool, kept: Flags) -> None:
    if gone.any() and not drop:
        raise DomainError(
            f"column {name!r} holds nulls or NaN; declare a value for them, Bounded(low, high, missing=...), or "
            f'on_missing="drop" with an add-remove unit. {STRICT}'
        )
    kept &= ~gone


def real_values(array: pa.Array, name: str, is_text: bool, strict: bool = False) -> Reals:
    """A column of numbers as doubles, null as NaN; where no row may be refused, text that says no number, too."""
    if strict and pa.types.is_dictionary(array.type):
        array = array.dictionary.take(mended(array.indices, len(array.dictionary)))
    kind = value_type(array)
    bare = "text" if is_text else str(kind).partition("<")[0].partition("[")[0]
    problem = f"column {name!r} is of type {bare} where numbers between declared bounds are wanted"
    words = strict and (is_text or is_string(kind))
    if not (words or is_text or pa.types.is_null(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        remedy = "make it the days since some date" if pa.types.is_temporal(kind) else "make it numbers, astype(float)"
        raise DomainError(f"{problem}; {remedy}, or declare its levels")
    with PublicWords(problem, quiet=False):
        if not words:
            return _typed_numbers(array, is_text)
        coded = array.dictionary_encode()
        said = [None if word is None else word_number(word) for word in text_words(coded.dictionary)]
        return pa.array(said, pa.float64()).take(coded.indices).to_numpy(zero_copy_only=False)


def _typed_numbers(array: pa.Array, is_text: bool) -> Reals:
    """Numbers, or words of a CSV file that all say one, as doubles."""
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    if is_text:
        words = pc.utf8_trim_whitespace(array)
        array = pc.if_else(pc.is_in(pc.utf8_lower(words), value_set=pa.array(NULL_WORDS)), None, words)
    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
