"""Draws of tables of many cells: the law of sums by Fourier series, the enumerated posterior, any number of threads."""

import numpy as np
import pytest

from dpgraph.inference import interruption
from dpgraph.inference.counts import dirichlet_multinomial, many_cells
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.dirichlet_multinomial import counts_sampler
from dpgraph.inference.counts.many_cells import ManyCells
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace
from tests.inference.counts.test_dirichlet_multinomial import chi_square, posterior

LAWS = [DiscreteLaplace(3.0), DiscreteGaussian(2.5)]


def drawn(noisy, law, concentration, n, size, *, seed=1, log_prior_n=None):
    """Draws of one table."""
    measured = [(np.array(noisy), CellNoise(law))]
    sampler = counts_sampler(measured, np.array(concentration), n, log_prior_n=log_prior_n)
    return sampler(np.random.default_rng(seed), size)


@pytest.fixture
def small(monkeypatch):
    """Tables of two cells count as large, and all but one cell are drawn by halves."""
    monkeypatch.setattr(many_cells, "MANY", 2)
    monkeypatch.setattr(many_cells, "LAST", 1)


@pytest.mark.proof
@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize(
    ("noisy", "concentration", "n"),
    [([5, -2, 4], [1.0, 1.0, 1.0], 7), ([0, 9, 1], [0.3, 2.0, 5.0], 6), ([4, 4, -9, 4, 4], [1.0] * 5, 4)],
)
def test_draws_follow_the_enumerated_posterior(noisy, concentration, n, law, small):
    """10 000 draws; a chi-square of level 1e-6 sees a total variation of 10 % with power above .999 (70 cells or fewer:
    the noncentrality is at least 10 000 times 4 (0.1)^2 = 400). Equal cells share a law: the third case has two."""
    draws = drawn(noisy, law, concentration, n, 10_000)
    assert chi_square(draws, *posterior(noisy, law, concentration, [n])) > 1e-6


@pytest.mark.proof
@pytest.mark.parametrize("measured", [None, 6], ids=["flat", "noisy n"])
def test_an_unknown_n_is_drawn_too(measured, small):
    """As above over all tables of up to 100 records, beyond which the posterior has mass below 1e-8."""

    def log_prior(n):
        return 0.0 * n if measured is None else -abs(n - measured) / 3.0

    noisy, concentration = [4, -3], [1.0, 2.5]
    draws = drawn(noisy, LAWS[0], concentration, None, 10_000, log_prior_n=log_prior)
    listed, expected = posterior(noisy, LAWS[0], concentration, range(100), log_prior)
    assert draws.sum(axis=1).max() < 100
    assert chi_square(draws, listed, expected) > 1e-6


@pytest.mark.parametrize("tilt", [-0.3, 0.0, 0.2])
@pytest.mark.parametrize("many", [[1, 0, 0], [3, 1, 2], [0, 40, 7]])
def test_the_law_of_a_sum_is_its_convolution(tilt, many):
    lows, rng = np.array([0, 2, 5]), np.random.default_rng(0)
    log = np.log(rng.random((3, 9)))
    log[1, 4:] = -np.inf
    cells = ManyCells(np.repeat(np.arange(3), 2), lows, log).tilted(tilt)
    whole = np.ones(1)
    for law, times in enumerate(many):
        for _ in range(times):
            whole = np.convolve(whole, cells.weight[law])
    found = cells.sum_law(np.array(many))
    least = int(np.array(many) @ lows)
    assert found.at(least + np.arange(whole.size)) == pytest.approx(whole, abs=1e-13)
    assert found.bound >= whole.max()
    assert found.at(np.array([least - 10 * found.length])) == 0


def test_windows_are_wide_enough_for_what_is_given():
    """4096 cells of which each was released 30 scales too low: the tilt brings the mass to the windows' ends, which
    are made wider; the counts add up to n and their mean is n / K."""
    noisy = np.full(4096, -60)
    found = drawn(noisy, DiscreteLaplace(2.0), np.ones(4096), 4096 * 50, 2)
    assert (found.sum(axis=1) == 4096 * 50).all()
    assert found.std() > 5  # counts above noisy ones by far: geometric, tilted, of mean 50


def test_cells_that_differ_too_much_or_are_few_are_drawn_one_after_another(monkeypatch):
    given = [(np.arange(5000), CellNoise(DiscreteLaplace(2.0)))]
    assert many_cells.many_cells(given, np.ones(5000), 12_497_500) is not None
    monkeypatch.setattr(many_cells, "MOST_WEIGHTS", 1000)
    assert many_cells.many_cells(given, np.ones(5000), 12_497_500) is None
    assert many_cells.many_cells([(np.arange(9), CellNoise(DiscreteLaplace(2.0)))], np.ones(9), 20) is None


def test_threads_and_compilation_change_no_draw(monkeypatch, plain):
    rng = np.random.default_rng(3)
    noisy, law = rng.integers(-4, 6, 4500), DiscreteLaplace(2.0)
    wanted = drawn(noisy, law, np.ones(4500), 3000, 5)
    for threads in (1, 2, 5):
        monkeypatch.setattr(interruption, "processors", lambda threads=threads: threads)
        assert (drawn(noisy, law, np.ones(4500), 3000, 5) == wanted).all()
    plain(many_cells)
    assert (drawn(noisy, law, np.ones(4500), 3000, 5) == wanted).all()


@pytest.mark.proof
def test_many_cells_have_the_means_and_the_spread_of_cells_one_after_another(monkeypatch):
    """4096 cells, n known: both samplers' mean counts of all cells released as -2 ... 5 within 6 standard errors.

    A sampler that forgot the sum, or the noise, would be off by hundreds of them.
    """
    rng = np.random.default_rng(4)
    truth = rng.poisson(0.8, 4096)
    noise = rng.geometric(0.4, (2, 4096))
    noisy, n, law = truth + noise[0] - noise[1], int(truth.sum()), DiscreteLaplace(-1 / np.log(0.6))
    halves = drawn(noisy, law, np.ones(4096), n, 200)
    monkeypatch.setattr(dirichlet_multinomial, "many_cells", lambda *_, **__: None)
    each = drawn(noisy, law, np.ones(4096), n, 20)
    for value in range(-2, 6):
        one, other = (made[:, noisy == value].mean(axis=1) for made in (halves, each))
        error = np.sqrt(one.var(ddof=1) / len(one) + one.var(ddof=1) / len(other))
        assert abs(one.mean() - other.mean()) < 6 * error
        assert halves[:, noisy == value].var() == pytest.approx(each[:, noisy == value].var(), rel=0.1)
