"""Rows that hold the target too: the cursor of a query, a stream, an iterator, a path, a table whose column y names."""

import sqlite3

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpgraph as dg
from tests.tiers import Later

DOMAIN = dg.Domain.of({"a": [1, 2, 3], "c": [1, 2, 3], "y": [1, 2]})
BOUNDS = {"a": (1, 3), "c": (1, 3)}
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame({"a": RNG.integers(1, 4, 300), "c": RNG.integers(1, 4, 300)})
ROWS["y"] = np.where(RNG.random(300) < 0.8, (ROWS["a"] > 1) + 1, 1)


def cursor(rows):
    connection = sqlite3.connect(":memory:")
    rows.assign(who=range(len(rows))).to_sql("log", connection, index=False)
    return connection.execute("SELECT * FROM log")


def duck(rows):
    return Later("duckdb").connect().from_df(rows)


HOLDERS = {
    "cursor": cursor,
    "reader": lambda rows: pa.Table.from_pandas(rows).to_reader(),
    "iterator": lambda rows: iter([rows[:100], rows[100:]]),
    "DuckDB": duck,
    "pandas": lambda rows: rows,
    "polars": pl.from_pandas,
    "Arrow": pa.Table.from_pandas,
}
NOISE = dg.testing.SeededNoise(1)
MODELS = {
    "naive Bayes": lambda **how: dg.PrivateNaiveBayes(DOMAIN, epsilon=5, noise=NOISE, **how),
    "regression": lambda **how: dg.PrivateLinearRegression(BOUNDS, (1, 2), epsilon=5, noise=NOISE, **how),
}


def said(model, rows):
    """All that a model says of rows: probabilities where it has them, which tell equal noise from other noise."""
    return getattr(model, "predict_proba", model.predict)(rows)


@pytest.mark.proof
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", MODELS)
def test_a_fit_of_them_is_that_of_the_table(kind, holder):
    expected = MODELS[kind]().fit(ROWS[["a", "c"]], ROWS["y"])
    found = MODELS[kind]().fit(HOLDERS[holder](ROWS), "y")
    assert list(found.feature_names_in_) == ["a", "c"]
    for model in (found, found.model_):
        np.testing.assert_array_equal(said(model, HOLDERS[holder](ROWS)), said(expected, ROWS[["a", "c"]]))


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("kind", MODELS)
def test_a_score_of_them_is_that_of_the_table(kind, holder):
    model = MODELS[kind]().fit(ROWS[["a", "c"]], ROWS["y"])
    weights = np.arange(300)
    expected = model.score(ROWS[["a", "c"]], ROWS["y"], weights)
    assert expected != model.score(ROWS[["a", "c"]], ROWS["y"])
    for y in (None, "y"):
        assert model.score(HOLDERS[holder](ROWS), y, weights) == pytest.approx(expected)
    with pytest.raises(dg.errors.DomainError, match="y names 'a', and the model predicts 'y'"):
        model.score(HOLDERS[holder](ROWS), "a")


@pytest.mark.parametrize("kind", MODELS)
def test_a_file_is_scored(kind, tmp_path):
    ROWS.to_csv(tmp_path / "rows.csv", index=False)
    model = MODELS[kind]().fit(ROWS[["a", "c"]], ROWS["y"])
    assert model.score(tmp_path / "rows.csv") == pytest.approx(model.score(ROWS[["a", "c"]], ROWS["y"]))


@pytest.mark.proof
@pytest.mark.parametrize("kind", MODELS)
def test_persons_of_a_query_are_a_column_of_it(kind):
    capped = MODELS[kind](unit=dg.PrivacyUnit("add-remove", 2)).fit(cursor(ROWS), "y", person="who")
    assert capped.release_.unit.rows_per_person == 2


def settings_of(rows):
    naive, regression = dg.PrivateNaiveBayes, dg.PrivateLinearRegression
    return {
        "no y": (naive(DOMAIN), cursor(rows), None, "y is the name of the target's column"),
        "a column": (naive(DOMAIN), cursor(rows), rows["y"], "y is the name of the target's column"),
        "no such variable": (naive(DOMAIN), rows, "z", "no variable 'z'"),
        "another target": (naive(DOMAIN, target="y"), rows, "a", "y names 'a', and the target is 'y'"),
        "an array": (naive(DOMAIN), rows.to_numpy(), "y", "y has no name"),
        "bounds without names": (regression([(1, 3)] * 3, (1, 2)), rows, "y", "y must be one column|declares"),
        "a query and such bounds": (regression([(1, 3)] * 2, (1, 2)), cursor(rows), "y", "need bounds_X by name"),
        "no such column": (regression(BOUNDS, (1, 2)), cursor(rows), "z", "'z'"),
        "lazy": (naive(DOMAIN), pl.from_pandas(rows).lazy(), "y", r"of a lazy table give X.collect\(\)"),
    }


@pytest.mark.parametrize("case", settings_of(ROWS))
def test_what_does_not_fit_is_refused_uncharged(case):
    model, rows, y, words = settings_of(ROWS)[case]
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DPGraphError, match=words):
        model.set_params(budget=budget, epsilon=1).fit(rows, y)
    assert budget.spent == 0
