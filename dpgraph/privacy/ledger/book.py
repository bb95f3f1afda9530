"""A ledger for people: its entries, allowances and checks; verification computes every total again from the events."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any

from dpgraph.privacy.accounts import Split
from dpgraph.privacy.composition import LESS, Filter, Spent
from dpgraph.privacy.display import counted
from dpgraph.privacy.errors import LedgerError, ReleaseError
from dpgraph.privacy.ledger.row import (
    Allowance,
    Choice,
    LedgerRow,
    Terms,
    checked_label,
    laid_down,
    link_problem,
    moment_of,
    terms_of,
    text_of,
)
from dpgraph.privacy.ledger.store import Chain, Head
from dpgraph.privacy.records import (
    CLASSIFIER,
    CROSS_VALIDATION,
    PAID_IN_PARTS,
    Event,
    Number,
    PrivacyCost,
    PrivacyUnit,
    Provenance,
    exact,
    exact_delta,
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
    """The faults of an entry's totals, which are carried on."""
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
    rows = [row_with(digest) for digest in receipts]
    if any(row is None for row in rows):
        raise LedgerError("the release names an entry that this data set's ledger does not have")
    return tuple(row for row in rows if row is not None)


class Ledger:
    """The ledger of one data set; ``Budget.ledger`` returns it.

    >>> import tempfile
    >>> import pandas as pd
    >>> import dpgraph as dg
    >>> budget = dg.Budget.open(tempfile.mkdtemp() + "/ledger.sqlite", dataset="survey", epsilon=1)
    >>> counts = dg.count(pd.DataFrame({"word": ["no", "yes"]}), dg.Network.of({"word": ["no", "yes"]}, {}))
    >>> made = dg.release(counts, dg.LaplaceMechanism("0.25"), budget=budget.for_("ann", "a first look"))
    >>> row = budget.ledger.rows_of(made)[0]
    >>> row.number, row.who, row.purpose, row.spent
    (1, 'ann', 'a first look', '{"delta":"0","epsilon":"1/4","rho":"0"}')
    >>> budget.ledger.verify(release=made).ok
    True
    """

    def __init__(self, chain: Chain) -> None:
        self._chain = chain

    @property
    def dataset(self) -> str:
        """The data set."""
        return self._chain.dataset

    @property
    def address(self) -> str:
        """Where it is, without a password."""
        return self._chain.store.shown

    @property
    def source(self) -> str | None:
        """The source of the rows, by the name that the budget was made with."""
        return self._chain.terms.source

    @property
    def head(self) -> str:
        """The digest of the newest entry; kept elsewhere, it shows later if entries were removed or written anew.

        Raises:
            LedgerError: If the ledger cannot be read, or was edited.
        """
        with self._chain.store.reading() as rows:
            return self._chain.newest(rows).digest

    @property
    def seen(self) -> int:
        """The number of the newest entry that this budget wrote; before it wrote one, of the newest at its opening."""
        return self._chain.seen.number

    def rows(self) -> tuple[LedgerRow, ...]:
        """All entries, oldest first.

        Raises:
            LedgerError: If the ledger cannot be read.
        """
        with self._chain.store.reading() as rows:
            return tuple(rows.rows(self.dataset))

    def allow(
        self, who: str, *, epsilon: Number, delta: Number = 0, expires: date | str | None = None, by: str = ""
    ) -> None:
        """Lays down the most that one label may spend of the budget; a later allowance replaces it.

        A charge as ``who`` (``Budget.open(..., who=)``, ``budget.for_``) must then fit the allowance and the whole,
        from the next charge on, in every process. Allowances are limits, not parts that are set aside: together
        they may be more than the whole. Whoever can write to the ledger can charge under any name, and whoever
        holds the rows needs no ledger at all.

        Args:
            who: The label.
            epsilon: The most, exact; the spending of an earlier allowance of the label counts.
            delta: The most of delta.
            expires: The last day, or a time, in UTC; nothing is charged to it afterwards, by the clock of the machine
                that charges.
            by: Who lays it down.

        Raises:
            ReleaseError: If epsilon, delta, expires or a label is not valid.
            LedgerError: If the ledger cannot be written, or was edited.
        """
        checked_label("who", who, empty=False)
        allowance = Allowance(who, PrivacyCost(exact(epsilon), exact_delta(delta)), moment_of(expires))
        start = Filter(self._chain.terms.accounting, allowance.limit).start
        checked_label("by", by)
        with self._chain.store.writing() as rows:
            head = self._chain.newest(rows)
            whole = self._chain.own(rows.newest(self.dataset, account=""))
            assert whole is not None
            row = self._chain.following(
                head,
                kind="allow",
                who=by,
                allowance=who,
                unit=self._chain.first.unit,
                terms=text_of(allowance, but=("who",)),
                spent=whole.spent,
                allowed=text_of(self._chain.allowed(rows, who) or start),
            )
            rows.append(row)
        self._chain.saw(row)

    def allowances(self) -> dict[str, tuple[Allowance, PrivacyCost]]:
        """The allowances that hold, by label, and the cost of the charges to each.

        Raises:
            LedgerError: If the ledger cannot be read, or was edited.
        """
        found = {}
        with self._chain.store.reading() as rows:
            self._chain.newest(rows)
            laid = {row.allowance: row for row in rows.rows(self.dataset) if row.kind == "allow"}
            for who, row in laid.items():
                allowance, spent = laid_down(row.terms, Allowance, who=who), self._chain.allowed(rows, who)
                rule = Filter(self._chain.terms.accounting, allowance.limit)
                found[who] = allowance, rule.price(rule.start if spent is None else spent)
        return found

    def rows_of(self, release: Any) -> tuple[LedgerRow, ...]:
        """The entries that paid for a release, or for a model of one, by the digests in its record.

        Raises:
            LedgerError: If it names none, or one that is not in this data set's ledger.
        """
        digests = {row.digest: row for row in self.rows()}
        return rows_behind(release, digests.get)

    def verify(self, *, expected_head: str | None = None, release: Any = None) -> Verification:
        """Checks every digest and the order of entries, and computes every total again from the events.

        A chain of digests shows that entries were edited, removed or reordered, unless the editor computed all later
        digests again, or put an older copy in place. Against that keep the head's digest elsewhere.

        Args:
            expected_head: A digest of an entry that was kept elsewhere: it must still be there.
            release: A release or a model of one, such as a loaded one: its record must be that of the entries it
                names. Its value is not in the ledger, which is written before anything is drawn.

        Raises:
            LedgerError: If the ledger cannot be read, or is not the one that was opened.
        """
        with self._chain.store.reading() as rows:
            if rows.row(self.dataset, 0) is None:
                raise LedgerError(f"the ledger at {self.address} does not hold {self.dataset!r} any more")
            return verified(self.dataset, rows.rows(self.dataset), rows.head(self.dataset), expected_head, release)

    def close(self) -> None:
        """Gives the connection back; the next charge or question makes another."""
        self._chain.store.close()

    def __repr__(self) -> str:
        return f"Ledger({self.dataset!r} at {self.address})"
