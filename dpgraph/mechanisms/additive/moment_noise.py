"""Integer noise on the blocks of any description, Laplace or Gaussian: the plan of a family that brings none.

All blocks share one scale. Sensitivity: one person's rows move block m by at most ``movement.l1`` in L1, as its
description says, so all blocks together by at most the sum (proofs.md P73); every integer gets its own draw of scale
sum / epsilon, and the release is epsilon-DP. Gaussian noise has scale^2 at least the sum of the squared L2
sensitivities over 2 rho, so it is rho-zCDP. One draw shared by all sums, as in the reference code of Bernstein and
Sheldon 2018, would show their differences exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from dpgraph.lazy import provided
from dpgraph.privacy.arrays import Integers
from dpgraph.privacy.descriptions import Block, Description, Name, Statistics, is_readable, noisy_value
from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS, Noise, calibrated_gaussian_scale, calibrated_scale
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Measurement,
    NoiseLaw,
    Number,
    PrivacyUnit,
    ReleaseError,
    SumZeroLaplace,
)
from dpgraph.structure.frozen import FrozenMap
from dpgraph.waiting import counted

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
    return released_value(statistics, plan, with_noise(plan, true, noise), unit)


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


def released_value(
    statistics: Statistics, plan: Sequence[Measurement], values: Mapping[Name, Any], unit: PrivacyUnit
) -> Any:
    """The meaning of noisy integers, with their laws and, where it is public, the number of rows."""
    n = statistics.sensitive_rows if unit.n_is_public else None
    laws = FrozenMap((m.table, m.law) for m in plan)
    return noisy_value(statistics.description, FrozenMap(values), laws, n, unit)


def _blocks(description: Description, unit: PrivacyUnit) -> tuple[Block, ...]:
    """The blocks of a description whose noisy integers mean something."""
    if not callable(getattr(description, "blocks", None)) or not is_readable(description):
        raise ReleaseError(
            f"noisy integers of a {type(description).__name__} have no meaning that is known: give it a method noisy"
        )
    return description.blocks(unit)


def weighted_mean(statistics: Any, epsilon: Number, unit: PrivacyUnit, *, gaussian: bool = False) -> Any:
    """The same sums, the target's with the weight that n and epsilon ask for; additive mechanisms plan by this."""
    design = getattr(statistics, "description", None)
    if not hasattr(design, "mean_weight"):
        return statistics
    n = None if not unit.n_is_public else statistics.sensitive_rows
    planned = provided("weighted_design")(design, epsilon, unit, n, gaussian=gaussian)
    return statistics if planned is design else replace(statistics, description=planned)
