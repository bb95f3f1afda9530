"""Many rows of evidence at once: an answer for each row, and how probable each row is.

Rows with the same columns observed share one plan, and equal rows one computation. A null is not observed. Rows may be
private even where the model is not, so no message repeats one of their values.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_probability, tails
from dpgraph.inference.queries.answer import weights_of_draws
from dpgraph.inference.queries.contraction import conditional
from dpgraph.inference.queries.question import Evidence, check_targets, read_evidence
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables
from dpgraph.privacy.checks import near
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.structure.conversion import PublicWords, is_query
from dpgraph.structure.domain import Categories, DomainError, NetworkError, Variable, show_levels
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Reals

Codes = Mapping[str, npt.NDArray[np.int64]]

#: Numbers of all draws that are held at once before they are summed up; and the code of an empty cell.
MOST_NUMBERS, UNSEEN = 1 << 22, -1
STATISTICS = ("mean", "sd", "low", "high", "predictive")


def query_rows(model: Any, target: str | Sequence[str], rows: Any, *, interval: float = 0.9) -> DataFrame:
    """P(target | row) for each row of evidence, with intervals: ``query`` for a whole table.

    Args:
        model: As for ``query``.
        target: A variable, or a list of variables for their joint.
        rows: A data frame, or a mapping from names to columns: some of the network's variables. A null is not observed;
            rows may have different columns observed. Values are levels, of bins numbers or names; values outside
            the declared levels count as the declared ``other``.
        interval: The probability of the intervals.

    Returns:
        A frame with a row for each row, its index that of a pandas frame; columns are pairs (statistic, level): mean,
        sd, low, high and predictive, so ``answers["low"]`` is a frame of its own.

    Raises:
        NetworkError: If a column is not a variable.
        DomainError: If there are no rows, a value is not a level, the target is a column, or the evidence of a row has
            probability 0 in a draw.
        InferenceError: As for ``query``.

    >>> import dpgraph as dg
    >>> model = dg.load("example:asia")
    >>> query_rows(model, "lung", {"smoke": ["yes", None]})["mean"].round(3).values.tolist()
    [[0.1, 0.9], [0.055, 0.945]]
    """
    import pandas as pd

    check_probability("interval", interval)
    tables = drawn_tables(model)
    targets = (target,) if isinstance(target, str) else tuple(target)
    codes, index = codes_of_rows(tables.network, rows)
    check_targets(tables.network, targets, read_evidence(tables.network), codes)
    found = answers_of_codes(tables, targets, codes, interval)
    levels = itertools.product(*(tables.network.domain.levels(name) for name in targets))
    names = [level[0] if len(level) == 1 else level for level in levels]
    pairs = [(statistic, name) for statistic in STATISTICS for name in names]
    columns = pd.MultiIndex.from_tuples(pairs, names=["statistic", ", ".join(targets)])
    return pd.DataFrame(np.concatenate(list(found.values()), axis=1), index=index, columns=columns)


def row_probabilities(model: Any, rows: Any, *, interval: float = 0.9) -> DataFrame:
    """ln P(row), in nats, for each row: of the columns that are observed, all others summed out.

    Args:
        model: As for ``query``.
        rows: As for ``query_rows``.
        interval: The probability of the intervals.

    Returns:
        A frame with a row for each row: mean, sd, low and high of ln P over draws, and predictive, the log of the
        average probability. A row that some draw excludes has a mean of -inf.

    Raises:
        NetworkError, DomainError, InferenceError: As for ``query_rows``.
    """
    ends = tails(check_probability("interval", interval))
    tables = drawn_tables(model)
    codes, index = codes_of_rows(tables.network, rows)
    made = np.concatenate([_log_statistics(log, ends) for _, log in _computed(tables, (), codes)], axis=1)
    return data_frame(made[:, _distinct(codes)[1]].T, index=index, columns=list(STATISTICS))


def answers_of_codes(tables: DrawnTables, targets: Family, codes: Codes, interval: float) -> dict[str, Reals]:
    """The answers for rows of codes, axes (row, entry), by statistic: mean, sd, low, high, predictive.

    ``codes`` has a column for each observed variable, -1 where a row does not have it.
    """
    ends, parts = tails(interval), []
    for values, log in _computed(tables, targets, codes):
        if np.isneginf(log).any():
            raise DomainError(
                "some rows hold evidence of probability 0, in all draws or in some, so nothing follows from it; leave "
                "such rows out, observe fewer columns, or use a prior that leaves no cell at 0"
            )
        flat = values.reshape(*values.shape[:2], -1)
        parts.append(_statistics(flat, np.einsum("rd,rde->re", weights_of_draws(log), flat), ends))
    if tables.centre is not None:
        centre = [value.reshape(len(value), 1, -1)[:, 0] for value, _ in _computed(tables.centre, targets, codes)]
        whole = np.concatenate(parts, axis=1)
        whole[-1] = np.concatenate(centre)
        parts = [whole]
    made = np.concatenate(parts, axis=1)[:, _distinct(codes)[1]]
    return dict(zip(STATISTICS, made, strict=True))


def _statistics(values: Reals, predictive: Reals, ends: tuple[float, float]) -> Reals:
    """Mean, sd, low and high over draws, axis 1, and the predictive numbers, axes (statistic, row, ...)."""
    if values.shape[1] == 1:
        nothing = np.full_like(predictive, np.nan)
        return np.stack([values[:, 0], nothing, nothing, nothing, predictive])
    low, high = np.quantile(values, ends, axis=1)
    return np.stack([values.mean(axis=1), values.std(axis=1), low, high, predictive])


def _log_statistics(log: Reals, ends: tuple[float, float]) -> Reals:
    """Statistics of ln P(row), the predictive one being the log of the mean probability, axes (statistic, row)."""
    top = log.max(axis=1, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore", invalid="ignore"):
        return _statistics(log, np.log(np.exp(log - top).mean(axis=1)) + top[:, 0], ends)


def _computed(tables: DrawnTables, targets: Family, codes: Codes) -> Iterator[tuple[Reals, Reals]]:
    """P(targets | row) and ln P(row) of distinct rows, axes (row, draw, ...), in the order of ``_distinct``."""
    distinct, _ = _distinct(codes)
    names, width = tuple(codes), math.prod(tables.network.shape(targets))
    some = max(1, MOST_NUMBERS // (len(tables) * width))
    for observed, group in itertools.groupby(distinct, key=lambda row: tuple(row != UNSEEN)):
        known = [name for name, seen in zip(names, observed, strict=True) if seen]
        columns = np.array(list(group))[:, list(observed)]
        evidence = Evidence(FrozenMap(dict.fromkeys(known, 0)), FrozenMap(), FrozenMap())
        for start in range(0, len(columns), some):
            part = columns[start : start + some]
            batch = {name: part[:, place] for place, name in enumerate(known)} if known else None
            yield conditional(tables, targets, evidence, batch, whole=len(tables) > 1 or not targets)


def _distinct(codes: Codes) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """The distinct rows, those with the same columns observed together, and for each row its place among them."""
    columns = np.stack(list(codes.values()), axis=1)
    seen = (columns != UNSEEN).astype(columns.dtype)
    both, inverse = np.unique(np.concatenate([seen, columns], axis=1), axis=0, return_inverse=True)
    return both[:, columns.shape[1] :], inverse.reshape(-1)


def codes_of_rows(network: Network, rows: Any) -> tuple[dict[str, npt.NDArray[np.int64]], Any]:
    """A column of positions for each column of the rows, -1 for nulls, and the rows' index.

    A message of refusal names a column and its levels, never a value.
    """
    import pandas as pd

    problem = "rows must be a data frame, or a mapping from names to columns of one length"
    if is_query(rows):
        raise DomainError(f"{problem}; a query has no order of rows: read it into memory first")
    with PublicWords(problem):
        names = _names(rows)
    if isinstance(rows, str) or not names or len(set(names)) < len(names):
        raise DomainError(f"{problem}, each name once")
    for name in names:
        if name not in network.domain:
            hint = near(name, network.domain.names) if type(name) is str else ""
            raise NetworkError(
                f"the rows have a column that is not a variable of the network{hint}; "
                f"variables: {', '.join(network.domain.names)}"
            )
    with PublicWords(problem):
        values = {name: pd.Series(_cells(rows[name]), dtype=object) for name in names}
    if len({len(column) for column in values.values()}) > 1:
        raise DomainError(problem)
    if not len(values[names[0]]):
        raise DomainError("there are no rows; give at least one, or ask dg.query without evidence")
    codes = {name: _codes(name, network.domain[name], column) for name, column in values.items()}
    return codes, rows.index if isinstance(rows, pd.DataFrame) else pd.RangeIndex(len(values[names[0]]))


def _names(rows: Any) -> list[str]:
    """The columns of a pandas, polars or Arrow table, or the keys of a mapping."""
    if isinstance(rows, Mapping):
        return [str(name) for name in rows]
    return [str(name) for name in getattr(rows, "column_names", rows.columns)]


def _cells(column: Any) -> list[Any]:
    """The values of a column; Arrow hands out scalars of its own."""
    return column.to_pylist() if hasattr(column, "to_pylist") else list(column)


def _codes(name: str, variable: Variable, column: Any) -> npt.NDArray[np.int64]:
    import pandas as pd

    problem = f"column {name!r} has values outside its levels; declared: {show_levels(variable.levels)}"
    with PublicWords(problem):
        places, distinct = pd.factorize(column)
    found = np.array([_code(variable, value, problem) for value in distinct] or [UNSEEN], np.int64)
    return np.where(places < 0, UNSEEN, found[places])


def _code(variable: Variable, value: Any, problem: str) -> int:
    with PublicWords(problem):
        code = variable.code(value.item() if isinstance(value, np.generic) else value)
    if code is None and isinstance(variable, Categories) and variable.other is not None:
        code = variable.code(variable.other)
    if code is None:
        raise DomainError(problem)
    return code
