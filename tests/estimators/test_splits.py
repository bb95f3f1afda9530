"""The warning of fits on different rows: once, by identity, before anything is charged, and never by content."""

import gc
import warnings
import weakref

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score

import dpgraph as dg
from dpgraph.estimators.fitting import warn_of_other_rows

DOMAIN = dg.Domain.of({"f": [0, 1], "g": [0, 1], "t": [0, 1]})
FRAME = pd.DataFrame({"f": [0, 1] * 20, "g": [0, 0, 1, 1] * 10, "t": [0, 1, 1, 1] * 10})
X, Y = FRAME[["f", "g"]], FRAME["t"]
RIGHT_CALL = r"other rows before.*charged 5 lost 12.*dpgraph\.cross_validate.*dpgraph\.evaluate"


def spent_budget():
    """A budget that paid for something."""
    budget = dg.Budget(10)
    budget.charge(dg.PrivateNaiveBayes(DOMAIN).fit(X, Y).release_.event)
    return budget


def bayes(budget):
    return dg.PrivateNaiveBayes(DOMAIN, epsilon=1, inference="plug-in", budget=budget, target="t")


def test_the_second_fit_on_other_rows_warns_once_with_the_numbers_and_the_right_call():
    budget = dg.Budget(10)
    bayes(budget).fit(X, Y)
    with pytest.warns(dg.errors.SplitWarning, match=RIGHT_CALL) as caught:
        bayes(budget).fit(X.head(20), Y.head(20))
    assert [one.filename for one in caught if one.category is dg.errors.SplitWarning] == [__file__]
    bayes(budget).fit(X.tail(20), Y.tail(20))
    bayes(budget).fit(X, Y)
    assert budget.spent == 4


def test_it_warns_before_anything_is_charged():
    """``filterwarnings = error`` makes it an exception here."""
    budget = dg.Budget(10)
    bayes(budget).fit(X, Y)
    with pytest.raises(dg.errors.SplitWarning):
        bayes(budget).fit(X.head(20), Y.head(20))
    assert budget.spent == 1


def test_every_estimator_warns():
    domain = dg.Domain.of({"region": ["N", "S"], "month": [1, 2], "kind": [0, 1]})
    log = pd.DataFrame({"region": ["N", "S"] * 20, "month": [1, 2] * 20, "kind": [0, 1] * 20})
    budget = dg.Budget(10)
    markov = dg.PrivateHMM(2, domain, iterations=4, burn_in=2, budget=budget)
    line = dg.PrivateLinearRegression(
        {"f": (0, 1), "g": (0, 1)}, (0, 1), inference="plug-in", draws=10, budget=dg.Budget(10)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
        markov.fit(log)
        with pytest.warns(dg.errors.SplitWarning, match=RIGHT_CALL):
            markov.fit(log.head(20))
    line.fit(X, Y)
    with pytest.warns(dg.errors.SplitWarning, match=RIGHT_CALL):
        line.fit(X.head(20), Y.head(20))


def test_the_same_rows_again_are_no_split():
    budget = dg.Budget(10)
    bayes(budget).fit(X, Y)
    bayes(budget).fit(X, Y)
    clone(bayes(budget)).fit(X.copy(), 1 - Y)
    narrow = dg.PrivateLinearRegression({"f": (0, 1)}, (0, 1), inference="plug-in", draws=10, budget=budget)
    narrow.fit(FRAME[["f"]], FRAME["t"])
    narrow.fit(FRAME.drop(columns=["g", "t"]), FRAME["g"])
    assert budget.spent == 5


@pytest.mark.parametrize("rows", [X.to_numpy(), pl.from_pandas(X), "log.csv"], ids=["array", "polars", "path"])
def test_one_object_or_path_is_the_same_rows(rows):
    budget = spent_budget()
    for _ in range(3):
        warn_of_other_rows(budget, rows)


@pytest.mark.parametrize(
    ("rows", "others"),
    [
        (X.to_numpy(), X.to_numpy()),
        (X, X.iloc[::-1]),
        (X, pd.DataFrame(X.to_numpy(), columns=X.columns)),
        (pl.from_pandas(X), pl.from_pandas(X)),
        ("log.csv", "other.csv"),
        (X, X.to_numpy()),
        (X, "log.csv"),
        ([[0, 1]], [[0, 1]]),
    ],
    ids=["array", "order", "frame", "polars", "path", "kind", "frame and path", "lists"],
)
def test_equal_content_in_another_object_counts_as_other_rows(rows, others):
    """What it says must not depend on what the rows hold."""
    budget = spent_budget()
    warn_of_other_rows(budget, rows)
    with pytest.warns(dg.errors.SplitWarning):
        warn_of_other_rows(budget, others)


def test_rows_that_are_gone_are_not_mistaken_for_new_ones():
    budget = spent_budget()
    for position in range(5):
        rows = np.zeros((10, 2))
        if position == 1:
            with pytest.warns(dg.errors.SplitWarning):
                warn_of_other_rows(budget, rows)
            return
        warn_of_other_rows(budget, rows)
        del rows
        gc.collect()


@pytest.mark.proof
def test_no_rows_and_no_budget_are_kept_alive():
    budget, rows = spent_budget(), X.head(20)
    warn_of_other_rows(budget, rows)
    kept, known = weakref.ref(rows), weakref.ref(budget)
    del rows
    gc.collect()
    assert kept() is None
    del budget
    gc.collect()
    assert known() is None


def test_a_fit_that_was_refused_paid_for_nothing():
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.BudgetExceededError):
        dg.PrivateNaiveBayes(DOMAIN, epsilon=2, budget=budget).fit(X.head(20), Y.head(20))
    bayes(budget).fit(X, Y)


def test_fits_with_budgets_of_their_own_are_no_split():
    model = dg.PrivateNaiveBayes(DOMAIN, inference="plug-in")
    model.fit(X, Y)
    model.fit(X.head(20), Y.head(20))


def test_splitters_of_scikit_learn_are_warned_of():
    for run in (
        lambda budget: cross_val_score(bayes(budget), X, Y, cv=3),
        lambda budget: GridSearchCV(bayes(budget), {"prior": [1.0, 2.0]}, cv=2).fit(X, Y),
        lambda budget: BaggingClassifier(bayes(budget), n_estimators=3).fit(X.to_numpy(), Y),
    ):
        with pytest.warns(dg.errors.SplitWarning, match=RIGHT_CALL) as caught:
            run(dg.Budget(100))
        assert sum(one.category is dg.errors.SplitWarning for one in caught) == 1


OTHERS = {"polars": pl.from_pandas, "arrow": pa.Table.from_pandas, "array": pd.DataFrame.to_numpy}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_same_rows_in_another_container_are_said_to_count_as_other(other):
    """Content is never compared, so the warning says what it may be."""
    budget = dg.Budget(10)
    bayes(budget).fit(X, Y)
    with pytest.warns(dg.errors.SplitWarning, match="the same rows in another table or array count as other"):
        bayes(budget).fit(other(X), Y)
