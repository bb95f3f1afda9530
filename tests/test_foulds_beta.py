"""What benchmarks/foulds_beta.py computes, against enumeration, quadrature and the package."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import beta, binom

import dpgraph as dg

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import foulds_beta as study

#: Two-sided normal quantile of a false alarm of 1e-6; all draws are seeded.
FAR = 4.9


@pytest.mark.parametrize("seen", [-7.0, 3.0, 10.0, 15.0])
def test_latent_ones_have_the_law_of_the_noise_cut_to_what_can_be(seen):
    """200 000 draws: masses wrong by 1 % of the largest are seen."""
    n, epsilon = 10, 0.4
    weight = np.exp(-epsilon * np.abs(np.arange(n + 1) - seen))
    wanted = weight / weight.sum()
    drawn = study.latent_ones(np.full(200_000, seen), n, epsilon, np.random.default_rng(1))
    found = np.bincount(drawn.astype(int), minlength=n + 1) / len(drawn)
    assert (np.abs(found - wanted) < FAR * np.sqrt(wanted / len(drawn))).all()


def test_errors_of_samples_are_those_of_quadrature():
    """Exact over the data and the parameter; 100 000 data sets, a standard error below .5 %."""
    n, epsilon = 20, 1.0
    drawn = study.samples(n, epsilon, 100_000, np.random.default_rng(2))
    ones = np.arange(n + 1)
    low, high = study.FLOOR, 1 - study.FLOOR

    def expected(a, b, low, high):
        law = beta(a, b)
        return quad(lambda x: abs(x - study.THETA) * law.pdf(x), low, high, points=[study.THETA])[0] / (
            law.cdf(high) - law.cdf(low)
        )

    exact = {
        study.POSTERIOR: [expected(1 + k, 1 + n - k, 0, 1) for k in ones],
        study.SAMPLE: [expected(*study.tempered(k, n, epsilon), low, high) for k in ones],
    }
    for method, values in exact.items():
        error = np.abs(drawn[method] - study.THETA)
        wanted = binom.pmf(ones, n, study.THETA) @ np.array(values)
        assert abs(error.mean() - wanted) < FAR * error.std() / np.sqrt(len(error))


@pytest.mark.parametrize("epsilon", study.EPSILONS)
def test_one_tempered_draw_costs_epsilon(epsilon):
    """All data sets of 60 rows and their neighbours: never more, and over half is attained."""
    n, x = 60, np.linspace(study.FLOOR, 1 - study.FLOOR, 201)
    logs = []
    for ones in range(n + 1):
        law = beta(*study.tempered(ones, n, epsilon))
        logs.append(law.logpdf(x) - np.log(law.cdf(1 - study.FLOOR) - law.cdf(study.FLOOR)))
    worst = np.abs(np.diff(logs, axis=0)).max()
    assert 0.5 * epsilon < worst <= epsilon + 1e-9


def test_the_noise_aware_law_is_the_packages():
    """The same release read by ``posterior``: 100 000 draws, means within 1 %, deviations within 2."""
    n, epsilon = 200, 0.1
    moments = dg.statistics.sufficient_statistics([1] * 60 + [0] * 140, dg.expfam.Binomial())
    unit = dg.PrivacyUnit("replace")
    release = dg.release(
        moments, dg.LaplaceMechanism(epsilon), budget=dg.Budget(1, unit=unit), noise=dg.testing.SeededNoise(5)
    )
    assert release.value.law.scale == pytest.approx(1 / epsilon)
    seen = float(release.value.sums[0])
    draws = dg.posterior(release, draws=100_000, seed=0).parameters["p"]
    ours = study.latent_ones(np.full(100_000, seen), n, epsilon, np.random.default_rng(3))
    ours = np.random.default_rng(4).beta(1 + ours, 1 + n - ours)
    assert ours.mean() == pytest.approx(draws.mean(), rel=0.01)
    assert ours.std() == pytest.approx(draws.std(), rel=0.02)


def test_densities_are_densities_and_the_noise_fades():
    near, far = (study.laws(n, 1.0, 0) for n in (2_000, 20))
    width = study.GRID[1] - study.GRID[0]
    for law in near.values():
        assert law.sum() * width == pytest.approx(1)

    def gap(laws, method):
        return np.abs(laws[method] - laws[study.POSTERIOR]).sum() * width / 2

    assert gap(near, study.PAPER) < 0.1 < gap(near, study.SAMPLE)
    assert gap(far, study.SAMPLE) < 0.3


def test_the_size_from_which_a_method_is_ahead():
    rows = [
        (1.0, n, m, e)
        for n, a, b in ((1, 1, 2), (2, 3, 2), (5, 1, 2))
        for m, e in ((study.PAPER, a), (study.SAMPLE, b))
    ]
    table = pd.DataFrame(rows, columns=["epsilon", "n", "method", "error"])
    assert study.overtaken(table, 1.0, study.PAPER) == 5
