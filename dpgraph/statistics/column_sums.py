"""One column of rows to the sums of a family's sufficient statistics, wherever the rows lie.

Law: as ``statistics.moments``; the sums are those that ``sufficient_statistics`` makes of the column as an array.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.engines.persons import Capped
from dpgraph.statistics.engines.total import capped_total, total
from dpgraph.statistics.moments import Moments, check_support, sums_of_records
from dpgraph.statistics.rows.batches import Batch, Columns
from dpgraph.statistics.rows.codes import UNREADABLE, Codes, encode_column
from dpgraph.statistics.rows.design_columns import Flags, real_values
from dpgraph.statistics.rows.groups import group_of
from dpgraph.statistics.rows.persons import cap_of, refuse_group
from dpgraph.structure.conversion import OURS, converted
from dpgraph.structure.domain import Categories, Domain, DomainError, Level, undeclared_actions
from dpgraph.structure.expfam import Multinomial
from dpgraph.structure.moments import MomentDescription

Integers = npt.NDArray[np.int64]

#: Rows that one thread takes at a time.
BATCH = 1 << 17


@dataclass(frozen=True)
class Contributions:
    """What an engine does with any part of the rows: the sums of what records contribute, then how many there are.

    It is public, and is what travels to other machines.
    """

    description: MomentDescription
    column: str
    strict: bool = False
    group: RowGroup | None = None

    @property
    def rows_at_once(self) -> int:
        """A thread's share of a table in memory."""
        return BATCH

    @property
    def domain(self) -> Columns:
        """The column of records, and those that the group is told by."""
        conditions = self.group.conditions if self.group else ()
        return Columns({self.column: self.description, **{one.by: one.declaration for one in conditions}}, self.strict)

    def zero(self) -> Integers:
        """The sums of no rows."""
        return np.zeros(len(self.description.names) + 1, np.int64)

    def add(self, batch: Batch, vector: Integers, is_text: bool = False) -> None:
        """Adds the sums of a batch to a vector, in place. Sensitive."""
        held, summed = self.read(batch, is_text)
        self.add_read([array[summed] for array in held], vector)

    def read(self, batch: Batch, is_text: bool = False) -> tuple[list[Any], Flags]:
        """Codes, or the bits of numbers; which rows are of the group. Sensitive."""
        records = self._records(batch[self.column], is_text)
        summed = np.ones(len(records), bool)
        held = [records, *(np.zeros(len(records), np.int64) for _ in self.domain.names[1:])]
        for condition in self.group.conditions if self.group else ():
            variable: Any = condition.declaration
            codes = encode_column(batch[condition.by], variable, condition.by, is_text, self.strict)
            summed &= codes == variable.code(condition.level)
        return held, summed

    def _records(self, array: Any, is_text: bool) -> Integers:
        """The column as whole numbers that are equal where the records are."""
        family = self.description.family
        if isinstance(family, Multinomial):
            return encode_column(array, Categories(family.levels), self.column, is_text, False).astype(np.int64)
        values = real_values(array, self.column, is_text, self.strict)
        if not self.strict:
            check_support(values, family)
        return (np.where(np.isnan(values), np.nan, values) + 0.0).view(np.int64)

    def add_read(self, held: Sequence[Any], vector: Integers) -> None:
        """Adds records that were read to a vector, in place. Sensitive."""
        records, family = held[0], self.description.family
        if isinstance(family, Multinomial):
            vector[:-1] += np.bincount(records, minlength=len(family.levels))
        else:
            vector[:-1] += sums_of_records(records.view(np.float64), self.description)
        vector[-1] += len(records)


def column_moments(
    rows: Any,
    description: MomentDescription,
    column: str,
    *,
    strict: bool = False,
    where: Mapping[str, Level] | None = None,
    domain: Domain | None = None,
    person: str | None = None,
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
    tally = Contributions(description, column, strict, group)

    def vector() -> Integers:
        if cap is None:
            return total(rows, tally, engine, progress)
        return capped_total(rows, Capped(tally, cap), engine, progress)

    *sums, many = converted(vector, UNREADABLE, passing=OURS, quiet=False).tolist()
    record = None if cap is None else cap.record(strict)
    return Moments(description, np.array(sums, np.int64), many, group, record)


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
