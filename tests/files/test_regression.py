"""Fitted regressions as files: they come back as they were, and what is not whole is refused."""

import json

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.structure.design import LinearDesign
from tests.files.edits import edited
from tests.small_tables import labelled

DESIGN = LinearDesign({"x": dg.Bounded(0, 10, missing=1), "k": ["a", "b", "c"]}, "y", (0, 200))


@pytest.fixture
def fitted():
    rows = {"x": [1.0, 5.0, 9.0, 2.0] * 20, "k": ["a", "b", "c", "a"] * 20, "y": [10.0, 50.0, 90.0, 20.0] * 20}
    import pandas as pd

    moments = dg.statistics.regression_moments(pd.DataFrame(rows), DESIGN)
    noisy = dg.release(moments, dg.LaplaceMechanism(2), budget=dg.Budget(2))
    return dg.results.LinearRegressionModel(dg.posterior(noisy, method="plug-in", draws=30))


def test_round_trip(fitted, tmp_path):
    dg.save(fitted, tmp_path / "m.json")
    again = dg.load(tmp_path / "m.json")
    assert isinstance(again, dg.results.LinearRegressionModel)
    for name in ("design", "method", "provenance"):
        assert getattr(again.draws, name) == getattr(fitted.draws, name)
    assert np.array_equal(again.draws.weights, fitted.draws.weights)
    assert np.array_equal(again.draws.variance, fitted.draws.variance)
    assert np.array_equal(again.draws.prior_covariance, fitted.draws.prior_covariance)
    dg.save(fitted.draws, tmp_path / "d.json")
    assert (tmp_path / "d.json").read_text() == (tmp_path / "m.json").read_text()


BROKEN = {
    "a weight too few": lambda plain: plain["weights"].pop(),
    "a ragged weight": lambda plain: plain["weights"][0].pop(),
    "a weight that is text": lambda plain: plain["weights"][0].__setitem__(0, "1"),
    "a variance of nothing": lambda plain: plain["variance"].__setitem__(0, 0.0),
    "no draws": lambda plain: plain.update(weights=[], variance=[]),
    "a prior of other weights": lambda plain: plain["prior_covariance"].pop(),
    "a prior of text": lambda plain: plain.update(prior_covariance="1"),
    "another method": lambda plain: plain.update(method="guess"),
    "diagnostics of text": lambda plain: plain.update(mixing={"r_hat": "1"}),
    "no design": lambda plain: plain["description"].pop("design"),
    "bounds that fall": lambda plain: plain["description"]["design"].update(bounds={"bounds": [3, 1]}),
    "a feature more": lambda plain: plain["description"]["design"]["features"].append(
        {"name": "z", "variable": {"bounds": [0, 1]}}
    ),
    "another cost": lambda plain: plain["cost"].update(epsilon="1"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_file_that_is_not_whole_is_refused(fitted, tmp_path, name):
    dg.save(fitted, tmp_path / "m.json")
    plain = json.loads((tmp_path / "m.json").read_text())
    BROKEN[name](plain)
    (tmp_path / "m.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "m.json")


@pytest.mark.proof
def test_a_loaded_regression_has_the_coefficients_of_its_estimator(tmp_path):
    frame = labelled()
    fitted = dg.PrivateLinearRegression({"a": (1, 3), "c": (1, 3)}, (1, 2), epsilon=1).fit(frame[["a", "c"]], frame.y)
    dg.save(fitted, tmp_path / "m.json")
    loaded = dg.load(tmp_path / "m.json")
    assert loaded.intercept_ == pytest.approx(fitted.intercept_)
    np.testing.assert_allclose(loaded.coef_, fitted.coef_)
    lower, upper = fitted.coef_interval(0.5).loc["a"]
    assert tuple(loaded.coefficients(0.5).loc["a", ["lower", "upper"]]) == pytest.approx((lower, upper))
