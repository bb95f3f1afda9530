"""Mechanisms for counts of a network, or for any tables, refuse any other description, before anything is charged."""

from __future__ import annotations

from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.candidate_tables import AnyTables, OneWays
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Network


def check_network(description: object, mechanism: object) -> None:
    """Refuses any description but a network.

    >>> check_network(Network.of({"rain": ["no", "yes"]}, {}), "MapEstimate")
    """
    if not isinstance(description, Network):
        name = type(mechanism).__name__
        raise ReleaseError(f"{name} takes counts of a network; moments need LaplaceMechanism or GaussianMechanism")


def check_any_tables(description: object, mechanism: object) -> None:
    """Refuses any description but the tables of a domain."""
    if not isinstance(description, AnyTables):
        raise ReleaseError(f"{type(mechanism).__name__} chooses among the tables of a domain (any_tables)")


def check_graph(network: Network, mechanism: object) -> None:
    """Refuses tables without a graph where probabilities of one would be released: nothing would depend on anything."""
    if isinstance(network, Margins):
        raise ReleaseError(
            f"{type(mechanism).__name__} releases probabilities of a graph, and these are tables without one: measure "
            "them with LaplaceMechanism or GaussianMechanism, choose a graph of that release, dg.choose_network(), and "
            "count the rows by it"
        )


def check_one_ways(margins: object) -> None:
    """Refuses margins that are not public margins."""
    if not isinstance(margins, OneWays):
        raise ReleaseError(f"public margins are OneWays; got {type(margins).__name__}")


def check_margins(description: AnyTables, margins: OneWays) -> None:
    """Refuses public margins of other variables, and a single variable."""
    sizes = description.domain.sizes
    if len(sizes) < 2:
        raise ReleaseError("a choice of arcs needs at least two variables")
    if {name: len(shares) for name, shares in margins.weights.items()} != dict(sizes):
        raise ReleaseError("the public margins are not those of the domain's variables")
