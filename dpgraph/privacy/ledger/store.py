"""Rows of a ledger, their digests and JSON columns, read and added within one transaction, in two dialects of SQL.

The digest of a row is the SHA-256 of it as canonical JSON, the digest of the row before included. ``Chain`` holds the
rows of one data set to the order in which they were written.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import UTC, date, datetime, time
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, TypeVar, get_args
from unicodedata import normalize

import numpy as np

from dpgraph.privacy.composition import Spent
from dpgraph.privacy.display import summary
from dpgraph.privacy.errors import LedgerError, ReleaseError
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, exact, exact_delta, exact_sum
from dpgraph.privacy.structural import FORMS, Form, canonical, event_of_text, plain_of, refused, value_of

if TYPE_CHECKING:
    from dpgraph.privacy.ledger.postgres import Postgres
    from dpgraph.privacy.ledger.sqlite import Sqlite

Kind = Literal["open", "charge", "split", "allow"]
KINDS = get_args(Kind)
VERSION = 2
T = TypeVar("T")


@dataclass(frozen=True)
class LedgerRow:
    """An entry of the ledger of one data set, a row of its table; entries are added and never changed.

    Attributes:
        dataset: The name of the data set.
        number: 0 for the row that made the budget, then 1, 2, ... without a gap.
        kind: ``"open"``, ``"charge"``, ``"split"`` (a charge that pays for groups) or ``"allow"``.
        time: When it was written, in UTC, by the clock of the process that wrote it.
        who: The label that the caller gave.
        purpose: The purpose, likewise.
        account: ``""`` for the whole budget; a group's account is the number of the row that paid for it and the
            group's place there, as in ``"12.0"``.
        allowance: The name of the allowance that was charged too.
        mechanism: The mechanism's label.
        event: The event as JSON (``decoded``).
        unit: Whom the account protects, as JSON.
        description: A digest of the measured description, such as a network.
        settings: A digest of the mechanism with its settings.
        terms: The terms of an ``"open"``, ``"split"`` or ``"allow"`` row, as JSON; of a charge for some rows of each
            person, the choice of these, and the number of the row that split the whole into groups.
        spent: The account's totals with this row, as JSON: exact fractions.
        allowed: The allowance's totals with this row, likewise.
        previous: The digest of the row before.
        digest: The digest of this row.
    """

    dataset: str
    number: int
    kind: Kind
    time: str
    who: str = ""
    purpose: str = ""
    account: str = ""
    allowance: str = ""
    mechanism: str = ""
    event: str = ""
    unit: str = ""
    description: str = ""
    settings: str = ""
    terms: str = ""
    spent: str = ""
    allowed: str = ""
    previous: str = ""
    digest: str = ""

    @property
    def decoded(self) -> Event | None:
        """The event; None for a row that charges nothing.

        Raises:
            ReleaseError: If it is not whole, or has a noise law that is not registered in this process.
        """
        return event_of_text(self.event) if self.event else None

    def __repr__(self) -> str:
        said = (part or None for part in (self.mechanism, self.who, self.purpose, self.time))
        return summary("LedgerRow", f"{self.number} of {self.dataset!r}", self.kind, *said)

    @property
    def plain(self) -> dict[str, Any]:
        """The row as plain JSON values, the event and the totals as JSON inside it."""
        nested = {"event", "unit", "terms", "spent", "allowed"}
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: json.loads(value) if name in nested and value else value for name, value in values.items()}


#: The columns of a row, in the order of the table.
COLUMNS = tuple(field.name for field in fields(LedgerRow))


def text_of(value: Any, but: tuple[str, ...] = ()) -> str:
    """A dataclass as it stands in a column, but for fields with a column of their own."""
    return canonical(plain_of(value, but=but))


def digest_of(row: LedgerRow) -> str:
    """The digest that a row must have."""
    content = dict(vars(row))
    del content["digest"]
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def sealed(row: LedgerRow, previous: str) -> LedgerRow:
    """The row after another, with its digest."""
    linked = replace(row, previous=previous)
    return replace(linked, digest=digest_of(linked))


def row_of(values: Sequence[Any]) -> LedgerRow:
    """A row from the values of its columns."""
    dataset, number, kind, *texts = values
    if not all(isinstance(text, str) for text in (dataset, *texts)) or not isinstance(number, int) or kind not in KINDS:
        raise LedgerError("an entry of the ledger is not whole; it was edited")
    return LedgerRow(*values)


def link_problem(row: LedgerRow, before: LedgerRow | None) -> str | None:
    """Why a row cannot stand after another, the first after none; None if it can.

    >>> first = sealed(LedgerRow("d", 0, "open", "2026-01-01"), "")
    >>> second = sealed(LedgerRow("d", 1, "charge", "2026-01-02"), first.digest)
    >>> link_problem(second, first) is None, link_problem(replace(second, who="x"), first)
    (True, 'entry 1 does not have the digest it was written with: it was edited')
    """
    number, previous = (0, "") if before is None else (before.number + 1, before.digest)
    if row.number != number:
        return f"entry {number} is not there: entries were removed or reordered"
    if digest_of(row) != row.digest:
        return f"entry {number} does not have the digest it was written with: it was edited"
    if row.previous != previous:
        return f"entry {number} does not follow the entry before it: entries were edited, removed or reordered"
    return None


def fingerprint(value: Any) -> str:
    """The first 32 digits of the SHA-256 of a public value's fields, functions by their type's name; "" for None."""
    return "" if value is None else hashlib.sha256(canonical(_fields_of(value)).encode()).hexdigest()[:32]


def _fields_of(value: Any) -> Any:
    """A value as lists of texts, with the names of its types."""
    if value is None or isinstance(value, bool | int | str):
        return value
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, float | Fraction | np.generic):
        return [name, repr(value)]
    if isinstance(value, np.ndarray):
        plain = value if value.dtype.hasobject else np.ascontiguousarray(value)
        return [name, str(value.dtype), list(value.shape), _fields_of(plain.ravel().tolist())]
    if isinstance(value, Mapping):
        return [name, [[_fields_of(key), _fields_of(item)] for key, item in value.items()]]
    if isinstance(value, Set):
        return [name, sorted(map(canonical, map(_fields_of, value)))]
    if isinstance(value, list | tuple):
        return [name, list(map(_fields_of, value))]
    if is_dataclass(value) and not isinstance(value, type):
        return [name, {field.name: _fields_of(getattr(value, field.name)) for field in fields(value)}]
    return [name]


@dataclass(frozen=True)
class Terms:
    """The terms of a data set, in its first row; the unit has a column of its own."""

    limit: PrivacyCost
    unit: PrivacyUnit
    accounting: str
    identity: str
    source: str | None = None
    version: int = VERSION


@dataclass(frozen=True)
class Allowance:
    """The most that one person who charges a shared budget may spend of it."""

    who: str
    limit: PrivacyCost
    expires: datetime | None = None


@dataclass(frozen=True)
class Choice:
    """The choice of some rows of each person that a charge is for; ``Rows.chosen`` finds it by its beginning."""

    among: int | None
    choice: str


def laid_down(text: str, kind: type[T], **given: Any) -> T:
    """The inverse of ``text_of``; ``given`` are the fields that have a column of their own."""
    try:
        plain = json.loads(text)
        if kind is Terms and plain["version"] != VERSION:
            raise LedgerError(f"the ledger is of version {plain['version']!r:.20}, which this dpgraph does not read")
        return value_of(plain, kind, "the entry", **given)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, LedgerError):
            raise
        raise LedgerError(f"the terms in an entry of the ledger are not whole ({type(error).__name__})") from None


def terms_of(text: str, unit: str) -> Terms:
    """The terms of a data set, from two columns of its first row."""
    return laid_down(text, Terms, unit=laid_down(unit, PrivacyUnit))


def _cost_of(plain: Any, place: str) -> PrivacyCost:
    if not isinstance(plain, dict) or set(plain) != {"epsilon", "delta"}:
        raise refused(place, "a cost")
    return PrivacyCost(exact(exact_sum(plain["epsilon"])), exact_delta(exact_sum(plain["delta"])))


def _spent_of(plain: Any, place: str) -> Spent:
    names = ["epsilon", "delta", "rho", "mu_squared"]
    if not isinstance(plain, dict) or sorted(plain) not in (sorted(names), sorted(names[:3])):
        raise refused(place, "totals")
    return Spent(*(exact_sum(plain[name]) for name in names if name in plain))


def _texts(value: Any, but: str = "") -> dict[str, str]:
    return {name: str(part) for name, part in vars(value).items() if name != but}


FORMS.update(
    {
        PrivacyCost: Form(_texts, _cost_of),
        Spent: Form(lambda spent: _texts(spent, but="" if spent.mu_squared else "mu_squared"), _spent_of),
        datetime: Form(datetime.isoformat, lambda plain, place: datetime.fromisoformat(plain)),
    }
)


def moment_of(expires: Any) -> datetime | None:
    """When an allowance ends: a date, whose whole day is included, or a time; without a zone it is in UTC."""
    if expires is None:
        return None
    try:
        if isinstance(expires, str):
            whole_day = len(expires) <= 10
            expires = date.fromisoformat(expires) if whole_day else datetime.fromisoformat(expires)
        if not isinstance(expires, datetime):
            day = datetime.combine(expires, time(), UTC)
            return datetime.fromtimestamp(day.timestamp() + 86_400, UTC)
        return (expires if expires.tzinfo else expires.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, TypeError, OverflowError):
        raise ReleaseError(f"expires must be a date such as 2026-12-31, or a time; got {expires!r}") from None


def checked_label(name: str, label: Any, *, most: int = 200, empty: bool = True, compared: bool = True) -> str:
    """A label, one line; if compared, as Unicode composes it and without spaces around: no two names look the same."""
    if not isinstance(label, str) or len(label) > most or not label.isprintable() or not (label.strip() or empty):
        least = "" if empty else ", not empty"
        raise ReleaseError(f"{name} must be one line of text of at most {most} characters{least}; got {label!r:.80}")
    if compared and label != (usual := normalize("NFC", label).strip()):
        raise ReleaseError(f"{name} must be written without spaces around it and composed (NFC): {usual!r:.80}")
    return label


#: How long, in seconds, a charge waits for another process to finish its own.
PATIENCE = 10.0
#: The words of an error on the fate of a charge.
NOTHING, UNKNOWN = "nothing was charged", "whether the entry was written is not known"
_TEXTS = ", ".join(f"{name} TEXT NOT NULL" for name in COLUMNS if name not in ("dataset", "number"))
#: Tables, and the indexes that let a charge read three rows however many there are.
TABLES = (
    f"CREATE TABLE dpgraph_ledger (dataset TEXT NOT NULL, number BIGINT NOT NULL, {_TEXTS}, "
    "PRIMARY KEY (dataset, number))",
    "CREATE TABLE dpgraph_heads (dataset TEXT PRIMARY KEY, number BIGINT NOT NULL, digest TEXT NOT NULL)",
    "CREATE INDEX dpgraph_ledger_account ON dpgraph_ledger (dataset, account, number)",
    "CREATE INDEX dpgraph_ledger_allowance ON dpgraph_ledger (dataset, kind, allowance, number)",
)
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM dpgraph_ledger"
#: One transaction at a time in a process; a fork waits for its end, so that no connection crosses a fork.
gate = threading.RLock()
_stores: weakref.WeakSet[Any] = weakref.WeakSet()


class Head(NamedTuple):
    """The newest row of a data set, as the table of heads has it."""

    number: int
    digest: str


class Rows:
    """The rows within a transaction."""

    def __init__(self, execute: Callable[..., Any], sign: str, lock: str = "") -> None:
        self._execute, self._sign, self._lock = execute, sign, lock

    def _ask(self, text: str, *values: Any) -> Any:
        return self._execute(text.replace("?", self._sign), values)

    def head(self, dataset: str) -> Head | None:
        """The newest row's number and digest; in a transaction that writes, nobody else adds a row until its end."""
        found = self._ask(f"SELECT number, digest FROM dpgraph_heads WHERE dataset = ?{self._lock}", dataset).fetchone()
        return None if found is None else Head(*found)

    def row(self, dataset: str, number: int) -> LedgerRow | None:
        """One row."""
        return self._one(f"{_SELECT} WHERE dataset = ? AND number = ?", dataset, number)

    def newest(self, dataset: str, **columns: str) -> LedgerRow | None:
        """The newest row with these values of ``account``, or of ``kind`` and ``allowance``."""
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


class Store:
    """A database that holds a ledger: LedgerErrors alone, and a connection that is closed before a fork."""

    def __init__(self, dialect: Sqlite | Postgres) -> None:
        self._dialect: Any = dialect
        self._connection: Any = None
        _stores.add(self)

    @property
    def shown(self) -> str:
        """The address without a password."""
        return self._dialect.shown

    def prepare(self) -> None:
        """Makes the tables where they are missing."""
        with self._transaction(self._dialect.write) as connection:
            self._dialect.prepare(connection)

    @contextmanager
    def reading(self) -> Iterator[Rows]:
        """A transaction that sees one state of the rows."""
        with self._transaction(self._dialect.read) as connection:
            self._dialect.begun(connection, self._dialect.read)
            yield Rows(connection.execute, self._dialect.sign)

    @contextmanager
    def writing(self) -> Iterator[Rows]:
        """A transaction that nobody else's comes between; it is on disk when it ends without an error."""
        with self._transaction(self._dialect.write) as connection:
            self._dialect.begun(connection, self._dialect.write)
            yield Rows(connection.execute, self._dialect.sign, self._dialect.lock)

    @contextmanager
    def making(self) -> Iterator[Rows]:
        """As ``writing``, and nobody else makes a data set until its end: new names have no head to lock."""
        with self.writing() as rows:
            self._dialect.making(self._connection)
            yield rows

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Any]:
        with gate:
            connection = self._begun(begin)
            try:
                yield connection
            except BaseException as error:
                self._undo()
                if isinstance(error, self._dialect.error):
                    self._refuse(error, NOTHING)
                raise
            try:
                connection.execute("COMMIT")
            except BaseException as error:
                self.close()
                if isinstance(error, self._dialect.error):
                    self._refuse(error, UNKNOWN)
                raise
            self._check(written=begin == self._dialect.write)

    def _begun(self, begin: str) -> Any:
        for fresh in (self._connection is None or not self._dialect.may_be_stale, True):
            try:
                self._undo()  # of a transaction that an interrupt left between two lines
                connection = self._connection
                if connection is None:
                    connection = self._dialect.connect()
                    self._closing = weakref.finalize(self, connection.close)
                    self._connection = connection
                else:
                    self._check()
                connection.execute(begin)
                return connection
            except self._dialect.error as error:
                self.close()
                if fresh:
                    self._refuse(error, NOTHING)
            except BaseException:
                self._undo()
                raise
        raise AssertionError

    def _check(self, *, written: bool = False) -> None:
        try:
            self._dialect.check(written=written)
        except LedgerError:
            self.close()
            raise

    def _undo(self) -> None:
        """Rolls back; a connection that cannot is given up, which rolls back too."""
        connection = self._connection
        try:
            if connection is not None and self._dialect.is_open(connection):
                connection.execute("ROLLBACK")
        except self._dialect.error:
            self.close()

    def _refuse(self, error: BaseException, what: str) -> NoReturn:
        words = f"the ledger at {self.shown} cannot be used: {self._dialect.reason(error)}; {what}, nothing is released"
        raise LedgerError(words, charge_may_stand=what != NOTHING) from None

    def close(self) -> None:
        """Gives the connection back; the next transaction makes one."""
        with gate:
            connection, self._connection = self._connection, None
            if connection is not None:
                self._closing.detach()
                with suppress(self._dialect.error):
                    connection.close()


def _before_fork() -> None:
    gate.acquire()
    for store in list(_stores):
        store.close()


if hasattr(os, "register_at_fork"):  # not where processes do not fork
    os.register_at_fork(before=_before_fork, after_in_parent=gate.release, after_in_child=gate.release)


def held() -> str:
    """The reason where another process holds the ledger."""
    return f"another process has held it for {PATIENCE:g} s"


def to_make(url: str, dataset: str | None = None) -> str:
    """How a budget that is not there is made."""
    name = "NAME" if dataset is None else shlex.quote(dataset)
    return (
        f"make it with `dpgraph ledger create {shlex.quote(url)} --dataset {name} --epsilon E`, "
        "or open it with an epsilon"
    )


#: How many of the newest rows are held to their digests when a ledger is opened; ``verify`` checks all.
CHECKED = 2_000


class Chain:
    """The rows of one data set; each transaction compares first and newest seen row with their former content."""

    def __init__(self, store: Store, dataset: str, first: LedgerRow, seen: Head) -> None:
        self.store, self.dataset, self.first = store, dataset, first
        self.terms: Terms = terms_of(first.terms, first.unit)
        self.seen, self._lock = seen, threading.Lock()

    def saw(self, row: LedgerRow) -> None:
        """Keeps the newest row that was seen."""
        with self._lock:
            if row.number > self.seen.number:
                self.seen = Head(row.number, row.digest)

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
            raise self.fault(f"entry {seen.number} is not the one that was written: entries were removed or replaced")
        return row

    def own(self, row: LedgerRow | None) -> LedgerRow | None:
        """A row that a total is read from, held to its digest."""
        if row is not None and digest_of(row) != row.digest:
            raise self.fault(f"entry {row.number} was edited")
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
            raise LedgerError(f"the ledger of {dataset!r} has entries and no head: it was edited")
        return None
    row = rows.row(dataset, head.number)
    if row is None or row.digest != head.digest or digest_of(row) != row.digest:
        raise LedgerError(
            f"entry {head.number} of the ledger of {dataset!r} was edited or removed; nothing is released"
        )
    return row


def opened_chain(store: Store, rows: Rows, dataset: str) -> Chain | None:
    """The rows of a data set, held to their digests; None where there is none."""
    head = newest_row(rows, dataset)
    if head is None:
        return None
    start = max(0, head.number + 1 - CHECKED)
    first = rows.row(dataset, 0)
    before = rows.row(dataset, start - 1) if start else None
    if first is None or link_problem(first, None) is not None or (start and before is None):
        raise LedgerError(f"the first entries of the ledger of {dataset!r} were edited or removed")
    for row in rows.rows(dataset, start):
        if (why := link_problem(row, before)) is not None:
            raise LedgerError(f"the ledger of {dataset!r} at {store.shown}: {why}")
        before = row
    if before is None or before.digest != head.digest:
        ends = "none" if before is None else before.number
        why = f"the entries end at {ends}, and the head is entry {head.number}"
        raise LedgerError(f"the ledger of {dataset!r} at {store.shown}: {why}")
    return Chain(store, dataset, first, Head(head.number, head.digest))


def now() -> str:
    """The time, in UTC."""
    return datetime.now(UTC).isoformat(timespec="microseconds")
