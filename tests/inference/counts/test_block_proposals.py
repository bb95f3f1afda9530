"""Draws by blocks follow the posterior that enumeration gives, and are what convolution draws slowly."""

import itertools

import numpy as np
import pytest
from scipy import stats

from dpgraph.inference.counts import block_proposals, dirichlet_multinomial
from dpgraph.inference.counts.block_proposals import block_size, draw_by_blocks, ways
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace

LAWS = [DiscreteLaplace(6.0), SumZeroLaplace(5.0), DiscreteGaussian(5.0)]


def every(n):
    """What no window cuts."""
    return lambda cells: (np.zeros(cells, np.int64), np.full(cells, n))


def posterior(measured, n):
    """P(s | y) for every table of n rows, the noise laws written out."""
    cells = len(measured[0][0])
    listed = [s for s in itertools.product(range(n + 1), repeat=cells) if sum(s) == n]
    logs = np.zeros(len(listed))
    for y, noise in measured:
        off = np.abs(np.array(y) - np.array(listed)).astype(float)
        scale = noise.law.scale
        if noise.copies == 2:  # the sum of two Laplace draws, by the sum over the first
            first = np.arange(-400, 401)
            table = [np.exp(-(np.abs(first) + np.abs(d - first)) / scale).sum() for d in range(int(off.max()) + 1)]
            logs += np.log(np.array(table))[off.astype(int)].sum(axis=1)
        elif isinstance(noise.law, DiscreteGaussian):
            logs -= (off**2).sum(axis=1) / (2 * scale**2)
        else:
            logs -= off.sum(axis=1) / scale
    weight = np.exp(logs - logs.max())
    return listed, weight / weight.sum()


def p_value(draws, listed, expected):
    """That of a chi-square test; tables expected fewer than ten times are pooled."""
    found, times = np.unique(draws, axis=0, return_counts=True)
    counts = dict.fromkeys(listed, 0) | dict(zip(map(tuple, found.tolist()), times.tolist(), strict=True))
    assert len(counts) == len(listed), "a draw that no data set gives"
    observed, wanted = np.array(list(counts.values())), expected * len(draws)
    rare = wanted < 10
    observed, wanted = np.append(observed[~rare], observed[rare].sum()), np.append(wanted[~rare], wanted[rare].sum())
    kept = wanted > 0
    return stats.chisquare(observed[kept], wanted[kept]).pvalue


@pytest.mark.parametrize(
    ("measured", "n"),
    [
        *[([([5, -2, 14], CellNoise(law))], 22) for law in LAWS],
        ([([30, -9], CellNoise(LAWS[0]))], 37),
        ([([30, 4], CellNoise(LAWS[1], 2))], 37),
        ([([7, 2, 9], CellNoise(DiscreteLaplace(9.0))), ([3, 8, 1], CellNoise(DiscreteGaussian(9.0)))], 23),
        ([([2, 2, -5, 9], CellNoise(LAWS[0]))], 13),
    ],
)
def test_draws_follow_the_enumerated_posterior(measured, n, monkeypatch):
    """200 000 draws from blocks as wide as the counts; a chi-square of level 1e-6 sees a total variation of 3 % with
    power above .99 (560 tables or fewer: the noncentrality, 200 000 times at least 4 (0.03)^2, is above 700).
    """
    monkeypatch.setattr(block_proposals, "FALL", 3.0)
    monkeypatch.setattr(block_proposals, "SPAN", 0.8)
    given = [(np.array(y), noise) for y, noise in measured]
    cells = len(measured[0][0])
    assert block_size(given, cells, n) >= 4
    draws = draw_by_blocks(given, np.ones(cells), *every(n)(cells), n, np.random.default_rng(1), 200_000)
    assert p_value(draws, *posterior(measured, n)) > 1e-6


@pytest.mark.parametrize("law", [DiscreteLaplace(400.0), SumZeroLaplace(900.0), DiscreteGaussian(500.0)], ids=repr)
def test_blocks_draw_what_convolution_draws(law, monkeypatch):
    """Means and standard deviations of each of six cells of 3000 rows, 20 000 draws by either method, within 5.5
    standard errors: twelve comparisons of three laws are off by chance with a probability below 2e-6, at a fixed seed.
    """
    noisy, n = np.array([1500, 900, -700, 20, 400, 2100]), 3000
    found = []
    for wide in (1 << 60, 0):
        monkeypatch.setattr(dirichlet_multinomial, "WIDE", wide)
        found.append(
            dirichlet_multinomial.sample_counts(noisy, law, np.ones(6), n, np.random.default_rng(wide % 7), 20_000)
        )
    one, other = found
    assert (one.sum(axis=1) == n).all()
    assert (other.sum(axis=1) == n).all()
    spread = np.sqrt(one.var(axis=0) + other.var(axis=0))
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 5.5 * spread / np.sqrt(20_000)).all()
    squares = [(part - part.mean(axis=0)) ** 2 for part in found]
    errors = np.sqrt(sum(part.var(axis=0) for part in squares) / 20_000)
    assert (np.abs(squares[0].mean(axis=0) - squares[1].mean(axis=0)) < 5.5 * errors).all()


def test_compiled_and_plain_loops_draw_the_same(plain):
    given = [(np.array([150, 90, -70, 20]), CellNoise(DiscreteLaplace(60.0)))]
    fast = draw_by_blocks(given, np.ones(4), *every(300)(4), 300, np.random.default_rng(3), 40)
    plain(block_proposals)
    slow = draw_by_blocks(given, np.ones(4), *every(300)(4), 300, np.random.default_rng(3), 40)
    assert (fast == slow).all()


@pytest.mark.parametrize(("cells", "block"), [(1, 5), (2, 4), (3, 7), (5, 4)])
def test_ways_are_counted(cells, block):
    sums = [sum(places) for places in itertools.product(range(block), repeat=cells)]
    counted = np.bincount(sums).astype(float)
    assert np.allclose(ways(cells, block), counted / counted.max(), rtol=1e-14, atol=0)


def test_small_blocks_and_hopeless_proposals_are_left_to_convolution(monkeypatch):
    narrow = [(np.array([150, 90, 60]), CellNoise(DiscreteLaplace(2.0)))]
    assert draw_by_blocks(narrow, np.ones(3), *every(300)(3), 300, np.random.default_rng(0), 5) is None
    wide = [(np.array([150, 90, 60]), CellNoise(DiscreteLaplace(90.0)))]
    assert draw_by_blocks(wide, np.ones(3), *every(300)(3), 300, np.random.default_rng(0), 5) is not None
    monkeypatch.setattr(block_proposals, "LEAST_ACCEPTED", 1.1)
    assert draw_by_blocks(wide, np.ones(3), *every(300)(3), 300, np.random.default_rng(0), 5) is None


def test_time_does_not_grow_with_rows_but_with_rows_over_noise():
    """What the loops go through: blocks of all cells, at a hundred times the rows and a hundred times the noise."""
    sizes = [
        n / block_size([(np.zeros(8, np.int64), CellNoise(DiscreteLaplace(scale)))], 8, n)
        for n, scale in ((10_000, 1000.0), (1_000_000, 100_000.0))
    ]
    assert sizes[1] < 1.2 * sizes[0]
