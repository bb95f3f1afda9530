"""Counts and sums of disjoint groups of rows, made in one pass where the rows lie, for ``Budget.parallel``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from dpgraph import memory
from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.counts import Counts, Families
from dpgraph.statistics.moments import Moments
from dpgraph.statistics.regression import Products, group_of_design
from dpgraph.statistics.rows.codes import Codes
from dpgraph.statistics.rows.groups import group_of
from dpgraph.statistics.rows.persons import PersonCap, cap_of
from dpgraph.statistics.summary import summarise_groups
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.domain import Domain, DomainError, NetworkError
from dpgraph.structure.merging import measured_families
from dpgraph.structure.network import Network

#: The most groups at once: each has tables of its own.
MOST_GROUPS = 4096
#: How often the tables of all groups are held while they are summed: by the threads that count, and in all.
COPIES = 4


def count_groups(
    rows: Any,
    network: Network,
    by: str | Sequence[str],
    *,
    domain: Domain | None = None,
    person: str | PersonCap | None = None,
    rows_per_person: int = 1,
    engine: Any = None,
    progress: bool = False,
) -> dict[Any, Counts]:
    """Counts every family in each group of rows, in one pass, for the budgets of ``Budget.parallel``.

    What ``count(rows, network, where={by: level})`` counts, for all levels at once. Where persons have several rows,
    these are capped once, of all rows, before the groups are counted: in memory, in files, and on a cluster, whose rows
    are never brought here.

    Args:
        rows: As ``count`` takes them, but for ``Codes``, of which ``count(codes, network, where=...)`` counts a group.
        network: The DAG over its declared domain.
        by: A variable, or several, whose levels are the groups.
        domain: Declares variables of ``by`` that are none of the network's.
        person: As for ``count``.
        rows_per_person: How many rows of one person count, in all groups together.
        engine: As for ``count``.
        progress: As for ``count``.

    Returns:
        For each level of ``by``, or each tuple of levels where ``by`` is several, the counts of its rows; sensitive.

    Raises:
        NetworkError: If ``network`` is none.
        DomainError: As ``count``; if ``by`` is not declared, there are more than 4096 groups, or there is no room for
            their tables (``DPGRAPH_MEMORY``).

    >>> import pandas as pd
    >>> network = Network.of({"wet": ["no", "yes"]}, {})
    >>> rows = pd.DataFrame({"wet": ["no", "yes"], "region": ["N", "S"], "who": [1, 1]})
    >>> count_groups(rows, network, "region", domain=Domain.of({"region": ["N", "S"]}), person="who")
    {'N': Counts(1 variables, sensitive), 'S': Counts(1 variables, sensitive)}
    """
    if not isinstance(network, Network):
        raise NetworkError(f"count_groups takes rows, then the Network; got {type(network).__name__} for the network")
    if isinstance(rows, Codes):
        raise DomainError("codes are counted group by group, dg.count(codes, network, where=...)")
    wide = _wide(network.domain, _names(by), domain)
    groups = _levels(wide, by, lambda where: group_of(where, wide, "declare it by domain=..."))
    what = f"counts of {len(groups)} groups"
    memory.check(groups_bytes(network, len(groups)), what, "count fewer groups at once", DomainError)
    cap = cap_of(person, rows_per_person)
    return summarise_groups(rows, Families(network), groups, cap=cap, engine=engine, progress=progress)


def groups_bytes(network: Network, groups: int) -> int:
    """About how many bytes the counts of so many groups take while they are made, from public sizes alone."""
    return COPIES * 8 * groups * sum(network.cells(family) for family in measured_families(network))


def regression_groups(
    rows: Any,
    design: LinearDesign,
    by: str | Sequence[str],
    *,
    domain: Domain | None = None,
    person: str | PersonCap | None = None,
    rows_per_person: int = 1,
    engine: Any = None,
    progress: bool = False,
) -> dict[Any, Moments]:
    """Sums the products of a design's columns in each group of rows, in one pass, as ``count_groups`` counts.

    Args:
        rows: As ``regression_moments`` takes them, but for a pair of arrays.
        design: The features, the target and their public bounds.
        by: A feature with levels or a variable of ``domain``, or several, whose levels are the groups.
        domain: Declares variables of ``by`` that are no features.
        person: As for ``regression_moments``.
        rows_per_person: How many rows of one person count, in all groups together.
        engine: As for ``count``.
        progress: As for ``count``.

    Returns:
        For each level of ``by``, or each tuple of levels where ``by`` is several, the moments of its rows; sensitive.

    Raises:
        DomainError: As ``regression_moments``; if there are more than 4096 groups, or there is no room for their sums
            (``DPGRAPH_MEMORY``).

    >>> import pandas as pd
    >>> design = LinearDesign({"age": (18, 90)}, "income", (0, 100))
    >>> rows = pd.DataFrame({"age": [20.0, 50.0], "income": [10.0, 20.0], "sex": ["F", "M"]})
    >>> regression_groups(rows, design, "sex", domain=Domain.of({"sex": ["F", "M"]}))["F"]
    Moments(LinearDesign, 5 statistics, sensitive)
    """
    if not isinstance(design, LinearDesign):
        raise DomainError(f"regression_groups takes rows, then a LinearDesign; got {type(design).__name__}")
    if isinstance(rows, tuple | list):
        raise DomainError("a pair of arrays has no column of groups; give a table that has one")
    names = _names(by)
    declared = {name: found for name, found in design.features.items() if name in names}
    declared |= {} if domain is None else {name: domain[name] for name in names if name in domain}
    groups = _levels(declared, by, lambda where: group_of_design(where, design, domain))
    what = f"sums of {len(groups)} groups"
    memory.check(sums_bytes(design, len(groups)), what, "sum fewer groups at once", DomainError)
    cap = cap_of(person, rows_per_person)
    return summarise_groups(rows, Products(design), groups, cap=cap, engine=engine, progress=progress)


def sums_bytes(design: LinearDesign, groups: int) -> int:
    """About how many bytes the sums of so many groups take while they are made."""
    return COPIES * 8 * groups * (len(design.pairs) + 1)


def _names(by: Any) -> tuple[str, ...]:
    """The variables that groups are told by.

    Raises:
        DomainError: If they are no names, or one twice.
    """
    names = (by,) if isinstance(by, str) else tuple(by) if isinstance(by, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise DomainError(f"by must be the name of a variable, or a list of several names; got {by!r}")
    return names


def _wide(declared: Domain, names: tuple[str, ...], domain: Domain | None) -> Domain:
    """A network's domain and the variables that groups are told by.

    Raises:
        DomainError: If one of these is declared nowhere, or in two ways.
    """
    beside: dict[str, Any] = {}
    for name in names:
        known = domain is not None and name in domain
        if name not in declared and not known:
            raise DomainError(f"by names {name!r}, which is not declared; declare it by domain=...")
        if domain is not None and known:
            if name in declared and declared[name] != domain[name]:
                raise DomainError(f"{name!r} is declared otherwise by the network; a group needs one declaration")
            beside[name] = domain[name]
    return Domain.of({**declared.variables, **beside}, strict=declared.strict)


def _levels(declared: Mapping[str, Any] | Domain, by: str | Sequence[str], group: Any) -> dict[Any, RowGroup]:
    """The group of each level, or of each tuple of levels.

    Raises:
        DomainError: If a variable is not declared with levels, or there are too many groups.
    """
    names = _names(by)
    for name in names:
        if name not in declared or not hasattr(declared[name], "levels"):
            raise DomainError(f"by names {name!r}, which is not declared with levels; declare it by domain=...")
    levels = [tuple(declared[name].levels) for name in names]
    many = 1
    for found in levels:
        many *= len(found)
    if many > MOST_GROUPS:
        raise DomainError(f"by makes {many} groups, more than {MOST_GROUPS}")
    made = {chosen: group(dict(zip(names, chosen, strict=True))) for chosen in product(*levels)}
    return {chosen[0]: found for chosen, found in made.items()} if isinstance(by, str) else made
