"""Mechanisms for counts of a network, or for any tables, refuse any other description, before anything is charged."""

from __future__ import annotations

from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Network


def check_network(description: object, mechanism: object) -> None:
    """Refuses any description but a network."""
    if not isinstance(description, Network):
        name = type(mechanism).__name__
        raise ReleaseError(f"{name} takes counts of a network; moments need LaplaceMechanism or GaussianMechanism")


def check_graph(network: Network, mechanism: object) -> None:
    """Refuses tables without a graph where probabilities of one would be released: nothing would depend on anything."""
    if isinstance(network, Margins):
        raise ReleaseError(
            f"{type(mechanism).__name__} releases probabilities of a graph, and these are tables without one: measure "
            "them with LaplaceMechanism or GaussianMechanism, choose a graph of that release, dg.choose_network(), and "
            "count the rows by it"
        )
