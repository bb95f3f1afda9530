"""``dpgraph fit classifier``: fits, saves, predicts; a dry run and a refusal charge nothing."""

import json

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg

WORDS = ("fit", "classifier", "mail.csv", "--domain", "mail.toml", "--target", "spam", "--neighbours", "add-remove")


@pytest.fixture
def mail():
    rng = np.random.default_rng(0)
    spam = rng.integers(0, 2, 1500)
    words = {f"word{i}": np.where(rng.random(1500) < 0.8, spam, rng.integers(0, 2, 1500)) for i in range(2)}
    pd.DataFrame({"spam": spam, **words}).to_csv("mail.csv", index=False)
    levels = "\n".join(f"{name} = [0, 1]" for name in ("spam", *words))
    with open("mail.toml", "w") as file:
        file.write(f"[variables]\n{levels}\n")


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_classifier_is_fitted_saved_and_predicts(mail, run, delta):
    made = run(*WORDS, "--epsilon", "2", "--delta", delta, "--out", "model.json")
    assert "True" in made.stdout  # some model is chosen
    run("predict", "model.json", "mail.csv", "--out", "found.csv")
    rows = pd.read_csv("mail.csv")
    model = dg.load("model.json")
    assert (model.predict(rows.drop(columns="spam")) == rows["spam"]).mean() > 0.85


def test_a_dry_run_prints_the_charge_and_a_refusal_charges_nothing(mail, run):
    made = run(*WORDS, "--epsilon", "2", "--dry-run")
    assert "would spend classifier, epsilon 2 (pure)" in made.output
    run(*WORDS[:5], "--target", "spma", "--epsilon", "1", "--out", "model.json", code=1)
    assert made.exit_code == 0


def test_questions_of_a_classifier_are_asked_of_its_release(mail, run):
    """Its own tables are corrected weights: synthetic rows and answers come from the tables that were released."""
    run(*WORDS, "--epsilon", "20", "--out", "model.json")
    told = json.loads(run("query", "model.json", "--target", "word0=1", "--given", "spam=1", "--json").stdout)
    assert told["answer"][0]["mean"] == pytest.approx(0.9, abs=0.03)
    run("sample", "model.json", "-n", "20000", "--seed", "1", "--out", "drawn.csv")
    drawn = pd.read_csv("drawn.csv")
    assert drawn.loc[drawn["spam"] == 1, "word0"].mean() == pytest.approx(0.9, abs=0.03)
    if hasattr(dg.load("model.json"), "probabilities"):  # else the network's own conditional was chosen
        with pytest.raises(dg.errors.FileError, match="are not the population's"):
            dg.save(dg.load("model.json"), "model.bif")
    dg.save(dg.classifier(dg.load("example:asia"), "lung"), "asia.json")
    assert "0.5" in run("query", "asia.json", "--target", "smoke").stdout


LEARN = ("learn", "mail.csv", "--domain", "mail.toml", "--epsilon", "20", "--out", "n.json", "--release", "r.json")
ORDER = ("--order", "word0,word1,spam")


def test_effects_are_read_off_a_release(mail, run):
    """Of pairs by an order of causes, which the rows do not tell."""
    run(*LEARN)
    told = json.loads(run("effect", "r.json", "--of", "word0", "--on", "spam=1", *ORDER, "--json").stdout)
    (row,) = told["effect"]
    assert 0.7 < row["low"] < row["mean"] < row["high"] < 0.9


def test_an_effect_against_the_order_of_causes_or_of_draws_without_a_release_is_refused(mail, run):
    run(*LEARN)
    refused = run("effect", "r.json", "--of", "spam", "--on", "word0=1", *ORDER, code=1)
    assert "--order of a command" in refused.stderr
    run("posterior", "r.json", "--network", "n.json", "--method", "plug-in", "--out", "p.json")
    assert "keeps no release" in run("effect", "p.json", "--of", "word0", "--on", "spam", *ORDER, code=1).stderr


def test_regressions_are_read_off_a_release(mail, run):
    """Of pairs, without a graph; a network alone has no tables."""
    run(*LEARN)
    told = json.loads(run("regress", "r.json", "--target", "spam", "--on", "word0,word1", "--json").stdout)
    found = dg.regression(dg.load("r.json"), "spam", ["word0", "word1"])
    assert [one["mean"] for one in told["coefficients"]] == pytest.approx(found.mean.tolist(), abs=1e-6)
    assert "learn --model" in run("regress", "n.json", "--target", "spam", "--on", "word0", code=1).stderr
