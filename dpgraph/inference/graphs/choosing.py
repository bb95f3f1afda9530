"""Choosing a graph from a release: post-processing, so free, and again as often as one likes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from dpgraph.inference.graphs.constraints import Constraints, Edge, read_constraints
from dpgraph.inference.graphs.growing import grow
from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.inference.graphs.pairs import declared_domain, read_pairs
from dpgraph.privacy.records import joint_release, released_value


def choose_network(
    noisy: Any,
    *,
    max_parents: int | None = None,
    max_cells: int | None = None,
    required: Iterable[Edge] = (),
    forbidden: Iterable[Edge] = (),
    order: Sequence[Any] | None = None,
    target: str | None = None,
    seed: int | None = None,
) -> LearnedNetwork:
    """Chooses a graph and its probabilities from released tables of pairs, at no cost to privacy."""
    together = joint_release(noisy) if isinstance(noisy, list | tuple) else noisy
    value, _ = released_value(together)
    constraints = read_constraints(
        declared_domain(value),
        max_parents=max_parents,
        max_cells=max_cells,
        required=required,
        forbidden=forbidden,
        order=order,
        target=target,
    )
    return choose_within(together, constraints, seed=seed)


def choose_within(noisy: Any, constraints: Constraints, *, seed: int | None = None) -> LearnedNetwork:
    """As ``choose_network``, by constraints that were read."""
    value, provenance = released_value(noisy)
    found = replace(grow(read_pairs(value), constraints), provenance=provenance)
    return LearnedNetwork(found, noisy, "pairs", "as asked")
