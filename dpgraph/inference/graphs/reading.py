"""The graph and the probabilities of a network: read from released tables, or off a fitted field.

Parents are chosen by conditional information in the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations, permutations
from typing import Any

import numpy as np

from dpgraph.inference.graphs.constraints import Limits
from dpgraph.inference.graphs.field import Field
from dpgraph.inference.graphs.pair_estimates import FLOOR, Pairs, Part, fitted, likely_laws, positive_shares
from dpgraph.inference.graphs.trees import borrows
from dpgraph.inference.network.consistency import reconcile
from dpgraph.privacy.checks import Reals
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import learning
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import NoisyCounts, Probabilities, margin
from dpgraph.waiting import counted

#: The pseudo-rows of a configuration, in standard deviations of the noise of a measured cell (benchmarks/structure.py).
PART = 0.01
#: The least conditional information that a parent must carry, in nats: by itself and in multiples of what noise alone
#: carries; or, where pairs borrow, which leaves little of their noise, by itself alone.
LEAST, BEYOND_NOISE, LEAST_BORROWED = 2e-4, 1.0, 2e-3


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
        levels = [pairs.domain.sizes[name] for name in family[1:]]
        rows = rows * max(levels, default=1) / math.prod(levels)
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
    part = Part(excess, np.full(apart.shape, noise**2), n, single, others)
    part = part._replace(laws=likely_laws(part.nats()[None])[0])
    return fitted(apart + part.mean / n, single, others, FLOOR * apart).reshape(counts.shape)


def read_network(field: Field, pairs: Pairs, constraints: Limits) -> tuple[Network, FrozenMap[str, Reals]]:
    """A network and a field's margins for its families: the most dependent variables first, parents greedily.

    A parent is added while the information it carries, given those there are, is more than noise in its pair would
    carry on average: half its variance over n^2, summed over the pair's coordinates in units of independence. Two at
    once are held to twice the least information, and to the noise of all three variables' interactions. Pairs that
    borrow are not held to their own noise. Chosen parents lie with the variable in one clique.
    """
    names = pairs.domain.names
    placed: list[str] = []
    parents: dict[str, Family] = {}
    held = {(one, other) for clique in field.tree.cliques for one in clique for other in clique if one != other}
    single = dict.fromkeys(permutations(names, 2), 0.0) | {pair: field.gain(pair[0], (), pair[1]) for pair in held}
    for _ in counted(names):
        ready = [name for name in names if name not in placed and constraints.may_enter(name, placed)]
        near = placed or names
        total = {name: [single[name, other] for other in near if other != name] for name in ready}
        name = max(ready, key=lambda one: max(total[one]) if placed else sum(total[one]))
        parents[name] = _parents(field.among({name, *placed}), pairs, constraints, name, placed)
        placed.append(name)
    network = Network.of(pairs.domain, parents)
    return network, FrozenMap((name, field.margin(network.family(name))) for name in names)


def _parents(field: Field, pairs: Pairs, constraints: Limits, name: str, placed: list[str]) -> Family:
    """The parents of a variable, by forward selection from the required ones on.

    Where none tells enough by itself, two are tried together whose table with the variable was measured.
    """
    mine = constraints.required_parents[name]
    together = [
        tuple(one for one in block if one != name) for block in pairs.residuals if len(block) == 3 and name in block
    ]
    allowed = {other for other in placed if constraints.allows(other, name)}
    while True:
        for offers in ([(other,) for other in placed], together):
            kept = {}
            for more in offers:
                family = (name, *mine, *more)
                new = allowed.issuperset(more) and not set(more) & set(mine) and constraints.fits(name, family[1:])
                if new and field.tree.smallest(family) is not None:
                    gain = field.gain(name, mine, *more)
                    if gain > _least(pairs, name, more):
                        kept[more] = gain
            if kept:
                break
        else:
            return mine
        mine = (*mine, *max(kept, key=kept.__getitem__))


def _least(pairs: Pairs, name: str, more: Family) -> float:
    """The least information that parents must carry."""
    if borrows(pairs.domain):
        return LEAST_BORROWED
    return max(LEAST * len(more), BEYOND_NOISE * _noise(pairs, name, more))


def _noise(pairs: Pairs, name: str, more: Family) -> float:
    """The information that noise alone puts into the blocks of a variable and others: half its chi-squared distance."""
    total = 0.0
    for size in range(1, len(more) + 1):
        for some in combinations(more, size):
            block = tuple(sorted((name, *some), key=pairs.domain.names.index))
            if block in pairs.residuals:
                values, variance = pairs.residuals[block]
                cells = math.prod(pairs.domain.sizes[one] for one in block)
                total += 0.5 * values.size * variance / pairs.n**2 * cells
    return total


def conditional(table: Reals) -> Reals:
    """P(variable | parents) from a joint table, even where the parents have no probability."""
    total = table.sum(axis=0)
    even = np.full(table.shape[0], 1 / table.shape[0]).reshape(-1, *[1] * (table.ndim - 1))
    return np.where(total > 0, table / np.where(total > 0, total, 1.0), even)
