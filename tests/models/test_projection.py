"""Coefficients of a projection are those of the enumerated joint law of every draw; what is none is refused."""

import itertools
import json

import click.testing
import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.models import projection

#: Age and sex decide visits and pay; a level for a missing age.
NETWORK = dg.Network.of(
    {
        "age": dg.Bins([0, 20, 50, 60], missing=True),
        "sex": ["f", "m", "x"],
        "visits": [0, 1, 2, 5],
        "ill": ["no", "yes"],
        "debt": [-1, 3],
        "one": ["only"],
    },
    {"sex": ["age"], "visits": ["age", "sex"], "ill": ["sex", "visits"], "debt": ["ill"]},
)
AGES = [9.5, 34.5, 55.0, 32.25]  # means of 0 to 19, 20 to 49, 50 to 60; the missing level is at their middle


def drawn(draws=3, seed=0):
    rng = np.random.default_rng(seed)
    tables = []
    for _ in range(draws):
        made = {}
        for name in NETWORK.domain.names:
            shape = NETWORK.shape(NETWORK.family(name))
            made[name] = np.moveaxis(rng.dirichlet(np.full(shape[0], 2.0), shape[1:]), -1, 0)
        tables.append(dg.Probabilities(NETWORK, made))
    return tables


def enumerated(one, target):
    """The rows (1, age, age=missing, sex=m, sex=x, target's number) with their probabilities, by loops."""
    rows, weights = [], []
    sizes = NETWORK.domain.sizes
    for age, sex, visits, ill, debt in itertools.product(
        *(range(sizes[n]) for n in ("age", "sex", "visits", "ill", "debt"))
    ):
        at = {"age": age, "sex": sex, "visits": visits, "ill": ill, "debt": debt}
        weight = 1.0
        for name in at:
            weight *= one.table(name)[tuple(at[member] for member in NETWORK.family(name))]
        y = {"visits": [0, 1, 2, 5], "ill": [0, 1], "debt": [-1, 3]}[target][at[target]]
        rows.append([1.0, AGES[age], age == 3, sex == 1, sex == 2, y])
        weights.append(weight)
    rows = np.array(rows, float)
    return rows[:, :-1], rows[:, -1], np.array(weights)


@pytest.mark.parametrize("target", ["visits", "debt"])
def test_linear_coefficients_are_weighted_least_squares(target):
    draws = drawn()
    found = dg.regression(draws, target, ["age", "sex"])
    assert found.names == ("intercept", "age", "age=missing", "sex=m", "sex=x")
    for one, got in zip(draws, found.draws, strict=True):
        x, y, w = enumerated(one, target)
        root = np.sqrt(w)
        wanted = np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0]
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize(("target", "family"), [("ill", "logistic"), ("visits", "poisson")])
def test_curved_coefficients_solve_the_expected_score_equation(target, family):
    draws = drawn()
    found = dg.regression(draws, target, ["age", "sex"], family)
    assert not found.monte_carlo_error.any()
    for one, got in zip(draws, found.draws, strict=True):
        x, y, w = enumerated(one, target)
        mu = np.exp(x @ got) if family == "poisson" else 1 / (1 + np.exp(-x @ got))
        np.testing.assert_allclose(x.T @ (w * (y - mu)), 0, atol=1e-8)


def test_logistic_coefficients_are_those_of_another_library():
    from sklearn.linear_model import LogisticRegression

    (one,) = drawn(1)
    x, y, w = enumerated(one, "ill")
    peer = LogisticRegression(C=np.inf, tol=1e-10, max_iter=10_000)
    x[:, 1] = (x[:, 1] - 32.25) / 22.75
    peer.fit(x[:, 1:], y, sample_weight=w * 1e4)
    got = dg.regression(one, "ill", ["age", "sex"], "logistic").mean
    np.testing.assert_allclose(got[1:] * [22.5, 1, 1, 1], peer.coef_[0], atol=1e-3)


@pytest.mark.parametrize(("target", "family"), [("ill", "logistic"), ("visits", "poisson")])
def test_sampled_rows_are_within_their_error_of_the_exact_answer(monkeypatch, target, family):
    draws = drawn(20)
    exact = dg.regression(draws, target, ["age", "sex"], family)
    monkeypatch.setattr(projection, "MOST_CELLS", 1)
    found = dg.regression(draws, target, ["age", "sex"], family)
    assert (found.monte_carlo_error > 0).all()
    assert not np.array_equal(found.draws, exact.draws)
    squares = (((found.draws - exact.draws) / found.monte_carlo_error) ** 2)[:, 1:].mean()  # of 80, about 1
    assert 0.5 < squares < 1.7


def test_predictions_are_averages_over_draws():
    draws = drawn()
    rows = pd.DataFrame({"age": [5.0, 55.0, None], "sex": ["f", "x", "m"]})
    x = np.array([[1, 9.5, 0, 0, 0], [1, 55.0, 0, 0, 1], [1, 32.25, 1, 1, 0]])
    linear, odds, counts = (
        dg.regression(draws, target, ["age", "sex"], family)
        for target, family in (("debt", "linear"), ("ill", "logistic"), ("visits", "poisson"))
    )
    np.testing.assert_allclose(linear.predict(rows), x @ linear.mean)
    np.testing.assert_allclose(odds.predict(rows), (1 / (1 + np.exp(-x @ odds.draws.T))).mean(axis=1))
    np.testing.assert_allclose(counts.predict(rows), np.exp(x @ counts.draws.T).mean(axis=1))


def test_summaries():
    found = dg.regression(drawn(40), "ill", "sex", "logistic", interval=0.8)
    np.testing.assert_allclose([found.low, found.high], np.quantile(found.draws, [0.1, 0.9], axis=0))
    frame = found.to_frame()
    assert list(frame.columns) == ["coefficient", "mean", "sd", "low", "high"]
    assert repr(found) == "Projection(logistic regression of ill on sex; 40 draws)"
    assert "sex=m" in found._repr_html_()
    single = dg.regression(drawn(1), "debt", "sex")
    assert np.isnan(single.sd).all()
    assert np.isnan(single.low).all()


@pytest.mark.parametrize(
    ("target", "features", "family", "kind", "words"),
    [
        ("nothing", ["sex"], "linear", "NetworkError", "nothing"),
        ("debt", ["sex", "debt"], "linear", "DomainError", "without the target"),
        ("debt", [], "linear", "DomainError", "one or more"),
        ("debt", ["sex", "sex"], "linear", "DomainError", "each once"),
        ("debt", ["one"], "linear", "DomainError", "one level"),
        ("sex", ["age"], "logistic", "InferenceError", "two levels"),
        ("sex", ["age"], "linear", "InferenceError", "of numbers"),
        ("age", ["sex"], "linear", "InferenceError", "of numbers"),
        ("ill", ["sex"], "poisson", "InferenceError", "of numbers"),
        ("debt", ["sex"], "poisson", "InferenceError", "from 0 on"),
        ("debt", ["sex"], "probit", "InferenceError", "family"),
    ],
)
def test_what_is_no_regression_is_refused(target, features, family, kind, words):
    with pytest.raises(getattr(dg.errors, kind), match=words):
        dg.regression(drawn(2), target, features, family)


def test_features_that_determine_each_other_are_refused():
    network = dg.Network.of({"a": [0, 1], "b": [0, 1], "y": [0, 1]}, {"b": ["a"], "y": ["a"]})
    same = dg.Probabilities(network, {"a": [0.5, 0.5], "b": np.eye(2), "y": [[0.5, 0.2], [0.5, 0.8]]})
    for family in ("linear", "logistic"):
        with pytest.raises(dg.errors.InferenceError, match="determine each other"):
            dg.regression(same, "y", ["a", "b"], family)


@pytest.mark.filterwarnings("always::dpgraph.privacy.errors.ConvergenceWarning")
def test_a_level_that_nobody_has_in_a_draw_is_said_and_stops_nothing():
    """Of three levels the last is empty in one of two draws: the other coefficients are those of the draws."""
    network = dg.Network.of({"a": [0, 1], "b": ["u", "v", "w"], "y": [0, 1]}, {"y": ["a", "b"]})
    up = np.array([[0.2, 0.4, 0.5], [0.5, 0.7, 0.8]])
    some = [
        dg.Probabilities(network, {"a": [0.5, 0.5], "b": b, "y": np.stack([1 - up, up])})
        for b in ([0.4, 0.4, 0.2], [0.5, 0.5, 0.0])
    ]
    with pytest.warns(dg.errors.ConvergenceWarning, match="nobody has a level"):
        both = dg.regression(some, "y", ["a", "b"], "logistic")
    first, alone = dg.regression(some[0], "y", ["a", "b"], "logistic"), dg.regression(some[1:], "y", ["a"], "logistic")
    assert both.draws[0] == pytest.approx(first.draws[0])
    assert both.draws[1][-1] == pytest.approx(first.draws[0][-1], abs=1e-6)
    assert both.draws[1][1] == pytest.approx(alone.draws[0][1], abs=0.1)


def test_the_command_prints_the_coefficients(tmp_path):
    path = tmp_path / "tables.json"
    one = drawn(1)[0]
    dg.save(one, path)
    call = ["regress", str(path), "--target", "ill", "--on", "age, sex", "--family", "logistic"]
    found = click.testing.CliRunner().invoke(main, [*call, "--json"], catch_exceptions=False)
    wanted = dg.regression(one, "ill", ["age", "sex"], "logistic")
    said = json.loads(found.stdout)
    assert said["family"] == "logistic"
    assert said["draws"] == 1
    assert [row["coefficient"] for row in said["coefficients"]] == list(wanted.names)
    np.testing.assert_allclose([row["mean"] for row in said["coefficients"]], wanted.mean)
    shown = click.testing.CliRunner().invoke(main, call, catch_exceptions=False)
    assert shown.stdout.startswith("logistic regression of ill\n")
    assert "sex=x" in shown.stdout
