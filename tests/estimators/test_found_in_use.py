"""What users of learned networks and estimators met: each call that was lost, silently wrong or charged for nothing."""

import json
import re
import warnings
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

import dpgraph as dg

ADD = dg.PrivacyUnit("add-remove")
DOMAIN = dg.Domain.of({"a": [1, 2, 3], "c": [1, 2, 3], "y": [1, 2]})


def chain(rows=1000, variables=4, seed=0):
    rng = np.random.default_rng(seed)
    found = [rng.integers(0, 2, rows)]
    for _ in range(variables - 1):
        found.append((found[-1] + (rng.random(rows) < 0.3)) % 2)
    return pd.DataFrame(dict(zip("abcdefg", found, strict=False))), dg.Domain.of(
        {name: [0, 1] for name in "abcdefg"[:variables]}
    )


def labelled(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(1, 3, rows)
    return pd.DataFrame({"a": np.where(rng.random(rows) < 0.9, y, 3), "c": rng.integers(1, 4, rows), "y": y})


@pytest.mark.parametrize("seed", range(4))
def test_two_stages_of_a_known_number_of_rows_read_tables_of_few_variables(seed):
    """Rounds that measured some variables only: nine calls in ten were charged and lost."""
    frame, domain = chain(1000, 7, seed)
    budget, noise = dg.Budget(1, "1e-5", unit=ADD), dg.testing.SeededNoise(seed)
    learned = dg.learn_network(frame, domain, budget=budget, epsilon="0.3", delta="1e-6", stages=2, n=1000, noise=noise)
    assert budget.remaining == Fraction("0.7")
    np.testing.assert_allclose(learned.probabilities.table("g").sum(axis=0), 1)


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
@pytest.mark.parametrize("variables", [3, 5])
@pytest.mark.parametrize("settings", [{}, {"n": 2000}, {"stages": 2}], ids=["n asked", "n said", "two stages"])
@pytest.mark.parametrize("kind", [".json", ".npz"])
def test_what_was_learned_in_the_residual_basis_is_saved_and_loaded(variables, settings, kind, tmp_path):
    """The model's graph is not the pairs that were measured."""
    frame, domain = chain(2000, variables)
    learned = dg.learn_network(
        frame, domain, unit=ADD, epsilon=1, delta="1e-6", noise=dg.testing.SeededNoise(1), **settings
    )
    path = tmp_path / f"model{kind}"
    for value in (learned, learned.probabilities, learned.posterior(draws=5, seed=1)):
        dg.save(value, path)
        assert dg.load(path).network == learned.network
    dg.save(dg.choose_network(learned.release), path)
    if kind == ".json":
        text = json.loads(path.read_text())
        changed = json.dumps(text).replace('["a", "b"]', '["a", "c"]') if variables == 3 else ""
        if changed:
            path.write_text(changed)
            with pytest.raises(dg.errors.DPGraphError):
                dg.load(path)


def test_chains_of_a_learned_network_are_checked_as_any(monkeypatch):
    frame, domain = chain(300, 3)
    learned = dg.learn_network(frame, domain, unit=ADD, epsilon=2, delta="1e-6", noise=dg.testing.SeededNoise(0))
    with pytest.warns(dg.errors.ConvergenceWarning):
        learned.posterior(draws=4, seed=1)
    with pytest.raises(TypeError, match="drwas"):
        learned.posterior(drwas=5)
    with pytest.raises(dg.errors.InferenceError, match="chains of records would take"):
        learned.posterior(draws=10**12)
    for graphs in ("chosen", "averaged"):
        for seed in (-1, "x"):
            with pytest.raises(dg.errors.InferenceError, match="seed must be"):
                learned.posterior(graphs=graphs, draws=5, seed=seed)


def test_a_budget_that_is_planned_does_not_pay_for_what_is_chosen_on_the_way():
    frame, domain = chain()
    budget = dg.Budget(2, "1e-5", unit=ADD, accounting="pld")
    with pytest.raises(dg.errors.ReleaseError, match="accounting='zcdp' or 'basic'"):
        dg.learn_network(frame, domain, epsilon=1, delta="1e-6", budget=budget)
    assert budget.spent == 0


def test_an_absurd_number_of_rows_is_refused():
    with pytest.raises(dg.errors.ReleaseError, match="n must be"):
        dg.learn_network(*chain(), epsilon=1, n=10**400)


@pytest.mark.parametrize("state", ["a", -1, 1.5, 2**40, object()])
@pytest.mark.parametrize("kind", ["naive Bayes", "hidden Markov", "regression"])
def test_a_random_state_that_is_none_charges_nothing(state, kind):
    budget, frame = dg.Budget(100), labelled()
    usual = {"epsilon": 1, "budget": budget, "random_state": state}
    model, rows = {
        "naive Bayes": (dg.PrivateNaiveBayes(DOMAIN, target="y", **usual), (frame[["a", "c"]], frame.y)),
        "hidden Markov": (dg.PrivateHMM(2, domain=DOMAIN, sequence="a", time="c", **usual), (frame,)),
        "regression": (dg.PrivateLinearRegression({"a": (1, 3)}, (1, 2), **usual), (frame[["a"]], frame.y)),
    }[kind]
    with pytest.raises(dg.errors.ReleaseError, match="random_state is None, a whole number"):
        model.fit(*rows)
    assert budget.spent == 0


def test_a_generator_is_a_random_state():
    frame = labelled()
    model = dg.PrivateNaiveBayes(DOMAIN, epsilon=5, target="y", random_state=np.random.default_rng(0))
    assert set(model.fit(frame[["a", "c"]], frame.y).predict(frame[["a", "c"]])) <= {1, 2}


def test_a_mapping_of_rows_is_not_read_as_codes(tmp_path):
    frame = labelled()
    dg.save(dg.PrivateNaiveBayes(DOMAIN, epsilon=5, target="y").fit(frame[["a", "c"]], frame.y), tmp_path / "m.json")
    with pytest.raises(dg.errors.DomainError, match=r"pd.DataFrame\(X\)"):
        dg.load(tmp_path / "m.json").predict({"a": [1, 2], "c": [1, 2]})


@pytest.mark.parametrize("settings", [{"scores": ["accuracy"]}, {"bounds": (0, 30)}])
def test_a_setting_that_a_regression_has_no_use_for_is_not_paid_for(settings):
    frame, budget = labelled(), dg.Budget(1)
    model = dg.PrivateLinearRegression({"a": (1, 3)}, (1, 2), epsilon=1).fit(frame[["a"]], frame.y)
    with pytest.raises(dg.errors.DomainError, match="has no meaning for this model"):
        dg.evaluate(model, frame[["a"]], frame.y, epsilon=1, budget=budget, **settings)
    assert budget.spent == 0


def test_a_feature_named_as_the_target_is_not_dropped(tmp_path):
    labelled().to_csv(tmp_path / "rows.csv", index=False)
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError, match="y names 'a', which bounds_X declares otherwise"):
        dg.PrivateLinearRegression({"a": (1, 3), "c": (1, 3)}, (1, 2), epsilon=1, budget=budget).fit(
            str(tmp_path / "rows.csv"), "a"
        )
    assert budget.spent == 0


@pytest.mark.parametrize("bounds", [(1, 2), dg.Bounded(1, 2)], ids=["pair", "bounded"])
@pytest.mark.parametrize("bounds_y", [(1, 2), [1, 2], dg.Bounded(1, 2)], ids=["pair", "list", "bounded"])
def test_a_target_declared_twice_alike_is_one_target(bounds, bounds_y, tmp_path):
    labelled().to_csv(tmp_path / "rows.csv", index=False)
    declared = {"a": (1, 3), "c": (1, 3), "y": bounds}
    model = dg.PrivateLinearRegression(declared, bounds_y, epsilon=1).fit(str(tmp_path / "rows.csv"), "y")
    assert list(model.feature_names_in_) == ["a", "c"]


@pytest.mark.parametrize("bounds", [(0, 2), [1, 2], dg.Bounded(1, 2, missing=1), 5, (2, 1)], ids=repr)
def test_a_target_declared_twice_otherwise_is_refused(bounds, tmp_path):
    """A list in bounds_X declares levels."""
    labelled().to_csv(tmp_path / "rows.csv", index=False)
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError, match="y"):
        dg.PrivateLinearRegression({"a": (1, 3), "y": bounds}, (1, 2), epsilon=1, budget=budget).fit(
            str(tmp_path / "rows.csv"), "y"
        )
    assert budget.spent == 0


def test_what_was_not_fitted_says_so_when_it_is_written(tmp_path):
    for model in (dg.PrivateNaiveBayes(DOMAIN, target="y"), dg.PrivateHMM(2)):
        for write, name in ((dg.save, "m.json"), (dg.write_html, "m.html")):
            with pytest.raises(dg.errors.FileError, match="has learned nothing yet: fit it first"):
                write(model, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_target_that_is_known_is_not_among_the_columns_that_are_missing():
    frame = labelled()
    with pytest.raises(dg.errors.DomainError, match=r"not in X: c$"):
        dg.PrivateNaiveBayes(DOMAIN, target="y").fit(frame[["a"]], frame.y)


@pytest.mark.parametrize("call", [lambda m: dg.query(m, "y"), lambda m: dg.sample_rows(m, 5, 0), dg.to_datatree])
def test_a_regression_says_what_to_ask_it_where_a_network_is_meant(call):
    frame = labelled()
    model = dg.PrivateLinearRegression({"a": (1, 3)}, (1, 2), epsilon=1).fit(frame[["a"]], frame.y).model_
    with pytest.raises(dg.errors.DPGraphError, match="ask its own predict or predict_interval"):
        call(model)


def test_a_loaded_regression_has_the_coefficients_of_its_estimator(tmp_path):
    frame = labelled()
    fitted = dg.PrivateLinearRegression({"a": (1, 3), "c": (1, 3)}, (1, 2), epsilon=1).fit(frame[["a", "c"]], frame.y)
    dg.save(fitted, tmp_path / "m.json")
    loaded = dg.load(tmp_path / "m.json")
    assert loaded.intercept_ == pytest.approx(fitted.intercept_)
    np.testing.assert_allclose(loaded.coef_, fitted.coef_)
    lower, upper = fitted.coef_interval(0.5).loc["a"]
    assert tuple(loaded.coefficients(0.5).loc["a", ["lower", "upper"]]) == pytest.approx((lower, upper))


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (pd.to_timedelta([1, 2], unit="D"), "column.dt.days"),
        ([b"a", b"b"], "make it text, column.str.decode"),
        ([Decimal("1"), Decimal("2")], "make it numbers, astype"),
    ],
    ids=["durations", "bytes", "decimals"],
)
def test_a_column_of_another_type_says_what_to_make_of_it(column, words):
    with pytest.raises(dg.errors.DomainError, match=words):
        dg.count(pd.DataFrame({"a": column}), dg.Network.of({"a": [1, 2]}, {}))


def test_bins_without_edges_say_so():
    with pytest.raises(dg.errors.NetworkError, match="bins are a list of edges"):
        dg.Bins(5)


def test_a_file_of_rows_is_not_said_to_be_cut_short(tmp_path):
    labelled().to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(dg.errors.FileError, match="no file of dpgraph's: load reads"):
        dg.load(tmp_path / "rows.csv")


def test_an_estimator_of_a_log_forecasts_and_samples_as_its_model_does():
    rng = np.random.default_rng(0)
    log = pd.DataFrame({name: rng.integers(1, 4, 300) for name in ("s", "m", "k")})
    levels = {name: [1, 2, 3] for name in log}
    model = dg.PrivateHMM(2, domain=levels, sequence="s", time="m", epsilon=50, chains=4, iterations=40, burn_in=20)
    with pytest.raises(NotFittedError):
        model.forecast()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(log)
    pd.testing.assert_frame_equal(model.forecast(2, interval=0.5), model.model_.forecast(2, interval=0.5))
    pd.testing.assert_frame_equal(model.sample(5, 1), model.model_.sample(5, 1))


def test_longer_chains_of_a_learned_network_are_asked_for_by_a_method():
    """What the warning of chains that have not mixed says to ask for."""
    frame, domain = chain(300, 3)
    learned = dg.learn_network(frame, domain, unit=ADD, epsilon=2, delta="1e-6", noise=dg.testing.SeededNoise(0))
    with pytest.warns(dg.errors.ConvergenceWarning, match=r"method=dg.methods.Records\(burn_in=2000, thin=5\)"):
        learned.posterior(draws=4, seed=1)
    draws = learned.posterior(draws=60, seed=1, method=dg.methods.Records(chains=3, burn_in=50, thin=2))
    assert draws.tables["a"].shape[:2] == (3, 60)
    with pytest.raises(dg.errors.InferenceError, match="records alone can draw"):
        learned.posterior(method="normal")


@pytest.mark.parametrize(
    ("levels", "column", "words"),
    [
        (["01", "02", "10"], [1, 2, 10], r"leading zeros, which numbers lose: .*dtype={column: str}"),
        (["1", "2", "10"], [1.0, 2.0, 10.0], r"if its numbers are written as the levels are \(1.0 is no '1'\)"),
    ],
    ids=["leading zeros", "floats"],
)
def test_codes_that_were_read_as_numbers_are_not_made_other_levels(levels, column, words):
    domain = {"a": dg.Categories([*levels, "other"], other="other")}
    with pytest.raises(dg.errors.DomainError, match=words):
        dg.count(pd.DataFrame({"a": column}), dg.Network.of(domain, {}))


def test_a_model_of_persons_is_not_judged_by_rows_without_a_word():
    frame = labelled().assign(who=np.arange(300) // 3)
    whole = dg.PrivateNaiveBayes(DOMAIN, target="y", epsilon=5, unit=dg.PrivacyUnit("add-remove", 3))
    model = whole.fit(frame[["a", "c", "who"]], frame.y, person="who")
    with pytest.warns(dg.errors.PrivacyLeakWarning, match="the model up to 3 rows of one person"):
        dg.evaluate(model, frame[["a", "c"]], frame.y, epsilon=1, budget=dg.Budget(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        persons = dg.Budget(1, unit=dg.PrivacyUnit("add-remove", 3))
        dg.evaluate(model, frame[["a", "c"]], frame.y, epsilon=1, budget=persons)


def test_a_public_number_of_rows_is_asked_for():
    frame, domain = chain()
    for unit, words in (("replace", "n=len\\(rows\\) lets methods be compared"), ("add-remove", "no choice is paid$")):
        learned = dg.learn_network(frame, domain, unit=dg.PrivacyUnit(unit), epsilon=1)
        assert re.search(words, learned.reason)


def test_a_ledger_without_a_data_set_is_said_to_be_a_database(tmp_path):
    dg.Budget.open(str(tmp_path / "led.sqlite"), dataset="rows", epsilon=1).ledger.close()
    with pytest.raises(dg.errors.FileError, match="is an SQLite database; of a ledger in it say --dataset"):
        dg.load(tmp_path / "led.sqlite")


def test_a_person_who_is_no_column_is_not_said_to_be_declared():
    frame, domain = chain(30, 2)
    with pytest.raises(dg.errors.DomainError, match=r"column 'who' is not in the table; read are a, b, who$"):
        dg.statistics.cap_rows(frame, domain, "who", 2)
