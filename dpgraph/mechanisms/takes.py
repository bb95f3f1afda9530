"""Mechanisms for counts of a network refuse any other description, before anything is charged."""

from __future__ import annotations

from dpgraph.privacy.records import ReleaseError
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
