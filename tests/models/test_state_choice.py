"""The number of states is chosen from the release alone, by scores without bias, and what is asked amiss is refused."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.files.documents import document
from dpgraph.models.hmm import StateChoice
from tests.files.edits import edited

sys.path.append(str(Path(__file__).parents[2] / "datasets"))
import event_log

DOMAIN = dg.read_domain("example:event_log")
TINY = dg.Domain.of({"region": ["N", "S"], "month": [1, 2], "kind": ["a", "b"]})


@pytest.fixture(scope="module")
def log():
    return event_log.simulate(seed=3).rows


def released(rows, domain, epsilon, seed=1):
    counts = dg.count(rows, dg.hmm_network(domain, "region", "month"))
    mechanism = dg.LaplaceMechanism(epsilon, tables="maximal")
    return dg.release(counts, mechanism, budget=dg.Budget(epsilon), noise=dg.testing.SeededNoise(seed))


@pytest.mark.proof
def test_states_of_a_simulated_log_are_found_at_a_large_epsilon_and_noise_finds_none(log):
    """Three states at epsilon 5, and one state is beyond noise worse; not where the fields are shuffled.

    Five deviations of a difference: a false alarm below 1e-6.
    """
    how = {"sequence": "region", "time": "month", "iterations": 10, "burn_in": 10, "seed": 0, "most_states": 4}
    made = dg.fit_hmm(released(log, DOMAIN, 5), "auto", **how)
    assert made.choice is not None
    assert made.n_states == made.choice.chosen >= 3
    assert made.effects
    assert made.choice.scores[0] < max(made.choice.scores) - 5 * made.choice.deviations[0]
    rng = np.random.default_rng(0)
    shuffled = log.assign(**{name: rng.permutation(log[name]) for name in event_log.FIELDS})
    alone = dg.fit_hmm(released(shuffled, DOMAIN, 5), "auto", **how)
    assert alone.choice.scores[0] > max(alone.choice.scores) - 5 * alone.choice.deviations[0]
    assert alone.n_states < 3


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_states": "many"}, "n_states"),
        ({"n_states": "auto", "most_states": 0}, "most_states"),
        ({"n_states": "auto", "most_states": "auto"}, "most_states"),
        ({"n_states": 2, "sequence_effects": "yes"}, "sequence_effects"),
    ],
)
def test_what_is_asked_amiss_is_refused_and_nothing_is_charged(settings, message):
    budget = dg.Budget(10)
    rows = pd.DataFrame({"region": ["N"], "month": [1], "kind": ["a"]})
    with pytest.raises((dg.errors.InferenceError, dg.errors.ReleaseError), match=message):
        dg.PrivateHMM(**{"domain": TINY, "budget": budget, **settings}).fit(rows)
    assert budget.spent == 0
    with pytest.raises(dg.errors.InferenceError):
        StateChoice((1, 2), (0.0,), (0.0,), 1)


@pytest.mark.proof
def test_the_choice_costs_nothing_and_is_on_the_model_and_in_its_file(log, tmp_path):
    budget = dg.Budget(1)
    made = dg.PrivateHMM("auto", DOMAIN, 1, budget=budget, iterations=4, burn_in=4, most_states=2).fit(log)
    assert str(budget.spent) == "1"
    assert made.choice_ == made.model_.choice
    assert made.choice_.to_frame()["chosen"].sum() == 1
    dg.save(made, tmp_path / "m.json")
    loaded = dg.load(tmp_path / "m.json")
    assert loaded.choice == made.choice_
    assert document(loaded) == document(made.model_)
    every = loaded.entries >= 0
    assert loaded.predict_fields(every).equals(made.model_.predict_fields(every))
    plain = document(made.model_)
    for name, value in (
        ("choice", {"states": [1], "scores": [1.0], "deviations": [0.0], "chosen": 3}),
        ("choice", {"states": [1]}),
        ("effects", {"kind": [[[[0.0]]]]}),
        ("effects", "x"),
    ):
        (tmp_path / "w.json").write_text(edited(plain | {name: value}))
        with pytest.raises(dg.errors.FileError):
            dg.load(tmp_path / "w.json")
    older = {key: value for key, value in plain.items() if key not in ("effects", "choice")}
    (tmp_path / "o.json").write_text(edited(older))
    before = dg.load(tmp_path / "o.json")
    assert before.choice is None
    assert not before.effects


@pytest.mark.proof
def test_the_command_chooses_and_shows_the_choice(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log.drop(columns="reporter").to_csv("log.csv", index=False)
    levels = {name: list(DOMAIN.levels(name)) for name in DOMAIN.names}
    Path("d.toml").write_text(
        "[variables]\n" + "\n".join(f"{name} = {json.dumps(one)}" for name, one in levels.items())
    )
    words = ["fit", "hmm", "log.csv", "--domain", "d.toml", "--sequence", "region", "--time", "month", "--epsilon", "5"]
    words += ["--iterations", "4", "--burn-in", "2", "--out", "m.json"]
    done = CliRunner().invoke(main, [*words, "--states", "auto", "--most-states", "2"])
    assert done.exit_code == 0, done.output
    assert "chosen" in done.output
    assert dg.load("m.json").choice.states == (1, 2)
    done = CliRunner().invoke(main, [*words, "--states", "2", "--sequence-effects"])
    assert done.exit_code == 0, done.output
    assert dg.load("m.json").effects
    assert CliRunner().invoke(main, [*words, "--states", "some"]).exit_code == 2
