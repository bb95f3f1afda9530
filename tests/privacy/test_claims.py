"""What an event claims is at least what its noise costs, in exact fractions (promise.md S19, S20)."""

import math
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import (
    DiscreteGaussian,
    DiscreteLaplace,
    Joint,
    Measurement,
    Movement,
    Selection,
    SumZeroLaplace,
)
from dpgraph.privacy.noise import epsilon_of_rho
from dpgraph.privacy.records import (
    Event,
    PrivacyUnit,
    Provenance,
    Release,
    _log_delta,
    conversion_problem,
    exceeds,
    total_up,
)
from tests.tiers import examples

TABLE = Movement(2, 2, moved_cells=2, fixed_total=True)
SUM = Movement(2, 4)


def laplace(scale, movement=SUM, cells=3):
    return Measurement(("x",), cells, DiscreteLaplace(scale), movement)


positive = st.fractions(Fraction(1, 1000), 1000)


@settings(max_examples=examples(300), deadline=None)
@given(st.lists(positive, max_size=20), st.integers(-2, 2))
def test_sums_are_compared_with_a_claim_exactly(parts, off):
    total = sum(parts, Fraction(0))
    for step in (Fraction(1, 10**6), Fraction(1, 2**300)):
        assert exceeds(parts, total + off * step) == (off < 0)
    assert total <= total_up(parts) <= total + Fraction(1, 2**240)


LEAST = Fraction(1, 2**90)
PURE = [
    ([laplace(4.0)], None, (), Fraction(1, 2)),
    ([laplace(3.0)] * 3, None, (), Fraction(2)),
    ([laplace(4.0, TABLE), laplace(0.1 + 0.2, TABLE)], None, (), Fraction(1, 2) + 2 / Fraction(0.1 + 0.2)),
    ([Measurement(("x",), 3, SumZeroLaplace(8.0), TABLE)], None, (), Fraction(1, 4)),
    ([laplace(4.0)] * 3, Joint((1, 1, 1), 3), (), Fraction(3, 4)),
    ([laplace(4.0), laplace(2.0)], Joint((1, 2), 3), (), Fraction(3, 4)),
    ([laplace(4.0), laplace(1.0)], Joint((1, 2), 3), (), Fraction(3, 2)),
    ([laplace(4.0)] * 2, Joint((1, 1), 99), (), Fraction(1)),
    ([], None, (Selection("softmax", Fraction(1, 3), 3),), Fraction(1)),
    ([laplace(4.0)], None, (Selection("permute-and-flip", Fraction(1, 3)),), Fraction(5, 6)),
]


@pytest.mark.parametrize(("measured", "joint", "selections", "epsilon"), PURE)
def test_a_pure_claim_is_refused_below_what_the_noise_costs_and_not_at_it(measured, joint, selections, epsilon):
    event = Event("m", epsilon, measurements=tuple(measured), selections=selections, joint=joint)
    assert replace(event, epsilon=2 * epsilon).epsilon == 2 * epsilon
    with pytest.raises(ReleaseError, match=r"m claims epsilon .*, but its noise costs epsilon"):
        replace(event, epsilon=epsilon - LEAST)


CONCENTRATED = [
    ([laplace(4.0)], (), Fraction(4, 32)),
    ([laplace(4.0, TABLE)], (), Fraction(2, 32)),
    ([Measurement(("x",), 3, SumZeroLaplace(4.0), TABLE)], (), Fraction(4, 32)),
    ([Measurement(("x",), 3, DiscreteGaussian(4.0), TABLE)] * 3, (), Fraction(6, 32)),
    ([], (Selection("softmax", Fraction(1, 3), 3),), Fraction(1, 24)),
    ([], (Selection("permute-and-flip", Fraction(1, 3), 3),), Fraction(1, 6)),
]


@pytest.mark.parametrize(("measured", "selections", "rho"), CONCENTRATED)
def test_a_claimed_rho_is_refused_below_what_the_noise_costs_and_not_at_it(measured, selections, rho):
    event = Event("m", Fraction(9), Fraction(1, 10**6), tuple(measured), rho, selections)
    with pytest.raises(ReleaseError, match=r"m claims rho .*, but its noise costs rho"):
        replace(event, rho=rho - LEAST)


@settings(max_examples=examples(150), deadline=None)
@given(st.fractions(Fraction(1, 10**4), 20, max_denominator=10**6), st.integers(2, 12))
def test_the_conversion_of_rho_is_opendps_to_nine_digits(rho, digits):
    """OpenDP rounds up, so its epsilon passes; a part in 10^5 less of epsilon does not."""
    delta = Fraction(1, 10**digits)
    epsilon = epsilon_of_rho(rho, delta)
    if epsilon == 0:
        return
    event = Event("m", epsilon, delta, rho=rho)
    assert conversion_problem(event, rho, None) is None
    less = replace(event, epsilon=epsilon * (1 - Fraction(1, 10**5)))
    assert "claims epsilon" in conversion_problem(less, rho, None)
    assert "never purely private" in conversion_problem(replace(event, delta=Fraction(0)), rho, None)
    assert abs(_log_delta(float(rho), float(epsilon)) / math.log(delta) - 1) < 1e-6


@pytest.mark.parametrize(
    "numbers",
    [(-1, 1), (1.0, 1), (True, True), (2, 1), (2, 5), (0, 1), (1, 0), (2, 4, 2), (2, 2, 1), (2, 2, True), (2, 2, 2, 1)],
)
def test_what_whole_numbers_cannot_do_is_no_movement(numbers):
    with pytest.raises(ReleaseError, match="whole numbers"):
        Movement(*numbers)


@pytest.mark.parametrize(
    ("cells", "law", "movement", "message"),
    [
        (1, DiscreteLaplace(1.0), Movement(2, 2, 2), "1 cells, which cannot move like"),
        (1, DiscreteLaplace(1.0), Movement(3, 5), "1 cells, which cannot move like"),
        (2, SumZeroLaplace(1.0), Movement(2, 2, 2), "sums to zero would show the total"),
        (2, DiscreteLaplace(0.0), TABLE, "finite scale"),
        (2, DiscreteLaplace(math.inf), TABLE, "finite scale"),
        (2, "laplace", TABLE, "noise law"),
        (2, DiscreteLaplace(1.0), 2, "Movement"),
        (True, DiscreteLaplace(1.0), Movement(1, 1, 1), "cells"),
    ],
)
def test_a_measurement_that_cannot_be_is_refused(cells, law, movement, message):
    with pytest.raises(ReleaseError, match=message):
        Measurement(("x",), cells, law, movement)


@pytest.mark.parametrize("joint", [((), 1), ((1, 0), 1), ((1, 1), 0), ((1, True), 1), ((1.0,), 1)])
def test_joint_weights_are_whole_numbers(joint):
    with pytest.raises(ReleaseError, match="joint weights"):
        Joint(*joint)
    with pytest.raises(ReleaseError, match="other measurements"):
        Event("m", Fraction(9), measurements=(laplace(1.0),), joint=Joint((1, 1), 2))


@pytest.mark.parametrize("kind", [lambda *parts: Release("value", *parts), Provenance], ids=["release", "provenance"])
def test_a_record_fits_its_unit(kind):
    """All rows of a person may be alike, so everything moves as many times as far as by one row."""
    one = Event("m", Fraction(1), measurements=(laplace(4.0, TABLE),))
    two = Event("m", Fraction(1), measurements=(laplace(4.0, Movement(4, 8, fixed_total=True)),))
    assert kind(one, PrivacyUnit()).event == one
    assert kind(two, PrivacyUnit("replace", 2)).event == two
    for event, rows in ((one, 2), (two, 3), (two, 100)):
        with pytest.raises(ReleaseError, match="does not fit a unit of"):
            kind(event, PrivacyUnit("replace", rows))
    for parts in ((one, "replace"), ("event", PrivacyUnit()), (one, PrivacyUnit(), 1)):
        with pytest.raises(ReleaseError, match="a record has an Event"):
            kind(*parts)


@settings(max_examples=examples(100), deadline=None)
@given(
    st.fractions(Fraction(1, 100), 20, max_denominator=10**7),
    st.integers(1, 3),
    st.sampled_from(["replace", "add-remove"]),
)
def test_the_rho_of_laplace_tables_is_rounded_up(epsilon, rows, neighbours):
    network = dg.Network.of({"a": [0, 1, 2], "b": [0, 1], "c": [0, 1]}, {"b": ["a"]})
    unit = PrivacyUnit(neighbours, rows)
    event = dg.LaplaceMechanism(epsilon, tables="maximal").event(network, unit)
    true = sum(
        Fraction(m.movement.l1**2 if isinstance(m.law, SumZeroLaplace) else m.movement.l2_squared)
        / (2 * Fraction(m.law.scale) ** 2)
        for m in event.measurements
    )
    assert true <= event.rho <= true * (1 + Fraction(1, 10**11))
    assert exceeds([m.sensitivity / Fraction(m.law.scale) for m in event.measurements], epsilon) is False


@pytest.mark.parametrize("epsilon", ["0.3", "1", "2.7"])
@pytest.mark.parametrize("sweeps", [3, 40, 700])
def test_the_rho_of_gibbs_updates_is_rounded_up(epsilon, sweeps):
    network = dg.Network.of({"region": ["N", "S"], "month": [1, 2], "kind": ["a", "b"]}, {"kind": ["region", "month"]})
    event = dg.papers.GibbsSample(epsilon, 2, sweeps, delta="1e-6").event(network, PrivacyUnit())
    (chosen,) = event.selections
    true = chosen.draws * chosen.epsilon**2 / 8
    assert true <= event.rho <= true * (1 + Fraction(1, 10**11))
