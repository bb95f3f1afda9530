"""A loaded model takes rows as the estimator that learned it does: tables, arrays and paths."""

import click.testing
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpgraph as dg
from dpgraph.cli import main
from tests.small_tables import LABELLED, labelled

DOMAIN = dg.Domain.of({"spam": ["no", "yes"], "word": ["a", "b"], "size": dg.Bins([0, 10, 20])})
LOG = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})
N = 300


def table(seed):
    rng = np.random.default_rng(seed)
    word = rng.choice(["a", "b"], N)
    return pd.DataFrame({"word": word.astype(object), "size": rng.uniform(0, 20, N)})


ROWS, NEW = table(0), table(1)
LABELS = pd.Series(np.where(ROWS["word"] == "a", "no", "yes").astype(object), name="spam")
PAY = pd.Series(ROWS["size"] / 2, name="pay")

#: Ways to hand the same rows to a model; a path is made from the first.
HOLDERS = {
    "frame": lambda rows, path: rows,
    "other columns": lambda rows, path: rows.assign(id=range(N))[["id", "size", "word"]],
    "polars": lambda rows, path: pl.from_pandas(rows),
    "arrow": lambda rows, path: pa.Table.from_pandas(rows),
    "array": lambda rows, path: rows.to_numpy(dtype=object),
    "list": lambda rows, path: rows.to_numpy(dtype=object).tolist(),
    "csv": lambda rows, path: written(rows, path / "rows.csv"),
    "csv by name": lambda rows, path: str(written(rows, path / "rows.csv")),
    "parquet": lambda rows, path: written(rows, path / "rows.parquet"),
}


def written(rows, path):
    if path.suffix == ".csv":
        rows.to_csv(path, index=False)
    else:
        rows.to_parquet(path)
    return path


def loaded(value, path, ending):
    dg.save(value, path / f"model{ending}")
    return dg.load(path / f"model{ending}")


@pytest.fixture(scope="module")
def classifier():
    return dg.PrivateNaiveBayes(DOMAIN, 5, noise=dg.testing.SeededNoise(1)).fit(ROWS, LABELS)


@pytest.fixture(scope="module")
def regression():
    bounds = {"word": ["a", "b"], "size": (0, 20)}
    noise = dg.testing.SeededNoise(1)
    return dg.PrivateLinearRegression(bounds, (0, 10), 5, draws=100, noise=noise).fit(ROWS, PAY)


@pytest.mark.parametrize("ending", [".json", ".npz"])
@pytest.mark.parametrize("holder", HOLDERS)
def test_a_loaded_classifier_predicts_as_its_estimator(classifier, tmp_path, holder, ending):
    model, rows = loaded(classifier, tmp_path, ending), HOLDERS[holder](NEW, tmp_path)
    expected = classifier.predict_proba(NEW)
    assert expected.max() > 0.8
    np.testing.assert_array_equal(model.predict_proba(rows), expected)
    np.testing.assert_array_equal(model.predict(rows), classifier.predict(NEW))
    np.testing.assert_array_equal(model.classes_, classifier.classes_)


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_loaded_ensemble_takes_rows(classifier, tmp_path, holder):
    """Of one draw twice it is that draw."""
    tables = classifier.model_.probabilities
    model = loaded(dg.results.NaiveBayesEnsemble("spam", (tables, tables)), tmp_path, ".json")
    rows = HOLDERS[holder](NEW, tmp_path)
    np.testing.assert_allclose(model.predict_proba(rows), classifier.predict_proba(NEW), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(rows), classifier.predict(NEW))
    assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_loaded_regression_predicts_as_its_estimator(regression, tmp_path, holder):
    model, rows = loaded(regression, tmp_path, ".npz"), HOLDERS[holder](NEW, tmp_path)
    mean, deviation = regression.predict(NEW, return_std=True)
    assert np.corrcoef(mean, NEW["size"])[0, 1] > 0.9
    np.testing.assert_allclose(model.predict(rows), mean, rtol=1e-12)
    np.testing.assert_allclose(model.predict(rows, return_std=True)[1], deviation, rtol=1e-12)
    np.testing.assert_allclose(model.predict_interval(rows, 0.8), regression.predict_interval(NEW, 0.8), rtol=1e-12)
    np.testing.assert_allclose(model.frame(rows)["std"], deviation, rtol=1e-12)


def test_a_loaded_regression_of_sampled_weights_takes_rows(tmp_path):
    bounds = {"word": ["a", "b"], "size": (0, 20)}
    noise, drawn = dg.testing.SeededNoise(1), dg.papers.RegressionSample(5, idealized_numerics=True)
    fitted = dg.PrivateLinearRegression(bounds, (0, 10), 5, drawn, noise=noise).fit(ROWS, PAY)
    model = loaded(fitted, tmp_path, ".json")
    np.testing.assert_array_equal(model.predict(NEW), fitted.predict(NEW))
    np.testing.assert_array_equal(model.predict(NEW.to_numpy(dtype=object)), fitted.predict(NEW))


def test_a_loaded_hidden_markov_model_takes_logs_and_cells(tmp_path):
    rng = np.random.default_rng(0)
    log = pd.DataFrame({"region": rng.choice(["N", "S"], N), "month": rng.choice([1, 2, 3], N)})
    log["kind"] = np.where(log["month"] == 1, "a", "b")
    held_out = pd.DataFrame({"region": ["N"], "month": [2]})
    fitted = dg.PrivateHMM(2, LOG, 5, iterations=20, burn_in=20, chains=1, noise=dg.testing.SeededNoise(1))
    fitted.fit(log, held_out=held_out)
    model = loaded(fitted, tmp_path, ".json")
    pd.testing.assert_frame_equal(model.predict(), fitted.predict())
    pd.testing.assert_frame_equal(model.predict_fields(held_out), fitted.predict_fields())
    assert len(model.predict_fields()) == 2 * 3 * 2
    assert model.log_likelihood(log, held_out) == fitted.model_.log_likelihood(log, held_out)
    path = written(log, tmp_path / "log.csv")
    assert model.log_likelihood(path, held_out) == fitted.model_.log_likelihood(log, held_out)


def test_rows_that_do_not_fit_are_refused_without_repeating_them(classifier, regression):
    for model in (classifier.model_, regression.model_):
        with pytest.raises(
            dg.errors.DomainError, match=r"X has 3 columns.*2 features: .*without the target, in the order '"
        ):
            model.predict(np.zeros((4, 3)))
        with pytest.raises(dg.errors.DomainError, match="must be a table or a two-dimensional array"):
            model.predict([1, 2])
        with pytest.raises(dg.errors.DomainError, match="'size' is not in the table"):
            model.predict(NEW[["word"]])
        with pytest.raises(
            dg.errors.DomainError, match="column 'word' holds values outside the levels 'a', 'b'"
        ) as told:
            model.predict(NEW.assign(word="Anna"))
        assert "Anna" not in str(told.value)


def test_the_command_predicts_with_an_ensemble(classifier, tmp_path):
    tables = classifier.model_.probabilities
    dg.save(dg.results.NaiveBayesEnsemble("spam", (tables, tables)), tmp_path / "e.json")
    rows, out = written(NEW, tmp_path / "rows.csv"), tmp_path / "out.csv"
    command = ["predict", str(tmp_path / "e.json"), str(rows), "--out", str(out)]
    done = click.testing.CliRunner().invoke(main, command)
    assert done.exit_code == 0, done.output
    np.testing.assert_array_equal(pd.read_csv(out)["spam"], classifier.predict(NEW))


def test_a_mapping_of_rows_is_not_read_as_codes(tmp_path):
    frame = labelled()
    dg.save(dg.PrivateNaiveBayes(LABELLED, epsilon=5, target="y").fit(frame[["a", "c"]], frame.y), tmp_path / "m.json")
    with pytest.raises(dg.errors.DomainError, match=r"pd.DataFrame\(X\)"):
        dg.load(tmp_path / "m.json").predict({"a": [1, 2], "c": [1, 2]})
