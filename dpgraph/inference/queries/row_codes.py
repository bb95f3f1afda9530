"""Rows of evidence as positions of levels; what is null is not observed.

Rows may be private even where the model is not, so no message repeats a value of theirs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.structure.conversion import converted, is_query
from dpgraph.structure.domain import Categories, DomainError, NetworkError, Variable, show_levels
from dpgraph.structure.network import Network

Codes = dict[str, npt.NDArray[np.int64]]

#: The code of a cell that holds nothing.
UNSEEN = -1


def codes_of_rows(network: Network, rows: Any) -> tuple[Codes, Any]:
    """A column of positions for each column of the rows, -1 for nulls, and the rows' index.

    Args:
        network: The DAG over its domain.
        rows: A pandas, polars or Arrow table, or a mapping from names to columns.

    Raises:
        NetworkError: If a column is no variable.
        DomainError: If the rows are no table, there are none, columns differ in length, or a value is no level; the
            message names the column and its levels.
    """
    import pandas as pd

    problem = "rows must be a data frame, or a mapping from names to columns of one length"
    if is_query(rows):
        raise DomainError(f"{problem}; a query has no order of rows: read it into memory first")
    names: list[str] = converted(lambda: _names(rows), problem)
    if isinstance(rows, str) or not names or len(set(names)) < len(names):
        raise DomainError(f"{problem}, each name once")
    for name in names:
        if name not in network.domain:
            raise NetworkError(f"a column is no variable of the network; it has {', '.join(network.domain.names)}")
    values = {name: converted(lambda name=name: pd.Series(_cells(rows[name]), dtype=object), problem) for name in names}
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
    """The positions of one column's values."""
    import pandas as pd

    problem = f"column {name!r} holds what is no level; declared: {show_levels(variable.levels)}"
    places, distinct = converted(lambda: pd.factorize(column), problem)
    found = np.array([_code(variable, value, problem) for value in distinct] or [UNSEEN], np.int64)
    return np.where(places < 0, UNSEEN, found[places])


def _code(variable: Variable, value: Any, problem: str) -> int:
    plain = converted(lambda: value.item() if isinstance(value, np.generic) else value, problem)
    code = converted(lambda: variable.code(plain), problem)
    if code is None and isinstance(variable, Categories) and variable.other is not None:
        code = variable.code(variable.other)
    if code is None:
        raise DomainError(problem)
    return code


def evidence_columns(codes: Mapping[str, npt.NDArray[np.int64]]) -> tuple[npt.NDArray[np.int64], tuple[str, ...]]:
    """The columns side by side, shape (rows, columns), and their names."""
    return np.stack(list(codes.values()), axis=1), tuple(codes)
