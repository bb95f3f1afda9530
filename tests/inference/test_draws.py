"""The contract of all draws: what the three families answer, alike, and when their chains are warned of."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.draws import Draws, ParameterDraws, random_indices, warn_if_not_mixed
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.moments import MomentDescription, NoisyMoments

COIN = dg.Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
COUNTS = dg.results.NoisyCounts(
    COIN, {("wet", "rain"): [[60, 4], [9, 27]]}, {("wet", "rain"): DiscreteLaplace(2.0)}, n=100
)
TIMES = NoisyMoments(MomentDescription(dg.expfam.Exponential(), (0, 1)), [30 << 20], DiscreteLaplace(2.0**20), 100)
DESIGN = dg.LinearDesign({"x": (-1, 1)}, "y", (-1, 1))
SUMS = (np.array([0.0, 0.0, 300.0, 150.0, 100.0]) / np.array(DESIGN.steps)).astype(np.int64)
PRODUCTS = NoisyMoments(DESIGN, SUMS, DiscreteLaplace(5.0 / DESIGN.steps[0]), n=1000)
RATE = dg.expfam.Exponential().prior(8, 2)

#: Noisy statistics, their prior, a method with chains and one with independent draws.
FAMILIES = {
    "network": (COUNTS, None, "records", "normal"),
    "exponential family": (TIMES, RATE, "gibbs", "quadrature"),
    "regression": (PRODUCTS, None, "hamiltonian", "plug-in"),
}
EVERY = pytest.mark.parametrize("family", FAMILIES)
BOTH = pytest.mark.parametrize("independent", [True, False], ids=["independent", "chains"])


def made(family, independent, **settings):
    noisy, prior, chains, plain = FAMILIES[family]
    settings = {"draws": 500, "seed": 1} | settings
    return dg.posterior(noisy, prior=prior, method=plain if independent else chains, **settings)


def values(point):
    """One draw or mean, as numbers in the order of the frame's rows."""
    if isinstance(point, dict):
        return list(point.values())
    return [entry for name in COIN.domain.names for entry in point.table(name).ravel()]


@EVERY
@BOTH
def test_all_draws_answer_alike(family, independent):
    """Mean, interval and frame say the same; a sample of all draws is all draws, each of the mean's form."""
    drawn = made(family, independent)
    assert isinstance(drawn, Draws)
    frame = drawn.to_frame(0.5)
    assert frame.columns[-4:].tolist() == ["mean", "sd", "low", "high"]
    every = np.array([values(one) for one in drawn.sample(np.random.default_rng(0), len(drawn))])
    np.testing.assert_allclose(frame["mean"], every.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(frame["sd"], every.std(axis=0), rtol=1e-9)
    np.testing.assert_allclose(frame[["low", "high"]].T, np.quantile(every, [0.25, 0.75], axis=0), rtol=1e-9)
    ends = drawn.interval(0.5).values()
    for side, column in enumerate(("low", "high")):
        np.testing.assert_allclose(np.concatenate([np.ravel(end[side]) for end in ends]), frame[column])
    np.testing.assert_allclose(values(drawn.mean()), frame["mean"], atol=0.02)


@EVERY
@BOTH
def test_all_diagnostics_have_the_same_entries(family, independent):
    drawn = made(family, independent)
    found = drawn.diagnostics
    entries = ["method", "reason", "chains", "draws", "r_hat", "effective_size"]
    assert list(found)[: len(entries)] == entries
    assert all(name.startswith("acceptance of ") for name in list(found)[len(entries) :])
    assert found["method"] == drawn.method == FAMILIES[family][3 if independent else 2]
    assert found["reason"] == drawn.reason != ""
    assert found["draws"] == len(drawn)
    if independent:
        assert (found["chains"], found["r_hat"], found["effective_size"]) == (1, 1.0, len(drawn))
    else:
        assert found["chains"] == {"network": 2, "exponential family": 16, "regression": 8}[family]
        assert 1 < found["r_hat"] < 1.05
        assert found["effective_size"] > 100


ROWS = pd.DataFrame({"rain": ["no", "yes"] * 20, "wet": ["no", "yes"] * 20, "x": 0.5, "y": 0.25})
STATISTICS = {
    "network": lambda: dg.count(ROWS, COIN),
    "exponential family": lambda: dg.statistics.sufficient_statistics(
        ROWS["x"], dg.expfam.Exponential(), bounds=(0, 1)
    ),
    "regression": lambda: dg.statistics.regression_moments(ROWS, DESIGN),
}


def test_diagnostics_do_not_depend_on_how_many_are_judged_at_once(monkeypatch):
    drawn = made("network", independent=False)
    at_once = drawn.diagnostics
    monkeypatch.setattr("dpgraph.inference.draws.HELD", 1000)  # two of the six entries
    assert drawn.diagnostics == at_once
    monkeypatch.setattr("dpgraph.inference.draws.HELD", 1)  # one
    assert drawn.diagnostics == at_once


@EVERY
def test_a_release_is_remembered_and_a_value_has_none(family):
    release = dg.release(STATISTICS[family](), dg.LaplaceMechanism(1), budget=dg.Budget(1))
    _, prior, _, method = FAMILIES[family]
    made = [dg.posterior(one, prior=prior, method=method, draws=5) for one in (release, release.value)]
    assert [one.provenance for one in made] == [release.provenance, None]


@EVERY
@pytest.mark.parametrize("probability", [0, 1, -0.5, 1.5, math.nan, True, "0.9", None])
def test_probabilities_are_checked(family, probability):
    drawn = made(family, True, draws=5)
    for asked in (drawn.interval, drawn.to_frame):
        with pytest.raises(dg.errors.InferenceError, match="must be a probability between 0 and 1"):
            asked(probability)


@EVERY
@pytest.mark.parametrize("size", [0, -1, 1.5, True, "3", None])
def test_sizes_are_checked(family, size):
    with pytest.raises(dg.errors.InferenceError, match="size must be a whole number, at least 1"):
        made(family, True, draws=5).sample(np.random.default_rng(0), size)


def test_a_sample_repeats_no_draw_until_all_are_used():
    found = random_indices(7, np.random.default_rng(0), 17)
    assert sorted(found[:7]) == sorted(found[7:14]) == list(range(7))
    assert len(set(found[14:])) == 3


@EVERY
def test_short_chains_warn_where_they_were_asked_for(family, monkeypatch):
    """Few iterations and no burn-in: fewer than a hundred effective draws. A regression's chains may not go on here."""
    monkeypatch.setattr("dpgraph.inference.regression.posterior.LONGEST", 1)
    monkeypatch.setattr("dpgraph.inference.regression.posterior.LEAST_DRAWS", 4)
    brief = {
        "network": dg.methods.Records(burn_in=0),
        "exponential family": dg.methods.Gibbs(0, 1),
        "regression": dg.methods.Hamiltonian(0),
    }
    noisy, prior, _, _ = FAMILIES[family]
    with pytest.warns(dg.errors.ConvergenceWarning, match="privacy is not at stake") as caught:
        dg.posterior(noisy, prior=prior, method=brief[family], draws=20, seed=0)
    assert caught[0].filename == __file__


@EVERY
def test_independent_draws_are_never_warned_of(family):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(made(family, True, draws=3)) == 3


@pytest.mark.parametrize(
    ("r_hat", "size", "warned"),
    [
        (1.05, 100.0, False),
        (1.0501, 1000.0, True),
        (1.0, 99.9, True),
        (math.nan, 1000.0, True),
        (1.01, math.nan, True),
        (math.inf, 1000.0, True),
    ],
)
def test_one_pair_of_thresholds_judges_all_chains(r_hat, size, warned):
    mixing = FrozenMap({"r_hat": r_hat, "effective_size": size})
    found = ParameterDraws(FrozenMap({"p": np.zeros(1000)}), "gibbs", "as asked", chains=4, mixing=mixing).diagnostics
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_if_not_mixed(found)
    assert [one.category for one in caught] == [dg.errors.ConvergenceWarning] * warned
