"""Exact parameters, units, noise laws, releases."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import comb

from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import rounded
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, Release, decimal, exact, exact_sum

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
    pytest.param("0." + "1" * 2500, id="a long decimal"),
    pytest.param("1/" + "9" * 10**6, id="a long fraction"),
    pytest.param(10**5000, id="a long int"),
    pytest.param(-(10**5000), id="a long negative int"),
    pytest.param(Fraction(10**5000 + 1, 10**5000), id="a Fraction of many digits"),
    pytest.param(Decimal("1e30000000"), id="a Decimal of a huge power"),
    "1e30000000",
    "1e-30000000",
]


@pytest.mark.parametrize("value", NOT_EPSILONS, ids=repr)
def test_what_is_not_a_finite_number_above_zero_is_no_epsilon(value):
    with pytest.raises(ReleaseError, match="epsilon must be a finite number above 0") as caught:
        exact(value)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("text", ["1e-999", "0.1e-400000", "1e-99999"])
def test_a_number_below_every_float_is_no_delta(text):
    """Rejects the power of ten, which takes all memory where the exponent is large enough."""
    with pytest.raises(ReleaseError, match="delta must be a finite number, at least 0"):
        exact(text, "delta", zero=True)


@pytest.mark.parametrize("text", ["5e-324", "1.7976931348623157e308", "1e-150", "1.2345678901234567e-300"])
def test_a_number_that_is_taken_is_read_back_from_its_fraction(text):
    """Rejects a limit of the text at a hundred characters: a saved delta of 1e-150 could not be loaded."""
    assert exact(str(exact(text))) == exact(text) == Fraction(text)
    assert exact_sum(str(exact(text))) == exact(text)


@pytest.mark.parametrize(
    "text", ["1e2", "1e400000", "0.5", "-1", "+1", " 1", "1_0", "", "1/", "1/0", "\uff11", "1" * 4001, 1, None]
)
def test_a_sum_is_read_from_digits_alone(text):
    with pytest.raises(ReleaseError, match="a sum must be digits"):
        exact_sum(text)


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


def enumerated(cells, scale, most):
    """The variance of a cell of sum-zero noise of so many cells, over all integers up to a bound."""
    grid = np.array(list(product(range(-most, most + 1), repeat=cells - 1)))
    noise = np.column_stack([grid, -grid.sum(axis=1)])
    weight = np.exp(-np.abs(noise).sum(axis=1) / scale)
    return float((weight * noise[:, 0] ** 2).sum() / weight.sum())


@pytest.mark.parametrize(("cells", "scale", "most"), [(2, 3.0, 60), (3, 0.4, 12), (3, 2.0, 60), (4, 1.0, 22)])
def test_the_closed_form_of_sum_zero_noise_is_its_variance(cells, scale, most):
    q = np.exp(-2 / scale)
    j = np.arange(cells)
    zeroth = (comb(cells - 1, j) ** 2 * q**j).sum()
    first = (comb(cells - 1, j) * comb(cells, j) / (j + 1) * q**j).sum()
    found = 2 * q * (cells - 1) / (1 - q) ** 2 * first / zeroth
    assert found == pytest.approx(enumerated(cells, scale, most), rel=1e-6)
    assert found == pytest.approx(SumZeroLaplace(scale).variance(cells), rel=1e-6)


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
