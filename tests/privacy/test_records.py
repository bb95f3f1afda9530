"""Exact parameters, units, noise laws, releases."""

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    PrivacyCost,
    PrivacyUnit,
    Release,
    ReleaseError,
    SumZeroLaplace,
    decimal,
    exact,
    rounded,
)

NOT_EPSILONS = [
    0,
    -1,
    0.0,
    -0.1,
    math.nan,
    math.inf,
    -math.inf,
    True,
    False,
    None,
    "",
    "abc",
    "nan",
    "inf",
    "0",
    "-0.1",
]
NOT_EPSILONS += [
    "1/0",
    np.nan,
    np.bool_(True),
    "1e999",
    "1e-999",
    [1],
    pytest.param(object(), id="object()"),
    "1" * 200,
]


@pytest.mark.parametrize("value", NOT_EPSILONS, ids=repr)
def test_what_is_not_a_finite_number_above_zero_is_no_epsilon(value):
    with pytest.raises(ReleaseError, match="epsilon must be a finite number above 0"):
        exact(value)


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (0.1, Fraction(1, 10)),
        ("0.1", Fraction(1, 10)),
        (" 1/3 ", Fraction(1, 3)),
        (Decimal("0.25"), Fraction(1, 4)),
        (np.float64(0.1), Fraction(1, 10)),
        (np.int64(2), Fraction(2)),
        (Fraction(2, 7), Fraction(2, 7)),
        ("1e-3", Fraction(1, 1000)),
    ],
)
def test_a_number_means_the_decimal_it_prints_as(value, meant):
    assert exact(value) == meant
    assert isinstance(exact(value).numerator, int)


def test_delta_may_be_zero():
    assert exact(0, "delta", zero=True) == 0


@given(st.fractions(min_value=Fraction(1, 10**6), max_value=10**6))
def test_decimal_prints_the_exact_value(value):
    assert Fraction(decimal(value)) == value


@pytest.mark.parametrize("neighbours", ["Replace", "", None, "bounded"])
def test_an_unknown_neighbour_relation_is_refused(neighbours):
    with pytest.raises(ReleaseError, match="neighbours"):
        PrivacyUnit(neighbours)


@pytest.mark.parametrize("rows", [0, -1, 1.5, True, "1"])
def test_rows_per_person_is_a_whole_number(rows):
    with pytest.raises(ReleaseError, match="rows_per_person"):
        PrivacyUnit("replace", rows)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.5, 200.0])
def test_the_discrete_laplace_variance_is_the_sum_over_its_pmf(scale):
    z = np.arange(-int(60 * scale) - 60, int(60 * scale) + 61)
    pmf = np.exp(-np.abs(z) / scale)
    assert DiscreteLaplace(scale).variance(5) == pytest.approx((z**2 * pmf).sum() / pmf.sum(), rel=1e-9)


@pytest.mark.parametrize("scale", [0.05, 0.3, 1.0, 3.9, 4.1, 70.0])
def test_the_discrete_gaussian_variance_is_the_sum_over_its_pmf(scale):
    z = np.arange(-int(15 * scale) - 15, int(15 * scale) + 16)
    pmf = np.exp(-(z**2) / (2 * scale**2))
    assert DiscreteGaussian(scale).variance(3) == pytest.approx((z**2 * pmf).sum() / pmf.sum(), rel=1e-12)


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**9), st.booleans())
def test_rounding_keeps_its_side_twelve_digits_and_a_short_text(value, up):
    near = rounded(value, up=up)
    assert near >= value if up else near <= value
    assert abs(near - value) <= value / 10**11
    assert len(str(near)) <= 100


@pytest.mark.parametrize("scale", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("cells", [1, 2, 3])
def test_the_sum_zero_variance_is_the_sum_over_its_pmf(scale, cells):
    side = np.arange(-int(25 * scale) - 12, int(25 * scale) + 13)
    free = np.meshgrid(*[side] * (cells - 1), indexing="ij") if cells > 1 else [np.zeros(1)]
    last = -sum(free) if cells > 1 else free[0]
    pmf = np.exp(-(sum(np.abs(z) for z in free) * (cells > 1) + np.abs(last)) / scale)
    assert SumZeroLaplace(scale).variance(cells) == pytest.approx(
        (last**2 * pmf).sum() / pmf.sum(), rel=1e-6, abs=1e-12
    )


@pytest.mark.parametrize("cells", [2, 60, 2000])
def test_sum_zero_noise_of_a_tiny_scale_is_zero(cells):
    """All the mass is at T = 0, however many cells there are: P(T = 1) = K^2 exp(-2 / scale) of it."""
    assert SumZeroLaplace(0.02).variance(cells) == pytest.approx(0, abs=1e-30)


@pytest.mark.parametrize("cells", [4, 8, 32])
def test_the_sum_zero_variance_tends_to_its_closed_limit(cells):
    """Var -> b^2 (2K - 1)(K - 1) / (K (K + 1)) with b the scale, for large b (proofs.md P19)."""
    scale = 3000.0
    limit = scale**2 * (2 * cells - 1) * (cells - 1) / (cells * (cells + 1))
    assert SumZeroLaplace(scale).variance(cells) == pytest.approx(limit, rel=2e-3)


def test_a_release_maps_its_value_and_keeps_its_event():
    release = Release(3, Event("m", Fraction(1)), PrivacyUnit("add-remove"), private=False)
    doubled = release.map(lambda value: 2 * value)
    assert (doubled.value, doubled.event, doubled.unit, doubled.private) == (6, release.event, release.unit, False)
    assert "NOT PRIVATE" in str(doubled.provenance)


def test_costs_add():
    assert PrivacyCost(Fraction(1, 3)) + PrivacyCost(Fraction(1, 6), Fraction(1, 10)) == PrivacyCost(
        Fraction(1, 2), Fraction(1, 10)
    )
