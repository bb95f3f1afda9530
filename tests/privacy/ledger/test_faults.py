"""A ledger that is locked, full, read-only, gone or replaced: an error, and nothing is released (promise.md S9)."""

import os
import random
import shutil
import signal
import sqlite3
import threading
import time
from fractions import Fraction

import pytest

import dpgraph as dg
from dpgraph.privacy.ledger import sqlite, store
from tests.privacy.ledger.charging import NETWORK, ROWS, finished, open_, python, released, spend

FILES = ("", "-wal", "-shm")


class Forbidden:
    """A noise source that is never asked."""

    private = True

    def add(self, values, law):
        pytest.fail("drew noise though the ledger could not be charged")


def refused(budget, match):
    """A release is refused before it draws."""
    counts = dg.count(ROWS, NETWORK)
    with pytest.raises(dg.errors.LedgerError, match=match):
        dg.release(counts, dg.LaplaceMechanism("0.1"), budget=budget, noise=Forbidden())


def test_a_locked_file_is_waited_for_and_then_refused(sqlite_url, monkeypatch):
    monkeypatch.setattr(store, "PATIENCE", 0.2)
    budget = open_(sqlite_url, 1)
    budget._account.chain.store.close()
    other = sqlite3.connect(sqlite_url, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    refused(budget, "another process has held it for 0.2 s .*nothing was charged, nothing is released")
    assert budget.remaining == 1  # reading goes on
    other.execute("ROLLBACK")
    other.close()
    released(budget)
    assert budget.spent == Fraction(1, 10)


def test_a_locked_row_is_waited_for_and_then_refused(postgres_url, monkeypatch):
    import psycopg

    monkeypatch.setattr(store, "PATIENCE", 0.2)
    budget = open_(postgres_url, 1)
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT * FROM dpgraph_heads FOR UPDATE")
        refused(budget, "another process has held it for 0.2 s; nothing was charged")
    released(budget)
    assert budget.spent == Fraction(1, 10)


def remove(path):
    for end in FILES:
        if os.path.exists(path + end):
            os.unlink(path + end)


def test_a_file_that_is_gone_is_not_made_anew(sqlite_url):
    budget = open_(sqlite_url, 1)
    released(budget)
    remove(sqlite_url)
    refused(budget, "removed or replaced while it was in use")
    refused(budget, "there is no ledger at")
    assert not os.path.exists(sqlite_url)


def test_a_file_that_was_replaced_by_another_ledger_is_refused(sqlite_url, tmp_path):
    budget, other = open_(sqlite_url, 1), str(tmp_path / "other.sqlite")
    open_(other, 1)._account.chain.store.close()
    remove(sqlite_url)
    shutil.move(other, sqlite_url)
    refused(budget, "removed or replaced while it was in use")
    refused(budget, "replaced by another ledger")
    assert open_(sqlite_url).spent == 0


@pytest.mark.parametrize("gone", ["", "-wal"], ids=["the file", "its log"])
def test_a_charge_to_a_file_that_goes_meanwhile_is_an_error(sqlite_url, monkeypatch, gone):
    """The row is written, to a file that no path leads to any more: nothing may be released for it."""
    budget = open_(sqlite_url, 1)
    real = store.Rows.append

    def append(rows, row):
        real(rows, row)
        os.unlink(sqlite_url + gone)

    monkeypatch.setattr(store.Rows, "append", append)
    refused(budget, "removed or replaced while it was in use; nothing is released")


@pytest.mark.parametrize("when", ["opened", "charged"])
def test_the_log_of_a_linked_file_is_watched_too(sqlite_url, tmp_path, monkeypatch, when):
    """SQLite keeps the log beside the file, not beside the symbolic link; a charge in a log that is gone is lost."""
    open_(sqlite_url, 1).ledger.close()
    (tmp_path / "elsewhere").mkdir()
    link = str(tmp_path / "elsewhere" / "link.sqlite")
    os.symlink(sqlite_url, link)
    budget = open_(link)
    released(budget)
    assert budget.remaining == open_(sqlite_url).remaining == Fraction(9, 10)
    real = store.Rows.append

    def append(rows, row):
        real(rows, row)
        os.unlink(f"{sqlite_url}-wal")

    if when == "opened":
        os.unlink(f"{sqlite_url}-wal")
    else:
        monkeypatch.setattr(store.Rows, "append", append)
    refused(budget, "its log beside it, was removed or replaced")


@pytest.mark.parametrize("when", ["before it is opened", "between two charges", "within a charge"])
def test_a_file_with_two_names_is_refused(sqlite_url, tmp_path, monkeypatch, when):
    """Each name would have a log of its own, and the epsilon be spent once in each."""
    budget, other = open_(sqlite_url, 1), str(tmp_path / "other.sqlite")
    real = store.Rows.append

    def append(rows, row):
        real(rows, row)
        os.link(sqlite_url, other)

    if when == "within a charge":
        monkeypatch.setattr(store.Rows, "append", append)
    else:
        if when == "before it is opened":
            budget.ledger.close()
        os.link(sqlite_url, other)
        with pytest.raises(dg.errors.LedgerError, match="has 2 names"):
            open_(other)
    refused(budget, r"has 2 names \(hard links\).*nothing is released")
    monkeypatch.undo()
    os.unlink(other)
    released(budget)


def test_a_file_that_cannot_be_written_is_refused(sqlite_url, monkeypatch):
    """Tests may run as root, whom no mode of a file stops; SQLite itself refuses, as on a disk that is read-only."""
    open_(sqlite_url, 1).charge(spend("0.5"))
    real = sqlite3.connect
    monkeypatch.setattr(sqlite.sqlite3, "connect", lambda place, **how: real(place.replace("=rw", "=ro"), **how))
    budget = open_(sqlite_url)
    assert budget.remaining == Fraction(1, 2)
    refused(budget, "readonly database; nothing was charged, nothing is released")
    monkeypatch.undo()
    assert open_(sqlite_url).remaining == Fraction(1, 2)


FULL = """
import resource, signal, sys
import dpgraph as dg
from tests.privacy.ledger.charging import open_, spend
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
budget = open_(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
charged = 0
try:
    for _ in range(10_000):
        budget.charge(spend("0.001"))
        charged += 1
except dg.errors.LedgerError as error:
    print(charged, error)
"""


@pytest.mark.parametrize("room", [100_000, 200_000])
def test_a_full_disk_is_an_error_and_loses_nothing(sqlite_url, room):
    """Files may not grow beyond a limit: what was charged until then is there, and no more than one row beyond."""
    open_(sqlite_url, 100)
    charged, _, words = finished(python(FULL, sqlite_url, str(room))).partition(" ")
    assert "nothing is released" in words
    rows = open_(sqlite_url).ledger.rows()
    assert int(charged) > 0
    assert len(rows) - 1 in (int(charged), int(charged) + 1)
    assert open_(sqlite_url).ledger.verify().ok


def test_a_commit_whose_outcome_is_not_known_releases_nothing(sqlite_url):
    budget = open_(sqlite_url, 1)
    budget.charge(spend("0.1"))
    place = budget._account.chain.store

    class Failing:
        def __init__(self, real):
            self.real = real

        def execute(self, text, *values):
            done = self.real.execute(text, *values)
            if text == "COMMIT":
                raise sqlite3.OperationalError("disk I/O error")
            return done

        def __getattr__(self, name):
            return getattr(self.real, name)

    place._connection = Failing(place._connection)
    refused(budget, "disk I/O error; whether the entry was written is not known, nothing is released")
    assert open_(sqlite_url).spent == Fraction(2, 10)  # the charge stands


def test_a_server_that_restarts_is_reached_again(server, postgres_url):
    budget = open_(postgres_url, 1)
    released(budget)
    server.stop()
    refused(budget, "cannot be used")
    server.start()
    released(budget)
    assert budget.spent == Fraction(2, 10)
    assert budget.ledger.verify().ok


def test_a_connection_that_breaks_within_a_charge_releases_nothing(postgres_url, monkeypatch):
    import psycopg

    budget, real = open_(postgres_url, 1), store.Rows.append

    def append(rows, row):
        real(rows, row)
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )

    monkeypatch.setattr(store.Rows, "append", append)
    refused(budget, "cannot be used: .*nothing is released")
    monkeypatch.undo()
    assert budget.spent == 0


@pytest.mark.parametrize("failure", [RuntimeError, KeyboardInterrupt, MemoryError])
def test_a_failing_draw_stays_charged(url, failure):
    class Failing:
        private = True

        def add(self, values, law):
            raise failure

    budget = open_(url, 1)
    with pytest.raises(failure):
        dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism("0.4"), budget=budget, noise=Failing())
    assert open_(url).spent == Fraction(2, 5)


def test_an_interrupt_while_a_row_is_written_charges_nothing_and_frees_the_lock(url, monkeypatch):
    budget, real = open_(url, 1), store.Rows.append

    def append(rows, row):
        real(rows, row)
        raise KeyboardInterrupt

    monkeypatch.setattr(store.Rows, "append", append)
    with pytest.raises(KeyboardInterrupt):
        released(budget)
    monkeypatch.undo()
    assert open_(url).spent == 0
    released(open_(url))


SPENT = "import sys; from tests.privacy.ledger.charging import open_; print(open_(sys.argv[1]).spent)"


def test_a_commit_waits_until_it_is_on_disk(sqlite_url):
    """Rejects ``synchronous = OFF`` and ``NORMAL``: a charge would be lost with the machine's power."""
    budget = open_(sqlite_url, 1)
    connection = budget._account.chain.store._connection
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_row_is_on_disk_before_the_first_draw(url):
    budget, seen = open_(url, 1), []

    class Watching:
        private = True

        def add(self, values, law):
            seen.append(finished(python(SPENT, url)))
            return values

    dg.release(dg.count(ROWS, NETWORK), dg.LaplaceMechanism("0.4"), budget=budget, noise=Watching())
    assert seen[0] == "2/5\n"


#: For each line it reads, a ledger and a file, a process of its own that releases until it is killed. The process says
#: in the file when it goes in and when a value is out; its number is printed, and a line when it is dead. Forked, not
#: started: most of half a second each went into imports.
RELEASER = """
import os, sys
import dpgraph as dg
from tests.privacy.ledger.charging import NETWORK, ROWS, open_, released

def release_until_killed(url, path):
    out = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    budget, counts = open_(url), dg.count(ROWS, NETWORK)
    while True:
        os.write(out, b"in\\n")
        made = dg.release(counts, dg.LaplaceMechanism("0.001"), budget=budget)
        os.write(out, f"out {made.scope.receipts[0]}\\n".encode())

released(dg.Budget(1))
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            release_until_killed(*line.rstrip("\\n").split("\\t"))
        finally:
            os._exit(70)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def killed(releaser, url, folder, rounds, sign, seed):
    """Kills releasing processes at random moments; returns how many were inside a release then.

    Every value that left must have its row, and every row but the last of each process a value.
    """
    rng, inside = random.Random(seed), 0
    told = folder / "told"
    for _ in range(rounds):
        told.write_bytes(b"")
        before = len(open_(url).ledger.rows())
        print(url, told, sep="\t", file=releaser.stdin, flush=True)
        process = int(releaser.stdout.readline())
        deadline = time.monotonic() + 60
        while b"in\n" not in told.read_bytes():
            assert time.monotonic() < deadline, "nothing is released"
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.03))
        os.kill(process, sign)
        assert int(releaser.stdout.readline()) == -sign
        lines = told.read_text().split("\n")
        ledger = open_(url).ledger
        rows = ledger.rows()[before:]
        values = [line.removeprefix("out ") for line in lines if line.startswith("out ")]
        digests = [row.digest for row in rows]
        assert digests[: len(values)] == values, "a value without its charge"
        assert len(digests) - len(values) <= 1
        inside += lines.count("in") > len(values)
        assert ledger.verify().ok
    return inside


@pytest.fixture(scope="module")
def releaser():
    with python(RELEASER, stderr=None) as process:
        yield process
    assert process.returncode == 0


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGTERM])
def test_no_value_without_its_charge_after_a_kill(releaser, sqlite_url, tmp_path, sign):
    open_(sqlite_url, 1000)
    assert killed(releaser, sqlite_url, tmp_path, 3, sign, 1) >= 1


@pytest.mark.proof
@pytest.mark.parametrize(("sign", "wanted"), [(signal.SIGKILL, 200), (signal.SIGTERM, 50)])
def test_no_value_without_its_charge_after_two_hundred_kills_that_hit(releaser, url, tmp_path, sign, wanted):
    open_(url, 10**6)
    hit, seed = 0, 0
    while hit < wanted:
        seed += 1
        assert seed < 100, "too few processes were inside a release"
        hit += killed(releaser, url, tmp_path, 10, sign, seed)


def test_a_killed_charge_frees_the_ledger(releaser, sqlite_url, tmp_path):
    open_(sqlite_url, 1000)
    killed(releaser, sqlite_url, tmp_path, 1, signal.SIGKILL, 3)
    started = time.monotonic()
    released(open_(sqlite_url))
    assert time.monotonic() - started < store.PATIENCE


def test_threads_wait_for_a_charge_that_is_refused(sqlite_url):
    """A refusal gives the transaction back: the next thread is not held up."""
    budget = open_(sqlite_url, "0.1")
    for _ in range(3):
        with pytest.raises(dg.errors.BudgetExceededError):
            budget.charge(spend(1))
    done = threading.Thread(target=budget.charge, args=(spend("0.1"),))
    done.start()
    done.join(store.PATIENCE)
    assert budget.remaining == 0


@pytest.mark.proof
def test_a_transaction_that_an_interrupt_left_open_is_undone(url):
    """Between two lines of Python no clean-up is certain: the next charge begins with a clean connection."""
    budget = open_(url, 1)
    budget.charge(spend("0.1"))
    connection = budget._account.chain.store._connection
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE left_open (x INTEGER)")
    budget.charge(spend("0.2"))
    assert budget.spent == Fraction(3, 10)
    assert budget.ledger.verify().ok
    connection.execute("CREATE TABLE left_open (x INTEGER)")  # there is none: what was left open is not committed
