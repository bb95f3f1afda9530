"""Rows that were edited, removed, reordered or put back are noticed (promise.md S16)."""

import json
import shutil
import sqlite3
from dataclasses import replace
from fractions import Fraction

import pytest

import dpgraph as dg
from dpgraph.privacy.ledger import store
from dpgraph.privacy.ledger.sqlite import TRIGGERS
from dpgraph.privacy.ledger.store import COLUMNS, LedgerRow, row_of, sealed
from tests.privacy.ledger.charging import DOMAIN, open_, spend

FILES = ("", "-wal", "-shm")


def names(statements):
    return [text.split()[2] for text in statements if text.startswith("CREATE TRIGGER")]


def edit(path, *statements):
    """Somebody with the file in hand, who takes the triggers away first."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        for name in names(TRIGGERS):
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(*statement) if isinstance(statement, tuple) else connection.execute(statement)
    connection.close()


def with_history(url, epsilon=1):
    """A ledger with some of everything."""
    budget = open_(url, epsilon, delta="1e-6")
    budget.ledger.allow("ann", epsilon="0.3", delta="1e-7")
    budget.charge(spend("0.1"))
    budget.for_("ann").charge(spend("0.1", "1e-8"))
    groups = budget.parallel(DOMAIN, "region", epsilon="0.2")
    groups["north"].charge(spend("0.05"))
    budget.for_("ann").charge(spend("0.2"))
    groups["north"].parallel(DOMAIN, "sex", epsilon="0.05")["F"].charge(spend("0.05"))
    return budget


def test_an_untouched_ledger_is_verified(url):
    budget = with_history(url)
    found = budget.ledger.verify(expected_head=budget.ledger.head)
    assert found.ok, found
    assert (found.rows, found.head, found.spent.epsilon) == (9, budget.ledger.head, Fraction(6, 10))
    assert "every digest and every total" in str(found)


@pytest.mark.parametrize("text", ["UPDATE dpgraph_ledger SET who = 'x'", "DELETE FROM dpgraph_ledger"])
@pytest.mark.parametrize("table", ["dpgraph_ledger", "dpgraph_heads"])
def test_the_database_refuses_changes(url, text, table):
    open_(url, 1).charge(spend("0.5"))
    text = text.replace("dpgraph_ledger", table).replace("who = 'x'", "dataset = 'x'")
    if url.startswith("postgresql"):
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            with pytest.raises(psycopg.Error, match="never changed"):
                connection.execute(text)
            with pytest.raises(psycopg.Error, match="never changed"):
                connection.execute(f"TRUNCATE {table}")
    else:
        with sqlite3.connect(url) as connection, pytest.raises(sqlite3.Error, match="never changed"):
            connection.execute(text)
        connection.close()
    assert open_(url).remaining == Fraction(1, 2)


@pytest.mark.parametrize("number", [0, 1, 4, 8])
@pytest.mark.parametrize("column", [name for name in COLUMNS if name not in ("dataset", "number")])
def test_an_edited_row_is_noticed_by_open_and_by_verify(tmp_path, number, column):
    path = tmp_path / "ledger.sqlite"
    budget = with_history(path)
    row = budget.ledger.rows()[number]
    was = getattr(row, column)
    now = {"kind": "open" if was == "charge" else "charge", "spent": '{"delta":"0","epsilon":"9","rho":"0"}'}
    edit(path, (f"UPDATE dpgraph_ledger SET {column} = ? WHERE number = ?", (now.get(column, was + " "), number)))
    with pytest.raises(dg.errors.LedgerError, match=r"edited|removed|not whole"):
        open_(path)
    assert not budget.ledger.verify().ok


EDITS = {
    "removed": ["DELETE FROM dpgraph_ledger WHERE number = 3"],
    "removed and renumbered": [
        "DELETE FROM dpgraph_ledger WHERE number = 3",
        *(f"UPDATE dpgraph_ledger SET number = {n - 1} WHERE number = {n}" for n in range(4, 9)),
        "UPDATE dpgraph_heads SET number = 7",
    ],
    "reordered": [
        "UPDATE dpgraph_ledger SET number = 99 WHERE number = 2",
        "UPDATE dpgraph_ledger SET number = 2 WHERE number = 3",
        "UPDATE dpgraph_ledger SET number = 3 WHERE number = 99",
    ],
    "cut off, with the head kept": ["DELETE FROM dpgraph_ledger WHERE number > 3"],
    "the first removed": ["DELETE FROM dpgraph_ledger WHERE number = 0"],
    "the head removed": ["DELETE FROM dpgraph_heads"],
    "the head put back": [
        "UPDATE dpgraph_heads SET number = 3, digest = (SELECT digest FROM dpgraph_ledger WHERE number = 3)"
    ],
}


@pytest.mark.parametrize("statements", EDITS.values(), ids=EDITS.keys())
def test_rows_that_were_removed_or_moved_are_noticed_by_open(tmp_path, statements):
    path = tmp_path / "ledger.sqlite"
    with_history(path)
    edit(path, *statements)
    with pytest.raises(dg.errors.LedgerError, match=r"edited|removed|reordered|entries end at"):
        open_(path)


@pytest.mark.parametrize("statements", EDITS.values(), ids=EDITS.keys())
def test_rows_that_were_removed_or_moved_are_noticed_by_verify_or_the_next_charge(tmp_path, statements):
    path = tmp_path / "ledger.sqlite"
    budget = with_history(path)
    edit(path, *statements)
    if "number = 0" in statements[0]:
        with pytest.raises(dg.errors.LedgerError, match="does not hold 'survey' any more"):
            budget.ledger.verify()
    else:
        assert not budget.ledger.verify().ok


@pytest.mark.parametrize("number", [0, 3])
def test_a_row_written_anew_with_a_digest_of_its_own_is_noticed(tmp_path, number):
    """Every digest is that of its row; the next row still has the one that was written."""
    path = tmp_path / "ledger.sqlite"
    budget = with_history(path)
    row = budget.ledger.rows()[number]
    changed = sealed(replace(row, purpose="another"), row.previous)
    words = (changed.purpose, changed.digest, number)
    edit(path, ("UPDATE dpgraph_ledger SET purpose = ?, digest = ? WHERE number = ?", words))
    with pytest.raises(dg.errors.LedgerError, match="does not follow the entry before it"):
        open_(path)
    assert "does not follow" in str(budget.ledger.verify())


@pytest.mark.parametrize("kept", ["the head put back", "the first removed", "cut off, with the head kept"])
def test_an_open_budget_does_not_charge_rows_that_were_taken_back(tmp_path, kept):
    path = tmp_path / "ledger.sqlite"
    budget = with_history(path)
    edit(path, *EDITS[kept])
    with pytest.raises(dg.errors.LedgerError, match="nothing is released"):
        budget.charge(spend("0.1"))


def test_cutting_off_rows_and_head_is_noticed_by_a_head_kept_elsewhere(tmp_path):
    path = tmp_path / "ledger.sqlite"
    budget = with_history(path)
    kept = budget.ledger.head
    budget._account.chain.store.close()
    edit(path, "DELETE FROM dpgraph_ledger WHERE number > 3", *EDITS["the head put back"])
    again = open_(path)
    assert again.ledger.verify().ok  # alone, the chain cannot tell
    assert "kept elsewhere" in str(again.ledger.verify(expected_head=kept))
    with pytest.raises(dg.errors.LedgerError, match="entries were removed or replaced"):
        budget.charge(spend("0.1"))


def test_a_head_that_was_kept_is_good_after_later_charges(url):
    budget = with_history(url)
    kept = budget.ledger.head
    budget.charge(spend("0.1"))
    assert budget.ledger.head != kept
    assert budget.ledger.verify(expected_head=kept).ok
    assert not budget.ledger.verify(expected_head="0" * 64).ok


def test_an_older_copy_put_in_place_is_noticed_by_who_saw_the_newer(tmp_path):
    path = tmp_path / "ledger.sqlite"
    budget = open_(path, 1)
    budget._account.chain.store.close()
    shutil.copy(path, tmp_path / "copy")
    budget.charge(spend("0.9"))
    budget._account.chain.store.close()
    shutil.copy(tmp_path / "copy", path)  # the same file, older content
    with pytest.raises(dg.errors.LedgerError, match="entries were removed or replaced"):
        budget.charge(spend("0.9"))


def forge(path, change):
    """Rows written anew, every digest computed again: what a forger with the source at hand does."""
    with sqlite3.connect(path) as connection:
        rows = [row_of(one) for one in connection.execute(f"SELECT {', '.join(COLUMNS)} FROM dpgraph_ledger")]
    connection.close()
    made: list[LedgerRow] = []
    for row in sorted(change(sorted(rows, key=lambda row: row.number)), key=lambda row: row.number):
        made.append(sealed(row, made[-1].digest if made else ""))
    signs = ", ".join("?" * len(COLUMNS))
    edit(
        path,
        "DELETE FROM dpgraph_ledger",
        *((f"INSERT INTO dpgraph_ledger VALUES ({signs})", [getattr(row, name) for name in COLUMNS]) for row in made),
        ("UPDATE dpgraph_heads SET number = ?, digest = ?", (made[-1].number, made[-1].digest)),
    )


def edited(number, **columns):
    return lambda rows: [replace(row, **columns) if row.number == number else row for row in rows]


def text(epsilon, delta="0"):
    return json.dumps({"delta": delta, "epsilon": epsilon, "rho": "0"}, separators=(",", ":"))


def event(epsilon):
    return f'{{"delta":"0","epsilon":"{epsilon}","measurements":[],"mechanism":"test"}}'


FORGED = {
    "a smaller total": (edited(2, spent=text("1/100")), "totals that are not those"),
    "a smaller total at the end": (edited(6, spent=text("0")), "totals that are not those"),
    "a smaller event": (edited(2, event=event("1/100")), "totals that are not those"),
    "a smaller total of the allowance": (edited(3, allowed=text("0")), "totals of the allowance"),
    "an allowance passed by": (edited(6, allowance="", allowed=""), "not charged to the allowance"),
    "another unit": (edited(2, unit='{"neighbours":"add-remove","rows_per_person":1}'), "another unit"),
    "another name": (edited(2, mechanism="harmless"), "another mechanism"),
    "an account from nowhere": (edited(5, account="9.9"), "an account that no entry made"),
    "a second beginning": (edited(2, kind="open", terms="{}"), "makes the budget anew"),
    "an allowance that forgets": (edited(1, allowed=text("-1")), "changes totals"),
    "a smaller limit": (edited(0, terms=None), "spends more than there was"),
}


@pytest.mark.parametrize(("change", "message"), FORGED.values(), ids=FORGED.keys())
def test_totals_are_computed_again_where_every_digest_is_right(tmp_path, change, message):
    path = tmp_path / "ledger.sqlite"
    budget = with_history(path)
    first = budget.ledger.rows()[0]
    if message == "spends more than there was":
        change = edited(0, terms=first.terms.replace('"epsilon":"1"', '"epsilon":"1/10"'))
    budget._account.chain.store.close()
    forge(path, change)
    again = open_(path)  # the chain alone is whole
    assert message in str(again.ledger.verify())


NUMBERS = ["1e400000", "1e-400000", "1/0", "-1", 1, None]


@pytest.mark.parametrize("number", [*NUMBERS, "1" * 5000], ids=[*map(str, NUMBERS), "many digits"])
@pytest.mark.parametrize(("column", "place"), [("terms", 0), ("spent", 6), ("allowed", 6), ("terms", 4)])
def test_a_number_of_a_forged_row_is_refused_in_a_few_words(tmp_path, column, place, number):
    """Rejects a number computed before its size is known: a limit of "1e30000000" took 51 s."""
    path = tmp_path / "ledger.sqlite"
    with_history(path)._account.chain.store.close()

    def change(rows):
        plain = json.loads(getattr(rows[place], column))
        plain.get("limit", plain.get("share", plain))["epsilon"] = number
        return [replace(row, **{column: json.dumps(plain)}) if row.number == place else row for row in rows]

    forge(path, change)
    if place == 4:  # groups, which nothing but a check reads here
        found = str(open_(path).ledger.verify())
    else:
        with pytest.raises(dg.errors.LedgerError) as caught:
            _ = open_(path).for_("ann").remaining
        found = str(caught.value)
    assert "the terms in an entry of the ledger are not whole (ReleaseError)" in found
    assert len(found) < 500


def test_a_forgery_that_changes_nothing_is_verified(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with_history(path)._account.chain.store.close()
    forge(path, edited(2, purpose="another"))
    assert open_(path).ledger.verify().ok


def test_a_long_ledger_is_opened_by_its_newest_rows_and_verified_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(store, "CHECKED", 3)
    path = tmp_path / "ledger.sqlite"
    budget = with_history(path)
    assert open_(path).remaining == Fraction(4, 10)
    edit(path, "UPDATE dpgraph_ledger SET purpose = 'x' WHERE number = 2")
    assert not budget.ledger.verify().ok
    edit_again = sqlite3.connect(path)
    edit_again.execute("UPDATE dpgraph_ledger SET purpose = 'x' WHERE number = 6")
    edit_again.commit()
    edit_again.close()
    with pytest.raises(dg.errors.LedgerError, match="entry 6 does not have the digest"):
        open_(path)


def test_a_file_of_another_kind_is_no_ledger(tmp_path):
    text, other = tmp_path / "text", tmp_path / "other.sqlite"
    text.write_text("not a database, but long enough to be taken for a file with a header" * 9)
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (a)")
    connection.close()
    for epsilon in (None, 1):
        with pytest.raises(dg.errors.LedgerError, match="not a database"):
            open_(text, epsilon)
        with pytest.raises(dg.errors.LedgerError, match="is not a dpgraph ledger"):
            open_(other, epsilon)
    with sqlite3.connect(other) as connection:
        assert [name for (name,) in connection.execute("SELECT name FROM sqlite_master")] == ["mine"]
    connection.close()
