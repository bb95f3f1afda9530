"""What a noise law says of itself, against its mass function enumerated."""

import itertools
import math

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, Movement, SumZeroLaplace

INDEPENDENT = [DiscreteLaplace(1.7), DiscreteGaussian(1.7), DiscreteGaussian(5.0)]
Z = np.arange(-400, 401, dtype=np.float64)


def mass(law):
    """Its probabilities on Z, by the law's formula and not by its methods."""
    rate = Z**2 / (2 * law.scale**2) if isinstance(law, DiscreteGaussian) else np.abs(Z) / law.scale
    return np.exp(-rate) / np.exp(-rate).sum()


@pytest.mark.parametrize("law", INDEPENDENT, ids=repr)
def test_density_deviation_and_penalties_are_those_of_the_mass_function(law):
    log = law.log_density(Z)
    np.testing.assert_allclose(np.exp(log) / np.exp(log).sum(), mass(law), rtol=1e-12)
    np.testing.assert_allclose(log, -law.penalties[0] * np.abs(Z) - law.penalties[1] * Z**2, rtol=1e-12)
    deviation = math.sqrt((mass(law) * Z**2).sum())
    assert math.sqrt(law.variance(7)) == pytest.approx(deviation, rel=1e-9)
    assert law.contrast_variance(7) == pytest.approx(deviation**2, rel=1e-9)
    assert law.independent is law
    assert not law.sums_to_zero
    assert law.gaussian == isinstance(law, DiscreteGaussian)


@pytest.mark.parametrize("copies", [1, 2, 5])
@pytest.mark.parametrize("law", INDEPENDENT, ids=repr)
def test_sums_of_draws_reach_no_further_and_fall_off_as_said(law, copies):
    """The convolved mass function: its deviation is at most the stated one and no less than 0.94 of it, less than
    exp(-36) lies beyond the reach, and beyond 20 deviations ln P follows the stated tail, within 0.1 over 20 scales
    and for Gaussian noise within 0.001 over 3."""
    whole = mass(law)
    for _ in range(copies - 1):
        whole = np.convolve(whole, mass(law))
    z = np.arange(whole.size) - whole.size // 2
    deviation = math.sqrt((whole * z**2).sum())
    assert 0.94 * law.sum_deviation(copies) < deviation <= law.sum_deviation(copies) * (1 + 1e-12)
    assert whole[np.abs(z) > law.sum_reach(copies)].sum() < math.exp(-36)
    edge = math.ceil(20 * deviation)
    far = np.arange(edge, edge + int(3 * law.scale if law.gaussian else 20 * law.scale), dtype=np.float64)
    log = np.log(whole[whole.size // 2 + far.astype(int)])
    told = law.sum_tail(log[0], float(edge), far, copies)
    np.testing.assert_allclose(told, log, atol=1e-3 if law.gaussian else 0.1)


def test_noise_that_sums_to_zero_by_enumeration():
    """Three cells: the variance along (1, -1, 0) / sqrt(2), and the likelihood up to one constant on the plane."""
    law = SumZeroLaplace(1.3)
    points = np.array([(a, b, -a - b) for a, b in itertools.product(range(-60, 61), repeat=2)], float)
    weight = np.exp(-np.abs(points).sum(axis=1) / law.scale)
    weight /= weight.sum()
    along = (points[:, 0] - points[:, 1]) / math.sqrt(2)
    assert law.contrast_variance(3) == pytest.approx((weight * along**2).sum(), rel=1e-6)
    assert math.sqrt(law.variance(3)) == pytest.approx(math.sqrt((weight * points[:, 0] ** 2).sum()), rel=1e-6)
    log = law.log_density(points).sum(axis=1) - np.log(weight)
    np.testing.assert_allclose(log, log[0], atol=1e-9)
    assert law.sums_to_zero
    assert not law.gaussian
    assert law.independent == DiscreteLaplace(1.3)
    assert law.penalties == DiscreteLaplace(1.3).penalties


def test_one_cell_that_sums_to_zero_is_zero():
    assert SumZeroLaplace(2.0).variance(1) == SumZeroLaplace(2.0).contrast_variance(1) == 0.0


def test_a_law_that_states_no_price_has_none():
    """A law of somebody else's that forgets its price must not get that of Laplace noise."""

    class Silent(dg.extension.NoiseLaw):
        scale, sums_to_zero, gaussian = 1.0, False, False

    assert Silent().epsilon(1) is None
    assert Silent().rho(Movement(1, 1)) is None
