"""Whose rows a fit is given: a column of the table, or one id a row beside it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from dpgraph.estimators.fitting import column_of, target_name
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.statistics.rows.features import UNREADABLE, table_frame
from dpgraph.statistics.rows.persons import KEY_BYTES, PersonCap
from dpgraph.structure.conversion import converted, is_table
from dpgraph.structure.domain import DomainError

if TYPE_CHECKING:
    import pandas as pd

#: The name of a column of persons, None for ids that had none, and its values, one id a row.
Persons = tuple[str | None, npt.NDArray[Any]]


def cap_for(name: Any, budget: Any, unit: PrivacyUnit | None, noise: Noise | None) -> PersonCap:
    """A cap at as many rows of a person as a fit's unit protects.

    Args:
        name: The column of persons.
        budget: What the fit charges, or None for one of its own, which protects ``unit``.
        unit: As an estimator's.
        noise: A source for tests and studies, which then decides the key as well; None for a fresh secret one.

    Raises:
        DomainError: If the name is none.
    """
    whom = getattr(budget, "unit", unit) or PrivacyUnit()
    rows = getattr(whom, "rows_per_person", 1)
    if not hasattr(noise, "bits"):
        return PersonCap(name, rows)
    source: Any = copy.deepcopy(noise)  # as the release does, so that a second fit draws what the first one drew
    return PersonCap(name, rows, source.bits(8 * KEY_BYTES).to_bytes(KEY_BYTES, "little"))


def without_persons(X: Any, person: Any) -> tuple[Any, Persons | None]:
    """The features alone, and whose rows they are.

    Args:
        X: A table or an array of features.
        person: A column of the table, one id a row, or None.

    Raises:
        DomainError: If the table has no such column, or ``person`` is no column.
    """
    if person is None:
        return X, None
    if not isinstance(person, str):
        return X, (None, column_of(person, "person must be one id for each row", strict=True))
    frame: Any = table_frame(X) if is_table(X) else None
    if frame is None or not converted(lambda: list(frame.columns).count(person) == 1, UNREADABLE):
        raise DomainError(f"person must name a column of X, or be one id a row; X has no column {person!r}")
    ids = converted(lambda: frame[person].to_numpy(dtype=object), UNREADABLE)
    return converted(lambda: frame.drop(columns=person), UNREADABLE), (person, ids)


def with_persons(rows: pd.DataFrame, persons: Persons | None) -> tuple[pd.DataFrame, str | None]:
    """The rows beside a column of persons, and its name; None where nobody is named.

    Raises:
        DomainError: If there is not one id for each row.
    """
    if persons is None:
        return rows, None
    import pandas as pd

    name, ids = persons
    if len(ids) != len(rows):
        raise DomainError("X and person must have the same number of rows")
    column = target_name("person", rows.columns) if name is None else name
    problem = "X and person cannot be put together"
    return converted(lambda: rows.assign(**{column: pd.Series(ids, rows.index, dtype=object)}), problem), column
