"""Integer noise on the blocks of any description, Laplace or Gaussian: the plan of a family that brings none.

All blocks share one scale. Sensitivity: one person's rows move block m by at most ``movement.l1`` in L1, as its
description says, so all blocks together by at most the sum (proofs.md P73); every integer gets its own draw of scale
sum / epsilon, and the release is epsilon-DP. Gaussian noise has scale^2 at least the sum of the squared L2
sensitivities over 2 rho, so it is rho-zCDP. One draw shared by all sums, as in the reference code of Bernstein and
Sheldon 2018, would show their differences exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from dpgraph.privacy.checks import Integers
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import (
    Block,
    Description,
    DiscreteGaussian,
    DiscreteLaplace,
    Measurement,
    Name,
    NoiseLaw,
    Statistics,
    SumZeroLaplace,
    is_readable,
    noisy_value,
)
from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS, Noise, calibrated_gaussian_scale, calibrated_scale
from dpgraph.privacy.records import Number, PrivacyUnit, exact
from dpgraph.structure.frozen import FrozenMap
from dpgraph.waiting import counted

if TYPE_CHECKING:
    from dpgraph.structure.design import LinearDesign

#: The deviation of the noise on a regression's target mean that is aimed at, in halves of the target's bounds.
WANTED = 0.018
#: The largest weight of the target's sum, and that where n is private. More hardly lowers its noise: 2 / epsilon ends.
LARGEST, WITHOUT_N = 256, 6
#: What a sum times its weight stays below, with room for noise.
MOST_SUM = 1 << 62
#: The largest where noise is Gaussian: movement adds in squares, so the weighted sum's soon is nearly all of it.
LARGEST_GAUSSIAN = 25

Plan = tuple[Measurement, ...]


def laplace_plan(
    description: Description,
    epsilon: Fraction,
    unit: PrivacyUnit,
    shape: Literal["auto", "independent", "sum-zero"] = "auto",
) -> Plan:
    """One measurement a block, with Laplace noise of one scale."""
    blocks = _blocks(description, unit)
    if shape == "sum-zero" and not all(block.movement.fixed_total for block in blocks):
        raise ReleaseError('noise="sum-zero" needs statistics that sum to a public n: a Multinomial under "replace"')
    moved = sum(block.movement.l1 for block in blocks)
    scale = calibrated_scale(max(1, moved), epsilon, MAX_SCALE_IN_STEPS)
    return tuple(
        Measurement(
            block.name,
            block.cells,
            (SumZeroLaplace if block.movement.fixed_total and shape != "independent" else DiscreteLaplace)(scale),
            block.movement,
        )
        for block in blocks
    )


def gaussian_plan(description: Description, rho: Fraction, unit: PrivacyUnit) -> Plan:
    """One measurement a block, with Gaussian noise of one scale."""
    blocks = _blocks(description, unit)
    moved = sum(block.movement.l2_squared for block in blocks)
    law = DiscreteGaussian(calibrated_gaussian_scale(max(1, moved), rho, MAX_SCALE_IN_STEPS))
    return tuple(Measurement(block.name, block.cells, law, block.movement) for block in blocks)


def noisy_blocks(statistics: Statistics, plan: Plan, unit: PrivacyUnit, noise: Noise) -> Any:
    """Draws the noisy integers of each block; ``release`` calls this after the charge."""
    true = {m.table: statistics.sensitive_block(m.table, unit) for m in plan}
    values = with_noise(plan, true, noise)
    n = statistics.sensitive_rows if unit.n_is_public else None
    laws = FrozenMap((m.table, m.law) for m in plan)
    return noisy_value(statistics.description, FrozenMap(values), laws, n, unit)


def with_noise(plan: Plan, true: Mapping[Name, Integers], noise: Noise) -> dict[Name, Integers]:
    """The exact integers of each block with noise: one call for each law, one for each block that sums to zero."""
    groups: dict[tuple[NoiseLaw, Name | None], list[Measurement]] = {}
    for m in plan:
        groups.setdefault((m.law, m.table if m.law.sums_to_zero else None), []).append(m)
    done: dict[Name, Integers] = {}
    for (law, _), sharing in counted(list(groups.items())):
        flat = noise.add(np.concatenate([true[m.table].ravel() for m in sharing]), law)
        for m in sharing:
            done[m.table] = flat[: m.cells].reshape(true[m.table].shape)
            flat = flat[m.cells :]
    return {m.table: done[m.table] for m in plan}


def _blocks(description: Description, unit: PrivacyUnit) -> tuple[Block, ...]:
    """The blocks of a description whose noisy integers mean something."""
    if not callable(getattr(description, "blocks", None)) or not is_readable(description):
        raise ReleaseError(
            f"noisy integers of a {type(description).__name__} have no meaning that is known: give it a method noisy"
        )
    return description.blocks(unit)


def weighted_mean(statistics: Any, epsilon: Number, unit: PrivacyUnit, *, gaussian: bool = False) -> Any:
    """Sums of a regression with the weight of the target's sum chosen; other statistics as they are."""
    design: Any = getattr(statistics, "description", None)
    if not hasattr(design, "mean_weight"):
        return statistics
    n = None if not unit.n_is_public else statistics.sensitive_rows
    planned = weighted_design(design, epsilon, unit, n, gaussian=gaussian)
    return statistics if planned is design else replace(statistics, description=planned)


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
    movement = design.sensitivity(unit) / design.weight / unit.rows_per_person
    room = WANTED * float(epsilon) * n / math.sqrt(2) / unit.rows_per_person - 2
    needed = LARGEST if room <= 0 else math.ceil((movement - 2 * design.copies) / room)
    quiet = MAX_SCALE_IN_STEPS * float(epsilon) / design.weight / unit.rows_per_person - movement
    allowed = design.copies + math.ceil(quiet / 2) - 1
    room_for_sums = MOST_SUM // (design.weight * max(1, n))
    return max(design.copies, min(LARGEST, needed, allowed, room_for_sums))
