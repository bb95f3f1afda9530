"""Releases of regression weights round-trip with every kind of feature, and a file that does not fit is refused."""

import json

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.files.documents import document, value_of
from dpgraph.statistics.moments import Moments
from dpgraph.structure.design import Bounded, LinearDesign
from tests.files.edits import edited

pytestmark = pytest.mark.proof

FEATURES = {
    "age": Bounded(18, 90, missing=40),
    "height": (0.5, 2.5),
    "sex": ["F", "M"],
    "city": dg.Categories(["a", "b", "rest"], other="rest", missing="rest"),
    "size": dg.Bins([0, 1, 5, 9], missing=True),
}
DESIGNS = [
    LinearDesign(FEATURES, "income", (0, 1000)),
    LinearDesign(FEATURES, "income", Bounded(0, 1000, missing=0), intercept=False, on_missing="drop"),
]


def released(design=DESIGNS[0]):
    mechanism = dg.papers.RegressionSample("1/3", draws=2, radius=2, precision=0.5, idealized_numerics=True)
    unit = dg.PrivacyUnit("add-remove")
    return dg.release(Moments.zero(design), mechanism, budget=dg.Budget(1, unit=unit))


@pytest.mark.parametrize("design", DESIGNS, ids=["plain", "other"])
def test_round_trip(design, tmp_path):
    release = released(design)
    dg.save(release, tmp_path / "r.json")
    loaded = dg.load(tmp_path / "r.json")
    assert (loaded.event, loaded.unit, loaded.private) == (release.event, release.unit, release.private)
    assert (loaded.value.radius, loaded.value.precision) == (2.0, 0.5)
    assert loaded.value.design == design
    np.testing.assert_array_equal(loaded.value.weights, release.value.weights)
    assert document(loaded) == document(release)


@pytest.mark.parametrize(
    "change",
    [
        {"weights": [[0.0] * 8]},
        {"weights": [[0.0] * 7] * 2},
        {"weights": [[9.0] * 8] * 2},
        {"weights": [["a"] * 8] * 2},
        {"weights": []},
        {"radius": 0},
        {"radius": "2"},
        {"radius": None},
        {"precision": -1},
        {"description": {}},
        {"description": None},
        {"network": {"variables": {"a": [0, 1]}, "parents": {"a": []}}},
        {"event": None},
    ],
)
def test_a_file_that_does_not_fit_is_refused(change, tmp_path):
    plain = json.loads(json.dumps(document(released())))
    value_of(plain)
    (tmp_path / "r.json").write_text(edited(plain | change))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    "change",
    [
        {"target": "age"},
        {"target": 3},
        {"bounds": {"bounds": [1, 0]}},
        {"bounds": ["a", "b"]},
        {"bounds": {"bounds": [0, 1], "step": 2}},
        {"intercept": "yes"},
        {"on_missing": "guess"},
        {"features": []},
        {"features": [{"name": "age", "variable": {"bounds": [0]}}]},
        {"features": [{"name": "age", "variable": 3}]},
        {"features": {"age": {"bounds": [0, 1]}}},
        {"more": 1},
    ],
)
def test_a_design_that_does_not_fit_is_refused(change, tmp_path):
    plain = json.loads(json.dumps(document(released())))
    plain["description"]["design"] |= change
    (tmp_path / "r.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "r.json")
