"""``dpgraph fit classifier``: fits, saves, predicts; a dry run and a refusal charge nothing."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg

WORDS = ("fit", "classifier", "mail.csv", "--domain", "mail.toml", "--target", "spam", "--neighbours", "add-remove")


@pytest.fixture
def mail():
    rng = np.random.default_rng(0)
    spam = rng.integers(0, 2, 1500)
    words = {f"word{i}": np.where(rng.random(1500) < 0.8, spam, rng.integers(0, 2, 1500)) for i in range(3)}
    pd.DataFrame({"spam": spam, **words}).to_csv("mail.csv", index=False)
    levels = "\n".join(f"{name} = [0, 1]" for name in ("spam", *words))
    with open("mail.toml", "w") as file:
        file.write(f"[variables]\n{levels}\n")


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_a_classifier_is_fitted_saved_and_predicts(mail, run, delta):
    made = run(*WORDS, "--epsilon", "2", "--delta", delta, "--out", "model.json")
    assert "naive Bayes" in made.stdout
    run("predict", "model.json", "mail.csv", "--out", "found.csv")
    rows = pd.read_csv("mail.csv")
    model = dg.load("model.json")
    assert (model.predict(rows.drop(columns="spam")) == rows["spam"]).mean() > 0.85


def test_a_dry_run_prints_the_charge_and_a_refusal_charges_nothing(mail, run):
    made = run(*WORDS, "--epsilon", "2", "--dry-run")
    assert "would spend classifier, epsilon 2 (pure)" in made.output
    run(*WORDS[:5], "--target", "spma", "--epsilon", "1", "--out", "model.json", code=1)
    assert made.exit_code == 0
