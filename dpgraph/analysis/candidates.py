"""The mechanisms that a report compares, each with the exact error of every family it promises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpgraph.inference.consistency import consistent_variance
from dpgraph.mechanisms.laplace import LaplaceMechanism
from dpgraph.mechanisms.sensitivity import l1_sensitivity
from dpgraph.privacy.records import Measurement, PrivacyUnit
from dpgraph.structure.network import Family, Network


@dataclass(frozen=True, eq=False)
class Candidate:
    """One mechanism on one network: what it would measure and the noise variance of a cell of each family.

    ``usable`` says whether it may be recommended; ``paper`` marks the one the others are compared with.
    """

    label: str
    mechanism: Any
    network: Network
    measured: tuple[Measurement, ...]
    variances: dict[Family, float]
    sensitivity: float
    note: str = ""
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
