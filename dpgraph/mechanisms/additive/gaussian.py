"""Discrete Gaussian noise on contingency tables or their residuals, priced by Gaussian differential privacy.

With m equal tables and delta > 0 it beats Laplace noise when m is more than about epsilon^2 / (2 mu^2): the cost of a
table grows with the square of its share, so many tables share the budget well (proofs.md P28).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from fractions import Fraction
from functools import lru_cache, singledispatch
from typing import Any, ClassVar, Literal

from dpgraph.mechanisms import reproduction
from dpgraph.mechanisms.additive import plans
from dpgraph.privacy.checks import check_choice
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import epsilon_of_mu, mu_within, root, rounded
from dpgraph.privacy.measurements import Description, DiscreteGaussian, Measurement, Statistics, partition_movement
from dpgraph.privacy.noise import (
    MAX_SCALE,
    Noise,
    calibrated_gaussian_scale,
    epsilon_of_rho,
    rho_of_epsilon,
    scale_of_mu,
)
from dpgraph.privacy.records import Event, Number, PrivacyUnit, concentrated_parts, exact, mu_parts, total_up
from dpgraph.structure.moments import MomentDescription
from dpgraph.structure.network import Family, Network

Basis = Literal["tables", "residual"]
#: How far a claim may be above the cost of its noise: both are rounded to twelve digits.
DIGITS = Fraction(1, 2**32)


@dataclass(frozen=True)
class GaussianMechanism:
    """Releases the noisy blocks of a description, such as a network's, under (epsilon, delta)-privacy, mu-GDP and zCDP.

    Sensitivity: a person's row moves each measured table by 1 in squared L2 norm under add/remove and by 2 under
    replace, times the square of the rows per person (all of a person's rows may be alike). The largest mu that costs no
    more than (epsilon, delta) is shared out: the squares of the tables' mus sum to its square, and each table's noise
    has the smallest scale with sensitivity times ``gdp.unit_shift(scale)`` at most that square (proofs.md P127). With
    ``rho`` the tables' rhos sum to it, scale^2 is at least sensitivity / (2 rho_m) (Canonne, Kamath and Steinke 2020,
    Theorem 4), and epsilon is OpenDP's conversion; that needs 5 to 9 % more noise for the same epsilon and delta.

    The noise of cells is independent, so where n is public the noisy tables do not sum to it; ``reconcile`` uses it.
    Merging tables never helps here: two tables not inside each other have a union of at least twice the cells of
    either (levels >= 2), so sqrt(W_1) + sqrt(W_2) <= sqrt(W_merged) always; measure the maximal ones.

    ``basis="residual"`` noises the residual blocks of the tables instead, with the optimal scales of ResidualPlanner
    (Xiao, He, Zhang and Kifer 2023; proofs.md P29): 3 to 14 % less error than tables and consistent by construction,
    for an add-remove unit. Each block A of integer coefficients has squared L2 sensitivity ``block_l2_squared`` and its
    own share.

    The moments of a regression get noise of one scale: see ``mechanisms.additive.plans`` and ``structure.design``.

    A budget is charged in epsilon and delta, so delta is always needed; epsilon, mu or rho says how much noise.

    Args:
        epsilon: The claim at ``delta``. Leave it out with mu or rho.
        delta: Above 0 and below 1; choose it far below one over the number of persons.
        rho: The zero-concentrated budget, instead of epsilon, which then follows by conversion. Both may be
            given if rho is small enough for the claim.
        mu: The same in Gaussian differential privacy, rounded down to twelve digits, such as a share of ``Budget.mu``:
            squares add, so half a mu is a quarter of the budget.
        tables: ``"maximal"`` (default), ``"families"`` or ``"merged"``; see ``measured_tables``.
        allocation: ``"optimal"`` (default) or ``"uniform"``; see ``shares``.
        basis: ``"tables"`` (default) or ``"residual"``, whose release is ``NoisyCoefficients``; tables and allocation
            have no meaning there.

    Raises:
        ReleaseError: If delta is missing, 0, or not below 1, if none of epsilon, mu and rho is given or they contradict
            each other, or a setting is not one of these.

    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> mechanism = GaussianMechanism(delta="1e-6", rho="1/8")
    >>> round(float(mechanism.epsilon), 2)
    2.42
    >>> [m.law.scale for m in mechanism.event(network, PrivacyUnit("add-remove")).measurements]
    [2.0]
    >>> round(float(GaussianMechanism(delta="1e-6", mu="1/2").epsilon), 2)
    2.25
    """

    epsilon: Number | None = None
    delta: Number | None = None
    _: KW_ONLY
    rho: Number | None = None
    mu: Number | None = None
    tables: plans.Tables = "maximal"
    allocation: plans.Allocation = "optimal"
    basis: Basis = "tables"
    keeps_rules: ClassVar[bool] = True  # impossible cells are not drawn (proofs.md P131)

    def __post_init__(self) -> None:
        for name, choices in (("tables", plans.Tables), ("allocation", plans.Allocation), ("basis", Basis)):
            check_choice(name, getattr(self, name), choices)
        if self.basis == "residual" and (self.tables, self.allocation) != ("maximal", "optimal"):
            raise ReleaseError(
                'basis="residual" measures no tables and has one allocation; leave tables and allocation out'
            )
        for name, value in _claims(self.epsilon, self.delta, self.rho, self.mu).items():
            object.__setattr__(self, name, value)

    @property
    def mu_squared(self) -> Fraction:
        """The square of the mu that it may spend; 2 rho where it was made with a rho."""
        return self._mu**2 if self.rho is None else 2 * Fraction(self.rho)

    @property
    def _mu(self) -> Fraction:
        return mu_within(exact(self.epsilon or 0), exact(self.delta or 0)) if self.mu is None else exact(self.mu)

    def event(self, description: Description, unit: PrivacyUnit) -> Event:
        """The event of a release: one measurement per table or block, with its exact law."""
        measured = gaussian_measurements(description, self, unit)
        total, square = total_up(concentrated_parts(measured, least=1)), total_up(mu_parts(measured, least=1) or [])
        rho = rounded(total, up=True) if self.rho is None else Fraction(self.rho)
        mu = self._mu if self.rho is None and square <= self.mu_squared else root(square, up=True)
        epsilon, delta = Fraction(self.epsilon or 0), Fraction(self.delta or 0)
        return Event("GaussianMechanism", epsilon, delta, measured, rho=rho, mu=mu)

    def prepared(self, statistics: Any, unit: PrivacyUnit) -> Any:
        """Sums of a regression with the weight of the target's sum chosen; other statistics as they are."""
        assert self.epsilon is not None
        return plans.weighted_mean(statistics, self.epsilon, unit, gaussian=True)

    def randomise(self, statistics: Statistics, unit: PrivacyUnit, noise: Noise) -> Any:
        """Draws ``NoisyCounts``, ``NoisyCoefficients`` or ``NoisyMoments``; ``release`` calls this after the charge."""
        description = statistics.description
        if self.basis == "residual" and isinstance(description, Network):
            return _blocks(self, description, unit).released(statistics, unit, noise)
        return plans.noisy_blocks(statistics, gaussian_measurements(description, self, unit), unit, noise)

    def variance(self, network: Network, unit: PrivacyUnit) -> dict[Family, float]:
        """The noise variance of one cell of each family table of a release in the residual basis, without data.

        For tables, ``inference.network.consistency.consistent_variance`` says it.
        """
        return _blocks(self, network, unit).variance(network)

    def __repr__(self) -> str:
        tables = f"tables={self.tables!r}, allocation={self.allocation!r}"
        settings = "basis='residual'" if self.basis == "residual" else tables
        given = "".join(f"{n}={str(v)!r}, " for n, v in (("rho", self.rho), ("mu", self.mu)) if v is not None)
        return f"GaussianMechanism({str(self.epsilon)!r}, {str(self.delta)!r}, {given}{settings})"


def _claims(
    epsilon: Number | None, delta: Number | None, rho: Number | None, mu: Number | None
) -> dict[str, Fraction | None]:
    """The epsilon, the delta, which Gaussian noise cannot do without, and a rho or mu that agrees with epsilon."""
    slack = Fraction(0) if delta is None else exact(delta, "delta", zero=True)
    if slack == 0:
        raise ReleaseError(
            "Gaussian noise is never purely private: give a delta above 0, such as 1e-6, or use LaplaceMechanism"
        )
    if slack >= 1:
        raise ReleaseError(f"delta must be below 1; got {delta!r}")
    if rho is not None and mu is not None:
        raise ReleaseError("GaussianMechanism takes rho=... or mu=..., not both")
    name, given = ("rho", rho) if mu is None else ("mu", mu)
    if given is None:
        if epsilon is None:
            raise ReleaseError("GaussianMechanism needs epsilon=..., mu=... or rho=...")
        return {"epsilon": exact(epsilon), "delta": slack, "rho": None, "mu": None}
    budget = exact(given, name) if mu is None else rounded(exact(mu, name), up=False)  # an event's mu has twelve digits
    converted = epsilon_of_rho(budget, slack) if mu is None else epsilon_of_mu(budget**2, slack)
    claim = rounded(converted, up=True) if epsilon is None else exact(epsilon)
    if converted > claim:
        raise ReleaseError(
            f"{name} {float(budget):g} costs epsilon {float(converted):g} at delta {float(slack):g}, more than "
            f"epsilon {float(claim):g}; leave one of them out"
        )
    if claim == 0:
        raise ReleaseError(f"{name} {float(budget):g} is within delta {float(slack):g} alone; use a smaller delta")
    return {"epsilon": claim, "delta": slack, "rho": None, "mu": None, name: budget}


def _cheapest(
    mechanism: GaussianMechanism, plan: Callable[[plans.Scale], tuple[Measurement, ...]]
) -> tuple[Measurement, ...]:
    """The plan by the mechanism's rho or mu; where epsilon alone is asked for, by the one that needs less noise."""
    epsilon, delta = Fraction(mechanism.epsilon or 0), Fraction(mechanism.delta or 0)
    if mechanism.rho is not None:
        return plan(by_rho(Fraction(mechanism.rho)))
    made = plan(by_mu(mechanism.mu_squared))
    if mechanism.mu is not None or all(m.law.scale > 1 for m in made):
        return made
    other = plan(by_rho(rho_of_epsilon(epsilon, delta)))
    return min(made, other, key=lambda plan: sum(m.law.scale for m in plan))


def by_rho(rho: Fraction) -> plans.Scale:
    """Scales of noise that is rho-zCDP as a whole."""
    return lambda l2_squared, share, largest=MAX_SCALE: calibrated_gaussian_scale(l2_squared, rho * share, largest)


def by_mu(mu_squared: Fraction) -> plans.Scale:
    """Scales of noise that is mu-GDP as a whole."""
    return lambda l2_squared, share, largest=MAX_SCALE: scale_of_mu(l2_squared, mu_squared * share, largest)


@singledispatch
def gaussian_measurements(
    description: Description, mechanism: GaussianMechanism, unit: PrivacyUnit
) -> tuple[Measurement, ...]:
    """The measurements of a description, with their shares of the budget; by default all blocks have one scale."""
    if (mechanism.tables, mechanism.allocation, mechanism.basis) != ("maximal", "optimal", "tables"):
        raise ReleaseError("tables=, allocation= and basis= are for counts of a network; leave them out for moments")
    if isinstance(description, MomentDescription):  # the posterior of a family's moments is that of Laplace noise
        raise ReleaseError(
            "GaussianMechanism takes counts of a network and moments of a regression; those of a family need "
            "LaplaceMechanism"
        )
    return _cheapest(mechanism, lambda scale: plans.gaussian_plan(description, scale, unit))


@gaussian_measurements.register(Network)
@lru_cache(maxsize=64)
def _of_network(network: Network, mechanism: GaussianMechanism, unit: PrivacyUnit) -> tuple[Measurement, ...]:
    """The plan: each table's share, and the scale that spends it."""
    if mechanism.basis == "residual":
        reproduction.check_no_rules(network, "basis='residual'", "basis='tables'")
        return _blocks(mechanism, network, unit).measurements
    tables = plans.measured_tables(network, mechanism.tables)
    movements = [partition_movement(network.possible_cells(table), unit) for table in tables]
    moved = [max(1, movement.l2_squared) for movement in movements]
    parts = plans.shares(
        network, tables, mechanism.allocation, power=1 / 2, spreads=moved, n_is_public=unit.n_is_public
    )

    def plan(scale: plans.Scale) -> tuple[Measurement, ...]:
        scales = {pair: scale(*pair) for pair in zip(moved, parts, strict=True)}
        return tuple(
            Measurement(table, network.possible_cells(table), DiscreteGaussian(scales[square, part]), movement)
            for table, square, part, movement in zip(tables, moved, parts, movements, strict=True)
        )

    return _cheapest(mechanism, plan)


@lru_cache(maxsize=64)
def _blocks(mechanism: GaussianMechanism, network: Network, unit: PrivacyUnit) -> plans.BlockPlan:
    scale = by_mu(mechanism.mu_squared) if mechanism.rho is None else by_rho(Fraction(mechanism.rho))
    return plans.gaussian_blocks(scale, network, unit)


def _replanned(event: Event, unit: PrivacyUnit, description: Any) -> Event:
    """The recorded tables or blocks, moved as their description says, if their scales are those of rho and mu."""
    reproduction.check_laws(event, DiscreteGaussian)
    if event.rho is None:
        raise ReleaseError("GaussianMechanism claims no rho")
    if not event.measurements or not callable(getattr(description, "blocks", None)):
        raise reproduction.not_measured(event, description)
    laws = {m.table: m.law for m in event.measurements}
    if not isinstance(description, Network):
        blocks = description.blocks(unit)
        if set(laws) != {block.name for block in blocks}:
            raise reproduction.not_measured(event, description)
        measured = tuple(Measurement(one.name, one.cells, laws[one.name], one.movement) for one in blocks)
    elif () not in laws:
        measured = reproduction.remeasured(event, unit, description)
    elif unit.n_is_public or (whose := plans.whose_blocks(description, list(laws))) is None:
        raise reproduction.not_measured(event, description)
    else:
        measured = plans.block_measurements(whose, laws, unit)
    reproduction.check_scales(event, event.rho, concentrated_parts(measured, least=1), rounding=DIGITS)
    if event.mu is not None:  # records from before mus were kept have none
        reproduction.check_scales(event, event.mu**2, mu_parts(measured, least=1) or [], rounding=DIGITS)
    return replace(event, measurements=measured, joint=None, selections=())


reproduction.register_mechanism("GaussianMechanism", _replanned)
