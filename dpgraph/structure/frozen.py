"""Immutable mappings and arrays, so that public values can be shared, compared and pickled without surprises."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers
from dpgraph.privacy.errors import ReleaseError

K = TypeVar("K")
V = TypeVar("V")


class FrozenMap(Mapping[K, V]):
    """A read-only mapping in a fixed order; equal when the items are and, to another FrozenMap, the order too.

    Arrays are compared by value.

    >>> FrozenMap({"a": 1}) == {"a": 1}
    True
    """

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] = ()) -> None:
        self._items: dict[K, V] = dict(items)

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(tuple(self._items.items()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping) or len(self) != len(other):
            return False
        if isinstance(other, FrozenMap) and tuple(self) != tuple(other):
            return False
        return all(key in other and _same(value, other[key]) for key, value in self._items.items())

    def __repr__(self) -> str:
        return repr(self._items)


def _same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other) and np.asarray(one).dtype.kind == np.asarray(other).dtype.kind  # type: ignore[arg-type]
    return one == other


def frozen_integers(values: npt.ArrayLike, what: str) -> Integers:
    """A read-only copy of whole numbers; floats are refused, and true and false, which numpy would read as 1 and 0."""
    if np.asarray(values).dtype.kind not in "iu":
        raise ReleaseError(f"{what} must be whole numbers; got an array of {np.asarray(values).dtype}")
    return frozen_array(values, np.int64)


def frozen_array(values: npt.ArrayLike, dtype: Any) -> npt.NDArray[Any]:
    """A read-only copy."""
    array = np.array(values, dtype=dtype, order="C")
    array.setflags(write=False)
    return array
