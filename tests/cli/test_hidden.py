"""A hidden Markov model from the command line: its states, its forecasts, its synthetic log, a report."""

import pandas as pd
import pytest

import dpgraph as dg

SEEDED = dg.testing.SeededNoise


@pytest.fixture
def model(run):
    words = ("--sequence", "region", "--time", "month", "--states", "2", "--epsilon", "5")
    run("fit", "hmm", "log.csv", "--domain", "log.toml", *words, "--iterations", "30", "--seed", "1", "--out", "m.json")
    return dg.load("m.json")


def test_states_are_predicted_without_rows(model, run):
    run("predict", "m.json", "--out", "states.csv")
    found = pd.read_csv("states.csv")
    assert list(found.columns) == ["region", "month", "state", "probability", "path"]
    assert found["state"].tolist() == model.predict()["state"].tolist()
    assert found["path"].tolist() == model.most_likely_path()["state"].tolist()


def test_fields_of_cells_and_of_steps_to_come(model, run):
    run("predict", "m.json", "log.csv", "--out", "cells.csv")
    pd.testing.assert_frame_equal(pd.read_csv("cells.csv"), model.predict_fields("log.csv", interval=0.9))
    run("predict", "m.json", "--forecast", "2", "--out", "ahead.csv")
    pd.testing.assert_frame_equal(pd.read_csv("ahead.csv"), model.forecast(2))


def test_a_synthetic_log_is_one_that_can_be_fitted(model, run):
    run("sample", "m.json", "-n", "40", "--seed", "3", "--out", "new.csv")
    pd.testing.assert_frame_equal(pd.read_csv("new.csv"), model.sample(40, 3))
    assert dg.count("new.csv", model.network).description == model.network


def test_a_report_has_transitions_and_emissions(model, run):
    told = run("report", "m.json").stdout
    assert "HiddenMarkovModel(2 states" in told
    assert f"learned from {model.provenance}" in told
    for k in range(2):
        assert f"{model.mean_transition[k, 0]:.3g}" in told
        assert f"{model.mean_emission('kind')[k, 0]:.3g}" in told
    assert max(map(len, told.split("\n"))) <= 120


def test_a_report_of_something_else_is_one_line_and_the_risk_if_its_noise_was_private(run):
    run("release", "rows.csv", "--network", "net.toml", "--epsilon", "1", "--out", "r.json")
    told, release = run("report", "r.json").stdout, dg.load("r.json")
    assert "r.json: Release(NoisyCounts(" in told
    risk = dg.results.Risk.of(release)
    for words in (str(risk), risk.assumption, *(f"{name} {bound}" for name, bound in risk.facts())):
        assert words in " ".join(told.split())
    seeded = dg.release(
        dg.count("rows.csv", release.value.network), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=SEEDED(1)
    )
    dg.save(seeded, "seeded.json")
    assert "An attacker" not in run("report", "seeded.json").stdout
    assert "[FileError]" in run("report", "none.json", code=1).stderr


def test_rows_are_still_needed_elsewhere(model, run):
    run(
        "fit", "naive-bayes", "rows.csv", "--domain", "net.toml", "--target", "sex", "--epsilon", "1", "--out", "b.json"
    )
    for words, told in (
        (["b.json"], "give ROWS to predict"),
        (["b.json", "--forecast", "2"], "needs a hidden Markov model; give ROWS"),
        (["m.json", "log.csv", "--forecast", "2"], "takes no ROWS"),
        (["m.json", "--counts"], "--counts needs --forecast"),
    ):
        assert told in run("predict", *words, "--out", "x.csv", code=2).stderr
