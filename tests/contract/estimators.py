"""Every estimator with every way it spends, as cases of the contract: rows in, ``fit``, and what the model says."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args
from unittest import mock

import numpy as np
import pandas as pd
from sklearn.base import clone

import dpgraph as dg
from dpgraph.inference.posterior import posterior
from dpgraph.privacy.exact_loss import RecordingNoise
from dpgraph.structure.moments import ClassifierScore
from tests.contract import learning, models
from tests.contract.case import Case
from tests.contract.enumeration import ADD, ADD_3, REPLACE, REPLACE_3, Pairs, Rows, pairs_of

SPAM = dg.Domain.of({"word": ["a", "b"], "spam": [0, 1]})
LOG = dg.Domain.of({"region": ["N"], "month": [1, 2], "kind": ["a", "b"]})
#: Four cells, so that one state and two are compared.
LONGER_LOG = dg.Domain.of({"region": ["N"], "month": [1, 2, 3, 4], "kind": ["a", "b"]})
SIDES = (-1.0, 1.0)
MAILS = list(itertools.product(["a", "b"], [0, 1]))
ENTRIES = list(itertools.product(["N"], [1, 2], ["a", "b"]))
POINTS = list(itertools.product(SIDES, SIDES))


def frame(kinds: list[tuple[Any, ...]], names: list[str], rows: Rows) -> pd.DataFrame:
    """The rows of a data set, their types the same for no rows."""
    every = pd.DataFrame(kinds, columns=names)
    return every.loc[np.repeat(np.arange(len(kinds)), rows)].reset_index(drop=True)


def all_neighbours(unit: dg.PrivacyUnit) -> Pairs:
    """Of four kinds of rows."""
    return pairs_of(4, unit, 1 if unit.rows_per_person == 1 else 0, False)


def few_neighbours(unit: dg.PrivacyUnit) -> Pairs:
    """Those whose person's rows are all alike, where a fit takes long."""
    return pairs_of(4, unit, 0, True)


def learned_by_plug_in(case: Case) -> Case:
    """The same, the posterior of a regression always by plug-in: noise-aware it takes seconds, a thousand times here.

    It is a function of the release (the privacy wall), and tests/privacy/test_replay_regression compares it.
    """

    def plug_in(release: Any, **settings: Any) -> Any:
        return posterior(release, **settings | {"method": "plug-in"})

    def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
        homes = ("dpgraph.estimators.regression", "dpgraph.inference.posterior")
        one, two = (mock.patch(f"{home}.posterior", plug_in) for home in homes)
        with one, two:
            return case.make(rows, unit, noise)

    return replace(case, make=make)


def cases() -> Iterator[Case]:
    """All of them."""
    yield from _naive_bayes()
    yield from _hmm()
    yield from _regression()
    yield from _judged()
    yield from _cross_validated()
    yield from _discovered()
    yield from _learned()
    yield from learning.cases()


def _fitted(estimator: Any, fit: Callable[[Any], Any], seen: Callable[[Any], Any], setting: str, **more: Any) -> Case:
    """An estimator whose budget is its own under add-remove, the caller's under replace."""

    def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
        paid: dict[str, Any] = {"budget": dg.Budget(10**4, "0.5", unit=unit)} if unit.n_is_public else {"unit": unit}
        if hasattr(estimator, "rows_per_person"):
            paid["rows_per_person"] = unit.rows_per_person
        model = type(estimator)(**estimator.get_params(deep=False) | paid | {"noise": noise})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
            fit(rows)(model)
        return model.release_.value, model.release_.event, seen(model)

    return Case(estimator, setting, make, **({"pairs": few_neighbours} | more))


def _naive_bayes() -> Iterator[Case]:
    def fit(rows: Rows) -> Any:
        mails = frame(MAILS, ["word", "spam"], rows)
        return lambda model: model.fit(mails[["word"]], mails["spam"])

    def seen(model: Any) -> Any:
        return model.predict_proba(pd.DataFrame({"word": ["a", "b"]})).tolist()

    chosen: tuple[Any, ...] = (
        *("laplace", "fourier", "auto"),
        dg.GaussianMechanism(1, "1e-6"),
        dg.LaplaceMechanism("0.7", tables="families"),
    )
    for mechanism in chosen:
        model = dg.PrivateNaiveBayes(SPAM, _epsilon(mechanism), mechanism, "plug-in")
        yield _fitted(model, fit, seen, f"{_short(mechanism)}, plug-in", pairs=all_neighbours)
    model = dg.PrivateNaiveBayes(SPAM, "0.8")
    yield _fitted(model, fit, seen, "laplace, noise-aware")

    def of_a_person(rows: Rows) -> Any:
        mails = _with_others(MAILS, ["word", "spam"], rows)
        return lambda model: model.fit(mails[["who", "word"]], mails["spam"], person="who")

    model = dg.PrivateNaiveBayes(SPAM, "0.8", inference="plug-in")
    yield _fitted(model, of_a_person, seen, "persons", units=(REPLACE, ADD, ADD_3), pairs=_persons)


def _hmm() -> Iterator[Case]:
    names = ["region", "month", "kind"]

    def fit(rows: Rows) -> Any:
        return lambda model: model.fit(frame(ENTRIES, names, rows))

    def of_a_person(rows: Rows) -> Any:
        return lambda model: model.fit(_with_others(ENTRIES, names, rows))

    def seen(model: Any) -> Any:
        return model.predict().to_csv(), model.transition_.to_csv()

    def chosen(model: Any) -> Any:
        return model.choice_, seen(model), {name: own.tolist() for name, own in model.model_.effects.items()}

    few: dict[str, Any] = {"iterations": 4, "burn_in": 2, "chains": 2}
    for inference, sampler in itertools.product(("noise-aware", "plug-in"), ("blocked", "collapsed")):
        model = dg.PrivateHMM(2, LOG, "0.8", inference=inference, sampler=sampler, **few)
        yield _fitted(model, fit, seen, f"laplace, {inference}, {sampler}")
    model = dg.PrivateHMM("auto", LONGER_LOG, "0.8", most_states=2, **few)
    yield _fitted(model, fit, chosen, "laplace, states and effects chosen after the release")
    model = dg.PrivateHMM(2, LOG, "0.8", person="who", **few)
    yield _fitted(model, of_a_person, seen, "persons", units=(REPLACE, ADD, ADD_3), pairs=_persons)


def _with_others(kinds: list[tuple[Any, ...]], names: list[str], rows: Rows) -> pd.DataFrame:
    """All rows of one person, between those of two others."""
    others = frame(kinds, names, (1, 0, 0, 1)).assign(who=[1, 2])
    return pd.concat([others[:1], frame(kinds, names, rows).assign(who=7), others[1:]], ignore_index=True)


def _persons(unit: dg.PrivacyUnit) -> Pairs:
    """All of one person's rows, up to two more than count, appear, or are replaced by others."""
    r = unit.rows_per_person
    every = [rows for rows in itertools.product(range(r + 3), repeat=4) if 1 <= sum(rows) <= r + 2]
    if unit.n_is_public:
        return tuple((rows, other) for i, rows in enumerate(every) for other in every[:i] if sum(rows) == sum(other))
    return tuple(((0, 0, 0, 0), rows) for rows in every if r == 1 or max(rows) == sum(rows))


def _regression() -> Iterator[Case]:
    def fit(rows: Rows) -> Any:
        points = frame(POINTS, ["x", "y"], rows)
        return lambda model: model.fit(points[["x"]], points["y"])

    def seen(model: Any) -> Any:
        return model.predict(pd.DataFrame({"x": [0.0, 0.5]})).tolist()

    gaussian, sample = (
        dg.GaussianMechanism(1, "1e-6"),
        dg.papers.RegressionSample(3, radius=0.5, idealized_numerics=True),
    )
    for mechanism, inference in itertools.product(("laplace", gaussian), ("noise-aware", "plug-in")):
        model = dg.PrivateLinearRegression([SIDES], SIDES, _epsilon(mechanism), mechanism, inference, draws=20)
        yield learned_by_plug_in(_fitted(model, fit, seen, f"{_short(mechanism)}, {inference}"))

    def of_a_person(rows: Rows) -> Any:
        points = _with_others(POINTS, ["x", "y"], rows)
        return lambda model: model.fit(points[["x"]], points["y"], person=points["who"])

    model = dg.PrivateLinearRegression([SIDES], SIDES, "0.8", inference="plug-in", draws=20)
    persons = _fitted(model, of_a_person, seen, "persons", units=(REPLACE, ADD, ADD_3), pairs=_persons)
    yield learned_by_plug_in(persons)
    model = dg.PrivateLinearRegression([SIDES], SIDES, _epsilon(sample), sample)
    yield _fitted(model, fit, seen, _short(sample), pairs=all_neighbours, idealized=True)


def _judged() -> Iterator[Case]:
    """Every kind of public model, each judged with every noise; those of a person's rows may all be wrong and sure."""
    names = ["region", "month", "kind"]

    def case(model: Any, kinds: Any, columns: list[str], setting: str, **asked: Any) -> Case:
        def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
            others = tuple(int(unit.n_is_public and kind == 0) for kind in range(len(kinds)))
            table = pd.concat([frame(kinds, columns, rows), frame(kinds, columns, others)])
            budget = dg.Budget(10**4, "1e-6", unit=unit)
            found = dg.evaluate(model, table, epsilon="0.8", budget=budget, noise=noise, **asked)
            return found.release.value, found.release.event, found.to_frame().to_csv(), repr(found)

        return Case(dg.evaluate, setting, make, few_neighbours)

    classifier, regression = models.classifier(SPAM, "spam"), models.regression(*SIDES)
    for mechanism in ("laplace", "gaussian"):
        yield case(classifier, MAILS, ["word", "spam"], f"{mechanism}; classes, all scores", mechanism=mechanism)
        yield case(regression, POINTS, ["x", "y"], f"{mechanism}; target", mechanism=mechanism)
        model = models.entries(LOG, "region", "month")
        yield case(model, ENTRIES, names, f"{mechanism}; entries", mechanism=mechanism)
    for score in get_args(ClassifierScore):
        yield case(classifier, MAILS, ["word", "spam"], f"laplace; classes, {score}", scores=(score,))


def _discovered() -> Iterator[Case]:
    """Lists and grids with both noises, and words that the rows of others have, with and without a grid beside them."""
    for setting, declared, delta in (
        ("a grid and a list", {"word": dg.Words(["a", "b"]), "spam": dg.Numbers(0, 3)}, 0),
        ("a grid and a list, gaussian", {"word": dg.Words(["a", "b"]), "spam": dg.Numbers(0, 3)}, "1e-1"),
        ("words", {"word": dg.Words(), "spam": [0, 1]}, "1e-6"),
    ):

        def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise, declared: Any = declared, delta: Any = delta):
            others = () if delta != "1e-6" else (150,) * 4  # a word must be able to pass the threshold
            mails = frame(MAILS, ["word", "spam"], tuple(map(sum, zip(rows, others or (0,) * 4, strict=True))))
            budget = dg.Budget("0.8", delta, unit=unit)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", (dg.errors.PriorWarning, dg.errors.DomainWarning))
                found = dg.discover(mails, declared, epsilon="0.8", delta=delta, budget=budget, noise=noise)
            return found.domain, found.found, [one.event for one in found.releases], repr(found), budget.spent

        yield Case(dg.discover, setting, make, few_neighbours)


def _learned() -> Iterator[Case]:
    """Pairs with every noise; where nobody says how many rows there are, a table before them."""

    def case(setting: str, **asked: Any) -> Case:
        def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
            mails = frame(MAILS, ["word", "spam"], rows)
            budget = dg.Budget("0.8", asked.get("delta", 0), unit=unit)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dg.errors.PriorWarning)
                found = dg.learn_network(mails, SPAM, epsilon="0.8", budget=budget, noise=noise, **asked)
            return found.release.value, found.release.event, found.probabilities.tables, repr(found), budget.spent

        return Case(dg.learn_network, setting, make, few_neighbours)

    for n in (None, 100):
        known = "" if n is None else "; about n is known"
        yield case(f"laplace{known}", n=n, method="pairs")
        yield case(f"gaussian{known}", n=n, delta="1e-6")


def _cross_validated() -> Iterator[Case]:
    """One person's rows first, then two of others, in two folds and in three; the fits' answers fix the models."""
    apart = {"tight": (("replace", 0.66),), "why": "replaced rows lie apart, and each fit is charged for all of them"}
    sure = "losses move as far as the models are sure, which noise decides"

    def case(
        estimator: Any, kinds: Any, names: list[str], target: str | None, folds: int, epsilon: str = "0.8", **more: Any
    ) -> Case:
        asked = {"scores": ("accuracy",)} if isinstance(estimator, dg.PrivateNaiveBayes) else {}

        def make(rows: Rows, unit: dg.PrivacyUnit, noise: RecordingNoise) -> Any:
            table = pd.concat([frame(kinds, names, rows), frame(kinds, names, (1, 0, 0, 1))])
            who = None if unit.n_is_public else [7] * sum(rows) + [1, 2]
            X, y = (table, None) if target is None else (table[names[:1]], table[target])
            settings: dict[str, Any] = {"epsilon": epsilon, "budget": dg.Budget(epsilon, unit=unit), "person": who}
            one = estimator
            if hasattr(one, "rows_per_person"):
                one = clone(one).set_params(rows_per_person=unit.rows_per_person)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
                found = dg.cross_validate(one, X, y, folds=folds, noise=noise, **settings, **asked)
            return found.cost, found.parts, found.evaluation.release.value, repr(found)

        named = "" if getattr(estimator, "mechanism", "laplace") == "laplace" else ", its mechanism given"
        setting = f"{type(estimator).__name__}, {folds} folds{named}"
        return Case(dg.cross_validate, setting, make, few_neighbours, **more)

    bayes = dg.PrivateNaiveBayes(SPAM, inference="plug-in")
    for folds in (2, 3):
        yield case(bayes, MAILS, ["word", "spam"], "spam", folds, units=(REPLACE, ADD, ADD_3))
        tables = dg.PrivateNaiveBayes(SPAM, mechanism=dg.LaplaceMechanism(1), inference="plug-in")
        yield case(tables, MAILS, ["word", "spam"], "spam", folds, units=(REPLACE_3,), **apart)
        flipped = {"tight": (("replace", 0.58),), "why": f"{apart['why']}; few of these neighbours flip every label"}
        yield case(bayes, MAILS, ["word", "spam"], "spam", folds, units=(REPLACE_3,), **flipped)
    regression = dg.PrivateLinearRegression([SIDES], SIDES, inference="plug-in", draws=20)
    # at less, slopes of so few rows are drawn to 0 and all predictions are alike
    yield case(regression, POINTS, ["x", "y"], "y", 2, "4", tight=(("replace", 0.5),), why=sure)
    few: dict[str, Any] = {"iterations": 4, "burn_in": 2, "chains": 2, "inference": "plug-in"}
    model, names, least = (
        dg.PrivateHMM(2, LOG, **few),
        ["region", "month", "kind"],
        (("replace", 0.4), ("add-remove", 0.6)),
    )
    yield case(model, ENTRIES, names, None, 2, tight=least, why=sure)


def _epsilon(mechanism: Any) -> Any:
    """What is asked for of a mechanism by name; of a value its own."""
    return "0.8" if isinstance(mechanism, str) else mechanism.epsilon


def _short(mechanism: Any) -> str:
    return mechanism if isinstance(mechanism, str) else f"a {type(mechanism).__name__}"
