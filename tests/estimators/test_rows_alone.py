"""A row is judged by itself (promise.md S24): outcomes of rows, and of these and one more, differ by that one alone."""

import threading
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_matrix
from sklearn.linear_model import LinearRegression, LogisticRegression

import dpgraph as dg
from dpgraph.estimators import evaluation
from dpgraph.estimators.evaluation import outcomes
from dpgraph.models.hmm import entry_log_probability
from dpgraph.models.naive_bayes import NaiveBayes, naive_bayes_network
from dpgraph.privacy.errors import DomainError
from dpgraph.statistics.rows.codes import encode
from dpgraph.structure.tables import Probabilities

RNG = np.random.default_rng(7)
NAMES = [f"x{i}" for i in range(7)]
N = 2100
FRAME = pd.DataFrame(RNG.normal(size=(N, 7)), columns=NAMES)
LABEL = (FRAME["x0"] + RNG.normal(size=N) > 0).astype(int)
PAY = (FRAME["x1"] + RNG.normal(size=N)).rename("pay")
#: Where the code once changed its way: n // 4 joint levels, and the lengths of blocks.
NUMBERS = [1, 2, 7, 15, 16, 17, 47, 63, 255, 256, 257, 1023, 1024, 1025, 2047, 2048]


def mirrored(copies=1):
    """Tables of two labels that are one another's mirror: rows (0, 0) are a tie in exact arithmetic."""
    network = naive_bayes_network(dg.Domain.of({"y": [0, 1], "f": [0, 1], "g": [0, 1]}), "y")
    tables = {"y": [0.5, 0.5], "f": [[0.62, 0.29], [0.38, 0.71]], "g": [[0.29, 0.62], [0.71, 0.38]]}
    drawn = Probabilities(network, tables)
    return NaiveBayes("y", drawn) if copies == 1 else dg.results.NaiveBayesEnsemble("y", (drawn,) * copies)


def binary(copies=1):
    """A model of seven binary features."""
    domain = dg.Domain.of({"y": [0, 1, 2], **{name: [0, 1] for name in NAMES}})
    network = naive_bayes_network(domain, "y")

    def drawn():
        each = {name: RNG.dirichlet([1, 1], size=3).T for name in NAMES}
        return Probabilities(network, {"y": [0.3, 0.3, 0.4], **{k: v / v.sum(axis=0) for k, v in each.items()}})

    if copies == 1:
        return NaiveBayes("y", drawn())
    return dg.results.NaiveBayesEnsemble("y", tuple(drawn() for _ in range(copies)))


def regression():
    made = dg.PrivateLinearRegression(dict.fromkeys(NAMES, (-3, 3)), (-4, 4), 1, inference="plug-in", draws=20)
    return made.fit(FRAME, PAY).model_


def sampled():
    design = dg.LinearDesign(dict.fromkeys(NAMES, (-3, 3)), "pay", (-4, 4))
    return dg.papers.SampledRegressionModel(dg.papers.SampledWeights(design, RNG.normal(size=(5, 8)) / 9, 9.0, 1.0))


def hmm():
    log = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "a": [0, 1], "b": [0, 1, 2]})
    made = dg.PrivateHMM(2, log, 1, iterations=40, burn_in=2, chains=1, inference="plug-in")
    return made.fit(entries()).model_


def entries():
    levels = {"region": ["N", "S"], "month": [1, 2, 3], "a": [0, 1], "b": [0, 1, 2]}
    return pd.DataFrame({name: RNG.choice(values, N) for name, values in levels.items()})


CODES = (FRAME > 0).astype(int)
CASES = {
    "naive Bayes": (binary, CODES.assign(y=RNG.integers(0, 3, N)), None),
    "naive Bayes, ties": (mirrored, pd.DataFrame({"f": 0, "g": 0, "y": [0] * N}), None),
    "ensemble": (lambda: binary(4), CODES.assign(y=RNG.integers(0, 3, N)), None),
    "ensemble, ties": (lambda: mirrored(3), pd.DataFrame({"f": 0, "g": 0, "y": [0] * N}), None),
    "regression": (regression, FRAME, PAY),
    "sampled regression": (sampled, FRAME.assign(pay=PAY), None),
    "HMM": (hmm, entries(), None),
    "scikit-learn classifier": (lambda: LogisticRegression().fit(FRAME, LABEL), FRAME[:70], LABEL[:70]),
    "scikit-learn regressor": (lambda: LinearRegression().fit(FRAME, PAY), FRAME[:70], PAY[:70]),
}


@pytest.fixture(scope="module", params=CASES)
def judged(request):
    """A model, its rows, and what the release of some of them would hold, exactly."""
    make, X, y = CASES[request.param]
    model = make()
    settings = {"bounds": (-4, 4)} if isinstance(model, LinearRegression) else {}

    def sums(rows):
        found = outcomes(model, X.iloc[rows], None if y is None else y.iloc[rows], **settings)
        return found.sensitive_sums

    return model, X, y, sums


def said(model, X, y):
    """The numbers that rows are judged by, one line a row."""
    if isinstance(model, dg.results.NaiveBayes | dg.results.NaiveBayesEnsemble):
        return evaluation.class_probabilities(model, X, y)[1]
    if isinstance(model, dg.results.HiddenMarkovModel):
        return entry_log_probability(model, encode(X, model.network.domain).columns)
    if isinstance(model, LogisticRegression):
        return evaluation.foreign_probabilities(model, X, y)[1]
    if isinstance(model, LinearRegression):
        return evaluation.foreign_prediction(model, X, y)[1]
    return evaluation.target_and_prediction(model, X, y)[1]


def test_one_row_more_adds_what_it_adds_alone(judged):
    *_, X, _, sums = judged
    for n in NUMBERS:
        if n < len(X):
            one = sums(slice(n, n + 1))
            assert (sums(slice(0, n + 1)) - sums(slice(0, n)) == one).all(), n
            assert (sums(slice(1, n + 1)) + sums(slice(0, 1)) == sums(slice(0, n + 1))).all(), n


def test_what_is_said_of_a_row_is_its_own_to_the_last_bit(judged):
    """By itself, in another order, at the end of a block and before it."""
    model, X, y, _ = judged
    whole = said(model, X, y)
    backwards = said(model, X[::-1], None if y is None else y[::-1])
    assert (whole == backwards[::-1]).all()
    for row in range(0, len(X), 13):
        part = slice(row, row + 1)
        alone = said(model, X.iloc[part], None if y is None else y.iloc[part])
        assert (whole[part] == alone).all()


def test_fifteen_rows_and_sixteen_say_the_same_of_a_tie():
    """Once features were packed by n // 4, so that 15 rows said one label and 16 the other: 31 charges lost."""
    rows = {name: np.zeros(16_384, int) for name in "fg"}
    found = [mirrored().predict({name: column[:n] for name, column in rows.items()}) for n in (1, 15, 16, 17, 16_384)]
    assert {label for labels in found for label in labels.tolist()} == {found[0][0]}


class Asked:
    """A model of another library that remembers what it was asked."""

    def __init__(self):
        self.rows = []

    def predict(self, X):
        self.rows.append(X)
        return np.full(X.shape[0] if hasattr(X, "shape") else len(X), float(len(self.rows)))


@pytest.mark.parametrize(
    "X",
    [
        np.array([[0.0], [-0.0], [0.0], [1.0]]),
        np.array([[0], [0.0], [0], [True]], object),
        [[0], [0.0], [0], [True]],
        ["a", "b", "a", "c"],
        pd.DataFrame({"x": [1, 2, 1, 3], "y": pd.Categorical(["a"] * 4)}),
        pd.Series(["a", "b", "a", "c"]),
    ],
    ids=lambda X: type(X).__name__,
)
def test_other_models_are_asked_of_each_different_row_by_itself(X):
    model = Asked()
    _, found = evaluation.foreign_prediction(model, X, np.zeros(4))
    assert found.tolist() == [1, 2, 1, 3]
    assert [len(rows) for rows in model.rows] == [1, 1, 1]
    assert all(list(rows.index) == [0] for rows in model.rows if hasattr(rows, "iloc"))


def test_a_sparse_matrix_is_asked_row_by_row_too():
    model = Asked()
    evaluation.foreign_prediction(model, coo_matrix(np.eye(3)), np.zeros(3))
    assert [rows.shape for rows in model.rows] == [(1, 3)] * 3


@pytest.mark.parametrize("X", [np.zeros((0, 7)), FRAME[:0]], ids=["array", "frame"])
def test_no_rows_have_no_outcomes(X):
    model = LinearRegression().fit(FRAME.to_numpy(), PAY)
    assert not outcomes(model, X, np.zeros(0), bounds=(0, 1)).sensitive_sums.any()


def test_rows_of_another_number_than_y_are_refused():
    with pytest.raises(DomainError, match="X and y differ in length"):
        evaluation.foreign_prediction(Asked(), np.zeros((3, 1)), np.zeros(4))


def test_models_of_two_threads_warn_in_silence(capfd):
    """A model that warns of a value, after another thread's model has answered: its warning once reached stderr."""
    inside, left = threading.Event(), threading.Event()

    class First(Asked):
        def predict(self, X):
            other.start()
            assert inside.wait(10)
            return super().predict(X)

    class Second(Asked):
        def predict(self, X):
            inside.set()
            assert left.wait(10)
            warnings.warn("unusual value 73.123456", UserWarning, stacklevel=1)
            return super().predict(X)

    def judged(model):
        return outcomes(model, np.zeros((1, 1)), [0.0], bounds=(0, 1))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        other = threading.Thread(target=judged, args=(Second(),))
        judged(First())
        left.set()
        other.join()
    assert "73.123456" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["largest_error", "largest_loss"])
@pytest.mark.parametrize("value", [5e-324, 1e-308, 1e-101, 1e101, np.inf])
def test_bounds_at_which_a_division_would_overflow_are_refused_whatever_the_rows(name, value):
    """Fifty calls at bounds near 1e-308 told the largest error by numpy's warning, and charged nothing."""
    model, X, y = (Asked(), FRAME[:3], PAY[:3]) if name == "largest_error" else (mirrored(), CODES[:0], None)
    settings = {"bounds": (-4, 4)} if name == "largest_error" else {}
    with pytest.raises(DomainError, match=f"{name} must be a finite number above 0, from 1e-100 to 1e100"):
        outcomes(model, X, y, **settings, **{name: value})
