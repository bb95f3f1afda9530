"""The joint that is fitted to what was measured: the optimum of what it states, from no code of its own."""

import itertools

import numpy as np
import pytest
from scipy.linalg import helmert

import dpgraph as dg
from dpgraph.inference.graphs import entropy
from dpgraph.inference.graphs.entropy import fitted_joint
from dpgraph.inference.graphs.pairs import read_pairs
from dpgraph.privacy.records import DiscreteGaussian
from dpgraph.structure.margins import Margins

DOMAIN = dg.Domain.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]})
SHAPE = (2, 3, 2)


def released(joint, tables, n, scale, seed=0):
    """Tables of a joint with normal noise, rounded."""
    rng = np.random.default_rng(seed)
    names = DOMAIN.names
    found = {}
    for table in tables:
        away = tuple(i for i, name in enumerate(names) if name not in table)
        exact = n * joint.sum(axis=away)
        found[table] = np.rint(exact + rng.normal(0, scale, exact.shape)).astype(int)
    law = dict.fromkeys(tables, DiscreteGaussian(scale))
    return dg.results.NoisyCounts(Margins.of_tables(DOMAIN, tables), found, law, n)


def features(block):
    """The products of orthonormal contrasts of a block in every cell, shape (cells, features)."""
    made = np.ones((1, 1))
    for name, size in DOMAIN.sizes.items():
        made = np.kron(made, helmert(size).T if name in block else np.ones((size, 1)))
    return made


def spread_out(pairs, block):
    """All cells, with the shrunk probabilities of one variable or two in those of the others at level 0."""
    table = pairs.table(*block) if len(block) == 2 else pairs.singles[block[0]]
    cells = np.zeros(SHAPE)
    cells[tuple(slice(None) if name in block else 0 for name in "abc")] = table
    return cells.ravel()


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_the_maximum_of_entropy_less_squared_errors(size, seed):
    """Its condition: p is log-linear in the features, weights (y - E f) / (a s^2). Noise is a tenth of the rows.

    y are the means of the features under shrunk pairs and under each variable's probabilities, and of three variables
    as they were measured.
    """
    joint = np.random.default_rng(seed).dirichlet(np.ones(12)).reshape(SHAPE)
    noisy = released(joint, list(itertools.combinations("abc", size)), 200, 20.0, seed)
    pairs = read_pairs(noisy, 3)
    made = fitted_joint(pairs, 500)
    assert made.sum() == pytest.approx(1)
    blocks = [block for block in pairs.residuals if block]
    assert max(map(len, blocks)) == size
    logs = np.log(made).ravel()
    for block in blocks:
        f, (y, variance) = features(block), pairs.residuals[block]
        y = y.ravel() / 200 if len(block) == 3 else f.T @ spread_out(pairs, block)
        weights = (y - f.T @ made.ravel()) / (entropy.WEIGHT * variance / 200**2)
        logs = logs - f @ weights
    assert np.ptp(logs) < 2e-3


def test_a_joint_of_three_is_found_where_its_table_was_measured_and_not_from_pairs():
    parity = np.full(SHAPE, 0.05)
    for a, b, c in np.ndindex(SHAPE):
        parity[a, b, c] = 0.14 if (a + b + c) % 2 else 0.03
    parity = parity / parity.sum()
    far = {}
    for size in (2, 3):
        noisy = released(parity, list(itertools.combinations("abc", size)), 10**6, 1.0)
        far[size] = np.abs(fitted_joint(read_pairs(noisy, 3)) - parity).sum() / 2
    assert far[3] < 1e-3
    assert far[2] > 0.2


def test_a_fit_that_starts_at_a_joint_ends_where_the_other_does():
    joint = np.random.default_rng(7).dirichlet(np.ones(12)).reshape(SHAPE)
    pairs = read_pairs(released(joint, list(itertools.combinations("abc", 2)), 1000, 5.0), 3)
    made = fitted_joint(pairs, 500)
    assert fitted_joint(pairs, 500, made) == pytest.approx(made, abs=1e-5)
    assert fitted_joint(pairs, 0, made) == pytest.approx(made, abs=1e-9)
