"""Renaming undoes any switching of labels, and the diagnostics do not see it."""

import math

import numpy as np
import pytest

from dpgraph.inference.markov.labels import (
    centred_spread,
    label_invariant_diagnostics,
    match_labels,
    r_hat_of_predictions,
    sorted_occupancies,
)
from dpgraph.inference.markov.sampler import MarkovDraws

FIELDS = (slice(0, 2), slice(2, 5))
SIZE, COPIES, DRAWS = 3, 2, 40


@pytest.fixture
def steady():
    """Draws that wobble about one truth, named alike, the most frequent state first."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], [10, 6, 4]).reshape(4, 5)
    states = np.tile(truth, (COPIES, DRAWS, 1, 1))
    wobble = rng.random(states.shape) < 0.05
    states[wobble] = rng.integers(0, SIZE, wobble.sum())
    laws = np.array([[0.9, 0.1, 0.8, 0.1, 0.1], [0.5, 0.5, 0.1, 0.8, 0.1], [0.1, 0.9, 0.1, 0.1, 0.8]])
    shape = (COPIES, DRAWS, SIZE, SIZE)
    transition = rng.dirichlet(np.ones(SIZE), shape[:3])
    emissions = np.tile(laws, (COPIES, DRAWS, 1, 1))
    log_joint = rng.normal(size=(COPIES, DRAWS))
    return MarkovDraws(transition, emissions, states, np.ones((COPIES, 4, 5)), log_joint, {})


def shuffled(draws, seed=1):
    """The same draws with labels permuted in each."""
    rng = np.random.default_rng(seed)
    order = np.argsort(rng.random((COPIES, DRAWS, SIZE)), axis=2)
    transition = np.take_along_axis(draws.transition, order[..., None], 2)
    transition = np.take_along_axis(transition, order[:, :, None, :], 3)
    names = np.argsort(order, axis=2)
    states = np.take_along_axis(names, draws.states.reshape(COPIES, DRAWS, -1), 2).reshape(draws.states.shape)
    emissions = np.take_along_axis(draws.emissions, order[..., None], 2)
    return MarkovDraws(transition, emissions, states, draws.entries, draws.log_joint, {})


def test_switched_labels_are_undone(steady):
    found = match_labels(shuffled(steady), FIELDS)
    for name in ("transition", "emissions", "states"):
        np.testing.assert_array_equal(getattr(found, name), getattr(steady, name))


def test_the_most_frequent_state_is_first(steady):
    found = match_labels(shuffled(steady), FIELDS)
    many = np.bincount(found.states.ravel(), minlength=SIZE)
    assert (np.diff(many) <= 0).all()


def test_diagnostics_do_not_depend_on_labels(steady):
    mixed = shuffled(steady)
    assert label_invariant_diagnostics(steady.states, steady.log_joint, SIZE) == label_invariant_diagnostics(
        mixed.states, mixed.log_joint, SIZE
    )
    np.testing.assert_array_equal(sorted_occupancies(steady.states, SIZE), sorted_occupancies(mixed.states, SIZE))


def test_chains_apart_are_seen(steady):
    log_joint = steady.log_joint + 10 * np.arange(COPIES)[:, None]
    assert label_invariant_diagnostics(steady.states, steady.log_joint, SIZE)["r_hat"] < 1.2
    assert label_invariant_diagnostics(steady.states, log_joint, SIZE)["r_hat"] > 1.5


def test_one_draw_has_nothing_to_compare(steady):
    assert label_invariant_diagnostics(steady.states[:, :1], steady.log_joint[:, :1], SIZE) == {
        "r_hat": 1.0,
        "effective_size": 2.0,
    }


def test_r_hat_of_effects_ignores_what_entries_do_not_say():
    """A number added to all levels of a sequence, or to a level in all, changes no law: nor what is judged."""
    rng = np.random.default_rng(0)
    effects = rng.normal(size=(2, 50, 3, 4))
    moved = effects + rng.normal(size=(2, 50, 3, 1)) + rng.normal(size=(2, 50, 1, 4))
    np.testing.assert_allclose(centred_spread(moved), centred_spread(effects), rtol=1e-9)
    by_hand = effects[1, 7] - effects[1, 7].mean(axis=1)[:, None]
    by_hand -= by_hand.mean(axis=0)
    assert centred_spread(effects)[1, 7] == pytest.approx(math.sqrt((by_hand**2).mean()))


def test_predictions_of_which_some_have_not_mixed_are_seen():
    """200 probabilities, of which two chains disagree on ten: 5 %, so more than the 1 % that is let pass."""
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(2, 200, 200))
    assert r_hat_of_predictions(draws) < 1.05
    draws[1, :, :10] += 3.0
    assert r_hat_of_predictions(draws) > 1.5
    assert r_hat_of_predictions(np.ones((2, 200, 3))) == 1.0
    assert r_hat_of_predictions(draws[:, :3]) == 1.0
