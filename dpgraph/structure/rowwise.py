"""Rows that a model predicts, and arithmetic whose result for a row depends on that row alone, to the last bit.

A model knows no rows; the package's root names the reader, behind the privacy wall. A float sum depends on its order,
which BLAS and numpy choose by the number of rows: one row more may flip the predictions of others (promise.md S24).
Sums here are element-wise, in a public order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.lazy import provided
from dpgraph.privacy.checks import Reals
from dpgraph.structure.conversion import is_query
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import Domain, DomainError

#: Rows of a block.
BLOCK = 1024


def added(parts: Iterable[Reals]) -> Reals:
    """The sum of arrays of one shape, or over the first axis of an array: one after another."""
    return reduce(np.add, parts)


def weighted(columns: Reals, weights: Reals) -> Reals:
    """The sum of columns times their weights, shape (rows,): no product of matrices."""
    return added(column * weight for column, weight in zip(columns.T, weights, strict=True))


@np.errstate(all="ignore")
def in_blocks(function: Callable[[npt.NDArray[Any]], Reals], rows: npt.NDArray[Any], length: int = BLOCK) -> Reals:
    """A function's numbers for rows, in blocks of one length: the last bits of exp and log depend on the place."""
    found = np.empty(len(rows))
    for start in range(0, len(rows), length):
        part, block = rows[start : start + length], np.zeros((length, *rows.shape[1:]), rows.dtype)
        block[: len(part)] = part
        found[start : start + length] = function(block)[: len(part)]
    return found


def columns_to_predict(rows: Any, declared: Domain | LinearDesign, *, unseen: bool = False) -> Mapping[str, Any]:
    """A mapping of columns as it is, in arrays; other rows by their declaration, ``unseen`` as for ``encode``."""
    if isinstance(rows, Mapping):
        if isinstance(declared, Domain) and not all(isinstance(column, np.ndarray) for column in rows.values()):
            raise DomainError(
                "a mapping is of numpy arrays of codes and numbers; of rows give a table, pd.DataFrame(X)"
            )
        if any(map(is_query, rows.values())):
            raise DomainError("a mapping is of columns in memory; of a query give the query itself, as rows")
        return rows
    return provided("read_features")(rows, declared, unseen=unseen)
