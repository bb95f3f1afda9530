"""Discrete Gaussian noise on contingency tables or their residuals, with zero-concentrated accounting.

With m equal tables and delta > 0 it beats Laplace noise when m is more than about epsilon^2 / (4 rho): the cost of a
table grows with the square of its share, so many tables share the budget well (proofs.md P28).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import Any, Literal

from dpgraph.mechanisms.additive.blocks import BlockPlan, block_measurements, gaussian_blocks, whose_blocks
from dpgraph.mechanisms.additive.plans import (
    Allocation,
    Tables,
    gaussian_plan,
    measured_tables,
    noisy_blocks,
    shares,
    weighted_mean,
)
from dpgraph.mechanisms.reproduction import check_laws, check_scales, not_measured, register_mechanism, remeasured
from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import Description, DiscreteGaussian, Measurement, Statistics, partition_movement
from dpgraph.privacy.noise import Noise, calibrated_gaussian_scale, epsilon_of_rho, rho_of_epsilon
from dpgraph.privacy.records import Event, Number, PrivacyUnit, concentrated_parts, exact, rounded
from dpgraph.structure.moments import MomentDescription
from dpgraph.structure.network import Family, Network

Basis = Literal["tables", "residual"]


@dataclass(frozen=True)
class GaussianMechanism:
    """Releases the noisy blocks of a description, such as a network's, under (epsilon, delta)- and rho-zCDP privacy.

    Sensitivity: a person's row moves each measured table by 1 in squared L2 norm under add/remove and by 2 under
    replace, times the square of the rows per person (all of a person's rows may be alike). Table m gets rho_m, the
    rho_m sum to rho, and its noise has scale^2 at least sensitivity / (2 rho_m), so the release is rho-zCDP (Canonne,
    Kamath and Steinke 2020, Theorem 4 and composition), and (epsilon, delta)-DP by OpenDP's conversion.

    The noise of cells is independent, so where n is public the noisy tables do not sum to it; ``reconcile`` uses it.
    Merging tables never helps here: two tables not inside each other have a union of at least twice the cells of
    either (levels >= 2), so sqrt(W_1) + sqrt(W_2) <= sqrt(W_merged) always; measure the maximal ones.

    ``basis="residual"`` noises the residual blocks of the tables instead, with the optimal scales of ResidualPlanner
    (Xiao, He, Zhang and Kifer 2023; proofs.md P29): 3 to 14 % less error than tables and consistent by construction,
    for an add-remove unit. Each block A of integer coefficients has squared L2 sensitivity ``block_l2_squared`` and its
    own rho_A; the rho_A sum to rho.

    The moments of a regression get noise of one scale: see ``mechanisms.additive.plans`` and
    ``structure.design``.

    A budget is charged in epsilon and delta, so delta is always needed; epsilon or rho says how much noise.

    Args:
        epsilon: The claim at ``delta``; the largest rho (to ten digits) that gives it is used. Leave it out with rho.
        delta: Above 0 and below 1; choose it far below one over the number of persons.
        rho: The zero-concentrated budget, instead of epsilon, which then follows by conversion. Both may be
            given if rho is small enough for the claim.
        tables: ``"maximal"`` (default), ``"families"`` or ``"merged"``; see ``measured_tables``.
        allocation: ``"optimal"`` (default) or ``"uniform"``; see ``shares``.
        basis: ``"tables"`` (default) or ``"residual"``, whose release is ``NoisyCoefficients``; tables and allocation
            have no meaning there.

    Raises:
        ReleaseError: If delta is missing, 0, or not below 1, if neither epsilon nor rho is given or they contradict
            each other, or a setting is not one of these.

    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> mechanism = GaussianMechanism(delta="1e-6", rho="1/8")
    >>> round(float(mechanism.epsilon), 2)
    2.42
    >>> [m.law.scale for m in mechanism.event(network, PrivacyUnit("add-remove")).measurements]
    [2.0]
    """

    epsilon: Number | None = None
    delta: Number | None = None
    _: KW_ONLY
    rho: Number | None = None
    tables: Tables = "maximal"
    allocation: Allocation = "optimal"
    basis: Basis = "tables"

    def __post_init__(self) -> None:
        for name, choices in (("tables", Tables), ("allocation", Allocation), ("basis", Basis)):
            check_choice(name, getattr(self, name), choices)
        if self.basis == "residual" and (self.tables, self.allocation) != ("maximal", "optimal"):
            raise ReleaseError(
                'basis="residual" measures no tables and has one allocation; leave tables and allocation out'
            )
        for name, value in zip(("epsilon", "delta", "rho"), _claims(self.epsilon, self.delta, self.rho), strict=True):
            object.__setattr__(self, name, value)

    def event(self, description: Description, unit: PrivacyUnit) -> Event:
        """The event of a release: one measurement per table or block, with its exact law."""
        epsilon, delta, rho = (exact(value) for value in (self.epsilon, self.delta, self.rho) if value is not None)
        return Event("GaussianMechanism", epsilon, delta, gaussian_measurements(description, self, unit), rho)

    def prepared(self, statistics: Any, unit: PrivacyUnit) -> Any:
        """Sums of a regression with the weight of the target's sum chosen; other statistics as they are."""
        assert self.epsilon is not None
        return weighted_mean(statistics, self.epsilon, unit, gaussian=True)

    def randomise(self, statistics: Statistics, unit: PrivacyUnit, noise: Noise) -> Any:
        """Draws ``NoisyCounts``, ``NoisyCoefficients`` or ``NoisyMoments``; ``release`` calls this after the charge."""
        description = statistics.description
        if self.basis == "residual" and isinstance(description, Network):
            return _blocks(self, description, unit).released(statistics, unit, noise)
        return noisy_blocks(statistics, gaussian_measurements(description, self, unit), unit, noise)

    def variance(self, network: Network, unit: PrivacyUnit) -> dict[Family, float]:
        """The noise variance of one cell of each family table of a release in the residual basis, without data.

        For tables, ``inference.network.consistency.consistent_variance`` says it.
        """
        return _blocks(self, network, unit).variance(network)

    def __repr__(self) -> str:
        settings = f"tables={self.tables!r}, allocation={self.allocation!r}"
        if self.basis == "residual":
            settings = "basis='residual'"
        return f"GaussianMechanism({str(self.epsilon)!r}, {str(self.delta)!r}, rho={str(self.rho)!r}, {settings})"


def _claims(epsilon: Number | None, delta: Number | None, rho: Number | None) -> tuple[Fraction, Fraction, Fraction]:
    """The epsilon, the delta, which Gaussian noise cannot do without, and the rho; epsilon and rho must agree."""
    slack = Fraction(0) if delta is None else exact(delta, "delta", zero=True)
    if slack == 0:
        raise ReleaseError(
            "Gaussian noise is never purely private: give a delta above 0, such as 1e-6, or use LaplaceMechanism"
        )
    if slack >= 1:
        raise ReleaseError(f"delta must be below 1; got {delta!r}")
    if rho is None:
        if epsilon is None:
            raise ReleaseError("GaussianMechanism needs epsilon=... or rho=...")
        return exact(epsilon), slack, rho_of_epsilon(exact(epsilon), slack)
    budget = exact(rho, "rho")
    converted = epsilon_of_rho(budget, slack)
    claim = rounded(converted, up=True) if epsilon is None else exact(epsilon)
    if converted > claim:
        raise ReleaseError(
            f"rho {float(budget):g} costs epsilon {float(converted):g} at delta {float(slack):g}, more than "
            f"epsilon {float(claim):g}; leave one of them out"
        )
    if claim == 0:
        raise ReleaseError(f"rho {float(budget):g} is within delta {float(slack):g} alone; use a smaller delta")
    return claim, slack, budget


@singledispatch
def gaussian_measurements(
    description: Description, mechanism: GaussianMechanism, unit: PrivacyUnit
) -> tuple[Measurement, ...]:
    """The measurements of a description, with their shares of rho; by default all blocks have one scale."""
    if (mechanism.tables, mechanism.allocation, mechanism.basis) != ("maximal", "optimal", "tables"):
        raise ReleaseError("tables=, allocation= and basis= are for counts of a network; leave them out for moments")
    if isinstance(description, MomentDescription):  # the posterior of a family's moments is that of Laplace noise
        raise ReleaseError(
            "GaussianMechanism takes counts of a network and moments of a regression; those of a family need "
            "LaplaceMechanism"
        )
    return gaussian_plan(description, Fraction(mechanism.rho or 0), unit)


@gaussian_measurements.register(Network)
def _of_network(network: Network, mechanism: GaussianMechanism, unit: PrivacyUnit) -> tuple[Measurement, ...]:
    if mechanism.basis == "residual":
        return _blocks(mechanism, network, unit).measurements
    return _tables(mechanism, network, unit)


@lru_cache(maxsize=64)
def _tables(mechanism: GaussianMechanism, network: Network, unit: PrivacyUnit) -> tuple[Measurement, ...]:
    """The plan: each table's share of rho, and the scale that spends it."""
    tables = measured_tables(network, mechanism.tables)
    rho = Fraction(mechanism.rho or 0)
    movements = [partition_movement(network.cells(table), unit) for table in tables]
    moved = [max(1, movement.l2_squared) for movement in movements]
    parts = shares(network, tables, mechanism.allocation, power=1 / 2, spreads=moved, n_is_public=unit.n_is_public)
    scales = {pair: calibrated_gaussian_scale(pair[0], rho * pair[1]) for pair in zip(moved, parts, strict=True)}
    return tuple(
        Measurement(table, network.cells(table), DiscreteGaussian(scales[square, part]), movement)
        for table, square, part, movement in zip(tables, moved, parts, movements, strict=True)
    )


@lru_cache(maxsize=64)
def _blocks(mechanism: GaussianMechanism, network: Network, unit: PrivacyUnit) -> BlockPlan:
    return gaussian_blocks(Fraction(mechanism.rho or 0), network, unit)


def _replanned(event: Event, unit: PrivacyUnit, description: Any) -> Event:
    """The recorded tables or blocks of a network, whose scales pay for rho; the plan of any other description."""
    check_laws(event, DiscreteGaussian)
    if event.rho is None:
        raise ReleaseError("GaussianMechanism claims no rho")
    if not event.measurements or not callable(getattr(description, "blocks", None)):
        raise not_measured(event, description)
    mechanism = GaussianMechanism(event.epsilon, event.delta, rho=event.rho)  # refuses an epsilon below that of rho
    if not isinstance(description, Network):
        return mechanism.event(description, unit)
    laws = {m.table: m.law for m in event.measurements}
    if () not in laws:
        measured = remeasured(event, unit, description)
    elif unit.n_is_public or (whose := whose_blocks(description, list(laws))) is None:
        raise not_measured(event, description)
    else:
        measured = block_measurements(whose, laws, unit)
    check_scales(event, event.rho, concentrated_parts(measured, least=1))
    return replace(event, measurements=measured, joint=None, selections=())


register_mechanism("GaussianMechanism", _replanned)
