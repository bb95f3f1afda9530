"""Gaussian differential privacy of integer noise: every mu held against the exact laws (proofs.md P92, P127, P128)."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

import dpgraph as dg
from dpgraph.privacy.composition import Filter, Spent, mu_squared_of
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import (
    LARGE_SCALE,
    LEAST_DELTA,
    SMALL_SCALE,
    chosen_mu_squared,
    delta_of_mu,
    epsilon_of_mu,
    moved_mu_squared,
    mu_within,
    pure_mu_squared,
    root,
    unit_shift,
)
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, Measurement, Movement, Selection
from dpgraph.privacy.noise import epsilon_of_rho, scale_of_mu
from dpgraph.privacy.records import Event, PrivacyCost
from tests.tiers import examples

SCALES = (0.26, 0.3, 0.5, 1.0, 2.0, 3.99, 4.0, 10.0, 20.0)
REPLACE, ADD = dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove")


def normal_quantile(mass):
    """Phi^-1 of a probability below a half, in the precision of mpmath."""
    start = float(norm.ppf(float(mass))) if mass > mpmath.mpf(10) ** -300 else -mpmath.sqrt(-2 * mpmath.log(mass))
    return mpmath.findroot(lambda z: mpmath.log(mpmath.ncdf(z)) - mpmath.log(mass), start, tol=1e-40)


@pytest.mark.parametrize("scale", SCALES)
def test_no_step_between_vertices_is_above_mu_and_the_one_across_zero_attains_it(scale):
    """The steps Phi^-1(F(k)) - Phi^-1(F(k - 1)) of the discrete Gaussian, in 60 digits, to eight deviations."""
    with mpmath.workdps(60):
        reach = math.ceil(8 * scale) + 2
        mass = [mpmath.exp(-mpmath.mpf(k * k) / (2 * mpmath.mpf(scale) ** 2)) for k in range(-reach - 40, 1)]
        total = 2 * sum(mass) - mass[-1]
        below = [total - total]
        for one in mass:
            below.append(below[-1] + one / total)
        tails = below[-reach - 1 : -1]  # F(k) for k < 0; F(k) = 1 - F(-k - 1) gives the other half
        quantiles = [normal_quantile(tail) for tail in tails]
        steps = [b - a for a, b in itertools.pairwise(quantiles)]
        centre, mu = (
            -2 * quantiles[-1],
            mpmath.sqrt(mpmath.mpf(unit_shift(scale).numerator) / unit_shift(scale).denominator),
        )
        assert max(steps) <= centre <= mu <= centre * (1 + mpmath.mpf(10) ** -11)
        assert centre > 1 / mpmath.mpf(scale)


def test_small_scales_have_a_bound():
    for scale in (2.0**-8, 0.05, 0.1, 0.2, 0.2499):
        assert unit_shift(scale) >= 4 / Fraction(scale) ** 2
    with mpmath.workdps(400):
        for scale in (0.1, 0.2, 0.249):
            weight = sum(mpmath.exp(-mpmath.mpf(k * k) / (2 * mpmath.mpf(scale) ** 2)) for k in range(1, 40))
            assert -2 * normal_quantile(weight / (1 + 2 * weight)) <= math.sqrt(unit_shift(scale))
    assert SMALL_SCALE < 1 < LARGE_SCALE


def loss_pmf(scale, shift, digits=0):
    """The privacy losses of one cell of discrete Gaussian noise that moves, and their probabilities."""
    reach = math.ceil(14 * scale) + 3 * abs(shift) + 3
    z = np.arange(-reach, reach + 1)
    log = -(z**2) / (2 * scale**2)
    p = np.exp(log - np.logaddexp.reduce(log))
    return ((z + shift) ** 2 - z**2) / (2 * scale**2), p


def exact_delta(losses, p, epsilon):
    return float((p * np.maximum(0, -np.expm1(epsilon - losses)))[losses > epsilon].sum())


def implied_mu(delta, epsilon):
    """The mu of the normal law with this delta at epsilon, by bisection."""
    low, high = 1e-6, 60.0
    for _ in range(80):
        mu = (low + high) / 2
        value = norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon + norm.logcdf(-mu / 2 - epsilon / mu))
        low, high = (mu, high) if value < delta else (low, mu)
    return low


@pytest.mark.parametrize("unit", [ADD, REPLACE], ids=str)
@pytest.mark.parametrize("cells", [1, 2])
@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 5.0, 20.0])
def test_the_exact_delta_is_within_the_claim_and_nearly_attains_it(scale, cells, unit):
    """Enumerated losses of counts: one row appears in one cell of one or two tables, or moves between two cells."""
    moves = [1] * cells if not unit.n_is_public else [1, -1] * cells
    losses, p = loss_pmf(scale, moves[0])
    for move in moves[1:]:
        more, q = loss_pmf(scale, move)
        losses, p = np.add.outer(losses, more).ravel(), np.multiply.outer(p, q).ravel()
        losses, place = np.unique(losses.round(12), return_inverse=True)
        p = np.bincount(place.ravel(), p)
    square = len(moves) * unit_shift(scale)
    found = []
    for epsilon in np.linspace(0, 5 * math.sqrt(square), 60):
        delta = exact_delta(losses, p, epsilon)
        if delta > 1e-10:
            assert delta <= float(delta_of_mu(square, Fraction(epsilon))) * (1 + 1e-9)
            found.append(implied_mu(delta, epsilon) / math.sqrt(square))
    lattice = len(moves) > 1 and scale < 2  # a product of few steps lies above the curve of the product
    assert (0.85 if lattice else 0.98) <= max(found) <= 1 + 1e-7


def test_pure_mechanisms_cost_what_randomised_response_does():
    for epsilon in map(Fraction, ("0.01", "0.5", "1", "3", "20")):
        with mpmath.workdps(60):
            high = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator))
            attained = -2 * normal_quantile(1 - high)
            square = pure_mu_squared(epsilon)
            mu = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
            assert attained <= mu <= attained * (1 + mpmath.mpf(10) ** -11)
        for at in np.linspace(0, float(epsilon), 9)[:-1]:
            response = float(high) * -math.expm1(at - float(epsilon))
            assert response <= float(delta_of_mu(square, Fraction(at))) * (1 + 1e-12)
    assert pure_mu_squared(Fraction(101)) >= pure_mu_squared(Fraction(100))


@given(st.floats(1e-3, 60), st.floats(0.001, 0.999))
@settings(max_examples=examples(60), deadline=None)
def test_pure_parts_cost_at_most_the_mu_of_their_sum(epsilon, part):
    """Squared mus of a pure epsilon grow faster than it, to the last digit: groups that share one cost no more."""
    one, other = Fraction(epsilon * part), Fraction(epsilon * (1 - part))
    apart = pure_mu_squared(one) + pure_mu_squared(other)
    assert apart <= pure_mu_squared(one + other) * (1 + Fraction(3, 10**11))


@given(st.floats(0.01, 8), st.floats(0, 1))
@settings(max_examples=examples(100), deadline=None)
def test_a_bounded_range_costs_at_most_half_its_epsilon(epsilon, part):
    """Two outcomes whose log ratios differ by epsilon, the worst case of a bounded range: the even one costs most."""
    bound = float(chosen_mu_squared(Selection("softmax", Fraction(epsilon), 1)))
    p = 1 / (1 + math.exp(-part * epsilon))
    q = 1 / (1 + math.exp((1 - part) * epsilon))
    assert (norm.ppf(p) - norm.ppf(q)) ** 2 <= bound * (1 + 1e-9)
    assert chosen_mu_squared(Selection("permute-and-flip", Fraction(epsilon), 2)) == 2 * pure_mu_squared(
        Fraction(epsilon)
    )


@given(st.floats(1e-4, 30), st.floats(0, 40))
@settings(max_examples=examples(60), deadline=None)
def test_delta_is_the_formula_in_200_digits_never_below(mu, epsilon):
    square = Fraction(mu) ** 2
    with mpmath.workdps(200):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        true = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        true = max(true, mpmath.mpf(10) ** -LEAST_DELTA)
        found = delta_of_mu(square, Fraction(epsilon))
        found = mpmath.mpf(found.numerator) / found.denominator
        assert true <= found <= true * (1 + mpmath.mpf(10) ** -10)


@pytest.mark.parametrize("delta", ["0.3", "1e-6", "1e-30"])
@pytest.mark.parametrize("epsilon", ["0.001", "0.1", "1", "10", "100"])
def test_conversions_are_inverse_and_err_on_the_safe_side(epsilon, delta):
    epsilon, delta = Fraction(epsilon), Fraction(delta)
    mu = mu_within(epsilon, delta)
    assert delta_of_mu(mu**2, epsilon) <= delta < delta_of_mu((mu * (1 + Fraction(1, 10**9))) ** 2, epsilon)
    priced = epsilon_of_mu(mu**2, delta)
    assert delta_of_mu(mu**2, priced) <= delta
    assert priced <= epsilon <= priced * (1 + Fraction(1, 10**8))


@pytest.mark.parametrize("epsilon", [Fraction(1, 2**4000), Fraction(1), Fraction(2**4000)])
@pytest.mark.parametrize(
    "square", [Fraction(1, 10**1200), Fraction(1, 10**190), Fraction(1), Fraction(10**12), Fraction(2**4000)]
)
def test_numbers_of_a_hostile_file_take_no_time_and_are_priced_above(square, epsilon):
    """Numbers in files have up to 4096 bits: no power of e of that size is computed, and no delta is too small."""
    delta = delta_of_mu(square, epsilon)
    assert 0 < delta <= 1 + Fraction(1, 10**11)
    if epsilon < 1 and square < Fraction(1, 10**180):  # 2 Phi(mu / 2) - 1 is nearly mu / sqrt(2 pi)
        assert delta >= root(square, up=False) * Fraction(39, 100)
    if square >= 10**12 and epsilon <= 1:
        assert delta == 1
    assert root(square, up=False) ** 2 <= square <= root(square, up=True) ** 2


def test_a_mu_within_delta_alone_costs_no_epsilon():
    assert epsilon_of_mu(Fraction(1, 10**20), Fraction(1, 100)) == 0
    assert delta_of_mu(Fraction(0), Fraction(1)) == 0
    with pytest.raises(ReleaseError, match="no mu worth having"):
        mu_within(Fraction(1), Fraction(1, 10) ** 2000)


@given(st.integers(1, 10**12), st.floats(1e-4, 20))
@settings(max_examples=examples(60), deadline=None)
def test_a_scale_is_the_smallest_that_mu_pays_for(l2_squared, mu):
    square = Fraction(mu) ** 2
    scale = scale_of_mu(l2_squared, square, 2.0**60)
    assert l2_squared * unit_shift(scale) <= square or scale == 2.0**-8
    if scale > 2 * SMALL_SCALE:
        assert l2_squared * unit_shift(scale * (1 - 1e-9)) > square


@pytest.mark.parametrize("bad", [(0, Fraction(1)), (1, Fraction(0)), (2**90, Fraction(1))])
def test_a_scale_of_nothing_or_beyond_use_is_refused(bad):
    with pytest.raises(ReleaseError):
        scale_of_mu(*bad)


def test_gaussian_noise_of_an_epsilon_is_less_than_by_rho():
    """1.087, 1.072 and 1.053 at epsilon .1, 1 and 10, but for what whole numbers cost beside a normal law."""
    network = dg.read_network("example:alarm")
    for epsilon, ratio in (("0.1", 1.0870), ("1", 1.0725), ("10", 1.0533)):
        mechanism = dg.GaussianMechanism(epsilon, "1e-6", allocation="uniform")
        rho = dg.GaussianMechanism(None, "1e-6", rho=_rho_of(epsilon), allocation="uniform")
        ours, theirs = (min(m.law.scale for m in one.event(network, REPLACE).measurements) for one in (mechanism, rho))
        assert theirs / ours == pytest.approx(ratio / (ours * math.sqrt(unit_shift(ours))), rel=1e-4)


def _rho_of(epsilon):
    from dpgraph.privacy.noise import rho_of_epsilon

    return rho_of_epsilon(Fraction(epsilon), Fraction(1, 10**6))


def test_whole_numbers_of_a_small_scale_are_priced_by_what_is_least():
    """One bit at epsilon 30: the discrete law costs more than its rho says, and less noise suffices by rho."""
    bit = dg.Network.of({"bit": [0, 1]}, {})
    event = dg.GaussianMechanism(30, "1e-6").event(bit, ADD)
    by_mu = dg.GaussianMechanism(delta="1e-6", mu=mu_within(Fraction(30), Fraction(1, 10**6))).event(bit, ADD)
    assert event.measurements[0].law.scale < by_mu.measurements[0].law.scale
    assert (event.epsilon, event.delta) == (30, Fraction(1, 10**6))


def test_the_mu_of_an_event_is_the_root_of_its_squares():
    law, one = DiscreteGaussian(3.0), Movement(1, 1, moved_cells=1)
    cells = Measurement(("x",), 4, law, one)
    both = Event("a", Fraction(9), Fraction(1, 10**6), (cells, Measurement(("y",), 2, law, Movement(2, 4))))
    assert mu_squared_of(both) == 5 * unit_shift(3.0)
    mixed = Event("a", Fraction(9), Fraction(1, 10**6), (cells, Measurement(("y",), 3, DiscreteLaplace(2.0), one)))
    assert mu_squared_of(mixed) == unit_shift(3.0) + pure_mu_squared(Fraction(1, 2))
    assert moved_mu_squared(DiscreteLaplace(2.0), Movement(2, 4)) == pure_mu_squared(Fraction(1))
    assert mu_squared_of(Event("told", Fraction(1), Fraction(1, 10**6))) is None
    with pytest.raises(ReleaseError, match="claims mu"):
        Event("less", Fraction(9), Fraction(1, 10**6), (cells,), mu=Fraction(1, 3))
    with pytest.raises(ReleaseError, match="claims epsilon"):
        Event("less", Fraction(1, 10), Fraction(1, 10**6), (cells,))


def test_opendps_conversion_of_a_rho_is_the_formula():
    """Canonne, Kamath and Steinke 2020, Corollary 13, minimised over the order in 50 digits."""
    for rho in map(Fraction, ("0.0001", "0.01", "0.3", "2", "20")):
        for delta in map(Fraction, ("1e-12", "1e-6", "0.01")):
            epsilon = epsilon_of_rho(rho, delta)
            if not epsilon:
                continue
            with mpmath.workdps(50):
                r, d = (mpmath.mpf(x.numerator) / x.denominator for x in (rho, delta))

                def log_delta(order, at, r=r):
                    return (order - 1) * (order * r - at) - mpmath.log(order - 1) + order * mpmath.log(1 - 1 / order)

                def least(at, log_delta=log_delta, r=r):
                    low, high = mpmath.mpf(1) + mpmath.mpf(10) ** -12, mpmath.mpf(2) + (at + 1) / (2 * r)
                    for _ in range(150):
                        a, b = low + (high - low) / 3, high - (high - low) / 3
                        low, high = (low, b) if log_delta(a, at) < log_delta(b, at) else (a, high)
                    return log_delta(low, at)

                at = mpmath.mpf(epsilon.numerator) / epsilon.denominator
                assert least(at * (1 + mpmath.mpf(10) ** -9)) <= mpmath.log(d)
                assert least(at * (1 - mpmath.mpf(10) ** -5)) > mpmath.log(d)


def test_a_gdp_filter_adds_squares():
    whole = PrivacyCost(Fraction(1), Fraction(1, 10**6))
    rule = Filter("gdp", whole)
    event = dg.GaussianMechanism("0.5", "1e-7").event(dg.Network.of({"a": [0, 1]}, {}), REPLACE)
    after = rule.after(rule.after(rule.start, event), event)
    assert after == Spent(2 * event.epsilon, 2 * event.delta, Fraction(0), 2 * mu_squared_of(event))
    assert rule.whole == mu_within(whole.epsilon, whole.delta) ** 2
    assert root(Fraction(2), up=True) ** 2 > 2 > root(Fraction(2), up=False) ** 2
    with pytest.raises(ReleaseError, match="claims a delta and no mu"):
        rule.after(rule.start, Event("told", Fraction(1), Fraction(1, 10**6)))


def test_more_releases_fit_than_under_zcdp_whatever_is_chosen_next():
    """Releases of alarm's maximal tables with Gaussian noise of deviation 400 (docs/accounting.md)."""
    network = dg.read_network("example:alarm")
    tables = len(network.maximal_families)
    fits = {}
    for name, claim in (
        ("zcdp", {"rho": Fraction(tables, 400**2)}),
        ("gdp", {"mu": root(2 * tables * unit_shift(400.0), up=True)}),
    ):
        mechanism = dg.GaussianMechanism(delta="1e-6", allocation="uniform", **claim)
        event = mechanism.event(network, REPLACE)
        assert {round(m.law.scale, 6) for m in event.measurements} == {400.0}
        budget, fits[name] = dg.Budget(1, "1e-6", accounting=name), 0
        while budget.accounting:
            try:
                budget.charge(event)
            except dg.errors.BudgetExceededError:
                break
            fits[name] += 1
    assert fits["zcdp"] == 155
    assert fits["gdp"] >= 178
