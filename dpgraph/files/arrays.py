"""Arrays of numbers as they stand in JSON, nested lists, and back: the forms of fields that hold them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.structural import FORMS, Form
from dpgraph.structure.frozen import FrozenMap


def plain_tables(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Arrays by their names; a JSON file has them as nested lists (``packed.nested``)."""
    return {name: np.asarray(table) for name, table in tables.items()}


def tables_of(plain: dict[str, Any]) -> FrozenMap[str, Any]:
    """The inverse of ``plain_tables``, for finite real numbers."""
    if not isinstance(plain, dict) or not all(_numbers(values, {int, float}) for values in plain.values()):
        raise FileError("a table holds something that is not a number")
    tables = {name: np.array(values) for name, values in plain.items()}
    if any(table.dtype.kind not in "fi" for table in tables.values()):
        raise FileError("a table holds something that is not a number")
    if not all(np.isfinite(table).all() for table in tables.values()):
        raise FileError("a table holds an infinite number")
    return FrozenMap((name, table.astype(float)) for name, table in tables.items())


def integers_of(plain: Any) -> np.ndarray:
    """An array of 64-bit whole numbers."""
    if not _numbers(plain, {int}) or (table := np.array(plain)).dtype.kind != "i":
        raise FileError("a table of counts holds something that is not a 64-bit whole number")
    return table


def _numbers(plain: Any, kinds: set[type]) -> bool:
    """True if an array or nested lists hold numbers alone; true is none, and one text would size every cell."""
    if isinstance(plain, np.ndarray):
        return plain.dtype.kind in ("fi" if float in kinds else "i")
    level = [plain]
    while level:
        if not set(map(type, level)) <= kinds | {list}:
            return False
        level = list(chain.from_iterable(part for part in level if type(part) is list))
    return True


def _shares_of(plain: Any, place: str) -> FrozenMap[str, float]:
    if not isinstance(plain, dict) or not all(isinstance(v, float) and 0 <= v <= 1 for v in plain.values()):
        raise FileError("the record of the draws is not whole: shares are numbers from 0 to 1")
    return FrozenMap(plain)


def mixing_of(plain: Any, place: str = "") -> FrozenMap[str, float]:
    """How well chains mixed: numbers of at least 0 by their name, null for an unknown one."""
    if not isinstance(plain, dict) or not all(v is None or (type(v) is float and v >= 0) for v in plain.values()):
        raise FileError("the record of the draws is not whole: how chains mixed is numbers of at least 0")
    return FrozenMap((name, math.nan if value is None else value) for name, value in plain.items())


FORMS.update(
    {
        Reals: Form(np.asarray, lambda plain, place: tables_of({place: plain})[place]),
        Integers: Form(np.asarray, lambda plain, place: integers_of(plain)),
        Mapping[str, Reals]: Form(plain_tables, lambda plain, place: tables_of(plain)),
        Mapping[str, float]: Form(dict, _shares_of),
        FrozenMap[str, float]: Form(
            lambda mixing: {name: value if math.isfinite(value) else None for name, value in mixing.items()}, mixing_of
        ),
    }
)
