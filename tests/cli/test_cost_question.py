"""``dpgraph cost --question``: how wide an answer's interval will be, before any data."""

import json
from functools import partial

import pytest

import dpgraph as dg
from dpgraph.analysis import question_cost

ASKED = ("cost", "net.toml", "--epsilon", "1", "--n", "300", "--question", "rate=1.5 | sex=F, age=20")


@pytest.fixture(autouse=True)
def seeded(monkeypatch):
    monkeypatch.setattr(question_cost, "CHAINS", dg.methods.Records(chains=1, burn_in=50))
    monkeypatch.setattr(question_cost, "release", partial(dg.release, noise=dg.testing.SeededNoise(3)))


@pytest.mark.proof
def test_a_question_has_its_width_and_the_epsilon_of_another(run):
    told = run(*ASKED, "--half-width", "0.2").stdout
    assert "P(rate=1.5 | sex=F, age=" in told
    assert "a 90% interval is expected to be" in told
    assert "plus or minus 0.2 needs about epsilon" in told


@pytest.mark.proof
def test_json_has_the_same(run):
    question = json.loads(run(*ASKED, "--half-width", "0.2", "--json").stdout)["question"]
    (entry,) = question["widths"]
    assert 0 < entry["without noise"] < entry["width"] < 1
    assert question["half_width"] == 0.2
    assert question["epsilon_needed"] > 0


def test_what_is_no_question_is_refused(run):
    assert "needs --question" in run("cost", "net.toml", "--epsilon", "1", "--half-width", "0.1", code=2).stderr
    assert "give n" in run("cost", "net.toml", "--epsilon", "1", "--question", "rate", code=1).stderr
    wrong = run("cost", "net.toml", "--epsilon", "1", "--n", "9", "--question", "rate | sex:F", code=2).stderr
    assert "NAME=LEVEL" in wrong


@pytest.mark.proof
def test_an_answer_says_what_makes_it_wide(run):
    run("release", "rows.csv", "--network", "net.toml", "--epsilon", "5", "--out", "r.json")
    run("posterior", "r.json", "--method", "tables", "--draws", "50", "--out", "m.json")
    told = run("query", "m.json", "--target", "rate", "--given", "sex=F", "--n", "100").stdout
    assert "n = 100, epsilon 5: a 90% interval is expected to be" in told
    asked = json.loads(run("query", "m.json", "--target", "rate", "--n", "100", "--json").stdout)
    assert [entry["rate"] for entry in asked["expected_widths"]] == [0, 1.5]
    run("posterior", "r.json", "--method", "plug-in", "--out", "p.bif")
    refused = run("query", "p.bif", "--target", "rate", "--n", "100", code=2).stderr
    assert "the posterior of one release" in refused
