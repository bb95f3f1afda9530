"""Cells that a spreadsheet would run: a cell of a CSV file that begins like a formula gets an apostrophe before it.

A program that opens a CSV file takes ``=HYPERLINK(...)`` for a formula, wherever it comes from; levels of a variable
come from files. (OWASP, CSV Injection.) Numbers stay as they are, with their sign.
"""

from __future__ import annotations

import csv
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: How a formula begins: = + - @, the same in full width, and what programs skip before them.
_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def harmless(cell: Any) -> Any:
    """A cell or a column's name as it may stand in a CSV file; only texts change.

    >>> [harmless(cell) for cell in ["=1+1", "-1.5e3", "-5-0", "@a", "a=b", -2]]
    ["'=1+1", '-1.5e3', "'-5-0", "'@a", 'a=b', -2]
    """
    formula = isinstance(cell, str) and cell.startswith(_STARTS) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if formula else cell


def csv_text(frame: pd.DataFrame, header: bool = True) -> str:
    """A data frame as CSV text; all words are quoted where one holds a carriage return, which readers split at."""
    text = frame.to_csv(index=False, header=header, lineterminator="\n")
    if "\r" in text:
        return frame.to_csv(index=False, header=header, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    return text


def harmless_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A data frame whose cells and names are harmless; itself where all of them are already."""
    import pandas as pd

    changed: dict[int, Any] = {}
    for place, kind in enumerate(frame.dtypes):
        if isinstance(kind, pd.CategoricalDtype) or kind.kind not in "biuf":
            column = frame.iloc[:, place].astype(object)
            formulas = {cell: harmless(cell) for cell in column.unique() if harmless(cell) is not cell}
            if formulas:
                changed[place] = [formulas.get(cell, cell) for cell in column]
    names = [harmless(name) for name in frame.columns]
    if not changed and names == list(frame.columns):
        return frame
    safe = frame.copy(deep=False)
    for place, cells in changed.items():
        safe.isetitem(place, cells)
    safe.columns = names
    return safe
