"""What is predicted is said, never guessed; and columns that nobody declared do not matter, at fit or later."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OrdinalEncoder

import dpgraph as dg
from tests.small_tables import LABELLED, labelled

DOMAIN = dg.Domain.of({"spam": [0, 1], "word": [0, 1], "link": [0, 1]})
N = 400


def rows(seed=0):
    """``spam`` is ``word`` nine times of ten; ``link`` is a coin."""
    rng = np.random.default_rng(seed)
    word, link = rng.integers(0, 2, N), rng.integers(0, 2, N)
    spam = np.where(rng.random(N) < 0.9, word, 1 - word)
    return pd.DataFrame({"word": word, "link": link}), pd.Series(spam, name="spam")


X, Y = rows()


def classifier(budget=None, **settings):
    return dg.PrivateNaiveBayes(
        DOMAIN, 5, inference="plug-in", budget=budget, noise=dg.testing.SeededNoise(1), **settings
    )


def refused(budget, words, X, y, **settings):
    with pytest.raises(dg.errors.DomainError, match=words) as told:
        classifier(budget, **settings).fit(X, y)
    assert budget.events == ()
    return str(told.value)


def test_an_array_whose_target_is_not_said_is_refused_and_charges_nothing():
    """The last declared variable was taken for it, which is ``link`` here."""
    said = refused(dg.Budget(5), r"target=\.\.\.", X.to_numpy(), Y.to_numpy())
    assert "one of spam, word, link" in said
    refused(dg.Budget(5), r"y has no name", X.to_numpy(), list(Y))


@pytest.mark.parametrize(
    ("labels", "settings"),
    [(Y.to_numpy(), {"target": "spam"}), (Y, {}), (Y, {"target": "spam"})],
    ids=["target", "name of y", "both"],
)
def test_an_array_is_fitted_as_the_table_is_where_the_target_is_said(labels, settings):
    table = classifier().fit(X, Y)
    array = classifier(**settings).fit(X.to_numpy(), labels)
    assert array.model_.target == "spam"
    assert array.release_ == table.release_
    np.testing.assert_array_equal(array.predict(X.to_numpy()), table.predict(X))
    assert (array.predict(X.to_numpy()) == Y).mean() > 0.8


def test_an_encoders_array_is_fitted_by_the_name_of_y():
    encoder = OrdinalEncoder(categories=[[0, 1], [0, 1]])
    fitted = make_pipeline(encoder, classifier()).fit(X, Y)
    assert fitted[-1].model_.target == "spam"
    assert fitted.score(X, Y) > 0.8
    with pytest.raises(dg.errors.DomainError, match="target="):
        make_pipeline(encoder, classifier()).fit(X, Y.to_numpy())


def test_an_array_that_holds_the_target_is_refused_with_the_order_of_declaration():
    both = np.column_stack([Y, X])
    refused(
        dg.Budget(5), "3 columns, .* 2 features and the target 'spam': .* order of declaration, 'word', 'link'", both, Y
    )
    fitted = classifier().fit(X.to_numpy(), Y)
    for call in (
        fitted.predict,
        fitted.model_.predict_proba,
        partial(dg.evaluate, fitted, y=Y, epsilon=1, budget=dg.Budget(1)),
    ):
        with pytest.raises(dg.errors.DomainError, match="X has 3 "):
            call(both)
    with pytest.raises(dg.errors.DomainError, match=r"pd\.DataFrame\(rows, columns="):
        dg.evaluate(fitted, both, epsilon=1, budget=dg.Budget(1))


def test_a_y_of_another_name_is_refused_and_its_name_is_not_repeated():
    for given in (X, X.to_numpy()):
        said = refused(dg.Budget(5), "another name than the target|not declared", given, Y.rename("Anna Bell"))
        assert "Anna" not in said
        assert "spam" in said
    refused(dg.Budget(5), "another name than the target, 'spam'", X, X["word"])
    refused(dg.Budget(5), "another name than the target, 'spam'", X.to_numpy(), X["word"], target="spam")
    assert classifier().fit(X, Y.rename(None)).model_.target == "spam"


def test_a_target_that_is_not_the_one_is_refused():
    refused(dg.Budget(5), "target must be a declared variable", X, Y, target="ham")
    refused(dg.Budget(5), "target must be a declared variable", X, Y, target=0)
    refused(
        dg.Budget(5), "target is 'word', but the declared variable that X does not hold is 'spam'", X, Y, target="word"
    )


def test_the_target_of_a_file_is_the_one_that_y_names(tmp_path):
    path = tmp_path / "rows.csv"
    X.assign(spam=Y).to_csv(path, index=False)
    assert classifier(target="spam").fit(path, "spam").release_ == classifier().fit(X, Y).release_
    refused(dg.Budget(5), "y names 'word', and the target is 'spam'", path, "word", target="spam")


@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PrivacyLeakWarning")
def test_a_target_names_labels_that_are_read_off_rows():
    public = dg.PrivateNaiveBayes("infer", 5, inference="plug-in", target="spam", noise=dg.testing.SeededNoise(1))
    assert public.fit(X, Y.to_numpy()).model_.target == "spam"
    with pytest.raises(dg.errors.DomainError, match="another name than the target"):
        public.fit(X, Y.rename("ham"))
    with pytest.raises(dg.errors.DomainError, match="a column of X"):
        public.fit(X.assign(spam=Y), Y)


def test_a_target_is_searched_and_cloned_like_other_parameters():
    scores = cross_val_score(classifier(target="spam"), X.to_numpy(), Y.to_numpy(), cv=2, error_score="raise")
    assert scores.mean() > 0.8


def test_y_of_a_regression_has_the_name_of_its_design_or_none():
    design = dg.LinearDesign({"word": (0, 1)}, "pay", (0, 1))
    budget = dg.Budget(1)
    model = dg.PrivateLinearRegression(design, epsilon=1, inference="plug-in", draws=5, budget=budget)
    with pytest.raises(dg.errors.DomainError, match="another name than the target, 'pay'"):
        model.fit(X, Y)
    assert budget.events == ()
    assert model.fit(X, Y.to_numpy()).design_.target == "pay"


def regression(bounds=None):
    bounds = {"word": (0, 1), "link": (0, 1)} if bounds is None else bounds
    return dg.PrivateLinearRegression(bounds, (0, 1), 5, inference="plug-in", draws=50, noise=dg.testing.SeededNoise(1))


@pytest.mark.parametrize("make", [classifier, regression])
def test_columns_that_nobody_declared_do_not_matter_at_fit_or_later(make):
    reference, wide = make().fit(X, Y), make().fit(X.assign(id=range(N)), Y)
    assert wide.n_features_in_ == 2
    assert list(wide.feature_names_in_) == ["word", "link"]
    for one in (reference, wide):
        np.testing.assert_array_equal(one.predict(X), reference.predict(X))
        np.testing.assert_array_equal(one.predict(X.assign(id="x", spam=Y)), reference.predict(X))


def test_intervals_from_some_features_name_what_they_leave_out():
    fitted = classifier().fit(X, Y)
    low = fitted.predict_proba(X, return_interval=True)[1]
    np.testing.assert_array_equal(fitted.predict_proba(X.assign(id=1), return_interval=True)[1], low)
    with pytest.raises(dg.errors.DomainError, match="some of them and no other column"):
        fitted.predict_proba(X[["word"]].assign(linc=1), return_interval=True)


@pytest.mark.parametrize("make", [classifier, regression])
def test_a_declared_column_that_is_there_twice_is_refused_by_name(make):
    twice = pd.concat([X, X[["word"]]], axis=1)
    with pytest.raises(dg.errors.DomainError, match="'word' is there more than once in X"):
        make().fit(twice, Y)
    fitted = make().fit(X, Y)
    with pytest.raises(dg.errors.DomainError, match="'word' is there more than once in X"):
        fitted.predict(twice)
    other = pd.concat([X, pd.DataFrame({"id": [1] * N}), pd.DataFrame({"id": [2] * N})], axis=1)
    np.testing.assert_array_equal(make().fit(other, Y).predict(other), fitted.predict(X))


@pytest.mark.parametrize("make", [classifier, regression])
@pytest.mark.parametrize(
    ("given", "labels", "words"),
    [
        (X, Y.to_frame(), "y must be one column.*; of a table give its column"),
        (X, Y.to_numpy()[:, None], r"y must be one column.*y\.ravel\(\)"),
        (X.to_numpy(), "spam", "the name of a column is for a table or a file|y has no name: name the target"),
        (scipy.sparse.csr_matrix(X.to_numpy()), Y, r"of a sparse matrix give X\.toarray\(\)"),
    ],
    ids=["frame", "two axes", "name", "sparse"],
)
def test_rows_of_another_shape_are_refused_saying_what_to_give(make, given, labels, words):
    with pytest.raises(dg.errors.DomainError, match=words):
        make().fit(given, labels)


PERIODS = pd.period_range("2020-01", periods=N, freq="M")


@pytest.mark.parametrize(
    ("levels", "column", "words"),
    [
        ([0, 1], X["word"].map({0: "no", 1: "yes"}), "make it numbers, pd.to_numeric, or declare the levels as text"),
        ([0, 1, 2], X["word"].astype(bool), r"make it numbers, astype\(int\), or declare the levels False, True"),
        (["a", "b"], X["word"], r"make it text, astype\(str\)"),
        ([0, 1], pd.date_range("2020-01-01", periods=N), "a part of the date that has levels"),
        (["0", "1"], PERIODS, r"make it text, astype\(str\)"),
    ],
    ids=["text", "booleans", "numbers for text", "dates", "periods"],
)
@pytest.mark.filterwarnings("ignore:values count as the levels that they spell")
def test_a_column_of_another_type_is_refused_saying_how_to_convert_it(levels, column, words):
    domain = {"spam": [0, 1], "word": levels}
    with pytest.raises(dg.errors.DomainError, match=rf"column 'word' is of type .*{words}"):
        dg.PrivateNaiveBayes(domain, inference="plug-in").fit(pd.DataFrame({"word": column}), Y)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (X["word"].astype(str), r"make it numbers, astype\(float\)"),
        (X["word"].astype(bool), r"make it numbers, astype\(float\)"),
        (pd.date_range("2020-01-01", periods=N), "make it the days since some date"),
    ],
    ids=["text", "booleans", "dates"],
)
def test_a_bounded_column_of_another_type_is_refused_saying_how_to_convert_it(column, words):
    with pytest.raises(dg.errors.DomainError, match=words):
        regression({"word": (0, 1)}).fit(pd.DataFrame({"word": column}), Y)


@pytest.mark.parametrize("make", [classifier, regression])
def test_sparse_columns_of_a_table_are_read_as_what_they_stand_for(make):
    sparse = X.astype(pd.SparseDtype(int, 0))
    assert hasattr(sparse["word"].array, "sp_values")
    np.testing.assert_array_equal(make().fit(sparse, Y).predict(sparse), make().fit(X, Y).predict(X))


def test_a_feature_named_as_the_target_is_not_dropped(tmp_path):
    labelled().to_csv(tmp_path / "rows.csv", index=False)
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError, match="y names 'a', which bounds_X declares otherwise"):
        dg.PrivateLinearRegression({"a": (1, 3), "c": (1, 3)}, (1, 2), epsilon=1, budget=budget).fit(
            str(tmp_path / "rows.csv"), "a"
        )
    assert budget.spent == 0


@pytest.mark.proof
@pytest.mark.parametrize("bounds", [(1, 2), dg.Bounded(1, 2)], ids=["pair", "bounded"])
@pytest.mark.parametrize("bounds_y", [(1, 2), [1, 2], dg.Bounded(1, 2)], ids=["pair", "list", "bounded"])
def test_a_target_declared_twice_alike_is_one_target(bounds, bounds_y, tmp_path):
    labelled().to_csv(tmp_path / "rows.csv", index=False)
    declared = {"a": (1, 3), "c": (1, 3), "y": bounds}
    model = dg.PrivateLinearRegression(declared, bounds_y, epsilon=1).fit(str(tmp_path / "rows.csv"), "y")
    assert list(model.feature_names_in_) == ["a", "c"]


@pytest.mark.parametrize("bounds", [(0, 2), [1, 2], dg.Bounded(1, 2, missing=1), 5, (2, 1)], ids=repr)
def test_a_target_declared_twice_otherwise_is_refused(bounds, tmp_path):
    """A list in bounds_X declares levels."""
    labelled().to_csv(tmp_path / "rows.csv", index=False)
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError, match="y"):
        dg.PrivateLinearRegression({"a": (1, 3), "y": bounds}, (1, 2), epsilon=1, budget=budget).fit(
            str(tmp_path / "rows.csv"), "y"
        )
    assert budget.spent == 0


def test_a_target_that_is_known_is_not_among_the_columns_that_are_missing():
    frame = labelled()
    with pytest.raises(dg.errors.DomainError, match=r"not in X: c$"):
        dg.PrivateNaiveBayes(LABELLED, target="y").fit(frame[["a"]], frame.y)
