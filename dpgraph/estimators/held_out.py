"""A model's predictions on held-out rows, read by the model's own declarations; sensitive, for evaluation only."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.estimators.reading import NO_COLUMN, column_of, rows_with_target
from dpgraph.models.hmm import HiddenMarkovModel
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.rows.arrow import Held, read_once
from dpgraph.statistics.rows.batches import Columns
from dpgraph.statistics.rows.codes import Codes, encode, members, select
from dpgraph.statistics.rows.design_columns import columns_of, judged_columns
from dpgraph.statistics.rows.features import UNREADABLE, table_frame
from dpgraph.statistics.rows.persons import PersonCap, rows_within
from dpgraph.structure.conversion import PublicWords, array_of, is_query, is_table
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import Categories, Domain, DomainError, Level, NetworkError
from dpgraph.structure.frozen import FrozenMap

if TYPE_CHECKING:
    import pandas as pd

Reals = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


def class_probabilities(model: NaiveBayes | NaiveBayesEnsemble, X: Any, y: Any) -> tuple[npt.NDArray[Any], Reals]:
    """The code of each row's class, and P(class), by the model's declared domain."""
    domain = domain_of(model).restrict((*model.features, model.target))
    codes = encode(rows_with_target(X, y, model.features, model.target, strict=domain.strict), domain).columns
    return codes[model.target], model.predict_proba(FrozenMap((name, codes[name]) for name in model.features))


def domain_of(model: NaiveBayes | NaiveBayesEnsemble) -> Domain:
    """The declared variables."""
    tables = model.probabilities if isinstance(model, NaiveBayes) else model.draws[0]
    return tables.network.domain


def target_and_prediction(model: Any, X: Any, y: Any, *, drop: bool = False) -> tuple[Reals, Reals, Flags]:
    """The target of each row, its prediction, and flags of the rows that a fit keeps, by the model's design.

    ``drop``: whether rows may be dropped where the design says so, which takes a private number of rows.
    """
    design: LinearDesign = model.design
    if design.on_missing == "drop" and not drop:
        design = _keeping(design)
    rows = rows_with_target(X, y, tuple(design.features), design.target, strict=design.strict)
    read, kept = judged_columns(rows, design)
    return read.pop(design.target), model.predict(read), kept


def _keeping(design: LinearDesign) -> LinearDesign:
    """The design without dropped rows; refused, whatever the rows hold, where a null would refuse a strict table."""
    kept = None
    with contextlib.suppress(NetworkError, DomainError):
        kept = replace(design, on_missing="error")
    if kept is None:
        raise DomainError(
            'the model drops rows with nulls, on_missing="drop", which makes their number private: judge it under '
            "add-remove, or declare what nulls count as"
        )
    return kept


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
    if y is None:
        raise DomainError("y is missing: the true class or value of each row")
    return column_of(y, NO_COLUMN)


def _class_codes(column: npt.NDArray[Any], classes: Categories) -> npt.NDArray[Any]:
    import pandas as pd

    with PublicWords(NO_COLUMN):
        frame = pd.DataFrame({"y": column})
    return encode(frame, Domain.of({"y": classes})).columns["y"]


def foreign_prediction(model: Any, X: Any, y: Any) -> tuple[Reals, Reals]:
    """The target of each row and what a scikit-learn regressor predicts."""
    column = _truth(y)
    with PublicWords("y must hold numbers"):
        truth = column.astype(np.float64)
    return truth, said_by(model.predict, X, truth.shape)


def said_by(method: Any, X: Any, shape: tuple[int, ...], *, numbers: bool = True) -> npt.NDArray[Any]:
    """What another library's model says of each row by itself; its own errors and warnings may repeat a value.

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
    rows = X.tolist() if isinstance(X, np.ndarray) or (hasattr(X, "iloc") and X.ndim == 1) else X
    if hasattr(rows, "iloc"):
        rows = list(zip(*(rows.iloc[:, i].tolist() for i in range(rows.shape[1])), strict=True))
    return [_key(row) for row in rows] if isinstance(rows, list) and len(rows) == many else range(many)


def _key(cell: Any) -> Any:
    if type(cell) in (list, tuple):
        return type(cell), *map(_key, cell)
    return (type(cell), repr(cell)) if type(cell) in (bool, int, float, str) else id(cell)


def judged_rows(model: Any, X: Any, y: Any, cap: PersonCap | None, group: RowGroup | None) -> tuple[Any, Any]:
    """The rows that a cap keeps, or those of a group, and their y: chosen by one reading of X, and judged alone.

    The choice among a person's rows depends on the key and on that person's number of rows, and on nobody else.
    """
    declared = declared_by(model)
    if not declared.names and is_query(X):
        raise DomainError("a model of another library predicts rows in memory, and a query is none; read it first")
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


def _named(X: Any) -> pd.DataFrame:
    if not is_table(X):
        raise DomainError(
            "X must be a table in memory, whose columns have names, where y is beside it; of a file, a query or a "
            "stream, which hold the target too, leave y out"
        )
    return table_frame(X)


def declared_by(model: Any) -> Columns:
    """The columns that a model of dpgraph has declared, the target last; none of another library's."""
    match model:
        case NaiveBayes() | NaiveBayesEnsemble():
            domain = domain_of(model)
            return Columns({name: domain[name] for name in (*model.features, model.target)}, domain.strict)
        case HiddenMarkovModel():
            return Columns(model.network.domain.variables, model.network.domain.strict)
        case _ if (design := design_of(model)) is not None:
            return columns_of(design)
    return Columns({})


def design_of(model: Any) -> LinearDesign | None:
    """What a regression of this package has declared; None of any other model."""
    found = getattr(model, "design", None)
    return found if isinstance(found, LinearDesign) and callable(getattr(model, "predict", None)) else None


def fitted_model(model: Any) -> Any:
    """The released model behind an estimator of dpgraph, or the model itself."""
    if type(model).__module__.startswith("dpgraph.estimators."):
        if getattr(model, "model_", None) is None:
            raise ReleaseError(f"this {type(model).__name__} is not fitted; fit it, or evaluate a loaded model")
        return model.model_
    return model
