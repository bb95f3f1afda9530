"""A directed acyclic graph over a declared domain, the variable sets of its statistics, and hidden Markov networks."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals, near
from dpgraph.privacy.display import MOST_ROWS, as_html, short
from dpgraph.privacy.measurements import Block, partition_movement
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.domain import Domain, Level, NetworkError, Variable, first_twice
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.rules import Rules

if TYPE_CHECKING:
    import networkx as nx

Family = tuple[str, ...]
#: A table of more cells than this is refused before any memory is taken; it would hold almost only noise.
MAX_FAMILY_CELLS = 10_000_000
MAX_NETWORK_CELLS = 100_000_000
#: The most variables of a family: numpy and einsum know no more axes, and 32 have cells for few of them only.
MAX_FAMILY = 32


@dataclass(frozen=True)
class Network:
    """A Bayesian network's public part: the domain, each variable's parents, and rules that rows keep.

    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"rain": [], "wet": ["rain"]})
    >>> network.families
    (('rain',), ('wet', 'rain'))
    >>> network.maximal_families
    (('wet', 'rain'),)
    """

    domain: Domain
    parents: FrozenMap[str, Family]
    rules: Rules = field(default=Rules(), kw_only=True)

    @classmethod
    def of(
        cls,
        domain: Domain | Mapping[str, Variable | Iterable[Level]],
        parents: Mapping[str, Iterable[str]] | nx.DiGraph,
        rules: Rules | None = None,
    ) -> Network:
        """Reads a DAG from a mapping of parents or an ``nx.DiGraph`` (a pgmpy network is one).

        A variable of the domain that the mapping does not name has no parents. ``rules`` are combinations of levels
        that cannot be (``Rules``).

        Raises:
            NetworkError: For a cycle (naming it), an unknown or repeated variable, or a family whose table would
                be absurdly large (naming it and its cells); for rules as ``Rules`` says.
        """
        domain = Domain.of(domain)
        declared = _parents_of(parents)
        for name in declared:
            if name not in domain:
                raise NetworkError(
                    f"{name!r} is in the graph but not in the domain{near(name, domain.names)}; declare its levels"
                )
        if not isinstance(rules, Rules | None):
            raise NetworkError(f"rules are dg.Rules(impossible=[...]); got {type(rules).__name__}")
        graph = FrozenMap((name, tuple(declared.get(name, ()))) for name in domain.names)
        return cls(domain, graph, rules=rules or Rules())

    def __post_init__(self) -> None:
        if tuple(self.parents) != self.domain.names:
            raise NetworkError("every variable needs its parents, in the domain's order; Network.of fills them in")
        for name, parents in self.parents.items():
            for parent in parents:
                if parent not in self.domain:
                    hint = near(parent, self.domain.names)
                    raise NetworkError(f"{name!r} has an unknown parent {parent!r}{hint}; declare it in the domain")
            if len(set(parents)) < len(parents):
                twice = first_twice(parents)
                raise NetworkError(f"{name!r} names its parent {twice!r} twice")
        _depths(self.parents)
        for family in self.families:
            check_cells(family, self.cells(family))
        if self.cell_count > MAX_NETWORK_CELLS:
            raise NetworkError(f"the families have {self.cell_count:,} cells, more than {MAX_NETWORK_CELLS:,}")
        if self.rules:
            object.__setattr__(self, "rules", self.rules.checked(self.domain))
            self._check_rules()

    def _check_rules(self) -> None:
        """Refuses rules that no family holds, and rules that leave a variable no level where none says so (P131)."""
        for rule in self.rules.impossible:
            if not any(rule.keys() <= set(self.family(name)) for name in rule):
                last = max(rule, key=self.order.index)
                missing = [name for name in rule if name not in self.family(last)]
                raise NetworkError(
                    f"no family holds the rule {Rules([rule])!r}: make an arc from {' and '.join(missing)} to {last}"
                )
        for name, parents in self.parents.items():
            possible = self.possible((name, *parents))
            if possible is None:
                continue
            known = self.possible(parents)
            unsaid = ~possible.any(axis=0) & (True if known is None else known)
            if unsaid.any():
                levels = zip(parents, np.argwhere(unsaid)[0], strict=True)
                where = ", ".join(f"{one}={self.domain.levels(one)[code]}" for one, code in levels)
                raise NetworkError(
                    f"the rules leave {name!r} no level where {where}: take one of them back, or say by a rule that it "
                    "cannot be"
                )

    @cached_property
    def released(self) -> Network:
        """The network whose tables were released: nulls are a level of variables whose values were filled since."""
        variables = {name: variable.released for name, variable in self.domain.variables.items()}
        if variables == dict(self.domain.variables):
            return self
        return Network(Domain(FrozenMap(variables)), self.parents, rules=self.rules)

    @cached_property
    def position(self) -> FrozenMap[str, int]:
        """Where each variable stands in the domain."""
        return FrozenMap((name, i) for i, name in enumerate(self.domain.names))

    @cached_property
    def order(self) -> Family:
        """The variables with every parent before its children; ties keep the domain's order."""
        depth = _depths(self.parents)
        return tuple(sorted(self.domain.names, key=depth.__getitem__))

    def family(self, name: str) -> Family:
        """A variable followed by its parents: the axes of its table."""
        self.domain[name]
        return (name, *self.parents[name])

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """One family for each variable, in the domain's order."""
        return tuple(self.family(name) for name in self.domain.names)

    @cached_property
    def maximal_families(self) -> tuple[Family, ...]:
        """The families that are not inside another; every other family is a margin of one of these."""
        kept: list[tuple[frozenset[str], Family]] = []
        holders: dict[str, list[frozenset[str]]] = {name: [] for name in self.domain.names}
        for family in sorted(self.families, key=len, reverse=True):
            members = frozenset(family)
            if not any(members <= other for other in holders[family[0]]):
                kept.append((members, family))
                for name in family:
                    holders[name].append(members)
        chosen = {family for _, family in kept}
        return tuple(family for family in self.families if family in chosen)

    def blocks(self, unit: PrivacyUnit) -> tuple[Block, ...]:
        """The tables of the maximal families, from which every family's counts can be read, and how each moves.

        Mechanisms may measure other tables instead: see ``structure.margins.measured_families``.
        """
        return tuple(
            Block(family, self.shape(family), partition_movement(self.cells(family), unit))
            for family in self.maximal_families
        )

    def downward_closure(self) -> tuple[Family, ...]:
        """Every subset of a family, the empty one included, by size and then by the domain's order."""
        subsets = {
            tuple(sorted(subset, key=self.position.__getitem__))
            for family in self.maximal_families
            for size in range(len(family) + 1)
            for subset in combinations(family, size)
        }
        return tuple(sorted(subsets, key=lambda subset: (len(subset), [self.position[name] for name in subset])))

    def shape(self, variables: Family) -> tuple[int, ...]:
        """The number of levels along each axis of a table over these variables."""
        return tuple(self.domain.sizes[name] for name in variables)

    def cells(self, variables: Family) -> int:
        """The number of cells of a table over these variables."""
        return math.prod(self.shape(variables))

    def possible(self, variables: Family) -> npt.NDArray[np.bool_] | None:
        """A mask of the cells of a table that rules within its variables allow; None where no rule is within."""
        return self.rules.possible(self.domain, variables)

    def allowed(self, name: str) -> npt.NDArray[np.bool_] | None:
        """A mask of the cells of a conditional table that rules allow; None where no rule is within the family.

        A row that no rule allows is of parents that never occur together: any probabilities will do.
        """
        possible = self.possible(self.family(name))
        return None if possible is None else possible | ~possible.any(axis=0)

    def possible_cells(self, variables: Family) -> int:
        """The number of cells that may hold rows."""
        possible = self.possible(variables)
        return self.cells(variables) if possible is None else int(possible.sum())

    @cached_property
    def cell_count(self) -> int:
        """The number of cells of all family tables together."""
        return sum(self.cells(family) for family in self.families)

    def to_networkx(self) -> nx.DiGraph:
        """The DAG as an ``nx.DiGraph``, isolated variables included."""
        import networkx as nx

        graph = nx.DiGraph()
        graph.add_nodes_from(self.domain.names)
        graph.add_edges_from((parent, name) for name, parents in self.parents.items() for parent in parents)
        return graph

    def __repr__(self) -> str:
        arcs = sum(len(parents) for parents in self.parents.values())
        rules = f", {len(self.rules.impossible)} rules" if self.rules else ""
        return f"Network({len(self.domain.names)} variables, {arcs} arcs, {self.cell_count} cells{rules})"

    def _repr_html_(self) -> str:
        rows = [
            {
                "variable": name,
                "parents": ", ".join(self.parents[name]),
                "levels": short(self.domain.levels(name)),
                "cells": self.cells(self.family(name)),
            }
            for name in islice(self.domain.names, MOST_ROWS + 1)
        ]
        return as_html(self, rows, total=len(self.domain.names))


class Holding:
    """An index of tables by their variables; a question costs as many steps as the rarest of them has tables."""

    def __init__(self, network: Network, tables: Iterable[Family]) -> None:
        self._tables = tuple(tables)
        self._cells = [network.cells(table) for table in self._tables]
        self._members = [frozenset(table) for table in self._tables]
        self._places: dict[str, list[int]] = {}
        for place, table in enumerate(self._tables):
            for name in table:
                self._places.setdefault(name, []).append(place)

    def places(self, wanted: Family) -> list[int]:
        """Where the tables that hold all wanted variables stand among the tables, in order."""
        near = min((self._places.get(name, []) for name in wanted), key=len, default=range(len(self._tables)))
        return [place for place in near if self._members[place].issuperset(wanted)]

    def smallest(self, wanted: Family) -> Family:
        """The table of fewest cells that holds the wanted variables, ties to the first; none is refused."""
        places = self.places(wanted)
        if not places:
            raise NetworkError(
                f"no table holds {', '.join(wanted)} together; leave parents out, or use the probabilities learned "
                "with the graph: learned.probabilities, dpgraph learn --model"
            )
        return self._tables[min(places, key=self._cells.__getitem__)]


def check_cells(family: Family, cells: int) -> None:
    """Refuses a table that would be absurdly large; readers ask before they, or an engine, take its memory."""
    if cells > MAX_FAMILY_CELLS:
        raise NetworkError(
            f"the family of {family[0]!r} ({', '.join(family)}) has {cells:,} cells, more than "
            f"{MAX_FAMILY_CELLS:,}; give it fewer parents or coarser levels"
        )
    if len(family) > MAX_FAMILY:
        raise NetworkError(f"the family of {family[0]!r} has {len(family)} variables, more than {MAX_FAMILY}")


def _parents_of(parents: Mapping[str, Iterable[str]] | nx.DiGraph) -> dict[str, tuple[str, ...]]:
    predecessors: Any = getattr(parents, "predecessors", None)
    if predecessors is not None:
        return {name: tuple(predecessors(name)) for name in parents}
    if not isinstance(parents, Mapping):
        raise NetworkError(f"parents must be a mapping or an nx.DiGraph; got {type(parents).__name__}")
    read: dict[str, tuple[str, ...]] = {}
    for name, names in parents.items():
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise NetworkError(f"the parents of {name!r} must be a list of names; got {names!r}")
        read[name] = tuple(names)
        if not all(isinstance(parent, str) for parent in read[name]):
            raise NetworkError(f"the parents of {name!r} must be names; got {names!r}")
    return read


def _depths(parents: Mapping[str, Family]) -> dict[str, int]:
    """The number of arcs of the longest path to each variable, parents first; a cycle is refused and named."""
    depth: dict[str, int] = {}
    try:
        for name in TopologicalSorter(parents).static_order():
            depth[name] = 1 + max((depth[parent] for parent in parents[name]), default=-1)
    except CycleError as error:
        raise NetworkError(f"the graph has a cycle: {' -> '.join(error.args[1])}") from None
    return depth


def check_markov_network(network: Network, sequence: str, time: str) -> tuple[str, ...]:
    """The fields of a hidden Markov network: every other variable, each with the sequence and the time as parents."""
    fields = tuple(name for name in network.domain.names if name not in (sequence, time))
    roots = sequence != time and all(name in network.domain and not network.parents[name] for name in (sequence, time))
    if not (roots and fields and all(set(network.parents[name]) == {sequence, time} for name in fields)):
        raise NetworkError(
            f"the network is not a hidden Markov network of {sequence!r} and {time!r}; make one with hmm_network"
        )
    return fields


def checked_laws(
    network: Network, fields: tuple[str, ...], transition: Reals, emissions: Mapping[str, Reals], states: Integers
) -> FrozenMap[str, Reals]:
    """P(level | state) of each field, frozen, after checking shapes, probabilities and states."""
    if set(emissions) != set(fields):
        raise NetworkError("every field needs its emissions, and no other")
    frozen = FrozenMap((name, frozen_array(emissions[name], np.float64)) for name in fields)
    for name, law in frozen.items():
        if law.shape != (*transition.shape[:-1], network.domain.sizes[name]):
            raise NetworkError(f"the emissions of {name!r} have the wrong shape {law.shape}")
    for law in (transition, *frozen.values()):
        if not (np.isfinite(law).all() and (law >= 0).all() and np.allclose(law.sum(axis=-1), 1, atol=1e-6)):
            raise NetworkError("transitions and emissions must be non-negative and sum to 1 in each state")
    size = transition.shape[-1]
    if states.min() < 0 or states.max() >= size:
        raise NetworkError(f"a state is not one of 0 to {size - 1}")
    return frozen


def transition_counts(states: Integers, size: int) -> Integers:
    """How often each state follows each, shape (copies, states, states), of states (copies, sequences, steps)."""
    copies = len(states)
    index = (np.arange(copies)[:, None, None] * size + states[:, :, :-1]) * size + states[:, :, 1:]
    return np.bincount(index.ravel(), minlength=copies * size * size).reshape(copies, size, size)
