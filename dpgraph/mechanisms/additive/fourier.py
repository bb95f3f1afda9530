"""Integer Laplace noise on the coefficients of tables, so that the released tables agree by construction.

Zhang et al. 2016, Algorithm 2, after Barak et al. 2007, is ``FourierMechanism(epsilon, sensitivity="paper", t=...)`` on
a network of two-level variables. The default uses the exact sensitivity, never noises a public n, and works for any
number of levels in the residual basis.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal

from dpgraph.mechanisms.additive import plans
from dpgraph.mechanisms.reproduction import check_laws, check_network, not_measured, register_mechanism
from dpgraph.privacy.checks import check_choice, is_number
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.errors import UnprovedGuaranteeWarning as UnprovedGuaranteeWarning
from dpgraph.privacy.measurements import DiscreteLaplace, Joint, Measurement, Movement
from dpgraph.privacy.noise import Noise, calibrated_scale
from dpgraph.privacy.records import Event, Number, PrivacyUnit, exact
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import MOST_RECORDS, NoisyCoefficients, coefficient_blocks

if TYPE_CHECKING:
    from dpgraph.statistics.counts import Counts

Sensitivity = Literal["exact", "paper"]
Basis = Literal["auto", "walsh", "residual"]


@dataclass(frozen=True)
class FourierMechanism:
    """Releases noisy coefficients of a network's tables under pure epsilon-differential privacy.

    Sensitivity, with r rows per person and N_I the downward closure of the families:

    * Walsh sums (variables of two levels), add/remove: every sum w_A moves by exactly r, so |N_I| r in all; the scale
      is |N_I| r / epsilon, and the number of rows w_() is noised like the rest.
    * Walsh sums, replace: n is public and never noised; noise goes on the parity counts m_A = (n - w_A) / 2,
      of which at most M r change (``parity_sensitivity``); the scale is M r / epsilon on m_A.
    * ``sensitivity="paper"``: scale 2 |N_I| r / epsilon on all |N_I| Walsh sums under replace, w_() included
      (Corollary 2 as printed). Under add/remove the same argument gives |N_I| r / epsilon, which is exact there.
    * Residual basis (any levels): integer contrasts times public whole numbers close to the orthonormal scaling, so
      every statistic is an exact integer sum; block A gets scale b_A proportional to (D_A / V_A)^(1/3) (proofs.md P28),
      and all are scaled by one factor so that the largest weighted distance of two neighbours is epsilon
      (``joint_sensitivity``, computed from the integers themselves).

    A negative cell is not a reason to draw again: another release is another charge.

    Args:
        epsilon: The whole budget of the release, exact; a float means the decimal it prints as.
        sensitivity: ``"exact"`` (default) or ``"paper"``, which needs variables of at most two levels.
        t: Adds uniform pseudo-records by the paper's Corollary 3: 2 t times the sum of the scales of the Walsh sums,
            that is 4 t |N_I|^2 / epsilon for ``"paper"`` under replace, so that all cells are non-negative with
            probability 1 - exp(-t). About ten times more than needed on asia. Two-level variables only.
        basis: ``"walsh"``, ``"residual"``, or ``"auto"``: Walsh where every variable has at most two levels.

    Raises:
        ReleaseError: If a setting is not one of these, or epsilon is not a finite number above 0.

    Warns:
        UnprovedGuaranteeWarning: If t is below 1/2, where the paper's proof of non-negativity does not hold.

    >>> from dpgraph.structure.network import Network
    >>> clique = Network.of({name: [0, 1] for name in "abc"}, {"b": ["a"], "c": ["a", "b"]})
    >>> [m.law.scale for m in FourierMechanism(1, "paper").event(clique, PrivacyUnit("replace")).measurements][:2]
    [16.0, 16.0]
    >>> [m.law.scale for m in FourierMechanism(1).event(clique, PrivacyUnit("replace")).measurements][:2]
    [4.0, 4.0]
    """

    epsilon: Number
    sensitivity: Sensitivity = "exact"
    t: float | None = None
    basis: Basis = "auto"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", exact(self.epsilon))
        for name, choices in (("sensitivity", Sensitivity), ("basis", Basis)):
            check_choice(name, getattr(self, name), choices)
        if self.sensitivity == "paper" and self.basis == "residual":
            raise ReleaseError(
                'sensitivity="paper" is a scale for Walsh sums; the residual basis has none in the paper'
            )
        if self.t is not None:
            if not (is_number(self.t) and 0 < self.t <= 1000):
                raise ReleaseError(f"t must be a number above 0 and at most 1000; got {self.t!r}")
            if self.t < 0.5:
                message = "for t below 1/2 the paper's proof that tables are rarely negative does not hold"
                warnings.warn(message, UnprovedGuaranteeWarning, stacklevel=3)

    def event(self, network: Network, unit: PrivacyUnit) -> Event:
        """The event of a release: one measurement per block of coefficients, with its exact noise law.

        A measurement's movement is that of its own block. They do not add up: blocks move together less than that, and
        the event's joint distance says by how much.
        """
        check_network(network, self)
        plan = _plan(self, network, unit)
        return Event("FourierMechanism", exact(self.epsilon), measurements=plan.measurements, joint=plan.joint)

    def randomise(self, statistics: Counts, unit: PrivacyUnit, noise: Noise) -> NoisyCoefficients:
        """Draws the noisy coefficients; ``release`` calls this after the charge."""
        return _plan(self, statistics.network, unit).released(statistics, unit, noise)

    def variance(self, network: Network, unit: PrivacyUnit) -> dict[Family, float]:
        """The noise variance of one cell of each family table of a release (``BlockPlan.variance``)."""
        return _plan(self, network, unit).variance(network)

    def pseudo_records(self, network: Network, unit: PrivacyUnit) -> int:
        """How many uniform records a release adds for Corollary 3: a public constant, 0 without ``t``."""
        return _plan(self, network, unit).pseudo_records

    def __repr__(self) -> str:
        settings = f"sensitivity={self.sensitivity!r}, t={self.t!r}"
        return f"FourierMechanism(epsilon={str(self.epsilon)!r}, {settings}, basis={self.basis!r})"


def theorem_3_bound(network: Network, epsilon: Number, delta: float, t: float) -> dict[str, float]:
    """How far Algorithm 2 can move each family table in L1, with probability 1 - delta (Zhang et al. 2016, Theorem 3).

    (2 |N_I| 2^(parents + 1) / epsilon) ln(|N_I| / delta) for the noise, plus the pseudo-records, 4 t |N_I|^2 / epsilon
    rounded up to whole ones. For ``FourierMechanism(epsilon, "paper", t=t)`` under replace, all tables at once. The
    constants are recovered (proofs.md P34). It is loose: it takes every coefficient to be as far off as the worst.
    """
    _check_two_levels(network, "theorem_3_bound")
    if not (is_number(delta) and 0 < delta < 1 and is_number(t) and 0 <= t <= 1000):
        raise ReleaseError(f"delta must be between 0 and 1 and t between 0 and 1000; got {delta!r} and {t!r}")
    budget, many = float(exact(epsilon)), len(coefficient_blocks(network))
    scale, added = 2 * many / budget, math.ceil(4 * t * many**2 / budget)
    return {family[0]: scale * network.cells(family) * math.log(many / delta) + added for family in network.families}


@lru_cache(maxsize=64)
def _plan(mechanism: FourierMechanism, network: Network, unit: PrivacyUnit) -> plans.BlockPlan:
    """The whole plan, pseudo-records included; data-free, so that it fails before anything is charged."""
    two_levels = all(size <= 2 for size in network.domain.sizes.values())
    for option, chosen in (
        ('sensitivity="paper"', mechanism.sensitivity == "paper"),
        ('basis="walsh"', mechanism.basis == "walsh"),
        ("t", mechanism.t is not None),
    ):
        if chosen:
            _check_two_levels(network, option)
    if mechanism.basis == "residual" or not two_levels:
        if mechanism.t is not None:
            raise ReleaseError("t is the paper's increment for Walsh sums; the residual basis has none")
        plan = plans.laplace_blocks(exact(mechanism.epsilon), network, unit)
    else:
        plan = _walsh_plan(exact(mechanism.epsilon), network, unit, paper=mechanism.sensitivity == "paper")
    added = 0
    if mechanism.t is not None:
        added = math.ceil(2 * mechanism.t * plan.step * sum(m.law.scale for m in plan.measurements))
    if added > MOST_RECORDS:
        raise ReleaseError(f"{added:.3g} pseudo-records would be added; use a larger epsilon or a smaller t")
    return replace(plan, pseudo_records=added)


def _walsh_plan(epsilon: Fraction, network: Network, unit: PrivacyUnit, *, paper: bool) -> plans.BlockPlan:
    """One law for all Walsh sums, or under replace for all parity counts; there w_() is n, which never moves."""
    rows, parities = unit.rows_per_person, unit.n_is_public and not paper
    moved = 2 * rows if unit.n_is_public and paper else rows
    blocks = coefficient_blocks(network)
    together = plans.parity_sensitivity(network)[0] * rows if parities else moved * len(blocks)
    blocks = blocks[1:] if parities else blocks
    law = DiscreteLaplace(calibrated_scale(max(1, together), epsilon))
    each = Movement(moved, moved**2, moved if moved <= 1 else None)
    none = Movement(0, 0, 0)
    measured = tuple(Measurement(block, 1, law, none if unit.n_is_public and not block else each) for block in blocks)
    joint = Joint((1,) * len(blocks), max(1, together)) if blocks else None
    return plans.BlockPlan(measured, step=2 if parities else 1, joint=joint)


def _check_two_levels(network: Network, what: str) -> None:
    """Refuses a binary-only option on a network with other variables."""
    for name, size in network.domain.sizes.items():
        if size > 2:
            raise ReleaseError(
                f"{what} is for variables of two levels (Zhang et al. 2016, section 3.2); {name!r} has {size}. "
                'Use sensitivity="exact" and basis="auto", and leave t out'
            )


def _replanned(event: Event, unit: PrivacyUnit, network: Any) -> Event:
    """The blocks of the network whose blocks were recorded: the plan of its Walsh sums, or the recorded weights."""
    check_laws(event, DiscreteLaplace)
    measured, public = [m.table for m in event.measurements], unit.n_is_public
    whose = None
    if isinstance(network, Network):
        whose = plans.whose_blocks(network, [(), *measured] if public else measured)
    if whose is None:
        raise not_measured(event, network)
    plan = plans.BlockPlan(())
    if all(size <= 2 for size in whose.domain.sizes.values()):
        paper = public and () in measured
        plan = _walsh_plan(event.epsilon, whose, unit, paper=paper)
    if [m.movement for m in plan.measurements] != [m.movement for m in event.measurements]:
        weights = () if event.joint is None else event.joint.weights  # they follow from the graph that was measured
        if len(weights) != len(measured) or (public and () in measured):
            raise not_measured(event, network)
        plan = plans.weighted_blocks(event.epsilon, whose, unit, dict(zip(measured, weights, strict=True)))
    return Event("FourierMechanism", event.epsilon, measurements=plan.measurements, joint=plan.joint)


register_mechanism("FourierMechanism", _replanned)
