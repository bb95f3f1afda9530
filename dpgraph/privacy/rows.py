"""Which rows a release is of, as far as its record tells: the budget that paid for it, and the group it was counted in.

A budget is a limit on what may be spent on one data set, so releases that one budget paid for are of one data set. Of
releases that different budgets paid for nothing is known: they may be of the same rows, charged apart, or of others.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Literal

Relation = Literal["same", "different", "overlapping"]


@dataclass(frozen=True)
class Fixed:
    """A variable that a group fixes.

    Attributes:
        name: The variable.
        level: Its level, in print.
        declaration: A digest of how it was declared: levels of one name under two declarations may hold different rows.
    """

    name: str
    level: str
    declaration: str

    @classmethod
    def of(cls, name: str, level: object, declaration: object) -> Fixed:
        """From the level and the declaration themselves."""
        return cls(name, repr(level), hashlib.sha256(repr(declaration).encode()).hexdigest()[:16])


@dataclass(frozen=True)
class RowsRecord:
    """The rows of a release.

    Attributes:
        budget: A random name of the budget, shared by the budgets that ``Budget.parallel`` made from it.
        group: The declared group that was counted, in the order of the variables' names; () for all rows.
    """

    budget: str
    group: tuple[Fixed, ...] = ()

    def __str__(self) -> str:
        return " and ".join(f"{one.name} = {one.level}" for one in self.group) or "all rows"


def relation(one: RowsRecord | None, other: RowsRecord | None) -> Relation | None:
    """How the rows of two releases lie to each other; None where the records do not tell.

    Groups that fix one variable, declared in the same way, at different levels share no row. One inside the other, or
    two that fix different variables, may share some.

    >>> north, south = (RowsRecord("b", (Fixed.of("region", level, "N or S"),)) for level in "NS")
    >>> relation(north, south), relation(north, RowsRecord("b")), relation(north, RowsRecord("c"))
    ('different', 'overlapping', None)
    """
    if one is None or other is None or one.budget != other.budget:
        return None
    if one.group == other.group:
        return "same"
    theirs = {(fixed.name, fixed.declaration): fixed.level for fixed in other.group}
    apart = any(theirs.get((fixed.name, fixed.declaration), fixed.level) != fixed.level for fixed in one.group)
    return "different" if apart else "overlapping"
