"""Variable elimination on the moral graph of a network: an order, its width, and the largest sum of local terms.

Everything is public: it depends on the DAG and on the numbers of levels alone.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from dpgraph.privacy.checks import Integers
from dpgraph.structure.network import Family, Network

Factor = tuple[Family, Integers]
#: The cells of one table of a bound, where the exact maximum is out of reach.
BOUND_CELLS = 1 << 12
#: The most neighbours of a variable for which it matters which one goes next: no table over more is ever made.
WIDEST = 64


def moral_graph(scopes: Iterable[Family]) -> dict[str, set[str]]:
    """Each variable's neighbours when the members of every scope are joined to each other."""
    neighbours: dict[str, set[str]] = {}
    for scope in scopes:
        for name in scope:
            neighbours.setdefault(name, set()).update(scope)
    for name, others in neighbours.items():
        others.discard(name)
    return neighbours


@lru_cache(maxsize=64)
def elimination_order(network: Network) -> tuple[Family, int]:
    """An order of few edges (min-fill), and its width; from one wider than ``WIDEST`` on the rest is one clique."""
    alone = ((name,) for name in network.domain.names)
    graph = moral_graph([*alone, *network.families])
    order, width, _ = _eliminated(graph, network.position, network.domain.sizes, "fill")
    return order, width


def smallest_elimination(
    scopes: Sequence[Family], sizes: Mapping[str, int], kept: Iterable[str] = ()
) -> tuple[tuple[str, ...], int, int]:
    """The better order of min-fill and min-weight to eliminate all but ``kept``, its width, its largest table."""
    found = dict.fromkeys(name for scope in scopes for name in scope)
    staying = tuple(name for name in kept if name in found)
    neighbours = moral_graph([*scopes, staying])
    position = {name: place for place, name in enumerate(neighbours)}
    tried = (
        _eliminated({name: set(mine) for name, mine in neighbours.items()}, position, sizes, rule, frozenset(staying))
        for rule in ("fill", "weight")
    )
    return min(tried, key=lambda found: found[2])


def _eliminated(
    neighbours: dict[str, set[str]],
    position: Mapping[str, int],
    sizes: Mapping[str, int],
    rule: str,
    kept: frozenset[str] = frozenset(),
) -> tuple[tuple[str, ...], int, int]:
    """The order by a greedy rule, its width, and the cells of its largest table."""
    graph = _Shrinking(neighbours, sizes)
    ranked = graph.weight if rule == "weight" else graph.fill
    order, width = [], max(0, len(kept) - 1)
    cells = math.prod(sizes[name] for name in kept)
    waiting = [(ranked[name], len(mine), position[name], name) for name, mine in neighbours.items() if name not in kept]
    heapq.heapify(waiting)
    while waiting:
        rank, degree, _, name = heapq.heappop(waiting)
        if name not in neighbours or (rank, degree) != (ranked[name], len(neighbours[name])):
            continue  # it went already, or its rank has changed and stands in another place
        if degree > WIDEST:
            left = [name for name in neighbours if name not in kept]
            width, cells = max(width, len(neighbours) - 1), max(cells, math.prod(sizes[name] for name in neighbours))
            return (*order, *sorted(left, key=position.__getitem__)), width, cells
        order.append(name)
        width, cells = max(width, degree), max(cells, graph.weight[name])
        for other in graph.eliminate(name) - kept:
            heapq.heappush(waiting, (ranked[other], len(neighbours[other]), position[other], other))
    return tuple(order), width, cells


class _Shrinking:
    """A graph whose vertices are eliminated, with each one's ``fill`` (unjoined pairs) and ``weight`` (cells)."""

    def __init__(self, neighbours: dict[str, set[str]], sizes: Mapping[str, int]) -> None:
        self._neighbours, self._sizes = neighbours, sizes
        self.weight = {name: math.prod(sizes[v] for v in mine) * sizes[name] for name, mine in neighbours.items()}
        self.fill = {name: math.comb(len(mine), 2) for name, mine in neighbours.items()}
        for name, mine in neighbours.items():
            for other in mine:
                if len(neighbours[other]) < len(mine) or (len(neighbours[other]) == len(mine) and other < name):
                    continue  # each triangle's edges once, from the end of fewer neighbours
                for third in mine & neighbours[other]:
                    self.fill[third] -= 1

    def eliminate(self, name: str) -> set[str]:
        """Joins the neighbours of a vertex and takes it away; returns those whose numbers may have changed."""
        mine = self._neighbours.pop(name)
        changed = set(mine)
        for other in mine:
            theirs = self._neighbours[other]
            theirs.discard(name)
            self.fill[other] -= len(theirs) - len(mine & theirs)
            self.weight[other] //= self._sizes[name]
        for one in mine:
            for two in mine - self._neighbours[one]:
                if one != two:
                    changed |= self._join(one, two)
        return changed

    def _join(self, one: str, two: str) -> set[str]:
        """Adds an edge; returns the neighbours of both."""
        first, second = self._neighbours[one], self._neighbours[two]
        both = first & second
        for other in both:
            self.fill[other] -= 1
        self.fill[one] += len(first) - len(both)
        self.fill[two] += len(second) - len(both)
        self.weight[one] *= self._sizes[two]
        self.weight[two] *= self._sizes[one]
        first.add(two)
        second.add(one)
        return both


def largest_sum(factors: Iterable[Factor], order: Sequence[str], limit: int) -> tuple[int, bool]:
    """The maximum of a sum of factors, or beyond ``limit`` cells a mini-bucket bound (P4), and if it is exact."""
    factors = list(factors)
    value, exact = _maximum(factors, order, limit, split=False)
    return (value, exact) if exact else _maximum(factors, order, min(limit, BOUND_CELLS), split=True)


def _maximum(factors: Iterable[Factor], order: Sequence[str], limit: int, *, split: bool) -> tuple[int, bool]:
    """The maximum, and if it is exact; beyond the limit no value or, where tables may be ``split``, a bound."""
    place = {name: i for i, name in enumerate(order)}
    buckets: dict[str, list[Factor]] = {name: [] for name in order}
    total, exact = 0, True

    def put(scope: Family, values: Integers) -> int:
        if not scope:
            return int(values)
        buckets[min(scope, key=place.__getitem__)].append((scope, values))
        return 0

    for scope, values in factors:
        total += put(scope, values)
    for name in order:
        groups = _groups(buckets.pop(name), limit)
        exact = exact and len(groups) <= 1
        if not (exact or split):
            break
        for group in groups:
            scope, values = _sum(group)
            rest = tuple(other for other in scope if other != name)
            total += put(rest, values.max(axis=scope.index(name)))
    return total, exact


def _groups(factors: list[Factor], limit: int) -> list[list[Factor]]:
    """The factors in as few groups as first fit finds whose joint tables stay within the limit, larger scopes first."""
    groups: list[tuple[dict[str, int], list[Factor]]] = []
    for factor in sorted(factors, key=lambda factor: -len(factor[0])):
        sizes = dict(zip(factor[0], factor[1].shape, strict=True))
        fitting = [group for group in groups if math.prod((group[0] | sizes).values()) <= limit]
        holding = [group for group in fitting if sizes.keys() <= group[0].keys()]
        if fitting:
            chosen = (holding or fitting)[0]
            chosen[0].update(sizes)
            chosen[1].append(factor)
        else:
            groups.append((sizes, [factor]))
    return [members for _, members in groups]


def _sum(factors: list[Factor]) -> Factor:
    sizes: dict[str, int] = {}
    for scope, values in factors:
        sizes.update(zip(scope, values.shape, strict=True))
    names = tuple(sizes)
    total = np.zeros(tuple(sizes.values()), np.int64)
    for scope, values in factors:
        kept = sorted(range(len(scope)), key=lambda axis: names.index(scope[axis]))
        shape = [sizes[name] if name in scope else 1 for name in names]
        total += np.transpose(values, kept).reshape(shape)
    return names, total
