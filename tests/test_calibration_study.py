"""What benchmarks/calibration.py adds to the posteriors it compares: posterior samples, and how chains are read."""

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import calibration as study


@pytest.mark.proof
@pytest.mark.parametrize("whole", [False, True])
def test_posterior_samples_have_the_tempered_law_and_cost_their_share(whole):
    """200 000 seeded draws for each number of ones against the density on a grid: a standard error of .1 % at most.

    The log densities of neighbouring data sets differ by at most epsilon / 100, and by over half of it somewhere.
    """
    n, epsilon, shape = 6, 200.0, 3.0
    share, x = epsilon / study.SAMPLES, np.linspace(study.LOWEST, 1 - study.LOWEST, 4_001)
    hot = max(1.0, 2 * np.log(9.0) / share)
    logs = []
    for ones in range(n + 1):
        prior = (shape - 1) / (hot if whole else 1)
        log = (prior + ones / hot) * np.log(x) + (prior + (n - ones) / hot) * np.log1p(-x)
        law = np.exp(log)
        law /= law.sum()
        drawn = study.posterior_samples(
            np.full(2_000, float(ones)), n, epsilon, np.random.default_rng(ones), shape=shape, whole=whole
        )
        assert drawn.min() >= study.LOWEST
        assert drawn.max() <= 1 - study.LOWEST
        assert drawn.shape == (2_000, study.SAMPLES)
        for quantile in (0.1, 0.5, 0.9):
            at = x[np.searchsorted(np.cumsum(law), quantile)]
            assert (drawn < at).mean() == pytest.approx(quantile, abs=0.006)
        logs.append(np.log(law))
    worst = np.abs(np.diff(logs, axis=0)).max()
    assert share / 2 < worst <= share + 1e-9


def test_uniform_ranks_of_draws_of_the_same_law_are_uniform_and_of_a_wide_one_are_not():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=1_000)
    right, wide = (study.uniform_ranks(rng.normal(scale=s, size=(1_000, 100)), truth, rng) for s in (1, 3))
    assert stats.kstest(right, "uniform").pvalue > 1e-6
    assert stats.kstest(wide, "uniform").pvalue < 1e-6


def test_the_first_visit_to_the_middle():
    """Chains that come from afar after 3 and 7 iterations, and then alternate about zero."""
    chains = np.tile(np.where(np.arange(200) % 2, 0.1, -0.1), (2, 1))
    chains[0, :3] = chains[1, :7] = 50.0
    assert study.first_visit(chains) == (5.0, 7.0)
