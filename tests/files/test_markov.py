"""A hidden Markov model goes to JSON and back exactly; the command line makes one; tampering is refused."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.files.documents import document
from tests.files.edits import edited

DOMAIN = {"region": ["N", "S"], "month": ["1", "2", "3"], "kind": ["a", "b", "c"], "grave": ["no", "yes"]}
TOML = "[variables]\n" + "\n".join(f"{name} = {json.dumps(levels)}" for name, levels in DOMAIN.items())


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    columns = {name: rng.choice(levels, 300) for name, levels in DOMAIN.items()}
    return pd.DataFrame(columns).assign(who=rng.integers(0, 100, 300))


@pytest.fixture(scope="module")
def fitted(log):
    model = dg.PrivateHMM(2, dg.Domain.of(DOMAIN), iterations=6, burn_in=4, noise=dg.testing.SeededNoise(1))
    return model.fit(log)


def test_a_model_round_trips_exactly(fitted, tmp_path):
    dg.save(fitted, tmp_path / "m.json")
    loaded = dg.load(tmp_path / "m.json")
    assert document(loaded) == document(fitted.model_)
    assert loaded.provenance == fitted.release_.provenance
    assert loaded.predict().equals(fitted.predict())
    assert loaded.diagnostics == fitted.diagnostics_
    assert not loaded.provenance.private


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transition", [[[[0.5, 0.6], [0.5, 0.5]]]]),
        ("states", [[[[0, 1, 2], [0, 0, 0]]]]),
        ("states", [[[[0.5]]]]),
        ("states", [[[[99999, 0, 0], [0, 0, 0]]]]),
        ("states", []),
        ("emissions", {}),
        ("emissions", {"kind": [[[[1.0]]]], "grave": [[[[1.0]]]]}),
        ("sequence", "kind"),
        ("sequence", "nowhere"),
        ("inference", "guess"),
        ("acceptance", {"shift": "all"}),
        ("log_joint", "x"),
        ("entries", [[1.0]]),
        ("network", None),
    ],
)
def test_a_file_that_was_tampered_with_is_refused(fitted, name, value, tmp_path):
    plain = document(fitted.model_)
    plain[name] = value
    (tmp_path / "m.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "m.json")


def test_a_sequence_that_is_no_name_is_refused(fitted, tmp_path):
    plain = document(fitted.model_)
    for change in ({"time": 3}, {"sequence": None}):
        (tmp_path / "m.json").write_text(edited(plain | change))
        with pytest.raises(dg.errors.FileError, match="a text was expected"):
            dg.load(tmp_path / "m.json")


@pytest.fixture
def folder(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log.to_csv("log.csv", index=False)
    Path("d.toml").write_text(TOML)
    return lambda *words: CliRunner().invoke(main, ["fit", "hmm", "log.csv", "--domain", "d.toml", *words])


BASE = ["--sequence", "region", "--time", "month", "--states", "2", "--epsilon", "5", "--out", "m.json"]
SHORT = ["--iterations", "4", "--burn-in", "2"]


def test_the_command_fits_and_saves(folder):
    done = folder(*BASE, *SHORT)
    assert done.exit_code == 0, done.output
    assert "epsilon 5" in done.output
    model = dg.load("m.json")
    assert isinstance(model, dg.results.HiddenMarkovModel)
    assert len(model.predict()) == 6
    assert model.provenance.private
    assert model.provenance.unit == dg.PrivacyUnit()


def test_chains_that_have_not_mixed_are_told_of_beside_the_output(folder, monkeypatch):
    from dpgraph.models import markov_counts

    monkeypatch.setattr(markov_counts, "MOST_R_HAT", 0.0)
    done = folder(*BASE, *SHORT)
    assert done.exit_code == 0, done.output
    assert "warning: the sampler's chains have not mixed: R-hat" in done.stderr
    assert "R-hat" not in done.stdout


def test_a_person_column_protects_persons(folder):
    done = folder(*BASE, *SHORT, "--person", "who", "--rows-per-person", "2")
    assert done.exit_code == 0, done.output
    assert dg.load("m.json").provenance.unit == dg.PrivacyUnit("add-remove", 2)


def test_a_dry_run_reads_nothing(folder):
    Path("log.csv").unlink()
    done = folder(*BASE, "--dry-run")
    assert done.exit_code == 0
    assert "2 tables; nothing was read" in done.output
    assert not Path("m.json").exists()


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ([*BASE[:4], "--states", "7", *BASE[6:], *SHORT], 1),
        (["--sequence", "county", *BASE[2:]], 1),
        ([*BASE, "--person", "nobody"], 1),
        ([*BASE, "--person", "who", "--rows-per-person", "2", "--neighbours", "replace"], 1),
        ([*BASE[:-1], "m.bif"], 2),
        ([*BASE[:2], *BASE[4:]], 2),
    ],
)
def test_refusals_write_nothing(folder, words, code):
    assert folder(*words).exit_code == code
    assert not list(Path().glob("m.*"))
