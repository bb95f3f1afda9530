"""Mechanisms for one network and budget, with their measurements and expected errors: the smallest error first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

from dpgraph.analysis.expected import draw_error, of_each
from dpgraph.inference.arguments import check_no_rules
from dpgraph.inference.network.consistency import consistent_variance
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.additive.plans import GRID
from dpgraph.mechanisms.selection.lattice import MapEstimate, PosteriorSample
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

    @classmethod
    def adding(
        cls, label: str, mechanism: Any, network: Network, unit: PrivacyUnit, note: str = "", *, paper: bool = False
    ) -> Candidate:
        """A mechanism that adds noise to tables or to coefficients; ``paper``: each table is read alone."""
        measured, grid = mechanism.event(network, unit).measurements, 1
        if isinstance(mechanism, FourierMechanism) or getattr(mechanism, "basis", "tables") == "residual":
            walsh = isinstance(mechanism, FourierMechanism) and max(network.domain.sizes.values()) <= 2
            variances, grid = mechanism.variance(network, unit), 1 if walsh else GRID
        elif paper:
            variances = {m.table: m.law.variance(m.cells) for m in measured}
        else:
            variances = consistent_variance(network, {m.table: m.law for m in measured}, unit.n_is_public)
        match mechanism:
            case GaussianMechanism():
                reach = math.sqrt(sum(m.movement.l2_squared for m in measured)) / grid
            case FourierMechanism():
                reach = max((m.law.scale for m in measured), default=0.0) * float(mechanism.epsilon) / grid
            case _:
                reach = sum(m.sensitivity for m in measured)
        return cls(label, mechanism, network, measured, variances, reach, note, grid, paper=paper)

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
    found = [*_adding(network, epsilon, delta, unit), *_choices(network, epsilon, unit, counts)]
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


def _adding(network: Network, epsilon: Fraction, delta: Fraction, unit: PrivacyUnit) -> Iterator[Candidate]:
    """Mechanisms that add noise to tables, or to coefficients, which a variable of very many levels has not."""
    levels = max(network.domain.sizes.values())
    paper = LaplaceMechanism(epsilon, tables="families", allocation="uniform")
    yield Candidate.adding("Laplace, Zhang et al. 2016 Algorithm 1", paper, network, unit, "clipped tables", paper=True)
    offers: list[tuple[str, Any, str]] = [
        ("Laplace, maximal tables", LaplaceMechanism(epsilon, tables="maximal"), "least squares"),
        ("Laplace, merged tables (default)", LaplaceMechanism(epsilon), "least squares"),
    ]
    if levels <= MOST_LEVELS:
        offers.append(("Fourier, exact sensitivity", FourierMechanism(epsilon), "consistent by construction"))
    if levels <= 2:
        walsh = FourierMechanism(epsilon, sensitivity="paper")
        offers.append(("Fourier, Zhang et al. 2016 Algorithm 2", walsh, "before pseudo-records"))
    if delta > 0:
        normal = GaussianMechanism(epsilon, delta)
        offers.append(("Gaussian, maximal tables", normal, "least squares; delta above 0"))
    if delta > 0 and not unit.n_is_public and levels <= MOST_LEVELS:
        residual = GaussianMechanism(epsilon, delta, basis="residual")
        offers.append(("Gaussian, residual basis", residual, "ResidualPlanner; consistent by construction"))
    for label, mechanism, note in offers:
        yield Candidate.adding(label, mechanism, network, unit, note)


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
            variances = of_each(lambda table, t=temperature: draw_error(table, t), counts)
            note = "releases probabilities; error at the given n, floor aside"
        reach = temperature * float(epsilon)
        yield Candidate(label, mechanism, network, (), variances, reach, note, usable=False)
