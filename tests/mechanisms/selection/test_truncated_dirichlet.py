"""Continuous truncated draws: the right law, by closed forms and integration, also where everything underflows."""

import math

import numpy as np
import pytest
from scipy import integrate, special

from dpgraph.mechanisms.selection.truncated_dirichlet import TruncatedBeta, draw_truncated_dirichlet
from dpgraph.privacy.noise import SecureNoise
from dpgraph.privacy.seeded_noise import SeededNoise
from tests.conclusions import cdf_test, law_test


class Fixed:
    """Bits that make one chosen uniform number."""

    def __init__(self, uniform):
        self.uniform = uniform

    def bits(self, count):
        return int(self.uniform * 2**count)


@pytest.mark.parametrize(("a", "b"), [(1.0, 1.0), (0.3, 0.2), (2.5, 7.0), (400.0, 90.0), (1.0, 30.0)])
@pytest.mark.parametrize(("low", "above"), [(0.01, 0.01), (0.2, 0.5), (1e-9, 0.3)])
def test_masses_and_quantiles_are_those_of_the_incomplete_beta_function(a, b, low, above):
    law = TruncatedBeta(a, b, low, above)
    start, stop = special.betainc(a, b, low), special.betainc(a, b, 1 - above)
    if stop - start > 1e-9:
        assert law.log_mass == pytest.approx(math.log(stop - start) + special.betaln(a, b), abs=1e-7)
        for uniform in (0.003, 0.3, 0.5, 0.77, 0.999):
            x, rest = law.draw(Fixed(uniform))
            assert x + rest == pytest.approx(1, abs=1e-15)
            assert (special.betainc(a, b, x) - start) / (stop - start) == pytest.approx(uniform, abs=1e-6)


@pytest.mark.parametrize(("b", "low", "above"), [(1e5, 0.3, 0.1), (5e6, 0.6, 0.2), (2000.0, 0.5, 1e-12)])
def test_deep_in_the_tail_nothing_underflows(b, low, above):
    """a = 1: the mass is (1 - low)^b / b up to a vanishing term, and 1 - x = (1 - low) u^(1/b); as low as e^-4e6."""
    law = TruncatedBeta(1.0, b, low, above)
    assert law.log_mass == pytest.approx(b * math.log1p(-low) - math.log(b), abs=1e-8 * b)
    for uniform in (0.01, 0.5, 0.99):
        x, _ = law.draw(Fixed(uniform))
        exact = 1 - (1 - low) * math.exp(math.log1p(-uniform) / b)
        assert x - low == pytest.approx(exact - low, rel=1e-6, abs=1e-15)
    mirrored = TruncatedBeta(b, 1.0, above, low)
    assert mirrored.log_mass == pytest.approx(law.log_mass, abs=1e-9 * b)


def test_a_region_of_no_width_is_a_point():
    x, _ = TruncatedBeta(3.0, 4.0, 0.5, 0.5).draw(SecureNoise())
    assert x == pytest.approx(0.5, abs=1e-12)


@pytest.mark.proof
@pytest.mark.parametrize("noise", [SecureNoise(), SeededNoise(2)], ids=["secure", "seeded"])
def test_two_levels_have_the_truncated_law_and_no_atom_at_the_floor(noise):
    """Clipping into the region would put a third of the mass on its ends; rejected too: 2/3 and 3/2 of the counts.
    Each but for a chance of 1e-6; one of the 3 000 draws is as near the floor as asked by chance with 1e-8."""

    def cdf(a, b):
        start, stop = special.betainc(a, b, 0.2), special.betainc(a, b, 0.8)
        return lambda x: (special.betainc(a, b, x) - start) / (stop - start)

    wrong = [cdf(1 + 0.5 * factor, 1 + 3 * factor) for factor in (2 / 3, 3 / 2)]
    test = cdf_test(cdf(1.5, 4.0), wrong, np.linspace(0.2, 0.8, 201))
    draws = draw_truncated_dirichlet(noise, np.array([1.5, 4.0]), 0.2, test.draws)[:, 0]
    test.check(draws)
    assert (np.abs(draws - 0.2) < 1e-12).sum() == 0
    assert len(set(draws)) == test.draws


@pytest.mark.proof
@pytest.mark.parametrize(
    ("concentration", "floor", "wrong"),
    [
        pytest.param((2.0, 0.7, 5.0), 0.1, (3.0, 1.0, 7.5), marks=pytest.mark.proof),
        ((1.0, 1.0, 1.0), 0.25, (3.0, 1.0, 1.0)),
        ((30.0, 3.0, 1.0), 0.2, (40.0, 4.0, 1.3)),
    ],
)
def test_three_levels_have_the_truncated_dirichlet_law(concentration, floor, wrong):
    """On a 6 by 6 partition of the triangle against numerical integration; another concentration is rejected. Each but
    for a chance of 1e-6, by some 2 500 draws."""
    a, edges = np.array(concentration), np.linspace(floor, 1 - 2 * floor, 7)
    test = law_test(_log_masses(a, floor, edges), [_log_masses(np.array(wrong), floor, edges)])
    draws = draw_truncated_dirichlet(SeededNoise(4), a, floor, test.draws)
    assert draws.min() >= floor - 1e-12
    assert np.abs(draws.sum(axis=1) - 1).max() < 1e-12
    first, second = (np.clip(np.searchsorted(edges, draws[:, i]) - 1, 0, 5) for i in (0, 1))
    test.check(6 * first + second)


def _log_masses(a, floor, edges):
    """Log masses of the cells of the truncated Dirichlet law, up to a constant."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    mass = np.zeros((6, 6))
    for i in range(6):
        for j in range(6):
            x = (edges[i] + edges[i + 1]) / 2 + (edges[i + 1] - edges[i]) / 2 * nodes
            top = np.minimum(edges[j + 1], 1 - floor - x)
            half = np.maximum(top - edges[j], 0) / 2
            y = edges[j] + half[:, None] * (1 + nodes)
            density = x[:, None] ** (a[0] - 1) * y ** (a[1] - 1) * np.maximum(1 - x[:, None] - y, 1e-300) ** (a[2] - 1)
            mass[i, j] = (weights[:, None] * weights * density * half[:, None]).sum()
    with np.errstate(divide="ignore"):
        return np.log(mass.ravel())


@pytest.mark.proof
def test_without_the_correction_three_levels_would_be_wrong():
    """Proposals that are never rejected have another law, told from that of ((1, 1, 1), .25) but for 1e-6."""
    proposal = TruncatedBeta(1.0, 2.0, 0.25, 0.5)
    test = cdf_test(_first_of_a_uniform_triangle, [_proposed], np.linspace(0.25, 0.5, 101))
    test.check(draw_truncated_dirichlet(SeededNoise(4), np.ones(3), 0.25, test.draws)[:, 0])
    noise = SeededNoise(5)
    cdf_test(_proposed, [_first_of_a_uniform_triangle], np.linspace(0.25, 0.5, 101), draws=test.draws).check(
        [proposal.draw(noise)[0] for _ in range(test.draws)]
    )


def _first_of_a_uniform_triangle(x):
    """P(theta_1 <= x) for a uniform point with every coordinate at least 1/4."""
    return 1 - (np.clip(0.5 - x, 0, 0.25) / 0.25) ** 2


def _proposed(x):
    """P(x_1 <= x) for a density proportional to 1 - x on (1/4, 1/2)."""
    return (0.75**2 - (1 - np.clip(x, 0.25, 0.5)) ** 2) / (0.75**2 - 0.5**2)


def test_the_bound_on_the_acceptance_is_a_maximum():
    """Z_i(r) never passes its value at the largest r, over random settings, by an independent integral."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        levels = int(rng.integers(3, 7))
        floor = float(rng.uniform(0.001, 0.999 / levels))
        a, b = rng.uniform(0.2, 20, 2)
        i = int(rng.integers(2, levels))
        most = 1 - (i - 1) * floor
        left = rng.uniform((levels - i + 1) * floor, most)

        def z(r, a=a, b=b, floor=floor, rest=levels - i):
            return special.betainc(a, b, 1 - rest * floor / r) - special.betainc(a, b, floor / r)

        assert z(left) <= z(most) + 1e-12


def test_the_integral_against_scipy():
    value, _ = integrate.quad(lambda x: x**1.2 * (1 - x) ** 3.4, 0.1, 0.7)
    assert TruncatedBeta(2.2, 4.4, 0.1, 0.3).log_mass == pytest.approx(math.log(value), abs=1e-9)
