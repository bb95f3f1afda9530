"""Which joint tables to measure, from the DAG and the numbers of levels alone.

Merging two tables into one doubles the budget of each but sums more noisy cells into every margin. With Laplace noise
and optimal budgets the total squared error is 2 (sum_m W_m^(1/3))^3 / epsilon^2, where W_m is the cells of table m
times the families read from it (proofs.md P2), so a merge pays exactly when it lowers sum_m W_m^(1/3).
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from dpgraph.structure.network import Family, Network

#: A variable of more tables than this is a hub; a gain below the other counts as none.
HUB, LEAST_GAIN = 32, 1e-9


def holders(network: Network, tables: Sequence[Family]) -> dict[Family, Family]:
    """For each family the smallest of the tables that contains it, ties to the first.

    Blocks of coefficients hold no variable of one level; there the others of a family are looked for, and a family that
    has no others is read from the total, so it is left out.
    """
    members = [(frozenset(table), network.cells(table), table) for table in tables]
    by_name: dict[str, list[tuple[frozenset[str], int, Family]]] = {name: [] for name in network.domain.names}
    for entry in members:
        for name in entry[0]:
            by_name[name].append(entry)
    chosen: dict[Family, Family] = {}
    sizes = network.domain.sizes
    for family in network.families:
        inside = [entry for entry in by_name[family[0]] if entry[0].issuperset(family)]
        if not inside:
            varying = [name for name in family if sizes[name] > 1]
            inside = [entry for name in varying[:1] for entry in by_name[name] if entry[0].issuperset(varying)]
        if inside:
            chosen[family] = min(inside, key=lambda entry: entry[1])[2]
    return chosen


def weights(network: Network, tables: Sequence[Family]) -> list[int]:
    """W_m for each table: its cells times the number of families read from it, at least one."""
    holder = holders(network, tables)
    served = dict.fromkeys(tables, 0)
    for family in network.families:
        served[holder[family]] += 1
    return [network.cells(table) * max(1, served[table]) for table in tables]


@lru_cache(maxsize=64)
def measured_families(network: Network) -> tuple[Family, ...]:
    """The maximal families, small ones merged where that lowers the noise: what is counted, and measured by default.

    Greedily merges the pair of tables that lowers the total error most, until none does. A merged table has its
    variables in the domain's order. The result depends on nothing but public structure.
    """
    families = network.maximal_families
    starting = zip(families, weights(network, families), strict=True)
    tables = [_Table(frozenset(f), network.cells(f), w // network.cells(f)) for f, w in starting]
    merger = _Merger(network, tables)
    while (pair := merger.best()) is not None:
        merger.merge(*pair)
    position = network.position
    return tuple(
        families[place] if table is tables[place] else tuple(sorted(table.members, key=position.__getitem__))
        for place, table in sorted(merger.alive.items())
    )


@dataclass(frozen=True, eq=False)
class _Table:
    """A table that may be merged: its variables, its cells and how many families are read from it."""

    members: frozenset[str]
    cells: int
    served: int

    @property
    def cost(self) -> float:
        """W^(1/3), what it adds to the sum that a merge must lower."""
        return math.cbrt(self.cells * self.served)


#: Cells, families read, and hubs: all that a gain depends on where two tables share no variable but hubs.
_Kind = tuple[int, int, frozenset[str]]


class _Merger:
    """Tables by their place, and the gains of merging two of them, without a look at every pair.

    What a merge of two tables gains depends on their cells, the families read from each, and the variables they share.
    A variable of many tables, such as the class of a naive Bayes classifier, is a *hub*. Pairs that share another
    variable are kept one by one. All other pairs are kept by kinds of tables: the gain of two kinds is that of sharing
    their hubs alone, which is the least that any two tables of these kinds gain. So where two kinds are the best there
    is, every pair of theirs gains just that: a pair that shared more would be better, and be kept by itself.
    """

    def __init__(self, network: Network, tables: list[_Table]) -> None:
        self._sizes = network.domain.sizes
        self.alive = dict(enumerate(tables))
        self._with: dict[str, set[int]] = {name: set() for name in network.domain.names}
        for place, table in self.alive.items():
            for name in table.members:
                self._with[name].add(place)
        self._hubs = frozenset(name for name, places in self._with.items() if len(places) > HUB)
        self._places: dict[_Kind, list[int]] = {}
        self._count: Counter[_Kind] = Counter()
        self._heap: list[tuple[float, int, Any]] = []
        self._made = itertools.count()
        for place in self.alive:
            self._enter(place)

    def best(self) -> tuple[int, int] | None:
        """The places of the two tables whose merge gains most; None where no merge gains."""
        while self._heap:
            _, _, entry = self._heap[0]
            pair = self._tables_of(*entry) if isinstance(entry[0], tuple) else self._places_of(*entry)
            if pair is not None:
                return min(pair), max(pair)
            heapq.heappop(self._heap)
        return None

    def merge(self, one: int, two: int) -> None:
        """Puts the union of two tables in the place of the first."""
        first, second = self._leave(one), self._leave(two)
        members = first.members | second.members
        for name in second.members:
            self._with[name].discard(two)
            self._with[name].add(one)
        cells = math.prod(self._sizes[name] for name in members)
        self.alive[one] = _Table(members, cells, first.served + second.served)
        self._enter(one)

    def _enter(self, place: int) -> None:
        """Adds the gains of a table: with those that share more than hubs, and of its kind where it has no other."""
        table = self.alive[place]
        near = {other for name in table.members - self._hubs for other in self._with[name]} - {place}
        for other in sorted(near):
            gain = self._gain(table, self.alive[other], table.members & self.alive[other].members)
            self._push(gain, (place, table, other, self.alive[other]))
        kind = self._kind(table)
        heapq.heappush(self._places.setdefault(kind, []), place)
        self._count[kind] += 1
        if self._count[kind] == 1:
            for other in [other for other, number in self._count.items() if number and other != kind]:
                self._push_kinds(kind, other)
        if self._count[kind] == 2:
            self._push_kinds(kind, kind)

    def _leave(self, place: int) -> _Table:
        table = self.alive.pop(place)
        self._count[self._kind(table)] -= 1
        return table

    def _kind(self, table: _Table) -> _Kind:
        return table.cells, table.served, table.members & self._hubs

    def _push_kinds(self, one: _Kind, two: _Kind) -> None:
        shared = one[2] & two[2]
        if min(one[0], two[0]) >= 8 * math.prod(self._sizes[name] for name in shared):
            return  # W_a c_b + W_b c_a >= 8 s max(W_a, W_b) >= s (W_a^(1/3) + W_b^(1/3))^3: no gain
        self._push(self._gain(_Table(one[2], *one[:2]), _Table(two[2], *two[:2]), shared), (one, two))

    def _push(self, gain: float, entry: Any) -> None:
        if gain > LEAST_GAIN:
            heapq.heappush(self._heap, (-gain, next(self._made), entry))

    def _gain(self, one: _Table, two: _Table, shared: frozenset[str]) -> float:
        """How much a merge lowers the sum of W^(1/3)."""
        joint = one.cells * two.cells // math.prod(self._sizes[name] for name in shared)
        return one.cost + two.cost - math.cbrt((one.served + two.served) * joint)

    def _first(self, kind: _Kind) -> int | None:
        """The first place of a kind, taken from its heap; None where none is left."""
        places = self._places[kind]
        while places:
            place = heapq.heappop(places)
            if place in self.alive and self._kind(self.alive[place]) == kind:
                return place
        return None

    def _tables_of(self, one: _Kind, two: _Kind) -> tuple[int, int] | None:
        first = self._first(one)
        second = None if first is None else self._first(two)
        for kind, place in ((one, first), (two, second)):
            if place is not None:
                heapq.heappush(self._places[kind], place)
        return None if first is None or second is None else (first, second)

    def _places_of(self, one: int, table: _Table, two: int, other: _Table) -> tuple[int, int] | None:
        return (one, two) if self.alive.get(one) is table and self.alive.get(two) is other else None
