"""Truncated moments agree with numerical integration to 1e-8, and the split of the records keeps the total variance."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import dpgraph as dg
from dpgraph.inference.expfam.chain import region_moments

E = dg.expfam
CONTINUOUS = [
    (E.Exponential(), [4.0], (0.0, 0.9), lambda x: stats.expon(scale=0.25).pdf(x)),
    (E.Exponential(), [0.02], (0.5, 3.0), lambda x: stats.expon(scale=50).pdf(x)),
    (E.Exponential(), [30.0], (0.5, 3.0), lambda x: stats.expon(scale=1 / 30).pdf(x)),
    (E.Gamma(2.5), [1.3], (0.2, 4.0), lambda x: stats.gamma(2.5, scale=1 / 1.3).pdf(x)),
    (E.Gamma(0.4), [2.0], (1.0, 9.0), lambda x: stats.gamma(0.4, scale=0.5).pdf(x)),
    (E.Normal(4.0), [1.0], (-2.0, 2.5), lambda x: stats.norm(1, 2).pdf(x)),
    (E.Normal(), [1.0, 4.0], (-2.0, 2.5), lambda x: stats.norm(1, 2).pdf(x)),
    (E.Normal(), [9.0, 2.0], (-2.0, 2.5), lambda x: stats.norm(9, math.sqrt(2)).pdf(x)),
]


def integrated(family, density, low, high):
    """The moments by adaptive quadrature, entry by entry."""

    def one(function):
        return integrate.quad(lambda x: density(x) * function(x), low, high, epsabs=1e-13, epsrel=1e-12, limit=200)[0]

    def t(x):
        return family.statistic(np.array([x]))[0]

    d = len(family.statistics)
    first = [one(lambda x, i=i: t(x)[i]) for i in range(d)]
    second = [[one(lambda x, i=i, j=j: t(x)[i] * t(x)[j]) for j in range(d)] for i in range(d)]
    return one(lambda x: 1.0), np.array(first), np.array(second)


@pytest.mark.parametrize(("family", "theta", "bounds", "density"), CONTINUOUS)
def test_moments_between_bounds_agree_with_quadrature(family, theta, bounds, density):
    found = region_moments(family, np.array([theta, theta]), *bounds)
    mass, first, second = integrated(family, density, *bounds)
    assert found.mass[1] == pytest.approx(mass, abs=1e-10, rel=1e-8)
    assert np.allclose(found.first[1], first, atol=1e-8, rtol=1e-8)
    assert np.allclose(found.second[1], second, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize(("family", "theta", "bounds", "density"), CONTINUOUS)
def test_moments_beyond_a_bound_and_of_all(family, theta, bounds, density):
    low, high = family.support
    every = region_moments(family, np.array([theta]), low, high)
    parts = [region_moments(family, np.array([theta]), *ends) for ends in ((low, bounds[0]), bounds, (bounds[1], high))]
    assert every.mass[0] == pytest.approx(1, abs=1e-12)
    for name in ("mass", "first", "second"):
        assert np.allclose(sum(getattr(part, name) for part in parts), getattr(every, name), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rate", [0.01, 3.0, 40.0])
@pytest.mark.parametrize("bounds", [(0, 7), (2, 5), (0.5, 5.5), (3, math.inf), (0, math.inf), (1, 1)])
def test_poisson_moments_are_sums(rate, bounds):
    found = region_moments(E.Poisson(), np.array([[rate]]), *bounds)
    x = np.arange(2000)
    mass = np.where((x >= bounds[0]) & (x <= bounds[1]), stats.poisson(rate).pmf(x), 0)
    assert found.mass[0] == pytest.approx(mass.sum(), abs=1e-12)
    assert found.first[0, 0] == pytest.approx(mass @ x, abs=1e-9)
    assert found.second[0, 0, 0] == pytest.approx(mass @ x**2, abs=1e-8)


@pytest.mark.parametrize(
    ("family", "theta"), [(E.Exponential(), [2.0]), (E.Gamma(0.5), [2.0]), (E.Poisson(), [2.0]), (E.Poisson(), [900.0])]
)
def test_nothing_is_below_the_support(family, theta):
    found = region_moments(family, np.array([theta]), 0.0, np.nextafter(0.0, -1.0))
    assert (found.mass, found.first, found.second) == (0.0, 0.0, 0.0)


def test_bounded_families():
    p = np.array([[0.2, 0.3, 0.5]])
    found = region_moments(E.Multinomial(3), p, 0, 2)
    assert np.allclose(found.covariance()[0], np.diag(p[0]) - np.outer(p[0], p[0]))
    found = region_moments(E.Binomial(4), np.array([[0.3]]), 0, 4)
    assert found.first[0, 0] == pytest.approx(1.2)
    assert found.covariance()[0, 0, 0] == pytest.approx(4 * 0.3 * 0.7)


def test_ones_own_family_by_quadrature():
    """The normal law as a natural family: eta = (mean / variance, -1 / (2 variance))."""

    def log_partition(eta):
        with np.errstate(invalid="ignore", divide="ignore"):
            value = -(eta[..., 0] ** 2) / (4 * eta[..., 1]) - 0.5 * np.log(-2 * eta[..., 1])
        return np.where(eta[..., 1] < 0, value, np.inf)

    own = E.Natural(
        ("x", "x2"),
        lambda x: np.stack([x, x**2], axis=-1),
        lambda x: np.full_like(x, -0.5 * math.log(2 * math.pi)),
        log_partition,
        (-math.inf, math.inf),
        (0.0, -0.5),
    )
    mean, variance = 1.0, 4.0
    found = region_moments(own, np.array([[mean / variance, -1 / (2 * variance)]]), -2.0, 2.5)
    wanted = region_moments(E.Normal(), np.array([[mean, variance]]), -2.0, 2.5)
    for name in ("mass", "first", "second"):
        assert np.allclose(getattr(found, name), getattr(wanted, name), rtol=1e-10, atol=1e-10)


def split_variance(rate, low, high):
    """The three regions' variances of one record, and the covariances between them."""
    ends = ((0.0, low), (low, high), (high, math.inf))
    parts = [region_moments(E.Exponential(), np.array([[rate]]), *one) for one in ends]
    alone = sum(part.covariance()[0, 0, 0] for part in parts)
    first = [part.first[0, 0] for part in parts]
    between = -sum(a * b for i, a in enumerate(first) for j, b in enumerate(first) if i != j)
    return alone, between


def test_regions_treated_as_independent_inflate_the_variance():
    """proofs.md P59: 1.2075 times, middle 95 % of an exponential; with the covariances it is the variance again."""
    law = stats.expon(scale=0.5)
    alone, between = split_variance(2.0, *law.ppf([0.025, 0.975]))
    assert alone / law.var() == pytest.approx(1.2075, abs=5e-5)
    assert alone + between == pytest.approx(law.var(), rel=1e-10)


def test_the_covariance_of_the_split_by_simulation():
    """Sums over 50 records within and beyond bounds, 200 000 times; the covariance matrix within 2 %."""
    rng = np.random.default_rng(0)
    x = rng.exponential(0.5, (200_000, 50))
    inside = (x >= 0.1) & (x <= 1.0)
    sums = np.stack([(x * inside).sum(1), (x * ~inside).sum(1)])
    centre = region_moments(E.Exponential(), np.array([[2.0]]), 0.1, 1.0)
    outside = region_moments(E.Exponential(), np.array([[2.0]]), 0, math.inf) - centre
    cross = -centre.first[0, 0] * outside.first[0, 0]
    wanted = 50 * np.array([[centre.covariance()[0, 0, 0], cross], [cross, outside.covariance()[0, 0, 0]]])
    assert np.allclose(np.cov(sums), wanted, atol=0.02 * wanted.max())
