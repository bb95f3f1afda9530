"""The field that is fitted to what was measured: the optimum of what it states, from no code of its own."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import helmert
from scipy.stats import norm

import dpgraph as dg
from dpgraph.inference.graphs.field import LEAST_HELD, MOST_HELD, WEIGHT, fitted_field
from dpgraph.inference.graphs.pair_estimates import STRENGTHS, contrasts, read_pairs
from dpgraph.inference.graphs.trees import Tree, one_clique
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.structure.margins import Margins

DOMAIN = dg.Domain.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]})
SHAPE = (2, 3, 2)
WHOLE, CHAIN = one_clique(DOMAIN), Tree((("b", "c"), ("b", "a")), (0, 0))


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


def kept_of(away, variance):
    """What is kept of the coordinates of one block of three: normal with none or one of a grid of variances.

    A strength s is 2 s / cells in each of the twelve cells, so their squares sum to 4 s^2 / 12. Beforehand none has a
    half, the others share the rest; with the block itself that makes three.
    """
    grid = np.array([0.0, *(4 * STRENGTHS**2 / 12 / len(away))])
    likelihood = np.array([norm.pdf(away, 0, (tau + variance) ** 0.5).prod() for tau in grid])
    before = np.array([1.0, *np.full(STRENGTHS.size, 1 / STRENGTHS.size)])
    shares = before / 2
    for _ in range(1000):
        each = shares * likelihood / (shares @ likelihood)
        shares = (before + each) / 3
    return each @ (grid / (grid + variance))


def fitted(pairs, tree=WHOLE):
    """The joint of all three variables."""
    return fitted_field(pairs, tree, 500).margin(DOMAIN.names)


@pytest.mark.parametrize(
    ("tree", "size", "scale"), [(WHOLE, 2, 20.0), (CHAIN, 2, 20.0), (WHOLE, 3, 20.0), (WHOLE, 3, 3.0)]
)
@pytest.mark.parametrize("seed", range(5))
def test_the_fit_is_the_maximum_of_entropy_less_squared_errors(tree, size, scale, seed):
    """Its condition: p is log-linear in the features, with weights (y - E f) / r of pairs and more, r their ridge.

    y are the means of the features under shrunk pairs, and of three variables those of the pairs' own joint and what is
    kept of what was measured beyond it. Those of single variables are met exactly, by whatever weights. Of a chain's
    tree the pair at its ends is left out.
    """
    joint = np.random.default_rng(seed).dirichlet(np.ones(12)).reshape(SHAPE)
    noisy = released(joint, list(itertools.combinations("abc", size)), 200, scale, seed)
    pairs = read_pairs(noisy, 3)
    made = fitted(pairs, tree)
    assert made.sum() == pytest.approx(1)
    blocks = [block for block in pairs.residuals if block and (tree is WHOLE or block != ("a", "c"))]
    assert max(map(len, blocks)) == size
    smaller = {block: found for block, found in pairs.residuals.items() if len(block) < 3}
    of_pairs = fitted(replace(pairs, residuals=smaller))
    logs, alone = np.log(made).ravel(), [np.ones((12, 1))]
    for block in blocks:
        f, (y, variance) = features(block), pairs.residuals[block]
        if len(block) == 3:
            away = y.ravel() / 200 - f.T @ of_pairs.ravel()
            y = f.T @ of_pairs.ravel() + kept_of(away, variance / 200**2) * away
        else:
            y = f.T @ spread_out(pairs, block)
        if len(block) == 1:
            np.testing.assert_allclose(f.T @ made.ravel(), y, atol=1e-5)
            alone.append(f)
        else:
            rows = LEAST_HELD / (np.prod([pairs.domain.sizes[name] for name in block]) * 200)
            logs = logs - f @ (y - f.T @ made.ravel()) / min(max(WEIGHT * variance / 200**2, rows), MOST_HELD)
    alone = np.hstack(alone)
    assert np.ptp(logs - alone @ np.linalg.lstsq(alone, logs)[0]) < 2e-3


def test_uneven_variables_that_are_independent_stay_so():
    """Rare levels: were single variables held back as pairs are, pairs would be fitted to make up for it."""
    even = [np.array([0.004, 0.996]), np.array([0.002, 0.098, 0.9]), np.array([0.01, 0.99])]
    joint = np.multiply.outer(np.multiply.outer(even[0], even[1]), even[2])
    pairs = read_pairs(released(joint, list(itertools.combinations("abc", 2)), 4000, 20.0), 3)
    residuals = dict(pairs.residuals)
    for pair in pairs.spread:
        cells = np.outer(pairs.singles[pair[0]], pairs.singles[pair[1]])
        one, other = (contrasts(size) for size in cells.shape)
        residuals[pair] = pairs.n * one @ cells @ other.T, residuals[pair][1]
    alone = replace(pairs, residuals=residuals)
    made = fitted(alone)
    apart = np.multiply.outer(np.multiply.outer(alone.singles["a"], alone.singles["b"]), alone.singles["c"])
    np.testing.assert_allclose(made, apart, atol=1e-7)


def test_a_joint_of_three_is_found_where_its_table_was_measured_and_not_from_pairs():
    parity = np.full(SHAPE, 0.05)
    for a, b, c in np.ndindex(SHAPE):
        parity[a, b, c] = 0.14 if (a + b + c) % 2 else 0.03
    parity = parity / parity.sum()
    far = {}
    for size in (2, 3):
        noisy = released(parity, list(itertools.combinations("abc", size)), 10**6, 1.0)
        far[size] = np.abs(fitted(read_pairs(noisy, 3)) - parity).sum() / 2
    assert far[3] < 1e-3
    assert far[2] > 0.2
