"""Composition: the cost of several events on the same rows, or of releases on disjoint groups of rows.

The least zero-concentrated cost of pure noise is in closed form and never rounded down. A mechanism is rho-zCDP if its
Renyi divergence of every order a above 1 is at most a rho. For each law here the ratio of the two is largest as a falls
to 1, so that the least rho is the Kullback-Leibler divergence (proofs.md P90).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from dpgraph.privacy.noise import epsilon_of_rho, exp_bounds
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Measurement,
    NoiseLaw,
    PrivacyCost,
    PrivacyUnit,
    ReleaseError,
    SumZeroLaplace,
    rounded,
)

#: Digits of the bounds on exponentials; a scale of 2^50 cancels half of them.
DIGITS = 80

#: Tables of more cells are priced as if they had so many, at most 0.1 % more.
MOST_CELLS = 1024

#: The longest shift whose losses are listed one by one; beyond it Laplace noise is priced by its log ratio.
LONGEST = 1 << 12


def basic(events: Iterable[Event]) -> PrivacyCost:
    """Basic composition: epsilons and deltas add, exactly."""
    return sum((PrivacyCost(event.epsilon, event.delta) for event in events), PrivacyCost(Fraction(0)))


def advanced(events: Collection[Event], delta: Fraction) -> PrivacyCost:
    """The k-fold advanced composition of Dwork, Rothblum and Vadhan 2010, Theorem III.3, with unequal epsilons.

    The epsilon is sqrt(2 ln(1 / d) sum epsilon_i^2) + sum epsilon_i (exp(epsilon_i) - 1), with d the delta less the
    events' own deltas. The papers use it so (Foulds et al. 2016, section 4). Each privacy loss lies in [-epsilon_i,
    epsilon_i] and has a mean of at most epsilon_i (exp(epsilon_i) - 1); the rest is Azuma's inequality.
    """
    slack = _unclaimed_delta(delta, events)
    epsilons = [float(event.epsilon) for event in events]
    depth = math.log(slack.denominator) - math.log(slack.numerator)  # of deltas that a float cannot hold too
    spread = math.sqrt(2 * depth * sum(epsilon**2 for epsilon in epsilons))
    drift = sum(epsilon * math.expm1(epsilon) if epsilon < 700 else math.inf for epsilon in epsilons)
    return _at_most_basic(spread + drift, events, delta)


def zero_concentrated(events: Collection[Event], delta: Fraction) -> PrivacyCost:
    """Composition in zCDP: the rhos add exactly, and OpenDP converts their sum at delta.

    Each event has the rho of ``rho_of``. An event with a delta and no rho is outside zCDP: its epsilon and delta are
    added to the rest.
    """
    rhos = [rho_of(event) for event in events]
    outside = [event for event, rho in zip(events, rhos, strict=True) if rho is None]
    slack = _unclaimed_delta(delta, outside)
    inside = [rho for rho in rhos if rho is not None]
    converted = epsilon_of_rho(sum(inside, Fraction(0)), slack) if inside else Fraction(0)
    return _at_most_basic(converted + basic(outside).epsilon, events, delta)


def rho_of(event: Event) -> Fraction | None:
    """The least rho that is proved of an event; None of one that has a delta and claims no rho.

    The least of its claimed rho, the rho of its pure epsilon (``pure_rho``) and, for a pure event, the rho of the
    shifts on record plus the rho of any epsilon that the claim has above those shifts.
    """
    if len(event.priced) > 1:
        return _rho_of_parts(event)
    known = [event.rho, *([pure_rho(event.epsilon), _recorded_rho(event)] if event.delta == 0 else [])]
    return min((rho for rho in known if rho is not None), default=None)


def check_paid_together(event: Event) -> None:
    """Refuses the rho of an event with parts that one charge paid for, if theirs add up to more."""
    for part in event.parts:
        check_paid_together(part)
    if not event.parts or event.rho is None:
        return
    rho = _rho_of_parts(event)
    if rho is None or rho > event.rho:
        raise ReleaseError(f"{event.mechanism:.60} claims rho {float(event.rho):.9g}, and its parts cost more")


def _rho_of_parts(event: Event) -> Fraction | None:
    """The sum of the parts' rhos; None where one has none."""
    rhos = [rho for part in event.parts if (rho := rho_of(part)) is not None]
    return sum(rhos, Fraction(0)) if len(rhos) == len(event.parts) else None


def _recorded_rho(event: Event) -> Fraction | None:
    """The rho of a pure event by its shifts; None where the record does not determine them."""
    whole, told = Fraction(0), Fraction(0)
    met = shifts(event)
    for (law, distance, cells), times in met.items():
        rho, epsilon = shift_rho(law, distance, cells), law.epsilon(distance)
        if rho is None or epsilon is None:
            return None
        whole += times * rho
        told += times * epsilon
    return whole + pure_rho(max(Fraction(0), event.epsilon - told)) if met else None


class Shift(NamedTuple):
    """One draw of noise that one person's rows shift, by a distance.

    ``cells`` is how many cells share noise that sums to zero; noise that is independent in every cell has 1.
    """

    law: NoiseLaw
    distance: int
    cells: int = 1


def shifts(event: Event) -> Counter[Shift]:
    """The independent draws of noise that one person's rows shift in an event, and how many of each.

    Where every coordinate moves by at most one, as many shifts by one as coordinates move. Otherwise:

    * Discrete Laplace: one coordinate shifted by the whole L1 distance is the worst case. A path from one data set to
      the other along the axes has a trade-off function no lower than the axes' shifts one after the other (group
      privacy, Dong, Roth and Su 2022, Theorem 2.14), and for shifts of one log-concave law on one line that
      composition is the trade-off function of their sum: the best tests are the same thresholds.
    * Noise that sums to zero: by two is a row that moves between two cells; for more only the log ratio is bounded.
    * Discrete Gaussian: a single coordinate is shifted by its distance; of several, squared distances bound rho alone.
    * Any other law: its own bound on the log ratio, where it has one.

    Measurements that move together by less than their sum are listed where they share one law, up to the joint
    distance. Empty where the record does not determine the shifts, selections included: the event's own claim is then
    its price.
    """
    if event.selections or not event.measurements:
        return Counter()
    if event.joint is not None:
        return _joint_shifts(event)
    met = Counter[Shift]()
    for measured in event.measurements:
        found = _measured_shifts(measured)
        if found is None:
            return Counter()
        met += found
    return met


def _measured_shifts(measured: Measurement) -> Counter[Shift] | None:
    """The shifted draws of one measurement; None where the record does not determine them."""
    law, moved = measured.law, measured.movement
    if moved.l1 == 0:
        return Counter()
    if isinstance(law, SumZeroLaplace):
        return Counter({Shift(law, moved.l1, measured.cells): 1})
    if not isinstance(law, DiscreteLaplace | DiscreteGaussian):
        return None if law.epsilon(moved.l1) is None else Counter({Shift(law, moved.l1): 1})
    if moved.moved_cells is not None:
        return Counter({Shift(law, 1): moved.moved_cells})
    if isinstance(law, DiscreteLaplace) or (measured.cells == 1 and moved.l1 <= LONGEST):
        return Counter({Shift(law, moved.l1): 1})
    return None


def _joint_shifts(event: Event) -> Counter[Shift]:
    """The same for blocks of one discrete Laplace law and one weight, which move together by a joint distance."""
    assert event.joint is not None
    laws, weights = {m.law for m in event.measurements}, set(event.joint.weights)
    law = next(iter(laws))
    if len(laws) > 1 or len(weights) > 1 or not isinstance(law, DiscreteLaplace):
        return Counter()
    distance = min(event.joint.distance // weights.pop(), sum(m.movement.l1 for m in event.measurements))
    if not distance:
        return Counter()
    simple = all(m.movement.moved_cells is not None for m in event.measurements)
    return Counter({Shift(law, 1): distance} if simple else {Shift(law, distance): 1})


def sum_zero_loss(scale: float, cells: int) -> float:
    """The probability that sum-zero noise has its largest privacy loss, 2 / scale, when a row moves cell i to cell j.

    That is P(z_i <= 0 and z_j >= 0) = N(K - 1) / N(K) with N(m) = sum_j C(m - 1, j)^2 exp(-2 j / scale): the sums
    over the plane are Fourier integrals of (1 - 2 q cos t + q^2)^-m, hypergeometric functions that Euler's
    transformation makes polynomials of q^2, q = exp(-1 / scale). For two cells it is randomised response.
    """
    from scipy.special import gammaln, logsumexp

    def log_sum(m: int) -> Any:
        j = np.arange(m)
        return logsumexp(2 * (gammaln(m) - gammaln(j + 1) - gammaln(m - j)) - 2 * j / scale)

    return min(float(np.exp(log_sum(cells - 1) - log_sum(cells))), 1 / (1 + math.exp(-2 / scale)))


def parallel_cost(costs: Collection[PrivacyCost], unit: PrivacyUnit) -> PrivacyCost:
    """Parallel composition: the cost of releases on disjoint groups of rows, each group's cost being under add/remove.

    The groups are the levels of one declared variable, so a row is in exactly one. Let k be the rows per person, or
    the number of groups if that is less.

    * Under add/remove, a person's rows vanish from at most k groups, and no other group's rows change: the k largest
      costs add; for one row per person this is the maximum.
    * Under replace a person's rows may *move*. They vanish from at most k groups and appear in at most k. A group
      they only leave or only enter costs (epsilon, delta); one they do both to is two steps away,
      (2 epsilon, (1 + exp(epsilon)) delta) by the group property. No choice costs more than twice the k largest
      epsilons, and a row replaced within the most expensive group, or moved between two of equal cost, attains it:
      for one row per person twice the maximum. A group's number of rows changes when a row moves, so it is not
      public though the whole n is.

    The groups may be released from in any order, each release chosen after seeing those of other groups: losses of
    pure mechanisms add pointwise, and for deltas concurrent composition is as basic composition (Lyu 2022; Vadhan and
    Zhang 2023). A group that is split again costs what its own groups cost by this rule. That is more than needed for
    several rows per person, whose k rows in all are counted as k in each group, and never less.
    """
    if unit.neighbours == "replace":
        costs = [PrivacyCost(2 * one.epsilon, one.delta * _two_steps(one.epsilon)) for one in costs]
    most_groups = min(unit.rows_per_person, len(costs))
    epsilons, deltas = sorted(one.epsilon for one in costs), sorted(one.delta for one in costs)
    return PrivacyCost(
        sum(epsilons[len(costs) - most_groups :], Fraction(0)), sum(deltas[len(costs) - most_groups :], Fraction(0))
    )


def parallel_share(whole: PrivacyCost, groups: int, unit: PrivacyUnit) -> PrivacyCost:
    """The cost that each of several groups may have: the inverse of ``parallel_cost`` for equal groups."""
    most_groups = min(unit.rows_per_person, groups)
    if unit.neighbours == "add-remove":
        return PrivacyCost(whole.epsilon / most_groups, whole.delta / most_groups)
    epsilon = whole.epsilon / (2 * most_groups)
    return PrivacyCost(epsilon, whole.delta / (most_groups * _two_steps(epsilon)))


def parallel_steps(groups: int, unit: PrivacyUnit) -> int:
    """How many times the rho of one of several equal groups, under add/remove, they cost together.

    A person's rows vanish from at most k groups, k the rows per person or the number of groups if that is less: k.
    Under replace they may appear in as many: a group they only leave or only enter costs rho, and one they do both to
    is two steps away, which costs four times its rho (Bun and Steinke 2016, Proposition 1.9). So 4 k covers every
    choice.
    """
    most_groups = min(unit.rows_per_person, groups)
    return most_groups if unit.neighbours == "add-remove" else 4 * most_groups


def _two_steps(epsilon: Fraction) -> Fraction:
    """1 + exp(epsilon), never rounded down."""
    return 1 + exp_bounds(epsilon, 30)[1]


def _unclaimed_delta(delta: Fraction, events: Iterable[Event]) -> Fraction:
    """Delta less the deltas that events claim for themselves."""
    claimed = basic(events).delta
    if claimed >= delta:
        raise ReleaseError(
            f"the events claim delta {float(claimed):g} for themselves; ask at a delta above it, not {float(delta):g}"
        )
    return delta - claimed


def _at_most_basic(epsilon: float | Fraction, events: Collection[Event], delta: Fraction) -> PrivacyCost:
    """An epsilon rounded up, or basic composition's where that is less and its delta is allowed."""
    plain = basic(events)
    if epsilon == math.inf:
        return PrivacyCost(plain.epsilon, delta)
    above = rounded(Fraction(epsilon) * (1 + Fraction(1, 10**13)), up=True)
    return PrivacyCost(min(above, plain.epsilon) if plain.delta <= delta else above, delta)


@lru_cache(maxsize=4096)
def pure_rho(epsilon: Fraction) -> Fraction:
    """The least rho of every epsilon-DP mechanism: epsilon tanh(epsilon / 2), which randomised response attains."""
    low, _ = exp_bounds(-epsilon, DIGITS)
    return rounded(min(epsilon * (1 - low) / (1 + low), epsilon**2 / 2), up=True)


def shift_rho(law: NoiseLaw, distance: int, cells: int = 1) -> Fraction | None:
    """The least rho of one draw of noise that moves by a distance; None where the law has no log ratio."""
    if isinstance(law, DiscreteGaussian):
        return Fraction(distance**2) / (2 * Fraction(law.scale) ** 2)
    if isinstance(law, DiscreteLaplace):
        return laplace_rho(law.scale, distance)
    if isinstance(law, SumZeroLaplace) and distance == 2:
        return sum_zero_rho(law.scale, cells)
    epsilon = law.epsilon(distance)
    return None if epsilon is None else pure_rho(epsilon)


@lru_cache(maxsize=4096)
def laplace_rho(scale: float, distance: int) -> Fraction:
    """The least rho of discrete Laplace noise of scale b on a number that moves by d.

    (d - (1 - exp(-d / b)) / sinh(1 / b)) / b.
    """
    step = 1 / Fraction(scale)
    ratio, _ = exp_bounds(-step, DIGITS)
    _, end = exp_bounds(-distance * step, DIGITS)
    inverse_sinh = 2 * ratio / (1 - ratio**2)
    return rounded(step * (distance - max(Fraction(0), 1 - end) * inverse_sinh), up=True)


@lru_cache(maxsize=4096)
def sum_zero_rho(scale: float, cells: int) -> Fraction:
    """The least rho of noise of scale b that sums to zero over cells, where a row moves from one cell to another.

    a (1 - exp(-2 / b)) 2 / b, with a the probability of the largest loss (``composition.sum_zero_loss``), bounded
    above.
    """
    loss = 2 / Fraction(scale)
    low, high = exp_bounds(-loss, DIGITS)
    few = min(cells, MOST_CELLS)
    largest = Fraction(_square_sum(few - 1, high, up=True)) / Fraction(_square_sum(few, low, up=False))
    return rounded(loss * largest * (1 - low), up=True)


def _square_sum(cells: int, x: Fraction, *, up: bool) -> Decimal:
    """The sum over j of C(cells - 1, j)^2 x^j, all of whose terms are positive, rounded in one direction."""
    context = Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR, Emin=-(10**9), Emax=10**9)
    base = context.divide(Decimal(x.numerator), Decimal(x.denominator))
    term = total = Decimal(1)
    for j in range(cells - 1):
        grown = context.multiply(term, Decimal((cells - 1 - j) ** 2))
        term = context.multiply(context.divide(grown, Decimal((j + 1) ** 2)), base)
        total = context.add(total, term)
    return total
