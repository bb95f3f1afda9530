"""Checks of a ledger: every digest, and every total computed again from the events; entries behind a release."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dpgraph.privacy.accounts import Split
from dpgraph.privacy.composition import LESS, Filter, Spent
from dpgraph.privacy.display import counted
from dpgraph.privacy.errors import LedgerError, ReleaseError
from dpgraph.privacy.ledger.store import (
    Allowance,
    Choice,
    Head,
    LedgerRow,
    Terms,
    laid_down,
    link_problem,
    terms_of,
    text_of,
)
from dpgraph.privacy.records import (
    CLASSIFIER,
    CROSS_VALIDATION,
    PAID_IN_PARTS,
    Event,
    PrivacyCost,
    PrivacyUnit,
    Provenance,
)

#: How many problems are listed.
LISTED = 20


@dataclass(frozen=True)
class Verification:
    """The result of a check of a ledger.

    Attributes:
        dataset: The data set.
        rows: The number of entries.
        head: The digest of the newest.
        spent: The whole budget's cost, computed again from the events.
        problems: The first twenty faults; empty for a good ledger.
    """

    dataset: str
    rows: int
    head: str
    spent: PrivacyCost
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """True if there is no fault."""
        return not self.problems

    def __str__(self) -> str:
        told = "; ".join(self.problems) or "every digest and every total is as it must be"
        return f"{self.dataset}: {counted(self.rows, 'entry')}, {self.spent} spent, head {self.head[:16]}...: {told}"


@dataclass
class _Totals:
    """The totals so far, computed again."""

    terms: Terms
    accounts: dict[str, tuple[Filter, PrivacyUnit, Spent]] = field(default_factory=dict)
    allowances: dict[str, tuple[Allowance, Spent]] = field(default_factory=dict)
    events: dict[str, Event | None] = field(default_factory=dict)
    splits: dict[str, int] = field(default_factory=dict)
    choices: dict[int, str] = field(default_factory=dict)

    def event_of(self, row: LedgerRow) -> Event | None:
        """The event of an entry; one that many entries have is read once."""
        if row.event not in self.events:
            self.events[row.event] = row.decoded
        return self.events[row.event]


def verified(
    dataset: str, rows: Iterable[LedgerRow], head: Head | None, expected_head: str | None = None, release: Any = None
) -> Verification:
    """Checks entries, all of one data set and in order."""
    problems: list[str] = []
    digests: dict[str, LedgerRow] = {}
    before: LedgerRow | None = None
    totals: _Totals | None = None
    for row in rows:
        why = link_problem(row, before)
        problems += [] if why is None else [why]
        try:
            if totals is None:
                totals = _Totals(terms_of(row.terms, row.unit))
            problems += [f"entry {row.number} {what}" for what in _problems(row, totals)]
        except ReleaseError as error:
            problems.append(f"entry {row.number}: {error}")
        before, digests[row.digest] = row, row
    if before is None or head is None or (head.number, head.digest) != (before.number, before.digest):
        problems.append("the newest entry is not the one that the head names: entries were removed")
    if expected_head is not None and expected_head not in digests:
        problems.append("no entry has the digest that was kept elsewhere: entries were removed or written anew")
    if release is not None:
        problems += release_problems(release, digests.get)
    whole = totals.accounts.get("") if totals else None
    spent = PrivacyCost(Fraction(0)) if whole is None else whole[0].price(whole[2])
    return Verification(dataset, len(digests), "" if before is None else before.digest, spent, tuple(problems[:LISTED]))


def _problems(row: LedgerRow, totals: _Totals) -> list[str]:
    if row.kind == "open":
        rule = Filter(totals.terms.accounting, totals.terms.limit)
        totals.accounts[""] = rule, totals.terms.unit, rule.start
        return [] if row.number == 0 and row.spent == text_of(rule.start) else ["makes the budget anew"]
    if row.kind == "allow":
        return _allow_problems(row, totals)
    return _charge_problems(row, totals)


def _charge_problems(row: LedgerRow, totals: _Totals) -> list[str]:
    """Of a charge: the account's totals and the allowance's, computed again from the event."""
    event = totals.event_of(row)
    if event is None or row.account not in totals.accounts:
        return ["charges nothing, or an account that no entry made"]
    rule, unit, spent = totals.accounts[row.account]
    after = rule.after(spent, event)
    totals.accounts[row.account] = rule, unit, after
    found = [] if row.spent == text_of(after) else ["has totals that are not those of the events up to it"]
    found += [] if rule.fits(after) else ["spends more than there was"]
    found += [] if row.unit == text_of(unit) else ["has another unit than its account"]
    found += [] if row.mechanism == event.mechanism else ["names another mechanism than its event"]
    limited = totals.allowances.get(row.who) if not row.account else None
    if row.allowance != ("" if limited is None else row.who):
        found.append("is not charged to the allowance of whoever made it")
    if limited is not None:
        allowance, before = limited
        own = Filter(totals.terms.accounting, allowance.limit)
        now = own.after(before, event)
        totals.allowances[row.who] = allowance, now
        found += [] if row.allowed == text_of(now) else ["has totals of the allowance that are not those of its events"]
        found += [] if own.fits(now) else ["spends more than the allowance"]
    if row.kind == "split":
        split = laid_down(row.terms, Split)
        for account in (f"{row.number}.{at}" for at in range(len(split.groups))):
            inside = Filter(split.accounting, split.share)
            totals.accounts[account] = inside, unit.within_groups(), inside.start
            totals.splits[account] = totals.splits.get(row.account, row.number)
    elif row.terms:
        choice, among = laid_down(row.terms, Choice), totals.splits.get(row.account)
        if choice.among != among:
            found.append("names another split than the one that its group is of")
        elif among is not None and totals.choices.setdefault(among, choice.choice) != choice.choice:
            found.append("is of another choice of rows than a group beside it")
    return found


def _allow_problems(row: LedgerRow, totals: _Totals) -> list[str]:
    """Of an allowance: it keeps its earlier totals, and the whole's."""
    if "" not in totals.accounts:
        return ["comes before the entry that makes the budget"]
    spent = totals.accounts[""][2]
    allowance = laid_down(row.terms, Allowance, who=row.allowance)
    start = Filter(totals.terms.accounting, allowance.limit).start
    before = totals.allowances.get(row.allowance, (allowance, start))[1]
    totals.allowances[row.allowance] = allowance, before
    same = (row.spent, row.allowed, row.account) == (text_of(spent), text_of(before), "")
    return [] if same else ["changes totals though it charges nothing"]


def release_problems(release: Any, row_with: Callable[[str], LedgerRow | None]) -> list[str]:
    """Why the entries that a release or a model names did not pay for it."""
    try:
        rows = rows_behind(release, row_with)
        record = release.provenance
        parts, ends = record.event.events, {0}
        for event in (row.decoded for row in rows):  # its own parts in order, or parts that it prepaid
            ends = {end for start in ends for end in _ends(event, parts, start)} if event is not None else ends
    except ReleaseError as error:
        return [str(error)]
    found = [] if len(parts) in ends else ["the release's event is not that of the entries it names"]
    unit = text_of(record.unit)
    found += [f"entry {row.number} protects another unit than the release" for row in rows if row.unit != unit]
    if not hasattr(release, "scope"):
        return found
    choice = "" if release.scope is None else release.scope.choice
    told = [row for row in rows if row.kind == "charge" and row.terms]
    return found + [
        f"entry {row.number} is of another choice of rows than the release"
        for row in told
        if laid_down(row.terms, Choice).choice != choice
    ]


def _ends(event: Event, parts: tuple[Event, ...], start: int) -> Iterator[int]:
    """Where the parts that one charge paid for may end; two parts or more of a prepaid one fit it and use it up."""
    own = event.events
    if parts[start : start + len(own)] == own:
        yield start + len(own)
    if event.mechanism not in (PAID_IN_PARTS, CROSS_VALIDATION, CLASSIFIER) or event.measurements or event.selections:
        return
    name = "basic" if not event.delta else "gdp" if event.mu else "zcdp" if event.rho else "basic"
    rule = Filter(name, PrivacyCost(event.epsilon, event.delta))
    least = Fraction(0) if rule.whole is None else rule.whole * (1 - 4 * (1 - LESS))
    spent = rule.start
    for end, part in enumerate(parts[start:], start + 1):
        spent = rule.after(spent, part)
        if not rule.fits(spent):
            return
        used = rule.whole is None or rule.summed(spent) >= least
        if spent.epsilon >= event.epsilon and used and end > start + 1:
            yield end


def rows_behind(release: Any, row_with: Callable[[str], LedgerRow | None]) -> tuple[LedgerRow, ...]:
    """The entries that a release or a model of one names."""
    record = getattr(release, "provenance", None)
    receipts = record.receipts if isinstance(record, Provenance) else ()
    if not receipts:
        raise LedgerError("the release names no entry of a ledger; a budget in memory paid for it")
    rows = tuple(filter(None, map(row_with, receipts)))
    if len(rows) < len(receipts):
        raise LedgerError("the release names an entry that this data set's ledger does not have")
    return rows
