"""Records in memory, or one column of rows, to the sums of a family's sufficient statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.statistics.column_sums import column_moments
from dpgraph.statistics.moments import Moments, check_support, sums_of_records
from dpgraph.statistics.rows.cells import cells_of, real_number
from dpgraph.statistics.rows.persons import PersonCap
from dpgraph.structure.conversion import array_of, converted
from dpgraph.structure.domain import Domain, DomainError, Level
from dpgraph.structure.expfam import ExponentialFamily, Multinomial
from dpgraph.structure.moments import MomentDescription

Integers = npt.NDArray[np.int64]


def sufficient_statistics(
    x: Any,
    family: ExponentialFamily,
    *,
    bounds: tuple[float, float] | None = None,
    strict: bool = False,
    column: str | None = None,
    where: Mapping[str, Level] | None = None,
    domain: Domain | None = None,
    person: str | PersonCap | None = None,
    rows_per_person: int = 1,
    engine: Any = None,
    progress: bool = False,
) -> Moments:
    """Sums the sufficient statistics of records, in whole steps of a public grid.

    Args:
        x: The records, one axis: numbers, or the declared levels of a ``Multinomial``. With ``column`` rows as
            ``count`` takes them, but for ``Codes``: tables, paths, and tables on a cluster, whose workers sum.
        family: One of ``dg.expfam``.
        bounds: Public (low, high) of an unbounded family; a record outside contributes 0 to every statistic
            (Bernstein and Sheldon 2018, section 3.3). Bounds chosen by looking at the records leak: choose them before,
            or by ``PrivateQuantile``.
        strict: Whether no record may refuse the others: one that is missing, no number or outside the support then
            contributes 0 as well. For families with bounds; for others ``count`` a strict domain.
        column: The column of the rows that holds the records.
        where: Sums only the rows in which each of these variables of ``domain`` has the level given; with ``column``.
        domain: Declares the variables of ``where``.
        person: The column that says whose row it is, as for ``count``; with ``column``, and not with ``where``.
        rows_per_person: As for ``count``.
        engine: As for ``count``.
        progress: As for ``count``.

    Returns:
        Sensitive moments; they add.

    Raises:
        DomainError: If bounds are missing, superfluous or wrong, or a record is missing, not finite, or outside the
            family's support. Nothing is summed then. That there is such a record tells of it, unless ``strict``.

    >>> from dpgraph.structure.expfam import Exponential
    >>> sufficient_statistics([0.5, 2.0, 3.5], Exponential(), bounds=(0, 3))
    Moments(Exponential, 1 statistics, sensitive)
    """
    description = MomentDescription(family, bounds)
    if strict and family.bounded:
        raise DomainError(
            f"{type(family).__name__} has no bounds outside which a record contributes 0, so strict=True cannot be "
            "kept; count a strict domain instead"
        )
    settings = {"where": where, "domain": domain, "person": person, "engine": engine}
    if column is not None:
        chosen: Any = {**settings, "rows_per_person": rows_per_person, "progress": progress}
        return column_moments(x, description, column, strict=strict, **chosen)
    if given := [name for name, value in settings.items() if value is not None]:
        raise DomainError(f"{given[0]} is for rows, one column of which is summed; name it by column=")
    if isinstance(family, Multinomial):
        sums = np.bincount(_codes(x, family), minlength=len(family.levels))
        return Moments(description, sums, int(sums.sum()))
    records = _any_numbers(x) if strict else _numbers(x, family)
    return Moments(description, sums_of_records(records, description), records.size)


def _any_numbers(x: Any) -> npt.NDArray[np.float64]:
    """The records as numbers; NaN, which is outside all bounds, for what is none."""
    cells = cells_of(x)
    _check_axes(cells)
    if cells.dtype.kind in "iuf":
        return cells.astype(float)
    if cells.dtype != object:
        raise DomainError("records must be numbers")
    found = (real_number(cell) for cell in cells)
    return np.array([math.nan if number is None else number for number in found], float)


def _check_axes(records: npt.NDArray[Any]) -> None:
    """Refuses an array that is no column."""
    if records.ndim != 1:
        raise DomainError(f"records must have one axis; got {records.ndim}")


def _numbers(x: Any, family: ExponentialFamily) -> npt.NDArray[np.float64]:
    """The records as numbers within the support."""
    problem = f"the records of a {type(family).__name__} family must be numbers, none missing"
    records = converted(lambda: np.asarray(x).astype(float), problem)
    _check_axes(records)
    check_support(records, family)
    return records


def _codes(x: Any, family: Multinomial) -> Integers:
    """The position of each record among the declared levels."""
    position = {level: code for code, level in enumerate(family.levels)}
    problem = f"every record must be one of the declared levels; they are {list(family.levels)!r:.200}"
    records = array_of(x, problem)
    _check_axes(records)
    found = converted(lambda: [position.get(record, -1) for record in records.tolist()], problem)
    if -1 in found:
        raise DomainError(problem)
    return np.array(found, np.int64)
