"""The number of states follows from scores by its formula, and no cell is predicted from its own release."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.markov.evidence import LogEvidence, log_evidence
from dpgraph.models import markov_counts
from dpgraph.models.markov_counts import choose_states

TINY = dg.Domain.of({"region": ["N", "S"], "month": [1, 2], "kind": ["a", "b"]})


def released(rows, domain, epsilon, seed=1):
    counts = dg.count(rows, dg.hmm_network(domain, "region", "month"))
    mechanism = dg.LaplaceMechanism(epsilon, tables="maximal")
    return dg.release(counts, mechanism, budget=dg.Budget(epsilon), noise=dg.testing.SeededNoise(seed))


def test_the_choice_is_that_of_its_formula(monkeypatch):
    """Predictions are given: scores are sums of released counts times logs; within one deviation the smallest wins."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({name: rng.choice(TINY.levels(name), 400) for name in TINY.names})
    given = log_evidence(released(rows, TINY, 1).value, "region", "month")
    logs = {1: np.log([0.5, 0.5]), 2: np.log([0.55, 0.45])}
    monkeypatch.setattr(
        markov_counts,
        "_predicted",
        lambda given, part, size, *rest: np.broadcast_to(logs[size], given.values.shape[1:]),
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
    monkeypatch.setattr(markov_counts, "_predicted", lambda given, part, size, *rest: -1.0 + (size == 3) * ahead)
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
        markov_counts._predicted(made, part, 1, np.random.default_rng(0), {"effects": True}, None)
        for made in (given, other)
    )
    np.testing.assert_array_equal(one[part == 0], two[part == 0])
    assert (one[part == 1] != two[part == 1]).all()
