"""The weight of the target's sum among the noisy sums of a regression, from public values alone."""

from __future__ import annotations

import math
from fractions import Fraction

from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS
from dpgraph.privacy.records import Number, PrivacyUnit, exact
from dpgraph.structure.design import MOST_SUM, RESOLUTION, LinearDesign

#: The deviation of the noise on the target's mean that is aimed at, in halves of the target's bounds.
WANTED = 0.018

#: The largest weight used, and that where n is private. More hardly lowers the sum's noise: 2 / epsilon is its end.
LARGEST, WITHOUT_N = 256, 6
#: The largest where noise is Gaussian: movement adds in squares, so the weighted sum's soon is nearly all of it.
LARGEST_GAUSSIAN = 25


def weighted_design(
    design: LinearDesign, epsilon: Number, unit: PrivacyUnit, n: int | None, *, gaussian: bool = False
) -> LinearDesign:
    """The design with the weight on the target's sum that a release of n rows chooses; n is None where it is private.

    Noise on the sums drowns the slopes first, then the target's mean. At small n epsilon a larger weight on its sum
    makes the mean known at the price of slopes that could not be known.
    """
    if not design.intercept or design.mean_weight is not None:
        return design
    weight = advised_weight(design, exact(epsilon), unit, n)
    return design.with_mean_weight(min(weight, LARGEST_GAUSSIAN) if gaussian else weight)


def advised_weight(design: LinearDesign, epsilon: Fraction, unit: PrivacyUnit, n: int | None) -> int:
    """The least weight with which the noise on the target's mean is ``WANTED``, or the largest one worth having.

    With weight w the noise on the sum has deviation sqrt(2) (S + 2 (w - c)) / (w epsilon), with S the movement of all
    sums at the weight c they have anyway. No weight is so large that its noise would be refused where c's is not.
    """
    if n is None:
        return max(design.copies, WITHOUT_N)
    movement = design.sensitivity(unit) / RESOLUTION**2 / unit.rows_per_person
    room = WANTED * float(epsilon) * n / math.sqrt(2) / unit.rows_per_person - 2
    needed = LARGEST if room <= 0 else math.ceil((movement - 2 * design.copies) / room)
    quiet = MAX_SCALE_IN_STEPS * float(epsilon) / RESOLUTION**2 / unit.rows_per_person - movement
    allowed = design.copies + math.ceil(quiet / 2) - 1
    return max(design.copies, min(LARGEST, needed, allowed, MOST_SUM // (RESOLUTION**2 * max(1, n))))
