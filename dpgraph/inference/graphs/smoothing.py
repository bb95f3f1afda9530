"""No cell is called nearly impossible that noise could have hidden: a little mass for every parent configuration.

A configuration of the parents is given pseudo-rows in proportions of the child's own probabilities, as many as a small
part of the noise's standard deviation in a measured cell: nothing where the configuration has many rows or there is no
noise. A table that is near in total variation may put 1e-7 on a cell that one row in a hundred has; the log-likelihood
of new rows is what this is for.
"""

from __future__ import annotations

import math

import numpy as np

from dpgraph.inference.graphs.growing import conditional
from dpgraph.inference.graphs.pair_estimates import Pairs
from dpgraph.privacy.arrays import Reals
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities

#: The pseudo-rows of a configuration, in standard deviations of the noise of a measured cell (benchmarks/structure.py).
PART = 0.01


def smoothed(pairs: Pairs, network: Network, joints: FrozenMap[str, Reals]) -> Probabilities:
    """The probabilities of a network from the joint table of each family, smoothed by the noise in its pairs.

    Args:
        pairs: What a release says.
        network: The network.
        joints: For each variable the joint probabilities of its family, axes (variable, *parents).
    """
    found = {}
    for name in network.domain.names:
        family = network.family(name)
        alone = _alone(pairs, name)
        rows = PART * _noise(pairs, family) / pairs.n
        more = rows * alone.reshape(-1, *[1] * (len(family) - 1))
        found[name] = conditional(joints[name] + more) if len(family) > 1 else alone
    return Probabilities(network, FrozenMap(found))


def _alone(pairs: Pairs, name: str) -> Reals:
    """A variable's probabilities, each level with its part of the noise in it."""
    single = pairs.singles[name]
    variance = pairs.residuals[name,][1] if (name,) in pairs.residuals else 0.0
    more = single + PART * math.sqrt(variance * (1 - 1 / single.size)) / pairs.n
    return more / more.sum()


def _noise(pairs: Pairs, family: Family) -> float:
    """The mean standard deviation of the noise in a cell of the child's measured pairs, in rows."""
    child, sizes = family[0], pairs.domain.sizes
    known = [
        pairs.spread[pair] * math.sqrt((1 - 1 / sizes[child]) * (1 - 1 / sizes[parent]))
        for parent in family[1:]
        for pair in ((child, parent), (parent, child))
        if pair in pairs.spread
    ]
    return float(np.mean(known)) if known else 0.0
