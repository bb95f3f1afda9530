"""Cross-validation loses exactly what it is charged, by enumeration; it charges once and before anything is drawn."""

import dataclasses
import inspect
import itertools
import json
import math
import warnings
from fractions import Fraction
from functools import cache
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import BaggingClassifier
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import dpgraph as dg
from dpgraph.estimators.cross_validation import cross_validate
from dpgraph.files.documents import document
from dpgraph.privacy.records import combined_event
from tests.estimators.recorded import Script, losses, recorded
from tests.everything import everything
from tests.files.edits import edited

DOMAIN = dg.Domain.of({"f": [0, 1], "t": [0, 1]})
KINDS = list(itertools.product((0, 1), (0, 1)))
REPLACE, ADD_REMOVE = dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove")
SCRIPTS = range(4)
GAUSSIAN = dg.GaussianMechanism(rho=5, delta="0.1")
RIGHT = ("accuracy",)


def validate(rows, folds, unit, persons=None, script=0, **settings):
    """Cross-validates naive Bayes on some kinds of rows at epsilon 1, and keeps every noise call."""
    frame = pd.DataFrame([KINDS[kind] for kind in rows], columns=["f", "t"], dtype=np.int64)
    model = dg.PrivateNaiveBayes(DOMAIN, inference="plug-in")
    return recorded(
        lambda noise: cross_validate(
            model,
            frame[["f"]],
            frame["t"],
            folds=folds,
            epsilon=1,
            budget=dg.Budget(1, unit=unit),
            person=persons,
            noise=noise,
            **settings,
        ),
        script,
    )


def largest(pairs, calls, parts):
    """The largest loss of all noise calls together, of those of the fits, and of the evaluation's.

    A fit has one call for its tables and one for the label's own counts, unless both have one scale.
    """
    found = []
    for one, other in pairs:
        each = losses(calls(one), calls(other))
        assert len(each) == parts  # every noise call is seen
        found.append((sum(each), sum(each[:-1]), each[-1]))
    return [max(column) for column in zip(*found, strict=True)]


def is_all_of(loss, charge):
    """A scale is a float rounded up, so a loss may be less than the charge by the last bits, and never more."""
    return charge * (1 - Fraction(1, 10**12)) < loss <= charge


@pytest.mark.proof
@pytest.mark.parametrize(("folds", "script"), [*itertools.product([2], SCRIPTS), (3, 0)])
def test_under_replace_the_loss_of_every_neighbour_is_at_most_the_charge(folds, script):
    """All data sets of 3 rows in order, each row replaced; the script fixes the models, so that they are the same.

    Tight where accuracy alone is released; other scores lose all of theirs only where a model is sure of itself.
    """
    calls = cache(lambda rows: validate(rows, folds, REPLACE, script=script, scores=RIGHT))
    whole = list(itertools.product(range(4), repeat=3))
    pairs = [
        (rows, (*rows[:i], kind, *rows[i + 1 :])) for rows in whole for i, kind in itertools.product(range(3), range(4))
    ]
    total, training, _ = largest(pairs, calls, 2 * folds + 1)
    assert is_all_of(training, Fraction(folds - 1, folds))
    assert is_all_of(total, 1)


@pytest.mark.proof
@pytest.mark.parametrize("script", SCRIPTS)
def test_under_add_remove_the_loss_of_every_neighbour_is_at_most_the_charge(script):
    """Three persons of one row each, any of them absent, each removed."""
    folds = 2

    def held(persons):
        return [i for i, kind in enumerate(persons) if kind is not None]

    def run(persons):
        there = held(persons)
        return validate(
            [persons[i] for i in there], folds, ADD_REMOVE, [f"id {i}" for i in there], script, scores=RIGHT
        )

    calls = cache(run)
    pairs = [
        (persons, (*persons[:i], None, *persons[i + 1 :]))
        for persons in itertools.product([None, *range(4)], repeat=3)
        for i in held(persons)
    ]
    total, training, _ = largest(pairs, calls, folds + 1)
    assert is_all_of(training, Fraction(folds - 1, folds))
    assert is_all_of(total, 1)


@pytest.mark.proof
@pytest.mark.parametrize("script", [0, 1])
def test_a_person_of_several_rows_is_in_one_fold_and_costs_no_more(script):
    """Two persons of up to two counted rows, one of whom may hold a third, in alternating places; either removed."""
    unit, folds = dg.PrivacyUnit("add-remove", 2), 2
    some = [kinds for size in range(3) for kinds in itertools.combinations_with_replacement(range(4), size)]

    def run(persons):
        rows = [(place, who, kind) for who, kinds in enumerate(persons) for place, kind in enumerate(kinds)]
        rows.sort()
        return validate([kind for *_, kind in rows], folds, unit, [who for _, who, _ in rows], script, scores=RIGHT)

    calls = cache(run)
    pairs = [(pair, other) for pair in itertools.product(some, some) for other in (((), pair[1]), (pair[0], ()))]
    pairs += [(((0, 3, kind), (1,)), ((), (1,))) for kind in range(4)]
    total, training, _ = largest(pairs, calls, folds + 1)
    assert is_all_of(training, Fraction(folds - 1, folds))
    assert is_all_of(total, 1)


@pytest.mark.proof
def test_several_replaced_rows_may_change_every_fit_and_all_are_charged():
    """Two replaced rows of four, two folds: both fits change. Laplace noise loses in proportion to the rows, so less
    than is charged; a mechanism need not."""
    unit, folds = dg.PrivacyUnit("replace", 2), 2
    calls = cache(lambda rows: validate(rows, folds, unit, scores=RIGHT))
    pairs = []
    for rows in itertools.product((0, 3), repeat=4):
        for i, j in itertools.combinations(range(4), 2):
            for kinds in itertools.product((0, 1, 3), repeat=2):
                other = list(rows)
                other[i], other[j] = kinds
                pairs.append((rows, tuple(other)))
    total, training, evaluation = largest(pairs, calls, 2 * folds + 1)
    assert is_all_of(training, Fraction(1, 3))  # of 2/3 charged
    assert is_all_of(evaluation, Fraction(1, 3))
    assert total <= 1


def test_with_all_scores_the_loss_is_at_most_the_charge():
    """Two rows, two folds, nine tenths for the evaluation. Of its weights, 117 under replace, a row that becomes wrong
    moves all of accuracy (40), confusion (20) and scores (32); losses move as far as a model is sure of itself."""
    calls = cache(lambda rows: validate(rows, 2, REPLACE, evaluation_share="0.9"))
    whole = list(itertools.product(range(4), repeat=2))
    pairs = [(a, b) for a, b in itertools.product(whole, repeat=2) if sum(map(int.__ne__, a, b)) == 1]
    total, training, evaluation = largest(pairs, calls, 5)
    assert is_all_of(training, Fraction(1, 10))
    assert Fraction(92, 117) * Fraction(9, 10) * (1 - Fraction(1, 10**12)) < evaluation <= Fraction(9, 10)
    assert total <= 1


def rows_of(n=60, seed=0):
    rng = np.random.default_rng(seed)
    label = rng.integers(0, 2, n)
    frame = pd.DataFrame({"f": np.where(rng.random(n) < 0.8, label, 1 - label), "t": label})
    return frame.assign(who=[f"p{i}" for i in range(n)])


FRAME = rows_of()
X, Y = FRAME[["f"]], FRAME["t"]
BAYES = dg.PrivateNaiveBayes(DOMAIN, inference="plug-in", target="t")


def test_the_budget_is_charged_once_and_the_parts_say_what_for():
    budget = dg.Budget(3)
    found = dg.cross_validate(BAYES, X, Y, folds=4, epsilon=2, budget=budget)
    assert [(event.mechanism, event.epsilon) for event in budget.events] == [("cross-validation", 2)]
    assert [part.epsilon for part in found.parts] == [Fraction(1, 2)] * 5
    assert 3 * found.training_epsilon + found.parts[-1].epsilon == found.cost.epsilon == 2
    assert (found.folds, found.unit, found.private) == (4, REPLACE, True)
    assert found.evaluation.release.event.events[-1] == found.parts[-1]
    assert BAYES.budget is None
    assert BAYES.epsilon == 1.0


@pytest.mark.proof
def test_the_record_of_the_evaluation_is_of_the_whole_call(tmp_path):
    """Also of a file, priced by every accountant, on the page and against a ledger."""
    budget = dg.Budget.open(tmp_path / "ledger.sqlite", dataset="rows", epsilon=20)
    found = dg.cross_validate(BAYES, X, Y, epsilon=6, training_epsilon=1, budget=budget)
    record = found.evaluation.release.provenance
    assert found.cost.epsilon == record.event.epsilon == dg.cost(record.event).epsilon == 6
    for method in ("gdp", "zcdp"):
        assert dg.cost(found.evaluation.release, method, "1e-9").epsilon > 4  # the evaluation alone costs 2
    dg.save(found.evaluation.release, tmp_path / "scores.json")
    again = dg.load(tmp_path / "scores.json")
    assert (again.event, again.scope) == (found.evaluation.release.event, found.evaluation.release.scope)
    assert budget.ledger.verify(release=again).ok
    assert [row.mechanism for row in budget.ledger.rows_of(again)] == ["cross-validation"]
    dg.write_html(found.evaluation, tmp_path / "page.html")
    assert "The release cost epsilon 6." in (tmp_path / "page.html").read_text()
    other = dg.cross_validate(BAYES, X, Y, epsilon=7, budget=budget).evaluation.release
    assert not budget.ledger.verify(release=dataclasses.replace(other, scope=again.scope)).ok


@pytest.mark.proof
def test_loss_distributions_price_the_whole_call():
    found = dg.cross_validate(BAYES, X, Y, epsilon=6, training_epsilon=1, budget=dg.Budget(6))
    assert dg.cost(found.evaluation.release, "pld", "1e-9").epsilon > 4  # the evaluation alone costs 2


def test_a_seeded_cross_validation_is_called_private_nowhere():
    found = dg.cross_validate(BAYES, X, Y, epsilon=1, budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
    assert (found.private, found.evaluation.release.private) == (False, False)


EDITS = {
    "fits that measured": lambda parts: parts[0].update(measurements=parts[1]["measurements"]),
    "fits that chose": lambda parts: parts[0].update(selections=[{"law": "softmax", "epsilon": "1/9", "draws": 1}]),
    "twice the fits": lambda parts: parts.append(parts[0]),
    "a claim below the whole": lambda parts: parts[0].update(epsilon="1/9"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_of_fits_that_no_call_made_is_refused(edit, tmp_path):
    found = dg.cross_validate(BAYES, X, Y, epsilon=1, budget=dg.Budget(1))
    plain = json.loads(json.dumps(document(found.evaluation.release)))
    EDITS[edit](plain["event"]["parts"])
    (tmp_path / "edited.json").write_text(edited(plain))
    with pytest.raises(dg.errors.FileError):
        dg.load(tmp_path / "edited.json")


def test_fits_of_folds_are_beside_one_evaluation_only(tmp_path):
    fits = dg.cross_validate(BAYES, X, Y, epsilon=1, budget=dg.Budget(1)).evaluation.release.event.parts[0]
    network = dg.naive_bayes_network(DOMAIN, "t")
    counts = dg.release(dg.count(FRAME[["f", "t"]], network), dg.LaplaceMechanism(1), budget=dg.Budget(1))
    forged = dataclasses.replace(counts, event=combined_event([fits, counts.event]))
    with pytest.raises(dg.errors.ReleaseError, match="only one evaluation"):
        dg.save(forged, tmp_path / "forged.json")


def test_pure_parts_are_cheaper_in_zero_concentrated_accounting():
    """Four fits and an evaluation at 0.2 each: rho = 5 * 0.2^2 / 2."""
    budget = dg.Budget(1)
    dg.cross_validate(BAYES, X, Y, epsilon=1, budget=budget)
    assert budget.events[0].rho == Fraction(1, 10)


@pytest.mark.parametrize(
    ("settings", "training", "evaluation"),
    [
        ({}, "0.2", "0.2"),
        ({"evaluation_share": "0.5"}, "0.125", "0.5"),
        ({"training_epsilon": "0.24"}, "0.24", "0.04"),
        ({"folds": 2}, "0.5", "0.5"),
    ],
)
def test_epsilon_is_split_exactly(settings, training, evaluation):
    found = dg.cross_validate(BAYES, X, Y, epsilon=1, budget=dg.Budget(1), **settings)
    assert found.training_epsilon == Fraction(training)
    assert found.parts[-1].epsilon == Fraction(evaluation)


def test_where_every_fit_may_change_every_fit_is_charged():
    unit = dg.PrivacyUnit("replace", 3)
    found = dg.cross_validate(BAYES, X, Y, epsilon=1, budget=dg.Budget(1, unit=unit))
    assert 5 * found.training_epsilon + found.parts[-1].epsilon == 1


@pytest.mark.parametrize("mechanism", [dg.GaussianMechanism(9, "0.1"), GAUSSIAN], ids=["epsilon", "rho"])
def test_a_mechanism_with_a_delta_shares_the_delta(mechanism):
    model = dg.PrivateNaiveBayes(DOMAIN, mechanism=mechanism, inference="plug-in")
    budget = dg.Budget(1, "1e-6")
    found = dg.cross_validate(model, X, Y, epsilon=1, delta="1e-6", budget=budget)
    assert [part.delta for part in found.parts] == [Fraction("2.5e-7")] * 5 + [0]
    assert found.training_delta == Fraction("2.5e-7")
    assert budget.cost() == found.cost == dg.results.PrivacyCost(Fraction(1), Fraction("1e-6"))
    assert budget.events[0].rho is None
    assert model.mechanism is mechanism


def test_the_score_is_near_the_one_computed_in_the_open():
    """4000 rows at epsilon 50: the models are those without noise, and accuracy is 0.8 with sd .0063; six of these."""
    frame = rows_of(4000)
    found = dg.cross_validate(
        BAYES, frame[["f"]], frame["t"], epsilon=50, budget=dg.Budget(50), noise=dg.testing.SeededNoise(0)
    )
    exact = (frame["f"] == frame["t"]).mean()
    assert found.evaluation["accuracy"].estimate == pytest.approx(exact, abs=0.01)
    assert found.to_frame().equals(found.evaluation.to_frame())


class Fits(BaseEstimator):
    """Releases a naive Bayes model, and keeps which rows it was given."""

    seen: ClassVar[list] = []

    def __init__(self, epsilon=1, budget=None):
        self.epsilon, self.budget = epsilon, budget

    def fit(self, X, y):
        Fits.seen.append(np.asarray(X)[:, 0].tolist())
        zeros = pd.DataFrame(np.zeros((len(X), 1), int), columns=["f"])
        self.model_ = dg.PrivateNaiveBayes(DOMAIN, self.epsilon, inference="plug-in", budget=self.budget)
        self.model_.fit(zeros, y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X):
        """Asked about one row after another."""
        if not hasattr(self, "judged_"):
            self.judged_ = []
            Fits.seen.append(self.judged_)
        self.judged_ += np.asarray(X)[:, 0].tolist()
        return np.zeros(len(X), int)


@pytest.mark.parametrize("unit", [REPLACE, ADD_REMOVE], ids=str)
def test_each_row_is_in_all_training_sets_but_one_and_judged_once(unit):
    Fits.seen = []
    persons = None if unit.n_is_public else list(range(30))
    places = np.arange(30)[:, None]
    budget = dg.Budget(1, unit=unit)
    dg.cross_validate(Fits(), places, [0, 1] * 15, folds=3, epsilon=1, budget=budget, person=persons)
    rehearsed, *rest = Fits.seen
    assert rehearsed == list(range(30))
    fitted, judged = rest[::2], rest[1::2]
    assert sorted(itertools.chain(*judged)) == list(range(30))
    for train, test in zip(fitted, judged, strict=True):
        assert sorted(train + test) == list(range(30))
    if unit.n_is_public:
        assert judged == [list(range(start, 30, 3)) for start in range(3)]


def test_all_rows_of_a_person_are_judged_in_one_fold():
    """32 persons of two rows each, far apart, 2 folds: rows hashed one by one would pass once in 2^32."""
    Fits.seen = []
    places, persons = np.arange(64)[:, None], np.arange(64) % 32
    budget = dg.Budget(1, unit=dg.PrivacyUnit("add-remove", 2))
    dg.cross_validate(Fits(), places, [0, 1] * 32, folds=2, epsilon=1, budget=budget, person=persons)
    for judged in Fits.seen[2::2]:
        assert {place for place in judged if place < 32} == {place - 32 for place in judged if place >= 32}


def test_the_key_is_fresh_in_every_call():
    """64 persons, 2 folds: equal folds have a chance of 2^-63."""
    found = []
    for _ in range(2):
        Fits.seen = []
        places = np.arange(64)[:, None]
        budget = dg.Budget(1, unit=ADD_REMOVE)
        dg.cross_validate(Fits(), places, [0, 1] * 32, folds=2, epsilon=1, budget=budget, person=places[:, 0])
        found.append({frozenset(Fits.seen[2]), frozenset(Fits.seen[4])})
    assert found[0] != found[1]


class Greedy(Fits):
    """Charges what was given for one fit twice."""

    def fit(self, X, y):
        super().fit(X, y)
        self.budget.charge(self.budget.events[0])
        return self


def test_an_estimator_cannot_spend_more_than_its_part():
    budget = dg.Budget(10)
    with pytest.raises(dg.errors.BudgetExceededError):
        dg.cross_validate(Greedy(), X, Y, epsilon=1, budget=budget)
    assert budget.spent == 1


class Open(BaseEstimator):
    """Takes a budget and charges nothing."""

    def __init__(self, epsilon=1, budget=None):
        self.epsilon, self.budget = epsilon, budget

    def fit(self, X, y):
        return self

    def predict(self, X):
        return np.zeros(len(X))


REFUSED = [
    (CategoricalNB(), {}, dg.errors.ReleaseError, "not private shows its training rows"),
    (make_pipeline(FunctionTransformer(), BAYES), {}, dg.errors.ReleaseError, "got Pipeline"),
    (BaggingClassifier(BAYES), {}, dg.errors.ReleaseError, "got BaggingClassifier"),
    (dg.PrivateNaiveBayes, {}, dg.errors.ReleaseError, "got PrivateNaiveBayes"),
    (3, {}, dg.errors.ReleaseError, "got int"),
    (Open(), {}, dg.errors.ReleaseError, "without charging its budget"),
    (dg.PrivateNaiveBayes("infer"), {}, dg.errors.ReleaseError, "declared domains and bounds"),
    (dg.PrivateNaiveBayes(), {}, dg.errors.DomainError, "needs domain"),
    (dg.PrivateNaiveBayes(DOMAIN, prior=-1), {}, dg.errors.InferenceError, "prior"),
    (dg.PrivateNaiveBayes(DOMAIN, unit=ADD_REMOVE), {}, dg.errors.ReleaseError, "differs from the budget's"),
    (dg.PrivateNaiveBayes(DOMAIN, mechanism=GAUSSIAN), {}, dg.errors.ReleaseError, "delta"),
    (dg.PrivateNaiveBayes(DOMAIN, mechanism=GAUSSIAN), {"delta": "1e-7"}, dg.errors.BudgetExceededError, "delta 1e-07"),
    (BAYES, {"delta": "1e-7", "budget": dg.Budget(1, "1e-6")}, dg.errors.ReleaseError, "spends no delta"),
    (BAYES, {"epsilon": 2}, dg.errors.BudgetExceededError, "cross-validation costs epsilon 2"),
    (BAYES, {"epsilon": 0}, dg.errors.ReleaseError, "epsilon"),
    (BAYES, {"epsilon": "1e-20"}, dg.errors.ReleaseError, "nothing could be learned"),
    (BAYES, {"budget": 3}, dg.errors.ReleaseError, "takes a Budget; got int"),
    (BAYES, {"folds": 1}, dg.errors.ReleaseError, "folds"),
    (BAYES, {"folds": True}, dg.errors.ReleaseError, "folds"),
    (BAYES, {"folds": 2.0}, dg.errors.ReleaseError, "folds"),
    (BAYES, {"folds": 61}, dg.errors.DomainError, "61 folds need"),
    (BAYES, {"evaluation_share": 1}, dg.errors.ReleaseError, "evaluation_share"),
    (BAYES, {"evaluation_share": 0}, dg.errors.ReleaseError, "evaluation_share"),
    (BAYES, {"training_epsilon": "0.25"}, dg.errors.ReleaseError, "leave nothing"),
    (BAYES, {"training_epsilon": "0.1", "evaluation_share": "0.1"}, dg.errors.ReleaseError, "not both"),
    (BAYES, {"interval": 1}, ValueError, "interval"),
    (BAYES, {"scores": "brier"}, dg.errors.DomainError, "scores"),
    (BAYES, {"scores": ["speed"]}, dg.errors.DomainError, "scores"),
    (BAYES, {"largest_loss": -1}, dg.errors.DomainError, "largest_loss"),
    (BAYES, {"largest_error": 0}, dg.errors.DomainError, "largest_error"),
    (BAYES, {"noise": 3}, dg.errors.ReleaseError, "noise must be a source"),
    (BAYES, {"person": list(range(60))}, dg.errors.DomainError, "leave person out"),
    (BAYES, {"budget": dg.Budget(1, unit=ADD_REMOVE)}, dg.errors.DomainError, "folds need person"),
    (BAYES, {"budget": dg.Budget(1, unit=ADD_REMOVE), "person": "who"}, dg.errors.DomainError, "no column 'who'"),
    (
        BAYES,
        {"budget": dg.Budget(1).parallel(DOMAIN, "f", epsilon=1)[0], "person": [1] * 60},
        dg.errors.ReleaseError,
        "all r",
    ),
]


@pytest.mark.parametrize(("model", "settings", "error", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_priced_is_refused_and_nothing_is_charged(model, settings, error, message):
    budget = settings.pop("budget", dg.Budget(1))
    with pytest.raises(error, match=message):
        cross_validate(model, X, Y, **({"epsilon": 1, "budget": budget} | settings))
    assert getattr(budget, "events", ()) == ()


@pytest.mark.parametrize("bad", [(X + 5, Y), (X, Y + 5), (X, Y[:5]), (X[[]], Y), ("rows.csv", None)], ids=range(5))
def test_rows_that_do_not_fit_are_refused_and_nothing_is_charged(bad):
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.DomainError):
        cross_validate(BAYES, *bad, epsilon=1, budget=budget)
    assert budget.events == ()


def test_a_persons_own_column_must_be_the_one_that_decides_the_fold():
    domain = dg.Domain.of({"region": ["N", "S"], "month": [1, 2], "kind": [0, 1]})
    log = pd.DataFrame({"region": "N", "month": 1, "kind": 0, "who": range(20), "other": range(20)})
    model = dg.PrivateHMM(2, domain, person="who", rows_per_person=2, iterations=4, burn_in=2)
    for unit, person in ((dg.PrivacyUnit("add-remove", 2), "other"), (REPLACE, None)):
        with pytest.raises(dg.errors.DomainError, match="person"):
            cross_validate(model, log, epsilon=1, budget=dg.Budget(1, unit=unit), person=person)


class Broken(Script):
    """Fails at its nth call."""

    def __init__(self, good):
        super().__init__()
        self.good = good

    def add(self, values, law):
        if len(self.calls) == self.good:
            raise KeyboardInterrupt
        return super().add(values, law)

    def bits(self, count):
        if self.good < 0:
            raise MemoryError
        return super().bits(count)


@pytest.mark.parametrize(("good", "error"), [(-1, MemoryError), (0, KeyboardInterrupt), (3, KeyboardInterrupt)])
def test_the_charge_comes_first_and_stands(good, error):
    budget = dg.Budget(1, unit=ADD_REMOVE)
    with pytest.raises(error):
        cross_validate(BAYES, X, Y, epsilon=1, budget=budget, person=FRAME["who"], folds=3, noise=Broken(good))
    assert budget.spent == 1


@pytest.mark.parametrize("unit", [REPLACE, ADD_REMOVE], ids=str)
def test_nothing_but_the_releases_depends_on_the_rows(unit):
    """Replay: two data sets that release the same integers give the same result in every field and in print."""
    found = []
    for kind in (0, 3):
        frame = pd.DataFrame([KINDS[kind]] * 12, columns=["f", "t"])
        persons = None if unit.n_is_public else [f"{i}" for i in range(12)]
        if kind and persons:
            frame, persons = frame.head(9), persons[:9]
        budget = dg.Budget(1, unit=unit)
        made = cross_validate(
            BAYES, frame[["f"]], frame["t"], folds=3, epsilon=1, budget=budget, person=persons, noise=Script(5)
        )
        fields = {field.name: getattr(made, field.name) for field in dataclasses.fields(made)}
        evaluation = fields.pop("evaluation")
        found.append((everything(fields), repr(made), evaluation.to_frame().to_csv(), evaluation.release.event))
    assert found[0] == found[1]


def test_a_seed_of_the_estimator_or_of_the_call_repeats_and_is_marked():
    """Copies of one seeded source would give every fit the same noise: the stream goes on instead."""
    budget = {"budget": dg.Budget(9, unit=ADD_REMOVE), "person": FRAME["who"], "epsilon": 1}
    seeded = [cross_validate(BAYES, X, Y, **budget, noise=dg.testing.SeededNoise(4)) for _ in range(2)]
    own = cross_validate(
        dg.PrivateNaiveBayes(DOMAIN, inference="plug-in", noise=dg.testing.SeededNoise(4)), X, Y, **budget
    )
    assert seeded[0].to_frame().equals(seeded[1].to_frame())
    assert seeded[0].to_frame().equals(own.to_frame())
    assert not own.private
    assert "NOT PRIVATE" in repr(own)


def test_fits_of_one_seeded_source_have_different_noise():
    """All rows alike, equal training sets: equal noise would give equal releases; by chance below 1e-6."""
    made = []

    class Kept(Fits):
        def fit(self, X, y):
            super().fit(X, y)
            made.append(self.model_.release_.value.tables["f", "t"].tolist())
            return self

        def __init__(self, epsilon=1, budget=None, noise=None):
            self.noise = noise
            super().__init__(epsilon, budget)

    class Bayes(dg.PrivateNaiveBayes):
        def fit(self, X, y):
            super().fit(X, y)
            made.append(self.release_.value.tables["f", "t"].tolist())
            return self

    model = Bayes(DOMAIN, inference="plug-in")
    cross_validate(model, X * 0, Y * 0, folds=3, epsilon="0.001", budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
    assert len(made) == 3
    assert made[0] != made[1] != made[2] != made[0]


HOLDERS = {
    "frame": lambda frame: frame[["f", "who"]],
    "polars": lambda frame: pl.from_pandas(frame[["f", "who"]]),
    "arrow": lambda frame: pa.Table.from_pandas(frame[["f", "who"]], preserve_index=False),
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_person_column_is_no_feature(holder):
    settings = {"epsilon": 1, "noise": dg.testing.SeededNoise(1)}
    kept = cross_validate(BAYES, X, Y, budget=dg.Budget(1, unit=ADD_REMOVE), person=FRAME["who"], **settings)
    settings["noise"] = dg.testing.SeededNoise(1)
    held = HOLDERS[holder](FRAME)
    found = cross_validate(BAYES, held, Y, budget=dg.Budget(1, unit=ADD_REMOVE), person="who", **settings)
    assert found.to_frame().equals(kept.to_frame())
    assert "p17" not in everything(found)
    line = dg.PrivateLinearRegression([(0, 1)], (0, 1), inference="plug-in", draws=10)
    cross_validate(line, held, Y, epsilon=1, budget=dg.Budget(1, unit=ADD_REMOVE), person="who")


def test_arrays_and_lists_are_rows_too():
    expected = cross_validate(BAYES, X, Y, epsilon=1, budget=dg.Budget(1), noise=dg.testing.SeededNoise(1)).to_frame()
    for rows, labels in ((X.to_numpy(), Y.to_numpy()), (X.to_numpy().tolist(), list(Y))):
        found = cross_validate(BAYES, rows, labels, epsilon=1, budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
        assert found.to_frame().equals(expected)


def test_rows_beyond_a_persons_first_are_left_out():
    """30 persons of two equal rows with one row a person: at epsilon 10^6 the released rows are 30 exactly."""
    budget = dg.Budget(10**6, unit=ADD_REMOVE)
    persons = np.arange(60) // 2
    found = cross_validate(BAYES, X, Y, epsilon=10**6, budget=budget, person=persons)
    assert found.evaluation.release.value.block("confusion").sum().round() == 30


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_no_rows_and_empty_folds_are_like_any_others_under_add_remove(rows):
    budget = dg.Budget(1, unit=ADD_REMOVE)
    some = FRAME.head(rows)
    for features, labels in ((some[["f"]], some["t"]), (some[["f"]].to_numpy(), some["t"].to_numpy())):
        found = cross_validate(
            BAYES, features, labels, epsilon="0.5", budget=budget, person=some["who"], noise=dg.testing.SeededNoise(0)
        )
        assert len(found.parts) == 6
    line = dg.PrivateLinearRegression([(0, 1)], (0, 1), inference="plug-in", draws=10)
    budget = dg.Budget(1, unit=ADD_REMOVE)
    cross_validate(line, some[["f"]], some["t"], epsilon=1, budget=budget, person=some["who"])


def test_regressions_are_judged_by_their_squared_error():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 2000)
    frame = pd.DataFrame({"x": x, "y": np.clip(x + rng.normal(0, 0.2, 2000), -2, 2)})
    model = dg.PrivateLinearRegression({"x": (-1, 1)}, (-2, 2), draws=400, random_state=1)
    budget = dg.Budget(50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
        how = {"epsilon": 50, "budget": budget, "noise": dg.testing.SeededNoise(0)}
        found = cross_validate(model, frame[["x"]], frame["y"], folds=2, **how)
    score = found.evaluation["mean squared error"]
    assert 0.03 < score.estimate < 0.05  # 0.04, sd .0013 over the rows; the noise is less
    assert found.training_epsilon == 25


def test_entries_of_a_log_are_judged_by_the_other_entries_of_their_cells():
    """A hidden Markov model: no y; a person's entries stay together, and the estimator's own cap agrees."""
    domain = dg.Domain.of({"region": ["N", "S"], "month": [1, 2, 3], "kind": ["a", "b"]})
    log = pd.DataFrame({"region": ["N", "S"] * 90, "month": [1, 2, 3] * 60, "who": np.arange(180) // 3})
    log["kind"] = np.where(log["region"] == "N", "a", "b")
    model = dg.PrivateHMM(2, domain, person="who", rows_per_person=2, iterations=30, burn_in=30)
    unit = dg.PrivacyUnit("add-remove", 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
        found = cross_validate(model, log, folds=2, epsilon=100, budget=dg.Budget(100, unit=unit), person="who")
        plain = dg.PrivateHMM(2, domain, iterations=30, burn_in=30)
        cross_validate(plain, log.drop(columns="who"), folds=2, epsilon=1, budget=dg.Budget(1))
    name, score = next(iter(found.evaluation.scores.items()))
    assert "entry" in name or "nats" in name
    assert math.isfinite(score.estimate)
    assert len(found.parts) == 3


def test_nothing_of_the_release_path_takes_a_seed():
    names = inspect.signature(cross_validate).parameters
    assert not {"seed", "random_state", "shuffle"} & set(names)


def test_fits_inside_are_no_split():
    """``filterwarnings = error``: a SplitWarning would fail here."""
    budget = dg.Budget(3)
    cross_validate(dg.PrivateNaiveBayes(DOMAIN, inference="plug-in", budget=budget), X, Y, epsilon=1, budget=budget)
    dg.PrivateNaiveBayes(DOMAIN, inference="plug-in", budget=budget).fit(X, Y)
    assert budget.spent == 2
