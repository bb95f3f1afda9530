"""The mechanisms that ``privacy_cost`` compares, the expected error of each, and which one suits a network."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpgraph.analysis.expected import draw_error
from dpgraph.inference.arguments import check_no_rules
from dpgraph.inference.network.consistency import consistent_variance
from dpgraph.mechanisms.additive.blocks import GRID
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.selection.map_estimate import MapEstimate
from dpgraph.mechanisms.selection.posterior_sample import PosteriorSample
from dpgraph.privacy.accounts import checked_unit
from dpgraph.privacy.checks import Reals, check_choice
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Measurement
from dpgraph.privacy.records import Number, PrivacyUnit, exact, exact_delta
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import MOST_LEVELS

#: The names of the mechanisms that promise pure differential privacy, and all names that ``mechanism_named`` knows.
PURE = {
    "laplace": LaplaceMechanism,
    "fourier": FourierMechanism,
    "posterior-sample": PosteriorSample,
    "map": MapEstimate,
}
MECHANISMS = ("auto", "laplace", "gaussian", "fourier", "posterior-sample", "map")


@dataclass(frozen=True, eq=False)
class Candidate:
    """One mechanism's measurements and cell variances; ``grid`` units make a row, ``usable`` may be recommended."""

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


def ranked(
    network: Network,
    epsilon: Fraction,
    delta: Fraction,
    unit: PrivacyUnit,
    counts: Mapping[Family, Reals] | None = None,
) -> list[Candidate]:
    """Mechanisms with a price in closed form, smallest error first; draws need ``counts``, Gaussian noise a delta."""
    check_no_rules(network, "the price of mechanisms", "name one, laplace or gaussian; its event has its noise")
    found = [*_laplace(network, epsilon, unit)]
    if max(network.domain.sizes.values()) <= MOST_LEVELS:
        found += _fourier(network, epsilon, unit)
    if delta > 0:
        found += _gaussian(network, epsilon, delta, unit)
    found += _choices(network, epsilon, unit, counts)
    return sorted(found, key=lambda one: (math.isnan(one.rmse), one.rmse))


def recommended(priced: Sequence[Candidate]) -> Candidate:
    """The first of ranked candidates that may be recommended."""
    return next(candidate for candidate in priced if candidate.usable)


def mechanism_named(
    name: str, network: Network, *, epsilon: Number, delta: Number = 0, unit: PrivacyUnit | None = None
) -> Any:
    """The mechanism of a name, for one budget; ``"auto"`` is the recommendation of ``privacy_cost``.

    >>> from dpgraph.files.networks import read_network
    >>> alarm = read_network("example:alarm")
    >>> type(mechanism_named("auto", alarm, epsilon=1, delta="1e-6")).__name__
    'GaussianMechanism'
    """
    check_choice("mechanism", name, MECHANISMS)
    if name == "auto":
        return recommended(ranked(network, exact(epsilon), exact_delta(delta), checked_unit(unit))).mechanism
    if name == "gaussian":
        return GaussianMechanism(epsilon, delta)
    if exact(delta, "delta", zero=True) > 0:
        raise ReleaseError(f"mechanism {name!r} is pure, delta 0; got delta {delta!r}")
    return PURE[name](epsilon)


def _laplace(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    for label, mechanism in (
        ("Laplace, Zhang et al. 2016 Algorithm 1", LaplaceMechanism(epsilon, tables="families", allocation="uniform")),
        ("Laplace, maximal tables", LaplaceMechanism(epsilon, tables="maximal")),
        ("Laplace, merged tables (default)", LaplaceMechanism(epsilon)),
    ):
        paper = mechanism.tables == "families"
        measured = mechanism.event(network, unit).measurements
        laws = {m.table: m.law for m in measured}
        variances = (
            {m.table: m.law.variance(m.cells) for m in measured}
            if paper
            else consistent_variance(network, laws, unit.n_is_public)
        )
        reach, note = sum(m.sensitivity for m in measured), "clipped tables" if paper else "least squares"
        yield Candidate(label, mechanism, network, measured, variances, reach, note, paper=paper)


def _fourier(network: Network, epsilon: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    binary = max(network.domain.sizes.values()) <= 2
    designs = [("Fourier, exact sensitivity", FourierMechanism(epsilon), "consistent by construction")]
    if binary:
        paper = FourierMechanism(epsilon, sensitivity="paper")
        designs.append(("Fourier, Zhang et al. 2016 Algorithm 2", paper, "before pseudo-records"))
    for label, mechanism, note in designs:
        measured = mechanism.event(network, unit).measurements
        grid = 1 if binary else GRID
        reach = max((m.law.scale for m in measured), default=0.0) * float(epsilon) / grid
        yield Candidate(label, mechanism, network, measured, mechanism.variance(network, unit), reach, note, grid)


def _gaussian(network: Network, epsilon: Fraction, delta: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    mechanism = GaussianMechanism(epsilon, delta)
    measured = mechanism.event(network, unit).measurements
    laws = {m.table: m.law for m in measured}
    reach = math.sqrt(sum(m.movement.l2_squared for m in measured))
    variances = consistent_variance(network, laws, unit.n_is_public)
    note = "least squares; delta above 0"
    yield Candidate("Gaussian, maximal tables", mechanism, network, measured, variances, reach, note)
    if not unit.n_is_public and max(network.domain.sizes.values()) <= MOST_LEVELS:
        residual = GaussianMechanism(epsilon, delta, basis="residual")
        measured, variances = residual.event(network, unit).measurements, residual.variance(network, unit)
        reach = math.sqrt(sum(m.movement.l2_squared for m in measured)) / GRID
        note = "ResidualPlanner; consistent by construction"
        yield Candidate("Gaussian, residual basis", residual, network, measured, variances, reach, note, GRID)


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
            variances = draw_variances(counts, temperature)
            note = "releases probabilities; error at the given n, floor aside"
        reach = temperature * float(epsilon)
        yield Candidate(label, mechanism, network, (), variances, reach, note, usable=False)


def draw_variances(counts: Mapping[Family, Reals], temperature: float) -> dict[Family, float]:
    """The mean squared error of a cell of each family's drawn table; families that share an array share the work."""
    known: dict[int, float] = {}
    for table in counts.values():
        if id(table) not in known:
            known[id(table)] = draw_error(table, temperature)
    return {family: known[id(table)] for family, table in counts.items()}
