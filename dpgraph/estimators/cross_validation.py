"""Private cross-validation: folds assigned without looking at other rows, k fits and one evaluation, exactly priced.

Let every fit be epsilon_t-DP for the unit and the evaluation epsilon_e-DP. Change one person's rows:

* Under add/remove all rows of a person are in one fold, which a keyed hash of the person's id alone decides, so no
  other row moves. The person's rows are in k - 1 training sets and are evaluated in the remaining fold.
* Under replace with one row a person, row i stays in fold i mod k whatever it becomes: the same count.
* Under replace with several rows a person, they may lie in all folds: all k training sets change.

The models of the unchanged training sets have an unchanged law, the rest compose: the whole call costs
(k - 1) epsilon_t + epsilon_e, or k epsilon_t + epsilon_e in the last case, and deltas alike. The evaluation is of
predictions by models that are already released; a person's rows are evaluated once, so the outcomes of all folds are
summed first and released once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpgraph.estimators.evaluation import SCORES, evaluation_of, outcomes
from dpgraph.estimators.folds import Rows, first_rows, folds_by_person, folds_by_position, readable
from dpgraph.estimators.private_fits import SharedNoise, checked_source, exact_budget, prepared, rehearse
from dpgraph.inference.arguments import check_probability
from dpgraph.mechanisms.reproduction import HELD_OUT_FITS
from dpgraph.models.evaluation import CrossValidation
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import CROSS_VALIDATION, Event, Number, PrivacyCost, PrivacyUnit, combined_event, exact
from dpgraph.privacy.scope import RowsRecord
from dpgraph.statistics.moments import Moments
from dpgraph.structure.domain import DomainError
from dpgraph.structure.outcomes import Classification, ClassifierScore, Regression
from dpgraph.waiting import counted, waiting

KEY_BITS = 128


@dataclass(frozen=True)
class _Plan:
    """What the whole, each fit, all fits and the evaluation cost; pure parts are also zero-concentrated."""

    whole: PrivacyCost
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

    The score is about fits at ``training_epsilon``, which is epsilon / k each by default. For the score of an
    estimator at its own epsilon e, give ``training_epsilon=e`` and epsilon = (k - 1) e and what the evaluation
    may cost. To compare candidates call this once for each, with a part of the budget each; choosing among released
    scores is free.

    Args:
        estimator: A private estimator with parameters ``budget`` and ``epsilon``, which are set for each fit, such as
            ``PrivateNaiveBayes``. A mechanism value is taken at the fit's epsilon and delta.
        X: A pandas, polars or Arrow table, or a two-dimensional array.
        y: The target, one value a row; None for ``PrivateHMM``.
        epsilon: What the whole call costs, exact.
        budget: What is charged; its unit is the one that is protected.
        folds: The number k of folds.
        delta: What the fits cost together, for estimators whose mechanism has a delta; the evaluation has none.
        person: Under add/remove, where it is required: whose row each is, a column of X or one id a row (any unique
            id where each row is somebody's only one). Ids are compared as text. It is no feature. Rows beyond the
            first ``rows_per_person`` of each person are left out, and where the estimator's declaration is strict, so
            are rows that name nobody. Under replace rows have public places, and it is refused.
        evaluation_share: Which share of epsilon the evaluation gets; by default as much as one fit.
        training_epsilon: What each fit gets, instead; the evaluation gets the rest.
        interval: The probability of the evaluation's intervals; they are for the mean over the k released models.
        scores: As for ``evaluate``, and so are the next three.
        bounds: Of the target, for a regressor that is not dpgraph's.
        largest_loss: Where a log-loss is clipped.
        largest_error: Where an error is clipped.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, makes it reproducible and not private.
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
    source = checked_source(noise, settings.get("noise"))
    with waiting("cross-validating", progress):
        rehearse(estimator, rows, plan.fit, budget.unit)
        receipt = budget.charge(_event(plan))
        scope = RowsRecord(budget.identity, receipts=() if receipt is None else (receipt.digest,))
        return _validated(estimator, rows, folds, plan, budget.unit, scope, judged, interval, source)


def _validated(
    estimator: Any,
    rows: Rows,
    folds: int,
    plan: _Plan,
    unit: PrivacyUnit,
    scope: RowsRecord,
    judged: dict[str, Any],
    interval: float,
    noise: Any,
) -> CrossValidation:
    """Everything after the charge: the key, the fits, the sum of the outcomes and its one release."""
    if rows.persons is None:
        fold = folds_by_position(len(rows), folds)
    else:
        fold = folds_by_person(rows.persons, folds, noise.bits(KEY_BITS).to_bytes(KEY_BITS // 8))
    whole: Moments | None = None
    parts: list[Event] = []
    for held_out in counted(range(folds)):
        spent = exact_budget(plan.fit, unit)
        model = prepared(estimator, plan.fit, spent, noise)
        model.fit(*rows.take(np.flatnonzero(fold != held_out)))
        parts += spent.events
        found = outcomes(model, *rows.take(np.flatnonzero(fold == held_out)), **judged, unit=unit)
        whole = found if whole is None else whole + found
    assert whole is not None
    spent = exact_budget(plan.evaluation, unit)
    source: Any = SharedNoise(noise)
    price = plan.evaluation.epsilon
    evaluation = evaluation_of(whole, epsilon=price, budget=spent, interval=interval, noise=source)
    parts += spent.events
    event = combined_event([plan.fits, evaluation.release.event])
    evaluation = replace(evaluation, release=replace(evaluation.release, event=event, scope=scope))
    return CrossValidation(evaluation, folds, plan.fit.epsilon, plan.fit.delta, tuple(parts))


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
    fits = Event(HELD_OUT_FITS, changed * fit, whole.delta, rho=None if whole.delta else changed * fit**2 / 2)
    return _Plan(whole, PrivacyCost(fit, whole.delta / changed), fits, PrivacyCost(whole.epsilon - changed * fit))


def _event(plan: _Plan) -> Event:
    """The one event of the call, of pure parts at epsilon^2 / 2 in rho each."""
    rho = None if plan.fits.rho is None else plan.fits.rho + plan.evaluation.epsilon**2 / 2
    return Event(CROSS_VALIDATION, plan.whole.epsilon, plan.whole.delta, rho=rho)


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
    if isinstance(folds, bool) or not isinstance(folds, int) or folds < 2:
        raise ReleaseError(f"folds must be a whole number, at least 2; got {folds!r}")
    _check_person(person, settings.get("person"), budget.unit)


def _check_person(person: Any, own: Any, unit: PrivacyUnit) -> None:
    """Persons decide folds under add/remove and nothing under replace."""
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
