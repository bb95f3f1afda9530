"""Rows to codes: one small unsigned column per variable, each value replaced by the position of its level.

Encoding compares the rows with the declared domain. A value outside it becomes what the domain declares, or the whole
table is refused: a row is counted in every family or in none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.privacy.arrays import Unsigned
from dpgraph.privacy.scope import Condition, RowCap, RowGroup
from dpgraph.statistics.rows.arrow import read_columns
from dpgraph.statistics.rows.batches import Batch
from dpgraph.statistics.rows.levels import DAMAGED, NULL, WRONG_TYPE, code_dtype, is_string, narrow_codes
from dpgraph.structure.conversion import converted
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

#: The advice of a refusal that a value caused.
STRICT = "The refusal reveals that; strict=True accepts only declarations under which no row is refused"

#: What to do about dates that are written out where bins of numbers are declared.
OF_DATES = ", or of dates their year, pd.to_datetime(column).dt.year"

#: Levels, in lower case, that are booleans written out.
BOOLEANS = {"false", "true"}


@dataclass(frozen=True, eq=False)
class Codes:
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
            names the column and the declared levels, never the value. That there is one is revealed, unless the
            domain is strict.

    >>> import pandas as pd
    >>> encode(pd.DataFrame({"sex": ["F", "M"]}), Domain.of({"sex": ["F", "M"]}))
    Codes(1 variables, sensitive)
    """
    if isinstance(rows, Codes):
        return _restricted(rows, domain)
    columns = read_columns(rows, domain, lambda batch, text: list(encode_batch(batch, domain, text).values()))
    return Codes(domain, FrozenMap(zip(domain.names, columns, strict=True)))


def encode_batch(batch: Batch, domain: Domain, is_text: bool = False) -> dict[str, Unsigned]:
    """Encodes the variables of a domain in one batch of Arrow columns."""
    return {name: encode_column(batch[name], domain[name], name, is_text, domain.strict) for name in domain.names}


def group_of(where: Mapping[str, Level], domain: Domain, advice: str) -> RowGroup:
    """The rows in which each variable has the level given; ``advice`` ends the refusal of an undeclared variable."""
    if not isinstance(where, Mapping) or not where:
        raise DomainError(f"where must be variables with a level each, such as {{'region': 'north'}}; got {where!r}")
    return RowGroup(tuple(_condition(name, level, domain, advice) for name, level in where.items()))


def _condition(name: str, level: Level, domain: Domain, advice: str) -> Condition:
    if name not in domain:
        raise DomainError(f"where names {name!r}, which is not declared; {advice}")
    return Condition(name, domain.levels(name)[domain.code(name, level)], domain[name])


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


def _restricted(codes: Codes, domain: Domain) -> Codes:
    """The columns of a domain from codes made for another, whose declarations must be the same."""
    for name in domain.names:
        if name not in codes.domain or codes.domain[name] != domain[name]:
            raise DomainError(f"the codes were made with another declaration of {name!r}; encode the rows again")
    return Codes(domain, FrozenMap((name, codes.columns[name]) for name in domain.names), codes.cap)


def encode_column(
    array: pa.Array, variable: Variable, name: str, is_text: bool = False, strict: bool = False
) -> Unsigned:
    """Encodes one Arrow column; the codes may share its memory."""
    problem = f"column {name!r} cannot be read by its declaration"
    codes, worst = converted(lambda: narrow_codes(array, variable, is_text, strict), problem, quiet=False)
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
    """What to do about a column whose type is not that of its declaration; both are public."""
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
    if numeric and wanted == "boolean":
        return "; make it booleans, astype(bool), or declare the levels 0, 1, which SQLite makes of booleans"
    if numeric and isinstance(variable, Categories) and {str(level).lower() for level in variable.levels} <= BOOLEANS:
        return (
            "; if its 0 and 1 are false and true, as of SQLite, declare the levels 0, 1, or make it booleans, "
            "astype(bool), and declare the levels False, True"
        )
    if pa.types.is_boolean(kind) and wanted == "text":
        return "; declare the levels False, True, which are false, true in TOML"
    if is_string(kind) and wanted == "boolean":
        return "; make it booleans, column == 'True', or declare the levels as text"
    if is_string(kind) and wanted == "number":
        binned = (
            f"{OF_DATES}; or declare its words" if isinstance(variable, Bins) else ", or declare the levels as text"
        )
        return f"; make it numbers, pd.to_numeric{binned}"
    if numeric and any(isinstance(one, str) and re.fullmatch(r"0\d+", one) for one in variable.levels):
        return "; levels have leading zeros, which numbers lose: read it as text, pd.read_csv(..., dtype={column: str})"
    if numeric and wanted == "text":
        return (
            "; make it text, astype(str), if its numbers are written as the levels are (1.0 is no '1'), or declare the "
            "levels as what it holds"
        )
    if wanted == "text":
        return "; make it text, astype(str), or declare the levels as what it holds"
    return ""
