"""Draws of a chosen network's tables: each is fitted to pairs drawn from their posterior given the release.

A parametric bootstrap of release and fit, with the graph held. It needs no latent rows, so its time depends on the
number of cells alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dpgraph.inference.graphs.joint import fitted_joint
from dpgraph.inference.graphs.pair_estimates import Pairs
from dpgraph.inference.graphs.reading import family_table, smoothed
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.privacy.checks import Reals
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities, margin
from dpgraph.waiting import counted, waiting

#: Steps of L-BFGS from the joint of the released pairs to that of drawn ones.
FEW_STEPS = 12


def refitted_posterior(
    pairs: Pairs, small: bool, network: Network, *, draws: int, rng: np.random.Generator, progress: bool = False
) -> PosteriorDraws:
    """Independent draws of a network's tables; ``small`` where the joint of all variables is written down."""
    with waiting("drawing tables", progress):
        near = fitted_joint(pairs) if small else None
        made = [_refitted(pairs, pairs.redrawn(rng, alone=True), near, network) for _ in counted(range(draws))]
    tables = {name: np.stack([one.table(name) for one in made])[None] for name in network.domain.names}
    return PosteriorDraws(network, FrozenMap(tables), "refitted", "fitted again to pairs drawn given the release")


def _refitted(pairs: Pairs, drawn: Pairs, near: Reals | None, network: Network) -> Probabilities:
    """The tables of a network, fitted to drawn pairs and smoothed by the noise of the released ones.

    ``near`` is the joint of the released pairs, where that is written down.
    """
    if near is not None:
        names, joint = network.domain.names, fitted_joint(drawn, FEW_STEPS, near)
        found = {name: margin(joint, names, network.family(name)) for name in names}
    else:
        found = dict(_grown(drawn, network))
    return smoothed(replace(drawn, spread=pairs.spread), network, FrozenMap(found))


def _grown(pairs: Pairs, network: Network) -> Iterator[tuple[str, Reals]]:
    """Each family's joint probabilities, parents first: those of its parents are a margin of an earlier family."""
    placed: dict[tuple[str, ...], Reals] = {}
    for name in network.order:
        parents = network.parents[name]
        if not parents:
            table = pairs.singles[name]
        else:
            clique = next((one for one in placed if set(parents) <= set(one)), None)
            known = pairs.singles[parents[0]] if clique is None else margin(placed[clique], clique, parents)
            if clique is None:  # required parents that no family holds together
                for i, parent in enumerate(parents[1:], 1):
                    known = np.moveaxis(family_table(pairs, parent, parents[:i], known), 0, -1)
            table = family_table(pairs, name, parents, known)
        placed[network.family(name)] = table
        yield name, table
