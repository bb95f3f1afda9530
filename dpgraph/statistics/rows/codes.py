"""Rows to codes: one small unsigned column per variable, each value replaced by the position of its level.

A value outside the declared domain becomes what the domain declares, or the whole table is refused: a row is counted in
every family or in none. A column is encoded in blocks, so that no wide copy is held.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from dpgraph.privacy.checks import Unsigned, near
from dpgraph.privacy.scope import Condition, RowCap, RowGroup
from dpgraph.statistics.rows.arrow import read_columns
from dpgraph.statistics.rows.batches import (
    BOOLEANS,
    NULL_WORDS,
    TEXT_NULLS,
    Batch,
    Sensitive,
    is_number,
    is_string,
    number_said,
    spelled,
    value_type,
)
from dpgraph.structure.conversion import PublicWords
from dpgraph.structure.domain import (
    NUMBERS_OF_DATES,
    Bins,
    Categories,
    Domain,
    DomainError,
    Level,
    Variable,
    show_levels,
)
from dpgraph.structure.frozen import FrozenMap

pc: Any = pyarrow.compute  # its functions are made when it is imported, out of a type checker's sight
Signed = npt.NDArray[np.int32]
#: Codes of values that are not levels, before the domain's declared action; a damaged dictionary has no value.
UNKNOWN, NULL, WRONG_TYPE, DAMAGED = -1, -2, -3, -4
#: Rows encoded at once, and the widest range of whole-number levels that are found by a table.
BLOCK, SPAN = 1 << 16, 1 << 16
#: The most levels or edges that are compared with a block one by one; fewer than 256.
FEW = 32
#: The advice of a refusal that a value caused.
STRICT = "The refusal reveals that; strict=True accepts only declarations under which no row is refused"
#: What to do about dates that are written out where bins of numbers are declared.
OF_DATES = ", or of dates their year, pd.to_datetime(column).dt.year"


@dataclass(frozen=True, eq=False, repr=False)
class Codes(Sensitive):
    """Encoded rows: sensitive, like the rows. It shows no numbers, is not pickled and has no saver.

    ``cap`` says how many of a person's rows were kept, where ``cap_rows`` chose them.
    """

    domain: Domain
    columns: FrozenMap[str, Unsigned]
    cap: RowCap | None = None

    @classmethod
    def empty(cls, domain: Domain) -> Codes:
        """The codes of no rows."""
        return cls(domain, FrozenMap((name, np.zeros(0, code_dtype(size))) for name, size in domain.sizes.items()))

    @property
    def sensitive_rows(self) -> int:
        """The exact number of rows, sensitive unless the neighbour relation makes it public."""
        return len(self.columns[self.domain.names[0]])


def encode(rows: Any, domain: Domain, *, unseen: bool = False) -> Codes:
    """Encodes rows by a declared domain.

    Args:
        rows: A pandas, polars or Arrow table, anything with ``__arrow_c_stream__``, or a CSV or Parquet path.
        domain: The declared variables; other columns are not read.
        unseen: True to give a null without a declared level the code after the last level, to predict from the rest.

    Raises:
        DomainError: For a missing column, a wrong type, or a value or null without a declared action. The message
            names the column and the declared levels, never the value. That there is one is revealed, unless the
            domain is strict.

    >>> import pandas as pd
    >>> encode(pd.DataFrame({"sex": ["F", "M"]}), Domain.of({"sex": ["F", "M"]}))
    Codes(1 variables, sensitive)
    """
    if isinstance(rows, Codes):
        check_declarations(rows, domain)
        return Codes(domain, FrozenMap((name, rows.columns[name]) for name in domain.names), rows.cap)
    columns = read_columns(rows, domain, lambda batch, text: list(encode_batch(batch, domain, text, unseen).values()))
    return Codes(domain, FrozenMap(zip(domain.names, columns, strict=True)))


def encode_batch(batch: Batch, domain: Domain, is_text: bool = False, unseen: bool = False) -> dict[str, Unsigned]:
    """Encodes the variables of a domain in one batch of Arrow columns."""
    settings = is_text, domain.strict, unseen
    return {name: encode_column(batch[name], domain[name], name, *settings) for name in domain.names}


def group_of(where: Mapping[str, Level], domain: Domain, advice: str) -> RowGroup:
    """The rows in which each variable has the level given; ``advice`` ends the refusal of an undeclared variable."""
    if not isinstance(where, Mapping) or not where:
        raise DomainError(f"where must be variables with a level each, such as {{'region': 'north'}}; got {where!r}")
    for name in where:
        if name not in domain:
            raise DomainError(f"where names {name!r}, which is not declared{near(name, domain.names)}; {advice}")
    levels = {name: domain.levels(name)[domain.code(name, level)] for name, level in where.items()}
    return RowGroup(tuple(Condition(name, level, domain[name]) for name, level in levels.items()))


def members(columns: Mapping[str, npt.NDArray[Any]], group: RowGroup) -> npt.NDArray[np.bool_]:
    """Flags of the rows of a group, by the codes of its variables. Sensitive."""
    wanted: list[Any] = []
    for condition in group.conditions:
        variable: Any = condition.declaration
        wanted.append(columns[condition.by] == variable.code(condition.level))
    return np.logical_and.reduce(wanted)


def select(codes: Codes, group: RowGroup) -> Codes:
    """The encoded rows of one declared group."""
    wanted = members(codes.columns, group)
    return replace(codes, columns=FrozenMap((name, column[wanted]) for name, column in codes.columns.items()))


def check_declarations(codes: Codes, domain: Domain) -> None:
    """Refuses codes that were made by other declarations of a domain's variables."""
    for name in domain.names:
        if name not in codes.domain or codes.domain[name] != domain[name]:
            raise DomainError(f"the codes were made with another declaration of {name!r}; encode the rows again")


def encode_column(
    array: pa.Array, variable: Variable, name: str, is_text: bool = False, strict: bool = False, unseen: bool = False
) -> Unsigned:
    """Encodes one Arrow column; the codes may share its memory."""
    with PublicWords(f"column {name!r} cannot be read by its declaration", quiet=False):
        codes, worst = narrow_codes(array, variable, is_text, strict, unseen)
    if worst < 0:
        raise DomainError(_problem(worst, variable, name, array.type))
    return codes


def _problem(found: int, variable: Variable, name: str, kind: pa.DataType) -> str:
    """A message about the worst problem of a column, without the value or its place."""
    if isinstance(variable, Bins):
        wanted = f"bins from {variable.edges[0]:g} to {variable.edges[-1]:g}"
        remedy = "Bins([...], missing=True), a level of its own"
    else:
        wanted = f"the levels {show_levels(variable.levels)}"
        remedy = "Categories([...], missing=...), one of the levels"
    if found == WRONG_TYPE:
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        # without its parameters: the fields of a struct are contents of rows
        bare = re.split(r"\W", str(plain))[0].removeprefix("large_")
        remedy = _type_remedy(plain, variable)
        return f"column {name!r} is of type {bare}, which does not fit its declaration: {wanted}{remedy}"
    if found == DAMAGED:
        return f"column {name!r} is a damaged dictionary: not every row has one of its words"
    if found == NULL:
        return (
            f"column {name!r} holds nulls or NaN; declare {remedy} ({wanted}). Without these rows n is private: leave "
            f"them out under an add-remove unit only. {STRICT}"
        )
    remedy = "declare them, or Categories([...], other=...), one of the levels; to predict, put a declared level there"
    if isinstance(variable, Bins) and is_string(kind.value_type if pa.types.is_dictionary(kind) else kind):
        remedy = f"the column is text, whose words must be the bins' own: make it numbers, pd.to_numeric{OF_DATES}"
    if isinstance(variable, Categories) and variable.kind == "number" and variable.size == 2:
        remedy += "; a list holds levels, and bounds of a regression are a pair, (low, high), or bounds = [...] in TOML"
    return f"column {name!r} holds values outside {wanted}; {remedy}. {STRICT}"


def _type_remedy(kind: pa.DataType, variable: Variable) -> str:
    """Advice for a column whose type differs from its declaration's; both are public."""
    wanted = variable.kind if isinstance(variable, Categories) else "number"
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if pa.types.is_duration(kind):
        return "; make it a number, such as the days, column.dt.days, and declare bins or levels of it"
    if isinstance(variable, Bins) and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return f"; make numbers of the dates, such as {NUMBERS_OF_DATES}, and bins of these"
    if pa.types.is_temporal(kind):
        return (
            "; make it a part of the date that has levels, such as the month, column.dt.strftime('%Y-%m'), or the "
            "year, and declare these"
        )
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return "; make it text, column.str.decode('utf-8')"
    if pa.types.is_decimal(kind) and wanted == "number":
        return "; make it numbers, astype(float)"
    if pa.types.is_boolean(kind) and wanted == "number":
        return "; make it numbers, astype(int), or declare the levels False, True"
    if pa.types.is_boolean(kind) and wanted == "text":
        return "; declare the levels False, True, which are false, true in TOML"
    if is_string(kind) and wanted == "number":
        binned = (
            f"{OF_DATES}; or declare its words" if isinstance(variable, Bins) else ", or declare the levels as text"
        )
        return f"; make it numbers, pd.to_numeric{binned}"
    if numeric and any(isinstance(one, str) and re.fullmatch(r"0\d+", one) for one in variable.levels):
        return "; levels have leading zeros, which numbers lose: read it as text, pd.read_csv(..., dtype={column: str})"
    if wanted == "text":
        return "; make it text, astype(str), or declare the levels as what it holds"
    return ""


def narrow_codes(
    array: pa.Array, variable: Variable, is_text: bool = False, strict: bool = False, unseen: bool = False
) -> tuple[Unsigned, int]:
    """One column's codes, and 0, or none and its lowest code without an action; ``is_text``: words without a type."""
    if is_text or (not _is_textual(variable) and is_string(value_type(array))):
        words = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        alike = spelled(variable)
        codes = [_word_code(word, variable, strict, alike) for word in text_words(words.dictionary)]
        empty = isinstance(variable, Categories) and "" in variable.levels
        null = variable.levels.index("") if empty else NULL
        return _dictionary_codes(words.indices, np.array(codes, np.int32), variable, null, strict, unseen)
    if pa.types.is_dictionary(array.type):
        return _dictionary_codes(array.indices, _word_codes(array.dictionary, variable), variable, NULL, strict, unseen)
    if pa.types.is_boolean(array.type):
        table = level_codes(pa.array([False, True]), variable)
        return _dictionary_codes(array.cast(pa.uint8()), table, variable, NULL, unseen=unseen)
    codes, worst = np.empty(len(array), code_dtype(variable.size + unseen)), 0
    coder = None if len(array) == array.null_count else _coder(array.type, variable)
    for start in range(0, len(array), BLOCK):
        part = array.slice(start, BLOCK)
        code = np.full(len(part), NULL, np.int32) if coder is None else coder(part)
        worst = min(worst, _apply_declared_actions(code, variable, unseen))
        codes[start : start + BLOCK] = code
    return (codes, 0) if worst == 0 else (codes[:0], worst)


def _word_codes(words: pa.Array, variable: Variable) -> Signed:
    plain = _is_textual(variable) and is_string(words.type)
    if plain and len(words) == variable.size <= FEW and words.equals(pa.array(variable.levels, words.type)):
        return np.arange(len(words), dtype=np.int32)  # ten times faster
    table = level_codes(words, variable).copy()
    table[pc.is_null(words).to_numpy(zero_copy_only=False)] = NULL  # whatever the type of the words
    return table


def level_codes(array: pa.Array, variable: Variable) -> Signed:
    """The position of each value's level, or UNKNOWN, NULL or WRONG_TYPE."""
    if len(array) == array.null_count:
        return np.full(len(array), NULL, np.int32)
    return _coder(array.type, variable)(array)


def code_dtype(levels: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest unsigned type that numbers the levels."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if levels <= np.iinfo(kind).max + 1)


def _apply_declared_actions(code: Signed, variable: Variable, unseen: bool) -> int:
    """Applies the declared actions in place; returns the lowest code that remains without one, or 0."""
    if len(code) == 0 or code.min() >= 0:
        return 0
    if isinstance(variable, Categories):
        for found, level in ((UNKNOWN, variable.other), (NULL, variable.missing)):
            if level is not None:
                code[code == found] = variable.levels.index(level)
    elif variable.missing:
        code[code == NULL] = variable.size - 1
    if unseen:
        code[code == NULL] = variable.size
    return min(0, int(code.min()))


def _dictionary_codes(
    indices: pa.Array, table: Signed, variable: Variable, null: int, strict: bool = False, unseen: bool = False
) -> tuple[Unsigned, int]:
    """The codes of a dictionary column from the codes of its words; ``null`` is the code of a null."""
    kind = code_dtype(variable.size + unseen)
    of_null = np.array([null], np.int32)
    if strict:
        indices = mended(indices, len(table))
    worst = _apply_declared_actions(of_null, variable, unseen) if indices.null_count else 0
    if _apply_declared_actions(table, variable, unseen) < 0:  # a word that no row has does not matter
        used = pc.unique(indices.drop_null()).to_numpy().astype(np.int64)
        inside = np.all((used >= 0) & (used < len(table)))
        worst = min(worst, int(table[used].min(initial=0))) if inside else DAMAGED
        table = np.maximum(table, 0)
    if worst < 0:
        return np.zeros(0, kind), worst
    if indices.null_count == 0 and np.array_equal(table, np.arange(len(table))):
        same = indices.to_numpy()
        whole = same.view(same.dtype.str.replace("i", "u"))  # a negative index becomes a large one
        return (whole.astype(kind, copy=False), 0) if whole.max(initial=0) < max(1, len(table)) else (same[:0], DAMAGED)
    try:
        taken = pc.take(pa.array(table.astype(kind)), indices)
    except pa.ArrowIndexError:
        return np.zeros(0, kind), DAMAGED
    if indices.null_count:
        taken = taken.fill_null(pa.scalar(int(of_null[0]), taken.type))
    return taken.to_numpy(), 0


def mended(indices: pa.Array, words: int) -> pa.Array:
    """The indices of a damaged dictionary, with a null for each that is out of range."""
    at = indices.fill_null(0).to_numpy().astype(np.int64)
    wrong = (at < 0) | (at >= words)
    if not wrong.any():
        return indices
    mask = wrong | pc.is_null(indices).to_numpy(zero_copy_only=False)
    return pa.array(np.where(wrong, 0, at), mask=mask)


def _coder(kind: pa.DataType, variable: Variable) -> Callable[[pa.Array], Signed]:
    if isinstance(variable, Bins):
        if is_string(kind):
            return _matcher(variable.levels, kind)
        return _numeric(_binner(variable)) if is_number(kind) else _wrong_type
    boolean = variable.kind == "boolean" and pa.types.is_boolean(kind)
    if boolean or (_is_textual(variable) and is_string(kind)):
        return _matcher(variable.levels, kind)
    if variable.kind == "number" and is_number(kind):
        return _numeric(_number_finder(variable, kind))
    if (is_number(kind) or pa.types.is_boolean(kind)) and (alike := spelled(variable, pa.types.is_boolean(kind))):
        return _by_spelling(alike, kind)
    return _wrong_type


def _by_spelling(alike: dict[float, int], kind: pa.DataType) -> Callable[[pa.Array], Signed]:
    coder = _numeric(_number_finder(Categories(alike), kind))
    positions = np.array([*alike.values()], np.int32)

    def coded(array: pa.Array) -> Signed:
        code = coder(array.cast(pa.uint8()) if pa.types.is_boolean(kind) else array)
        return np.where(code < 0, code, positions[np.maximum(code, 0)])

    return coded


def _wrong_type(array: pa.Array) -> Signed:
    return np.full(len(array), WRONG_TYPE, np.int32)


def _matcher(levels: Any, kind: pa.DataType) -> Callable[[pa.Array], Signed]:
    view = pa.types.is_string_view(kind)
    declared = pa.array(list(levels), type=pa.large_string() if view else kind)

    def matched(array: pa.Array) -> Signed:
        found = pc.index_in(array.cast(pa.large_string()) if view else array, value_set=declared)
        if found.null_count == 0:
            return found.to_numpy()
        code = found.fill_null(UNKNOWN).to_numpy().copy()
        if array.null_count:
            code[pc.is_null(array).to_numpy(zero_copy_only=False)] = NULL
        return code

    return matched


def _numeric(coder: Callable[[npt.NDArray[Any]], Signed]) -> Callable[[pa.Array], Signed]:
    """Codes of an Arrow column of numbers; null and NaN are NULL."""

    def coded(array: pa.Array) -> Signed:
        if pa.types.is_floating(array.type):
            values = array.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
            code, null = coder(values), np.isnan(values)
        else:
            code = coder((array.fill_null(0) if array.null_count else array).to_numpy())
            null = pc.is_null(array).to_numpy(zero_copy_only=False) if array.null_count else np.zeros(0, bool)
        if null.any():
            code[null] = NULL
        return code

    return coded


def _number_finder(variable: Categories, kind: pa.DataType) -> Callable[[npt.NDArray[Any]], Signed]:
    levels = np.array([float(level) for level in variable.levels])
    whole = {int(level): at for at, level in enumerate(levels) if level.is_integer()}
    if pa.types.is_unsigned_integer(kind):
        whole = {level: at for level, at in whole.items() if level >= 0}
    if pa.types.is_integer(kind) and (not whole or max(whole) - min(whole) < SPAN):
        return _whole_number_finder(whole)
    order = np.argsort(levels)
    ordered = levels[order]

    def found(values: npt.NDArray[Any]) -> Signed:
        values = values.astype(np.float64, copy=False)
        if len(levels) <= FEW:
            code = np.zeros(len(values), np.uint8)
            for at, level in enumerate(levels):
                code += (values == level).view(np.uint8) * np.uint8(at + 1)
            return code.astype(np.int32) + np.int32(UNKNOWN)
        place = np.minimum(np.searchsorted(ordered, values), len(ordered) - 1)
        return np.where(ordered[place] == values, order[place], UNKNOWN).astype(np.int32)

    return found


def _whole_number_finder(levels: dict[int, int]) -> Callable[[npt.NDArray[Any]], Signed]:
    """Finds integers among whole-number levels by a table; differences wrap, so no other integer is near."""
    least = min(levels, default=0)
    table = np.full(max(levels, default=0) - least + 2, UNKNOWN, np.int32)
    for level, at in levels.items():
        table[level - least] = at

    def found(values: npt.NDArray[Any]) -> Signed:
        place = (values.astype(np.int64) - np.int64(least)).view(np.uint64)
        return table[np.minimum(place, np.uint64(len(table) - 1))]

    return found


def _binner(variable: Bins) -> Callable[[npt.NDArray[Any]], Signed]:
    """Finds the bin of each number; values outside the edges fall in the end bins, or are as nulls."""
    edges = np.array(variable.edges[1:-1], dtype=float)

    def found(values: npt.NDArray[Any]) -> Signed:
        values = values.astype(np.float64, copy=False)
        if len(edges) > FEW:
            return np.searchsorted(edges, values, side="right").astype(np.int32)
        code = np.zeros(len(values), np.uint8)
        for edge in edges:
            code += values >= edge
        return code.astype(np.int32)

    def inside(values: npt.NDArray[Any]) -> Signed:
        reals = values.astype(np.float64, copy=False)
        within = (reals >= variable.edges[0]) & (reals <= variable.edges[-1])
        return np.where(within, found(values), np.int32(NULL))

    return inside if variable.outside == "missing" else found


def text_words(words: pa.Array) -> list[str | None]:
    """Words as text; bytes that are not UTF-8 become replacement characters."""
    found: list[bytes | None] = words.cast(pa.large_binary()).to_pylist()
    return [None if word is None else word.decode("utf-8", "replace") for word in found]


def _word_code(word: str | None, variable: Variable, strict: bool, alike: dict[float, int]) -> int:
    if word is None:
        return NULL
    if isinstance(variable, Bins) and word in variable.levels:
        return variable.levels.index(word)
    if _is_textual(variable):
        if word in TEXT_NULLS and variable.code(word) is None:
            return NULL
        value: object = word
    elif word.strip().lower() in NULL_WORDS:
        return NULL
    elif isinstance(variable, Categories) and variable.kind == "boolean":
        value = {"true": True, "false": False}.get(word.strip().lower(), word)
    else:
        try:
            value = float(word)
        except ValueError:
            if isinstance(variable, Categories) and (found := _alike(word, alike)) is not None:
                return found
            if isinstance(variable, Categories) and variable.other is not None:
                return UNKNOWN
            return NULL if strict else WRONG_TYPE
        if value != value:
            return NULL
    position = variable.code(value)
    if position is None:
        position = _alike(word, alike)
    return UNKNOWN if position is None else position


def _alike(word: str, alike: dict[float, int]) -> int | None:
    said = number_said(word) if alike else None
    wrong = word.strip().lower() in BOOLEANS and alike.keys() - {0.0, 1.0}
    return None if said is None or wrong else alike.get(said)


def _is_textual(variable: Variable) -> bool:
    return isinstance(variable, Categories) and variable.kind == "text"
