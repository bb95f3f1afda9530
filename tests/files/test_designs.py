"""Designs of a regression from TOML and JSON, and releases of their moments: read back the same, or refused."""

import json

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.files.documents import document, value_of
from tests.files.edits import edited

TOML = """
[variables]
wage = { bounds = [0, 10], missing = 0 }
age = { bounds = [18, 90.5] }
sex = ["F", "M"]
area = { levels = ["N", "E", "S"], other = "S", missing = "N" }
hours = { bins = [0, 20, 40], missing = true }
"""
FEATURES = {
    "age": (18, 90.5),
    "sex": ["F", "M"],
    "area": dg.Categories(["N", "E", "S"], other="S", missing="N"),
    "hours": dg.Bins([0, 20, 40], missing=True),
}
DESIGN = dg.LinearDesign(FEATURES, "wage", dg.Bounded(0, 10, missing=0))


def written(tmp_path, text, name="d.toml"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_design_is_read_from_the_variables_of_a_domain_file(tmp_path):
    path = written(tmp_path, TOML)
    assert dg.read_design(path, "wage") == dg.read_design(str(path), target="wage") == DESIGN
    one = dg.read_design(path, "age", features=["sex", "wage"], intercept=False, on_missing="drop")
    assert one == dg.LinearDesign(
        {"sex": ["F", "M"], "wage": dg.Bounded(0, 10, 0)}, "age", (18, 90.5), intercept=False, on_missing="drop"
    )
    plain = {"variables": {"x": {"bounds": [-1, 1]}, "y": {"bounds": [0, 3], "missing": 1.5}}}
    assert dg.read_design(written(tmp_path, json.dumps(plain), "d.json"), "y") == dg.LinearDesign(
        {"x": (-1, 1)}, "y", dg.Bounded(0, 3, 1.5)
    )


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("{ bounds = [1, 1] }", "'x': bounds must increase"),
        ("{ bounds = [1, nan] }", "'x': high must be a finite number"),
        ("{ bounds = [-inf, 1] }", "'x': low must be a finite number"),
        ("{ bounds = [1] }", "'x': bounds are a list of two numbers"),
        ("{ bounds = 3 }", "'x': bounds are a list of two numbers"),
        ('{ bounds = ["0", "1"] }', "'x': low must be a finite number"),
        ("{ bounds = [false, true] }", "'x': low must be a finite number"),
        ("{ bounds = [0, 1], other = 3 }", "unknown settings .*'other'"),
        ("{ bounds = [0, 1], levels = [3] }", "unknown settings .*'levels'"),
        ("{ bounds = [0, 1], missing = true }", "'x': missing must be a finite number"),
        ("3", "'x' needs a list of levels"),
        ("[]", "'x': the level list is empty"),
    ],
)
def test_variables_that_make_no_sense_are_refused_by_name(variable, message, tmp_path):
    path = written(tmp_path, f"[variables]\ny = {{ bounds = [0, 1] }}\nx = {variable}\n")
    with pytest.raises(dg.errors.FileError, match=message) as caught:
        dg.read_design(path, "y")
    assert "d.toml" in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "pay"}, "no variable 'pay'; there are wage, age"),
        ({"target": "sex"}, "target 'sex' needs bounds"),
        ({"target": "wage", "features": ["age", "rent"]}, "no variable 'rent'"),
        ({"target": "wage", "features": ["wage"]}, "target 'wage' is a feature"),
        ({"target": "wage", "features": []}, "at least one feature"),
        ({"target": "wage", "on_missing": "guess"}, "on_missing must be"),
    ],
)
def test_choices_that_do_not_fit_the_file_are_refused(settings, message, tmp_path):
    with pytest.raises(dg.errors.FileError, match=message):
        dg.read_design(written(tmp_path, TOML), **settings)


def test_a_file_without_variables_is_refused(tmp_path):
    for text in ("", "variables = 3\n", "[variables]\n"):
        with pytest.raises(dg.errors.FileError, match="no table of variables"):
            dg.read_design(written(tmp_path, text), "y")


@pytest.mark.parametrize("reader", [dg.read_network, dg.read_domain])
def test_bounds_in_a_network_are_refused_with_where_they_belong(reader, tmp_path):
    path = written(tmp_path, TOML + '[parents]\nage = ["sex"]\n')
    with pytest.raises(dg.errors.FileError, match="'wage' has bounds, as in a regression"):
        reader(path)


def test_a_design_is_saved_and_loaded(tmp_path):
    for design in (DESIGN, dg.LinearDesign({"b": (0, 1), "a": [1, 2.5]}, "y", (-3, 3), False, "drop")):
        dg.save(design, tmp_path / "d.json")
        assert dg.load(tmp_path / "d.json") == design
        assert list(dg.load(tmp_path / "d.json").features) == list(design.features)


def released(mechanism, neighbours):
    rng = np.random.default_rng(0)
    design = dg.LinearDesign({"age": (18, 90), "area": ["N", "E", "S"]}, "wage", dg.Bounded(0, 10, missing=0))
    X = np.column_stack([rng.uniform(0, 100, 40), rng.choice(["N", "E", "S"], 40)]).astype(object)
    X[:, 0] = X[:, 0].astype(float)
    moments = dg.statistics.regression_moments((X, rng.normal(5, 4, 40)), design)
    return dg.release(moments, mechanism, budget=dg.Budget(5, delta="1e-5", unit=dg.PrivacyUnit(neighbours)))


MECHANISMS = [dg.LaplaceMechanism("1/3"), dg.GaussianMechanism(1, "1e-6")]


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_round_trip_of_a_release(mechanism, neighbours, tmp_path):
    release = released(mechanism, neighbours)
    dg.save(release, tmp_path / "m.json")
    loaded = dg.load(tmp_path / "m.json")
    assert (loaded.event, loaded.unit, loaded.private) == (release.event, release.unit, release.private)
    assert loaded.value.description == release.value.description
    assert loaded.value.law == release.value.law
    assert loaded.value.n == release.value.n == (40 if neighbours == "replace" else None)
    np.testing.assert_array_equal(loaded.value.sums, release.value.sums)
    np.testing.assert_array_equal(loaded.value.scales, release.value.scales)
    assert document(loaded) == document(release)


def plain():
    return json.loads(json.dumps(document(released(MECHANISMS[0], "replace"))))


@pytest.mark.parametrize(
    "change",
    [
        {"target": "age"},
        {"target": 3},
        {"target": None},
        {"bounds": ["a", "b"]},
        {"bounds": {"bounds": [1, 0]}},
        {"intercept": 1},
        {"intercept": False},
        {"on_missing": "skip"},
        {"features": []},
        {"features": [{"name": "age", "variable": {"bounds": [18, 90]}}]},
        {"features": [{"name": "age", "variable": {"bounds": [18, 90]}}] * 2},
        {"features": [{"name": ["age"], "variable": {"bounds": [18, 90]}}]},
        {"features": [{"name": "g", "variable": list(range(100_000))}]},
        {"features": [{"name": "g", "variable": {"bounds": [0, 10**400]}}]},
        {"features": [{"name": f"x{i}", "variable": {"bounds": [0, 1]}} for i in range(2000)]},
    ],
    ids=lambda change: str(change)[:50],
)
def test_a_design_in_a_file_that_does_not_fit_is_refused(change, tmp_path):
    hostile = plain()
    value_of(hostile)
    hostile["description"]["design"] |= change
    (tmp_path / "m.json").write_text(edited(hostile))
    with pytest.raises(dg.errors.FileError, match=r"m\.json"):
        dg.load(tmp_path / "m.json")


@pytest.mark.parametrize(
    "change",
    [
        {"description": None},
        {"description": {"kind": "linear-design", "design": "x"}},
        {"grid": {"resolution": 1024, "copies": 1}},
        {"grid": {"resolution": 32768, "copies": 2}},
        {"grid": None},
        {"sums": [1, 2]},
        {"sums": "9"},
        {"n": None},
        {"n": -1},
        {"law": {"name": "discrete-laplace", "scale": 1.0}},
        {"law": {"name": "discrete-laplace", "scale": None}},
        {"network": {"variables": {"a": [0, 1]}, "parents": {"a": []}}},
        {"kind": "numbers"},
    ],
)
def test_a_release_in_a_file_that_does_not_fit_is_refused(change, tmp_path):
    (tmp_path / "m.json").write_text(edited(plain() | change))
    with pytest.raises(dg.errors.FileError, match=r"m\.json"):
        dg.load(tmp_path / "m.json")


def test_a_file_holds_no_number_of_rows_where_it_is_private(tmp_path):
    release = released(MECHANISMS[0], "add-remove")
    assert document(release)["n"] is None
    assert release.value.names[-1] == "n"
    assert "40" not in [str(value) for value in document(release).values()]


def test_a_strict_design_is_read_and_written_strict(tmp_path):
    lines = [line for line in TOML.splitlines() if not line.startswith("sex")]
    text = "strict = true\n" + "\n".join(lines).replace("90.5]", "90.5], missing = 40")
    design = dg.read_design(written(tmp_path, text), "wage")
    assert design.strict
    dg.save(design, tmp_path / "design.json")
    assert dg.load(tmp_path / "design.json") == design
    assert value_of(document(DESIGN)) == DESIGN
    assert not DESIGN.strict
    with pytest.raises(dg.errors.FileError, match=r"d\.toml: 'age' could refuse a row, and the design is strict"):
        dg.read_design(written(tmp_path, text.replace(", missing = 40", "")), "wage")
