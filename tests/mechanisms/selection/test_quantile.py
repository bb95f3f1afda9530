"""A private quantile is epsilon-DP by enumeration, tight with the factor 1/2, and finds the quantile."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.mechanisms.selection.quantile import PrivateQuantile
from tests.conclusions import law_test
from tests.selection import Recorder, counted, largest_log_ratio, neighbours, recorded_laws, softmax
from tests.tiers import examples

UNITS = [dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace", 2)]


def laws_of(mechanism, values, unit):
    """ln P of every edge, for bin numbers with their counts."""
    laws, _ = recorded_laws(mechanism, mechanism.network("x"), {(bin_,): n for bin_, n in values.items()}, unit)
    return laws


def actual_epsilon(mechanism, bins, largest, unit):
    """The largest log ratio over all data sets of up to ``largest`` values in some bins, their neighbours, outputs."""
    pairs = neighbours(len(bins), largest, unit)
    found = {
        multiset: laws_of(mechanism, dict(zip(bins, multiset, strict=True)), unit)
        for multiset in {multiset for pair in pairs for multiset in pair}
    }
    return max(largest_log_ratio(found[one], found[other]) for one, other in pairs)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("alphas", [[0.5], [0.1], ["1/3", 0.9]], ids=str)
@pytest.mark.parametrize("epsilon", [1, 6])
def test_no_data_sets_of_up_to_four_values_are_told_apart_better_than_epsilon(unit, alphas, epsilon):
    mechanism = PrivateQuantile(epsilon, alphas, (0, 1), grid=5)
    actual = actual_epsilon(mechanism, range(5), 4, unit)
    assert 0.3 * epsilon < actual <= epsilon


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_the_factor_one_half_is_tight(unit):
    """On a grid of 2 000 most edges lie between the end bins, so the normaliser moves as far as one score and the
    others the other way, where the number below passes alpha n (proofs.md P13: .997 under replace).
    """
    mechanism = PrivateQuantile(1, [0.5], (0, 1), grid=2000)
    actual = actual_epsilon(mechanism, [0, 1, 1998, 1999], 4, unit)
    assert 0.99 < actual <= 1


def test_smiths_weights_from_the_definition():
    """exp(-(epsilon / 2) |i - alpha n|), i the number of values below the edge, on sorted values."""
    values = np.array([0.5, 2.5, 2.5, 3.5, 7.5, 9.5, 12.0, -3.0])
    mechanism = PrivateQuantile("0.8", [0.3], (0, 10), grid=10)
    recorder = Recorder()
    counts = dg.count(pd.DataFrame({"x": values}), mechanism.network("x"))
    mechanism.randomise(counts, UNITS[0], recorder)
    ((_, scores, scale),) = recorder.calls
    clipped = np.clip(values, 0, 9.999)
    exponents = np.array([-0.4 * abs((clipped < edge).sum() - 0.3 * 8) for edge in range(11)])
    assert np.abs(softmax(scores / scale) - softmax(exponents)).max() < 1e-12


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=8),
    st.lists(st.integers(0, 6), min_size=2, max_size=2),
    st.sampled_from(["0.5", "0.05", "0.9", "1/7"]),
)
def test_scores_move_no_further_than_declared(values, moved, alpha):
    """promise.md S6: |score| moves by at most 1 (replace) or max(alpha, 1 - alpha) (add/remove), times the rows."""
    mechanism = PrivateQuantile(1, [alpha], (0, 7), grid=7)
    kept = values[:-1]

    def scores(data, unit):
        recorder = Recorder()
        mechanism.randomise(counted(mechanism.network("x"), {(v,): data.count(v) for v in data}), unit, recorder)
        return recorder.calls[0][1], recorder.calls[0][2]

    for unit, one, other in (
        (UNITS[0], [*kept, moved[0]], [*kept, moved[1]]),
        (UNITS[1], kept, [*kept, moved[0]]),
        (UNITS[2], kept[1:] + moved, [*kept[1:], 0, 6]),
    ):
        (before, scale), (after, _) = scores(one, unit), scores(other, unit)
        assert int(abs(before - after).max()) * 2 <= scale * (1 + 1e-12)


def test_the_declared_movement_is_attained():
    """Values at one end and the other: an edge between gains one whole value, or 1 - alpha or alpha of one."""
    for alpha in (Fraction(1, 4), Fraction(9, 10)):
        mechanism = PrivateQuantile(1, [alpha], (0, 4), grid=4)
        for unit, data, others, furthest in (
            (UNITS[0], {(0,): 9, (3,): 9}, [{(0,): 8, (3,): 10}], Fraction(1)),
            (UNITS[1], {(0,): 8, (3,): 9}, [{(0,): 9, (3,): 9}, {(0,): 8, (3,): 10}], max(alpha, 1 - alpha)),
        ):
            base = recorded_laws(mechanism, mechanism.network("x"), data, unit)[1]
            gaps = [
                int(abs(base[0][1] - recorded_laws(mechanism, mechanism.network("x"), other, unit)[1][0][1]).max())
                for other in others
            ]
            assert Fraction(max(gaps), alpha.denominator) == furthest


@pytest.mark.proof
@pytest.mark.parametrize("noise", [None, dg.testing.SeededNoise(1)], ids=["secure", "seeded"])
def test_edges_have_the_recorded_law(noise):
    """4 526 releases at epsilon 1: accepted, and 2/3 and 3/2 of the exponent rejected, each but for 1e-6."""
    mechanism = PrivateQuantile(1, [0.5], (0, 12), grid=12)
    data = {(2,): 3, (3,): 6, (9,): 4}
    counts = counted(mechanism.network("x"), data)
    (law,), ((_, scores, scale),) = recorded_laws(mechanism, mechanism.network("x"), data, UNITS[0])
    test = law_test(law, [softmax(scores / scale * factor) for factor in (2 / 3, 3 / 2)])
    draws = [int(dg.release(counts, mechanism, budget=dg.Budget(1), noise=noise).value[0]) for _ in range(test.draws)]
    test.check(draws)


@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_it_finds_the_quantiles_of_many_values(unit):
    values = np.random.default_rng(0).normal(40, 10, 20_000)
    mechanism = PrivateQuantile(3, [0.9, 0.1, 0.5], bounds=(-1000, 1000), grid=20_000)
    counts = dg.count(pd.DataFrame({"age": values}), mechanism.network("age"))
    release = dg.release(counts, mechanism, budget=dg.Budget(3, unit=unit), noise=dg.testing.SeededNoise(1))
    for found, alpha in zip(release.value, (0.9, 0.1, 0.5), strict=True):
        assert found in mechanism.edges
        assert found == pytest.approx(np.quantile(values, alpha), abs=0.6)


def test_values_outside_the_bounds_count_in_the_end_bins():
    for value, alpha, edge in ((10**6, 0.9, 10.0), (-(10**6), 0.1, 0.0)):
        mechanism = PrivateQuantile(50, [alpha], bounds=(0, 10), grid=10)
        counts = dg.count(pd.DataFrame({"x": [value] * 50}), mechanism.network("x"))
        assert dg.release(counts, mechanism, budget=dg.Budget(50), noise=dg.testing.SeededNoise(1)).value == (edge,)


def test_larger_probabilities_get_larger_edges():
    counts = counted(PrivateQuantile(1, [0.5], (0, 1), grid=64).network("x"), {(30,): 2})
    for seed in range(20):
        mechanism = PrivateQuantile("0.01", [0.7, 0.2, 0.5], (0, 1), grid=64)
        high, low, middle = dg.release(counts, mechanism, budget=dg.Budget(1), noise=dg.testing.SeededNoise(seed)).value
        assert low <= middle <= high


def test_the_event_and_the_calls_do_not_depend_on_the_rows():
    mechanism = PrivateQuantile("0.6", [0.2, 0.5, 0.8], (0, 1), grid=8)
    (selection,) = mechanism.event(mechanism.network("x"), UNITS[1]).selections
    assert (selection.draws, selection.epsilon) == (3, Fraction(1, 5))

    def calls(data):
        recorded = recorded_laws(mechanism, mechanism.network("x"), data, UNITS[1])[1]
        return [(kind, scores.shape, scale) for kind, scores, scale in recorded]

    assert calls({}) == calls({(3,): 1}) == calls({(7,): 10**14})


def test_probabilities_are_read_exactly():
    assert PrivateQuantile(1, 0.1, (0, 1)).probabilities == (Fraction(1, 10),)
    assert PrivateQuantile(1, ["1/3", 0.25], (0, 1)).probabilities == (Fraction(1, 3), Fraction(1, 4))
    assert PrivateQuantile(1, [0.1 + 0.2], (0, 1)).probabilities == (Fraction(3, 10),)
    assert PrivateQuantile(0.1, [0.5], (0, 1)) == PrivateQuantile("0.1", ["1/2"], (0.0, 1.0))
    assert repr(PrivateQuantile(1, [0.5], (0, 1))) == (
        "PrivateQuantile(epsilon='1', probabilities=[0.5], bounds=(0.0, 1.0), grid=1024)"
    )


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"probabilities": []}, "probabilities"),
        ({"probabilities": [1]}, "probabilities"),
        ({"probabilities": [0]}, "a probability"),
        ({"probabilities": [1e-9]}, "probabilities"),
        ({"probabilities": [-0.5]}, "a probability"),
        ({"probabilities": [math.nan]}, "a probability"),
        ({"probabilities": [True]}, "a probability"),
        ({"bounds": (1, 1)}, "bounds"),
        ({"bounds": (2, 1)}, "bounds"),
        ({"bounds": (0, math.inf)}, "bounds"),
        ({"bounds": (math.nan, 1)}, "bounds"),
        ({"bounds": 5}, "bounds"),
        ({"bounds": (0, 1, 2)}, "bounds"),
        ({"bounds": (1.0, 1.0 + 1e-13)}, "bounds"),
        ({"grid": 1}, "grid"),
        ({"grid": 0}, "grid"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings_, message):
    with pytest.raises(dg.errors.ReleaseError, match=message):
        PrivateQuantile(**({"epsilon": 1, "probabilities": [0.5], "bounds": (0, 1)} | settings_))


def test_what_does_not_fit_is_refused_before_anything_is_charged():
    mechanism = PrivateQuantile(1, [0.5], (0, 8), grid=8)
    others = [
        dg.Network.of({"x": dg.Bins(range(9)), "y": [0, 1]}, {}),
        dg.Network.of({"x": dg.Bins(range(8))}, {}),
        dg.Network.of({"x": dg.Bins(range(9), missing=True)}, {}),
        dg.Network.of({"x": list(range(8))}, {}),
    ]
    budget = dg.Budget(1)
    for network in others:
        counts = counted(network, {(0,) * len(network.domain.names): 1})
        with pytest.raises(dg.errors.ReleaseError, match=r"mechanism\.network"):
            dg.release(counts, mechanism, budget=budget)
    fits = counted(mechanism.network("x"), {(0,): 1})
    for refused in (PrivateQuantile("1e-60", [0.5], (0, 8), grid=8), PrivateQuantile(2, [0.5], (0, 8), grid=8)):
        with pytest.raises(dg.errors.ReleaseError):
            dg.release(fits, refused, budget=budget)
    assert budget.spent == 0


def test_every_pair_of_data_sets_of_three_values_against_smiths_own_sampler():
    """The same law from intervals of equal width weighted by rank, as Smith writes it, at every edge."""
    mechanism = PrivateQuantile(2, [0.5], (0, 4), grid=4)
    for values in itertools.combinations_with_replacement(range(4), 3):
        data = {v: values.count(v) for v in values}
        (law,) = laws_of(mechanism, data, UNITS[0])
        ranks = [sum(v < edge for v in values) for edge in range(5)]
        assert law == pytest.approx(softmax(np.array([-abs(rank - 1.5) for rank in ranks])))


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("alphas", [[0.5], [0.1]], ids=str)
def test_nulls_of_a_strict_network_are_left_out_and_tell_no_more(unit, alphas):
    mechanism = PrivateQuantile(1, alphas, (0, 1), grid=4)
    network = mechanism.network("x", strict=True)
    assert network.domain.strict
    pairs = neighbours(3, 4, unit)  # at the bottom, at the top, and null
    found = {
        multiset: recorded_laws(mechanism, network, {(0,): multiset[0], (3,): multiset[1], (4,): multiset[2]}, unit)[0]
        for multiset in {multiset for pair in pairs for multiset in pair}
    }
    assert 0.3 < max(largest_log_ratio(found[one], found[other]) for one, other in pairs) <= 1
    alone = recorded_laws(mechanism, mechanism.network("x"), {(0,): 2, (3,): 1}, unit)[0]
    assert np.array_equal(found[2, 1, 1], alone)


def test_what_is_no_number_is_left_out_of_a_strict_quantile():
    mechanism = PrivateQuantile(1, [0.5], (0, 8), grid=4)
    rows = pd.DataFrame({"x": pd.Series([1.0, None, "no number", {}, 7.0], dtype=object)})
    counts = dg.count(rows, mechanism.network("x", strict=True))
    assert dg.release(counts, mechanism, budget=dg.Budget(1)).value[0] in mechanism.edges
