"""What fits have in common: rows read without repeating them, the budget of one fit, and a seed for what follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.records import PrivacyUnit, ReleaseError
from dpgraph.structure.domain import DomainError

if TYPE_CHECKING:
    import pandas as pd


def feature_frame(
    estimator: Any, X: Any, names: Callable[[int], list[str]], *, reset: bool, public: bool
) -> pd.DataFrame:
    """X as a DataFrame whose columns are the features' names.

    Args:
        estimator: Whose features they are; scikit-learn keeps their number and names there.
        X: A pandas, polars or Arrow table, or an array, shape (rows, features).
        names: The names of an array's columns, from their number.
        reset: Whether to keep the features, as a fit does, or to compare them with those kept.
        public: Whether scikit-learn may judge the values, which its messages repeat; else the domain alone does.

    Raises:
        DomainError: If private rows are neither a table nor such an array.
    """
    import pandas as pd

    if hasattr(X, "columns") and hasattr(X, "__arrow_c_stream__"):
        frame: Any = X
        if not isinstance(X, pd.DataFrame):
            columns = getattr(X, "column_names", X.columns)  # an Arrow table's columns are its data
            frame = pd.DataFrame({str(name): X[name].to_numpy() for name in columns})
        validate_data(estimator, frame, reset=reset, skip_check_array=True)
        return frame.rename(columns=str)
    array = _public_array(estimator, X, reset) if public else _private_array(estimator, X, reset)
    return pd.DataFrame({name: array[:, i] for i, name in enumerate(names(array.shape[1]))}).infer_objects()


def _public_array(estimator: Any, X: Any, reset: bool) -> Any:
    """X as a two-dimensional array of finite numbers."""
    return validate_data(estimator, X, reset=reset, dtype="numeric", ensure_all_finite=True)


def _private_array(estimator: Any, X: Any, reset: bool) -> Any:
    """X as a two-dimensional array of anything; a refusal repeats no row."""
    try:
        return validate_data(estimator, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=0)
    except (ValueError, TypeError) as error:
        failure = type(error).__name__
    raise DomainError(f"X must be a table or a two-dimensional array of the declared features ({failure})")


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
