"""Filters: no adaptive adversary passes a budget's promise, found by exact enumeration (proofs.md P89 to P92)."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.privacy import accounting, composition
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.composition import (
    MOST_CELLS,
    Filter,
    Spent,
    laplace_rho,
    parallel_steps,
    pure_rho,
    rho_of,
    rho_within,
    shift_rho,
    sum_zero_rho,
)
from dpgraph.privacy.errors import BudgetExceededError, ReleaseError
from dpgraph.privacy.gdp import mu_within, pure_mu_squared, root
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, Measurement, Movement, SumZeroLaplace
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, exact
from tests.tiers import examples

REPLACE, ADD = PrivacyUnit("replace"), PrivacyUnit("add-remove")
DOMAIN = dg.Domain.of({"region": ["north", "south"], "a": [0, 1]})
NETWORK = dg.Network.of(DOMAIN.restrict(["a"]), {})
FRAME = pd.DataFrame({"region": ["north", "south", "south"] * 8, "a": [0, 1, 1] * 8})
ORDERS = (1.0001, 1.01, 1.1, 1.5, 2, 3, 5, 9, 20, 60, 200)


def limit(epsilon, delta):
    return PrivacyCost(exact(epsilon), exact(delta, "delta", zero=True))


def spend(epsilon, delta=0, rho=None):
    return Event("x", exact(epsilon), exact(delta, "delta", zero=True), rho=None if rho is None else exact(rho))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [("0.01", "1e-12"), ("1", "1e-6"), ("3", "0.01"), ("30", "0.3"), ("0.5", "0.02")]
)
def test_the_rho_of_a_limit_is_the_largest_that_opendp_converts_to_no_more(epsilon, delta):
    whole = limit(epsilon, delta)
    rho = rho_within(whole)
    assert epsilon_of_rho(rho, whole.delta) <= whole.epsilon
    assert epsilon_of_rho(rho * (1 + Fraction(1, 10**8)), whole.delta) > whole.epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [("0.01", "1e-12"), ("1", "1e-6"), ("3", "0.01"), ("30", "0.3")])
def test_a_gaussian_of_that_rho_keeps_the_limit(epsilon, delta):
    """The exact delta of a Gaussian of that rho, in 50 digits: what zCDP promises holds for what attains zCDP."""
    import mpmath

    rho = rho_within(limit(epsilon, delta))
    with mpmath.workdps(50):
        mu, at = mpmath.sqrt(2 * mpmath.mpf(rho.numerator) / rho.denominator), mpmath.mpf(epsilon)
        exact_delta = mpmath.ncdf(mu / 2 - at / mu) - mpmath.exp(at) * mpmath.ncdf(-mu / 2 - at / mu)
        assert exact_delta <= mpmath.mpf(delta)


def renyi(pairs, order):
    """The Renyi divergence of pairs of probabilities, in the precision of mpmath."""
    import mpmath

    return mpmath.log(mpmath.fsum(p**order * q ** (1 - order) for p, q in pairs)) / (order - 1)


def laplace_pairs(scale, distance):
    """Discrete Laplace noise on a number that moves, exactly: the losses beyond both ends are constant."""
    import mpmath

    q = mpmath.exp(-1 / mpmath.mpf(scale))
    inside = [(1 - q) / (1 + q) * q**z for z in range(1, distance)]
    moved = [(1 - q) / (1 + q) * q ** (distance - z) for z in range(1, distance)]
    end = 1 / (1 + q)
    return [(end, end * q**distance), (end * q**distance, end), *zip(inside, moved, strict=True)]


def sum_zero_pairs(scale, cells):
    """Noise that sums to zero where a row moves between two cells: the probability of the largest loss is the series
    of dpgraph.privacy.composition.sum_zero_loss, which a test there holds against enumeration; here to 60 digits."""
    import mpmath

    loss = 2 / mpmath.mpf(scale)
    sums = [
        mpmath.fsum(mpmath.binomial(m, j) ** 2 * mpmath.exp(-j * loss) for j in range(m + 1))
        for m in (cells - 2, cells - 1)
    ]
    high = sums[0] / sums[1]
    low = high * mpmath.exp(-loss)
    rest = 1 - high - low
    return [(high, low), (low, high), *([(rest, rest)] if rest > mpmath.mpf(10) ** -50 else [])]


CASES = [
    *((DiscreteLaplace(scale), d, 1) for scale in (0.1, 0.7, 3.0, 1000.0) for d in (1, 2, 5, 40)),
    *((SumZeroLaplace(scale), 2, cells) for scale in (0.2, 1.0, 30.0) for cells in (2, 3, 7, 200)),
]


@pytest.mark.parametrize(("law", "distance", "cells"), CASES, ids=str)
def test_no_renyi_divergence_is_above_the_rho_of_a_law_and_the_least_order_attains_it(law, distance, cells):
    import mpmath

    bound = shift_rho(law, distance, cells)
    with mpmath.workdps(60):
        pairs = laplace_pairs(law.scale, distance) if cells == 1 else sum_zero_pairs(law.scale, cells)
        assert abs(mpmath.fsum(p for p, _ in pairs) - 1) < mpmath.mpf(10) ** -40
        rho = mpmath.mpf(bound.numerator) / bound.denominator
        for order in map(mpmath.mpf, ORDERS):
            assert renyi(pairs, order) <= order * rho
        nearest = 1 + mpmath.mpf(10) ** -12
        assert renyi(pairs, nearest) >= nearest * rho * (1 - mpmath.mpf(10) ** -9)


def test_pure_epsilons_cost_what_randomised_response_does():
    import mpmath

    with mpmath.workdps(60):
        for epsilon in map(Fraction, ("0.001", "0.1", "1", "2.5", "8", "50")):
            high = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon.numerator) / epsilon.denominator))
            rho = mpmath.mpf(pure_rho(epsilon).numerator) / pure_rho(epsilon).denominator
            for order in map(mpmath.mpf, ORDERS):
                assert renyi([(high, 1 - high), (1 - high, high)], order) <= order * rho
            assert pure_rho(epsilon) <= epsilon**2 / 2 * (1 + Fraction(1, 10**11))


@settings(max_examples=examples(25), deadline=None)
@given(st.floats(0.05, 2.0**50), st.integers(1, 2**30), st.integers(2, 3000))
def test_rhos_of_laws_lie_between_what_is_known(scale, distance, cells):
    """A longer way costs more and never above the price of its epsilon; more cells cost less, down to two that are
    independent; a table of more cells than are summed costs as one of that many."""
    slack = 1 + Fraction(1, 10**9)
    epsilon = distance / Fraction(scale)
    assert laplace_rho(scale, distance) <= min(pure_rho(epsilon), epsilon) * slack
    assert laplace_rho(scale, distance) <= laplace_rho(scale, distance + 1)
    assert 2 * laplace_rho(scale, 1) <= sum_zero_rho(scale, cells) * slack
    assert sum_zero_rho(scale, cells) <= pure_rho(2 / Fraction(scale)) * slack
    assert sum_zero_rho(scale, MOST_CELLS + cells) == sum_zero_rho(scale, MOST_CELLS)


def table(cells, law, movement):
    return Measurement(("x",), cells, law, movement)


def test_an_event_is_charged_the_least_rho_that_is_proved():
    law, one = DiscreteLaplace(2.0), Movement(1, 1, moved_cells=1)
    half = Fraction(1, 2)
    assert rho_of(spend(1)) == pure_rho(Fraction(1))
    assert rho_of(spend(1, rho="1/8")) == Fraction(1, 8)
    assert rho_of(spend(1, rho=3)) == pure_rho(Fraction(1))
    assert rho_of(spend(1, "1e-6")) is None
    assert rho_of(spend(1, "1e-6", rho="0.02")) == Fraction(1, 50)
    assert rho_of(Event("a", half, measurements=(table(1, law, one),))) == laplace_rho(2.0, 1)
    both = Event("a", 2 * half, measurements=(table(1, law, one), table(3, law, one)))
    assert rho_of(both) == 2 * laplace_rho(2.0, 1)
    partly = Event("a", 3 * half, measurements=both.measurements)
    assert rho_of(partly) == 2 * laplace_rho(2.0, 1) + pure_rho(half)
    joint = Event("both", 5 * half, parts=(partly, both))
    assert rho_of(joint) == rho_of(partly) + rho_of(both)
    assert rho_of(Event("both", 3 * half, Fraction(1, 100), parts=(both, spend("0.5", "0.01")))) is None


@pytest.mark.parametrize("unit", [REPLACE, ADD, PrivacyUnit("replace", 2)], ids=str)
@pytest.mark.parametrize("noise", ["independent", "auto"])
def test_the_rho_charged_for_a_table_holds_for_its_real_pmf(unit, noise):
    """Renyi divergences over the grid, all ways a person moves a table of three cells."""
    coins = dg.Network.of({"v": [0, 1, 2]}, {})
    event = dg.LaplaceMechanism("1.5", tables="maximal", noise=noise).event(coins, unit)
    scale, side = event.measurements[0].law.scale, np.arange(-24, 25)
    grid = np.stack(np.meshgrid(side, side, side, indexing="ij"), -1).reshape(-1, 3)
    if not isinstance(event.measurements[0].law, DiscreteLaplace):
        grid = grid[grid.sum(1) == 0]
    r, rho = unit.rows_per_person, rho_of(event)
    assert rho < event.rho if r == 1 else rho <= event.rho
    moves = [(-r, r, 0), (-r, r - 1, 1), (-1, 1, 0)] if unit.n_is_public else [(r, 0, 0), (r - 1, 1, 0)]

    def log_pmf(shift):
        log = -np.abs(grid - np.array(shift)).sum(1) / scale
        return log - np.logaddexp.reduce(log)

    for shift in moves:
        p, q = log_pmf((0, 0, 0)), log_pmf(shift)
        for order in (1.01, 2, 20):
            divergence = np.logaddexp.reduce(order * p + (1 - order) * q) / (order - 1)
            assert divergence <= order * float(rho) * (1 + 1e-6)


UNIT = Fraction(1, 20)


def worst(rule, menu, epsilon):
    """The delta at epsilon of the best adaptive adversary: at each node of the tree it sees all answers so far, and
    chooses a randomised response of so many twentieths that still fits, or stops. Exact, by dynamic programming over
    the loss and what was spent: the hockey-stick divergence is a sum over the leaves, in units of the other mass."""
    events = {k: Event("response", k * UNIT) for k in menu}

    @cache
    def value(loss, spent):
        best = max(0.0, math.exp(loss / 20) - math.exp(epsilon))
        for k, event in events.items():
            after = rule.after(spent, event)
            assert after != spent
            if rule.fits(after):
                high = 1 / (1 + math.exp(-k / 20))
                best = max(best, (1 - high) * value(loss + k, after) + high * value(loss - k, after))
        return best

    return value(0, rule.start)


@pytest.mark.parametrize(
    ("epsilon", "delta", "menu"),
    [("1", "0.05", (4,)), ("1", "0.05", (2, 7, 11)), ("1", "0.01", (2, 3, 5)), ("0.5", "0.02", (2, 3, 5))],
)
@pytest.mark.parametrize("name", ["zcdp", "gdp"])
def test_no_adaptive_adversary_passes_a_budget(epsilon, delta, menu, name):
    """Charged an eighth of the square of epsilon in rho, the first of them has a delta of 0.2, not 0.014."""
    rule = Filter(name, limit(epsilon, delta))
    found = worst(rule, menu, float(epsilon))
    assert 0 < found <= float(delta)
    pure = pure_rho if name == "zcdp" else pure_mu_squared
    assert name == "gdp" or rule.whole / pure(menu[0] * UNIT) * menu[0] * UNIT > exact(epsilon)


def test_no_adaptive_adversary_passes_a_basic_budget_and_one_attains_it():
    rule = Filter("basic", limit(1, 0))
    assert worst(rule, (4, 5), 1.0) <= 1e-12
    assert worst(rule, (4, 5), 0.99) > 1e-4


def test_going_on_while_the_list_so_far_is_within_the_limit_passes_it():
    """Why numerical composition is no accounting of budgets: an adversary that may go on as long as the exact price of
    the fixed list of what was drawn so far is within (1, 0.05) has a delta of 0.0577 at epsilon 1."""

    class Realised:
        """The price of the path that was taken, used as if it were a limit."""

        start = ()

        def after(self, spent, event):
            return tuple(sorted((*spent, event.epsilon)))

        @cache  # noqa: B019 - the rule lives as long as the test
        def fits(self, spent):
            masses = {0: 1.0}
            for epsilon in spent:
                k, high = int(epsilon / UNIT), 1 / (1 + math.exp(-float(epsilon)))
                later = {}
                for loss, mass in masses.items():
                    later[loss + k] = later.get(loss + k, 0) + mass * high
                    later[loss - k] = later.get(loss - k, 0) + mass * (1 - high)
                masses = later
            return sum(mass * max(0.0, -math.expm1(1 - loss / 20)) for loss, mass in masses.items()) <= 0.05

    assert worst(Realised(), (4, 10), 1.0) > 0.057


@given(st.lists(st.sampled_from([spend("0.05"), spend("0.1"), spend("0.2", "1e-6", "0.003")]), max_size=30))
@settings(max_examples=examples(60), deadline=None)
def test_totals_are_those_of_all_events_and_refusals_charge_nothing(events):
    budget = Budget(1, "1e-6", accounting="zcdp")
    kept = []
    for event in events:
        if sum(map(rho_of, [*kept, event])) <= budget.rho:
            budget.charge(event)
            kept.append(event)
        else:
            with pytest.raises(BudgetExceededError, match="nothing was charged"):
                budget.charge(event)
    assert budget.events == tuple(kept)
    assert budget.remaining_rho == budget.rho - sum(map(rho_of, kept))
    assert budget.spent <= budget.epsilon


def test_a_charge_reads_no_history(monkeypatch):
    """What a charge costs does not grow: neither the list of events nor anything that adds them up is read."""

    class Unread(list):
        def __iter__(self):
            raise AssertionError("a charge went over all events")

    def adding(*_args, **_settings):
        raise AssertionError("a charge added up all events")

    for name, delta in (("basic", 0), ("zcdp", "1e-6")):
        budget = Budget(1, delta, accounting=name)
        budget._account._charges = Unread()
        with monkeypatch.context() as patched:
            patched.setattr(accounting, "cost", adding)
            patched.setattr(composition, "basic", adding)
            for _ in range(20):
                budget.charge(spend("0.01"))
        assert len(budget._account._charges) == 20


def test_gaussian_noise_spends_a_rho():
    """A quarter of the budget's rho fits four times, exactly; what is charged is the mechanism's rho."""
    budget = Budget(1, "1e-6", accounting="zcdp")
    mechanism = GaussianMechanism(delta="1e-6", rho=budget.rho / 4)
    counts = dg.count(FRAME, NETWORK)
    for left in (3, 2, 1, 0):
        dg.release(counts, mechanism, budget=budget)
        assert budget.remaining_rho == budget.rho * left / 4
    with pytest.raises(BudgetExceededError, match=r"costs rho 0\.00608899 but the budget has rho 0 left of 0\.024356"):
        dg.release(counts, mechanism, budget=budget)
    assert Fraction(1) - Fraction(1, 10**9) < budget.spent <= 1
    claims = GaussianMechanism("0.5", "1e-6")
    later = Budget(1, "1e-6", accounting="zcdp")
    dg.release(counts, claims, budget=later)
    assert later.remaining_rho == later.rho - claims.event(NETWORK, REPLACE).rho


def test_what_remains_is_the_largest_pure_release():
    budget = Budget(1, "1e-6", accounting="zcdp")
    budget.charge(spend("0.1"))
    epsilon = budget.remaining
    assert pure_rho(epsilon) <= budget.remaining_rho < pure_rho(epsilon * (1 + Fraction(1, 10**9)))
    assert budget.remaining_delta == Fraction(1, 10**6)
    dg.release(dg.count(FRAME, NETWORK), dg.LaplaceMechanism(epsilon), budget=budget)
    assert float(budget.remaining_rho) < 1e-11 * float(budget.rho) or budget.remaining < epsilon / 2
    assert "accounting='zcdp', rho=0.0243559703594" in repr(budget)
    plain = Budget(1)
    assert (plain.accounting, plain.rho, plain.remaining_rho, plain.mu) == ("basic", None, None, None)
    assert "accounting" not in repr(plain)


@pytest.mark.parametrize("accounting", ["zcdp", "gdp"])
def test_a_delta_is_needed(accounting):
    with pytest.raises(ReleaseError, match="needs a delta above 0"):
        Budget(1, accounting=accounting)


@pytest.mark.parametrize("accounting", ["renyi", "pld", None, 1, ["basic"]])
def test_an_unknown_accounting_is_refused(accounting):
    with pytest.raises(ReleaseError, match="accounting must be one of"):
        Budget(1, "1e-6", accounting=accounting)


def test_what_zcdp_has_no_price_for_is_refused():
    budget = Budget(1, "1e-6", accounting="zcdp")
    with pytest.raises(ReleaseError, match="claims a delta and no rho"):
        budget.charge(spend("0.1", "1e-9"))
    for rho in (-1, 0.5, float("nan")):
        with pytest.raises(ReleaseError):
            budget.charge(replace(spend("0.1"), rho=rho))
    assert budget.events == ()


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_a_share_of_rho_covers_every_way_a_person_can_be_spread(neighbours, rows, groups):
    """One step costs a group's rho and two steps four times that, which a sum that moves the same way twice attains."""
    hits = [set(choice) for size in range(rows + 1) for choice in itertools.combinations(range(groups), size)]
    enters = hits if neighbours == "replace" else [set()]
    steps = [4 * len(left & entered) + len(left ^ entered) for left, entered in itertools.product(hits, enters)]
    assert max(steps) == parallel_steps(groups, PrivacyUnit(neighbours, rows))


def test_gaussian_noise_spends_a_mu():
    """Half of the budget's mu fits four times; the fifth release is refused, and nothing is charged."""
    budget = Budget(1, "1e-6", accounting="gdp")
    counts = dg.count(FRAME, NETWORK)
    for used in (1, 2, 3, 4):
        dg.release(counts, GaussianMechanism(delta="1e-6", mu=budget.mu / 2), budget=budget)
        assert float(budget.remaining_mu**2 / budget.mu**2) == pytest.approx(1 - used / 4, abs=1e-9)
    with pytest.raises(BudgetExceededError, match=r"costs mu 0\.118352 but the budget has mu .* left of 0\.236704"):
        dg.release(counts, GaussianMechanism(delta="1e-6", mu=budget.mu / 2), budget=budget)
    assert Fraction(1) - Fraction(1, 10**9) < budget.spent <= 1
    assert (budget.mu, budget.rho) == (mu_within(Fraction(1), Fraction(1, 10**6)), None)
    assert "accounting='gdp', mu=0.236704380663" in repr(budget)
    later = Budget(1, "1e-6", accounting="gdp")
    later.charge(spend("0.1"))
    assert later.remaining_mu == root(later.mu**2 - pure_mu_squared(Fraction(1, 10)), up=False)
    assert pure_mu_squared(later.remaining) <= later.mu**2 - pure_mu_squared(Fraction(1, 10))
    assert pure_mu_squared(later.remaining * (1 + Fraction(1, 10**9))) > later.remaining_mu**2


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_groups_share_a_mu(unit):
    budget = Budget(1, "1e-6", unit=unit, accounting="gdp")
    groups = budget.parallel(DOMAIN, "region", epsilon=1, delta="1e-6")
    assert float(budget.remaining_mu) < 1e-6
    share = budget.mu**2 / (4 if unit.n_is_public else 1)
    for own in groups.values():
        assert share * (1 - Fraction(1, 10**7)) < own.mu**2 <= share
        assert (own.accounting, own.delta, own.unit) == ("gdp", budget.delta, PrivacyUnit("add-remove"))


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_groups_share_a_rho_and_may_be_split_again(unit):
    budget = Budget(1, "1e-6", unit=unit, accounting="zcdp")
    groups = budget.parallel(DOMAIN, "region", epsilon=1, delta="1e-6")
    assert budget.remaining_rho == 0
    share = budget.rho / (4 if unit.n_is_public else 1)
    for own in groups.values():
        assert share * (1 - Fraction(1, 10**7)) < own.rho <= share
        assert (own.accounting, own.delta, own.unit) == ("zcdp", budget.delta, PrivacyUnit("add-remove"))
    north = groups["north"]
    inner = north.parallel(DOMAIN, "a", epsilon=north.epsilon, delta=north.delta)
    assert north.remaining_rho == 0
    assert inner[0].rho <= north.rho
    assert inner[0].group.where == {"region": "north", "a": 0}
    counts = dg.count(dg.statistics.encode(FRAME, DOMAIN), NETWORK, where={"region": "south"})
    dg.release(counts, GaussianMechanism(delta="1e-6", rho=groups["south"].rho), budget=groups["south"])
    assert groups["south"].remaining_rho == 0


def test_pure_groups_of_a_zcdp_budget_are_charged_the_rho_of_their_epsilon():
    budget = Budget(1, "1e-6", accounting="zcdp")
    groups = budget.parallel(DOMAIN, "region", epsilon="0.2")
    assert budget.remaining_rho == budget.rho - pure_rho(Fraction(1, 5))
    assert {(own.epsilon, own.accounting) for own in groups.values()} == {(Fraction(1, 10), "basic")}
    with pytest.raises(BudgetExceededError):
        budget.parallel(DOMAIN, "a", epsilon="0.2")


def test_the_filters_are_known_by_their_names():
    whole = limit(1, "1e-6")
    for name in ("basic", "zcdp", "gdp"):
        rule = Filter(name, whole)
        assert (rule.name, rule.start, rule.limit) == (name, Spent(), whole)
        assert rule.fits(rule.start)
        assert rule.price(rule.start).epsilon == 0
    event = GaussianMechanism("0.5", "1e-7").event(NETWORK, REPLACE)
    assert Filter("zcdp", whole).after(Spent(), event) == Spent(event.epsilon, event.delta, event.rho)
    assert Filter("basic", whole).after(Spent(), event) == Spent(event.epsilon, event.delta)
    assert shift_rho(DiscreteGaussian(3.0), 2) == Fraction(2, 9)
