"""A table of the theorems of Zhang et al. 2016 at one budget, each bound beside the value it bounds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpgraph.analysis.bounds import corrected_divergence_bound, count_error_bound, divergence_bound, expected_divergence
from dpgraph.analysis.expected import expected_kl
from dpgraph.mechanisms.additive.fourier import FourierMechanism, theorem_3_bound
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.lattice import lattice
from dpgraph.mechanisms.selection.map_estimate import MapEstimate
from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.records import DiscreteLaplace, PrivacyUnit, ReleaseError
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Network

#: The probability with which the bounds that may fail do.
FAILURE = 0.1

#: Cells times rows up to which expected divergences are summed exactly.
MAX_EXACT = 20_000_000


def bounds_and_values(
    network: Network, epsilon: Fraction, unit: PrivacyUnit, counts: Mapping[Family, Reals] | None = None
) -> list[dict[str, Any]]:
    """Every error bound of Zhang et al. 2016 at this budget, beside the exact or expected value it bounds.

    Args:
        network: The DAG over its domain.
        epsilon: The budget.
        unit: Whom to protect.
        counts: Hypothetical family counts; without them the statements that need n are left out.

    Returns:
        A mapping for each statement: its ``bound``, what it bounds (``value``, in ``unit``, and how it was found), and
        their ``ratio``. Bounds that may fail do so with probability at most 0.1. None for tables without a graph,
        which the paper has not.
    """
    if isinstance(network, Margins):
        return []
    rows = [_count_error(network, epsilon, unit), *_divergences(network, epsilon, unit, counts)]
    rows += [*_fourier_distance(network, epsilon, unit), *_map_loss(network, epsilon, unit)]
    columns = ("statement", "bound", "value", "found", "unit", "ratio")
    return [dict(zip(columns, (*row, row[1] / row[2] if row[2] else math.inf), strict=True)) for row in rows]


def _paper_scale(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> float:
    """The scale of Algorithm 1."""
    paper = LaplaceMechanism(epsilon, tables="families", allocation="uniform")
    return paper.event(network, unit).measurements[0].law.scale


def _count_error(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> tuple[Any, ...]:
    found = count_error_bound(network.cell_count, _paper_scale(network, epsilon, unit), FAILURE)
    return "Proposition 1: any count is off by at most", found.union, float(found.exact), "exact", "rows"


def _divergences(
    network: Network, epsilon: Fraction, unit: PrivacyUnit, counts: Mapping[Family, Reals] | None
) -> Iterator[tuple[Any, ...]]:
    """Theorem 1 as printed and as it can be proved, beside the expectation under a Dirichlet(2) prior."""
    if counts is None:
        return
    scale, n = _paper_scale(network, epsilon, unit), round(float(next(iter(counts.values())).sum()))
    prior = 2.0
    if network.cell_count * n <= MAX_EXACT:
        found, value = "exact", sum(_exact_divergence(counts[f], scale, n, prior) for f in network.families)
    else:
        spread = math.sqrt(DiscreteLaplace(scale).variance(1))
        found, value = "normal noise", sum(expected_kl(counts[f], spread, prior) for f in network.families)
    for name, theorem in (("as printed", divergence_bound), ("corrected", corrected_divergence_bound)):
        bound = theorem(network, scale, n, FAILURE, prior)
        yield f"Theorem 1, {name}: mean divergence of the posterior", bound.expectation, value, found, "nats"


def _exact_divergence(counts: Reals, scale: float, n: int, prior: float) -> float:
    """The expected divergence of all rows of one table, at hypothetical counts rounded to whole ones."""
    rows, many = np.unique(np.rint(counts.reshape(len(counts), -1).T).astype(np.int64), axis=0, return_counts=True)
    return sum(int(times) * expected_divergence(row, scale, n, prior) for row, times in zip(rows, many, strict=True))


def _fourier_distance(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[tuple[Any, ...]]:
    """Theorem 3 for the family where it is largest, without pseudo-records, beside the mean under normal noise."""
    if max(network.domain.sizes.values()) > 2 or not unit.n_is_public:
        return
    bound = theorem_3_bound(network, epsilon, FAILURE, 0.0)
    worst = max(bound, key=bound.__getitem__)
    family = network.family(worst)
    variance = FourierMechanism(epsilon, sensitivity="paper").variance(network, unit)[family]
    value = network.cells(family) * math.sqrt(2 * variance / math.pi)
    yield f"Theorem 3: the table of {worst!r} moves in L1 by at most", bound[worst], value, "mean, normal noise", "rows"


def _map_loss(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[tuple[Any, ...]]:
    """Lemma 4 on the grid, beside T times a Gamma quantile: what a normal log posterior loses."""
    from scipy.special import gammaincinv

    mechanism = MapEstimate(epsilon, selector="exponential")
    try:
        temperature = mechanism.temperature(network, unit)
    except ReleaseError:  # the floor leaves a variable of many levels no room
        return
    rows = [(network.domain.sizes[family[0]], network.cells(family[1:])) for family in network.families]
    free = sum((levels - 1) * many for levels, many in rows)
    log_candidates = sum(
        many * _log_candidates(levels, lattice(levels, mechanism.grid, mechanism.floor, mechanism.law).steps)
        for levels, many in rows
    )
    bound = temperature * (log_candidates - math.log(FAILURE))
    value = temperature * float(gammaincinv(free / 2, 1 - FAILURE))
    yield "Lemma 4: log posterior lost by the MAP estimate", bound, value, "large n", "nats"


def _log_candidates(levels: int, steps: int) -> float:
    """ln of the number of ways to share steps among levels."""
    return math.log(math.comb(steps + levels - 1, levels - 1))
