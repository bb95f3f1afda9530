"""Draws of the states agree with enumeration of the joint, and every engine makes the same draws."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from dpgraph.inference.markov import _kernels
from dpgraph.inference.markov.states import (
    draw_blocked,
    draw_collapsed,
    engine,
    filter_backward,
    relative,
)
from dpgraph.structure.markov import transition_counts

CHAINS, STEPS, SIZE = 2, 3, 2
ENGINES = ["numpy", "compiled"]


@pytest.fixture(params=ENGINES)
def loops(request):
    if request.param == "compiled":
        pytest.importorskip("numba")
    return request.param


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


def test_blocked_draws_follow_the_enumerated_law(log_emission, loops):
    """64 configurations, 200 000 independent draws: standard error below 5e-4, bound at 6 of them (1e-6 in all)."""
    copies = 200_000
    transition = np.array([[0.8, 0.2], [0.35, 0.65]])
    exact = enumerated(log_emission, lambda moves: (moves * np.log(transition)).sum(axis=(1, 2)))
    tiled = np.broadcast_to(log_emission, (copies, *log_emission.shape))
    laws = np.broadcast_to(transition, (copies, SIZE, SIZE)).copy()
    draws = draw_blocked(np.ascontiguousarray(tiled), laws, np.random.default_rng(0), loops)
    assert np.all(np.abs(frequencies(draws) - exact) < 6 * np.sqrt(exact * (1 - exact) / copies) + 1e-5)


def test_collapsed_sweeps_follow_the_enumerated_law(log_emission, loops):
    """With the transitions integrated out; 20 sweeps from a law of its own, then independent copies."""
    copies, alpha = (2_000 if loops == "numpy" else 100_000), 0.7

    def log_transitions(moves):
        rows = gammaln(moves + alpha).sum(axis=2) - gammaln(moves.sum(axis=2) + SIZE * alpha)
        return rows.sum(axis=1)

    exact = enumerated(log_emission, log_transitions)
    rng = np.random.default_rng(1)
    tiled = np.ascontiguousarray(np.broadcast_to(log_emission, (copies, *log_emission.shape)))
    states = rng.integers(0, SIZE, (copies, CHAINS, STEPS))
    for _ in range(20):
        states = draw_collapsed(tiled, states, alpha, rng, loops)
    assert np.all(np.abs(frequencies(states) - exact) < 6 * np.sqrt(exact * (1 - exact) / copies) + 1e-3)


def test_engines_draw_alike():
    pytest.importorskip("numba")
    rng = np.random.default_rng(2)
    log_emission, uniforms = 5 * rng.normal(size=(3, 4, 7, 5)), rng.random((3, 4, 7))
    emission = relative(log_emission)
    transition = rng.dirichlet(np.ones(5), (3, 5))
    fast = filter_backward(emission, transition, uniforms)
    plain, machine = np.empty_like(fast), np.empty_like(fast)
    for c in range(3):
        _kernels.blocked(emission[c], transition[c], uniforms[c], plain[c])
        _kernels.compiled()[0](emission[c], transition[c], uniforms[c], machine[c])
    assert (fast == plain).all()
    assert (plain == machine).all()
    one = draw_collapsed(log_emission, plain, 0.5, np.random.default_rng(3), "numpy")
    other = draw_collapsed(log_emission, plain, 0.5, np.random.default_rng(3), "compiled")
    assert (one == other).all()


def test_impossible_cells_and_one_step_and_one_state_are_no_trouble(loops):
    emission = np.array([[[[-1e6, -2e6], [-3e6, -1e6]]]])
    law = np.full((1, 2, 2), [[1 - 1e-300, 1e-300], [1e-300, 1 - 1e-300]])
    assert draw_blocked(emission, law, np.random.default_rng(0), loops).shape == (1, 1, 2)
    for shape in ((1, 1, 1, 3), (1, 2, 1, 1)):
        size = shape[3]
        states = draw_blocked(np.zeros(shape), np.full((1, size, size), 1 / size), np.random.default_rng(0), loops)
        states = draw_collapsed(np.zeros(shape), states, 1.0, np.random.default_rng(0), loops)
        assert states.max() < size


def test_fast_without_numba_is_refused(monkeypatch):
    from dpgraph.privacy.records import ReleaseError

    def missing():
        raise ImportError

    monkeypatch.setattr(_kernels, "compiled", missing)
    assert engine(None) == engine(False) == "numpy"
    with pytest.raises(ReleaseError, match="fast"):
        engine(True)


@pytest.fixture
def gibbs(loops):
    return _kernels.gibbs if loops == "numpy" else _kernels.compiled_gibbs()


def test_a_whole_sweep_draws_parameters_given_its_states(gibbs):
    """States are told by the likelihood; 4000 Dirichlet draws, standard errors below 5e-3, bound at 6."""
    truth = np.array([[0, 0, 1, 1], [1, 0, 0, 0]])
    likelihood = np.where(truth[..., None] == np.arange(2), 1.0, 1e-250)
    counts = np.arange(8 * 5).reshape(8, 5) % 4
    rng, edges, many = np.random.default_rng(5), np.array([0, 2, 5]), 4000
    found = [np.zeros((2, 2)), np.zeros((2, 5))]
    for _ in range(many):
        states, transition, emissions = np.zeros((2, 4), np.int64), np.full((2, 2), 0.5), np.full((2, 5), 0.5)
        gibbs(rng, likelihood, counts, edges, states, transition, emissions, (0.5, 2.0))
        assert (states == truth).all()
        found = [found[0] + transition / many, found[1] + emissions / many]
    moves = np.array([[3, 1], [1, 1]]) + 0.5
    assert np.abs(found[0] - moves / moves.sum(axis=1, keepdims=True)).max() < 6 * 5e-3
    totals = np.stack([counts[truth.ravel() == k].sum(axis=0) for k in (0, 1)]) + 2.0
    for columns in (slice(0, 2), slice(2, 5)):
        wanted = totals[:, columns] / totals[:, columns].sum(axis=1, keepdims=True)
        assert np.abs(found[1][:, columns] - wanted).max() < 6 * 5e-3


def test_whole_sweeps_are_the_same_draws():
    pytest.importorskip("numba")
    made = []
    for kernel in (_kernels.gibbs, _kernels.compiled_gibbs()):
        rng = np.random.default_rng(6)
        likelihood, counts = relative(rng.normal(size=(3, 7, 4))), rng.integers(0, 9, (21, 5))
        states, transition = np.zeros((3, 7), np.int64), rng.dirichlet(np.ones(4), 4)
        emissions = np.full((4, 5), 0.5)
        kernel(rng, likelihood, counts, np.array([0, 2, 5]), states, transition, emissions, (1.0, 1.0))
        made.append((states, transition, emissions, rng.random()))
    for plain, compiled in zip(*made, strict=True):
        np.testing.assert_allclose(plain, compiled, rtol=1e-12)
