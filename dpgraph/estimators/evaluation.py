"""Private scores of a model on held-out rows, from one release.

An accuracy computed in the open is an exact function of the held-out rows. ``evaluate`` sums the outcomes of all
scores exactly, in integers, releases the noisy sums once, and reads every score off these alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from dpgraph.estimators import held_out
from dpgraph.estimators.fitting import cap_for
from dpgraph.inference.arguments import check_probability
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.models.evaluation import Evaluation
from dpgraph.models.hmm import HiddenMarkovModel, entry_log_probability
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.errors import PrivacyLeakWarning, ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Number, PrivacyUnit, Release
from dpgraph.privacy.release import release
from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.moments import Moments
from dpgraph.statistics.outcomes import classifier_outcomes, entry_outcomes, regression_outcomes
from dpgraph.statistics.rows.batches import refuse_clusters
from dpgraph.statistics.rows.codes import encode
from dpgraph.statistics.rows.persons import PersonCap, refuse_group
from dpgraph.structure.domain import DomainError
from dpgraph.structure.outcomes import Classification, ClassifierScore, Entries, OutcomeDescription, Regression
from dpgraph.waiting import waiting

#: What a release pays for unless it is told otherwise.
SCORES: tuple[ClassifierScore, ...] = get_args(ClassifierScore)


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    epsilon: Number,
    budget: Budget,
    interval: float = 0.9,
    scores: Iterable[ClassifierScore] = SCORES,
    bounds: tuple[float, float] | None = None,
    largest_loss: float | None = None,
    largest_error: float | None = None,
    mechanism: str = "laplace",
    noise: Noise | None = None,
    progress: bool = False,
    person: str | None = None,
) -> Evaluation:
    """Judges a model on held-out rows, privately: one charge, one release, every score with its interval.

    Classifiers: accuracy, log-loss and Brier score (the sum over classes of the squared error of its probability, from
    0 to 2), the confusion matrix and a reliability table. Regressions: mean squared error and its root. Hidden Markov
    models: nats an entry, the mean log probability of an entry in its cell, entry by entry.

    Sensitivity: each score is a sum over rows of something bounded in public, so a row moves each block of sums by at
    most its bound; ``structure.outcomes`` has the blocks. Losses are clipped at their bound, and what is clipped is
    what is scored. The classes and bounds are the model's own, never read off ``y``.

    Args:
        model: A fitted ``PrivateNaiveBayes``, ``PrivateLinearRegression`` or ``PrivateHMM``, one of the models behind
            them as ``load`` gives it, or a scikit-learn classifier or regressor, fitted on public rows: one fitted on
            private rows is as private as these. It must answer a row alike, to the last bit, whatever it was asked
            before; it is asked about each different row by itself, about a millisecond each.
        X: The rows: a pandas, polars or Arrow table, or an array of the features in order. The log, for a hidden
            Markov model. Where ``y`` is left out, rows that hold the target too: a table, a path, a query or a stream,
            which is read once.
        y: The true class or value of each row, beside rows in memory.
        epsilon: What it costs, exact; a float means the decimal it prints as.
        budget: What is charged. That of a group, from ``Budget.parallel``, judges that group's rows alone, by a column
            of X.
        interval: The probability with which each interval is to hold the population's score.
        scores: Of a classifier: which of ``"accuracy"``, ``"confusion"``, ``"reliability"``, ``"log_loss"`` and
            ``"brier"`` to pay for, the first always among them; the fewer, the less noise in each.
        bounds: The target's public bounds, for a scikit-learn regressor.
        largest_loss: Where the log-loss of a row, or of an entry, is clipped. By default it is ln(50 K): a probability
            below 1 / (50 K) counts as that, K being the number of classes, or of different entries.
        largest_error: Where the size of a regression's error is clipped; half the distance of the bounds by default.
        mechanism: ``"laplace"``, or ``"gaussian"``, which takes the delta that is left in the budget.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, marks the evaluation as not private.
        progress: A bar on a terminal.
        person: The column of X that says whose row it is, where a person may have several: no variable of the model.
            As many rows of each as the budget's unit protects are judged, chosen by a fresh secret key and by no row of
            anybody else. None leaves it to you that nobody has more.

    Raises:
        DomainError: If the rows do not fit the model's declarations, or a setting is not valid; nothing is charged.
        ReleaseError, BudgetExceededError: If the release is refused; nothing is charged.

    Warns:
        PrivacyLeakWarning: If the model protects persons with more rows than the budget does, and no person is named.

    >>> import pandas as pd
    >>> from dpgraph.estimators.naive_bayes import PrivateNaiveBayes
    >>> rows = pd.DataFrame({"word": ["a", "b"] * 500, "spam": [0, 1] * 500})
    >>> classifier = PrivateNaiveBayes({"word": ["a", "b"], "spam": [0, 1]}, epsilon=5)
    >>> model = classifier.fit(rows[["word"]][:500], rows["spam"][:500])
    >>> judged = evaluate(model, rows[["word"]][500:], rows["spam"][500:], epsilon=1, budget=Budget(1))
    >>> list(judged.scores)
    ['accuracy', 'log-loss', 'Brier score']
    """
    check_probability("interval", interval)
    _mechanism(mechanism, epsilon, budget)
    if person is None:
        _warn_of_persons(model, budget.unit)
    settings: dict[str, Any] = {"bounds": bounds, "largest_loss": largest_loss, "largest_error": largest_error}
    with waiting("judging", progress):
        cap = cap_for(person, budget, None, noise)
        found = outcomes(model, X, y, scores=scores, **settings, group=budget.group, unit=budget.unit, cap=cap)
        return evaluation_of(found, epsilon=epsilon, budget=budget, interval=interval, mechanism=mechanism, noise=noise)


def _warn_of_persons(model: Any, unit: PrivacyUnit) -> None:
    record = getattr(held_out.fitted_model(model), "provenance", None)
    rows = getattr(getattr(record, "unit", None), "rows_per_person", 1)
    if rows > unit.rows_per_person:
        warnings.warn(
            f"this budget protects {unit}, and the model up to {rows} rows of one person: the scores of a person with "
            f"several rows lose as many times what they cost. Name the column of persons, person=..., and give Budget("
            f"..., unit=PrivacyUnit('add-remove', rows)); of the command, --person and --rows-per-person",
            PrivacyLeakWarning,
            stacklevel=3,
        )


@np.errstate(all="ignore")
def outcomes(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    group: RowGroup | None = None,
    unit: PrivacyUnit | None = None,
    cap: PersonCap | None = None,
    **settings: Any,
) -> Moments:
    """Sums how right a model is on held-out rows: sensitive, exact, and adding to those of other rows.

    Outcomes of parts of the rows add, also where each part is predicted by a model of its own, if the models have the
    same classes or bounds; ``evaluation_of`` releases their sum.
    """
    refuse_clusters(X, y)
    refuse_group(group, cap, "Judge all rows by one budget, or groups without person=, where nobody has several rows")
    fitted = held_out.fitted_model(model)
    sums = task_of(fitted, **settings)
    if isinstance(sums, Entries) and y is not None:
        raise DomainError("a hidden Markov model is judged by a log alone; leave y out")
    X, y = held_out.judged_rows(fitted, X, y, cap, group)
    match sums:
        case Classification():
            if isinstance(fitted, NaiveBayes | NaiveBayesEnsemble):
                truth, probabilities = held_out.class_probabilities(fitted, X, y)
            else:
                truth, probabilities = held_out.foreign_probabilities(fitted, X, y)
            judged = classifier_outcomes(sums, truth, probabilities, group)
        case Regression():
            if held_out.design_of(fitted) is not None:
                drop = unit is not None and not unit.n_is_public
                values, predicted, whole = held_out.target_and_prediction(fitted, X, y, drop=drop)
            else:
                values, predicted = held_out.foreign_prediction(fitted, X, y)
                whole = np.ones(len(values), bool)
            judged = regression_outcomes(sums, values[whole], predicted[whole], group)
        case Entries():
            codes = encode(X, fitted.network.domain).columns
            judged = entry_outcomes(sums, entry_log_probability(fitted, codes), group)
    return judged if cap is None else replace(judged, cap=cap.record(held_out.declared_by(fitted).strict))


def task_of(
    model: Any,
    *,
    scores: Iterable[ClassifierScore] = SCORES,
    bounds: tuple[float, float] | None = None,
    largest_loss: float | None = None,
    largest_error: float | None = None,
) -> Classification | Regression | Entries:
    """The public description of an evaluation, before any row: classes, bounds and the bounds of losses."""
    match held_out.fitted_model(model):
        case NaiveBayes() | NaiveBayesEnsemble() as classifier:
            _no_use("bounds", bounds, None, "a classifier has classes")
            classes = held_out.domain_of(classifier).levels(classifier.target)
            return Classification(classes, largest_loss, scores=_asked(scores))
        case regression if (design := held_out.design_of(regression)) is not None:
            _no_use("bounds", bounds, None, "this regression has declared its own")
            _no_use("scores", _asked(scores), SCORES, "they are of classifiers")
            return Regression(design.bounds.low, design.bounds.high, largest_error)
        case HiddenMarkovModel() as markov:
            _no_use("bounds", bounds, None, "entries have outcomes")
            _no_use("scores", _asked(scores), SCORES, "they are of classifiers")
            return Entries(math.prod(markov.network.domain.sizes[name] for name in markov.fields), largest_loss)
        case other if getattr(other, "classes_", None) is not None:
            _no_use("bounds", bounds, None, "a classifier has classes")
            whole = callable(getattr(other, "predict_proba", None))
            known = _asked(scores) if whole else _asked(name for name in _asked(scores) if name in SCORES[:2])
            return Classification(held_out.foreign_classes(other), largest_loss, scores=known)
        case other if callable(getattr(other, "predict", None)) and not isinstance(other, type):
            if bounds is None:
                raise DomainError(
                    f"a {type(other).__name__} without classes_ is a regressor or is not fitted; a regressor needs "
                    "bounds=(low, high), public bounds of the target"
                )
            _no_use("scores", _asked(scores), SCORES, "they are of classifiers")
            return Regression(*_pair(bounds), largest_error)
        case other:
            raise ReleaseError(f"evaluate takes a fitted model with predict; got {type(other).__name__}")


def _no_use(name: str, given: Any, usual: Any, why: str) -> None:
    """Refuses a setting that this model has no use for, before anything is charged."""
    if given != usual:
        raise DomainError(f"{name}= has no meaning for this model: {why}; leave it out")


def evaluation_of(
    found: Moments,
    *,
    epsilon: Number,
    budget: Budget,
    interval: float = 0.9,
    mechanism: str = "laplace",
    noise: Noise | None = None,
) -> Evaluation:
    """Releases outcomes, or a sum of outcomes, once and reads the scores off the release."""
    check_probability("interval", interval)
    made = _mechanism(mechanism, epsilon, budget)
    if not isinstance(found, Moments) or not isinstance(found.description, OutcomeDescription):
        raise ReleaseError(f"evaluation_of takes what outcomes sums; got {type(found).__name__}")
    if budget.unit.n_is_public and found.sensitive_rows == 0:
        raise DomainError("there are no rows to judge the model by")
    released: Release[Any] = release(found, made, budget=budget, noise=noise)
    return Evaluation(released, interval)


def _mechanism(name: str, epsilon: Number, budget: Budget) -> LaplaceMechanism | GaussianMechanism:
    if not isinstance(budget, Budget):
        raise ReleaseError(f"evaluate takes a Budget; got {type(budget).__name__}")
    if name == "laplace":
        return LaplaceMechanism(epsilon)
    if name == "gaussian":
        return GaussianMechanism(epsilon, budget.remaining_delta)
    raise ReleaseError(f'mechanism must be "laplace" or "gaussian"; got {name!r:.60}')


def _asked(scores: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(scores, str):
        raise DomainError(f"scores must be some of {', '.join(map(repr, SCORES))}; got {scores!r:.60}")
    return ("accuracy", *(name for name in scores if name != "accuracy"))


def _pair(bounds: Any) -> tuple[float, float]:
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise DomainError(f"bounds must be two numbers; got {bounds!r:.60}") from None
    return low, high
