"""The mechanisms that a report compares, each with the exact error of every family it promises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpgraph.inference.consistency import consistent_variance
from dpgraph.mechanisms.allocation import residual_design
from dpgraph.mechanisms.fourier import GRID, FourierMechanism
from dpgraph.mechanisms.gaussian import GaussianMechanism
from dpgraph.mechanisms.laplace import LaplaceMechanism
from dpgraph.mechanisms.sensitivity import l1_sensitivity, l2_squared
from dpgraph.privacy.records import Measurement, PrivacyUnit, exact
from dpgraph.structure.basis import cell_variance
from dpgraph.structure.network import Family, Network


@dataclass(frozen=True, eq=False)
class Candidate:
    """One mechanism on one network: what it would measure and the noise variance of a cell of each family.

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
    network: Network, epsilon: Fraction, delta: Fraction, unit: PrivacyUnit, n: int | None
) -> Iterator[Candidate]:
    """Every mechanism that can be priced in closed form under this budget."""
    yield from _laplace(network, epsilon, unit)
    yield from _fourier(network, epsilon, unit)
    if delta > 0:
        yield from _gaussian(network, epsilon, delta, unit)


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
        reach = max(m.law.scale for m in measured) * float(epsilon) / grid
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
    if unit == PrivacyUnit("add-remove"):
        design = residual_design(network, exact(mechanism.rho or 0, "rho")).variances
        every = {block: design.get(block, 0.0) for block in network.downward_closure()}
        bound = {family: cell_variance(network, every, family) for family in network.families}
        yield Candidate(
            "Gaussian, residual basis (lower bound)",
            None,
            network,
            (),
            bound,
            math.nan,
            "ResidualPlanner",
            usable=False,
        )
