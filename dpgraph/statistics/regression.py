"""Rows to the moments of a regression: columns clipped, rounded to integers, multiplied and summed exactly.

Law: ``regression_moments(a, design) + regression_moments(b, design) == regression_moments(a and b, design)``. What is
clipped is what is used: sums are of the clipped integers and of nothing else. Blocks are multiplied by BLAS in floating
point, which is exact: every product and partial sum is an integer below 2^53.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.scope import RowCap, RowGroup
from dpgraph.statistics.engines.persons import Capped
from dpgraph.statistics.engines.total import capped_total, total, total_of_batches
from dpgraph.statistics.moments import Moments
from dpgraph.statistics.rows.arrow import batches
from dpgraph.statistics.rows.batches import Batch, Columns, batch_length
from dpgraph.statistics.rows.codes import UNREADABLE, encode_column
from dpgraph.statistics.rows.design_columns import Flags, Reals, array_batches, column_values, feature_values
from dpgraph.statistics.rows.groups import group_of
from dpgraph.statistics.rows.persons import PersonCap, cap_of, refuse_group
from dpgraph.structure.conversion import OURS, converted
from dpgraph.structure.design import MOST_SUM, RESOLUTION, Bounded, Column, LinearDesign
from dpgraph.structure.domain import Domain, DomainError, Level, Variable, undeclared_actions

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
    person: str | None = None,
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
    if persons is not None:
        return capped_moments(rows, design, persons, engine=engine, progress=progress)
    group = None if where is None else group_of_design(where, design, domain)
    tally = Products(design, group)

    def summed() -> Integers:
        if not isinstance(rows, tuple | list) or len(rows) != 2:
            return total(rows, tally, engine, progress)
        _check_pair(tally, engine)
        found = ((batch, False) for batch in array_batches(rows[0], rows[1], tally.domain, BATCH))
        return total_of_batches(found, tally, progress)

    return moments_of_vector(converted(summed, UNREADABLE, passing=OURS, quiet=False), design, group)


def capped_moments(
    rows: Any, design: LinearDesign, cap: PersonCap, *, engine: Any = None, progress: bool = False
) -> Moments:
    """As ``regression_moments`` with a person, by a cap with its key.

    Raises:
        DomainError: As ``regression_moments``.
    """
    if isinstance(rows, tuple | list):
        raise DomainError("a pair of arrays has no column of persons; give a table that has one")
    capped = Capped(Products(design), cap)
    made = converted(lambda: capped_total(rows, capped, engine, progress), UNREADABLE, passing=OURS, quiet=False)
    return moments_of_vector(made, design, None, cap.record(design.strict))


def moments_of_vector(
    vector: Integers, design: LinearDesign, group: RowGroup | None = None, cap: RowCap | None = None
) -> Moments:
    """The moments of a vector that ``Products`` made."""
    *sums, many = vector.tolist()
    most = MOST_SUM // (RESOLUTION**2 * max(LEAST_ROOM, *design.weights))
    if many > most:
        raise DomainError(f"more than {most} rows; sum them in parts, release each, or coarsen the table")
    return Moments(design, np.array(sums, np.int64), many, group, cap)


@dataclass(frozen=True)
class Products:
    """What an engine does with any part of the rows: their sums of products, and how many rows were kept.

    Vectors add: the products in the order of ``design.pairs``, then the rows. It is public, and is what travels to
    other machines. ``beside`` declares variables that are read and not summed, by which groups are told.
    """

    design: LinearDesign
    group: RowGroup | None = None
    beside: tuple[tuple[str, Variable], ...] = ()

    @property
    def rows_at_once(self) -> int:
        """A thread's share of a table in memory."""
        return BATCH

    @property
    def domain(self) -> Columns:
        """The columns to read: features, the target, and what groups are told by."""
        declared: dict[str, Any] = {**self.design.features, self.design.target: self.design.bounds, **dict(self.beside)}
        for condition in self.group.conditions if self.group else ():
            declared.setdefault(condition.by, condition.declaration)
        return Columns(declared, self.design.strict)

    def zero(self) -> Integers:
        """The sums of no rows."""
        return np.zeros(len(self.design.pairs) + 1, np.int64)

    def add(self, batch: Batch, vector: Integers, is_text: bool = False) -> None:
        """Adds the sums of a batch to a vector, in place. Sensitive."""
        first, second = np.array(self.design.pairs).T
        for start in range(0, batch_length(batch), BATCH):
            part = {name: array.slice(start, BATCH) for name, array in batch.items()}
            read, kept = self._read(part, is_text)
            gram, many = products(read, kept, self.design)
            vector[:-1] += gram[first, second]
            vector[-1] += many

    def read(self, batch: Batch, is_text: bool = False) -> tuple[list[Any], Flags]:
        """Codes, and numbers as their bits, of a batch; which rows are whole. Sensitive."""
        read, kept = self._read(batch, is_text)
        return [_bits(read[name]) for name in self.domain.names], kept

    def add_read(self, held: Sequence[Any], vector: Integers) -> None:
        """Adds the sums of those rows that were read, and are in the group, to a vector, in place. Sensitive."""
        read = {name: self._values(name, column) for name, column in zip(self.domain.names, held, strict=True)}
        kept = np.ones(len(held[0]), bool)
        self._strike_others(read, kept)
        gram, many = products(read, kept, self.design)
        first, second = np.array(self.design.pairs).T
        vector[:-1] += gram[first, second]
        vector[-1] += many

    def _strike_others(self, read: Mapping[str, npt.NDArray[Any]], kept: Flags) -> None:
        """Strikes rows of other groups off ``kept``."""
        for condition in self.group.conditions if self.group else ():
            codes, variable = read[condition.by], self.domain.variables[condition.by]
            kept &= codes == variable.code(condition.level)

    def _values(self, name: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """A column as it was before ``read`` made whole numbers of it."""
        return column.view(np.float64) if isinstance(self.domain.variables[name], Bounded) else column

    def _read(self, batch: Batch, is_text: bool) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
        """The design's variables, and which rows are summed: those that are whole and in the group."""
        design, kept = self.design, np.ones(batch_length(batch), bool)
        names = (*design.features, design.target)
        read = {name: column_values(batch[name], design, name, is_text, kept) for name in names}
        for name, variable in self.domain.variables.items():
            if name not in read:
                read[name] = encode_column(batch[name], variable, name, is_text, design.strict)
        self._strike_others(read, kept)
        return read, kept


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Whole numbers that are equal where the values are."""
    return (values + 0.0).view(np.int64) if values.dtype == np.float64 else values


def products(read: Mapping[str, npt.NDArray[Any]], kept: Flags, design: LinearDesign) -> tuple[Integers, int]:
    """The sums of products of all columns over the rows that are kept, and how many these are. Sensitive."""
    if not kept.all():
        read = {name: values[kept] for name, values in read.items()}
    many, size = int(kept.sum()), len(design.columns)
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


def _check_pair(tally: Products, engine: Any) -> None:
    """Refuses what a pair of arrays cannot serve."""
    if engine is not None:
        raise DomainError("engine is for the path of a Parquet file or folder; got a pair of arrays")
    others = [name for name in tally.domain.names if name not in (*tally.design.features, tally.design.target)]
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
    return converted(lambda: _features(rows, design), UNREADABLE, passing=OURS, quiet=False)


def judged_columns(rows: Any, design: LinearDesign) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
    """Reads features and target as ``regression_moments`` does, for rows to judge a model by.

    Returns:
        For each feature and the target an array, one value a row, and which rows a sum would hold: all of them, but
        for those with nulls where the design drops these.

    Raises:
        DomainError: As ``regression_moments``.
    """
    return converted(lambda: _judged(rows, design), UNREADABLE, passing=OURS, quiet=False)


def _judged(rows: Any, design: LinearDesign) -> tuple[dict[str, npt.NDArray[Any]], Flags]:
    names = (*design.features, design.target)
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in names}
    whole: list[Flags] = []
    for batch, is_text in batches(rows, Columns({name: design.declared(name) for name in names}, design.strict)):
        kept = np.ones(batch_length(batch), bool)
        for name in names:
            parts[name].append(column_values(batch[name], design, name, is_text, kept))
        whole.append(kept)
    read = {name: np.concatenate(found) if found else np.zeros(0) for name, found in parts.items()}
    return read, np.concatenate(whole) if whole else np.zeros(0, bool)


def _features(rows: Any, design: LinearDesign) -> dict[str, npt.NDArray[Any]]:
    """One array for each feature."""
    parts: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in design.features}
    for batch, is_text in batches(rows, Columns(dict(design.features), design.strict)):
        for name, feature in design.features.items():
            parts[name].append(feature_values(batch[name], feature, name, is_text, design.strict))
    return {name: np.concatenate(found) if found else np.zeros(0) for name, found in parts.items()}


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
