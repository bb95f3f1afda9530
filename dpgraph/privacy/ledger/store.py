"""What a ledger asks of a database: rows that are read and added within one transaction."""

from __future__ import annotations

import os
import shlex
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from dpgraph.privacy.errors import LedgerError
from dpgraph.privacy.ledger.row import COLUMNS, LedgerRow, row_of

#: How long, in seconds, a charge waits for another process to finish its own.
PATIENCE = 10.0
#: What an error says became of a charge.
NOTHING, UNKNOWN = "nothing was charged", "whether the row was written is not known"


class Head(NamedTuple):
    """The newest row of a data set, as the table of heads has it."""

    number: int
    digest: str


class Rows(Protocol):
    """The rows within a transaction."""

    def head(self, dataset: str) -> Head | None:
        """The newest row's number and digest; in a transaction that writes, nobody else adds a row until its end."""
        ...

    def row(self, dataset: str, number: int) -> LedgerRow | None:
        """One row."""
        ...

    def newest(self, dataset: str, **columns: str) -> LedgerRow | None:
        """The newest row whose columns have these values; columns are ``account``, or ``kind`` and ``allowance``."""
        ...

    def rows(self, dataset: str, start: int = 0) -> Iterator[LedgerRow]:
        """All rows from a number on, in order."""
        ...

    def chosen(self, dataset: str, among: int) -> LedgerRow | None:
        """The first charge for a choice of rows among the groups that a row paid for."""
        ...

    def append(self, row: LedgerRow) -> None:
        """Adds a row, which becomes the head."""
        ...

    def datasets(self) -> list[str]:
        """The names of the data sets, sorted."""
        ...


class Store(Protocol):
    """A database that holds a ledger. What it raises is a LedgerError."""

    @property
    def shown(self) -> str:
        """Its address without a password."""
        ...

    def prepare(self) -> None:
        """Makes the tables where they are missing."""
        ...

    def reading(self) -> AbstractContextManager[Rows]:
        """A transaction that sees one state of the rows."""
        ...

    def writing(self) -> AbstractContextManager[Rows]:
        """A transaction that nobody else's comes between; it is on disk when it ends without an error."""
        ...

    def making(self) -> AbstractContextManager[Rows]:
        """As ``writing``, and nobody else makes a data set until its end."""
        ...

    def close(self) -> None:
        """Gives the connection back; the next transaction makes one."""
        ...


class SqlRows:
    """Rows by SQL, the same in both databases but for the sign of a parameter."""

    def __init__(self, execute: Callable[..., Any], sign: str, lock: str = "") -> None:
        self._execute, self._sign, self._lock = execute, sign, lock

    def _ask(self, text: str, *values: Any) -> Any:
        return self._execute(text.replace("?", self._sign), values)

    def head(self, dataset: str) -> Head | None:
        """The newest row's number and digest."""
        found = self._ask(f"SELECT number, digest FROM dpgraph_heads WHERE dataset = ?{self._lock}", dataset).fetchone()
        return None if found is None else Head(*found)

    def row(self, dataset: str, number: int) -> LedgerRow | None:
        """One row."""
        return self._one(f"{_SELECT} WHERE dataset = ? AND number = ?", dataset, number)

    def newest(self, dataset: str, **columns: str) -> LedgerRow | None:
        """The newest row whose columns have these values."""
        where = "".join(f" AND {name} = ?" for name in columns)
        text = f"{_SELECT} WHERE dataset = ?{where} ORDER BY number DESC LIMIT 1"
        return self._one(text, dataset, *columns.values())

    def _one(self, text: str, *values: Any) -> LedgerRow | None:
        found = self._ask(text, *values).fetchone()
        return None if found is None else row_of(found)

    def rows(self, dataset: str, start: int = 0) -> Iterator[LedgerRow]:
        """All rows from a number on, in order."""
        return map(row_of, self._ask(f"{_SELECT} WHERE dataset = ? AND number >= ? ORDER BY number", dataset, start))

    def chosen(self, dataset: str, among: int) -> LedgerRow | None:
        """The first charge for a choice of rows among the groups that a row paid for."""
        text = f"{_SELECT} WHERE dataset = ? AND number > ? AND terms LIKE ? ORDER BY number LIMIT 1"
        return self._one(text, dataset, among, f'{{"among":{among:d},%')

    def append(self, row: LedgerRow) -> None:
        """Adds a row, which becomes the head."""
        signs = ", ".join("?" * len(COLUMNS))
        values = [getattr(row, name) for name in COLUMNS]
        self._ask(f"INSERT INTO dpgraph_ledger ({', '.join(COLUMNS)}) VALUES ({signs})", *values)
        if row.number == 0:
            head = "INSERT INTO dpgraph_heads (number, digest, dataset) VALUES (?, ?, ?)"
        else:
            head = "UPDATE dpgraph_heads SET number = ?, digest = ? WHERE dataset = ?"
        if self._ask(head, row.number, row.digest, row.dataset).rowcount != 1:
            raise LedgerError("the ledger has no head for this data set; it was edited")

    def datasets(self) -> list[str]:
        """The names of the data sets, sorted."""
        found = self._ask("SELECT dataset FROM dpgraph_heads UNION SELECT dataset FROM dpgraph_ledger")
        return sorted(name for (name,) in found)


_SELECT = f"SELECT {', '.join(COLUMNS)} FROM dpgraph_ledger"

_TEXTS = ", ".join(f"{name} TEXT NOT NULL" for name in COLUMNS if name not in ("dataset", "number"))
#: Tables, and the indexes that let a charge read three rows however many there are.
TABLES = (
    f"CREATE TABLE dpgraph_ledger (dataset TEXT NOT NULL, number BIGINT NOT NULL, {_TEXTS}, "
    "PRIMARY KEY (dataset, number))",
    "CREATE TABLE dpgraph_heads (dataset TEXT PRIMARY KEY, number BIGINT NOT NULL, digest TEXT NOT NULL)",
    "CREATE INDEX dpgraph_ledger_account ON dpgraph_ledger (dataset, account, number)",
    "CREATE INDEX dpgraph_ledger_allowance ON dpgraph_ledger (dataset, kind, allowance, number)",
)

#: One transaction at a time in a process; a fork waits for its end, so that no connection crosses a fork.
gate = threading.RLock()
_stores: weakref.WeakSet[Any] = weakref.WeakSet()


def close_before_forks(store: Store) -> None:
    """Closes a store's connection before each fork of this process."""
    _stores.add(store)


def _before_fork() -> None:
    gate.acquire()
    for store in list(_stores):
        store.close()


if hasattr(os, "register_at_fork"):  # not where processes do not fork
    os.register_at_fork(before=_before_fork, after_in_parent=gate.release, after_in_child=gate.release)


def to_make(url: str, dataset: str | None = None) -> str:
    """How a budget that is not there is made.

    >>> to_make("l.sqlite", "the survey")
    "make it with `dpgraph ledger create l.sqlite --dataset 'the survey' --epsilon E`, or open it with an epsilon"
    """
    name = "NAME" if dataset is None else shlex.quote(dataset)
    return (
        f"make it with `dpgraph ledger create {shlex.quote(url)} --dataset {name} --epsilon E`, "
        "or open it with an epsilon"
    )
