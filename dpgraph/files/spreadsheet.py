"""Cells that a spreadsheet would run: those of a CSV file that begin like a formula get an apostrophe before them.

A program that opens a CSV file takes ``=HYPERLINK(...)`` for a formula, wherever it comes from; levels of a variable
come from files. (OWASP, CSV Injection.) Numbers stay as they are, with their sign.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

#: What a formula begins with: = + - @, the same in full width, and what programs skip before them.
_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def harmless(cell: Any) -> Any:
    """A cell or a column's name as it may stand in a CSV file; what is no text stays.

    >>> [harmless(cell) for cell in ["=1+1", "-1.5e3", "-5-0", "@a", "a=b", -2]]
    ["'=1+1", '-1.5e3', "'-5-0", "'@a", 'a=b', -2]
    """
    if isinstance(cell, str) and cell.startswith(_STARTS) and not _NUMBER.fullmatch(cell):
        return f"'{cell}"
    return cell


def csv_text(frame: pd.DataFrame, header: bool = True) -> str:
    """A data frame as CSV text, cells as they are; all words are quoted where one holds a carriage return.

    Python's writer leaves that character bare, and a reader takes what follows it for a new line.
    """
    bare = any("\r" in str(word) for place in range(frame.shape[1]) for word in _words(frame.iloc[:, place]))
    bare = bare or any("\r" in str(name) for name in frame.columns)
    quoting = csv.QUOTE_NONNUMERIC if bare else csv.QUOTE_MINIMAL
    return frame.to_csv(index=False, header=header, quoting=quoting)


def _words(column: pd.Series) -> Iterable[Any]:
    """What may be words in a column: its levels, its cells, or nothing of numbers."""
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.dtype.categories
    return () if column.dtype.kind in "biuf" else column


def harmless_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """A data frame whose cells and names are harmless; itself where all of them are already."""
    import numpy as np
    import pandas as pd

    changed: dict[int, Any] = {}
    for place, kind in enumerate(frame.dtypes):
        column = frame.iloc[:, place]
        if isinstance(kind, pd.CategoricalDtype):
            before = list(kind.categories)
            after = [harmless(level) for level in before]
            if after != before:
                words = np.array([*after, None], dtype=object)  # code -1 is a null
                changed[place] = words[column.cat.codes.to_numpy()]
        elif kind.kind not in "biuf":
            changed[place] = [harmless(cell) for cell in column]
    names = [harmless(name) for name in frame.columns]
    if not changed and names == list(frame.columns):
        return frame
    safe = frame.copy(deep=False)
    for place, cells in changed.items():
        safe.isetitem(place, cells)
    safe.columns = names
    return safe
