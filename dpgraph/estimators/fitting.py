"""Input handling shared by fits and evaluations: rows to tables, without messages that repeat them; budgets, seeds."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.errors import PriorWarning
from dpgraph.privacy.records import Number, PrivacyUnit, ReleaseError, exact
from dpgraph.statistics.rows.arrow import foreign_engine
from dpgraph.statistics.rows.cells import cells_of
from dpgraph.statistics.rows.features import (
    PROBLEM,
    UNREADABLE,
    array_frame,
    declared_columns,
    is_unread,
    refuse_list,
    refuse_other_shapes,
    table_frame,
)
from dpgraph.structure.conversion import array_of, converted, is_query, is_table
from dpgraph.structure.domain import DomainError
from dpgraph.structure.tables import Family, NoisyCounts

if TYPE_CHECKING:
    import pandas as pd

#: What to do about columns that are not those of the fit, or stand in another order where nothing declares their names.
COLUMNS_OF_FIT = "Give the columns of the fit in its order: X[list(estimator.feature_names_in_)]."


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
    """X as a DataFrame whose columns are the features' names.

    Args:
        estimator: Whose features they are; scikit-learn keeps their number and names there.
        X: A pandas, polars or Arrow table, or an array, shape (rows, features).
        names: The names of an array's columns, from their number.
        reset: Whether to keep the features, as a fit does, or to compare them with those kept.
        public: Whether scikit-learn may judge the values, which its messages repeat; else the domain alone does.
        strict: Whether no row may refuse the table; a list of rows, which may be no rectangle, is refused then.
        declared: The columns of a table that count, whatever else it holds; None for all.

    Raises:
        DomainError: If private rows are neither a table nor such an array, a column is there twice, or the columns are
            not those of the fit; where ``declared`` names them they may stand in another order.
    """
    import pandas as pd

    if is_table(X):
        frame: Any = declared_columns(table_frame(X), declared)
        if not reset and declared is not None:
            frame = _in_order_of_fit(estimator, frame)
        try:
            validate_data(estimator, frame, reset=reset, skip_check_array=True)  # compares names, which are public
        except ValueError as error:
            if reset:
                raise
            raise DomainError(f"{str(error).rstrip()}\n{COLUMNS_OF_FIT}") from None
        return converted(lambda: frame.rename(columns=str), UNREADABLE)
    if public:
        array: Any = validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite=True)
        return pd.DataFrame({name: array[:, i] for i, name in enumerate(names(array.shape[1]))}).infer_objects()
    refuse_other_shapes(X)
    refuse_list(X, strict)
    array = _private_array(estimator, X, reset)
    return array_frame(array, names(array.shape[1]), strict=strict)


def _in_order_of_fit(estimator: Any, frame: pd.DataFrame) -> pd.DataFrame:
    """The columns in the order of the fit where they are the same."""
    known = list(getattr(estimator, "feature_names_in_", ()))
    there = converted(lambda: [str(name) for name in frame.columns], UNREADABLE)
    if there == known or sorted(there) != sorted(known):
        return frame
    return converted(lambda: frame.iloc[:, [there.index(name) for name in known]], UNREADABLE)


def stays_in_place(X: Any) -> bool:
    """Whether rows are read where they lie and never loaded: a path, or a table on a cluster; y then names a column."""
    return isinstance(X, str | Path) or foreign_engine(X) in ("pyspark", "dask")


def holds_target(X: Any, y: Any, *, declared: bool) -> bool:
    """Whether rows hold the target too, which y then names: those that are not in memory, and a table where y is text.

    Args:
        X: The rows.
        y: The target, or its name.
        declared: Whether what is declared has names, by which a table's columns are found.
    """
    return stays_in_place(X) or is_unread(X) or (declared and isinstance(y, str) and is_table(X))


def named_column(y: Any) -> str:
    """The column that y names.

    Raises:
        DomainError: If it is no name.
    """
    if not isinstance(y, str):
        raise DomainError("where X is a path, a query or a table on a cluster, y is the name of the target's column")
    return y


def keep_names(estimator: Any, names: Iterable[str]) -> None:
    """Keeps the features of a fit, as scikit-learn does of a table."""
    estimator.feature_names_in_ = np.array(list(names), dtype=object)
    estimator.n_features_in_ = len(estimator.feature_names_in_)


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
    known, shape = getattr(estimator, "n_features_in_", None), getattr(X, "shape", ())
    if not reset and known is not None and len(shape) == 2 and shape[1] != known:
        name = type(estimator).__name__
        raise DomainError(f"X has {shape[1]} features, but {name} is expecting {known} features as input")
    settings: Any = {"dtype": None, "ensure_all_finite": False, "ensure_min_samples": 0}
    return converted(lambda: validate_data(estimator, X, reset=reset, **settings), PROBLEM)


def column_of(y: Any, problem: str, *, strict: bool = False) -> Any:
    """y as an array of one axis, of anything; of a list, where no row may refuse the table, whatever its items are.

    Raises:
        DomainError: If it is none.
    """
    if is_table(y):
        raise DomainError(f"{problem}; of a table give its column")
    if isinstance(y, str):
        raise DomainError(f"{problem}; the name of a column is for a table or a file, with declared names")
    column = cells_of(y) if strict else array_of(y, problem)
    if column.ndim != 1:
        raise DomainError(f"{problem}; of an array with a second axis of length one give y.ravel()")
    return column


def check_target_name(y: Any, target: str) -> None:
    """Refuses a y that has another name than the target; that name may be a row's, and is not repeated.

    Raises:
        DomainError: Saying what to do.
    """
    name = name_of(y)
    if name is not None and name != target:
        raise DomainError(
            f"y has another name than the target, {target!r}: give the column {target!r}, or, if y is that, "
            f"y.rename({target!r})"
        )


def named_in_rows(X: Any, y: Any, target: str) -> bool:
    """Whether the target is among the columns of the rows to score: y names it, or is left out.

    Raises:
        DomainError: If y names something else, or is beside a query.
    """
    if is_query(X) and y is not None and not isinstance(y, str):
        raise DomainError("the rows of a query have no order, and y has one: leave y out, or read the query first")
    if isinstance(y, str) and y != target:
        raise DomainError(f"y names {y!r}, and the model predicts {target!r}")
    return y is None or isinstance(y, str)


def name_of(y: Any) -> str | None:
    """The name of a column as text, if it has one."""
    name = getattr(y, "name", None)
    return None if name is None or (isinstance(name, str) and not name) else converted(lambda: str(name), UNREADABLE)


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


def one_epsilon(mechanism: Any, epsilon: Number | None) -> None:
    """Refuses an epsilon beside a mechanism value with another one, which alone would be spent.

    Raises:
        ReleaseError: If ``epsilon`` is not the default, 1, and the mechanism's is another.
    """
    its = getattr(mechanism, "epsilon", None)
    if its is not None and epsilon is not None and exact(epsilon) not in (1, exact(its)):
        raise ReleaseError(f"epsilon is {epsilon} and the mechanism's is {its}, which is what is spent; leave one out")


def _drowned(noisy: NoisyCounts, table: Family, pooled: float) -> bool:
    """Whether noise moves half the rows or more, in sums of so many cells; expected as if Laplace.

    Where the number of rows is private it is the noisy table's sum, less three standard deviations of that.
    """
    cells, variance = noisy.network.cells(table), noisy.variance(table)
    rows = float(noisy.tables[table].sum()) - 3 * math.sqrt(cells * variance) if noisy.n is None else noisy.n
    return rows <= cells * math.sqrt(variance / 2 / pooled)


def warn_if_drowned(noisy: Any, *, stacklevel: int, pooled: float = 1.0) -> None:
    """Warns if the noise moves half or more of every table of two variables or more; by the release alone.

    Args:
        noisy: What was released; of anything but noisy counts nothing is said.
        stacklevel: Whose line the warning names.
        pooled: In sums of how many cells; a state of a Markov model is learned from those of all its cells.

    Warns:
        PriorWarning: If so.
    """
    if not isinstance(noisy, NoisyCounts):
        return
    wide = [table for table in noisy.tables if len(table) > 1]
    if wide and all(_drowned(noisy, table, pooled) for table in wide):
        summed = "" if pooled == 1 else ", summed over the cells of a state"
        warnings.warn(
            f"noise hides what the rows say: it is expected to move half or more of every released table{summed}, so "
            "predictions are about the prior's. Spend more epsilon, or declare fewer or coarser variables; "
            "privacy_cost says beforehand how large the noise will be",
            PriorWarning,
            stacklevel=stacklevel,
        )


def check_seed(random_state: Any) -> None:
    """Refuses a ``random_state`` that is none, before anything is charged; draws nothing from one.

    Raises:
        ReleaseError: If it is no seed, no ``RandomState`` and no ``Generator``.
    """
    try:
        if not isinstance(random_state, np.random.Generator):
            check_random_state(random_state)
    except (ValueError, TypeError):
        raise ReleaseError(
            "random_state is None, a whole number from 0 to 2**32 - 1, a numpy Generator or a RandomState; got "
            f"{type(random_state).__name__}"
        ) from None


def inference_seed(random_state: int | np.random.Generator | np.random.RandomState | None) -> int:
    """A seed for what follows the release; a fixed one where none is given, so that equal releases learn alike."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return 0 if random_state is None else int(check_random_state(random_state).randint(2**31))


def scored(metric: Callable[..., float], y: Any, predicted: Any, sample_weight: Any) -> float:
    """A score by scikit-learn, which may speak of the rows; nothing it says is passed on.

    Raises:
        DomainError: If there is no score.
    """
    problem = "X and y cannot be scored; y must be one column, as long as X and of the declared kind"
    return float(converted(lambda: metric(y, predicted, sample_weight=sample_weight), problem))
