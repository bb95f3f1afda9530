"""Posterior draws go to JSON and back, to BIF as their mean, to ArviZ, and answer queries by averaging."""

import copy
import json
import re

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.files.documents import document, value_of
from tests.files.edits import edited

NETWORK = dg.Network.of({"a": ["x", "y"], "b": [0, 1, 2], "c": ["n", "y"]}, {"b": ["a"], "c": ["a", "b"]})


@pytest.fixture(scope="module")
def release():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {"a": rng.choice(["x", "y"], 400), "b": rng.integers(0, 3, 400), "c": rng.choice(["n", "y"], 400)}
    )
    counts = dg.count(rows, NETWORK)
    budget = dg.Budget(1, unit=dg.PrivacyUnit("add-remove"))
    return dg.release(counts, dg.LaplaceMechanism(1), budget=budget, noise=dg.testing.SeededNoise(1))


@pytest.mark.parametrize("method", ["tables", "normal", "records"])
def test_draws_round_trip_exactly(release, method, tmp_path):
    draws = dg.posterior(release, method=method, draws=300, seed=1)
    dg.save(draws, tmp_path / "d.json")
    loaded = dg.load(tmp_path / "d.json")
    for name in NETWORK.domain.names:
        np.testing.assert_array_equal(loaded.tables[name], draws.tables[name])
        np.testing.assert_array_equal(loaded.mean().table(name), draws.mean().table(name))
    assert (loaded.method, loaded.reason, loaded.provenance) == (draws.method, draws.reason, draws.provenance)
    assert loaded.diagnostics == draws.diagnostics
    assert (loaded.n is None) == (draws.n is None)
    assert document(loaded) == document(draws)
    with pytest.warns(dg.errors.FileWarning, match="no intervals"):
        dg.save(draws, tmp_path / "d.bif")
    np.testing.assert_allclose(dg.load(tmp_path / "d.bif").table("c"), draws.mean().table("c"), atol=1e-6)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tables", "a"), [[[0.5, 0.6]]]),
        (("tables", "a"), [[[1.5, -0.5]]]),
        (("tables", "a"), [[0.5, 0.5]]),
        (("tables", "a"), "x"),
        (("tables",), {}),
        (("method",), 3),
        (("acceptance",), {"records": "all"}),
        (("n",), [[0.5]]),
        (("means", "a"), [0.2, 0.2]),
        (("network",), None),
    ],
)
def test_a_file_that_was_tampered_with_is_refused(release, path, value, tmp_path):
    plain = json.loads(json.dumps(document(dg.posterior(release, method="tables", draws=3, seed=1))))
    changed = copy.deepcopy(plain)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    (tmp_path / "changed.json").write_text(edited(changed))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "changed.json")


def test_a_query_of_draws_is_the_predictive_probability(release):
    """Against direct enumeration of the joint for each draw: P(a, c) averaged over the draws, then normalised."""
    draws = dg.posterior(release, method="tables", draws=40, seed=2)
    joint = np.zeros((2, 2))
    for one in draws:
        joint += np.einsum("a,ba,cab->ac", one.table("a"), one.table("b"), one.table("c"))
    expected = joint[:, 1] / joint[:, 1].sum()
    np.testing.assert_allclose(dg.query(draws, "a", {"c": "y"}).predictive, expected, rtol=1e-9)
    plain = joint.sum(axis=1) / joint.sum()
    np.testing.assert_allclose(dg.query(draws, "a").predictive, plain, rtol=1e-9)


@pytest.mark.proof
def test_arviz_gets_chains_draws_and_levels(release):
    pytest.importorskip("arviz_base", reason="needs dpgraph[arviz]")
    draws = dg.posterior(release, method="records", draws=200, seed=1)
    tree = dg.to_datatree(draws)
    values = tree["posterior"]["c"]
    assert values.dims == ("chain", "draw", "c_level", "a_level", "b_level")
    np.testing.assert_array_equal(values.sel(c_level="y", a_level="x", b_level="2"), draws.tables["c"][:, :, 1, 0, 2])


def test_the_command_draws_a_posterior_and_says_how(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dg.save(release, "r.json")
    words = ["posterior", "r.json", "--method", "tables", "--draws", "50", "--seed", "4"]
    for out in ("one.json", "two.json", "mean.bif"):
        result = CliRunner().invoke(main, [*words, "--out", out])
        assert result.exit_code == 0, result.output
        assert "method tables" in result.stderr
        assert "NOT PRIVATE" in result.stderr
        assert ("no intervals" in result.stderr) == out.endswith(".bif")
    assert (tmp_path / "one.json").read_text() == (tmp_path / "two.json").read_text()
    assert len(dg.load("one.json")) == 50
    result = CliRunner().invoke(main, ["query", "one.json", "--target", "a", "--given", "c=y"])
    assert result.exit_code == 0, result.output
    hasty = CliRunner().invoke(main, [*words[:2], "--method", "records", "--draws", "5", "--out", "hasty.json"])
    assert hasty.exit_code == 0, hasty.output
    assert "warning: the chains have not mixed" in hasty.stderr
    for bad in (["--method", "exact"], ["--draws", "0"]):
        result = CliRunner().invoke(main, [*words[:2], *bad, "--out", "x.json"])
        assert result.exit_code == 2
    result = CliRunner().invoke(main, [*words[:2], "--prior", "0", "--out", "x.json"])
    assert result.exit_code == 1
    assert not (tmp_path / "x.json").exists()


def test_chains_that_have_not_mixed_say_so_wherever_their_draws_are_shown(release, tmp_path):
    """The warning was given once, when they were drawn."""
    note = r"the chains have not mixed: R-hat \d.\d{3}, effective size \d+"
    short = dg.methods.Records(chains=2, burn_in=0)
    with pytest.warns(dg.errors.ConvergenceWarning, match=note):
        draws = dg.posterior(release, method=short, draws=20, seed=1)
    (words,) = set(re.findall(note, repr(draws)))
    for kind in ("json", "npz"):
        path = tmp_path / f"d.{kind}"
        dg.save(draws, path)
        loaded = dg.load(path)
        assert (loaded.mixing, repr(loaded)) == (draws.mixing, repr(draws))
        answers = [dg.query(loaded, "c", {"a": "x"}), dg.query(loaded, {"c": "n"}, method="sampling", samples=4000)]
        answers += [dg.questions.contrast(loaded, "c", {"a": "x"}, {"a": "y"}), dg.expectation(loaded, "b")]
        answers += [dg.questions.entropy(loaded, "a"), dg.questions.mutual_information(loaded, "a", "c")]
        assert all(words in repr(answer) for answer in answers)
        assert words in answers[0]._repr_html_()
        told = CliRunner().invoke(main, ["query", str(path), "--target", "a"])
        assert words in told.stderr
        plain = CliRunner().invoke(main, ["query", str(path), "--target", "a", "--json"])
        assert json.loads(plain.stdout)["note"] == words
        for value in (loaded, answers[0]):
            dg.write_html(value, tmp_path / "p.html")
            assert words.removeprefix("the") in (tmp_path / "p.html").read_text()


def test_draws_that_have_mixed_and_files_that_do_not_say_have_no_note(release, tmp_path):
    draws = dg.posterior(release, method="normal", draws=20, seed=1)
    plain = document(draws)
    assert "mixing" not in plain
    earlier = value_of(plain)
    assert repr(earlier) == repr(draws)
    assert dg.query(earlier, "c").note == dg.query(draws, "c").note == ""


@pytest.mark.parametrize(
    "mixing", [[], {"r_hat": 1.0}, {"r_hat": "1", "effective_size": 1.0}, {"r_hat": 1.0, "effective_size": -1.0}]
)
def test_a_record_of_mixing_that_is_none_is_refused(release, mixing):
    plain = document(dg.posterior(release, method="normal", draws=20, seed=1)) | {"mixing": mixing}
    with pytest.raises(dg.errors.FileError, match="not whole"):
        value_of(plain)
