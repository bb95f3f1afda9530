"""The law of summed noise against direct convolution, near its peak and far in its tails, at small and large scales."""

import numpy as np
import pytest

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
