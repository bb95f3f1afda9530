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
import pyarrow as pa

from dpgraph.privacy.records import RowGroup
from dpgraph.statistics.arrow import batches
from dpgraph.statistics.batches import Batch
from dpgraph.statistics.levels import DAMAGED, NULL, WRONG_TYPE, Unsigned, code_dtype, narrow_codes
from dpgraph.structure.domain import Bins, Domain, DomainError, Variable, show_levels
from dpgraph.structure.frozen import FrozenMap


@dataclass(frozen=True, eq=False)
class Codes:
    """Encoded rows: sensitive, like the rows. It shows no numbers and is not pickled; see ``write_codes``."""

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
    return Codes(domain, FrozenMap((name, np.concatenate([p.columns[name] for p in parts])) for name in domain.names))


def encoded_batches(rows: Any, domain: Domain) -> Iterator[Codes]:
    """Encodes rows batch by batch."""
    if isinstance(rows, Codes):
        yield _restricted(rows, domain)
        return
    for batch, is_text in batches(rows, domain):
        yield encode_batch(batch, domain, is_text)


def encode_batch(batch: Batch, domain: Domain, is_text: bool = False) -> Codes:
    """Encodes one batch of Arrow columns.

    Raises:
        DomainError: As ``encode``.
    """
    columns = ((name, encode_column(array, domain[name], name, is_text)) for name, array in batch.items())
    return Codes(domain, FrozenMap(columns))


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
    """Encodes one Arrow column; the codes may share its memory.

    Raises:
        DomainError: As ``encode``.
    """
    codes, worst = narrow_codes(array, variable, is_text)
    if worst < 0:
        raise DomainError(_problem(worst, variable, name, array.type))
    return codes


def _problem(found: int, variable: Variable, name: str, kind: pa.DataType) -> str:
    """What the worst thing in a column was, without saying which value or where."""
    if isinstance(variable, Bins):
        wanted = f"bins from {variable.edges[0]:g} to {variable.edges[-1]:g}"
        remedy = "missing=True"
    else:
        wanted = f"the levels {show_levels(variable.levels)}"
        remedy = "missing=... one of the levels"
    if found == WRONG_TYPE:
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        bare = re.split(r"\W", str(plain))[0].removeprefix(
            "large_"
        )  # without its parameters: the fields of a struct are what rows hold
        return f"column {name!r} is of type {bare}, which does not fit its declaration: {wanted}"
    if found == DAMAGED:
        return f"column {name!r} is a damaged dictionary: not every row has one of its words"
    if found == NULL:
        return f"column {name!r} holds nulls or NaN; drop those rows yourself, or declare {remedy} ({wanted})"
    return f"column {name!r} holds values outside {wanted}; declare them, or other=... one of the levels"
