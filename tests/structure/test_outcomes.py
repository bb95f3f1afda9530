"""How far one person's rows move released outcomes: by enumeration never more than is said, and as much."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.statistics.moments import classifier_outcomes, entry_outcomes, regression_outcomes
from dpgraph.structure.moments import STEPS, Classification, Entries, NoisyOutcomes, OutcomeDescription, Regression

UNITS = [dg.PrivacyUnit(relation, rows) for relation in ("replace", "add-remove") for rows in (1, 3)]
BINARY = Classification(("no", "yes"))
TASKS = {
    "binary": BINARY,
    "accuracy alone": Classification(("no", "yes"), scores=("accuracy",)),
    "three classes": Classification((0, 1, 2), largest_loss=2.0, edges=(0.5, 0.8)),
    "scores of two": Classification(("no", "yes"), edges=(0.7,), scores=("accuracy", "auc")),
    "one bin": Classification((0, 1, 2), edges=(), scores=("accuracy", "reliability")),
    "regression": Regression(-1.0, 3.0),
    "entries": Entries(12),
}
SIMPLEX = {
    2: [(1, 0), (0.6, 0.4), (0, 1)],
    3: [(1, 0, 0), (0.2, 0.2, 0.6), (1 / 3, 1 / 3, 1 / 3), (0, 0.1, 0.9), (0, 0, 1)],
}


def kinds(task):
    """Rows of every kind that matters: what each adds to the sums, the extremes among them."""
    if isinstance(task, Classification):
        pairs = itertools.product(range(len(task.classes)), SIMPLEX[len(task.classes)])
        return [classifier_outcomes(task, np.array([t]), np.array([p], float)) for t, p in pairs]
    if isinstance(task, Regression):
        pairs = itertools.product((-5.0, -1.0, 1.0, 3.0), (-1.0, 0.5, 3.0))
        return [regression_outcomes(task, np.array([t]), np.array([p])) for t, p in pairs]
    return [entry_outcomes(task, np.array([value])) for value in (0.0, -1.0, -5.0, -700.0)]


def moves(task, unit):
    """What every way of changing one person's rows adds to what is released, by kinds of rows."""
    rows = unit.rows_per_person
    added = [(one.description.released(one.sensitive_sums, 1, unit)) for one in kinds(task)]
    sets = [sum(some) for some in itertools.combinations_with_replacement(added, rows)]
    if unit.n_is_public:
        return [one - other for one in sets for other in sets]
    return [sum(some) for many in range(1, rows + 1) for some in itertools.combinations_with_replacement(added, many)]


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_no_person_moves_more_than_is_said_and_one_moves_as_much(task, unit):
    description = OutcomeDescription(task)
    moved = np.array(moves(task, unit))
    assert np.abs(moved).sum(axis=1).max() == description.sensitivity(unit)
    assert max(int(one @ one) for one in moved) == description.squared_sensitivity(unit)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_each_block_moves_as_it_says(task, unit):
    description, start = OutcomeDescription(task), 0
    moved = np.abs(np.array(moves(task, unit)))
    for block in description.parts:
        end = start + block.kept(unit)
        largest = Fraction(int(moved[:, start:end].sum(axis=1).max()), block.weight * STEPS)
        assert largest == block.moved(unit) * unit.rows_per_person
        start = end


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_largest_log_ratio_of_the_release_is_epsilon(task, unit):
    """The output's law is a product of exp(-||y - s||_1 / scale): the largest log ratio is ||s - s'||_1 / scale."""
    (measured,) = dg.LaplaceMechanism("0.7").event(OutcomeDescription(task), unit).measurements
    worst = Fraction(int(np.abs(np.array(moves(task, unit))).sum(axis=1).max())) / Fraction(measured.law.scale)
    assert worst <= Fraction("0.7")
    assert worst >= Fraction("0.7") * Fraction(9999, 10000)


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_the_zero_concentrated_loss_of_gaussian_noise_is_rho(task, unit):
    mechanism = dg.GaussianMechanism(delta="1e-6", rho="1/50")
    (measured,) = mechanism.event(OutcomeDescription(task), unit).measurements
    worst = Fraction(max(int(one @ one) for one in moves(task, unit))) / (2 * Fraction(measured.law.scale) ** 2)
    assert Fraction("1/50") * Fraction(9999, 10000) <= worst <= Fraction("1/50")


def simplex(size):
    return st.lists(st.floats(0, 1), min_size=size, max_size=size).map(
        lambda raw: np.array(raw) / sum(raw) if sum(raw) > 0 else np.full(size, 1 / size)
    )


@given(st.tuples(st.integers(0, 2), simplex(3)), st.tuples(st.integers(0, 2), simplex(3)), st.sampled_from(UNITS[::2]))
def test_any_two_rows_are_within_the_sensitivity(one, other, unit):
    task = TASKS["three classes"]
    first, second = (classifier_outcomes(task, np.array([truth]), law[None]) for truth, law in (one, other))
    description = first.description
    a, b = (description.released(row.sensitive_sums, 1, unit) for row in (first, second))
    assert np.abs(a - b if unit.n_is_public else a).sum() <= description.sensitivity(unit)


def test_the_number_of_right_predictions_moves_by_one_under_both_relations():
    (right, *_) = BINARY.parts
    assert [right.moved(unit) for unit in UNITS[::2]] == [1, 1]
    assert [right.kept(unit) for unit in UNITS[::2]] == [1, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"classes": ("a",)}, "two classes"),
        ({"classes": range(1025)}, "1,025 classes have more than 1,048,576 confusions"),
        ({"largest_loss": 0}, "largest_loss"),
        ({"largest_loss": True}, "largest_loss"),
        ({"largest_loss": float("inf")}, "largest_loss"),
        ({"edges": (0.4,)}, "edges"),
        ({"edges": (0.7, 0.7)}, "edges"),
        ({"edges": (0.7, 1.0)}, "edges"),
        ({"edges": ("x",)}, "edges"),
        ({"scores": ("area",)}, "scores"),
        ({"scores": ()}, "scores"),
        ({"scores": "accuracy"}, "scores"),
    ],
    ids=repr,
)
def test_settings_of_a_classification_that_are_none(settings, message):
    with pytest.raises(dg.errors.DomainError, match=message):
        Classification(**({"classes": ("no", "yes")} | settings))


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0), (0.0, float("inf")), (0.0, 1.0, 0.0), (0.0, 1.0, -1)])
def test_bounds_of_a_regression_that_are_none(bounds):
    with pytest.raises(dg.errors.DomainError):
        Regression(*bounds)


def test_many_classes_are_judged_without_confusions_or_ranks():
    assert "auc" not in Classification(tuple(range(13))).scores
    assert "auc" in Classification(tuple(range(12))).scores
    assert len(Classification(tuple(range(5000)), scores=("accuracy", "brier")).classes) == 5000


def test_defaults_are_what_is_documented():
    assert BINARY.largest_loss == pytest.approx(np.log(100))
    assert BINARY.bins[0] == (0.5, 0.6)
    assert BINARY.bins[-1] == (0.99, 1.0)
    assert BINARY.cuts == (0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99)
    assert Classification((0, 1, 2, 3)).bins[0] == (0.25, 0.3)
    assert Regression(-1.0, 3.0).largest_error == 2.0
    assert Entries(12).largest_loss == pytest.approx(np.log(600))


def test_a_release_of_another_shape_is_none():
    law = dg.release(kinds(BINARY)[0], dg.LaplaceMechanism(1), budget=dg.Budget(1)).value.law
    with pytest.raises(dg.errors.ReleaseError, match="shape"):
        NoisyOutcomes(OutcomeDescription(BINARY), np.zeros(3, np.int64), law, 5)
