"""Rows to the moments of a regression: columns clipped, rounded to integers, multiplied and summed exactly.

Law: ``regression_moments(a, design) + regression_moments(b, design) == regression_moments(a and b, design)``. BLAS
multiplies blocks in floating point, exactly: every product and partial sum is an integer below 2^53.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.display import DataFrame
from dpgraph.privacy.scope import RowCap, RowGroup
from dpgraph.statistics.moments import Moments
from dpgraph.statistics.rows.batches import cells_of
from dpgraph.statistics.rows.features import columns_of, design_values, named_array, with_column
from dpgraph.statistics.rows.persons import PersonCap
from dpgraph.statistics.summary import summarise
from dpgraph.statistics.tally import Kernel
from dpgraph.structure.conversion import array_of
from dpgraph.structure.design import MOST_SUM, RESOLUTION, Bounded, Column, LinearDesign
from dpgraph.structure.domain import Domain, DomainError, Level

#: Entries of the columns multiplied at once: a few megabytes; a block's sums of products stay below 2^53.
BLOCK = 1 << 21
#: Rows that one thread takes at a time.
BATCH = 1 << 17
#: The weight there is always room for.
LEAST_ROOM = 8


def products_of(design: LinearDesign) -> Kernel:
    """The sums of a regression over rows: products in the order of ``design.pairs``, then the number of rows."""
    work = partial(design_values, design), partial(_add, design), partial(_moments, design)
    return Kernel("sums", "design", columns_of(design), len(design.pairs) + 1, *work, BATCH)


def _add(design: LinearDesign, read: Mapping[str, npt.NDArray[Any]], vector: Integers) -> None:
    gram, many = products(read, design)
    first, second = np.array(design.pairs).T
    vector[:-1] += gram[first, second]
    vector[-1] += many


def _moments(design: LinearDesign, vector: Integers, group: RowGroup | None, cap: RowCap | None) -> Moments:
    *sums, many = vector.tolist()
    most = MOST_SUM // (RESOLUTION**2 * max(LEAST_ROOM, *design.weights))
    if many > most:
        raise DomainError(f"more than {most} rows; sum them in parts, release each, or coarsen the table")
    return Moments(design, np.array(sums, np.int64), many, group, cap)


def products(read: Mapping[str, npt.NDArray[Any]], design: LinearDesign) -> tuple[Integers, int]:
    """The sums of products of all columns over the rows, and how many these are. Sensitive."""
    many, size = len(read[design.target]), len(design.columns)
    step = max(1, min(many, BLOCK // size))
    gram, z = np.zeros((size, size), np.int64), np.empty((size, step))
    for start in range(0, many, step):
        stop = min(start + step, many)
        block = z[:, : stop - start]
        for column, out in zip(design.columns, block, strict=True):
            _fill(out, column, design, read, slice(start, stop))
        gram += np.rint(block @ block.T).astype(np.int64)
    return gram, many


def regression_moments(
    rows: Any,
    design: LinearDesign,
    *,
    where: Mapping[str, Level] | None = None,
    domain: Domain | None = None,
    person: str | PersonCap | None = None,
    rows_per_person: int = 1,
    engine: Any = None,
    progress: bool = False,
) -> Moments:
    """Sums the products of a design's columns over the rows, in whole steps of a public grid.

    The rows are read as ``count`` reads them: in one pass, where they lie.

    Args:
        rows: Whatever ``count`` takes but ``Codes``; or a pair (X, y) of arrays, X with the design's features in order.
        design: The features, the target and their public bounds.
        where: Sums only the rows in which each of these variables has the level given, for ``Budget.parallel``. The
            variables are features with levels, or declared by ``domain``; all rows must fit the design.
        domain: Declares variables of ``where`` that are not features.
        person: As for ``count``; not of a pair of arrays. A row that ``on_missing="drop"`` drops does not count as one
            of its person's.
        rows_per_person: As for ``count``.
        engine: As for ``count``.
        progress: As for ``count``.

    Returns:
        Sensitive moments; they add.

    Raises:
        DomainError: If the rows do not fit the design, or are too many for the sums, ``where`` is not declared
            variables and levels, or ``engine`` does not take the rows. Nothing is summed then.

    >>> design = LinearDesign({"age": (18, 90)}, "income", (0, 100))
    >>> regression_moments(([[20.0], [50.0]], [10.0, 150.0]), design)
    Moments(LinearDesign, 5 statistics, sensitive)
    """
    if not isinstance(design, LinearDesign):
        found = type(design).__name__
        raise DomainError(f"regression_moments takes rows, then a LinearDesign; got {found} for the design")
    kernel = products_of(design)
    if isinstance(rows, tuple | list) and (person is not None or len(rows) == 2):
        _check_pair(design, where, person, engine)
        table = _joined(rows[0], rows[1], design)
        rows = (table.iloc[start : start + BATCH] for start in range(0, max(1, len(table)), BATCH))
    asked: Any = {"person": person, "rows_per_person": rows_per_person, "engine": engine, "progress": progress}
    return summarise(rows, kernel, where=where, domain=domain, **asked)


def _check_pair(design: LinearDesign, where: Any, person: Any, engine: Any) -> None:
    if person is not None:
        raise DomainError("a pair of arrays has no column of persons; give a table that has one")
    if engine is not None:
        raise DomainError("engine is for the path of a Parquet file or folder; got a pair of arrays")
    told = where if isinstance(where, Mapping) else ()
    others = [name for name in told if name not in (*design.features, design.target)]
    if others:
        raise DomainError(f"a pair of arrays has no column {', '.join(map(repr, others))} to choose rows by")


def _joined(X: Any, y: Any, design: LinearDesign) -> DataFrame:
    """One table of a pair of arrays."""
    frame = named_array(X, tuple(design.features), design.strict)
    target = cells_of(y) if design.strict else array_of(y, "y must be an array of one axis")
    if target.ndim != 1 or len(target) != len(frame):
        raise DomainError("y must have one axis, with a value for each row of X")
    return with_column(frame, design.target, target, "X and y cannot be put together")


def _fill(out: Reals, column: Column, design: LinearDesign, read: Mapping[str, npt.NDArray[Any]], rows: slice) -> None:
    """Writes one column of a block: whole numbers up to ``RESOLUTION`` in size."""
    match column.kind:
        case "intercept":
            out[:] = RESOLUTION
        case "sign":
            np.multiply(read[column.variable][rows], 2.0 * RESOLUTION, out=out)
            out -= RESOLUTION
        case "level":
            np.multiply(read[column.variable][rows] == column.level, float(RESOLUTION), out=out)
        case _:
            declared = design.declared(column.variable)
            assert isinstance(declared, Bounded)
            declared.on_grid(read[column.variable][rows], out)
