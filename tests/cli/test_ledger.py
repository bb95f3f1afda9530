"""The commands of a ledger, end to end, and what they refuse."""

import json
import sqlite3

import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from tests.cli.commands import run

NETWORK = dg.Network.of({"word": ["no", "yes"]}, {})


@pytest.fixture(autouse=True)
def _desk(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def create(*more, dataset="adult", epsilon="1"):
    return run("ledger", "create", "l.sqlite", "--dataset", dataset, "--epsilon", epsilon, *more)


def release(epsilon="0.25", **settings):
    budget = dg.Budget.open("l.sqlite", dataset="adult", **settings)
    counts = dg.count(pd.DataFrame({"word": ["no", "yes"]}), NETWORK)
    made = dg.release(counts, dg.LaplaceMechanism(epsilon), budget=budget)
    budget.ledger.close()
    return made


def test_a_ledger_is_made_spent_shown_and_verified():
    head = create("--delta", "1e-6", "--neighbours", "add-remove", "--source", "May", "--who", "board").stdout.strip()
    limit = ("--who", "ann", "--epsilon", "0.5", "--expires", "2999-12-31")
    run("ledger", "allow", "l.sqlite", "--dataset", "adult", *limit)
    made = release(who="ann", purpose="a table")
    dg.save(made, "r.json")
    shown = run("ledger", "show", "l.sqlite").stdout
    assert "adult: 0.25 of epsilon 1 and delta 1e-06 spent, 0.75 left, basic" in shown
    assert "protects add-remove, 1 row a person; 3 entries; source May" in shown
    assert "ann: 0.25 of epsilon 0.5, until 3000-01-01" in shown
    (one,) = json.loads(run("ledger", "show", "l.sqlite", "--json").stdout)
    assert (one["spent"], one["allowances"]["ann"]["spent"], one["head"]) == ("0.25", "0.25", made.scope.receipts[0])
    lines = run("ledger", "history", "l.sqlite").stdout.splitlines()
    assert [line.split()[2] for line in lines[1:]] == ["open", "allow", "charge"]
    assert "LaplaceMechanism" in lines[-1]
    assert "a table" in lines[-1]
    assert max(map(len, lines)) <= 100
    rows = json.loads(run("ledger", "history", "l.sqlite", "--json").stdout)
    assert rows[2]["event"]["epsilon"] == "1/4"
    checked = run("ledger", "verify", "l.sqlite", "--head", head, "--release", "r.json")
    assert "r.json: the entries that it names paid for it" in checked.stderr.replace("\n", " ")
    assert "every digest and every total is as it must be" in checked.stderr
    exported = run("ledger", "export", "l.sqlite").stdout.splitlines()
    run("ledger", "export", "l.sqlite", "--out", "rows.jsonl")
    with open("rows.jsonl") as file:
        assert file.read().splitlines() == exported
    assert json.loads(exported[0])["digest"] == head


def test_a_long_purpose_keeps_the_history_within_a_hundred_columns():
    create()
    release(who="somebody with a long name", purpose="word " * 50)
    lines = run("ledger", "history", "l.sqlite").stdout.splitlines()
    assert 90 < max(map(len, lines)) <= 100


def test_making_it_again_is_free_and_making_it_otherwise_refused():
    head = create().stdout
    assert create().stdout == head
    words = ("ledger", "create", "l.sqlite", "--dataset", "adult", "--epsilon", "2")
    assert "was made with epsilon 1, and 2 was asked for" in run(*words, code=1).stderr


def test_an_edited_ledger_is_listed_fault_by_fault():
    create()
    release()
    with sqlite3.connect("l.sqlite") as connection:
        connection.execute("DROP TRIGGER dpgraph_no_update")
        connection.execute("UPDATE dpgraph_ledger SET spent = replace(spent, '1/4', '1/8') WHERE number = 1")
    connection.close()
    said = run("ledger", "verify", "l.sqlite", code=1).stderr
    assert "entry 1 does not have the digest it was written with" in said
    assert "entry 1 has totals that are not those of the events" in said
    assert "edited" in run("ledger", "show", "l.sqlite", code=1).stderr


def test_each_data_set_of_a_faulty_ledger_has_a_line():
    create()
    create(dataset="census")
    with sqlite3.connect("l.sqlite") as connection:
        connection.execute("DROP TRIGGER dpgraph_no_update")
        connection.execute("UPDATE dpgraph_ledger SET who = 'eve'")
    connection.close()
    lines = run("ledger", "verify", "l.sqlite", code=1).stderr.splitlines()
    assert [line.split(",")[0] for line in lines] == ["Error: adult: 1 entry", "Error: census: 1 entry"]


def test_what_verify_finds_is_json_on_demand():
    create()
    found = json.loads(run("ledger", "verify", "l.sqlite", "--json").stdout)
    assert (found[0]["rows"], found[0]["problems"]) == (1, [])
    result = CliRunner().invoke(main, ["ledger", "verify", "l.sqlite", "--json", "--head", "0" * 64])
    assert result.exit_code == 1
    assert "kept elsewhere" in json.loads(result.stdout)[0]["problems"][0]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("show", "none.sqlite"), 1, "there is no ledger at"),
        (("show", "l.sqlite", "--dataset", "none"), 2, "has no data set 'none'"),
        (("history", "l.sqlite"), 2, "has 2 data sets; say which"),
        (("create", "l.sqlite", "--dataset", "x", "--epsilon", "0"), 1, "epsilon must be"),
        (("create", "l.sqlite", "--dataset", "x", "--epsilon", "1", "--accounting", "guess"), 1, "accounting"),
        (("allow", "l.sqlite", "--dataset", "x", "--who", "ann", "--epsilon", "1"), 1, "has no data set 'x'"),
        (("verify", "l.sqlite", "--release", "none.json", "--dataset", "adult"), 1, "none.json"),
    ],
)
def test_what_is_refused_changes_nothing(words, code, message):
    create()
    create(dataset="census")
    assert message in run("ledger", *words, code=code).stderr


def test_what_a_terminal_would_obey_is_not_printed():
    create()
    with sqlite3.connect("l.sqlite") as connection:
        connection.execute("INSERT INTO dpgraph_heads VALUES (?, 0, '')", ("\x1b[2Jcensus",))
    connection.close()
    assert "\x1b" not in run("ledger", "verify", "l.sqlite", code=1).stderr
