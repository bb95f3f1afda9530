"""Exact family counts: a commutative monoid, so engines and machines may count apart and add.

Law: ``count(a, network) + count(b, network) == count(a and b, network)``, with zero the count of no rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.records import ReleaseError
from dpgraph.statistics.codes import Codes, encoded_batches
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import margin, smallest_holder

Integers = npt.NDArray[np.int64]

#: Rows counted at once: the index of a block stays in cache.
BLOCK = 1 << 16


@dataclass(frozen=True, eq=False)
class Counts:
    """Exact contingency tables of a network: sensitive.

    Every family table is a margin of one of these. There are no numbers in its ``repr``, it is not pickled and has
    no saver; ``release`` is the way out.
    """

    network: Network
    sensitive_tables: FrozenMap[Family, Integers]

    def __post_init__(self) -> None:
        frozen = {key: frozen_array(table, np.int64) for key, table in self.sensitive_tables.items()}
        object.__setattr__(self, "sensitive_tables", FrozenMap(frozen))

    @classmethod
    def zero(cls, network: Network) -> Counts:
        """The counts of no rows."""
        tables = network.measured_families
        return cls(network, FrozenMap((key, np.zeros(network.shape(key), np.int64)) for key in tables))

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if other.network != self.network:
            raise ReleaseError("counts of different networks do not add")
        mine, theirs = self.sensitive_tables, other.sensitive_tables
        return Counts(self.network, FrozenMap((key, mine[key] + theirs[key]) for key in mine))

    def sensitive_margin(self, variables: Family) -> Integers:
        """The exact counts over variables that one table holds together."""
        holder = smallest_holder(self.network, self.sensitive_tables, variables)
        return margin(self.sensitive_tables[holder], holder, variables)

    @property
    def sensitive_rows(self) -> int:
        """The exact number of rows, sensitive unless the neighbour relation makes it public."""
        return int(next(iter(self.sensitive_tables.values())).sum())

    def __repr__(self) -> str:
        return f"Counts({len(self.network.domain.names)} variables, sensitive)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("counts are sensitive and are not pickled; release them")


def count(rows: Any, network: Network) -> Counts:
    """Counts every family of a network in one pass.

    Args:
        rows: A pandas, polars or Arrow table, anything with ``__arrow_c_stream__``, ``Codes``, or the path of a CSV
            file, a Parquet file or a folder of Parquet files.
        network: The DAG over its declared domain.

    Returns:
        Sensitive counts; they add.

    Raises:
        DomainError: If the rows do not fit the domain. Nothing is counted then.

    >>> import pandas as pd
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> count(pd.DataFrame({"rain": ["no", "yes"], "wet": ["no", "yes"]}), network)
    Counts(2 variables, sensitive)
    """
    tables = network.measured_families
    totals = [np.zeros(network.cells(table), np.int64) for table in tables]
    for codes in encoded_batches(rows, network.domain):
        for total, table in zip(totals, tables, strict=True):
            total += _table_counts(codes, table, network.shape(table))
    shaped = ((table, total.reshape(network.shape(table))) for table, total in zip(tables, totals, strict=True))
    return Counts(network, FrozenMap(shaped))


def _table_counts(codes: Codes, table: Family, shape: Sequence[int]) -> Integers:
    """One joint histogram, block by block: the raveled index of each row, then a bincount."""
    cells = int(np.prod(shape))
    total = np.zeros(cells, np.int64)
    columns = [codes.columns[name] for name in table]
    for start in range(0, len(columns[0]), BLOCK):
        index = columns[0][start : start + BLOCK].astype(np.int64)
        for column, size in zip(columns[1:], shape[1:], strict=True):
            index *= size
            index += column[start : start + BLOCK]
        total += np.bincount(index, minlength=cells)
    return total
