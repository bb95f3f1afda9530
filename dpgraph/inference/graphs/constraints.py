"""Limits of a chosen graph: edges, an order or tiers, a target, numbers of parents and of cells."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import islice, pairwise
from typing import Any

from dpgraph.privacy.checks import is_whole
from dpgraph.structure.domain import Domain, NetworkError
from dpgraph.structure.network import MAX_FAMILY_CELLS, MAX_NETWORK_CELLS, Family, Network

Edge = tuple[str, str]

#: The most cells of a family's table, unless it is said.
MAX_CELLS = 20_000


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """The graphs that ``learn_network`` and ``choose_network`` may choose. An edge is a pair (parent, child).

    Attributes:
        max_parents: The most parents of a variable; 2 where there is a target, else as many as cells allow.
        max_cells: The most cells of a family's table; 20 000 by default.
        required: Edges that the graph must have.
        forbidden: Edges that the graph must not have.
        order: Variables, or lists of variables that share a tier, first to last: no edge leads to an earlier tier.
        target: A variable that is a parent of every other, which depend on one more each: tree-augmented naive Bayes.

    They are checked against a domain where they are used: a NetworkError names the setting that does not fit.

    >>> Constraints(max_parents=2, order=["age", ["work", "income"]]).forbidden
    ()
    """

    max_parents: int | None = None
    max_cells: int | None = None
    required: Iterable[Edge] = ()
    forbidden: Iterable[Edge] = ()
    order: Sequence[Any] | None = None
    target: str | None = None

    def _within(self, domain: Domain) -> Limits:
        if self.max_parents is not None and not is_whole(self.max_parents):
            raise NetworkError(f"max_parents is a whole number, or None; got {self.max_parents!r:.60}")
        most = min(MAX_FAMILY_CELLS, max(MAX_CELLS, MAX_NETWORK_CELLS // len(domain.names)))
        if self.max_cells is not None and not is_whole(self.max_cells, 1, most):
            raise NetworkError(
                f"max_cells is a whole number from 1 to {most:,}, the most that a family of these {len(domain.names)} "
                f"variables may have, or None; got {self.max_cells!r:.60}"
            )
        parents, target = self.max_parents, self.target
        needed, banned = _edges(self.required, "required"), _edges(self.forbidden, "forbidden")
        if target is not None:
            if not isinstance(target, str):
                raise NetworkError(f"target is the name of one variable, or None; got {target!r:.60}")
            domain[target]
            if parents == 0:
                raise NetworkError("a target is a parent of every other variable, and max_parents is 0")
            needed |= {(target, name) for name in domain.names if name != target}
            parents = 2 if parents is None else parents
        return Limits(domain, parents, self.max_cells or MAX_CELLS, needed, banned, _tiers(domain, self.order), target)


def constraints_within(constraints: Constraints | None, domain: Domain) -> Limits:
    """The constraints that a caller gave, within a domain; none where None was given."""
    if constraints is not None and not isinstance(constraints, Constraints):
        raise NetworkError(f"constraints is dg.Constraints(...), or None; got {type(constraints).__name__}")
    return (constraints or Constraints())._within(domain)


@dataclass(frozen=True)
class Limits:
    """The constraints on graphs over one domain.

    ``max_parents`` and ``max_cells`` bound a family, None for as many parents as the cells allow. Every graph has the
    ``required`` edges and none of the ``forbidden``. No parent stands in a later one of the ``tiers`` than its child;
    other variables have no tier. A ``target`` is a parent of every other variable.
    """

    domain: Domain
    max_parents: int | None
    max_cells: int
    required: frozenset[Edge]
    forbidden: frozenset[Edge]
    tiers: tuple[Family, ...]
    target: str | None

    def __post_init__(self) -> None:
        for name in {name for edge in self.required | self.forbidden for name in edge}:
            self.domain[name]
        both = sorted(self.required & self.forbidden)
        if both:
            raise NetworkError(f"the edge {_shown(both[0])} is both required and forbidden")
        for edge in sorted(self.required):
            if not self._in_order(*edge):
                raise NetworkError(f"the edge {_shown(edge)} is required, and against the order")
        network = Network.of(self.domain, self.required_parents)  # refuses a cycle, and names it
        self._check_placeable()
        for name, parents in network.parents.items():
            if self.max_parents is not None and len(parents) > self.max_parents:
                raise NetworkError(
                    f"{name!r} has {len(parents)} required parents, more than max_parents={self.max_parents}"
                )
            if (cells := network.cells(network.family(name))) > self.max_cells:
                raise NetworkError(
                    f"the required family of {name!r} has {cells:,} cells, more than max_cells={self.max_cells:,}"
                )

    def _check_placeable(self) -> None:
        """Refuses constraints under which variables cannot be placed one by one (``may_enter``), naming a circle."""
        before = {name: set(parents) for name, parents in self.required_parents.items()}
        for tier, later in pairwise(tier for tier in self.tiers if tier):
            for name in later:
                before[name].update(tier)
        try:
            TopologicalSorter(before).prepare()
        except CycleError as error:
            steps = [
                f"{_shown(edge)} is required"
                if edge in self.required
                else f"the order has {edge[0]!r} before {edge[1]!r}"
                for edge in pairwise(error.args[1])
            ]
            raise NetworkError(
                f"required edges and the order contradict one another: {', '.join(steps)}; leave one out"
            ) from None

    @property
    def free(self) -> bool:
        """True if nothing but cells limits the graphs."""
        return self.max_parents is None and not (self.required or self.forbidden or self.tiers)

    def cells(self, names: Iterable[str]) -> int:
        """The cells of a table over some variables."""
        return math.prod(self.domain.sizes[name] for name in names)

    @cached_property
    def required_parents(self) -> dict[str, Family]:
        """The required parents of each variable, in the domain's order."""
        return {
            name: tuple(parent for parent in self.domain.names if (parent, name) in self.required)
            for name in self.domain.names
        }

    @cached_property
    def _tier(self) -> dict[str, int]:
        return {name: i for i, tier in enumerate(self.tiers) for name in tier}

    def _in_order(self, parent: str, child: str) -> bool:
        return parent not in self._tier or child not in self._tier or self._tier[parent] <= self._tier[child]

    def allows(self, parent: str, child: str) -> bool:
        """True if an edge is possible."""
        return parent != child and (parent, child) not in self.forbidden and self._in_order(parent, child)

    def may_enter(self, name: str, placed: Iterable[str]) -> bool:
        """True if a variable may follow those placed: required parents and earlier tiers are all placed."""
        here = set(placed)
        if not here.issuperset(self.required_parents[name]):
            return False
        mine = self._tier.get(name)
        return mine is None or all(other in here for other, tier in self._tier.items() if tier < mine)

    @cached_property
    def most_cells(self) -> dict[str, int]:
        """The most cells that the family of each variable may have, whatever is chosen."""
        sizes, most = self.domain.sizes, self.max_parents
        widest = sorted(sizes.items(), key=lambda item: -item[1])
        found: dict[str, int] = {}
        for name, cells in sizes.items():
            others = (size for other, size in widest[: None if most is None else most + 1] if other != name)
            for size in others if most is None else islice(others, most):
                cells *= size
                if cells >= self.max_cells:
                    break
            found[name] = min(cells, self.max_cells)
        return found

    def fits(self, name: str, parents: Sequence[str]) -> bool:
        """True for a family within the limits of parents and cells."""
        if self.max_parents is not None and len(parents) > self.max_parents:
            return False
        return self.cells((name, *parents)) <= self.max_cells


def _edges(edges: Any, name: str) -> frozenset[Edge]:
    if isinstance(edges, str) or not isinstance(edges, Iterable):
        raise NetworkError(f"{name} is a list of edges (parent, child); got {edges!r:.60}")
    read: set[Edge] = set()
    for edge in edges:
        two = isinstance(edge, Sequence) and not isinstance(edge, str) and len(edge) == 2 and edge[0] != edge[1]
        if not two or not all(isinstance(end, str) for end in edge):
            raise NetworkError(f"{name} holds edges (parent, child) of two variables; got {edge!r:.60}")
        read.add((edge[0], edge[1]))
    return frozenset(read)


def _tiers(domain: Domain, order: Any) -> tuple[Family, ...]:
    """Tiers of variables: an item of an order is a variable, or a list of those that share a tier."""
    if order is None:
        return ()
    if isinstance(order, str) or not isinstance(order, Sequence):
        raise NetworkError(f"order is a list of variables, or of lists of them; got {order!r:.60}")
    for item in order:
        if not isinstance(item, str | list | tuple) or not all(isinstance(name, str) for name in item):
            raise NetworkError(f"order is a list of variables, or of lists of them; an item is {item!r:.60}")
    tiers = tuple((item,) if isinstance(item, str) else tuple(item) for item in order)
    names = [name for tier in tiers for name in tier]
    for name in names:
        domain[name]
    if len(set(names)) < len(names):
        raise NetworkError("order names a variable twice")
    return tiers


def _shown(edge: Edge) -> str:
    return f"{edge[0]!r} -> {edge[1]!r}"
