"""Rows to codes: one small unsigned column per variable, each value replaced by the position of its level.

Encoding is where the declared domain meets the rows. A value outside it does what the domain declares, or the whole
table is refused: a row is counted in every family or in none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute

from dpgraph.privacy.records import RowGroup
from dpgraph.statistics.arrow import batches
from dpgraph.structure.domain import Bins, Categories, Domain, DomainError, Variable, show_levels
from dpgraph.structure.frozen import FrozenMap

pc: Any = pyarrow.compute  # its functions are made when it is imported, out of a type checker's sight

Unsigned = npt.NDArray[np.unsignedinteger[Any]]

#: Codes of what is not a level, before the domain's declared action.
UNKNOWN, NULL, WRONG_TYPE = -1, -2, -3

#: Words that mean a null in a CSV column of numbers or booleans, in any case; in text only the empty field does.
NULL_WORDS = ("", "na", "n/a", "nan", "null", "none")


@dataclass(frozen=True, eq=False)
class Codes:
    """Encoded rows: sensitive, like the rows. It shows no numbers, is not pickled and has no saver."""

    domain: Domain
    columns: FrozenMap[str, Unsigned]

    @classmethod
    def empty(cls, domain: Domain) -> Codes:
        """The codes of no rows."""
        return cls(domain, FrozenMap((name, np.zeros(0, code_dtype(size))) for name, size in domain.sizes.items()))

    @property
    def sensitive_rows(self) -> int:
        """The exact number of rows, sensitive unless the neighbour relation makes it public."""
        return len(self.columns[self.domain.names[0]])

    def __repr__(self) -> str:
        return f"Codes({len(self.domain.names)} variables, sensitive)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("codes are as sensitive as the rows and are not pickled")


def encode(rows: Any, domain: Domain) -> Codes:
    """Encodes rows by a declared domain.

    Args:
        rows: A pandas, polars or Arrow table, anything with ``__arrow_c_stream__``, or a CSV or Parquet path.
        domain: The declared variables; other columns are not read.

    Raises:
        DomainError: For a missing column, a wrong type, or a value or null without a declared action. The message
            names the column and the declared levels, never the value.

    >>> import pandas as pd
    >>> encode(pd.DataFrame({"sex": ["F", "M"]}), Domain.of({"sex": ["F", "M"]}))
    Codes(1 variables, sensitive)
    """
    parts = list(encoded_batches(rows, domain))
    if not parts:
        return Codes.empty(domain)
    if len(parts) == 1:
        return parts[0]
    return Codes(domain, FrozenMap((name, np.concatenate([p.columns[name] for p in parts])) for name in domain.names))


def encoded_batches(rows: Any, domain: Domain) -> Iterator[Codes]:
    """Encodes rows batch by batch."""
    if isinstance(rows, Codes):
        yield _restricted(rows, domain)
        return
    for batch, is_text in batches(rows, domain):
        columns = {name: encode_column(array, domain[name], name, is_text) for name, array in batch.items()}
        yield Codes(domain, FrozenMap(columns))


def select(codes: Codes, group: RowGroup) -> Codes:
    """The encoded rows of one declared group."""
    wanted = codes.columns[group.by] == codes.domain.code(group.by, group.level)
    return Codes(codes.domain, FrozenMap((name, column[wanted]) for name, column in codes.columns.items()))


def _restricted(codes: Codes, domain: Domain) -> Codes:
    """Codes made for another domain serve this one if they hold its variables, declared alike."""
    for name in domain.names:
        if name not in codes.domain or codes.domain[name] != domain[name]:
            raise DomainError(f"the codes were made with another declaration of {name!r}; encode the rows again")
    return Codes(domain, FrozenMap((name, codes.columns[name]) for name in domain.names))


def encode_column(array: pa.Array, variable: Variable, name: str, is_text: bool = False) -> Unsigned:
    """Encodes one Arrow column.

    Raises:
        DomainError: As ``encode``.
    """
    if pa.types.is_dictionary(array.type):
        values = level_codes(array.dictionary, variable, is_text)
        indices = array.indices
        code = np.full(len(array), NULL)
        valid = pc.is_valid(indices).to_numpy(zero_copy_only=False)
        code[valid] = values[indices.drop_null().to_numpy(zero_copy_only=False)]
    else:
        code = level_codes(array, variable, is_text)
    return _resolve(code, variable, name, array.type)


def level_codes(array: pa.Array, variable: Variable, is_text: bool = False) -> npt.NDArray[np.int64]:
    """The position of each value's level, or UNKNOWN, NULL or WRONG_TYPE."""
    if is_text:
        return _text_codes(array, variable)
    if len(array) == array.null_count:
        return np.full(len(array), NULL)
    if isinstance(variable, Bins):
        if _is_string(array.type):
            return _matched(array.cast(pa.large_string()), variable.levels, pa.large_string())
        return _bin_codes(array, variable)
    return _category_codes(array, variable)


def _category_codes(array: pa.Array, variable: Categories) -> npt.NDArray[np.int64]:
    """Levels by equality; numbers compare by value, whatever their width."""
    if variable.kind == "text" and _is_string(array.type):
        return _matched(array.cast(pa.large_string()), variable.levels, pa.large_string())
    if variable.kind == "boolean" and pa.types.is_boolean(array.type):
        return _matched(array, variable.levels, pa.bool_())
    if variable.kind == "number" and _is_number(array.type):
        numbers = pc.add(array.cast(pa.float64(), safe=False), 0.0)  # Arrow tells -0.0 from 0.0; their sum is 0.0
        code = _matched(numbers, [float(level) + 0.0 for level in variable.levels], pa.float64())
        code[np.isnan(_floats(numbers))] = NULL
        return code
    return np.full(len(array), WRONG_TYPE)


def _bin_codes(array: pa.Array, variable: Bins) -> npt.NDArray[np.int64]:
    """Bins by bisection; values outside the edges fall in the end bins, NaN is null."""
    if not _is_number(array.type):
        return np.full(len(array), WRONG_TYPE)
    values = _floats(array.cast(pa.float64(), safe=False))
    code = np.searchsorted(np.array(variable.edges[1:-1], dtype=float), values, side="right").astype(np.int64)
    code[np.isnan(values)] = NULL
    return code


def _text_codes(array: pa.Array, variable: Variable) -> npt.NDArray[np.int64]:
    """Codes of a CSV column: words match text levels, and are read as numbers or booleans where those are declared."""
    encoded = array.dictionary_encode()
    words: list[str] = encoded.dictionary.to_pylist()
    codes = np.array([_word_code(word, variable) for word in words], dtype=np.int64)
    indices = encoded.indices
    code = np.full(len(array), NULL)
    code[pc.is_valid(indices).to_numpy(zero_copy_only=False)] = codes[
        indices.drop_null().to_numpy(zero_copy_only=False)
    ]
    if isinstance(variable, Categories) and "" in variable.levels:
        code[code == NULL] = variable.levels.index("")
    return code


def _word_code(word: str, variable: Variable) -> int:
    """The code of one word of a CSV file."""
    if isinstance(variable, Bins) and word in variable.levels:
        return variable.levels.index(word)
    if isinstance(variable, Categories) and variable.kind == "text":
        value: object = word
    elif word.strip().lower() in NULL_WORDS:
        return NULL
    elif isinstance(variable, Categories) and variable.kind == "boolean":
        value = {"true": True, "false": False}.get(word.strip().lower(), word)
    else:
        try:
            value = float(word)
        except ValueError:
            return UNKNOWN if isinstance(variable, Categories) and variable.other is not None else WRONG_TYPE
        if value != value:
            return NULL
    position = variable.code(value)
    return UNKNOWN if position is None else position


def _resolve(code: npt.NDArray[np.int64], variable: Variable, name: str, kind: pa.DataType) -> Unsigned:
    """Applies the declared actions and narrows, or refuses the column."""
    if isinstance(variable, Categories):
        actions = {UNKNOWN: variable.other, NULL: variable.missing}
        for found, level in actions.items():
            if level is not None:
                code[code == found] = variable.levels.index(level)
    elif variable.missing:
        code[code == NULL] = variable.size - 1
    if len(code) and code.min() < 0:
        raise DomainError(_problem(int(code.min()), variable, name, kind))
    return code.astype(code_dtype(variable.size))


def _problem(found: int, variable: Variable, name: str, kind: pa.DataType) -> str:
    """What the worst thing in a column was, without saying which value or where."""
    if isinstance(variable, Bins):
        wanted = f"bins from {variable.edges[0]:g} to {variable.edges[-1]:g}"
        remedy = "missing=True"
    else:
        wanted = f"the levels {show_levels(variable.levels)}"
        remedy = "missing=... one of the levels"
    if found == WRONG_TYPE:
        bare = re.split(r"\W", str(kind))[0]  # without its parameters: the fields of a struct are what rows hold
        return f"column {name!r} is of type {bare}, which does not fit its declaration: {wanted}"
    if found == NULL:
        return f"column {name!r} holds nulls or NaN; drop those rows yourself, or declare {remedy} ({wanted})"
    return f"column {name!r} holds values outside {wanted}; declare them, or other=... one of the levels"


def _matched(array: pa.Array, levels: Any, kind: pa.DataType) -> npt.NDArray[np.int64]:
    """The position of each value in the list of levels."""
    found = pc.index_in(array, value_set=pa.array(list(levels), type=kind))
    code = found.fill_null(UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
    code[pc.is_null(array).to_numpy(zero_copy_only=False)] = NULL
    return code


def _floats(array: pa.Array) -> npt.NDArray[np.float64]:
    """Doubles, with null as NaN."""
    return array.to_numpy(zero_copy_only=False).astype(np.float64)


def _is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def _is_string(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def code_dtype(levels: int) -> type[np.unsignedinteger[Any]]:
    """The narrowest unsigned type that numbers the levels."""
    return next(kind for kind in (np.uint8, np.uint16, np.uint32) if levels <= np.iinfo(kind).max + 1)
