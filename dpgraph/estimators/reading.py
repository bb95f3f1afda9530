"""Input of estimators: features, a target and persons beside each other become one table, or stay in place.

The one border between scikit-learn's checks and the reader of rows; no message repeats a private value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import assert_all_finite
from sklearn.utils.validation import column_or_1d, validate_data

from dpgraph.statistics.rows.arrow import foreign_engine
from dpgraph.statistics.rows.batches import cells_of
from dpgraph.statistics.rows.features import (
    PROBLEM,
    UNREADABLE,
    array_frame,
    declared_columns,
    is_unread,
    named_array,
    refuse_list,
    refuse_other_shapes,
    table_frame,
)
from dpgraph.structure.conversion import PublicWords, array_of, is_query, is_table
from dpgraph.structure.domain import DomainError

if TYPE_CHECKING:
    import pandas as pd

#: Advice about columns that are not those of the fit, or stand in another order where nothing declares their names.
COLUMNS_OF_FIT = "Give the columns of the fit in its order: X[list(estimator.feature_names_in_)]."
#: The refusal of a y that is not a column.
NO_COLUMN = "y must be one column, a class or a number for each row"


@dataclass(frozen=True, eq=False, repr=False)
class Given:
    """Rows of a fit in memory: features by name, the target's values, and each row's person, if any. Sensitive."""

    frame: pd.DataFrame
    values: npt.NDArray[Any]
    persons: npt.NDArray[Any] | None
    person: str | None

    def rows(self, target: str) -> tuple[pd.DataFrame, str | None]:
        """One table of features, target and persons, and the name of the column of persons, or None."""
        rows = with_column(self.frame, target, self.values, "X and y cannot be put together")
        if self.persons is None:
            return rows, None
        if len(self.persons) != len(rows):
            raise DomainError("X and person must have the same number of rows")
        column = target_name("person", rows.columns) if self.person is None else self.person
        return with_column(rows, column, self.persons, "X and person cannot be put together"), column


def given_rows(
    estimator: Any, X: Any, y: Any, person: Any, names: Callable[[int], list[str]], *, public_y: bool, **settings: Any
) -> Given:
    """Reads X, y and persons of a fit; ``settings`` and ``names`` are those of ``feature_frame``."""
    X, name, ids = _without_persons(X, person)
    frame = feature_frame(estimator, X, names, reset=True, **settings)
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None")
    values = _public_column(y) if public_y else column_of(y, NO_COLUMN, strict=settings["strict"])
    if len(values) != len(frame):
        raise DomainError("X and y must have the same number of rows")
    return Given(frame, values, ids, name)


def feature_frame(
    estimator: Any,
    X: Any,
    names: Callable[[int], list[str]],
    *,
    reset: bool,
    public: bool,
    strict: bool = False,
    declared: Collection[str] | None = None,
) -> pd.DataFrame:
    """X as a DataFrame whose columns are the features' names, ``names`` giving those of an array.

    ``reset`` keeps the features, as a fit does; else they are compared with the kept ones. ``public``: scikit-learn may
    judge the values, which its messages repeat. ``declared``: the columns of a table that count, in any order.
    """
    import pandas as pd

    if is_table(X):
        like = () if reset or declared is None else getattr(estimator, "feature_names_in_", ())
        frame: Any = declared_columns(table_frame(X), declared, list(like))
        try:
            validate_data(estimator, frame, reset=reset, skip_check_array=True)  # compares names, which are public
        except ValueError as error:
            if reset:
                raise
            raise DomainError(f"{str(error).rstrip()}\n{COLUMNS_OF_FIT}") from None
        with PublicWords(UNREADABLE):
            return frame.rename(columns=str)
    if public:
        array: Any = validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite=True)
        return pd.DataFrame({name: array[:, i] for i, name in enumerate(names(array.shape[1]))}).infer_objects()
    refuse_other_shapes(X)
    refuse_list(X, strict)
    known, shape = getattr(estimator, "n_features_in_", None), getattr(X, "shape", ())
    if not reset and known is not None and len(shape) == 2 and shape[1] != known:
        name = type(estimator).__name__
        raise DomainError(f"X has {shape[1]} features, but {name} is expecting {known} features as input")
    settings: Any = {"dtype": None, "ensure_all_finite": False, "ensure_min_samples": 0}
    with PublicWords(PROBLEM):
        array = validate_data(estimator, X, reset=reset, **settings)
    return array_frame(array, names(array.shape[1]), strict=strict)


def _without_persons(X: Any, person: Any) -> tuple[Any, str | None, Any]:
    """The features alone, the name of the column of persons if X has one, and one id a row, or None."""
    if person is None:
        return X, None, None
    if not isinstance(person, str):
        return X, None, column_of(person, "person must be one id for each row", strict=True)
    frame: Any = table_frame(X) if is_table(X) else None
    with PublicWords(UNREADABLE):
        if frame is not None and list(frame.columns).count(person) == 1:
            return frame.drop(columns=person), person, frame[person].to_numpy(dtype=object)
    raise DomainError(f"person must name a column of X, or be one id a row; X has no column {person!r}")


def with_column(frame: pd.DataFrame, name: str, values: npt.NDArray[Any], problem: str) -> pd.DataFrame:
    """A table with one more column, its objects as they are."""
    import pandas as pd

    kind = object if values.dtype == object else None
    with PublicWords(problem):
        return frame.assign(**{name: pd.Series(values, frame.index, dtype=kind)})


def rows_with_target(X: Any, y: Any, features: tuple[str, ...], target: str, *, strict: bool = False) -> Any:
    """Rows to judge, which hold the target beside the declared features: X itself where y is None."""
    if y is None:
        return X
    if is_unread(X):
        raise DomainError("the rows of a file, a query or a stream hold the target too; leave y out")
    if is_table(X):
        frame = declared_columns(table_frame(X), features, features)
        with PublicWords(UNREADABLE):
            absent = [name for name in features if name not in frame.columns]
            frame = frame.reset_index(drop=True)
        if absent:
            raise DomainError(f"X has no column {', '.join(map(repr, absent))}")
    else:
        frame = named_array(X, features, strict)
    values = column_of(y, NO_COLUMN, strict=strict)
    if len(frame) != len(values):
        raise DomainError("X and y must have the same number of rows")
    return with_column(frame, target, values, "X and y cannot be put together")


def stays_in_place(X: Any) -> bool:
    """True for rows that are never loaded: a path, or a table on a cluster; y then names a column."""
    return isinstance(X, str | Path) or foreign_engine(X) in ("pyspark", "dask")


def holds_target(X: Any, y: Any, *, declared: bool) -> bool:
    """True if the rows of a fit hold the target, which y then names: rows outside memory, or a table where y is text.

    ``declared``: the declaration has names, by which a table's columns are found.
    """
    return stays_in_place(X) or is_unread(X) or (declared and isinstance(y, str) and is_table(X))


def named_column(y: Any) -> str:
    """The name of the target's column among the rows."""
    if not isinstance(y, str):
        raise DomainError("where X is a path, a query or a table on a cluster, y is the name of the target's column")
    return y


def named_in_rows(X: Any, y: Any, target: str) -> bool:
    """True if the target is among the columns of the rows to score: y names it, or is left out."""
    if is_query(X) and y is not None and not isinstance(y, str):
        raise DomainError("the rows of a query have no order, and y has one: leave y out, or read the query first")
    if isinstance(y, str) and y != target:
        raise DomainError(f"y names {y!r}, and the model predicts {target!r}")
    return y is None or isinstance(y, str)


def keep_names(estimator: Any, names: Iterable[str]) -> None:
    """Keeps the features of a fit, as scikit-learn does of a table."""
    estimator.feature_names_in_ = np.array(list(names), dtype=object)
    estimator.n_features_in_ = len(estimator.feature_names_in_)


def column_of(y: Any, problem: str = NO_COLUMN, *, strict: bool = False) -> npt.NDArray[Any]:
    """y as an array of one axis; where no row may refuse the table, a list becomes an array of objects."""
    if is_table(y):
        raise DomainError(f"{problem}; of a table give its column")
    if isinstance(y, str):
        raise DomainError(f"{problem}; the name of a column is for a table or a file, with declared names")
    column = cells_of(y) if strict else array_of(y, problem)
    if column.ndim != 1:
        raise DomainError(f"{problem}; of an array with a second axis of length one give y.ravel()")
    return column


def _public_column(y: Any) -> npt.NDArray[Any]:
    """y judged by scikit-learn, whose messages speak of its values: for public rows only."""
    import pandas as pd

    values = column_or_1d(y, warn=True)
    if pd.isna(np.asarray(values, dtype=object)).any():
        raise DomainError("y holds nulls")
    assert_all_finite(values, input_name="y")
    return values


def name_of(y: Any) -> str | None:
    """The name of a column as text, if it has one."""
    name = getattr(y, "name", None)
    with PublicWords(UNREADABLE):
        return None if name is None or (isinstance(name, str) and not name) else str(name)


def check_target_name(y: Any, target: str) -> None:
    """Refuses a y that has another name than the target; that name may be a row's, and is not repeated."""
    name = name_of(y)
    if name is not None and name != target:
        raise DomainError(
            f"y has another name than the target, {target!r}: give the column {target!r}, or, if y is that, "
            f"y.rename({target!r})"
        )


def target_name(name: object, features: Iterable[str]) -> str:
    """The target's own name where no feature has it, else "target", with underscores if need be."""
    taken = set(features)
    free = name if isinstance(name, str) and name and name not in taken else "target"
    while free in taken:
        free += "_"
    return free
