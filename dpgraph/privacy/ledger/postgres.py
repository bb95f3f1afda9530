"""A ledger in a PostgreSQL database, for a team: a charge locks the head of its data set."""

from __future__ import annotations

import re
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dpgraph.privacy.errors import LedgerError
from dpgraph.privacy.ledger import store
from dpgraph.privacy.ledger.store import NOTHING, TABLES, UNKNOWN, SqlRows, close_before_forks, gate

#: The number of the advisory lock under which tables and data sets are made ("dpgl").
MAKING = 0x6470676C
_REFUSE = (
    "CREATE FUNCTION dpgraph_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'rows of a ledger are never changed'; END $$"
)
TRIGGERS = (
    _REFUSE,
    "CREATE TRIGGER dpgraph_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON dpgraph_ledger "
    "FOR EACH STATEMENT EXECUTE FUNCTION dpgraph_refuse()",
    "CREATE TRIGGER dpgraph_no_undo BEFORE UPDATE ON dpgraph_heads FOR EACH ROW "
    "WHEN (NEW.number <= OLD.number) EXECUTE FUNCTION dpgraph_refuse()",
    "CREATE TRIGGER dpgraph_no_loss BEFORE DELETE OR TRUNCATE ON dpgraph_heads "
    "FOR EACH STATEMENT EXECUTE FUNCTION dpgraph_refuse()",
)


class PostgresStore:
    """A PostgreSQL database; its address is libpq's, with what libpq reads from the environment and ``~/.pgpass``.

    The connection is kept between charges and closed before a fork. One that the server has given up meanwhile is made
    anew before a transaction begins, never within one.
    """

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            import psycopg.conninfo
        except ImportError:
            raise LedgerError("a ledger in PostgreSQL needs psycopg: pip install 'dpgraph[team]'") from None
        self._psycopg = psycopg
        try:
            parts = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            raise LedgerError("the address of the ledger is not one that PostgreSQL's libpq reads") from None
        self._url, self._password = url, str(parts.pop("password", None) or "")
        self._shown = _address({name: str(value) for name, value in parts.items()})
        self._connection: Any = None
        close_before_forks(self)

    @property
    def shown(self) -> str:
        """The address without its password."""
        return self._shown

    def prepare(self) -> None:
        """Makes the tables where they are missing."""
        with self._transaction("READ COMMITTED") as connection:
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (MAKING,))
            if connection.execute("SELECT to_regclass('dpgraph_ledger')").fetchone()[0] is None:
                for statement in (*TABLES, *TRIGGERS):
                    connection.execute(statement)

    @contextmanager
    def reading(self) -> Iterator[SqlRows]:
        """A transaction that sees one state of the rows."""
        with self._transaction("REPEATABLE READ, READ ONLY") as connection:
            yield SqlRows(connection.execute, "%s")

    @contextmanager
    def writing(self) -> Iterator[SqlRows]:
        """A transaction in which reading a data set's head locks it until the end."""
        with self._transaction("READ COMMITTED") as connection:
            connection.execute(f"SET LOCAL lock_timeout = '{int(1000 * store.PATIENCE)}ms'")
            connection.execute("SET LOCAL synchronous_commit = on")
            yield SqlRows(connection.execute, "%s", " FOR UPDATE")

    @contextmanager
    def making(self) -> Iterator[SqlRows]:
        """A transaction that no other one that makes a data set comes between: new names have no head to lock."""
        with self.writing() as rows:
            self._connection.execute("SELECT pg_advisory_xact_lock(%s)", (MAKING,))
            yield rows

    @contextmanager
    def _transaction(self, level: str) -> Iterator[Any]:
        with gate:
            connection = self._begun(f"BEGIN ISOLATION LEVEL {level}")
            try:
                yield connection
            except BaseException as error:
                self._undo()
                if isinstance(error, self._psycopg.Error):
                    raise self._refusal(error) from None
                raise
            try:
                connection.execute("COMMIT")
            except BaseException as error:
                self.close()
                if isinstance(error, self._psycopg.Error):
                    raise self._refusal(error, UNKNOWN) from None
                raise

    def _begun(self, begin: str) -> Any:
        """A connection with a transaction; a stale one is replaced once."""
        for fresh in (self._connection is None, True):
            try:
                if self._connection is None:
                    made = self._psycopg.connect(
                        self._url, autocommit=True, connect_timeout=max(2, int(store.PATIENCE)), prepare_threshold=None
                    )
                    self._closing = weakref.finalize(self, made.close)
                    self._connection = made
                if self._connection.info.transaction_status:  # 0 is idle; else an interrupt left it between two lines
                    self._undo()
                self._connection.execute(begin)
                return self._connection
            except self._psycopg.Error as error:
                self.close()
                if fresh:
                    raise self._refusal(error) from None
        raise AssertionError

    def _undo(self) -> None:
        """Rolls back; a connection that cannot is given up, which rolls back too."""
        try:
            self._connection.execute("ROLLBACK")
        except (self._psycopg.Error, AttributeError):
            self.close()

    def _refusal(self, error: Exception, what: str = NOTHING) -> LedgerError:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        if self._password:
            reason = reason.replace(self._password, "***")
        if isinstance(error, self._psycopg.errors.LockNotAvailable):
            reason = f"another process has held it for {store.PATIENCE:g} s"
        if isinstance(error, self._psycopg.errors.UndefinedTable):
            reason = f"the database holds no ledger; {store.to_make(self._shown)}"
        words = f"the ledger at {self._shown} cannot be used: {reason}; {what}, nothing is released"
        return LedgerError(words, charge_may_stand=what != NOTHING)

    def close(self) -> None:
        """Closes the connection."""
        with gate:
            connection, self._connection = self._connection, None
            if connection is not None:
                self._closing.detach()
                with suppress(self._psycopg.Error):
                    connection.close()


def _address(parts: dict[str, str]) -> str:
    """The address that libpq's parts stand for; what is secret among them is left out.

    >>> _address({"user": "ann", "host": "db", "port": "5433", "dbname": "privacy", "sslpassword": "x"})
    'postgresql://ann@db:5433/privacy'
    >>> _address({"host": "/run/postgresql", "dbname": "privacy"})
    'postgresql:///privacy?host=/run/postgresql'
    """
    host, user = parts.pop("host", ""), parts.pop("user", "")
    port, name = parts.pop("port", ""), parts.pop("dbname", "")
    rest = {key: value for key, value in parts.items() if not re.search("pass|key|secret|token", key)}
    if host.startswith("/"):
        rest, host = {"host": host} | ({"port": port} if port else {}) | rest, ""
        port = ""
    where = (f"{user}@" if user else "") + host + (f":{port}" if port else "")
    asked = "&".join(f"{key}={value}" for key, value in rest.items())
    return f"postgresql://{where}/{name}" + (f"?{asked}" if asked else "")
