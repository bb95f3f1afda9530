"""Calls of libraries on rows, whose errors and warnings are replaced by public words.

An exception of numpy, pandas or Arrow may repeat a value, the keys of a dictionary or the number of rows, and so may
one that an object in a cell raises. It is replaced by a ``DomainError`` made of public words alone. The error is
raised after the handler has ended, so that no ``__context__`` holds the first one. Floating-point errors of numpy,
which would tell that a value exceeds a public bound, are off in all of them (promise.md S21).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.errors import DPGraphError
from dpgraph.structure.domain import DomainError

T = TypeVar("T")

#: Errors that dpgraph itself raises, in public words, or of a library that is not installed.
OURS = (DPGraphError, ImportError)

#: Where exceptions have public names; a class that rows bring along is not named.
_LIBRARIES = (
    "builtins",
    "numpy",
    "pandas",
    "pyarrow",
    "polars",
    "sklearn",
    "dask",
    "pyspark",
    "py4j",
    "duckdb",
    "fsspec",
)

#: Filters of warnings belong to the process: the one object that silences them, and every silence that has not ended.
#: A silence whose end an interruption prevented is forgotten with its frame.
_SILENT: Any = ("ignore", None, Warning, None, 0)
_LOCK, _SILENCES = Lock(), WeakSet[Any]()


class _Silence:
    """No warnings, from its beginning to its end."""


def converted(
    convert: Callable[[], T], problem: str, *, passing: tuple[type[Exception], ...] = (), quiet: bool = True
) -> T:
    """The result of a library call on rows; any failure is refused in public words, without cause and context.

    ``problem`` is the refusal: the declared name of the column and what was expected; the kind of the failure is added.
    Exceptions of ``passing`` pass as they are (``OURS``, where dpgraph's own code is called). ``quiet`` drops the
    warnings of all threads as well.

    >>> converted(lambda: [float("3.5")], "column 'age' must hold numbers")
    [3.5]
    >>> converted(lambda: [float("Ann")], "column 'age' must hold numbers")
    Traceback (most recent call last):
        ...
    dpgraph.privacy.errors.DomainError: column 'age' must hold numbers (ValueError)
    """
    refusal: Exception
    try:
        with _silence() if quiet else np.errstate(all="ignore"):
            return convert()
    except passing as error:
        refusal = error
    except Exception as error:
        refusal = DomainError(f"{problem} ({_kind(error)})")
    refusal.__cause__ = refusal.__context__ = None
    raise refusal


def converted_each(
    items: Iterator[T], problem: str, *, passing: tuple[type[Exception], ...] = (), quiet: bool = False
) -> Iterator[T]:
    """The items of an iterator, each obtained as by ``converted``."""
    end: Any = object()
    while (item := converted(lambda: next(items, end), problem, passing=passing, quiet=quiet)) is not end:
        yield item


def is_query(rows: Any) -> bool:
    """Whether rows are an Arrow stream, each reading of which may have another order, and no table or column in memory.

    Tables and columns of pandas, polars and Arrow are in memory; a table of another library may be a query.
    """
    kinds = {kind.__module__.partition(".")[0] for kind in type(rows).__mro__}
    held = bool(kinds & {"pandas", "polars"}) or ("pyarrow" in kinds and hasattr(rows, "nbytes"))
    return not held and hasattr(rows, "__arrow_c_stream__")


def is_table(rows: Any) -> bool:
    """Whether rows are a pandas, polars or Arrow table in memory, whose rows have an order."""
    return hasattr(rows, "__arrow_c_stream__") and hasattr(rows, "columns") and not is_query(rows)


def array_of(values: Any, problem: str) -> npt.NDArray[Any]:
    """Values as an array of whatever type numpy gives them; a query, whose values have no places, is refused."""
    if is_query(values):
        raise DomainError(f"{problem}; a query has no order of rows: read it into memory first")
    return converted(lambda: np.asarray(values), problem)


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
                filters[:] = [one for one in filters if one is not _SILENT]


def _kind(error: Exception) -> str:
    """The name of an exception's class, if a library gave it."""
    kind = type(error)
    return kind.__name__ if kind.__module__.partition(".")[0] in _LIBRARIES else "Exception"
