"""Quadrature draws follow the posterior density, however narrow, and agree with the chain."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

import dpgraph as dg
from dpgraph.inference.expfam.chain import Problems, gibbs_draws
from dpgraph.inference.expfam.posterior import log_normal_laplace, quadrature_draws

E = dg.expfam


@pytest.mark.parametrize("scale", [0.05, 1.0, 40.0])
@pytest.mark.parametrize("deviation", [0.1, 1.0, 20.0])
def test_the_convolution_of_normal_and_laplace(deviation, scale):
    """Against adaptive quadrature, up to the constant: differences of logs between points."""
    x = np.array([0.0, 0.5, -1.0, 3.0]) * (deviation + scale)

    def density(at):
        reach = 12 * deviation
        parts = sorted({-reach, reach, min(max(at, -reach), reach)})
        return sum(
            integrate.quad(
                lambda s: stats.norm.pdf(s, scale=deviation) * math.exp(-abs(at - s) / scale),
                low,
                high,
                epsabs=0,
                limit=400,
            )[0]
            for low, high in itertools.pairwise(parts)
        )

    wanted = np.log([density(at) for at in x])
    found = log_normal_laplace(x, np.full(4, deviation), scale)
    assert np.allclose(found - found[0], wanted - wanted[0], atol=1e-7)


def test_the_convolution_does_not_overflow():
    found = log_normal_laplace(np.array([0.0, 1e6, -1e9, 5.0]), np.array([1e4, 1e-3, 1.0, 0.0]), 0.01)
    assert np.isfinite(found).all()


CASES = {
    "exponential": (E.Exponential(), E.Exponential().prior(8, 2), (0.0, 1.0), 250.0, 9.0, 1000),
    "two modes": (E.Gamma(3.0), E.Gamma(3.0).prior(4, 2), (0.0, 4.0), 1380.0, 40.0, 1000),
    "poisson": (E.Poisson(), E.Poisson().prior(4, 1), (0.0, 20.0), 5000.0, 200.0, 1000),
    "normal": (E.Normal(100.0), E.Normal(100.0).prior(165.0, 400.0), (120.0, 195.0), 165_000.0, 2000.0, 1000),
    "binomial": (E.Binomial(4), E.Binomial(4).prior(2.0, 1.0), None, 700.0, 30.0, 300),
}


@pytest.mark.proof
@pytest.mark.parametrize(
    "name",
    [name if name in ("two modes", "binomial") else pytest.param(name, marks=pytest.mark.proof) for name in CASES],
)
def test_it_agrees_with_many_chains(name):
    """400 chains of 20 draws far apart: quantiles at .1, .5 and .9 hold those shares within .03 (six standard errors
    of 8000 draws with some correlation)."""
    family, prior, bounds, y, scale, n = CASES[name]
    rng = np.random.default_rng(0)

    def problems(many):
        return Problems(
            family, prior, bounds, np.full((many, 1), y), np.full((many, 1), scale), np.full(many, float(n))
        )

    drawn = quadrature_draws(problems(1), 50_000, rng)[:, 0]
    kept, _ = gibbs_draws(problems(400), 20, burn_in=600, thin=30, rng=rng)
    for share in (0.1, 0.5, 0.9):
        assert (kept[:, :, 0] < np.quantile(drawn, share)).mean() == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("n", [10**4, 10**7, 10**10])
def test_a_narrow_posterior_is_found(n):
    """With next to no noise the posterior of a normal mean is conjugate: N(m, v / n), however narrow."""
    problems = Problems(
        E.Normal(4.0),
        E.Normal(4.0).prior(0.0, 100.0),
        (-1e3, 1e3),
        np.array([[1.5 * n]]),
        np.array([[1e-3]]),
        np.array([1.0 * n]),
    )
    drawn = quadrature_draws(problems, 20_000, np.random.default_rng(1))[:, 0]
    assert abs(drawn.mean() - 1.5) < 6 * math.sqrt(4 / n / 20_000) + 1e-2 * math.sqrt(4 / n)
    assert drawn.std() == pytest.approx(math.sqrt(4 / n), rel=0.03)


def test_a_sum_that_says_nothing_leaves_the_prior():
    """KS of 20 000 draws against Gamma(8, 2), level 1e-6 (critical value .02)."""
    problems = Problems(
        E.Exponential(), E.Exponential().prior(8, 2), (0.0, 1.0), np.array([[9.0]]), np.array([[1e9]]), np.array([50.0])
    )
    drawn = quadrature_draws(problems, 20_000, np.random.default_rng(2))[:, 0]
    assert stats.kstest(drawn, stats.gamma(8, scale=0.5).cdf).pvalue > 1e-6
