"""How the costs of several events add up: one after the other on the same rows, or side by side on disjoint rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from dpgraph.privacy.noise import epsilon_of_rho, exp_bounds
from dpgraph.privacy.records import Event, NoiseLaw, PrivacyCost, PrivacyUnit, ReleaseError, SumZeroLaplace, rounded

#: Mechanisms whose measurements are contingency tables, so that the recorded laws say all there is to price.
TABLE_MECHANISMS = frozenset({"LaplaceMechanism", "GaussianMechanism"})


def basic(events: Iterable[Event]) -> PrivacyCost:
    """Epsilons and deltas add; exact."""
    return sum((PrivacyCost(event.epsilon, event.delta) for event in events), PrivacyCost(Fraction(0)))


def advanced(events: Collection[Event], delta: Fraction) -> PrivacyCost:
    """The k-fold advanced composition of Dwork, Rothblum and Vadhan 2010, Theorem III.3, with unequal epsilons.

    sqrt(2 ln(1 / d) sum epsilon_i^2) + sum epsilon_i (exp(epsilon_i) - 1), where d is what the events' own deltas
    leave of delta. The papers use it so (Foulds et al. 2016, section 4). Each privacy loss lies in
    [-epsilon_i, epsilon_i] and has a mean of at most epsilon_i (exp(epsilon_i) - 1); the rest is Azuma's inequality.

    Raises:
        ReleaseError: If the events' own deltas leave nothing of delta.
    """
    slack = _left_of(delta, events)
    epsilons = [float(event.epsilon) for event in events]
    spread = math.sqrt(2 * _log_inverse(slack) * sum(epsilon**2 for epsilon in epsilons))
    drift = sum(epsilon * math.expm1(epsilon) if epsilon < 700 else math.inf for epsilon in epsilons)
    return _capped(spread + drift, events, delta)


def zero_concentrated(events: Collection[Event], delta: Fraction) -> PrivacyCost:
    """Composition in zCDP: the rhos add exactly, and OpenDP converts their sum at delta.

    An event that claims a rho is priced by it, a pure epsilon by epsilon^2 / 2 (Bun and Steinke 2016, Proposition
    1.4). An event with a delta and no rho is outside zCDP: its epsilon and delta are added to the rest.

    Raises:
        ReleaseError: If such deltas leave nothing of delta.
    """
    outside = [event for event in events if event.rho is None and event.delta > 0]
    slack = _left_of(delta, outside)
    inside = [event.epsilon**2 / 2 if event.rho is None else event.rho for event in events if event not in outside]
    converted = epsilon_of_rho(sum(inside, Fraction(0)), slack) if inside else Fraction(0)
    return _capped(converted + basic(outside).epsilon, events, delta)


def opened_tables(event: Event, unit: PrivacyUnit | None) -> Counter[tuple[NoiseLaw, int]]:
    """The independent noises that one moved row meets in an event, as (law, cells), each with how many times.

    One row under add/remove moves one cell of a table by one; under replace two cells, which meet independent noise
    twice, or noise that sums to zero once, where it matters how many cells share it. Empty where the record does not
    say as much: another mechanism, an unknown unit, or several rows per person, who may be alike or not.
    """
    if event.mechanism not in TABLE_MECHANISMS or unit is None or unit.rows_per_person > 1:
        return Counter()
    moved = 2 if unit.n_is_public else 1
    met = Counter[tuple[NoiseLaw, int]]()
    for measured in event.measurements:
        if measured.sensitivity not in (0, moved):
            return Counter()
        if measured.sensitivity and isinstance(measured.law, SumZeroLaplace):
            met[measured.law, measured.cells] += 1
        elif measured.sensitivity:
            met[measured.law, 1] += moved
    return met


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
    """What releases on disjoint groups of rows cost together, each group's cost being under add/remove.

    The groups are the levels of one declared variable, so a row is in exactly one. Let k be the rows per person, or
    the number of groups if that is less.

    * Under add/remove, a person's rows vanish from at most k groups, and no other group's rows change: the k largest
      costs add; for one row per person this is the maximum.
    * Under replace a person's rows may *move*. They vanish from at most k groups and appear in at most k. A group
      they only leave or only enter costs (epsilon, delta); one they do both to is two steps away,
      (2 epsilon, (1 + exp(epsilon)) delta) by the group property. No choice costs more than twice the k largest
      epsilons, and a row replaced within the dearest group, or moved between two groups of equal cost, attains it:
      for one row per person twice the maximum. A group's number of rows changes when a row moves, so it is not
      public though the whole n is.

    Args:
        costs: One cost a group, each under add/remove with the unit's rows per person.
        unit: Whom the whole protects.

    >>> costs = [PrivacyCost(Fraction(1, 2)), PrivacyCost(Fraction(1, 4))]
    >>> print(parallel_cost(costs, PrivacyUnit("add-remove")), "|", parallel_cost(costs, PrivacyUnit("replace")))
    epsilon 0.5 (pure) | epsilon 1 (pure)
    """
    if unit.neighbours == "replace":
        costs = [PrivacyCost(2 * one.epsilon, one.delta * _two_steps(one.epsilon)) for one in costs]
    dearest = min(unit.rows_per_person, len(costs))
    epsilons, deltas = sorted(one.epsilon for one in costs), sorted(one.delta for one in costs)
    return PrivacyCost(
        sum(epsilons[len(costs) - dearest :], Fraction(0)), sum(deltas[len(costs) - dearest :], Fraction(0))
    )


def parallel_share(whole: PrivacyCost, groups: int, unit: PrivacyUnit) -> PrivacyCost:
    """The inverse of ``parallel_cost`` for groups of equal cost, each under add/remove.

    >>> print(parallel_share(PrivacyCost(Fraction(1)), 4, PrivacyUnit("replace")))
    epsilon 0.5 (pure)
    """
    dearest = min(unit.rows_per_person, groups)
    if unit.neighbours == "add-remove":
        return PrivacyCost(whole.epsilon / dearest, whole.delta / dearest)
    epsilon = whole.epsilon / (2 * dearest)
    return PrivacyCost(epsilon, whole.delta / (dearest * _two_steps(epsilon)))


def _two_steps(epsilon: Fraction) -> Fraction:
    """1 + exp(epsilon), never rounded down."""
    return 1 + exp_bounds(epsilon, 30)[1]


def _left_of(delta: Fraction, events: Iterable[Event]) -> Fraction:
    """Delta without the deltas that events claim for themselves."""
    claimed = basic(events).delta
    if claimed >= delta:
        raise ReleaseError(
            f"the events claim delta {float(claimed):g} for themselves; ask at a delta above it, not {float(delta):g}"
        )
    return delta - claimed


def _log_inverse(delta: Fraction) -> float:
    """ln(1 / delta), for deltas a float cannot hold too."""
    return math.log(delta.denominator) - math.log(delta.numerator)


def _capped(epsilon: float | Fraction, events: Collection[Event], delta: Fraction) -> PrivacyCost:
    """An epsilon rounded up, or basic composition's where that is less and its delta is allowed."""
    plain = basic(events)
    if epsilon == math.inf:
        return PrivacyCost(plain.epsilon, delta)
    above = rounded(Fraction(epsilon) * (1 + Fraction(1, 10**13)), up=True)
    return PrivacyCost(min(above, plain.epsilon) if plain.delta <= delta else above, delta)
