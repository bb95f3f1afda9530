"""The chain over one table of counts against enumeration of every table, and plain against compiled loops."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln

from dpgraph.inference.counts import table_chain
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.table_chain import Statistics, draw_table
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace

#: Whole tables are compared state by state: a share off by 6 standard errors of half as many independent draws.
DRAWS, ERRORS = 30_000, 6.0

#: A table of two by two cells: its total, its two margins and its interaction, on a fixed-point grid of 3.
CONTRASTS = np.array([[1, 1, 1, 1], [1, 1, -1, -1], [1, -1, 1, -1], [1, -1, -1, 1]])
LAPLACE, GAUSSIAN = DiscreteLaplace(6.0), DiscreteGaussian(7.0)


def statistics(known, law=LAPLACE):
    directions = CONTRASTS[1:] if known else CONTRASTS
    values = np.array([11, -2, 14, 5])[-len(directions) :]
    return Statistics(values, 3 * directions.T, directions, np.tile(law.penalties, (len(directions), 1)))


CASES = {
    "cells": ([(np.array([5, -3, 2]), CellNoise(DiscreteLaplace(1.5)))], None, np.ones(3), 6, ()),
    "two versions": (
        [(np.array([4, 0, 3]), CellNoise(LAPLACE)), (np.array([6, 1, -2]), CellNoise(DiscreteLaplace(1.0), 3))],
        None,
        np.array([0.4, 2.0, 1.0]),
        6,
        (),
    ),
    "unknown total": (
        [(np.array([2, 1]), CellNoise(DiscreteLaplace(1.0)))],
        None,
        np.array([0.5, 1.5]),
        None,
        ((4, CellNoise(DiscreteLaplace(0.7), 2)),),
    ),
    "coefficients": ([], statistics(True), np.ones(4), 5, ()),
    "coefficients, prior": ([], statistics(True, GAUSSIAN), np.array([0.3, 1.0, 2.0, 0.8]), 5, ()),
    "coefficients, unknown total": ([], statistics(False), np.ones(4), None, ()),
    "no row": ([], statistics(True), np.ones(4), 0, ()),
    "one cell": ([(np.array([3]), CellNoise(LAPLACE))], None, np.ones(1), None, ()),
}


def enumerated(measured, linear, alpha, n, totals):
    """Every table that matters, and its posterior probability."""
    most = n if n is not None else {1: 90, 2: 25, 4: 12}[len(alpha)]
    tables = np.array([t for t in product(range(most + 1), repeat=len(alpha)) if n is None or sum(t) == n])
    log = (gammaln(alpha + tables) - gammaln(tables + 1)).sum(axis=1)
    for values, noise in measured:
        log += noise.log(values - tables).sum(axis=1)
    if linear is not None:
        off = np.abs(linear.values - tables @ linear.weights)
        log -= off @ linear.costs[:, 0] + off**2 @ linear.costs[:, 1]
    if n is None:
        total = tables.sum(axis=1)
        log += gammaln(total + 1) - gammaln(total + alpha.sum())
        log += sum(noise.log(value - total) for value, noise in totals)
    weight = np.exp(log - log.max())
    return tables, weight / weight.sum()


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_draws_follow_the_enumerated_posterior(case):
    """A state of probability .1 whose share is off by .015 is seen, and any state drawn that cannot be."""
    measured, linear, alpha, n, totals = CASES[case]
    tables, wanted = enumerated(measured, linear, alpha, n, totals)
    rng = np.random.default_rng(3)
    start = np.full(len(alpha), 2.0)
    drawn = draw_table(measured, linear, alpha, n, start, rng, DRAWS, totals=totals)
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


@pytest.mark.parametrize("case", CASES)
def test_plain_and_compiled_loops_make_the_same_draws(plain, case):
    measured, linear, alpha, n, totals = CASES[case]
    given = measured, linear, alpha, n, np.full(len(alpha), 1.5)
    fast = draw_table(*given, np.random.default_rng(0), 3, totals=totals)
    plain(table_chain)
    np.testing.assert_array_equal(draw_table(*given, np.random.default_rng(0), 3, totals=totals), fast)


@pytest.mark.parametrize("start", [[700.0, -600.0, 3.0], [0.0, 0.0, 0.0], [-1.0, -2.0, -3.0], [0.4, 0.4, 99.2]])
def test_the_chain_forgets_where_it_starts(start):
    """Means of 20 000 draws from far apart starts are within 6 standard errors of the enumerated one."""
    measured = [(np.array([5, -3, 2]), CellNoise(DiscreteLaplace(30.0)))]
    tables, wanted = enumerated(measured, None, np.ones(3), 40, ())
    drawn = draw_table(measured, None, np.ones(3), 40, np.array(start), np.random.default_rng(1), 20_000)
    mean = wanted @ tables
    spread = np.sqrt(wanted @ (tables - mean) ** 2)
    assert (np.abs(drawn.mean(axis=0) - mean) < 6 * spread * np.sqrt(2 / 20_000)).all()


def test_counts_of_millions_take_no_longer_and_are_right():
    """n = 3 000 000 and noise of a thousand: a clear cell is its noisy value give or take the noise."""
    values = np.array([2_000_000, 900_000, 100_000])
    noise = CellNoise(DiscreteLaplace(1000.0))
    drawn = draw_table(
        [(values, noise)], None, np.ones(3), 3_000_000, values.astype(float), np.random.default_rng(0), 2000
    )
    assert (drawn.sum(axis=1) == 3_000_000).all()
    assert (np.abs(drawn.mean(axis=0) - values) < 200).all()
    assert ((drawn.std(axis=0) > 500) & (drawn.std(axis=0) < 2000)).all()
