"""Input handling shared by fits and evaluations: rows to tables, without messages that repeat them; budgets, seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.records import PrivacyUnit, ReleaseError
from dpgraph.statistics.rows.arrow import foreign_engine
from dpgraph.statistics.rows.cells import cells_of
from dpgraph.structure.conversion import array_of, converted
from dpgraph.structure.domain import DomainError

if TYPE_CHECKING:
    import pandas as pd

#: What is said of an array that is none.
PROBLEM = "X must be a table or a two-dimensional array of the declared features"

#: What is said of a table whose library fails.
UNREADABLE = "the columns of X cannot be read"


def feature_frame(
    estimator: Any, X: Any, names: Callable[[int], list[str]], *, reset: bool, public: bool, strict: bool = False
) -> pd.DataFrame:
    """X as a DataFrame whose columns are the features' names.

    Args:
        estimator: Whose features they are; scikit-learn keeps their number and names there.
        X: A pandas, polars or Arrow table, or an array, shape (rows, features).
        names: The names of an array's columns, from their number.
        reset: Whether to keep the features, as a fit does, or to compare them with those kept.
        public: Whether scikit-learn may judge the values, which its messages repeat; else the domain alone does.
        strict: Whether no row may refuse the table; a list of rows, which may be no rectangle, is refused then.

    Raises:
        DomainError: If private rows are neither a table nor such an array.
    """
    import pandas as pd

    if is_table(X):
        frame: Any = table_frame(X)
        validate_data(estimator, frame, reset=reset, skip_check_array=True)  # compares names, which are public
        return converted(lambda: frame.rename(columns=str), UNREADABLE)
    if public:
        array: Any = validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite=True)
        return pd.DataFrame({name: array[:, i] for i, name in enumerate(names(array.shape[1]))}).infer_objects()
    refuse_list(X, strict)
    array = _private_array(estimator, X, reset)
    return array_frame(array, names(array.shape[1]), strict=strict)


def stays_in_place(X: Any) -> bool:
    """Whether rows are read where they lie and never loaded: a path, or a table on a cluster; y then names a column."""
    return isinstance(X, str | Path) or foreign_engine(X) in ("pyspark", "dask")


def named_column(y: Any) -> str:
    """The column that y names.

    Raises:
        DomainError: If it is no name.
    """
    if not isinstance(y, str):
        raise DomainError("where X is a path or a table on a cluster, y is the name of the target's column")
    return y


def keep_names(estimator: Any, names: Iterable[str]) -> None:
    """Keeps the features of a fit, as scikit-learn does of a table."""
    estimator.feature_names_in_ = np.array(list(names), dtype=object)
    estimator.n_features_in_ = len(estimator.feature_names_in_)


def is_table(X: Any) -> bool:
    """Whether X is a pandas, polars or Arrow table."""
    return hasattr(X, "columns") and hasattr(X, "__arrow_c_stream__")


def table_frame(X: Any) -> pd.DataFrame:
    """A table as a DataFrame.

    Raises:
        DomainError: If its library cannot hand out the columns.
    """
    return converted(lambda: _pandas(X), UNREADABLE)


def array_frame(array: npt.NDArray[Any], names: Sequence[str], *, strict: bool) -> pd.DataFrame:
    """The columns of an array by name."""
    columns = {name: array[:, i] for i, name in enumerate(names)}
    return converted(lambda: _typed(columns, strict), PROBLEM)


def refuse_list(X: Any, strict: bool) -> None:
    """Refuses a list of rows, whatever it holds, where no row may refuse the table.

    Raises:
        DomainError: If X is one.
    """
    if strict and isinstance(X, list | tuple):
        raise DomainError("a strict declaration takes X as a table or an array: a list of rows may be no rectangle")


def _pandas(X: Any) -> pd.DataFrame:
    """A table as a DataFrame."""
    import pandas as pd

    if isinstance(X, pd.DataFrame):
        return X
    columns = getattr(X, "column_names", X.columns)  # an Arrow table's columns are its data
    return pd.DataFrame({str(name): X[name].to_numpy() for name in columns})


def _typed(columns: dict[str, Any], strict: bool) -> pd.DataFrame:
    """Columns of objects by what they hold; as they are where that may not refuse a table."""
    import pandas as pd

    if strict:
        return pd.DataFrame({name: pd.Series(column, dtype=column.dtype) for name, column in columns.items()})
    return pd.DataFrame(columns).infer_objects()


def with_target(frame: pd.DataFrame, name: str, values: npt.NDArray[Any]) -> pd.DataFrame:
    """The features beside the target, objects as they are.

    Raises:
        DomainError: If they are not of one length.
    """
    import pandas as pd

    kind = object if values.dtype == object else None
    problem = "X and y cannot be put together"
    return converted(lambda: frame.assign(**{name: pd.Series(values, frame.index, dtype=kind)}), problem)


def _private_array(estimator: Any, X: Any, reset: bool) -> Any:
    """X as a two-dimensional array of anything; a refusal repeats no row."""
    settings: Any = {"dtype": None, "ensure_all_finite": False, "ensure_min_samples": 0}
    return converted(lambda: validate_data(estimator, X, reset=reset, **settings), PROBLEM)


def column_of(y: Any, problem: str, *, strict: bool = False) -> Any:
    """y as an array of one axis, of anything; of a list, where no row may refuse the table, whatever its items are.

    Raises:
        DomainError: If it is none.
    """
    column = cells_of(y) if strict else array_of(y, problem)
    if column.ndim != 1:
        raise DomainError(problem)
    return column


def target_name(name: object, features: Iterable[str]) -> str:
    """The target's own name where it has one that no feature has, else "target", with underscores if need be."""
    taken = set(features)
    free = name if isinstance(name, str) and name and name not in taken else "target"
    while free in taken:
        free += "_"
    return free


def fit_budget(mechanism: Any, budget: Budget | None, unit: PrivacyUnit | None) -> Budget:
    """The caller's budget, or one of exactly what the mechanism costs.

    Raises:
        ReleaseError: If the budget protects another unit than the one asked for.
    """
    if budget is None:
        return Budget(mechanism.epsilon, getattr(mechanism, "delta", 0), unit=unit)
    if unit is not None and unit != budget.unit:
        raise ReleaseError(f"unit ({unit}) differs from the budget's ({budget.unit}); leave unit out")
    return budget


def inference_seed(random_state: int | np.random.RandomState | None) -> int:
    """A seed for what follows the release; a fixed one where none is given, so that equal releases learn alike."""
    return 0 if random_state is None else int(check_random_state(random_state).randint(2**31))


def scored(metric: Callable[..., float], y: Any, predicted: Any, sample_weight: Any) -> float:
    """A score by scikit-learn, which may speak of the rows; nothing it says is passed on.

    Raises:
        DomainError: If there is no score.
    """
    problem = "X and y cannot be scored; y must be one column, as long as X and of the declared kind"
    return float(converted(lambda: metric(y, predicted, sample_weight=sample_weight), problem))
