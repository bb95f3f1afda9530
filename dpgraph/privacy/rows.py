"""The rows of a release, as far as its record tells: the budget that paid for it, and its group.

One budget is for one data set, so its releases are of one data set. Of releases that different budgets paid for nothing
is known: they may be of the same rows, charged apart, or of others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from dpgraph.privacy.display import escaped

Relation = Literal["same", "different", "overlapping"]


@dataclass(frozen=True)
class Fixed:
    """A variable that a group fixes, with its level in print.

    ``declaration`` is a digest of how it was declared: levels of one name under two declarations may hold different
    rows.
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
        choice: A random name of the choice of some rows of each person; "" where none was made.
        receipts: The digests of the ledger's rows that paid, where a ledger did (``Budget.open``).
    """

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
    """The record of several releases of the same rows: the first that is known, with the receipts of all.

    >>> together([None, RowsRecord("b", receipts=("1",)), RowsRecord("b", receipts=("2",))]).receipts
    ('1', '2')
    """
    known = [one for one in records if one is not None]
    if not known:
        return None
    return replace(known[0], receipts=tuple(dict.fromkeys(one for record in known for one in record.receipts)))
