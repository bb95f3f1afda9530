"""Draws of a chosen network's tables: each is fitted to pairs drawn from their posterior given the release.

A parametric bootstrap of release and fit, with the graph held. It needs no latent rows, so its time depends on the
number of cells alone.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dpgraph.inference.graphs.field import Field, fitted_field, refitted_field
from dpgraph.inference.graphs.pair_estimates import Pairs
from dpgraph.inference.graphs.reading import smoothed
from dpgraph.inference.graphs.trees import best_tree
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.structure.elimination import moral_graph
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities
from dpgraph.waiting import counted, waiting

#: Steps of L-BFGS from the field of the released pairs to that of drawn ones.
FEW_STEPS = 60


def refitted_posterior(
    pairs: Pairs, most: int, network: Network, *, draws: int, rng: np.random.Generator, progress: bool = False
) -> PosteriorDraws:
    """Independent draws of a network's tables, by fields over the graph's own tree, of cliques of ``most`` cells."""
    with waiting("drawing tables", progress):
        joined = {(one, other): 1.0 for one, others in moral_graph(network).items() for other in others}
        near = fitted_field(pairs, best_tree(network.domain, joined, most))
        made = [_refitted(pairs, pairs.redrawn(rng, alone=True), near, network) for _ in counted(range(draws))]
    tables = {name: np.stack([one.table(name) for one in made])[None] for name in network.domain.names}
    return PosteriorDraws(network, FrozenMap(tables), "refitted", "fitted again to pairs drawn given the release")


def _refitted(pairs: Pairs, drawn: Pairs, near: Field, network: Network) -> Probabilities:
    """The tables of a network, fitted to drawn pairs and smoothed by the noise of the released ones."""
    field = refitted_field(drawn, near, FEW_STEPS)
    found = {name: field.margin(network.family(name)) for name in network.domain.names}
    return smoothed(replace(drawn, spread=pairs.spread), network, FrozenMap(found))
