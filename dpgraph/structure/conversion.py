"""Calls of libraries on rows, whose errors and warnings are replaced by public words.

An exception of numpy, pandas or Arrow may repeat a value, the keys of a dictionary or the number of rows, and so may
one that an object in a cell raises. It is replaced by a ``DomainError`` made of public words alone. The error is
raised after the handler has ended, so that no ``__context__`` holds the first one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from threading import RLock
from typing import Any, TypeVar

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

#: Filters of warnings belong to the process: one thread at a time sets them.
_FILTERS = RLock()


def converted(
    convert: Callable[[], T], problem: str, *, passing: tuple[type[Exception], ...] = (), quiet: bool = True
) -> T:
    """The result of a library call on rows; any failure is refused in public words.

    Args:
        convert: Calls a library on rows.
        problem: What the refusal says: the declared name of the column and what was expected.
        passing: Exceptions that pass as they are, without context: ``OURS``, where dpgraph's own code is called.
        quiet: Whether warnings are dropped as well; for calls that start no threads which come here again.

    Raises:
        DomainError: With ``problem`` and the kind of the failure, without cause and context.

    >>> converted(lambda: [float("3.5")], "column 'age' must hold numbers")
    [3.5]
    >>> converted(lambda: [float("Ann")], "column 'age' must hold numbers")
    Traceback (most recent call last):
        ...
    dpgraph.privacy.errors.DomainError: column 'age' must hold numbers (ValueError)
    """
    refusal: Exception
    try:
        return _without_warnings(convert) if quiet else convert()
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


def array_of(values: Any, problem: str) -> npt.NDArray[Any]:
    """Values as an array of whatever type numpy gives them."""
    return converted(lambda: np.asarray(values), problem)


def _without_warnings(convert: Callable[[], T]) -> T:
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return convert()


def _kind(error: Exception) -> str:
    """The name of an exception's class, if a library gave it."""
    kind = type(error)
    return kind.__name__ if kind.__module__.partition(".")[0] in _LIBRARIES else "Exception"
