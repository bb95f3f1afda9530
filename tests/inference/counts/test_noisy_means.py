"""The law of a mean given its noisy sum, against integrals done by brute force."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from dpgraph.inference.counts.noisy_counts import Evidence, _log_density, allows_zero, mean_law


@pytest.mark.parametrize("deviation", [0.3, 2.0, 40.0])
@pytest.mark.parametrize("off", [-9.0, 0.0, 4.0])
def test_a_normal_variable_plus_laplace_noise(deviation, off):
    def mass(x):
        return stats.norm.pdf(x, scale=deviation) * stats.laplace.pdf(off - x, scale=2.0)

    brute = sum(quad(mass, *ends, limit=400)[0] for ends in ((-400, min(off, 0)), (min(off, 0), max(off, 0)),
                                                             (max(off, 0), 400)))  # fmt: skip
    found = _log_density(np.array([off]), np.array([deviation]), Evidence(0.0, (2.0,)))
    assert found == pytest.approx([np.log(brute)], abs=1e-5)


def test_the_same_with_gaussian_noise():
    found = _log_density(np.array([3.0]), np.array([4.0]), Evidence(0.0, (3.0,), gaussian=True))
    assert found == pytest.approx(stats.norm.logpdf([3.0], scale=5.0))


@pytest.mark.parametrize("scale", [0.5, 20.0])
@pytest.mark.parametrize("n", [400, 40_000])
def test_a_mean_has_the_deviation_of_sampling_and_noise(n, scale):
    """Losses of mean .2 and variance .02, sums far from their bounds: the law is normal plus Laplace, over n."""
    law = mean_law(Evidence(0.2 * n, (scale,)), Evidence(0.06 * n, (scale,)), np.array([float(n)]))
    m, weights = law
    assert weights.sum() == pytest.approx(1)
    mean = m @ weights
    assert mean == pytest.approx(0.2, abs=0.2 * scale / n + 0.004)
    wanted = np.sqrt(0.02 * n + 2 * scale**2) / n
    assert np.sqrt(weights @ (m - mean) ** 2) == pytest.approx(wanted, rel=0.06)


def test_a_private_number_of_rows_widens_the_law():
    total, squares = Evidence(200.0, (5.0,)), Evidence(60.0, (5.0,))
    known, unknown = (mean_law(total, squares, rows) for rows in (np.array([1e3]), np.linspace(600, 1400, 15)))
    spread = [np.sqrt(w @ (m - m @ w) ** 2) for m, w in (known, unknown)]
    assert spread[1] > 3 * spread[0]


@pytest.mark.parametrize("value", [-500.0, -5.0, 0.0])
def test_sums_at_or_below_nothing_allow_a_mean_of_nothing(value):
    total, squares, rows = Evidence(value, (20.0,)), Evidence(0.0, (20.0,)), np.array([1000.0])
    m, weights = mean_law(total, squares, rows)
    assert m[0] == 0
    assert m.max() <= 1
    assert weights[0] == weights.max()
    assert allows_zero(total, squares, rows, m[:1], 0.1)


def test_sums_beyond_all_rows_stay_within_the_bound():
    m, weights = mean_law(Evidence(2e4, (20.0,)), Evidence(2e4, (20.0,)), np.array([1000.0]))
    assert m.max() == 1
    assert m @ weights > 0.9
