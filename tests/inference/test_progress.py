"""Bars of chains: for a terminal alone, to the very end, and they change nothing of what is drawn."""

import io
import sys

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.progress import progress_bar

FAMILY = dg.expfam.Exponential()


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
        dg.regression_moments(rows, design), dg.LaplaceMechanism(5), budget=budget, noise=dg.testing.SeededNoise(0)
    )


@pytest.fixture(scope="module")
def times():
    moments = dg.sufficient_statistics(np.random.default_rng(0).exponential(0.3, 200), FAMILY, bounds=(0, 2))
    budget = dg.Budget(5, unit=dg.PrivacyUnit("add-remove"))
    return dg.release(moments, dg.LaplaceMechanism(5), budget=budget, noise=dg.testing.SeededNoise(0))


@pytest.mark.parametrize(("draws", "burn_in", "thin", "total"), [(1, 20, 1, 80), (1000, 10, 2, 260)])
def test_a_bar_of_a_regression_is_full_and_changes_no_draw(sums, draws, burn_in, thin, total, monkeypatch):
    """Eight chains of 60 draws at least: 20 + 60, and 10 + 2 * 125 iterations."""
    settings = {"method": dg.methods.Hamiltonian(burn_in, thin), "draws": draws, "seed": 3}
    quiet = dg.noise_aware_posterior(sums, **settings)
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown = dg.noise_aware_posterior(sums, **settings, progress=True)
    np.testing.assert_array_equal(shown.weights, quiet.weights)
    assert f"{total}/{total}" in sys.stderr.getvalue()
    monkeypatch.setattr(sys, "stderr", Terminal())
    dg.noise_aware_posterior(sums, draws=20, seed=3, method="plug-in", progress=True)
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(("draws", "burn_in", "thin", "total"), [(1, 20, 3, 32), (1000, 10, 2, 136)])
def test_a_bar_of_a_family_is_full_and_changes_no_draw(times, draws, burn_in, thin, total, monkeypatch):
    """Sixteen chains of 4 draws at least: 20 + 3 * 4, and 10 + 2 * 63 iterations."""
    settings = {"method": dg.methods.Gibbs(burn_in, thin), "draws": draws, "seed": 3, "prior": FAMILY.prior(2, 1)}
    quiet = dg.noise_aware_posterior(times, **settings)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert dg.noise_aware_posterior(times, **settings, progress=True) == quiet
    assert f"{total}/{total}" in sys.stderr.getvalue()


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(0)
    domain = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})
    log = pd.DataFrame({name: rng.choice(domain.levels(name), 200) for name in domain.names})
    network = dg.hmm_network(domain, "region", "month")
    mechanism = dg.LaplaceMechanism(2, tables="maximal")
    return dg.release(dg.count(log, network), mechanism, budget=dg.Budget(2), noise=dg.testing.SeededNoise(0))


@pytest.mark.parametrize("sampler", ["blocked", "collapsed"])
@pytest.mark.parametrize("inference", ["noise-aware", "plug-in"])
def test_a_bar_of_a_hidden_markov_model_is_full_and_changes_no_draw(cells, sampler, inference, monkeypatch):
    how = {"sampler": sampler, "inference": inference, "seed": 1, "iterations": 4, "burn_in": 3}
    quiet = dg.fit_hmm(cells, 2, sequence="region", time="month", **how)
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown = dg.fit_hmm(cells, 2, sequence="region", time="month", progress=True, **how)
    np.testing.assert_array_equal(shown.log_joint, quiet.log_joint)
    np.testing.assert_array_equal(shown.transition, quiet.transition)
    assert "7/7" in sys.stderr.getvalue()


def test_a_bar_of_the_choice_of_states_counts_its_sweeps_and_changes_no_draw(cells, monkeypatch):
    """Six cells: three parts, one to three states, 40 sweeps before 40 draws; one state leaves nothing to show."""
    how = {"sequence": "region", "time": "month", "seed": 1, "iterations": 4, "burn_in": 3}
    quiet = dg.fit_hmm(cells, "auto", **how)
    monkeypatch.setattr(sys, "stderr", Terminal())
    shown = dg.fit_hmm(cells, "auto", progress=True, **how)
    np.testing.assert_array_equal(shown.log_joint, quiet.log_joint)
    assert shown.choice == quiet.choice
    assert "choose the number of states: 100%" in sys.stderr.getvalue()
    assert "720/720" in sys.stderr.getvalue()
    assert "7/7" in sys.stderr.getvalue()
    monkeypatch.setattr(sys, "stderr", Terminal())
    dg.fit_hmm(cells, "auto", most_states=1, progress=True, **how)
    assert "choose" not in sys.stderr.getvalue()


@pytest.mark.parametrize("setting", [{"burn_in": "many"}, {"iterations": None}, {"chains": 0}])
def test_a_bad_number_is_refused_before_any_bar(cells, setting, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(dg.errors.InferenceError, match=next(iter(setting))):
        dg.fit_hmm(cells, 2, sequence="region", time="month", progress=True, **setting)
    assert sys.stderr.getvalue() == ""
