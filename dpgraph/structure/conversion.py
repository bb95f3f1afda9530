"""Calls of libraries on rows in public words, and rows that a model predicts, each by itself to the last bit.

An exception of a library, or of an object in a cell, may repeat a value or a number of rows. A ``DomainError`` in
public words takes its place, without a ``__context__``. Floating-point errors of numpy are off (promise.md S21).

A model knows no rows; the package root names the reader, behind the privacy wall. A float sum depends on its order,
which BLAS and numpy choose by the number of rows: one row more may flip the predictions of others (promise.md S24).
Sums here are element-wise, in a public order.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from dpgraph.lazy import provided
from dpgraph.privacy.checks import Reals
from dpgraph.privacy.errors import DPGraphError
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import Domain, DomainError, DomainWarning

T = TypeVar("T")
#: Errors that dpgraph itself raises, and its warnings of types, in public words; or of a library that is not installed.
OURS = (DPGraphError, DomainWarning, ImportError)
#: Where exceptions have public names; a class that rows bring along is not named.
_LIBRARIES = {"builtins", "numpy", "pandas", "pyarrow", "polars", "sklearn"}
_LIBRARIES |= {"dask", "pyspark", "py4j", "duckdb", "fsspec"}
#: Filters of warnings belong to the process: the one object that silences them, and every silence that has not ended.
#: A silence whose end an interruption prevented is forgotten with its frame.
_SILENT: Any = ("ignore", None, Warning, None, 0)
_LOCK, _SILENCES = Lock(), WeakSet[Any]()


class _Silence:
    """No warnings, from its beginning to its end."""


class PublicWords:
    """Calls of a library on rows, in a ``with`` block; any failure is refused in public words, without a context.

    ``problem`` is the refusal, ``passing`` exceptions that pass, and ``quiet`` drops warnings of all threads as well.

    >>> with PublicWords("column 'age' must hold numbers"):
    ...     [float("Ann")]
    Traceback (most recent call last):
        ...
    dpgraph.privacy.errors.DomainError: column 'age' must hold numbers (ValueError)
    """

    def __init__(self, problem: str, *, passing: tuple[type[Exception], ...] = (), quiet: bool = True) -> None:
        self._problem, self._passing = problem, passing
        self._silence: Any = _silence() if quiet else np.errstate(all="ignore")

    def __enter__(self) -> None:
        self._silence.__enter__()

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._silence.__exit__(None, None, None)
        if not isinstance(error, Exception):
            return
        refusal = error if isinstance(error, self._passing) else DomainError(f"{self._problem} ({_kind(error)})")
        del error, trace
        try:
            raise refusal
        finally:  # Python hangs on it what was raised in the block
            refusal.__cause__ = refusal.__context__ = None


def converted_each(
    items: Iterator[T], problem: str, *, passing: tuple[type[Exception], ...] = (), quiet: bool = False
) -> Iterator[T]:
    """The items of an iterator, each obtained behind ``PublicWords``."""
    end: Any = object()
    while True:
        with PublicWords(problem, passing=passing, quiet=quiet):
            item = next(items, end)
        if item is end:
            return
        yield item


def is_query(rows: Any) -> bool:
    """True for an Arrow stream, or a table of another library: each reading of it may have another order."""
    kinds = {kind.__module__.partition(".")[0] for kind in type(rows).__mro__}
    held = bool(kinds & {"pandas", "polars"}) or ("pyarrow" in kinds and hasattr(rows, "nbytes"))
    return not held and hasattr(rows, "__arrow_c_stream__")


def is_table(rows: Any) -> bool:
    """True for a pandas, polars or Arrow table in memory, whose rows have an order."""
    return hasattr(rows, "__arrow_c_stream__") and hasattr(rows, "columns") and not is_query(rows)


def array_of(values: Any, problem: str) -> npt.NDArray[Any]:
    """Values as an array of whatever type numpy gives them; a query, whose values have no places, is refused."""
    if is_query(values):
        raise DomainError(f"{problem}; a query has no order of rows: read it into memory first")
    with PublicWords(problem):
        return np.asarray(values)


@contextmanager
def _silence() -> Iterator[None]:
    """No warnings in any thread until the last of several silences ends; no lock is held in between."""
    silence = _Silence()
    try:
        with _LOCK:
            _SILENCES.add(silence)
            filters: Any = warnings.filters
            if not filters or filters[0] is not _SILENT:
                filters.insert(0, _SILENT)
        with np.errstate(all="ignore"):
            yield
    finally:
        with _LOCK:
            _SILENCES.discard(silence)
            filters = warnings.filters
            if not _SILENCES:
                # no comprehension: Python 3.12 and 3.13 do not leave a block when Ctrl-C comes inside of one
                filters[:] = filter(lambda one: one is not _SILENT, filters)


def _kind(error: Exception) -> str:
    """The name of an exception's class, if a library gave it."""
    kind = type(error)
    return kind.__name__ if kind.__module__.partition(".")[0] in _LIBRARIES else "Exception"


#: Rows of a block.
BLOCK = 1024


def added(parts: Iterable[Reals]) -> Reals:
    """The sum of arrays of one shape, or over the first axis of an array: one after another."""
    return reduce(np.add, parts)


def weighted(columns: Reals, weights: Reals) -> Reals:
    """The sum of columns times their weights, shape (rows,): no product of matrices."""
    return added(column * weight for column, weight in zip(columns.T, weights, strict=True))


@np.errstate(all="ignore")
def in_blocks(function: Callable[[npt.NDArray[Any]], Reals], rows: npt.NDArray[Any], length: int = BLOCK) -> Reals:
    """A function's numbers for rows, in blocks of one length: the last bits of exp and log depend on the place."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), length):
        part, block = rows[start : start + length], np.zeros((length, *rows.shape[1:]), rows.dtype)
        block[: len(part)] = part
        found[start : start + length] = function(block)[: len(part)]
    return found


def columns_to_predict(rows: Any, declared: Domain | LinearDesign, *, unseen: bool = False) -> Mapping[str, Any]:
    """A mapping of columns as it is, in arrays; other rows by their declaration, ``unseen`` as for ``encode``."""
    if isinstance(rows, Mapping):
        if isinstance(declared, Domain) and not all(isinstance(column, np.ndarray) for column in rows.values()):
            raise DomainError(
                "a mapping is of numpy arrays of codes and numbers; of rows give a table, pd.DataFrame(X)"
            )
        if any(map(is_query, rows.values())):
            raise DomainError("a mapping is of columns in memory; of a query give the query itself, as rows")
        return rows
    return provided("read_features")(rows, declared, unseen=unseen)
