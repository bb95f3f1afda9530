"""What the fits have in common, by itself."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator

import dpgraph as dg
from dpgraph.estimators.fitting import feature_frame, fit_budget, inference_seed, target_name
from tests.small_tables import LABELLED, labelled

FRAME = pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})


def named(columns):
    return [f"x{i}" for i in range(columns)]


@pytest.mark.parametrize("hold", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("public", [True, False])
def test_tables_keep_their_names_and_arrays_are_given_some(hold, public):
    made = feature_frame(BaseEstimator(), hold(FRAME), named, reset=True, public=public)
    assert made.to_dict("list") == {"a": [1, 2], "b": ["x", "y"]}
    numbers = feature_frame(BaseEstimator(), np.array([[1, 2], [3, 4]]), named, reset=True, public=public)
    assert numbers.to_dict("list") == {"x0": [1, 3], "x1": [2, 4]}
    estimator = BaseEstimator()
    feature_frame(estimator, hold(FRAME), named, reset=True, public=public)
    with pytest.raises(dg.errors.DomainError, match=r"feature names should match(.|\n)*X\[list\(estimator.feature_n"):
        feature_frame(estimator, hold(FRAME[["b", "a"]]), named, reset=False, public=public)


@pytest.mark.parametrize("hold", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
def test_declared_columns_may_stand_in_another_order_than_at_the_fit(hold):
    estimator, settings = BaseEstimator(), {"public": False, "declared": ("a", "b")}
    feature_frame(estimator, hold(FRAME), named, reset=True, **settings)
    made = feature_frame(estimator, hold(FRAME[["b", "a"]].assign(c=0)), named, reset=False, **settings)
    assert next(iter(made.items()))[0] == "a"
    assert made.to_dict("list") == FRAME.to_dict("list")
    with pytest.raises(dg.errors.DomainError, match=r"yet now missing:\n- b"):
        feature_frame(estimator, hold(FRAME[["a"]]), named, reset=False, **settings)


@pytest.mark.parametrize("bad", [np.array(["secret"]), [["secret", 1], ["secret"]], None])
def test_a_refusal_of_private_rows_repeats_none(bad):
    with pytest.raises(dg.errors.DomainError, match="X must be a table or a two-dimensional array") as refusal:
        feature_frame(BaseEstimator(), bad, named, reset=True, public=False)
    assert "secret" not in str(refusal.value)
    assert refusal.value.__cause__ is refusal.value.__context__ is None


@pytest.mark.parametrize(
    ("name", "features", "target"),
    [
        ("pay", ["age"], "pay"),
        ("age", ["age"], "target"),
        (None, ["age"], "target"),
        (0, ["age"], "target"),
        ("", ["age"], "target"),
        (None, ["target", "target_"], "target__"),
    ],
)
def test_a_target_has_a_name_that_no_feature_has(name, features, target):
    assert target_name(name, features) == target


def test_a_fit_without_a_budget_has_one_of_exactly_its_cost():
    made = fit_budget(dg.GaussianMechanism("0.5", "1e-6"), None, dg.PrivacyUnit("add-remove", 2))
    assert (made.epsilon, made.delta) == (dg.Budget("0.5", "1e-6").epsilon, dg.Budget("0.5", "1e-6").delta)
    assert made.unit == dg.PrivacyUnit("add-remove", 2)
    pure = fit_budget(dg.LaplaceMechanism("0.1"), None, None)
    assert (pure.epsilon, pure.delta, pure.unit) == (dg.Budget("0.1").epsilon, 0, dg.Budget(1).unit)


def test_a_budget_given_is_the_one_charged_and_protects_whom_it_says():
    budget = dg.Budget(3, unit=dg.PrivacyUnit("add-remove"))
    for unit in (None, dg.PrivacyUnit("add-remove")):
        assert fit_budget(dg.LaplaceMechanism(1), budget, unit) is budget
    with pytest.raises(dg.errors.ReleaseError, match="differs from the budget's"):
        fit_budget(dg.LaplaceMechanism(1), budget, dg.PrivacyUnit("replace"))
    assert budget.events == ()


def test_equal_states_give_equal_seeds_and_none_a_fixed_one():
    assert inference_seed(None) == inference_seed(None)
    assert inference_seed(3) == inference_seed(3) == inference_seed(np.random.RandomState(3))
    assert inference_seed(3) != inference_seed(4)


def test_estimators_predict_columns_in_another_order_by_name():
    rows = pd.DataFrame({"a": [0, 1] * 50, "b": [0, 0, 1, 1] * 25, "y": [0, 1] * 50})
    domain = {name: [0, 1] for name in rows}
    models = [
        dg.PrivateNaiveBayes(domain, epsilon=50, inference="plug-in"),
        dg.PrivateLinearRegression({"a": [0, 1], "b": (0, 1)}, (0, 1), epsilon=50, inference="plug-in", draws=50),
    ]
    for model in models:
        model.fit(rows[["a", "b"]], rows["y"])
        np.testing.assert_array_equal(model.predict(rows[["b", "a"]]), model.predict(rows[["a", "b"]]))
    by_place = dg.PrivateLinearRegression([(0, 1)] * 2, (0, 1), epsilon=50, inference="plug-in", draws=50)
    by_place.fit(rows[["a", "b"]], rows["y"])
    with pytest.raises(dg.errors.DomainError, match="must be in the same order") as told:
        by_place.predict(rows[["b", "a"]])
    assert "X[list(estimator.feature_names_in_)]" in str(told.value)
    assert by_place.predict(rows[["b", "a"]][list(by_place.feature_names_in_)]).shape == (100,)


@pytest.mark.parametrize("state", ["a", -1, 1.5, 2**40, object()])
@pytest.mark.parametrize("kind", ["naive Bayes", "hidden Markov", "regression"])
def test_a_random_state_that_is_none_charges_nothing(state, kind):
    budget, frame = dg.Budget(100), labelled()
    usual = {"epsilon": 1, "budget": budget, "random_state": state}
    model, rows = {
        "naive Bayes": (dg.PrivateNaiveBayes(LABELLED, target="y", **usual), (frame[["a", "c"]], frame.y)),
        "hidden Markov": (dg.PrivateHMM(2, domain=LABELLED, sequence="a", time="c", **usual), (frame,)),
        "regression": (dg.PrivateLinearRegression({"a": (1, 3)}, (1, 2), **usual), (frame[["a"]], frame.y)),
    }[kind]
    with pytest.raises(dg.errors.ReleaseError, match="random_state is None, a whole number"):
        model.fit(*rows)
    assert budget.spent == 0


def test_a_generator_is_a_random_state():
    frame = labelled()
    model = dg.PrivateNaiveBayes(LABELLED, epsilon=5, target="y", random_state=np.random.default_rng(0))
    assert set(model.fit(frame[["a", "c"]], frame.y).predict(frame[["a", "c"]])) <= {1, 2}
