"""Accounts in a ledger and its opening, and the ledger for people: entries, allowances, checks.

The settings of a caller must be the terms in the first row.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from fractions import Fraction
from typing import Any

from dpgraph.privacy.accounts import Made, Receipt, Split, checked_unit, other_choice
from dpgraph.privacy.checks import near
from dpgraph.privacy.composition import Filter, Spent, too_dear
from dpgraph.privacy.errors import BudgetExceededError, LedgerError
from dpgraph.privacy.ledger import store
from dpgraph.privacy.ledger.verification import Verification, rows_behind, verified
from dpgraph.privacy.records import Event, Number, PrivacyCost, PrivacyUnit, decimal, exact, exact_delta
from dpgraph.privacy.scope import Fixed
from dpgraph.privacy.structural import event_text


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

    def __init__(self, chain: store.Chain) -> None:
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

    def rows(self) -> tuple[store.LedgerRow, ...]:
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
        store.checked_label("who", who, empty=False)
        allowance = store.Allowance(who, PrivacyCost(exact(epsilon), exact_delta(delta)), store.moment_of(expires))
        start = Filter(self._chain.terms.accounting, allowance.limit).start
        store.checked_label("by", by)
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
                terms=store.text_of(allowance, but=("who",)),
                spent=whole.spent,
                allowed=store.text_of(self._chain.allowed(rows, who) or start),
            )
            rows.append(row)
        self._chain.saw(row)

    def allowances(self) -> dict[str, tuple[store.Allowance, PrivacyCost]]:
        """The allowances that hold, by label, and the cost of the charges to each.

        Raises:
            LedgerError: If the ledger cannot be read, or was edited.
        """
        found = {}
        with self._chain.store.reading() as rows:
            self._chain.newest(rows)
            laid = {row.allowance: row for row in rows.rows(self.dataset) if row.kind == "allow"}
            for who, row in laid.items():
                allowance, spent = store.laid_down(row.terms, store.Allowance, who=who), self._chain.allowed(rows, who)
                rule = Filter(self._chain.terms.accounting, allowance.limit)
                found[who] = allowance, rule.price(rule.start if spent is None else spent)
        return found

    def rows_of(self, release: Any) -> tuple[store.LedgerRow, ...]:
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


@dataclass(frozen=True)
class DurableAccount:
    """An account in a ledger."""

    chain: store.Chain
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
        purpose = store.checked_label("purpose", purpose, most=1000, compared=False)
        return replace(self, who=store.checked_label("who", who), purpose=purpose)

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
            return self._left(self._spent(rows), self._limited(rows))

    def left_after(self, event: Event) -> PrivacyCost:
        """The rest after an event, also of the allowance."""
        text = event_text(event)
        with self.chain.store.reading() as rows:
            row, limited = self._next(rows, event, text, Made()), self._limited(rows)
        if limited is not None:
            limited = *limited[:2], store.laid_down(row.allowed, Spent)
        return self._left(store.laid_down(row.spent, Spent), limited)

    def _left(self, spent: Spent, limited: tuple[store.Allowance, Filter, Spent] | None) -> PrivacyCost:
        left, none = self.rule.remaining(spent), Fraction(0)
        if limited is None:
            return left
        allowance, rule, used = limited
        own = PrivacyCost(none) if _ended(allowance) else rule.remaining(used)
        return PrivacyCost(min(left.epsilon, max(own.epsilon, none)), min(left.delta, max(own.delta, none)))

    def events(self) -> tuple[Event, ...]:
        """The charges, in order."""
        with self.chain.store.reading() as rows:
            mine = [row for row in rows.rows(self.chain.dataset) if row.account == self.key]
        return tuple(event for row in mine if (event := row.decoded) is not None)

    def charge(self, event: Event, made: Made) -> Receipt:
        """Checks an event against the account, and the allowance, and writes its row, in one transaction."""
        text = event_text(event)
        with self.chain.store.writing() as rows:
            row = self._next(rows, event, text, made)
            rows.append(row)
        self.chain.saw(row)
        return Receipt(row.number, row.digest)

    def _next(self, rows: store.Rows, event: Event, text: str, made: Made) -> store.LedgerRow:
        head = self.chain.newest(rows)
        spent = self._spent(rows)
        after = self.rule.after(spent, event)
        if not self.rule.fits(after):
            raise BudgetExceededError(too_dear(self.rule, spent, after, event))
        limited = self._limited(rows)
        return self.chain.following(
            head,
            kind="charge" if made.split is None else "split",
            who=self.who,
            purpose=self.purpose,
            account=self.key,
            allowance="" if limited is None else self.who,
            mechanism=event.mechanism,
            event=text,
            unit=store.text_of(self.unit),
            description=store.fingerprint(made.description),
            settings=store.fingerprint(made.mechanism),
            terms=self._terms(rows, made),
            spent=store.text_of(after),
            allowed="" if limited is None else _within(event, *limited),
        )

    def _terms(self, rows: store.Rows, made: Made) -> str:
        if made.split is not None:
            return store.text_of(made.split)
        if made.choice is None:
            return ""
        among = self._among(rows)
        first = None if among is None else self.chain.own(rows.chosen(self.chain.dataset, among))
        if first is not None and store.laid_down(first.terms, store.Choice).choice != made.choice:
            raise other_choice()
        return store.text_of(store.Choice(among, made.choice))

    def _among(self, rows: store.Rows) -> int | None:
        """The number of the row that split the whole into the groups of which this is one, or is part of one."""
        key, number = self.key, None
        while key:
            row = self.chain.own(rows.row(self.chain.dataset, int(key.partition(".")[0])))
            if row is None or row.kind != "split" or (number is not None and row.number >= number):
                raise self.chain.fault(f"no entry paid for the groups of {self.key}")
            key, number = row.account, row.number
        return number

    def _spent(self, rows: store.Rows) -> Spent:
        newest = self.chain.own(rows.newest(self.chain.dataset, account=self.key))
        return self.rule.start if newest is None else store.laid_down(newest.spent, Spent)

    def _limited(self, rows: store.Rows) -> tuple[store.Allowance, Filter, Spent] | None:
        """The allowance of the label, its filter and its totals; none inside a group, which was charged whole."""
        if self.key or not self.who:
            return None
        laid = self.chain.own(rows.newest(self.chain.dataset, kind="allow", allowance=self.who))
        if laid is None:
            return None
        allowance = store.laid_down(laid.terms, store.Allowance, who=self.who)
        return allowance, Filter(self.accounting, allowance.limit), self.chain.allowed(rows, self.who) or Spent()

    def parts(self, receipt: Receipt | None, split: Split) -> list[DurableAccount]:
        """The accounts of groups."""
        assert receipt is not None
        made = replace(self, limit=split.share, unit=self.unit.within_groups(), accounting=split.accounting)
        return [replace(made, key=f"{receipt.number}.{at}") for at in range(len(split.groups))]

    def split_of(self, groups: tuple[Fixed, ...], number: int | None) -> tuple[Receipt, Split]:
        """The row that paid for groups of this account's rows, and its terms."""
        with self.chain.store.reading() as rows:
            self.chain.newest(rows)
            splits = [row for row in rows.rows(self.chain.dataset) if row.kind == "split" and row.account == self.key]
        for row in reversed(splits):
            if number in (None, row.number) and self.chain.own(row):
                laid = store.laid_down(row.terms, Split)
                if laid.groups == groups:
                    return Receipt(row.number, row.digest), laid
        names = sorted({one.name for one in groups})
        raise self.chain.fault(f"no entry{'' if number is None else f' {number}'} paid for these groups by {names}")

    def reopening(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """How another process opens the same account: by its address, without a password."""
        chain = self.chain
        kept = (self.key, self.limit, self.unit, self.accounting, self.who, self.purpose)
        return reopened, (chain.store.shown, chain.dataset, chain.first.digest, tuple(chain.seen), kept)

    def __str__(self) -> str:
        label = f" as {self.who!r}" if self.who else ""
        return f"{self.chain.dataset!r} at {self.chain.store.shown}{label}"


def _ended(allowance: store.Allowance) -> bool:
    return allowance.expires is not None and datetime.now(UTC) >= allowance.expires


def _within(event: Event, allowance: store.Allowance, rule: Filter, spent: Spent) -> str:
    if _ended(allowance):
        raise BudgetExceededError(
            f"the allowance of {allowance.who!r} ended at {allowance.expires:%Y-%m-%d %H:%M} UTC; nothing was charged"
        )
    after = rule.after(spent, event)
    if not rule.fits(after):
        refused = too_dear(rule, spent, after, event).replace("the budget", f"the allowance of {allowance.who!r}")
        raise BudgetExceededError(refused)
    return store.text_of(after)


def _terms_of(asked: dict[str, Any]) -> store.Terms:
    accounting, epsilon = asked.get("accounting", "basic"), asked["epsilon"]
    limit = PrivacyCost(epsilon, asked.get("delta", 0 * epsilon))
    Filter(accounting, limit)
    return store.Terms(limit, checked_unit(asked.get("unit")), accounting, secrets.token_hex(8), asked.get("source"))


def _check(asked: dict[str, Any], terms: store.Terms) -> None:
    for name, value in asked.items():
        laid = getattr(terms.limit if name in ("epsilon", "delta") else terms, name)
        if value != laid:
            shown = [decimal(one) if name in ("epsilon", "delta") else str(one) for one in (laid, value)]
            raise LedgerError(
                f"this data set's ledger was made with {name} {shown[0]}, and {shown[1]} was asked for; "
                f"leave {name} out to use it as it is"
            )


def opened(url: str, dataset: str, given: dict[str, Any], who: str, purpose: str) -> DurableAccount:
    """The account of a data set's whole budget; it is made if an epsilon is given and there is none."""
    checks = {
        "epsilon": exact,
        "delta": exact_delta,
        "unit": checked_unit,
        "accounting": str,
        "source": lambda source: store.checked_label("source", source, empty=False),
    }
    asked = {name: checks[name](value) for name, value in given.items() if value is not None}
    store.checked_label("dataset", dataset, empty=False)
    labels = store.checked_label("who", who), store.checked_label("purpose", purpose, most=1000, compared=False)
    create = "epsilon" in asked
    if create:
        _terms_of(asked)
    with _closed_on_error(store_of(url, create=create)) as database:
        if create:
            database.prepare()
        with database.reading() as rows:
            chain = store.opened_chain(database, rows, dataset)
        if chain is None and not create:
            with database.reading() as rows:
                hint = near(dataset, rows.datasets())
            raise LedgerError(
                f"the ledger at {database.shown} has no data set {dataset!r}{hint}; "
                f"{store.to_make(database.shown, dataset)}"
            )
        chain = _made(database, dataset, asked, *labels) if chain is None else chain
        _check(asked, chain.terms)
    terms = chain.terms
    return DurableAccount(chain, "", terms.limit, terms.unit, terms.accounting, *labels)


@contextmanager
def _closed_on_error(database: store.Store) -> Iterator[store.Store]:
    try:
        yield database
    except BaseException:
        database.close()
        raise


def _made(database: store.Store, dataset: str, asked: dict[str, Any], who: str, purpose: str) -> store.Chain:
    """The chain of a new data set, or the chain of another process which made it first."""
    with database.making() as rows:
        if (chain := store.opened_chain(database, rows, dataset)) is not None:
            return chain
        for name in rows.datasets() if "source" in asked else ():
            first = rows.row(name, 0)
            if first is not None and store.terms_of(first.terms, first.unit).source == asked["source"]:
                words = f"{asked['source']!r} is the source of data set {name!r}, which has a budget in this ledger"
                raise LedgerError(words)
        terms = _terms_of(asked)
        texts = {"unit": store.text_of(terms.unit), "terms": store.text_of(terms, but=("unit",))}
        texts["spent"] = store.text_of(Filter(terms.accounting, terms.limit).start)
        row = store.sealed(store.LedgerRow(dataset, 0, "open", store.now(), who, purpose, **texts), "")
        rows.append(row)
    return store.Chain(database, dataset, row, store.Head(0, row.digest))


def reopened(url: str, dataset: str, first: str, seen: tuple[int, str], kept: tuple[Any, ...]) -> DurableAccount:
    """An account that was pickled: of the same first row, and with the newest row that was seen still there."""
    with _closed_on_error(store_of(url, create=False)) as database, database.reading() as rows:
        row = rows.row(dataset, 0)
        if row is None or row.digest != first:
            raise LedgerError(f"the ledger of {dataset!r} at {database.shown} is not the one that was handed over")
        chain = store.Chain(database, dataset, row, store.Head(*seen))
        chain.saw(chain.newest(rows))
    return DurableAccount(chain, *kept)


def datasets(url: str) -> list[str]:
    """The names of a ledger's data sets, sorted."""
    with closing(store_of(url, create=False)) as database, database.reading() as rows:
        return rows.datasets()


def verify_at(url: str, dataset: str, *, expected_head: str | None = None, release: Any = None) -> Verification:
    """Checks a data set's rows as ``Ledger.verify`` does, also of a ledger that ``Budget.open`` refuses."""
    with closing(store_of(url, create=False)) as database, database.reading() as rows:
        return verified(dataset, rows.rows(dataset), rows.head(dataset), expected_head, release)


def store_of(url: str, *, create: bool) -> store.Store:
    """The store at an address."""
    scheme, there, rest = url.partition("://")
    if scheme in ("postgresql", "postgres", "postgresql+psycopg") and there:
        from dpgraph.privacy.ledger.postgres import Postgres

        return store.Store(Postgres(f"postgresql://{rest}"))
    if there and scheme != "sqlite":
        raise LedgerError(f"a ledger is a path, sqlite:///path or postgresql://...; got {scheme:.20}://")
    from dpgraph.privacy.ledger.sqlite import Sqlite

    path = rest.removeprefix("/") if there else url
    if not path or path == ":memory:" or (there and not rest.startswith("/")):
        raise LedgerError("a ledger in SQLite is a file: give a path, or sqlite:/// and a path")
    return store.Store(Sqlite(os.path.abspath(path), create=create))
