"""Nothing about rows in any side output (promise.md S21), and a refusal that charges and writes nothing.

Hostile rows go through every public function that reads rows. Neither the word in them nor their number may be in a
message, in what an exception holds on to, in a warning, a log, a stream or the name of a file.
"""

import inspect
import warnings

import click
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import dpgraph as dg
from dpgraph.cli import main
from dpgraph.privacy.exact_loss import RecordingNoise
from tests.names import public_names
from tests.privacy import hostile
from tests.privacy.hostile import CANARY, Heard, N, repeated
from tests.tiers import Later

pytestmark = pytest.mark.filterwarnings("ignore")  # they are searched, not forbidden

DOMAIN = dg.Domain.of({"sex": ["F", "M"], "age": dg.Bins([0, 50, 100]), "month": [1, 2]})
NETWORK = dg.Network.of(DOMAIN, {"age": ["sex"]})
LOG = dg.Domain.of({"region": ["N", "S"], "month": [1, 2], "sex": ["F", "M"]})
DESIGN = dg.LinearDesign({"age": (0, 100), "sex": ["F", "M"]}, "pay", (0, 10))
STRICT = dg.Domain.of(
    {
        "sex": dg.Categories(["F", "M"], other="M", missing="M"),
        "age": dg.Bins([0, 50, 100], missing=True),
        "month": dg.Categories([1, 2], other=1, missing=1),
    },
    strict=True,
)
ANYTHING = dg.Network.of(STRICT, {"age": ["sex"]})
UNIT = dg.PrivacyUnit("add-remove", 2)
QUICK = {"iterations": 1, "burn_in": 1, "chains": 1, "inference": "plug-in"}
FEATURES = ["age", "sex"]
BUDGET = dg.Budget(10**6, unit=dg.PrivacyUnit("add-remove"))
PERSONS = dg.Budget(10**6, unit=UNIT)
GROUP = BUDGET.parallel(DOMAIN, "month", epsilon=10**5)[1]


def naive_bayes(budget=None):
    domain = DOMAIN.restrict(["age", "sex"])
    unit = None if budget else UNIT
    return dg.PrivateNaiveBayes(domain, 1, inference="plug-in", budget=budget, unit=unit, target="sex")


def planned(budget=None):
    domain = DOMAIN.restrict(["age", "sex"])
    return dg.PrivateClassifier(domain, "sex", 1, budget=budget, unit=None if budget else UNIT)


def judged(fitted, name, X, y=None):
    """An evaluation with answers that tell nothing, whole: what it says is searched."""
    bounds = (0, 10) if name == "regressor" else None
    return dg.evaluate(fitted[name], X, y, epsilon=1, budget=BUDGET, noise=RecordingNoise(), bounds=bounds)


def discovered(rows, budget, **settings):
    """A domain that is found with answers that tell nothing, whole; words would be named by what they are."""
    declared = {"sex": dg.Words(["F", "M"]), "age": dg.Numbers(0, 100), "month": [1, 2]}
    made = dg.discover(rows, declared, epsilon=1, budget=budget, noise=RecordingNoise(), **settings)
    return made, made.to_frame(), made.remarks


def learned(rows, **settings):
    """A network that is learned with answers that tell nothing, whole."""
    made = dg.learn_network(rows, DOMAIN, epsilon=1, budget=BUDGET, noise=RecordingNoise(), **settings)
    return made, made.network, made.reason


def validated(estimator, X, y=None):
    """A cross-validation alike, each row somebody's only one where X has no column of persons."""
    person = "who" if hasattr(X, "columns") else list(range(N))
    settings = {"folds": 2, "epsilon": 1, "budget": PERSONS, "noise": RecordingNoise()}
    return dg.cross_validate(estimator, X, y, person=person, **settings)


def bare(kind):
    """An estimator without a budget."""
    if kind == "nb":
        return dg.PrivateNaiveBayes(DOMAIN.restrict(["age", "sex"]), inference="plug-in", target="sex")
    if kind == "hmm":
        return dg.PrivateHMM(2, LOG, person="who", rows_per_person=2, **QUICK)
    return dg.PrivateLinearRegression({"age": (0, 100)}, (0, 10), inference="plug-in", draws=5)


def hmm(**who):
    settings = {"budget": PERSONS, "person": "who", "rows_per_person": 2} if who else {"budget": BUDGET}
    return dg.PrivateHMM(2, LOG, 1, **settings, **QUICK)


def regression(budget=None):
    return dg.PrivateLinearRegression({"age": (0, 100)}, (0, 10), 1, inference="plug-in", draws=5, budget=budget)


GOOD = hostile.good(40).infer_objects()


class Nearly(LinearRegression):
    """Right for the ages that are declared, and off for others by what is too small to be squared."""

    def predict(self, X):
        return np.where(np.abs(X["age"]) <= 100, 0, 1e-200)


@pytest.fixture(scope="module")
def models():
    """Fitted on rows that are nothing special."""
    one = regression().fit(GOOD[["age"]], GOOD["pay"])
    return {
        "nb": naive_bayes().fit(GOOD[["age"]], GOOD["sex"]),
        "planned": planned().fit(GOOD[["age"]], GOOD["sex"]),
        "hmm": dg.PrivateHMM(2, LOG, 1, **QUICK).fit(GOOD),
        "regression": one,
        "classifier": LogisticRegression().fit(GOOD[["age"]], GOOD["sex"]),
        "regressor": LinearRegression().fit(GOOD[["age"]], GOOD["pay"]),
        "nearly": Nearly().fit(GOOD[["age"]], GOOD["pay"]),
    }


LABELS = np.resize(np.array(["F", "M"], object), N)
PAY = np.resize([1.0, 3.0], N)


def only(rows, *names):
    """Some columns of a table, if it is one."""
    if isinstance(rows, pa.Table):
        return rows.select(names)
    return rows[list(names)] if isinstance(rows, pd.DataFrame | pl.DataFrame) else rows


def quiet(answer):
    """What a function says of the rows it is given is its answer, and not searched."""
    del answer


#: Functions of a table, a path or a stream of tables; what is fitted is at hand.
TABLES = {
    "encode": lambda rows, fitted: dg.statistics.encode(rows, DOMAIN),
    "encode, strict": lambda rows, fitted: dg.statistics.encode(rows, STRICT),
    "learn_network, greedy": lambda rows, fitted: learned(rows, method="greedy"),
    "count": lambda rows, fitted: dg.count(rows, NETWORK, progress=True),
    "count, where": lambda rows, fitted: dg.count(rows, NETWORK, where={"sex": "F"}),
    "count_groups": lambda rows, fitted: dg.statistics.count_groups(rows, NETWORK, "sex"),
    "count_groups, person": lambda rows, fitted: dg.statistics.count_groups(
        rows, NETWORK, ["sex", "month"], domain=DOMAIN, person="who", rows_per_person=2, progress=True
    ),
    "sufficient_statistics, a column": lambda rows, fitted: dg.statistics.sufficient_statistics(
        rows, dg.expfam.Exponential(), bounds=(0, 3), column="pay", where={"sex": "F"}, domain=DOMAIN
    ),
    "sufficient_statistics, a column, strict": lambda rows, fitted: dg.statistics.sufficient_statistics(
        rows, dg.expfam.Exponential(), bounds=(0, 3), column="age", strict=True, person="who", rows_per_person=2
    ),
    "sufficient_statistics, a column of levels": lambda rows, fitted: dg.statistics.sufficient_statistics(
        rows, dg.expfam.Multinomial(["F", "M"]), column="sex", progress=True
    ),
    "count_groups, a design": lambda rows, fitted: dg.statistics.count_groups(rows, DESIGN, "sex"),
    "count_groups, a design, person": lambda rows, fitted: dg.statistics.count_groups(
        rows, DESIGN, "month", domain=DOMAIN, person="who", rows_per_person=2
    ),
    "regression_moments": lambda rows, fitted: dg.statistics.regression_moments(rows, DESIGN),
    "regression_moments, where": lambda rows, fitted: dg.statistics.regression_moments(
        rows, DESIGN, where={"sex": "F"}, domain=DOMAIN, progress=True
    ),
    "cap_rows": lambda rows, fitted: dg.statistics.cap_rows(rows, LOG, "who", 2),
    "count, person": lambda rows, fitted: dg.count(rows, NETWORK, person="who", rows_per_person=2, progress=True),
    "count, person in a strict domain": lambda rows, fitted: dg.count(rows, ANYTHING, person="who"),
    "regression_moments, person": lambda rows, fitted: dg.statistics.regression_moments(
        rows, DESIGN, person="who", rows_per_person=2
    ),
    "PrivateNaiveBayes.fit, person": lambda rows, fitted: naive_bayes(PERSONS).fit(
        only(rows, "age", "who"), LABELS, person="who"
    ),
    "PrivateNaiveBayes.fit, person in place": lambda rows, fitted: naive_bayes(PERSONS).fit(rows, "sex", person="who"),
    "PrivateLinearRegression.fit, person": lambda rows, fitted: regression(PERSONS).fit(
        only(rows, "age", "who"), PAY, person="who"
    ),
    "PrivateLinearRegression.fit, person in place": lambda rows, fitted: regression(PERSONS).fit(
        rows, "pay", person="who"
    ),
    "PrivateClassifier.fit, person": lambda rows, fitted: planned(PERSONS).fit(
        only(rows, "age", "who"), LABELS, person="who"
    ),
    "PrivateClassifier.fit, in place": lambda rows, fitted: planned(BUDGET).fit(rows, "sex"),
    "PrivateClassifier.predict": lambda rows, fitted: quiet(fitted["planned"].predict(only(rows, "age"))),
    "PrivateClassifier.predict_proba": lambda rows, fitted: quiet(fitted["planned"].predict_proba(only(rows, "age"))),
    "PrivateClassifier.score": lambda rows, fitted: quiet(fitted["planned"].score(only(rows, "age"), LABELS)),
    "Projection.predict": lambda rows, fitted: quiet(
        dg.regression(fitted["nb"], "age", ["sex"]).predict(only(rows, "sex"))
    ),
    "WeightedNaiveBayes.predict": lambda rows, fitted: quiet(fitted["planned"].model_.predict(rows)),
    "WeightedNaiveBayes.predict_proba, rows": lambda rows, fitted: quiet(fitted["planned"].model_.predict_proba(rows)),
    "WeightedNaiveBayes.predict_log_joint, rows": lambda rows, fitted: quiet(
        fitted["planned"].model_.predict_log_joint(rows)
    ),
    "PrivateNaiveBayes.fit": lambda rows, fitted: naive_bayes(BUDGET).fit(only(rows, "age"), LABELS),
    "PrivateNaiveBayes.fit, in place": lambda rows, fitted: naive_bayes(BUDGET).fit(rows, "sex"),
    "PrivateNaiveBayes.predict": lambda rows, fitted: quiet(fitted["nb"].predict(only(rows, "age"))),
    "PrivateNaiveBayes.predict_proba": lambda rows, fitted: quiet(fitted["nb"].predict_proba(only(rows, "age"))),
    "PrivateNaiveBayes.predict_proba, intervals": lambda rows, fitted: quiet(
        fitted["nb"].predict_proba(only(rows, "age"), return_interval=True)
    ),
    "ConditionalClassifier.predict": lambda rows, fitted: quiet(dg.classifier(fitted["nb"], "sex").predict(rows)),
    "ConditionalClassifier.predict_proba": lambda rows, fitted: quiet(
        dg.classifier([fitted["nb"].model_.probabilities] * 2, "sex").predict_proba(rows, return_interval=True)
    ),
    "NaiveBayes.predict": lambda rows, fitted: quiet(fitted["nb"].model_.predict(rows)),
    "NaiveBayes.predict_proba, rows": lambda rows, fitted: quiet(fitted["nb"].model_.predict_proba(rows)),
    "NaiveBayes.predict_log_joint, rows": lambda rows, fitted: quiet(fitted["nb"].model_.predict_log_joint(rows)),
    "NaiveBayesEnsemble.predict": lambda rows, fitted: quiet(ensemble(fitted).predict(rows)),
    "NaiveBayesEnsemble.predict_proba, rows": lambda rows, fitted: quiet(ensemble(fitted).predict_proba(rows)),
    "LinearRegressionModel.predict, rows": lambda rows, fitted: quiet(fitted["regression"].model_.predict(rows)),
    "LinearRegressionModel.predict_interval": lambda rows, fitted: quiet(
        fitted["regression"].model_.predict_interval(rows)
    ),
    "LinearRegressionModel.frame, rows": lambda rows, fitted: quiet(fitted["regression"].model_.frame(rows)),
    "SampledRegressionModel.predict, rows": lambda rows, fitted: quiet(sampled().predict(rows)),
    "HiddenMarkovModel.predict_fields": lambda rows, fitted: quiet(fitted["hmm"].model_.predict_fields(rows)),
    "HiddenMarkovModel.log_likelihood, rows": lambda rows, fitted: quiet(fitted["hmm"].model_.log_likelihood(rows)),
    "query_rows": lambda rows, fitted: quiet(dg.query_rows(fitted["nb"], "sex", only(rows, "age"))),
    "row_probabilities": lambda rows, fitted: quiet(dg.questions.row_probabilities(fitted["nb"], only(rows, "age"))),
    "PrivateNaiveBayes.score": lambda rows, fitted: quiet(fitted["nb"].score(only(rows, "age"), LABELS)),
    "PrivateLinearRegression.fit": lambda rows, fitted: regression(BUDGET).fit(rows, PAY),
    "PrivateLinearRegression.fit, in place": lambda rows, fitted: regression(BUDGET).fit(rows, "pay"),
    "PrivateLinearRegression.predict": lambda rows, fitted: quiet(fitted["regression"].predict(only(rows, "age"))),
    "PrivateLinearRegression.predict_interval": lambda rows, fitted: quiet(
        fitted["regression"].predict_interval(only(rows, "age"))
    ),
    "PrivateLinearRegression.score": lambda rows, fitted: quiet(fitted["regression"].score(only(rows, "age"), PAY)),
    "PrivateHMM.fit": lambda rows, fitted: hmm(person="who").fit(rows),
    "PrivateHMM.fit, held_out": lambda rows, fitted: hmm().fit(GOOD, held_out=rows),
    "PrivateHMM.score": lambda rows, fitted: quiet(fitted["hmm"].score(rows)),
    "PrivateHMM.scores": lambda rows, fitted: quiet(fitted["hmm"].scores(rows)),
    "PrivateHMM.predict_fields": lambda rows, fitted: quiet(fitted["hmm"].predict_fields(rows)),
    "evaluate": lambda rows, fitted: judged(fitted, "nb", only(rows, "age", "sex")),
    "evaluate, X and y": lambda rows, fitted: judged(fitted, "nb", only(rows, "age"), LABELS),
    "evaluate, regression": lambda rows, fitted: judged(fitted, "regression", only(rows, "age", "pay")),
    "evaluate, X and y of a regression": lambda rows, fitted: judged(fitted, "regression", only(rows, "age"), PAY),
    "evaluate, HMM": lambda rows, fitted: judged(fitted, "hmm", rows),
    "evaluate, scikit-learn": lambda rows, fitted: judged(fitted, "classifier", only(rows, "age"), LABELS),
    "evaluate, scikit-learn regressor": lambda rows, fitted: judged(fitted, "regressor", only(rows, "age"), PAY),
    "evaluate, a group": lambda rows, fitted: dg.evaluate(
        fitted["nb"], rows, epsilon=1, budget=GROUP, noise=RecordingNoise()
    ),
    "evaluate, person": lambda rows, fitted: dg.evaluate(
        fitted["nb"], rows, epsilon=1, budget=PERSONS, noise=RecordingNoise(), person="who"
    ),
    "evaluate, regression, person": lambda rows, fitted: dg.evaluate(
        fitted["regression"], rows, epsilon=1, budget=PERSONS, noise=RecordingNoise(), person="who"
    ),
    "evaluate, HMM, person": lambda rows, fitted: dg.evaluate(
        fitted["hmm"], rows, epsilon=1, budget=PERSONS, noise=RecordingNoise(), person="who"
    ),
    "discover": lambda rows, fitted: discovered(rows, BUDGET),
    "discover, person": lambda rows, fitted: discovered(rows, PERSONS, person="who"),
    "learn_network": lambda rows, fitted: learned(rows),
    "learn_network, person": lambda rows, fitted: (
        dg.learn_network(rows, DOMAIN, epsilon=1, budget=PERSONS, noise=RecordingNoise(), person="who").network
    ),
    "cross_validate": lambda rows, fitted: validated(bare("nb"), only(rows, "age", "who"), LABELS),
    "cross_validate, regression": lambda rows, fitted: validated(bare("regression"), only(rows, "age", "who"), PAY),
    "cross_validate, HMM": lambda rows, fitted: validated(bare("hmm"), only(rows, "region", "month", "sex", "who")),
}

#: Functions of a column; one whose rows have two axes is handed them beside it.
COLUMNS = {
    "sufficient_statistics": lambda x, fitted: dg.statistics.sufficient_statistics(
        x, dg.expfam.Exponential(), bounds=(0, 3)
    ),
    "sufficient_statistics, strict": lambda x, fitted: dg.statistics.sufficient_statistics(
        x, dg.expfam.Exponential(), bounds=(0, 3), strict=True
    ),
    "sufficient_statistics, levels": lambda x, fitted: dg.statistics.sufficient_statistics(
        x, dg.expfam.Multinomial([0, 1])
    ),
    "regression_moments, y": lambda y, fitted: dg.statistics.regression_moments((np.zeros((N, 2)), y), DESIGN),
    "PrivateClassifier.fit, y": lambda y, fitted: planned(BUDGET).fit(np.zeros((N, 1)), y),
    "PrivateNaiveBayes.fit, y": lambda y, fitted: naive_bayes(BUDGET).fit(np.zeros((N, 1)), y),
    "evaluate, y": lambda y, fitted: judged(fitted, "nb", np.zeros((N, 1)), y),
    "evaluate, y of a regression": lambda y, fitted: judged(fitted, "regression", np.zeros((N, 1)), y),
    "evaluate, y for scikit-learn": lambda y, fitted: judged(fitted, "classifier", np.zeros((N, 1)), y),
    "evaluate, y for a scikit-learn regressor": lambda y, fitted: judged(fitted, "regressor", np.zeros((N, 1)), y),
    "cross_validate, y": lambda y, fitted: validated(bare("nb"), np.zeros((N, 1)), y),
    "cross_validate, y of a regression": lambda y, fitted: validated(bare("regression"), np.zeros((N, 1)), y),
    "cross_validate, person": lambda ids, fitted: dg.cross_validate(
        bare("nb"), np.zeros((N, 1)), LABELS, person=ids, folds=2, epsilon=1, budget=PERSONS, noise=RecordingNoise()
    ),
    "PrivateNaiveBayes.fit, ids": lambda ids, fitted: naive_bayes(PERSONS).fit(np.zeros((N, 1)), LABELS, person=ids),
    "PrivateLinearRegression.fit, ids": lambda ids, fitted: regression(PERSONS).fit(np.zeros((N, 1)), PAY, person=ids),
    "PrivateNaiveBayes.score, y": lambda y, fitted: quiet(fitted["nb"].score(np.zeros((N, 1)), y)),
    "PrivateLinearRegression.fit, y": lambda y, fitted: regression(BUDGET).fit(np.zeros((N, 1)), y),
    "PrivateLinearRegression.score, y": lambda y, fitted: quiet(fitted["regression"].score(np.zeros((N, 1)), y)),
    "NaiveBayes.predict_proba": lambda x, fitted: quiet(fitted["nb"].model_.predict_proba({"age": x})),
    "NaiveBayes.predict_log_joint": lambda x, fitted: quiet(fitted["nb"].model_.predict_log_joint({"age": x})),
    "NaiveBayesEnsemble.predict_proba": lambda x, fitted: quiet(ensemble(fitted).predict_proba({"age": x})),
    "NaiveBayesEnsemble.predict_log_joint": lambda x, fitted: quiet(ensemble(fitted).predict_log_joint({"age": x})),
    "LinearRegressionModel.predict": lambda x, fitted: quiet(fitted["regression"].model_.predict({"age": x})),
    "LinearRegressionModel.predict, deviation": lambda x, fitted: quiet(
        fitted["regression"].model_.predict({"age": x}, return_std=True)
    ),
    "LinearRegressionModel.predict_interval, values": lambda x, fitted: quiet(
        fitted["regression"].model_.predict_interval({"age": x})
    ),
    "LinearRegressionModel.frame": lambda x, fitted: quiet(fitted["regression"].model_.frame({"age": x})),
    "RegressionDraws.predict": lambda x, fitted: quiet(fitted["regression"].posterior_.predict({"age": x})),
    "SampledRegressionModel.predict": lambda x, fitted: quiet(sampled().predict({"age": x})),
    "HiddenMarkovModel.cell_log_likelihoods": lambda x, fitted: quiet(
        fitted["hmm"].model_.cell_log_likelihoods({"region": x, "month": x, "sex": x})
    ),
    "HiddenMarkovModel.log_likelihood": lambda x, fitted: quiet(
        fitted["hmm"].model_.log_likelihood({"region": x, "month": x, "sex": x})
    ),
}

#: Functions of an array of two axes.
MATRICES = {
    "regression_moments, X": lambda X, fitted: dg.statistics.regression_moments((X, PAY), DESIGN),
    "PrivateNaiveBayes.fit, X": lambda X, fitted: naive_bayes(BUDGET).fit(X, LABELS),
    "PrivateNaiveBayes.predict, X": lambda X, fitted: quiet(fitted["nb"].predict(X)),
    "NaiveBayes.predict, X": lambda X, fitted: quiet(fitted["nb"].model_.predict(X)),
    "NaiveBayesEnsemble.predict, X": lambda X, fitted: quiet(ensemble(fitted).predict(X)),
    "LinearRegressionModel.predict, X": lambda X, fitted: quiet(fitted["regression"].model_.predict(X)),
    "SampledRegressionModel.predict, X": lambda X, fitted: quiet(sampled().predict(X)),
    "HiddenMarkovModel.log_likelihood, X": lambda X, fitted: quiet(fitted["hmm"].model_.log_likelihood(X)),
    "evaluate, X": lambda X, fitted: judged(fitted, "nb", X, LABELS),
    "evaluate, X of a regression": lambda X, fitted: judged(fitted, "regression", X, PAY),
    "evaluate, X for scikit-learn": lambda X, fitted: judged(fitted, "classifier", X, LABELS),
    "evaluate, X for a scikit-learn regressor": lambda X, fitted: judged(fitted, "regressor", X, PAY),
    "cross_validate, X": lambda X, fitted: validated(bare("nb"), X, LABELS),
    "cross_validate, X of a regression": lambda X, fitted: validated(bare("regression"), X, PAY),
    "PrivateNaiveBayes.score, X": lambda X, fitted: quiet(fitted["nb"].score(X, LABELS)),
    "PrivateLinearRegression.fit, X": lambda X, fitted: regression(BUDGET).fit(X, PAY),
    "PrivateLinearRegression.predict, X": lambda X, fitted: quiet(fitted["regression"].predict(X)),
    "PrivateLinearRegression.score, X": lambda X, fitted: quiet(fitted["regression"].score(X, PAY)),
}

#: Commands of files; each writes ``out``.
COMMANDS = {
    "release": "release {rows} --network net.toml --epsilon 1 --neighbours add-remove --out out.json",
    "release, a ledger": "release {rows} --network net.toml --epsilon 1 --ledger l.sqlite --dataset a --out out.json",
    "release, person": "release {rows} --network net.toml --epsilon 1 --person who --rows-per-person 2 --out out.json",
    "discover": "discover {rows} --declaration open.toml --epsilon 1 --neighbours add-remove --out out.toml",
    "learn": "learn {rows} --domain net.toml --epsilon 1 --neighbours add-remove --out out.json --release r.json",
    "fit naive-bayes, person": "fit naive-bayes {rows} --domain net.toml --target sex --epsilon 1 --inference plug-in "
    "--person who --out out.json",
    "fit regression, person": "fit regression {rows} --domain pay.toml --target pay --epsilon 1 --inference plug-in "
    "--draws 5 --person who --rows-per-person 2 --out out.json",
    "fit classifier": "fit classifier {rows} --domain net.toml --target sex --epsilon 1 --neighbours add-remove "
    "--out out.json",
    "fit naive-bayes": "fit naive-bayes {rows} --domain net.toml --target sex --epsilon 1 --inference plug-in "
    "--neighbours add-remove --out out.json",
    "fit regression": "fit regression {rows} --domain pay.toml --target pay --epsilon 1 --inference plug-in --draws 5 "
    "--neighbours add-remove --out out.json",
    "fit hmm": "fit hmm {rows} --domain log.toml --sequence region --time month --states 2 --epsilon 1 --person who "
    "--rows-per-person 2 --inference plug-in --iterations 1 --burn-in 1 --out out.json",
    "evaluate": "evaluate nb.json {rows} --epsilon 1 --neighbours add-remove --out out.json",
    "evaluate, regression": "evaluate regression.json {rows} --epsilon 1 --neighbours add-remove --out out.json",
    "evaluate, hmm": "evaluate hmm.json {rows} --epsilon 1 --neighbours add-remove --json --out out.json",
    "predict": "predict nb.json {rows} --out out.csv",
    "predict, regression": "predict regression.json {rows} --out out.csv",
}

NET = '[variables]\nsex = ["F", "M"]\nage = { bins = [0, 50, 100] }\n[parents]\nsex = []\nage = ["sex"]\n'
FILES = {
    "net.toml": NET,
    "open.toml": '[variables]\nsex = { words = ["F", "M"] }\nage = { numbers = [0, 100] }\n',
    "pay.toml": "[variables]\nage = { bounds = [0, 100] }\npay = { bounds = [0, 10] }\n",
    "log.toml": '[variables]\nregion = ["N", "S"]\nmonth = [1, 2]\nsex = ["F", "M"]\n',
}

#: What takes something of a row's name that is no row of a person's, or that only ``release`` hands rows to.
NO_ROWS = {
    "infer_domain": "its rows are public, and it warns of that; what it says of them is what it is for",
    "release": "takes statistics that are counted already",
    "Verification": "rows are how many a ledger has",
    "expectation": "values are what levels stand for, which is public",
    "fit_hmm": "held_out names cells, which are public",
    "GibbsSample": "held_out names cells, which are public",
    "Bounded.scaled": "arithmetic on an array",
    "Bounded.on_grid": "arithmetic on an array",
    "count_error_bound": "cells is how many there are",
    "LinearDesign.matrix": "takes released values",
    "LinearDesign.noisy": "takes noisy values",
    "MomentDescription.noisy": "takes noisy values",
    "LaplaceMechanism.prepared": "called by release alone",
    "GaussianMechanism.prepared": "called by release alone",
    "SeededNoise.add": "called by release alone",
    "RecordingNoise.add": "called by release alone",
}
NAMES = {"rows", "x", "X", "y", "log", "public_rows", "cells", "held_out", "codes", "values", "statistics"}


def ensemble(fitted):
    return dg.results.NaiveBayesEnsemble("sex", (fitted["nb"].model_.probabilities,) * 2)


def sampled():
    design = dg.LinearDesign({"age": (0, 100)}, "pay", (0, 10))
    return dg.papers.SampledRegressionModel(dg.papers.SampledWeights(design, np.zeros((1, 2)), 1.0, 1.0))


def public_functions():
    """Every public function and method, in ``dg`` and its namespaces, by name; what extensions use gets no rows."""
    for name, value in public_names(without="extension").items():
        if inspect.isclass(value):
            yield from ((f"{name}.{m}", f) for m, f in inspect.getmembers(value, callable) if not m.startswith("_"))
        if callable(value):
            yield name, value


def takes_rows(function):
    try:
        return bool(NAMES & set(inspect.signature(function).parameters))
    except ValueError:
        return False


def test_every_public_function_that_takes_rows_is_handed_hostile_ones():
    found = {name for name, function in public_functions() if takes_rows(function)}
    found -= {name for name in found if name.endswith((".randomise", "_request"))}  # release's own, scikit-learn's own
    tried = {name.partition(",")[0] for name in (*TABLES, *COLUMNS, *MATRICES)}
    assert tried | set(NO_ROWS) == found
    assert not tried & set(NO_ROWS)


def test_every_command_that_reads_rows_is_handed_hostile_ones():
    def commands(group, words=()):
        for name, command in group.commands.items():
            if isinstance(command, click.Group):
                yield from commands(command, (*words, name))
            elif {"rows", "log"} & {parameter.name for parameter in command.params}:
                yield " ".join((*words, name))

    assert set(commands(main)) == {name.partition(",")[0] for name in COMMANDS}


def budget_of(name):
    """What a function is to charge."""
    if name == "evaluate, a group":
        return GROUP
    if name.endswith("fit, ids"):
        return PERSONS
    return PERSONS if "HMM.fit" in name or name.startswith("cross_validate") or "person" in name else BUDGET


def check(heard, function, label, budget=BUDGET):
    """Calls; a refusal is dpgraph's own, charges nothing, and nothing that is said repeats a row."""
    spent = budget.spent
    refusal, words = heard.call(function)
    assert not repeated(words), f"{label}: {words:.600}"
    if refusal is not None:
        assert isinstance(refusal, dg.errors.DomainError | dg.errors.ReleaseError), f"{label}: {refusal!r}"
        assert refusal.__cause__ is refusal.__context__ is None, label
        assert budget.spent == spent, label
    return refusal


@pytest.fixture
def heard(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Heard(capfd, tmp_path)


def columns_read(name):
    """The hostile columns a function reads, and for one function of each kind one that it does not."""
    if "HMM.fit" in name or name in ("cap_rows", "cross_validate, HMM"):
        return ["sex", "month", "who"]
    if name.startswith("cross_validate") or name.endswith(", person in place"):
        return ["age", "who"]
    if "person" in name:
        return ["age", "who"] if name.startswith("Private") else ["sex", "age", "who"]
    if "HMM" in name:
        return ["sex", "month"]
    if name.startswith("evaluate"):
        return ["age", "sex"] if name in ("evaluate", "evaluate, a group") else ["age"]
    return ["age"] if name.startswith("Private") else ["sex", "age", "month", "who"]


@pytest.mark.covering(lambda name, column, half: (name, (column, half)))
@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize(("name", "column"), [(name, column) for name in TABLES for column in columns_read(name)])
def test_tables_in_memory(name, column, half, heard, models):
    function, refused = TABLES[name], 0
    for label, rows in [*hostile.pandas_tables(column), *hostile.arrow_tables(column)][half::2]:
        refused += check(heard, lambda rows=rows: function(rows, models), label, budget_of(name)) is not None
    assert refused or name != "encode" or column == "who"


@pytest.mark.parametrize("name", TABLES)
def test_streams_and_other_engines(name, heard, models):
    for label, make in hostile.other_tables():
        check(heard, lambda make=make: TABLES[name](make(), models), label, budget_of(name))


@pytest.mark.parametrize("name", [name for name in (*TABLES, *MATRICES) if name.startswith(("evaluate", "cross"))])
def test_rows_that_fit_are_judged_and_nothing_is_said_of_them(name, heard, models):
    """What is refused above is refused for its rows, and an answer to other rows is searched as well."""
    function, rows = (TABLES[name], hostile.typed()) if name in TABLES else (MATRICES[name], np.full((N, 1), 0.5))
    assert check(heard, lambda: function(rows, models), name, budget_of(name)) is None


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    return list(hostile.files(tmp_path_factory.mktemp("hostile")))


@pytest.mark.parametrize("name", TABLES)
def test_files(name, heard, models, paths):
    for label, path in paths:
        check(heard, lambda path=path: TABLES[name](path, models), label, budget_of(name))


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(name, heard, models):
    for label, column in hostile.arrays():
        check(heard, lambda column=column: COLUMNS[name](column, models), label, budget_of(name))


@pytest.mark.parametrize("name", MATRICES)
def test_matrices(name, heard, models):
    for label, matrix in hostile.matrices():
        check(heard, lambda matrix=matrix: MATRICES[name](matrix, models), label, budget_of(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_commands(name, heard, models, paths, monkeypatch):
    """A command that refuses says so in a line, writes nothing and ends with 1."""
    for file, text in FILES.items():
        (heard.folder / file).write_text(text)
    dg.save(models["nb"], heard.folder / "nb.json")
    dg.save(models["regression"], heard.folder / "regression.json")
    dg.save(models["hmm"], heard.folder / "hmm.json")
    if "ledger" in name:
        made = dg.Budget.open(heard.folder / "l.sqlite", dataset="a", epsilon=10**6, unit=dg.PrivacyUnit("add-remove"))
        made.ledger.close()
    if "evaluate" in name:  # what it prints is noisy, and N but for chance: these answers are no rows'
        monkeypatch.setattr("dpgraph.privacy.release.SecureNoise", RecordingNoise)
    refused = 0
    for label, path in paths:
        words = [str(path) if word == "{rows}" else word for word in COMMANDS[name].split()]
        outcome, said = heard.call(lambda words=words: main(words, standalone_mode=False))
        assert not repeated(said), f"{label}: {said:.600}"
        written = list(heard.folder.glob("out.*"))
        if outcome is None:
            for file in written:
                assert "predict" in name or CANARY not in file.read_text(), label  # a noisy count may be N
                file.unlink()
        else:
            assert isinstance(outcome, click.ClickException), f"{label}: {outcome!r}"
            assert outcome.exit_code == 1
            assert not written, label
            refused += 1
    assert refused


def test_dask_partitions(heard):
    dask = Later("dask.dataframe")
    frame = hostile.good()
    for label, cell in hostile.CELLS.items():
        rows = frame.assign(age=pd.Series(hostile.with_cell(frame["age"], cell), dtype=object))
        if label.startswith(("a dictionary", "text", "a nested", "bytes")):
            tables = dask.from_map(lambda i, rows=rows: rows, [0], meta=frame.head(0))
            check(heard, lambda tables=tables: dg.count(tables, NETWORK), label)

    def fails(i):
        raise hostile.CanaryError(CANARY)

    tables = dask.from_map(fails, [0, 1], meta=frame.head(0))
    assert check(heard, lambda: dg.count(tables, NETWORK), "partitions that fail") is not None


def test_the_search_finds_what_is_said():
    """The searcher has teeth: each place in which a word may stand is looked into."""

    def silenced():
        try:
            raise ValueError(CANARY)
        except ValueError:
            raise dg.errors.DomainError("public") from None  # it is there all the same, for whoever looks

    with pytest.raises(dg.errors.DomainError, match="public") as caught:
        silenced()
    assert repeated(hostile.said(caught.value)) == [CANARY]
    noted = dg.errors.DomainError("public")
    noted.add_note(f"{N:,}")
    assert repeated(hostile.said(noted)) == [f"{N:,}"]
    assert repeated(hostile.said(hostile.Named())) == [CANARY]
    assert not repeated(hostile.said(dg.errors.DomainError("column 'age' holds nulls")))


#: Cells at the ends of the floats, in columns of numbers; each by itself would overflow, underflow or be no number.
EXTREMES = {
    "finite": [1.7e308, -1.7e308, 5e-324, 9.3e17, -0.0],
    "not finite": [np.inf, -np.inf, np.nan, 1e300, 1.0],
}

#: Functions with public settings at the ends of what is allowed.
AT_THE_ENDS = {
    "evaluate, a least largest error": lambda rows, fitted: dg.evaluate(
        fitted["regression"], rows[["age", "pay"]], epsilon=1, budget=BUDGET, largest_error=2e-100
    ),
    "evaluate, a least largest error of scikit-learn": lambda rows, fitted: dg.evaluate(
        fitted["regressor"],
        rows[["age"]],
        rows["pay"],
        epsilon=1,
        budget=BUDGET,
        bounds=(0, 1e300),
        largest_error=2e-100,
    ),
    "evaluate, a least largest loss": lambda rows, fitted: dg.evaluate(
        fitted["nb"], rows[["age", "sex"]], epsilon=1, budget=BUDGET, largest_loss=2e-100
    ),
    "evaluate, a least largest loss of scikit-learn": lambda rows, fitted: dg.evaluate(
        fitted["classifier"], rows[["age"]], rows["sex"], epsilon=1, budget=BUDGET, largest_loss=2e-100
    ),
    "evaluate, a least largest loss of an HMM": lambda rows, fitted: dg.evaluate(
        fitted["hmm"], rows, epsilon=1, budget=BUDGET, largest_loss=2e-100
    ),
    "evaluate, a least error": lambda rows, fitted: dg.evaluate(
        fitted["nearly"], rows[["age"]], np.zeros(N), epsilon=1, budget=BUDGET, bounds=(0, 10)
    ),
    "cross_validate, a least largest error": lambda rows, fitted: dg.cross_validate(
        bare("regression"),
        rows[["age", "who"]],
        rows["pay"],
        person="who",
        folds=2,
        epsilon=1,
        budget=PERSONS,
        largest_error=2e-100,
    ),
    "regression_moments, least bounds": lambda rows, fitted: dg.statistics.regression_moments(
        rows, dg.LinearDesign({"age": dg.Bounded(0, 2e-290, 0)}, "pay", dg.Bounded(-1e308, 0.5e308, 0))
    ),
    "regression_moments, threads": lambda rows, fitted: dg.statistics.regression_moments(iter([rows] * 3), DESIGN),
    "sufficient_statistics, far bounds": lambda rows, fitted: dg.statistics.sufficient_statistics(
        rows, dg.expfam.Normal(), bounds=(-1e150, 1e150), column="pay", strict=True
    ),
}


@pytest.mark.parametrize("kind", EXTREMES)
@pytest.mark.parametrize("name", [*TABLES, *AT_THE_ENDS])
def test_no_floating_point_error_tells_of_a_cell(name, kind, models, monkeypatch):
    """Numpy's warnings would say whether a row exceeds what a caller chooses, before a charge and after it.

    Warnings are errors here, and so are floating-point errors; with answers that tell nothing, extreme cells end as
    ordinary ones do, or are refused in public words.
    """
    monkeypatch.setattr("dpgraph.privacy.release.SecureNoise", RecordingNoise)
    function, ordinary = (TABLES | AT_THE_ENDS)[name], hostile.good().infer_objects()
    extreme = ordinary.copy()
    extreme.loc[N - 5 :, "age"] = extreme.loc[N - 5 :, "pay"] = EXTREMES[kind]

    def end(rows):
        with warnings.catch_warnings(), np.errstate(all="raise"):
            warnings.simplefilter("error", RuntimeWarning)
            try:
                function(rows, models)
            except Exception as error:
                return f"{type(error).__name__}: {error}"
        return "answered"

    found = end(extreme)
    refused = found.startswith("DomainError: ") and not any(word in found for word in ("FloatingPoint", "Warning"))
    assert refused or found == end(ordinary)
