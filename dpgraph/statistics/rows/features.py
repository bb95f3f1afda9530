"""Columns as a regression declares them, rows to predict, and a domain inferred from public rows.

A null that has no declared meaning refuses the table, or strikes its row off where the design drops such rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from dpgraph.privacy.checks import Flags, Reals
from dpgraph.privacy.display import DataFrame
from dpgraph.statistics.rows.arrow import is_cursor, read_columns
from dpgraph.statistics.rows.batches import (
    NULL_WORDS,
    Batch,
    Columns,
    batch_length,
    is_string,
    refuse_clusters,
    value_type,
    word_number,
)
from dpgraph.statistics.rows.codes import STRICT, Codes, encode, encode_column, mended, text_words
from dpgraph.structure.conversion import PublicWords, array_of, is_query, is_table
from dpgraph.structure.design import Bounded, Feature, LinearDesign
from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, DomainWarning, Variable, show_levels

pc: Any = pyarrow.compute  # its functions are made when it is imported, out of a type checker's sight
#: Numeric columns with more distinct values than this are cut into quartiles.
MOST_LEVELS = 20
#: What is said of an array that is none.
PROBLEM = "X must be a table or a two-dimensional array of the declared features"
#: What is said of a table whose library fails.
UNREADABLE = "the columns of X cannot be read"


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
    bare = "text" if is_text else str(kind).removeprefix("large_").partition("<")[0].partition("[")[0]
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


def read_features(X: Any, declared: Domain | LinearDesign, *, unseen: bool = False) -> Mapping[str, npt.NDArray[Any]]:
    """The features of rows to predict, for each an array: codes of levels, or of a bounded feature numbers.

    ``X`` is a table, a path or the cursor of a query, whose other columns are not read; or an array, shape (rows,
    features), its columns in the order of the declaration. A design's target need not be there.
    ``unseen`` is that of ``encode``.

    >>> read_features([["b"], ["a"]], Domain.of({"word": ["a", "b"]}))["word"].tolist()
    [1, 0]
    """
    names = declared.names if isinstance(declared, Domain) else tuple(declared.features)
    if not (isinstance(X, Codes) or is_table(X) or is_unread(X)):
        X = named_array(X, names, declared.strict)
    if isinstance(declared, Domain):
        return encode(X, declared, unseen=unseen).columns
    return regression_features(X, declared)


def is_unread(X: Any) -> bool:
    """True if X has named columns and is not in memory: a path, a cursor, an Arrow stream, an iterator of tables."""
    return isinstance(X, str | Iterator) or hasattr(X, "__fspath__") or is_cursor(X) or is_query(X)


def table_frame(X: Any) -> DataFrame:
    """A table as a DataFrame."""
    import pandas as pd

    refuse_clusters(X)
    with PublicWords(UNREADABLE):
        if isinstance(X, pd.DataFrame):
            return X
        columns = getattr(X, "column_names", X.columns)  # an Arrow table's columns are its data
        return pd.DataFrame({str(name): X[name].to_numpy() for name in columns})


def declared_columns(frame: DataFrame, declared: Collection[str] | None, like: Sequence[str] = ()) -> DataFrame:
    """The declared columns of a table, None for all; in the order of ``like`` where that names the same columns."""
    with PublicWords(UNREADABLE):
        names = [str(name) for name in frame.columns]
    kept = [name for name in names if declared is None or name in declared]
    place = {name: i for i, name in enumerate(names)}
    if len(set(kept)) < len(kept):
        twice = "a column" if declared is None else f"column {next(n for n in kept if kept.count(n) > 1)!r}"
        raise DomainError(f"{twice} is there more than once in X; keep one of them")
    order = [place[name] for name in (like if sorted(like) == sorted(kept) else kept)]
    with PublicWords(UNREADABLE):
        return frame if order == list(range(len(names))) else frame.iloc[:, order]


def array_frame(array: npt.NDArray[Any], names: Sequence[str], *, strict: bool) -> DataFrame:
    """The columns of an array by name: objects by their values' type, or as they are in a strict declaration."""
    import pandas as pd

    with PublicWords(PROBLEM):
        if array.dtype.kind in "iufb":  # as it is, without a copy
            return pd.DataFrame(array, columns=list(names), copy=False)
        columns = {name: array[:, i] for i, name in enumerate(names)}
        if strict:
            return pd.DataFrame({name: pd.Series(column, dtype=column.dtype) for name, column in columns.items()})
        return pd.DataFrame(columns).infer_objects()


def with_column(frame: DataFrame, name: str, values: npt.NDArray[Any], problem: str) -> DataFrame:
    """A table with one more column, its objects as they are."""
    import pandas as pd

    kind = object if values.dtype == object else None
    with PublicWords(problem):
        return frame.assign(**{name: pd.Series(values, frame.index, dtype=kind)})


def refuse_list(X: Any, strict: bool) -> None:
    """Refuses a list of rows, whatever it holds, where no row may refuse the table."""
    if strict and isinstance(X, list | tuple):
        raise DomainError("a strict declaration takes X as a table or an array: a list of rows may be no rectangle")


def refuse_other_shapes(X: Any) -> None:
    """Refuses a sparse matrix, a mapping, and a column alone, saying how to make it a table or an array."""
    if type(X).__module__.partition(".")[0] == "scipy" and hasattr(X, "toarray"):
        raise DomainError(f"{PROBLEM}; of a sparse matrix give X.toarray(), whose zeros are values like others")
    if isinstance(X, Mapping):
        raise DomainError(f"{PROBLEM}; of a mapping from names to columns give pd.DataFrame(X)")
    if callable(getattr(X, "collect", None)):
        raise DomainError(f"{PROBLEM}; of a lazy table give X.collect()")
    if hasattr(X, "to_frame") or getattr(X, "ndim", 2) == 1:
        how = "X.to_frame()" if hasattr(X, "to_frame") else "X.reshape(-1, 1)"
        raise DomainError(f"{PROBLEM}; of one column alone give {how}")
    if is_unread(X):
        raise DomainError(f"{PROBLEM}, in memory; read a file, a query or a stream first")


def named_array(X: Any, names: Sequence[str], strict: bool) -> DataFrame:
    """The columns of an array by name, as many as are declared."""
    refuse_other_shapes(X)
    refuse_list(X, strict)
    if isinstance(X, list | tuple):  # of text beside numbers, which keep their kinds
        with PublicWords(PROBLEM):
            array = np.array(X, dtype=object)
    else:
        array = array_of(X, PROBLEM)
    if array.ndim != 2:
        raise DomainError(PROBLEM)
    if array.shape[1] != len(names):
        raise DomainError(
            f"X has {array.shape[1]} columns, and the model has {len(names)} features: an array holds these alone, "
            f"without the target, in the order {show_levels(tuple(names))}"
        )
    return array_frame(array, names, strict=strict)


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
    array = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    if pa.types.is_floating(array.type):
        array = pc.if_else(pc.is_nan(array), None, array)
    missing = strict or array.null_count > 0
    values = pc.unique(array.drop_null()).to_pylist()
    numeric = pa.types.is_integer(array.type) or pa.types.is_floating(array.type)
    if not values or not (numeric or isinstance(values[0], str | bool)):
        raise DomainError(f"no levels can be read off column {name!r} of type {array.type}; declare them")
    if numeric and len(values) > MOST_LEVELS:
        numbers = array.drop_null().to_numpy(zero_copy_only=False)
        edges = np.unique(np.quantile(numbers, [0, 0.25, 0.5, 0.75, 1]))
        return Bins([float(edge) for edge in edges], missing, whole=None if (numbers % 1 == 0).all() else False)
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
