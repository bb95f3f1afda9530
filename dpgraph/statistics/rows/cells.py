"""Untyped cells, converted one by one, for declarations under which no row may refuse the table.

A cell of the declared kind keeps its value, text is read as a word of a CSV file where numbers or booleans are
declared, any other becomes ``other`` or null. No method of an object in a cell is called: its class is checked, and the
methods of the built-in class are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.statistics.rows.batches import NULL_WORDS
from dpgraph.structure.conversion import array_of
from dpgraph.structure.domain import Bins, Categories

#: What stands for a cell of another kind until ``other`` takes its place.
_ELSE: Any = object()


def typed_cells(cells: Iterable[Any], declared: Any) -> pa.Array:
    """Cells, any Python objects, as a column of the declared kind; None declares a person's name, else a number."""
    if declared is None:
        return _column(cells, person_name, None, pa.string())
    if not isinstance(declared, Categories):
        names: dict[str, float | None] = {}  # a number inside each bin by the bin's name, None for the nulls' level
        if isinstance(declared, Bins):
            names = dict(zip(declared.levels, (*declared.edges[:-1], None), strict=False))
        return _column(cells, lambda cell: _number(cell, names), None, pa.float64())
    match declared.kind:
        case "text":
            return _column(cells, _text, declared.other, pa.string())
        case "boolean":
            return _column(cells, _boolean, declared.other, pa.bool_())
        case _:
            return _column(cells, lambda cell: _number(cell, {}), declared.other, pa.float64())


def cells_of(values: Any) -> npt.NDArray[Any]:
    """A column as an array; a list becomes an array of its items, whatever they are."""
    if not isinstance(values, list | tuple):
        return array_of(values, "a column must be an array of one axis")
    cells = np.empty(len(values), object)
    for at, value in enumerate(values):
        cells[at] = value
    return cells


def word_number(word: str, other: Any = None) -> Any:
    """The number that a word spells, None for a null, ``other`` if it spells none."""
    if word.strip().lower() in NULL_WORDS:
        return None
    try:
        number = float(word)
    except ValueError:
        return other
    return None if number != number else number


def person_name(cell: Any) -> str | None:
    """The text that identifies a person; None for a cell that identifies nobody."""
    kind = type(cell)
    if issubclass(kind, int | np.integer) and not issubclass(kind, bool):
        return str(int.__index__(cell) if issubclass(kind, int) else int(np.generic.item(cell)))
    number = real_number(cell)
    if number is not None:
        return None if number != number else str(int(number)) if number.is_integer() else repr(number)
    text = _text(cell)
    return None if text is _ELSE else text


def _column(cells: Iterable[Any], read: Callable[[Any], Any], other: Any, kind: pa.DataType) -> pa.Array:
    """A column of cells, each converted by ``read``; ``other`` for one of another kind."""
    found = (read(cell) for cell in cells)
    return pa.array([other if value is _ELSE else value for value in found], kind)


def _text(cell: Any) -> Any:
    """A cell as text that UTF-8 can encode, without halves of surrogate pairs."""
    import pandas as pd

    if issubclass(type(cell), str):
        word = str.__str__(cell)
        halved = not word.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in word)
        return _ELSE if halved else word
    number, null = real_number(cell), cell is None or cell is pd.NA or cell is pd.NaT
    return None if null or (number is not None and number != number) else _ELSE


def _boolean(cell: Any) -> Any:
    kind = type(cell)
    if issubclass(kind, bool | np.bool_):
        return cell is True or (kind is not bool and bool(np.generic.item(cell)))
    if issubclass(kind, str):
        word = str.__str__(cell).strip().lower()
        return None if word in NULL_WORDS else {"true": True, "false": False}.get(word, _ELSE)
    return _text(cell)


def _number(cell: Any, names: dict[str, float | None]) -> Any:
    """A number; the name of a bin is a number in it."""
    kind = type(cell)
    if issubclass(kind, str):
        word = str.__str__(cell)
        return names[word] if word in names else word_number(word, _ELSE)
    number = real_number(cell)
    if number is None:
        return _text(cell)
    return None if number != number else number


def real_number(cell: Any) -> float | None:
    """A Python or numpy number as a float, booleans and complex numbers aside."""
    kind = type(cell)
    if issubclass(kind, float):
        return float.__float__(cell)
    if issubclass(kind, np.integer | np.floating):
        return float(np.generic.item(cell))
    if not issubclass(kind, int) or issubclass(kind, bool):
        return None
    try:
        return int.__float__(cell)
    except OverflowError:
        return float("inf") if int.__gt__(cell, 0) else float("-inf")
