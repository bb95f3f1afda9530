"""The rows of a statistic: their declared group, and how many of them one person may have.

Plain public values, like ``privacy.records``. Groups are conjunctions: a group within a group fixes one variable more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dpgraph.privacy.display import escaped
from dpgraph.privacy.records import ReleaseError


@dataclass(frozen=True)
class Condition:
    """The condition that a declared variable has a given level; a row meets that of exactly one level.

    ``declaration`` is the variable as it was declared, so that "north" of two different declarations differs.
    """

    by: str
    level: object
    declaration: object

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
    """The cap that holds for two sets of rows together.

    A person in both may have as many rows in each as the cap allows, so caps do not join, unless the rows are of
    different parts of one log that were said to share no person. Rows without a cap, for which the
    caller is responsible, join only with rows without a cap.
    """
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
