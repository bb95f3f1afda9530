"""The chains over one table of counts against enumeration of every table, and plain against compiled loops."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from dpgraph.inference._kernels import compiled
from dpgraph.inference.chains import effective_size
from dpgraph.inference.counts import table_chain
from dpgraph.inference.counts._kernels import rescaled
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.dirichlet_multinomial import sample_counts
from dpgraph.inference.counts.table_chain import NoisyMargin, Statistics, draw_table, margin_chain, margin_problem
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace

#: Whole tables are compared state by state: a share off by 6 standard errors of half as many independent draws.
DRAWS, ERRORS = 30_000, 6.0

#: Concentrations that are possible where one is learned.
GRID, FACTORS = np.geomspace(0.2, 5.0, 9), np.geomspace(1 / 121, 10, 25)

#: A table of two by two cells: its total, its two margins and its interaction, on a fixed-point grid of 3.
CONTRASTS = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])
LAPLACE, GAUSSIAN = DiscreteLaplace(6.0), DiscreteGaussian(7.0)


def statistics(known, law=LAPLACE):
    directions = CONTRASTS[1:] if known else CONTRASTS
    values = np.array([11, -2, 14, 5])[-len(directions) :]
    return Statistics(values, 3 * directions.T, directions, np.tile(law.penalties, (len(directions), 1)))


CASES = {
    "coefficients": (statistics(True), np.ones(4), 5),
    "coefficients, prior": (statistics(True, GAUSSIAN), np.array([0.3, 1.0, 2.0, 0.8]), 5),
    "coefficients, unknown total": (statistics(False), np.ones(4), None),
    "no row": (statistics(True), np.ones(4), 0),
}
ROWS, COLUMNS, CELLS = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.arange(4)


def said(places, values, scale, copies=1):
    """A noisy margin whose sums have the same noise."""
    return NoisyMargin(places, np.array(values, float), [CellNoise(DiscreteLaplace(scale), copies)] * len(values))


MARGINS = {
    "cells": ([said(np.arange(3), [5, -3, 2], 1.5)], np.ones(3), 6),
    "two versions": (
        [said(np.arange(3), [4, 0, 3], 6.0), said(np.arange(3), [6, 1, -2], 1.0, 3)], np.array([0.4, 2.0, 1.0]), 6
    ),
    "rows and columns": (
        [said(CELLS, [3, 0, -1, 2], 1.5), said(ROWS, [2, 2], 0.8, 2), said(COLUMNS, [1, 4], 0.6, 3)],
        np.array([0.3, 1.0, 2.0, 0.8]),
        5,
    ),
    "unknown total": (
        [said(np.arange(2), [2, 1], 1.0), said(np.zeros(2, int), [4], 0.7, 2)], np.array([0.5, 1.5]), None
    ),
    "rows, unknown total": ([said(CELLS, [3, 0, -1, 2], 0.7), said(ROWS, [2, 2], 0.5)], np.full(4, 0.5), None),
    "one cell": ([said(np.zeros(1, int), [3], 6.0)], np.ones(1), None),
    "no row": ([said(CELLS, [3, 0, -1, 2], 1.5)], np.ones(4), 0),
}  # fmt: skip


def enumerated(measured, alpha, n, *, scaled=False):
    """Every table that matters, and its posterior probability, or one in proportion that alpha is compared by."""
    most = n if n is not None else {1: 90, 2: 25, 4: 12}[len(alpha)]
    tables = np.array([t for t in product(range(most + 1), repeat=len(alpha)) if n is None or sum(t) == n])
    log = (gammaln(alpha + tables) - gammaln(tables + 1)).sum(axis=1)
    if isinstance(measured, Statistics):
        off = np.abs(measured.values - tables @ measured.weights)
        log -= off @ measured.costs[:, 0] + off**2 @ measured.costs[:, 1]
    else:
        for one in measured:
            sums = tables @ (one.places[:, None] == np.arange(len(one.values)))
            log += one.noises[0].log(one.values - sums).sum(axis=1)
    total = tables.sum(axis=1)
    log += gammaln(total + 1) - gammaln(total + alpha.sum())
    if scaled:
        return tables, np.exp(log + gammaln(alpha.sum()) - gammaln(alpha).sum())
    weight = np.exp(log - log.max())
    return tables, weight / weight.sum()


def draw(measured, alpha, n, start, rng, size):
    """Draws by the chain of statistics or of margins."""
    if isinstance(measured, Statistics):
        return draw_table(measured, alpha, n, start, rng, size)
    return margin_chain(measured, alpha, n, start)(rng, size)[0]


@pytest.mark.proof
@pytest.mark.parametrize("case", [*CASES.values(), *MARGINS.values()], ids=[*CASES, *MARGINS])
def test_draws_follow_the_enumerated_posterior(case):
    """A state of probability .1 whose share is off by .015 is seen, and any state drawn that cannot be."""
    measured, alpha, n = case
    tables, wanted = enumerated(measured, alpha, n)
    drawn = draw(measured, alpha, n, np.full(len(alpha), 2.0), np.random.default_rng(3), DRAWS)
    assert (drawn >= 0).all()
    if n is not None:
        assert (drawn.sum(axis=1) == n).all()
    states = {tuple(table): i for i, table in enumerate(tables.tolist())}
    share, outside = np.zeros(len(tables)), 0
    for table in drawn.tolist():
        if tuple(table) in states:
            share[states[tuple(table)]] += 1 / DRAWS
        else:
            outside += 1
    assert outside <= (0 if n is not None else 0.002 * DRAWS)
    assert (np.abs(share - wanted) <= ERRORS * np.sqrt(2 * wanted / DRAWS) + 20 / DRAWS).all()


@pytest.mark.parametrize("case", [*CASES.values(), *MARGINS.values()], ids=[*CASES, *MARGINS])
def test_plain_and_compiled_loops_make_the_same_draws(plain, case):
    measured, alpha, n = case
    given = measured, alpha, n, np.full(len(alpha), 1.5)
    fast = draw(*given, np.random.default_rng(0), 3)
    plain(table_chain)
    np.testing.assert_array_equal(draw(*given, np.random.default_rng(0), 3), fast)


@pytest.mark.proof
@pytest.mark.parametrize("case", ["two versions", "rows and columns", "unknown total"])
def test_many_moves_of_a_factor_keep_the_enumerated_posterior(case):
    """Exact draws of a table and a factor, moved twelve times each, have the shares that they had."""
    measured, alpha, n = MARGINS[case]
    parts = [enumerated(measured, factor * alpha, n, scaled=True) for factor in GRID]
    tables, weights = parts[0][0], np.stack([weight for _, weight in parts])
    weights /= weights.sum()
    rng, many = np.random.default_rng(5), 10_000
    problem = margin_problem(measured, alpha, n, np.full(len(alpha), 2.0), GRID)
    values = np.concatenate([one.values for one in measured])
    number = {tuple(table): i for i, table in enumerate(tables.tolist())}
    share, moves = np.zeros(weights.shape), 0
    for state in rng.choice(weights.size, many, p=weights.reshape(-1)).tolist():
        factor, counts = np.array([state // len(tables)]), tables[state % len(tables)].copy()
        rest = values - sum(np.bincount(one, counts, values.size) for one in problem.places)
        for _ in range(12):
            before = factor[0]
            compiled(rescaled)(rng, problem, counts, rest, factor)
            moves += factor[0] != before
        share[factor[0], number[tuple(counts.tolist())]] += 1 / many
        left = values - sum(np.bincount(one, counts, values.size) for one in problem.places)
        assert np.abs(rest - left).max() < 1e-9
    for axis in ((), (0,), (1,)):
        wanted = weights.sum(axis=axis)
        assert (np.abs(share.sum(axis=axis) - wanted) <= ERRORS * np.sqrt(wanted / many) + 20 / many).all()
    assert moves > many


def test_a_factor_that_noise_hides_mixes():
    """121 cells, noise of 600 in 5000 rows: 400 draws count as 63 on average of 8 tables, given counts alone as 5."""
    rng = np.random.default_rng(2)
    noisy = 5000 * rng.dirichlet(np.full(121, 0.3)) + rng.laplace(0, 600, 121)
    follow = margin_chain(
        [said(np.arange(121), np.rint(noisy), 600.0)], np.ones(121), 5000, np.maximum(noisy, 0), factors=FACTORS
    )
    _, factors = follow(rng, 400)
    assert effective_size(np.log(factors)[None, :, None])[0] > 30


@pytest.mark.proof
def test_a_sparse_table_of_a_thousand_cells_has_the_means_of_exact_draws():
    """20 cells of 1000 have rows, noise of 30: their means, and that of the others' sum, beside independent draws.

    The chain starts with most of its rows in empty cells; one that has not left them is off by ten deviations.
    """
    rng, noise = np.random.default_rng(0), DiscreteLaplace(30.0)
    counts = np.zeros(1000, np.int64)
    counts[:20] = rng.integers(50, 5000, 20)
    noisy = counts + np.rint(rng.laplace(0, 30, 1000)).astype(np.int64)
    alpha, n = np.full(1000, 0.02), int(counts.sum())
    measured = [said(np.arange(1000), noisy, 30.0)]
    exact = sample_counts(noisy, noise, alpha, n, rng, 2000)
    chain = draw(measured, alpha, n, noisy.astype(float), rng, 4000)
    one, two = (np.column_stack([made[:, :20], made[:, 20:].sum(axis=1)]) for made in (exact, chain))
    errors = one.std(axis=0) * np.sqrt(1 / 2000 + 2 / effective_size(two[None].astype(float)))
    assert (np.abs(one.mean(axis=0) - two.mean(axis=0)) < ERRORS * errors).all()


@pytest.mark.parametrize("start", [[700.0, -600.0, 3.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -3.0], [0.4, 0.4, 99.2]])
def test_the_chain_forgets_where_it_starts(start):
    """Means of 20 000 draws from far apart starts are within 6 standard errors of the enumerated one."""
    measured = [said(np.arange(3), [5, -3, 2], 30.0)]
    tables, wanted = enumerated(measured, np.ones(3), 40)
    drawn = draw(measured, np.ones(3), 40, np.array(start), np.random.default_rng(1), 20_000)
    mean = wanted @ tables
    spread = np.sqrt(wanted @ (tables - mean) ** 2)
    assert (np.abs(drawn.mean(axis=0) - mean) < 6 * spread * np.sqrt(2 / 20_000)).all()


def test_counts_of_millions_take_no_longer_and_are_right():
    """n = 3 000 000 and noise of a thousand: a clear cell is its noisy value give or take the noise."""
    values = np.array([2_000_000.0, 900_000, 100_000])
    measured = [said(np.arange(3), values, 1000.0)]
    drawn = draw(measured, np.ones(3), 3_000_000, values, np.random.default_rng(0), 2000)
    assert (drawn.sum(axis=1) == 3_000_000).all()
    assert (np.abs(drawn.mean(axis=0) - values) < 200).all()
    assert ((drawn.std(axis=0) > 500) & (drawn.std(axis=0) < 2000)).all()
