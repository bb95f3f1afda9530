"""Risk in words: the best test of enumerated laws attains the curve and never exceeds it (proofs.md P25)."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import dpgraph as dg
from dpgraph.privacy.gdp import unit_shift
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, Measurement, Movement
from dpgraph.privacy.records import Event, PrivacyCost
from dpgraph.privacy.risk import Risk, percent

REPLACE, ADD = dg.PrivacyUnit(), dg.PrivacyUnit("add-remove")
SHARES = (0.001, 0.01, 0.05, 0.2, 0.5, 0.9)
#: Sums of floats over a few hundred outcomes are off by less.
SLACK = 1e-12


def best_test(true, false, share):
    """The largest share of true claims that any test finds, of which a share of the false ones passes.

    By Neyman and Pearson: outcomes pass in the order of their likelihood ratio, the last one by a coin.
    """
    order = np.argsort(-np.divide(true, false, out=np.full(len(true), np.inf), where=false > 0), kind="stable")
    passed, found = np.cumsum(false[order]), np.cumsum(true[order])
    return float(np.interp(share, np.r_[0, passed], np.r_[0, found])) if share > 0 else float(true[false == 0].sum())


def shifted(law, moved, reach=400):
    """The laws of a number with noise, where a person moves it and where not, over common outcomes."""
    at = np.arange(-reach, reach + 1)
    power = -np.abs(at) / law.scale if isinstance(law, DiscreteLaplace) else -(at**2) / (2 * law.scale**2)
    mass = np.exp(power) / np.exp(power).sum()
    return np.r_[np.zeros(moved), mass], np.r_[mass, np.zeros(moved)]


def event_of(law, moved=1, **claims):
    measured = Measurement(("count",), 1, law, Movement(moved, moved**2))
    return Event("a count", **claims, measurements=(measured,))


def risks(epsilon=1, delta=0, mu=None, rho=None, unit=REPLACE):
    square = None if mu is None else Fraction(mu) ** 2
    return Risk(Fraction(epsilon), Fraction(delta), unit, square, None if rho is None else Fraction(rho))


@pytest.mark.parametrize("epsilon", ["1/10", "1", "4"])
@pytest.mark.parametrize("delta", ["0", "1/1000", "1/10"])
def test_the_law_that_is_told_or_answered_at_random_attains_the_curve(epsilon, delta):
    """With probability delta the truth is told; else randomised response answers."""
    size, told = float(Fraction(epsilon)), float(Fraction(delta))
    right = (1 - told) / (1 + math.exp(-size))
    true = np.array([told, right, 1 - told - right, 0.0])
    risk = risks(epsilon, delta)
    for share in (0, *SHARES):
        assert risk.true_claims(share) == pytest.approx(best_test(true, true[::-1], share), abs=SLACK)
    assert risk.advantage == pytest.approx(told + right - (1 - told - right), abs=SLACK)


@pytest.mark.parametrize("scale", [0.7, 1.0, 3.0, 10.0])
def test_a_count_with_laplace_noise_attains_the_curve_where_one_row_moves_it(scale):
    law = DiscreteLaplace(scale)
    risk = Risk.of(event_of(law, epsilon=Fraction(1) / Fraction(scale)))
    true, false = shifted(law, 1)
    ends = 1 / (1 + math.exp(1 / scale))
    for share in SHARES:
        best = best_test(true, false, share)
        assert best <= risk.true_claims(share) + SLACK
        if share <= ends / 4:  # nearer to the ends the law's rho proves nothing more
            assert risk.true_claims(share) == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("rows", [2, 5])
@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0)])
def test_no_test_finds_more_of_a_person_with_several_rows(law, rows):
    claims = (
        {"epsilon": Fraction(rows, 3)} if isinstance(law, DiscreteLaplace) else {"epsilon": 30, "delta": Fraction(1, 9)}
    )
    risk = Risk.of(event_of(law, rows, **claims), dg.PrivacyUnit("add-remove", rows))
    true, false = shifted(law, rows)
    for share in SHARES:
        assert best_test(true, false, share) <= risk.true_claims(share) + SLACK
    assert np.maximum(true - false, 0).sum() <= risk.advantage + SLACK


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0, 6.0])
def test_a_count_with_gaussian_noise_attains_mu_at_its_centre_and_exceeds_it_nowhere(scale):
    law = DiscreteGaussian(scale)
    risk = Risk.of(event_of(law, epsilon=Fraction(50), delta=Fraction(1, 2)))
    assert risk.mu_squared == unit_shift(scale)
    true, false = shifted(law, 1)
    for share in SHARES:
        assert best_test(true, false, share) <= risk.true_claims(share) + SLACK
    zero = true.max()
    assert risk.true_claims((1 - zero) / 2) == pytest.approx((1 + zero) / 2, abs=1e-10)
    assert risk.advantage == pytest.approx(zero, abs=1e-10)


@pytest.mark.parametrize(
    ("mechanism", "loose"), [(dg.GaussianMechanism(1, "1e-4"), 1.01), (dg.GaussianMechanism(4, "1e-2"), 1.3)], ids=repr
)
def test_the_released_table_of_a_network_is_told_apart_no_better(mechanism, loose):
    """Two cells move by one each under replace; all outcomes of both enumerated. Small scales make large steps."""
    network = dg.Network.of({"a": [0, 1]}, {})
    event = mechanism.event(network, REPLACE)
    (measured,) = event.measurements
    assert (measured.cells, measured.movement.l2_squared) == (2, 2)
    reach = math.ceil(9 * measured.law.scale)
    up, zero = shifted(measured.law, 1, reach)
    true, false = np.multiply.outer(up, zero).ravel(), np.multiply.outer(zero, up).ravel()
    risk = Risk.of(event)
    for share in SHARES:
        best = best_test(true, false, share)
        assert best <= risk.true_claims(share) + SLACK
        assert risk.true_claims(share) <= loose * best


LAWS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=2, max_size=5)


@given(LAWS, st.fractions(0, 3, max_denominator=20))
def test_no_pair_of_laws_is_told_apart_better_than_any_of_its_claims_says(weights, epsilon):
    """Claims by their definitions: ratios, the least delta of an epsilon, and the least rho over orders."""
    true, false = (np.array(one, float) / sum(one) for one in zip(*weights, strict=True))
    pairs = [(true, false), (false, true)]
    ratio = max(np.log(p / q).max() for p, q in pairs)
    delta = max(np.maximum(p - math.exp(float(epsilon)) * q, 0).sum() for p, q in pairs)
    orders = np.r_[1 + np.geomspace(1e-4, 1, 200), np.geomspace(2, 500, 200)]
    powers = [np.multiply.outer(orders, np.log(p)) - np.multiply.outer(orders - 1, np.log(q)) for p, q in pairs]
    rho = max((np.logaddexp.reduce(power, axis=1) / (orders - 1) / orders).max() for power in powers)
    known = [
        risks(Fraction(ratio * (1 + 1e-9) + 1e-12)),
        risks(epsilon, min(Fraction(delta * (1 + 1e-9)), Fraction(1))),
        risks(1000, 0, rho=Fraction(rho * 1.001 + 1e-9)),
    ]
    for risk in known:
        assert np.maximum(true - false, 0).sum() <= risk.advantage + SLACK
        for share in SHARES:
            assert best_test(true, false, share) <= risk.true_claims(share) + SLACK


def test_figures_by_hand():
    """With e = 2.71828: e/100, e/20, (e - 1)/(e + 1), e/(e + 9), e/(e + 999); exp(-(2.14597 - 0.35355)^2) of a rho."""
    one = risks(1)
    assert one.true_claims(0.01) == pytest.approx(0.0271828, abs=5e-8)
    assert one.true_claims(0.05) == pytest.approx(0.1359141, abs=5e-8)
    assert one.advantage == pytest.approx(0.4621172, abs=5e-8)
    assert one.suspicion("0.1") == one.suspicion_after_any("0.1") == pytest.approx(0.2319693, abs=5e-8)
    assert one.suspicion("0.001") == pytest.approx(0.0027136, abs=5e-8)
    assert risks(1, "1/1000").true_claims(0.01) == pytest.approx(0.0281828, abs=5e-8)
    assert risks(1, "1/1000").suspicion_after_any("0.001") == 1
    gaussian, concentrated = risks(50, "1/2", mu=1), risks(50, "1/2", rho="1/8")
    assert gaussian.true_claims(0.01) == pytest.approx(norm.cdf(1 - norm.isf(0.01)), rel=1e-12)
    assert gaussian.advantage == pytest.approx(2 * norm.cdf(0.5) - 1, rel=1e-12)
    assert concentrated.true_claims(0.01) == pytest.approx(0.040246, abs=5e-6)
    assert concentrated.advantage == pytest.approx(0.25, rel=1e-15)


def test_the_facts_are_the_figures_in_percent_rounded_up():
    assert risks(1).facts() == [
        ("true claims found at 1 % false alarms", "at most 2.72 %"),
        ("true claims found at 5 % false alarms", "at most 13.6 %"),
        ("largest difference of the two", "at most 46.3 %"),
        ("true among claims that pass, if 1 in 10 was", "at most 23.2 %"),
        ("true among claims that pass, if 1 in 1000 was", "at most 0.272 %"),
        ("after any outcome, 1 in 10 becomes", "at most 23.2 %"),
        ("after any outcome, 1 in 1000 becomes", "at most 0.272 %"),
    ]
    assert len(risks(1, "1e-6").facts()) == 5  # with a delta no outcome has a bound


SIZE = st.fractions(Fraction(1, 100), 6, max_denominator=100)
SMALL = st.fractions(0, Fraction(1, 2), max_denominator=10**6)


@given(SIZE, SMALL, st.none() | SIZE, st.none() | SIZE, SMALL, SIZE, st.sampled_from(["epsilon", "delta", "mu", "rho"]))
def test_all_figures_rise_with_each_claim_and_with_false_alarms(epsilon, delta, mu, rho, share, more, what):
    claims = {"epsilon": epsilon, "delta": delta, "mu": mu, "rho": rho}
    grown = claims[what] if claims[what] is None else min(claims[what] + more, 1 if what == "delta" else 99)
    low, high = risks(**claims), risks(**claims | {what: grown})
    for risk, other in ((low, high), (high, risks(claims["epsilon"] + (more if what == "epsilon" else 0), high.delta))):
        assert risk.true_claims(share) <= other.true_claims(share)
        assert risk.advantage <= other.advantage
        assert risk.suspicion("0.1") <= other.suspicion("0.1")
        assert risk.suspicion_after_any("0.1") <= other.suspicion_after_any("0.1")
    assert share <= low.true_claims(share) <= low.true_claims(share + Fraction(1, 4)) <= 1
    assert low.true_claims(share) <= float(share) + low.advantage + SLACK
    assert low.suspicion("0.1") <= low.suspicion("0.2")


@given(SIZE, SMALL, SIZE, st.fractions(Fraction(1, 10**6), 1 - Fraction(1, 10**6), max_denominator=10**6))
def test_no_figure_is_rounded_down(epsilon, delta, mu, share):
    with mpmath.workdps(80):
        e, d, m, f = (mpmath.mpf(one.numerator) / one.denominator for one in (epsilon, delta, mu, share))
        pure = min(d + mpmath.exp(e) * f, 1 - mpmath.exp(-e) * (1 - d - f), 1)
        normal = 1 - mpmath.ncdf(mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * f) - m)
        advantage = min(1, (mpmath.exp(e) - 1 + 2 * d) / (mpmath.exp(e) + 1))
        found = risks(epsilon, delta).true_claims(share), risks(1000, 0, mu=mu).true_claims(share)
        known = [(found[0], pure), (found[1], normal), (risks(epsilon, delta).advantage, advantage)]
        odds = mpmath.exp(e) * f / (1 - f)
        known.append((risks(epsilon).suspicion_after_any(share), odds / (1 + odds)))
        for figure, exact in known:
            assert exact - mpmath.mpf(10) ** -60 <= figure <= exact * (1 + 1e-15)
    for figure in found:
        assert Fraction(percent(figure).split()[0]) / 100 >= Fraction(figure)


def test_claims_that_pass_are_counted_as_the_definition_counts_them():
    """Of a million claims a share is true; the bound's share of these passes, and 1 % of the others."""
    for risk in (risks(1), risks(1, "1/100"), risks(9, "1/9", mu=1), risks(9, "1/9", rho="1/2")):
        for prior in (0.1, 0.001):
            true, false = 1e6 * prior * risk.true_claims(0.01), 1e6 * (1 - prior) * 0.01
            assert risk.suspicion(prior) == pytest.approx(true / (true + false), rel=1e-12)


def test_the_curve_is_above_the_diagonal_from_corner_to_corner():
    for risk in (risks(1), risks(1, "1/100"), risks(9, "1/9", mu=1), risks(9, "1/9", rho="1/2")):
        false, true = zip(*risk.curve(), strict=True)
        assert (false[0], false[-1], true[-1]) == (0, 1, 1)
        assert all(x <= y for x, y in risk.curve())
        assert max(y - x for x, y in risk.curve()) == pytest.approx(risk.advantage, abs=0.02)
        assert list(true) == sorted(true)


@pytest.mark.parametrize(
    ("unit", "words"),
    [
        (REPLACE, "claims about one person's row finds"),
        (dg.PrivacyUnit("replace", 3), "claims about the up to 3 rows of one person finds"),
        (ADD, "claims that one person's row is in the data finds"),
        (
            dg.PrivacyUnit("add-remove", 3),
            "claims that the up to 3 rows of one person are in the data finds",
        ),
    ],
)
def test_words_say_whose_rows_are_meant(unit, words):
    risk = risks(unit=unit)
    assert words in str(risk)
    rows = "one row" if unit.rows_per_person == 1 else "up to 3 rows"
    assert f"a person has {rows}, and that the attacker knows all other rows" in risk.assumption


def test_a_risk_is_of_a_release_a_budget_an_event_or_a_cost():
    network = dg.Network.of({"a": [0, 1]}, {})
    unit, budget = dg.PrivacyUnit("add-remove", 2), dg.Budget(1, "1e-6", unit=dg.PrivacyUnit("add-remove", 2))
    counts = dg.count(pd.DataFrame({"a": [0, 1], "who": [1, 2]}), network, person="who", rows_per_person=2)
    release = dg.release(counts, dg.GaussianMechanism(1, "1e-6"), budget=budget)
    assert Risk.of(release) == Risk.of(release.provenance) == Risk.of(release.event, unit)
    assert Risk.of(release).mu_squared is not None
    assert Risk.of(budget) == Risk.of(PrivacyCost(Fraction(1), Fraction(1, 10**6)), unit)
    for accounting, name in (("gdp", "mu_squared"), ("zcdp", "rho")):
        whole = dg.Budget(1, "1e-6", accounting=accounting)
        assert getattr(Risk.of(whole), name) == (whole.rho if name == "rho" else whole.mu**2)
        assert Risk.of(whole).advantage < Risk.of(budget).advantage


def test_what_has_no_risk_is_refused():
    network = dg.Network.of({"a": [0, 1]}, {})
    counts = dg.count(pd.DataFrame({"a": [0, 1]}), network)
    seeded = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
    with pytest.raises(dg.errors.ReleaseError, match="came from a seed"):
        Risk.of(seeded)
    with pytest.raises(dg.errors.ReleaseError, match="got float"):
        Risk.of(1.0)
    for wrong in (1.5, -0.1, math.nan, True):
        with pytest.raises(dg.errors.ReleaseError, match="false_claims must be"):
            risks().true_claims(wrong)
        with pytest.raises(dg.errors.ReleaseError, match="prior must be"):
            risks().suspicion(wrong)


def test_the_report_of_a_network_has_the_risk_of_what_it_recommends():
    network = dg.read_network("example:asia")
    report = dg.privacy_cost(network, epsilon=1, unit=ADD)
    assert report.risk == Risk.of(report.recommended.event(network, ADD), ADD)
    assert " ".join(str(report.risk).split()) in " ".join(repr(report).split())
