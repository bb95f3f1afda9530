"""A model's predictions on held-out rows, read by the model's own declarations; sensitive, for evaluation only."""

from __future__ import annotations

import contextlib
import math
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.estimators.fitting import column_of, with_target
from dpgraph.models.entry_scores import entry_log_probability
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.models.sampled_regression import SampledRegressionModel
from dpgraph.privacy.records import ReleaseError
from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.regression import judged_columns
from dpgraph.statistics.rows.codes import encode
from dpgraph.statistics.rows.features import (
    UNREADABLE,
    array_frame,
    declared_columns,
    is_table,
    refuse_list,
    table_frame,
)
from dpgraph.statistics.rows.persons import PersonCap, rows_within
from dpgraph.structure.conversion import array_of, converted
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import Categories, Domain, DomainError, Level, NetworkError
from dpgraph.structure.frozen import FrozenMap

if TYPE_CHECKING:
    import pandas as pd

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

#: What is said of a y that is no column.
NO_COLUMN = "y must be one column, a class or a number for each row"


def class_probabilities(model: NaiveBayes | NaiveBayesEnsemble, X: Any, y: Any) -> tuple[npt.NDArray[Any], Reals]:
    """The code of each row's class, and P(class), by the model's declared domain."""
    domain = domain_of(model).restrict((*model.features, model.target))
    codes = encode(rows_with_target(X, y, model.features, model.target, strict=domain.strict), domain).columns
    return codes[model.target], model.predict_proba(FrozenMap((name, codes[name]) for name in model.features))


def target_and_prediction(
    model: LinearRegressionModel | SampledRegressionModel, X: Any, y: Any, *, drop: bool = False
) -> tuple[Reals, Reals, Flags]:
    """The target of each row, its prediction, and which rows a fit would have kept, by the model's design.

    Args:
        model: The model.
        X: The rows.
        y: Their target, or None.
        drop: Whether rows may be dropped where the design says so, which takes a private number of rows.

    Raises:
        DomainError: If a row holds a null that has no declared meaning and may not be dropped.
    """
    design = design_of(model)
    if design.on_missing == "drop" and not drop:
        design = _keeping(design)
    rows = rows_with_target(X, y, tuple(design.features), design.target, strict=design.strict)
    read, kept = judged_columns(rows, design)
    return read.pop(design.target), model.predict(read), kept


def _keeping(design: LinearDesign) -> LinearDesign:
    """The design, its rows never dropped.

    Raises:
        DomainError: If it is strict, and a null would refuse the table; whatever the rows hold.
    """
    kept = None
    with contextlib.suppress(NetworkError, DomainError):
        kept = replace(design, on_missing="error")
    if kept is None:
        raise DomainError(
            'the model drops rows with nulls, on_missing="drop", which makes their number private: judge it under '
            "add-remove, or declare what nulls count as"
        )
    return kept


def entry_log_probabilities(model: HiddenMarkovModel, log: Any) -> Reals:
    """ln P of each entry of a log."""
    return entry_log_probability(model, encode(log, model.network.domain).columns)


def foreign_classes(model: Any) -> tuple[Level, ...]:
    """The classes of a scikit-learn classifier."""
    classes = array_of(model.classes_, "classes_ of the model must be one list")
    if classes.ndim != 1:
        raise DomainError("the model must have one target: classes_ must be one list")
    return Categories(classes.tolist()).levels


def foreign_probabilities(model: Any, X: Any, y: Any) -> tuple[npt.NDArray[Any], Reals]:
    """The code of each row's class, and P(class) by a scikit-learn classifier; 1 where it has ``predict`` alone."""
    classes = Categories(foreign_classes(model))
    truth = _class_codes(_truth(y), classes)
    if callable(getattr(model, "predict_proba", None)):
        return truth, said_by(model.predict_proba, X, (len(truth), classes.size))
    said = said_by(model.predict, X, (len(truth),), numbers=False)
    return truth, np.eye(classes.size)[_class_codes(said, classes)]


def _truth(y: Any) -> npt.NDArray[Any]:
    """y as one column, which only dpgraph's own models find in X."""
    if y is None:
        raise DomainError("y is missing: the true class or value of each row")
    return column_of(y, NO_COLUMN)


def _class_codes(column: npt.NDArray[Any], classes: Categories) -> npt.NDArray[Any]:
    """The code of each class."""
    import pandas as pd

    frame = converted(lambda: pd.DataFrame({"y": column}), NO_COLUMN)
    return encode(frame, Domain.of({"y": classes})).columns["y"]


def foreign_prediction(model: Any, X: Any, y: Any) -> tuple[Reals, Reals]:
    """The target of each row and what a scikit-learn regressor predicts."""
    column = _truth(y)
    truth = converted(lambda: column.astype(np.float64), "y must hold numbers")
    return truth, said_by(model.predict, X, truth.shape)


def said_by(method: Any, X: Any, shape: tuple[int, ...], *, numbers: bool = True) -> npt.NDArray[Any]:
    """What another library's model says of the rows; its own errors and warnings may repeat a value, and are not.

    Its threads may be running dpgraph's own code, so warnings are silenced without the lock of ``converted``.
    """
    problem = "the model cannot predict these rows, or X and y differ in length"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said: Any = converted(lambda: np.asarray(method(X)), problem, quiet=False)
    said = converted(lambda: said.astype(np.float64), problem) if numbers else said
    if said.shape != shape:
        raise DomainError(problem)
    return said


def in_group(X: Any, group: RowGroup, rows: int, *, strict: bool) -> Flags:
    """Which rows are of a declared group, by columns of X.

    Raises:
        DomainError: If X does not hold the columns, or cannot be read twice.
    """
    declared: dict[str, Any] = {condition.by: condition.declaration for condition in group.conditions}
    codes, levels = encode(X, domain := Domain.of(declared, strict=strict)).columns, group.where
    found = np.logical_and.reduce([codes[name] == domain.code(name, level) for name, level in levels.items()])
    if len(found) != rows:
        raise DomainError("a group's rows are read twice: X must be a table or a path, as long as y, and no iterator")
    return found


def within_cap(X: Any, cap: PersonCap, rows: int, model: Any) -> Flags:
    """Which rows count where a person has more than a cap allows, by a column of X that is no variable of the model.

    Raises:
        DomainError: If X does not hold the column, or cannot be read twice.
    """
    declared: tuple[str, ...] = ()
    match model:
        case NaiveBayes() | NaiveBayesEnsemble():
            declared = (*model.features, model.target)
        case LinearRegressionModel() | SampledRegressionModel():
            declared = (*design_of(model).features, design_of(model).target)
        case HiddenMarkovModel():
            declared = model.network.domain.names
    if cap.person in declared:
        raise DomainError(f"person must name a column that is not a declared variable; got {cap.person!r}")
    found = rows_within(X, cap, is_strict(model))
    if rows != len(found):
        raise DomainError("rows of persons are read twice: X must be a table or a path, as long as y, and no iterator")
    return found


def is_strict(model: Any) -> bool:
    """Whether the model's declarations leave no row to refuse."""
    match model:
        case NaiveBayes() | NaiveBayesEnsemble():
            return domain_of(model).strict
        case LinearRegressionModel() | SampledRegressionModel():
            return design_of(model).strict
        case HiddenMarkovModel():
            return model.network.domain.strict
    return False


def domain_of(model: NaiveBayes | NaiveBayesEnsemble) -> Domain:
    """The declared variables."""
    tables = model.probabilities if isinstance(model, NaiveBayes) else model.draws[0]
    return tables.network.domain


def design_of(model: LinearRegressionModel | SampledRegressionModel) -> LinearDesign:
    """The declared bounds."""
    return model.draws.design if isinstance(model, LinearRegressionModel) else model.design


def outcomes_of_an_entry(model: HiddenMarkovModel) -> int:
    """How many different entries a cell can hold."""
    return math.prod(model.network.domain.sizes[name] for name in model.fields)


def rows_with_target(X: Any, y: Any, features: tuple[str, ...], target: str, *, strict: bool = False) -> Any:
    """Rows that hold the target beside the features: X itself where y is None.

    Raises:
        DomainError: If X and y do not fit each other.
    """
    if y is None:
        return X
    frame, values = _features(X, features, strict), column_of(y, NO_COLUMN, strict=strict)
    if len(frame) != len(values):
        raise DomainError("X and y must have the same number of rows")
    return with_target(frame, target, values)


def _features(X: Any, names: tuple[str, ...], strict: bool) -> pd.DataFrame:
    """The named columns of a table, or the columns of an array in that order."""
    if isinstance(X, str) or hasattr(X, "__fspath__"):
        raise DomainError("the rows of a file hold the target too; leave y out")
    if is_table(X):
        frame = declared_columns(table_frame(X), names)
        absent = converted(lambda: [name for name in names if name not in frame.columns], UNREADABLE)
        if absent:
            raise DomainError(f"X has no column {', '.join(map(repr, absent))}")
        return converted(lambda: frame.loc[:, list(names)].reset_index(drop=True), UNREADABLE)
    refuse_list(X, strict)
    problem = f"X must be a table, or an array of two axes with the {len(names)} features as its columns"
    array = array_of(X, problem)
    if array.ndim != 2 or array.shape[1] != len(names):
        raise DomainError(problem)
    return array_frame(array, names, strict=strict)


def fitted_model(model: Any) -> Any:
    """The released model behind an estimator of dpgraph, or the model itself.

    Raises:
        ReleaseError: If an estimator is not fitted.
    """
    if type(model).__module__.startswith("dpgraph.estimators."):
        if getattr(model, "model_", None) is None:
            raise ReleaseError(f"this {type(model).__name__} is not fitted; fit it, or evaluate a loaded model")
        return model.model_
    return model
