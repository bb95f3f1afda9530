"""The evidence of a log is what was released, cell by cell, with the law of its noise."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.markov import sampler
from dpgraph.inference.markov.evidence import log_evidence
from dpgraph.inference.markov.sampler import (
    entries_estimate,
    fitted_mixture,
    rounded_to_total,
    shrunken,
)

DOMAIN = dg.Domain.of({"kind": ["a", "b"], "month": [1, 2, 3], "region": ["N", "S"], "grave": [0, 1, 2]})
NETWORK = dg.hmm_network(DOMAIN, "region", "month")
ROWS = pd.DataFrame(
    {"kind": ["a", "b", "a"], "month": [1, 3, 3], "region": ["N", "S", "S"], "grave": [2, 1, 1]},
)


def released(mechanism, unit=None):
    budget = dg.Budget("1e6", "0.1", unit=unit or dg.PrivacyUnit())
    return dg.release(dg.count(ROWS, NETWORK), mechanism, budget=budget, noise=dg.testing.SeededNoise(0)).value


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_cells_are_those_of_the_rows_when_noise_is_negligible(neighbours):
    given = log_evidence(
        released(dg.LaplaceMechanism(10_000, tables="maximal"), dg.PrivacyUnit(neighbours)), "region", "month"
    )
    assert given.shape == (2, 3)
    assert given.values[0, 0, 0].tolist() == [1, 0, 0, 0, 1]
    assert given.values[0, 1, 2].tolist() == [1, 1, 0, 2, 0]
    assert given.values[0, 0, 1].tolist() == [0] * 5


def test_the_law_of_the_noise_is_the_recorded_one():
    laplace = released(dg.LaplaceMechanism(1, tables="maximal", allocation="uniform"))
    given = log_evidence(laplace, "region", "month")
    scale = next(law for key, law in laplace.laws.items() if "kind" in key).scale
    assert (given.absolute[0], given.squares[0]) == pytest.approx((1 / scale, 0))
    gauss = released(dg.GaussianMechanism(1, "1e-6", tables="maximal"))
    given = log_evidence(gauss, "region", "month")
    sigma = next(law for key, law in gauss.laws.items() if "grave" in key).scale
    assert (given.absolute[4], given.squares[4]) == pytest.approx((0, 1 / (2 * sigma**2)))


def test_other_releases_are_refused():
    with pytest.raises(dg.errors.InferenceError, match="noisy counts"):
        log_evidence(3, "region", "month")
    counts = dg.count(ROWS, dg.Network.of(DOMAIN, {"kind": ["region"]}))
    noisy = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(0))
    with pytest.raises(dg.errors.InferenceError, match="maximal"):
        log_evidence(noisy.value, "region", "month")


def test_starts_are_whole_and_agree_on_the_entries():
    rng = np.random.default_rng(0)
    given = log_evidence(released(dg.LaplaceMechanism(1, tables="maximal")), "region", "month")
    values = given.values[0]
    counts = shrunken(given, values)
    assert (counts >= 0).all()
    entries = np.rint(entries_estimate(given, values)).astype(int)
    for columns in given.fields:
        whole = rounded_to_total(counts[..., columns], entries)
        assert (whole >= 0).all()
        assert (whole.sum(axis=-1) == entries).all()
    law, effects = fitted_mixture(counts, given.observed, given.fields, 2, rng, effects=False)
    assert not effects.any()
    assert np.allclose(law[:, :2].sum(axis=1), 1)
    assert np.allclose(law[:, 2:].sum(axis=1), 1)


def test_starts_find_well_separated_mixtures():
    """Two laws far apart, 40 entries a cell: every cell falls to its own."""
    rng = np.random.default_rng(1)
    laws = np.array([[0.9, 0.1, 0.8, 0.1, 0.1], [0.1, 0.9, 0.1, 0.1, 0.8]])
    which = rng.integers(0, 2, 60)
    fields = (slice(0, 2), slice(2, 5))
    counts = np.concatenate([[rng.multinomial(40, laws[k, c]) for k in which] for c in fields], axis=1).astype(float)
    found, _ = fitted_mixture(counts[None], np.ones((1, 60), bool), fields, 2, rng, effects=False)
    order = np.argsort(-found[:, 0])
    assert np.abs(found[order] - laws).max() < 0.1


def test_a_start_is_fitted_to_5000_cells_at_most_evenly_spread(monkeypatch):
    """The result is that of the fit to the cells that are taken, and another where more may be."""
    assert sampler.ENOUGH == 5000
    fields, rng = (slice(0, 2), slice(2, 5)), np.random.default_rng(4)
    tables = [rng.multinomial(6, law, 400) for law in ([0.3, 0.7], [0.2, 0.5, 0.3])]
    counts = np.concatenate(tables, axis=1).astype(float)[None]
    taken = counts[:, [0, 44, 88, 133, 177, 221, 266, 310, 354, 399]]

    def fitted(counts):
        rng = np.random.default_rng(5)
        return fitted_mixture(counts, np.ones(counts.shape[:2], bool), fields, 2, rng, effects=False)[0]

    whole = fitted(counts)
    monkeypatch.setattr(sampler, "ENOUGH", 10)
    np.testing.assert_array_equal(fitted(counts), fitted(taken))
    assert not np.allclose(fitted(counts), whole)


def test_sequences_that_a_start_leaves_out_have_effects_too(monkeypatch):
    """One state, no noise: a sequence's law is its own table, whichever sequences the state was fitted to."""
    monkeypatch.setattr(sampler, "SEQUENCES", 2)
    monkeypatch.setattr(sampler, "LAST_STEPS", 200)
    rng = np.random.default_rng(6)
    shares = rng.dirichlet(np.full(3, 5.0), 7)
    counts = np.repeat(1e6 * shares[:, None], 4, axis=1)
    law, effects = fitted_mixture(counts, np.ones((7, 4), bool), (slice(0, 3),), 1, rng, effects=True)
    found = law * np.exp(effects)
    np.testing.assert_allclose(found / found.sum(axis=1, keepdims=True), shares, atol=0.02)


def test_a_start_takes_all_cells_where_none_of_those_evenly_spread_is_observed(monkeypatch):
    monkeypatch.setattr(sampler, "ENOUGH", 2)
    counts, observed = np.full((1, 5, 2), 50.0), np.arange(5)[None] == 2
    counts[0, 2] = 90, 10
    rng = np.random.default_rng(7)
    law, _ = fitted_mixture(counts, observed, (slice(0, 2),), 2, rng, effects=False)
    np.testing.assert_allclose(law, [[0.9, 0.1]] * 2, atol=0.02)
