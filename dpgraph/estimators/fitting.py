"""A private fit: rows and a target become one table, and an estimator is fitted as a whole or not at all.

No message of the reading repeats a private value. From before the charge until everything is learned an estimator is
not fitted, so an interruption leaves no mixture of two fits. A fit that fails before its charge restores the earlier
fit. One that is interrupted after its charge keeps the release in ``unfinished_release``, to learn from for free.
"""

from __future__ import annotations

import copy
import math
import os
import sys
import threading
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils import assert_all_finite, check_random_state, get_tags
from sklearn.utils.validation import column_or_1d, validate_data

from dpgraph.privacy.accounting import Budget, budget_of, cost
from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import OwnBudgetWarning, PriorWarning, PrivacyLeakWarning, ReleaseError, SplitWarning
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Number, PrivacyCost, PrivacyUnit, exact
from dpgraph.privacy.release import release
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
    with_column,
)
from dpgraph.statistics.rows.persons import KEY_BYTES, PersonCap
from dpgraph.structure.conversion import PublicWords, array_of, is_query, is_table
from dpgraph.structure.domain import DomainError
from dpgraph.structure.tables import Family, NoisyCounts

#: Advice about columns that are not those of the fit, or stand in another order where nothing declares their names.
COLUMNS_OF_FIT = "Give the columns of the fit in its order: X[list(estimator.feature_names_in_)]."
#: The refusal of a y that is not a column.
NO_COLUMN = "y must be one column, a class or a number for each row"


@dataclass(frozen=True, eq=False, repr=False)
class Given:
    """Rows of a fit in memory: features by name, the target's values, and each row's person, if any. Sensitive."""

    frame: DataFrame
    values: npt.NDArray[Any]
    persons: npt.NDArray[Any] | None
    person: str | None

    def rows(self, target: str) -> tuple[DataFrame, str | None]:
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
    X, name, ids = without_persons(X, person)
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
) -> DataFrame:
    """X as a DataFrame whose columns are the features' names, ``names`` giving those of an array.

    ``reset`` keeps the features, as a fit does; else they are compared with the kept ones. ``public``: scikit-learn may
    judge the values, which its messages repeat. ``declared``: the columns of a table that count, in any order.
    """
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
        return data_frame({name: array[:, i] for i, name in enumerate(names(array.shape[1]))}).infer_objects()
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


def without_persons(X: Any, person: Any) -> tuple[Any, str | None, Any]:
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


#: The warning of fits on different rows.
ADVICE = (
    "this budget paid for a fit on other rows before (the same rows in another table or array count as other, as no "
    "content is compared). The charges add up, which covers rows that were chosen without "
    "looking at rows. Where rows decide, or their places do, the loss is larger: five fits charged 5 lost 12 with "
    "StratifiedKFold and 32 shuffled under replace, 12 with KFold and 62 shuffled under add-remove, on 40 rows; ten "
    "bootstrap fits charged 10 lost 17. Use dpgraph.cross_validate, whose price is exact, and dpgraph.evaluate "
    "for scores of held-out rows, which are private too; see docs/cross-validation.md"
)


class Fit:
    """A fit in a ``with`` block: ``new`` is a copy of the estimator without fitted attributes, which receives them.

    When the block ends they become the estimator's. When it fails before a charge, the earlier ones come back.
    """

    def __init__(self, estimator: Any) -> None:
        self._estimator, self._old = estimator, _fitted(estimator)
        self._charges: list[tuple[Budget, int]] = []
        self.new: Any = copy.copy(estimator)
        _forget(self.new)

    def __enter__(self) -> Fit:
        try:
            _forget(self._estimator)
        except BaseException:
            vars(self._estimator).update(self._old)
            raise
        return self

    def release(self, statistics: Any, mechanism: Any, rows: Any, budget: Budget | None = None) -> Any:
        """Charges the budget and draws, once; sets ``release_`` and ``privacy_cost_``.

        ``rows`` are those of the caller of ``fit``, for the warning of other rows.
        """
        new = self.new
        budget = fit_budget(mechanism, new.budget, new.unit) if budget is None else budget
        said = statistics.description
        self.paying(budget, said.parents if hasattr(said, "parents") else said.names, rows)
        return self.keep(release(statistics, mechanism, budget=budget, noise=copy.deepcopy(new.noise)))

    def paying(self, budget: Any, names: Iterable[str], rows: Any) -> None:
        """Warns of what a charge of this budget for these variables would repeat; the charge itself comes next."""
        warn_of_other_rows(budget, rows)
        _warn_of_learned_steps()
        if self.new.budget is None and self.new.noise is None:
            _warn_of_own_budgets(frozenset(names), PrivacyCost(budget.epsilon, budget.delta))
        self._charges.append((budget, _charges(budget)))

    def keep(self, released: Any) -> Any:
        """Sets ``release_`` and ``privacy_cost_``, and what remains of a fit that is interrupted from here on."""
        vars(self._estimator)["unfinished_release"] = self.new.release_ = released
        self.new.privacy_cost_ = cost(released)
        return released

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            vars(self._estimator).update(_fitted(self.new))
            vars(self._estimator).pop("unfinished_release", None)
        elif all(_charges(budget) == before for budget, before in self._charges):
            vars(self._estimator).update(self._old)


def _fitted(estimator: Any) -> dict[str, Any]:
    """The attributes of a fit: names that end in an underscore, as in scikit-learn's ``check_is_fitted``."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("_")}


def _forget(estimator: Any) -> None:
    for name in _fitted(estimator):
        del vars(estimator)[name]


def _charges(budget: Any) -> int:
    """The number of charges of a budget; the release refuses anything else."""
    return len(getattr(budget, "events", ()))


def fit_budget(mechanism: Any, budget: Budget | None, unit: PrivacyUnit | None) -> Budget:
    """The caller's budget, or one of exactly the mechanism's cost."""
    epsilon, delta = (getattr(mechanism, name, Fraction(0)) for name in ("epsilon", "delta"))
    return budget_of(budget, unit, epsilon, delta)


def one_epsilon(mechanism: Any, epsilon: Number | None) -> None:
    """Refuses an epsilon, other than the default of 1, that differs from the mechanism value's own."""
    its = getattr(mechanism, "epsilon", None)
    if its is not None and epsilon is not None and exact(epsilon) not in (1, exact(its)):
        raise ReleaseError(f"epsilon={epsilon} differs from the mechanism's own epsilon, {its}: leave one out")


def cap_for(name: Any, budget: Any, unit: PrivacyUnit | None, noise: Noise | None) -> PersonCap | None:
    """A cap at as many rows of a person as the unit protects, by a fresh key; None without a column of persons.

    A noise source for tests and studies decides the key, too: from a copy, so that a second fit draws the same.
    """
    if name is None:
        return None
    whom = getattr(budget, "unit", unit) or PrivacyUnit()
    rows = getattr(whom, "rows_per_person", 1)
    if not hasattr(noise, "bits"):
        return PersonCap(name, rows)
    source: Any = copy.deepcopy(noise)
    return PersonCap(name, rows, source.bits(8 * KEY_BYTES).to_bytes(KEY_BYTES, "little"))


_lock = threading.Lock()
#: For each budget a test whether rows are those of its first fit, and the budgets whose users were warned.
_first_rows: weakref.WeakKeyDictionary[Budget, Callable[[Any], bool]] = weakref.WeakKeyDictionary()
_warned: weakref.WeakSet[Budget] = weakref.WeakSet()


def warn_of_other_rows(budget: Any, rows: Any) -> None:
    """Warns, once for each budget, if it already paid for a fit on other rows: splitters lose more than the charge.

    A splitter such as ``StratifiedKFold`` looks at rows, so one changed row moves *others* between training sets. Rows
    are compared by identity, never by content: the same object, a DataFrame that shares its index, or the same path.
    Lists have no identity that can be kept without the rows, and count as other rows every time.
    """
    if not isinstance(budget, Budget):
        return
    with _lock:
        if budget not in _first_rows or not budget.spent:
            _first_rows[budget] = _identity(rows)
            _warned.discard(budget)
            return
        if budget in _warned or _first_rows[budget](rows):
            return
        _warned.add(budget)
    warnings.warn(ADVICE, SplitWarning, stacklevel=5)  # past Fit.paying, what pays and fit


#: By the names of the variables, the number of fits with budgets of their own and the sum of their costs.
_alone: defaultdict[frozenset[str], tuple[int, PrivacyCost]] = defaultdict(lambda: (0, PrivacyCost(Fraction(0))))


def _warn_of_own_budgets(names: frozenset[str], price: PrivacyCost) -> None:
    """Warns at the second, fourth, eighth ... fit of the same variables, each with a budget of its own.

    By public facts alone: that a fit happened, its variables' names and its price. Rows are not compared, as every fold
    of scikit-learn's is a table of its own.
    """
    fits, total = _alone[names]
    fits, total = fits + 1, total + price
    if fits > 1 and fits.bit_count() == 1:
        warnings.warn(
            f"fit number {fits} of these variables in this process with a budget of its own: the charges add to "
            f"{total} so far, if the rows are of the same persons. cross_val_score and GridSearchCV fit for "
            "each fold and candidate; dpgraph.cross_validate has one price. Or give all fits one "
            "budget=dpgraph.Budget(...), which adds, refuses, and ends this warning",
            OwnBudgetWarning,
            stacklevel=5,
        )
    with _lock:  # fits in other threads may have been counted since
        before, spent = _alone[names]
        _alone[names] = before + 1, spent + price


def _warn_of_learned_steps() -> None:
    """Warns if a scikit-learn pipeline calls this fit, and an earlier step of it learns from rows, without noise.

    The array's values may not decide a warning, so the pipeline is found among the callers. Encoders with declared
    categories learn nothing.
    """
    frame = sys._getframe()
    while frame is not None:
        pipeline = frame.f_locals.get("self") if frame.f_code.co_name == "fit" else None
        for name, step in pipeline.steps[:-1] if isinstance(pipeline, Pipeline) else ():
            if _learns(step):
                warnings.warn(
                    f"the step {name!r} before this estimator is fitted to the rows without noise: it is not "
                    "differentially private, and no budget counts it. Declare edges and levels instead: "
                    "Bins([0, 20, 40]) for a KBinsDiscretizer, categories=[...] for an encoder, bounds_X for a scaler. "
                    "A step that learns nothing, such as FunctionTransformer, is fine",
                    PrivacyLeakWarning,
                    stacklevel=5,
                )
        frame = frame.f_back


def _learns(step: Any) -> bool:
    """True if a step of a pipeline, or a transformer within the step, learns from rows."""
    if not isinstance(step, BaseEstimator):
        return False
    parts = [part for part in step.get_params().values() if isinstance(part, TransformerMixin)] or [step]
    return any(get_tags(one).requires_fit and not isinstance(getattr(one, "categories", None), list) for one in parts)


def _identity(rows: Any) -> Callable[[Any], bool]:
    """A test whether something else is the same rows; it keeps none of them alive."""
    if isinstance(rows, str | os.PathLike):
        return lambda other: isinstance(other, str | os.PathLike) and str(other) == str(rows)
    if (token := _index_token(rows)) is not None:
        return lambda other: _index_token(other) is token
    try:
        reference = weakref.ref(rows)
    except TypeError:
        return lambda _: False
    return lambda other: reference() is other


def _index_token(rows: Any) -> object | None:
    """The empty object that pandas shares between an index and its views, those of chosen columns among them."""
    return getattr(rows.index, "_id", None) if hasattr(rows, "columns") and hasattr(rows, "index") else None


def warn_if_drowned(noisy: Any, *, pooled: float = 1.0, stacklevel: int = 3) -> None:
    """Warns if noise moves half or more of every table of two variables or more; by the release alone.

    ``pooled`` cells are summed for a parameter: a state of a Markov model is learned from all its cells.
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


def _drowned(noisy: NoisyCounts, table: Family, pooled: float) -> bool:
    """True if noise is expected to move half the rows or more, in sums of so many cells; computed as if Laplace.

    A private number of rows is estimated by the noisy table's sum, less three standard deviations of it.
    """
    cells, variance = noisy.network.cells(table), noisy.variance(table)
    rows = float(noisy.tables[table].sum()) - 3 * math.sqrt(cells * variance) if noisy.n is None else noisy.n
    return rows <= cells * math.sqrt(variance / 2 / pooled)


def check_learning(inference: Any, random_state: Any) -> None:
    """Refuses settings of the inference before anything is charged; draws nothing from ``random_state``."""
    check_choice("inference", inference, ["noise-aware", "plug-in"])
    try:
        if not isinstance(random_state, np.random.Generator):
            check_random_state(random_state)
    except (ValueError, TypeError):
        raise ReleaseError(
            "random_state is None, a whole number from 0 to 2**32 - 1, a numpy Generator or a RandomState; got "
            f"{type(random_state).__name__}"
        ) from None


def inference_seed(random_state: int | np.random.Generator | np.random.RandomState | None) -> int:
    """A seed for the inference after the release; a fixed one for None, so that equal releases learn alike."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    return 0 if random_state is None else int(check_random_state(random_state).randint(2**31))


def scored(metric: Callable[..., float], y: Any, predicted: Any, sample_weight: Any) -> float:
    """A score by scikit-learn, whose own messages may speak of the rows and are replaced."""
    with PublicWords("X and y cannot be scored; y must be one column, as long as X and of the declared kind"):
        return float(metric(y, predicted, sample_weight=sample_weight))
