"""Replay (promise.md S7): two different data sets that release the same integers give byte-identical everything.

If anything downstream, or the sequence and scales of the noise calls, looked at the rows, some byte would differ.
"""

import json
import logging
import warnings

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.privacy.noise import SecureNoise
from tests.everything import everything

pytestmark = pytest.mark.usefixtures("budgets_of_one_name")

DOMAIN = dg.Domain.of(
    {"a": ["x", "y"], "b": dg.Bins([0, 1, 2, 3], missing=True), "c": dg.Categories([0, 1, 2], other=2)}
)
NETWORK = dg.Network.of(DOMAIN, {"b": ["a"], "c": ["a", "b"]})


def rows(seed, n):
    rng = np.random.default_rng(seed)
    b = np.where(rng.random(n) < 0.1, np.nan, rng.normal(1.5, 3, n))
    return pd.DataFrame({"a": rng.choice(["x", "y"], n, p=[0.9, 0.1]), "b": b, "c": rng.integers(0, 9, n)})


class Replayed:
    """A noise source that answers with the same integers whatever the values, and logs what it was asked."""

    private = True

    def __init__(self, total):
        self.total, self.calls = total, []

    def add(self, values, law):
        self.calls.append((repr(law), values.shape, str(values.dtype)))
        answer = np.random.default_rng(len(self.calls)).integers(-5, 40, len(values))
        if "SumZero" in repr(law):
            answer[-1] += self.total - answer.sum()
        return answer


def downstream(rows_, unit, design):
    """Everything a user or an attacker can see after a release, as text."""
    noise, budget = Replayed(200), dg.Budget(3, unit=unit)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        counts = dg.count(rows_, NETWORK)
        release = dg.release(counts, dg.LaplaceMechanism(1, tables=design), budget=budget, noise=noise)
        seen = [repr(counts), everything(release), repr(budget), everything(dg.reconcile(release))]
        seen.append(everything(release.provenance))
        for plug_in in ("nearest", "expected", "clipped"):
            learned = dg.posterior(release, method=dg.methods.PlugIn(plug_in))
            probabilities = learned.mean()
            seen += [everything(learned), everything(probabilities), probabilities.to_frame("c").to_csv()]
            seen += [dg.sample_rows(probabilities, 50, np.random.default_rng(0)).to_csv()]
            seen += [dg.query(probabilities, "a", {"c": 1}).to_frame().to_csv()]
            seen += [everything(learned.mode()), everything(learned.sample(np.random.default_rng(1), 2))]
        target = "a"
        model = dg.PrivateNaiveBayes(DOMAIN, epsilon=1, noise=Replayed(200), unit=unit)
        model.fit(rows_[["b", "c"]], rows_[target].to_numpy())
        seen += [everything(model.release_), repr(model.predict_proba(rows(99, 30)[["b", "c"]]).tolist())]
        try:
            dg.release(counts, dg.LaplaceMechanism(9), budget=budget, noise=noise)
        except dg.errors.BudgetExceededError as error:
            seen.append(str(error))
    return seen + [str(warning.message) for warning in caught] + [repr(noise.calls), repr(model.noise.calls)]


@pytest.mark.parametrize("design", ["merged", "maximal", "families"])
def test_replace(design, caplog):
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.WARNING, "numba"):
        one = downstream(rows(1, 200), dg.PrivacyUnit("replace"), design)
        first_log = caplog.text
        caplog.clear()
        assert downstream(rows(2, 200), dg.PrivacyUnit("replace"), design) == one
        assert caplog.text == first_log


@pytest.mark.parametrize("design", ["merged", "maximal", "families"])
def test_add_remove_whatever_the_number_of_rows(design):
    unit = dg.PrivacyUnit("add-remove")
    one = downstream(rows(1, 200), unit, design)
    assert downstream(rows(2, 737), unit, design) == one
    assert downstream(rows(3, 0), unit, design) == one


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_the_command_line_writes_and_says_the_same_bytes(neighbours, monkeypatch, tmp_path):
    domain = tmp_path / "d.toml"
    domain.write_text(
        '[variables]\na = ["x", "y"]\nb = { bins = [0, 1, 2, 3], missing = true }\n'
        "c = { levels = [0, 1, 2], other = 2 }\n[parents]\na = []\nb = ['a']\nc = []\n"
    )
    second = 200 if neighbours == "replace" else 350
    outputs = []
    for seed, n in ((1, 200), (2, second)):
        source = Replayed(200)
        monkeypatch.setattr(SecureNoise, "add", lambda self, values, law, source=source: source.add(values, law))
        rows(seed, n).to_csv(tmp_path / "rows.csv", index=False)
        shared = ["--epsilon", "1", "--neighbours", neighbours]
        seen = []
        for command in (
            ["release", "rows.csv", "--network", str(domain), *shared, "--out", "r.json"],
            ["fit", "naive-bayes", "rows.csv", "--domain", str(domain), "--target", "a", *shared, "--out", "m.json"],
            ["posterior", "r.json", "--method", "plug-in", "--out", "p.json"],
        ):
            monkeypatch.chdir(tmp_path)
            result = CliRunner().invoke(main, command)
            seen += [result.exit_code, result.stdout, result.stderr]
        for name in ("r.json", "m.json", "p.json"):
            seen.append((tmp_path / name).read_bytes())
            (tmp_path / name).unlink()
        seen.append(source.calls)
        outputs.append(seen)
    assert outputs[0] == outputs[1]
    assert outputs[0][0] == 0
    assert (json.loads(outputs[0][9])["n"] is None) == (neighbours == "add-remove")
