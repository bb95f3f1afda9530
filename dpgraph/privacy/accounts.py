"""The place of a budget's charges: the memory of one process, or a durable ledger (``privacy.ledger``)."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpgraph.privacy.composition import Filter, Spent, too_dear
from dpgraph.privacy.errors import BudgetExceededError, ReleaseError
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit
from dpgraph.privacy.scope import Fixed


@dataclass(frozen=True)
class Split:
    """The groups of ``Budget.parallel``: how each accounts, its limit, and its condition in print."""

    accounting: str
    share: PrivacyCost
    groups: tuple[Fixed, ...]


@dataclass(frozen=True)
class Made:
    """The public circumstances of a charge: description, mechanism, the groups it pays for, the choice of rows."""

    description: Any = None
    mechanism: Any = None
    split: Split | None = None
    choice: str | None = None


@dataclass(frozen=True)
class Receipt:
    """The ledger's row of a charge: its number and its digest."""

    number: int
    digest: str


#: What a copy of a budget in memory says where it is to spend.
ELSEWHERE = (
    "this is a copy of a Budget that lives in the memory of another process, as n_jobs=2, a fork or a pickle makes "
    "one: it cannot spend, for the same epsilon would be spent twice; nothing was charged. Stay in one process, with "
    "n_jobs=1 or joblib.parallel_config(backend='threading'), or keep the budget in a ledger, which processes share: "
    "Budget.open"
)


class InMemory:
    """The account of one process, with the methods of ``DurableAccount``; copies of it cannot charge."""

    #: The choice of rows that the groups of one split share, by the name ``"rows"``; None for all rows.
    _choices: dict[str, str] | None = None

    def __init__(self, limit: PrivacyCost, unit: PrivacyUnit, accounting: str, identity: str | None = None) -> None:
        self.limit, self.unit = limit, unit
        self.rule = Filter(accounting, limit)
        self.identity = secrets.token_hex(8) if identity is None else identity
        self._charges: list[tuple[Event, Spent]] = []  # each with the totals after it, so that no interrupt parts them
        self._lock = threading.Lock()
        self._process: int | None = os.getpid()

    def spent(self) -> Spent:
        """The totals so far."""
        return self._charges[-1][1] if self._charges else self.rule.start

    def remaining(self) -> PrivacyCost:
        """The cost that the limit still allows."""
        return self.rule.remaining(self.spent())

    def left_after(self, event: Event) -> PrivacyCost:
        """The cost that remains after an event."""
        return self.rule.remaining(self._after(event))

    def _after(self, event: Event) -> Spent:
        spent = self.spent()
        after = self.rule.after(spent, event)
        if not self.rule.fits(after):
            raise BudgetExceededError(too_dear(self.rule, spent, after, event))
        return after

    def events(self) -> tuple[Event, ...]:
        """The events of all charges, in order."""
        return tuple(event for event, _ in self._charges)

    def charge(self, event: Event, made: Made) -> None:
        """Records an event, or refuses it whole; all groups of one split must have one choice of rows."""
        if os.getpid() != self._process:
            raise ReleaseError(ELSEWHERE)
        with self._lock:
            chosen = None if self._choices is None else made.choice
            if chosen is not None and self._choices and self._choices["rows"] != chosen:
                raise other_choice()
            after = self._after(event)
            if chosen is not None and self._choices is not None:
                self._choices["rows"] = chosen
            self._charges.append((event, after))

    def parts(self, receipt: Receipt | None, split: Split) -> list[InMemory]:
        """The accounts of groups; they, and groups within them, share one lock and one choice of rows."""
        made = [InMemory(split.share, self.unit.within_groups(), split.accounting, self.identity) for _ in split.groups]
        choices = dict[str, str]() if self._choices is None else self._choices
        for one in made:
            one._lock, one._choices = self._lock, choices
        return made

    def reopening(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """A copy that shows the charges and cannot spend; it travels, so that a worker's refusal reaches the user."""
        return _elsewhere, (self.limit, self.unit, self.rule.name, self.identity, tuple(self._charges))


def _elsewhere(
    limit: PrivacyCost, unit: PrivacyUnit, accounting: str, identity: str, charges: tuple[tuple[Event, Spent], ...]
) -> InMemory:
    made = InMemory(limit, unit, accounting, identity)
    made._charges, made._process = list(charges), None
    return made


def other_choice() -> ReleaseError:
    """The error of a group that is charged for another choice of rows than the groups beside it."""
    return ReleaseError(
        "the rows of this group and of another were capped in two calls, and a person may have rows_per_person rows "
        "in each; nothing was charged. Cap all rows once (dg.statistics.cap_rows) and count every group from these"
    )


def checked_unit(unit: Any) -> PrivacyUnit:
    """The unit that was given; one replaced row where none was."""
    if unit is not None and not isinstance(unit, PrivacyUnit):
        said = isinstance(unit, str) and unit in ("replace", "add-remove")
        shown = f'PrivacyUnit("{unit if said else "replace"}")'
        raise ReleaseError(f"unit must be a PrivacyUnit, such as {shown}; got {type(unit).__name__}")
    return unit or PrivacyUnit()
