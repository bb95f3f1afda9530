"""Rows that hold the target beside the features, read by a model's own declarations; sensitive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.estimators.fitting import column_of, with_target
from dpgraph.models.naive_bayes import NaiveBayes, NaiveBayesEnsemble
from dpgraph.statistics.rows.codes import encode
from dpgraph.statistics.rows.features import (
    UNREADABLE,
    declared_columns,
    is_unread,
    named_array,
    table_frame,
)
from dpgraph.structure.conversion import converted, is_table
from dpgraph.structure.domain import Domain, DomainError
from dpgraph.structure.frozen import FrozenMap

if TYPE_CHECKING:
    import pandas as pd

Reals = npt.NDArray[np.float64]

#: What is said of a y that is no column.
NO_COLUMN = "y must be one column, a class or a number for each row"
#: What is said of a y beside rows that are not in memory.
HOLDS_TARGET = "the rows of a file, a query or a stream hold the target too; leave y out"


def class_probabilities(model: NaiveBayes | NaiveBayesEnsemble, X: Any, y: Any) -> tuple[npt.NDArray[Any], Reals]:
    """The code of each row's class, and P(class), by the model's declared domain."""
    domain = domain_of(model).restrict((*model.features, model.target))
    codes = encode(rows_with_target(X, y, model.features, model.target, strict=domain.strict), domain).columns
    return codes[model.target], model.predict_proba(FrozenMap((name, codes[name]) for name in model.features))


def domain_of(model: NaiveBayes | NaiveBayesEnsemble) -> Domain:
    """The declared variables."""
    tables = model.probabilities if isinstance(model, NaiveBayes) else model.draws[0]
    return tables.network.domain


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
    if is_unread(X):
        raise DomainError(HOLDS_TARGET)
    if is_table(X):
        frame = declared_columns(table_frame(X), names)
        absent = converted(lambda: [name for name in names if name not in frame.columns], UNREADABLE)
        if absent:
            raise DomainError(f"X has no column {', '.join(map(repr, absent))}")
        return converted(lambda: frame.loc[:, list(names)].reset_index(drop=True), UNREADABLE)
    return named_array(X, names, strict)
