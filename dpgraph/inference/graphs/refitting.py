"""Draws of a chosen network's tables: each is fitted to pairs drawn from their posterior given the release.

A parametric bootstrap of release and fit, with the graph held. It needs no latent rows, so its time depends on the
number of cells alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpgraph.inference.graphs.field import Field, fitted_field, refitted_field
from dpgraph.inference.graphs.pair_estimates import Pair, Pairs
from dpgraph.inference.graphs.reading import smoothed
from dpgraph.inference.graphs.trees import best_tree
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.queries.tables import DrawnTables, tables_given
from dpgraph.privacy.checks import Reals
from dpgraph.structure.domain import Domain
from dpgraph.structure.elimination import moral_graph
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities, margin
from dpgraph.waiting import counted, waiting

#: Steps of L-BFGS from the field of the released pairs to that of drawn ones.
FEW_STEPS = 60
#: The most numbers of drawn pairs that are kept for questions: 256 MiB.
MOST_KEPT = 1 << 25
#: Rounds of scaling joints to tables of pairs, and the most numbers of joints, times pairs, that are scaled. So much of
#: a field's joint stays that evidence is possible though a drawn pair has no such row.
SCALINGS, MOST_SCALED, FLOOR, LEAST = 4, 1 << 25, 1e-9, 1e-300


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
    pair that none of its cliques holds. Draws are scaled to drawn tables of all measured pairs, if these are at most
    ``MOST_KEPT`` numbers: a field infers a pair through other variables too, and its draws leave out the error of that.
    """
    network, fields, made = graph.network, list[Field](), list[Probabilities]()
    own: dict[Pair, list[Reals]] = {pair: [] for pair in pairs.spread}
    if draws * sum(pairs.excess[pair].size for pair in own) > MOST_KEPT:
        own = {}
    for _ in counted(range(draws)):
        again = pairs.redrawn(rng, alone=True)
        fields.append(refitted_field(again, near, FEW_STEPS))
        made.append(_tables(pairs, again, fields[-1], network))
        for pair, kept in own.items():
            kept.append(again.tables[pair])
    tables = {name: np.stack([one.table(name) for one in made]) for name in network.domain.names}
    shrunk = {pair: pairs.tables[pair][None] for pair in own if model.tree.smallest(pair) is None}
    drawn = {pair: np.stack(kept) for pair, kept in own.items()}
    centre = _Joints(pairs.domain, [model], shrunk)
    joints = _Joints(pairs.domain, fields, drawn, pairs.n, int(rng.integers(1 << 32)))
    return DrawnTables(network, tables, replace(tables_given(graph), joints=centre), joints=joints)


@dataclass(frozen=True, eq=False)
class _Joints:
    """Joint probabilities of any variables by fields, and ``own`` tables of pairs, axes (draw, *pair).

    A measured pair has its own. Where ``rows`` are above 0 a joint of more variables is the fields', scaled to the own
    tables of its pairs (iterative proportional fitting), and as uneven beyond pairs, which nobody measured, as so many
    rows of it are. Fields alone answer where this is too much work.
    """

    domain: Domain
    fields: Sequence[Field]
    own: Mapping[Pair, Reals]
    rows: float = 0.0
    seed: int = 0

    def __call__(self, targets: Family, weights: Mapping[str, Reals]) -> Reals:
        """The probabilities, axes (draw, *targets), times weights of other variables' levels."""
        asked = (*targets, *weights)
        among = {pair: table for pair, table in self.own.items() if asked.count(pair[0]) and asked.count(pair[1])}
        cells = math.prod(self.domain.sizes[name] for name in asked)
        scaled = self.rows > 0 and len(self.fields) * len(among) * cells <= MOST_SCALED
        if not among or (len(asked) > 2 and not scaled):
            return np.stack([field.margin(targets, weights) for field in self.fields])
        names: Any = tuple(name for name in self.domain.names if name in asked)
        joint = among[names] if names in among else self._scaled(names, among)
        joint = margin(joint, ("", *names), ("", *asked))
        for weight in list(weights.values())[::-1]:
            joint = joint @ weight
        return joint

    def _scaled(self, names: Family, pairs: Mapping[Pair, Reals]) -> Reals:
        """Joint probabilities of the fields, axes (draw, *names), scaled to tables of pairs."""
        joint = self._fitted(np.stack([field.margin(names) for field in self.fields]), names, pairs)
        rng = np.random.default_rng(self.seed)
        uneven = rng.standard_gamma(self.rows * joint) / self.rows
        return self._fitted(uneven + FLOOR * joint, names, pairs)

    def _fitted(self, joint: Reals, names: Family, pairs: Mapping[Pair, Reals]) -> Reals:
        """Joints, axes (draw, *names), scaled to tables of pairs."""
        for _ in range(SCALINGS):
            for pair, table in pairs.items():
                now = margin(joint, ("", *names), ("", *pair))
                ratio = table / np.maximum(now, LEAST) + FLOOR
                joint = joint * np.expand_dims(ratio, tuple(i for i, name in enumerate(names, 1) if name not in pair))
        return joint


def _tables(pairs: Pairs, drawn: Pairs, field: Field, network: Network) -> Probabilities:
    """The tables of a network, off a field of drawn pairs, smoothed by the noise of the released ones."""
    found = {name: field.margin(network.family(name)) for name in network.domain.names}
    return smoothed(replace(drawn, spread=pairs.spread), network, FrozenMap(found))
