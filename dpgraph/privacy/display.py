"""Values in words and tables: names come from files, and a terminal obeys control characters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame
else:
    DataFrame = Any  # pandas is loaded when the first table is made

#: The widest line of a table on a terminal.
WIDTH = 100
#: The least widths that a column of words is cut to: the first, by which rows are known, and the others.
LEAST_FIRST, LEAST = 32, 12
#: The most rows that a notebook shows of a value.
MOST_ROWS = 20
#: A table as a mapping from columns to values for each row.
Rows = Sequence[Mapping[Any, Any]]


def data_frame(rows: Any, columns: Any = None, index: Any = None) -> DataFrame:
    """A table; pandas is loaded when the first one is made."""
    import pandas as pd

    return pd.DataFrame(rows, columns=columns, index=index)


def escaped(text: Any, keep: str = "") -> str:
    r"""Text with every character that does not print as itself as its escape: controls, line ends, bidirectional marks.

    >>> escaped("a\x1b[2Jb\n\u202ec é 'd'")
    "a\\x1b[2Jb\\n\\u202ec é 'd'"
    """
    found = str(text)
    if found.isprintable():
        return found
    return "".join(one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in found)


def short(value: Any, most: int = 60) -> str:
    """A value of any kind in one line of so many characters at most.

    >>> short(list(range(100)), 20)
    '[0, 1, 2, 3, 4, 5...'
    """
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python prints no number of so many digits
        text = f"a very long {type(value).__name__}"
    return escaped(text if len(text) <= most else f"{text[: most - 3]}...")


def counted(number: int, thing: str) -> str:
    """A number of things in words."""
    many = f"{thing[:-1]}ies" if thing.endswith("ry") else f"{thing}s"
    return f"{number:,} {thing if number == 1 else many}"


def rows_in_words(n: int | None) -> str:
    """A number of rows where it is public."""
    return "n private" if n is None else f"n = {n}"


def summary(kind: str, *parts: Any) -> str:
    """A value in one line: its class and its parts; None parts are left out."""
    return f"{kind}({'; '.join(escaped(part) for part in parts if part is not None)})"


def cell(value: Any) -> str:
    """One value of a table: numbers to three significant digits, "-" where none applies."""
    if not isinstance(value, float):
        return escaped(value)
    if math.isnan(value):
        return "-"
    return f"{value:.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def plain(rows: Rows, width: int = WIDTH) -> str:
    """Rows as a plain table of three significant digits, numbers to the right, lines at most so wide.

    Words are cut, "..." at their end, the widest column first; where that is not enough the columns go on below,
    after the first one again.

    >>> print(plain([{"arc": "a to b", "cost": 1.23456}, {"arc": "b", "cost": 12345.6}]))
    arc      cost
    a to b   1.23
    b       12346
    """
    if not rows:
        return "none"
    words = [all(isinstance(row[name], str) for row in rows) for name in rows[0]]
    return aligned([escaped(name) for name in rows[0]], [list(map(cell, row.values())) for row in rows], words, width)


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], words: Sequence[bool], width: int = WIDTH) -> str:
    """Lines of columns, those of words to the left and the others to the right; see ``plain`` for their width."""
    lines = [header, *rows]
    wanted = [max(map(len, column)) for column in zip(*lines, strict=True)]
    widths = _narrowed(wanted, [len(name) for name in header], words, width)

    def line(cells: Sequence[str], chosen: Iterable[int]) -> str:
        texts = ((cells[i], widths[i], words[i]) for i in chosen)
        fitted = ((text if len(text) <= w else f"{text[: w - 3]}...", w, left) for text, w, left in texts)
        return "  ".join(text.ljust(w) if left else text.rjust(w) for text, w, left in fitted).rstrip()

    return "\n\n".join("\n".join(line(cells, chosen) for cells in lines) for chosen in _folded(widths, width))


def _narrowed(wanted: Sequence[int], headers: Sequence[int], words: Sequence[bool], width: int) -> list[int]:
    """The widths of columns: columns of words have a common limit, the highest under which the lines fit."""
    widths = list(wanted)
    for limit in range(width, LEAST - 1, -1):
        if sum(widths) + 2 * (len(widths) - 1) <= width:
            break
        for i, own in enumerate(wanted):
            if words[i]:
                widths[i] = min(own, max(limit, headers[i], LEAST_FIRST if i == 0 else LEAST))
    return widths


def _folded(widths: Sequence[int], width: int) -> list[list[int]]:
    """The columns of each block of lines; columns without a place go below, after the first one again."""
    blocks = [[0]]
    for i in range(1, len(widths)):
        if len(blocks[-1]) > 1 and sum(widths[j] + 2 for j in blocks[-1]) + widths[i] > width:
            blocks.append([0])
        blocks[-1].append(i)
    return blocks


def as_html(title: Any, rows: Rows = (), notes: Sequence[Any] = (), total: int | None = None) -> str:
    """A value for a notebook: a line, a table of its first rows, and notes; whatever is shown is escaped.

    >>> as_html("<b>", [{"x": 0.12345}])
    '<p>&lt;b&gt;</p><table><thead><tr><th>x</th></tr></thead><tbody><tr><td>0.123</td></tr></tbody></table>'
    """
    from html import escape

    def line(tag: str, cells: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(one)}</{tag}>" for one in cells) + "</tr>"

    text = f"<p>{escape(escaped(title))}</p>"
    if rows:
        body = "".join(line("td", map(cell, row.values())) for row in rows[:MOST_ROWS])
        text += f"<table><thead>{line('th', map(escaped, rows[0]))}</thead><tbody>{body}</tbody></table>"
    left = (len(rows) if total is None else total) - MOST_ROWS
    more = [f"and {counted(left, 'more row')}"] if left > 0 else []
    return text + "".join(f"<p>{escape(escaped(note))}</p>" for note in [*more, *notes])
