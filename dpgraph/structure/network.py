"""A directed acyclic graph over a declared domain, the variable sets of its statistics, rules, hidden Markov networks.

Rules are combinations of levels that cannot be: public by assertion, never learned from private rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import combinations, islice, pairwise, product
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals, check_choice, near
from dpgraph.privacy.display import MOST_ROWS, as_html, short
from dpgraph.privacy.measurements import Block, partition_movement
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.domain import Bins, Domain, Level, NetworkError, Variable, first_twice
from dpgraph.structure.frozen import FrozenMap, frozen_array

if TYPE_CHECKING:
    import networkx as nx

Combination = FrozenMap[str, tuple[Level, ...]]
Broken = Literal["refuse", "missing", "other"]
#: The most rules of a network, and the most that a refusal of rows lists.
MOST_RULES, MOST_LISTED = 4096, 5
#: The most combinations of levels of the variables of one order or sum.
MOST_COMPARED = 1_000_000
#: The least and the greatest number of a level, and whether the greatest is one of its numbers.
Span = tuple[Fraction | float, Fraction | float, bool]
ALL_NUMBERS: Span = (-math.inf, math.inf, False)


@dataclass(frozen=True)
class Rules:
    """Combinations of levels that no row has, known before any is read: their cells are 0, without noise.

    Args:
        impossible: Combinations that no row may have: mappings from two variables or more to a level or several.
        determines: For a variable, and another that it determines, the level or levels of the other at each of its own:
            ``{"district": {"county": {"d1": "c1", "d2": "c1"}}}``. A network keeps them as combinations.
        broken: ``"refuse"`` the table, or count a row that breaks a rule as the level declared ``missing``, or
            ``other``, of the rule's variable named last, or determined; that level may be anywhere. A refusal tells one
            bit about the rows, which no budget is charged for; a strict domain needs one of the other two.
        order: Chains of variables of numbers, each at most the next: ``[("start_year", "end_year")]``.
        sums: For a variable of numbers the variables that it is the sum of: ``{"total": ["wage", "rent"]}``. Levels
            that no numbers of theirs fulfil cannot be together. Numbers of a bin are whole where ``Bins.whole`` is
            true; end bins have no bound under ``outside="ends"``. ``missing`` and ``other`` may be
            beside anything.

    Raises:
        NetworkError: If a rule is of another form; by ``Network.of``, if a variable is unknown, a rule concerns one
            variable alone, rules contradict one another, no family of the network holds the variables of one, or
            levels of an order or a sum are no numbers, or more than 1 000 000 together.
        DomainError: By ``Network.of``, if a level is unknown.

    >>> Rules(impossible=[{"age": "0-15", "income": ["low", "high"]}])
    Rules(age=0-15 & income=low|high)
    >>> years = Bins([1990, 2000, 2010, 2020])
    >>> Rules(order=[("start", "end")]).checked(Domain.of({"start": years, "end": years}))
    Rules(start=2000-2010 & end=1990-2000, start=2010-2020 & end=1990-2000|2000-2010)
    """

    impossible: tuple[Combination, ...]
    determines: FrozenMap[str, Any]
    broken: Broken
    order: tuple[tuple[str, ...], ...]
    sums: FrozenMap[str, tuple[str, ...]]

    def __init__(
        self,
        impossible: Iterable[Mapping[str, Level | Iterable[Level]]] = (),
        determines: Mapping[str, Mapping[str, Mapping[Any, Any]]] | None = None,
        broken: Broken = "refuse",
        order: list[Iterable[str]] | tuple[Iterable[str], ...] = (),
        sums: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        if isinstance(impossible, str | Mapping) or not isinstance(impossible, Iterable):
            raise NetworkError(f"impossible is a list of combinations, mappings to levels; got {impossible!r:.60}")
        check_choice("broken", broken, Broken, error=NetworkError)
        told = tuple(_levels_by_key(one, "a combination maps variables to levels") for one in impossible)
        known = {
            name: FrozenMap((other, _levels_by_key(levels, f"{name!r} determines")) for other, levels in _items(others))
            for name, others in _items({} if determines is None else determines)
        }
        if not isinstance(order, list | tuple) or not isinstance(sums, Mapping | None):
            raise NetworkError(
                "order is a list of chains, order=[('start', 'end')], and sums a mapping, sums={'total': ['wage', "
                f"'rent']}}; got order={order!r:.60}, sums={sums!r:.60}"
            )
        chains = tuple(_names(chain) for chain in order)
        totals = FrozenMap((total, _names(parts, total)) for total, parts in (sums or {}).items())
        settings = {"impossible": told, "determines": FrozenMap(known), "broken": broken}
        for name, value in (settings | {"order": chains, "sums": totals}).items():
            object.__setattr__(self, name, value)

    def __bool__(self) -> bool:
        return bool(self.impossible or self.determines or self.order or self.sums)

    def __repr__(self) -> str:
        more = [f"broken={self.broken!r}"] if self.broken != "refuse" else []
        told = [f"{name} determines {other}" for name, others in self.determines.items() for other in others]
        told += [" <= ".join(chain) for chain in self.order]
        told += [f"{total} = {' + '.join(parts)}" for total, parts in self.sums.items()]
        return f"Rules({', '.join([*self.words(), *told, *more])})"

    def words(self) -> list[str]:
        """The first combinations, in words."""
        some = [
            " & ".join(f"{name}={'|'.join(map(str, levels))}" for name, levels in rule.items())
            for rule in self.impossible[:MOST_LISTED]
        ]
        rest = len(self.impossible) - len(some)
        return [*some, f"... {rest} more"] if rest else some

    def checked(self, domain: Domain) -> Rules:
        """The same as combinations alone, of two variables at least, their levels in the domain's order."""
        rules = [*self.impossible, *self._determined(domain), *self._compared(domain)]
        if len(rules) > MOST_RULES:
            raise NetworkError(f"there are {len(rules):,} rules, more than {MOST_RULES:,}; say rules of several levels")
        made = dict.fromkeys(_checked(rule, domain) for rule in rules)
        if self.broken == "refuse":
            if made and domain.strict:
                raise NetworkError(
                    "the domain is strict, and a row that breaks a rule would refuse the table: Rules(..., "
                    "broken='missing'), or 'other', counts it as a level of its own"
                )
            return Rules(tuple(made))
        taken = {name: self.landing(domain, name) for name in dict.fromkeys(list(rule)[-1] for rule in made)}
        for rule in made:
            for name in taken.keys() & rule.keys():
                if taken[name] in rule[name]:
                    raise NetworkError(
                        f"broken={self.broken!r}: rows that break a rule count as {taken[name]!r} of {name!r}, so no "
                        "rule may name that level"
                    )
        return Rules(tuple(made), broken=self.broken)

    def landing(self, domain: Domain, name: str) -> Level:
        """The level of a variable that rows count as where they break a rule."""
        variable = domain[name]
        if isinstance(variable, Bins):
            level: Level | None = "missing" if variable.missing and self.broken == "missing" else None
        else:
            level = variable.missing if self.broken == "missing" else variable.other
        if level is None:
            raise NetworkError(
                f"broken={self.broken!r}: {name!r} is named last in a rule and declares no such level; declare it, or "
                "name a variable last that has it"
            )
        return level

    def possible(self, domain: Domain, variables: tuple[str, ...]) -> npt.NDArray[np.bool_] | None:
        """A mask of a table's cells, axes as the variables, False where a rule within them forbids; None without one.

        Of rules that ``checked`` made.
        """
        mask: npt.NDArray[np.bool_] | None = None
        for rule in self.impossible:
            if rule.keys() <= set(variables):
                if mask is None:
                    mask = np.ones([domain.sizes[name] for name in variables], bool)
                mask[np.ix_(*(codes(domain, name, rule.get(name)) for name in variables))] = False
        return mask

    def _determined(self, domain: Domain) -> Iterator[Combination]:
        """A combination for each set of levels that some levels of a variable allow."""
        for name, others in self.determines.items():
            for other, allowed in others.items():
                known = {domain.code(name, level): levels for level, levels in allowed.items()}
                if unsaid := [level for code, level in enumerate(domain.levels(name)) if code not in known]:
                    raise NetworkError(
                        f"{name!r} determines {other!r}, but not at {unsaid[0]!r}: give its level there, or the "
                        "list of all that may be"
                    )
                possible = np.zeros((domain.sizes[name], domain.sizes[other]), bool)
                if self.broken != "refuse":
                    possible[:, domain.code(other, self.landing(domain, other))] = True
                for code, levels in known.items():
                    possible[code, [domain.code(other, level) for level in levels]] = True
                yield from _apart(domain, (name, other), possible)

    def _compared(self, domain: Domain) -> Iterator[Combination]:
        """The combinations of levels none of whose numbers fulfil an order or a sum."""
        for names in (pair for chain in self.order for pair in pairwise(chain)):
            spans = _spans(domain, names)
            found = [low < high or (low == high and closed) for (low, _, _), (_, high, closed) in product(*spans)]
            yield from _apart(domain, names, np.reshape(found, [len(one) for one in spans]))
        for total, parts in self.sums.items():
            *spans, whole = _spans(domain, (*parts, total))
            found = []
            for some in product(*spans):
                lows, highs, closed = zip(*some, strict=True)
                low, high, reached = sum(lows), sum(highs), all(closed)
                found += [
                    (low < top or (low == top and ends)) and (least < high or (least == high and reached))
                    for least, top, ends in whole
                ]
            yield from _apart(domain, (*parts, total), np.reshape(found, [len(one) for one in (*spans, whole)]))


def codes(domain: Domain, name: str, levels: tuple[Level, ...] | None) -> list[int]:
    """The positions of some levels of a variable, of all without any; bins by name: a number is not all of its bin."""
    if levels is None:
        return list(range(domain.sizes[name]))
    named = isinstance(domain[name], Bins)
    return [domain.code(name, str(level) if named else level) for level in levels]


def _spans(domain: Domain, names: tuple[str, ...]) -> list[list[Span]]:
    if math.prod(domain[name].size for name in names) > MOST_COMPARED:
        raise NetworkError(f"{', '.join(names)} have more than {MOST_COMPARED:,} combinations: give them fewer levels")
    return [[_span(domain, name, code) for code in range(domain.sizes[name])] for name in names]


def _span(domain: Domain, name: str, code: int) -> Span:
    """The numbers of a level; all numbers where it stands for nulls or undeclared values."""
    variable = domain[name]
    if isinstance(variable, Bins):
        last, ends = len(variable.spans) - 1, variable.outside == "ends"
        if code > last:
            return ALL_NUMBERS
        low, high = (Fraction(repr(edge)) for edge in variable.spans[code])
        closed = variable.whole or code == last
        return -math.inf if ends and code == 0 else low, math.inf if ends and code == last else high, closed
    level = variable.levels[code]
    if variable.kind != "number":
        raise NetworkError(f"{name!r} is in an order or a sum, and its levels are no numbers, as {level!r}")
    number = Fraction(repr(level))
    return ALL_NUMBERS if level in (variable.other, variable.missing) else (number, number, True)


def _apart(domain: Domain, names: tuple[str, ...], possible: npt.NDArray[np.bool_]) -> Iterator[Combination]:
    """Combinations that make up the cells that are not possible, those of fewer variables first."""
    for size in range(2, len(names) + 1):
        for kept in combinations(range(len(names)), size):
            away = tuple(axis for axis in range(len(names)) if axis not in kept)
            never = np.logical_not(possible.any(axis=away, keepdims=True))
            for axis in kept if size > 2 else ():
                never = never & possible.any(axis=(*away, axis), keepdims=True)  # the others say it where it is not
            cells = np.moveaxis(never.reshape([possible.shape[axis] for axis in kept]), 0, -2)  # beside the last
            for place in np.ndindex(cells.shape[:-2]):
                alike: dict[bytes, list[int]] = {}
                for code, row in enumerate(cells[place]):
                    alike.setdefault(row.tobytes() if row.any() else b"", []).append(code)
                for mine in (mine for row, mine in alike.items() if row):
                    rest = np.flatnonzero(cells[place][mine[0]]).tolist()
                    told = zip((names[axis] for axis in kept), (mine, *([code] for code in place), rest), strict=True)
                    yield FrozenMap((one, tuple(domain.levels(one)[code] for code in some)) for one, some in told)


def _names(names: Iterable[str], *total: str) -> tuple[str, ...]:
    told = () if isinstance(names, str | Mapping) or not isinstance(names, Iterable) else tuple(names)
    every = (*told, *total)
    if len(every) < 2 or not told or not all(isinstance(name, str) for name in every) or len(set(every)) < len(every):
        raise NetworkError(f"an order or a sum has two variables at least, by name, each once; got {names!r:.60}")
    return told


def _checked(rule: Combination, domain: Domain) -> Combination:
    """A rule's variables but those of which it names every level, which do not matter."""
    found = {name: sorted(set(codes(domain, name, levels))) for name, levels in rule.items()}
    made = {
        name: tuple(domain.levels(name)[code] for code in some)
        for name, some in found.items()
        if len(some) < domain.sizes[name]
    }
    if len(made) < 2 or not all(made.values()):
        raise NetworkError(
            f"a rule combines levels of two variables at least, and not all of them: {Rules([rule])!r}. Leave a level "
            "that cannot be out of the domain"
        )
    return FrozenMap(made)


def _items(mapping: object) -> Iterable[tuple[str, Any]]:
    if not isinstance(mapping, Mapping) or not all(isinstance(name, str) for name in mapping):
        raise NetworkError(
            "determines maps a variable to the variables it determines, and each to levels by level: {'district': "
            f"{{'county': {{'d1': 'c1'}}}}}}; got {mapping!r:.60}"
        )
    return mapping.items()


def _levels_by_key(mapping: object, what: str) -> FrozenMap[Any, tuple[Any, ...]]:
    if not isinstance(mapping, Mapping):
        raise NetworkError(f"{what}; got {mapping!r:.60}")
    return FrozenMap(
        (key, tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,))
        for key, value in mapping.items()
    )


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
        holding = Holding(self, self.families)
        return tuple(family for family in self.families if len(holding.places(family)) == 1)

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
