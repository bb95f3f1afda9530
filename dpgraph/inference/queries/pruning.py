"""What of a network a question depends on: the ancestors of target and evidence, cut apart where evidence separates.

Variables without observed or asked descendants sum to 1 and are left out (barren). An observed variable is fixed in
every table, so it joins nothing; the tables that are left fall into parts that share no unobserved variable, and only
the parts that hold a target decide the conditional probability. The others say how probable the evidence is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dpgraph.inference.queries.question import Evidence
from dpgraph.structure.network import Family, Network


@dataclass(frozen=True)
class Part:
    """Tables that hang together.

    Attributes:
        families: The variables whose conditional tables they are.
        free: The unobserved variables among their axes, targets too.
        targets: The targets among those.
    """

    families: Family
    free: Family
    targets: Family


def parts_of(network: Network, targets: Family, evidence: Evidence) -> tuple[Part, ...]:
    """The parts of a question, those with a target first; fully observed tables are parts of their own.

    Args:
        network: The DAG over its domain.
        targets: The variables asked about.
        evidence: What is observed or set; a variable set from outside has no table.
    """
    needed = ancestors(network, [*targets, *evidence.levels, *evidence.weights], evidence.do)
    fixed = {*evidence.levels, *evidence.do}
    above: dict[str, str] = {}

    def root(name: str) -> str:
        while above.setdefault(name, name) != name:
            above[name] = name = above[above[name]]
        return name

    tables = [name for name in network.order if name in needed and name not in evidence.do]
    free = {table: [name for name in network.family(table) if name not in fixed] for table in tables}
    for names in free.values():
        for other in names[1:]:
            above[root(other)] = root(names[0])
    groups: dict[str | tuple[str], list[str]] = {}
    for table, names in free.items():
        groups.setdefault(root(names[0]) if names else (table,), []).append(table)
    parts = [_part(mine, free, targets) for mine in groups.values()]
    return tuple(sorted(parts, key=lambda part: not part.targets))


def ancestors(network: Network, names: Iterable[str], cut: Iterable[str] = ()) -> frozenset[str]:
    """Some variables and all that is above them, where the arcs into ``cut`` are gone."""
    without = set(cut)
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += () if name in without else network.parents[name]
    return frozenset(found)


def _part(tables: list[str], free: dict[str, list[str]], targets: Family) -> Part:
    names = dict.fromkeys(name for table in tables for name in free[table])
    return Part(tuple(tables), tuple(names), tuple(name for name in targets if name in names))
