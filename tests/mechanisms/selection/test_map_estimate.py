"""The MAP estimate is epsilon-DP by enumeration for both selectors, tight, and as near the optimum as Lemma 4 says."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.mechanisms.selection.lattice import (
    MAX_CANDIDATES,
    MAX_STEPS,
    Lattice,
    MapEstimate,
    lattice,
    lipschitz_constant,
    map_failure_bound,
    map_loss_bound,
    score_range,
)
from dpgraph.structure.margins import Margins
from tests.conclusions import law_test
from tests.mechanisms.additive.test_sensitivity import small_networks
from tests.mechanisms.selection.test_posterior_sample import APART, ONE, ROUNDING, TINY, UNITS, actual_epsilon
from tests.selection import (
    Recorder,
    compositions,
    counted,
    largest_log_ratio,
    neighbours,
    permute_and_flip,
    recorded_laws,
    softmax,
)
from tests.tiers import examples

SELECTORS = ["permute-and-flip", "exponential"]
SEEDED = dg.testing.SeededNoise(1)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("epsilon", [1, 8])
@pytest.mark.parametrize("network", [TINY, APART], ids=["arc", "no arc"])
def test_no_data_sets_of_up_to_four_rows_are_told_apart_better_than_epsilon(network, epsilon, selector, unit):
    """All multisets, all neighbours, all outputs: every joint choice of rows, which permute-and-flip makes row by row.

    Not tight at n = 4, for the reason given for the posterior sample.
    """
    mechanism = MapEstimate(epsilon, grid=5, floor=0.05, prior=0.7, selector=selector)
    actual = actual_epsilon(mechanism, network, unit, neighbours(6, 4, unit))
    assert 0.25 * epsilon < actual <= epsilon


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("selector", SELECTORS)
def test_epsilon_is_attained_where_one_table_is_far_the_best(selector, unit):
    base, r = {(0, 0): 3_000, (1, 0): 120}, unit.rows_per_person
    other = base | {(1, 2): r}
    if unit.neighbours == "replace":
        other[(0, 0)] -= r
    mechanism = MapEstimate(8, grid=2, floor=0.05, selector=selector)
    laws = [recorded_laws(mechanism, TINY, rows, unit)[0] for rows in (base, other)]
    actual = max(largest_log_ratio(*laws), largest_log_ratio(*laws[::-1]))
    assert 0.97 * 8 < actual <= 8 * (1 + ROUNDING)


def test_permute_and_flip_of_all_tables_at_once_would_be_another_law():
    """It does not factorise, so the rows' costs are added up instead; the exponential mechanism does (next test)."""
    rows = {(0,): 3, (1,): 1}
    mechanism = MapEstimate(4, grid=4)
    (one,), _ = recorded_laws(mechanism, ONE, rows, UNITS[0])
    network = dg.Network.of({"a": [0, 1], "b": [0, 1]}, {})
    laws, calls = recorded_laws(mechanism, network, {(0, 0): 3, (1, 1): 1}, UNITS[0])
    logits = calls[0][1].astype(float) / calls[0][2]
    joint = permute_and_flip((logits[:, None] + logits[None, :]).ravel())
    product = (laws[0][:, None] + laws[1][None, :]).ravel()
    assert len(one) == 4
    assert np.abs(joint - product).max() > 0.05


@pytest.mark.parametrize("unit", UNITS[:2], ids=str)
@pytest.mark.parametrize("prior", [1.0, 3.0])
def test_algorithm_3_over_all_tables_at_once(unit, prior):
    """P proportional to exp(u / T) with u the log posterior, T = 2 L / epsilon or L / epsilon, from the definition."""
    mechanism = MapEstimate(5, grid=4, floor=0.03, prior=prior, selector="exponential")
    data = {(0, 0): 3, (0, 2): 1, (1, 1): 2}
    laws, _ = recorded_laws(mechanism, TINY, data, unit)
    points = [compositions(levels, 3) for levels in (2, 3, 3)]
    reach = lipschitz_constant(TINY, 0.03) * (2 if unit.n_is_public else 1)
    utility, log_product = [], []
    for picked in itertools.product(*(range(len(some)) for some in points)):
        theta = [
            [0.03 + (1 - 0.03 * len(some[i])) * j / 3 for j in some[i]] for some, i in zip(points, picked, strict=True)
        ]
        likelihood = sum(times * math.log(theta[0][a] * theta[1 + a][b]) for (a, b), times in data.items())
        utility.append(likelihood + (prior - 1) * sum(math.log(value) for row in theta for value in row))
        log_product.append(sum(law[i] for law, i in zip(laws, picked, strict=True)))
    assert np.abs(softmax(np.array(utility) * 5 / reach) - np.array(log_product)).max() < 1e-6


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("epsilon", [0.5, 4, 20])
def test_lemma_4_by_enumeration(epsilon, selector):
    """Both forms over every joint choice on a grid; and permute-and-flip loses no more than the exponential."""
    data = {(0, 0): 5, (0, 2): 1, (1, 1): 3}
    losses = {}
    for kind in {selector, "exponential"}:
        mechanism = MapEstimate(repr(epsilon), grid=6, floor=0.05, selector=kind)
        laws, calls = recorded_laws(mechanism, TINY, data, UNITS[0])
        utility = sum(np.ix_(*[(c[1] - c[1].max()).astype(float) / 2**32 for c in calls])).ravel()
        log_mass = sum(np.ix_(*laws)).ravel()
        losses[kind] = float(-(np.exp(log_mass) * utility).sum())
        temperature = mechanism.temperature(TINY, UNITS[0])
        for shortfall in (0.1, 1.0, 3.0, 10.0):
            beyond = np.exp(log_mass[utility < -2 * shortfall]).sum()
            good = (utility >= -shortfall).mean()
            assert beyond <= map_failure_bound(temperature, shortfall, good)
        for failure in (0.5, 0.1, 0.001):
            loss = map_loss_bound(temperature, len(utility), failure, best=int((utility == 0).sum()))
            assert np.exp(log_mass[utility < -loss]).sum() <= failure
    assert losses[selector] <= losses["exponential"]


@pytest.mark.proof
@pytest.mark.parametrize("selector", SELECTORS)
def test_choices_have_the_recorded_law(selector):
    """5 382 secure releases of a binary row: accepted by their law; 2/3 and 3/2 of the temperature are rejected, and so
    is the other selector's law, each but for a chance of 1e-6. The noncentral chi-square asks for 4 000 here, and for
    8 000 where the rows are 3 and 1."""
    mechanism = MapEstimate(6, grid=6, floor=0.05, selector=selector)
    rows = {(0,): 6, (1,): 2}
    (law,), ((_, scores, scale),) = recorded_laws(mechanism, ONE, rows, UNITS[0])
    laws = {"exponential": softmax, "permute-and-flip": permute_and_flip}
    (other,) = set(SELECTORS) - {selector}
    logits = scores / scale
    test = law_test(law, [*(laws[selector](logits / factor) for factor in (2 / 3, 3 / 2)), laws[other](logits)])
    counts = counted(ONE, rows)
    grid = 0.05 + 0.9 * np.arange(6) / 5
    draws = [
        int(np.abs(dg.release(counts, mechanism, budget=dg.Budget(6)).value.table("a")[0] - grid).argmin())
        for _ in range(test.draws)
    ]
    test.check(draws)


def test_many_rows_give_the_map_of_each_table():
    """The data's own table, bounded below, to the grid's step; the prior counts."""
    counts = counted(TINY, {(0, 0): 600_000, (0, 1): 200_000, (1, 1): 100_000, (1, 2): 100_000})
    for selector in SELECTORS:
        found = dg.release(counts, MapEstimate(50, selector=selector), budget=dg.Budget(50), noise=SEEDED).value
        assert found.table("a") == pytest.approx([0.8, 0.2], abs=0.01)
        assert found.table("b")[:, 0] == pytest.approx([0.74, 0.25, 0.01], abs=0.02)
    empty = dg.release(counted(ONE, {}), MapEstimate(10**6, prior=50.0), budget=dg.Budget(10**6), noise=SEEDED).value
    assert empty.table("a") == pytest.approx([0.5, 0.5], abs=0.03)
    assert empty.provenance.event.mechanism == "MapEstimate"


@settings(max_examples=examples(60), deadline=None)
@given(small_networks(), st.sampled_from([0.001, 0.2]), st.integers(2, 4), st.randoms(use_true_random=False))
def test_what_the_rows_of_all_tables_spend_never_passes_epsilon(network, floor, grid, random):
    """promise.md S6 for the row-by-row selection: the ranges of rows' scores over the scale add to epsilon at most."""
    sizes = list(network.domain.sizes.values())
    mechanism = MapEstimate("0.9", floor=floor, grid=grid)
    rows = [tuple(random.randrange(size) for size in sizes) for _ in range(4)]
    for unit in UNITS[:2]:
        one = {row: rows[:3].count(row) for row in rows[:3]}
        kept = rows[:2] + rows[3:] if unit.n_is_public else rows[:2]
        other = {row: kept.count(row) for row in kept}
        calls = [recorded_laws(mechanism, network, some, unit)[1] for some in (one, other)]
        spent = Fraction(0)  # exact: a sum of floats may pass 0.9 in its last digit
        for before, after in zip(*calls, strict=True):
            gap = before[1] - after[1]
            spent += Fraction(float(gap.max() - gap.min())) / Fraction(before[2])
        assert spent <= Fraction("0.9")
        assert score_range(network, unit, grid, floor, "permute-and-flip") >= 0


@pytest.mark.parametrize(("levels", "grid"), [(3, 1001), (4, 1001), (5, 1001), (6, 1001), (9, 1001), (4, 10)])
def test_permute_and_flip_has_the_finest_grid_that_can_be_listed(levels, grid):
    """The candidates counted one by one; one more step along a probability would be too many."""

    def listed(steps):
        return len(Lattice(levels, steps, 0.01).points)

    steps = lattice(levels, grid, 0.01, "permute-and-flip").steps
    assert listed(steps) <= MAX_CANDIDATES
    assert steps == min(grid - 1, MAX_STEPS) or listed(steps + 1) > MAX_CANDIDATES


def test_permute_and_flip_lists_a_bounded_number_of_candidates():
    for levels in (2, 3, 4, 6, 12, 40):
        points = math.comb(lattice(levels, 1001, 0.001, "permute-and-flip").steps + levels - 1, levels - 1)
        assert points <= max(MAX_CANDIDATES, levels)
    assert lattice(2, 1001, 0.01, "permute-and-flip").steps == 1000
    assert lattice(3, 1001, 0.01, "permute-and-flip").steps == 198
    assert lattice(3, 1001, 0.01, "softmax").steps == 200
    assert lattice(5, 11, 0.01, "permute-and-flip").steps == 10


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"epsilon": math.nan}, "epsilon"),
        ({"prior": -1}, "prior"),
        ({"floor": 0.7}, "floor"),
        ({"grid": 1}, "grid"),
        ({"grid": None}, "grid"),
        ({"selector": "softmax"}, "selector"),
        ({"selector": None}, "selector"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings_, message):
    with pytest.raises(dg.errors.ReleaseError, match=message):
        MapEstimate(**({"epsilon": 1} | settings_))


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (MapEstimate(1, floor=0.4), "'b' has 3 levels"),
        (MapEstimate("1e-14"), "nothing could be learned"),
        (MapEstimate(2), "costs epsilon 2"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_charged(mechanism, message):
    class Forbidden(Recorder):
        def flip(self, scores, scale):
            pytest.fail("drew for a refused release")

    budget = dg.Budget(1)
    with pytest.raises(dg.errors.ReleaseError, match=message):
        dg.release(counted(TINY, {(0, 0): 3}), mechanism, budget=budget, noise=Forbidden())
    assert budget.spent == 0


@pytest.mark.parametrize("wrong", [(0, 1, 0.5), (1, -1, 0.5), (1, 1, 0), (1, 1, 2), (math.nan, 1, 0.5)])
def test_bounds_need_their_numbers(wrong):
    with pytest.raises(dg.errors.ReleaseError):
        map_failure_bound(*wrong)


@pytest.mark.parametrize("wrong", [(0, 10, 0.5), (1, 0, 0.5), (1, 10, 0), (1, 10, 2)])
def test_loss_bounds_need_their_numbers(wrong):
    with pytest.raises(dg.errors.ReleaseError):
        map_loss_bound(*wrong)


def test_tables_without_a_graph_are_refused_uncharged():
    """Their probabilities would be those of independent variables, though b is a."""
    domain = dg.Domain.of({name: [0, 1] for name in "abc"})
    rows = pd.DataFrame({name: [0, 1] for name in "abc"})
    budget = dg.Budget(1)
    for tables in (dg.all_pairs(domain), Margins.of_tables(domain, [("a", "b")])):
        with pytest.raises(dg.errors.ReleaseError, match=r"tables without one.*choose_network"):
            dg.release(dg.count(rows, tables), MapEstimate(1), budget=budget)
    assert budget.spent == 0
