"""Arrays of numbers as they stand in JSON, nested lists, and back."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from dpgraph.privacy.errors import FileError
from dpgraph.structure.frozen import FrozenMap


def plain_tables(tables: FrozenMap[str, Any]) -> dict[str, Any]:
    """Arrays as nested lists."""
    return {name: table.tolist() for name, table in tables.items()}


def tables_of(plain: dict[str, Any]) -> FrozenMap[str, Any]:
    """The inverse of ``plain_tables``, for real numbers."""
    tables = {name: np.array(values) for name, values in plain.items()}
    if any(table.dtype.kind not in "fi" for table in tables.values()) or _has_booleans(plain):
        raise FileError("a table holds something that is not a number")
    if not all(np.isfinite(table).all() for table in tables.values()):
        raise FileError("a table holds an infinite number")
    return FrozenMap((name, table.astype(float)) for name, table in tables.items())


def integers_of(plain: Any) -> np.ndarray:
    """An array of 64-bit whole numbers."""
    table = np.array(plain)
    if table.dtype.kind != "i" or _has_booleans(plain):
        raise FileError("a table of counts holds something that is not a 64-bit whole number")
    return table


def _has_booleans(plain: Any) -> bool:
    """Whether true or false stands among nested numbers, which arrays would read as 1 or 0; one look a level."""
    level = list(plain.values()) if isinstance(plain, dict) else [plain]
    while level:
        if bool in set(map(type, level)):
            return True
        level = list(chain.from_iterable(part for part in level if isinstance(part, list)))
    return False


def shares_of(plain: Any) -> FrozenMap[str, float]:
    """Shares of accepted moves by their name.

    Raises:
        FileError: If one is not a number from 0 to 1.
    """
    if not isinstance(plain, dict) or not all(isinstance(v, float) and 0 <= v <= 1 for v in plain.values()):
        raise FileError("the record of the draws is not whole: shares are numbers from 0 to 1")
    return FrozenMap(plain)
