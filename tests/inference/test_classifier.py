"""The posterior of a classifier: which method, and what it finds in strong and in drowned releases."""

import numpy as np
import pytest

from dpgraph.inference.classifier import classifier_posterior
from dpgraph.privacy.records import DiscreteLaplace
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCounts

PAIR = Network.of({"y": [0, 1], "a": [0, 1], "b": [0, 1]}, {"a": ["y"], "b": ["y"]})
STRONG = {("a", "y"): [[400, 100], [100, 400]], ("b", "y"): [[252, 250], [249, 251]]}


def released(tables, scale, n):
    """Noisy counts, cell by cell."""
    made = {key: np.array(values) for key, values in tables.items()}
    return NoisyCounts(PAIR, made, dict.fromkeys(made, DiscreteLaplace(scale)), n=n)


@pytest.mark.parametrize(
    ("scale", "n", "method"), [(30.0, 1000, "records"), (3.0, 1000, "normal"), (30.0, None, "normal")]
)
def test_chains_are_run_where_counts_of_a_public_number_of_rows_are_near_their_noise(scale, n, method):
    made = classifier_posterior(released(STRONG, scale, n), "y")
    assert made.method == method
    assert ("near their noise" in made.reason) == (method == "records")


@pytest.mark.proof
def test_where_noise_drowns_everything_features_have_no_effect_and_labels_are_even():
    """A release that says next to nothing of 50 rows: predictive columns differ by less than .1 of .5."""
    given = released({("a", "y"): [[10, -20], [5, 0]], ("b", "y"): [[0, 1], [2, 3]]}, 1e6, 50)
    mean = classifier_posterior(given, "y").mean()
    assert np.abs(mean.table("a") - 0.5).max() < 0.1
    assert np.abs(mean.table("y") - 0.5).max() < 0.1


def test_a_strong_effect_is_found():
    drawn = classifier_posterior(released(STRONG, 30.0, 1000), "y")
    mean = drawn.mean()
    assert np.abs(mean.table("a") - [[0.8, 0.2], [0.2, 0.8]]).max() < 0.1
    assert np.abs(mean.table("b") - 0.5).max() < 0.1
    assert max(float(value.max()) for value in drawn.r_hat.values()) < 1.1
