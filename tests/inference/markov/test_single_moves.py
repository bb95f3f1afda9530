"""Moves of effects that hold tables fixed, one at a time: each leaves the joint law of parameters and tables as it is.

Spreads, effects, laws of states, transitions, states and tables are drawn from the prior and the model; then the move
is made once. The mean of no function of all of them may change (Geweke 2004): 8 000 pairs, 6 standard errors of their
difference, which right code exceeds with chance below 1e-6 in some of 33 means.
"""

import math

import numpy as np
import pytest

from dpgraph.inference._kernels import compiled
from dpgraph.inference.markov import effects
from dpgraph.inference.markov.effects import Effects
from dpgraph.inference.markov.evidence import cells_evidence
from dpgraph.inference.markov.sampler import latent_cells
from dpgraph.privacy.measurements import DiscreteLaplace

SIZE, CHAINS, STEPS, FIELDS = 2, 3, 4, (slice(0, 2), slice(2, 5))
EDGES = np.array([0, 2, 5])
PRIOR, SCALE, TRANSITION, WORLDS = 1.5, 0.8, 0.7, 8_000


def simulated(rng):
    """Parameters, states and the tables of all cells from their joint law."""
    spread = np.abs(rng.normal(size=2)) * SCALE
    own = rng.normal(size=(CHAINS, 5)) * np.repeat(spread, [2, 3])
    emissions = np.concatenate([rng.dirichlet(np.full(size, PRIOR), SIZE) for size in (2, 3)], axis=1)
    transition = rng.dirichlet(np.full(SIZE, TRANSITION), SIZE).clip(1e-12)
    states = rng.integers(0, SIZE, (CHAINS, STEPS))
    for t in range(1, STEPS):
        states[:, t] = rng.random(CHAINS) > transition[states[:, t - 1], 0]
    reach = np.full((2, SIZE, 5), 0.9), np.full((2, CHAINS, 5), 0.9), np.full((2, 2), 0.9)
    given = Effects(own, spread, np.empty((CHAINS * SIZE, 5)), *reach)
    effects.fill_every_field(EDGES, emissions, own, given.laws)
    rows = given.laws[(np.arange(CHAINS)[:, None] * SIZE + states).ravel()]
    entries = rng.poisson(3.0, len(rows))
    tables = np.concatenate(
        [rng.multinomial(entries, rows[:, c] / rows[:, c].sum(axis=1, keepdims=True)) for c in FIELDS], axis=1
    )
    return given, emissions, transition, states, tables


def read_off(given, emissions, transition, states, tables):
    """Functions of everything there is, of which the mean must stay."""
    sums = tables.reshape(CHAINS, STEPS, 5).sum(axis=1)
    moved = transition[states[:, :-1], states[:, 1:]]
    laws = given.laws[(np.arange(CHAINS)[:, None] * SIZE + states).ravel()]
    return np.concatenate(
        [
            given.spread,
            given.spread**2,
            (given.effects**2).mean(axis=0),
            given.effects[0],
            np.abs(given.effects[0, :2].sum(keepdims=True)),
            np.abs(given.effects[0, 2:].sum(keepdims=True)),
            emissions[0] ** 2,
            (given.effects * sums).sum(axis=0),
            (np.log(emissions[states.ravel()]) * tables).sum(axis=0).clip(-50),
            [(np.log(laws) * tables).sum(), np.log(moved).sum().clip(-50), (states[:, 0] == states[:, 1]).mean()],
        ]
    )


def test_a_law_sums_to_one_after_many_moves():
    """A level at 1 - 1e-13 loses e^2 twenty times: dividing by what the sum should be leaves an error of 4e-4."""
    law = np.array([[1.0 - 1e-13, 0.4e-13, 0.6e-13]])
    for _ in range(20):
        effects.scaled(law, 0, 0, 3, 0, math.exp(-2.0))
    assert abs(law.sum() - 1) < 1e-12
    assert law[0, 1] / law[0, 2] == pytest.approx(2 / 3)


def moves():
    """Each move by its name, made once in a world."""
    apart = np.arange(CHAINS)[:, None, None] * np.ones((CHAINS, STEPS, 5), int)
    flat = cells_evidence(apart, FIELDS, [(DiscreteLaplace(1.0), 60)] * 5)
    alone, scales = compiled(effects.spread_alone, inlined=False), compiled(effects.spreads, inlined=False)

    def spread(rng, given, emissions, transition, states, cells, sums):
        alone(rng, given, 1, 2, 5, SCALE)

    def scaled(rng, given, emissions, transition, states, cells, sums):
        scales(rng, cells, states, emissions, given, sums, SCALE, 0.0, 0)

    return flat, {"spread": spread, "scale": scaled}


@pytest.mark.proof
@pytest.mark.parametrize("name", ["spread", "scale"])
def test_a_move_by_itself_leaves_the_joint_law(name):
    """Refuses a spread that counts means which it integrates out, and scaled effects without the others."""
    rng = np.random.default_rng(11)
    flat, named = moves()
    gained = []
    for _ in range(WORLDS):
        given, emissions, transition, states, tables = simulated(rng)
        cells = latent_cells(flat, SIZE, tables.reshape(CHAINS, STEPS, 5))
        sums = np.empty_like(given.laws)
        effects.sums_of(cells, states, SIZE, sums)
        before = read_off(given, emissions, transition, states, tables)
        named[name](rng, given, emissions, transition, states, cells, sums)
        laws, after_sums = np.empty_like(given.laws), np.empty_like(sums)
        effects.fill_every_field(EDGES, emissions, given.effects, laws)
        effects.sums_of(cells, states, SIZE, after_sums)
        np.testing.assert_allclose(given.laws, laws, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(sums, after_sums)
        gained.append(read_off(given, emissions, transition, states, tables) - before)
    change = np.array(gained)
    error = change.std(axis=0) / math.sqrt(WORLDS)
    moving = error > 0
    assert moving.sum() >= 3
    found = np.abs(change.mean(axis=0)[moving]) / error[moving]
    assert found.max() < 6, found.round(1)
