"""The scikit-learn face of regression: its protocol, what it spends and when, and what it refuses before it spends."""

import json
import math
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import dpgraph as dg
from dpgraph.files.documents import document
from dpgraph.inference.regression import chain
from tests.estimators.sklearn_checks import checks_of
from tests.everything import everything
from tests.files.edits import edited
from tests.privacy import test_replay

BOUNDS = {"age": (20, 60), "sex": ["F", "M"]}


def rows(n=800, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.uniform(20, 60, n), "sex": rng.choice(["F", "M"], n)})
    pay = 20 + 0.5 * frame["age"] + 8 * (frame["sex"] == "M") + rng.normal(0, 6, n)
    return frame, pay.rename("pay")


X, Y = rows()
PLAIN = {"bounds_X": BOUNDS, "bounds_y": (0, 100), "inference": "plug-in", "draws": 50}


def checks():
    settings = {"bounds_X": "infer", "bounds_y": "infer", "inference": "plug-in", "draws": 50}
    return checks_of(dg.PrivateLinearRegression(**settings, noise=dg.testing.SeededNoise(0)))


@pytest.mark.parametrize(("estimator", "check"), checks())
def test_scikit_learns_own_check(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.PrivacyLeakWarning)
        check(estimator)


def test_reading_bounds_off_the_rows_is_asked_for_by_name_and_warned_of():
    with pytest.warns(dg.errors.PrivacyLeakWarning, match="not differentially private"):
        dg.PrivateLinearRegression("infer", (0, 100), inference="plug-in").fit(X[["age"]], Y)
    with pytest.warns(dg.errors.PrivacyLeakWarning, match="bounds_y"):
        dg.PrivateLinearRegression([(20, 60)], "infer", inference="plug-in").fit(X[["age"]].to_numpy(), Y)


def test_a_fit_says_what_it_found():
    """800 rows at epsilon 20: coefficients within five posterior deviations of those behind the rows."""
    made = dg.PrivateLinearRegression(BOUNDS, (0, 100), 20, draws=400, noise=dg.testing.SeededNoise(1)).fit(X, Y)
    assert list(made.coefficients_.index) == ["intercept", "age", "sex=M"]
    assert (np.abs(made.coef_ - [0.5, 8]) < 5 * made.coefficients_["std"].iloc[1:]).all()
    assert made.intercept_ == made.coefficients_.loc["intercept", "mean"]
    assert str(made.privacy_cost_) == "epsilon 20 (pure)"
    mean, deviation = made.predict(X, return_std=True)
    low, high = made.predict_interval(X, 0.9).T
    assert mean.shape == deviation.shape == (800,)
    assert 0.8 < np.mean((low < Y) & (high > Y)) < 0.97
    assert made.score(X, Y) > 0.4
    narrow, wide = made.coef_interval(0.5), made.coef_interval(0.99)
    assert list(narrow.columns) == ["lower", "upper"]
    assert ((wide["lower"] < narrow["lower"]) & (narrow["upper"] < wide["upper"])).all()
    assert {"r_hat", "effective_size"} <= set(made.diagnostics_)


@pytest.mark.parametrize("intercept", [True, False])
def test_tables_and_arrays_of_any_kind_agree(intercept):
    settings = PLAIN | {
        "noise": dg.testing.SeededNoise(2),
        "fit_intercept": intercept,
        "unit": dg.PrivacyUnit("add-remove"),
    }
    first = dg.PrivateLinearRegression(**settings).fit(X, Y)
    second = dg.PrivateLinearRegression(**settings).fit(pl.from_pandas(X), Y.to_numpy())
    third = dg.PrivateLinearRegression(**settings | {"bounds_X": list(BOUNDS.values())}).fit(X.to_numpy(object), Y)
    for other in (second, third):
        assert np.array_equal(first.coef_, other.coef_)
    assert np.array_equal(first.predict(X), second.predict(pl.from_pandas(X)))
    assert np.array_equal(first.predict(X), third.predict(X.to_numpy(object)))


def test_one_fit_is_one_charge_and_clones_share_the_budget():
    budget = dg.Budget("1.5")
    estimator = dg.PrivateLinearRegression(**PLAIN, epsilon="0.5", budget=budget)
    for fits in (1, 2):
        clone(estimator).fit(X, Y).predict(X)
        assert budget.spent == fits * budget.epsilon / 3
    estimator.fit(X, Y)
    with pytest.raises(dg.errors.BudgetExceededError):
        estimator.fit(X, Y)
    gaussian = dg.PrivateLinearRegression(**PLAIN, mechanism=dg.GaussianMechanism(1, 1e-6)).fit(X, Y)
    assert gaussian.privacy_cost_.delta > 0


def test_a_random_state_never_reaches_the_noise():
    one, other = (dg.PrivateLinearRegression(**PLAIN, random_state=0).fit(X, Y) for _ in range(2))
    assert not np.array_equal(one.release_.value.sums, other.release_.value.sums)
    assert one.release_.private
    seeded = [dg.PrivateLinearRegression(**PLAIN, noise=dg.testing.SeededNoise(3)).fit(X, Y) for _ in range(2)]
    assert np.array_equal(seeded[0].posterior_.weights, seeded[1].posterior_.weights)
    assert not seeded[0].release_.private
    again = pickle.loads(pickle.dumps(one))
    assert np.array_equal(again.predict(X), one.predict(X))


class Replayed(test_replay.Replayed):
    """Estimators copy their noise source; this one stays itself, so that its log of calls is kept."""

    def __deepcopy__(self, memo):
        return self


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("inference", ["noise-aware", "plug-in"])
def test_a_fit_sees_the_release_alone(inference, neighbours):
    """Replay (promise.md S7): other rows that release the same integers give the same bytes."""

    def seen(frame, target):
        noise, unit = Replayed(1 << 36), dg.PrivacyUnit(neighbours)
        settings = {"inference": inference, "draws": 64, "unit": unit, "noise": noise}
        made = dg.PrivateLinearRegression(BOUNDS, (0, 100), 1, **settings).fit(frame, target)
        texts = [everything(made.release_), repr(noise.calls), made.coefficients_.to_csv(), repr(made.diagnostics_)]
        return [*texts, str(document(made.model_)), repr(made.predict(X).tobytes())]

    assert seen(X, Y) == seen(X.assign(age=21.0), Y * 0 + 3)


def test_chains_that_are_interrupted_leave_what_was_paid_for(monkeypatch):
    """Control-C among the chains: one charge, no model, and the release to learn from for free."""
    calls = iter([False] * 5 + [True])

    def interrupted(*arguments):
        if next(calls):
            raise KeyboardInterrupt
        return iteration(*arguments)

    iteration, budget = chain._iteration, dg.Budget(1)
    made = dg.PrivateLinearRegression(BOUNDS, (0, 100), 1, budget=budget)
    monkeypatch.setattr(chain, "_iteration", interrupted)
    with pytest.raises(KeyboardInterrupt):
        made.fit(X, Y)
    monkeypatch.undo()
    assert budget.spent == budget.epsilon
    assert not hasattr(made, "model_")
    again = dg.posterior(made.unfinished_release, draws=100, seed=0)
    assert list(again.coefficients().index) == ["intercept", "age", "sex=M"]


BAD = [
    ({"bounds_X": None}, dg.errors.DomainError, "needs bounds_X"),
    ({"bounds_y": None}, dg.errors.DomainError, "needs bounds_y"),
    ({"bounds_X": "guess"}, dg.errors.DomainError, '"infer" by name'),
    ({"bounds_X": 3}, dg.errors.DomainError, "bounds_X"),
    ({"bounds_X": [(0, 1)]}, dg.errors.DomainError, "declares 1"),
    ({"bounds_X": {"age": (60, 20), "sex": ["F", "M"]}}, dg.errors.DomainError, "increase"),
    ({"bounds_X": {"age": (20, 20)}}, dg.errors.DomainError, "increase"),
    ({"bounds_X": {"age": (20, math.inf)}}, dg.errors.DomainError, "finite"),
    ({"bounds_X": {"height": (20, 60)}}, dg.errors.DomainError, "no column 'height'"),
    ({"bounds_X": {}}, dg.errors.DomainError, "at least one feature"),
    ({"bounds_y": (5, 5)}, dg.errors.DomainError, "increase"),
    ({"bounds_y": (0, math.nan)}, dg.errors.DomainError, "finite"),
    ({"bounds_y": 3}, dg.errors.DomainError, "pair"),
    ({"epsilon": 0}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": math.nan}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": True}, dg.errors.ReleaseError, "epsilon"),
    ({"epsilon": 4}, dg.errors.BudgetExceededError, "costs epsilon 4"),
    ({"inference": "exact"}, dg.errors.ReleaseError, "inference"),
    ({"mechanism": "gauss"}, dg.errors.ReleaseError, "mechanism"),
    (
        {"mechanism": dg.papers.RegressionSample(1, idealized_numerics=True), "prior": dg.RegressionPrior()},
        dg.errors.ReleaseError,
        "precision",
    ),
    ({"mechanism": dg.papers.RegressionSample(1)}, dg.errors.ReleaseError, "idealized_numerics=True"),
    (
        {"mechanism": dg.papers.RegressionSample(4, idealized_numerics=True)},
        dg.errors.BudgetExceededError,
        "costs epsilon 4",
    ),
    ({"prior": 1.0}, dg.errors.ReleaseError, "prior"),
    ({"prior": dg.RegressionPrior(typical=101)}, dg.errors.InferenceError, "typical"),
    ({"draws": 0}, dg.errors.ReleaseError, "draws"),
    ({"budget": 3}, dg.errors.ReleaseError, "budget must be a Budget"),
    ({"unit": dg.PrivacyUnit("add-remove")}, dg.errors.ReleaseError, "differs from the budget's"),
]


@pytest.mark.parametrize(("settings", "error", "message"), BAD, ids=lambda value: str(value)[:40])
def test_a_bad_setting_is_refused_before_anything_is_charged(settings, error, message):
    budget = dg.Budget(3)
    estimator = dg.PrivateLinearRegression(**PLAIN | {"epsilon": 1, "budget": budget} | settings)
    with pytest.raises(error, match=message):
        estimator.fit(X, Y)
    assert budget.events == ()
    with pytest.raises(NotFittedError):
        estimator.predict(X)


BAD_ROWS = {
    "an unknown level": (X.assign(sex="X"), Y, dg.errors.DomainError),
    "a null level": (X.assign(sex=X["sex"].where(X["age"] > 30, None)), Y, dg.errors.DomainError),
    "NaN in a number": (X.assign(age=X["age"].where(X["age"] > 30)), Y, dg.errors.DomainError),
    "NaN in the target": (X, Y.where(Y > 30), dg.errors.DomainError),
    "text for a number": (X.assign(age="old"), Y, dg.errors.DomainError),
    "text for the target": (X, Y.astype(str) + "x", dg.errors.DomainError),
    "fewer targets": (X, Y.iloc[:5].to_numpy(), dg.errors.DomainError),
    "a table for a target": (X, X, dg.errors.DomainError),
    "no target": (X, None, ValueError),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_are_refused_before_anything_is_charged(name):
    frame, target, error = BAD_ROWS[name]
    budget = dg.Budget(3)
    with pytest.raises(error) as refusal:
        dg.PrivateLinearRegression(**PLAIN, budget=budget).fit(frame, target)
    assert budget.events == ()
    assert not any(str(round(value, 2)) in str(refusal.value) for value in Y[:50])


@pytest.mark.parametrize("n", [0, 1, 2])
def test_fewer_rows_than_features_are_fitted(n):
    made = dg.PrivateLinearRegression(**PLAIN).fit(X.iloc[:n], Y.iloc[:n])
    assert np.isfinite(made.predict(X)).all()


def test_what_lies_outside_the_bounds_counts_as_the_bound():
    settings = PLAIN | {"noise": dg.testing.SeededNoise(5)}
    far = dg.PrivateLinearRegression(**settings).fit(X.assign(age=X["age"].mask(X["age"] > 50, math.inf)), Y * 10)
    near = dg.PrivateLinearRegression(**settings).fit(
        X.assign(age=X["age"].mask(X["age"] > 50, 60)), (Y * 10).clip(0, 100)
    )
    assert np.array_equal(far.coef_, near.coef_)


def sampled(epsilon=1000, **settings):
    mechanism = dg.papers.RegressionSample(epsilon, idealized_numerics=True)
    return dg.PrivateLinearRegression(BOUNDS, (0, 100), **{"mechanism": mechanism, "epsilon": epsilon} | settings)


def test_sampled_weights_predict_by_their_mean():
    """At epsilon 1000 the truncation binds no more than noise does: near what least squares finds on 800 rows."""
    mechanism = dg.papers.RegressionSample(1000, draws=7, idealized_numerics=True)
    made = sampled(mechanism=mechanism, noise=dg.testing.SeededNoise(1)).fit(X, Y)
    each = made.release_.value.coefficients()
    assert len(made.release_.value.weights) == 7
    assert np.allclose(made.coef_, [each["age"].mean(), each["sex=M"].mean()])
    by_hand = made.intercept_ + made.coef_[0] * X["age"] + made.coef_[1] * (X["sex"] == "M")
    assert made.predict(X) == pytest.approx(by_hand.clip(0, 100).to_numpy())
    assert list(made.coefficients_.index) == ["intercept", "age", "sex=M"]
    assert list(made.coefficients_.columns) == ["mean"]
    least = np.linalg.lstsq(np.column_stack([np.ones(800), X["age"], X["sex"] == "M"]), Y, rcond=None)[0]
    assert made.coef_ == pytest.approx(least[1:], rel=0.1)
    assert str(made.privacy_cost_) == "epsilon 1000 (pure)"


def test_the_event_of_one_draw_says_idealized():
    made = sampled(epsilon="0.5").fit(X, Y)
    assert "idealized numerics" in made.release_.event.mechanism
    assert (len(made.release_.value.weights), made.release_.value.radius, made.release_.value.precision) == (1, 1, 1)
    assert str(made.privacy_cost_) == "epsilon 0.5 (pure)"
    assert ((made.predict(X) >= 0) & (made.predict(X) <= 100)).all()


def test_sampled_weights_have_no_intervals():
    made = sampled().fit(X, Y)
    for ask in (lambda: made.predict(X, return_std=True), lambda: made.predict_interval(X), made.coef_interval):
        with pytest.raises(dg.errors.ReleaseError, match="residual variance"):
            ask()


def test_a_second_fit_leaves_nothing_of_the_first():
    drawn = dg.papers.RegressionSample(1000, idealized_numerics=True)
    made = dg.PrivateLinearRegression(**PLAIN).fit(X, Y).set_params(epsilon=1000, mechanism=drawn).fit(X, Y)
    assert not hasattr(made, "posterior_")
    assert not made.diagnostics_
    assert made.set_params(mechanism="laplace").fit(X, Y).predict_interval(X).shape == (800, 2)


def test_sampled_weights_are_saved_and_loaded(tmp_path):
    made = sampled().fit(X, Y)
    dg.save(made.model_, tmp_path / "m.json")
    again = dg.load(tmp_path / "m.json")
    assert isinstance(again, dg.papers.SampledRegressionModel)
    assert again.provenance == made.release_.provenance
    codes = {"age": X["age"], "sex": X["sex"] == "M"}
    assert np.array_equal(again.predict(codes), made.predict(X))
    for broken in ({"weights": []}, {"precision": "x"}, {"radius": 0}, {"event": None}):
        plain = json.loads((tmp_path / "m.json").read_text())
        (tmp_path / "b.json").write_text(edited(plain | broken))
        with pytest.raises(dg.errors.FileError, match=r"^(?!.*digest)"):
            dg.load(tmp_path / "b.json")


@pytest.mark.parametrize(
    ("bounds", "table"),
    [
        (BOUNDS | {"pay": (0, 100)}, X.assign(pay=Y)),
        ([(20, 60), ["F", "M"], (0, 100)], X.assign(pay=Y)),
        (BOUNDS | {"pay": (0, 100)}, pl.from_pandas(X.assign(pay=Y))),
    ],
    ids=["by name", "by place", "polars"],
)
def test_a_target_that_is_a_feature_as_well_is_refused_uncharged(bounds, table):
    """It would predict itself."""
    budget = dg.Budget(1)
    model = dg.PrivateLinearRegression(**PLAIN | {"bounds_X": bounds}, budget=budget)
    with pytest.raises(dg.errors.DomainError, match=r"y is 'pay', which is a feature as well.*X.drop\(columns='pay'\)"):
        model.fit(table, Y)
    assert budget.spent == 0
    assert not hasattr(model, "model_")
    assert dg.PrivateLinearRegression(**PLAIN, budget=budget).fit(X.assign(pay=Y), Y).design_.target == "pay"
