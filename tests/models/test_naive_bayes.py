"""Without noise the classifier is scikit-learn's CategoricalNB; with any tables it is Bayes' rule on the joint."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import CategoricalNB

import dpgraph as dg
from dpgraph.files import documents
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.frozen import FrozenMap
from tests.files.edits import edited
from tests.small_tables import LABELLED, labelled
from tests.strategies import joint, probabilities
from tests.tiers import examples

SAVED = Path(__file__).parents[1] / "files" / "saved"


@st.composite
def coded_rows(draw, max_rows=60):
    """Encoded features and labels, every label among them, with the network they belong to."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    labels = draw(st.integers(2, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(labels, max_rows))
    y = np.concatenate([np.arange(labels), rng.integers(0, labels, n - labels)])
    X = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    at = draw(st.integers(0, len(sizes)))
    names = [f"f{i}" for i in range(len(sizes))]
    variables = {name: list(range(size)) for name, size in zip(names, sizes, strict=True)}
    order = [*names[:at], "label", *names[at:]]
    network = dg.naive_bayes_network({name: variables.get(name, list(range(labels))) for name in order}, "label")
    return network, X, y, sizes


def oracle(X, y, sizes, prior):
    """CategoricalNB with the same smoothing of the labels, which it does not smooth by itself."""
    labels = np.bincount(y) + prior
    return CategoricalNB(alpha=prior, class_prior=labels / labels.sum(), min_categories=sizes).fit(X, y)


def exact_tables(X, y):
    """Feature by label counts, and label counts, by definition."""
    k = y.max() + 1
    tables = {("label",): np.bincount(y, minlength=k)}
    for i in range(X.shape[1]):
        table = np.zeros((X[:, i].max() + 1, k), int)
        np.add.at(table, (X[:, i], y), 1)
        tables[f"f{i}", "label"] = table
    return tables


def padded(tables, network):
    """Tables with a cell for every declared level."""
    made = {}
    for key, table in tables.items():
        made[key] = np.zeros(network.shape(key), int)
        made[key][tuple(slice(size) for size in table.shape)] = table
    return made


def codes_of(X):
    return {f"f{i}": X[:, i] for i in range(X.shape[1])}


@settings(deadline=None, max_examples=examples(60))
@given(coded_rows(), st.sampled_from([0.5, 1.0, 3.0]))
def test_exact_counts_give_the_predictions_of_categorical_nb(case, prior):
    network, X, y, sizes = case
    tables = padded(exact_tables(X, y), network)
    learned = DirichletPosterior(network, FrozenMap({key[0]: table + prior for key, table in tables.items()}))
    model, theirs = dg.results.NaiveBayes("label", learned.mean()), oracle(X, y, sizes, prior)
    everything = np.array(list(np.ndindex(*sizes)))
    np.testing.assert_allclose(model.predict_proba(codes_of(everything)), theirs.predict_proba(everything), rtol=1e-9)
    mine = model.predict_log_joint(codes_of(everything))
    np.testing.assert_allclose(mine, theirs.predict_joint_log_proba(everything), rtol=1e-9)


@pytest.mark.parametrize("law", [DiscreteLaplace, SumZeroLaplace])
@pytest.mark.parametrize("counts", ["nearest", "expected", "clipped"])
@settings(deadline=None, max_examples=examples(20))
@given(coded_rows())
def test_a_release_whose_noise_is_nothing_gives_them_too(law, counts, case):
    """Integer counts and a law of scale 2^-8, whose draws are 0 but for one in e^256."""
    network, X, y, sizes = case
    tables = padded(exact_tables(X, y), network)
    noisy = dg.results.NoisyCounts(network, tables, dict.fromkeys(tables, law(2.0**-8)), len(y))
    model = dg.results.NaiveBayes("label", dg.posterior(noisy, prior=1.0, method=dg.methods.PlugIn(counts)).mean())
    expected = oracle(X, y, sizes, 1.0).predict_proba(X)
    np.testing.assert_allclose(model.predict_proba(codes_of(X)), expected, rtol=1e-6)


NETWORK = dg.naive_bayes_network({"f": [0, 1, 2], "t": ["no", "yes", "maybe"], "g": dg.Bins([0, 1, 2])}, "t")


@settings(deadline=None)
@given(st.booleans().flatmap(lambda zeros: probabilities(NETWORK, zeros)))
def test_probabilities_are_bayes_rule_on_the_joint(learned):
    model, table = dg.results.NaiveBayes("t", learned), joint(learned)
    for f, g in np.ndindex(3, 2):
        answer = model.predict_proba({"f": np.array([f]), "g": np.array([g])})
        weights = table[f, :, g]
        expected = weights / weights.sum() if weights.sum() > 0 else np.full(3, 1 / 3)
        np.testing.assert_allclose(answer, [expected], atol=1e-12)


def test_hundreds_of_unlikely_features_do_not_underflow():
    names = [f"f{i}" for i in range(400)]
    network = dg.naive_bayes_network({"t": [0, 1], **dict.fromkeys(names, (0, 1))}, "t")
    tables = {"t": [0.5, 0.5]} | dict.fromkeys(names, ((1e-3, 2e-3), (1 - 1e-3, 1 - 2e-3)))
    model = dg.results.NaiveBayes("t", dg.Probabilities(network, tables))
    answer = model.predict_proba({name: np.zeros(1, np.uint8) for name in names})
    assert answer[0, 0] == pytest.approx(2.0**-400, rel=1e-6)
    assert answer.sum() == pytest.approx(1)


def test_a_model_names_its_features_in_the_domains_order():
    model = dg.results.NaiveBayes(
        "t", dg.Probabilities(NETWORK, {"f": np.full((3, 3), 1 / 3), "t": [0.2, 0.3, 0.5], "g": np.full((2, 3), 0.5)})
    )
    assert model.features == ("f", "g")
    assert model.predict_proba({"f": np.zeros(0, int), "g": np.zeros(0, int)}).shape == (0, 3)
    np.testing.assert_allclose(model.predict_proba({"f": np.array([0]), "g": np.array([1])}), [[0.2, 0.3, 0.5]])


def test_without_features_the_labels_alone_decide():
    network = dg.naive_bayes_network({"t": [0, 1]}, "t")
    model = dg.results.NaiveBayes("t", dg.Probabilities(network, {"t": [0.2, 0.8]}))
    assert model.features == ()
    assert model.predict_log_joint({}).shape == (0, 2)


@pytest.mark.parametrize(
    ("parents", "target"),
    [({}, "a"), ({"b": ["a"]}, "b"), ({"b": ["a"], "c": ["b"]}, "a"), ({"b": ["a"], "c": ["a", "b"]}, "a"), ({}, "z")],
)
def test_another_network_is_refused(parents, target):
    network = dg.Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, parents)
    tables = {name: np.full(network.shape(network.family(name)), 0.5) for name in "abc"}
    with pytest.raises(dg.errors.NetworkError, match=r"not a naive Bayes network|no variable 'z'"):
        dg.results.NaiveBayes(target, dg.Probabilities(network, tables))


def test_the_log_of_a_probability_is_natural():
    network = dg.naive_bayes_network({"t": [0, 1], "f": [0, 1]}, "t")
    model = dg.results.NaiveBayes("t", dg.Probabilities(network, {"t": [0.25, 0.75], "f": [[0.5, 0.1], [0.5, 0.9]]}))
    expected = [[math.log(0.25 * 0.5), math.log(0.75 * 0.9)]]
    np.testing.assert_allclose(model.predict_log_joint({"f": np.array([1])}), expected)


@pytest.mark.parametrize("inference", ["noise-aware", "plug-in"])
@pytest.mark.parametrize("ending", ["json", "npz"])
def test_a_loaded_model_has_the_intervals_of_its_estimator(tmp_path, inference, ending):
    fitted, new = labelled_fit(inference)
    dg.save(fitted, tmp_path / f"m.{ending}")
    loaded = dg.load(tmp_path / f"m.{ending}")
    new.to_csv(tmp_path / "new.csv", index=False)
    for rows in (new, new[["a"]], new.to_numpy(), tmp_path / "new.csv"):
        for mine, theirs in zip(
            *(one.predict_proba(rows, return_interval=True) for one in (fitted, loaded)), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)
    np.testing.assert_array_equal(fitted.predict_proba(new), loaded.predict_proba(new))
    for wrong in (new.rename(columns={"a": "z"}), new[[]], new.head(0)):
        with pytest.raises(dg.errors.DomainError):
            loaded.predict_proba(wrong, return_interval=True)


def test_a_file_says_that_it_keeps_no_intervals_and_the_refusal_what_to_do(tmp_path, monkeypatch):
    fitted, new = labelled_fit("noise-aware")
    with pytest.warns(dg.errors.FileWarning, match=r"m\.bif keeps mean tables and no posterior"):
        dg.save(fitted, tmp_path / "m.bif")
    monkeypatch.setitem(documents.KEPT, ".json", 1000)
    with pytest.warns(dg.errors.FileWarning, match=r"numbers, more than 1,000; \.npz keeps more"):
        dg.save(fitted, tmp_path / "m.json")
    with pytest.raises(dg.errors.InferenceError, match=r"again to \.npz.*dg.query_rows\(posterior, 'y'"):
        dg.load(tmp_path / "m.json").predict_proba(new, return_interval=True)
    release = dg.load(tmp_path / "m.json", release=True)
    again = dg.posterior(release, method=dg.methods.Normal(shrink=True), draws=500)
    found, (_, low, high) = dg.query_rows(again, "y", new), fitted.predict_proba(new, return_interval=True)
    np.testing.assert_allclose(found["low"].to_numpy(), low, atol=0.02)
    np.testing.assert_allclose(found["high"].to_numpy(), high, atol=0.02)


@pytest.mark.parametrize(
    ("step", "value"), [("kind", "x"), ("kind", ["x"]), ("tables", {}), ("tables", {"a": [[[[2.0]]]]}), ("method", 3)]
)
def test_a_posterior_in_a_file_that_was_tampered_with_is_refused(tmp_path, step, value):
    plain = json.loads((SAVED / "naive-bayes.json").read_text())
    assert plain["posterior"]["kind"] == "posterior-draws"
    plain["posterior"][step] = value
    (tmp_path / "changed.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "changed.json")


def labelled_fit(inference):
    """A fitted classifier, and rows to predict."""
    rows = labelled(2000)
    noise = dg.testing.SeededNoise(0)
    fitted = dg.PrivateNaiveBayes(LABELLED, target="y", epsilon=5, inference=inference, noise=noise)
    return fitted.fit(rows[["a", "c"]], rows.y), rows[["a", "c"]].head(3)
