"""A fit is whole or not there: interrupted at any call it makes, it leaves the earlier fit, nothing, or the new one."""

import inspect
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

import dpgraph as dg

ROWS = pd.DataFrame({"f": ["x", "y"] * 20, "t": ["no", "yes"] * 20, "v": np.linspace(0, 1, 40), "month": [1, 2] * 20})
DOMAIN = dg.Domain.of({"f": ["x", "y"], "t": ["no", "yes"]})
LOG = dg.Domain.of({"f": ["x", "y"], "month": [1, 2], "t": ["no", "yes"]})
PLAIN = {"inference": "plug-in", "draws": 10}
QUICK = {"iterations": 2, "burn_in": 1, "chains": 1, "inference": "plug-in"}

#: For each estimator: one with a budget, its rows, rows of another kind, and what it predicts.
CASES = {
    "naive Bayes": (
        lambda budget: dg.PrivateNaiveBayes(DOMAIN, 1, inference="plug-in", budget=budget),
        (ROWS[["f"]], ROWS["t"]),
        (ROWS[["month", "v"]], ROWS["t"]),
        lambda model: model.predict(ROWS[["f"]]),
    ),
    "regression": (
        lambda budget: dg.PrivateLinearRegression(
            {"f": ["x", "y"]}, (0, 1), 1, inference="plug-in", draws=10, budget=budget
        ),
        (ROWS[["f"]], ROWS["v"]),
        (ROWS[["month"]], ROWS["v"]),
        lambda model: model.predict(ROWS[["f"]]),
    ),
    "regression by sampled weights": (
        lambda budget: dg.PrivateLinearRegression(
            {"f": ["x", "y"]}, (0, 1), 1, dg.papers.RegressionSample(1, idealized_numerics=True), budget=budget
        ),
        (ROWS[["f"]], ROWS["v"]),
        (ROWS[["month"]], ROWS["v"]),
        lambda model: model.predict(ROWS[["f"]]),
    ),
    "hidden Markov model": (
        lambda budget: dg.PrivateHMM(2, LOG, 1, sequence="f", budget=budget, **QUICK),
        (ROWS,),
        (ROWS[["f", "t"]],),
        lambda model: model.predict(),
    ),
}


def fitted(model):
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


class Interrupter:
    """Raises KeyboardInterrupt at one of the calls of dpgraph's functions, perhaps after another, or counts them."""

    def __init__(self, at=None, after=None):
        self.at, self.after, self.calls = at, after, 0

    def __call__(self, frame, event, argument):
        if self.after is not None:
            if event == "return" and frame.f_code.co_name == self.after:
                self.after = None
            return
        generator = frame.f_code.co_flags & inspect.CO_GENERATOR  # a call of it may be its end, where nothing is heard
        if event != "call" or generator or "/dpgraph/" not in frame.f_code.co_filename:
            return
        if self.calls == self.at:
            raise KeyboardInterrupt
        self.calls += 1

    def run(self, function):
        sys.setprofile(self)
        try:
            function()
        finally:
            sys.setprofile(None)


def check_whole(model, old, budget, spent, predict):
    """What an interruption may leave; says which it left."""
    left = fitted(model)
    if budget.spent == spent:
        assert left.keys() == old.keys()
        assert all(left[name] is old[name] for name in old)
        assert "unfinished_release" not in vars(model)
        check_is_fitted(model)
        predict(model)
        return "old"
    if left:
        check_is_fitted(model)
        assert left["release_"].event == budget.events[-1]
        assert left["release_"] is not old["release_"]
        assert all(left[name] is not old[name] for name in ("release_", "privacy_cost_", "model_"))
        predict(model)
        return "new"
    for ask in (check_is_fitted, lambda model: check_is_fitted(model, "model_"), predict):
        with pytest.raises(NotFittedError):
            ask(model)
    if hasattr(model, "unfinished_release"):
        assert model.unfinished_release.event == budget.events[-1]
        return "paid for"
    return "nothing"


@pytest.mark.proof
@pytest.mark.parametrize("case", CASES)
def test_a_refit_interrupted_at_any_call_leaves_nothing_of_two_fits(case):
    make, rows, _, predict = CASES[case]
    budget = dg.Budget(1000)
    model = make(budget).fit(*rows)
    counter = Interrupter()
    counter.run(lambda: model.fit(*rows))
    assert counter.calls > 100
    found = []
    places = [(at, None) for at in range(0, counter.calls, 1 + counter.calls // 50)]
    for at, after in [*places, *((at, "release") for at in range(12))]:
        if not found or found[-1] != "old":
            model.fit(*rows)
        old, spent, interrupter = fitted(model), budget.spent, Interrupter(at, after)
        try:
            interrupter.run(lambda: model.fit(*rows))
        except KeyboardInterrupt:
            found.append(check_whole(model, old, budget, spent, predict))
        else:
            assert interrupter.calls <= at  # how many calls a chain makes is random
    assert {"old", "paid for"} <= set(found)  # both sides of the charge were hit, and there is no fourth state


@pytest.mark.parametrize("case", CASES)
def test_what_was_paid_for_is_kept_until_it_is_learned_from(case, monkeypatch):
    make, rows, _, predict = CASES[case]
    budget = dg.Budget(10)
    model = make(budget).fit(*rows)
    with monkeypatch.context() as broken:
        broken.setattr("dpgraph.estimators.naive_bayes.plug_in_posterior", None)
        broken.setattr("dpgraph.estimators.regression.posterior", None)
        broken.setattr("dpgraph.papers.regression_sample.SampledRegressionModel", None)
        broken.setattr("dpgraph.models.markov_counts.fit_hmm", None)
        with pytest.raises(TypeError):
            model.fit(*rows)
    assert budget.spent == 2
    assert isinstance(model.unfinished_release, dg.Release)
    assert model.unfinished_release.event == budget.events[1]
    with pytest.raises(NotFittedError):
        predict(model)
    model.fit(*rows)
    assert not hasattr(model, "unfinished_release")
    predict(model)


@pytest.mark.parametrize("case", CASES)
def test_a_refused_fit_that_charged_nothing_keeps_the_earlier_one_whole(case):
    """The earlier model was paid for; a wrong column or too small a budget must not cost it."""
    make, rows, other, predict = CASES[case]
    budget = dg.Budget(1)
    model = make(budget).fit(*rows)
    old = fitted(model)
    for refused, wrong in ((dg.errors.DomainError, other), (dg.errors.BudgetExceededError, rows)):
        with pytest.raises(refused):
            model.fit(*wrong)
        assert check_whole(model, old, budget, 1, predict) == "old"


def test_a_first_fit_that_fails_leaves_nothing(tmp_path):
    model = dg.PrivateNaiveBayes(DOMAIN, 1)
    with pytest.raises(dg.errors.DomainError):
        model.fit(ROWS[["month"]], ROWS["t"])
    assert fitted(model) == {}
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
