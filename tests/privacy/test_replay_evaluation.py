"""Replay of evaluations (promise.md S7): different held-out rows that release the same integers give the same bytes."""

import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.privacy.noise import SecureNoise
from dpgraph.structure.moments import STEPS
from tests.everything import everything
from tests.privacy.test_replay import DOMAIN, rows

pytestmark = pytest.mark.usefixtures("budgets_of_one_name")

LOG = dg.Domain.of({"region": ["N", "S"], "month": [1, 2], "kind": ["a", "b"]})


class Replayed:
    """Answers with the same integers, of the order of a thousand rows, and logs what it was asked."""

    private = True

    def __init__(self):
        self.calls = []

    def add(self, values, law):
        self.calls.append((repr(law), values.shape, str(values.dtype)))
        return np.random.default_rng(len(self.calls)).integers(-100 * STEPS, 8000 * STEPS, len(values))


@pytest.fixture(scope="module")
def models():
    fitted = dg.PrivateNaiveBayes(DOMAIN, epsilon=5).fit(rows(0, 400)[["b", "c"]], rows(0, 400)["a"].to_numpy())
    bounds = {"b": dg.Bounded(0, 3, missing=1), "c": (0, 9)}
    linear = dg.PrivateLinearRegression(bounds, (0, 10), epsilon=5, inference="plug-in", draws=20)
    table = pd.DataFrame({"region": ["N", "S"] * 50, "month": [1, 1, 2, 2] * 25, "kind": ["a", "b"] * 50})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)  # ten sweeps are no study
        markov = dg.PrivateHMM(2, LOG, epsilon=20, iterations=10, burn_in=10).fit(table)
    linear.fit(rows(0, 400)[["b", "c"]], np.arange(400) % 10)
    return {"classifier": fitted, "regression": linear, "log": markov}


def held_out(kind, seed, n):
    rng = np.random.default_rng(seed)
    if kind == "log":
        columns = {"region": ["N", "S"], "month": [1, 2], "kind": ["a", "b"]}
        return (pd.DataFrame({name: rng.choice(levels, n) for name, levels in columns.items()}),)
    table = rows(seed, n)
    return table[["b", "c"]], table["a"].to_numpy() if kind == "classifier" else rng.uniform(-5, 15, n)


def seen(model, held, unit):
    noise, budget = Replayed(), dg.Budget(3, unit=unit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        judged = dg.evaluate(model, *held, epsilon=1, budget=budget, noise=noise)
        found = [repr(judged), judged.to_frame().to_csv(), everything(judged.release), repr(budget)]
        if "accuracy" in judged.scores:
            found += [judged.confusion.to_csv(), judged.reliability.to_csv(), judged.classes.to_csv()]
        try:
            dg.evaluate(model, *held, epsilon=9, budget=budget, noise=noise)
        except dg.errors.BudgetExceededError as error:
            found.append(str(error))
    return found + [str(warning.message) for warning in caught] + [repr(noise.calls)]


@pytest.mark.parametrize("kind", ["classifier", "regression", "log"])
def test_replace(models, kind, caplog):
    with caplog.at_level(logging.DEBUG):
        unit = dg.PrivacyUnit("replace")
        first = seen(models[kind], held_out(kind, 1, 200), unit)
        assert seen(models[kind], held_out(kind, 2, 200), unit) == first
        assert caplog.text == ""


@pytest.mark.parametrize("kind", ["classifier", "regression", "log"])
def test_add_remove_whatever_the_number_of_rows(models, kind):
    unit = dg.PrivacyUnit("add-remove", 2)
    first = seen(models[kind], held_out(kind, 1, 200), unit)
    for seed, n in ((2, 737), (3, 1), (4, 0)):
        assert seen(models[kind], held_out(kind, seed, n), unit) == first


def test_the_command_line_says_and_writes_the_same_bytes(models, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    dg.save(models["classifier"], "m.json")
    outputs = []
    for seed, n in ((1, 200), (2, 350)):
        source = Replayed()
        monkeypatch.setattr(SecureNoise, "add", lambda self, values, law, source=source: source.add(values, law))
        rows(seed, n).to_csv("rows.csv", index=False)
        words = ["evaluate", "m.json", "rows.csv", "--epsilon", "1", "--neighbours", "add-remove", "--out", "e.json"]
        result = CliRunner().invoke(main, words)
        assert result.exit_code == 0, result.output
        outputs.append([result.stdout, result.stderr, (tmp_path / "e.json").read_bytes(), source.calls])
        (tmp_path / "e.json").unlink()
    assert outputs[0] == outputs[1]
