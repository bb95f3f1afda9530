"""Clique trees that hold the strongest pairs of variables within a number of cells.

A tree grows one variable at a time, each into a part of an earlier clique (as in ``Grown``), and then strong pairs that
no clique holds are joined along the way between them. Trees from several starts are compared by what they leave out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpgraph.privacy.checks import Reals
from dpgraph.structure.domain import Domain
from dpgraph.structure.network import Family

#: The most cells of all cliques of a tree together.
MOST_CELLS = 1 << 17
#: Trees that are compared, the deviation of the logarithms of scores that they grow by, and a seed: no chance is wanted.
STARTS, SPREAD, SEED = 10, 0.15, 0


@dataclass(frozen=True)
class Tree:
    """A clique tree: what a clique shares with all before it is its separator, which the clique ``above`` it holds.

    A clique's axes are its separator's first; the root comes first, with an empty separator.
    """

    cliques: tuple[Family, ...]
    above: tuple[int, ...]

    @cached_property
    def separators(self) -> tuple[Family, ...]:
        """The variables that each clique shares with the one above it."""
        found: list[Family] = [()]
        for clique, above in zip(self.cliques[1:], self.above[1:], strict=True):
            found.append(tuple(name for name in clique if name in self.cliques[above]))
        return tuple(found)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """The cliques next to each clique."""
        found: list[list[int]] = [[] for _ in self.cliques]
        for i, above in enumerate(self.above[1:], 1):
            found[i].append(above)
            found[above].append(i)
        return tuple(map(tuple, found))

    @cached_property
    def _holding(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for i, clique in enumerate(self.cliques):
            for name in clique:
                found.setdefault(name, set()).add(i)
        return found

    def smallest(self, names: Iterable[str]) -> int | None:
        """The clique of the fewest variables that holds some; None if none does."""
        held = [self._holding[name] for name in names]
        both = set.intersection(*held) if held else {0}
        return min(both, key=lambda i: (len(self.cliques[i]), i), default=None)


def one_clique(domain: Domain) -> Tree:
    """The tree of a joint table."""
    return Tree((domain.names,), (0,))


def is_small(domain: Domain) -> bool:
    """True if the joint of all variables is written down."""
    return math.prod(domain.sizes.values()) <= MOST_CELLS


def best_tree(domain: Domain, scores: Mapping[tuple[str, str], float], most: int) -> Tree:
    """The tree, of cliques of at most so many cells, that leaves out the least of the pairs' scores."""
    names, rng = domain.names, np.random.default_rng(SEED)
    matrix = np.zeros((len(names), len(names)))
    for (one, other), score in scores.items():
        i, j = names.index(one), names.index(other)
        matrix[i, j] = matrix[j, i] = score
    tried: list[_Growing] = []
    for _ in range(STARTS):
        moved = matrix * np.exp(SPREAD * rng.standard_normal(matrix.shape)) if tried else matrix
        first = int(rng.integers(len(names))) if tried else int(matrix.sum(axis=1).argmax())
        within = 2 * tried[-1].within if tried else MOST_CELLS
        tried.append(_Growing(list(domain.sizes.values()), np.minimum(moved, moved.T), min(within, most), first))
        tried[-1].join(most)
        if not tried[-1].left_out(matrix):
            break
    return min(tried, key=lambda one: one.left_out(matrix)).tree(names)


class _Growing:
    """Cliques of variables by number, each joined to the clique ``above`` it, under a limit of cells."""

    def __init__(self, sizes: list[int], scores: Reals, within: int, first: int) -> None:
        self.sizes, self.scores, self.within = sizes, scores, within
        while True:
            self._grow(first)
            if sum(map(self.cells, self.cliques)) <= MOST_CELLS or self.within <= max(sizes):
                return
            self.within //= 2

    def cells(self, clique: Iterable[int]) -> int:
        return math.prod(self.sizes[v] for v in clique)

    def _grow(self, first: int) -> None:
        self.cliques: list[set[int]] = [{first}]
        self.above = [0]
        offers = {v: self._offer(v, 0) for v in range(len(self.sizes)) if v != first}
        while offers:
            v = max(offers, key=lambda one: offers[one][0])
            _, chosen, at = offers.pop(v)
            if chosen == self.cliques[at]:
                self.cliques[at].add(v)
            else:
                self.cliques.append({*chosen, v})
                self.above.append(at)
                at = len(self.cliques) - 1
            for other, offer in offers.items():
                mine = self._offer(other, at)
                if mine[0] > offer[0]:
                    offers[other] = mine

    def _offer(self, v: int, at: int) -> tuple[float, set[int], int]:
        """The score of a variable with a part of a clique, the strongest pairs first that fit."""
        left, gain, chosen = self.within // self.sizes[v], 0.0, set[int]()
        mine = self.scores[v]
        for u in sorted(self.cliques[at], key=lambda one: -mine[one]):
            if not mine[u]:
                break
            if self.sizes[u] <= left:
                left //= self.sizes[u]
                gain += float(mine[u])
                chosen.add(u)
        return gain, chosen, at

    def join(self, most: int) -> None:
        """Joins pairs that no clique holds, strongest first, while cells last: one variable enters every clique between."""
        total = sum(map(self.cells, self.cliques))
        upper = np.triu(np.where(self._inside(), 0.0, self.scores), 1)
        for at in np.argsort(-upper, axis=None)[: np.count_nonzero(upper)]:
            u, v = (int(i) for i in np.unravel_index(at, upper.shape))
            way = self._way(u, v)
            tries = []
            for one in (u, v):
                wide = [i for i in way if one not in self.cliques[i]]
                more = sum(self.cells(self.cliques[i]) for i in wide) * (self.sizes[one] - 1)
                if all(self.cells(self.cliques[i]) * self.sizes[one] <= most for i in wide):
                    tries.append((more, one, wide))
            if tries and total + min(tries)[0] <= MOST_CELLS:
                more, one, wide = min(tries)
                total += more
                for i in wide:
                    self.cliques[i].add(one)

    def _way(self, u: int, v: int) -> list[int]:
        """The cliques from the last one with u to the first one with v."""
        near: list[list[int]] = [[] for _ in self.cliques]
        for i, above in enumerate(self.above[1:], 1):
            near[i].append(above)
            near[above].append(i)
        before = {i: -1 for i, clique in enumerate(self.cliques) if u in clique}
        queue = list(before)
        for i in queue:
            if v in self.cliques[i]:
                way = [i]
                while before[way[-1]] >= 0:
                    way.append(before[way[-1]])
                return way
            for j in near[i]:
                if j not in before:
                    before[j] = i
                    queue.append(j)
        raise AssertionError("a tree joins all its cliques")

    def _inside(self) -> Reals:
        held = np.zeros(self.scores.shape, bool)
        for clique in self.cliques:
            some = sorted(clique)
            held[np.ix_(some, some)] = True
        return held

    def left_out(self, scores: Reals) -> float:
        """The sum of the scores of pairs that no clique holds."""
        return float(scores[~self._inside()].sum()) / 2

    def tree(self, names: Family) -> Tree:
        """The tree without cliques that a neighbour holds."""
        cliques, above = self.cliques, self.above
        stands = list(range(len(cliques)))  # for each clique the one that has taken its place
        for i in range(len(cliques) - 1, 0, -1):
            if cliques[i] <= cliques[above[i]] or cliques[above[i]] <= cliques[i]:
                cliques[above[i]] = cliques[above[i]] | cliques[i]
                stands[i] = above[i]

        def place(i: int) -> int:
            return i if stands[i] == i else place(stands[i])

        kept = [i for i in range(len(cliques)) if stands[i] == i]
        number = {i: k for k, i in enumerate(kept)}
        parent = [number[place(above[i])] for i in kept]
        found: list[Family] = []
        for i, over in zip(kept, parent, strict=True):
            shared = cliques[i] & cliques[kept[over]] if found else set[int]()
            found.append(tuple(names[v] for v in [*sorted(shared), *sorted(cliques[i] - shared)]))
        return Tree(tuple(found), tuple(parent))
