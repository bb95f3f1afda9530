"""Bars of chains: for a terminal alone, to the very end, and they change nothing of what is drawn."""

import io
import sys

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.progress import progress_bar
from dpgraph.inference.regression import chain_iterations, regression_posterior

pytestmark = pytest.mark.filterwarnings(
    "ignore::dpgraph.inference.draws.ConvergenceWarning"
)  # a few draws are for speed


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("wanted", [True, False])
@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_bar_is_for_who_asks_at_a_terminal(wanted, stream, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream())
    with progress_bar(wanted, 12, "rounds") as tick:
        assert (tick is not None) == (wanted and stream is Terminal)
        for i in range(12) if tick else ():
            tick(i)
    assert ("rounds: 100%" in sys.stderr.getvalue()) == (wanted and stream is Terminal)
    assert ("12/12" in sys.stderr.getvalue()) == (wanted and stream is Terminal)


def test_a_failure_under_a_bar_stays_one(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(KeyboardInterrupt), progress_bar(True, 12, "rounds"):
        raise KeyboardInterrupt


@pytest.fixture(scope="module")
def sums():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.uniform(-1, 1, 500)}).assign(y=lambda rows: rows["x"] / 2)
    design = dg.LinearDesign({"x": (-1, 1)}, "y", (-1, 1))
    budget = dg.Budget(5)
    return dg.release(
        dg.regression_moments(rows, design), dg.LaplaceMechanism(5), budget=budget, noise=dg.SeededNoise(0)
    )


@pytest.mark.parametrize(("draws", "burn_in", "thin"), [(1, 20, 1), (1000, 10, 2)])
def test_every_iteration_of_a_regression_is_told_of_once(sums, draws, burn_in, thin):
    told = []
    settings = {"draws": draws, "burn_in": burn_in, "thin": thin, "progress": told.append}
    regression_posterior(sums, rng=np.random.default_rng(0), **settings)
    assert told == list(range(chain_iterations(draws, burn_in, thin)))


def test_a_bar_of_a_regression_is_full_and_changes_no_draw(sums, monkeypatch):
    quiet = dg.noise_aware_posterior(sums, draws=20, seed=3)
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown = dg.noise_aware_posterior(sums, draws=20, seed=3, progress=True)
    np.testing.assert_array_equal(shown.weights, quiet.weights)
    assert f"{chain_iterations(20)}/{chain_iterations(20)}" in sys.stderr.getvalue()
    monkeypatch.setattr(sys, "stderr", Terminal())
    dg.noise_aware_posterior(sums, draws=20, seed=3, method="plug-in", progress=True)
    assert sys.stderr.getvalue() == ""


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(0)
    domain = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})
    log = pd.DataFrame({name: rng.choice(domain.levels(name), 200) for name in domain.names})
    network = dg.hmm_network(domain, "region", "month")
    mechanism = dg.LaplaceMechanism(2, tables="maximal")
    return dg.release(dg.count(log, network), mechanism, budget=dg.Budget(2), noise=dg.SeededNoise(0))


@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
@pytest.mark.parametrize("inference", ["noise-aware", "plug-in"])
@pytest.mark.parametrize("fast", [None, False])
def test_a_bar_of_a_hidden_markov_model_is_full_and_changes_no_draw(cells, sampler, inference, fast, monkeypatch):
    how = {"sampler": sampler, "inference": inference, "fast": fast, "seed": 1, "iterations": 4, "burn_in": 3}
    quiet = dg.hidden_markov_model(cells, 2, chain="region", time="month", **how)
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown = dg.hidden_markov_model(cells, 2, chain="region", time="month", progress=True, **how)
    np.testing.assert_array_equal(shown.log_joint, quiet.log_joint)
    np.testing.assert_array_equal(shown.transition, quiet.transition)
    assert "7/7" in sys.stderr.getvalue()


@pytest.mark.parametrize("setting", [{"burn_in": "many"}, {"iterations": None}, {"chains": 0}])
def test_a_bad_number_is_refused_before_any_bar(cells, setting, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(dg.ReleaseError, match=next(iter(setting))):
        dg.hidden_markov_model(cells, 2, chain="region", time="month", progress=True, **setting)
    assert sys.stderr.getvalue() == ""
