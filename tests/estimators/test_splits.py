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
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, KBinsDiscretizer, MinMaxScaler, OrdinalEncoder

import dpgraph as dg
from dpgraph.estimators import fitting
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


def told(run):
    """The warnings of fits with budgets of their own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run()
    assert not any(one.category is dg.errors.SplitWarning for one in caught)
    return [str(one.message) for one in caught if one.category is dg.errors.OwnBudgetWarning]


@pytest.fixture
def no_fits(monkeypatch):
    """A process that fitted nothing yet."""
    monkeypatch.setattr(fitting, "_alone", fitting._alone.copy())
    fitting._alone.clear()


@pytest.mark.usefixtures("no_fits")
def test_fits_with_budgets_of_their_own_are_counted_and_their_charges_added():
    """A search over .1 and .88 in five folds costs 4.9; it said nothing, and that the best fit had cost .1."""
    search = GridSearchCV(bayes(None), {"epsilon": [0.1, 0.88]}, cv=5, refit=False)
    said = told(lambda: search.fit(X, Y))
    assert [one.split(" of these")[0] for one in said] == ["fit number 2", "fit number 4", "fit number 8"]
    assert [one.split("add to ")[1].split(" (pure)")[0] for one in said] == [
        *("epsilon 0.2", "epsilon 0.4"),
        f"epsilon {5 * 0.1 + 3 * 0.88:g}",
    ]
    assert all("dpgraph.cross_validate" in one and "budget=dpgraph.Budget(...)" in one for one in said)


@pytest.mark.usefixtures("no_fits")
def test_every_estimator_is_counted_by_the_names_of_its_variables():
    line = dg.PrivateLinearRegression({"f": (0, 1), "g": (0, 1)}, (0, 1), inference="plug-in", draws=10)
    assert not told(lambda: (bayes(None).fit(X, Y), line.fit(X, Y)))
    assert told(lambda: line.fit(X.head(20), Y.head(20)))
    other = X.rename(columns={"f": "h"})
    assert not told(lambda: bayes(None).set_params(domain={"h": [0, 1], "g": [0, 1], "t": [0, 1]}).fit(other, Y))


@pytest.mark.usefixtures("no_fits")
def test_a_shared_budget_and_a_study_are_not_counted():
    budget, study = dg.Budget(9), bayes(None).set_params(noise=dg.testing.SeededNoise(1))
    assert not told(lambda: [bayes(budget).fit(X, Y) for _ in range(4)])
    assert not told(lambda: [study.fit(X, Y) for _ in range(4)])


@pytest.mark.usefixtures("no_fits")
def test_what_is_refused_by_a_filter_is_not_spent():
    """``error`` makes the warning an exception, before the draw."""
    model = bayes(None).fit(X, Y)
    warnings.simplefilter("error", dg.errors.OwnBudgetWarning)
    for _ in range(2):
        with pytest.raises(dg.errors.OwnBudgetWarning, match="fit number 2"):
            model.fit(X, Y)
    assert model.privacy_cost_.epsilon == 1


CODED = dg.PrivateNaiveBayes({"f": [0, 1], "g": [0, 1], "t": [0, 1]}, target="t", inference="plug-in")
LEARNS_NOTHING = [
    FunctionTransformer(),
    OrdinalEncoder(categories=[[0, 1], [0, 1]]),
    ColumnTransformer([("same", FunctionTransformer(), [0, 1])]),
    make_pipeline(FunctionTransformer(), "passthrough"),
]


@pytest.mark.parametrize("step", LEARNS_NOTHING, ids=repr)
def test_a_step_that_learns_nothing_is_no_leak(step):
    """``filterwarnings = error``."""
    assert len(make_pipeline(step, CODED).fit(X, Y).predict(X)) == len(X)


LEARNS = [
    KBinsDiscretizer(2, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    OrdinalEncoder(),
    MinMaxScaler(),
    ColumnTransformer([("scaled", MinMaxScaler(), [0, 1])]),
    make_pipeline(FunctionTransformer(), MinMaxScaler()),
]


@pytest.mark.parametrize("step", LEARNS, ids=repr)
def test_a_step_that_learned_from_rows_is_said_before_anything_is_charged(step):
    budget = dg.Budget(1)
    pipeline = Pipeline([("first", step), ("last", clone(CODED).set_params(budget=budget))])
    with pytest.raises(dg.errors.PrivacyLeakWarning, match=r"step 'first' .*fitted to the rows without noise.*Bins"):
        pipeline.fit(X, Y)
    assert not budget.events


def test_regression_in_a_pipeline_that_is_scored_is_said_as_well():
    line = dg.PrivateLinearRegression([(0, 1), (0, 1)], (0, 1), inference="plug-in", draws=10, budget=dg.Budget(9))
    with pytest.raises(dg.errors.PrivacyLeakWarning, match="'minmaxscaler'"):
        cross_val_score(make_pipeline(MinMaxScaler(), line), X, Y, cv=2, error_score="raise")


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
