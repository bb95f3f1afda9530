"""Exact family counts: a commutative monoid, so engines and machines may count apart and add.

Law: ``count(a, network) + count(b, network) == count(a and b, network)``, with zero the count of no rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.records import PrivacyUnit, ReleaseError
from dpgraph.privacy.scope import RowCap, RowGroup, joined
from dpgraph.statistics.contingency.tables import add_tables
from dpgraph.statistics.engines.persons import Capped
from dpgraph.statistics.engines.total import capped_total, total
from dpgraph.statistics.rows.batches import Batch
from dpgraph.statistics.rows.codes import UNREADABLE, Codes, encode_batch, encoded_batches, select
from dpgraph.statistics.rows.groups import group_of
from dpgraph.statistics.rows.levels import code_dtype
from dpgraph.statistics.rows.persons import PersonCap, cap_of, refuse_group
from dpgraph.structure.conversion import OURS, converted
from dpgraph.structure.domain import Domain, DomainError, Level, NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.holding import Holding
from dpgraph.structure.merging import measured_families
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import margin
from dpgraph.waiting import waiting

Integers = npt.NDArray[np.int64]

#: What to do instead of a cap within a group.
GROUPS_OF_CAPPED = (
    "Count all groups of one choice, dg.statistics.count_groups(rows, network, by, person=...), or cap all rows once, "
    "codes = dg.statistics.cap_rows(...), and count(codes, where=...)"
)


@dataclass(frozen=True, eq=False)
class Counts:
    """Exact contingency tables of a network: sensitive.

    Every family table is a margin of one of these. There are no numbers in its ``repr``, it is not pickled and has
    no saver; ``release`` is the way out. ``group`` says which rows were counted, None all, and ``cap`` how many of a
    person's, where ``cap_rows`` chose them; both are public.
    """

    network: Network
    sensitive_tables: FrozenMap[Family, Integers]
    group: RowGroup | None = None
    cap: RowCap | None = None

    def __post_init__(self) -> None:
        frozen = {key: frozen_array(table, np.int64) for key, table in self.sensitive_tables.items()}
        object.__setattr__(self, "sensitive_tables", FrozenMap(frozen))

    @classmethod
    def zero(cls, network: Network) -> Counts:
        """The counts of no rows."""
        tables = measured_families(network)
        return cls(network, FrozenMap((key, np.zeros(network.shape(key), np.int64)) for key in tables))

    def __add__(self, other: Counts) -> Counts:
        if not isinstance(other, Counts):
            return NotImplemented
        if other.network != self.network:
            raise ReleaseError("counts of different networks do not add")
        if other.group != self.group:
            raise ReleaseError("counts of different groups of rows do not add; count the rows without where=")
        cap = joined(self.cap, other.cap)
        mine, theirs = self.sensitive_tables, other.sensitive_tables
        return Counts(self.network, FrozenMap((key, mine[key] + theirs[key]) for key in mine), self.group, cap)

    @property
    def description(self) -> Network:
        """What was counted: the network."""
        return self.network

    def sensitive_block(self, name: Family, unit: PrivacyUnit) -> Integers:
        """The exact counts of a table, which are the same under every unit."""
        return self.sensitive_margin(name)

    @cached_property
    def _holding(self) -> Holding:
        return Holding(self.network, self.sensitive_tables)

    def sensitive_margin(self, variables: Family) -> Integers:
        """The exact counts over variables that one table holds together."""
        holder = self._holding.smallest(variables)
        return margin(self.sensitive_tables[holder], holder, variables)

    @property
    def sensitive_rows(self) -> int:
        """The exact number of rows, sensitive unless the neighbour relation makes it public."""
        return int(next(iter(self.sensitive_tables.values())).sum())

    def __repr__(self) -> str:
        return f"Counts({len(self.network.domain.names)} variables, sensitive)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("counts are sensitive and are not pickled; release them")


@dataclass(frozen=True)
class Tally:
    """What an engine does with any part of the rows, wherever they lie: rows to one vector.

    Vectors add. A tally holds no rows: it is public, and is what travels to other machines.
    """

    network: Network
    domain: Domain
    group: RowGroup | None = None

    @property
    def rows_at_once(self) -> int | None:
        """Counting has threads of its own."""
        return None

    def add(self, batch: Batch, vector: Integers, is_text: bool = False) -> None:
        """Encodes a batch and adds its counts to a vector, in place. Sensitive."""
        self(encode_batch(batch, self.domain, is_text), vector)

    def __call__(self, codes: Codes, vector: Integers) -> None:
        """Adds the counts of encoded rows to a vector, in place, as ``count_vector``. Sensitive."""
        chosen = codes if self.group is None else select(codes, self.group)
        (known,) = encoded_batches(chosen, self.network.domain)
        count_vector(known, self.network, vector)

    def read(self, batch: Batch, is_text: bool = False) -> tuple[list[Any], npt.NDArray[np.bool_]]:
        """The codes of a batch, all of whose rows are counted. Sensitive."""
        codes = encode_batch(batch, self.domain, is_text)
        return list(codes.columns.values()), np.ones(codes.sensitive_rows, bool)

    def add_read(self, held: Sequence[Any], vector: Integers) -> None:
        """Adds the counts of rows that were read to a vector, in place. Sensitive."""
        sizes = self.domain.sizes.items()
        narrow = ((name, column.astype(code_dtype(size))) for (name, size), column in zip(sizes, held, strict=True))
        self(Codes(self.domain, FrozenMap(narrow)), vector)

    def zero(self) -> Integers:
        """The counts of no rows."""
        return count_vector(Codes.empty(self.network.domain), self.network)


def count(
    rows: Any,
    network: Network,
    *,
    where: Mapping[str, Level] | None = None,
    person: str | None = None,
    rows_per_person: int = 1,
    engine: Any = None,
    progress: bool = False,
) -> Counts:
    """Counts every family of a network in one pass, in memory that does not grow with a file or a stream.

    Where the rows lie on a cluster, its workers count and only their counts, which are sensitive too, travel inside
    it: dpgraph logs and writes none. An interruption or a refusal leaves nothing counted, released or charged.

    Args:
        rows: A pandas, polars or Arrow table, anything with ``__arrow_c_stream__`` (a DuckDB relation, a
            ``RecordBatchReader``), an iterator of such tables, the cursor of a query (DB-API or ADBC), ``Codes``, the
            path of a CSV file, a Parquet file or a folder of Parquet files, or a pyspark or dask DataFrame.
        network: The DAG over its declared domain.
        where: Counts only the rows in which each of these variables has the level given, for ``Budget.parallel``. The
            variables are the network's, or of the wider domain that ``rows``, then ``Codes``, were encoded by.
        person: The column that says whose row it is, no variable of the network. Rows of a person beyond
            ``rows_per_person`` are dropped: which, a fresh secret key decides, and no row of anybody else
            (``dg.statistics.cap_rows`` says more). Give it all rows at once; in memory all of them are then held
            encoded, and on a cluster its workers hand one another the rows of a person.
        rows_per_person: How many rows of one person count, for ``person``; the budget's unit must cover as many.
        engine: For a Parquet path that every worker can read: a ``SparkSession``, or ``"dask"`` for Dask's active
            scheduler. Its workers then read the row groups themselves.
        progress: Shows on a terminal's stderr which share of a Parquet path is counted, or the time; never how many
            rows.

    Returns:
        Sensitive counts; they add.

    Raises:
        NetworkError: If ``network`` is none.
        DomainError: If the rows do not fit the domain, ``where`` is not declared variables and levels, or ``engine``
            is not one of these; if ``person`` is no column, is declared, or holds nulls where the domain is not strict.
            Nothing is counted then.

    >>> import pandas as pd
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> count(pd.DataFrame({"rain": ["no", "yes"], "wet": ["no", "yes"]}), network)
    Counts(2 variables, sensitive)
    """
    if not isinstance(network, Network):
        raise NetworkError(f"count takes rows, then the Network to count; got {type(network).__name__} for the network")
    persons = cap_of(person, rows_per_person)
    refuse_group(where, persons, GROUPS_OF_CAPPED)
    if persons is not None:
        return count_capped(rows, network, persons, engine=engine, progress=progress)
    domain = rows.domain if isinstance(rows, Codes) else network.domain
    advice = "encode the rows by a domain that has it, and count those"
    group = None if where is None else group_of(where, domain, advice)
    cap = rows.cap if isinstance(rows, Codes) else None
    tally = Tally(network, domain, group)

    def vector() -> Integers:
        if not isinstance(rows, Codes) or engine is not None:
            return total(rows, tally, engine, progress)
        counted = tally.zero()
        with waiting("counting", progress):
            tally(rows, counted)
        return counted

    made = converted(vector, UNREADABLE, passing=OURS, quiet=False)
    return counts_of_vector(made, network, group, cap)


def count_capped(rows: Any, network: Network, cap: PersonCap, *, engine: Any = None, progress: bool = False) -> Counts:
    """As ``count`` with a person, by a cap with its key.

    Raises:
        DomainError: As ``count``.
    """
    if isinstance(rows, Codes):
        raise DomainError("codes hold no person column; give the rows themselves")
    capped = Capped(Tally(network, network.domain), cap)
    made = converted(lambda: capped_total(rows, capped, engine, progress), UNREADABLE, passing=OURS, quiet=False)
    return counts_of_vector(made, network, None, cap.record(network.domain.strict))


def count_vector(codes: Codes, network: Network, total: Integers | None = None) -> Integers:
    """The exact counts of one batch as one vector: what engines make apart, and add.

    Args:
        codes: Rows encoded by the network's domain.
        network: The DAG.
        total: A vector to add to, in place; None for one of zeros.

    Returns:
        The cells of ``measured_families(network)``, table after table, each in C order. Sensitive.

    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> count_vector(Codes.empty(network.domain), network).tolist()
    [0, 0, 0, 0]
    """
    tables, ends = _layout(network)
    total = np.zeros(ends[-1], np.int64) if total is None else total
    columns = [codes.columns[name] for name in network.domain.names]
    add_tables(columns, tuple(network.domain.sizes.values()), tables, np.split(total, ends[:-1]))
    return total


@lru_cache(maxsize=16)
def _layout(network: Network) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The variables of each measured table by position, and where its cells end in the vector."""
    tables = measured_families(network)
    ends = accumulate(network.cells(table) for table in tables)
    return tuple(tuple(network.position[name] for name in table) for table in tables), tuple(ends)


def counts_of_vector(
    vector: Integers, network: Network, group: RowGroup | None = None, cap: RowCap | None = None
) -> Counts:
    """The tables of a vector that ``count_vector`` made, or of a sum of such vectors."""
    tables = measured_families(network)
    parts = zip(tables, np.split(vector, _layout(network)[1][:-1]), strict=True)
    return Counts(network, FrozenMap((table, part.reshape(network.shape(table))) for table, part in parts), group, cap)
