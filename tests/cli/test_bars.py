"""While chains run a terminal shows how far they are; elsewhere nothing but the command's own words."""

import pytest

HMM = ["fit", "hmm", "log.csv", "--domain", "log.toml", "--sequence", "region", "--time", "month", "--states", "2"]
COMMANDS = {
    "noise-aware hmm": ([*HMM, "--iterations", "5", "--burn-in", "4"], "sweeps of each chain: 100%"),
    "plug-in hmm": ([*HMM, "--iterations", "5", "--burn-in", "4", "--inference", "plug-in"], "| 9/9 "),
    "regression": (
        ["fit", "regression", "pay.csv", "--domain", "pay.toml", "--target", "pay", "--draws", "20"],
        "iterations of each chain: 100%",
    ),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_chains_show_how_far_they_are(command, at_terminal):
    words, bar = COMMANDS[command]
    shown = at_terminal(*words, "--epsilon", "2", "--out", "m.json")
    assert bar in shown
    assert "wrote m.json" in shown


@pytest.mark.parametrize("command", COMMANDS)
def test_nothing_is_shown_where_nobody_looks(command, run):
    words, _ = COMMANDS[command]
    told = run(*words, "--epsilon", "2", "--out", "m.json").stderr
    assert "%|" not in told
    assert "\r" not in told


def test_a_posterior_tells_of_chains_that_have_not_mixed_before_what_they_found(run, monkeypatch):
    from dpgraph.inference import draws

    monkeypatch.setattr(draws, "MOST_R_HAT", 0.0)
    run("release", "rows.csv", "--network", "net.toml", "--epsilon", "5", "--out", "r.json")
    how = ("--method", "records", "--draws", "3", "--seed", "1")
    told = run("posterior", "r.json", *how, "--out", "m.json").stderr.splitlines()
    assert told[0].startswith("warning: the chains have not mixed: R-hat")
    assert "r_hat" in told[1]
    assert told[2].startswith("wrote m.json")
