"""The weight of the target's sum in a regression's release, chosen from what is public alone.

Noise on the sums drowns the slopes first, then the target's mean; a prediction worse than that mean is of no use. At
large n epsilon the mean is known anyway. At small ones a larger weight on its sum makes it known at the price of slopes
that could not be known.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS
from dpgraph.privacy.records import Number, PrivacyUnit, exact
from dpgraph.structure.design import MOST_SUM, RESOLUTION, LinearDesign

#: The deviation of the noise on the target's mean that is aimed at, in halves of the target's bounds.
WANTED = 0.018

#: The largest weight used, and that where n is private. More hardly lowers the sum's noise: 2 / epsilon is its end.
LARGEST, WITHOUT_N = 256, 6
#: The largest where noise is Gaussian: movement adds in squares, so the weighted sum's soon is nearly all of it.
LARGEST_GAUSSIAN = 25


def weighted_mean(statistics: Any, epsilon: Number, unit: PrivacyUnit, *, gaussian: bool = False) -> Any:
    """The same sums, the target's with the weight that n and epsilon ask for; additive mechanisms plan by this."""
    design = getattr(statistics, "description", None)
    if not isinstance(design, LinearDesign):
        return statistics
    n = statistics.sensitive_rows if unit.n_is_public else None
    planned = weighted_design(design, epsilon, unit, n, gaussian=gaussian)
    return statistics if planned is design else replace(statistics, description=planned)


def weighted_design(
    design: LinearDesign, epsilon: Number, unit: PrivacyUnit, n: int | None, *, gaussian: bool = False
) -> LinearDesign:
    """The design with the weight that a release of n rows chooses, n None where it is private; see above."""
    if not design.intercept or design.mean_weight is not None:
        return design
    weight = advised_weight(design, exact(epsilon), unit, n)
    return design.with_mean_weight(min(weight, LARGEST_GAUSSIAN) if gaussian else weight)


def advised_weight(design: LinearDesign, epsilon: Fraction, unit: PrivacyUnit, n: int | None) -> int:
    """The least weight with which the noise on the target's mean is ``WANTED``, or the largest one worth having.

    With weight w the noise on the sum has deviation sqrt(2) (S + 2 (w - c)) / (w epsilon), with S the movement of all
    sums at the weight c they have anyway. No weight is so large that its noise would be refused where c's is not.

    >>> design = LinearDesign({f"x{i}": (-1, 1) for i in range(7)}, "y", (-1, 1))
    >>> [advised_weight(design, Fraction(1, 10), PrivacyUnit(), n) for n in (1_000, 10_000, 100_000)]
    [256, 5, 2]
    """
    if n is None:
        return max(design.copies, WITHOUT_N)
    movement = design.sensitivity(unit) / RESOLUTION**2 / unit.rows_per_person
    room = WANTED * float(epsilon) * n / math.sqrt(2) / unit.rows_per_person - 2
    needed = LARGEST if room <= 0 else math.ceil((movement - 2 * design.copies) / room)
    quiet = MAX_SCALE_IN_STEPS * float(epsilon) / RESOLUTION**2 / unit.rows_per_person - movement
    allowed = design.copies + math.ceil(quiet / 2) - 1
    return max(design.copies, min(LARGEST, needed, allowed, MOST_SUM // (RESOLUTION**2 * max(1, n))))
