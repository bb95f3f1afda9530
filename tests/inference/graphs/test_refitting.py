"""Draws of a learned network's tables by fitting them again to drawn pairs: what they average to, and hold."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.graphs import choosing
from dpgraph.inference.graphs.choosing import learned_from
from dpgraph.testing import SeededNoise

NAMES = tuple("abcd")


def chain(levels=2, n=20_000, seed=0):
    """Rows of a chain a -> b -> c -> d, each a copy of the one before it with probability 3 in 4."""
    rng = np.random.default_rng(seed)
    columns = {"a": rng.integers(0, levels, n)}
    for one, other in itertools.pairwise(NAMES):
        columns[other] = np.where(rng.random(n) < 0.75, columns[one], rng.integers(0, levels, n))
    return columns


def learned(levels, seed=1, epsilon=1, n=20_000):
    rows, domain = pd.DataFrame(chain(levels, n)), {name: list(range(levels)) for name in NAMES}
    unit = dg.PrivacyUnit("add-remove")
    return dg.learn_network(rows, domain, epsilon=epsilon, delta=1e-6, unit=unit, noise=SeededNoise(seed))


@pytest.mark.parametrize("levels", [2, pytest.param(20, marks=pytest.mark.proof)])
def test_refitted_draws_lie_about_the_fit_and_hold_the_truth(levels, monkeypatch):
    monkeypatch.setattr(choosing, "SHORT", math.inf)  # these draws are of the chosen graph, whatever the model
    made = learned(levels).posterior(method="refitted", draws=40, seed=3)
    assert (made.method, made.shape) == ("refitted", (1, 40))
    assert made.provenance is not None
    answer = dg.query(made, ["a", "c"], interval=0.98)
    same = 0.75**2 + (1 - 0.75**2) / levels
    truth = np.array([(same if one == other else (1 - same) / (levels - 1)) / levels for one, other in answer.labels])
    held = np.mean((answer.low <= truth) & (truth <= answer.high))
    assert held > 0.75, held


def test_a_learned_network_answers_questions_with_intervals_by_itself():
    found = learned(6)
    one, again = dg.query(found, {"c": 1}, {"a": 1}), dg.query(found, {"c": 1}, {"a": 1})
    assert len(one.draws) == 100
    assert one.low[0] < one.mean[0] < one.high[0]
    assert np.array_equal(one.draws, again.draws)


def test_refitting_has_no_prior_and_needs_pairs():
    found = learned(2)
    with pytest.raises(dg.errors.InferenceError, match="has no prior"):
        found.posterior(method="refitted", prior=1.0, draws=5)
    with pytest.raises(dg.errors.InferenceError, match="draws must be a whole number"):
        found.posterior(method="refitted", draws=0)


def test_a_release_is_learned_from_and_everything_else_is_left_alone():
    rows = {name: column[:2000] for name, column in chain().items()}
    domain = {name: [0, 1] for name in NAMES}
    budget = dg.Budget(3, unit=dg.PrivacyUnit("replace"))
    frame = pd.DataFrame(rows)
    pairs = dg.release(dg.count(frame, dg.all_pairs(domain)), dg.LaplaceMechanism(1), budget=budget)
    graph = dg.Network.of(domain, {"a": [], "b": ["a"], "c": ["b"], "d": ["c"]})
    tables = dg.release(dg.count(frame, graph), dg.LaplaceMechanism(1), budget=budget)
    assert isinstance(learned_from(pairs), dg.results.LearnedNetwork)
    assert learned_from(tables).network == graph
    assert learned_from(graph) is graph


@pytest.mark.proof
def test_draws_of_pairs_that_no_rows_have_stay_near_the_answer():
    """Little noise, tables of three: drawn pairs may be those of no distribution, where weights would have no end."""
    rng = np.random.default_rng(0)
    spam = rng.integers(0, 2, 1500)
    words = {f"word{i}": np.where(rng.random(1500) < 0.8, spam, rng.integers(0, 2, 1500)) for i in range(2)}
    rows, order = pd.DataFrame({"spam": spam, **words}), ["word0", "word1", "spam"]
    found = dg.learn_network(
        rows, {name: [0, 1] for name in rows}, epsilon=20, unit=dg.PrivacyUnit("add-remove"),
        constraints=dg.Constraints(order=order), noise=SeededNoise(0),
    )  # fmt: skip
    drawn = found.posterior(method="refitted", draws=100, seed=0)
    answer = dg.query(drawn, {"word0": 1}, {"spam": 1})
    sampled = np.sqrt(0.9 * 0.1 / 750)
    assert 0.5 * sampled < answer.draws.std() < 3 * sampled
