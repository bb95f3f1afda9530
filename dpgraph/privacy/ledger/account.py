"""An account in a ledger, of a whole budget or of one group of its rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from dpgraph.privacy.accounts import Made, Receipt, Split, other_choice
from dpgraph.privacy.errors import BudgetExceededError
from dpgraph.privacy.events import Event, PrivacyCost, PrivacyUnit
from dpgraph.privacy.filters import Filter, Spent, too_dear
from dpgraph.privacy.ledger.book import Ledger
from dpgraph.privacy.ledger.chain import Chain
from dpgraph.privacy.ledger.row import (
    Allowance,
    Choice,
    LedgerRow,
    checked_label,
    fingerprint,
    laid_down,
    text_of,
)
from dpgraph.privacy.ledger.store import Rows
from dpgraph.privacy.plain_events import event_text
from dpgraph.privacy.rows import Fixed


@dataclass(frozen=True)
class DurableAccount:
    """An account in a ledger."""

    chain: Chain
    opens: Callable[..., Any]
    key: str
    limit: PrivacyCost
    unit: PrivacyUnit
    accounting: str
    who: str = ""
    purpose: str = ""

    @property
    def rule(self) -> Filter:
        """How charges add."""
        return Filter(self.accounting, self.limit)

    @property
    def identity(self) -> str:
        """The data set's random name."""
        return self.chain.terms.identity

    def labelled(self, who: str, purpose: str) -> DurableAccount:
        """The same account under another label."""
        purpose = checked_label("purpose", purpose, most=1000, compared=False)
        return replace(self, who=checked_label("who", who), purpose=purpose)

    def book(self) -> Ledger:
        """The ledger, for people."""
        return Ledger(self.chain)

    def spent(self) -> Spent:
        """The totals so far."""
        with self.chain.store.reading() as rows:
            self.chain.newest(rows)
            return self._spent(rows)

    def remaining(self) -> PrivacyCost:
        """The unspent rest, also of the allowance."""
        with self.chain.store.reading() as rows:
            self.chain.newest(rows)
            allowance = self._allowance(rows)
            return self._left(self._spent(rows), allowance, None if allowance is None else self._allowed(rows))

    def left_after(self, event: Event) -> PrivacyCost:
        """The rest after an event, also of the allowance."""
        text = event_text(event)
        with self.chain.store.reading() as rows:
            row = self._next(rows, event, text, Made())
            allowed = laid_down(row.allowed, Spent) if row.allowed else None
            return self._left(laid_down(row.spent, Spent), self._allowance(rows), allowed)

    def _left(self, spent: Spent, allowance: Allowance | None, allowed: Spent | None) -> PrivacyCost:
        left = self.rule.remaining(spent)
        if allowance is None or allowed is None:
            return left
        if _ended(allowance):
            return PrivacyCost(left.epsilon * 0, left.delta * 0)
        own, none = Filter(self.accounting, allowance.limit).remaining(allowed), Fraction(0)
        return PrivacyCost(min(left.epsilon, max(own.epsilon, none)), min(left.delta, max(own.delta, none)))

    def events(self) -> tuple[Event, ...]:
        """The charges, in order."""
        with self.chain.store.reading() as rows:
            mine = [row for row in rows.rows(self.chain.dataset) if row.account == self.key]
        return tuple(event for row in mine if (event := row.decoded) is not None)

    def planned(self) -> tuple[Event, ...]:
        """Nothing: a ledger takes no lists that are drawn from later."""
        return ()

    def charge(self, event: Event, made: Made) -> Receipt:
        """Checks an event against the account, and the allowance, and writes its row, in one transaction."""
        text = event_text(event)
        with self.chain.store.writing() as rows:
            row = self._next(rows, event, text, made)
            rows.append(row)
        self.chain.saw(row)
        return Receipt(row.number, row.digest)

    def _next(self, rows: Rows, event: Event, text: str, made: Made) -> LedgerRow:
        """The row of a charge, which fits."""
        head = self.chain.newest(rows)
        spent = self._spent(rows)
        after = self.rule.after(spent, event)
        if not self.rule.fits(after):
            raise BudgetExceededError(too_dear(self.rule, spent, after, event))
        allowance = self._allowance(rows)
        return self.chain.following(
            head,
            kind="charge" if made.split is None else "split",
            who=self.who,
            purpose=self.purpose,
            account=self.key,
            allowance="" if allowance is None else allowance.who,
            mechanism=event.mechanism,
            event=text,
            unit=text_of(self.unit),
            description=fingerprint(made.description),
            settings=fingerprint(made.mechanism),
            terms=self._terms(rows, made),
            spent=text_of(after),
            allowed="" if allowance is None else self._within(rows, allowance, event),
        )

    def _terms(self, rows: Rows, made: Made) -> str:
        """The terms of the row: groups, or its choice of rows."""
        if made.split is not None:
            return text_of(made.split)
        if made.choice is None:
            return ""
        among = self._among(rows)
        first = None if among is None else self.chain.own(rows.chosen(self.chain.dataset, among))
        if first is not None and laid_down(first.terms, Choice).choice != made.choice:
            raise other_choice()
        return text_of(Choice(among, made.choice))

    def _among(self, rows: Rows) -> int | None:
        """The number of the row that split the whole into the groups of which this is one, or is part of one."""
        key, number = self.key, None
        while key:
            row = self.chain.own(rows.row(self.chain.dataset, int(key.partition(".")[0])))
            if row is None or row.kind != "split" or (number is not None and row.number >= number):
                raise self.chain.fault(f"no row paid for the groups of {self.key}")
            key, number = row.account, row.number
        return number

    def _spent(self, rows: Rows) -> Spent:
        """The totals in the account's newest row."""
        newest = self.chain.own(rows.newest(self.chain.dataset, account=self.key))
        return self.rule.start if newest is None else laid_down(newest.spent, Spent)

    def _allowance(self, rows: Rows) -> Allowance | None:
        """The allowance of the label; none inside a group, which was charged whole."""
        if self.key or not self.who:
            return None
        laid = self.chain.own(rows.newest(self.chain.dataset, kind="allow", allowance=self.who))
        return None if laid is None else laid_down(laid.terms, Allowance, who=self.who)

    def _within(self, rows: Rows, allowance: Allowance, event: Event) -> str:
        """The allowance's totals with an event that fits."""
        if _ended(allowance):
            raise BudgetExceededError(
                f"the allowance of {allowance.who!r} ended at {allowance.expires:%Y-%m-%d %H:%M} UTC; "
                "nothing was charged"
            )
        rule, spent = Filter(self.accounting, allowance.limit), self._allowed(rows)
        after = rule.after(spent, event)
        if not rule.fits(after):
            refused = too_dear(rule, spent, after, event).replace("the budget", f"the allowance of {allowance.who!r}")
            raise BudgetExceededError(refused)
        return text_of(after)

    def _allowed(self, rows: Rows) -> Spent:
        """The totals of the allowance in its newest row."""
        return self.chain.allowed(rows, self.who) or Spent()

    def parts(self, receipt: Receipt | None, split: Split) -> list[DurableAccount]:
        """The accounts of groups."""
        assert receipt is not None
        unit, labels = self.unit.within_groups(), (self.who, self.purpose)
        return [
            DurableAccount(
                self.chain, self.opens, f"{receipt.number}.{at}", split.share, unit, split.accounting, *labels
            )
            for at in range(len(split.groups))
        ]

    def split_of(self, groups: tuple[Fixed, ...], number: int | None) -> tuple[Receipt, Split]:
        """The row that paid for groups of this account's rows, and its terms."""
        with self.chain.store.reading() as rows:
            self.chain.newest(rows)
            splits = [row for row in rows.rows(self.chain.dataset) if row.kind == "split" and row.account == self.key]
        for row in reversed(splits):
            if number in (None, row.number) and self.chain.own(row):
                laid = laid_down(row.terms, Split)
                if laid.groups == groups:
                    return Receipt(row.number, row.digest), laid
        names = sorted({one.name for one in groups})
        raise self.chain.fault(f"no row{'' if number is None else f' {number}'} paid for these groups by {names}")

    def reopening(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """How another process opens the same account: by its address, without a password."""
        chain = self.chain
        kept = (self.key, self.limit, self.unit, self.accounting, self.who, self.purpose)
        return self.opens, (chain.store.shown, chain.dataset, chain.first.digest, tuple(chain.seen), kept)

    def __str__(self) -> str:
        label = f" as {self.who!r}" if self.who else ""
        return f"{self.chain.dataset!r} at {self.chain.store.shown}{label}"


def _ended(allowance: Allowance) -> bool:
    """Whether an allowance has expired, by this machine's clock."""
    return allowance.expires is not None and datetime.now(UTC) >= allowance.expires
