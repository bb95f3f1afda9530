"""Exact sums, sensitive: of sufficient statistics, of a regression's products, and of predictions beside the truth.

Law, of a commutative monoid: ``sufficient_statistics(a, f) + sufficient_statistics(b, f) == sufficient_statistics(a and
b, f)``, likewise ``regression_moments``, and outcomes of two parts add to those of both, whichever model predicted
each. Records, columns and losses are rounded to a public grid first, columns and losses clipped too, so sums are exact
and the order of records does not matter. BLAS multiplies blocks of columns in floating point, exactly: every product
and partial sum is an integer below 2^53.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.display import DataFrame
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Name
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.privacy.scope import RowCap, RowGroup, joined
from dpgraph.statistics.rows.batches import Batch, Columns, Sensitive, cells_of, real_number
from dpgraph.statistics.rows.codes import Codes, encode_column
from dpgraph.statistics.rows.features import columns_of, design_values, named_array, real_values, with_column
from dpgraph.statistics.rows.persons import PersonCap
from dpgraph.statistics.summary import summarise
from dpgraph.statistics.tally import Kernel
from dpgraph.structure.conversion import PublicWords, added, array_of, in_blocks
from dpgraph.structure.design import MOST_SUM, RESOLUTION, Bounded, Column, LinearDesign
from dpgraph.structure.domain import Categories, Domain, DomainError, Level
from dpgraph.structure.expfam import ExponentialFamily, Multinomial
from dpgraph.structure.frozen import frozen_array
from dpgraph.structure.moments import STEPS, Classification, Entries, MomentDescription, OutcomeDescription, Regression

#: Entries of the columns multiplied at once: a few megabytes; a block's sums of products stay below 2^53.
BLOCK = 1 << 21
#: Rows that one thread takes at a time.
BATCH = 1 << 17
#: The weight there is always room for.
LEAST_ROOM = 8


@dataclass(frozen=True, eq=False)
class Moments(Sensitive):
    """Exact integer sums of statistics and the number of records: sensitive.

    There are no numbers in its ``repr``, it is not pickled and has no saver; ``release`` is the way out.
    """

    description: MomentDescription | LinearDesign | OutcomeDescription
    sensitive_sums: Integers
    sensitive_rows: int
    group: RowGroup | None = None
    cap: RowCap | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitive_sums", frozen_array(self.sensitive_sums, np.int64))
        if self.sensitive_sums.shape != (len(self.description.names),):
            raise ReleaseError("moments need one sum for each statistic of their description")

    @classmethod
    def zero(cls, description: MomentDescription | LinearDesign | OutcomeDescription) -> Moments:
        """The moments of no records."""
        return cls(description, np.zeros(len(description.names), np.int64), 0)

    def sensitive_block(self, name: Name, unit: PrivacyUnit) -> Integers:
        """The exact integers that a release under this unit adds noise to."""
        return self.description.released(self.sensitive_sums, self.sensitive_rows, unit)

    def __add__(self, other: Moments) -> Moments:
        if not isinstance(other, Moments):
            return NotImplemented
        if other.description != self.description:
            raise ReleaseError("moments of different families or bounds do not add")
        if other.group != self.group:
            raise ReleaseError("moments of different groups of rows do not add")
        rows = self.sensitive_rows + other.sensitive_rows
        cap = joined(self.cap, other.cap)
        return Moments(self.description, self.sensitive_sums + other.sensitive_sums, rows, self.group, cap)

    def __repr__(self) -> str:
        about = getattr(self.description, "family", self.description)
        return f"Moments({type(about).__name__}, {len(self.description.names)} statistics, sensitive)"


def _contributions(description: MomentDescription, column: str, strict: bool) -> Kernel:
    """A family's sums over a column of records: the records' contributions, then their number."""
    family = description.family
    levels = Categories(family.levels) if isinstance(family, Multinomial) else description
    work = partial(_read, family, column, strict), partial(_add, description, column), partial(_moments, description)
    declared, size = Columns({column: levels}, strict), len(description.names) + 1
    return Kernel("sums", "column of records", declared, size, *work, rows_at_once=1 << 17)


def _read(
    family: ExponentialFamily, column: str, strict: bool, batch: Batch, is_text: bool
) -> tuple[dict[str, Any], None]:
    if isinstance(family, Multinomial):
        return {column: encode_column(batch[column], Categories(family.levels), column, is_text, False)}, None
    values = real_values(batch[column], column, is_text, strict)
    if not strict:
        _check_support(values, family)
    return {column: values}, None


def _add(description: MomentDescription, column: str, read: Mapping[str, npt.NDArray[Any]], vector: Integers) -> None:
    vector[:-1] += _sums(read[column], description)
    vector[-1] += len(read[column])


def _moments(
    described: MomentDescription | LinearDesign, vector: Integers, group: RowGroup | None, cap: RowCap | None
) -> Moments:
    many = int(vector[-1])
    if isinstance(described, LinearDesign):
        most = MOST_SUM // (RESOLUTION**2 * max(LEAST_ROOM, *described.weights))
        if many > most:
            raise DomainError(f"more than {most} rows; sum them in parts, release each, or coarsen the table")
    return Moments(described, vector[:-1], many, group, cap)


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
        strict: True to refuse no record: one that is missing, not a number or outside the support then contributes 0
            as well. For families with bounds; for others ``count`` a strict domain.
        column: The column of the rows that holds the records.
        where: Sums only the rows in which each of these variables of ``domain`` has the level given; with ``column``.
        domain: Declares the variables of ``where``.
        person: As for ``count``; with ``column``.
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
    settings: Any = {"where": where, "domain": domain, "person": person, "engine": engine}
    if column is None:
        if given := [name for name, value in settings.items() if value is not None]:
            raise DomainError(f"{given[0]} is for rows, one column of which is summed; name it by column=")
        records = _records(x, family, strict)
        return Moments(description, _sums(records, description), records.size)
    if not isinstance(column, str):
        raise DomainError(f"column must name the column of records; got {column!r}")
    if isinstance(x, Codes):
        raise DomainError("codes hold no column of records; give the rows themselves")
    if where is not None and person is None and domain is None:
        raise DomainError("where needs domain=..., which declares its variables")
    if isinstance(where, Mapping) and column in where:
        raise DomainError(f"where names {column!r}, the column of records; choose rows by another")
    kernel = _contributions(description, column, strict)
    return summarise(x, kernel, rows_per_person=rows_per_person, progress=progress, **settings)


def _sums(records: npt.NDArray[Any], description: MomentDescription) -> Integers:
    """The exact sums of the contributions of codes or numbers; numbers outside the bounds, and NaN, contribute 0."""
    if isinstance(description.family, Multinomial):
        return np.bincount(records, minlength=len(description.names))
    low, high = description.limits
    records = records[(records >= low) & (records <= high)]
    # the nearest public point of each record; ties and errors of rounding go to either neighbour
    first, last, steps = float(description.points[0]), float(description.points[-1]), description.points.size - 1
    place = (records - first) / (last - first) * steps if steps else np.zeros(records.size)
    index = np.clip(np.rint(place), 0, steps).astype(np.int64)
    return np.bincount(index, minlength=steps + 1) @ description.contributions


def _check_support(records: npt.NDArray[np.float64], family: ExponentialFamily) -> None:
    name, (low, high) = type(family).__name__, family.support
    if not (np.isfinite(records) & (records >= low) & (records <= high)).all():
        raise DomainError(f"every record of a {name} family must be a finite number from {low:g} to {high:g}")
    if family.discrete and (records != np.round(records)).any():
        raise DomainError(f"every record of a {name} family must be a whole number")


def _records(x: Any, family: ExponentialFamily, strict: bool) -> npt.NDArray[Any]:
    """Records as codes of a multinomial's levels or as numbers; where ``strict``, NaN for any outside the support."""
    if isinstance(family, Multinomial):
        position = {level: code for code, level in enumerate(family.levels)}
        problem = f"every record must be one of the declared levels; they are {list(family.levels)!r:.200}"
        levels = _one_axis(array_of(x, problem))
        with PublicWords(problem):
            codes = [position.get(level, -1) for level in levels.tolist()]
        if -1 in codes:
            raise DomainError(problem)
        return np.array(codes, np.int64)
    if not strict:
        with PublicWords(f"the records of a {type(family).__name__} family must be numbers, none missing"):
            numbers = np.asarray(x).astype(float)
        records = _one_axis(numbers)
        _check_support(records, family)
        return records
    cells = _one_axis(cells_of(x))
    if cells.dtype.kind in "iuf":
        return cells.astype(float)
    if cells.dtype != object:
        raise DomainError("records must be numbers")
    read = (real_number(cell) for cell in cells)
    return np.array([math.nan if number is None else number for number in read], float)


def _one_axis(records: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if records.ndim != 1:
        raise DomainError(f"records must have one axis; got {records.ndim}")
    return records


def classifier_outcomes(
    task: Classification, truth: npt.NDArray[Any], probabilities: Reals, group: RowGroup | None = None
) -> Moments:
    """Sums a classifier's outcomes: codes of the truth and P(class), shape (rows, classes), of a ``group`` of rows."""
    truth, size = truth.astype(np.int64), len(task.classes)
    assert task.largest_loss is not None
    assert task.edges is not None
    if probabilities.shape != (len(truth), size) or not (np.isfinite(probabilities) & (probabilities >= 0)).all():
        raise DomainError(f"the model's probabilities must be numbers, at least 0, one for each of {size} classes")
    probabilities = np.minimum(probabilities, 1.0)  # squares of any floats would be no numbers, which are not clipped
    predicted = probabilities.argmax(axis=1)
    right = predicted == truth
    confidence = probabilities.max(axis=1) if size else np.zeros(len(truth))
    bins = np.searchsorted(np.asarray(task.edges), confidence, side="left")
    of_truth = probabilities[np.arange(len(truth)), truth]
    brier = (added(probabilities.T**2) - 2 * of_truth + 1) / 2
    found = {
        "right": np.bincount(np.where(right, 0, 1), minlength=2),
        "confusion": np.bincount(truth * size + predicted, minlength=size * size),
        "reliability": np.bincount(2 * bins + np.where(right, 0, 1), minlength=2 * len(task.bins)),
        **_with_squares("log-loss", -in_blocks(np.log, of_truth), task.largest_loss),
        **_with_squares("brier", brier),
    }
    width, half = len(task.cuts) + 1, len(task.bins)
    for k, name in enumerate(task.ranked):
        if size == 2:  # the bins of the confidence, so that both tables place a row alike
            own, place = truth, np.where(predicted == 1, half + bins, half - 1 - bins)
        else:
            own, place = truth == k, np.searchsorted(np.asarray(task.cuts), probabilities[:, k], side="left")
        found[name] = np.bincount(own * width + place, minlength=2 * width)
    return _outcomes(task, found, len(truth), group)


def regression_outcomes(task: Regression, truth: Reals, predicted: Reals, group: RowGroup | None = None) -> Moments:
    """Sums the outcomes of a regression; targets and predictions beyond the bounds count as the nearer bound."""
    assert task.largest_error is not None
    if np.isnan(truth).any() or np.isnan(predicted).any() or truth.shape != predicted.shape:
        raise DomainError("the target and its predictions must be numbers, none missing, one for each row")
    error = np.abs(np.clip(truth, task.low, task.high) - np.clip(predicted, task.low, task.high))
    found = {
        "rows": np.array([len(truth)]),
        **_with_squares("squared error", (np.minimum(error, task.largest_error) / task.largest_error) ** 2),
    }
    return _outcomes(task, found, len(truth), group)


def entry_outcomes(task: Entries, log_probability: Reals, group: RowGroup | None = None) -> Moments:
    """Sums the losses of log entries, -ln P(entry) each."""
    assert task.largest_loss is not None
    if np.isnan(log_probability).any():
        raise DomainError("the log probability of an entry must be a number")
    found = {"rows": np.array([len(log_probability)]), **_with_squares("log-loss", -log_probability, task.largest_loss)}
    return _outcomes(task, found, len(log_probability), group)


def _with_squares(name: str, loss: Reals, largest: float = 1.0) -> dict[str, Integers]:
    """The sums of clipped losses and of their squares, in whole steps of the grid; clipped before it is divided."""
    clipped = np.clip(loss, 0.0, largest) / largest
    return {
        name: np.rint(clipped * STEPS).astype(np.int64).sum(keepdims=True),
        f"{name} squared": np.rint(clipped**2 * STEPS).astype(np.int64).sum(keepdims=True),
    }


def _outcomes(
    task: Classification | Regression | Entries, found: dict[str, Integers], rows: int, group: RowGroup | None
) -> Moments:
    description = OutcomeDescription(task)
    sums = np.concatenate([found[block.name] for block in description.parts])
    return Moments(description, sums, rows, group)


def products_of(design: LinearDesign) -> Kernel:
    """The sums of a regression over rows: products in the order of ``design.pairs``, then the number of rows."""
    work = partial(design_values, design), partial(_add_products, design), partial(_moments, design)
    return Kernel("sums", "design", columns_of(design), len(design.pairs) + 1, *work, BATCH)


def _add_products(design: LinearDesign, read: Mapping[str, npt.NDArray[Any]], vector: Integers) -> None:
    gram, many = products(read, design)
    first, second = np.array(design.pairs).T
    vector[:-1] += gram[first, second]
    vector[-1] += many


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
