"""A graph grown one variable at a time: the next family is the one that explains most, its parents inside a clique.

Every new family {x} + P has P inside one that is there already, so the families are the cliques of a decomposable graph
and P's probabilities are a margin of a known table. The family's own table is the maximum-entropy one with that margin
and the shrunk pairs of x with each parent, by proportional fitting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpgraph.inference.graphs.constraints import Constraints
from dpgraph.inference.graphs.pair_estimates import Pairs, dependence
from dpgraph.privacy.arrays import Reals
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import margin
from dpgraph.waiting import counted

#: Sweeps of proportional fitting in a family, and the least dependence a further parent must add, in total variation.
SWEEPS, LEAST = 12, 1e-3


@dataclass(frozen=True, eq=False)
class Grown:
    """A family with its probabilities: axes (variable, *parents), and how far these are from independence."""

    family: Family
    table: Reals
    dependence: float


def grow(pairs: Pairs, constraints: Constraints) -> tuple[Network, FrozenMap[str, Reals]]:
    """The grown network, and the joint probabilities of each variable's family."""
    names, sizes = pairs.domain.names, pairs.domain.sizes
    placed: dict[str, Grown] = {}
    offers: dict[str, Grown] = {}
    for _ in counted(names):
        open_names = [name for name in names if name not in placed and constraints.may_enter(name, placed)]
        for name in open_names:
            if name not in offers:
                tries = [_offer(pairs, constraints, name, clique) for clique in placed.values()]
                offers[name] = _best(tries, pairs, constraints, name)
        chosen = (
            max(open_names, key=lambda name: (offers[name].dependence, sizes[name]))
            if placed
            else _root(pairs, open_names)
        )
        placed[chosen] = offers.pop(chosen)
        for name in list(offers):
            mine = _offer(pairs, constraints, name, placed[chosen])
            if mine.dependence > offers[name].dependence:
                offers[name] = mine
    parents = {name: placed[name].family[1:] for name in names}
    network = Network.of(pairs.domain, parents)
    return network, FrozenMap((name, placed[name].table) for name in names)


def _root(pairs: Pairs, names: list[str]) -> str:
    """The variable that is most informed of the others."""
    total = {
        name: sum(pairs.dependence(name, other) for other in pairs.domain.names if other != name) for name in names
    }
    return max(names, key=total.__getitem__)


def _best(tries: list[Grown], pairs: Pairs, constraints: Constraints, name: str) -> Grown:
    """The best of several families, or that of the required parents alone."""
    return max([_least(pairs, constraints, name), *tries], key=lambda grown: grown.dependence)


def _least(pairs: Pairs, constraints: Constraints, name: str) -> Grown:
    """The family of the required parents alone, which need not lie in a clique: theirs is a table of their pairs."""
    parents = constraints.required_parents[name]
    if not parents:
        return Grown((name,), pairs.singles[name], 0.0)
    known = pairs.singles[parents[0]]
    for i, parent in enumerate(parents[1:], 1):
        known = np.moveaxis(family_table(pairs, parent, parents[:i], known), 0, -1)
    table = family_table(pairs, name, parents, known)
    return Grown((name, *parents), table, dependence(table))


def _offer(pairs: Pairs, constraints: Constraints, name: str, clique: Grown) -> Grown:
    """The best family of a variable with parents inside a clique: forward selection, from the required ones on."""
    best = _least(pairs, constraints, name)
    if not set(best.family[1:]) <= set(clique.family):
        return best
    while True:
        tries = []
        for parent in clique.family:
            parents = (*best.family[1:], parent)
            if parent in best.family or not constraints.allows(parent, name) or not constraints.fits(name, parents):
                continue
            known = margin(clique.table, clique.family, parents)
            table = family_table(pairs, name, parents, known)
            tries.append(Grown((name, *parents), table, dependence(table)))
        if not tries:
            return best
        found = max(tries, key=lambda grown: grown.dependence)
        if found.dependence < best.dependence + LEAST:
            return best
        best = found


def family_table(pairs: Pairs, name: str, parents: Family, known: Reals) -> Reals:
    """The maximum-entropy table of a family given its parents' probabilities and each pair with a parent."""
    table = np.multiply.outer(pairs.singles[name], known)
    targets = [pairs.table(name, parent) for parent in parents]
    if len(parents) == 1:
        return targets[0] * (known / targets[0].sum(axis=0))
    for _ in range(SWEEPS):
        for axis, target in enumerate(targets, 1):
            other = tuple(i for i in range(1, table.ndim) if i != axis)
            now = table.sum(axis=other)
            shape = [size if i in (0, axis) else 1 for i, size in enumerate(table.shape)]
            table = table * (target / np.maximum(now, 1e-300)).reshape(shape)
        table = table * (known / np.maximum(table.sum(axis=0), 1e-300))
    return table


def conditional(table: Reals) -> Reals:
    """P(variable | parents) from a joint table, even where the parents have no probability."""
    total = table.sum(axis=0)
    even = np.full(table.shape[0], 1 / table.shape[0]).reshape(-1, *[1] * (table.ndim - 1))
    return np.where(total > 0, table / np.where(total > 0, total, 1.0), even)
