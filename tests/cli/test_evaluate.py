"""``dpgraph evaluate`` judges saved models on files: numbers on stdout, words on stderr, nothing exact anywhere."""

import json

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg


@pytest.fixture
def models(run):
    run(
        "fit", "naive-bayes", "rows.csv", "--domain", "net.toml", "--target", "sex", "--epsilon", "5", "--out", "c.json"
    )
    hmm = ("--sequence", "region", "--time", "month", "--states", "2", "--iterations", "20", "--burn-in", "20")
    run("fit", "hmm", "log.csv", "--domain", "log.toml", *hmm, "--epsilon", "20", "--out", "h.json")
    plug_in = ("--inference", "plug-in", "--draws", "40")
    run("fit", "regression", "pay.csv", "--domain", "pay.toml", "--target", "pay", "--epsilon", "20", *plug_in,
        "--out", "r.json")  # fmt: skip
    return {"c.json": "rows.csv", "h.json": "log.csv", "r.json": "pay.csv"}


HEADLINES = {"c.json": "accuracy", "h.json": "nats an entry", "r.json": "mean squared error"}


def scores(result):
    return {row["score"]: row for row in json.loads(result.stdout)["scores"]}


def test_every_model_is_judged_by_its_own_target(models, run, monkeypatch):
    """The command and the function read the same from the same noise; a loss near 0 is mostly noise."""
    monkeypatch.setattr("dpgraph.privacy.release.SecureNoise", lambda: dg.testing.SeededNoise(0))
    for model, rows in models.items():
        found = scores(run("evaluate", model, rows, "--epsilon", "100", "--json"))
        assert next(iter(found)) == HEADLINES[model]
        assert set(found[HEADLINES[model]]) == {"score", "estimate", "low", "high", "noise_sd"}
        judged = dg.evaluate(dg.load(model), rows, epsilon=100, budget=dg.Budget(100))
        assert found[HEADLINES[model]]["estimate"] == pytest.approx(judged.scores[HEADLINES[model]].estimate, rel=1e-9)
        shown = run("evaluate", model, rows, "--epsilon", "100")
        assert HEADLINES[model] in shown.stdout
        assert "protecting replace one row of one person" in shown.stderr


def test_a_classifier_has_its_tables(models, run):
    found = json.loads(run("evaluate", "c.json", "rows.csv", "--epsilon", "1", "--json").stdout)
    assert [(row["truth"], row["prediction"]) for row in found["confusion"]] == [
        ("F", "F"), ("F", "M"), ("M", "F"), ("M", "M")
    ]  # fmt: skip
    assert [row["confidence_low"] for row in found["reliability"]] == [0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99]


def test_the_cheapest_threshold_of_two_classes(models, run):
    found = json.loads(run("evaluate", "c.json", "rows.csv", "--epsilon", "1", "--costs", "1", "5", "--json").stdout)
    (cheapest,) = found["cheapest"]
    assert cheapest["low"] <= cheapest["cost"] <= cheapest["high"] <= 5
    assert {row["threshold"] for row in found["thresholds"]} | {0, 1} >= {cheapest["threshold"]}
    assert {"AUC", "sensitivity", "specificity", "positive predictive value"} <= {
        row["score"] for row in found["scores"]
    }
    assert "cheapest" not in json.loads(run("evaluate", "c.json", "rows.csv", "--epsilon", "1", "--json").stdout)
    for bad in (("c.json", "-1", "2"), ("c.json", "0", "0"), ("c.json", "inf", "1"), ("r.json", "1", "1")):
        run("evaluate", bad[0], "rows.csv", "--epsilon", "1", "--costs", *bad[1:], code=2)


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
@pytest.mark.parametrize("persons", [1, 3])
def test_the_release_protects_whom_it_is_told_to(models, run, relation, persons):
    unit = ("--neighbours", relation, "--rows-per-person", str(persons))
    told = run("evaluate", "c.json", "rows.csv", "--epsilon", "0.5", *unit, "--out", "e.json").stderr
    assert ("take rows as independent" in told) == (persons > 1)
    release = dg.load("e.json")
    assert release.unit == dg.PrivacyUnit(relation, persons)
    (measured,) = release.event.measurements
    one = release.value.description.sensitivity(dg.PrivacyUnit(relation))
    assert measured.sensitivity == persons * one
    assert measured.law.scale >= 2 * persons * one
    assert (release.value.n is None) == (relation == "add-remove")
    assert dg.results.Evaluation(release).scores["accuracy"].low >= 0


def test_an_interval_is_asked_for_in_percent(models, run):
    wide = scores(run("evaluate", "c.json", "rows.csv", "--epsilon", "50", "--interval", "99.9", "--json"))
    narrow = scores(run("evaluate", "c.json", "rows.csv", "--epsilon", "50", "--interval", "10", "--json"))
    assert (
        narrow["accuracy"]["high"] - narrow["accuracy"]["low"]
        < 0.05
        < wide["accuracy"]["high"] - wide["accuracy"]["low"]
    )
    for bad in ("0", "100", "-1", "x"):
        run("evaluate", "c.json", "rows.csv", "--epsilon", "1", "--interval", bad, code=2)


def test_a_dry_run_reads_no_row(models, run):
    told = run("evaluate", "c.json", "nowhere.csv", "--epsilon", "0.25", "--rows-per-person", "3", "--dry-run")
    assert "would spend LaplaceMechanism, epsilon 0.25 (pure), protecting replace up to 3 rows" in told.stdout


def test_nothing_exact_is_said_where_n_is_private(models, run, monkeypatch):
    """Noise of a fixed seed: one noisy number of rows in a few hundred is the exact one."""
    monkeypatch.setattr("dpgraph.privacy.release.SecureNoise", lambda: dg.testing.SeededNoise(0))
    rows = pd.read_csv("rows.csv")
    pd.concat([rows] * 8).head(737).to_csv("many.csv", index=False)
    words = ("--epsilon", "1", "--neighbours", "add-remove", "--out", "e.json", "--json")
    told = run("evaluate", "c.json", "many.csv", *words)
    with open("e.json") as file:
        written = file.read()
    for text in (told.stdout, told.stderr, written):
        assert "737" not in text.replace(".", " ").split()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("net.toml", "rows.csv", "--epsilon", "1"), "[FileError]"),
        (("c.json", "nowhere.csv", "--epsilon", "1"), "there is no file"),
        (("c.json", "log.csv", "--epsilon", "1"), "[DomainError]"),
        (("c.json", "hush.csv", "--epsilon", "1"), "[DomainError]"),
        (("c.json", "none.csv", "--epsilon", "1"), "no rows"),
        (("c.json", "rows.csv", "--epsilon", "0"), "epsilon"),
        (("c.json", "rows.csv", "--epsilon", "1", "--rows-per-person", "0"), "rows_per_person"),
    ],
    ids=str,
)
def test_refusals(models, run, words, message):
    rows = pd.read_csv("rows.csv")
    rows.assign(sex=np.where(rows.index == 3, "hush93", rows["sex"])).to_csv("hush.csv", index=False)
    rows[:0].to_csv("none.csv", index=False)
    told = run("evaluate", *words, code=1).stderr
    assert message in told
    assert "hush93" not in told


def test_a_bad_destination_is_wrong_usage(models, run):
    run("evaluate", "c.json", "rows.csv", "--epsilon", "1", "--out", "e.csv", code=2)
    run("evaluate", "c.json", "rows.csv", "--epsilon", "1", "--out", "no/e.json", code=2)


def test_rows_of_a_person_are_capped_by_a_column_or_taken_on_trust_aloud(models, run):
    rows = pd.read_csv("rows.csv")
    rows.assign(who=[0] * (len(rows) - 10) + list(range(1, 11))).to_csv("whose.csv", index=False)
    evaluate = ("evaluate", "c.json", "whose.csv", "--epsilon", "1000", "--rows-per-person", "3", "--out", "e.json")
    capped = run(*evaluate, "--person", "who")
    assert "taken on trust" not in capped.stderr
    release = dg.load("e.json")
    assert release.unit == dg.PrivacyUnit("add-remove", 3)
    assert release.value.block("right").sum() == pytest.approx(13, abs=1)
    trusted = run(*evaluate)
    assert "taken on trust: nobody has more than 3 rows. --person COLUMN" in trusted.stderr
    assert dg.load("e.json").value.n == len(rows)
    assert "trust" not in run("evaluate", "c.json", "whose.csv", "--epsilon", "1").stderr
    run("evaluate", "c.json", "rows.csv", "--epsilon", "1", "--person", "nobody", code=1)
