"""``dpgraph learn``: what it refuses before rows are read or anything is charged."""

import os
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main

DOMAIN = """
[variables]
sex = ["F", "M"]
age = { bins = [17, 25, 50.5, 90], missing = true }
rate = [0, 1.5]
"""
WORDS = ["learn", "rows.csv", "--domain", "domain.toml", "--epsilon", "1"]


@pytest.fixture(autouse=True)
def domain(desk):
    (desk / "domain.toml").write_text(DOMAIN)
    (desk / "other").mkdir()
    (desk / "other" / "away.json").symlink_to(desk / "x.json")


@pytest.fixture(name="ledger")
def _ledger(desk):
    dg.Budget.open("spent.sqlite", dataset="rows", epsilon=3)
    return ["--ledger", "spent.sqlite", "--dataset", "rows"]


def charges():
    """Of every table of the ledger's file, its rows."""
    with closing(sqlite3.connect("spent.sqlite")) as file:
        tables = [name for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: file.execute(f'SELECT * FROM "{name}"').fetchall() for name in tables}


@pytest.mark.parametrize("end", [["--dry-run"], ["--out", "net.json"]])
def test_required_edges_that_deadlock_with_the_order_are_refused(end, ledger):
    edges = ["--required", "age->rate", "--required", "rate->sex", "--order", "sex,age"]
    before = charges()
    told = CliRunner().invoke(main, [*WORDS, *edges, *ledger, *end])
    assert told.exit_code == 1
    assert "[NetworkError]" in told.stderr
    assert "contradict one another" in told.stderr
    assert not os.path.exists("net.json")
    assert charges() == before


@pytest.mark.parametrize(
    "paths", ["x.json x.json", "x.json other/../x.json", "other/away.json x.json", "x.json other/away.json"]
)
@pytest.mark.parametrize("options", ["--out --release", "--out --model", "--release --model"])
def test_two_files_that_are_one_are_refused_before_a_row_is_read(paths, options, ledger):
    (one, other), (first, second) = options.split(), paths.split()
    out = [] if one == "--out" else ["--out", "net.json"]
    before = charges()
    told = CliRunner().invoke(main, ["learn", "none.csv", *WORDS[2:], *ledger, *out, one, first, other, second])
    assert told.exit_code == 2
    assert f"{one} and {other} are one file" in told.stderr.replace("\n", " ")
    assert charges() == before
    assert not os.path.exists("x.json")


def test_files_of_their_own_are_all_written(run):
    run(*WORDS, "--out", "made.toml", "--release", "release.json", "--model", "model.json")
    made = dg.read_network("made.toml")
    again = dg.choose_network(dg.load("release.json"))
    assert dg.load("model.json").network == again.probabilities.network
    assert again.network == made


def test_what_gaussian_noise_paid_for_is_all_written(run):
    """In the residual basis the tables that were measured are not those of the graph."""
    settings = ["--delta", "1e-6", "--neighbours", "add-remove"]
    run(*WORDS, *settings, "--out", "made.toml", "--release", "release.json", "--model", "model.json")
    made, release = dg.read_network("made.toml"), dg.load("release.json")
    assert dg.load("model.json").network.domain == made.domain
    assert release.unit == dg.PrivacyUnit("add-remove")
    assert dg.choose_network(release).network.domain == made.domain


def test_a_model_that_cannot_be_written_leaves_what_was_paid_for(desk, monkeypatch):
    """The release and the graph are written first."""
    import dpgraph.cli.fitting as command

    def save_charged(value, path):
        if path.name == "model.json":
            raise dg.errors.FileError("the disk is full")
        dg.save(value, path)

    monkeypatch.setattr(command, "save_charged", save_charged)
    words = ["--out", "made.toml", "--release", "release.json", "--model", "model.json"]
    told = CliRunner().invoke(main, [*WORDS, *words])
    assert told.exit_code != 0
    assert dg.choose_network(dg.load("release.json")).network == dg.read_network("made.toml")


def asked(words):
    told = CliRunner().invoke(main, words)
    assert told.exit_code == 0, told.stderr
    return told


def test_a_person_has_no_more_rows_than_the_unit_protects(desk):
    """One person has 3 000 rows, 30 others one each; two of the first count, at noise of a scale below a hundredth."""
    rows = ["who,sex,age,rate", *["ann,F,20,0"] * 3000, *[f"p{i},M,60,1.5" for i in range(30)]]
    (desk / "log.csv").write_text("\n".join(rows))
    words = ["learn", "log.csv", "--domain", "domain.toml", "--epsilon", "100000"]
    asked([*words, "--person", "who", "--rows-per-person", "2", "--out", "p.toml", "--release", "p.json"])
    release = dg.load("p.json")
    assert release.unit == dg.PrivacyUnit("add-remove", 2)
    for part in release.value.singles:
        for table in part.tables.values():
            assert abs(int(table.sum()) - 32) < 20


@pytest.mark.parametrize("person", ["sex", "nowhere"])
def test_a_person_who_is_no_column_or_a_variable_is_refused_uncharged(person, ledger):
    before = charges()
    told = CliRunner().invoke(main, [*WORDS, "--person", person, *ledger, "--out", "net.json"])
    assert told.exit_code == 1
    assert "[DomainError]" in told.stderr
    assert charges() == before


@pytest.mark.proof
def test_a_release_is_read_for_a_graph_whose_families_lie_in_no_table(run, desk):
    """The pairs of four variables, and a variable with three parents."""
    names = "abcd"
    (desk / "four.toml").write_text("[variables]\n" + "".join(f"{name} = [0, 1]\n" for name in names))
    cells = np.arange(400) % 8
    rows = pd.DataFrame({"a": cells % 2, "b": cells // 2 % 2, "c": cells // 4})
    rows.assign(d=rows.max(axis=1)).to_csv("four.csv", index=False)
    words = ["learn", "four.csv", "--domain", "four.toml", "--epsilon", "50", "--delta", "1e-6"]
    edges = [word for name in "abc" for word in ("--required", f"{name}->d")]
    run(*words, *edges, "--out", "made.toml", "--release", "made.json")
    assert set(dg.read_network("made.toml").parents["d"]) == set("abc")
    drawing = ["--network", "made.toml", "--draws", "20", "--seed", "0"]
    told = run("posterior", "made.json", *drawing, "--out", "drawn.json")
    assert "no table holds some family" in told.stderr.replace("\n", " ")
    learned = dg.choose_network(
        dg.load("made.json"), constraints=dg.Constraints(required=[(name, "d") for name in "abc"])
    )
    with pytest.warns(dg.errors.ConvergenceWarning):
        expected = learned.posterior(graphs="chosen", draws=20, seed=0).mean()
    np.testing.assert_allclose(dg.load("drawn.json").mean().table("d"), expected.table("d"))


@pytest.mark.proof
def test_shares_are_printed_where_they_are_asked_for(run):
    told = run(*WORDS, "--epsilon", "9", "--required", "sex->rate", "--shares", "--out", "made.toml")
    assert told.stdout.split()[:4] == ["parent", "child", "strength", "share"]
    row = next(line.split() for line in told.stdout.splitlines() if line.split()[:2] == ["sex", "rate"])
    assert row[3] == "1.00"
    assert "--shares" not in told.stderr


def test_an_edge_that_was_paid_for_has_no_share(run):
    edge = ["--required", "sex->rate", "--method", "greedy"]
    told = run(*WORDS, "--epsilon", "9", *edge, "--shares", "--out", "made.toml")
    assert ["sex", "rate", "-"] in [[*line.split()[:2], line.split()[-1]] for line in told.stdout.splitlines()]
    assert "--shares" not in run(*WORDS, "--epsilon", "9", *edge, "--out", "made.toml").stderr


def test_without_shares_it_is_said_where_they_are(run):
    words = [*WORDS, "--epsilon", "9", "--required", "sex->rate", "--out", "made.toml"]
    told = run(*words)
    assert "share" not in told.stdout
    assert "learned.edges" in " ".join(told.stderr.split())
    kept = " ".join(run(*words, "--release", "kept.json").stderr.split())
    assert "dg.choose_network(dg.load('kept.json')).edges" in kept
    assert list(dg.choose_network(dg.load("kept.json")).edges.columns) == ["parent", "child", "strength", "share"]
