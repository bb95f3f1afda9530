"""Draws of the states agree with enumeration of the joint, and plain and compiled loops make the same draws."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov.evidence import cells_evidence
from dpgraph.inference.markov.sampler import latent_cells
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.structure.network import transition_counts

CHAINS, STEPS, SIZE = 2, 3, 2
MADE = {"plain": _kernels.PLAIN, "compiled": _kernels.compiled()}


def relative_likelihood(log_emission):
    """Likelihoods over the largest of each cell."""
    return np.exp(log_emission - log_emission.max(axis=-1, keepdims=True))


@pytest.fixture(params=MADE)
def made(request):
    return request.param


@pytest.fixture
def kernels(made):
    return MADE[made]


@pytest.fixture
def log_emission():
    return np.random.default_rng(4).normal(size=(CHAINS, STEPS, SIZE))


def all_states():
    return np.array(list(product(range(SIZE), repeat=CHAINS * STEPS))).reshape(-1, CHAINS, STEPS)


def enumerated(log_emission, log_transitions):
    """The exact law of the states, a weight for each of ``all_states``."""
    states = all_states()
    log = log_transitions(transition_counts(states, SIZE))
    log = log + np.take_along_axis(log_emission[None], states[..., None], 3).sum(axis=(1, 2, 3))
    weight = np.exp(log - log.max())
    return weight / weight.sum()


def frequencies(draws):
    index = draws.reshape(len(draws), -1) @ (SIZE ** np.arange(CHAINS * STEPS)[::-1])
    return np.bincount(index, minlength=SIZE ** (CHAINS * STEPS)) / len(draws)


@pytest.mark.proof
def test_blocked_draws_follow_the_enumerated_law(log_emission, kernels, made):
    """64 configurations of 200 000 draws (plain 5000): standard errors below 5e-4, bound at 6 of them (1e-6 in all).

    Chains do not share a draw, so that one call draws all copies.
    """
    copies = 5_000 if made == "plain" else 200_000
    transition, rng = np.array([[0.8, 0.2], [0.35, 0.65]]), np.random.default_rng(0)
    exact = enumerated(log_emission, lambda moves: (moves * np.log(transition)).sum(axis=(1, 2)))
    tiled = relative_likelihood(np.tile(log_emission, (copies, 1, 1)))
    states = np.empty(tiled.shape[:2], np.int64)
    kernels.draw_states(rng, tiled, states, transition, 1.0, False)
    draws = states.reshape(copies, CHAINS, STEPS)
    assert np.all(np.abs(frequencies(draws) - exact) < 6 * np.sqrt(exact * (1 - exact) / copies) + 1e-5)


@pytest.mark.proof
def test_collapsed_sweeps_follow_the_enumerated_law(log_emission, kernels, made):
    """With the transitions integrated out; 20 sweeps from a law of its own, then independent copies."""
    copies, alpha = (2_000 if made == "plain" else 100_000), 0.7

    def log_transitions(moves):
        rows = gammaln(moves + alpha).sum(axis=2) - gammaln(moves.sum(axis=2) + SIZE * alpha)
        return rows.sum(axis=1)

    exact = enumerated(log_emission, log_transitions)
    rng, likelihood = np.random.default_rng(1), relative_likelihood(log_emission)
    states = rng.integers(0, SIZE, (copies, CHAINS, STEPS))
    for _ in range(20):
        for c in range(copies):
            kernels.draw_states(rng, likelihood, states[c], np.ones((SIZE, SIZE)), alpha, True)
    assert np.all(np.abs(frequencies(states) - exact) < 6 * np.sqrt(exact * (1 - exact) / copies) + 1e-3)


@pytest.mark.proof
def test_plain_and_compiled_loops_draw_the_same_states():
    rng = np.random.default_rng(2)
    likelihood = relative_likelihood(5 * rng.normal(size=(4, 7, 5)))
    transition, start = rng.dirichlet(np.ones(5), 5), rng.integers(0, 5, (4, 7))
    found = []
    for kernels in MADE.values():
        by_chains, one_by_one = np.empty_like(start), start.copy()
        kernels.draw_states(np.random.default_rng(3), likelihood, by_chains, transition, 0.5, False)
        kernels.draw_states(np.random.default_rng(3), likelihood, one_by_one, transition, 0.5, True)
        found.append((by_chains, one_by_one))
    for plain, compiled in zip(*found, strict=True):
        assert (plain == compiled).all()


def tables_of(counts, chains, fields):
    """Cells with these tables, shape (cells, columns), released as they are."""
    counts = counts.reshape(chains, -1, counts.shape[1])
    given = cells_evidence(counts, fields, [(DiscreteLaplace(1.0), 8)] * counts.shape[2])
    return latent_cells(given, 2, counts)


@pytest.mark.parametrize("single_states", [False, True])
def test_impossible_cells_and_one_step_and_one_state_are_no_trouble(kernels, single_states):
    """Logs of probabilities of 1e-300, a million times, where no state explains both cells."""
    emission = np.array([[1 - 1e-300, 1e-300], [1e-300, 1 - 1e-300]])
    law = np.array([[1 - 1e-300, 1e-300], [1e-300, 1 - 1e-300]])
    for chains, emissions, transition in (
        (1, emission, law),
        (2, np.full((3, 2), 0.5), np.full((3, 3), 1 / 3)),
        (2, np.full((1, 2), 0.5), np.ones((1, 1))),
    ):
        cells = tables_of(10**6 * np.array([[2, 1], [1, 3]]), chains, (slice(0, 2),))
        states, rng = np.zeros((chains, 2 // chains), np.int64), np.random.default_rng(0)
        kernels.gibbs(
            rng, cells, states, transition, emissions, emissions.copy(), (1.0, 1.0), single_states, False, False
        )
        assert states.max() < len(emissions)
        assert np.isfinite(transition).all()
        assert (transition > 0).all()


@pytest.mark.parametrize("single_states", [False, True])
def test_a_whole_sweep_draws_parameters_given_its_states(kernels, single_states):
    """States are told by the tables; 4000 Dirichlet draws, standard errors below 5e-3, bound at 6."""
    truth = np.array([[0, 0, 1, 1], [1, 0, 0, 0]])
    counts = np.arange(8 * 5).reshape(8, 5) % 4
    counts[:, :2] += 200 * (truth.reshape(8, 1) == np.arange(2))
    cells = tables_of(counts, 2, (slice(0, 2), slice(2, 5)))
    laws = np.array([[1 - 1e-9, 1e-9, 0.2, 0.3, 0.5], [1e-9, 1 - 1e-9, 0.2, 0.3, 0.5]])
    rng, many = np.random.default_rng(5), 4000
    found = [np.zeros((2, 2)), np.zeros((2, 5))]
    for _ in range(many):
        states, transition, emissions = np.zeros((2, 4), np.int64), np.full((2, 2), 0.5), laws.copy()
        kernels.gibbs(rng, cells, states, transition, emissions, laws, (0.5, 2.0), single_states, False, False)
        assert (states == truth).all()
        found = [found[0] + transition / many, found[1] + emissions / many]
    moves = np.array([[3, 1], [1, 1]]) + 0.5
    assert np.abs(found[0] - moves / moves.sum(axis=1, keepdims=True)).max() < 6 * 5e-3
    totals = np.stack([counts[truth.ravel() == k].sum(axis=0) for k in (0, 1)]) + 2.0
    for columns in (slice(0, 2), slice(2, 5)):
        wanted = totals[:, columns] / totals[:, columns].sum(axis=1, keepdims=True)
        assert np.abs(found[1][:, columns] - wanted).max() < 6 * 5e-3


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("single_states", [False, True])
def test_whole_sweeps_are_the_same_draws(single_states, own):
    """With one law for each state, and with laws of their own for three sequences."""
    made = []
    for kernels in MADE.values():
        rng = np.random.default_rng(6)
        cells = tables_of(rng.integers(0, 9, (21, 5)), 3, (slice(0, 2), slice(2, 5)))
        states, transition = np.zeros((3, 7), np.int64), rng.dirichlet(np.ones(4), 4)
        laws = rng.dirichlet(np.ones(5), 12 if own else 4)
        emissions = np.full((4, 5), 0.5)
        kernels.gibbs(rng, cells, states, transition, emissions, laws, (1.0, 1.0), single_states, False, own)
        made.append((states, transition, emissions, rng.random()))
    for plain, compiled in zip(*made, strict=True):
        np.testing.assert_allclose(plain, compiled, rtol=1e-12)
