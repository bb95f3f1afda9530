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
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import entr
from threadpoolctl import threadpool_limits

from dpgraph.inference.graphs.pair_estimates import Pair, Pairs, beyond_noise, contrasts
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
#: What a turn along an axis takes beside its multiplications, for each cell.
STEPS_OF_AXIS = 10
#: The most numbers that are worked on at once.
HELD = 1 << 22
#: The least sum of a separator's cells, beside the largest cell of their clique.
LEAST_SUM = 1e-300


#: A table and its axes; blocks with the places of their weights; the features of each variable's levels, for blocks of
#: one variable or two and for larger ones.
Part = tuple[Reals, Family]
Blocks = Sequence[tuple[Family, Integers]]
Bases = tuple[Mapping[str, Reals], Mapping[str, Reals]]


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

    def margin(self, wanted: Family, weights: Mapping[str, Reals] = MappingProxyType({})) -> Reals:
        """The probabilities of some variables, axes in the order asked for, times ``weights`` of other ones' levels."""
        tree, held = self.tree, self.tree.smallest((*wanted, *weights))
        if held is not None:
            weighed = [(weight, (name,)) for name, weight in weights.items()]
            return _margin([(self.tables[held], tree.cliques[held]), *weighed], wanted)
        sent: dict[int, list[Part]] = {}  # messages to the root keep the wanted variables that no clique further on has
        for i in range(len(tree.cliques) - 1, -1, -1):
            new = set(tree.cliques[i]) - set(tree.separators[i])
            weighed = [(weight, (name,)) for name, weight in weights.items() if name in new]
            parts = [self._given(i, tree.separators[i]), *sent.pop(i, []), *weighed]
            if len(parts) > 1 or set(wanted) & new:
                has = dict.fromkeys(name for _, axes in parts for name in axes)
                kept = tuple(name for name in has if name in wanted or name in tree.separators[i])
                sent.setdefault(tree.above[i], []).append((_margin(parts, kept), kept))
        return _margin(sent[0], wanted)

    def pairs_of(self, name: str) -> dict[str, Reals]:
        """The probabilities of a variable (axis 0) and each other one (axis 1): messages from one of its cliques."""
        tree, found = self.tree, dict[str, Reals]()
        first, alone = tree.smallest((name,)) or 0, self.margin((name,))
        place = _places(tree.cliques[first], self.tables[first].shape, (name,))
        waiting: list[tuple[int, int, Integers, Reals]] = [(first, first, place, np.diag(np.ones(alone.size)))]
        while waiting:
            at, before, place, ratio = waiting.pop()
            table, near = self.tables[at], [i for i in tree.neighbours[at] if i != before]
            pairs: list[list[Reals]] = []
            sent: dict[int, list[Any]] = {i: [] for i in near}
            for rows in np.array_split(ratio, math.ceil(len(ratio) * table.size / HELD)):
                joint = rows[:, place] * table.ravel()
                pairs.append(_one_by_one(joint.reshape(-1, *table.shape)))
                for i in near:
                    sent[i] += [np.bincount(self._place(at, i), row) for row in joint]
            for other, *tables in zip(tree.cliques[at], *pairs, strict=True):
                if other != name:
                    found.setdefault(other, np.concatenate(tables))
            for i in near:
                waiting.append((i, at, self._place(i, at), np.stack(sent[i]) / self._separated[max(i, at)]))
        return found

    def _place(self, at: int, near: int) -> Integers:
        """The place of each cell of a clique in the flat table of the separator from a neighbour."""
        return self.terms.onto[near] if near > at else self.terms.own[at]

    @cached_property
    def _separated(self) -> list[Reals]:
        """The probabilities of each separator, above 0."""
        return [
            np.maximum(np.bincount(own, table.ravel()), LEAST_SUM)
            for own, table in zip(self.terms.own, self.tables, strict=True)
        ]

    def _given(self, at: int, names: Family) -> Part:
        """The probabilities of a clique's cells given some of its variables."""
        table, clique = self.tables[at], self.tree.cliques[at]
        total = along(_margin([(table, clique)], names), names, clique)
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


def _places(clique: Family, shape: Sequence[int], names: Family) -> Integers:
    """The place of each cell of a clique in the flat table of some of its variables."""
    found = np.zeros([1] * len(clique), np.int64)
    for name in names:
        axis = clique.index(name)
        levels = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(clique))])
        found = found * shape[axis] + levels
    return np.broadcast_to(found, shape).ravel()


def _one_by_one(table: Reals) -> list[Reals]:
    """The sums of a table over all axes but the first and each of the others in turn: halves of the axes at a time."""
    shape = table.shape[1:]
    if len(shape) < 2:
        return [table] * len(shape)
    cut = len(shape) // 2
    whole = table.reshape(len(table), math.prod(shape[:cut]), -1)
    first, last = whole.sum(axis=2), whole.sum(axis=1)
    return [*_one_by_one(first.reshape(-1, *shape[:cut])), *_one_by_one(last.reshape(-1, *shape[cut:]))]


def along(table: Reals, axes: Family, onto: Family) -> Reals:
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

    Nothing where all of it is noise.
    """
    parts = [_moments([contrasts(pairs.domain.sizes[name]) for name in block], near.margin(block)) for block in blocks]
    beyond = [
        pairs.residuals[block][0].ravel() / pairs.n - part.ravel() for block, part in zip(blocks, parts, strict=True)
    ]
    noise = [pairs.block_noise(block) / pairs.n**2 for block in blocks]
    cells = [math.prod(pairs.domain.sizes[name] for name in block) for block in blocks]
    kept = beyond_noise(list(zip(beyond, noise, cells, strict=True)))
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
        inside: list[list[int]] = [[] for _ in tree.cliques]
        for i, block in enumerate(self.blocks):
            inside[tree.smallest(block) or 0].append(i)
        self._cliques = [
            _features(clique, [(self.blocks[i], self.place[i]) for i in some], (self.basis, helmert))
            for clique, some in zip(tree.cliques, inside, strict=True)
        ]
        shared = list(enumerate(zip(tree.above, tree.separators, strict=True)))
        self.own = [_places(tree.cliques[i], self.shapes[i], names) for i, (_, names) in shared]
        self.onto = [_places(tree.cliques[above], self.shapes[above], names) for _, (above, names) in shared]
        self._ridge = np.zeros(self.size)
        for i in range(self.small, len(self.blocks)):
            self._ridge[self.place[i]] = _held_back(pairs, self.blocks[i])
        self._pairs = self._by_shape(pairs)

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
        for features, table in zip(self._cliques, tables, strict=True):
            features.means(table, found)
        return whole, found

    def _alone(self, pairs: Pairs) -> Reals:
        weights = np.zeros(self.size)
        for block, place in zip(self.blocks, self.place, strict=True):
            if len(block) == 1:
                name = block[0]
                weights[place] = self.basis[name][:, 1:].T @ (self._near[name] * np.log(pairs.singles[name]))
        return weights

    def _calibrated(self, weights: Reals) -> tuple[float, list[Reals]]:
        """The log of the sum over all cells, and the cliques' probabilities: messages to the root and back."""
        tree, whole = self.tree, 0.0
        tables = [features.logs(weights).ravel() for features in self._cliques]
        sums: list[Reals] = [np.ones(0)] * len(tables)
        for i in range(len(tables) - 1, -1, -1):
            top = float(tables[i].max())
            np.exp(tables[i] - top, out=tables[i])
            whole += top
            cells = math.prod(self.shapes[i][: len(tree.separators[i])])
            sums[i] = np.maximum(tables[i].reshape(cells, -1).sum(axis=1), LEAST_SUM)
            if i:
                tables[tree.above[i]] += np.log(sums[i])[self.onto[i]]
        for i, over in enumerate(tree.above):
            known = np.bincount(self.onto[i], tables[over]) if i else np.ones(1)
            table = tables[i].reshape(known.size, -1)
            table *= (known / sums[i])[:, None]
        whole += math.log(float(sums[0][0]))
        return whole, [table.reshape(shape) for table, shape in zip(tables, self.shapes, strict=True)]

    def strengths(self, pairs: Pairs, weights: Reals, others: Mapping[Pair, float]) -> dict[Pair, float]:
        """How far the term of each pair moves it from independence, in total variation, to first order; else others."""
        found = dict(others)
        for i, block in enumerate(self.blocks):
            if len(block) == 2:
                shape = [pairs.domain.sizes[name] - 1 for name in block]
                one, other = (self.basis[name][:, 1:] for name in block)
                term = one @ weights[self.place[i]].reshape(shape) @ other.T
                found[block[0], block[1]] = 0.5 * float(
                    (np.outer(*(pairs.singles[name] for name in block)) * np.abs(term)).sum()
                )
        return found


def _features(clique: Family, blocks: Blocks, bases: Bases) -> _Halves | _Axes:
    """The features of a clique's blocks in the form whose sums take fewer steps: of many levels axis by axis."""
    halves = _Halves(clique, blocks, bases)
    sizes = [len(bases[0][name]) for name in clique]
    steps = math.prod(sizes) * sum(size + STEPS_OF_AXIS for size in sizes)
    return halves if halves.steps <= steps else _Axes(clique, blocks, bases)


class _Axes:
    """The features of a clique's blocks, as weights in a table of its shape that is transformed along each axis."""

    def __init__(self, clique: Family, blocks: Blocks, bases: Bases) -> None:
        small, large = bases
        cells = np.arange(math.prod(len(small[name]) for name in clique)).reshape([len(small[name]) for name in clique])
        self._size, self._layers = cells.size, list[tuple[list[Reals], Integers, Integers]]()
        for basis in (small, large):
            some = [(block, place) for block, place in blocks if (len(block) < LARGEST) == (basis is small)]
            at, which = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
            for block, place in some:
                here = cells[tuple(slice(1, None) if name in block else 0 for name in clique)]
                axes = [name for name in clique if name in block]
                at.append(np.transpose(here, [axes.index(name) for name in block]).ravel())
                which.append(place)
            if some:
                self._layers.append(([basis[name] for name in clique], np.concatenate(at), np.concatenate(which)))

    def logs(self, weights: Reals) -> Reals:
        """The weighted sum of the features in each cell."""
        total = np.zeros(self._size)
        for matrices, at, which in self._layers:
            spread = np.zeros(self._size)
            spread[at] = weights[which]
            total += _moments(matrices, spread).ravel()
        return total

    def means(self, table: Reals, found: Reals) -> None:
        """Writes the means of the features under a clique's probabilities to their places."""
        for matrices, at, which in self._layers:
            found[which] = _moments([matrix.T for matrix in matrices], table).ravel()[at]


class _Halves:
    """A clique whose cells are written as a matrix, its first variables by its last ones, and the blocks inside it.

    A feature is a product of one of each half, so that sums over features are products of small matrices.
    """

    def __init__(self, clique: Family, blocks: Blocks, bases: Bases) -> None:
        small, large = bases
        sizes = [len(small[name]) for name in clique]
        cut = min(range(len(sizes) + 1), key=lambda i: max(math.prod(sizes[:i]), math.prod(sizes[i:])))
        halves = clique[:cut], clique[cut:]
        self.shape = math.prod(sizes[:cut]), math.prod(sizes[cut:])
        places, which, rows, columns = [], [np.zeros(0, np.int64)], _Products(), _Products()
        for block, place in blocks:
            basis = small if len(block) < LARGEST else large
            turned = [block.index(name) for name in clique if name in block]
            which.append(np.transpose(place.reshape([len(basis[name]) - 1 for name in block]), turned).ravel())
            places.append([part.of(half, block, basis) for part, half in zip((rows, columns), halves, strict=True)])
        self._rows, self._columns = rows.matrix(self.shape[0]), columns.matrix(self.shape[1])
        self._which = np.concatenate(which)
        (many, some), (wide, cells) = self._rows.shape, self._columns.T.shape
        #: Multiplications of a sum over features.
        self.steps = min(many * some * wide + many * wide * cells, some * wide * cells + many * some * cells)
        self._at = np.concatenate([which[0], *(np.add.outer(one * wide, other).ravel() for one, other in places)])

    def logs(self, weights: Reals) -> Reals:
        """The weighted sum of the features in each cell."""
        spread = np.zeros((self._rows.shape[1], self._columns.shape[1]))
        spread.flat[self._at] = weights[self._which]
        return np.linalg.multi_dot([self._rows, spread, self._columns.T])

    def means(self, table: Reals, found: Reals) -> None:
        """Writes the means of the features under a clique's probabilities to their places."""
        sums = np.linalg.multi_dot([self._rows.T, table.reshape(self.shape), self._columns])
        found[self._which] = sums.ravel()[self._at]


class _Products:
    """Products of features of the variables in one half of a clique: (cells, products), and where each block's are."""

    def __init__(self) -> None:
        self._known: dict[tuple[bool, Family], tuple[Any, Any]] = {}
        self._size = 0

    def of(self, half: Family, block: Family, basis: Mapping[str, Reals]) -> Integers:
        """The columns of a block's products, its variables in the half's order; one of ones where it has none there."""
        key = len(block) < LARGEST, tuple(name for name in half if name in block)
        if key not in self._known:
            product = np.ones((1, 1))
            for name in half:
                product = np.kron(product, basis[name][:, 1:] if name in block else basis[name][:, :1])
            self._known[key] = self._size + np.arange(product.shape[1]), product
            self._size += product.shape[1]
        return self._known[key][0]

    def matrix(self, cells: int) -> Reals:
        """All products beside each other."""
        return np.concatenate([np.zeros((cells, 0)), *(product for _, product in self._known.values())], axis=1)


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
