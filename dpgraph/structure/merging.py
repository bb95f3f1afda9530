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
#: Where more pairs of kinds of tables than this share a hub, such as in all pairs of 130 variables, none are merged.
MOST_PAIRS = 1_100_000


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
    variables in the domain's order. The result depends on nothing but public structure. Where very many tables share
    variables with very many others (``MOST_PAIRS``) they stay as they are, for the time that choosing takes.
    """
    families = network.maximal_families
    starting = zip(families, weights(network, families), strict=True)
    tables = [_Table(frozenset(f), network.cells(f), w // network.cells(f)) for f, w in starting]
    merger = _Merger(network, tables)
    if merger.crowded:
        return families
    merger.begin()
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
#: Cells and families read: all that it depends on where they share none.
_Size = tuple[int, int]
_NONE: frozenset[str] = frozenset()


class _Merger:
    """Tables by their place, and the gains of merging two of them, without a look at every pair.

    What a merge of two tables gains depends on their cells, the families read from each, and the variables they share.
    A variable of many tables, such as the class of a naive Bayes classifier, is a *hub*. Pairs that share another
    variable are kept one by one; pairs that share hubs alone by kinds of tables; all other pairs by their sizes. The
    gain of two kinds is that of sharing their hubs alone, and that of two sizes that of sharing nothing: the least that
    any two tables of these gain. So where they are the best there is, every pair of theirs gains just that: a pair that
    shared more would be better, and be kept by itself or by its kinds.
    """

    def __init__(self, network: Network, tables: list[_Table]) -> None:
        self._sizes = network.domain.sizes
        self.alive = dict(enumerate(tables))
        self._with: dict[str, set[int]] = {name: set() for name in network.domain.names}
        for place, table in self.alive.items():
            for name in table.members:
                self._with[name].add(place)
        self._hubs = frozenset(name for name, places in self._with.items() if len(places) > HUB)
        self._kinds: dict[str, dict[_Kind, None]] = {name: {} for name in sorted(self._hubs)}
        self._places: dict[_Kind | _Size, list[int]] = {}
        self._count: Counter[_Kind | _Size] = Counter()
        self._alike: dict[_Size, None] = {}
        self._gains: dict[tuple[_Size, _Size, int], float] = {}
        self._heap: list[tuple[float, int, Any]] = []
        self._made = itertools.count()

    @property
    def crowded(self) -> bool:
        """Whether too many pairs of kinds share a hub."""
        of_hub = Counter(name for kind in {self._kind(table) for table in self.alive.values()} for name in kind[2])
        return sum(number**2 for number in of_hub.values()) > 2 * MOST_PAIRS

    def begin(self) -> None:
        """Adds the gains of all tables."""
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
        size = kind[:2]
        for key in (kind, size):
            heapq.heappush(self._places.setdefault(key, []), place)
            self._count[key] += 1
        if self._count[kind] == 1:
            for other in {other: None for name in sorted(kind[2]) for other in self._kinds[name]}:
                self._push(self._gain_of(size, other[:2], kind[2] & other[2]), (kind, other))
            for name in kind[2]:
                self._kinds[name][kind] = None
        if self._count[kind] == 2 and kind[2]:
            self._push(self._gain_of(size, size, kind[2]), (kind, kind))
        if self._count[size] == 1:
            for other in self._alike:
                self._push(self._gain_of(size, other, _NONE), (size, other))
            self._alike[size] = None
        if self._count[size] == 2:
            self._push(self._gain_of(size, size, _NONE), (size, size))

    def _leave(self, place: int) -> _Table:
        table = self.alive.pop(place)
        kind = self._kind(table)
        size = kind[:2]
        for key in (kind, size):
            self._count[key] -= 1
        if not self._count[kind]:
            for name in kind[2]:
                del self._kinds[name][kind]
        if not self._count[size]:
            del self._alike[size]
        return table

    def _kind(self, table: _Table) -> _Kind:
        return table.cells, table.served, table.members & self._hubs

    def _push(self, gain: float, entry: Any) -> None:
        if gain > LEAST_GAIN:
            heapq.heappush(self._heap, (-gain, next(self._made), entry))

    def _gain(self, one: _Table, two: _Table, shared: frozenset[str]) -> float:
        """How much a merge lowers the sum of W^(1/3)."""
        return self._gain_of((one.cells, one.served), (two.cells, two.served), shared)

    def _gain_of(self, one: _Size, two: _Size, shared: frozenset[str]) -> float:
        key = one, two, math.prod(self._sizes[name] for name in shared)
        if key not in self._gains:
            (cells, served), (others, also), both = key
            merged = (served + also) * (cells * others // both)
            self._gains[key] = math.cbrt(cells * served) + math.cbrt(others * also) - math.cbrt(merged)
        return self._gains[key]

    def _first(self, key: _Kind | _Size) -> int | None:
        """The first place of a kind or a size, taken from its heap; None where none is left."""
        places = self._places[key]
        while places:
            place = heapq.heappop(places)
            if place in self.alive and self._kind(self.alive[place])[: len(key)] == key:
                return place
        return None

    def _tables_of(self, one: _Kind | _Size, two: _Kind | _Size) -> tuple[int, int] | None:
        first = self._first(one)
        second = None if first is None else self._first(two)
        for key, place in ((one, first), (two, second)):
            if place is not None:
                heapq.heappush(self._places[key], place)
        return None if first is None or second is None else (first, second)

    def _places_of(self, one: int, table: _Table, two: int, other: _Table) -> tuple[int, int] | None:
        return (one, two) if self.alive.get(one) is table and self.alive.get(two) is other else None
