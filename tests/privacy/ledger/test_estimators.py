"""Estimators with ``budget=`` a ledger's: every fit and fold is a row, in this process and in joblib's."""

from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, cross_val_score

import dpgraph as dg
from tests.privacy.ledger.charging import open_

RNG = np.random.default_rng(16)
LOG = dg.Domain.of({"region": ["N", "S"], "month": [1, 2], "kind": ["a", "b"]})
ROWS = pd.DataFrame(
    {
        "region": RNG.choice(["N", "S"], 60),
        "month": RNG.choice([1, 2], 60),
        "kind": RNG.choice(["a", "b"], 60),
        "age": RNG.uniform(0, 100, 60),
        "pay": RNG.uniform(0, 10, 60),
    }
)


def naive_bayes(budget, epsilon="0.1"):
    return dg.PrivateNaiveBayes(LOG, epsilon, inference="plug-in", budget=budget)


def regression(budget, epsilon="0.1"):
    return dg.PrivateLinearRegression({"age": (0, 100)}, (0, 10), epsilon, inference="plug-in", draws=5, budget=budget)


def hmm(budget, epsilon="0.1"):
    quick = {"iterations": 1, "burn_in": 1, "chains": 1, "inference": "plug-in"}
    return dg.PrivateHMM(2, LOG, epsilon, sequence="region", time="month", budget=budget, **quick)


FITS = {
    "naive Bayes": lambda budget: naive_bayes(budget).fit(ROWS[["region", "month"]], ROWS["kind"]),
    "regression": lambda budget: regression(budget).fit(ROWS[["age"]], ROWS["pay"]),
    "hidden Markov": lambda budget: hmm(budget).fit(ROWS[["region", "month", "kind"]]),
}


@pytest.mark.parametrize("name", FITS)
def test_a_fit_is_a_row_and_one_too_many_is_refused(name, url):
    budget = open_(url, "0.1", who="ann", purpose=name)
    fitted = FITS[name](budget)
    (row,) = budget.ledger.rows_of(fitted.release_)
    assert (row.number, row.who, row.purpose) == (1, "ann", name)
    assert fitted.model_.provenance.receipts == (row.digest,)
    assert budget.remaining == 0
    head = budget.ledger.head
    with pytest.raises(dg.errors.BudgetExceededError, match="nothing was charged"):
        FITS[name](open_(url))
    assert budget.ledger.head == head
    assert budget.ledger.verify(release=fitted.release_).ok


def test_a_cross_validation_is_charged_what_it_states(url):
    budget = open_(url, "0.6")
    model = dg.PrivateNaiveBayes(LOG, inference="plug-in")
    folds = {"folds": 2, "epsilon": "0.5", "budget": budget}
    dg.cross_validate(model, ROWS[["region", "month"]], ROWS["kind"], **folds)
    assert budget.remaining == Fraction(1, 10)
    assert budget.ledger.verify().ok
    with pytest.raises(dg.errors.BudgetExceededError):
        dg.cross_validate(model, ROWS[["region", "month"]], ROWS["kind"], **folds)
    assert budget.remaining == Fraction(1, 10)


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.SplitWarning")
def test_folds_in_two_worker_processes_are_charged_exactly(sqlite_url):
    budget = open_(sqlite_url, "0.3")
    cross_val_score(naive_bayes(budget), ROWS[["region", "month"]], ROWS["kind"], cv=3, n_jobs=2)
    assert budget.remaining == 0
    assert len(budget.events) == 3
    assert budget.ledger.verify().ok


@pytest.mark.filterwarnings("ignore")
def test_a_search_that_needs_more_than_there_is_charges_what_there_is(sqlite_url):
    """Six fits and a last one for three: the rest are refused, and counted as scikit-learn counts failed fits."""
    budget = open_(sqlite_url, "0.3")
    search = GridSearchCV(naive_bayes(budget), {"prior": [0.5, 1.0]}, cv=3, n_jobs=2)
    with pytest.raises((dg.errors.BudgetExceededError, ValueError)):
        search.fit(ROWS[["region", "month"]], ROWS["kind"])
    assert budget.remaining == 0
    assert len(budget.events) == 3


def test_a_budget_in_memory_is_refused_by_worker_processes():
    budget = dg.Budget(1)
    with pytest.raises(ValueError, match=r"All the 3 fits failed(.|\n)*it cannot spend(.|\n)*Budget\.open"):
        cross_val_score(naive_bayes(budget), ROWS[["region", "month"]], ROWS["kind"], cv=3, n_jobs=2)
    assert budget.spent == 0
