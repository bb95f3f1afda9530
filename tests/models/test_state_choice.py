"""The number of states is chosen from the release alone, by scores without bias, and what is asked amiss is refused."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.files.documents import document
from dpgraph.inference.markov.evidence import LogEvidence, log_evidence
from dpgraph.models import state_choice
from dpgraph.models.state_choice import StateChoice, choose_states
from tests.files.edits import edited

sys.path.append(str(Path(__file__).parents[2] / "datasets"))
import event_log

pytestmark = pytest.mark.filterwarnings(
    "ignore::dpgraph.inference.draws.ConvergenceWarning"
)  # a few sweeps are for speed

DOMAIN = dg.read_domain(Path(event_log.__file__).with_suffix(".toml"))
TINY = dg.Domain.of({"region": ["N", "S"], "month": [1, 2], "kind": ["a", "b"]})


@pytest.fixture(scope="module")
def log():
    return event_log.simulate(seed=3).rows


def released(rows, domain, epsilon, seed=1):
    counts = dg.count(rows, dg.hmm_network(domain, "region", "month"))
    mechanism = dg.LaplaceMechanism(epsilon, tables="maximal")
    return dg.release(counts, mechanism, budget=dg.Budget(epsilon), noise=dg.testing.SeededNoise(seed))


def test_states_of_a_simulated_log_are_found_at_a_large_epsilon_and_one_where_there_are_none(log):
    """Three states at epsilon 5; rows with their fields shuffled have one, the smallest number within noise."""
    how = {"sequence": "region", "time": "month", "iterations": 10, "burn_in": 10, "seed": 0, "most_states": 4}
    made = dg.fit_hmm(released(log, DOMAIN, 5), "auto", **how)
    assert made.choice is not None
    assert made.n_states == made.choice.chosen >= 3
    assert made.effects
    rng = np.random.default_rng(0)
    shuffled = log.assign(**{name: rng.permutation(log[name]) for name in event_log.FIELDS})
    alone = dg.fit_hmm(released(shuffled, DOMAIN, 5), "auto", **how)
    assert alone.n_states == 1


def test_the_choice_is_that_of_its_formula(monkeypatch):
    """Predictions are given: scores are sums of released counts times logs; within one deviation the smallest wins."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({name: rng.choice(TINY.levels(name), 400) for name in TINY.names})
    given = log_evidence(released(rows, TINY, 1).value, "region", "month")
    logs = {1: np.log([0.5, 0.5]), 2: np.log([0.55, 0.45])}
    monkeypatch.setattr(
        state_choice, "_predicted", lambda given, part, size, *rest: np.broadcast_to(logs[size], given.values.shape[1:])
    )
    found = choose_states(given, 5, rng=rng)
    total = given.values[0].sum()
    released_sums = given.values[0].sum(axis=(0, 1))
    expected = [float(released_sums @ logs[size]) / total for size in (1, 2)]
    assert found.states == (1, 2)  # four cells allow two
    assert found.scores == pytest.approx(expected)
    best = int(np.argmax(expected))
    deviation = np.sqrt(4 * ((logs[1] - logs[2]) ** 2 @ given.deviation**2)) / total
    assert found.deviations[best] == 0
    assert found.deviations[1 - best] == pytest.approx(deviation)
    assert found.chosen == (1 if best == 0 or expected[0] >= expected[1] - deviation else 2)


@pytest.mark.parametrize(("deviation", "chosen"), [(1.1, 1), (0.9, 3)])
def test_what_noise_cannot_tell_apart_is_not_told_apart(deviation, chosen, monkeypatch):
    """Three states are ahead by 2 nats in one level of one cell with one entry: noise is 2.2 nats, or 1.8."""
    values = np.full((1, 2, 3, 2), 10)
    values[0, 0, 0, 0] = 1
    flat, flags = np.ones(2), np.ones((2, 3), bool)
    given = LogEvidence(values, (slice(0, 2),), flat, 0 * flat, deviation * flat, flags)
    ahead = np.zeros((2, 3, 2))
    ahead[0, 0, 0] = 2.0
    monkeypatch.setattr(state_choice, "_predicted", lambda given, part, size, *rest: -1.0 + (size == 3) * ahead)
    assert choose_states(given, 3, rng=np.random.default_rng(0)).chosen == chosen


def test_a_cell_is_predicted_without_its_own_release():
    """Whatever was released of the cells of a part, the predictions of that part are the same."""
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({name: rng.choice(TINY.levels(name), 400) for name in TINY.names})
    given = log_evidence(released(rows, TINY, 1).value, "region", "month")
    part = np.array([[0, 1], [2, 0]])  # the first part is fitted first: the same random numbers
    values = given.values.copy()
    values[:, part == 0] += 500
    other = replace(given, values=values)
    one, two = (
        state_choice._predicted(made, part, 1, np.random.default_rng(0), {"effects": True}, None)
        for made in (given, other)
    )
    np.testing.assert_array_equal(one[part == 0], two[part == 0])
    assert (one[part == 1] != two[part == 1]).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_states": "many"}, "n_states"),
        ({"n_states": "auto", "most_states": 0}, "most_states"),
        ({"n_states": "auto", "most_states": "auto"}, "most_states"),
        ({"n_states": 2, "sequence_effects": "yes"}, "sequence_effects"),
        ({"n_states": "auto", "mechanism": "gibbs"}, "gibbs"),
        ({"n_states": 2, "mechanism": "gibbs", "sequence_effects": True}, "gibbs"),
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
