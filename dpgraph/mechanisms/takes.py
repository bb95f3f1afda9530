"""Mechanisms for counts of a network, or for any tables, refuse any other description, before anything is charged."""

from __future__ import annotations

from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.any_tables import AnyTables, OneWays
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Network


def check_network(description: object, mechanism: object) -> None:
    """Refuses what is no network.

    Raises:
        ReleaseError: Naming the mechanism.

    >>> check_network(Network.of({"rain": ["no", "yes"]}, {}), "MapEstimate")
    """
    if not isinstance(description, Network):
        name = type(mechanism).__name__
        raise ReleaseError(f"{name} takes counts of a network; moments need LaplaceMechanism or GaussianMechanism")


def check_any_tables(description: object, mechanism: object) -> None:
    """Refuses what is not any table of a domain.

    Raises:
        ReleaseError: Naming the mechanism.
    """
    if not isinstance(description, AnyTables):
        raise ReleaseError(f"{type(mechanism).__name__} chooses among dg.statistics.any_tables(rows, domain)")


def check_families(network: Network, mechanism: object) -> None:
    """Refuses tables that do not hold every family of their network, as those of ``Margins`` may not.

    Raises:
        ReleaseError: Naming a variable without a table.
    """
    tables = [frozenset(table) for table in network.maximal_families]
    for name in network.domain.names if isinstance(network, Margins) else ():
        if not any(name in table for table in tables):
            raise ReleaseError(f"{type(mechanism).__name__} needs a table of every variable; {name!r} is in none")


def check_one_ways(margins: object) -> None:
    """Refuses what is no public margins.

    Raises:
        ReleaseError: If it is none.
    """
    if not isinstance(margins, OneWays):
        raise ReleaseError(f"public margins are OneWays; got {type(margins).__name__}")


def check_margins(description: AnyTables, margins: OneWays) -> None:
    """Refuses public margins of other variables, and a single variable.

    Raises:
        ReleaseError: If there are no two variables, or the margins do not have their levels.
    """
    sizes = description.domain.sizes
    if len(sizes) < 2:
        raise ReleaseError("a choice of arcs needs at least two variables")
    if {name: len(shares) for name, shares in margins.weights.items()} != dict(sizes):
        raise ReleaseError("the public margins are not those of the domain's variables")
