"""Draws of counts given noisy counts follow the posterior that enumeration gives, for every noise law and unknown n."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from dpgraph.inference.counts import dirichlet_multinomial
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.dirichlet_multinomial import sample_counts
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace

LAWS = [DiscreteLaplace(3.0), SumZeroLaplace(2.0), DiscreteGaussian(2.5)]


def tables(cells, n):
    """Every table of n records."""
    return [s for s in itertools.product(range(n + 1), repeat=cells) if sum(s) == n]


def posterior(noisy, law, concentration, totals, log_prior=lambda n: 0.0):
    """P(s | y) for every table, from the Dirichlet-multinomial law and the noise written out by themselves."""
    listed = [s for n in totals for s in tables(len(noisy), n)]
    logs = []
    for s in listed:
        n, mass = sum(s), sum(concentration)
        log = log_prior(n) + gammaln(n + 1) + gammaln(mass) - gammaln(n + mass)
        for count, y, a in zip(s, noisy, concentration, strict=True):
            z = y - count
            log += gammaln(a + count) - gammaln(a) - gammaln(count + 1)
            log += -(z**2) / (2 * law.scale**2) if isinstance(law, DiscreteGaussian) else -abs(z) / law.scale
        logs.append(log)
    weight = np.exp(np.array(logs) - max(logs))
    return listed, weight / weight.sum()


def chi_square(draws, listed, expected):
    """p-value of the draws; cells expected fewer than ten times are pooled."""
    counts = dict.fromkeys(listed, 0)
    found, times = np.unique(draws, axis=0, return_counts=True)
    for row, count in zip(found.tolist(), times.tolist(), strict=True):
        counts[tuple(row)] += count
    assert len(counts) == len(listed), "a draw that no data set gives"
    observed, wanted = np.array(list(counts.values())), expected * len(draws)
    rare = wanted < 10
    observed = np.append(observed[~rare], observed[rare].sum())
    wanted = np.append(wanted[~rare], wanted[rare].sum())
    if wanted[-1] == 0:
        observed, wanted = observed[:-1], wanted[:-1]
    return stats.chisquare(observed, wanted).pvalue


@pytest.mark.proof
@pytest.mark.parametrize("rounds", [0, 12], ids=["inversion", "rejection first"])
@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize(
    ("noisy", "concentration", "n"),
    [
        ([5, -2, 4], [1.0, 1.0, 1.0], 7),
        ([0, 9, 1], [0.3, 2.0, 5.0], 6),
        ([3, 3], [0.5, 0.5], 8),
        ([40, 0, -9, 2], [1.0] * 4, 5),
    ],
)
def test_draws_follow_the_enumerated_posterior(noisy, concentration, n, law, rounds, monkeypatch):
    """200 000 draws; a chi-square of level 1e-6 sees a total variation of 2 % with power above .999 (66 cells or
    fewer: the noncentrality, 200 000 times at least 4 (0.02)^2, is above 300)."""
    monkeypatch.setattr(dirichlet_multinomial, "ROUNDS", rounds)
    draws = sample_counts(np.array(noisy), law, np.array(concentration), n, np.random.default_rng(1), 200_000)
    listed, expected = posterior(noisy, law, concentration, [n])
    assert chi_square(draws, listed, expected) > 1e-6


@pytest.mark.parametrize("law", [LAWS[0], LAWS[2]], ids=repr)
@pytest.mark.parametrize("measured", [None, 6], ids=["flat", "noisy n"])
def test_an_unknown_n_is_drawn_too(law, measured):
    """As above over all tables of up to 60 records, beyond which the posterior has mass below 1e-8."""

    def log_prior(n):
        return 0.0 if measured is None else -abs(n - measured) / 3.0

    noisy, concentration = [4, -3], [1.0, 2.5]
    draws = sample_counts(
        np.array(noisy),
        law,
        np.array(concentration),
        None,
        np.random.default_rng(2),
        200_000,
        log_prior_n=None if measured is None else lambda n: -np.abs(n - measured) / 3.0,
    )
    listed, expected = posterior(noisy, law, concentration, range(100), log_prior)
    assert draws.sum(axis=1).max() < 100
    assert chi_square(draws, listed, expected) > 1e-6


def exact_moments(noisy, law, concentration, n):
    """Mean and standard deviation of each cell by log-space forward and backward sums without windows or transforms."""
    s = np.arange(n + 1)
    logs = [
        gammaln(a + s) - gammaln(s + 1) + CellNoise(law).log(y - s) for y, a in zip(noisy, concentration, strict=True)
    ]

    def convolved(one, other):
        grid = np.full((n + 1, n + 1), -np.inf)
        for total in range(n + 1):
            grid[total, : total + 1] = one[: total + 1] + other[total::-1]
        top = grid.max(axis=1)
        return top + np.log(np.exp(grid - top[:, None]).sum(axis=1))

    moments = []
    for k in range(len(noisy)):
        others = [log for j, log in enumerate(logs) if j != k]
        rest = others[0]
        for log in others[1:]:
            rest = convolved(rest, log)
        log = logs[k] + rest[::-1]
        weight = np.exp(log - log.max())
        weight /= weight.sum()
        mean = weight @ s
        moments.append((mean, np.sqrt(weight @ (s - mean) ** 2)))
    return np.array(moments).T


@pytest.mark.parametrize(
    ("law", "noisy"),
    [
        (DiscreteLaplace(24.0), [300, -40, 520, 90]),
        (DiscreteLaplace(2.0), [300, 200, 100, 900]),
        (DiscreteGaussian(15.0), [10, 3, 800, -20]),
        (DiscreteLaplace(900.0), [4000, -2000, 90, 3]),
    ],
    ids=["usual", "sum far from n", "Gaussian", "mostly noise"],
)
def test_moments_at_a_thousand_records(law, noisy):
    """Cells of 1 000 records, transforms and tilts in use; five standard errors of 40 000 draws (level below 1e-5 over
    all, fixed seed)."""
    concentration = np.array([0.5, 1.0, 1.0, 3.0])
    draws = sample_counts(np.array(noisy), law, concentration, 1000, np.random.default_rng(3), 40_000)
    mean, spread = exact_moments(noisy, law, concentration, 1000)
    assert (draws.sum(axis=1) == 1000).all()
    assert (draws >= 0).all()
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * spread / 200).all()
    assert np.allclose(draws.std(axis=0), spread, rtol=0.05)


@pytest.mark.parametrize("n", [1000, None])
def test_many_cells(n):
    """300 cells of about 3 records with noise of standard deviation 2.8: the draws' mean correlates with the counts
    more than the noisy counts do."""
    rng = np.random.default_rng(4)
    exact = rng.multinomial(1000, rng.dirichlet(np.ones(300)))
    noisy = exact + np.round(rng.laplace(size=300) * 2).astype(np.int64)
    draws = sample_counts(noisy, DiscreteLaplace(2.0), np.ones(300), n, rng, 500)
    assert (draws >= 0).all()
    if n is not None:
        assert (draws.sum(axis=1) == n).all()
    mean = draws.mean(axis=0)
    assert np.corrcoef(mean, exact)[0, 1] > np.corrcoef(noisy, exact)[0, 1]


@pytest.mark.parametrize("concentration", [0.2, 1.0, 4.0])
@pytest.mark.parametrize("measured", [None, 60], ids=["flat", "noisy n"])
def test_unknown_n_with_twenty_cells(concentration, measured):
    """The law of n from plain convolutions of positive terms, which lose no digits; noise as large as the counts, so
    that the prior moves n far from the noisy total. Five standard errors of 40 000 draws."""
    rng = np.random.default_rng(7)
    noisy = np.array([5] * 20) + np.round(rng.laplace(size=20) * 12).astype(np.int64)
    law = DiscreteLaplace(12.0)
    s = np.arange(700)
    total = np.ones(1)
    for y in noisy:
        log = gammaln(concentration + s) - gammaln(concentration) - gammaln(s + 1) + CellNoise(law).log(y - s)
        total = np.convolve(total, np.exp(log))
    n = np.arange(total.size)
    mass = 20 * concentration
    log = gammaln(n + 1) + gammaln(mass) - gammaln(n + mass)
    log -= 0 if measured is None else np.abs(n - measured) / 12
    weight = total * np.exp(log)
    weight /= weight.sum()
    mean = weight @ n
    spread = np.sqrt(weight @ (n - mean) ** 2)
    prior = None if measured is None else lambda n: -np.abs(n - measured) / 12
    draws = sample_counts(noisy, law, np.full(20, concentration), None, rng, 40_000, log_prior_n=prior).sum(axis=1)
    assert abs(draws.mean() - mean) < 5 * spread / 200
    assert draws.std() == pytest.approx(spread, rel=0.03)


def test_one_cell_and_no_records():
    rng = np.random.default_rng(5)
    assert (sample_counts(np.array([9]), LAWS[0], np.ones(1), 4, rng, 3) == 4).all()
    assert (sample_counts(np.array([9, -2, 5]), LAWS[0], np.ones(3), 0, rng, 3) == 0).all()


def test_draws_are_reproducible_and_made_together(monkeypatch):
    """What makes them quick: a table of 8 cells takes 6 convolutions and 7 draws of a half, however many draws.

    The sum of all eight cells is n: its law is not needed.
    """
    calls = {"_convolution": 0, "_draws_given_sum": 0}

    def counted(name):
        plain = getattr(dirichlet_multinomial, name)

        def call(*arguments):
            calls[name] += 1
            return plain(*arguments)

        return call

    for name in calls:
        monkeypatch.setattr(dirichlet_multinomial, name, counted(name))
    noisy = np.array([100, 250, 30, 0, -20, 400, 100, 150])

    def drawn(size):
        calls.update(dict.fromkeys(calls, 0))
        return sample_counts(noisy, DiscreteLaplace(24.0), np.ones(8), 1000, np.random.default_rng(6), size)

    assert (drawn(1000) == drawn(1000)).all()
    assert calls == {"_convolution": 6, "_draws_given_sum": 7}
    drawn(1)
    assert calls == {"_convolution": 6, "_draws_given_sum": 7}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], LAWS[0], [1.0], 3), "shape"),
        (([1, 2], LAWS[0], [1.0, 0.0], 3), "above 0"),
        (([1, 2], LAWS[0], [1.0, np.nan], 3), "above 0"),
        (([1, 2], LAWS[0], [1.0, 1.0], -1), "at least 0"),
        (([1, 2], LAWS[1], [1.0, 1.0], None), "shows n"),
    ],
)
def test_what_has_no_posterior_is_refused(arguments, message):
    noisy, law, concentration, n = arguments
    with pytest.raises(InferenceError, match=message):
        sample_counts(np.array(noisy), law, np.array(concentration), n, np.random.default_rng(0), 2)


def test_windows_are_wide_enough_for_the_sum():
    """4096 cells, each released 30 scales below 0, of mean 50: noise then tilts all of them alike, so every table with
    the sum is as likely as any other and counts are near geometric. Six standard errors of the spread."""
    found = sample_counts(np.full(4096, -60), LAWS[0], np.ones(4096), 4096 * 50, np.random.default_rng(9), 2)
    assert (found.sum(axis=1) == 4096 * 50).all()
    assert found.std() == pytest.approx(np.sqrt(50 * 51), abs=4.7)


def test_cells_that_share_a_law_follow_it():
    """As the enumerated posteriors above: of five cells four have the same noisy count and prior."""
    noisy, alpha = [2, 2, -3, 2, 2], np.full(5, 0.5)
    draws = sample_counts(np.array(noisy), DiscreteLaplace(1.0), alpha, 9, np.random.default_rng(10), 50_000)
    assert chi_square(draws, *posterior(noisy, DiscreteLaplace(1.0), alpha, [9])) > 1e-6


def test_an_unknown_n_that_needs_several_tilts_where_cells_share_a_law():
    """A prior of n that makes up for the noise, up to 39, so n is drawn from 0 to 39 and the tilted cells' sum has a
    standard deviation of 2. Its law by plain convolutions.

    50 000 draws in ten parts: a chi-square of level 1e-6 sees a total variation of 2 % with power above .999 (its
    noncentrality is at least 50 000 times 4 (0.02)^2 = 80).
    """
    noisy, s, total = [2, 2, -3, 2, 2], np.arange(40), np.ones(1)
    for y in noisy:
        total = np.convolve(total, np.exp(gammaln(0.5 + s) - gammaln(s + 1) - (y - s) ** 2 / 2))
    n = np.arange(40)
    log = np.log(total[:40]) + gammaln(n + 1) - gammaln(n + 2.5) + 0.1 * (n - 5) ** 2
    expected = np.add.reduceat(np.exp(log - log.max()), n[::4])
    draws = sample_counts(
        np.array(noisy), DiscreteGaussian(1.0), np.full(5, 0.5), None, np.random.default_rng(11), 50_000,
        log_prior_n=lambda m: np.where(m < 40, 0.1 * (m - 5) ** 2, -np.inf),
    ).sum(axis=1)  # fmt: skip
    observed = np.bincount(draws // 4, minlength=10)
    assert stats.chisquare(observed, expected / expected.sum() * len(draws)).pvalue > 1e-6
