"""Chains start at records like those behind the release, whatever form it has."""

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.inference.network.by_records import starting_records
from dpgraph.inference.network.evidence import concentration_tables, contingency_table, evidence
from dpgraph.inference.network.queries import sample_codes
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap

NETWORK = dg.Network.of({"a": [0, 1, 2], "b": [0, 1], "c": [0, 1]}, {"b": ["a"], "c": ["b", "a"]})
TRUTH = dg.Probabilities(
    NETWORK,
    {
        "a": np.array([0.6, 0.3, 0.1]),
        "b": np.array([[0.9, 0.5, 0.2], [0.1, 0.5, 0.8]]),
        "c": np.stack([np.full((2, 3), 0.8), np.full((2, 3), 0.2)]),
    },
)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", [dg.LaplaceMechanism(50), dg.FourierMechanism(50)], ids=["laplace", "fourier"])
def test_with_little_noise_a_start_has_the_frequencies_of_the_rows(mechanism, neighbours):
    """Of 4000 rows; drawing them anew moves a cell by less than .05 n, 6 standard deviations, in any start."""
    n = 4000
    rows = sample_codes(TRUTH, n, np.random.default_rng(0))
    counts = dg.count(Codes(NETWORK.domain, FrozenMap(rows)), NETWORK)
    budget = dg.Budget(50, unit=dg.PrivacyUnit(neighbours))
    given = evidence(dg.release(counts, mechanism, budget=budget, noise=dg.testing.SeededNoise(1)).value)
    start = starting_records(given, concentration_tables(NETWORK, 1.0), np.random.default_rng(1))
    found = contingency_table(start, ("c", "b", "a"), (2, 2, 3))
    assert abs(found.sum() - n) <= (0 if neighbours == "replace" else 10)
    assert np.abs(found - contingency_table(rows, ("c", "b", "a"), (2, 2, 3))).max() < 0.05 * n


def test_starts_differ_by_about_the_noise():
    rows = sample_codes(TRUTH, 300, np.random.default_rng(0))
    counts = dg.count(Codes(NETWORK.domain, FrozenMap(rows)), NETWORK)
    budget = dg.Budget(1, unit=dg.PrivacyUnit("add-remove"))
    given = evidence(
        dg.release(counts, dg.LaplaceMechanism("0.05"), budget=budget, noise=dg.testing.SeededNoise(1)).value
    )
    prior = concentration_tables(NETWORK, 1.0)
    sizes = [len(starting_records(given, prior, np.random.default_rng(seed))["a"]) for seed in range(200)]
    sd = np.sqrt(sum(table.law.variance(12) * table.values.size for table in given.tables))
    assert 0.5 * sd < np.std(sizes) < 1.5 * sd
