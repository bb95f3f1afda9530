"""Opening a ledger, and making one: what is asked must be what the first row lays down."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.errors import LedgerError, ReleaseError
from dpgraph.privacy.events import Number, PrivacyCost, PrivacyUnit, decimal, exact, exact_delta
from dpgraph.privacy.filters import Filter
from dpgraph.privacy.ledger.account import DurableAccount
from dpgraph.privacy.ledger.chain import Chain, now, opened_chain
from dpgraph.privacy.ledger.checking import Verification, verified
from dpgraph.privacy.ledger.row import LedgerRow, canonical, sealed
from dpgraph.privacy.ledger.store import Head, Rows, Store, to_make
from dpgraph.privacy.ledger.terms import Terms, checked_label, terms_of
from dpgraph.privacy.structural import plain_of


@dataclass(frozen=True)
class Asked:
    """What a caller says of a budget, checked; None where the caller says nothing."""

    epsilon: Any = None
    delta: Any = None
    unit: PrivacyUnit | None = None
    accounting: str | None = None
    source: str | None = None

    @classmethod
    def of(
        cls, epsilon: Number | None, delta: Number | None, unit: Any, accounting: str | None, source: str | None
    ) -> Asked:
        """From arguments."""
        return cls(
            None if epsilon is None else exact(epsilon),
            None if delta is None else exact_delta(delta),
            None if unit is None else checked_unit(unit),
            accounting,
            None if source is None else checked_label("source", source, empty=False),
        )

    def made(self) -> Terms:
        """What the first row lays down, where there is none."""
        if self.accounting == "pld":
            raise ReleaseError('a ledger holds no plans; use accounting="basic" or "zcdp"')
        limit = PrivacyCost(self.epsilon, self.delta or 0 * self.epsilon)
        terms = Terms(limit, checked_unit(self.unit), self.accounting or "basic", secrets.token_hex(8), self.source)
        Filter(terms.accounting, limit)
        return terms

    def check(self, terms: Terms) -> None:
        """Holds what was asked to what was laid down."""
        there = {
            "epsilon": (self.epsilon, terms.limit.epsilon),
            "delta": (self.delta, terms.limit.delta),
            "unit": (self.unit, terms.unit),
            "accounting": (self.accounting, terms.accounting),
            "source": (self.source, terms.source),
        }
        for name, (asked, laid) in there.items():
            if asked is not None and asked != laid:
                shown = [decimal(one) if name in ("epsilon", "delta") else str(one) for one in (laid, asked)]
                raise LedgerError(
                    f"this data set's ledger was made with {name} {shown[0]}, and {shown[1]} was asked for; "
                    f"leave {name} out to use it as it is"
                )


def opened(url: str, dataset: str, asked: Asked, who: str = "", purpose: str = "") -> DurableAccount:
    """The account of a data set's whole budget; it is made if ``asked`` has an epsilon and there is none."""
    checked_label("dataset", dataset, empty=False)
    labels = checked_label("who", who), checked_label("purpose", purpose, most=1000, compared=False)
    if asked.epsilon is not None:
        asked.made()
    with _closed_if_refused(store_of(url, create=asked.epsilon is not None)) as store:
        if asked.epsilon is not None:
            store.prepare()
        with store.reading() as rows:
            chain = opened_chain(store, rows, dataset)
        if chain is None and asked.epsilon is None:
            raise LedgerError(
                f"the ledger at {store.shown} has no data set {dataset!r}; {to_make(store.shown, dataset)}"
            )
        chain = _made(store, dataset, asked, labels) if chain is None else chain
        asked.check(chain.terms)
    terms = chain.terms
    return DurableAccount(chain, reopened, "", terms.limit, terms.unit, terms.accounting, *labels)


@contextmanager
def _closed_if_refused(store: Store) -> Iterator[Store]:
    """A store whose connection is given back where nothing comes of it."""
    try:
        yield store
    except BaseException:
        store.close()
        raise


def _made(store: Store, dataset: str, asked: Asked, labels: tuple[str, str]) -> Chain:
    """The chain of a new data set; that of another process which made it first."""
    with store.making() as rows:
        if (chain := opened_chain(store, rows, dataset)) is not None:
            return chain
        _check_source(rows, asked.source)
        row = _first(dataset, asked.made(), *labels)
        rows.append(row)
    return Chain(store, dataset, row, Head(0, row.digest))


def _check_source(rows: Rows, source: str | None) -> None:
    """One source has one budget."""
    for name in rows.datasets() if source is not None else ():
        first = rows.row(name, 0)
        if first is not None and terms_of(first.terms, first.unit).source == source:
            raise LedgerError(f"{source!r} is the source of data set {name!r}, which has a budget in this ledger")


def _first(dataset: str, terms: Terms, who: str, purpose: str) -> LedgerRow:
    """The row that makes a budget."""
    row = LedgerRow(
        dataset=dataset,
        number=0,
        kind="open",
        time=now(),
        who=who,
        purpose=purpose,
        unit=canonical(plain_of(terms.unit)),
        terms=canonical(plain_of(terms, but=("unit",))),
        spent=canonical(plain_of(Filter(terms.accounting, terms.limit).start)),
    )
    return sealed(row, "")


def reopened(url: str, dataset: str, first: str, seen: tuple[int, str], kept: tuple[Any, ...]) -> DurableAccount:
    """An account that was pickled: of the same first row, and with the newest row that was seen still there."""
    with _closed_if_refused(store_of(url, create=False)) as store, store.reading() as rows:
        row = rows.row(dataset, 0)
        if row is None or row.digest != first:
            raise LedgerError(f"the ledger of {dataset!r} at {store.shown} is not the one that was handed over")
        chain = Chain(store, dataset, row, Head(*seen))
        chain.saw(chain.newest(rows))
    key, limit, unit, accounting, who, purpose = kept
    return DurableAccount(chain, reopened, key, limit, unit, accounting, who, purpose)


def datasets(url: str) -> list[str]:
    """The names of a ledger's data sets, sorted."""
    store = store_of(url, create=False)
    try:
        with store.reading() as rows:
            return rows.datasets()
    finally:
        store.close()


def verify_at(url: str, dataset: str, *, expected_head: str | None = None, release: Any = None) -> Verification:
    """Checks a data set's rows as ``Ledger.verify`` does, also of a ledger that ``Budget.open`` refuses."""
    store = store_of(url, create=False)
    try:
        with store.reading() as rows:
            return verified(dataset, rows.rows(dataset), rows.head(dataset), expected_head, release)
    finally:
        store.close()


def store_of(url: str, *, create: bool) -> Store:
    """The store at an address.


    >>> store_of("mysql://host/db", create=False)
    Traceback (most recent call last):
    ...
    dpgraph.privacy.errors.LedgerError: a ledger is a path, sqlite:///path or postgresql://...; got mysql://
    """
    scheme, there, rest = url.partition("://")
    if scheme in ("postgresql", "postgres", "postgresql+psycopg") and there:
        from dpgraph.privacy.ledger.postgres import PostgresStore

        return PostgresStore(f"postgresql://{rest}")
    if there and scheme != "sqlite":
        raise LedgerError(f"a ledger is a path, sqlite:///path or postgresql://...; got {scheme:.20}://")
    from dpgraph.privacy.ledger.sqlite import SqliteStore

    path = rest.removeprefix("/") if there else url
    if not path or path == ":memory:" or (there and not rest.startswith("/")):
        raise LedgerError("a ledger in SQLite is a file: give a path, or sqlite:/// and a path")
    return SqliteStore(os.path.abspath(path), create=create)
