"""The declared sensitivity of moments is exact: no pair of neighbours moves them further, and some pair that far."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.errors import InferenceError, ReleaseError
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure import moments
from dpgraph.structure.domain import DomainError
from dpgraph.structure.expfam import check_prior
from dpgraph.structure.moments import MomentDescription, NoisyMoments
from tests.tiers import examples

REPLACE, ADD = PrivacyUnit("replace"), PrivacyUnit("add-remove")
E = dg.expfam


def cube(x):
    return np.stack([x, -(x**2), x**3 - 2 * x], axis=-1)


def natural(low=-5.0, high=5.0):
    """A family of one's own with three statistics that neither share a sign nor are monotone."""
    return E.Natural(("a", "b", "c"), cube, np.zeros_like, lambda eta: eta[..., 0] * 0.0, (low, high), (0.0, 0.0, 0.0))


FAMILIES = {
    "binomial": (E.Binomial(), None),
    "binomial of 5": (E.Binomial(5), None),
    "multinomial": (E.Multinomial(3), None),
    "poisson": (E.Poisson(), (2, 9)),
    "exponential": (E.Exponential(), (0.5, 3)),
    "gamma": (E.Gamma(2.5), (1, 7)),
    "normal, known variance": (E.Normal(4.0), (-2, 9)),
    "normal": (E.Normal(), (-3, 2)),
    "normal, zero outside the range of t": (E.Normal(), (5, 7)),
    "one's own": (natural(), None),
    "one's own, unbounded": (natural(-math.inf, math.inf), (-2, 1.5)),
}


def contributions(description, unit):
    """What each possible record adds to what is released, from ``released`` itself."""
    rows = [description.released(row, 1, unit) for row in description.contributions]
    if not description.family.bounded:
        rows.append(description.released(np.zeros(len(description.names), np.int64), 1, unit))
    return np.array(rows)


@pytest.fixture
def coarse(monkeypatch):
    """A grid so coarse that every pair of records can be enumerated."""
    monkeypatch.setattr(moments, "RESOLUTION", 60)
    monkeypatch.setattr(moments, "STEPS", 128)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("name", FAMILIES)
def test_sensitivity_is_the_largest_distance_over_all_pairs_of_records(name, rows, coarse):
    """One person's r rows each move from any record to any other: r times the largest pair distance, attained by r
    equal rows."""
    description = MomentDescription(*FAMILIES[name])
    each = contributions(description, REPLACE)
    largest = np.abs(each[:, None] - each).sum(axis=2).max()
    assert description.sensitivity(PrivacyUnit("replace", rows)) == rows * largest


@pytest.mark.parametrize("name", FAMILIES)
def test_sensitivity_of_an_added_row_is_its_largest_contribution(name, coarse):
    description = MomentDescription(*FAMILIES[name])
    each = contributions(description, ADD)
    assert description.sensitivity(ADD) == np.abs(each).sum(axis=1).max()


@pytest.mark.proof
@given(
    st.floats(-50, 50),
    st.floats(0.01, 100),
    st.lists(st.floats(-60, 160), min_size=1, max_size=6),
    st.floats(-60, 160),
    st.sampled_from([REPLACE, ADD]),
)
@settings(max_examples=examples(300), deadline=None)
def test_no_neighbour_moves_what_is_released_further(low, width, records, other, unit):
    """On the real grid, through ``sufficient_statistics``: records inside, outside and at the bounds."""
    bounds = (low, low + width)
    before = dg.statistics.sufficient_statistics(records, E.Normal(), bounds=bounds)
    changed = [other, *records[1:]] if unit.n_is_public else [other, *records]
    after = dg.statistics.sufficient_statistics(changed, E.Normal(), bounds=bounds)
    described = before.description
    moved = described.released(after.sensitive_sums, after.sensitive_rows, unit) - described.released(
        before.sensitive_sums, before.sensitive_rows, unit
    )
    assert np.abs(moved).sum() <= described.sensitivity(unit)


@pytest.mark.parametrize(
    ("family", "bounds", "witness"),
    [
        (E.Normal(1.0), (5, 7), (7.0, 99.0)),
        (E.Exponential(), (2, 4), (4.0, 5.0)),
        (E.Normal(1.0), (-3, 2), (-3.0, 2.0)),
    ],
)
def test_a_redacted_record_attains_it(family, bounds, witness):
    """Where 0 is outside [t(a), t(b)] the reference code's sum |t(b) - t(a)| is too small; the witness shows it."""
    one, other = (dg.statistics.sufficient_statistics([x], family, bounds=bounds) for x in witness)
    moved = np.abs(one.sensitive_sums - other.sensitive_sums).sum()
    assert moved == one.description.sensitivity(REPLACE)
    t = family.statistic(np.array(bounds, float))
    if not t.min() <= 0 <= t.max():
        assert moved * one.description.steps[0] > np.ptp(t)


def test_a_multinomial_has_sensitivity_two_under_replace():
    """The reference code has 1: a replaced record leaves one category and enters another."""
    for categories in (2, 3, 10):
        assert MomentDescription(E.Multinomial(categories)).sensitivity(REPLACE) == 2
        assert MomentDescription(E.Multinomial(categories)).sensitivity(ADD) == 1


def test_a_binomial_releases_failures_where_n_is_private():
    """(successes, failures) moves by 1 where (successes, n) would move by 2."""
    description = MomentDescription(E.Binomial())
    assert description.released_names(ADD) == ("successes", "failures")
    assert description.sensitivity(ADD) == 1
    assert description.released(np.array([3]), 10, ADD).tolist() == [3, 7]


@pytest.mark.parametrize("name", FAMILIES)
def test_steps_are_powers_of_two_and_resolve_the_statistics(name):
    description = MomentDescription(*FAMILIES[name])
    t = description.family.statistic(description.points)
    for j, step in enumerate(description.steps):
        assert math.log2(step) == round(math.log2(step))
        assert np.abs(description.contributions[:, j] * step - t[:, j]).max() <= max(np.abs(t[:, j]).max(), 1) / 2**20


@pytest.mark.parametrize(
    ("family", "bounds", "message"),
    [
        (E.Exponential(), None, "bounds are needed"),
        (E.Exponential(), (2, 2), "increase"),
        (E.Exponential(), (3, 2), "increase"),
        (E.Exponential(), (0, math.inf), "finite"),
        (E.Exponential(), (math.nan, 1), "finite"),
        (E.Exponential(), (-1, 2), "within"),
        (E.Exponential(), "ab", "two numbers"),
        (E.Exponential(), (1, 2, 3), "two numbers"),
        (E.Binomial(), (0, 1), "leave bounds out"),
        (E.Poisson(), (0.2, 0.8), "finite everywhere"),
        (E.Poisson(), (0, 2**40), "whole numbers"),
        ("exponential", (0, 1), "dg.expfam"),
        (E.Natural(("a",), lambda x: x, np.zeros_like, lambda e: e[..., 0], (0.0, 1.0), (1.0,)), None, "shape"),
        (
            E.Natural(
                ("a",),
                lambda x: np.where(x > 0.5, np.nan, x)[:, None],
                np.zeros_like,
                lambda e: e[..., 0],
                (0.0, 1.0),
                (1.0,),
            ),
            None,
            "finite everywhere",
        ),
    ],
)
def test_bounds_that_do_not_fit_are_refused(family, bounds, message):
    with pytest.raises(DomainError, match=message):
        MomentDescription(family, bounds)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: E.Binomial(0), "trials"),
        (lambda: E.Binomial(True), "trials"),
        (lambda: E.Multinomial(1), "two or more"),
        (lambda: E.Multinomial(["a", "a"]), "different"),
        (lambda: E.Multinomial("abc"), "levels"),
        (lambda: E.Gamma(0.0), "shape"),
        (lambda: E.Normal(variance=-1.0), "variance"),
        (lambda: E.Natural((), cube, np.zeros_like, np.sum, (0, 1), ()), "names"),
        (lambda: E.Natural(("a",), cube, np.zeros_like, np.sum, (1, 0), (1.0,)), "support"),
        (lambda: E.Natural(("a",), cube, np.zeros_like, lambda e: e[..., 0] + np.inf, (0, 1), (1.0,)), "log_partition"),
    ],
)
def test_families_that_make_no_sense_are_refused(make, message):
    with pytest.raises(DomainError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: E.Binomial().prior(0.0), "alpha"),
        (lambda: E.Binomial().prior(1.0, math.inf), "beta"),
        (lambda: E.Multinomial(3).prior([1.0, 2.0]), "concentration"),
        (lambda: E.Multinomial(3).prior(-1.0), "concentration"),
        (lambda: E.Exponential().prior(1.0, math.nan), "rate"),
        (lambda: E.Normal().prior(0.0, 1.0), "records, shape and rate"),
        (lambda: E.Normal(1.0).prior(0.0), "mean and variance"),
        (lambda: E.Normal(1.0).prior(0.0, 0.0), "variance"),
        (lambda: E.Normal().prior(0.0, records=0, shape=1, rate=1), "records"),
        (lambda: natural().prior((1.0,), 1.0), "3 numbers"),
        (lambda: check_prior(E.Exponential(), E.Binomial().prior()), "Exponential"),
        (lambda: check_prior(E.Multinomial(3), E.Multinomial(2).prior()), "Multinomial"),
        (lambda: check_prior(E.Normal(), E.Normal(1.0).prior(0.0, 1.0)), "Normal"),
    ],
)
def test_priors_out_of_range_are_refused(make, message):
    with pytest.raises(InferenceError, match=message):
        make()


@pytest.mark.parametrize(("unit", "n"), [(REPLACE, 7), (ADD, None)])
@pytest.mark.parametrize("name", FAMILIES)
def test_noisy_moments_are_values_in_their_own_units(name, unit, n):
    description = MomentDescription(*FAMILIES[name])
    exact = description.contributions[[0, -1, -1]].sum(axis=0)
    noisy = NoisyMoments(description, description.released(exact, 3, unit), DiscreteLaplace(2.0), n)
    d = len(description.names)
    assert np.allclose(noisy.values[:d], exact * np.array(description.steps))
    if noisy.names[-1] == "n":
        assert noisy.values[-1] == 3
    assert (noisy.scales > 0).all()
    with pytest.raises(ReleaseError, match="shape"):
        NoisyMoments(description, np.zeros(d + 2, int), DiscreteLaplace(2.0), n)
    if not isinstance(description.family, E.Natural):
        assert pickle.loads(pickle.dumps(noisy)).sums.tolist() == noisy.sums.tolist()


def test_every_pair_of_points_is_covered_by_the_signs(coarse):
    """The diameter by sign vectors equals that by pairs in four dimensions too."""
    rng = np.random.default_rng(0)
    table = rng.integers(-9, 9, (40, 4))
    family = E.Natural(
        tuple("abcd"),
        lambda x: table[np.asarray(x, int)],
        np.zeros_like,
        lambda e: e[..., 0] * 0,
        (0, 39),
        (0.0,) * 4,
        True,
    )
    pairs = max(np.abs(a - b).sum() for a, b in itertools.combinations(table, 2))
    assert MomentDescription(family).sensitivity(REPLACE) == pairs
