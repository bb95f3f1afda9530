"""The mechanisms that ``privacy_cost`` compares, each with the error of every family table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpgraph.analysis.expected import draw_error
from dpgraph.inference.network.consistency import consistent_variance
from dpgraph.mechanisms.additive.blocks import GRID
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.additive.sensitivity import block_l2_squared, l1_sensitivity, l2_squared
from dpgraph.mechanisms.selection.map_estimate import MapEstimate
from dpgraph.mechanisms.selection.posterior_sample import PosteriorSample
from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.records import Measurement, PrivacyUnit, ReleaseError
from dpgraph.structure.basis import MOST_LEVELS
from dpgraph.structure.network import Family, Network


@dataclass(frozen=True, eq=False)
class Candidate:
    """One mechanism on one network: what it measures and the noise variance of a cell of each family.

    ``grid`` is how many units of the released integers make one row, for fixed-point statistics. ``usable`` says
    whether the mechanism may be recommended, and ``paper`` marks the one the others are compared with.
    """

    label: str
    mechanism: Any
    network: Network
    measured: tuple[Measurement, ...]
    variances: dict[Family, float]
    sensitivity: float
    note: str = ""
    grid: int = 1
    usable: bool = True
    paper: bool = False

    @cached_property
    def rmse(self) -> float:
        """Root mean squared error over the cells of all families, in rows."""
        total = sum(self.variances[family] * self.network.cells(family) for family in self.network.families)
        return math.sqrt(total / self.network.cell_count)


def candidates(
    network: Network, epsilon: Fraction, delta: Fraction, unit: PrivacyUnit, counts: Mapping[Family, Reals] | None
) -> Iterator[Candidate]:
    """Every mechanism that can be priced in closed form under this budget.

    Args:
        network: The DAG over its domain.
        epsilon: The budget.
        delta: Above 0, Gaussian mechanisms too.
        unit: Whom to protect.
        counts: Hypothetical family counts, on which the error of posterior draws depends; without them it is NaN.
    """
    yield from _laplace(network, epsilon, unit)
    if max(network.domain.sizes.values()) <= MOST_LEVELS:
        yield from _fourier(network, epsilon, unit)
    if delta > 0:
        yield from _gaussian(network, epsilon, delta, unit)
    yield from _choices(network, epsilon, unit, counts)


def _laplace(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    paper = LaplaceMechanism(epsilon, tables="families", allocation="uniform")
    measured = paper.event(network, unit).measurements
    raw = {m.table: m.law.variance(m.cells) for m in measured}
    sensitivity = l1_sensitivity(network, [m.table for m in measured], unit)
    yield Candidate(
        "Laplace, Zhang et al. 2016 Algorithm 1",
        paper,
        network,
        measured,
        raw,
        sensitivity,
        "clipped tables",
        paper=True,
    )
    for label, mechanism in (
        ("Laplace, maximal tables", LaplaceMechanism(epsilon, tables="maximal")),
        ("Laplace, merged tables (default)", LaplaceMechanism(epsilon)),
    ):
        measured = mechanism.event(network, unit).measurements
        laws = {m.table: m.law for m in measured}
        yield Candidate(
            label,
            mechanism,
            network,
            measured,
            consistent_variance(network, laws, unit.n_is_public),
            l1_sensitivity(network, list(laws), unit),
            "least squares",
        )


def _fourier(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    designs = [("Fourier, exact sensitivity", FourierMechanism(epsilon), "consistent by construction")]
    if max(network.domain.sizes.values()) <= 2:
        paper = FourierMechanism(epsilon, sensitivity="paper")
        designs.append(("Fourier, Zhang et al. 2016 Algorithm 2", paper, "before pseudo-records"))
    for label, mechanism, note in designs:
        measured = mechanism.event(network, unit).measurements
        grid = 1 if max(network.domain.sizes.values()) <= 2 else GRID
        reach = max((m.law.scale for m in measured), default=0.0) * float(epsilon) / grid
        yield Candidate(label, mechanism, network, measured, mechanism.variance(network, unit), reach, note, grid)


def _gaussian(network: Network, epsilon: Fraction, delta: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    mechanism = GaussianMechanism(epsilon, delta)
    measured = mechanism.event(network, unit).measurements
    laws = {m.table: m.law for m in measured}
    reach = math.sqrt(l2_squared(network, list(laws), unit))
    variances = consistent_variance(network, laws, unit.n_is_public)
    yield Candidate(
        "Gaussian, maximal tables", mechanism, network, measured, variances, reach, "least squares; delta above 0"
    )
    if not unit.n_is_public and max(network.domain.sizes.values()) <= MOST_LEVELS:
        residual = GaussianMechanism(epsilon, delta, basis="residual")
        measured = residual.event(network, unit).measurements
        reach = math.sqrt(sum(block_l2_squared(network, m.table, GRID, unit) for m in measured)) / GRID
        note = "ResidualPlanner; consistent by construction"
        yield Candidate(
            "Gaussian, residual basis", residual, network, measured, residual.variance(network, unit), reach, note, GRID
        )


def _choices(
    network: Network, epsilon: Fraction, unit: PrivacyUnit, counts: Mapping[Family, Reals] | None
) -> Iterator[Candidate]:
    """Mechanisms that choose tables instead of adding noise; not recommended, as nothing else can be learned."""
    for label, mechanism in (
        ("Posterior sample, one draw", PosteriorSample(epsilon)),
        ("MAP by the exponential mechanism", MapEstimate(epsilon, selector="exponential")),
    ):
        try:
            temperature = mechanism.temperature(network, unit)
        except ReleaseError:  # the floor leaves a variable of many levels no room
            continue
        if counts is None:
            variances, note = dict.fromkeys(network.families, math.nan), "its error depends on the rows: give n"
        else:
            variances = {family: draw_error(counts[family], temperature) for family in network.families}
            note = "releases probabilities; error at the given n, floor aside"
        reach = temperature * float(epsilon)
        yield Candidate(label, mechanism, network, (), variances, reach, note, usable=False)
