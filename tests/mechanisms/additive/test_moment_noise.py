"""Releases of moments are epsilon-DP by enumeration, draw one noise for each sum, and refuse before they charge."""

import itertools
import re
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

import dpgraph as dg
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace
from tests.conclusions import law_test
from tests.everything import everything

E = dg.expfam
UNITS = [dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace", 2)]
TINY = {
    "binomial": (E.Binomial(), [0, 1]),
    "binomial of 2": (E.Binomial(2), [0, 1, 2]),
    "multinomial": (E.Multinomial(3), [0, 1, 2]),
}


def neighbours(levels, n, unit):
    """All pairs of data sets that differ in one person."""

    def sets(size):
        return list(itertools.combinations_with_replacement(levels, size))

    rows = unit.rows_per_person
    if unit.n_is_public:
        return [(kept + a, kept + b) for kept in sets(n - rows) for a in sets(rows) for b in sets(rows)]
    return [(kept, (*kept, row)) for size in range(n) for kept in sets(size) for row in levels]


@pytest.mark.parametrize("noise", ["auto", "independent"])
@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("name", TINY)
def test_the_largest_log_ratio_over_all_neighbours_is_epsilon(name, unit, noise):
    """The law of the output is a product of exp(-||y - s||_1 / scale), so the largest log ratio over all outputs is
    ||s - s'||_1 / scale, attained at y = s."""
    family, levels = TINY[name]
    mechanism = dg.LaplaceMechanism("0.8", noise=noise)
    largest = Fraction(0)
    for one, other in neighbours(levels, 3, unit):
        s, t = (dg.statistics.sufficient_statistics(list(rows), family) for rows in (one, other))
        (measured,) = mechanism.event(s.description, unit).measurements
        moved = s.description.released(s.sensitive_sums, s.sensitive_rows, unit) - t.description.released(
            t.sensitive_sums, t.sensitive_rows, unit
        )
        largest = max(largest, Fraction(int(np.abs(moved).sum())) / Fraction(measured.law.scale))
    assert largest <= Fraction("0.8")
    assert largest >= Fraction("0.8") * Fraction(9999, 10000)


@pytest.mark.parametrize("unit", UNITS[:2], ids=str)
def test_the_log_ratio_of_the_real_pmf_over_a_grid_of_outputs(unit):
    """Without the formula above: the binomial's pmf normalised over a grid, every output compared."""
    description = dg.statistics.sufficient_statistics([0, 1], E.Binomial()).description
    (measured,) = dg.LaplaceMechanism(1).event(description, unit).measurements
    side = np.arange(-80, 84)
    outputs = np.array([(y,) for y in side] if unit.n_is_public else list(itertools.product(side, side)))

    def pmf(rows):
        moments = dg.statistics.sufficient_statistics(list(rows), E.Binomial())
        s = description.released(moments.sensitive_sums, moments.sensitive_rows, unit)
        weight = np.exp(-np.abs(outputs - s).sum(axis=1) / measured.law.scale)
        return weight / weight.sum()

    worst = max(np.abs(np.log(pmf(a) / pmf(b))).max() for a, b in neighbours([0, 1], 3, unit))
    assert worst <= 1 + 1e-9
    assert worst >= 0.99


def released(moments, epsilon=1, unit=UNITS[0], noise=None, **settings):
    mechanism = dg.LaplaceMechanism(epsilon, **settings)
    return dg.release(moments, mechanism, budget=dg.Budget(epsilon, unit=unit), noise=noise)


@pytest.mark.proof
def test_every_sum_gets_its_own_draw(monkeypatch):
    """The reference code adds one scalar to all sums, so that their differences are exact. Here the noises of two
    sums are uncorrelated: 1000 seeded releases, level 1e-6; a correlation of .31 is missed as rarely, and one scalar
    makes it 1."""
    moments = dg.statistics.sufficient_statistics(np.linspace(-3, 3, 50), E.Normal(), bounds=(-3, 3))
    description = type(moments.description)
    monkeypatch.setattr(description, "sensitivity", cache(description.sensitivity))  # a search, two in every release
    source = dg.testing.SeededNoise(1)
    draws = np.array([released(moments, noise=source).value.sums for _ in range(1000)]) - moments.sensitive_sums
    r, p = stats.pearsonr(*draws.T)
    assert p > 1e-6
    assert abs(r) < 0.3
    assert len(set((draws[:, 0] - draws[:, 1]).tolist())) > 750


@pytest.mark.proof
@pytest.mark.parametrize("unit", UNITS[:2], ids=str)
def test_noise_follows_the_recorded_law(unit):
    """Secure draws around a known sum are accepted, and a scale wrong by a third rejected, each but for 1e-6."""
    moments = dg.statistics.sufficient_statistics([1, 0, 1], E.Binomial())
    release = released(moments, unit=unit)
    (measured,) = release.event.measurements
    assert release.value.law == measured.law == DiscreteLaplace(1.0)
    exact = moments.description.released(moments.sensitive_sums, 3, unit)
    z = np.arange(-40, 41)
    test = law_test(-abs(z), [-abs(z) / factor for factor in (2 / 3, 3 / 2)], draws=1600)
    releases = 1600 // exact.size
    test.check(np.concatenate([released(moments, unit=unit).value.sums - exact for _ in range(releases)]) - z[0])


def test_n_is_public_under_replace_only():
    moments = dg.statistics.sufficient_statistics([0.2] * 731, E.Exponential(), bounds=(0, 1))
    shown = released(moments)
    assert shown.value.n == 731
    assert shown.value.names == ("sum",)
    hidden = released(moments, unit=UNITS[1])
    assert hidden.value.n is None
    assert hidden.value.names == ("sum", "n")
    assert "731" not in re.findall(r"\d+", everything(hidden))


def test_a_multinomial_of_public_n_gets_noise_that_sums_to_zero():
    moments = dg.statistics.sufficient_statistics([0, 1, 2, 2, 1], E.Multinomial(4))
    release = released(moments)
    assert release.value.law == SumZeroLaplace(2.0)
    assert release.value.sums.sum() == 5
    assert released(moments, noise=None, unit=UNITS[1]).value.law == DiscreteLaplace(1.0)
    assert released(moments, **{"noise": None}).value.names == ("0", "1", "2", "3")


def test_the_event_prices_the_release():
    moments = dg.statistics.sufficient_statistics([0.2, 0.4], E.Normal(), bounds=(-1, 1))
    release = released(moments, epsilon="0.25")
    (measured,) = release.event.measurements
    assert measured.table == ("sum", "sum of squares")
    assert Fraction(measured.sensitivity) / Fraction(measured.law.scale) <= Fraction(1, 4)
    assert dg.cost(release).epsilon <= Fraction(1, 4)
    assert release.event.rho <= Fraction(1, 32) * (1 + Fraction(1, 10**9))


COUNTS = dg.LaplaceMechanism(1, tables="families")


@pytest.mark.parametrize(
    ("mechanism", "unit", "message"),
    [
        (COUNTS, UNITS[0], "tables="),
        (dg.LaplaceMechanism(1, allocation="uniform"), UNITS[0], "allocation="),
        (dg.LaplaceMechanism(1, noise="sum-zero"), UNITS[0], "sum-zero"),
        (dg.LaplaceMechanism(1, noise="sum-zero"), UNITS[1], "sum-zero"),
        (dg.LaplaceMechanism("1e-13"), UNITS[0], "too small|nothing could be learned"),
        (dg.FourierMechanism(1), UNITS[0], "FourierMechanism takes counts"),
        (dg.GaussianMechanism(1, delta="1e-6"), UNITS[0], "GaussianMechanism takes counts"),
        (dg.PosteriorSample(1), UNITS[0], "PosteriorSample takes counts"),
        (dg.MapEstimate(1), UNITS[0], "MapEstimate takes counts"),
    ],
    ids=repr,
)
def test_what_does_not_fit_is_refused_before_the_charge(mechanism, unit, message):
    moments = dg.statistics.sufficient_statistics([0.2, 0.4], E.Exponential(), bounds=(0, 1))
    budget = dg.Budget(5, delta="1e-5", unit=unit)
    with pytest.raises(ReleaseError, match=message):
        dg.release(moments, mechanism, budget=budget)
    assert budget.spent.epsilon == 0 if hasattr(budget.spent, "epsilon") else budget.spent == 0


def test_statistics_that_are_neither_are_refused():
    with pytest.raises(ReleaseError, match="takes statistics"):
        dg.release(object(), dg.LaplaceMechanism(1), budget=dg.Budget(1))
    with pytest.raises(ReleaseError, match="takes a mechanism"):
        dg.release(dg.statistics.sufficient_statistics([1], E.Binomial()), dg.LaplaceMechanism, budget=dg.Budget(1))
