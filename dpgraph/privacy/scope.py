"""The rows of a statistic and of a release: their declared group, and how many of them one person may have.

Groups are conjunctions. One budget is for one data set, so its releases are of one data set; of releases that different
budgets paid for nothing is known.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from dpgraph.privacy.display import escaped
from dpgraph.privacy.errors import ReleaseError


@dataclass(frozen=True)
class Condition:
    """A declared variable at a given level; levels of two different declarations (``declaration``) differ."""

    by: str
    level: object
    declaration: object

    @property
    def fixed(self) -> Fixed:
        """The condition in print."""
        return Fixed.of(self.by, self.level, self.declaration)

    def __str__(self) -> str:
        return f"{escaped(self.by)} = {self.level!r}"


@dataclass(frozen=True)
class RowGroup:
    """The rows that meet all of several conditions, whose order does not matter.

    Two groups that fix one variable, declared in the same way, at different levels share no row.

    >>> north, women = Condition("region", "north", None), Condition("sex", "F", None)
    >>> print(RowGroup((women, north)), "|", RowGroup((women, north)).within(RowGroup((north,))))
    region = 'north' and sex = 'F' | True
    """

    conditions: tuple[Condition, ...]

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.conditions, key=lambda condition: condition.by))
        if not ordered:
            raise ReleaseError("a group of rows needs at least one condition; all rows are None")
        names = [condition.by for condition in ordered]
        if twice := [name for name in names if names.count(name) > 1]:
            fixed = next(condition for condition in self.conditions if condition.by == twice[0])
            raise ReleaseError(f"the rows are those with {fixed} already; split them by another variable")
        object.__setattr__(self, "conditions", ordered)

    @property
    def where(self) -> dict[str, Any]:
        """The level of each variable, as ``count(where=...)`` takes them."""
        return {condition.by: condition.level for condition in self.conditions}

    def within(self, scope: RowGroup) -> bool:
        """True if this group's conditions include all of the scope's, so that every row of it is in the scope."""
        return set(scope.conditions) <= set(self.conditions)

    def __str__(self) -> str:
        return " and ".join(map(str, self.conditions))


def group_with(group: RowGroup | None, condition: Condition) -> RowGroup:
    """The rows of a group, None for all rows, that meet one more condition."""
    return RowGroup((*(group.conditions if group else ()), condition))


@dataclass(frozen=True)
class RowCap:
    """A cap on the rows of one person that were kept, of one log or of named parts of it that share no person.

    Attributes:
        parts: The names of those parts; empty where none were named.
        drops: True if rows that name no person were dropped, so that their number is private.
        draw: A random public name of the choice of rows; for added parts, their names joined.
    """

    person: str
    rows_per_person: int
    parts: frozenset[str] = frozenset()
    drops: bool = False
    draw: str = field(default="", compare=False)


def joined(one: RowCap | None, other: RowCap | None) -> RowCap | None:
    """The cap of two sets of rows together: rows of named parts of one log, which share no person, alone join."""
    if one is None and other is None:
        return None
    if one is None or other is None:
        raise ReleaseError("counts with a cap on a person's rows and counts without do not add; cap all rows together")
    if (one.person, one.rows_per_person) != (other.person, other.rows_per_person):
        raise ReleaseError("counts with different caps on a person's rows do not add; cap all rows together")
    if not (one.parts and other.parts) or one.parts & other.parts:
        raise ReleaseError(
            "counts of rows that were capped apart do not add: a person in both parts would count twice. Cap all rows "
            "in one call, which takes a folder or an iterator of tables; or, if no person has rows in two of the "
            "parts, give each part a name, cap_rows(..., part='a')"
        )
    draw = "+".join(sorted({*one.draw.split("+"), *other.draw.split("+")}))
    return RowCap(one.person, one.rows_per_person, one.parts | other.parts, one.drops or other.drops, draw)


Relation = Literal["same", "different", "overlapping"]


@dataclass(frozen=True)
class Fixed:
    """A variable that a group fixes, its level in print, and a digest of its declaration."""

    name: str
    level: str
    declaration: str

    @classmethod
    def of(cls, name: str, level: object, declaration: object) -> Fixed:
        """From the level and the declaration themselves."""
        return cls(name, repr(level), hashlib.sha256(repr(declaration).encode()).hexdigest()[:16])


@dataclass(frozen=True)
class RowsRecord:
    """The rows of a release: the budget's name, the group's variables, the choice of rows, the ledger's digests."""

    budget: str
    group: tuple[Fixed, ...] = ()
    choice: str = ""
    receipts: tuple[str, ...] = ()

    def __str__(self) -> str:
        rows = " and ".join(f"{escaped(one.name)} = {escaped(one.level)}" for one in self.group) or "all rows"
        return f"{rows} as capped in choice {self.choice}" if self.choice else rows


def relation(one: RowsRecord | None, other: RowsRecord | None) -> Relation | None:
    """How the rows of two releases lie to each other; None where the records do not tell.

    Groups that fix one variable, declared in the same way, at different levels share no row. One inside the other, or
    two that fix different variables, may share some; so may two choices of some rows of each person.

    >>> north, south = (RowsRecord("b", (Fixed.of("region", level, "N or S"),)) for level in "NS")
    >>> relation(north, south), relation(north, RowsRecord("b")), relation(north, RowsRecord("c"))
    ('different', 'overlapping', None)
    """
    if one is None or other is None or one.budget != other.budget:
        return None
    if one.group == other.group and one.choice == other.choice:
        return "same"
    theirs = {(fixed.name, fixed.declaration): fixed.level for fixed in other.group}
    apart = any(theirs.get((fixed.name, fixed.declaration), fixed.level) != fixed.level for fixed in one.group)
    return "different" if apart else "overlapping"


def together(records: Sequence[RowsRecord | None]) -> RowsRecord | None:
    """The record of several releases of the same rows: the first that is known, with the receipts of all."""
    known = [one for one in records if one is not None]
    if not known:
        return None
    return replace(known[0], receipts=tuple(dict.fromkeys(one for record in known for one in record.receipts)))
