"""The classifier that plans its release and chooses its model: better than naive Bayes, and within its charge."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import dpgraph as dg
from dpgraph.estimators.classifier import PrivateClassifier
from dpgraph.models.weighted import Scores
from dpgraph.privacy.composition import mu_squared_of
from dpgraph.testing import SeededNoise

COPIES = 6
DOMAIN = {"label": ["no", "yes"], **{f"copy {i}": [0, 1, 2] for i in range(COPIES)}, "other": [0, 1]}


def rows(n, seed=0):
    """A label with six copies of one cause, each kept nine times in ten, and a weak cause of its own."""
    rng = np.random.default_rng(seed)
    cause = rng.integers(0, 3, n)
    other = rng.integers(0, 2, n)
    label = rng.random(n) < 1 / (1 + np.exp(-(1.2 * cause + other - 2)))
    frame = {"label": np.where(label, "yes", "no"), "other": other}
    for i in range(COPIES):
        frame[f"copy {i}"] = np.where(rng.random(n) < 0.9, cause, rng.integers(0, 3, n))
    return pd.DataFrame(frame)


def fitted(epsilon, delta=0.0, n=20_000, seed=1, **settings):
    train = rows(n)
    model = PrivateClassifier(DOMAIN, "label", epsilon, delta, noise=SeededNoise(seed), **settings)
    return model.fit(train.drop(columns="label"), train["label"])


def log_loss(model, n=20_000):
    judged = rows(n, seed=9)
    found = model.predict_proba(judged.drop(columns="label"))
    place = (judged["label"] == "yes").to_numpy().astype(int)
    return float(-np.log(np.maximum(found[np.arange(n), place], 1e-12)).mean()), found, place


@pytest.mark.parametrize(
    ("epsilon", "delta", "off"), [(1, 1e-6, 0.03), (0.05, 0, 0.05)], ids=["pairs", "the label alone"]
)
def test_dependent_features_do_not_count_twice(epsilon, delta, off):
    unit = dg.PrivacyUnit("add-remove")
    model = fitted(epsilon, delta, unit=unit)
    loss, found, place = log_loss(model)
    train = rows(20_000)
    how = dg.GaussianMechanism(epsilon, delta) if delta else "laplace"
    naive = dg.PrivateNaiveBayes(
        DOMAIN, epsilon, how, inference="plug-in", target="label", unit=unit, noise=SeededNoise(1)
    ).fit(train.drop(columns="label"), train["label"])
    assert loss < log_loss(naive)[0] - 0.05
    fifths = np.array_split(np.argsort(found[:, 1]), 5)  # probabilities are what they say
    assert np.mean([abs(found[part, 1].mean() - place[part].mean()) for part in fifths]) < off
    assert model.choice_["chosen"].sum() == 1
    assert len(model.choice_) == (4 if delta else 1)
    best = model.choice_.loc[model.choice_["chosen"]].iloc[0]
    assert abs(best["log_loss"] - loss) < 0.03 + 4 * best["noise"]


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_one_charge_pays_for_all_parts(delta):
    budget = dg.Budget(1, delta, unit=dg.PrivacyUnit("replace"))
    train = rows(2000)
    features, label = train.drop(columns="label"), train["label"]
    model = PrivateClassifier(DOMAIN, "label", 1, delta, budget=budget, noise=SeededNoise(1)).fit(features, label)
    (event,) = budget.events
    assert (event.mechanism, event.epsilon, float(event.delta)) == ("classifier", 1, delta)
    assert len(model.release_.event.events) == 3
    assert model.privacy_cost_.epsilon <= 1
    with pytest.raises(dg.errors.BudgetExceededError):
        model.fit(features, label)
    assert model.choice_ is not None  # the earlier fit stays
    assert len(budget.events) == 1


class Failing:
    private = True

    def add(self, values, law):
        raise RuntimeError


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_the_charge_comes_before_the_first_draw_and_stays(delta):
    unit, train = dg.PrivacyUnit("add-remove"), rows(50)
    for funds, error in ((0.5, dg.errors.BudgetExceededError), (1, RuntimeError)):
        budget = dg.Budget(funds, delta, unit=unit)
        with pytest.raises(error):
            PrivateClassifier(DOMAIN, "label", 1, delta, budget=budget, noise=Failing()).fit(
                train.drop(columns="label"), train["label"]
            )
        assert budget.spent == (1 if error is RuntimeError else 0)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_the_record_names_the_price_of_every_part_scores_too(delta):
    """Prices of parts add up to the charge: in epsilon, or in squares of mu where there is a delta."""
    budget = dg.Budget(1, delta, unit=dg.PrivacyUnit("add-remove"))
    train = rows(2000)[["label", "other"]]
    model = PrivateClassifier(dg.Domain.of({n: DOMAIN[n] for n in train}), "label", 1, delta, budget=budget)
    event = model.set_params(noise=SeededNoise(1)).fit(train[["other"]], train["label"]).release_.event
    prices = [mu_squared_of(part) if delta else part.epsilon for part in event.events]
    charge = budget.events[0].mu ** 2 if delta else 1
    assert [round(float(one / charge), 4) for one in prices] == [0.04, 0.84, 0.12]
    assert event.epsilon == 1
    assert sum(prices) <= charge


def test_noise_that_drowns_scores_leaves_them_unmeasured():
    model = fitted(0.5, n=300)
    assert model.choice_["log_loss"].isna().all()
    assert len(model.release_.event.events) == 2
    assert log_loss(model)[0] < 1


def test_where_features_would_drown_half_of_the_charge_counts_the_label():
    """A rare label among features that say little: .21 nats beyond the base rate's loss, and .48 with 4 % for it."""
    rng = np.random.default_rng(4)
    n, features = 1500, [f"x{i}" for i in range(30)]
    label = pd.Series((rng.random(n) < 0.05).astype(int), name="y")
    frame = pd.DataFrame({name: np.where(rng.random(n) < 0.1, label, rng.integers(0, 3, n)) for name in features})
    domain = {"y": [0, 1], **{name: [0, 1, 2] for name in features}}
    unit = dg.PrivacyUnit("add-remove")
    beyond = []
    for seed in range(8):
        model = PrivateClassifier(domain, "y", 0.01, n=n, unit=unit, noise=SeededNoise(seed)).fit(frame, label)
        prices = [part.epsilon for part in model.release_.event.events]
        assert [round(float(price / 0.01), 3) for price in prices] == [0.04, 0.12, 0.34, 0.5]
        assert sum(prices) <= model.release_.event.epsilon
        odds = np.where(label == 1, label.mean(), 1 - label.mean())
        beyond.append(float(np.log(odds / model.predict_proba(frame)[np.arange(n), label]).mean()))
    assert np.mean(beyond) < 0.33


def test_noise_larger_than_any_dependence_passes_for_none():
    """A chance excess of twice what noise alone has: the root of a half of it once passed for a feature's."""
    domain = dg.Domain.of({"label": [0, 1], "f": [0, 1]})
    label, table = np.array([0.05, 0.95]), np.array([[0.9, 0.5], [0.1, 0.5]])
    excess = np.array([[200.0, -200.0], [-200.0, 200.0]])  # of 100 rows
    pairs = SimpleNamespace(n=100, excess={("f", "label"): excess}, spread={("f", "label"): np.sqrt(80_000)})
    damped, clear = Scores(domain, "label", np.log(label), {"f": np.log(table)}).damped(pairs)
    cells = np.exp(damped.weights["f"])
    assert abs(cells[0, 0] - cells[0, 1]) < 0.04
    assert clear < 0.004


@pytest.mark.parametrize(("noise", "part"), [(0.0, 1.0), (0.9, 0.1), (1.0, 0.0), (2.0, 0.0)])
def test_a_table_is_mixed_with_an_independent_one_by_the_noise_in_its_excess(noise, part):
    """All of a clear table, nothing of noise; between them a cell that noise emptied has odds that are bounded."""
    domain = dg.Domain.of({"label": [0, 1], "f": [0, 1]})
    label, table = np.array([0.05, 0.95]), np.array([[1e-9, 0.5], [1 - 1e-9, 0.5]])
    excess = np.array([[-0.02, 0.02], [0.02, -0.02]])
    spread = np.sqrt(noise * (excess**2).sum())
    pairs = SimpleNamespace(n=1, excess={("label", "f"): excess}, spread={("label", "f"): spread})
    damped, clear = Scores(domain, "label", np.log(label), {"f": np.log(table)}).damped(pairs)
    odds = np.exp(damped.weights["f"]) / (table @ label)[:, None]
    assert clear == pytest.approx(part, abs=1e-6)
    assert np.exp(damped.weights["f"]).sum(axis=0) == pytest.approx(1)
    assert odds.min() == pytest.approx(1 - part**0.5, abs=1e-6)  # of the cell that noise emptied
    if part in (0, 1):
        assert np.exp(damped.weights["f"]) == pytest.approx(table if part else np.outer(table @ label, [1, 1]))


@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_a_saved_classifier_predicts_the_same_and_its_release_learns_more(tmp_path, suffix):
    model = fitted(1, 1e-6, n=5000)
    dg.save(model, tmp_path / f"model{suffix}")
    again = dg.load(tmp_path / f"model{suffix}")
    features = rows(50).drop(columns="label")
    np.testing.assert_array_equal(again.predict_proba(features), model.predict_proba(features))
    release = dg.load(tmp_path / f"model{suffix}", release=True)
    assert set(dg.choose_network(release).network.domain.names) == set(DOMAIN)


def test_the_tables_of_corrected_weights_answer_no_questions():
    model = fitted(0.05, n=5000)
    with pytest.raises(dg.errors.InferenceError, match="are not the population's"):
        dg.query(model.model_, "other")


def test_it_is_a_scikit_learn_classifier():
    model = fitted(1, n=2000)
    judged = rows(500, seed=4)
    assert model.score(judged.drop(columns="label"), judged["label"]) == np.mean(
        model.predict(judged.drop(columns="label")) == judged["label"]
    )
    assert clone(model).get_params()["epsilon"] == 1
    made = dg.evaluate(model, judged, epsilon=5, budget=dg.Budget(5))
    assert 0.5 < float(made.to_frame().set_index("score").loc["accuracy"].iloc[0]) < 1


def test_many_labels_have_one_part_and_shifts():
    rng = np.random.default_rng(3)
    n = 5000
    label = rng.integers(0, 5, n)
    frame = pd.DataFrame({f"x{i}": np.where(rng.random(n) < 0.6, label, rng.integers(0, 5, n)) for i in range(4)})
    domain = {"y": list(range(5)), **{f"x{i}": list(range(5)) for i in range(4)}}
    model = PrivateClassifier(domain, "y", 2, 1e-6, noise=SeededNoise(0)).fit(frame, pd.Series(label, name="y"))
    found = model.predict_proba(frame)
    assert found.shape == (n, 5)
    assert (found.argmax(axis=1) == label).mean() > 0.75


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_little_noise_in_pairs_and_few_rows_give_the_network_at_the_whole_charge(delta, tmp_path):
    """A label that two features decide together, which no sum of log odds says."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({name: rng.integers(0, 2, 3000) for name in ("a", "b", "c")})
    label = pd.Series(np.where(rng.random(3000) < 0.9, frame["a"] ^ frame["b"], frame["c"]), name="y")
    domain = {name: [0, 1] for name in ("y", "a", "b", "c")}
    unit = dg.PrivacyUnit("add-remove")
    model = PrivateClassifier(domain, "y", 2, delta, unit=unit, noise=SeededNoise(3)).fit(frame, label)
    assert model.choice_["model"].tolist() == ["network"]
    event = model.release_.event
    prices = [mu_squared_of(part) if delta else part.epsilon for part in event.events]
    charge = mu_squared_of(event) if delta else 2
    assert [round(float(one / charge), 3) for one in prices] == [0.04, 0.96]
    assert sum(prices) <= charge
    if delta:  # tables of three variables were measured
        assert model.score(frame, label) > 0.9
    dg.save(model, tmp_path / "model.json")
    np.testing.assert_array_equal(dg.load(tmp_path / "model.json").predict_proba(frame), model.predict_proba(frame))


def test_where_a_table_by_labels_drowns_one_of_right_and_wrong_says_how_sure_to_be():
    rng = np.random.default_rng(3)
    n, labels = 4000, 8
    label = rng.integers(0, labels, n)
    copy = np.where(rng.random(n) < 0.5, label, rng.integers(0, labels, n))  # the features repeat each other
    frame = pd.DataFrame({f"x{i}": copy for i in range(6)})
    domain = {name: list(range(labels)) for name in ("y", *frame)}
    model = PrivateClassifier(domain, "y", 0.4, unit=dg.PrivacyUnit("add-remove"), noise=SeededNoise(0))
    found = model.fit(frame, pd.Series(label, name="y")).predict_proba(frame)
    right = (found.argmax(axis=1) == label).mean()
    assert len(model.release_.event.events) == 3
    naive = dg.PrivateNaiveBayes(domain, 0.4, inference="plug-in", target="y", noise=SeededNoise(0))
    sure = naive.fit(frame, pd.Series(label, name="y")).predict_proba(frame).max(axis=1).mean()
    assert abs(found.max(axis=1).mean() - right) < 0.5 * (sure - right)
    loss = -np.log(found[np.arange(n), label]).mean()
    one = model.choice_.iloc[0]
    assert abs(one["log_loss"] - loss) < 0.1 + 3 * one["noise"]  # which wrong label it is was not measured


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epsilon": 0}, "epsilon"),
        ({"delta": 2}, "delta"),
        ({"n": 0}, "n must be"),
        ({"budget": 3}, "budget must be a Budget"),
        ({"random_state": "x"}, "random_state"),
        ({"target": "lable"}, "did you mean|target must be"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_charged(settings, words):
    budget = dg.Budget(5)
    train = rows(100)
    given = {"epsilon": 1, "target": "label", "budget": budget} | settings
    with pytest.raises((dg.errors.DPGraphError, ValueError), match=words):
        PrivateClassifier(DOMAIN, **given).fit(train.drop(columns="label"), train["label"])
    assert not budget.events


def test_rows_that_do_not_fit_are_refused_uncharged_and_without_their_values():
    budget, train = dg.Budget(5), rows(100)
    train.loc[3, "copy 1"] = 77
    with pytest.raises(dg.errors.DomainError) as refused:
        PrivateClassifier(DOMAIN, budget=budget, target="label").fit(train.drop(columns="label"), train["label"])
    assert "77" not in str(refused.value)
    assert not budget.events


def test_persons_are_capped():
    train = rows(600).assign(who=np.repeat(np.arange(200), 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error", dg.errors.ConvergenceWarning)
        model = PrivateClassifier(
            DOMAIN, "label", 5, unit=dg.PrivacyUnit("add-remove", rows_per_person=2), noise=SeededNoise(2)
        ).fit(train.drop(columns="label"), train["label"], person="who")
    assert abs(float(model.release_.value.parts[0].tables["label",].sum()) - 400) < 60
