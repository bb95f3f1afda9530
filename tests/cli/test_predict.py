"""Rows are read for prediction as they are read for fitting, whatever the file."""

import math

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg

CSV = "area,unread,age\nNA,x,20\nnone,x,n/a\n,x, NaN \nN,x,null\nN,x,1e2\n"
TABLE = {"area": ["NA", "none", None, "N", "N"], "age": [20.0, None, math.nan, None, 100.0]}
READ = {"area": np.array([1, 2, 1, 0, 0]), "age": np.array([20.0, 30, 30, 30, 100])}


@pytest.fixture
def model(run):
    words = ("--domain", "pay.toml", "--target", "pay", "--epsilon", "20", "--inference", "plug-in", "--draws", "40")
    run("fit", "regression", "pay.csv", *words, "--out", "pay.json")
    return dg.load("pay.json")


def written(kind, **more):
    if kind == "csv":
        text = CSV if not more else "\n".join(f"{line},{7 if i else 'pay'}" for i, line in enumerate(CSV.splitlines()))
        with open("new.csv", "w") as file:
            file.write(text)
    else:
        pd.DataFrame(TABLE | more).to_parquet("new.parquet")
    return f"new.{kind}"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("target", [{}, {"pay": [7] * 5}], ids=["no target", "a target"])
def test_words_for_nothing_and_a_level_na_are_what_was_declared(kind, target, model, run):
    rows = written(kind, **target)
    run("predict", "pay.json", rows, "--out", "p.csv")
    pd.testing.assert_frame_equal(pd.read_csv("p.csv"), model.frame(READ))
    if target:  # the same file serves to fit, and then its sums are those of the very values predicted from
        design = model.draws.design
        plain = pd.DataFrame({"area": ["NA", "none", "NA", "N", "N"], "age": READ["age"], **target})
        summed = [dg.statistics.regression_moments(table, design).sensitive_sums.tolist() for table in (rows, plain)]
        assert summed[0] == summed[1]


def test_a_level_na_is_told_from_the_others(model, run):
    """In pay.csv area NA pays 30 more than the rest, at almost no noise: a level read as nothing would not."""
    with open("new.csv", "w") as file:
        file.write("area,age\nNA,50\nN,50\nnone,50\n")
    run("predict", "pay.json", "new.csv", "--out", "p.csv")
    high, *low = pd.read_csv("p.csv")["prediction"]
    assert all(high - other > 15 for other in low)


def test_sampled_weights_read_alike(run):
    bounds = {"area": dg.Categories(["N", "NA", "none"], missing="NA"), "age": dg.Bounded(18, 90, missing=30)}
    frame = pd.read_csv("pay.csv", keep_default_na=False)
    fitted = dg.PrivateLinearRegression(bounds, (0, 100), 5, dg.papers.RegressionSample(5, idealized_numerics=True))
    model = fitted.fit(frame[["area", "age"]], frame["pay"]).model_
    dg.save(model, "drawn.json")
    run("predict", "drawn.json", written("csv"), "--out", "p.csv")
    np.testing.assert_allclose(pd.read_csv("p.csv")["prediction"], model.predict(READ), rtol=1e-12)


def test_no_rows_are_no_predictions(model, run):
    with open("new.csv", "w") as file:
        file.write("age,area\n")
    run("predict", "pay.json", "new.csv", "--out", "p.csv")
    assert pd.read_csv("p.csv").shape == (0, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("area,age\nhush93,1\n", "[DomainError]"),
        ("area,age\nN,hush93\n", "[DomainError]"),
        ("area\nN\n", "column 'age' is not in new.csv"),
        ('area,age\nN,1\n"hush93', "cannot be read as CSV"),
    ],
)
def test_rows_that_do_not_fit_are_refused_without_repeating_them(text, message, model, run):
    with open("new.csv", "w") as file:
        file.write(text)
    told = run("predict", "pay.json", "new.csv", "--out", "p.csv", code=1).stderr
    assert message in told
    assert "hush93" not in told


def test_no_row_is_left_out_even_where_fitting_drops_it(run):
    with open("strict.toml", "w") as file:
        file.write("[variables]\nage = { bounds = [18, 90] }\npay = { bounds = [0, 100] }\n")
    words = ("--domain", "strict.toml", "--target", "pay", "--epsilon", "2", "--inference", "plug-in", "--draws", "40")
    dropping = ("--on-missing", "drop", "--neighbours", "add-remove")
    run("fit", "regression", "pay.csv", *words, *dropping, "--out", "pay.json")
    with open("new.csv", "w") as file:
        file.write("age\n20\nNA\n")
    told = run("predict", "pay.json", "new.csv", "--out", "p.csv", code=1).stderr
    assert "'age' holds nulls or NaN" in told
    assert "[DomainError]" in told
