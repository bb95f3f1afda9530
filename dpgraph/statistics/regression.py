"""Rows to the moments of a regression: columns clipped, rounded to integers, multiplied and summed exactly.

Law: ``regression_moments(a, design) + regression_moments(b, design) == regression_moments(a and b, design)``. What is
clipped is what is used: sums are of the clipped integers and of nothing else. Blocks are multiplied by BLAS in floating
point, which is exact: every product and partial sum is an integer below 2^53.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.scope import RowCap, RowGroup
from dpgraph.statistics.moments import Moments
from dpgraph.statistics.rows.arrow import Held, read_columns
from dpgraph.statistics.rows.batches import Batch, Columns, batch_length
from dpgraph.statistics.rows.design_columns import Flags, Reals, array_batches, column_values, feature_values
from dpgraph.statistics.rows.groups import group_of
from dpgraph.statistics.rows.persons import PersonCap, cap_of, refuse_group
from dpgraph.statistics.summary import summarise
from dpgraph.structure.design import MOST_SUM, RESOLUTION, Bounded, Column, LinearDesign
from dpgraph.structure.domain import Domain, DomainError, Level, undeclared_actions

Integers = npt.NDArray[np.int64]

#: Entries of the columns multiplied at once: a few megabytes; a block's sums of products stay below 2^53.
BLOCK = 1 << 21
#: Rows that one thread takes at a time.
BATCH = 1 << 17
#: The weight there is always room for.
LEAST_ROOM = 8


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

    The rows are read as ``count`` reads them, in one pass and in memory that does not grow with a file or a stream.
    Where they lie on a cluster its workers sum, and only their sums, which are sensitive too, travel inside it.

    Args:
        rows: Whatever ``count`` takes but ``Codes``: a pandas, polars or Arrow table, anything with
            ``__arrow_c_stream__``, an iterator of such tables, the path of a CSV file, a Parquet file or a folder of
            Parquet files, or a pyspark or dask DataFrame; or a pair (X, y) of arrays, the columns of X in the design's
            order.
        design: The features, the target and their public bounds.
        where: Sums only the rows in which each of these variables has the level given, for ``Budget.parallel``. The
            variables are features with levels, or declared by ``domain``; all rows must fit the design.
        domain: Declares variables of ``where`` that are no features.
        person: The column that says whose row it is, as for ``count``; not of a pair of arrays, and not with ``where``.
            A row that ``on_missing="drop"`` drops is none of the rows that count.
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
    persons = cap_of(person, rows_per_person)
    refuse_group(where, persons, "Sum all groups of one choice, dg.statistics.regression_groups")
    group = None if where is None else group_of_design(where, design, domain)
    kernel = Products(design)
    if isinstance(rows, tuple | list) and (persons is not None or len(rows) == 2):
        _check_pair(design, group, persons, engine)
        rows = Held((batch, False) for batch in array_batches(rows[0], rows[1], kernel.columns, BATCH))
    return summarise(rows, kernel, cap=persons, where=group, engine=engine, progress=progress)


@dataclass(frozen=True)
class Products:
    """What a regression does with rows: their sums of products in the order of ``design.pairs``, then their number."""

    design: LinearDesign

    @property
    def rows_at_once(self) -> int:
        """A thread's share of a table in memory."""
        return BATCH

    @property
    def columns(self) -> Columns:
        """The features and the target."""
        names = (*self.design.features, self.design.target)
        return Columns({name: self.design.declared(name) for name in names}, self.design.strict)

    def zero(self) -> Integers:
        """The sums of no rows."""
        return np.zeros(len(self.design.pairs) + 1, np.int64)

    def read(self, batch: Batch, is_text: bool) -> tuple[dict[str, Any], Flags]:
        """Codes and numbers of a batch, and which rows are whole. Sensitive."""
        kept = np.ones(batch_length(batch), bool)
        names = self.columns.names
        return {name: column_values(batch[name], self.design, name, is_text, kept) for name in names}, kept

    def add(self, read: Mapping[str, npt.NDArray[Any]], vector: Integers) -> None:
        """Adds the sums of rows to a vector, in place. Sensitive."""
        gram, many = products(read, self.design)
        first, second = np.array(self.design.pairs).T
        vector[:-1] += gram[first, second]
        vector[-1] += many

    def statistics(self, vector: Integers, group: RowGroup | None, cap: RowCap | None) -> Moments:
        """The moments of a vector, or of a sum of vectors. Sensitive."""
        *sums, many = vector.tolist()
        most = MOST_SUM // (RESOLUTION**2 * max(LEAST_ROOM, *self.design.weights))
        if many > most:
            raise DomainError(f"more than {most} rows; sum them in parts, release each, or coarsen the table")
        return Moments(self.design, np.array(sums, np.int64), many, group, cap)


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


def group_of_design(where: Mapping[str, Level], design: LinearDesign, domain: Domain | None) -> RowGroup:
    """The declared group of rows that ``where`` names, by features with levels or by variables of a domain.

    Raises:
        DomainError: If a variable is not declared, or in two ways, or could refuse a row where the design may not.
    """
    variables: dict[str, Any] = {
        name: declared for name, declared in design.features.items() if not isinstance(declared, Bounded)
    }
    variables |= {} if domain is None else domain.variables
    if not variables:
        raise DomainError("no feature has levels to choose rows by; declare the variables of where by domain=...")
    group = group_of(where, Domain.of(variables), "declare it by domain=...")
    for condition in group.conditions:
        name, declared = condition.by, variables[condition.by]
        if name in (*design.features, design.target):
            if design.declared(name) != declared:
                raise DomainError(f"{name!r} is declared otherwise by the design; a group needs one declaration")
        elif design.strict and undeclared_actions(declared):
            raise DomainError(f"{name!r} could refuse a row, and the design is strict; make the domain strict as well")
    return group


def _check_pair(design: LinearDesign, group: RowGroup | None, cap: PersonCap | None, engine: Any) -> None:
    """Refuses what a pair of arrays cannot serve."""
    if cap is not None:
        raise DomainError("a pair of arrays has no column of persons; give a table that has one")
    if engine is not None:
        raise DomainError("engine is for the path of a Parquet file or folder; got a pair of arrays")
    told = [condition.by for condition in group.conditions] if group else []
    others = [name for name in told if name not in (*design.features, design.target)]
    if others:
        raise DomainError(f"a pair of arrays has no column {', '.join(map(repr, others))} to choose rows by")


def regression_features(rows: Any, design: LinearDesign) -> dict[str, npt.NDArray[Any]]:
    """Reads a design's features as ``regression_moments`` does, for rows to predict; the target need not be there.

    Args:
        rows: As for ``regression_moments``, but for a pair of arrays.
        design: The features and their public bounds or levels.

    Returns:
        For each feature an array, one value a row: numbers, not clipped, or codes of levels. No row is dropped: a null
        number that has no declared meaning is NaN.

    Raises:
        DomainError: If a column is missing or of the wrong type, or holds a level that is not declared.

    >>> import pandas as pd
    >>> design = LinearDesign({"age": (18, 90), "sex": ["F", "M"]}, "income", (0, 100))
    >>> read = regression_features(pd.DataFrame({"age": [20, None], "sex": ["M", "F"]}), design)
    >>> {name: values.tolist() for name, values in read.items()}
    {'age': [20.0, nan], 'sex': [1, 0]}
    """

    def read(batch: Batch, is_text: bool) -> list[Any]:
        features = design.features.items()
        return [feature_values(batch[name], feature, name, is_text, design.strict) for name, feature in features]

    found = read_columns(rows, Columns(dict(design.features), design.strict), read)
    return dict(zip(design.features, found, strict=True))


def judged_columns(rows: Any, design: LinearDesign) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
    """Reads features and target as ``regression_moments`` does, for rows to judge a model by.

    Returns:
        For each feature and the target an array, one value a row, and which rows a sum would hold: all of them, but
        for those with nulls where the design drops these.

    Raises:
        DomainError: As ``regression_moments``.
    """
    kernel = Products(design)

    def read(batch: Batch, is_text: bool) -> list[Any]:
        found, kept = kernel.read(batch, is_text)
        return [*found.values(), kept]

    *found, kept = read_columns(rows, kernel.columns, read)
    return dict(zip(kernel.columns.names, found, strict=True)), kept


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
