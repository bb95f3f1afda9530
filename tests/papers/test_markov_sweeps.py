"""A model from the sweeps of a private sampler, and what of both goes to JSON and back."""

import json
from dataclasses import replace

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.files.documents import document
from tests.files.edits import edited
from tests.selection import counted

pytestmark = pytest.mark.proof

DOMAIN = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b", "c"], "grave": ["no", "yes"]})
NETWORK = dg.hmm_network(DOMAIN, "region", "month")
TRUTH = np.array([[0, 1, 1], [1, 1, 0]])
LAWS = np.array([[800, 100, 100], [50, 50, 900]])
ROWS = {(c, t, v, v % 2): int(LAWS[TRUTH[c, t], v]) for c in range(2) for t in range(3) for v in range(3)}


@pytest.fixture(scope="module")
def released():
    how = dg.papers.GibbsSample(3000, states=2, sweeps=7)
    return dg.release(counted(NETWORK, ROWS), how, budget=dg.Budget(3000), noise=dg.testing.SeededNoise(0))


def test_the_model_is_that_of_the_last_sweeps(released):
    """States are named by how many cells they have, four and two here, however the sampler called them."""
    model = dg.papers.sampled_markov_model(released)
    assert model.states.shape == (1, 4, 2, 3)
    assert model.provenance == released.provenance
    assert (model.states == 1 - TRUTH).all()
    assert model.mean_emission("kind") == pytest.approx(LAWS[::-1] / 1000, abs=0.04)
    assert model.predict()["state"].tolist() == (1 - TRUTH).ravel().tolist()
    assert dg.papers.sampled_markov_model(released, keep=2).states.shape[1] == 2
    sweeps = released.value
    at_once = np.sort(sweeps.emissions["kind"][-4:], axis=1)
    assert np.sort(model.emissions["kind"][0], axis=1) == pytest.approx(at_once)


def test_labels_that_switch_from_sweep_to_sweep_are_undone(released):
    sweeps = released.value
    switched = dg.papers.MarkovSweeps(
        NETWORK,
        "region",
        "month",
        np.concatenate([sweeps.transition[:-1], sweeps.transition[-1:, ::-1, ::-1]]),
        {name: np.concatenate([law[:-1], law[-1:, ::-1]]) for name, law in sweeps.emissions.items()},
        np.concatenate([sweeps.states[:-1], 1 - sweeps.states[-1:]]),
    )
    one, other = dg.papers.sampled_markov_model(sweeps), dg.papers.sampled_markov_model(switched)
    assert one.state_probabilities.tolist() == other.state_probabilities.tolist()
    assert one.mean_emission("kind") == pytest.approx(other.mean_emission("kind"))
    assert one.mean_transition == pytest.approx(other.mean_transition)


def test_the_score_of_held_out_cells_is_that_of_the_definition(released):
    """One draw: ln sum_k P(k | states beside) prod phi_k^counts."""
    model = dg.papers.sampled_markov_model(released, keep=1)
    cells = np.zeros((2, 3), bool)
    cells[0, 1] = True
    codes = {"region": [0, 0], "month": [1, 1], "kind": [2, 0], "grave": [0, 0]}
    arrays = {name: np.array(values) for name, values in codes.items()}
    found, entries = model.log_likelihood(arrays, cells)
    a, states = model.transition[0, 0], model.states[0, 0, 0]
    weight = a[states[0]] * a[:, states[2]]
    kind, grave = (model.emissions[name][0, 0] for name in ("kind", "grave"))
    wanted = np.log((weight / weight.sum() * kind[:, 2] * kind[:, 0] * grave[:, 0] ** 2).sum())
    assert (found, entries) == (pytest.approx(wanted), 2)


@pytest.mark.parametrize("unit", [dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove", 2)], ids=str)
@pytest.mark.parametrize("noise", [None, dg.testing.SeededNoise(1)], ids=["secure", "seeded"])
def test_releases_and_models_round_trip_exactly(unit, noise, tmp_path):
    how = dg.papers.GibbsSample(2, states=2, sweeps=4, delta="1e-9")
    release = dg.release(counted(NETWORK, ROWS), how, budget=dg.Budget(2, delta="1e-9", unit=unit), noise=noise)
    for value in (release, dg.papers.sampled_markov_model(release)):
        dg.save(value, tmp_path / "r.json")
        back = dg.load(tmp_path / "r.json")
        assert document(back) == document(value)
        assert repr(back) == repr(value)
    assert back.provenance == release.provenance
    assert back.diagnostics == value.diagnostics
    dg.save(release, tmp_path / "r.json")
    back = dg.load(tmp_path / "r.json")
    assert (back.event, back.unit, back.private) == (release.event, unit, noise is None)
    assert (back.value.states == release.value.states).all()
    assert dg.cost(back) == dg.cost(release)
    assert json.loads((tmp_path / "r.json").read_text())["kind"] == "markov-sweeps"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "sweeps"),
        ("sequence", "kind"),
        ("sequence", ["region"]),
        ("time", "nowhere"),
        ("states", []),
        ("states", [[[0.5, 0, 0], [0, 0, 0]]]),
        ("states", [[[0, 1, 2], [0, 0, 0]]] * 7),
        ("transition", [[[0.5, 0.6], [0.5, 0.5]]] * 7),
        ("transition", [[[0.5, 0.5], [0.5, 0.5]]] * 6),
        ("transition", "x"),
        ("emissions", {}),
        ("emissions", {"kind": [[[1.0]]], "grave": [[[1.0]]]}),
        ("network", None),
        ("event", None),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(released, name, value, tmp_path):
    plain = document(released)
    plain[name] = value
    (tmp_path / "r.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError, match=r"^(?!.*digest)"):
        dg.load(tmp_path / "r.json")


def test_sweeps_that_the_event_did_not_make_are_refused(released, tmp_path):
    """At no higher price."""
    other = dg.papers.GibbsSample(3000, states=2, sweeps=14).event(NETWORK, released.unit)
    (tmp_path / "r.json").write_text(edited(document(replace(released, event=other))))
    with pytest.raises(dg.errors.FileError, match="as many"):
        dg.load(tmp_path / "r.json")


@pytest.mark.parametrize(
    ("value", "keep"), [(3, None), ("sweeps", 0), ("sweeps", 8), ("sweeps", True), ("sweeps", 1.5)]
)
def test_what_is_no_such_release_is_refused(released, value, keep):
    with pytest.raises(dg.errors.InferenceError, match=r"sampled_markov_model|keep must be"):
        dg.papers.sampled_markov_model(released if value == "sweeps" else value, keep)
