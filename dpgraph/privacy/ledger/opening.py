"""Opening a ledger, and making one: the caller's settings must be the terms in the first row."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.errors import LedgerError, ReleaseError
from dpgraph.privacy.events import Number, PrivacyCost, decimal, exact, exact_delta
from dpgraph.privacy.filters import Filter
from dpgraph.privacy.ledger.account import DurableAccount
from dpgraph.privacy.ledger.chain import Chain, now, opened_chain
from dpgraph.privacy.ledger.checking import Verification, verified
from dpgraph.privacy.ledger.row import LedgerRow, Terms, checked_label, sealed, terms_of, text_of
from dpgraph.privacy.ledger.store import Head, Store, to_make


def asked_of(
    epsilon: Number | None, delta: Number | None, unit: Any, accounting: str | None, source: str | None
) -> dict[str, Any]:
    """A caller's settings of a budget, checked; without those that are None."""
    checks = {"epsilon": exact, "delta": exact_delta, "unit": checked_unit, "accounting": str}
    given = {"epsilon": epsilon, "delta": delta, "unit": unit, "accounting": accounting}
    asked: dict[str, Any] = {name: checks[name](value) for name, value in given.items() if value is not None}
    return asked if source is None else asked | {"source": checked_label("source", source, empty=False)}


def _terms_of(asked: dict[str, Any]) -> Terms:
    """The terms of a new budget."""
    accounting, epsilon = asked.get("accounting", "basic"), asked["epsilon"]
    if accounting == "pld":
        raise ReleaseError('a ledger holds no plans; use accounting="basic" or "zcdp"')
    limit = PrivacyCost(epsilon, asked.get("delta", 0 * epsilon))
    Filter(accounting, limit)
    return Terms(limit, checked_unit(asked.get("unit")), accounting, secrets.token_hex(8), asked.get("source"))


def _check(asked: dict[str, Any], terms: Terms) -> None:
    """Refuses settings that differ from the terms."""
    for name, value in asked.items():
        laid = getattr(terms.limit if name in ("epsilon", "delta") else terms, name)
        if value != laid:
            shown = [decimal(one) if name in ("epsilon", "delta") else str(one) for one in (laid, value)]
            raise LedgerError(
                f"this data set's ledger was made with {name} {shown[0]}, and {shown[1]} was asked for; "
                f"leave {name} out to use it as it is"
            )


def opened(url: str, dataset: str, asked: dict[str, Any], who: str = "", purpose: str = "") -> DurableAccount:
    """The account of a data set's whole budget; it is made if ``asked`` has an epsilon and there is none."""
    checked_label("dataset", dataset, empty=False)
    labels = checked_label("who", who), checked_label("purpose", purpose, most=1000, compared=False)
    create = "epsilon" in asked
    if create:
        _terms_of(asked)
    with _closed(store_of(url, create=create), always=False) as store:
        if create:
            store.prepare()
        with store.reading() as rows:
            chain = opened_chain(store, rows, dataset)
        if chain is None and not create:
            raise LedgerError(
                f"the ledger at {store.shown} has no data set {dataset!r}; {to_make(store.shown, dataset)}"
            )
        chain = _made(store, dataset, asked, *labels) if chain is None else chain
        _check(asked, chain.terms)
    terms = chain.terms
    return DurableAccount(chain, reopened, "", terms.limit, terms.unit, terms.accounting, *labels)


@contextmanager
def _closed(store: Store, *, always: bool = True) -> Iterator[Store]:
    """A store whose connection is given back in the end, or only where nothing comes of it."""
    try:
        yield store
    except BaseException:
        store.close()
        raise
    if always:
        store.close()


def _made(store: Store, dataset: str, asked: dict[str, Any], who: str, purpose: str) -> Chain:
    """The chain of a new data set, or the chain of another process which made it first."""
    with store.making() as rows:
        if (chain := opened_chain(store, rows, dataset)) is not None:
            return chain
        for name in rows.datasets() if "source" in asked else ():
            first = rows.row(name, 0)
            if first is not None and terms_of(first.terms, first.unit).source == asked["source"]:
                words = f"{asked['source']!r} is the source of data set {name!r}, which has a budget in this ledger"
                raise LedgerError(words)
        terms = _terms_of(asked)
        row = LedgerRow(
            dataset=dataset,
            number=0,
            kind="open",
            time=now(),
            who=who,
            purpose=purpose,
            unit=text_of(terms.unit),
            terms=text_of(terms, but=("unit",)),
            spent=text_of(Filter(terms.accounting, terms.limit).start),
        )
        row = sealed(row, "")
        rows.append(row)
    return Chain(store, dataset, row, Head(0, row.digest))


def reopened(url: str, dataset: str, first: str, seen: tuple[int, str], kept: tuple[Any, ...]) -> DurableAccount:
    """An account that was pickled: of the same first row, and with the newest row that was seen still there."""
    with _closed(store_of(url, create=False), always=False) as store, store.reading() as rows:
        row = rows.row(dataset, 0)
        if row is None or row.digest != first:
            raise LedgerError(f"the ledger of {dataset!r} at {store.shown} is not the one that was handed over")
        chain = Chain(store, dataset, row, Head(*seen))
        chain.saw(chain.newest(rows))
    key, limit, unit, accounting, who, purpose = kept
    return DurableAccount(chain, reopened, key, limit, unit, accounting, who, purpose)


def datasets(url: str) -> list[str]:
    """The names of a ledger's data sets, sorted."""
    with _closed(store_of(url, create=False)) as store, store.reading() as rows:
        return rows.datasets()


def verify_at(url: str, dataset: str, *, expected_head: str | None = None, release: Any = None) -> Verification:
    """Checks a data set's rows as ``Ledger.verify`` does, also of a ledger that ``Budget.open`` refuses."""
    with _closed(store_of(url, create=False)) as store, store.reading() as rows:
        return verified(dataset, rows.rows(dataset), rows.head(dataset), expected_head, release)


def store_of(url: str, *, create: bool) -> Store:
    """The store at an address.


    >>> store_of("mysql://host/db", create=False)
    Traceback (most recent call last):
    ...
    dpgraph.privacy.errors.LedgerError: a ledger is a path, sqlite:///path or postgresql://...; got mysql://
    """
    scheme, there, rest = url.partition("://")
    if scheme in ("postgresql", "postgres", "postgresql+psycopg") and there:
        from dpgraph.privacy.ledger.postgres import Postgres

        return Store(Postgres(f"postgresql://{rest}"))
    if there and scheme != "sqlite":
        raise LedgerError(f"a ledger is a path, sqlite:///path or postgresql://...; got {scheme:.20}://")
    from dpgraph.privacy.ledger.sqlite import Sqlite

    path = rest.removeprefix("/") if there else url
    if not path or path == ":memory:" or (there and not rest.startswith("/")):
        raise LedgerError("a ledger in SQLite is a file: give a path, or sqlite:/// and a path")
    return Store(Sqlite(os.path.abspath(path), create=create))
