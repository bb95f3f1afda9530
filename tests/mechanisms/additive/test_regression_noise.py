"""Releases of a regression's moments keep their promise, noise every sum by itself, and refuse before they charge."""

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import dpgraph as dg
from dpgraph.privacy.composition import shifts
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace
from dpgraph.statistics import moments
from dpgraph.structure import design as module
from dpgraph.structure.design import RESOLUTION
from tests.conclusions import law_test
from tests.everything import everything

UNITS = [dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace", 2)]
DESIGN = dg.LinearDesign({"x": (0, 2), "g": ["a", "b", "c"]}, "y", (0, 2))
LAPLACE, GAUSSIAN = dg.LaplaceMechanism("0.8"), dg.GaussianMechanism(delta="1e-6", rho="1/8")


def every_row():
    """All rows of a design whose numbers are -1, -1/2, 0, 1/2 or 1 on the grid."""
    at = (0.0, 0.5, 1.0, 1.5, 2.0)
    return [(x, g, y) for x in at for g in "abc" for y in at]


def released_sums(rows, unit):
    """The integers that noise is added to."""
    X = np.array([row[:2] for row in rows], dtype=object).reshape(len(rows), 2)
    moments = dg.statistics.regression_moments((X, np.array([float(row[2]) for row in rows])), DESIGN)
    return DESIGN.released(moments.sensitive_sums, moments.sensitive_rows, unit)


@pytest.fixture
def coarse(monkeypatch):
    """A grid of five points, whose rows can all be enumerated through the encoding."""
    monkeypatch.setattr(module, "RESOLUTION", 2)
    monkeypatch.setattr(moments, "RESOLUTION", 2)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_the_largest_privacy_loss_over_all_neighbours_is_the_claim(unit, coarse):
    """Every row against every other: the log ratio of Laplace noise is ||s - s'||_1 / scale, at most epsilon and within
    a hundredth of it; Gaussian noise is ||s - s'||_2^2 / (2 scale^2)-zCDP, at most rho, and attains it."""
    r = unit.rows_per_person
    each = np.array([released_sums([row] * r, unit) for row in every_row()])
    moves = (each[:, None] - each).reshape(-1, each.shape[1]) if unit.n_is_public else each
    (laplace,), (gaussian,) = (mechanism.event(DESIGN, unit).measurements for mechanism in (LAPLACE, GAUSSIAN))
    loss = Fraction(int(np.abs(moves).sum(axis=1).max())) / Fraction(laplace.law.scale)
    assert Fraction("0.8") * Fraction(99, 100) <= loss <= Fraction("0.8")
    rho = Fraction(int((moves**2).sum(axis=1).max())) / (2 * Fraction(gaussian.law.scale) ** 2)
    assert Fraction(1, 8) * Fraction(9999, 10000) <= rho <= Fraction(1, 8)


def moments_of(n=60):
    rng = np.random.default_rng(5)
    X = np.empty((n, 2), dtype=object)
    X[:, 0], X[:, 1] = list(rng.uniform(0, 2, n)), rng.choice(list("abc"), n)
    return dg.statistics.regression_moments((X, rng.uniform(0, 2, n)), DESIGN)


def released(moments, mechanism=LAPLACE, unit=UNITS[0], noise=None):
    return dg.release(moments, mechanism, budget=dg.Budget(20, delta="1e-3", unit=unit), noise=noise)


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
@pytest.mark.parametrize("unit", UNITS[:2], ids=str)
def test_every_sum_gets_a_draw_of_the_recorded_law(mechanism, unit):
    """Lower bounds of 0 included. Secure noise, 300 releases: the pooled draws follow the law and neither 2/3 nor 3/2
    of it, each but for 1e-6, and each sum has noise of its own, with a variance that is not far off: beyond .4 and 2.4
    of the law's with a chance of 1e-8 (by convolution for Laplace noise), and within them if its scale were tripled or
    the noise left out with one of 1e-15. Correlations of .4 are 7 deviations."""
    moments = moments_of()
    design = released(moments, mechanism, unit).value.description
    exact = design.released(moments.sensitive_sums, moments.sensitive_rows, unit)
    draws = np.array([released(moments, mechanism, unit).value.sums - exact for _ in range(300)])
    law = released(moments, mechanism, unit).value.law
    assert isinstance(law, DiscreteLaplace if mechanism is LAPLACE else DiscreteGaussian)
    shape = stats.laplace if mechanism is LAPLACE else stats.norm
    edges = shape.ppf(np.arange(1, 24) / 24)
    log_law, *wrong = (
        np.log(np.diff(shape.cdf(edges, scale=factor), prepend=0, append=1)) for factor in (1, 2 / 3, 3 / 2)
    )
    law_test(log_law, wrong, draws=draws.size).check(np.searchsorted(edges, draws.ravel() / law.scale))
    ratios = draws.var(axis=0) / law.variance(1)
    assert ratios.min() > 0.4
    assert ratios.max() < 2.4
    correlation = np.corrcoef(draws.T) - np.eye(len(exact))
    assert np.abs(correlation).max() < 0.4


def test_values_are_in_products_of_columns_at_their_bounds():
    """Noise of scale sensitivity / epsilon in those units: 1 row, epsilon 0.8."""
    least = DESIGN.with_mean_weight(DESIGN.copies)
    noisy = released(replace(moments_of(), description=least)).value
    assert noisy.names == DESIGN.names
    assert noisy.scales == pytest.approx(DESIGN.sensitivity(UNITS[0]) / RESOLUTION**2 / 0.8)
    assert np.abs(noisy.values * RESOLUTION**2 - noisy.sums).max() == 0
    assert noisy.sums.dtype == np.int64


def test_noise_is_half_as_large_on_products_with_a_target_that_counts_twice():
    design = dg.LinearDesign({f"x{i}": (0, 1) for i in range(5)}, "y", (0, 1), mean_weight=2)
    moments = dg.statistics.regression_moments((np.full((9, 5), 0.75), np.ones(9)), design)
    noisy = released(moments, noise=dg.testing.SeededNoise(0)).value
    last = len(design.columns) - 1
    shares = [3 if i == last else 2 if j == last else 1 for i, j in design.pairs]
    assert noisy.scales * shares == pytest.approx(design.sensitivity(UNITS[0]) / RESOLUTION**2 / 0.8)
    draws = [released(moments, noise=dg.testing.SeededNoise(seed)).value.values for seed in range(200)]
    exact = {0: 9.0, 1: 4.5, 2: 2.25}
    at = {"intercept": 0, "y": 0} | {f"x{i}": 1 for i in range(5)}
    truth = np.array([exact[sum(at[name] for name in both.split("*"))] for both in design.names])
    error = np.abs(np.mean(draws, axis=0) - truth) / (noisy.scales * math.sqrt(2 / 200))
    assert error.max() < 6


@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_n_is_shown_under_replace_only(mechanism):
    moments = moments_of(731)
    assert released(moments, mechanism).value.n == 731
    hidden = released(moments, mechanism, UNITS[1])
    assert hidden.value.n is None
    assert hidden.value.names[-1] == "n"
    assert "731" not in everything((hidden.event, hidden.unit, hidden.value.law, hidden.value.names))
    assert hidden.value.sums[-1] != 731 * RESOLUTION**2


@pytest.mark.parametrize("unit", UNITS[:2], ids=str)
@pytest.mark.parametrize("mechanism", [LAPLACE, GAUSSIAN], ids=["laplace", "gaussian"])
def test_no_rows_have_the_same_shapes_and_names(mechanism, unit):
    some, none = released(moments_of(), mechanism, unit), released(moments_of(0), mechanism, unit)
    assert (some.event, some.value.names, some.value.law) == (none.event, none.value.names, none.value.law)
    assert some.value.sums.shape == none.value.sums.shape


def test_noise_is_added_to_64_bit_integers():
    class Watched:
        private = False

        def add(self, values, law):
            assert values.dtype == np.int64
            return dg.testing.SeededNoise(0).add(values, law)

    for unit in UNITS:
        for mechanism in (LAPLACE, GAUSSIAN):
            assert released(moments_of(), mechanism, unit, noise=Watched()).value.sums.dtype == np.int64


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_accountants_open_moments_by_their_movement(unit):
    """A row moves one sum by up to 2 steps squared, and all of them: Laplace sums are one shift by the whole L1
    distance; squared distances of Gaussian sums bound rho alone, so the claim prices them."""
    (shift,) = shifts(LAPLACE.event(DESIGN, unit))
    assert (shift.distance, shift.cells) == (DESIGN.sensitivity(unit), 1)
    assert not shifts(GAUSSIAN.event(DESIGN, unit))


@pytest.mark.proof
@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("delta", ["1e-3", "1e-5"])
def test_prices_cover_the_true_loss_of_gaussian_moments(delta, times):
    """Noise of standard deviation sigma on sums that a row moves by D in L2 has the exact curve of Balle and Wang 2018,
    delta(e) = Phi(D/(2 sigma) - e sigma/D) - exp(e) Phi(-D/(2 sigma) - e sigma/D); k releases have D sqrt(k)."""
    unit = UNITS[0]
    event = GAUSSIAN.event(DESIGN, unit)
    moved = math.sqrt(times * DESIGN.squared_sensitivity(unit)) / event.measurements[0].law.scale
    for method in ("zcdp", "pld"):
        epsilon = float(dg.cost([event] * times, method=method, delta=delta, unit=unit).epsilon)
        above = stats.norm.cdf(moved / 2 - epsilon / moved)
        true = above - math.exp(epsilon) * stats.norm.cdf(-moved / 2 - epsilon / moved)
        assert true <= float(delta)


def test_the_event_claims_the_zero_concentrated_cost():
    event = dg.GaussianMechanism(1, "1e-6").event(DESIGN, UNITS[0])
    assert event.mechanism == "GaussianMechanism"
    assert (event.epsilon, event.delta) == (1, Fraction("1e-6"))
    plain = dg.LaplaceMechanism(1).event(DESIGN, UNITS[0])
    assert plain.rho <= Fraction(1, 2) * (1 + Fraction(1, 10**9))


def test_small_budgets_get_much_noise_and_absurd_ones_are_refused():
    """Twenty features, an intercept and a target that counts twice are 23 columns: (d - 1)(d + 1)^2 / (2 d)."""
    many = dg.LinearDesign({f"x{i}": (0, 1) for i in range(20)}, "y", (0, 1))
    event = dg.LaplaceMechanism("0.001").event(many, UNITS[0])
    assert event.measurements[0].law.scale == pytest.approx(22 * 24**2 / 46 * 1000 * RESOLUTION**2, rel=1e-9)
    with pytest.raises(ReleaseError, match="nothing could be learned"):
        dg.LaplaceMechanism("1e-9").event(many, UNITS[0])
    with pytest.raises(ReleaseError, match="nothing could be learned"):
        dg.GaussianMechanism(delta="1e-30", rho="1e-15").event(many, UNITS[0])


DROPPING = dg.LinearDesign({"x": (0, 2), "g": ["a", "b", "c"]}, "y", (0, 2), on_missing="drop")


@pytest.mark.parametrize(
    ("mechanism", "design", "unit", "message"),
    [
        (LAPLACE, DROPPING, UNITS[0], "on_missing"),
        (GAUSSIAN, DROPPING, UNITS[0], "on_missing"),
        (dg.LaplaceMechanism(1, tables="families"), DESIGN, UNITS[0], "tables="),
        (dg.LaplaceMechanism(1, noise="sum-zero"), DESIGN, UNITS[0], "sum-zero"),
        (dg.GaussianMechanism(1, "1e-6", tables="families"), DESIGN, UNITS[0], "tables="),
        (dg.GaussianMechanism(1, "1e-6", allocation="uniform"), DESIGN, UNITS[0], "allocation="),
        (dg.GaussianMechanism(1, "1e-6", basis="residual"), DESIGN, UNITS[1], "basis="),
        (dg.FourierMechanism(1), DESIGN, UNITS[0], "FourierMechanism takes counts"),
        (dg.PosteriorSample(1), DESIGN, UNITS[0], "PosteriorSample takes counts"),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused_before_the_charge(mechanism, design, unit, message):
    budget = dg.Budget(5, delta="1e-5", unit=unit)
    X = np.array([[0.5, "a"], [np.nan, "b"]], dtype=object)
    moments = dg.statistics.regression_moments(
        (X[: 1 + (design is DROPPING)], [1.0, 1.0][: 1 + (design is DROPPING)]), design
    )
    with pytest.raises(ReleaseError, match=message):
        dg.release(moments, mechanism, budget=budget)
    assert budget.spent.epsilon == 0 if hasattr(budget.spent, "epsilon") else budget.spent == 0
    assert budget.events == ()
