"""Private scores of a model on held-out rows, from one release.

An accuracy computed in the open is an exact function of the held-out rows. ``evaluate`` sums the outcomes of all
scores exactly, in integers, releases the noisy sums once, and reads every score off these alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from dpgraph.estimators.fitting import NO_COLUMN, cap_for, column_of, rows_with_target
from dpgraph.inference.arguments import check_probability
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.models.conditional import ConditionalClassifier
from dpgraph.models.evaluation import Evaluation
from dpgraph.models.hmm import HiddenMarkovModel, entry_log_probability
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.checks import Flags, Reals, check_choice
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import PrivacyLeakWarning, ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Number, PrivacyUnit, Release
from dpgraph.privacy.release import release
from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.moments import Moments, classifier_outcomes, entry_outcomes, regression_outcomes
from dpgraph.statistics.rows.arrow import Held, read_once
from dpgraph.statistics.rows.batches import Columns, refuse_clusters
from dpgraph.statistics.rows.codes import Codes, encode, members, select
from dpgraph.statistics.rows.features import UNREADABLE, columns_of, judged_columns, table_frame
from dpgraph.statistics.rows.persons import PersonCap, refuse_group, rows_within
from dpgraph.structure.conversion import PublicWords, array_of, is_query, is_table
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import Categories, Domain, DomainError, NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.moments import Classification, ClassifierScore, Entries, OutcomeDescription, Regression
from dpgraph.waiting import waiting

Classifier = NaiveBayes | NaiveBayesEnsemble | ConditionalClassifier

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

    Classifiers: accuracy, log-loss, Brier score (0 to 2), the confusion matrix, a reliability table. Regressions: mean
    squared error and its root. Hidden Markov models: nats an entry, entry by entry.

    Sensitivity: each score is a sum over rows of something bounded in public, so a row moves each block of sums by at
    most its bound; ``structure.moments`` has the blocks. The score is the mean of losses clipped at
    their bound. The classes and bounds are the model's own, never read off ``y``.

    Args:
        model: A fitted private estimator, one of the models behind them as ``load`` gives it, or a scikit-learn
            classifier or regressor, fitted on public rows. It must answer a row alike, whatever it was asked before; a
            scikit-learn model is asked about each different row by itself, about a millisecond each.
        X: The rows: a table, or an array of the features in order. The log, for a hidden Markov model. Where ``y`` is
            left out, rows that hold the target too: a table, a path, a query or a stream, which is read once.
        y: The true class or value of each row, beside rows in memory.
        epsilon: The cost, exact; a float means the decimal it prints as.
        budget: The ``Budget`` to charge. A group's budget, from ``Budget.parallel``, judges its rows alone, by a column
            of X.
        interval: The probability with which each interval is to hold the population's score.
        scores: The scores of a classifier to pay for: some of ``"accuracy"`` (always one of them), ``"confusion"``,
            ``"reliability"``, ``"log_loss"`` and ``"brier"``; the fewer, the less noise in each.
        bounds: The target's public bounds, for a scikit-learn regressor.
        largest_loss: Where the log-loss of a row, or of an entry, is clipped; ln(50 K) by default, of K classes or
            different entries.
        largest_error: Where the size of a regression's error is clipped; half the distance of the bounds by default.
        mechanism: ``"laplace"``, or ``"gaussian"``, which takes the delta that is left in the budget.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, marks the evaluation as not private.
        progress: A bar on a terminal.
        person: The column of X that says whose row it is, no variable of the model: as many rows of each as the
            budget's unit protects are judged, chosen as ``count`` chooses. None leaves it to you that nobody has more.

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
    ['accuracy', 'AUC', 'sensitivity', 'specificity', 'positive predictive value', 'log-loss', 'Brier score']
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
    record = getattr(fitted_model(model), "provenance", None)
    rows = getattr(getattr(record, "unit", None), "rows_per_person", 1)
    if rows > unit.rows_per_person:
        warnings.warn(
            f"this budget protects {unit}, and the model up to {rows} rows of one person: a person with k rows has a "
            "privacy loss of k times the charge. Name the column of persons, person=..., and give "
            "Budget(..., unit=PrivacyUnit('add-remove', rows)); of the command, --person and --rows-per-person",
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
    fitted = fitted_model(model)
    sums = task_of(fitted, **settings)
    if isinstance(sums, Entries) and y is not None:
        raise DomainError("a hidden Markov model is judged by a log alone; leave y out")
    X, y = judged_rows(fitted, X, y, cap, group)
    match sums:
        case Classification():
            if isinstance(fitted, Classifier):
                truth, probabilities = class_probabilities(fitted, X, y)
            else:
                truth, probabilities = foreign_probabilities(fitted, X, y)
            judged = classifier_outcomes(sums, truth, probabilities, group)
        case Regression():
            if design_of(fitted) is not None:
                drop = unit is not None and not unit.n_is_public
                values, predicted, whole = target_and_prediction(fitted, X, y, drop=drop)
            else:
                values, predicted = foreign_prediction(fitted, X, y)
                whole = np.ones(len(values), bool)
            judged = regression_outcomes(sums, values[whole], predicted[whole], group)
        case Entries():
            codes = encode(X, fitted.network.domain).columns
            judged = entry_outcomes(sums, entry_log_probability(fitted, codes), group)
    return judged if cap is None else replace(judged, cap=cap.record(declared_by(fitted).strict))


def task_of(
    model: Any,
    *,
    scores: Iterable[ClassifierScore] = SCORES,
    bounds: tuple[float, float] | None = None,
    largest_loss: float | None = None,
    largest_error: float | None = None,
) -> Classification | Regression | Entries:
    """The public description of an evaluation, before any row: classes, bounds and the bounds of losses."""
    fitted, asked = fitted_model(model), _asked(scores)
    match fitted:
        case NaiveBayes() | NaiveBayesEnsemble() | ConditionalClassifier():
            task = Classification(fitted.network.domain.levels(fitted.target), largest_loss, scores=asked)
        case HiddenMarkovModel():
            task = Entries(math.prod(fitted.network.domain.sizes[name] for name in fitted.fields), largest_loss)
        case _ if (design := design_of(fitted)) is not None:
            task = Regression(design.bounds.low, design.bounds.high, largest_error)
        case _ if getattr(fitted, "classes_", None) is not None:
            whole = callable(getattr(fitted, "predict_proba", None))
            known = asked if whole else _asked(one for one in asked if one in SCORES[:2])
            task = Classification(foreign_classes(fitted).levels, largest_loss, scores=known)
        case _ if callable(getattr(fitted, "predict", None)) and not isinstance(fitted, type):
            if bounds is None:
                raise DomainError(
                    f"a {type(fitted).__name__} without classes_ is a regressor or is not fitted; a regressor needs "
                    "bounds=(low, high), public bounds of the target"
                )
            task, bounds = Regression(*_pair(bounds), largest_error), None
        case _:
            raise ReleaseError(f"evaluate takes a fitted model with predict; got {type(fitted).__name__}")
    if bounds is not None:
        raise DomainError("bounds= has no meaning for this model, which has its own classes or bounds; leave it out")
    if asked != SCORES and not isinstance(task, Classification):
        raise DomainError("scores= has no meaning for this model: they are of classifiers; leave it out")
    return task


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
        raise ReleaseError(f"evaluation_of takes the sums of outcomes(...); got {type(found).__name__}")
    if budget.unit.n_is_public and found.sensitive_rows == 0:
        raise DomainError("there are no rows to judge the model by")
    released: Release[Any] = release(found, made, budget=budget, noise=noise)
    return Evaluation(released, interval)


def _mechanism(name: str, epsilon: Number, budget: Budget) -> LaplaceMechanism | GaussianMechanism:
    if not isinstance(budget, Budget):
        raise ReleaseError(f"evaluate takes a Budget; got {type(budget).__name__}")
    check_choice("mechanism", name, ("laplace", "gaussian"))
    return LaplaceMechanism(epsilon) if name == "laplace" else GaussianMechanism(epsilon, budget.remaining_delta)


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


def class_probabilities(model: Classifier, X: Any, y: Any) -> tuple[npt.NDArray[Any], Reals]:
    """The code of each row's class, and P(class), by the model's declared domain."""
    domain = model.network.domain.restrict((*model.features, model.target))
    codes = encode(rows_with_target(X, y, model.features, model.target, strict=domain.strict), domain).columns
    return codes[model.target], model.predict_proba(FrozenMap((name, codes[name]) for name in model.features))


def target_and_prediction(model: Any, X: Any, y: Any, *, drop: bool = False) -> tuple[Reals, Reals, Flags]:
    """The target of each row, its prediction, and flags of the rows that a fit keeps, by the model's design.

    ``drop``: rows may be dropped where the design says so, which takes a private number of rows.
    """
    design: LinearDesign = model.design
    if design.on_missing == "drop" and not drop:
        try:  # refused, whatever the rows hold, where a null would refuse a strict table
            design = replace(design, on_missing="error")
        except (NetworkError, DomainError):
            raise DomainError(
                'the model drops rows with nulls, on_missing="drop", which makes their number private: judge it under '
                "add-remove, or declare what nulls count as"
            ) from None
    rows = rows_with_target(X, y, tuple(design.features), design.target, strict=design.strict)
    read, kept = judged_columns(rows, design)
    return read.pop(design.target), model.predict(read), kept


def foreign_classes(model: Any) -> Categories:
    """The classes of a scikit-learn classifier."""
    classes = array_of(model.classes_, "classes_ of the model must be one list")
    if classes.ndim != 1:
        raise DomainError("the model must have one target: classes_ must be one list")
    return Categories(classes.tolist())


def foreign_probabilities(model: Any, X: Any, y: Any) -> tuple[npt.NDArray[Any], Reals]:
    """The code of each row's class, and P(class) by a scikit-learn classifier; 1 where it has ``predict`` alone."""
    classes = foreign_classes(model)
    truth = _class_codes(_truth(y), classes)
    if callable(getattr(model, "predict_proba", None)):
        return truth, said_by(model.predict_proba, X, (len(truth), classes.size))
    said = said_by(model.predict, X, (len(truth),), numbers=False)
    return truth, np.eye(classes.size)[_class_codes(said, classes)]


def _truth(y: Any) -> npt.NDArray[Any]:
    if y is None:
        raise DomainError("y is missing: the true class or value of each row")
    return column_of(y, NO_COLUMN)


def _class_codes(column: npt.NDArray[Any], classes: Categories) -> npt.NDArray[Any]:
    with PublicWords(NO_COLUMN):
        frame = data_frame({"y": column})
    return encode(frame, Domain.of({"y": classes})).columns["y"]


def foreign_prediction(model: Any, X: Any, y: Any) -> tuple[Reals, Reals]:
    """The target of each row and a scikit-learn regressor's prediction."""
    column = _truth(y)
    with PublicWords("y must hold numbers"):
        truth = column.astype(np.float64)
    return truth, said_by(model.predict, X, truth.shape)


def said_by(method: Any, X: Any, shape: tuple[int, ...], *, numbers: bool = True) -> npt.NDArray[Any]:
    """Another library's prediction for each row by itself; its own errors and warnings may repeat a value.

    Other rows of the same call would move the last bits of a row's answer, so each different row is one call.
    """
    problem = "the model cannot predict these rows, or X and y differ in length"
    with PublicWords(problem):
        rows, many = X.tocsr() if hasattr(X, "tocsr") else X, X.shape[0] if hasattr(X, "shape") else len(X)
        seen: dict[Any, int] = {}
        same = [seen.setdefault(key, place) for place, key in enumerate(_keys(rows, many))]
        if hasattr(X, "iloc"):
            rows = X.set_axis(np.zeros(many, np.int64)).iloc  # a label would tell a row's place
        said = {place: np.array(method(rows[place : place + 1])).reshape(1, *shape[1:]) for place in seen.values()}
        whole = np.concatenate([said[place] for place in same]) if same else np.zeros((0, *shape[1:]), object)
        whole = whole.astype(np.float64) if numbers else whole
    if whole.shape != shape:
        raise DomainError(problem)
    return whole


def _keys(X: Any, many: int) -> Sequence[Any]:
    """A key for each row, equal where rows are: plain cells of one type and text, others the same object."""

    def key(cell: Any) -> Any:
        if type(cell) in (list, tuple):
            return type(cell), *map(key, cell)
        return (type(cell), repr(cell)) if type(cell) in (bool, int, float, str) else id(cell)

    rows = X.tolist() if isinstance(X, np.ndarray) or (hasattr(X, "iloc") and X.ndim == 1) else X
    if hasattr(rows, "iloc"):
        rows = list(zip(*(rows.iloc[:, i].tolist() for i in range(rows.shape[1])), strict=True))
    return [key(row) for row in rows] if isinstance(rows, list) and len(rows) == many else range(many)


def judged_rows(model: Any, X: Any, y: Any, cap: PersonCap | None, group: RowGroup | None) -> tuple[Any, Any]:
    """The rows that a cap keeps, or those of a group, and their y: chosen by one reading of X, and judged alone.

    The choice among a person's rows depends on the key and on that person's number of rows, and on nobody else.
    """
    declared = declared_by(model)
    if not declared.names and is_query(X):
        raise DomainError("a model of another library predicts rows in memory; read the query first")
    if group is not None:
        told = _told(group, declared.strict).variables
        if isinstance(X, Codes):
            return select(encode(X, Domain.of({**X.domain.variables, **told})), group), y
        columns = Columns({**told, **declared.variables}, declared.strict)
    elif cap is not None:
        columns = cap.columns(declared)
    else:
        return X, y
    if not declared.names:
        frame, column = _named(X), _truth(y)
        kept = _kept(read_once(frame, columns), cap, group, declared.strict)
        if len(kept) != len(column):
            raise DomainError("X and y must have the same number of rows")
        whose = [] if cap is None else [cap.person]
        with PublicWords(UNREADABLE):
            return frame.loc[kept].drop(columns=whose), column[kept]
    if y is not None:
        *_, target = declared.names
        beside = tuple(name for name in columns.names if name != target)
        X = rows_with_target(_named(X), y, beside, target, strict=declared.strict)
    held = read_once(X, columns)
    return held.where(_kept(held, cap, group, declared.strict)), None


def _kept(held: Held, cap: PersonCap | None, group: RowGroup | None, strict: bool) -> Flags:
    if group is None:
        assert cap is not None
        return rows_within(held, cap, strict)
    return members(encode(held, _told(group, strict)).columns, group)


def _told(group: RowGroup, strict: bool) -> Domain:
    declared: dict[str, Any] = {condition.by: condition.declaration for condition in group.conditions}
    return Domain.of(declared, strict=strict)


def _named(X: Any) -> DataFrame:
    if not is_table(X):
        raise DomainError(
            "X must be a table in memory, whose columns have names, where y is beside it; of a file, a query or a "
            "stream, which hold the target too, leave y out"
        )
    return table_frame(X)


def declared_by(model: Any) -> Columns:
    """The columns that a model of dpgraph has declared, the target last; none of another library's."""
    match model:
        case NaiveBayes() | NaiveBayesEnsemble() | ConditionalClassifier():
            domain = model.network.domain
            return Columns({name: domain[name] for name in (*model.features, model.target)}, domain.strict)
        case HiddenMarkovModel():
            return Columns(model.network.domain.variables, model.network.domain.strict)
        case _ if (design := design_of(model)) is not None:
            return columns_of(design)
    return Columns({})


def design_of(model: Any) -> LinearDesign | None:
    """The design of a regression of this package; None for any other model."""
    found = getattr(model, "design", None)
    return found if isinstance(found, LinearDesign) and callable(getattr(model, "predict", None)) else None


def fitted_model(model: Any) -> Any:
    """The released model behind an estimator of dpgraph, or the model itself."""
    if type(model).__module__.startswith("dpgraph.estimators."):
        if getattr(model, "model_", None) is None:
            raise ReleaseError(f"this {type(model).__name__} is not fitted; fit it, or evaluate a loaded model")
        return model.model_
    return model
