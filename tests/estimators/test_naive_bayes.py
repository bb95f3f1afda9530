"""The scikit-learn face: its protocol, what it spends and when, and what it refuses before it spends."""

import copy
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpgraph as dg
from tests.estimators.sklearn_checks import checks_of

DOMAIN = dg.Domain.of({"f": ["x", "y", "z"], "g": dg.Bins([0, 1, 2, 3]), "t": ["no", "yes"]})


def rows(n=240, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.choice(["no", "yes"], n, p=[0.4, 0.6])
    f = np.where(rng.random(n) < 0.8, np.where(label == "yes", "x", "y"), "z")
    g = np.where(label == "yes", rng.uniform(0, 2, n), rng.uniform(1, 3, n))
    return pd.DataFrame({"f": f.astype(object), "g": g}), pd.Series(label, name="t", dtype=object)


X, Y = rows()


@pytest.mark.proof
@pytest.mark.parametrize(
    ("estimator", "check"), checks_of(dg.PrivateNaiveBayes(domain="infer", noise=dg.testing.SeededNoise(0)))
)
def test_scikit_learns_own_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.PrivacyLeakWarning)
        check(estimator)


def test_reading_the_domain_off_the_rows_is_asked_for_by_name_and_warned_of():
    with pytest.warns(dg.errors.PrivacyLeakWarning, match="not differentially private"):
        fitted = dg.PrivateNaiveBayes(domain="infer", epsilon=50, noise=dg.testing.SeededNoise(1)).fit(X, Y)
    assert list(fitted.classes_) == ["no", "yes"]
    assert fitted.score(X, Y) > 0.8


def test_without_a_domain_nothing_is_fitted_and_nothing_is_charged():
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError, match=r"needs domain=\.\.\."):
        dg.PrivateNaiveBayes(budget=budget).fit(X, Y)
    assert budget.events == ()


def test_one_fit_is_one_charge():
    budget = dg.Budget("1.5", unit=dg.PrivacyUnit("add-remove"))
    estimator = dg.PrivateNaiveBayes(DOMAIN, epsilon="0.5", budget=budget)
    for fits in (1, 2, 3):
        estimator.fit(X, Y)
        assert budget.spent == fits * budget.epsilon / 3
        assert len(budget.events) == fits
        estimator.predict(X)
        estimator.predict_proba(X)
        estimator.score(X, Y)
        assert budget.spent == fits * budget.epsilon / 3
    assert estimator.release_.event == budget.events[-1]
    assert estimator.release_.unit == budget.unit
    assert str(estimator.privacy_cost_) == "epsilon 0.5 (pure)"
    fitted = estimator.model_
    with pytest.raises(dg.errors.BudgetExceededError):
        estimator.fit(X, Y)
    assert estimator.model_ is fitted
    assert budget.remaining == 0


def test_without_a_budget_each_fit_costs_what_it_says():
    fitted = dg.PrivateNaiveBayes(DOMAIN, epsilon=0.1, unit=dg.PrivacyUnit("add-remove", 3)).fit(X, Y)
    assert str(fitted.privacy_cost_) == "epsilon 0.1 (pure)"
    assert fitted.release_.unit == dg.PrivacyUnit("add-remove", 3)
    assert fitted.release_.value.n is None
    assert fitted.release_.private is True


def test_a_mechanism_value_spends_its_own_epsilon():
    budget = dg.Budget(3)
    mechanism = dg.LaplaceMechanism(2, tables="families")
    fitted = dg.PrivateNaiveBayes(DOMAIN, mechanism=mechanism, budget=budget).fit(X, Y)
    assert budget.spent == 2
    assert [m.table for m in fitted.release_.event.measurements] == [("f", "t"), ("g", "t"), ("t",)]


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, clone])
def test_copies_and_clones_share_the_budget(make):
    budget = dg.Budget(1)
    other = make(dg.PrivateNaiveBayes(DOMAIN, epsilon=1, budget=budget))
    assert other.budget is budget
    other.fit(X, Y)
    assert budget.remaining == 0


@pytest.mark.proof
def test_each_fit_of_a_splitter_is_charged_which_is_not_what_it_loses():
    """Bookkeeping only: tests/test_splits.py has the loss of such folds, which is larger."""
    budget = dg.Budget(5)
    with pytest.warns(dg.errors.SplitWarning):
        scores = cross_val_score(dg.PrivateNaiveBayes(DOMAIN, budget=budget), X, Y, cv=5, error_score="raise")
    assert len(scores) == 5
    assert budget.spent == 5
    with pytest.raises(dg.errors.BudgetExceededError):
        cross_val_score(dg.PrivateNaiveBayes(DOMAIN, epsilon=1, budget=budget), X, Y, cv=2, error_score="raise")


@pytest.mark.proof
@pytest.mark.parametrize("backend", ["loky", "multiprocessing"])
def test_a_search_in_other_processes_spends_nothing_uncounted(backend):
    """A copy of the budget in a worker could spend the same epsilon again, so it is not let out."""
    import joblib

    budget = dg.Budget(100)
    search = GridSearchCV(dg.PrivateNaiveBayes(DOMAIN, budget=budget), {"prior": [1.0, 2.0]}, cv=2, n_jobs=2)
    with joblib.parallel_backend(backend), pytest.raises(ValueError, match="cannot spend"):
        search.fit(X, Y)
    assert budget.spent == 0


@pytest.mark.proof
def test_each_fit_of_a_search_in_threads_is_charged():
    """Bookkeeping only, as above."""
    import joblib

    budget = dg.Budget(100)
    search = GridSearchCV(dg.PrivateNaiveBayes(DOMAIN, epsilon=1, budget=budget), {"prior": [1.0, 2.0]}, cv=3, n_jobs=2)
    with joblib.parallel_backend("threading"), pytest.warns(dg.errors.SplitWarning):
        search.fit(X, Y)
    assert budget.spent == 2 * 3 + 1


def test_an_estimator_is_pickled_and_its_budget_cannot_spend_there():
    copy = pickle.loads(pickle.dumps(dg.PrivateNaiveBayes(DOMAIN, budget=dg.Budget(1))))
    with pytest.raises(dg.errors.ReleaseError, match="cannot spend"):
        copy.fit(X, Y)
    fitted = dg.PrivateNaiveBayes(DOMAIN).fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    assert again.release_ == fitted.release_


@pytest.mark.proof
def test_a_random_state_never_reaches_the_noise():
    """Two fits on the same rows with the same state: equal noise in all cells would have a chance below 1e-9."""
    one, other = (dg.PrivateNaiveBayes(DOMAIN, epsilon=0.01, random_state=0).fit(X, Y) for _ in range(2))
    assert one.release_ != other.release_
    assert one.release_.private


def test_seeded_noise_repeats_itself_and_is_marked():
    estimator = dg.PrivateNaiveBayes(DOMAIN, noise=dg.testing.SeededNoise(3))
    first, second = estimator.fit(X, Y).release_, estimator.fit(X, Y).release_
    assert first == second
    assert not first.private


BAD = [
    ({"epsilon": 0}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": -1}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": math.nan}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": math.inf}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": True}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": "one"}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": None}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": 4}, dg.errors.BudgetExceededError, "costs epsilon 4"),
    ({"epsilon": "1e-20"}, dg.errors.ReleaseError, "nothing could be learned"),
    ({"prior": 0}, dg.errors.InferenceError, "prior"),
    ({"prior": -1.0}, dg.errors.InferenceError, "prior"),
    ({"prior": math.nan}, dg.errors.InferenceError, "prior"),
    ({"prior": math.inf}, dg.errors.InferenceError, "prior"),
    ({"prior": True}, dg.errors.InferenceError, "prior"),
    ({"prior": "1"}, dg.errors.InferenceError, "prior"),
    ({"inference": "exact"}, dg.errors.ReleaseError, "inference"),
    ({"inference": None}, dg.errors.ReleaseError, "inference"),
    ({"mechanism": "gauss"}, dg.errors.ReleaseError, "mechanism"),
    ({"mechanism": None}, dg.errors.ReleaseError, "mechanism"),
    ({"mechanism": dg.LaplaceMechanism}, dg.errors.ReleaseError, "mechanism"),
    ({"budget": 3}, dg.errors.ReleaseError, "budget must be a Budget"),
    ({"unit": dg.PrivacyUnit("add-remove")}, dg.errors.ReleaseError, "differs from the budget's"),
    ({"domain": "guess"}, dg.errors.DomainError, '"infer" by name'),
    ({"domain": 3}, dg.errors.NetworkError, "a domain is a mapping"),
    ({"domain": {"f": [], "t": [0]}}, dg.errors.NetworkError, "variable 'f': the level list is empty"),
    ({"domain": {"f": ["x", "y", "z"], "g": dg.Bins([0, 3])}}, dg.errors.DomainError, "X holds them all"),
    ({"domain": {"f": ["x"], "t": [0], "u": [0], "g": [0]}}, dg.errors.DomainError, "not in X: u"),
]


@pytest.mark.parametrize(("settings", "error", "message"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_setting_is_refused_before_anything_is_charged(settings, error, message):
    budget = dg.Budget(3)
    estimator = dg.PrivateNaiveBayes(**({"domain": DOMAIN, "epsilon": 1, "budget": budget} | settings))
    with pytest.raises(error, match=message):
        estimator.fit(X, Y)
    assert budget.events == ()
    with pytest.raises(NotFittedError):
        estimator.predict(X)


BAD_ROWS = {
    "an unknown level": (X.assign(f="w"), Y, dg.errors.DomainError),
    "a null level": (X.assign(f=X["f"].where(X["f"] == "x", None)), Y, dg.errors.DomainError),
    "NaN in bins": (X.assign(g=math.nan), Y, dg.errors.DomainError),
    "words in bins": (X.assign(g="one"), Y, dg.errors.DomainError),
    "an unknown label": (X, Y.replace("no", "maybe"), dg.errors.DomainError),
    "numbers for labels": (X, (Y == "yes").astype(int), dg.errors.DomainError),
    "a missing column": (X[["f"]], Y, dg.errors.DomainError),
    "labels of another length": (X, Y.head(5), dg.errors.DomainError),
    "no labels": (X, None, ValueError),
    "a label that is None": (X, Y.where(Y == "yes", None), dg.errors.DomainError),
    "a label that is NaN": (X, Y.where(Y == "yes", math.nan), dg.errors.DomainError),
    "a label that is NA": (X, Y.astype("string").where(Y == "yes", pd.NA), dg.errors.DomainError),
    "an infinite label": (X, pd.Series(math.inf, index=X.index), ValueError),
    "an array of another width": (np.zeros((240, 5)), Y, dg.errors.DomainError),
    "a flat array": (np.zeros(240), Y, ValueError),
}


@pytest.mark.parametrize("case", BAD_ROWS)
def test_bad_rows_are_refused_before_anything_is_charged(case):
    frame, labels, error = BAD_ROWS[case]
    budget = dg.Budget(3)
    with pytest.raises(error):
        dg.PrivateNaiveBayes(DOMAIN, budget=budget).fit(frame, labels)
    assert budget.events == ()


def test_no_rows_and_one_row_are_fitted():
    for n in (0, 1):
        fitted = dg.PrivateNaiveBayes(DOMAIN, epsilon=1).fit(X.head(n), Y.head(n))
        assert fitted.predict(X.head(3)).shape == (3,)
        assert fitted.release_.value.n == n


def codes(frame):
    return np.stack([frame["f"].map({"x": 0, "y": 1, "z": 2}), np.floor(frame["g"])], axis=1).astype(int)


def test_without_noise_it_is_categorical_nb():
    """At epsilon 10^6 every noise scale is 2^-8, and each draw is 0 but for one in e^256."""
    labels = (Y == "yes").astype(int).to_numpy()
    smoothed = np.bincount(labels) + 1
    theirs = CategoricalNB(alpha=1, class_prior=smoothed / smoothed.sum(), min_categories=[3, 3]).fit(codes(X), labels)
    fitted = dg.PrivateNaiveBayes(DOMAIN, epsilon=10**6).fit(X, Y)
    new, _ = rows(500, seed=1)
    np.testing.assert_allclose(fitted.predict_proba(new), theirs.predict_proba(codes(new)), rtol=1e-6)
    assert (fitted.predict(new) == np.array(["no", "yes"])[theirs.predict(codes(new))]).all()


HOLDERS = {
    "frame": lambda frame: frame,
    "categorical": lambda frame: frame.assign(f=frame["f"].astype("category")),
    "nullable": lambda frame: frame.convert_dtypes(),
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "array": lambda frame: frame.to_numpy(dtype=object),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_features_in_any_table_are_fitted_and_predicted_alike(holder):
    hold = HOLDERS[holder]
    new, _ = rows(50, seed=2)
    reference = dg.PrivateNaiveBayes(DOMAIN, noise=dg.testing.SeededNoise(1)).fit(X, Y)
    fitted = dg.PrivateNaiveBayes(DOMAIN, noise=dg.testing.SeededNoise(1)).fit(hold(X), Y)
    assert fitted.release_ == reference.release_
    np.testing.assert_array_equal(fitted.predict_proba(hold(new)), reference.predict_proba(new))
    assert fitted.predict(hold(new)).tolist() == reference.predict(new).tolist()
    if holder != "array":  # scikit-learn's own rule: an array holds a row at least
        assert fitted.predict_proba(hold(new.head(0))).shape == (0, 2)


@pytest.mark.parametrize("labels", [Y, Y.to_numpy(), list(Y), pl.Series(Y.to_list()), Y.astype("category")], ids=type)
def test_labels_in_any_column_are_fitted_alike(labels):
    reference = dg.PrivateNaiveBayes(DOMAIN, noise=dg.testing.SeededNoise(1)).fit(X, Y)
    assert dg.PrivateNaiveBayes(DOMAIN, noise=dg.testing.SeededNoise(1)).fit(X, labels).release_ == reference.release_


def test_labels_are_matched_to_rows_by_place():
    """As everywhere in scikit-learn; an index that runs the other way changes nothing."""
    reference = dg.PrivateNaiveBayes(DOMAIN, noise=dg.testing.SeededNoise(1)).fit(X, Y)
    other = dg.PrivateNaiveBayes(DOMAIN, noise=dg.testing.SeededNoise(1)).fit(X.set_index(np.arange(len(X))[::-1]), Y)
    assert other.release_ == reference.release_


def test_classes_are_the_declared_ones_whatever_the_rows_hold():
    domain = dg.Domain.of({"f": ["x", "y", "z"], "g": dg.Bins([0, 3]), "t": ["yes", "maybe", "no"]})
    fitted = dg.PrivateNaiveBayes(domain).fit(X, pd.Series("yes", index=X.index))
    assert fitted.classes_.tolist() == ["yes", "maybe", "no"]
    assert fitted.predict_proba(X).shape == (len(X), 3)
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("levels", [[True, False], [0, 1], [2.5, 1.5]])
def test_labels_keep_their_type(levels):
    labels = np.where(Y == "yes", *levels)
    if levels == [2.5, 1.5]:
        labels = labels.astype(object)
    fitted = dg.PrivateNaiveBayes({"f": ["x", "y", "z"], "t": levels}, epsilon=100).fit(X[["f"]], labels)
    assert fitted.predict(pd.DataFrame({"f": ["x", "y"]})).tolist() == levels


def test_an_unknown_value_at_prediction_is_refused_or_is_other():
    fitted = dg.PrivateNaiveBayes(DOMAIN).fit(X, Y)
    with pytest.raises(dg.errors.DomainError, match="column 'f' holds values outside the levels 'x', 'y', 'z'"):
        fitted.predict(pd.DataFrame({"f": ["w"], "g": [1.0]}))
    with pytest.raises(dg.errors.DomainError, match="column 'g' holds nulls"):
        fitted.predict(pd.DataFrame({"f": ["x"], "g": [math.nan]}))
    lenient = dg.Domain.of({**DOMAIN.variables, "f": dg.Categories(["x", "y", "z"], other="z", missing="z")})
    fitted = dg.PrivateNaiveBayes(lenient).fit(X, Y)
    answers = fitted.predict_proba(pd.DataFrame({"f": ["w", None, "z"], "g": [1.0] * 3}))
    assert (answers == answers[2]).all()


def test_columns_that_are_not_those_of_fit_are_refused():
    fitted = dg.PrivateNaiveBayes(DOMAIN).fit(X, Y)
    for frame in (X[["f"]], X.rename(columns={"f": "h"})):
        with pytest.raises(ValueError, match="feature names should match"):
            fitted.predict(frame)


def test_columns_that_no_one_declared_are_not_counted():
    noisy = dg.PrivateNaiveBayes(DOMAIN, noise=dg.testing.SeededNoise(1))
    assert noisy.fit(X.assign(more="secret"), Y).release_ == noisy.fit(X, Y).release_


def test_integer_column_names_are_read_as_text():
    frame = X.set_axis([0, 1], axis=1)
    fitted = dg.PrivateNaiveBayes({"0": ["x", "y", "z"], "1": dg.Bins([0, 3]), "t": ["no", "yes"]}).fit(frame, Y)
    assert fitted.predict(frame).shape == (len(X),)


def test_it_works_inside_a_pipeline():
    budget = dg.Budget(1)
    last = dg.PrivateNaiveBayes(DOMAIN, epsilon=1, budget=budget, noise=dg.testing.SeededNoise(1))
    steps = make_pipeline(FunctionTransformer(), last)
    assert steps.fit(X, Y).score(X, Y) > 0.5
    assert budget.remaining == 0


def test_the_repr_shows_settings_and_no_rows():
    text = repr(dg.PrivateNaiveBayes(DOMAIN, epsilon="0.5").fit(X, Y))
    assert "epsilon='0.5'" in text
    assert "240" not in text


def test_a_refusal_or_a_warning_says_nothing_of_the_rows():
    """scikit-learn's own checks print arrays and count classes; with a declared domain they are not asked."""
    import warnings

    domain = dg.Domain.of({"a": [0, 1], "y": list(range(30))})
    X, model = pd.DataFrame({"a": [0, 1] * 15}), dg.PrivateNaiveBayes(domain, 1000)  # else noise drowns the rows
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", dg.errors.LargeEpsilonWarning)
        model.fit(X, np.arange(30))
    for bad in (np.array(["secretA", "secretB"]), np.array([[1.5 + 2j]])):
        with pytest.raises(dg.errors.DomainError) as caught:
            model.fit(bad, np.arange(30))
        assert "secret" not in str(caught.value)
        assert "1.5" not in str(caught.value)
    with pytest.raises(dg.errors.DomainError) as caught:
        model.fit(X, np.zeros((37, 2)))
    assert "37" not in str(caught.value)


@pytest.mark.parametrize("inference", ["noise-aware", "plug-in"])
def test_probabilities_have_intervals_with_any_of_the_features(inference):
    made = dg.PrivateNaiveBayes(DOMAIN, 2, inference=inference, noise=dg.testing.SeededNoise(1), unit=dg.PrivacyUnit())
    fitted = made.fit(X, Y)
    few = X.head(12)
    probability, low, high = fitted.predict_proba(few, return_interval=True)
    assert probability.shape == low.shape == high.shape == (12, 2)
    np.testing.assert_allclose(probability, fitted.predict_proba(few), atol=0.02)
    assert ((low < probability) & (probability < high)).all()
    answers = dg.query_rows(fitted, "t", few, interval=0.5)
    narrow = fitted.predict_proba(few, return_interval=True, interval=0.5)
    np.testing.assert_allclose(narrow[1], answers["low"], rtol=1e-12)
    assert (narrow[2] - narrow[1] < high - low).all()
    alone = fitted.predict_proba(few[["f"]], return_interval=True)
    expected = dg.query(fitted, "t", {"f": few["f"].iloc[0]})
    np.testing.assert_allclose(alone[2][0], expected.high, rtol=1e-12)
    np.testing.assert_allclose(fitted.predict_proba(few.to_numpy(), return_interval=True)[1], low, rtol=1e-12)
    for wrong in (few.rename(columns={"f": "h"}), few[[]], few.head(0)):
        with pytest.raises(dg.errors.DomainError):
            fitted.predict_proba(wrong, return_interval=True)
    with pytest.raises(dg.errors.InferenceError, match="must be a probability"):
        fitted.predict_proba(few, return_interval=True, interval=2)
    with pytest.raises(dg.errors.InferenceError, match="arcs of a naive Bayes model are not causes"):
        dg.query(fitted, "f", do={"t": "yes"})
