"""The probabilities of a given network from released tables of its families, shrunk towards independence."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dpgraph.inference.graphs.growing import conditional
from dpgraph.inference.graphs.pair_estimates import FLOOR, fitted, shrinkage
from dpgraph.inference.network.consistency import reconcile
from dpgraph.inference.simplex import onto_simplex
from dpgraph.privacy.arrays import Reals
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import learning
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import NoisyCounts, Probabilities, margin


def read_families(noisy: Any, network: Network) -> Probabilities:
    """The probabilities of a network whose families were measured.

    Tables are made consistent first (proofs.md P30). What a family adds to independence of the variable from its
    parents is shrunk by how much it may stand out of its noise, as pairs are (``pairs.shrinkage``); so are the parents
    among each other.

    Args:
        noisy: Noisy counts, or those of several releases of the same rows.
        network: The network, whose families each lie in a released table.
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
