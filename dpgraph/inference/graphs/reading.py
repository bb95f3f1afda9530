"""The probabilities of a given network: from released tables of its families, or from joints that were fitted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpgraph.inference.graphs.growing import conditional
from dpgraph.inference.graphs.pair_estimates import FLOOR, Pairs, fitted, shrinkage
from dpgraph.inference.network.consistency import reconcile
from dpgraph.inference.simplex import onto_simplex
from dpgraph.privacy.arrays import Reals
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import learning
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import NoisyCounts, Probabilities, margin

#: The pseudo-rows of a configuration, in standard deviations of the noise of a measured cell (benchmarks/structure.py).
PART = 0.01


def smoothed(pairs: Pairs, network: Network, joints: FrozenMap[str, Reals]) -> Probabilities:
    """The probabilities of a network from joints of its families, axes (variable, *parents), smoothed by their noise.

    A configuration of the parents gets pseudo-rows in proportions of the child's own probabilities, a small part of the
    noise's standard deviation in a measured cell: near in total variation may still be 1e-7 for a cell that one row in
    a hundred has, to the cost of the log-likelihood.
    """
    found = {}
    for name in network.domain.names:
        family = network.family(name)
        alone = _alone(pairs, name)
        rows = PART * _noise_of_cells(pairs, family) / pairs.n
        more = rows * alone.reshape(-1, *[1] * (len(family) - 1))
        found[name] = conditional(joints[name] + more) if len(family) > 1 else alone
    return Probabilities(network, FrozenMap(found))


def _alone(pairs: Pairs, name: str) -> Reals:
    """A variable's probabilities, each level with its part of the noise in it."""
    single = pairs.singles[name]
    variance = pairs.residuals[name,][1] if (name,) in pairs.residuals else 0.0
    more = single + PART * math.sqrt(variance * (1 - 1 / single.size)) / pairs.n
    return more / more.sum()


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
    spreads = _spreads(noisy)
    singles = {name: _single(whole.margin(name) / n) for name in network.domain.names}
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
    kept, _ = shrinkage(excess, noise, single, others)
    return fitted(apart + kept * excess / n, single, others, FLOOR * apart).reshape(counts.shape)


def _single(shares: Reals) -> Reals:
    """The probabilities of one variable, none of them 0."""
    kept = onto_simplex(shares)
    return (kept + FLOOR / kept.size) / (1 + FLOOR)


def _spreads(noisy: Any) -> dict[Family, float]:
    """The standard deviation of the noise of a cell of each measured table."""
    parts: tuple[NoisyCounts, ...] = getattr(noisy, "parts", (noisy,))
    return {table: math.sqrt(part.variance(table)) for part in parts for table in part.tables}
