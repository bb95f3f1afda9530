"""Which rows a release is of, as far as its record tells: the budget that paid for it, and the group it was counted in.

A budget is a limit on what may be spent on one data set, so releases that one budget paid for are of one data set. Of
releases that different budgets paid for nothing is known: they may be of the same rows, charged apart, or of others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Relation = Literal["same", "different", "overlapping"]


@dataclass(frozen=True)
class RowsRecord:
    """The rows of a release.

    Attributes:
        budget: A random name of the budget, shared by the budgets that ``Budget.parallel`` made from it.
        group: The declared group that was counted, as pairs of a variable and its level in print; () for all rows.
    """

    budget: str
    group: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, budget: str, levels: Mapping[str, object]) -> RowsRecord:
        """The record of the rows at given levels of some variables."""
        return cls(budget, tuple(sorted((name, repr(level)) for name, level in levels.items())))

    def __str__(self) -> str:
        return " and ".join(f"{name} = {level}" for name, level in self.group) or "all rows"


def relation(one: RowsRecord | None, other: RowsRecord | None) -> Relation | None:
    """How the rows of two releases lie to each other; None where the records do not tell.

    Groups that fix one variable at different levels share no row. One inside the other, or two that fix different
    variables, may share some.

    >>> north, south = RowsRecord.of("b", {"region": "north"}), RowsRecord.of("b", {"region": "south"})
    >>> relation(north, south), relation(north, RowsRecord("b")), relation(north, RowsRecord("c"))
    ('different', 'overlapping', None)
    """
    if one is None or other is None or one.budget != other.budget:
        return None
    if one.group == other.group:
        return "same"
    mine, theirs = dict(one.group), dict(other.group)
    apart = any(theirs.get(name, level) != level for name, level in mine.items())
    return "different" if apart else "overlapping"
