"""Weights in the units of the rows predict as scaled weights do, and draws that do not fit are refused."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.papers.regression_sample import SampledWeights, largest_squared_norm
from dpgraph.structure.design import Bounded, LinearDesign

pytestmark = pytest.mark.proof

DESIGN = LinearDesign(
    {"age": (18, 90), "sex": ["F", "M"], "city": ["a", "b", "c"], "only": ["one"], "size": dg.Bins([0, 1, 5, 9])},
    "income",
    (100, 900),
)


def scaled_row(design, row):
    """The columns of one row, straight from the definition."""
    made = []
    for column in design.columns[:-1]:
        value = row.get(column.variable)
        match column.kind:
            case "intercept":
                made.append(1.0)
            case "number":
                low, high = design.features[column.variable].low, design.features[column.variable].high
                made.append(2 * (value - low) / (high - low) - 1)
            case "sign":
                made.append(1.0 if value == 1 else -1.0)
            case _:
                made.append(float(value == column.level))
    return np.array(made)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_predictions_in_the_units_of_the_rows_are_those_of_the_scaled_columns(seed, intercept):
    rng = np.random.default_rng(seed)
    design = LinearDesign(DESIGN.features, "income", (100, 900), intercept)
    weights = rng.standard_normal((3, len(design.columns) - 1))
    found = SampledWeights(design, weights, 100.0, 1.0).coefficients()
    assert list(found) == ["intercept", *(c.name for c in design.columns[:-1] if c.kind != "intercept")]
    row = {"age": rng.uniform(18, 90), "sex": rng.integers(2), "city": rng.integers(3), "size": rng.integers(3)}
    expected = 500 + 400 * weights @ scaled_row(design, row)
    levels = {c.name: c for c in design.columns}
    predicted = found["intercept"] + sum(
        value * (row[name] if name == "age" else row[levels[name].variable] == levels[name].level)
        for name, value in found.items()
        if name != "intercept"
    )
    assert predicted == pytest.approx(expected)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_largest_row_is_that_of_a_search_over_all_corners(intercept):
    design = LinearDesign(DESIGN.features, "income", (100, 900), intercept)
    rows = itertools.product((18, 90), range(2), range(3), range(3))
    norms = [
        (scaled_row(design, dict(zip(("age", "sex", "city", "size"), row, strict=True))) ** 2).sum() for row in rows
    ]
    assert largest_squared_norm(design) == max(norms)


LINE = LinearDesign({"x": (-1, 1)}, "y", (-1, 1))


def test_draws_are_copied_and_cannot_be_changed():
    weights = np.array([[0.1, 0.2]])
    drawn = SampledWeights(LINE, weights, 1.0, 2.0)
    weights[0, 0] = 9
    assert drawn.weights[0, 0] == 0.1
    with pytest.raises(ValueError, match="read-only"):
        drawn.weights[0, 0] = 9
    assert drawn.coefficients()["x"].tolist() == [0.2]


@pytest.mark.parametrize(
    ("weights", "radius", "precision", "message"),
    [
        ([[0.1]], 1.0, 1.0, "shape"),
        ([0.1, 0.2], 1.0, 1.0, "shape"),
        (np.zeros((0, 2)), 1.0, 1.0, "shape"),
        ([[0.9, 0.9]], 1.0, 1.0, "norm"),
        ([[math.nan, 0.0]], 1.0, 1.0, "finite"),
        ([[0.1, 0.2]], 0.0, 1.0, "radius"),
        ([[0.1, 0.2]], True, 1.0, "radius"),
        ([[0.1, 0.2]], 1.0, "1", "precision"),
        ([[0.1, 0.2]], 1.0, math.inf, "precision"),
    ],
)
def test_draws_that_do_not_fit_are_refused(weights, radius, precision, message):
    with pytest.raises(dg.errors.ReleaseError, match=message):
        SampledWeights(LINE, weights, radius, precision)


def test_bounds_of_any_size_keep_their_meaning():
    design = LinearDesign({"x": Bounded(1e6, 3e6)}, "y", (-1e-3, 1e-3))
    found = SampledWeights(design, np.array([[0.5, 0.25]]), 1.0, 1.0).coefficients()
    assert found["intercept"][0] + found["x"][0] * 3e6 == pytest.approx(0.75e-3)
