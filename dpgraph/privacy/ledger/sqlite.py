"""A ledger in one SQLite file: write-ahead log, ``synchronous=FULL``, one writer at a time."""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from urllib.parse import quote

from dpgraph.privacy.errors import LedgerError
from dpgraph.privacy.ledger import store
from dpgraph.privacy.ledger.store import NOTHING, TABLES, UNKNOWN, SqlRows, close_before_forks, gate

#: Marks a file as a ledger of dpgraph ("dpgl").
APPLICATION = 0x6470676C
_WHY = "rows of a ledger are never changed"
TRIGGERS = (
    f"CREATE TRIGGER dpgraph_no_update BEFORE UPDATE ON dpgraph_ledger BEGIN SELECT RAISE(ABORT, '{_WHY}'); END",
    f"CREATE TRIGGER dpgraph_no_delete BEFORE DELETE ON dpgraph_ledger BEGIN SELECT RAISE(ABORT, '{_WHY}'); END",
    f"CREATE TRIGGER dpgraph_no_undo BEFORE UPDATE ON dpgraph_heads WHEN NEW.number <= OLD.number "
    f"BEGIN SELECT RAISE(ABORT, '{_WHY}'); END",
    f"CREATE TRIGGER dpgraph_no_loss BEFORE DELETE ON dpgraph_heads BEGIN SELECT RAISE(ABORT, '{_WHY}'); END",
)

Place = tuple[int, int]


class SqliteStore:
    """A SQLite file.

    The connection is kept between charges, since the last one to close a write-ahead log empties it into the file. It
    is closed before a fork. The file and its log must be the same ones before and after each transaction: a charge
    written to a file that was meanwhile removed or replaced is lost, and nothing may be released for it. The log lies
    beside the file that a symbolic link leads to. A file with two names (hard links) would have a log beside each, and
    be spent twice: it is refused.
    """

    def __init__(self, path: str, *, create: bool) -> None:
        self._path, self._mode = path, "rwc" if create else "rw"
        self._connection: sqlite3.Connection | None = None
        self._file: Place | None = None
        self._log: Place | None = None
        self._log_path = ""
        close_before_forks(self)

    @property
    def shown(self) -> str:
        """The path."""
        return self._path

    def prepare(self) -> None:
        """Makes the tables in an empty file."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                for statement in (*TABLES, *TRIGGERS):
                    connection.execute(statement)
            self._check_kind(connection)

    def _check_kind(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise LedgerError(f"{self._path} is no ledger of dpgraph")

    @contextmanager
    def reading(self) -> Iterator[SqlRows]:
        """A transaction that sees one state of the rows."""
        with self._transaction("BEGIN") as connection:
            self._check_kind(connection)
            yield SqlRows(connection.execute, "?")

    @contextmanager
    def writing(self) -> Iterator[SqlRows]:
        """A transaction that holds the file's only lock for writing from its start."""
        with self._transaction("BEGIN IMMEDIATE") as connection:
            self._check_kind(connection)
            yield SqlRows(connection.execute, "?")

    def making(self) -> AbstractContextManager[SqlRows]:
        """The same: the lock is the file's."""
        return self.writing()

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with gate:
            try:
                self._undo()  # of a transaction that an interrupt left between two lines
                connection = self._connected()
                connection.execute(begin)
            except sqlite3.Error as error:
                self.close()
                raise self._refusal(error) from None
            except BaseException:
                self._undo()
                raise
            try:
                yield connection
            except BaseException as error:
                self._undo()
                if isinstance(error, sqlite3.Error):
                    raise self._refusal(error) from None
                raise
            try:
                connection.execute("COMMIT")
            except BaseException as error:
                self._undo()
                if isinstance(error, sqlite3.Error):
                    raise self._refusal(error, UNKNOWN) from None
                raise
            self._check_place(written=begin == "BEGIN IMMEDIATE")

    def _connected(self) -> sqlite3.Connection:
        """The connection; made where there is none."""
        if self._connection is not None:
            self._check_place()
            return self._connection
        if self._mode == "rw" and not os.path.isfile(self._path):
            raise LedgerError(f"there is no ledger at {self._path}; {store.to_make(self._path)}")
        self._check_names()
        address = f"file:{quote(self._path)}?mode={self._mode}"
        connection = sqlite3.connect(
            address, uri=True, timeout=store.PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            self._file = _place(self._path)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log
            self._log_path = f"{os.path.realpath(self._path)}-wal"
            self._log = _place(self._log_path)
        except BaseException:
            connection.close()
            raise
        self._mode = "rw"
        self._closing = weakref.finalize(self, connection.close)
        self._connection = connection
        return connection

    def _check_place(self, *, written: bool = False) -> None:
        """The path still leads to the file that is open, and its log is still there."""
        self._check_names()
        if self._file != _place(self._path) or self._log != _place(self._log_path):
            self.close()
            raise LedgerError(
                f"the ledger at {self._path}, or its log beside it, was removed or replaced while it was in use; "
                "nothing is released",
                charge_may_stand=written,
            )

    def _check_names(self) -> None:
        """The file has one name, or is not there."""
        with suppress(OSError):
            if (names := os.stat(self._path).st_nlink) > 1:
                self.close()
                raise LedgerError(
                    f"the ledger at {self._path} has {names} names (hard links), and SQLite keeps a log beside each; "
                    "remove all but one name, or use a symbolic link; nothing is released"
                )

    def _undo(self) -> None:
        """Rolls back; a connection that cannot is given up, which rolls back too."""
        connection = self._connection
        if connection is not None and connection.in_transaction:
            try:
                connection.execute("ROLLBACK")
            except sqlite3.Error:
                self.close()

    def _refusal(self, error: sqlite3.Error, what: str = NOTHING) -> LedgerError:
        reason = str(error)
        if "locked" in reason or "busy" in reason:
            reason = f"another process has held it for {store.PATIENCE:g} s ({reason})"
        words = f"the ledger at {self._path} cannot be used: {reason}; {what}, nothing is released"
        return LedgerError(words, charge_may_stand=what != NOTHING)

    def close(self) -> None:
        """Closes the connection."""
        with gate:
            connection, self._connection = self._connection, None
            if connection is not None:
                self._closing.detach()
                with suppress(sqlite3.Error):
                    connection.close()


def _place(path: str) -> Place | None:
    """Which file a path leads to."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _write_ahead(connection: sqlite3.Connection) -> None:
    """Turns the write-ahead log on, which SQLite does not wait for by itself."""
    until = time.monotonic() + store.PATIENCE
    while True:
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise sqlite3.OperationalError("the file's place has no write-ahead log")
        return
