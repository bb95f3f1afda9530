"""Releases of tables, one or several, go to JSON and back exactly, and a file that does not fit is refused."""

import json

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files.documents import document, value_of
from dpgraph.mechanisms.selection.lattice import MapEstimate, PosteriorSample
from tests.everything import everything
from tests.files.edits import edited
from tests.selection import counted

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2]}, {"b": ["a"]})
COUNTS = counted(NETWORK, {(0, 0): 5, (1, 2): 987_654_321})
UNITS = [dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove", 3)]
MECHANISMS = [
    PosteriorSample("0.7", draws=3, grid=6),
    MapEstimate("1/3"),
    MapEstimate(1, selector="exponential", grid=11),
]


@pytest.mark.parametrize("unit", UNITS, ids=str)
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("noise", [None, dg.testing.SeededNoise(1)], ids=["secure", "seeded"])
def test_a_release_round_trips_exactly(mechanism, unit, noise, tmp_path):
    release = dg.release(COUNTS, mechanism, budget=dg.Budget(1, unit=unit), noise=noise)
    dg.save(release, tmp_path / "r.json")
    back = dg.load(tmp_path / "r.json")
    assert back == release
    assert everything(back) == everything(release)
    assert dg.cost(back) == dg.cost(release)
    text = (tmp_path / "r.json").read_text()
    assert "987654321" not in text
    assert json.loads(text)["kind"] == ("draws" if isinstance(release.value, tuple) else "probabilities")
    assert json.loads(text)["private"] is (noise is None)


def test_a_saved_estimate_stands_for_its_tables(tmp_path):
    release = dg.release(COUNTS, MapEstimate(1), budget=dg.Budget(1))
    dg.save(release, tmp_path / "model.bif")
    assert dg.load(tmp_path / "model.bif").table("a") == pytest.approx(release.value.table("a"))
    dg.save(release.value, tmp_path / "p.json")
    assert dg.load(tmp_path / "p.json") == release.value
    with pytest.raises(dg.errors.FileError, match="tables"):
        dg.save(dg.release(COUNTS, PosteriorSample(1, draws=2), budget=dg.Budget(1)), tmp_path / "d.bif")


def edit(plain, path, value):
    *way, last = path
    for key in way:
        plain = plain[key]
    if value is KeyError:
        del plain[last]
    else:
        plain[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["kind"], "draw"),
        (["kind"], None),
        (["kind"], KeyError),
        (["draws"], []),
        (["draws"], {}),
        (["draws"], KeyError),
        (["draws", 0, "a"], [0.5, 0.6]),
        (["draws", 0, "a"], [1.5, -0.5]),
        (["draws", 0, "a"], [float("nan"), 1.0]),
        (["draws", 0, "a"], ["0.5", "0.5"]),
        (["draws", 0, "a"], [1.0]),
        (["draws", 0, "a"], KeyError),
        (["draws", 0, "z"], [0.5, 0.5]),
        (["draws", 1], KeyError),
        (["event"], None),
        (["event", "selections"], KeyError),
        (["event", "selections", 0, "law"], "gumbel"),
        (["event", "selections", 0, "law"], []),
        (["event", "selections", 0, "draws"], 0),
        (["event", "selections", 0, "draws"], True),
        (["event", "selections", 0, "draws"], 5),
        (["event", "selections", 0, "epsilon"], 0.5),
        (["event", "selections", 0, "epsilon"], "0"),
        (["event", "selections", 0], 7),
        (["event", "epsilon"], "-1"),
        (["unit", "neighbours"], "none"),
        (["private"], "yes"),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(path, value, tmp_path):
    release = dg.release(COUNTS, PosteriorSample(1, draws=2, grid=6), budget=dg.Budget(1))
    plain = document(release)
    edit(plain, path, value)
    (tmp_path / "r.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "r.json")


def test_other_tuples_are_not_saved(tmp_path):
    release = dg.release(COUNTS, PosteriorSample(1, draws=2, grid=6), budget=dg.Budget(1))
    for value in ((), (release.value[0], 3), ("a",)):
        with pytest.raises(dg.errors.FileError, match="not saved"):
            dg.save(release.map(lambda _, value=value: value), tmp_path / "r.json")


def test_chosen_numbers_round_trip_without_a_network(tmp_path):
    mechanism = dg.PrivateQuantile(2, [0.25, 0.75], (0, 100), grid=64)
    counts = dg.count(pd.DataFrame({"age": np.arange(100.0)}), mechanism.network("age"))
    released = dg.release(counts, mechanism, budget=dg.Budget(2))
    dg.save(released, tmp_path / "q.json")
    assert dg.load(tmp_path / "q.json") == released
    plain = json.loads((tmp_path / "q.json").read_text())
    assert plain["network"] is None
    for change in (
        {"values": released.value[:1]},
        {"values": []},
        {"values": [1, 2]},
        {"values": [float("1e400"), 1.0]},
        {"network": {"variables": {"a": [0, 1]}, "parents": {"a": []}}},
        {"format": "dpgraph-posterior"},
    ):
        with pytest.raises(dg.errors.FileError):
            value_of(plain | change)


def test_an_ensemble_round_trips(tmp_path):
    network = dg.naive_bayes_network(dg.Domain.of({"spam": [0, 1], "word": ["a", "b"]}), "spam")
    counts = dg.count(pd.DataFrame({"spam": [0, 1] * 40, "word": ["a", "b"] * 40}), network)
    drawn = dg.release(counts, dg.PosteriorSample(5, draws=3), budget=dg.Budget(5))
    ensemble = dg.results.NaiveBayesEnsemble("spam", drawn)
    dg.save(ensemble, tmp_path / "e.json")
    loaded = dg.load(tmp_path / "e.json")
    assert len(loaded.draws) == 3
    assert loaded.draws[0].provenance == drawn.provenance
    codes = {"word": np.array([0, 1])}
    np.testing.assert_array_equal(loaded.predict_proba(codes), ensemble.predict_proba(codes))
    plain = document(ensemble)
    for draws in ([], {}, None):
        with pytest.raises((dg.errors.FileError, dg.errors.NetworkError)):
            value_of(plain | {"draws": draws})
