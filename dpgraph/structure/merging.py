"""Which joint tables to measure, from the DAG and the numbers of levels alone.

Merging two tables into one doubles the budget of each but sums more noisy cells into every margin. With Laplace noise
and optimal budgets the total squared error is 2 (sum_m W_m^(1/3))^3 / epsilon^2, where W_m is the cells of table m
times the families read from it (proofs.md P2), so a merge pays exactly when it lowers sum_m W_m^(1/3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpgraph.privacy.checks import Reals
from dpgraph.structure.network import Family, Holding, Network

#: A smaller gain counts as none.
LEAST_GAIN = 1e-9
#: More tables than this, such as all pairs of 200 variables, stay as they are: the time grows with their square.
MOST_TABLES = 20_000


def holders(network: Network, tables: Sequence[Family]) -> dict[Family, Family]:
    """For each family the smallest of the tables that contains it, ties to the first.

    Blocks of coefficients hold no variable of one level; there the others of a family are looked for, and a family that
    has no others is read from the total, so it is left out.
    """
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
    """The maximal families, small ones merged where that lowers the noise: what is counted, and measured by default.

    Greedily merges the pair of tables that lowers the total error most, until none does. A merged table has its
    variables in the domain's order. The result depends on nothing but public structure.
    """
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
    """Tables by their place, each with the later table whose merge with it gains most, and this gain.

    A merge changes one table and ends another. A table whose partner it was keeps its gain, which no other partner
    exceeds, and looks for another partner once no table has a larger one.
    """

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
