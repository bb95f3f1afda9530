"""Private cross-validation: folds assigned without looking at other rows, k fits and one evaluation, exactly priced.

Under add/remove all rows of a person are in one fold, which a keyed hash of the person's id alone decides: they are in
k - 1 training sets. Under replace with one row a person, row i stays in fold i mod k whatever it becomes: the same
count. Under replace with several rows a person, all k training sets change. The models of unchanged training sets have
an unchanged law, the rest compose: with fits at epsilon_t and an evaluation at epsilon_e the call costs
(k - 1) epsilon_t + epsilon_e, or k epsilon_t + epsilon_e in the last case, and deltas alike. A person's rows are
evaluated once, so the outcomes of all folds are summed first and released once (docs/cross-validation.md).
"""

from __future__ import annotations

import dataclasses
import hashlib
import uuid
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Integral
from typing import Any, NoReturn

import numpy as np
from sklearn.base import clone

from dpgraph.estimators.evaluation import SCORES, evaluation_of, outcomes
from dpgraph.estimators.fitting import NO_COLUMN, column_of, without_persons
from dpgraph.inference.arguments import check_probability
from dpgraph.mechanisms.reproduction import HELD_OUT_FITS
from dpgraph.models.evaluation import CrossValidation, Evaluation
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.accounts import Made
from dpgraph.privacy.checks import Integers, check_whole
from dpgraph.privacy.errors import PrivacyLeakWarning, ReleaseError
from dpgraph.privacy.noise import Noise, SecureNoise
from dpgraph.privacy.records import CROSS_VALIDATION, Event, Number, PrivacyCost, PrivacyUnit, combined_event, exact
from dpgraph.privacy.release import checked_noise
from dpgraph.privacy.scope import RowsRecord
from dpgraph.statistics.rows.batches import person_name, refuse_clusters
from dpgraph.statistics.rows.features import refuse_list, table_frame
from dpgraph.structure.conversion import PublicWords, is_query, is_table
from dpgraph.structure.domain import DomainError
from dpgraph.structure.moments import Classification, ClassifierScore, Regression
from dpgraph.waiting import counted, waiting

KEY_BITS = 128


@dataclass(frozen=True)
class _Plan:
    """The costs of the whole, of each fit, of all fits and of the evaluation; pure parts are also zero-concentrated."""

    whole: Event
    fit: PrivacyCost
    fits: Event
    evaluation: PrivacyCost


def cross_validate(
    estimator: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: Number,
    budget: Budget,
    folds: int = 5,
    delta: Number = 0,
    person: Any = None,
    evaluation_share: Number | None = None,
    training_epsilon: Number | None = None,
    interval: float = 0.9,
    scores: Iterable[ClassifierScore] = SCORES,
    bounds: tuple[float, float] | None = None,
    largest_loss: float | None = None,
    largest_error: float | None = None,
    noise: Noise | None = None,
    progress: bool = False,
) -> CrossValidation:
    """Fits a private estimator on all folds but one, k times, and releases one evaluation of all held-out rows.

    The budget is charged ``epsilon`` and ``delta`` once, before anything is drawn; the module says why that is the
    price. Nothing but the released evaluation comes back: no score of a fold, no model.

    The score is about fits at ``training_epsilon``, which is epsilon / k each by default. For the score of an estimator
    at its own epsilon e, give ``training_epsilon=e``, and epsilon = (k - 1) e plus the evaluation's epsilon. To compare
    candidates call this once for each, with a part of the budget each; choosing among released scores is free.

    Args:
        estimator: A private estimator with parameters ``budget`` and ``epsilon``, which are set for each fit. A
            mechanism value is taken at the fit's epsilon and delta.
        X: A pandas, polars or Arrow table, or a two-dimensional array.
        y: The target, one value a row; None for ``PrivateHMM``.
        epsilon: The cost of the whole call, exact.
        budget: The ``Budget`` to charge; its unit is the protected unit.
        folds: The number k of folds.
        delta: The delta of all fits together, for estimators whose mechanism has one; the evaluation has none.
        person: Under add/remove, where it is required: whose row each is, a column of X or one id a row, compared as
            text. It is not a feature. Rows beyond the first ``rows_per_person`` of each person are left out, and of a
            strict declaration rows that name nobody. Under replace rows have public places, and it is refused.
        evaluation_share: The evaluation's share of epsilon; by default as much as one fit.
        training_epsilon: The epsilon of each fit, instead; the evaluation gets the rest.
        interval: The probability of the evaluation's intervals; they are for the mean over the k released models.
        scores: As for ``evaluate``, and so are the next five.
        bounds: Of the target, for a regressor that is not dpgraph's.
        largest_loss: Where a log-loss is clipped.
        largest_error: Where an error is clipped.
        noise: Leave it out.
        progress: A bar on a terminal, of the folds.

    Raises:
        DomainError: If the rows do not fit or persons are missing; nothing is charged.
        ReleaseError, BudgetExceededError: If a setting, the estimator or the charge is refused; nothing is charged.

    >>> import pandas as pd
    >>> import dpgraph as dg
    >>> rows = pd.DataFrame({"word": ["a", "b"] * 500, "spam": [0, 1] * 500})
    >>> model = dg.PrivateNaiveBayes({"word": ["a", "b"], "spam": [0, 1]}, inference="plug-in")
    >>> found = cross_validate(model, rows[["word"]], rows["spam"], epsilon=1, budget=dg.Budget(1))
    >>> print(found.cost, "| each fit:", found.training_epsilon)
    epsilon 1 (pure) | each fit: 1/5
    """
    _check(estimator, budget, folds, person)
    judged = {"scores": tuple(scores), "bounds": bounds, "largest_loss": largest_loss, "largest_error": largest_error}
    check_probability("interval", interval)  # refused before the charge, as are bad bounds of losses and errors
    Classification((0, 1), largest_loss, scores=("accuracy", *judged["scores"]))
    Regression(0, 1, largest_error)
    settings = estimator.get_params(deep=False)
    strict = settings.get("strict") is True or getattr(settings.get("domain"), "strict", False) is True
    own = isinstance(person, str) and settings.get("person") == person
    rows = readable(X, y, person, keep=own, strict=strict)
    if budget.unit.n_is_public and len(rows) < folds:
        raise DomainError(f"{folds} folds need at least as many rows")
    if rows.persons is not None:
        kept = first_rows(rows.persons, budget.unit.rows_per_person)
        rows = Rows(*rows.take(kept), tuple(rows.persons[i] for i in kept))
    everywhere = budget.unit.n_is_public and budget.unit.rows_per_person > 1  # one person's rows may be in every fold
    plan = _plan(epsilon, delta, folds if everywhere else folds - 1, evaluation_share, training_epsilon)
    source = checked_noise(settings.get("noise") if noise is None else noise)
    with waiting("cross-validating", progress):
        rehearse(estimator, rows, plan.fit, budget.unit)
        receipt = budget.charge(plan.whole)
        scope = RowsRecord(budget.identity, receipts=() if receipt is None else (receipt.digest,))
        evaluation, parts = _validated(estimator, rows, folds, plan, budget.unit, judged, interval, source)
    event = combined_event([plan.fits, evaluation.release.event])
    evaluation = replace(evaluation, release=replace(evaluation.release, event=event, scope=scope))
    return CrossValidation(evaluation, folds, plan.fit.epsilon, plan.fit.delta, parts)


def _validated(
    estimator: Any, rows: Rows, folds: int, plan: _Plan, unit: PrivacyUnit, judged: Any, interval: float, noise: Any
) -> tuple[Evaluation, tuple[Event, ...]]:
    """Everything after the charge: the key, the fits, the sum of the outcomes and its one release."""
    if rows.persons is None:
        fold = folds_by_position(len(rows), folds)
    else:
        fold = folds_by_person(rows.persons, folds, noise.bits(KEY_BITS).to_bytes(KEY_BITS // 8))
    whole: Any = None
    parts: list[Event] = []
    for held_out in counted(range(folds)):
        spent = Budget(plan.fit.epsilon, plan.fit.delta, unit=unit)  # exactly one part, which cannot spend more
        model = prepared(estimator, plan.fit, spent, noise)
        model.fit(*rows.take(np.flatnonzero(fold != held_out)))
        parts += spent.events
        found = outcomes(model, *rows.take(np.flatnonzero(fold == held_out)), **judged, unit=unit)
        whole = found if whole is None else whole + found
    spent, source = Budget(plan.evaluation.epsilon, unit=unit), SharedNoise(noise)
    asked: Any = {"epsilon": plan.evaluation.epsilon, "interval": interval, "noise": source}
    evaluation = evaluation_of(whole, budget=spent, **asked)
    return evaluation, (*parts, *spent.events)


def _plan(epsilon: Number, delta: Number, changed: int, share: Number | None, training: Number | None) -> _Plan:
    whole = PrivacyCost(exact(epsilon), exact(delta, "delta", zero=True))
    if share is not None and training is not None:
        raise ReleaseError("give evaluation_share or training_epsilon, not both")
    if training is not None:
        fit = exact(training, "training_epsilon")
        if changed * fit >= whole.epsilon:
            raise ReleaseError(
                f"{changed} fits at training_epsilon {fit} leave nothing of epsilon {whole.epsilon} for the evaluation"
            )
    else:
        part = Fraction(1, changed + 1) if share is None else exact(share, "evaluation_share")
        if part >= 1:
            raise ReleaseError(f"evaluation_share must be above 0 and below 1; got {share!r}")
        fit = whole.epsilon * (1 - part) / changed
    evaluation = PrivacyCost(whole.epsilon - changed * fit)
    fits = Event(HELD_OUT_FITS, changed * fit, whole.delta, rho=None if whole.delta else changed * fit**2 / 2)
    rho = None if fits.rho is None else fits.rho + evaluation.epsilon**2 / 2
    call = Event(CROSS_VALIDATION, whole.epsilon, whole.delta, rho=rho)
    return _Plan(call, PrivacyCost(fit, whole.delta / changed), fits, evaluation)


def _check(estimator: Any, budget: Any, folds: Any, person: Any) -> None:
    kind = estimator if isinstance(estimator, type) else type(estimator)
    settings = estimator.get_params(deep=False) if kind is not estimator and hasattr(kind, "get_params") else {}
    if not {"budget", "epsilon"} <= set(settings):
        raise ReleaseError(
            f"cross_validate takes a private estimator with budget= and epsilon=, such as PrivateNaiveBayes(domain); "
            f"got {kind.__name__}. A model that is not private shows its training rows through its predictions"
        )
    if not isinstance(budget, Budget):
        raise ReleaseError(f"cross_validate takes a Budget; got {type(budget).__name__}")
    if budget.group is not None:
        raise ReleaseError("cross_validate takes a budget of all rows, not one of Budget.parallel")
    check_whole("folds", folds, 2)
    own, unit = settings.get("person"), budget.unit
    if unit.n_is_public and (person is not None or own is not None):
        raise DomainError(
            "under replace a row keeps its place and its fold whatever it becomes, but another person's id would move "
            'it to another fold; leave person out, or protect persons with PrivacyUnit("add-remove", rows_per_person)'
        )
    if not unit.n_is_public and person is None:
        raise DomainError(
            "under add-remove a row's place depends on the rows before it, so folds need person=...: a column of X, or "
            "one id a row, that says whose row it is (any unique id if each row is somebody's only one)"
        )
    if own is not None and not (isinstance(person, str) and person == own):
        raise DomainError(f"the estimator's person is {own!r}; give cross_validate the same column")


def prepared(estimator: Any, price: PrivacyCost, budget: Budget, noise: Any) -> Any:
    """A clone that spends what a fit may, from a budget of its own."""
    settings = estimator.get_params(deep=False)
    chosen: dict[str, Any] = {"epsilon": price.epsilon, "budget": budget}
    mechanism = settings.get("mechanism")
    if dataclasses.is_dataclass(mechanism) and not isinstance(mechanism, type):
        prices = {"epsilon": price.epsilon, "delta": price.delta, "rho": None, "mu": None}
        names = {field.name for field in dataclasses.fields(mechanism)}
        chosen["mechanism"] = dataclasses.replace(mechanism, **{k: v for k, v in prices.items() if k in names})
    if "noise" in settings:
        chosen["noise"] = None if isinstance(noise, SecureNoise) else SharedNoise(noise)
    made: Any = clone(estimator)
    return made.set_params(**chosen)


def rehearse(estimator: Any, rows: Rows, price: PrivacyCost, unit: PrivacyUnit) -> None:
    """Runs a fit on all rows up to its charge, so that rows and settings are refused before anything is charged."""
    door = ClosedDoor(price.epsilon, price.delta, unit=unit)
    leaks = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", PrivacyLeakWarning)
        try:
            prepared(estimator, price, door, SecureNoise()).fit(*rows.take(np.arange(len(rows))))
        except AtTheDoor:
            pass
        except PrivacyLeakWarning:
            leaks = True
    if leaks:
        raise ReleaseError('cross_validate takes declared domains and bounds; "infer" reads them off the rows')
    if not door.asked:
        raise ReleaseError(f"{type(estimator).__name__} was fitted without charging its budget; it is not private")
    if price.delta and not door.asked[0].delta:
        raise ReleaseError(f"{door.asked[0].mechanism} spends no delta; leave delta out")


class AtTheDoor(BaseException):
    """A rehearsed fit has come to its charge; no ``except Exception`` of an estimator takes it."""


class ClosedDoor(Budget):
    """A budget that checks a charge as any does, and lets nothing be drawn after it."""

    def __init__(self, epsilon: Number, delta: Number = 0, *, unit: PrivacyUnit | None = None) -> None:
        super().__init__(epsilon, delta, unit=unit)
        self.asked: list[Event] = []

    def charge(self, event: Event, made: Made | None = None) -> NoReturn:
        """Checks and keeps the event, then stops the fit."""
        super().charge(event, made)
        self.asked.append(event)
        raise AtTheDoor


class SharedNoise:
    """A noise source that copies share: estimators copy theirs for each fit, and no two fits may have equal noise."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._source, name)

    def __deepcopy__(self, memo: object = None) -> SharedNoise:
        return self

    __copy__ = __deepcopy__


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows that are taken by position: a DataFrame or an array, a target, and one id of a person a row. Sensitive."""

    X: Any
    y: Any = None
    persons: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.X)

    def take(self, positions: Integers) -> tuple[Any, Any]:
        """X and y at some positions, in the same order."""
        return _taken(self.X, positions), None if self.y is None else _taken(self.y, positions)


def readable(X: Any, y: Any, person: Any, *, keep: bool, strict: bool = False) -> Rows:
    """The rows of a table or an array and their persons; a refusal repeats none of them.

    ``keep``: the column of persons stays in X, for an estimator that reads it itself. ``strict``: no row may refuse
    the table; a row without a person is then left out.
    """
    refuse_clusters(X, y, person)
    refuse_list(X, strict)
    table, ids = _table(X), person
    if isinstance(person, str):
        rest, _, ids = without_persons(table, person)
        table = table if keep else rest
    names = None if person is None else person_names(ids) if strict else person_ids(ids)
    target = y if y is None or hasattr(y, "iloc") else column_of(y, NO_COLUMN, strict=True)
    if any(part is not None and len(part) != len(table) for part in (target, names)):
        raise DomainError("X, y and person must have the same number of rows")
    if names is None:
        return Rows(table, target)
    named = [position for position, name in enumerate(names) if name is not None]
    return Rows(*Rows(table, target).take(np.array(named, np.int64)), tuple(name for name in names if name is not None))


def person_ids(ids: Any) -> tuple[str, ...]:
    """Ids as text: 1 and "1" are the same person, so that no id changes how another is read."""
    problem = "every row needs the id of its person: text, a whole number or a UUID, never null or a fraction"
    values = _items(ids)
    with PublicWords(problem):
        if all(isinstance(one, str | uuid.UUID | Integral) and not isinstance(one, bool | np.bool_) for one in values):
            return tuple(str(one) if isinstance(one, str | uuid.UUID) else str(int(one)) for one in values)
    raise DomainError(problem)


def person_names(ids: Any) -> tuple[str | None, ...]:
    """Ids as text, None for a cell that names nobody; no cell is refused.

    >>> person_names([7, "7", 8.0, None, {}])
    ('7', '7', '8', None, None)
    """
    return tuple(str(one) if type(one) is uuid.UUID else person_name(one) for one in _items(ids))


def _items(ids: Any) -> list[Any] | tuple[Any, ...]:
    if is_query(ids):
        raise DomainError("person must be a column of X or one id a row; read a query first")
    column: Any = getattr(ids, "to_pylist", None) or getattr(ids, "to_list", None) or getattr(ids, "tolist", None)
    with PublicWords("the ids of persons cannot be read"):
        values = ids if column is None else column()
    if not isinstance(values, list | tuple):
        raise DomainError(f"person must be a column of X or one id a row; got {type(ids).__name__}")
    return values


def folds_by_position(rows: int, folds: int) -> Integers:
    """Row i is in fold i mod k, whatever the rows hold.

    >>> folds_by_position(5, 2).tolist()
    [0, 1, 0, 1, 0]
    """
    return np.arange(rows, dtype=np.int64) % folds


def folds_by_person(persons: Sequence[str], folds: int, key: bytes) -> Integers:
    """Each row in the fold of its person: BLAKE2b of the id under a key, mod k. A fresh key keeps ids from being made.

    >>> found = folds_by_person(["ann", "bob", "ann"], 3, b"key")
    >>> found[0] == found[2]
    np.True_
    """
    words = {one: one.encode("utf-8", "surrogatepass") for one in persons}
    hashed = {one: hashlib.blake2b(word, digest_size=8, key=key).digest() for one, word in words.items()}
    return np.array([int.from_bytes(hashed[one]) % folds for one in persons], dtype=np.int64)


def first_rows(persons: Sequence[str], rows_per_person: int) -> Integers:
    """The positions of the first rows of each person, so that nobody's rows decide which rows of another count.

    >>> first_rows(["ann", "bob", "ann", "ann"], 2).tolist()
    [0, 1, 2]
    """
    seen: dict[str, int] = {}
    kept: list[int] = []
    for position, one in enumerate(persons):
        seen[one] = seen.get(one, 0) + 1
        if seen[one] <= rows_per_person:
            kept.append(position)
    return np.array(kept, dtype=np.int64)


def _table(X: Any) -> Any:
    """X as a DataFrame or a two-dimensional array whose elements keep their own types."""
    if is_table(X):
        return table_frame(X)
    problem = "X must be a table or a two-dimensional array; read a file or a query first"
    if is_query(X):
        raise DomainError(problem)
    with PublicWords(problem):
        array = X if isinstance(X, np.ndarray) else np.array(X, dtype=object)
    if array.ndim != 2:
        raise DomainError(problem)
    return array


def _taken(values: Any, positions: Integers) -> Any:
    return values.iloc[positions] if hasattr(values, "iloc") else values[positions]
