"""Rows that a fitted model predicts, as one column for each variable.

A model works on codes and numbers and knows no rows. What turns tables, arrays and files into these lies behind the
privacy wall, where private rows are read as well; the package's root says which function it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpgraph.lazy import provided
from dpgraph.structure.conversion import is_query
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import Domain, DomainError


def columns_to_predict(rows: Any, declared: Domain | LinearDesign) -> Mapping[str, Any]:
    """Columns of codes and numbers: a mapping of them as it is, anything else read by what is declared.

    A mapping of codes is one of numpy arrays: lists, which are what tables of rows become, are refused.

    Raises:
        DomainError: If the rows do not fit the declaration.

    >>> columns_to_predict([["b"], ["a"]], Domain.of({"word": ["a", "b"]}))["word"].tolist()
    [1, 0]
    """
    if isinstance(rows, Mapping):
        if isinstance(declared, Domain) and not all(isinstance(column, np.ndarray) for column in rows.values()):
            raise DomainError(
                "a mapping is of numpy arrays of codes and numbers; of rows give a table, pd.DataFrame(X)"
            )
        if any(map(is_query, rows.values())):
            raise DomainError("a mapping is of columns in memory; of a query give the query itself, as rows")
        return rows
    return provided("read_features")(rows, declared)
