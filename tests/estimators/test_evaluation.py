"""A model is judged through the one door: right numbers, one charge, and refusals that say and cost nothing."""

import copy
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn import metrics
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier

import dpgraph as dg
from dpgraph.estimators.evaluation import evaluation_of, outcomes, task_of
from dpgraph.structure.moments import STEPS
from tests import streams
from tests.small_tables import LABELLED, labelled

REPLACE, ADD = dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove")
DOMAIN = dg.Domain.of(
    {"a": [0, 1, 2], "b": [0, 1], "t": dg.Categories(["no", "yes", "other"], other="other", missing="other")}
)


def table(n, seed=0):
    rng = np.random.default_rng(seed)
    t = rng.random(n) < 0.4
    a = np.where(t, rng.choice(3, n, p=[0.1, 0.2, 0.7]), rng.choice(3, n, p=[0.6, 0.3, 0.1]))
    return pd.DataFrame({"a": a, "b": np.where(rng.random(n) < 0.8, t, ~t).astype(int), "t": np.where(t, "yes", "no")})


ROWS, NEW = table(2000), table(1000, 1)
X, Y = NEW[["a", "b"]], NEW["t"]


@pytest.fixture(scope="module")
def classifier():
    return dg.PrivateNaiveBayes(DOMAIN, epsilon=5, noise=dg.testing.SeededNoise(0)).fit(ROWS[["a", "b"]], ROWS["t"])


def spend(epsilon=50, unit=REPLACE, delta=0):
    return dg.Budget(epsilon, delta, unit=unit)


def judge(model, *rows, epsilon=50, unit=REPLACE, **settings):
    """With seeded noise, as the models: what the secure source draws is tested elsewhere."""
    settings = {"noise": dg.testing.SeededNoise(0)} | settings
    return dg.evaluate(model, *rows, epsilon=epsilon, budget=spend(epsilon, unit), **settings)


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_scores_are_those_of_the_rows_where_noise_is_nothing(classifier, unit):
    judged = judge(classifier, X, Y, epsilon=1000, unit=unit, scores=("accuracy", "log_loss", "brier", "confusion"))
    said, truth = classifier.predict_proba(X), Y.map({"no": 0, "yes": 1, "other": 2}).to_numpy()
    exact = {
        "accuracy": (said.argmax(axis=1) == truth).mean(),
        "log-loss": np.minimum(-np.log(said[np.arange(1000), truth]), np.log(150)).mean(),
        "Brier score": ((said - np.eye(3)[truth]) ** 2).sum(axis=1).mean(),
    }
    assert list(judged.scores) == list(exact)
    for name, value in exact.items():
        score = judged[name]
        assert score.estimate == pytest.approx(value, abs=0.004)
        assert score.low < value < score.high
    shares = pd.crosstab(truth, said.argmax(axis=1), normalize="all")
    for row in judged.confusion.itertuples():
        t, p = (["no", "yes", "other"].index(name) for name in (row.truth, row.prediction))
        exact_share = shares.loc[t, p] if t in shares.index and p in shares.columns else 0.0
        assert row.estimate == pytest.approx(exact_share, abs=0.004)
        assert row.low <= exact_share <= row.high


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_reliability_is_that_of_the_rows_where_noise_is_nothing(classifier, unit):
    found = judge(classifier, X, Y, epsilon=1000, unit=unit).reliability
    said = classifier.predict_proba(X)
    confidence, right = said.max(axis=1), np.array(["no", "yes", "other"])[said.argmax(axis=1)] == Y
    for row in found.itertuples():
        inside = (confidence > row.confidence_low) & (confidence <= row.confidence_high)
        assert row.rows == pytest.approx(inside.sum(), abs=2)
        if inside.sum() > 20:
            assert row.right == pytest.approx(right[inside].mean(), abs=0.02)
            assert row.low <= right[inside].mean() <= row.high


def two_classes(n, seed):
    """Rows of which a sixth have class 1, and a score for each that tells a little: an AUC about .65."""
    rng = np.random.default_rng(seed)
    odds = -1.7 + 0.6 * rng.standard_normal(n)
    said = 1 / (1 + np.exp(-odds))
    return (rng.random(n) < said).astype(int), said


class Said:
    """A classifier of another library whose features are its probabilities."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows):
        return np.column_stack([1 - np.asarray(rows)[:, 0], np.asarray(rows)[:, 0]])

    def predict(self, rows):
        return self.predict_proba(rows).argmax(axis=1)


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_a_rare_class_has_an_area_and_rates_beside_the_accuracy(unit):
    """An accuracy of .83 says nothing where the commonest label has .83; the area says what the scores are worth."""
    truth, said = two_classes(3000, 3)
    shown = np.where(said > 0.25, said + 0.3, said)  # so that some rows are given class 1
    judged = judge(Said(), shown[:, None], truth, epsilon=1000, unit=unit)
    given = shown > 0.5
    exact = {
        "sensitivity": metrics.recall_score(truth, given),
        "specificity": metrics.recall_score(1 - truth, ~given),
        "positive predictive value": metrics.precision_score(truth, given),
    }
    for name, value in exact.items():
        assert judged[name].estimate == pytest.approx(value, abs=0.01)
        assert judged[name].low < value < judged[name].high
    binned = np.searchsorted(judged.release.value.description.task.cuts, shown)
    assert judged["AUC"].estimate == pytest.approx(metrics.roc_auc_score(truth, binned), abs=0.002)
    assert judged["AUC"].low < metrics.roc_auc_score(truth, shown) < judged["AUC"].high
    assert judged["AUC"].noise_sd < 0.002
    assert "AUC" in repr(judged)
    frame = judged.thresholds.set_index("threshold")
    for cut in (0.1, 0.2, 0.5):
        assert frame.loc[cut, "sensitivity"] == pytest.approx(metrics.recall_score(truth, shown > cut), abs=0.01)
        assert frame.loc[cut, "specificity"] == pytest.approx(metrics.recall_score(1 - truth, shown <= cut), abs=0.01)


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_the_threshold_is_the_cheapest_by_the_costs_told(unit):
    truth, said = two_classes(4000, 4)
    judged = judge(Said(), said[:, None], truth, epsilon=1000, unit=unit)
    cuts = np.array([0.0, *judged.release.value.description.task.cuts, 1.0])
    for wrongly, missed in ((1, 9), (1, 1), (2, 5), (9, 1)):
        costs = [(wrongly * (1 - truth)[said > cut].sum() + missed * truth[said <= cut].sum()) / 4000 for cut in cuts]
        threshold, cost = judged.threshold(false_positive=wrongly, false_negative=missed)
        assert cost.estimate == pytest.approx(min(costs), abs=0.003 * max(wrongly, missed))
        assert costs[list(cuts).index(threshold)] == pytest.approx(min(costs), abs=0.003 * max(wrongly, missed))
        assert cost.low < min(costs) < cost.high
    assert judged.threshold(false_positive=1, false_negative=0)[0] >= 0.5  # no row has a larger probability
    assert judged.threshold(false_positive=0, false_negative=1)[0] <= 0.1
    for bad in ((-1, 1), (0, 0), (1, np.inf), (np.nan, 1)):
        with pytest.raises(dg.errors.InferenceError, match="costs are finite"):
            judged.threshold(false_positive=bad[0], false_negative=bad[1])


def test_each_of_several_classes_is_judged_against_the_others():
    """Also where one of them is rare."""
    rng = np.random.default_rng(2)
    said = rng.dirichlet([2, 1, 0.4], 3000)
    truth = (rng.random(3000)[:, None] > np.cumsum(said, axis=1)).sum(axis=1).clip(max=2)
    model = SimpleNamespace(classes_=[0, 1, 2], predict=None, predict_proba=lambda rows: rows)
    judged = judge(model, said, truth, epsilon=3000)
    frame = judged.classes.set_index(["class", "score"])["estimate"]
    for k, name in enumerate((0, 1, 2)):
        binned = np.searchsorted(judged.release.value.description.task.cuts, said[:, k])
        assert frame[name, "AUC"] == pytest.approx(metrics.roc_auc_score(truth == k, binned), abs=0.01)
        given = said.argmax(axis=1) == k
        assert frame[name, "sensitivity"] == pytest.approx(given[truth == k].mean(), abs=0.01)
        assert frame[name, "specificity"] == pytest.approx(1 - given[truth != k].mean(), abs=0.01)
    with pytest.raises(dg.errors.InferenceError, match="two classes"):
        _ = judged.thresholds


WAYS = {
    "a frame and a series": (X, Y),
    "arrays": (X.to_numpy(), Y.to_numpy()),
    "a list": (X, Y.tolist()),
    "one frame": (NEW,),
    "an Arrow table": (pa.Table.from_pandas(NEW),),
    "an Arrow table and a series": (pa.Table.from_pandas(X), Y),
    "shuffled columns and an index": (NEW.iloc[::-1][["b", "a"]], Y.iloc[::-1]),
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_come_in_every_form(classifier, way):
    assert (
        outcomes(classifier, *WAYS[way]).sensitive_sums.tolist() == outcomes(classifier, X, Y).sensitive_sums.tolist()
    )


def test_a_file_and_a_loaded_model_serve_alike(classifier, tmp_path):
    NEW.to_csv(tmp_path / "new.csv", index=False)
    dg.save(classifier, tmp_path / "m.json")
    loaded = dg.load(tmp_path / "m.json")
    found = outcomes(loaded, str(tmp_path / "new.csv"))
    assert found.sensitive_sums.tolist() == outcomes(classifier, X, Y).sensitive_sums.tolist()


def test_classes_are_the_models_whatever_y_holds(classifier):
    """Undeclared and missing labels count as the declared other, and no class is read off y."""
    odd = Y.astype(object).mask(np.arange(1000) < 10, "never seen").mask(np.arange(1000) == 11, None)
    found = outcomes(classifier, X, odd)
    assert found.description == outcomes(classifier, X[:1], Y[:1]).description
    confusion = np.split(found.sensitive_sums, found.description.ends[:-1])[1].reshape(3, 3)
    assert confusion[2].sum() == 11
    public = LogisticRegression().fit(ROWS[["a", "b"]], ROWS["t"])
    assert task_of(public).classes == ("no", "yes")
    assert outcomes(public, X[Y == "no"], Y[Y == "no"]).description.task.classes == ("no", "yes")


def test_an_ensemble_is_judged():
    network = dg.naive_bayes_network(DOMAIN, "t")
    drawn = dg.release(
        dg.count(ROWS, network), dg.PosteriorSample(5, draws=3), budget=spend(5), noise=dg.testing.SeededNoise(0)
    )
    ensemble = dg.results.NaiveBayesEnsemble("t", drawn)
    codes = dg.statistics.encode(NEW, DOMAIN).columns
    right = (ensemble.predict_proba(codes).argmax(axis=1) == codes["t"]).mean()
    assert judge(ensemble, X, Y, epsilon=1000)["accuracy"].estimate == pytest.approx(right, abs=0.004)


@pytest.mark.parametrize("make", [LogisticRegression, RidgeClassifier, RandomForestClassifier])
def test_baselines_are_judged_alike(make):
    model = make().fit(ROWS[["a", "b"]], ROWS["t"])
    judged = judge(model, X, Y)
    assert judged["accuracy"].estimate == pytest.approx(model.score(X, Y), abs=0.01)
    assert ("log-loss" in judged.scores) == hasattr(model, "predict_proba")


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    month = rng.integers(1, 5, 3000)
    return pd.DataFrame({"region": rng.choice(["N", "S"], 3000), "month": month}).assign(
        kind=np.where(rng.random(3000) < np.where(month < 3, 0.8, 0.3), "a", "b"), size=rng.integers(0, 3, 3000)
    )


@pytest.fixture(scope="module")
def markov(log):
    domain = {"region": ["N", "S"], "month": [1, 2, 3, 4], "kind": ["a", "b"], "size": [0, 1, 2]}
    model = dg.PrivateHMM(
        2, dg.Domain.of(domain), epsilon=20, iterations=40, burn_in=40, noise=dg.testing.SeededNoise(0)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)  # a short run, for its scores
        return model.fit(log[:2000])


def test_nats_an_entry_are_entry_by_entry(markov, log):
    model, new = markov.model_, log[2000:]
    codes = dg.statistics.encode(new, model.network.domain).columns
    states = model.states.reshape(-1, *model.states.shape[2:])
    laws = {name: model.emissions[name].reshape(len(states), 2, -1) for name in model.fields}
    each = []
    for i in range(len(new)):
        at = states[:, codes["region"][i], codes["month"][i]]
        each.append(np.mean(np.prod([laws[f][np.arange(len(at)), at, codes[f][i]] for f in laws], axis=0)))
    judged = judge(markov, new, epsilon=1000)
    assert judged["nats an entry"].estimate == pytest.approx(np.log(each).mean(), abs=0.02)
    assert judged["nats an entry"].low < np.log(each).mean() < judged["nats an entry"].high


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.uniform(20, 80, 3000), "sex": rng.choice(["F", "M"], 3000)})
    pay = 20 + 0.5 * rows["age"] + 10 * (rows["sex"] == "M") + rng.normal(0, 6, 3000)
    bounds = {"age": (20, 80), "sex": ["F", "M"]}
    settings = {"epsilon": 20, "inference": "plug-in", "draws": 50, "noise": dg.testing.SeededNoise(0)}
    model = dg.PrivateLinearRegression(bounds, (0, 100), **settings)
    return model.fit(rows[:2000], pay[:2000]), rows[2000:], pay[2000:].rename("pay")


@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_errors_of_a_regression(regression, unit, tmp_path):
    model, rows, pay = regression
    judged = judge(model, rows, pay, epsilon=1000, unit=unit)
    exact = ((model.predict(rows) - pay) ** 2).mean()
    assert judged["mean squared error"].estimate == pytest.approx(exact, rel=0.02)
    assert judged["root mean squared error"].estimate == pytest.approx(np.sqrt(exact), rel=0.01)
    assert judged["mean squared error"].low < exact < judged["mean squared error"].high
    rows.assign(target=pay).to_csv(tmp_path / "new.csv", index=False)
    found = outcomes(model.model_, rows, pay).sensitive_sums
    target = model.model_.target
    rows.assign(**{target: pay}).to_csv(tmp_path / "new.csv", index=False)
    assert outcomes(model.model_, str(tmp_path / "new.csv")).sensitive_sums.tolist() == found.tolist()


def test_a_baseline_regression_needs_public_bounds(regression):
    _, rows, pay = regression
    open_model = LinearRegression().fit(rows[["age"]], pay)
    judged = judge(open_model, rows[["age"]], pay, bounds=(0, 100))
    exact = ((open_model.predict(rows[["age"]]) - pay) ** 2).mean()
    assert judged["mean squared error"].estimate == pytest.approx(exact, rel=0.1)
    with pytest.raises(dg.errors.DomainError, match="bounds="):
        judge(open_model, rows[["age"]], pay)


def test_sampled_weights_are_judged(regression):
    _, rows, pay = regression
    model = dg.PrivateLinearRegression(
        {"age": (20, 80), "sex": ["F", "M"]}, (0, 100), 5, dg.papers.RegressionSample(5, idealized_numerics=True)
    )
    assert judge(model.fit(rows, pay), rows, pay)["mean squared error"].estimate > 0


def test_one_release_one_charge(classifier):
    budget = spend(1)
    judged = dg.evaluate(classifier, X, Y, epsilon="0.4", budget=budget)
    assert [event.epsilon for event in budget.events] == [dg.cost(judged.release).epsilon]
    assert str(dg.cost(judged.release)) == "epsilon 0.4 (pure)"
    before = budget.events
    _ = judged.to_frame(), judged.confusion, judged.reliability, repr(judged)
    assert budget.events == before
    with pytest.raises(dg.errors.BudgetExceededError):
        dg.evaluate(classifier, X, Y, epsilon="0.7", budget=budget)
    assert budget.events == before


def test_the_charge_comes_before_the_draw_and_stands(classifier):
    class Failing:
        private = True

        def add(self, values, law):
            raise KeyboardInterrupt

    budget = spend(1)
    with pytest.raises(KeyboardInterrupt):
        dg.evaluate(classifier, X, Y, epsilon="0.4", budget=budget, noise=Failing())
    assert budget.spent == dg.cost(budget.events).epsilon > 0


def test_the_noise_is_that_of_the_unit(classifier):
    """Three rows a person make it three times as wide; the total of the blocks' movements is in the scale."""
    for relation, blocks in (("replace", 131), ("add-remove", 98)):
        for rows in (1, 3):
            unit = dg.PrivacyUnit(relation, rows)
            release = judge(classifier, X, Y, epsilon=1, unit=unit).release
            (measured,) = release.event.measurements
            assert measured.law.scale == pytest.approx(rows * blocks * STEPS, rel=1e-9)
            assert release.value.law == measured.law


def test_seeded_noise_is_repeatable_and_says_so(classifier):
    one, two = (judge(classifier, X, Y, epsilon=1, noise=dg.testing.SeededNoise(3)) for _ in range(2))
    assert one.to_frame().equals(two.to_frame())
    assert "NOT PRIVATE" in repr(one)
    assert not one.release.private
    assert "NOT PRIVATE" not in repr(judge(classifier, X, Y, epsilon=1, noise=None))


def test_what_it_says_of_itself(classifier):
    unit = dg.PrivacyUnit("add-remove", 3)
    judged = judge(classifier, X, Y, epsilon="0.1", unit=unit, noise=dg.testing.SeededNoise(1))
    assert "epsilon 0.1 (pure)" in repr(judged)
    assert "add-remove up to 3 rows of one person" in repr(judged)
    assert "\n" not in repr(judged)
    assert "1000" not in repr(judged)
    assert judged.release.value.n is None


@pytest.mark.parametrize("interval", [0.5, 0.99])
def test_wider_intervals_hold_narrower_ones(classifier, interval):
    release = judge(classifier, X, Y, epsilon=1).release
    narrow, wide = (dg.results.Evaluation(release, by) for by in sorted((interval, 0.9)))
    for name, score in narrow.scores.items():
        assert wide[name].low <= score.low <= score.estimate <= score.high <= wide[name].high


def test_gaussian_noise_takes_the_delta_that_is_left(classifier):
    budget = spend(2, delta="1e-6")
    judged = dg.evaluate(classifier, X, Y, epsilon=1, budget=budget, mechanism="gaussian")
    assert budget.cost().delta == budget.delta
    assert judged["accuracy"].low < judged["accuracy"].estimate < judged["accuracy"].high
    with pytest.raises(dg.errors.ReleaseError, match="delta"):
        dg.evaluate(classifier, X, Y, epsilon=1, budget=budget, mechanism="gaussian")


@pytest.mark.parametrize("unit", [REPLACE, ADD, dg.PrivacyUnit("replace", 2)], ids=str)
def test_a_group_is_judged_by_its_own_rows(classifier, unit):
    regions = NEW.assign(region=np.where(np.arange(1000) < 300, "north", "south"))
    declared = dg.Domain.of({"region": ["north", "south"]})
    groups = spend(4000, unit).parallel(declared, "region", epsilon=4000)
    north = dg.evaluate(classifier, regions, epsilon=groups["north"].epsilon, budget=groups["north"])
    right = (classifier.predict(X[:300]) == Y[:300]).mean()
    assert north["accuracy"].estimate == pytest.approx(right, abs=0.01)
    assert north.release.value.n is None
    for whole in (outcomes(classifier, X, Y), outcomes(classifier, regions, group=groups["north"].group)):
        with pytest.raises(dg.errors.ReleaseError, match="budget"):
            evaluation_of(whole, epsilon="0.1", budget=groups["south"])
    with pytest.raises(dg.errors.DomainError, match="region"):
        dg.evaluate(classifier, X, Y, epsilon="0.1", budget=groups["south"])
    assert groups["south"].spent == 0


@pytest.mark.parametrize("made", [streams.Stream, streams.Once, streams.Query, streams.reader])
def test_the_rows_of_a_group_are_read_once(classifier, made):
    """A second reading in another order put rows of other groups in the place of the group's."""
    regions = NEW.assign(region=np.where(np.arange(1000) < 300, "north", "south"))
    groups = spend(4000, ADD).parallel(dg.Domain.of({"region": ["north", "south"]}), "region", epsilon=4000)
    north = groups["north"]
    rows = made(pa.Table.from_pandas(regions))
    judged = dg.evaluate(classifier, rows, epsilon=north.epsilon, budget=north)
    right = (classifier.predict(X[:300]) == Y[:300]).sum()
    assert judged.release.value.block("right").tolist() == pytest.approx([right, 300 - right], abs=1)


def test_outcomes_of_folds_each_predicted_by_its_own_model_add(classifier):
    other = dg.PrivateNaiveBayes(DOMAIN, epsilon=5).fit(ROWS[["a", "b"]], ROWS["t"])
    folds = [outcomes(m, X[part], Y[part]) for m, part in ((classifier, slice(400)), (other, slice(400, None)))]
    budget = spend(50)
    judged = evaluation_of(folds[0] + folds[1], epsilon=50, budget=budget)
    assert len(budget.events) == 1
    assert judged.release.value.n == 1000


CANARY = "hush93"
REFUSED = {
    "no rows": (lambda m: (m, X[:0], Y[:0]), {}, "no rows"),
    "another column": (lambda m: (m, X.rename(columns={"a": "c"}), Y), {}, "no column 'a'"),
    "too few columns": (lambda m: (m, X.to_numpy()[:, :1], Y), {}, "2 features"),
    "ragged rows": (lambda m: (m, [[0, 1], [CANARY]], ["no", "yes"]), {}, "X must be a table"),
    "no y": (lambda m: (m, X), {}, "'t'"),
    "a short y": (lambda m: (m, X, Y[:-1]), {}, "same number"),
    "a wide y": (lambda m: (m, X, NEW), {}, "one column"),
    "an undeclared value": (lambda m: (m, X.replace(2, 937), Y), {}, "'a'"),
    "a file and y": (lambda m: (m, "rows.csv", Y), {}, "leave y out"),
    "no model": (lambda m: (object(), X, Y), {}, "fitted model"),
    "a class": (lambda m: (LogisticRegression, X, Y), {}, "fitted model"),
    "an unfitted estimator": (lambda m: (dg.PrivateNaiveBayes(DOMAIN), X, Y), {}, "not fitted"),
    "an unfitted baseline": (lambda m: (LogisticRegression(), X, Y), {}, "not fitted"),
    "epsilon 0": (lambda m: (m, X, Y), {"epsilon": 0}, "epsilon"),
    "no budget": (lambda m: (m, X, Y), {"budget": None}, "Budget"),
    "interval 1": (lambda m: (m, X, Y), {"interval": 1}, "interval"),
    "an unknown score": (lambda m: (m, X, Y), {"scores": ["area"]}, "scores"),
    "a score alone": (lambda m: (m, X, Y), {"scores": "accuracy"}, "scores"),
    "a loss of 0": (lambda m: (m, X, Y), {"largest_loss": 0}, "largest_loss"),
    "another mechanism": (lambda m: (m, X, Y), {"mechanism": "fourier"}, "mechanism"),
    "y for a baseline": (lambda m: (LogisticRegression().fit(ROWS[["a"]], ROWS["t"]), X[["a"]]), {}, "y is missing"),
    "a class it never saw": (
        lambda m: (LogisticRegression().fit(ROWS[["a"]], ROWS["t"]), X[["a"]], Y.mask(Y == "no", CANARY)),
        {},
        "outside the levels",
    ),
    "text for a baseline": (
        lambda m: (LogisticRegression().fit(ROWS[["a"]], ROWS["t"]), X[["a"]].astype(object).replace(2, CANARY), Y),
        {},
        "cannot predict",
    ),
}


#: Where n is private no rows are rows as any others.
REFUSALS = [(case, unit) for case in REFUSED for unit in (REPLACE, ADD) if (case, unit) != ("no rows", ADD)]


@pytest.mark.parametrize(("case", "unit"), REFUSALS, ids=str)
def test_refusals_charge_nothing_and_repeat_no_row(classifier, case, unit, recwarn):
    make, settings, message = REFUSED[case]
    budget = spend(1, unit)
    with pytest.raises(
        (dg.errors.DomainError, dg.errors.InferenceError, dg.errors.ReleaseError), match=message
    ) as caught:
        dg.evaluate(*make(classifier), **({"epsilon": 1, "budget": budget} | settings))
    error = caught.value
    while error is not None:
        assert CANARY not in str(error)
        assert "999" not in str(error)
        error = error.__cause__ or error.__context__
    assert not [w for w in recwarn if CANARY in str(w.message)]
    assert budget.spent == 0


@pytest.mark.proof
def test_no_rows_are_rows_as_any_others_where_n_is_private(classifier):
    """Noise can look like a few rows of either kind, so the interval is that of few rows: most of [0, 1]."""
    for seed in range(20):
        judged = judge(classifier, X[:0], Y[:0], epsilon=1, unit=ADD, noise=dg.testing.SeededNoise(seed))
        found = judged["accuracy"]
        assert 0 <= found.low < found.high <= 1
        assert found.high - found.low > 0.5
        assert len(judged.confusion) == 9


def test_a_model_of_a_log_takes_no_y(markov, log):
    with pytest.raises(dg.errors.DomainError, match="leave y out"):
        judge(markov, log, log["kind"])


def test_nulls_of_a_regression_are_refused(regression):
    model, rows, pay = regression
    budget = spend(1)
    with pytest.raises(dg.errors.DomainError, match="nulls"):
        dg.evaluate(model, rows, pay.mask(pay.index == 2003), epsilon=1, budget=budget)
    with pytest.raises(dg.errors.DomainError, match="nulls"):
        dg.evaluate(model, rows.assign(age=np.nan), pay, epsilon=1, budget=budget)
    assert budget.spent == 0


def test_what_was_not_paid_for_is_not_there(classifier):
    judged = judge(classifier, X, Y, scores=("brier",))
    assert list(judged.scores) == ["accuracy", "Brier score"]
    for asked in (lambda: judged.confusion, lambda: judged.reliability, lambda: judged["log-loss"]):
        with pytest.raises(dg.errors.InferenceError, match="released"):
            asked()


def test_an_evaluation_is_of_a_release_of_outcomes(classifier):
    with pytest.raises(dg.errors.InferenceError, match="release of outcomes"):
        dg.results.Evaluation(classifier.release_)
    with pytest.raises(dg.errors.ReleaseError, match="sums of outcomes"):
        evaluation_of(dg.count(ROWS, dg.naive_bayes_network(DOMAIN, "t")), epsilon=1, budget=spend(1))


def test_an_evaluation_is_a_value(classifier):
    judged = judge(classifier, X, Y, epsilon=1)
    assert copy.deepcopy(judged).to_frame().equals(judged.to_frame())
    with pytest.raises(AttributeError):
        judged.interval = 0.5


@pytest.mark.parametrize("settings", [{"scores": ["accuracy"]}, {"bounds": (0, 30)}])
def test_a_setting_that_a_regression_has_no_use_for_is_not_paid_for(settings):
    frame, budget = labelled(), dg.Budget(1)
    model = dg.PrivateLinearRegression({"a": (1, 3)}, (1, 2), epsilon=1).fit(frame[["a"]], frame.y)
    with pytest.raises(dg.errors.DomainError, match="has no meaning for this model"):
        dg.evaluate(model, frame[["a"]], frame.y, epsilon=1, budget=budget, **settings)
    assert budget.spent == 0


def test_a_model_of_persons_is_not_judged_by_rows_without_a_word():
    frame = labelled().assign(who=np.arange(300) // 3)
    whole = dg.PrivateNaiveBayes(LABELLED, target="y", epsilon=5, unit=dg.PrivacyUnit("add-remove", 3))
    model = whole.fit(frame[["a", "c", "who"]], frame.y, person="who")
    with pytest.warns(dg.errors.PrivacyLeakWarning, match="the model up to 3 rows of one person"):
        dg.evaluate(model, frame[["a", "c"]], frame.y, epsilon=1, budget=dg.Budget(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        persons = dg.Budget(1, unit=dg.PrivacyUnit("add-remove", 3))
        dg.evaluate(model, frame[["a", "c"]], frame.y, epsilon=1, budget=persons)
