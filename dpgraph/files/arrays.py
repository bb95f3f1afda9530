"""Arrays of numbers as they stand in JSON, nested lists, and back."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from dpgraph.privacy.errors import FileError
from dpgraph.structure.frozen import FrozenMap


def plain_tables(tables: FrozenMap[str, Any]) -> dict[str, Any]:
    """Arrays by their names; a JSON file has them as nested lists (``packed.nested``)."""
    return {name: np.asarray(table) for name, table in tables.items()}


def tables_of(plain: dict[str, Any]) -> FrozenMap[str, Any]:
    """The inverse of ``plain_tables``, for real numbers."""
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
    """Whether an array or nested lists hold numbers alone, one look a level of lists.

    Arrays would read true as 1, and take the memory of the longest text for each of their cells.
    """
    if isinstance(plain, np.ndarray):
        return plain.dtype.kind in ("fi" if float in kinds else "i")
    level = [plain]
    while level:
        if not set(map(type, level)) <= kinds | {list}:
            return False
        level = list(chain.from_iterable(part for part in level if type(part) is list))
    return True


def shares_of(plain: Any) -> FrozenMap[str, float]:
    """Shares of accepted moves by their name.

    Raises:
        FileError: If one is not a number from 0 to 1.
    """
    if not isinstance(plain, dict) or not all(isinstance(v, float) and 0 <= v <= 1 for v in plain.values()):
        raise FileError("the record of the draws is not whole: shares are numbers from 0 to 1")
    return FrozenMap(plain)
