"""What a fitted network says: synthetic rows and the log-likelihood of encoded rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.records import Release, ReleaseError, released_value
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities, Reals

if TYPE_CHECKING:
    import pandas as pd

#: Rows drawn at once.
BLOCK = 1 << 16


def sample_codes(
    probabilities: Probabilities, n: int, rng: np.random.Generator
) -> dict[str, npt.NDArray[np.unsignedinteger[Any]]]:
    """Ancestral sampling: level positions of n synthetic rows, parents before children."""
    network = probabilities.network
    cumulative = {name: np.cumsum(_rows(probabilities.table(name)), axis=1) for name in network.order}
    codes = {name: np.empty(n, np.min_scalar_type(network.domain.sizes[name])) for name in network.domain.names}
    for start in range(0, n, BLOCK):
        stop = min(n, start + BLOCK)
        for name in network.order:
            row = _row_index(network, name, {parent: codes[parent][start:stop] for parent in network.parents[name]})
            levels, uniform = cumulative[name], rng.random(stop - start)
            code = np.zeros(stop - start, np.int64)
            for level in range(levels.shape[1] - 1):
                column = np.ascontiguousarray(levels[:, level])
                code += uniform >= (column[row] if row is not None else column[0])
            codes[name][start:stop] = code
    return codes


def sample_rows(
    probabilities: Probabilities | Release[Probabilities], n: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Draws synthetic rows from a network.

    Args:
        probabilities: The conditional probability tables.
        n: How many rows; it is yours to choose, and need not be the number of private rows.
        rng: Randomness for post-processing.

    Returns:
        A DataFrame with a categorical column for each variable, its declared levels as categories; a binned
        variable holds the names of its bins.

    Raises:
        ReleaseError: If n is not a whole number, at least 0.
    """
    import pandas as pd

    value, _ = released_value(probabilities)
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ReleaseError(f"n must be a whole number, at least 0; got {n!r}")
    codes = sample_codes(value, int(n), rng)
    domain = value.network.domain
    return pd.DataFrame(
        {name: pd.Categorical.from_codes(codes[name], list(domain.levels(name))) for name in domain.names}
    )


def log_likelihood(probabilities: Probabilities, codes: Mapping[str, npt.NDArray[Any]]) -> Reals:
    """The natural log of each encoded row's probability, in nats; -inf where the network excludes the row."""
    network = probabilities.network
    total = np.zeros(len(codes[network.domain.names[0]]))
    with np.errstate(divide="ignore"):
        for name in network.domain.names:
            row = _row_index(network, name, codes)
            log_table = np.log(_rows(probabilities.table(name)))
            total += log_table[0 if row is None else row, codes[name]]
    return total


def _rows(table: Reals) -> Reals:
    """A conditional table as a matrix: a row for each parent configuration."""
    return np.ascontiguousarray(table.reshape(table.shape[0], -1).T)


def _row_index(network: Network, name: str, codes: Mapping[str, npt.NDArray[Any]]) -> npt.NDArray[np.int64] | None:
    """The parent configuration of each row; None without parents."""
    row: npt.NDArray[np.int64] | None = None
    for parent in network.parents[name]:
        column = codes[parent].astype(np.int64)
        row = column if row is None else row * network.domain.sizes[parent] + column
    return row
