"""Files of several releases: they round-trip, each part is checked against its own event, and edits are refused."""

import json

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files.documents import document
from dpgraph.files.networks import parse_json
from dpgraph.privacy.errors import FileError, ReleaseError
from tests.files.edits import edited

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2], "c": [0, 1]}, {"b": ["a"], "c": ["b"]})
OTHER = dg.Network.of(NETWORK.domain, {"a": ["c"], "b": ["c"]})
ROWS = pd.DataFrame({"a": ["x", "y"] * 30, "b": [0, 1, 2] * 20, "c": [1, 1, 0, 0] * 15})


def released(mechanism, network=NETWORK, seed=0, budget=None, unit=None):
    budget = budget or dg.Budget(10, delta="1e-5", unit=unit)
    return dg.release(dg.count(ROWS, network), mechanism, budget=budget, noise=dg.testing.SeededNoise(seed))


BUDGET, ADD = dg.Budget(10, delta="1e-5"), dg.PrivacyUnit("add-remove")
ONE = released(dg.LaplaceMechanism("1/2"), budget=BUDGET)
TWO = released(dg.GaussianMechanism("1/2", "1e-6"), seed=1, budget=BUDGET)
ELSEWHERE = released(dg.LaplaceMechanism(1), OTHER, seed=2)
SUMS = released(dg.FourierMechanism("1/3"), seed=3)
RELEASES = {
    "the same rows": ONE + TWO,
    "two networks": ONE + ELSEWHERE,
    "two networks, one to learn": (ONE + ELSEWHERE).map(lambda value: dg.results.JointCounts(value.parts, OTHER)),
    "tables and coefficients": ONE + SUMS + TWO,
    "different rows": dg.pooled([ONE, ELSEWHERE], network=NETWORK),
    "different rows, one of them twice": dg.pooled([ELSEWHERE, ONE + TWO], network=OTHER),
    "coefficients of two months": dg.pooled([SUMS, released(dg.FourierMechanism(1), seed=9)]),
    "private n": released(dg.LaplaceMechanism(1), unit=ADD) + released(dg.LaplaceMechanism(2), unit=ADD, seed=5),
}


@pytest.mark.parametrize("kind", RELEASES)
def test_releases_round_trip(kind, tmp_path):
    release = RELEASES[kind]
    dg.save(release, tmp_path / "r.json")
    again = dg.load(tmp_path / "r.json")
    assert again == release
    assert again.scope == release.scope
    assert dg.cost(again, "zcdp", "1e-3") == dg.cost(release, "zcdp", "1e-3")
    assert [single.network for single in again.value.singles] == [single.network for single in release.value.singles]
    assert document(again) == document(release)


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.ApproximationWarning")
@pytest.mark.parametrize("kind", [kind for kind, release in RELEASES.items() if release.value.network is not None])
def test_posteriors_of_them_round_trip(kind, tmp_path):
    for name, made in {
        "draws": dg.posterior(RELEASES[kind], method="normal", draws=7, seed=0),
        "plug-in": dg.posterior(RELEASES[kind], method="plug-in"),
    }.items():
        dg.save(made, tmp_path / f"{name}.json")
        again = dg.load(tmp_path / f"{name}.json")
        assert again.provenance == made.provenance == RELEASES[kind].provenance
        assert again.mean().tables == made.mean().tables


def test_a_file_of_a_group_says_which(tmp_path):
    regions = BUDGET.parallel(NETWORK.domain, "a", epsilon=1)
    counts = dg.count(ROWS, NETWORK, where={"a": "x"})
    release = dg.release(counts, dg.LaplaceMechanism("1/4"), budget=regions["x"], noise=dg.testing.SeededNoise(3))
    dg.save(release, tmp_path / "r.json")
    again = dg.load(tmp_path / "r.json")
    assert again.scope == release.scope
    assert str(again.scope) == "a = 'x'"


def test_a_file_of_one_release_says_its_rows_beside_its_record_and_one_without_is_read(tmp_path):
    plain = document(ONE)
    assert plain.pop("scope") == {"budget": BUDGET.identity, "choice": ""}
    assert "parts" not in plain["event"]
    path = tmp_path / "old.json"
    path.write_text(edited(plain))
    assert dg.load(path) == ONE
    assert dg.load(path).scope is None


def change(plain, *path_and_value):
    *path, value = path_and_value
    at = plain
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return plain


TABLE = ("parts", 0, "tables", 0)
EDITS = {
    "a larger claim": ("event", "epsilon", "2"),
    "a part's claim": ("event", "parts", 0, "epsilon", "1/4"),
    "a part's claim and cost": ("event", "parts", 1, "epsilon", "1"),
    "another label": ("event", "mechanism", "LaplaceMechanism"),
    "a part within a part": ("event", "parts", 0, "parts", [{}]),
    "parts that are none": ("event", "parts", {}),
    "one part": ("event", "parts", []),
    "a law of another scale": (*TABLE, "law", "scale", 3.0),
    "another law": (*TABLE, "law", "name", "discrete-gaussian"),
    "a table twice": (*TABLE, "variables", ["c", "b"]),
    "a count that is none": (*TABLE, "counts", 0, 1.5),
    "n that disagree": ("parts", 0, "n", 61),
    "no n": ("parts", 0, "n", None),
    "another network": ("parts", 0, "network", "variables", "a", ["x", "y", "z"]),
    "another kind of part": ("parts", 0, "kind", "moments"),
    "too few parts": ("parts", []),
    "a network in its place": ("network", "nowhere"),
    "another unit": ("unit", "rows_per_person", 2),
    "a scope without a budget": ("scope", {"choice": "x"}),
    "a scope with more": ("scope", {"budget": "x", "rows": 3}),
    "a scope of numbers": ("scope", {"budget": "x", "group": [{"name": "a", "level": 1, "declaration": ""}]}),
    "a scope of pairs": ("scope", {"budget": "x", "group": [["a", "b"]]}),
    "a scope that is no text": ("scope", {"budget": 7, "group": []}),
    "parts that are no list": ("parts", 7),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_files_are_refused(edit, tmp_path):
    plain = json.loads(json.dumps(document(RELEASES["the same rows"])))
    path = tmp_path / "edited.json"
    path.write_text(edited(change(plain, *EDITS[edit])))
    with pytest.raises(FileError):
        dg.load(path)


def test_parts_in_another_order_are_not_those_of_the_events(tmp_path):
    plain = json.loads(json.dumps(document(RELEASES["the same rows"])))
    plain["parts"].reverse()
    path = tmp_path / "edited.json"
    path.write_text(edited(plain))
    with pytest.raises(FileError, match="the tables are not those the event measured"):
        dg.load(path)


def test_the_noise_of_a_part_is_that_of_its_claim(tmp_path):
    """Twice the scale in the tables and in the event: no claim is too low, but no mechanism would have made it."""
    plain = json.loads(json.dumps(document(RELEASES["the same rows"])))
    for entry in (*plain["parts"][0]["tables"], *plain["event"]["parts"][0]["measurements"]):
        entry["law"]["scale"] *= 2
    path = tmp_path / "edited.json"
    path.write_text(edited(plain))
    with pytest.raises(FileError, match="they are not the scales it was made with"):
        dg.load(path)


def test_what_is_refused_writes_nothing(tmp_path):
    path = tmp_path / "r.json"
    with pytest.raises(ReleaseError, match="same release twice"):
        dg.save(ONE + ONE, path)
    with pytest.raises(FileError, match="save a public value"):
        dg.save(dg.pooled([ONE.value, TWO.value]), path)
    assert not path.exists()


def test_exact_counts_of_no_part_are_in_the_file():
    """Tables of 60 rows under noise of scale 4 and more: what is written are the noisy numbers."""
    texts = json.dumps(document(RELEASES["the same rows"])["parts"])
    exact = pd.crosstab(ROWS["b"], ROWS["a"]).to_numpy()
    assert json.dumps(exact.tolist()) not in texts
    noisy = parse_json(texts)[0]["tables"][0]["counts"]
    assert np.array_equal(noisy, ONE.value.tables[tuple(parse_json(texts)[0]["tables"][0]["variables"])])
