"""One column of rows to the sums of a family's sufficient statistics, wherever the rows lie.

Law: as ``statistics.moments``; the sums are those that ``sufficient_statistics`` makes of the column as an array.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.scope import RowCap, RowGroup
from dpgraph.statistics.moments import Moments, check_support, sums_of_records
from dpgraph.statistics.rows.batches import Batch, Columns
from dpgraph.statistics.rows.codes import Codes, encode_column
from dpgraph.statistics.rows.design_columns import real_values
from dpgraph.statistics.rows.groups import group_of
from dpgraph.statistics.rows.persons import PersonCap, cap_of, refuse_group
from dpgraph.statistics.summary import summarise
from dpgraph.structure.domain import Categories, Domain, DomainError, Level, undeclared_actions
from dpgraph.structure.expfam import Multinomial
from dpgraph.structure.moments import MomentDescription

Integers = npt.NDArray[np.int64]

#: Rows that one thread takes at a time.
BATCH = 1 << 17


@dataclass(frozen=True)
class Contributions:
    """What a family does with a column of records: the sums of what they contribute, then how many there are."""

    description: MomentDescription
    column: str
    strict: bool = False

    @property
    def rows_at_once(self) -> int:
        """A thread's share of a table in memory."""
        return BATCH

    @property
    def columns(self) -> Columns:
        """The column of records."""
        family = self.description.family
        levels = Categories(family.levels) if isinstance(family, Multinomial) else self.description
        return Columns({self.column: levels}, self.strict)

    def zero(self) -> Integers:
        """The sums of no rows."""
        return np.zeros(len(self.description.names) + 1, np.int64)

    def read(self, batch: Batch, is_text: bool) -> tuple[dict[str, Any], None]:
        """The codes or numbers of a batch. Sensitive."""
        family, array = self.description.family, batch[self.column]
        if isinstance(family, Multinomial):
            return {self.column: encode_column(array, Categories(family.levels), self.column, is_text, False)}, None
        values = real_values(array, self.column, is_text, self.strict)
        if not self.strict:
            check_support(values, family)
        return {self.column: values}, None

    def add(self, read: Mapping[str, npt.NDArray[Any]], vector: Integers) -> None:
        """Adds the sums of records to a vector, in place. Sensitive."""
        records, family = read[self.column], self.description.family
        if isinstance(family, Multinomial):
            vector[:-1] += np.bincount(records, minlength=len(family.levels))
        else:
            vector[:-1] += sums_of_records(records, self.description)
        vector[-1] += len(records)

    def statistics(self, vector: Integers, group: RowGroup | None, cap: RowCap | None) -> Moments:
        """The moments of a vector, or of a sum of vectors. Sensitive."""
        return Moments(self.description, vector[:-1], int(vector[-1]), group, cap)


def column_moments(
    rows: Any,
    description: MomentDescription,
    column: str,
    *,
    strict: bool = False,
    where: Mapping[str, Level] | None = None,
    domain: Domain | None = None,
    person: str | PersonCap | None = None,
    rows_per_person: int = 1,
    engine: Any = None,
    progress: bool = False,
) -> Moments:
    """The moments of a column; the arguments are as for ``sufficient_statistics``.

    Raises:
        DomainError: As there.
    """
    if not isinstance(column, str):
        raise DomainError(f"column must name the column of records; got {column!r}")
    if isinstance(rows, Codes):
        raise DomainError("codes hold no column of records; give the rows themselves")
    cap = cap_of(person, rows_per_person)
    refuse_group(where, cap, "Sum all rows, or let nobody have more than one")
    group = None if where is None else _group(where, domain, column, strict)
    kernel = Contributions(description, column, strict)
    return summarise(rows, kernel, cap=cap, where=group, engine=engine, progress=progress)


def _group(where: Mapping[str, Level], domain: Domain | None, column: str, strict: bool) -> RowGroup:
    """The declared group that ``where`` names.

    Raises:
        DomainError: If a variable is not declared, is the column itself, or could refuse a row where none may.
    """
    if domain is None:
        raise DomainError("where needs domain=..., which declares its variables")
    group = group_of(where, domain, "declare it by domain=...")
    for condition in group.conditions:
        declared: Any = condition.declaration
        if condition.by == column:
            raise DomainError(f"where names {column!r}, the column of records; choose rows by another")
        if strict and undeclared_actions(declared):
            raise DomainError(f"{condition.by!r} could refuse a row, and strict=True; make the domain strict as well")
    return group
