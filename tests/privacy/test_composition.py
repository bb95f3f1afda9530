"""Composition: the published numbers, exact oracles, and nothing a method gives is less than the truth."""

import itertools
import math
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.papers.foulds import advanced
from dpgraph.privacy.accounting import Budget, cost
from dpgraph.privacy.composition import parallel_share, shifts, sum_zero_loss
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, Measurement, Movement
from dpgraph.privacy.noise import exp_bounds
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, Release, exact
from tests.tiers import examples

REPLACE, ADD = PrivacyUnit("replace"), PrivacyUnit("add-remove")
NEEDS_PLD = "the numerical accountant, dp-accounting, is an optional extra"


def spend(epsilon, delta=0, rho=None):
    return Event("x", exact(epsilon), exact(delta, "delta", zero=True), rho=None if rho is None else exact(rho))


def coins(number, levels=2):
    """Independent variables, so that each is a table by itself."""
    return dg.Network.of({f"v{i}": list(range(levels)) for i in range(number)}, {})


def responses_delta(number, epsilon, target):
    """The exact delta at which ``number`` randomised responses of epsilon each are (target, delta)-DP."""
    high = 1 / (1 + math.exp(-epsilon))
    return sum(
        math.comb(number, k)
        * high**k
        * (1 - high) ** (number - k)
        * max(0.0, -math.expm1(target - (2 * k - number) * epsilon))
        for k in range(number + 1)
    )


def test_a_hundred_tenths_as_published():
    """proofs.md P48 to P50: basic 10, advanced 6.31, zCDP 5.22, exponential mechanism 2.42."""
    hundred = [spend("0.1")] * 100
    selections = [spend("0.1", rho="1/800")] * 100
    assert cost(hundred).epsilon == 10
    assert float(advanced(Fraction(1, 10), 100, Fraction(1, 10**6)).epsilon) == pytest.approx(6.31, abs=0.005)
    assert float(cost(hundred, "zcdp", "1e-6").epsilon) == pytest.approx(5.22, abs=0.005)
    assert float(cost(selections, "zcdp", "1e-6").epsilon) == pytest.approx(2.42, abs=0.005)
    assert cost(hundred, "zcdp", "1e-6").delta == Fraction(1, 10**6)


@pytest.mark.parametrize("method", ["gdp", "zcdp"])
@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.fractions(Fraction(1, 100), 1), min_size=1, max_size=40), st.sampled_from(["1e-3", "1e-9"]))
def test_no_method_is_below_the_truth_for_unequal_randomised_responses(method, epsilons, delta):
    """The worst pure mechanisms are randomised responses; their joint loss on a grid rounded down is a lower bound."""
    priced = float(cost([spend(epsilon) for epsilon in epsilons], method, delta).epsilon)
    step = 0.01
    mass = {0: 1.0}
    for epsilon in map(float, epsilons):
        high, moved = 1 / (1 + math.exp(-epsilon)), math.floor(epsilon / step)
        later = {}
        for loss, part in mass.items():
            later[loss + moved] = later.get(loss + moved, 0) + part * high
            later[loss - moved - 1] = later.get(loss - moved - 1, 0) + part * (1 - high)
        mass = later
    truth = sum(part * max(0.0, -math.expm1(priced - loss * step)) for loss, part in mass.items())
    assert truth <= float(delta)
    assert cost([spend(epsilon) for epsilon in epsilons], method, delta).epsilon <= sum(epsilons)


def test_a_budget_prices_its_events_by_every_method():
    budget = Budget(20)
    for _ in range(100):
        budget.charge(spend("0.1"))
    assert budget.cost() == PrivacyCost(Fraction(10))
    assert budget.cost("gdp", "1e-6") == cost(budget.events, "gdp", "1e-6")
    assert budget.cost(method="zcdp", delta=1e-6) == cost(budget.events, "zcdp", "1e-6")


def test_gaussian_releases_add_their_rhos_and_laplace_tables_their_own():
    """Two Gaussian releases at rho = 1/16 are one at 1/8: epsilon 2.42; a Laplace release of 25 tables at epsilon 1
    is 25 small spends, rho at most 1/50 instead of 1/2."""
    event = GaussianMechanism(delta="1e-9", rho="1/16").event(coins(3), ADD)
    assert float(cost([event, event], "zcdp", "1e-6").epsilon) == pytest.approx(2.42, abs=0.005)
    laplace = dg.LaplaceMechanism(1, tables="maximal", allocation="uniform").event(coins(25), ADD)
    assert laplace.rho == pytest.approx(Fraction(1, 50))
    assert laplace.rho >= Fraction(1, 50)


@pytest.mark.parametrize("unit", [REPLACE, ADD, PrivacyUnit("replace", 2)], ids=str)
@pytest.mark.parametrize("noise", ["independent", "auto"])
def test_the_rho_of_a_laplace_table_holds_for_its_real_pmf(unit, noise):
    """Renyi divergences of every order over the grid, all ways a person moves a table of three cells."""
    mechanism = dg.LaplaceMechanism("1.5", tables="maximal", noise=noise)
    event = mechanism.event(coins(1, levels=3), unit)
    scale, side = event.measurements[0].law.scale, np.arange(-40, 41)
    grid = np.stack(np.meshgrid(side, side, side, indexing="ij"), -1).reshape(-1, 3)
    if not isinstance(event.measurements[0].law, DiscreteLaplace):
        grid = grid[grid.sum(1) == 0]
    r = unit.rows_per_person
    moves = [(-r, r, 0), (-r, r - 1, 1), (-1, 1, 0)] if unit.n_is_public else [(r, 0, 0), (r - 1, 1, 0)]

    def log_pmf(shift):
        log = -np.abs(grid - np.array(shift)).sum(1) / scale
        return log - np.logaddexp.reduce(log)

    for shift in moves:
        p, q = log_pmf((0, 0, 0)), log_pmf(shift)
        for order in (1.01, 2, 5, 20):
            divergence = np.logaddexp.reduce(order * p + (1 - order) * q) / (order - 1)
            assert divergence <= order * float(event.rho) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("events", "method", "delta", "message"),
    [
        ([spend(1)], "zcdp", None, "needs a delta"),
        ([spend(1)], "zcdp", 0, "needs a delta"),
        ([spend(1)], "gdp", 1, "needs a delta"),
        ([spend(1)], "pld", float("nan"), "delta must be"),
        ([spend(1)], "basic", "1e-6", "other methods"),
        ([spend(1)], "renyi", "1e-6", "method must be one of"),
        ([spend(1, "1e-6")], "gdp", "1e-6", "claim delta"),
        ([spend(1, "1e-6")], "zcdp", "1e-7", "claim delta"),
    ],
)
def test_what_cannot_be_priced_is_refused(events, method, delta, message):
    with pytest.raises(ReleaseError, match=message):
        cost(events, method, delta)


def test_costs_under_different_units_do_not_add():
    releases = [Release(0, spend(1), REPLACE), Release(0, spend(1), ADD)]
    with pytest.raises(ReleaseError, match="different units"):
        cost(releases)
    assert cost(releases[:1] * 2).epsilon == 2


def test_a_delta_outside_zcdp_is_added_and_an_epsilon_too_large_to_convert_stays_basic():
    mixed = [spend(1, "1e-7"), spend("0.1", rho="1/200")]
    both = float(cost(mixed, "zcdp", "1e-6").epsilon)
    assert both == pytest.approx(min(1.1, 1 + float(cost(mixed[1], "zcdp", "9e-7").epsilon)))
    assert cost([spend(800), spend(1)], "gdp", "1e-6").epsilon == 801
    assert cost([], "zcdp", "1e-6") == PrivacyCost(Fraction(0), Fraction(1, 10**6))


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "dp_accounting.pld", None)
    with pytest.raises(ReleaseError, match=r"dpgraph\[pld\]"):
        cost([spend(1)], "pld", "1e-6")


@pytest.mark.proof
@pytest.mark.parametrize(("number", "published"), [(6, 0.996), (25, 0.556), (59, 0.358), (152, 0.218)])
def test_equal_laplace_tables_by_loss_distributions(number, published):
    """proofs.md P51, continuous noise. A discrete Laplace cell is a randomised response; the truth is a binomial sum:
    the price is not below it, and less than 0.002 above."""
    pytest.importorskip("dp_accounting", reason=NEEDS_PLD)
    mechanism = dg.LaplaceMechanism(1, tables="maximal", allocation="uniform", noise="independent")
    priced = float(cost(mechanism.event(coins(number), REPLACE), "pld", "1e-6", unit=REPLACE).epsilon)
    assert priced == pytest.approx(published, abs=0.002)
    assert responses_delta(2 * number, 1 / (2 * number), priced) <= 1e-6
    assert responses_delta(2 * number, 1 / (2 * number), priced - 0.002) > 1e-6


@pytest.mark.proof
def test_claims_are_priced_as_randomised_responses():
    pytest.importorskip("dp_accounting", reason=NEEDS_PLD)
    priced = float(cost([spend("0.1")] * 30, "pld", "1e-6").epsilon)
    assert responses_delta(30, 0.1, priced) <= 1e-6
    assert responses_delta(30, 0.1, priced - 0.002) > 1e-6


@pytest.mark.parametrize("levels", [2, 3, 4])
@pytest.mark.parametrize("scale", [0.7, 2.5])
def test_the_loss_of_sum_zero_noise_by_enumeration(levels, scale):
    side = range(-int(14 * scale) - 4, int(14 * scale) + 5)
    whole = largest = 0.0
    for free in itertools.product(side, repeat=levels - 1):
        z = (*free, -sum(free))
        mass = math.exp(-sum(map(abs, z)) / scale)
        whole += mass
        largest += mass * (z[0] <= 0 <= z[1])
    assert sum_zero_loss(scale, levels) == pytest.approx(largest / whole, rel=1e-5)


@pytest.mark.proof
def test_a_sum_zero_release_by_loss_distributions_against_its_real_pmf():
    """Two tables of three levels: the hockey-stick divergence of the product, at the price and just below it."""
    pytest.importorskip("dp_accounting", reason=NEEDS_PLD)
    event = dg.LaplaceMechanism(2, tables="maximal", allocation="uniform").event(coins(2, levels=3), REPLACE)
    scale, side = event.measurements[0].law.scale, np.arange(-60, 61)
    plane = [(a, b, -a - b) for a in side for b in side]
    log = np.array([-sum(map(abs, z)) for z in plane]) / scale
    other = np.array([-sum(map(abs, (z[0] + 1, z[1] - 1, z[2]))) for z in plane]) / scale
    mass = np.exp(log - np.logaddexp.reduce(log))
    loss = np.round((log - other) * scale).astype(int)
    single = {k: mass[loss == k].sum() for k in (-2, 0, 2)}

    def delta(epsilon):
        pairs = itertools.product(single.items(), repeat=2)
        return sum(p * q * max(0.0, -math.expm1(epsilon - (a + b) / scale)) for (a, p), (b, q) in pairs)

    priced = float(cost(event, "pld", "0.05", unit=REPLACE).epsilon)
    assert priced < 2
    assert delta(priced) <= 0.05
    assert delta(priced - 0.001) > 0.05


@pytest.mark.proof
def test_gaussian_releases_by_loss_distributions():
    """Twelve equal tables: the joint loss is a sum of discrete Gaussians, convolved here. The published figure is that
    of one continuous Gaussian of mu = sqrt(2 rho) (proofs.md P51), which differs by less."""
    pytest.importorskip("dp_accounting", reason=NEEDS_PLD)
    from scipy.stats import norm

    for unit, moved in ((REPLACE, 24), (ADD, 12)):
        event = GaussianMechanism(1, "1e-6").event(coins(12), unit)
        priced = float(cost(event, "pld", "1e-6", unit=unit).epsilon)
        scale = event.measurements[0].law.scale
        single = np.exp(-(np.arange(-300, 301) ** 2) / (2 * scale**2))
        mass = np.ones(1)
        for _ in range(moved):
            mass = np.convolve(mass, single / single.sum())
        total = np.arange(len(mass)) - len(mass) // 2
        loss = (moved - 2 * total) / (2 * scale**2)

        def delta(epsilon, mass=mass, loss=loss):
            return (mass * np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0)))).sum()

        assert delta(priced) <= 1e-6
        assert delta(priced - 0.001) > 1e-6
        mu = math.sqrt(2 * float(event.rho))
        continuous = norm.cdf(-priced / mu + mu / 2) - math.exp(priced) * norm.cdf(-priced / mu - mu / 2)
        assert continuous == pytest.approx(1e-6, rel=0.01)
        assert priced < float(cost(event, "zcdp", "1e-6").epsilon)


def met(event):
    """Which shifts an event is opened into, by distance."""
    return {(type(one.law).__name__, one.distance): times for one, times in shifts(event).items()}


def test_a_record_is_opened_by_its_movements_alone():
    independent = dg.LaplaceMechanism(1, tables="maximal", noise="independent")
    tables = independent.event(coins(3), REPLACE)
    assert met(tables) == {("DiscreteLaplace", 1): 6}
    assert met(replace(tables, mechanism="Another")) == met(tables)
    assert met(independent.event(coins(3), ADD)) == {("DiscreteLaplace", 1): 3}
    assert met(independent.event(coins(3), PrivacyUnit("replace", 2))) == {("DiscreteLaplace", 4): 3}
    assert met(dg.LaplaceMechanism(1, tables="maximal").event(coins(3), REPLACE)) == {("SumZeroLaplace", 2): 3}
    assert met(dg.LaplaceMechanism(1, tables="maximal").event(coins(3, levels=1), REPLACE)) == {}
    assert met(GaussianMechanism(1, "1e-6").event(coins(2), PrivacyUnit("add-remove", 2))) == {}
    assert met(dg.PosteriorSample(1).event(coins(3), REPLACE)) == met(spend(1)) == {}
    clique = dg.Network.of({name: [0, 1] for name in "abc"}, {"b": ["a"], "c": ["a", "b"]})
    assert met(dg.FourierMechanism(1).event(clique, REPLACE)) == {("DiscreteLaplace", 1): 4}
    assert met(dg.FourierMechanism(1).event(clique, PrivacyUnit("replace", 3))) == {("DiscreteLaplace", 12): 1}
    assert met(dg.FourierMechanism(1, basis="residual").event(clique, REPLACE)) == {}


def laplace_law(scale, shift, side):
    """The exact law of discrete Laplace noise on a line, up to a part in exp(-side / scale)."""
    log = -np.abs(np.arange(-side, side + 1) - shift) / scale
    return np.exp(log - np.logaddexp.reduce(log))


def hockey_stick(p, q, epsilon):
    return np.maximum(p - math.exp(epsilon) * q, 0).sum()


@pytest.mark.proof
@pytest.mark.parametrize("name", ["LaplaceMechanism", "GaussianMechanism", "mine"])
@pytest.mark.parametrize(("scale", "delta"), [(4.0, "0.1"), (4.0, "0.01"), (1.5, "0.2")])
def test_one_sum_that_moves_by_two_is_priced_right_under_any_name(name, scale, delta):
    """Enumeration of discrete Laplace noise moved by two, as often as released: no method is below it, and "pld" is
    within 0.001 of it. Two cells moved by one, which the name alone used to make of it, would be."""
    pytest.importorskip("dp_accounting", reason=NEEDS_PLD)
    law = DiscreteLaplace(scale)
    event = Event(name, Fraction(2) / Fraction(scale), measurements=(Measurement(("x",), 1, law, Movement(2, 4)),))
    cells = Event(name, event.epsilon, measurements=(Measurement(("x",), 2, law, Movement(2, 2, moved_cells=2)),))
    p, q = laplace_law(scale, 0, 300), laplace_law(scale, 2, 300)
    for times, unit in ((1, REPLACE), (2, ADD), (2, None)):
        one, other = (p, q) if times == 1 else (np.outer(p, p), np.outer(q, q))
        for method in ("pld", "zcdp", "gdp"):
            epsilon = float(cost([event] * times, method, delta, unit=unit).epsilon)
            assert hockey_stick(one, other, epsilon) <= float(delta) * (1 + 1e-9)
        priced = float(cost([event] * times, "pld", delta, unit=unit).epsilon)
        assert hockey_stick(one, other, priced - 0.001) > float(delta)
        wrong = float(cost([cells] * times, "pld", delta, unit=unit).epsilon)
        assert hockey_stick(one, other, wrong) > float(delta)
        assert cost([event] * times).epsilon == times * event.epsilon


@pytest.mark.proof
@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=3).filter(any),
    st.sampled_from([0.8, 2.0, 3.0]),
    st.floats(0.001, 0.4),
)
def test_one_coordinate_shifted_by_the_whole_l1_distance_is_the_worst(move, scale, delta):
    """Against the exact law of independent noise on up to three coordinates, whatever way they move."""
    pytest.importorskip("dp_accounting", reason=NEEDS_PLD)
    l1 = sum(map(abs, move))
    measured = Measurement(("x",), len(move), DiscreteLaplace(scale), Movement(l1, l1**2))
    event = Event("x", Fraction(l1) / Fraction(scale), measurements=(measured,))
    epsilon = float(cost(event, "pld", delta).epsilon)
    p, q = np.ones(1), np.ones(1)
    for step in move:
        p = np.multiply.outer(p, laplace_law(scale, 0, 60)).ravel()
        q = np.multiply.outer(q, laplace_law(scale, step, 60)).ravel()
    assert hockey_stick(p, q, epsilon) <= delta + 1e-7  # 60 steps hold all but exp(-19) of the law


@pytest.mark.proof
def test_a_gaussian_sum_that_moves_by_two_is_priced_right():
    """Enumerated; two cells moved by one have a lower price."""
    pytest.importorskip("dp_accounting", reason=NEEDS_PLD)
    scale, z = 5.0, np.arange(-120, 121)
    rho = Fraction(4) / (2 * Fraction(scale) ** 2)
    measured = Measurement(("x",), 1, DiscreteGaussian(scale), Movement(2, 4))
    event = Event("mine", Fraction(3), Fraction(1, 10**6), (measured,), rho)
    logs = [-((z - shift) ** 2) / (2 * scale**2) for shift in (0, 2)]
    p, q = (np.exp(log - np.logaddexp.reduce(log)) for log in logs)
    for delta in ("1e-2", "1e-4"):
        epsilon = float(cost(event, "pld", delta).epsilon)
        assert hockey_stick(p, q, epsilon) <= float(delta) * (1 + 1e-9)
        assert hockey_stick(p, q, epsilon - 0.001) > float(delta)
        assert hockey_stick(p, q, float(cost(event, "zcdp", delta).epsilon)) <= float(delta)


@pytest.mark.proof
def test_several_rows_of_a_person_are_priced_by_the_record():
    """Two rows of a person who may be alike: a table of two cells under replace, all ways, against the real law."""
    pytest.importorskip("dp_accounting", reason=NEEDS_PLD)
    unit, side = PrivacyUnit("replace", 2), 80
    event = dg.LaplaceMechanism(1, tables="maximal", noise="independent").event(coins(1), unit)
    scale = event.measurements[0].law.scale
    epsilon = float(cost(event, "pld", "0.05", unit=unit).epsilon)
    assert epsilon < 0.97
    for move in ((2, -2), (1, -1)):
        pair = [
            np.outer(laplace_law(scale, 0, side), laplace_law(scale, 0, side)),
            np.outer(laplace_law(scale, move[0], side), laplace_law(scale, move[1], side)),
        ]
        assert hockey_stick(*pair, epsilon) <= 0.05


@pytest.mark.proof
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize(
    ("family", "bounds", "records"),
    [
        (dg.expfam.Binomial(), None, [0, 1]),
        (dg.expfam.Binomial(2), None, [0, 1, 2]),
        (dg.expfam.Poisson(), (0, 2), [0, 1, 2]),
        (dg.expfam.Multinomial(("a", "b")), None, ["a", "b"]),
    ],
    ids=str,
)
def test_moments_are_priced_by_how_far_a_record_moves_them(family, bounds, records, neighbours):
    """A record may move one sum by 2, whose loss is larger than that of two cells moved by 1, though the sensitivity
    reads the same. Enumeration over the real law: the price at delta must cover the hockey-stick divergence."""
    empty = dg.statistics.sufficient_statistics([], family, bounds=bounds)
    unit = PrivacyUnit(neighbours)
    event = dg.LaplaceMechanism(2, noise="independent").event(empty.description, unit)
    scale = event.measurements[0].law.scale
    z = np.arange(-60, 61)

    def law(shift):
        log = -np.abs(z - shift) / scale
        return np.exp(log - np.logaddexp.reduce(log))

    def moves():
        """What one record can do to the released integers, through the statistics themselves."""
        one = [dg.statistics.sufficient_statistics([x], family, bounds=bounds) for x in records]
        rows = [empty.description.released(m.sensitive_sums, m.sensitive_rows, unit) for m in one]
        return [a - b for a in rows for b in rows] if unit.n_is_public else rows

    for delta in ("0.01", "0.1"):
        epsilon = float(dg.cost([event], method="pld", delta=delta, unit=unit).epsilon)
        for move in moves():
            p, q = np.ones(1), np.ones(1)
            for step in np.atleast_1d(move):
                p, q = np.multiply.outer(p, law(0)), np.multiply.outer(q, law(int(step)))
            assert np.maximum(p - math.exp(epsilon) * q, 0).sum() <= float(delta) * (1 + 1e-9)


def parallel_cost(costs, unit):
    """The cost of disjoint groups that each cost so much under add/remove, as proofs.md P52 states it."""
    if unit.neighbours == "replace":
        costs = [PrivacyCost(2 * one.epsilon, one.delta * (1 + exp_bounds(one.epsilon, 30)[1])) for one in costs]
    epsilons, deltas = sorted(one.epsilon for one in costs), sorted(one.delta for one in costs)
    return PrivacyCost(sum(epsilons[-unit.rows_per_person :]), sum(deltas[-unit.rows_per_person :]))


costs = st.lists(
    st.builds(PrivacyCost, st.fractions(Fraction(1, 10), 3), st.sampled_from([Fraction(0), Fraction(1, 10**6)])),
    min_size=1,
    max_size=5,
)


@settings(max_examples=examples(200), deadline=None)
@given(costs, st.sampled_from(["replace", "add-remove"]), st.integers(1, 3))
def test_the_parallel_cost_covers_every_way_a_person_can_be_spread(parts, neighbours, rows):
    """All choices of groups a person leaves and enters, each a step, two steps on one group by the group property."""
    whole = parallel_cost(parts, PrivacyUnit(neighbours, rows))
    hits = [set(choice) for size in range(rows + 1) for choice in itertools.combinations(range(len(parts)), size)]
    largest = 0
    for left, entered in itertools.product(hits, hits if neighbours == "replace" else [set()]):
        epsilon = sum(parts[g].epsilon * ((g in left) + (g in entered)) for g in range(len(parts)))
        both = left & entered
        delta = sum(parts[g].delta * (1 + math.exp(parts[g].epsilon) if g in both else 1) for g in left | entered)
        assert epsilon <= whole.epsilon
        assert delta <= float(whole.delta) * (1 + 1e-9)
        largest = max(largest, epsilon)
    assert largest == whole.epsilon


@pytest.mark.parametrize("levels", [(2, 2), (2, 3), (3, 2), (4, 1), (2, 2, 2)], ids=str)
@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_shares_of_shares_cover_every_way_a_person_can_be_spread(levels, rows, neighbours):
    """A tree of splits whose every leaf loses all its epsilon when a person leaves it, and again when one enters it:
    the dearest choice of leaves that rows can leave and enter costs at most the whole, and one row attains it."""
    unit, whole = PrivacyUnit(neighbours, rows), PrivacyCost(Fraction(1), Fraction(1, 10**6))
    share, inner = whole, unit
    for groups in levels:
        share, inner = parallel_share(share, groups, inner), inner.within_groups()
    leaves = range(math.prod(levels))
    hits = [set(choice) for size in range(rows + 1) for choice in itertools.combinations(leaves, size)]
    epsilon, delta = Fraction(0), 0.0
    for left, entered in itertools.product(hits, hits if neighbours == "replace" else [set()]):
        both, either = len(left & entered), len(left ^ entered)
        epsilon = max(epsilon, share.epsilon * (2 * both + either))
        delta = max(delta, float(share.delta) * (both * (1 + math.exp(share.epsilon)) + either))
    assert epsilon <= whole.epsilon
    assert delta <= float(whole.delta) * (1 + 1e-9)
    if rows == 1:
        assert epsilon == whole.epsilon


@pytest.mark.parametrize("groups", [1, 2, 7])
@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_equal_shares_cost_the_whole(groups, rows, neighbours):
    unit, whole = PrivacyUnit(neighbours, rows), PrivacyCost(Fraction(2), Fraction(1, 10**6))
    assert parallel_cost([parallel_share(whole, groups, unit)] * groups, unit) == whole
