"""The latent count is summed out: against convolutions, sums and mixtures done by brute force."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import betainc, gammaln

import dpgraph as dg
from dpgraph.inference.arguments import check_probability
from dpgraph.inference.counts.noisy_counts import Evidence, latent_count, lattice, share_draws


@pytest.mark.parametrize("scales", [(3.0,), (3.0, 3.0), (1.0, 4.0, 4.0), (2.0,) * 9, (0.01, 5.0)], ids=repr)
def test_the_density_of_a_sum_of_laplace_noises_is_its_convolution(scales):
    step = 0.005
    grid = np.arange(-200, 200 + step / 2, step)
    density = None
    for scale in scales:
        # the mass of each cell, so that a scale below the step is whole as well
        one = np.diff(stats.laplace.cdf(np.append(grid - step / 2, grid[-1] + step / 2), scale=scale)) / step
        density = one if density is None else np.asarray(fft_convolved(density, one, step))
    at = np.array([0.0, 0.5, 3.0, 10.0, 40.0, 80.0])
    found = Evidence(7.0, scales).log_likelihood(7.0 - at)
    brute = np.log(np.interp(at, grid, density))
    near = at < 40 + 0 * at
    np.testing.assert_allclose(found[near], brute[near], atol=0.01)
    assert np.all(np.diff(found) < 0)


def fft_convolved(one, other, step):
    from scipy.signal import fftconvolve

    return np.maximum(fftconvolve(one, other, mode="same") * step, 1e-300)


@pytest.mark.parametrize("scales", [(3.0,), (2.0, 3.0), (2.0,) * 40], ids=repr)
@pytest.mark.parametrize("gaussian", [False, True])
def test_a_density_integrates_to_one_with_the_said_deviation(scales, gaussian):
    evidence = Evidence(0.0, scales, gaussian)
    far = 12 * evidence.deviation

    def moment(power):
        mass = lambda x: np.exp(evidence.log_likelihood(np.array([x]))[0]) * x**power  # noqa: E731
        return 2 * quad(mass, 0, far, limit=400)[0]

    assert moment(0) == pytest.approx(1, abs=2e-4)
    assert moment(2) == pytest.approx(evidence.deviation**2, rel=2e-3)


def test_evidence_far_out_keeps_falling():
    """Beyond what inversion resolves the slope is that of the widest noise, to the last float."""
    far = Evidence(0.0, (1.0, 2.0)).log_likelihood(np.array([1e3, 2e3, 1e6]))
    assert np.diff(far) == pytest.approx([-500, -499_000], rel=1e-3)


@pytest.mark.parametrize("value", [-30.0, 3.0, 9.5, 60.0])
@pytest.mark.parametrize("n", [1, 12])
def test_a_share_is_the_mixture_over_every_possible_count(value, n):
    evidence = [Evidence(value, (2.5,)), Evidence(value + 4, (9.0,))]
    c = np.arange(n + 1.0)
    log = -abs(value - c) / 2.5 - abs(value + 4 - c) / 9
    log += gammaln(c + 0.5) - gammaln(c + 1) + gammaln(n - c + 0.5) - gammaln(n - c + 1)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    count = latent_count(evidence, n)
    assert count.nodes.tolist() == c.tolist()
    np.testing.assert_allclose(count.weights, weight, rtol=1e-9)
    points = lattice(2)
    part = count.at(points[:, 0])
    draws = share_draws(part, n - part, points[:, 1])
    for probability in (0.05, 0.5, 0.95):
        end = np.quantile(draws, probability)
        assert weight @ betainc(c + 0.5, n - c + 0.5, end) == pytest.approx(probability, abs=0.004)


@pytest.mark.parametrize("n", [10**5, 10**8])
def test_large_counts_are_looked_at_where_they_can_be(n):
    """A window of the counts, not all of them: its mean and deviation are those of the noise alone."""
    count = latent_count([Evidence(0.8 * n, (25.0,))], n)
    mean = count.nodes @ count.weights
    assert mean == pytest.approx(0.8 * n, abs=1)
    assert np.sqrt(count.weights @ (count.nodes - mean) ** 2) == pytest.approx(25 * np.sqrt(2), rel=0.01)


def test_a_count_of_unknown_sum_is_at_least_nothing():
    count = latent_count([Evidence(-40.0, (10.0,))])
    assert count.nodes.min() == 0
    c = np.arange(2000.0)
    weight = np.exp(-c / 10 + gammaln(c + 0.5) - gammaln(c + 1))
    assert count.nodes @ count.weights == pytest.approx(c @ weight / weight.sum(), rel=1e-6)


def test_a_boundary_is_allowed_where_it_is_as_likely_as_the_best():
    evidence = [Evidence(95.0, (10.0,))]
    count = latent_count(evidence, 100)
    assert count.allows(evidence, 100, 0.51)
    assert not count.allows(evidence, 100, 0.49)


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_lattice_points_are_even(dimensions):
    points = lattice(dimensions)
    assert points.shape == (1024, dimensions)
    for column in points.T:
        assert stats.kstest(column, "uniform").statistic < 0.005  # of random points about .02
    assert np.abs(np.corrcoef(points.T) - np.eye(dimensions)).max() < 0.02


@pytest.mark.parametrize("value", [0, 1, 1.5, True, "0.9", float("nan"), None])
def test_intervals_are_probabilities(value):
    with pytest.raises(dg.errors.InferenceError, match="interval"):
        check_probability("interval", value)
