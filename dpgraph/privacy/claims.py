"""The cost of an event's noise, recomputed from its laws and movements, so that its claim can be checked.

Sums of fractions are compared with claims exactly. Each law gives its own cost (``measurements.NoiseLaw``). For a
person who moves measurement m by d_m:

* discrete Laplace of scale b: the log ratio is at most ||d_m||_1 / b, which adds up over measurements; where the
  measurements move together by less (``Joint``), it is at most distance / (weight b) for the least weight b. It is
  ||d_m||_2^2 / (2 b^2)-zCDP, as a coordinate moved by d is (d / b)-DP (Bun and Steinke 2016, Proposition 1.4).
* Laplace noise that sums to zero: the same log ratio, and half its square in zCDP.
* discrete Gaussian: ||d_m||_2^2 / (2 scale^2)-zCDP (Canonne, Kamath and Steinke 2020, Theorem 4).
* a selection of epsilon: epsilon, and epsilon^2 / 8-zCDP for the exponential mechanism, else epsilon^2 / 2.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from dpgraph.privacy.measurements import Measurement, Movement

if TYPE_CHECKING:
    from dpgraph.privacy.records import Event

#: Sums of many fractions are compared on this grid first, where no common denominator is needed.
FINE = 1 << 256

#: How far, in nats of delta, floating point may miss in the conversion of rho.
SLACK = 1e-9


def exceeds(parts: Sequence[Fraction], limit: Fraction) -> bool:
    """True if the sum of fractions is above a limit, exactly."""
    below = sum(part.numerator * FINE // part.denominator for part in parts)
    if below * limit.denominator > limit.numerator * FINE:
        return True
    if (below + len(parts)) * limit.denominator <= limit.numerator * FINE:
        return False
    return sum(parts, Fraction(0)) > limit


def total_up(parts: Sequence[Fraction]) -> Fraction:
    """The sum of fractions: exact for a few different ones, else rounded up by less than one part in 2^240."""
    if len(parts) <= 16:
        return sum(parts, Fraction(0))
    above = sum(-(-part.numerator * FINE // part.denominator) for part in parts)
    return Fraction(above, FINE)


def pure_parts(measurements: Iterable[Measurement], least: int = 0) -> list[Fraction]:
    """The epsilons of measurements that have one, each moved by ``least`` or more; equal ones are added up."""
    alike = Counter((max(least, m.movement.l1), m.law) for m in measurements)
    return [times * cost for (moved, law), times in alike.items() if (cost := law.epsilon(moved)) is not None]


def concentrated_parts(measurements: Iterable[Measurement], least: int = 0) -> list[Fraction]:
    """The rhos of measurements, each moved by ``least`` (0 or 1) or more; equal ones are added up."""
    alike = Counter((m.movement if m.movement.l1 else Movement(least, least), m.law) for m in measurements)
    costs = Counter[Fraction]()
    for (moved, law), times in alike.items():
        costs[law.rho(moved)] += times
    return [times * cost for cost, times in costs.items()]


def joint_parts(event: Event) -> list[Fraction]:
    """The epsilon of each kind of measurement, as if it moved by the whole joint distance; [] without one."""
    if event.joint is None:
        return []
    alike = {(weight, m.law) for weight, m in zip(event.joint.weights, event.measurements, strict=True)}
    costs = (law.epsilon(Fraction(event.joint.distance, weight)) for weight, law in alike)
    return [cost for cost in costs if cost is not None]


def is_pure(event: Event) -> bool:
    """True if the noise of each measurement that moves has an epsilon: Gaussian noise has none."""
    return all(m.law.epsilon(m.movement.l1) is not None for m in event.measurements)


def epsilon_sums(event: Event) -> list[list[Fraction]]:
    """Lists of terms, each of which adds up to a valid epsilon of the event; none where there is Gaussian noise."""
    if not is_pure(event):
        return []
    chosen = [selection.epsilon * Fraction(selection.draws) for selection in event.selections]
    alone = pure_parts(event.measurements)
    together = joint_parts(event)
    return [alone + chosen] + ([[max(together), *chosen]] if together else [])


def claim_problem(event: Event) -> str | None:
    """Why an event's claim is below what its noise costs; None if it is not, or nothing was recorded."""
    if event.joint is not None and len(event.joint.weights) != len(event.measurements):
        return "has joint weights for other measurements than its own"
    if not event.measurements and not event.selections:
        return None
    ways = epsilon_sums(event)
    pure = any(not exceeds(parts, event.epsilon) for parts in ways)
    parts = concentrated_parts(event.measurements)
    parts += [one.draws * Fraction(one.epsilon) ** 2 / (8 if one.law == "softmax" else 2) for one in event.selections]
    if event.rho is not None and exceeds(parts, event.rho) and not (pure and 2 * event.rho >= event.epsilon**2):
        return f"claims rho {float(event.rho):.9g}, but its noise costs rho {float(total_up(parts)):.9g}"
    if pure:
        return None
    if event.delta == 0:
        if not ways:
            return "claims delta 0, but Gaussian noise is never purely private"
        least = min(total_up(parts) for parts in ways)
        return f"claims epsilon {float(event.epsilon):.9g}, but its noise costs epsilon {float(least):.9g}"
    return conversion_problem(event, total_up(parts) if event.rho is None else event.rho)


def conversion_problem(event: Event, rho: Fraction) -> str | None:
    """Why an event's epsilon and delta are less than a rho costs; None if they are not."""
    if event.delta == 0:
        return "claims delta 0 and a rho alone, which is never purely private"
    if _log_delta(float(rho), float(event.epsilon)) > _log(event.delta) + SLACK * (1 - _log(event.delta)):
        return (
            f"claims epsilon {float(event.epsilon):.9g} at delta {float(event.delta):.3g}, less than its noise costs "
            f"at rho {float(rho):.9g}"
        )
    return None


def movement_problem(event: Event, rows_per_person: int) -> str | None:
    """Why an event's movements are impossible for persons with so many rows; None if they are possible.

    All of a person's rows may be alike, so everything moves as many times as far as by one row, and a coordinate that
    moves at all may move by as many.
    """
    for m in event.measurements:
        moved = m.movement
        if moved.l1 % rows_per_person or moved.l2_squared % rows_per_person**2:
            return f"{', '.join(m.table)} is said to move by {moved}, no multiple of {rows_per_person} rows"
        if moved.moved_cells and rows_per_person > 1:
            return f"{', '.join(m.table)} is said to move by one in each cell, not by {rows_per_person} rows"
    return None


def _log_delta(rho: float, epsilon: float) -> float:
    """The log of the least delta at which rho-zCDP is (epsilon, delta)-DP, by Canonne, Kamath and Steinke 2020.

    min over a > 1 of (a - 1)(a rho - epsilon) - ln(a - 1) + a ln(1 - 1 / a) (Corollary 13), by bisection of its
    derivative. OpenDP, which mechanisms convert with, never gives less.
    """
    low, high = 1 + 2.0**-40, 2 + (epsilon + 1) / (2 * rho)
    for _ in range(200):
        middle = (low + high) / 2
        slope = (2 * middle - 1) * rho - epsilon + math.log1p(-1 / middle)
        low, high = (middle, high) if slope < 0 else (low, middle)
    return (high - 1) * (high * rho - epsilon) - math.log(high - 1) + high * math.log1p(-1 / high)


def _log(delta: Fraction) -> float:
    return math.log(delta.numerator) - math.log(delta.denominator)
