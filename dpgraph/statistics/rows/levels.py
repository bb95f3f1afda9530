"""Columns encoded as positions of levels, one narrow code per value, in blocks so that no wide copy is held.

Unknown values, nulls and wrong types have codes of their own until the declared actions replace them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from dpgraph.privacy.arrays import Unsigned
from dpgraph.statistics.rows.cells import NULL_WORDS
from dpgraph.structure.domain import Bins, Categories, Variable

pc: Any = pyarrow.compute  # its functions are made when it is imported, out of a type checker's sight

Signed = npt.NDArray[np.int32]

#: Codes of values that are not levels, before the domain's declared action; a damaged dictionary has no value.
UNKNOWN, NULL, WRONG_TYPE, DAMAGED = -1, -2, -3, -4

#: Rows encoded at once, and the widest range of whole-number levels that are found by a table.
BLOCK, SPAN = 1 << 16, 1 << 16
#: The most levels or edges that are compared with a block one by one; fewer than 256.
FEW = 32


def narrow_codes(
    array: pa.Array, variable: Variable, is_text: bool = False, strict: bool = False
) -> tuple[Unsigned, int]:
    """The codes of one column, which may share its memory, and 0; or no codes, and its lowest code without an action.

    ``is_text`` says that the column holds words without a type, as of a CSV file. ``strict`` refuses no value, but
    still a type that the declaration excludes: words are then read as numbers or booleans, other words as ``other`` or
    null.
    """
    if is_text or (strict and not _is_textual(variable) and is_string(value_type(array))):
        words = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        codes = [_word_code(word, variable, strict) for word in text_words(words.dictionary)]
        empty = isinstance(variable, Categories) and "" in variable.levels
        null = variable.levels.index("") if empty else NULL
        return _dictionary_codes(words.indices, np.array(codes, np.int32), variable, null, strict)
    if pa.types.is_dictionary(array.type):
        return _dictionary_codes(array.indices, _word_codes(array.dictionary, variable), variable, NULL, strict)
    if pa.types.is_boolean(array.type):
        return _dictionary_codes(array.cast(pa.uint8()), level_codes(pa.array([False, True]), variable), variable, NULL)
    codes, worst = np.empty(len(array), code_dtype(variable.size)), 0
    coder = None if len(array) == array.null_count else _coder(array.type, variable)
    for start in range(0, len(array), BLOCK):
        part = array.slice(start, BLOCK)
        code = np.full(len(part), NULL, np.int32) if coder is None else coder(part)
        worst = min(worst, _apply_declared_actions(code, variable))
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


def _apply_declared_actions(code: Signed, variable: Variable) -> int:
    """Applies the declared actions in place; returns the lowest code that remains without one, or 0."""
    if len(code) == 0 or code.min() >= 0:
        return 0
    if isinstance(variable, Categories):
        for found, level in ((UNKNOWN, variable.other), (NULL, variable.missing)):
            if level is not None:
                code[code == found] = variable.levels.index(level)
    elif variable.missing:
        code[code == NULL] = variable.size - 1
    return min(0, int(code.min()))


def _dictionary_codes(
    indices: pa.Array, table: Signed, variable: Variable, null: int, strict: bool = False
) -> tuple[Unsigned, int]:
    """The codes of a dictionary column from the codes of its words; ``null`` is the code of a null."""
    kind = code_dtype(variable.size)
    of_null = np.array([null], np.int32)
    if strict:
        indices = mended(indices, len(table))
    worst = _apply_declared_actions(of_null, variable) if indices.null_count else 0
    if _apply_declared_actions(table, variable) < 0:  # a word that no row has does not matter
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
    """A function that turns columns of one type into codes."""
    if isinstance(variable, Bins):
        if is_string(kind):
            return _matcher(variable.levels, kind)
        return _numeric(_binner(variable)) if _is_number(kind) else _wrong_type
    boolean = variable.kind == "boolean" and pa.types.is_boolean(kind)
    if boolean or (_is_textual(variable) and is_string(kind)):
        return _matcher(variable.levels, kind)
    if variable.kind == "number" and _is_number(kind):
        return _numeric(_number_finder(variable, kind))
    return _wrong_type


def _wrong_type(array: pa.Array) -> Signed:
    return np.full(len(array), WRONG_TYPE, np.int32)


def _matcher(levels: Any, kind: pa.DataType) -> Callable[[pa.Array], Signed]:
    """Finds each value among the levels by equality."""
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
    """Finds numbers among the levels by value, whatever their width."""
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
    """Finds the bin of each number; values outside the edges fall in the end bins."""
    edges = np.array(variable.edges[1:-1], dtype=float)

    def found(values: npt.NDArray[Any]) -> Signed:
        values = values.astype(np.float64, copy=False)
        if len(edges) > FEW:
            return np.searchsorted(edges, values, side="right").astype(np.int32)
        code = np.zeros(len(values), np.uint8)
        for edge in edges:
            code += values >= edge
        return code.astype(np.int32)

    return found


def text_words(words: pa.Array) -> list[str | None]:
    """Words as text; bytes that are not UTF-8 become replacement characters."""
    found: list[bytes | None] = words.cast(pa.large_binary()).to_pylist()
    return [None if word is None else word.decode("utf-8", "replace") for word in found]


def value_type(array: pa.Array) -> pa.DataType:
    """The type of a column's values, in a dictionary or not."""
    kind: Any = array.type
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _word_code(word: str | None, variable: Variable, strict: bool) -> int:
    if word is None:
        return NULL
    if isinstance(variable, Bins) and word in variable.levels:
        return variable.levels.index(word)
    if _is_textual(variable):
        value: object = word
    elif word.strip().lower() in NULL_WORDS:
        return NULL
    elif isinstance(variable, Categories) and variable.kind == "boolean":
        value = {"true": True, "false": False}.get(word.strip().lower(), word)
    else:
        try:
            value = float(word)
        except ValueError:
            if isinstance(variable, Categories) and variable.other is not None:
                return UNKNOWN
            return NULL if strict else WRONG_TYPE
        if value != value:
            return NULL
    position = variable.code(value)
    return UNKNOWN if position is None else position


def _is_textual(variable: Variable) -> bool:
    return isinstance(variable, Categories) and variable.kind == "text"


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def is_string(kind: pa.DataType) -> bool:
    """Whether a column's type is text, however it is held."""
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
