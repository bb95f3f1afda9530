"""The probabilities of a network: read from released tables or fitted joints, or of a graph that is grown from pairs.

A graph grows one variable at a time. Every new family {x} + P has P inside an earlier one, so the families are the
cliques of a decomposable graph and P's probabilities are a margin of a known table. The family's own table is the
maximum-entropy one with that margin and the shrunk pairs of x with each parent, by proportional fitting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.graphs.pair_estimates import FLOOR, Pairs, dependence, fitted, likeliest, positive_shares
from dpgraph.inference.network.consistency import reconcile
from dpgraph.privacy.checks import Reals
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import learning
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import NoisyCounts, Probabilities, margin
from dpgraph.waiting import counted

#: The pseudo-rows of a configuration, in standard deviations of the noise of a measured cell (benchmarks/structure.py).
PART = 0.01
#: Sweeps of proportional fitting in a family, and the least dependence a further parent must add, in total variation.
SWEEPS, LEAST = 12, 1e-3


def smoothed(pairs: Pairs, network: Network, joints: FrozenMap[str, Reals]) -> Probabilities:
    """The probabilities of a network from joints of its families, axes (variable, *parents), smoothed by their noise.

    A configuration of the parents gets pseudo-rows in proportions of the child's own probabilities, a small part of the
    noise's standard deviation in a measured cell: near in total variation may still be 1e-7 for a cell that one row in
    a hundred has, to the cost of the log-likelihood.
    """
    found = {}
    for name in network.domain.names:
        family, single = network.family(name), pairs.singles[name]
        variance = pairs.residuals[name,][1] if (name,) in pairs.residuals else 0.0
        alone = single + PART * math.sqrt(variance * (1 - 1 / single.size)) / pairs.n
        alone = alone / alone.sum()
        rows = PART * _noise_of_cells(pairs, family) / pairs.n
        more = rows * alone.reshape(-1, *[1] * (len(family) - 1))
        found[name] = conditional(joints[name] + more) if len(family) > 1 else alone
    return Probabilities(network, FrozenMap(found))


def _noise_of_cells(pairs: Pairs, family: Family) -> float:
    """The mean standard deviation of the noise in a cell of the child's measured pairs, in rows."""
    child, sizes = family[0], pairs.domain.sizes
    known = [
        pairs.spread[pair] * math.sqrt((1 - 1 / sizes[child]) * (1 - 1 / sizes[parent]))
        for parent in family[1:]
        for pair in ((child, parent), (parent, child))
        if pair in pairs.spread
    ]
    return float(np.mean(known)) if known else 0.0


def read_families(noisy: Any, network: Network) -> Probabilities:
    """The probabilities of a network whose families were measured, from consistent tables (proofs.md P30).

    The interaction of a variable with its parents is shrunk by its excess over the noise, and so are the parents in
    turn.
    """
    whole = reconcile(learning(noisy, network))
    n = max(1.0, whole.n)
    parts: tuple[NoisyCounts, ...] = getattr(noisy, "parts", (noisy,))
    spreads = {table: math.sqrt(part.variance(table)) for part in parts for table in part.tables}
    singles = {name: positive_shares(whole.margin(name) / n) for name in network.domain.names}
    holding = Holding(network, spreads)
    tables: dict[str, Reals] = {}
    for name in network.domain.names:
        family = network.family(name)
        noise = spreads[holding.smallest(family)]
        counts = whole.margin(*family)
        known = _joint(counts.sum(axis=0), family[1:], singles, n, noise)
        tables[name] = conditional(_added(counts, singles[name], known, n, noise))
    return Probabilities(network, FrozenMap(tables))


def _joint(counts: Reals, family: Family, singles: Mapping[str, Reals], n: float, noise: float) -> Reals:
    """The joint probabilities of some variables: each is added to those before it."""
    if not family:
        return np.ones(())
    known = singles[family[-1]]
    for place in range(len(family) - 2, -1, -1):
        here = margin(counts, family, family[place:])
        known = _added(here, singles[family[place]], known, n, noise * math.sqrt(counts.size / here.size))
    return known


def _added(counts: Reals, single: Reals, known: Reals, n: float, noise: float) -> Reals:
    """The joint probabilities of a variable, axis 0, and others whose joint probabilities are known."""
    if not known.ndim:
        return single
    others = known.ravel()
    apart = np.outer(single, others)
    excess = counts.reshape(single.size, -1) - n * apart
    kept = likeliest(excess, noise, single, others)[0]
    return fitted(apart + kept * excess / n, single, others, FLOOR * apart).reshape(counts.shape)


@dataclass(frozen=True, eq=False)
class Grown:
    """A family with its probabilities: axes (variable, *parents), and how far these are from independence."""

    family: Family
    table: Reals
    dependence: float


def grow(pairs: Pairs, constraints: Limits) -> tuple[Network, FrozenMap[str, Reals]]:
    """The grown network, and the joint probabilities of each variable's family."""
    names, sizes = pairs.domain.names, pairs.domain.sizes
    placed: dict[str, Grown] = {}
    offers: dict[str, Grown] = {}
    for _ in counted(names):
        open_names = [name for name in names if name not in placed and constraints.may_enter(name, placed)]
        for name in open_names:
            if name not in offers:
                tries = [_offer(pairs, constraints, name, clique) for clique in placed.values()]
                offers[name] = max([_least(pairs, constraints, name), *tries], key=lambda grown: grown.dependence)
        if placed:
            chosen = max(open_names, key=lambda name: (offers[name].dependence, sizes[name]))
        else:  # the variable that is most informed of the others
            chosen = max(open_names, key=lambda one: sum(dependence(pairs.table(one, o)) for o in names if o != one))
        placed[chosen] = offers.pop(chosen)
        for name in list(offers):
            mine = _offer(pairs, constraints, name, placed[chosen])
            if mine.dependence > offers[name].dependence:
                offers[name] = mine
    parents = {name: placed[name].family[1:] for name in names}
    network = Network.of(pairs.domain, parents)
    return network, FrozenMap((name, placed[name].table) for name in names)


def _least(pairs: Pairs, constraints: Limits, name: str) -> Grown:
    """The family of the required parents alone, which need not lie in a clique: theirs is a table of their pairs."""
    parents = constraints.required_parents[name]
    if not parents:
        return Grown((name,), pairs.singles[name], 0.0)
    known = pairs.singles[parents[0]]
    for i, parent in enumerate(parents[1:], 1):
        known = np.moveaxis(family_table(pairs, parent, parents[:i], known), 0, -1)
    table = family_table(pairs, name, parents, known)
    return Grown((name, *parents), table, dependence(table))


def _offer(pairs: Pairs, constraints: Limits, name: str, clique: Grown) -> Grown:
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
