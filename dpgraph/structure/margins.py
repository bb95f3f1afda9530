"""Tables that are measured before there is a graph: all pairs of a domain, or any other sets of its variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Literal, get_args

from dpgraph.privacy.checks import is_whole
from dpgraph.structure.domain import Domain, Level, NetworkError, Variable
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network

Beyond = Literal["refuse", "leave-out"]

#: The most cells of a pair of ``all_pairs``, unless it is said; a table of more holds almost only noise.
MAX_PAIR_CELLS = 100_000


@dataclass(frozen=True)
class Margins(Network):
    """The tables over some sets of variables, to be measured: a network without arcs whose families are these tables.

    Counting, mechanisms, files and least squares take it where they take a network; what is learned from its release
    needs a graph, which ``choose_network`` finds.

    Attributes:
        tables: The variables of each table; every variable of the domain is in one of them.

    >>> margins = Margins.of_tables({name: [0, 1] for name in "abc"}, [("a", "b"), ("b", "c")])
    >>> margins.families, margins.maximal_families
    ((('a', 'b'), ('b', 'c')), (('a', 'b'), ('b', 'c')))
    """

    tables: tuple[Family, ...] = ()

    @classmethod
    def of_tables(
        cls, domain: Domain | Mapping[str, Variable | Iterable[Level]], tables: Iterable[Iterable[str]]
    ) -> Margins:
        """The tables over these sets of variables.

        Raises:
            NetworkError: If there are none, a variable is unknown, twice in a table or in none, a table is there twice,
                or would be absurdly large.
        """
        domain = Domain.of(domain)
        return cls(domain, FrozenMap((name, ()) for name in domain.names), tuple(tuple(table) for table in tables))

    def __post_init__(self) -> None:
        if any(self.parents.values()):
            raise NetworkError("margins have no arcs; a graph is a Network")
        for table in self.tables:
            if not table or len(set(table)) < len(table):
                raise NetworkError(f"a table is over some variables, each once; got {table!r}")
            for name in table:
                self.domain[name]
        if len({frozenset(table) for table in self.tables}) < len(self.tables):
            raise NetworkError("a table is there twice")
        if missing := sorted(set(self.domain.names) - {name for table in self.tables for name in table}):
            raise NetworkError(f"no table holds {', '.join(missing)}; give each variable one")
        super().__post_init__()

    @cached_property
    def families(self) -> tuple[Family, ...]:
        """The tables."""
        return self.tables

    def __repr__(self) -> str:
        return f"Margins({len(self.domain.names)} variables, {len(self.tables)} tables, {self.cell_count} cells)"


def all_pairs(
    domain: Domain | Mapping[str, Variable | Iterable[Level]],
    *,
    max_cells: int = MAX_PAIR_CELLS,
    beyond: Beyond = "refuse",
) -> Margins:
    """The tables of every pair of variables: what ``count`` and ``release`` measure before a graph is chosen.

    Args:
        domain: The declared variables, two at least.
        max_cells: The most cells of a pair.
        beyond: What happens to a pair of more: ``"refuse"``, or ``"leave-out"``; a variable that is then in no pair is
            measured by itself.

    Returns:
        A public description. The price of measuring it, ``dg.privacy_cost(dg.all_pairs(domain), ...)``, needs no data.

    Raises:
        NetworkError: If there are fewer than two variables, or a pair has more than ``max_cells`` cells, naming it.

    >>> all_pairs({"a": [0, 1], "b": [0, 1], "c": [0, 1, 2]})
    Margins(3 variables, 3 tables, 16 cells)
    """
    domain = Domain.of(domain)
    if not is_whole(max_cells) or max_cells < 1:
        raise NetworkError(f"max_cells is a whole number above 0; got {max_cells!r:.60}")
    if beyond not in get_args(Beyond):
        raise NetworkError(f"beyond must be 'refuse' or 'leave-out'; got {beyond!r:.60}")
    if len(domain.names) < 2:
        raise NetworkError("a graph needs two variables at least; the domain declares one")
    sizes = domain.sizes
    kept: list[Family] = []
    for one, other in combinations(domain.names, 2):
        cells = sizes[one] * sizes[other]
        if cells <= max_cells:
            kept.append((one, other))
        elif beyond == "refuse":
            raise NetworkError(
                f"the pair {one!r} and {other!r} has {cells:,} cells, more than max_cells={max_cells:,}: declare "
                "coarser levels, raise max_cells, or leave such pairs out, beyond='leave-out'"
            )
    held = {name for pair in kept for name in pair}
    return Margins.of_tables(domain, [*kept, *((name,) for name in domain.names if name not in held)])
