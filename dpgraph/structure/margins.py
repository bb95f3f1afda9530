"""Tables that are measured before there is a graph: all pairs of a domain, or any other sets of its variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Literal, NoReturn, get_args

from dpgraph.privacy.checks import is_whole
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.domain import Domain, Level, NetworkError, Variable
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network

Beyond = Literal["refuse", "leave-out"]

#: The most cells of a pair of ``all_pairs``, unless it is said; a table of more holds almost only noise.
MAX_PAIR_CELLS = 100_000
#: The most cells of a table that a choice among tables counts.
MOST_CELLS = 1 << 24
#: The largest share of a table; only their ratios matter.
MOST_SHARE = 1_000_000


@dataclass(frozen=True)
class Margins(Network):
    """The tables over some sets of variables, to be measured: a network without arcs whose families are these tables.

    Counting, mechanisms, files and least squares take it where they take a network; what is learned from its release
    needs a graph, which ``choose_network`` finds.

    Attributes:
        tables: The variables of each table, not all of the domain perhaps. All are measured, those inside another too,
            where a mechanism measures maximal tables.
        shares: The part of the budget of each table, of any scale; () for what the mechanism finds best for the total
            squared error of all their cells. They say what ``allocation="optimal"`` is, for the tables as they stand.

    >>> margins = Margins.of_tables({name: [0, 1] for name in "abc"}, [("a", "b"), ("b", "c")])
    >>> margins.families, margins.maximal_families
    ((('a', 'b'), ('b', 'c')), (('a', 'b'), ('b', 'c')))
    """

    tables: tuple[Family, ...] = ()
    shares: tuple[int, ...] = ()

    @classmethod
    def of_tables(
        cls,
        domain: Domain | Mapping[str, Variable | Iterable[Level]],
        tables: Iterable[Iterable[str]],
        shares: Iterable[int] = (),
    ) -> Margins:
        """The tables over these sets of variables.

        Raises:
            NetworkError: If there are none, a variable is unknown or twice in a table, a table is there twice, or
                would be absurdly large; or if shares are no whole numbers above 0, one for each table.
        """
        domain = Domain.of(domain)
        alone = FrozenMap((name, ()) for name in domain.names)
        return cls(domain, alone, tuple(tuple(table) for table in tables), tuple(shares))

    def __post_init__(self) -> None:
        if any(self.parents.values()):
            raise NetworkError("margins have no arcs; a graph is a Network")
        for table in self.tables:
            if not table or len(set(table)) < len(table):
                raise NetworkError(f"a table is over some variables, each once; got {table!r}")
            for name in table:
                self.domain[name]
        if len({frozenset(table) for table in self.tables}) < len(self.tables):
            raise NetworkError("a table is there twice")
        if not self.tables:
            raise NetworkError("there is no table to measure; give one at least")
        if self.shares and len(self.shares) != len(self.tables):
            raise NetworkError(f"{len(self.tables)} tables have as many shares; got {len(self.shares)}")
        if not all(is_whole(share, 1, MOST_SHARE) for share in self.shares):
            raise NetworkError(f"shares are whole numbers from 1 to {MOST_SHARE:,}")
        super().__post_init__()

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The tables."""
        return self.tables

    @cached_property
    def maximal_families(self) -> tuple[Family, ...]:
        """The tables, those inside another too."""
        return self.tables

    def __repr__(self) -> str:
        return f"Margins({len(self.domain.names)} variables, {len(self.tables)} tables, {self.cell_count} cells)"


@dataclass(frozen=True)
class AnyTables:
    """Every table of a domain: what a mechanism that chooses among tables reads, and no mechanism releases as it is."""

    domain: Domain

    def cells(self, table: Iterable[str]) -> int:
        """How many cells the table over some variables has."""
        return prod(self.domain[name].size for name in table)

    def blocks(self, unit: PrivacyUnit) -> NoReturn:
        """Refused: nothing of it is measured."""
        raise ReleaseError("tables to choose from are not released; count(rows, network) has those that are measured")


def all_pairs(
    domain: Domain | Mapping[str, Variable | Iterable[Level]],
    *,
    max_cells: int = MAX_PAIR_CELLS,
    beyond: Beyond = "refuse",
) -> Margins:
    """The tables of every pair of variables: what ``count`` and ``release`` measure before a graph is chosen.

    Args:
        domain: The declared variables, two at least.
        max_cells: The most cells of a pair.
        beyond: What happens to a pair of more: ``"refuse"``, or ``"leave-out"``; a variable that is then in no pair is
            measured by itself.

    Returns:
        A public description; every table has the same share of the budget, since narrow pairs are worth more than what
        the widest would need. The price of measuring it, ``dg.privacy_cost(dg.all_pairs(domain), ...)``, needs no data.

    Raises:
        NetworkError: If there are fewer than two variables, or a pair has more than ``max_cells`` cells, naming it.

    >>> all_pairs({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]})
    Margins(3 variables, 3 tables, 16 cells)
    """
    domain = Domain.of(domain)
    if not is_whole(max_cells) or max_cells < 1:
        raise NetworkError(f"max_cells is a whole number above 0; got {max_cells!r:.60}")
    if beyond not in get_args(Beyond):
        raise NetworkError(f"beyond must be 'refuse' or 'leave-out'; got {beyond!r:.60}")
    if len(domain.names) < 2:
        raise NetworkError("a graph needs two variables at least; the domain declares one")
    sizes = domain.sizes
    kept: list[Family] = []
    for one, other in combinations(domain.names, 2):
        cells = sizes[one] * sizes[other]
        if cells <= max_cells:
            kept.append((one, other))
        elif beyond == "refuse":
            raise NetworkError(
                f"the pair {one!r} and {other!r} has {cells:,} cells, more than max_cells={max_cells:,}: declare "
                "coarser levels, raise max_cells, or leave such pairs out, beyond='leave-out'"
            )
    held = {name for pair in kept for name in pair}
    tables = [*kept, *((name,) for name in domain.names if name not in held)]
    return Margins.of_tables(domain, tables, [1] * len(tables))
