"""Draws by blocks where the sum is unknown or the prior not flat follow the posterior that enumeration gives."""

import itertools
import math

import numpy as np
import pytest

from dpgraph.inference.counts import block_proposals, dirichlet_multinomial
from dpgraph.inference.counts.block_proposals import (
    _places_that_add_up,
    _sliding_maximum,
    block_size,
    draw_by_blocks,
)
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace
from tests.inference.counts.test_block_proposals import p_value

#: Numbers that windows hold, from 0: whole blocks of the sizes that the tests use.
LAPLACE, GAUSSIAN = DiscreteLaplace(4.0), DiscreteGaussian(4.0)


def posterior(measured, alpha, most, log_total, n=None):
    """P(s | y) for every table of counts up to ``most``, of n rows where they are known; formulas written out."""
    listed = [s for s in itertools.product(range(most + 1), repeat=len(alpha)) if n is None or sum(s) == n]
    logs = []
    for s in listed:
        log = sum(math.lgamma(a + k) - math.lgamma(k + 1) for a, k in zip(alpha, s, strict=True))
        for y, noise in measured:
            for k, seen in zip(s, y, strict=True):
                off, scale = abs(seen - k), noise.law.scale
                log -= off**2 / (2 * scale**2) if isinstance(noise.law, DiscreteGaussian) else off / scale
        if n is None:
            total = sum(s)
            log += math.lgamma(total + 1) - math.lgamma(total + sum(alpha)) + log_total(total)
        logs.append(log)
    weight = np.exp(np.array(logs) - max(logs))
    return listed, weight / weight.sum()


def peaked(total):
    """The number of rows was measured, too, by a noise of scale 9 at 21."""
    return -abs(total - 21) / 9


@pytest.mark.parametrize("alpha", [(1.0, 1.0), (2.5, 1.0), (0.6, 0.8)], ids=str)
@pytest.mark.parametrize(
    "measured", [[([5, 14], CellNoise(LAPLACE))], [([9, -3], CellNoise(GAUSSIAN))]], ids=["1", "2"]
)
@pytest.mark.parametrize("log_total", [lambda total: 0.0, peaked], ids=["flat", "peaked"])
def test_draws_follow_the_enumerated_posterior(alpha, measured, log_total, monkeypatch):
    """200 000 draws of two counts from blocks of 5; a chi-square of level 1e-6 on at most 1600 tables sees a total
    variation of 4 % with power above .99 (the noncentrality, 200 000 times 4 (0.04)^2, is above 1200).
    """
    monkeypatch.setattr(block_proposals, "block_size", lambda *_: 5)
    given = [(np.array(y), noise) for y, noise in measured]

    def of_totals(n):
        return np.array([log_total(k) for k in n.tolist()])

    ends = np.zeros(2, np.int64), np.full(2, 39)
    drawn = draw_by_blocks(
        given, np.array(alpha), *ends, None, np.random.default_rng(2), 200_000, log_prior_n=of_totals
    )
    assert p_value(drawn, *posterior(measured, alpha, 39, log_total)) > 1e-6


@pytest.mark.proof
@pytest.mark.parametrize("alpha", [(2.5, 1.0, 1.0), (0.6, 0.8, 3.0)], ids=str)
def test_other_priors_where_the_sum_is_known(alpha, monkeypatch):
    """As above, of three counts that add up to 22: at most 276 tables."""
    monkeypatch.setattr(block_proposals, "FALL", 3.0)
    monkeypatch.setattr(block_proposals, "SPAN", 0.8)
    measured, n = [([5, -2, 14], CellNoise(DiscreteLaplace(6.0)))], 22
    given = [(np.array(y), noise) for y, noise in measured]
    assert block_size(given, 3, n) >= 4
    ends = np.zeros(3, np.int64), np.full(3, n)
    drawn = draw_by_blocks(given, np.array(alpha), *ends, n, np.random.default_rng(1), 200_000)
    assert p_value(drawn, *posterior(measured, alpha, n, None, n)) > 1e-6


@pytest.mark.parametrize(("n", "prior"), [(None, 1.0), (1500, 1.7)])
def test_blocks_draw_what_convolution_draws(n, prior, monkeypatch):
    """Means and variances of each of four cells, 4000 draws by either method, within 5.5 standard errors: eight
    comparisons of two settings are off by chance with a probability below 1e-6, at a fixed seed. The convolution is
    never asked for where blocks are.
    """
    noisy, law = np.array([700, -300, 20, 1100]), DiscreteLaplace(100.0)
    found, asked = [], []
    plain = dirichlet_multinomial._by_sums
    monkeypatch.setattr(dirichlet_multinomial, "_by_sums", lambda *args: asked.append(1) or plain(*args))
    for wide in (1 << 60, 0):
        monkeypatch.setattr(dirichlet_multinomial, "WIDE", wide)
        rng = np.random.default_rng(wide % 7)
        found.append(dirichlet_multinomial.sample_counts(noisy, law, np.full(4, prior), n, rng, 4000))
    assert asked == [1]
    one, other = (part.astype(float) for part in found)
    spread = np.sqrt(one.var(axis=0) + other.var(axis=0))
    assert (np.abs(one.mean(axis=0) - other.mean(axis=0)) < 5.5 * spread / np.sqrt(4000)).all()
    squares = [(part - part.mean(axis=0)) ** 2 for part in (one, other)]
    errors = np.sqrt(sum(part.var(axis=0) for part in squares) / 4000)
    assert (np.abs(squares[0].mean(axis=0) - squares[1].mean(axis=0)) < 5.5 * errors).all()


def test_compiled_and_plain_loops_draw_the_same(plain):
    given, ends = [(np.array([150, 90, -70]), CellNoise(DiscreteLaplace(60.0)))], (np.zeros(3, int), np.full(3, 900))
    fast = draw_by_blocks(given, np.ones(3), *ends, None, np.random.default_rng(3), 40)
    plain(block_proposals)
    slow = draw_by_blocks(given, np.ones(3), *ends, None, np.random.default_rng(3), 40)
    assert (fast == slow).all()


@pytest.mark.parametrize(("size", "length"), [(7, 1), (7, 3), (8, 4), (9, 9), (20, 6)])
def test_the_largest_of_some_in_a_row(size, length):
    values = np.random.default_rng(size).standard_normal(size)
    wanted = [values[at : at + length].max() for at in range(size - length + 1)]
    assert _sliding_maximum(values, length).tolist() == wanted


def test_hopeless_proposals_are_left_to_convolution(monkeypatch):
    given, ends = [(np.array([150, 90]), CellNoise(DiscreteLaplace(90.0)))], (np.zeros(2, int), np.full(2, 4000))
    rng = np.random.default_rng(0)
    assert draw_by_blocks(given, np.ones(2), *ends, None, rng, 5) is not None
    monkeypatch.setattr(block_proposals, "LEAST_ACCEPTED", 1.1)
    assert draw_by_blocks(given, np.ones(2), *ends, None, rng, 5) is None
    monkeypatch.setattr(block_proposals, "MOST_WORK_UNKNOWN", 10)
    assert draw_by_blocks(given, np.ones(2), *ends, None, rng, 5) is None


@pytest.mark.parametrize(("cells", "block"), [(2, 7), (3, 5), (4, 3)])
def test_places_add_up_evenly(cells, block):
    """20 000 draws for each of at most 13 sums, of at most 19 ways each, all as likely: chi-squares of 1e-7 each."""
    for total in range(cells * (block - 1) + 1):
        drawn = _places_that_add_up(np.full(20_000, total), cells, block, np.random.default_rng(total))
        listed = [way for way in itertools.product(range(block), repeat=cells) if sum(way) == total]
        if len(listed) == 1:
            assert (drawn == listed[0]).all()
        else:
            assert p_value(drawn, listed, np.full(len(listed), 1 / len(listed))) > 1e-7
