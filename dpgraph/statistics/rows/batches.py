"""Batches of rows: the declared columns of a table and no others; untyped cells are converted one by one.

Under a declaration by which no row may refuse the table a cell of the declared kind keeps its value, text is read as a
word of a CSV file where numbers or booleans are declared, any other becomes ``other`` or null. No method of an object
in a cell is called: its class is checked, and the methods of the built-in class are used.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.structure.conversion import array_of
from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, DomainWarning, Level, Variable

#: The declared columns by name, of one length.
Batch = dict[str, pa.Array]


class Sensitive:
    """As sensitive as the rows: no numbers in its ``repr``, no pickling, no saver; ``release`` is the way out."""

    def __repr__(self) -> str:
        public: Any = getattr(self, "domain", None) or getattr(self, "description", None)
        return f"{type(self).__name__}({len(getattr(public, 'domain', public).names)} variables, sensitive)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} are sensitive and are not pickled; release them")


@dataclass(frozen=True)
class Columns:
    """Declared columns that are not a domain: with a person's column, or those of a regression."""

    variables: Mapping[str, Any]
    strict: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in order."""
        return tuple(self.variables)


#: A declaration of the columns to read; where it is strict no row may refuse the table.
Declared = Domain | Columns
#: Words of a CSV file that mean a null unless they are declared levels, as ``pandas.read_csv`` reads them.
TEXT_NULLS = frozenset(
    ("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A", "NA")
) | {"NULL", "NaN", "None", "n/a", "nan", "null"}
#: The same in lower case: in a column of numbers or booleans they are nulls in any case.
NULL_WORDS = tuple(sorted({word.lower() for word in TEXT_NULLS}))
#: A number as text spells it.
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII)
#: Levels, in lower case, that are booleans written out.
BOOLEANS = {"false", "true"}
#: How many values and rows one batch may hold, so that memory does not grow with the table.
BATCH_VALUES, BATCH_ROWS = 8_000_000, 1 << 17


def batch_rows(domain: Declared) -> int:
    """The rows of one batch."""
    return max(1, min(BATCH_ROWS, BATCH_VALUES // len(domain.names)))


def batch_length(batch: Mapping[str, pa.Array]) -> int:
    """How many rows a batch has; sensitive."""
    return len(next(iter(batch.values())))


def slices(batch: Batch, rows: int | None) -> Iterator[Batch]:
    """A batch in parts of at most so many rows, without a copy; None for one part."""
    many = batch_length(batch)
    for start in range(0, max(1, many), rows or max(1, many)):
        yield batch if rows is None or many <= rows else {name: a.slice(start, rows) for name, a in batch.items()}


def select_columns(batch: pa.RecordBatch, domain: Declared, where: str = "the table") -> Batch:
    """The declared columns of one Arrow batch."""
    check_columns(batch.schema.names, domain, where)
    return {name: batch.column(batch.schema.get_field_index(name)) for name in domain.names}


def check_columns(names: Iterable[Any], domain: Declared, where: str) -> None:
    """Refuses a table in which a declared column is missing or repeated."""
    held = list(names)
    for name in domain.names:
        if held.count(name) != 1:
            problem = "is not in" if name not in held else "is there more than once in"
            raise DomainError(f"column {name!r} {problem} {where}; each of these once: {', '.join(domain.names)}")


#: How the rows of each library are brought into memory.
COLLECTED = {"dask": "table.compute()", "pyspark": "table.toPandas()"}


def library_of(rows: Any) -> str:
    """The library of an object's class."""
    return type(rows).__module__.partition(".")[0]


def refuse_clusters(*parts: Any) -> None:
    """Refuses tables and columns of Spark and Dask where a step reads rows one by one, in memory."""
    for part in parts:
        if (library := library_of(part)) in COLLECTED:
            raise DomainError(
                f"the rows of a {library} table stay on its cluster: count takes them, as fit does, and this does not; "
                f"collect them, or a sample of them, first: {COLLECTED[library]}"
            )


def value_type(array: pa.Array) -> pa.DataType:
    """The type of a column's values, in a dictionary or not."""
    kind: Any = array.type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_string(kind: pa.DataType) -> bool:
    """True if a column's type is text, in any of Arrow's layouts."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def is_number(kind: pa.DataType) -> bool:
    """True for whole numbers and floats."""
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def spelled(variable: Variable, boolean: bool = False) -> dict[float, int]:
    """The position of each level by the number that it alone spells; ``boolean``: of values false or true."""
    said = [number_said(level) for level in variable.levels] if isinstance(variable, Categories) else []
    many = Counter(said)
    found = {number: at for at, number in enumerate(said) if number is not None and many[number] == 1}
    return {} if boolean and many.keys() - {None, 0.0, 1.0} else found


def number_said(value: Level) -> float | None:
    """The number that a level or a word spells, exactly; None if it spells none."""
    if isinstance(value, str):
        word = value.strip().lower()
        if word in BOOLEANS:
            return float(word == "true")
        if not NUMBER.fullmatch(word):
            return None
    number = float(value)
    return number if abs(number) < 2**53 else None


def converted(batch: Batch, declared: Declared) -> list[str]:
    """The columns of another type than their levels, which are found by spelling: by declaration and types alone."""
    found: list[str] = []
    for name, variable in declared.variables.items():
        kind = value_type(batch[name])
        boolean = pa.types.is_boolean(kind)
        own = "text" if is_string(kind) else "boolean" if boolean else "number" if is_number(kind) else ""
        if not isinstance(variable, Categories) or own in ("", variable.kind):
            continue
        if own == "text" or spelled(variable, boolean):
            found.append(f"{name!r} ({own}, declared as {variable.kind})")
    return found


def warn_of_types(found: list[str]) -> None:
    """Warns of columns of another type than their levels, once for each reading of a table that was not refused."""
    if found:
        warnings.warn(
            f"values count as the levels that they spell (1 is '1', true is 'True') in column {', '.join(found[:5])}"
            f"{', ...' if len(found) > 5 else ''}; declare levels of the column's own type to hear no more of it",
            DomainWarning,
            stacklevel=2,
        )


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
