"""The evidence of a log is what was released, cell by cell, with the law of its noise."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.markov.evidence import log_evidence
from dpgraph.inference.markov.sampler import (
    entries_estimate,
    fitted_emissions,
    rounded_to_total,
    shrunken,
    without_effects,
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
    law = fitted_emissions(counts.reshape(-1, 5), given.fields, 2, rng)
    assert np.allclose(law[:, :2].sum(axis=1), 1)
    assert np.allclose(law[:, 2:].sum(axis=1), 1)


def test_without_effects_every_sequence_has_the_law_of_all():
    """Counts in proportions p exp(b) become N p, by hand."""
    fields, entries = (slice(0, 2), slice(2, 5)), np.array([[10.0, 40.0], [30.0, 5.0]])
    law = np.array([0.3, 0.7, 0.5, 0.2, 0.3])
    effects = np.array([[1.0, -0.5, 0.2, 0.0, 2.0], [0.0, 0.4, -1.0, 3.0, 0.1]])
    weights = law * np.exp(effects)
    shares = np.concatenate([w / w.sum(axis=1, keepdims=True) for w in (weights[:, :2], weights[:, 2:])], axis=1)
    found = without_effects(entries[..., None] * shares[:, None], effects, fields)
    np.testing.assert_allclose(found, entries[..., None] * law, rtol=1e-12)


def test_starts_find_well_separated_mixtures():
    """Two laws far apart, 40 entries a cell: every cell falls to its own."""
    rng = np.random.default_rng(1)
    laws = np.array([[0.9, 0.1, 0.8, 0.1, 0.1], [0.1, 0.9, 0.1, 0.1, 0.8]])
    which = rng.integers(0, 2, 60)
    fields = (slice(0, 2), slice(2, 5))
    counts = np.concatenate([[rng.multinomial(40, laws[k, c]) for k in which] for c in fields], axis=1).astype(float)
    found = fitted_emissions(counts, fields, 2, rng)
    order = np.argsort(-found[:, 0])
    assert np.abs(found[order] - laws).max() < 0.1


def test_a_start_is_fitted_to_1000_cells_at_most_evenly_spread(monkeypatch):
    """The result is that of the fit to the cells that are taken, and another where more may be."""
    from dpgraph.inference.markov import sampler

    assert sampler.ENOUGH == 1000
    fields, rng = (slice(0, 2), slice(2, 5)), np.random.default_rng(4)
    tables = [rng.multinomial(6, law, 400) for law in ([0.3, 0.7], [0.2, 0.5, 0.3])]
    counts = np.concatenate(tables, axis=1).astype(float)
    taken = counts[[0, 44, 88, 133, 177, 221, 266, 310, 354, 399]]
    whole = fitted_emissions(counts, fields, 2, np.random.default_rng(5))
    monkeypatch.setattr(sampler, "ENOUGH", 10)
    found = fitted_emissions(counts, fields, 2, np.random.default_rng(5))
    np.testing.assert_array_equal(found, fitted_emissions(taken, fields, 2, np.random.default_rng(5)))
    assert not np.allclose(found, whole)
