"""An estimator is its public calls and nothing else: with the same seeds both give the same."""

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from tests.tiers import Later

dd = Later("dask.dataframe")

#: A few draws are enough to be compared.

DESIGN = dg.LinearDesign({"age": (18, 90), "sex": ["F", "M"]}, "pay", (0, 100))
DOMAIN = dg.Domain.of({"age": dg.Bins([18, 40, 90]), "sex": ["F", "M"], "spam": [0, 1]})


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    age, sex = rng.uniform(18, 90, n), rng.choice(["F", "M"], n)
    pay = age / 2 + 10 * (sex == "M") + rng.normal(0, 5, n)
    return pd.DataFrame({"age": age, "sex": sex, "pay": pay, "spam": (pay > 35).astype(int)})


def files(rows, folder):
    """The rows in each place that an estimator reads without loading them."""
    rows.to_csv(folder / "rows.csv", index=False)
    rows.to_parquet(folder / "rows.parquet", row_group_size=150)
    return {"csv": folder / "rows.csv", "parquet": str(folder / "rows.parquet"), "dask": dd.from_pandas(rows, 3)}


@pytest.mark.proof
@pytest.mark.parametrize(
    ("mechanism", "neighbours"),
    [
        (dg.LaplaceMechanism("0.2"), "replace"),
        (dg.GaussianMechanism("0.2", "1e-6"), "add-remove"),
        pytest.param(dg.LaplaceMechanism("0.2"), "add-remove", marks=pytest.mark.proof),
        pytest.param(dg.GaussianMechanism("0.2", "1e-6"), "replace", marks=pytest.mark.proof),
    ],
    ids=repr,
)
def test_three_public_calls_are_a_private_regression(mechanism, neighbours):
    """At epsilon 0.2 the weight of the target's sum is chosen, and is not the least one."""
    unit, rows = dg.PrivacyUnit(neighbours), people()
    moments = dg.statistics.regression_moments(rows, DESIGN)
    budget = dg.Budget(mechanism.epsilon, mechanism.delta if hasattr(mechanism, "delta") else 0, unit=unit)
    release = dg.release(moments, mechanism, budget=budget, noise=dg.testing.SeededNoise(7))
    posterior = dg.posterior(release, draws=60, seed=0)
    model = dg.PrivateLinearRegression(
        {"age": (18, 90), "sex": ["F", "M"]},
        (0, 100),
        mechanism=mechanism,
        draws=60,
        unit=unit,
        noise=dg.testing.SeededNoise(7),
    ).fit(rows[["age", "sex"]], rows["pay"])
    assert release.event == mechanism.event(release.value.description, unit)  # what is charged is what is drawn
    assert [m.law for m in release.event.measurements] == [release.value.law]
    assert model.release_.event == release.event
    assert model.design_.mean_weight == release.value.description.mean_weight > DESIGN.copies
    assert (model.release_.value.sums == release.value.sums).all()
    np.testing.assert_array_equal(model.posterior_.weights, posterior.weights)
    np.testing.assert_array_equal(model.posterior_.variance, posterior.variance)


def test_a_design_declares_a_regression():
    rows, settings = people(), {"epsilon": 2, "draws": 30, "noise": dg.testing.SeededNoise(1)}
    by_design = dg.PrivateLinearRegression(DESIGN, **settings).fit(rows[["age", "sex"]], rows["pay"])
    by_bounds = dg.PrivateLinearRegression(dict(DESIGN.features), (0, 100), **settings)
    by_bounds.fit(rows[["age", "sex"]], rows["pay"])
    np.testing.assert_array_equal(by_design.coef_, by_bounds.coef_)
    with pytest.raises(dg.errors.DomainError, match="leave bounds_y out"):
        dg.PrivateLinearRegression(DESIGN, (0, 100)).fit(rows[["age", "sex"]], rows["pay"])


@pytest.mark.systems
@pytest.mark.parametrize("held", ["csv", "parquet", "dask"])
def test_a_regression_of_rows_where_they_lie(held, tmp_path):
    """The same sums are released: all that the estimator learns is learned from them, here by the quick plug-in."""
    rows, settings = people(), {"epsilon": 2, "draws": 30, "inference": "plug-in", "noise": dg.testing.SeededNoise(1)}
    expected = dg.PrivateLinearRegression(DESIGN, **settings).fit(rows[["age", "sex"]], rows["pay"])
    for declared in ((DESIGN,), (dict(DESIGN.features), (0, 100))):
        model = dg.PrivateLinearRegression(*declared, **settings).fit(files(rows, tmp_path)[held], "pay")
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        np.testing.assert_array_equal(model.predict(rows[["age", "sex"]]), expected.predict(rows[["age", "sex"]]))


@pytest.mark.systems
@pytest.mark.parametrize("held", ["csv", "parquet", "dask"])
def test_a_classifier_of_rows_where_they_lie(held, tmp_path):
    rows, features = people(), ["age", "sex"]
    settings = {"domain": DOMAIN, "epsilon": 2, "noise": dg.testing.SeededNoise(1)}
    expected = dg.PrivateNaiveBayes(**settings).fit(rows[features], rows["spam"])
    model = dg.PrivateNaiveBayes(**settings).fit(files(rows, tmp_path)[held], "spam")
    np.testing.assert_array_equal(model.predict_proba(rows[features]), expected.predict_proba(rows[features]))


@pytest.mark.systems
@pytest.mark.parametrize(
    ("model", "y", "says"),
    [
        (dg.PrivateLinearRegression(DESIGN), None, "the name of the target's column"),
        (dg.PrivateLinearRegression(DESIGN), [1.0], "the name of the target's column"),
        (dg.PrivateLinearRegression(DESIGN), "spam", "the design predicts 'pay'"),
        (dg.PrivateLinearRegression([(18, 90)], (0, 100)), "pay", "need bounds_X by name"),
        (dg.PrivateLinearRegression({"age": (18, 90)}, "infer"), "pay", "need bounds_X by name"),
        (dg.PrivateLinearRegression("infer", (0, 100)), "pay", "need bounds_X by name"),
        (dg.PrivateNaiveBayes(DOMAIN), None, "the name of the target's column"),
        (dg.PrivateNaiveBayes("infer"), "spam", "takes a table"),
        (dg.PrivateNaiveBayes(), "spam", "needs domain="),
    ],
)
def test_a_path_needs_declared_columns_and_a_target_by_name(model, y, says, tmp_path):
    path = files(people(20), tmp_path)["csv"]
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError, match=says):
        model.set_params(budget=budget).fit(path, y)
    assert budget.spent == 0
