"""Where two values differ, part by part, without a word of what they hold."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.errors import InferenceError

#: Deeper than this nothing is compared.
DEEPEST = 60

PLAIN = (str, bytes, int, bool, complex, type(None), range, slice, np.generic)


def difference(one: Any, other: Any, where: str = "the value") -> str | None:
    """Where two values differ: the first part that does, or None if they are equal in every part.

    Dataclasses, mappings, sequences, sets, arrays, frames, random generators and objects with attributes are compared
    by what they hold; fields that a dataclass leaves out of comparisons, a budget's random name among them, are not.

    Raises:
        InferenceError: For a type of which nothing can be said.

    >>> difference({"a": [1, 2]}, {"a": [1, 3]})
    "the value['a'][1]"
    >>> difference(np.zeros(2), np.zeros(2)) is None
    True
    """
    return _difference(one, other, where, {}, 0)


def _difference(one: Any, other: Any, where: str, seen: dict[tuple[int, int], Any], depth: int) -> str | None:
    if one is other or (id(one), id(other)) in seen:
        return None
    if _named(type(one)) != _named(type(other)):
        return f"the type of {where}"
    if depth > DEEPEST:
        raise InferenceError(f"{where} is nested too deep")
    seen[id(one), id(other)] = (one, other)  # kept alive, so that no other value gets their ids
    parts = _parts(one, other)
    if isinstance(parts, bool):
        return None if parts else where
    left, right = parts
    if list(left) != list(right):
        return f"the parts of {where}"
    for name in left:
        found = _difference(left[name], right[name], f"{where}{name}", seen, depth + 1)
        if found is not None:
            return found
    return None


def _named(kind: type) -> tuple[str, str]:
    """A class by its name: one that a function defines is another object in every call."""
    return kind.__module__, kind.__qualname__


def _parts(one: Any, other: Any) -> bool | tuple[dict[str, Any], dict[str, Any]]:
    """Whether two values of one type are equal, or what both are made of, by name."""
    if isinstance(one, float | np.floating):
        return bool(one == other or (one != one and other != other))
    if isinstance(one, PLAIN):
        return bool(one == other)
    if isinstance(one, np.ndarray):
        return _same_array(one, other)
    if isinstance(one, Budget):
        return (one.spent, one.events, one.unit) == (other.spent, other.events, other.unit)
    if is_dataclass(one) and not isinstance(one, type):
        names = [part.name for part in fields(one) if part.compare or not one.__dataclass_params__.eq]  # type: ignore[attr-defined]
        return tuple({f".{name}": getattr(value, name, None) for name in names} for value in (one, other))  # type: ignore[return-value]
    if isinstance(one, Mapping):
        return tuple({f"[{key!r}]": value[key] for key in value} for value in (one, other))  # type: ignore[return-value]
    if isinstance(one, list | tuple):
        return tuple({f"[{i}]": part for i, part in enumerate(value)} for value in (one, other))  # type: ignore[return-value]
    return _other_parts(one, other)


def _other_parts(one: Any, other: Any) -> bool | tuple[dict[str, Any], dict[str, Any]]:
    """The same of values that are no plain containers."""
    if type(one).__module__ == "_thread":  # locks hold nothing
        return True
    if isinstance(one, set | frozenset):
        return one == other
    if isinstance(one, np.random.Generator):
        return one.bit_generator.state == other.bit_generator.state
    if callable(getattr(one, "equals", None)) and not isinstance(one, type):  # pandas, polars, Arrow
        return bool(one.equals(other)) and _labels(one) == _labels(other)
    if isinstance(one, type) or (callable(one) and hasattr(one, "__qualname__")):
        return getattr(one, "__qualname__", None) == getattr(other, "__qualname__", None)
    if hasattr(one, "__dict__"):
        return tuple({f".{name}": value for name, value in vars(each).items()} for each in (one, other))  # type: ignore[return-value]
    try:
        return pickle.dumps(one) == pickle.dumps(other)
    except Exception:
        raise InferenceError(f"values of type {type(one).__name__} cannot be compared") from None


def _labels(frame: Any) -> str:
    """Names and types of a frame's columns, which its own comparison may overlook."""
    return repr([getattr(frame, name, None) for name in ("dtypes", "schema", "name")])


def _same_array(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.dtype.kind == "O":
        return all(_difference(a, b, "", {}, 1) is None for a, b in zip(one.ravel(), other.ravel(), strict=True))
    return np.array_equal(one, other, equal_nan=one.dtype.kind in "fc")
