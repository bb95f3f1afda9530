"""Each move alone leaves the law that it should, run as plain Python on one cell."""

import math

import numpy as np
import pytest

from dpgraph.inference.markov import loops

#: Sampler chains of so many moves each, after as many again; a mean over a chain is one observation.
CHAINS, MOVES = 60, 400


def cell(counts, stay=-0.5, noise=0.0, released=None):
    """One cell with one field."""
    counts = np.array([counts], np.int64)
    width = counts.shape[1]
    released = counts.copy() if released is None else np.array([released], np.int64)
    sizes = [np.full(1, stay), np.full((2, 1, 1), 0.5), np.full(1, 2.0), np.full((1, 1), 0.4)]
    law = [np.full(width, noise), np.zeros(width)]
    return loops.Cells(counts, released, np.ones(1, bool), np.array([0, width]), *law, *sizes, np.zeros(12))


def check(move, read, expected):
    """The means over chains are those expected, within 6 standard errors: an alarm in 1e8 on right code."""
    means = np.array([chain_mean(np.random.default_rng(seed), move, read) for seed in range(CHAINS)])
    error = means.std(axis=0, ddof=1) / math.sqrt(CHAINS)
    assert np.all(np.abs(means.mean(axis=0) - expected) < 6 * error), (means.mean(axis=0), expected, error)


def chain_mean(rng, move, read):
    state, total = None, 0.0
    for step in range(2 * MOVES):
        state = move(rng, state)
        total = total + (read(state) if step >= MOVES else 0.0)
    return total / MOVES


@pytest.mark.proof
def test_redrawn_tables_have_the_law_given_the_noise():
    """Three entries of two levels, released as (5, -2): enumerated, 0.3 from the law without noise."""
    law, entries = np.array([[0.4, 0.6]]), 3
    weight = [
        math.comb(entries, a) * 0.4**a * 0.6 ** (entries - a) * math.exp(-0.7 * (abs(5 - a) + abs(-2 - entries + a)))
        for a in range(entries + 1)
    ]
    expected = np.dot(weight, range(entries + 1)) / sum(weight)
    assert abs(expected - entries * 0.4) > 0.3

    def move(rng, state):
        state = cell([1, 2], noise=0.7, released=[5, -2]) if state is None else state
        loops.redraw(rng, state, law, np.zeros(1, np.int64), 0.0, -1)
        return state

    check(move, lambda state: float(state.counts[0, 0]), expected)


def test_the_number_of_entries_is_geometric_where_nothing_is_known_of_it():
    """P(one more) = e^-0.5: the mean is 1.54, without the rate it grows without bound."""
    expected = math.exp(-0.5) / (1 - math.exp(-0.5))

    def move(rng, state):
        state = cell([1, 1]) if state is None else state
        key, several = np.zeros(1, np.int64), np.zeros(1, bool)
        loops.resize(rng, state, np.array([[0.4, 0.6]]), key, 0.0, np.arange(1), -1, several, (1.0, 1.0))
        return state

    check(move, lambda state: float(state.counts.sum()), expected)


@pytest.mark.proof
@pytest.mark.parametrize("prior", [1.0, 4.0])
def test_shifted_emissions_keep_their_prior(prior):
    """Five entries follow p and say nothing of it, so p has mean 1/2 and the variance of Beta(prior, prior)."""

    def move(rng, state):
        cells, emissions = (cell([2, 3]), np.array([[0.5, 0.5]])) if state is None else state
        loops.shift(rng, cells, np.zeros(1, np.int64), emissions, prior, 0.0)
        return cells, emissions

    variance = 1 / (4 * (2 * prior + 1))
    check(move, lambda state: np.array([state[1][0, 0], (state[1][0, 0] - 0.5) ** 2]), np.array([0.5, variance]))


def test_entries_leave_evenly():
    """Five of twelve: the mean of each level is five twelfths of it."""
    gone, many = np.zeros(3), 4000
    rng, start = np.random.default_rng(0), np.array([6, 4, 2])
    for _ in range(many):
        left = start.copy()
        loops.leave(rng, 5, 12, left)
        assert left.sum() == 7
        gone += (start - left) / many
    assert np.abs(gone - start * 5 / 12).max() < 6 * 1.0 / math.sqrt(many)
