"""``fit`` keeps its release beside the model, and ``refit`` learns from it again: free, and without rows."""

import os
from pathlib import Path

import pytest

import dpgraph as dg
from dpgraph.models.markov_counts import fit_hmm

HMM = ("--domain", "log.toml", "--sequence", "region", "--time", "month", "--states", "2", "--epsilon", "20")
SHORT = ("--iterations", "20", "--burn-in", "20")


@pytest.mark.parametrize("ending", [".json", ".npz"])
def test_a_refit_reads_the_release_of_the_model_alone(run, ending):
    first, second, third = (f"{name}{ending}" for name in "abc")
    run("fit", "hmm", "log.csv", *HMM, *SHORT, "--out", first)
    os.remove("log.csv")
    done = run("refit", first, "--iterations", "60", "--burn-in", "30", "--seed", "3", "--out", second)
    assert f"wrote {second}: " in done.stderr
    model, released = dg.load(second), dg.load(second, release=True)
    assert released == dg.load(first, release=True)
    assert model.provenance == dg.load(first).provenance == dg.load(first, release=True).provenance
    expected = fit_hmm(released, 2, sequence="region", time="month", iterations=60, burn_in=30, seed=3)
    assert model.log_joint.tolist() == expected.log_joint.tolist()
    run("refit", second, "--states", "3", *SHORT, "--out", third)
    assert dg.load(third).n_states == 3


def test_every_fit_keeps_its_release(run):
    naive = ("--domain", "net.toml", "--target", "sex", "--epsilon", "5")
    run("fit", "naive-bayes", "rows.csv", *naive, "--out", "c.json")
    plug_in = ("--inference", "plug-in", "--draws", "40")
    pay = ("--domain", "pay.toml", "--target", "pay", "--epsilon", "20", *plug_in)
    run("fit", "regression", "pay.csv", *pay, "--out", "r.npz")
    for name, epsilon in (("c.json", 5), ("r.npz", 20)):
        released = dg.load(name, release=True)
        assert isinstance(released, dg.Release)
        assert released.event.epsilon == epsilon
        refused = run("refit", name, "--out", "again.json", code=1)
        assert "refit takes a hidden Markov model" in refused.stderr
        assert "dg.load(path, release=True)" in refused.stderr


def test_a_model_without_a_release_is_refused(run):
    run("fit", "hmm", "log.csv", *HMM, *SHORT, "--out", "a.json")
    dg.save(dg.load("a.json"), "bare.json")
    assert "it keeps no release" in run("refit", "bare.json", "--out", "b.json", code=1).stderr
    assert not os.path.exists("b.json")
    with pytest.raises(dg.errors.FileError, match="no release"):
        dg.load("example:asia", release=True)


def test_a_release_that_was_changed_is_refused(run):
    run("fit", "hmm", "log.csv", *HMM, *SHORT, "--out", "a.json")
    text = Path("a.json").read_text()
    at = text.index('"release": {')
    changed = text[:at] + text[at:].replace('"epsilon": "20"', '"epsilon": "2"', 1)
    assert changed != text
    Path("a.json").write_text(changed)
    for release in (False, True):
        with pytest.raises(dg.errors.FileError):
            dg.load("a.json", release=release)


def test_chains_that_have_not_mixed_say_that_more_is_free(run, monkeypatch):
    """No chain is good enough here, so that whether one is does not matter."""
    monkeypatch.setattr("dpgraph.models.markov_counts.MOST_R_HAT", 0.0)
    done = run("fit", "hmm", "log.csv", *HMM, *SHORT, "--out", "a.json")
    assert "have not mixed" in done.stderr
    for words in ("That is free: dg.fit_hmm(", "from the same release, as dpgraph refit does"):
        assert words in done.stderr
