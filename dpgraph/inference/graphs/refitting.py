"""Draws of a chosen network's tables: each is fitted to pairs drawn from their posterior given the release.

A parametric bootstrap of release and fit, with the graph held. It needs no latent rows, so its time depends on the
number of cells alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from dpgraph.inference.graphs.field import Field, fitted_field, refitted_field
from dpgraph.inference.graphs.pair_estimates import Pairs
from dpgraph.inference.graphs.reading import smoothed
from dpgraph.inference.graphs.trees import best_tree
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.queries.tables import DrawnTables, tables_given
from dpgraph.privacy.checks import Reals
from dpgraph.structure.elimination import moral_graph
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities
from dpgraph.waiting import counted, waiting

#: Steps of L-BFGS from the field of the released pairs to that of drawn ones.
FEW_STEPS = 60


def refitted_posterior(
    pairs: Pairs, most: int, network: Network, *, draws: int, rng: np.random.Generator, progress: bool = False
) -> PosteriorDraws:
    """Independent draws of a network's tables, by fields over the graph's own tree, of cliques of ``most`` cells."""
    with waiting("drawing tables", progress):
        joined = {(one, other): 1.0 for one, others in moral_graph(network.families).items() for other in others}
        near = fitted_field(pairs, best_tree(network.domain, joined, most))
        again = (pairs.redrawn(rng, alone=True) for _ in counted(range(draws)))
        made = [_tables(pairs, drawn, refitted_field(drawn, near, FEW_STEPS), network) for drawn in again]
    tables = {name: np.stack([one.table(name) for one in made])[None] for name in network.domain.names}
    return PosteriorDraws(network, FrozenMap(tables), "refitted", "fitted again to pairs drawn given the release")


def drawn_fields(
    pairs: Pairs, near: Field, model: Field, graph: Probabilities, draws: int, rng: np.random.Generator
) -> DrawnTables:
    """Draws of a field, each fitted to drawn pairs from one near it, and of the chosen network's tables.

    The predictive probabilities are those of the model, which may have more cells.
    """
    network = graph.network
    again = [pairs.redrawn(rng, alone=True) for _ in range(draws)]
    fields = [refitted_field(drawn, near, FEW_STEPS) for drawn in counted(again)]
    made = [_tables(pairs, drawn, field, network) for drawn, field in zip(again, fields, strict=True)]
    tables = {name: np.stack([one.table(name) for one in made]) for name in network.domain.names}
    centre = replace(tables_given(graph), joints=partial(_joints, [model]))
    return DrawnTables(network, tables, centre, joints=partial(_joints, fields))


def _joints(fields: Sequence[Field], targets: Family, weights: Mapping[str, Reals]) -> Reals:
    """The probabilities of some variables in each field, times weights of other ones' levels."""
    return np.stack([field.margin(targets, weights) for field in fields])


def _tables(pairs: Pairs, drawn: Pairs, field: Field, network: Network) -> Probabilities:
    """The tables of a network, off a field of drawn pairs, smoothed by the noise of the released ones."""
    found = {name: field.margin(network.family(name)) for name in network.domain.names}
    return smoothed(replace(drawn, spread=pairs.spread), network, FrozenMap(found))
