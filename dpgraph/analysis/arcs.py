"""The cost of each arc of a network: by how much it raises the error of the released counts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from dpgraph.structure.margins import holders
from dpgraph.structure.network import Family, Holding, Network

#: The columns of the table of arcs.
COLUMNS = ["parent", "child", "cells", "cost"]


def arc_costs(network: Network) -> list[dict[str, Any]]:
    """A row for each arc, the most expensive first: parent, child, cells that the child's table loses, and cost.

    The cost is the factor by which the arc multiplies the standard error of the released counts. A cost of 1 is free:
    the arc's table is measured anyway. A cost below 1 saves noise: the tables that its variables are read from without
    it need more of epsilon together.

    >>> network = Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]}, {"b": ["a"], "c": ["a"]})
    >>> [(row["parent"], row["child"]) for row in arc_costs(network)]
    [('a', 'c'), ('a', 'b')]
    """
    sizes, plan, rows = network.domain.sizes, _Plan(network, network.maximal_families), []
    for parent, child in ((parent, child) for child, parents in network.parents.items() for parent in parents):
        cells, cost = network.cells(network.family(child)), (plan.whole / plan.without(parent, child)) ** 1.5
        rows.append({"parent": parent, "child": child, "cells": cells - cells // sizes[parent], "cost": cost})
    return sorted(rows, key=lambda row: -row["cost"])


class _Plan:
    """The maximal tables of a network, and the families that are read from each; their errors are those of P28.

    Taking an arc out changes one family, and only the tables that hold it.
    """

    def __init__(self, network: Network, tables: tuple[Family, ...]) -> None:
        self.network = network
        self.served: dict[Family, list[Family]] = {table: [] for table in tables}
        self.holder = holders(network, tables)
        for family, table in self.holder.items():
            self.served[table].append(family)
        self.tables, self.holding = tables, Holding(network, tables)
        self.whole = sum(self.root(table, len(families)) for table, families in self.served.items())

    def root(self, table: Family, served: int) -> float:
        """W^(1/3) of a table from which some families are read."""
        return (self.network.cells(table) * served) ** (1 / 3)

    def without(self, parent: str, child: str) -> float:
        """The sum of W^(1/3) without one arc."""
        family = self.network.family(child)
        smaller, table = tuple(name for name in family if name != parent), self.holder[family]
        moving = [smaller if other == family else other for other in self.served[table]]
        rank = partial(self.rank, child=child, smaller=smaller)
        stays = any(set(other) == set(table) for other in moving)
        held_in = ([self.tables[place] for place in self.holding.places(other)] for other in moving)
        homes = [[kept for kept in tables if stays or kept != table] for tables in held_in]
        unserved = [other for other, held in zip(moving, homes, strict=True) if not held]
        new_tables = [
            one
            for i, one in enumerate(unserved)
            if not any(set(two) > set(one) or (set(two) == set(one) and j < i) for j, two in enumerate(unserved))
        ]
        count = {table: 0} | dict.fromkeys(new_tables, 0)
        for other, held in zip(moving, homes, strict=True):
            best = min([*held, *(top for top in new_tables if set(other) <= set(top))], key=rank)
            count[best] = count.get(best, len(self.served.get(best, ()))) + 1
        for other, top in self.better_served(new_tables, moving, rank).items():
            old = self.holder[other]
            count[old] = count.get(old, len(self.served[old])) - 1
            count[top] += 1
        before = sum(self.root(kept, len(self.served[kept])) for kept in count if kept in self.served)
        after = sum(self.root(kept, max(1, n)) for kept, n in count.items() if kept != table or stays)
        return self.whole - before + after

    def better_served(
        self, new_tables: list[Family], moving: list[Family], rank: Callable[[Family], tuple[int, int]]
    ) -> dict[Family, Family]:
        """Families of other tables that are better read from a new, smaller table."""
        moved: dict[Family, Family] = {}
        for top in sorted(new_tables, key=rank):
            for other in map(self.network.family, top):
                known = other in moved or other in moving or other not in self.holder
                if not known and set(other) <= set(top) and rank(top) < rank(self.holder[other]):
                    moved[other] = top
        return moved

    def rank(self, table: Family, child: str, smaller: Family) -> tuple[int, int]:
        """The order of preference of ``holders`` once a child's family is smaller: cells, then whose family it is."""
        families = ((name, smaller if name == child else self.network.family(name)) for name in table)
        owners = [self.network.position[name] for name, family in families if set(family) == set(table)]
        return (self.network.cells(table), min(owners))
