"""A ledger in a PostgreSQL database, for a team: a charge locks the head of its data set."""

from __future__ import annotations

import re
from typing import Any

from dpgraph.privacy.errors import LedgerError
from dpgraph.privacy.ledger import store
from dpgraph.privacy.ledger.store import TABLES

#: The number of the advisory lock under which tables and data sets are made ("dpgl").
MAKING = 0x6470676C
TRIGGERS = (
    "CREATE FUNCTION dpgraph_refuse() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'rows of a ledger are never changed'; END $$",
    "CREATE TRIGGER dpgraph_no_change BEFORE UPDATE OR DELETE OR TRUNCATE ON dpgraph_ledger "
    "FOR EACH STATEMENT EXECUTE FUNCTION dpgraph_refuse()",
    "CREATE TRIGGER dpgraph_no_undo BEFORE UPDATE ON dpgraph_heads FOR EACH ROW "
    "WHEN (NEW.number <= OLD.number) EXECUTE FUNCTION dpgraph_refuse()",
    "CREATE TRIGGER dpgraph_no_loss BEFORE DELETE OR TRUNCATE ON dpgraph_heads "
    "FOR EACH STATEMENT EXECUTE FUNCTION dpgraph_refuse()",
)


class Postgres:
    """PostgreSQL's dialect, and one address: libpq's, completed by libpq from the environment and ``~/.pgpass``."""

    sign, lock = "%s", " FOR UPDATE"
    read = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"
    write = "BEGIN ISOLATION LEVEL READ COMMITTED"
    may_be_stale = True

    def __init__(self, url: str) -> None:
        try:
            import psycopg
            import psycopg.conninfo
        except ImportError:
            raise LedgerError("a ledger in PostgreSQL needs psycopg: pip install 'dpgraph[team]'") from None
        self._psycopg, self.error = psycopg, psycopg.Error
        try:
            parts = psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.Error:
            raise LedgerError("the address of the ledger is not one that PostgreSQL's libpq reads") from None
        self._url, self._password = url, str(parts.pop("password", None) or "")
        self.shown = _address({name: str(value) for name, value in parts.items()})

    def connect(self) -> Any:
        """A new connection."""
        patience = max(2, int(store.PATIENCE))
        return self._psycopg.connect(self._url, autocommit=True, connect_timeout=patience, prepare_threshold=None)

    def is_open(self, connection: Any) -> bool:
        """True if a connection is within a transaction, or not idle for another reason."""
        return bool(connection.info.transaction_status)

    def check(self, *, written: bool = False) -> None:
        """Nothing: a connection leads to one server."""

    def prepare(self, connection: Any) -> None:
        """Makes the tables where they are missing."""
        self.making(connection)
        if connection.execute("SELECT to_regclass('dpgraph_ledger')").fetchone()[0] is None:
            for statement in (*TABLES, *TRIGGERS):
                connection.execute(statement)

    def begun(self, connection: Any, begin: str) -> None:
        """Limits how long a charge waits, and makes it wait for the disk."""
        if begin == self.write:
            connection.execute(f"SET LOCAL lock_timeout = '{int(1000 * store.PATIENCE)}ms'")
            connection.execute("SET LOCAL synchronous_commit = on")

    def making(self, connection: Any) -> None:
        """Takes the lock under which tables and data sets are made, until the end of the transaction."""
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (MAKING,))

    def reason(self, error: Exception) -> str:
        """The words of an error without the password."""
        if isinstance(error, self._psycopg.errors.LockNotAvailable):
            return store.held()
        if isinstance(error, self._psycopg.errors.UndefinedTable):
            return f"the database holds no ledger; {store.to_make(self.shown)}"
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        return reason.replace(self._password, "***") if self._password else reason


def _address(parts: dict[str, str]) -> str:
    host, user = parts.pop("host", ""), parts.pop("user", "")
    port, name = parts.pop("port", ""), parts.pop("dbname", "")
    rest = {key: value for key, value in parts.items() if not re.search("pass|key|secret|token", key)}
    if host.startswith("/"):
        rest, host = {"host": host} | ({"port": port} if port else {}) | rest, ""
        port = ""
    where = (f"{user}@" if user else "") + host + (f":{port}" if port else "")
    asked = "&".join(f"{key}={value}" for key, value in rest.items())
    return f"postgresql://{where}/{name}" + (f"?{asked}" if asked else "")
