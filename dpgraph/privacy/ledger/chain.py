"""The rows of one data set in a store, held to the order in which they were written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from dpgraph.privacy.errors import LedgerError
from dpgraph.privacy.filters import Spent
from dpgraph.privacy.ledger.row import KINDS, LedgerRow, Terms, digest_of, laid_down, link_problem, sealed, terms_of
from dpgraph.privacy.ledger.store import Head, Rows, Store

#: How many of the newest rows are held to their digests when a ledger is opened; ``verify`` checks all.
CHECKED = 2_000


class Chain:
    """The rows of one data set, and the newest that this process has seen of them.

    Each transaction compares the newest row with the head, and the first row and the newest seen row with their former
    content: a replaced ledger, also an older copy of itself, is noticed.
    """

    def __init__(self, store: Store, dataset: str, first: LedgerRow, seen: Head) -> None:
        self.store, self.dataset, self.first = store, dataset, first
        self.terms: Terms = terms_of(first.terms, first.unit)
        self._seen, self._lock = seen, threading.Lock()

    @property
    def seen(self) -> Head:
        """The newest row that this process has seen."""
        return self._seen

    def saw(self, row: LedgerRow) -> None:
        """Keeps the newest row that was seen."""
        with self._lock:
            if row.number > self._seen.number:
                self._seen = Head(row.number, row.digest)

    def newest(self, rows: Rows) -> LedgerRow:
        """The newest row, checked."""
        row = newest_row(rows, self.dataset)
        if row is None:
            raise self.fault("it does not hold the data set any more")
        first = row if row.number == 0 else rows.row(self.dataset, 0)
        if first != self.first:
            raise self.fault("it was replaced by another ledger")
        seen = self.seen
        found = row if row.number == seen.number else rows.row(self.dataset, seen.number)
        if found is None or found.digest != seen.digest:
            raise self.fault(f"row {seen.number} is not the one that was written: rows were removed or replaced")
        return row

    def own(self, row: LedgerRow | None) -> LedgerRow | None:
        """A row that a total is read from, held to its digest."""
        if row is not None and digest_of(row) != row.digest:
            raise self.fault(f"row {row.number} was edited")
        return row

    def allowed(self, rows: Rows, who: str) -> Spent | None:
        """An allowance's totals in its newest row; None where it has none."""
        found = [self.own(rows.newest(self.dataset, kind=kind, allowance=who)) for kind in KINDS]
        newest = max((row for row in found if row is not None), key=lambda row: row.number, default=None)
        return None if newest is None else laid_down(newest.allowed, Spent)

    def following(self, head: LedgerRow, **columns: Any) -> LedgerRow:
        """The row after the newest, with its digest."""
        row = LedgerRow(self.dataset, head.number + 1, time=now(), **columns)
        return sealed(row, head.digest)

    def fault(self, why: str) -> LedgerError:
        """An error about these rows."""
        return LedgerError(f"the ledger of {self.dataset!r} at {self.store.shown}: {why}; nothing is released")


def newest_row(rows: Rows, dataset: str) -> LedgerRow | None:
    """The row that the head names, held to its digest; None where there is no such data set."""
    head = rows.head(dataset)
    if head is None:
        if rows.row(dataset, 0) is not None:
            raise LedgerError(f"the ledger of {dataset!r} has rows and no head: it was edited")
        return None
    row = rows.row(dataset, head.number)
    if row is None or row.digest != head.digest or digest_of(row) != row.digest:
        raise LedgerError(f"row {head.number} of the ledger of {dataset!r} was edited or removed; nothing is released")
    return row


def chain_problems(rows: Iterator[LedgerRow], before: LedgerRow | None, head: LedgerRow) -> str | None:
    """Why rows after one of them, None for all, do not lead to the head; None if they do."""
    for row in rows:
        if (why := link_problem(row, before)) is not None:
            return why
        before = row
    if before is None or before.digest != head.digest:
        return f"the rows end at {'none' if before is None else before.number}, and the head is row {head.number}"
    return None


def opened_chain(store: Store, rows: Rows, dataset: str) -> Chain | None:
    """The rows of a data set, held to their digests; None where there is none."""
    head = newest_row(rows, dataset)
    if head is None:
        return None
    start = max(0, head.number + 1 - CHECKED)
    first = rows.row(dataset, 0)
    before = rows.row(dataset, start - 1) if start else None
    if first is None or link_problem(first, None) is not None or (start and before is None):
        raise LedgerError(f"the first rows of the ledger of {dataset!r} were edited or removed")
    if (why := chain_problems(rows.rows(dataset, start), before, head)) is not None:
        raise LedgerError(f"the ledger of {dataset!r} at {store.shown}: {why}")
    return Chain(store, dataset, first, Head(head.number, head.digest))


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
