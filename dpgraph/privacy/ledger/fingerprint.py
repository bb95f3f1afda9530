"""A digest of a public value by its fields: equal values have equal digests, in every process."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpgraph.privacy.ledger.row import canonical


def fingerprint(value: Any) -> str:
    """The first 32 digits of the SHA-256 of a value's fields, read down to texts and numbers; "" for None.

    A field of another kind, such as a function, counts by its type's name alone.

    >>> fingerprint(Fraction(1, 2)) == fingerprint(Fraction(2, 4)) != fingerprint("1/2")
    True
    """
    return "" if value is None else hashlib.sha256(canonical(_plain(value)).encode()).hexdigest()[:32]


def _plain(value: Any) -> Any:
    """A value as lists of texts, with the names of its types."""
    if value is None or isinstance(value, bool | int | str):
        return value
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, float | Fraction | np.generic):
        return [name, repr(value)]
    if isinstance(value, np.ndarray):
        plain = value if value.dtype.hasobject else np.ascontiguousarray(value)
        return [name, str(value.dtype), list(value.shape), _plain(plain.ravel().tolist())]
    if isinstance(value, Mapping):
        return [name, [[_plain(key), _plain(item)] for key, item in value.items()]]
    if isinstance(value, Set):
        return [name, sorted(map(canonical, map(_plain, value)))]
    if isinstance(value, list | tuple):
        return [name, list(map(_plain, value))]
    if is_dataclass(value) and not isinstance(value, type):
        return [name, {field.name: _plain(getattr(value, field.name)) for field in fields(value)}]
    return [name]
