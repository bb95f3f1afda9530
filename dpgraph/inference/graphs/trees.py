"""Clique trees that hold the strongest pairs of variables within a number of cells.

Strong pairs beside a spanning tree are joined along the way between them. Trees of somewhat moved scores are compared
by the pairs outside them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpgraph.inference.graphs.factors import FEWEST
from dpgraph.privacy.checks import Reals
from dpgraph.structure.domain import Domain
from dpgraph.structure.network import Family

#: The most cells of all cliques of a tree together, and of one where these are too few for the pairs.
MOST_CELLS, MORE_CELLS = 1 << 17, 1 << 20
#: Trees that are compared, the deviation of the logarithms of their scores, and a seed: a choice is no chance.
STARTS, SPREAD, SEED = 20, 0.15, 0


@dataclass(frozen=True)
class Tree:
    """A clique tree: a clique's separator is its part of all before it, and lies in the clique ``above`` it.

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
        return _neighbours(self.above)

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


def borrows(domain: Domain) -> bool:
    """True where pairs borrow from each other through common factors: no joint of all variables does as much."""
    return len(domain.names) >= FEWEST and not is_small(domain)


def best_tree(domain: Domain, scores: Mapping[tuple[str, str], float], most: int, cells: int = MOST_CELLS) -> Tree:
    """The tree that leaves out the least of the pairs' scores: cliques of at most ``most`` cells, in all ``cells``."""
    names, sizes, rng = domain.names, list(domain.sizes.values()), np.random.default_rng(SEED)
    matrix = np.zeros((len(names), len(names)))
    for (one, other), score in scores.items():
        i, j = names.index(one), names.index(other)
        matrix[i, j] = matrix[j, i] = score if sizes[i] * sizes[j] <= most else 0.0
    tried: list[_Cliques] = []
    for _ in range(STARTS):
        moved = matrix * np.exp(SPREAD * rng.standard_normal(matrix.shape)) if tried else matrix
        tried.append(_Cliques(sizes, np.minimum(moved, moved.T), most, cells))
        if not tried[-1].left_out(matrix):
            break
    return min(tried, key=lambda one: one.left_out(matrix)).tree(names)


class _Cliques:
    """Cliques of variables by number, each beside the one ``above`` it: of a spanning tree, and then larger ones."""

    def __init__(self, sizes: list[int], scores: Reals, most: int, cells: int) -> None:
        self.sizes = sizes
        first = int(scores.sum(axis=1).argmax())
        self.cliques, self.above, home = [{first}], [0], {first: 0}
        gain, nearest = scores[first].copy(), np.full(len(sizes), first)
        while len(home) < len(sizes):
            v = max((one for one in range(len(sizes)) if one not in home), key=gain.__getitem__)
            self.cliques.append({v, int(nearest[v])} if gain[v] else {v})
            self.above.append(home[int(nearest[v])])
            home[v] = len(home)
            nearest[scores[v] > gain] = v
            gain = np.maximum(gain, scores[v])
        self._join(scores, most, cells)

    def _join(self, scores: Reals, most: int, limit: int) -> None:
        """Joins pairs that no clique holds, strongest first, while cells last: one enters every clique in between."""
        total = sum(map(self._cells, self.cliques))
        upper = np.triu(np.where(self._inside(), 0.0, scores), 1)
        for at in np.argsort(-upper, axis=None)[: np.count_nonzero(upper)]:
            u, v = (int(i) for i in np.unravel_index(at, upper.shape))
            way, tries = self._way(u, v), []
            for one in (u, v):
                wide = [i for i in way if one not in self.cliques[i]]
                cells = [self._cells(self.cliques[i]) for i in wide]
                if max(cells, default=0) * self.sizes[one] <= most:
                    tries.append((sum(cells) * (self.sizes[one] - 1), one, wide))
            if tries and total + min(tries)[0] <= limit:
                more, one, wide = min(tries)
                total += more
                for i in wide:
                    self.cliques[i].add(one)

    def _way(self, u: int, v: int) -> list[int]:
        near = _neighbours(self.above)
        before = {i: -1 for i, clique in enumerate(self.cliques) if u in clique}
        queue = list(before)
        while v not in self.cliques[queue[0]]:
            at = queue.pop(0)
            for i in near[at]:
                if i not in before:
                    before[i] = at
                    queue.append(i)
        way = queue[:1]
        while before[way[-1]] >= 0:
            way.append(before[way[-1]])
        return way

    def _cells(self, clique: Iterable[int]) -> int:
        return math.prod(self.sizes[v] for v in clique)

    def _inside(self) -> Any:
        held = np.zeros((len(self.sizes), len(self.sizes)), bool)
        for clique in self.cliques:
            some = sorted(clique)
            held[np.ix_(some, some)] = True
        return held

    def left_out(self, scores: Reals) -> float:
        """The sum of the scores of pairs that no clique holds."""
        return float(scores[~self._inside()].sum()) / 2

    def tree(self, names: Family) -> Tree:
        """The tree of the cliques that no neighbour holds."""
        cliques, into = list(self.cliques), list(range(len(self.cliques)))  # the clique that each one has gone into
        for i in range(len(cliques) - 1, 0, -1):
            over = self.above[i]
            if cliques[i] <= cliques[over] or cliques[over] <= cliques[i]:
                cliques[over], into[i] = cliques[over] | cliques[i], over
        number: dict[int, int] = {}
        above: list[int] = []
        found: list[Family] = []
        for i, clique in enumerate(cliques):
            if into[i] != i:
                number[i] = number[into[i]]
                continue
            number[i] = len(found)
            above.append(number[self.above[i]])
            shared = clique & cliques[self.above[i]] if i else set[int]()
            found.append(tuple(names[v] for v in [*sorted(shared), *sorted(clique - shared)]))
        return Tree(tuple(found), tuple(above))


def _neighbours(above: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in above]
    for i, over in enumerate(above[1:], 1):
        found[i].append(over)
        found[over].append(i)
    return tuple(map(tuple, found))
