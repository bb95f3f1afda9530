"""Exact counts: of families, of any tables that a choice asks for, and of words whose list is not public.

Law: ``count(a, network) + count(b, network) == count(a and b, network)``, with zero the count of no rows: engines and
machines may count apart and add.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpgraph.privacy.checks import Integers
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.privacy.scope import RowCap, RowGroup, joined
from dpgraph.statistics.contingency import add_tables
from dpgraph.statistics.rows.arrow import UNREADABLE, Held
from dpgraph.statistics.rows.batches import TEXT_NULLS, Batch, Sensitive, batch_length, is_number, is_string, value_type
from dpgraph.statistics.rows.codes import Codes, check_declarations, encode, encode_batch, mended, text_words
from dpgraph.statistics.rows.persons import PersonCap
from dpgraph.statistics.summary import summarise
from dpgraph.statistics.tally import Kernel
from dpgraph.structure.conversion import OURS, PublicWords
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import MISSING, OTHER, Domain, DomainError, Level, NetworkError, OpenLevels
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.margins import MOST_CELLS, AnyTables, measured_families
from dpgraph.structure.network import Family, Holding, Network, codes
from dpgraph.structure.tables import margin

if TYPE_CHECKING:
    from dpgraph.statistics.moments import Moments


@dataclass(frozen=True, eq=False, repr=False)
class Counts(Sensitive):
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
        """The counted statistics: the network."""
        return self.network

    def sensitive_block(self, name: Family, unit: PrivacyUnit) -> Integers:
        """The exact counts of a table's cells that can be, the same under every unit: no other cell is read (P131)."""
        counts, possible = self.sensitive_margin(name), self.network.possible(name)
        return counts if possible is None else counts[possible]

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


def families(network: Network) -> Kernel:
    """Counting of a network: the codes of rows to one vector, the cells of all measured tables."""
    work = partial(_read, network), partial(_add, network), partial(_counts, network)
    return Kernel("counts", "network", network.domain, _layout(network)[1][-1], *work)


def _read(network: Network, batch: Batch, is_text: bool) -> tuple[dict[str, Any], None]:
    return encode_batch(batch, network.domain, is_text), None


def _add(network: Network, read: Mapping[str, npt.NDArray[Any]], vector: Integers) -> None:
    tables, ends = _layout(network)
    if network.rules:
        read = _within_rules(read, network)
    columns = [read[name] for name in network.domain.names]
    add_tables(columns, tuple(network.domain.sizes.values()), tables, np.split(vector, ends[:-1]))


def _counts(network: Network, vector: Integers, group: RowGroup | None, cap: RowCap | None) -> Counts:
    tables = measured_families(network)
    parts = zip(tables, np.split(vector, _layout(network)[1][:-1]), strict=True)
    found = FrozenMap((table, part.reshape(network.shape(table))) for table, part in parts)
    return Counts(network, found, group, cap)


def _within_rules(read: Mapping[str, npt.NDArray[Any]], network: Network) -> Mapping[str, npt.NDArray[Any]]:
    """The codes, rows that break a rule refused or counted as declared; a refusal tells only that there are. Sensitive.

    A level that such rows count as is in no rule, so rules are kept one after another.
    """
    rules, domain, columns = network.rules, network.domain, dict(read)
    for rule in rules.impossible:
        each = [np.isin(columns[name], codes(domain, name, levels)) for name, levels in rule.items()]
        breaks, last = np.logical_and.reduce(each), list(rule)[-1]
        if not breaks.any():
            continue
        if rules.broken == "refuse":
            raise DomainError(
                f"some rows break a rule of the network: {'; '.join(rules.words())}. The refusal reveals that; "
                "dg.Rules(..., broken='missing') counts such rows as a level of the variable named last"
            )
        landing = domain.code(last, rules.landing(domain, last))
        columns[last] = np.where(breaks, landing, columns[last]).astype(columns[last].dtype)
    return columns


@lru_cache(maxsize=16)
def _layout(network: Network) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The variables of each measured table by position, and where its cells end in the vector."""
    tables = measured_families(network)
    ends = accumulate(network.cells(table) for table in tables)
    return tuple(tuple(network.position[name] for name in table) for table in tables), tuple(ends)


def count(
    rows: Any,
    network: Network,
    *,
    where: Mapping[str, Level] | None = None,
    person: str | PersonCap | None = None,
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
        person: The column that says whose row it is, no variable of the network. A fresh secret key chooses
            ``rows_per_person`` of each person's rows, whatever the rows of others (``dg.statistics.cap_rows``). Give it
            all rows at once; they are then held encoded in memory, or by the workers of a cluster.
        rows_per_person: How many rows of one person count, for ``person``; the budget's unit must cover as many.
        engine: Whose workers read the row groups of a Parquet path: a ``SparkSession``, or ``"dask"`` for Dask's active
            scheduler.
        progress: Shows on a terminal's stderr which share of a Parquet path is counted, or the time; never how many
            rows.

    Returns:
        Sensitive counts; they add.

    Raises:
        NetworkError: If ``network`` is not a Network.
        DomainError: If the rows do not fit the domain, ``where`` is not declared variables and levels, ``engine`` is
            unknown, or ``person`` is not a column, is declared, or holds nulls where the domain is not strict.

    >>> import pandas as pd
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> count(pd.DataFrame({"rain": ["no", "yes"], "wet": ["no", "yes"]}), network)
    Counts(2 variables, sensitive)
    """
    _check_network(network, "count")
    if isinstance(rows, Codes):
        check_declarations(rows, network.domain)
    asked: Any = {"person": person, "rows_per_person": rows_per_person, "engine": engine, "progress": progress}
    return summarise(rows, families(network), where=where, **asked)


def count_groups(
    rows: Any,
    network: Network | LinearDesign,
    by: str | Sequence[str],
    *,
    domain: Domain | None = None,
    person: str | PersonCap | None = None,
    rows_per_person: int = 1,
    engine: Any = None,
    progress: bool = False,
) -> dict[Any, Counts] | dict[Any, Moments]:
    """Counts every family in each group of rows, in one pass, for the budgets of ``Budget.parallel``.

    The counts of ``count(rows, network, where={by: level})``, or the sums of ``regression_moments``, for all levels at
    once.

    Args:
        rows: As ``count`` takes them, but for ``Codes``, of which ``count(codes, network, where=...)`` counts a group.
        network: The DAG over its declared domain, or the ``LinearDesign`` of a regression.
        by: A variable, or several, whose levels are the groups.
        domain: Declares variables of ``by`` that are not the network's, or not features.
        person: As for ``count``.
        rows_per_person: How many rows of one person count, in all groups together.
        engine: As for ``count``.
        progress: As for ``count``.

    Returns:
        For each level of ``by``, or each tuple of levels where ``by`` is several, the sums of its rows; sensitive.

    Raises:
        NetworkError: If ``network`` is neither.
        DomainError: As ``count``; if ``by`` is not declared, there are more than 4096 groups, or there is no room for
            their tables (``DPGRAPH_MEMORY``).

    >>> import pandas as pd
    >>> network = Network.of({"wet": ["no", "yes"]}, {})
    >>> rows = pd.DataFrame({"wet": ["no", "yes"], "region": ["N", "S"], "who": [1, 1]})
    >>> count_groups(rows, network, "region", domain=Domain.of({"region": ["N", "S"]}), person="who")
    {'N': Counts(1 variables, sensitive), 'S': Counts(1 variables, sensitive)}
    """
    if isinstance(rows, Codes):
        raise DomainError("codes are counted group by group, dg.count(codes, network, where=...)")
    if isinstance(network, LinearDesign):
        from dpgraph.statistics.moments import products_of

        if isinstance(rows, tuple | list):
            raise DomainError("a pair of arrays has no column of groups; give a table that has one")
        kernel = products_of(network)
    else:
        _check_network(network, "count_groups")
        kernel = families(network)
    asked: Any = {"person": person, "rows_per_person": rows_per_person, "engine": engine, "progress": progress}
    return summarise(rows, kernel, by=() if by is None else by, domain=domain, **asked)


def _check_network(network: object, call: str) -> None:
    if not isinstance(network, Network):
        raise NetworkError(
            f"{call} takes rows, then the Network to count; got {type(network).__name__} for the network"
        )


#: Tables of up to so many cells together are kept once counted.
KEPT_CELLS = 1 << 24


@dataclass(frozen=True, eq=False, repr=False)
class TableCounts(Sensitive):
    """Exact counts of whatever table is asked for: sensitive, without numbers in its ``repr``, not pickled."""

    sensitive_codes: Codes
    _kept: dict[Family, Integers] = field(default_factory=dict, init=False, repr=False)
    _cells: list[int] = field(default_factory=lambda: [0], init=False, repr=False)  # of all that are kept

    @property
    def description(self) -> AnyTables:
        """The tables on offer: every table of the domain."""
        return AnyTables(self.sensitive_codes.domain)

    @property
    def cap(self) -> RowCap | None:
        """How many of a person's rows there are, where ``cap_rows`` chose them."""
        return self.sensitive_codes.cap

    @property
    def sensitive_rows(self) -> int:
        """The exact number of rows, sensitive unless the neighbour relation makes it public."""
        return self.sensitive_codes.sensitive_rows

    def sensitive_block(self, name: Family, unit: PrivacyUnit) -> Integers:
        """The exact counts over at most ``MOST_CELLS`` cells, in the order asked for; the same under every unit."""
        domain = self.sensitive_codes.domain
        ordered = tuple(one for one in domain.names if one in name)
        if ordered not in self._kept:
            cells = self.description.cells(name)
            if cells > MOST_CELLS:
                raise ReleaseError(f"the table of {', '.join(name)} has {cells:,} cells, more than {MOST_CELLS:,}")
            columns = [self.sensitive_codes.columns[one] for one in ordered]
            sizes = [domain.sizes[one] for one in ordered]
            total = np.zeros(cells, np.int64)
            add_tables(columns, sizes, [tuple(range(len(ordered)))], [total])
            if self._cells[0] + cells > KEPT_CELLS:
                self._kept.clear()
                self._cells[0] = 0
            self._cells[0] += cells
            self._kept[ordered] = total.reshape(sizes)
        return self._kept[ordered].transpose([ordered.index(one) for one in name])

    def __add__(self, other: TableCounts) -> TableCounts:
        if not isinstance(other, TableCounts):
            return NotImplemented
        mine, theirs = self.sensitive_codes, other.sensitive_codes
        if mine.domain != theirs.domain:
            raise ReleaseError("tables of different domains do not add")
        columns = ((one, np.concatenate([mine.columns[one], theirs.columns[one]])) for one in mine.domain.names)
        return TableCounts(Codes(mine.domain, FrozenMap(columns), joined(mine.cap, theirs.cap)))


def any_tables(rows: Any, domain: Domain) -> TableCounts:
    """Encodes rows, so that a mechanism that chooses among tables may count any table of them; sensitive."""
    return TableCounts(encode(rows, domain))


@dataclass(frozen=True, eq=False, repr=False)
class LevelCounts(Sensitive):
    """The count of each word of some variables: sensitive, and so are the words. It shows nothing, and does not add."""

    description: OpenLevels
    sensitive_counts: FrozenMap[str, FrozenMap[str, int]]
    sensitive_rows: int
    group: RowGroup | None = None
    cap: RowCap | None = None

    def sensitive_block(self, name: str, unit: Any) -> Integers:
        """The counts of a variable's words, in the order of the alphabet."""
        return np.array([many for _, many in sorted(self.sensitive_counts[name].items())], np.int64)


def count_words(rows: Held, names: Mapping[str, bool], group: RowGroup | None, cap: RowCap | None) -> LevelCounts:
    """The counts of each word of variables (nulls declared or not), but for ``other``, ``missing`` and nulls."""
    with PublicWords(UNREADABLE, passing=OURS, quiet=False):
        counts = {name: _counted(rows, name, missing) for name, missing in names.items()}
        many = sum(batch_length(batch) for batch, _ in rows.parts)
    return LevelCounts(OpenLevels(tuple(names)), FrozenMap(counts), many, group, cap)


def _counted(rows: Held, name: str, missing: bool) -> FrozenMap[str, int]:
    found: Counter[str] = Counter()
    for batch, is_text in rows.parts:
        words, indices = _words(batch[name], name)
        places = indices.cast(pa.int64()).fill_null(len(words)).to_numpy()
        met = np.bincount(places, minlength=len(words) + 1)
        nulls = int(met[-1])
        for word, many in zip(words, met.tolist(), strict=False):
            if word is None or (is_text and word in TEXT_NULLS):
                nulls += many
            elif many and word not in (OTHER, MISSING):
                found[word] += many
        if nulls and not missing:
            raise DomainError(f"column {name!r} holds nulls; declare missing=True to give them a level of their own")
    return FrozenMap(found)


def _words(array: pa.Array, name: str) -> tuple[list[str | None], pa.Array]:
    """A column as words and the place of each row's among them; of numbers and booleans the text that spells them."""
    kind = value_type(array)
    readable = is_string(kind) or is_number(kind) or pa.types.is_boolean(kind) or pa.types.is_null(kind)
    if not (readable or pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        bare = re.split(r"\W", str(kind))[0]  # the fields of a struct are contents of rows
        raise DomainError(f"column {name!r} of type {bare} holds no words, numbers or booleans: make text of it")
    coded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    words, indices = coded.dictionary, mended(coded.indices, len(coded.dictionary))
    if is_number(kind) or pa.types.is_boolean(kind):
        return [None if value is None or value != value else _spelled(value) for value in words.to_pylist()], indices
    return [] if pa.types.is_null(kind) else text_words(words), indices


def _spelled(value: float | bool) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
