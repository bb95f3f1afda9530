"""Choosing a graph from a release: post-processing, so free, and again as often as one likes."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from dpgraph import memory
from dpgraph.inference.graphs.constraints import Constraints, Limits, constraints_within
from dpgraph.inference.graphs.factors import FEWEST
from dpgraph.inference.graphs.joint import LARGEST, QUICK_STEPS, Joint, fitted_joint, is_small, read_network
from dpgraph.inference.graphs.learned import FEW, LearnedNetwork
from dpgraph.inference.graphs.pair_estimates import Pairs, declared_domain, read_pairs
from dpgraph.inference.graphs.reading import grow, smoothed
from dpgraph.inference.graphs.refitting import refitted_posterior
from dpgraph.inference.network.evidence import single_releases
from dpgraph.inference.posterior import posterior
from dpgraph.inference.queries.tables import drawn_tables
from dpgraph.privacy.errors import InferenceError, PriorWarning
from dpgraph.privacy.records import joint_release, released_value
from dpgraph.structure.domain import Domain
from dpgraph.structure.joint import JointCounts
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities
from dpgraph.waiting import waiting

#: Bytes that a choice takes, as measured: for each cell of a pair or of a joint, each pair, each cell of a family.
BYTES_PER_CELL, BYTES_PER_PAIR, BYTES_PER_FAMILY_CELL = 80, 1250, 16

#: The most cells of a joint that is fitted again for each draw, for the time that takes.
MOST_REFITTED = 4096


def choose_network(noisy: Any, *, constraints: Constraints | None = None, progress: bool = False) -> LearnedNetwork:
    """Chooses a graph and its probabilities from released tables of pairs: free, and as often as one likes.

    Where the joint of all variables is small (``joint.MOST_CELLS``), the maximum-entropy joint that fits the measured
    tables is written down, and parents are chosen greedily by conditional mutual information in it. Otherwise the graph
    grows one family at a time, parents inside an earlier family, each fitted to the shrunk pairs, which borrow from
    each other through few common factors. Interactions within their noise count for nothing: where all are, the graph
    is empty.

    Args:
        noisy: A release of noisy counts or coefficients, such as that of ``count(rows, all_pairs(domain))``, its value,
            or a list of releases of the same rows.
        constraints: The allowed graphs, ``dg.Constraints(max_parents=2, ...)``; None for any.
        progress: A bar on a terminal.

    Returns:
        A ``LearnedNetwork``.

    Raises:
        InferenceError: If the release is of no tables of a network.
        NetworkError: If a constraint is malformed, names an unknown variable, or contradicts another.

    Warns:
        PriorWarning: If nothing stands out of the noise, so that the graph has no edge that was not required.

    >>> from dpgraph.privacy.measurements import DiscreteLaplace
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> from dpgraph.structure.margins import all_pairs
    >>> pair = all_pairs({"rain": ["no", "yes"], "wet": ["no", "yes"]})
    >>> law = {("rain", "wet"): DiscreteLaplace(2.0)}
    >>> learned = choose_network(NoisyCounts(pair, {("rain", "wet"): [[60, 5], [3, 32]]}, law, 100))
    >>> learned, sum(map(len, learned.network.parents.values()))
    (LearnedNetwork(2 variables, 1 arcs, method='pairs'), 1)
    """
    together = joint_release(noisy) if isinstance(noisy, list | tuple) else noisy
    value, _ = released_value(together)
    limits = constraints_within(constraints, declared_domain(value))
    with waiting("choosing a graph", progress):
        return choose_within(together, limits)


def domain_of(model: Any) -> Domain:
    """The domain of what ``learned_from`` makes of a model, before anything is chosen or drawn."""
    value, _ = released_value(model)
    if isinstance(value, NoisyCounts | NoisyCoefficients | JointCounts):
        return declared_domain(value).complete
    if isinstance(value, LearnedNetwork):
        return value.network.domain.complete
    network = getattr(value, "network", None)
    return (network if isinstance(network, Network) else drawn_tables(model).network).domain


def pairs_that_hold(model: Any, names: Family) -> Pairs | None:
    """What a release says of each pair of some variables; None if it lacks one, or has a graph of its own.

    Pairs count unobserved values, so of variables that have some they say nothing by themselves.
    """
    value = released_value(model.release if isinstance(model, LearnedNetwork) else model)[0]
    if not isinstance(value, NoisyCounts | NoisyCoefficients | JointCounts):
        return None
    if not isinstance(model, LearnedNetwork) and not isinstance(single_releases(value)[0].network, Margins):
        return None
    if not set(names).isdisjoint(declared_domain(value).holes):
        return None
    pairs = read_pairs(value)
    ordered = sorted(names, key=pairs.domain.names.index)
    return (
        pairs
        if pairs.residuals.keys() >= {block for size in range(3) for block in combinations(ordered, size)}
        else None
    )


def learned_from(model: Any, constraints: Constraints | None = None) -> Any:
    """What a release says, for models and questions: a posterior, or of tables without a graph a learned network.

    Anything else is returned as it is.

    Raises:
        InferenceError: If the release is of something else than counts of a network or of pairs, or has a graph and
            constraints are given.
    """
    value, _ = released_value(model)
    tables = isinstance(value, NoisyCounts | NoisyCoefficients | JointCounts)
    if tables and isinstance(single_releases(value)[0].network, Margins):
        return choose_network(model, constraints=constraints)
    if constraints is not None:
        raise InferenceError("only a release of pairs has its graph chosen, so only there an order is of use")
    return posterior(model, draws=FEW, seed=0) if tables else model


def choose_within(noisy: Any, constraints: Limits) -> LearnedNetwork:
    """As ``choose_network``, by constraints that were read."""
    value, provenance = released_value(noisy)
    check_choosing(constraints)
    small = is_small(declared_domain(value))
    pairs = read_pairs(value, LARGEST if small else 2, borrows(constraints.domain))
    found = replace(_chosen(pairs, constraints, small), provenance=provenance)
    edges = {(parent, name) for name, parents in found.network.parents.items() for parent in parents}
    if edges <= constraints.required and constraints.max_parents != 0:
        warnings.warn(
            "no pair stands out of its noise: the graph has no edge beyond those required, and variables are else "
            "independent. Spend more epsilon, or declare fewer or coarser variables",
            PriorWarning,
            stacklevel=2,
        )
    again, refit = partial(_again, pairs, constraints, small), None
    if not small or math.prod(pairs.domain.sizes.values()) <= MOST_REFITTED:
        refit = partial(refitted_posterior, pairs, small)
    return LearnedNetwork(found, noisy, "pairs", "a release of pairs", again, refit, constraints)


def borrows(domain: Domain) -> bool:
    """True where pairs borrow from each other through common factors: no joint of all variables does as much."""
    return len(domain.names) >= FEWEST and not is_small(domain)


def check_choosing(constraints: Limits) -> None:
    """Refuses by an InferenceError a choice of a graph that memory does not hold; a spender asks this first."""
    needed = choosing_bytes(constraints)
    memory.check(needed, "choosing a graph", "declare fewer or coarser variables, or a lower max_cells", InferenceError)


def choosing_bytes(constraints: Limits) -> int:
    """About how much memory the choice of a graph takes at most, from the domain and the constraints."""
    sizes = list(constraints.domain.sizes.values())
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) // 2
    pairs = cells * BYTES_PER_CELL + math.comb(len(sizes), 2) * BYTES_PER_PAIR
    if is_small(constraints.domain):
        return pairs + math.prod(sizes) * BYTES_PER_CELL
    return pairs + sum(constraints.most_cells.values()) * BYTES_PER_FAMILY_CELL


def _chosen(pairs: Pairs, constraints: Limits, small: bool, steps: int | None = None) -> Probabilities:
    """The probabilities of the network that some pairs choose; ``small`` where their joint is written down."""
    if small:
        joint = Joint(pairs.domain.names, fitted_joint(pairs, steps))
        return smoothed(pairs, *read_network(joint, pairs, constraints))
    return smoothed(pairs, *grow(pairs, constraints))


def _again(pairs: Pairs, constraints: Limits, small: bool, rng: np.random.Generator) -> Network:
    """The network that a draw of the pairs chooses."""
    return _chosen(pairs.redrawn(rng), constraints, small, QUICK_STEPS).network
