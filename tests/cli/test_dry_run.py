"""A dry run needs no place to write to, and anything else does, before a file is looked at."""

import os

import pytest

COMMANDS = {
    "release": ["release", "ROWS", "--network", "net.toml"],
    "naive-bayes": ["fit", "naive-bayes", "ROWS", "--domain", "net.toml", "--target", "sex"],
    "hmm": ["fit", "hmm", "ROWS", "--domain", "log.toml", "--sequence", "region", "--time", "month", "--states", "2"],
    "regression": ["fit", "regression", "ROWS", "--domain", "pay.toml", "--target", "pay"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_needs_no_place_to_write_to(command, run):
    words = [*COMMANDS[command], "--epsilon", "0.25"]
    before = sorted(os.listdir())
    bare = run(*words, "--dry-run")
    assert "would spend LaplaceMechanism" in bare.stdout
    assert "epsilon 0.25 (pure)" in bare.stdout
    assert bare.stdout == run(*words, "--dry-run", "--out", "x.json").stdout
    assert bare.stdout == run(*words[:-2], "--out", "x.json", "--dry-run", *words[-2:]).stdout
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("domain", ["there", "not there"])
def test_without_one_nothing_else_runs(command, domain, run):
    words = [word if domain == "there" or ".toml" not in word else "none.toml" for word in COMMANDS[command]]
    told = run(*words, "--epsilon", "0.25", code=2)
    assert "Usage: " in told.stderr
    assert "Missing option '--out'" in told.stderr
    assert told.stdout == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dry_run_still_refuses_what_a_run_would(command, run):
    assert "[ReleaseError]" in run(*COMMANDS[command], "--epsilon", "0", "--dry-run", code=1).stderr
