"""A ledger in one SQLite file: write-ahead log, ``synchronous=FULL``, one writer at a time."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from urllib.parse import quote

from dpgraph.privacy.errors import LedgerError
from dpgraph.privacy.ledger import store
from dpgraph.privacy.ledger.store import TABLES

#: Marks a file as a ledger of dpgraph ("dpgl").
APPLICATION = 0x6470676C
_STOP = "BEGIN SELECT RAISE(ABORT, 'rows of a ledger are never changed'); END"
TRIGGERS = (
    f"CREATE TRIGGER dpgraph_no_update BEFORE UPDATE ON dpgraph_ledger {_STOP}",
    f"CREATE TRIGGER dpgraph_no_delete BEFORE DELETE ON dpgraph_ledger {_STOP}",
    f"CREATE TRIGGER dpgraph_no_undo BEFORE UPDATE ON dpgraph_heads WHEN NEW.number <= OLD.number {_STOP}",
    f"CREATE TRIGGER dpgraph_no_loss BEFORE DELETE ON dpgraph_heads {_STOP}",
)


class Sqlite:
    """SQLite's dialect, and one file of it.

    The last connection to close a write-ahead log empties it into the file. The file and its log must be the same ones
    before and after each transaction: a charge written to a file that was meanwhile removed or replaced is lost, and
    nothing may be released for it. The log lies beside the file that a symbolic link leads to. A file with two names
    (hard links) would have a log beside each, and be spent twice: it is refused.
    """

    error = sqlite3.Error
    sign, lock, read, write = "?", "", "BEGIN", "BEGIN IMMEDIATE"
    may_be_stale = False

    def __init__(self, path: str, *, create: bool) -> None:
        self.shown, self._mode = path, "rwc" if create else "rw"
        self._file: tuple[int, int] | None = None
        self._log: tuple[int, int] | None = None
        self._log_path = ""

    def connect(self) -> sqlite3.Connection:
        """A new connection, and the places of the file and its log."""
        if self._mode == "rw" and not os.path.isfile(self.shown):
            raise LedgerError(f"there is no ledger at {self.shown}; {store.to_make(self.shown)}")
        self._check_names()
        address = f"file:{quote(self.shown)}?mode={self._mode}"
        connection = sqlite3.connect(
            address, uri=True, timeout=store.PATIENCE, isolation_level=None, check_same_thread=False
        )
        try:
            _write_ahead(connection)
            connection.execute("PRAGMA synchronous = FULL")
            self._file = _place(self.shown)
            connection.execute("SELECT count(*) FROM sqlite_master").fetchone()  # opens the log
            self._log_path = f"{os.path.realpath(self.shown)}-wal"
            self._log = _place(self._log_path)
        except BaseException:
            connection.close()
            raise
        self._mode = "rw"
        return connection

    def is_open(self, connection: sqlite3.Connection) -> bool:
        """True if a connection is within a transaction."""
        return connection.in_transaction

    def check(self, *, written: bool = False) -> None:
        """Refuses a path that does not lead to the open file and its log any more."""
        self._check_names()
        if self._file != _place(self.shown) or self._log != _place(self._log_path):
            raise LedgerError(
                f"the ledger at {self.shown}, or its log beside it, was removed or replaced while it was in use; "
                "nothing is released",
                charge_may_stand=written,
            )

    def _check_names(self) -> None:
        with suppress(OSError):
            if (names := os.stat(self.shown).st_nlink) > 1:
                raise LedgerError(
                    f"the ledger at {self.shown} has {names} names (hard links), and SQLite keeps a log beside each; "
                    "remove all but one name, or use a symbolic link; nothing is released"
                )

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Makes the tables in an empty file."""
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            connection.execute(f"PRAGMA application_id = {APPLICATION}")
            for statement in (*TABLES, *TRIGGERS):
                connection.execute(statement)
        self.begun(connection, "")

    def begun(self, connection: sqlite3.Connection, begin: str) -> None:
        """Refuses a database of another program."""
        if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
            raise LedgerError(f"{self.shown} is not a dpgraph ledger")

    def making(self, connection: sqlite3.Connection) -> None:
        """Nothing: the lock of a transaction that writes is the file's."""

    def reason(self, error: sqlite3.Error) -> str:
        """The words of an error."""
        words = str(error)
        return f"{store.held()} ({words})" if "locked" in words or "busy" in words else words


def _place(path: str) -> tuple[int, int] | None:
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
