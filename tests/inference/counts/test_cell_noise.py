"""The law of summed noise against direct convolution, near its peak and far in its tails, at small and large scales."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import nbinom

from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace


@pytest.mark.parametrize("copies", [1, 2, 3, 16])
@pytest.mark.parametrize(
    "law", [DiscreteLaplace(0.4), DiscreteLaplace(7.5), DiscreteGaussian(0.6), DiscreteGaussian(9)]
)
def test_the_law_is_the_convolution(law, copies):
    """Direct convolution is exact to rounding where the mass is above 1e-290; the tails beyond 1e-13 are continued."""
    z = np.arange(-600, 601)
    gaussian = isinstance(law, DiscreteGaussian)
    single = np.exp(-(z**2) / (2 * law.scale**2) if gaussian else -np.abs(z) / law.scale)
    whole = single
    for _ in range(copies - 1):
        whole = np.convolve(whole, single)
    middle = whole.size // 2
    for distance, allowed in ((np.arange(0, int(3 * law.scale * np.sqrt(copies)) + 2), 1e-6), (np.arange(0, 120), 3.0)):
        expected = np.log(np.maximum(whole[middle + distance], 1e-300)) - np.log(whole[middle])
        kept = expected > -200
        ours = CellNoise(law, copies).log(distance) - CellNoise(law, copies).log(np.array(0))
        scale = np.maximum(1.0, -expected[kept] / 36)
        assert np.abs((ours[kept] - expected[kept]) / scale).max() < allowed


@pytest.mark.parametrize("scale", [0.2, 3.0, 51.0])
@pytest.mark.parametrize("copies", [2, 64, 768, 3072])
def test_the_tail_of_many_copies_is_that_of_negative_binomials(scale, copies):
    """A sum of two-sided geometric numbers is a difference of two negative binomials, summed up here in logarithms.

    Far beyond what Fourier transforms see it falls by hundreds; these leave up to .7 where the tail begins, none later.
    """
    noise, share = CellNoise(DiscreteLaplace(scale), copies), -np.expm1(-1 / scale)
    below = np.arange(int(4 * copies * scale + 600 * scale + 500))

    def exact(distance):
        return logsumexp(nbinom.logpmf(below, copies, share) + nbinom.logpmf(below + distance, copies, share))

    apart = (noise.deviation * np.array([0, 4, 12, 24, 48])).astype(int)
    expected = np.array([exact(each) for each in apart])
    ours = noise.log(apart)
    assert np.abs(ours - expected - (ours - expected)[0]).max() < 1.0
    assert np.abs(np.diff((ours - expected)[2:])).max() < 0.02
    assert expected[-1] - expected[0] < -60


def test_a_large_scale_is_the_small_one_stretched():
    """At scale 20 000 the table has a coarser step; its shape is that of scale 500, to discreteness."""
    large, small = CellNoise(DiscreteLaplace(20_000.0), 5), CellNoise(DiscreteLaplace(500.0), 5)
    distance = np.arange(0, 4000, 10)
    np.testing.assert_allclose(
        large.log(distance * 40) - large.log(np.array(0)), small.log(distance) - small.log(np.array(0)), atol=2e-4
    )


@pytest.mark.parametrize("law", [DiscreteLaplace(5.0), DiscreteGaussian(5.0)])
def test_nothing_that_matters_is_beyond_reach(law):
    for copies in (1, 4, 64):
        noise = CellNoise(law, copies)
        assert noise.log(np.array(noise.reach)) - noise.log(np.array(0)) < -30
