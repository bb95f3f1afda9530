"""A classifier of any variable of a network has the network's own conditional probabilities, whatever a row lacks."""

import click.testing
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.files import documents
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.structure.frozen import FrozenMap
from tests.files.edits import edited
from tests.strategies import joint, networks, probabilities
from tests.tiers import examples

NETWORK = dg.Network.of(
    {"age": dg.Bins([0, 30, 60, 90]), "job": ["a", "b", "c"], "pay": ["low", "high"], "home": ["own", "rent"]},
    {"job": ["age"], "pay": ["age", "job"], "home": ["pay"]},
)
ROWS = pd.DataFrame({"age": [10, 40.0, 80, 40], "job": ["a", "b", "c", "b"], "home": ["own", "rent", "own", "own"]})


def drawn(network=NETWORK, draws=40, seed=0):
    """Draws of every table, all different, as a posterior would hold them."""
    rng = np.random.default_rng(seed)
    shapes = {name: network.shape(network.family(name)) for name in network.domain.names}
    weights = {name: rng.gamma(2, size=(1, draws, *shape)) for name, shape in shapes.items()}
    tables = {name: table / table.sum(axis=2, keepdims=True) for name, table in weights.items()}
    return PosteriorDraws(network, FrozenMap(tables), "tables")


MODEL = dg.classifier(drawn(), "pay")


@settings(deadline=None, max_examples=examples(60))
@given(st.data(), networks().filter(lambda network: len(network.domain.names) > 1))
def test_probabilities_are_those_of_the_whole_joint(data, network):
    """By enumeration; codes after the last level are not observed, and no feature is summed out by hand."""
    learned, names = data.draw(probabilities(network)), network.domain.names
    target, *others = data.draw(st.permutations(names))
    features = others[: data.draw(st.integers(1, len(others)))]
    codes = {name: np.array([data.draw(st.integers(0, network.domain.sizes[name]))]) for name in features}
    whole = joint(learned)
    for name, (code,) in codes.items():
        if code < network.domain.sizes[name]:
            whole = np.take(whole, [code], axis=names.index(name))
    expected = whole.sum(axis=tuple(i for i, name in enumerate(names) if name != target))
    found = dg.classifier(learned, target, features).predict_proba(codes)
    np.testing.assert_allclose(found[0], expected / expected.sum(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("method", ["draws", "plug-in", "one"])
def test_answers_are_those_of_query_rows(method):
    """Predictive probabilities and intervals, of whole rows and of rows with nulls at once."""
    concentrations = {name: table[0, 0] * 9 for name, table in drawn().tables.items()}
    plug_in = dg.results.DirichletPosterior(NETWORK, FrozenMap(concentrations))
    model = {"draws": drawn(), "plug-in": plug_in, "one": plug_in.mean()}[method]
    rows = pd.concat([ROWS, ROWS.assign(job=None), ROWS.assign(age=None, home=[None, "own", None, "rent"])])
    expected, fitted = dg.query_rows(model, "pay", rows, interval=0.8), dg.classifier(model, "pay")
    if method == "one":
        with pytest.raises(dg.errors.InferenceError, match=r"no intervals: give dg\.classifier draws"):
            fitted.predict_proba(rows, return_interval=True)
        found = {"predictive": fitted.predict_proba(rows)}
    else:
        made = fitted.predict_proba(rows, return_interval=True, interval=0.8)
        np.testing.assert_array_equal(made[0], fitted.predict_proba(rows))
        found = dict(zip(("predictive", "low", "high"), made, strict=True))
    for statistic, values in found.items():
        np.testing.assert_allclose(values, expected[statistic], rtol=1e-9)
    best = expected["predictive"].to_numpy().argmax(axis=1)
    assert fitted.predict(rows).tolist() == [("low", "high")[i] for i in best]


def test_the_answer_of_a_row_depends_on_that_row_alone():
    """To the last bit, wherever it stands and whatever is beside it (promise.md S24)."""
    rng = np.random.default_rng(1)
    codes = {name: rng.integers(0, NETWORK.domain.sizes[name], 3000) for name in MODEL.features}
    together = np.stack(MODEL.predict_proba(codes, return_interval=True))
    for row in (0, 1, 1777, 2999):
        alone = MODEL.predict_proba(
            {name: column[row : row + 1] for name, column in codes.items()}, return_interval=True
        )
        np.testing.assert_array_equal(np.stack(alone)[:, 0], together[:, row])


def test_a_naive_bayes_model_predicts_the_same():
    domain = dg.Domain.of({"spam": ["no", "yes"], "word": ["a", "b"], "size": dg.Bins([0, 10, 20])})
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"word": rng.choice(["a", "b"], 300), "size": rng.uniform(0, 20, 300)})
    labels = pd.Series(np.where(rows["word"] == "a", "no", "yes"), name="spam")
    fitted = dg.PrivateNaiveBayes(domain, 2, noise=dg.testing.SeededNoise(1)).fit(rows, labels)
    expected = fitted.predict_proba(rows, return_interval=True)
    for model in (fitted, fitted.model_, fitted.posterior_):
        found = dg.classifier(model, "spam").predict_proba(rows, return_interval=True)
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    other = dg.classifier(fitted, "word", ["spam"])  # of the same release, another question
    assert other.predict(pd.DataFrame({"spam": ["no", "yes"]})).tolist() == ["a", "b"]
    assert other.provenance == fitted.release_.provenance


def test_nulls_and_levels_are_read_as_everywhere(tmp_path):
    """A null is its declared level, or not observed; an undeclared value is ``other`` or refused."""
    words = dg.Categories(["a", "b", "?"], other="?", missing="?")
    network = dg.Network.of({"y": [0, 1], "w": words, "v": [True, False]}, {"y": ["w", "v"]})
    model = dg.classifier(drawn(network), "y")
    known = model.predict_proba(pd.DataFrame({"w": ["?", "?", "a"], "v": [True, False, True]}))
    half = model.predict_proba(pd.DataFrame({"w": ["a"]}))
    rows = pd.DataFrame({"w": [None, "zebra", "a", "a"], "v": [True, False, True, None]})
    np.testing.assert_array_equal(model.predict_proba(rows), np.concatenate([known, half]))
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows.to_parquet(tmp_path / "rows.parquet")
    for path in (tmp_path / "rows.csv", tmp_path / "rows.parquet"):
        np.testing.assert_array_equal(model.predict_proba(path), np.concatenate([known, half]))
    with pytest.raises(dg.errors.DomainError, match="column 'job' holds values outside") as refused:
        MODEL.predict_proba(ROWS.assign(job="zebra"))
    assert "zebra" not in str(refused.value)
    with pytest.raises(dg.errors.DomainError, match="must hold all of the features, or some of them and no other"):
        MODEL.predict_proba(ROWS.rename(columns={"job": "jobs"}))
    with pytest.raises(dg.errors.DomainError, match="whole numbers from 0 to 3"):
        MODEL.predict_proba({"age": np.array([4]), "job": np.array([0]), "home": np.array([0])})
    assert MODEL.predict_proba(ROWS[:0]).shape == (0, 2)


def test_a_row_that_the_tables_exclude_gets_the_label_that_excludes_it_least():
    network = dg.Network.of({"y": [0, 1], "a": [0, 1], "b": [0, 1]}, {"a": ["y"], "b": ["y"]})
    certain = {"y": [0.9, 0.1], "a": [[1.0, 1.0], [0.0, 0.0]], "b": [[1.0, 0.5], [0.0, 0.5]]}
    model = dg.classifier(dg.Probabilities(network, certain), "y")
    np.testing.assert_allclose(model.predict_proba({"a": np.array([1]), "b": np.array([1])}), [[0, 1]], atol=1e-12)


@pytest.mark.parametrize(
    ("target", "features", "error", "words"),
    [
        ("rent", None, "NetworkError", "no variable 'rent'"),
        ("pay", ["rent"], "NetworkError", "no variable 'rent'"),
        ("pay", [], "DomainError", "one or more variables"),
        ("pay", ["age", "age"], "DomainError", "each once"),
        ("pay", ["pay"], "DomainError", "without the target 'pay'"),
    ],
)
def test_wrong_variables_are_refused(target, features, error, words):
    with pytest.raises(getattr(dg.errors, error), match=words):
        dg.classifier(drawn(), target, features)


def test_what_holds_no_network_is_refused():
    for wrong in (ROWS, NETWORK, "pay.json"):
        with pytest.raises(dg.errors.InferenceError, match="a network's probabilities or draws of them"):
            dg.classifier(wrong, "pay")


@pytest.mark.parametrize("ending", [".json", ".npz"])
@pytest.mark.parametrize("single", [False, True])
def test_a_saved_classifier_predicts_alike_and_so_does_the_command(tmp_path, ending, single):
    model, path = dg.classifier(drawn().mean() if single else drawn(), "pay", ["age", "job"]), tmp_path / f"m{ending}"
    dg.save(model, path)
    loaded, whole = dg.load(path), ROWS[["age", "job"]]
    assert (loaded.target, loaded.features) == ("pay", ("age", "job"))
    np.testing.assert_array_equal(loaded.predict_proba(whole), model.predict_proba(whole))
    assert repr(loaded) == repr(model)
    assert dg.query(loaded, "home").mean.tolist() == pytest.approx(
        dg.query(drawn().mean() if single else drawn(), "home").mean
    )
    ROWS.assign(job=["a", None, "c", "b"]).to_csv(tmp_path / "rows.csv", index=False)
    words = ["predict", str(path), str(tmp_path / "rows.csv"), "--out", str(tmp_path / "p.csv")]
    done = click.testing.CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    found = pd.read_csv(tmp_path / "p.csv")
    expected = model.predict_proba(tmp_path / "rows.csv", return_interval=not single)
    made = np.concatenate([expected] if single else expected, axis=1)
    np.testing.assert_allclose(found.drop(columns="pay"), made, rtol=1e-12)
    assert list(found)[:3] == ["pay", "P(low)", "P(high)"]
    assert ("low(low)" in found) is not single


@pytest.mark.parametrize("field", ["target", "features"])
def test_a_file_of_another_target_or_features_is_refused(field, tmp_path):
    plain = documents.document(MODEL)
    for wrong in (5, "rent", [["age"]], None, *([["pay", "age"]] if field == "features" else [])):
        (tmp_path / "m.json").write_text(edited(plain | {field: wrong}))
        with pytest.raises(dg.errors.DPGraphError):
            dg.load(tmp_path / "m.json")


def test_it_is_judged_and_shown_like_a_naive_bayes_model():
    sampled = dg.sample_rows(drawn().mean(), 500, 0)
    judged = dg.evaluate(MODEL, sampled, epsilon=5, budget=dg.Budget(5), noise=dg.testing.SeededNoise(0))
    right = (MODEL.predict(sampled) == sampled["pay"].to_numpy()).mean()
    assert judged.scores["accuracy"].estimate == pytest.approx(right, abs=0.05)
    assert repr(MODEL) == "ConditionalClassifier('pay', one of ('low', 'high'), from 3 features, 40 draws)"
    assert "Classifier of &#x27;pay&#x27;" in MODEL._repr_html_()
