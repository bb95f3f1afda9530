"""Tables to measure: of a graph, small ones merged, or before there is one, such as all pairs of a domain.

With Laplace noise and optimal budgets the total squared error is 2 (sum_m W_m^(1/3))^3 / epsilon^2, where W_m is the
cells of table m times the families read from it (proofs.md P2), so a merge pays exactly when it lowers sum_m W_m^(1/3).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Literal, NoReturn

import numpy as np

from dpgraph.privacy.checks import Reals, check_choice, is_whole
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.domain import Domain, Level, NetworkError, Variable
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Holding, Network

Beyond = Literal["refuse", "leave-out"]
#: The most cells of a pair of ``all_pairs``, unless it is said; a table of more holds almost only noise.
MAX_PAIR_CELLS = 100_000
#: The most cells of a table that a choice among tables counts.
MOST_CELLS = 1 << 24
#: A smaller gain counts as none.
LEAST_GAIN = 1e-9
#: More tables than this, such as all pairs of 200 variables, stay as they are: the time grows with their square.
MOST_TABLES = 20_000
#: The largest share of a table; only their ratios matter.
MOST_SHARE = 1_000_000


@dataclass(frozen=True)
class Margins(Network):
    """The tables over some sets of variables, to be measured: a network without arcs whose families are these tables.

    Counting, mechanisms, files and least squares take it where they take a network; a model of its release needs a
    graph, which ``choose_network`` finds.

    Attributes:
        tables: The variables of each table, not all of the domain perhaps. All are measured, those inside another too,
            where a mechanism measures maximal tables.
        shares: The part of the budget of each table, of any scale; () for the mechanism's own, which minimise the total
            squared error of all their cells. ``allocation="optimal"`` uses them for the tables as they stand.

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
                would be absurdly large; or if shares are not whole numbers above 0, one for each table.
        """
        domain = Domain.of(domain)
        alone = FrozenMap((name, ()) for name in domain.names)
        return cls(domain, alone, tuple(tuple(table) for table in tables), tuple(shares))

    def __post_init__(self) -> None:
        if any(self.parents.values()):
            raise NetworkError("margins have no arcs; a graph is a Network")
        if self.rules:
            raise NetworkError("rules need a graph whose families hold them; give them to Network.of")
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
    """Every table of a domain: mechanisms that choose among tables read it, and no mechanism releases it as it is."""

    domain: Domain

    def cells(self, table: Iterable[str]) -> int:
        """How many cells the table over some variables has."""
        return math.prod(self.domain[name].size for name in table)

    def blocks(self, unit: PrivacyUnit) -> NoReturn:
        """Refused: nothing of it is measured."""
        raise ReleaseError("tables to choose from are not released; count(rows, network) has those that are measured")


def all_pairs(
    domain: Domain | Mapping[str, Variable | Iterable[Level]],
    *,
    max_cells: int = MAX_PAIR_CELLS,
    beyond: Beyond = "refuse",
) -> Margins:
    """The tables of every pair of variables, for ``count`` and ``release`` before a graph is chosen.

    Args:
        domain: The declared variables, two at least.
        max_cells: The most cells of a pair.
        beyond: The rule for a pair of more: ``"refuse"``, or ``"leave-out"``; a variable that is then in no pair is
            measured by itself.

    Returns:
        A public description; every table has the same share of the budget, since narrow pairs are worth more than the
        widest. The price of measuring it, ``dg.privacy_cost(dg.all_pairs(domain), ...)``, needs no data.

    Raises:
        NetworkError: If there are fewer than two variables, or a pair has more than ``max_cells`` cells, naming it.

    >>> all_pairs({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]})
    Margins(3 variables, 3 tables, 16 cells)
    """
    domain = Domain.of(domain)
    if not is_whole(max_cells) or max_cells < 1:
        raise NetworkError(f"max_cells is a whole number above 0; got {max_cells!r:.60}")
    check_choice("beyond", beyond, Beyond, error=NetworkError)
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


def holders(network: Network, tables: Sequence[Family]) -> dict[Family, Family]:
    """For each family the smallest table that contains it, variables of one level left out, ties to the first."""
    holding, sizes = Holding(network, tables), network.domain.sizes
    chosen: dict[Family, Family] = {}
    for family in network.families:
        varying = tuple(name for name in family if sizes[name] > 1)
        inside = holding.places(family) or (holding.places(varying) if varying else [])
        if inside:
            chosen[family] = min((tables[place] for place in inside), key=network.cells)
    return chosen


def weights(network: Network, tables: Sequence[Family]) -> list[int]:
    """W_m for each table: its cells times the number of families read from it, at least one."""
    served = dict.fromkeys(tables, 0)
    for table in holders(network, tables).values():
        served[table] += 1
    return [network.cells(table) * max(1, served[table]) for table in tables]


@lru_cache(maxsize=64)
def measured_families(network: Network) -> tuple[Family, ...]:
    """The maximal families, merged greedily where that lowers the noise; it follows from public structure alone."""
    families = network.maximal_families
    if len(families) > MOST_TABLES:
        return families
    merger = _Merger(network, families)
    while (pair := merger.best()) is not None:
        merger.merge(*pair)
    position = network.position
    return tuple(
        families[place] if len(members) == len(families[place]) else tuple(sorted(members, key=position.__getitem__))
        for place, members in merger.members.items()
    )


class _Merger:
    """Tables by their place, each with the later table whose merge with it gains most, and this gain."""

    def __init__(self, network: Network, tables: Sequence[Family]) -> None:
        self._sizes = network.domain.sizes
        self.members = {place: frozenset(table) for place, table in enumerate(tables)}
        self.cells = np.array([network.cells(table) for table in tables], float)
        self.served = np.array(weights(network, tables)) / self.cells
        self._cost = np.cbrt(self.cells * self.served)
        places: dict[str, list[int]] = {name: [] for name in network.domain.names}
        for place, table in enumerate(tables):
            for name in table:
                places[name].append(place)
        self._places = {name: np.array(found, int) for name, found in places.items()}
        self._gain = np.full(len(tables), -np.inf)
        self._partner = np.zeros(len(tables), int)
        for place in self.members:
            self._find_partner(place)

    def best(self) -> tuple[int, int] | None:
        """The places of the two tables whose merge gains most, the first such; None where no merge gains."""
        while self._gain.max() > LEAST_GAIN:
            place = int(self._gain.argmax())
            if self._partner[place] > place:
                return place, int(self._partner[place])
            self._find_partner(place)
        return None

    def merge(self, one: int, two: int) -> None:
        """Puts the union of two tables in the place of the first."""
        for name in self.members[two]:
            others = self._places[name][self._places[name] != two]
            self._places[name] = others if name in self.members[one] else np.sort(np.append(others, one))
        self.members[one] |= self.members.pop(two)
        self.cells[one] = math.prod(self._sizes[name] for name in self.members[one])
        self.served[one] += self.served[two]
        self._cost[one] = np.cbrt(self.cells[one] * self.served[one])
        self._cost[two] = self._gain[two] = -np.inf
        self._partner[(self._partner == one) | (self._partner == two)] = -1
        gains = self._gains(one, 0)[:one]
        better = gains > self._gain[:one]
        self._gain[:one][better], self._partner[:one][better] = gains[better], one
        self._find_partner(one)

    def _find_partner(self, place: int) -> None:
        gains = self._gains(place, place + 1)
        self._partner[place] = place + 1 + gains.argmax() if gains.size else place + 1
        self._gain[place] = gains.max(initial=-np.inf)

    def _gains(self, place: int, first: int) -> Reals:
        """By how much merges with the tables from the first on lower the sum of W^(1/3); an ended table gains none."""
        joint = self.cells[first:] * self.cells[place]
        for name in self.members[place]:
            sharing = self._places[name]
            joint[sharing[np.searchsorted(sharing, first) :] - first] /= self._sizes[name]
        served = self.served[first:] + self.served[place]
        return self._cost[place] + self._cost[first:] - np.cbrt(served * joint)
