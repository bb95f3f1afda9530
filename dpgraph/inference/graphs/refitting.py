"""Draws of a chosen network's tables: each is fitted to pairs drawn from their posterior given the release.

A parametric bootstrap of release and fit, with the graph held. It needs no latent rows, so its time depends on the
number of cells alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dpgraph.inference.graphs.field import Field, fitted_field, refitted_field
from dpgraph.inference.graphs.pair_estimates import Pair, Pairs
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
#: The most numbers of drawn pairs that are kept for questions: 256 MiB.
MOST_KEPT = 1 << 25


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

    Predictive probabilities are those of the model, which may have more cells, or of the shrunk table of a measured
    pair that none of its cliques holds. Draws of a measured pair are those of its own table, if those of all pairs are
    at most ``MOST_KEPT`` numbers: a field infers the pair through other variables too, and its draws leave out the
    error of that.
    """
    network, fields, made = graph.network, list[Field](), list[Probabilities]()
    own: dict[Pair, list[Reals]] = {pair: [] for pair in pairs.spread}
    if draws * sum(pairs.excess[pair].size for pair in own) > MOST_KEPT:
        own = {}
    for _ in counted(range(draws)):
        drawn = pairs.redrawn(rng, alone=True)
        fields.append(refitted_field(drawn, near, FEW_STEPS))
        made.append(_tables(pairs, drawn, fields[-1], network))
        for pair, tables in own.items():
            tables.append(drawn.tables[pair])
    tables = {name: np.stack([one.table(name) for one in made]) for name in network.domain.names}
    shrunk = {pair: pairs.tables[pair][None] for pair in own if model.tree.smallest(pair) is None}
    centre = partial(_joints, [model], shrunk)
    joints = partial(_joints, fields, {pair: np.stack(tables) for pair, tables in own.items()})
    return DrawnTables(network, tables, replace(tables_given(graph), joints=centre), joints=joints)


def _joints(fields: Sequence[Field], own: Mapping[Pair, Reals], targets: Family, weights: Mapping[str, Reals]) -> Reals:
    """The probabilities of some variables, axes (draw, *targets), times weights of other ones' levels.

    Of two variables they are those of ``own`` tables, axes (draw, *pair), where it has them; else the fields'.
    """
    names: Any = (*targets, *weights)
    if len(names) == 2 and (names in own or names[::-1] in own):
        found = own[names] if names in own else own[names[::-1]].transpose(0, 2, 1)
        for weight in list(weights.values())[::-1]:
            found = found @ weight
        return found
    return np.stack([field.margin(targets, weights) for field in fields])


def _tables(pairs: Pairs, drawn: Pairs, field: Field, network: Network) -> Probabilities:
    """The tables of a network, off a field of drawn pairs, smoothed by the noise of the released ones."""
    found = {name: field.margin(network.family(name)) for name in network.domain.names}
    return smoothed(replace(drawn, spread=pairs.spread), network, FrozenMap(found))
