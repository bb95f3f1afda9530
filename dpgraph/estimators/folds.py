"""Fold assignment in which no row influences another row's fold.

By position where n is public and rows are replaced in place; by a keyed hash of a person's own id where rows appear
and vanish. Either way a row's fold is a function of public things and of that row's own person.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.statistics.rows.batches import refuse_clusters
from dpgraph.statistics.rows.cells import cells_of, person_name
from dpgraph.statistics.rows.features import UNREADABLE, refuse_list, table_frame
from dpgraph.structure.conversion import PublicWords, is_query, is_table
from dpgraph.structure.domain import DomainError

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows that are taken by position: a DataFrame or an array, a target, and one id of a person a row. Sensitive."""

    X: Any
    y: Any = None
    persons: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.X)

    def take(self, positions: Integers) -> tuple[Any, Any]:
        """X and y at some positions, in the same order."""
        return _taken(self.X, positions), None if self.y is None else _taken(self.y, positions)


def readable(X: Any, y: Any, person: Any, *, keep: bool, strict: bool = False) -> Rows:
    """The rows of a table or an array and their persons; a refusal repeats none of them.

    ``keep``: whether a column of persons stays in X, for an estimator that reads it itself. ``strict``: no row may
    refuse the table; a row without a person is left out then.
    """
    refuse_clusters(X, y, person)
    refuse_list(X, strict)
    table = _table(X)
    ids = person
    if isinstance(person, str):
        with PublicWords(UNREADABLE):
            there = hasattr(table, "columns") and person in table.columns
        if not there:
            raise DomainError(f"person must name a column of X, or be one id a row; X has no column {person!r}")
        ids = table[person]
        table = table if keep else table.drop(columns=person)
    names = None if person is None else person_names(ids) if strict else person_ids(ids)
    target = y if y is None or hasattr(y, "iloc") else _column(y)
    if any(part is not None and len(part) != len(table) for part in (target, names)):
        raise DomainError("X, y and person must have the same number of rows")
    if names is None:
        return Rows(table, target)
    named = [position for position, name in enumerate(names) if name is not None]
    return Rows(*Rows(table, target).take(np.array(named, np.int64)), tuple(name for name in names if name is not None))


def person_ids(ids: Any) -> tuple[str, ...]:
    """Ids as text: 1 and "1" are the same person, so that no id changes how another is read.

    (An array of whole numbers becomes one of text when one text joins it. It becomes one of floats when a float does,
    and then it is refused.)
    """
    problem = "every row needs the id of its person: text, a whole number or a UUID, never null or a fraction"
    values = _items(ids)
    with PublicWords(problem):
        if all(map(_is_id, values)):
            return tuple(str(one) if isinstance(one, str | uuid.UUID) else str(int(one)) for one in values)
    raise DomainError(problem)


def person_names(ids: Any) -> tuple[str | None, ...]:
    """Ids as text, None for what names nobody; no cell is refused.

    >>> person_names([7, "7", 8.0, None, {}])
    ('7', '7', '8', None, None)
    """
    return tuple(str(one) if type(one) is uuid.UUID else person_name(one) for one in _items(ids))


def _items(ids: Any) -> list[Any] | tuple[Any, ...]:
    """The ids of persons as a list, one a row."""
    if is_query(ids):
        raise DomainError("person must be a column of X or one id a row; read a query first")
    column: Any = getattr(ids, "to_pylist", None) or getattr(ids, "to_list", None) or getattr(ids, "tolist", None)
    with PublicWords("the ids of persons cannot be read"):
        values = ids if column is None else column()
    if not isinstance(values, list | tuple):
        raise DomainError(f"person must be a column of X or one id a row; got {type(ids).__name__}")
    return values


def _is_id(one: Any) -> bool:
    return isinstance(one, str | uuid.UUID | Integral) and not isinstance(one, bool | np.bool_)


def folds_by_position(rows: int, folds: int) -> Integers:
    """Row i is in fold i mod k, whatever the rows hold.

    >>> folds_by_position(5, 2).tolist()
    [0, 1, 0, 1, 0]
    """
    return np.arange(rows, dtype=np.int64) % folds


def folds_by_person(persons: Sequence[str], folds: int, key: bytes) -> Integers:
    """Each row in the fold of its person: BLAKE2b of the id under a key, mod k.

    A row's fold depends on the key and its own person's id. The privacy of what follows holds for every fixed key,
    and so for one that is drawn independently of the rows; a fresh key keeps ids from being made for one fold.

    >>> found = folds_by_person(["ann", "bob", "ann"], 3, b"key")
    >>> found[0] == found[2]
    np.True_
    """
    folded = {one: _hashed(one, key) % folds for one in set(persons)}
    return np.array([folded[one] for one in persons], dtype=np.int64)


def _hashed(one: str, key: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(one.encode("utf-8", "surrogatepass"), digest_size=8, key=key).digest())


def first_rows(persons: Sequence[str], rows_per_person: int) -> Integers:
    """The positions of the first rows of each person, so that nobody's rows decide which rows of another count.

    >>> first_rows(["ann", "bob", "ann", "ann"], 2).tolist()
    [0, 1, 2]
    """
    seen: dict[str, int] = {}
    kept: list[int] = []
    for position, one in enumerate(persons):
        seen[one] = seen.get(one, 0) + 1
        if seen[one] <= rows_per_person:
            kept.append(position)
    return np.array(kept, dtype=np.int64)


def _table(X: Any) -> Any:
    """X as a DataFrame or a two-dimensional array whose elements keep their own types."""
    if is_table(X):
        return table_frame(X)
    problem = "X must be a table or a two-dimensional array; read a file or a query first"
    if is_query(X):
        raise DomainError(problem)
    with PublicWords(problem):
        array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim != 2:
        raise DomainError(problem)
    return array


def _column(y: Any) -> Any:
    """A target whose elements keep their own types, so that none depends on another's."""
    problem = "y must be a table or an array with one entry a row"
    column = cells_of(y) if isinstance(y, list | tuple) or hasattr(y, "__array__") else np.array(None)
    if column.ndim == 0:
        raise DomainError(problem)
    return column


def _taken(values: Any, positions: Integers) -> Any:
    return values.iloc[positions] if hasattr(values, "iloc") else values[positions]
