"""Releases of noisy coefficients survive JSON, and a file that was tampered with is refused (promise.md S14)."""

import copy
import json

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.files.digest import sealed
from dpgraph.files.documents import document, value_of
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from tests.files.edits import edited
from tests.small_tables import chain

BINARY = dg.Network.of({"a": ["x", "y"], "b": [0, 1]}, {"b": ["a"]})
LEVELS = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2], "one": [0]}, {"b": ["a", "one"]})
DESIGNS = [
    (BINARY, FourierMechanism(1), "replace"),
    (BINARY, FourierMechanism(1, "paper", t=2), "replace"),
    (BINARY, FourierMechanism(1, t=2), "add-remove"),
    (LEVELS, FourierMechanism(1), "replace"),
    (LEVELS, FourierMechanism("1/3"), "add-remove"),
    (LEVELS, GaussianMechanism("1/3", "1e-6", basis="residual"), "add-remove"),
]


def released(network, mechanism, neighbours, noise=None):
    rng = np.random.default_rng(0)
    codes = {name: rng.integers(0, size, 30) for name, size in network.domain.sizes.items()}
    frame = pd.DataFrame({name: np.array(network.domain.levels(name))[code] for name, code in codes.items()})
    budget = dg.Budget(1, "1e-5", unit=dg.PrivacyUnit(neighbours))
    return dg.release(dg.count(frame, network), mechanism, budget=budget, noise=noise)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("noise", [None, dg.testing.SeededNoise(1)], ids=["secure", "seeded"])
def test_a_release_round_trips_exactly(design, noise, tmp_path):
    release = released(*design, noise)
    dg.save(release, tmp_path / "r.json")
    loaded = dg.load(tmp_path / "r.json")
    assert loaded == release
    assert loaded.private is (noise is None)
    assert document(loaded) == document(release)
    assert sealed(document(release)) == json.loads((tmp_path / "r.json").read_text())
    np.testing.assert_array_equal(
        dg.posterior(loaded, method="plug-in").mean().table("b"),
        dg.posterior(release, method="plug-in").mean().table("b"),
    )


def tampered(change):
    plain = json.loads(json.dumps(document(released(*DESIGNS[3]))))
    change(plain)
    return plain


def set_in(*path):
    *steps, last, value = path

    def change(plain):
        for step in steps:
            plain = plain[step]
        if value is KeyError:
            del plain[last]
        else:
            plain[last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_in("kind", "tables"),
        set_in("kind", KeyError),
        set_in("kind", ["counts"]),
        set_in("grid", 0),
        set_in("grid", -5),
        set_in("grid", 1.5),
        set_in("grid", 10**30),
        set_in("grid", True),
        set_in("grid", KeyError),
        set_in("step", 0),
        set_in("step", "2"),
        set_in("pseudo_records", -1),
        set_in("pseudo_records", 10**400),
        set_in("pseudo_records", 0.5),
        set_in("pseudo_records", None),
        set_in("n", None),
        set_in("n", -1),
        set_in("n", 2.0),
        set_in("blocks", 0, KeyError),
        set_in("blocks", []),
        set_in("blocks", 0, "variables", ["b"]),
        set_in("blocks", 0, "variables", "a"),
        set_in("blocks", 0, "variables", ["no such variable"]),
        set_in("blocks", 0, "values", [1, 2]),
        set_in("blocks", 0, "values", [1.5]),
        set_in("blocks", 0, "values", [2**63]),
        set_in("blocks", 0, "values", [True]),
        set_in("blocks", 0, "values", "1"),
        set_in("blocks", 0, "law", "scale", 1.0),
        set_in("blocks", 0, "law", "scale", 0),
        set_in("blocks", 0, "law", "name", "none"),
        set_in("event", "measurements", 0, "cells", 7),
        set_in("event", "measurements", 0, KeyError),
        set_in("event", None),
        set_in("unit", "neighbours", "add-remove"),
    ],
)
def test_a_file_whose_parts_do_not_fit_is_refused(change, tmp_path):
    (tmp_path / "r.json").write_text(edited(tampered(change)))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "r.json")


def test_the_tampered_document_was_whole_before():
    plain = tampered(lambda plain: None)
    assert document(value_of(copy.deepcopy(plain))) == plain


def test_no_exact_count_is_in_the_file():
    """promise.md S14: under add/remove, 30 rows all told; with noise of this size no true count need appear."""
    release = released(BINARY, FourierMechanism("0.001"), "add-remove")
    assert document(release)["n"] is None
    assert '"n": 30' not in json.dumps(document(release))


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
@pytest.mark.parametrize("variables", [3, 5])
@pytest.mark.parametrize("settings", [{}, {"n": 2000}, {"n": 10**6}], ids=["n asked", "n said", "triples"])
@pytest.mark.parametrize("kind", [".json", ".npz"])
def test_what_was_learned_in_the_residual_basis_is_saved_and_loaded(variables, settings, kind, tmp_path):
    """The model fills cliques, draws are of the graph, and neither is the pairs that were measured."""
    frame, domain = chain(2000, variables)
    learned = dg.learn_network(
        frame,
        domain,
        unit=dg.PrivacyUnit("add-remove"),
        epsilon=1,
        delta="1e-6",
        noise=dg.testing.SeededNoise(1),
        **settings,
    )
    path = tmp_path / f"model{kind}"
    model = learned.probabilities
    for value in (learned, model):
        dg.save(value, path)
        assert dg.load(path).network == model.network
    dg.save(learned.posterior(graphs="chosen", draws=5, seed=1), path)
    assert dg.load(path).network == learned.network
    dg.save(dg.choose_network(learned.release), path)
    if kind == ".json":
        text = json.loads(path.read_text())
        changed = json.dumps(text).replace('["a", "b"]', '["a", "c"]') if variables == 3 else ""
        if changed:
            path.write_text(changed)
            with pytest.raises(dg.errors.DPGraphError):
                dg.load(path)
