"""Estimators, evaluation and cross-validation charge budgets of every accounting by their own events."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.privacy.composition import rho_of

DOMAIN = dg.Domain.of({"f": [0, 1], "t": [0, 1]})
rng = np.random.default_rng(0)
T = rng.integers(0, 2, 300)
X, Y = pd.DataFrame({"f": np.where(rng.random(300) < 0.8, T, 1 - T)}), pd.Series(T, name="t")
NEEDS_PLD = "the numerical accountant, dp-accounting, is an optional extra"


def zcdp(epsilon=10):
    return dg.Budget(epsilon, "1e-6", accounting="zcdp")


def test_a_fit_and_two_evaluations_are_charged_their_rhos():
    """The Gaussian evaluation claims the budget's delta each time: deltas do not add where rhos do."""
    budget = zcdp()
    model = dg.PrivateNaiveBayes(DOMAIN, epsilon="0.5", budget=budget).fit(X, Y)
    assert budget.rho - budget.remaining_rho == rho_of(model.release_.event)
    assert budget.rho - budget.remaining_rho <= model.release_.event.rho
    for _ in range(2):
        before = budget.remaining_rho
        judged = dg.evaluate(model, X, Y, epsilon=1, budget=budget, mechanism="gaussian")
        assert (judged.release.event.delta, judged.release.event.epsilon) == (Fraction(1, 10**6), 1)
        assert before - budget.remaining_rho == judged.release.event.rho
    assert 0 < budget.spent < 10


def test_a_fit_that_takes_what_remains_fits():
    budget = zcdp(1)
    dg.PrivateNaiveBayes(DOMAIN, epsilon="0.1", budget=budget).fit(X, Y)
    epsilon = budget.remaining
    assert epsilon < Fraction(9, 10)
    dg.PrivateNaiveBayes(DOMAIN, epsilon=epsilon, budget=budget).fit(X, Y)
    with pytest.raises(dg.errors.BudgetExceededError, match="enough for a pure release of epsilon"):
        dg.PrivateNaiveBayes(DOMAIN, epsilon="0.9", budget=budget).fit(X, Y)


def test_cross_validation_is_charged_the_rho_of_its_parts():
    budget = zcdp()
    found = dg.cross_validate(
        dg.PrivateNaiveBayes(DOMAIN, inference="plug-in"), X, Y, folds=5, epsilon=1, budget=budget
    )
    parts = 4 * found.training_epsilon**2 + (1 - 4 * found.training_epsilon) ** 2
    assert budget.rho - budget.remaining_rho == parts / 2 < Fraction(1, 9)


def test_cross_validation_with_a_delta_has_no_rho_and_is_refused_before_anything_is_charged():
    budget = zcdp()
    model = dg.PrivateNaiveBayes(DOMAIN, mechanism=dg.GaussianMechanism(rho=1, delta="1e-6"), inference="plug-in")
    with pytest.raises(dg.errors.ReleaseError, match="claims a delta and no rho"):
        dg.cross_validate(model, X, Y, folds=3, epsilon=1, delta="1e-7", budget=budget)
    assert budget.events == ()
