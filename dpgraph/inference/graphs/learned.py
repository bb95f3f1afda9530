"""A network that was learned: the graph, its probabilities, and the release that both were read from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpgraph.structure.network import Network
from dpgraph.structure.tables import Probabilities

if TYPE_CHECKING:
    import networkx as nx


@dataclass(frozen=True, eq=False)
class LearnedNetwork:
    """A graph chosen from a release, with all that the choice was made of.

    Attributes:
        probabilities: The tables of the chosen network: see ``dg.sample_rows``, ``dg.query``, ``dg.to_pgmpy``.
        release: Every noisy table, as released: what the posterior reads.
        method: How the graph was chosen.
        reason: Why by that method.
    """

    probabilities: Probabilities
    release: Any
    method: str
    reason: str

    @property
    def network(self) -> Network:
        """The chosen graph over its domain."""
        return self.probabilities.network

    def to_networkx(self) -> nx.DiGraph:
        """The graph as an ``nx.DiGraph``."""
        return self.network.to_networkx()

    def __repr__(self) -> str:
        arcs = sum(len(parents) for parents in self.network.parents.values())
        return f"LearnedNetwork({len(self.network.domain.names)} variables, {arcs} arcs, method={self.method!r})"
