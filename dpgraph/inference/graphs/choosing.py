"""Choosing a graph from a release: post-processing, so free, and again as often as one likes; draws of its tables.

Graph and probabilities are read from released tables, or off a fitted field, in which parents are chosen by conditional
information. Draws of tables are fitted to pairs drawn from their posterior given the release: a parametric bootstrap of
release and fit, with the graph held. It needs no latent rows, so its time depends on the number of cells alone.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np

from dpgraph import memory
from dpgraph.inference.graphs.constraints import MAX_CELLS, Constraints, Limits, constraints_within
from dpgraph.inference.graphs.field import LARGEST, QUICK_STEPS, Field, fitted_field, refitted_field
from dpgraph.inference.graphs.learned import FEW, LearnedNetwork
from dpgraph.inference.graphs.pair_estimates import (
    FLOOR,
    Pair,
    Pairs,
    Part,
    declared_domain,
    dependence,
    fitted,
    likely_laws,
    positive_shares,
    read_pairs,
)
from dpgraph.inference.graphs.trees import MORE_CELLS, MOST_CELLS, Tree, best_tree, borrows, is_small, one_clique
from dpgraph.inference.network.consistency import reconcile
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import single_releases
from dpgraph.inference.posterior import posterior
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables, tables_given
from dpgraph.privacy.checks import Reals
from dpgraph.privacy.errors import InferenceError, PriorWarning
from dpgraph.privacy.records import joint_release, released_value
from dpgraph.structure.domain import Domain
from dpgraph.structure.elimination import moral_graph
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import JointCounts, learning
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Holding, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities, margin
from dpgraph.waiting import counted, waiting

#: Bytes that a choice takes, as measured: for each cell of a pair, each pair, each cell of a tree, and of a family.
BYTES_PER_CELL, BYTES_PER_PAIR, BYTES_PER_TREE_CELL, BYTES_PER_FAMILY_CELL = 80, 1250, 64, 16

#: The most cells of a joint whose chosen graph is fitted again for each draw, for the time that takes.
MOST_REFITTED = 4096
#: Trees that are fitted, one after the other, and further ones of more cells; what a required edge counts; the part of
#: the expected noise in a pair up to which nothing is lost; beyond how many times that noise of a pair outside the tree
#: cells are too few, and it is lost.
ROUNDS, MORE_ROUNDS, MUST, NEGLIGIBLE, SHORT, LOST = 5, 2, 1e3, 0.1, 1, 3


def choose_network(noisy: Any, *, constraints: Constraints | None = None, progress: bool = False) -> LearnedNetwork:
    """Chooses a graph and its probabilities from released tables of pairs: free, and as often as one likes.

    The model is the distribution of most entropy over a clique tree, of at most ``trees.MOST_CELLS`` cells, or
    ``MORE_CELLS`` where those lose pairs, that fits the shrunk pairs inside it. Where all variables have no more than
    the former and tables of three were measured, it has one clique. In wider domains pairs borrow from each other
    through few common factors. Parents of the graph are chosen greedily by conditional mutual information in the model
    of fewer cells. Interactions within their noise count for nothing: where all are, the graph is empty.

    Args:
        noisy: A release of noisy counts or coefficients, such as that of ``count(rows, all_pairs(domain))``, its value,
            or a list of releases of the same rows.
        constraints: The allowed graphs, ``dg.Constraints(max_parents=2, ...)``; None for any.
        progress: A bar on a terminal.

    Returns:
        A ``LearnedNetwork``.

    Raises:
        InferenceError: If the release is of no tables of a network.
        NetworkError: If a constraint is malformed, names an unknown variable, or contradicts another.

    Warns:
        PriorWarning: If nothing stands out of the noise, so that the graph has no edge that was not required.

    >>> from dpgraph.privacy.measurements import DiscreteLaplace
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> from dpgraph.structure.margins import all_pairs
    >>> pair = all_pairs({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> law = {("rain", "wet"): DiscreteLaplace(2.0)}
    >>> learned = choose_network(NoisyCounts(pair, {("rain", "wet"): [[60, 5], [3, 32]]}, law, 100))
    >>> learned, sum(map(len, learned.network.parents.values()))
    (LearnedNetwork(2 variables, 1 arcs, method='pairs'), 1)
    """
    together = joint_release(noisy) if isinstance(noisy, list | tuple) else noisy
    value, _ = released_value(together)
    limits = constraints_within(constraints, declared_domain(value))
    with waiting("choosing a graph", progress):
        return choose_within(together, limits)


def domain_of(model: Any) -> Domain:
    """The domain of the result of ``learned_from``, before any choice or draw."""
    value, _ = released_value(model)
    if isinstance(value, NoisyCounts | NoisyCoefficients | JointCounts):
        return declared_domain(value).complete
    if isinstance(value, LearnedNetwork):
        return value.network.domain.complete
    network = getattr(value, "network", None)
    return (network if isinstance(network, Network) else drawn_tables(model).network).domain


def pairs_that_hold(model: Any, names: Family) -> Pairs | None:
    """The estimates of all pairs of some variables in a release; None if one is missing, or the release has a graph.

    Pairs count unobserved values, so of variables that have some they say nothing by themselves.
    """
    value = released_value(model.release if isinstance(model, LearnedNetwork) else model)[0]
    if not isinstance(value, NoisyCounts | NoisyCoefficients | JointCounts):
        return None
    if not isinstance(model, LearnedNetwork) and not isinstance(single_releases(value)[0].network, Margins):
        return None
    if not set(names).isdisjoint(declared_domain(value).holes):
        return None
    pairs = read_pairs(value)
    ordered = sorted(names, key=pairs.domain.names.index)
    return (
        pairs
        if pairs.residuals.keys() >= {block for size in range(3) for block in combinations(ordered, size)}
        else None
    )


def learned_from(model: Any, constraints: Constraints | None = None) -> Any:
    """A posterior of a release for models and questions, or of tables without a graph a learned network.

    Anything else is returned as it is.

    Raises:
        InferenceError: If the release is of something else than counts of a network or of pairs, or has a graph and
            constraints are given.
    """
    value, _ = released_value(model)
    tables = isinstance(value, NoisyCounts | NoisyCoefficients | JointCounts)
    if tables and isinstance(single_releases(value)[0].network, Margins):
        return choose_network(model, constraints=constraints)
    if constraints is not None:
        raise InferenceError("only a release of pairs has its graph chosen, so only there an order is of use")
    return posterior(model, draws=FEW, seed=0) if tables else model


def choose_within(noisy: Any, constraints: Limits, *, grow: bool = True) -> LearnedNetwork:
    """As ``choose_network``, by constraints that were read; with ``grow`` the model may have ``MORE_CELLS``."""
    value, provenance = released_value(noisy)
    check_choosing(constraints)
    domain = constraints.domain
    pairs = read_pairs(value, LARGEST if is_small(domain) else 2, borrows(domain))
    field, outside = fitted_model(pairs, constraints)
    graph = replace(smoothed(pairs, *read_network(field, pairs, constraints)), provenance=provenance)
    widest = max(map(constraints.cells, field.tree.cliques))
    whole, how, model = graph, None, field
    if constraints.free and widest <= constraints.max_cells:
        if grow and constraints.max_cells >= MAX_CELLS and beyond(pairs, outside, SHORT):
            model, outside = fitted_model(pairs, constraints, field)
        whole = replace(smoothed(pairs, *model.network(domain)), provenance=provenance)
        how = partial(how_near, model, pairs, beyond(pairs, outside, LOST))
    edges = {(parent, name) for name, parents in graph.network.parents.items() for parent in parents}
    if edges <= constraints.required and constraints.max_parents != 0:
        warnings.warn(
            "no pair stands out of its noise: the graph has no edge beyond those required, and variables are else "
            "independent. Spend more epsilon, or declare fewer or coarser variables",
            PriorWarning,
            stacklevel=2,
        )
    again, refit, asked = partial(_again, pairs, constraints, field.tree), None, None
    if not is_small(domain) or math.prod(domain.sizes.values()) <= MOST_REFITTED:
        refit = partial(refitted_posterior, pairs, constraints.max_cells)
    if how is not None and not domain.holes:
        asked = partial(drawn_fields, pairs, field, model, graph)
    return LearnedNetwork(whole, noisy, "pairs", "a release of pairs", graph, how, again, refit, asked, constraints)


def fitted_model(pairs: Pairs, constraints: Limits, near: Field | None = None) -> tuple[Field, dict[Pair, float]]:
    """The field over the tree that loses the least of the pairs, and how far it is from those outside the tree.

    With tables of three variables and a small domain, all variables are one clique. Else the tree holds the most
    dependent pairs; while cells are short it is chosen again, up to ``ROUNDS`` times, pairs inside scored by the
    strengths of their terms and pairs outside by their errors. After a field ``near`` the tree has ``MORE_CELLS``.
    """
    domain = constraints.domain
    if is_small(domain) and any(len(block) > 2 for block in pairs.residuals):
        return fitted_field(pairs, one_clique(domain)), {}
    nothing = {pair: NEGLIGIBLE * pairs.expected_noise(pair) for pair in pairs.spread}
    tables = {pair: pairs.table(*pair) for pair in pairs.spread}
    cells, widest = (MOST_CELLS, constraints.max_cells) if near is None else (MORE_CELLS, MORE_CELLS)
    scores = {pair: dependence(table) for pair, table in tables.items()}
    if near is not None:
        scores = near.terms.strengths(pairs, near.weights, missed(near, tables))
    best, least, outside, tried = None, math.inf, dict[Pair, float](), set[Tree]()
    for _ in range(ROUNDS if near is None else MORE_ROUNDS):
        wanted = {pair: score for pair, score in scores.items() if score > nothing[pair]}
        tree = best_tree(domain, wanted | dict.fromkeys(constraints.required, MUST), widest, cells)
        if tree in tried:
            break
        tried.add(tree)
        field = fitted_field(pairs, tree, QUICK_STEPS)
        far = missed(field, tables)
        if sum(far.values()) < least:
            best, least = field, sum(far.values())
            outside = {pair: away for pair, away in far.items() if tree.smallest(pair) is None}
        if all(tree.smallest(pair) is not None for pair in wanted):
            break
        scores = field.terms.strengths(pairs, field.weights, far)
    assert best is not None
    return refitted_field(pairs, best), outside


def beyond(pairs: Pairs, outside: Mapping[Pair, float], times: float) -> int:
    """How many pairs outside a tree are missed by more than so many times their noise."""
    return sum(away > times * pairs.expected_noise(pair) for pair, away in outside.items())


def missed(field: Field, tables: Mapping[Pair, Reals]) -> dict[Pair, float]:
    """The total variation between a field's pairs and some tables."""
    found = {name: field.pairs_of(name) for name in dict.fromkeys(pair[0] for pair in tables)}
    return {pair: 0.5 * float(np.abs(found[pair[0]][pair[1]] - table).sum()) for pair, table in tables.items()}


def how_near(field: Field, pairs: Pairs, left_out: int) -> dict[str, float]:
    """How far a field's pairs are from the released ones, beside what noise is expected to make of it."""
    far = missed(field, {pair: pairs.released(pair) for pair in pairs.spread})
    distance = float(np.mean(list(far.values()))) if far else 0.0
    noise = float(np.mean([pairs.expected_noise(pair) for pair in far])) if far else 0.0
    return {
        "distance": distance,
        "noise": noise,
        "ratio": distance / noise if noise > 0 else math.nan,
        "cliques": len(field.tree.cliques),
        "cells": sum(table.size for table in field.tables),
        "left_out": left_out,
    }


def check_choosing(constraints: Limits) -> None:
    """Refuses by an InferenceError a choice of a graph that memory does not hold; a spender asks this first."""
    needed = choosing_bytes(constraints)
    memory.check(needed, "choosing a graph", "declare fewer or coarser variables, or a lower max_cells", InferenceError)


def choosing_bytes(constraints: Limits) -> int:
    """About how much memory the choice of a graph takes at most, from the domain and the constraints."""
    sizes = list(constraints.domain.sizes.values())
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    pairs = cells * BYTES_PER_CELL + math.comb(len(sizes), 2) * BYTES_PER_PAIR
    most = MORE_CELLS if constraints.free and constraints.max_cells >= MAX_CELLS else MOST_CELLS
    tree = min(most, math.prod(sizes)) * BYTES_PER_TREE_CELL
    return pairs + tree + sum(constraints.most_cells.values()) * BYTES_PER_FAMILY_CELL


def _again(pairs: Pairs, constraints: Limits, tree: Tree, rng: np.random.Generator) -> Network:
    """The network that a draw of the pairs chooses, parents inside the same cliques."""
    drawn = pairs.redrawn(rng)
    return read_network(fitted_field(drawn, tree, QUICK_STEPS), drawn, constraints)[0]


#: Steps of L-BFGS from the field of the released pairs to that of drawn ones.
FEW_STEPS = 60
#: The most numbers of drawn pairs that are kept for questions: 256 MiB.
MOST_KEPT = 1 << 25
#: Rounds of scaling joints to tables of pairs, and the most numbers of joints, times pairs, that are scaled. So much of
#: a field's joint stays that evidence is possible though a drawn pair has no such row.
SCALINGS, MOST_SCALED, REMAINS, POSITIVE = 4, 1 << 25, 1e-9, 1e-300


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
        return self._fitted(uneven + REMAINS * joint, names, pairs)

    def _fitted(self, joint: Reals, names: Family, pairs: Mapping[Pair, Reals]) -> Reals:
        """Joints, axes (draw, *names), scaled to tables of pairs."""
        for _ in range(SCALINGS):
            for pair, table in pairs.items():
                now = margin(joint, ("", *names), ("", *pair))
                ratio = table / np.maximum(now, POSITIVE) + REMAINS
                joint = joint * np.expand_dims(ratio, tuple(i for i, name in enumerate(names, 1) if name not in pair))
        return joint


def _tables(pairs: Pairs, drawn: Pairs, field: Field, network: Network) -> Probabilities:
    """The tables of a network, off a field of drawn pairs, smoothed by the noise of the released ones."""
    found = {name: field.margin(network.family(name)) for name in network.domain.names}
    return smoothed(replace(drawn, spread=pairs.spread), network, FrozenMap(found))


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
