"""The field of most entropy near a release: a distribution over a clique tree, fitted to all pairs inside its cliques.

With residuals y of variance s^2, of shrunk pairs, and the features f that they are means of, the distribution p that
maximises a H(p) - sum (E_p f - y)^2 / (2 s^2), and meets those of single variables exactly, is log-linear in f. Its
weights t, the sum over those of pairs and more variables, minimise the convex

    ln sum_x exp(t f(x)) - t y + a sum s^2 t^2 / 2

(Dudik, Phillips and Schapire 2007). Noisy tables that no distribution has are approached as far as their noise says.
Sums over cells are of one clique at a time: messages along the tree (Lauritzen and Spiegelhalter 1988). A domain whose
joint table is written down is a tree of one clique.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr
from threadpoolctl import threadpool_limits

from dpgraph.inference.graphs.pair_estimates import Pairs, beyond_noise, contrasts, dependent
from dpgraph.inference.graphs.trees import Tree
from dpgraph.privacy.checks import Integers, Reals
from dpgraph.structure.domain import Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network

#: What entropy counts beside the squared errors: so little that tables are fitted where some field has them; and the
#: most by which weights are held back, as pairs in much noise were shrunk before.
WEIGHT, LEAST_HELD, MOST_HELD = 25.0, 0.1, 0.01
#: The most variables of a measured table that is fitted with all its interactions.
LARGEST = 3
#: Steps of L-BFGS: at most so many, fewer where they would take more cells in all, but this many; and those of a field
#: that is only to say which graph would be chosen.
STEPS, ALL_CELLS, LEAST_STEPS, QUICK_STEPS = 2000, 1 << 24, 300, 40
#: The slope at which a fit ends: the most that a feature's mean is off, in standard deviations.
SLOPE = 3e-6
#: Blocks of more than two variables that all keep less than this part of what they have beyond pairs have nothing.
NONE = 1e-3
#: How much of even levels is added to a variable's probabilities for its features: those of rare levels stay bounded.
EVEN = 0.1
#: The least sum of a separator's cells, beside the largest cell of their clique.
LEAST_SUM = 1e-300


#: A table and its axes.
Part = tuple[Reals, Family]


@dataclass(frozen=True, eq=False)
class Field:
    """Probabilities of the cells of each clique, which agree on separators; ``weights`` of the terms made them."""

    tree: Tree
    tables: Sequence[Reals]
    terms: Terms
    weights: Reals
    _known: dict[frozenset[str], float] = field(default_factory=dict, repr=False)

    def among(self, names: Collection[str]) -> Field:
        """The field with some variables left in its cliques, whose margins take less time."""
        kept = tuple(tuple(name for name in clique if name in names) for clique in self.tree.cliques)
        tables = [self.margin(clique) for clique in kept]
        return Field(Tree(kept, self.tree.above), tables, self.terms, self.weights)

    def margin(self, wanted: Family) -> Reals:
        """The probabilities of some variables, axes in the order asked for."""
        tree, held = self.tree, self.tree.smallest(wanted)
        if held is not None:
            return _margin([(self.tables[held], tree.cliques[held])], wanted)
        sent: dict[int, list[Part]] = {}  # messages to the root keep the wanted variables that no clique further on has
        for i in range(len(tree.cliques) - 1, -1, -1):
            parts = [self._given(i, tree.separators[i]), *sent.pop(i, [])]
            if len(parts) > 1 or set(wanted) & (set(tree.cliques[i]) - set(tree.separators[i])):
                has = dict.fromkeys(name for _, axes in parts for name in axes)
                kept = tuple(name for name in has if name in wanted or name in tree.separators[i])
                sent.setdefault(tree.above[i], []).append((_margin(parts, kept), kept))
        return _margin(sent[0], wanted)

    def pairs_of(self, name: str) -> dict[str, Reals]:
        """The probabilities of a variable (axis 0) and each other one (axis 1): messages from one of its cliques."""
        tree, found = self.tree, dict[str, Reals]()
        first = tree.smallest((name,)) or 0
        waiting: list[tuple[int, int, Part]] = [(first, first, (np.diag(self.margin((name,))), ("", name)))]
        while waiting:
            at, before, known = waiting.pop()
            parts = [self._given(at, known[1][1:]), known]
            for other in tree.cliques[at]:
                if other != name and other not in found:
                    found[other] = _margin(parts, ("", other))
            for near in tree.neighbours[at]:
                if near != before:
                    axes = ("", *tree.separators[max(near, at)])
                    waiting.append((near, at, (_margin(parts, axes), axes)))
        return found

    def _given(self, at: int, names: Family) -> Part:
        """The probabilities of a clique's cells given some of its variables."""
        table, clique = self.tables[at], self.tree.cliques[at]
        total = _along(_margin([(table, clique)], names), names, clique)
        return table / np.where(total > 0, total, 1.0), clique

    def entropy(self, names: frozenset[str]) -> float:
        """The entropy of some variables, in nats."""
        if names not in self._known:
            self._known[names] = float(entr(self.margin(tuple(names))).sum())
        return self._known[names]

    def gain(self, name: str, parents: Family, *more: str) -> float:
        """I(name; more | parents)."""
        given, further = frozenset(parents), frozenset(parents) | frozenset(more)
        return (
            self.entropy(given | {name}) + self.entropy(further) - self.entropy(further | {name}) - self.entropy(given)
        )

    def network(self, domain: Domain) -> tuple[Network, FrozenMap[str, Reals]]:
        """The tree as a network, whose families fill its cliques, and the probabilities of each family."""
        parents: dict[str, Family] = {}
        for clique, separator in zip(self.tree.cliques, self.tree.separators, strict=True):
            for i in range(len(separator), len(clique)):
                parents[clique[i]] = clique[:i]
        network = Network.of(domain, parents)
        return network, FrozenMap((name, self.margin(network.family(name))) for name in domain.names)


def _margin(parts: Sequence[Part], wanted: Family) -> Reals:
    """The product of tables, summed over all but the wanted variables."""
    number: dict[str, int] = {}
    for _, axes in parts:
        for name in axes:
            number.setdefault(name, len(number))
    operands: list[Any] = [item for table, axes in parts for item in (table, [number[name] for name in axes])]
    return np.einsum(*operands, [number[name] for name in wanted])


def _along(table: Reals, axes: Family, onto: Family) -> Reals:
    """A table as one over more variables, of length 1 along those that it lacks."""
    turned = np.transpose(table, [axes.index(name) for name in onto if name in axes])
    sizes = iter(turned.shape)
    return turned.reshape([next(sizes) if name in axes else 1 for name in onto])


def fitted_field(pairs: Pairs, tree: Tree, steps: int | None = None) -> Field:
    """The field over a tree with log-linear terms that are fitted to the residuals.

    The terms are of variables, of measured pairs, and of further measured tables of ``LARGEST`` variables, as far as
    cliques hold them. Errors of residual blocks are uncorrelated, each with one variance (proofs.md P30). Against
    fitting noise, pairs are shrunk towards none first, and larger blocks towards the field of the pairs. ``steps``
    bounds L-BFGS; None by the number of cells.
    """
    return _fitted(Terms(pairs, tree), pairs, steps)


def refitted_field(pairs: Pairs, near: Field, steps: int | None = None) -> Field:
    """The field over the tree of one of other pairs that is thought to be near, in a few steps from there."""
    return _fitted(near.terms, pairs, steps, near.weights)


def _fitted(terms: Terms, pairs: Pairs, steps: int | None, start: Reals | None = None) -> Field:
    steps = steps or min(max(ALL_CELLS // sum(map(math.prod, terms.shapes)), LEAST_STEPS), STEPS)
    if not terms.size:  # every variable has one level
        return terms.field(np.zeros(0))
    targets = [
        pairs.table(*block) if len(block) == 2 else pairs.singles[block[0]] for block in terms.blocks[: terms.small]
    ]
    found = terms.fit(pairs, targets, steps, start)
    further = terms.blocks[terms.small :]
    if not further:
        return found
    targets += _beyond_pairs(pairs, further, found)
    return terms.fit(pairs, targets, steps, found.weights) if len(targets) > terms.small else found


def _beyond_pairs(pairs: Pairs, blocks: Sequence[Family], near: Field) -> list[Reals]:
    """The targets of blocks of more than two variables: the field's, and the part beyond it that is not noise.

    Empirical Bayes: a block's distance from the field is normal around zero with a variance of its own, the likeliest,
    possibly none (``pairs.dependent``). Nothing where all of it is noise.
    """
    parts = [_moments([contrasts(pairs.domain.sizes[name]) for name in block], near.margin(block)) for block in blocks]
    beyond = [
        pairs.residuals[block][0].ravel() / pairs.n - part.ravel() for block, part in zip(blocks, parts, strict=True)
    ]
    found = [
        beyond_noise(away, pairs.block_noise(block) / pairs.n**2) for block, away in zip(blocks, beyond, strict=True)
    ]
    likely = dependent([nats for _, nats in found])
    kept = [some * share for share, (some, _) in zip(likely, found, strict=True)]
    if max((float(some.max()) for some in kept), default=0.0) < NONE:
        return []
    return [part + (some * away).reshape(part.shape) for part, some, away in zip(parts, kept, beyond, strict=True)]


def _moments(matrices: Sequence[Reals], table: Reals) -> Reals:
    """The product of matrices along all axes of a table: each turn takes the first axis and puts the new one last."""
    for matrix in matrices:
        table = table.reshape(matrix.shape[1], -1).T @ matrix.T
    return table.reshape([len(matrix) for matrix in matrices])


class Terms:
    """The features of measured blocks inside a tree's cliques, and the fit of their weights.

    Features of a variable are orthonormal under its own probabilities, and those of a pair products of its variables':
    where all are independent, features are uncorrelated with variance 1, so that steps of L-BFGS are few. The features
    of more variables are products of contrasts, like residuals. The ``small`` blocks, of one variable or two, come
    first.
    """

    def __init__(self, pairs: Pairs, tree: Tree) -> None:
        sizes, self.tree = pairs.domain.sizes, tree
        self._near = {name: (one + EVEN / one.size) / (1 + EVEN) for name, one in pairs.singles.items()}
        self.basis = {name: _orthonormal(self._near[name]) for name in sizes}
        helmert = {name: np.column_stack([np.ones(size), contrasts(size).T]) for name, size in sizes.items()}
        self.shapes = [tuple(sizes[name] for name in clique) for clique in tree.cliques]
        held = [block for block in pairs.residuals if 1 <= len(block) <= LARGEST and tree.smallest(block) is not None]
        self.blocks: list[Family] = [(name,) for name, size in sizes.items() if size > 1]
        self.blocks += sorted((block for block in held if len(block) > 1), key=len)
        self.small = sum(len(block) < 3 for block in self.blocks)
        self.lengths = [math.prod(sizes[name] - 1 for name in block) for block in self.blocks]
        ends = np.cumsum([0, *self.lengths])
        self.size = int(ends[-1])
        self.place = [np.arange(*ends[i : i + 2]) for i in range(len(self.blocks))]
        self._layers = [
            (basis, self._places(range(*some)))
            for basis, some in ((self.basis, (0, self.small)), (helmert, (self.small, len(self.blocks))))
            if some[0] < some[1]
        ]
        self._ridge = np.zeros(self.size)
        for i in range(self.small, len(self.blocks)):
            self._ridge[self.place[i]] = _held_back(pairs, self.blocks[i])
        self._pairs = self._by_shape(pairs)

    def _places(self, some: range) -> list[tuple[Integers, Integers]]:
        """For each clique where weights stand in its transformed table, and which ones: each block in one clique."""
        found: list[list[Integers]] = [[] for _ in self.shapes]
        which: list[list[Integers]] = [[] for _ in self.shapes]
        cells = [np.arange(math.prod(shape)).reshape(shape) for shape in self.shapes]
        for i in some:
            block = self.blocks[i]
            at = self.tree.smallest(block)
            assert at is not None
            clique = self.tree.cliques[at]
            here = cells[at][tuple(slice(1, None) if name in block else 0 for name in clique)]
            axes = [name for name in clique if name in block]
            found[at].append(np.transpose(here, [axes.index(name) for name in block]).ravel())
            which[at].append(self.place[i])
        none = np.zeros(0, np.int64)
        return [
            (np.concatenate([none, *one]), np.concatenate([none, *other]))
            for one, other in zip(found, which, strict=True)
        ]

    def _by_shape(self, pairs: Pairs) -> list[tuple[Integers, Reals, Reals, Reals]]:
        """For pairs of each shape their weights' places, the contrasts of both variables' features, and their ridge."""
        groups: dict[tuple[int, ...], list[int]] = {}
        for i, block in enumerate(self.blocks[: self.small]):
            if len(block) == 2:
                groups.setdefault(tuple(pairs.domain.sizes[name] - 1 for name in block), []).append(i)
        turned = {name: contrasts(len(basis)) @ basis[:, 1:] for name, basis in self.basis.items()}
        return [
            (
                np.stack([self.place[i].reshape(shape) for i in some]),
                np.stack([turned[self.blocks[i][0]] for i in some]),
                np.stack([turned[self.blocks[i][1]] for i in some]),
                np.array([_held_back(pairs, self.blocks[i]) for i in some])[:, None, None],
            )
            for shape, some in groups.items()
        ]

    def fit(self, pairs: Pairs, targets: Sequence[Reals], steps: int, start: Reals | None) -> Field:
        """The field whose features are near the targets of its first blocks, and equal to those of single variables.

        Targets are tables of variables and pairs, and contrasts of more variables; later blocks have no weight. Some
        field has single variables as they are: were they held back too, pairs would be fitted to uneven margins as if
        even.
        """
        wanted = np.zeros(self.size)
        for i, target in enumerate(targets):
            features = [self.basis[name][:, 1:].T for name in self.blocks[i]]
            wanted[self.place[i]] = (_moments(features, target) if i < self.small else target).ravel()
        size = sum(self.lengths[: len(targets)])
        rest = np.zeros(self.size - size)

        def loss(weights: Reals) -> tuple[float, Reals]:
            weights = np.concatenate([weights, rest])
            whole, means = self.sums(weights)
            slope = means - wanted + self._ridge * weights
            value = whole - float(weights @ wanted) + 0.5 * float(self._ridge @ weights**2)
            for place, one, other, ridge in self._pairs:
                away = ridge * (one @ weights[place] @ other.transpose(0, 2, 1))
                slope[place] += one.transpose(0, 2, 1) @ away @ other
                value += 0.5 * float((away**2 / ridge).sum())
            return value, slope[:size]

        first = self._alone(pairs) if start is None else start
        options = {"maxiter": steps, "maxcor": 20, "ftol": 1e-13, "gtol": SLOPE}
        with threadpool_limits(1, "blas"):  # products so small that other threads only spin
            best = minimize(loss, first[:size], jac=True, method="L-BFGS-B", options=options).x
            return self.field(np.concatenate([best, rest]))

    def field(self, weights: Reals) -> Field:
        """The field with these weights."""
        return Field(self.tree, self._calibrated(weights)[1], self, weights)

    def sums(self, weights: Reals) -> tuple[float, Reals]:
        """The log of the sum over all cells, and its slope, the means of the features."""
        whole, tables = self._calibrated(weights)
        found = np.zeros(self.size)
        for basis, places in self._layers:
            for clique, table, (at, which) in zip(self.tree.cliques, tables, places, strict=True):
                found[which] = _moments([basis[name].T for name in clique], table).ravel()[at]
        return whole, found

    def _alone(self, pairs: Pairs) -> Reals:
        """The weights of independent variables."""
        weights = np.zeros(self.size)
        for block, place in zip(self.blocks, self.place, strict=True):
            if len(block) == 1:
                name = block[0]
                weights[place] = self.basis[name][:, 1:].T @ (self._near[name] * np.log(pairs.singles[name]))
        return weights

    def _logs(self, weights: Reals, at: int) -> Reals:
        """The weighted sum of a clique's features in each of its cells."""
        clique, shape, total = self.tree.cliques[at], self.shapes[at], np.zeros(())
        for basis, places in self._layers:
            spread = np.zeros(math.prod(shape))
            spread[places[at][0]] = weights[places[at][1]]
            total = total + _moments([basis[name] for name in clique], spread)
        return total + np.zeros(shape)

    def _calibrated(self, weights: Reals) -> tuple[float, list[Reals]]:
        """The log of the sum over all cells, and the cliques' probabilities: messages to the root and back."""
        tree, count = self.tree, len(self.shapes)
        logs = [self._logs(weights, i) for i in range(count)]
        sums: list[Reals] = [np.ones(())] * count
        whole = 0.0
        for i in range(count - 1, -1, -1):
            top = float(logs[i].max())
            logs[i] = np.exp(logs[i] - top)
            whole += top
            sums[i] = np.maximum(_margin([(logs[i], tree.cliques[i])], tree.separators[i]), LEAST_SUM)
            if i:
                above = tree.above[i]
                logs[above] = logs[above] + _along(np.log(sums[i]), tree.separators[i], tree.cliques[above])
        for i, over in enumerate(tree.above):
            known = _margin([(logs[over], tree.cliques[over])], tree.separators[i]) if i else 1.0
            ratio = known / sums[i]
            logs[i] = logs[i] * ratio.reshape(*ratio.shape, *[1] * (len(self.shapes[i]) - ratio.ndim))
        return whole + math.log(float(sums[0])), logs

    def strengths(self, pairs: Pairs, weights: Reals) -> dict[Family, float]:
        """How far the term of each pair moves it from independence, in total variation, to first order."""
        found = {}
        for i, block in enumerate(self.blocks):
            if len(block) == 2:
                shape = [pairs.domain.sizes[name] - 1 for name in block]
                one, other = (self.basis[name][:, 1:] for name in block)
                term = one @ weights[self.place[i]].reshape(shape) @ other.T
                found[block] = 0.5 * float((np.outer(*(pairs.singles[name] for name in block)) * np.abs(term)).sum())
        return found


def _held_back(pairs: Pairs, block: Family) -> float:
    """The ridge of a block's weights: at least a part of the variance that sampling gives a contrast.

    Tables that are drawn, or known without noise, may be those of no distribution.
    """
    rows = LEAST_HELD / (math.prod(pairs.domain.sizes[name] for name in block) * pairs.n)
    return min(max(WEIGHT * pairs.residuals[block][1] / pairs.n**2, rows), MOST_HELD)


def _orthonormal(single: Reals) -> Reals:
    """A constant and further columns, orthonormal under the probabilities of a variable's levels: (levels, levels)."""
    root = np.sqrt(single / single.sum())
    columns = np.column_stack([root, np.eye(single.size)[:, 1:]])
    return np.column_stack([np.ones(single.size), np.linalg.qr(columns)[0][:, 1:] / root[:, None]])
