"""Integer noise on the blocks of any description, Laplace or Gaussian: the plan of a family that brings none.

All blocks share one scale. Sensitivity: one person's rows move block m by at most ``movement.l1`` in L1, as its
description says, so all blocks together by at most the sum (proofs.md P73); every integer gets its own draw of scale
sum / epsilon, and the release is epsilon-DP. Gaussian noise has scale^2 at least the sum of the squared L2
sensitivities over 2 rho, so it is rho-zCDP. One draw shared by all sums, as in the reference code of Bernstein and
Sheldon 2018, would show their differences exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, Literal

import dpgraph.structure.moments  # noqa: F401  what noisy sums stand for is registered there
from dpgraph.privacy.descriptions import Block, Description, Name, Statistics, is_readable, noisy_value
from dpgraph.privacy.noise import MAX_SCALE_IN_STEPS, Noise, calibrated_gaussian_scale, calibrated_scale
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Measurement,
    PrivacyUnit,
    ReleaseError,
    SumZeroLaplace,
)
from dpgraph.structure.frozen import FrozenMap

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
    """Draws the noisy integers of each block, one draw each; ``release`` calls this after the charge."""
    values: dict[Name, Any] = {}
    for m in plan:
        true = statistics.sensitive_block(m.table, unit)
        values[m.table] = noise.add(true.ravel(), m.law).reshape(true.shape)
    return released_value(statistics, plan, values, unit)


def released_value(
    statistics: Statistics, plan: Sequence[Measurement], values: Mapping[Name, Any], unit: PrivacyUnit
) -> Any:
    """What noisy integers stand for, with their laws and, where it is public, the number of rows."""
    n = statistics.sensitive_rows if unit.n_is_public else None
    laws = FrozenMap((m.table, m.law) for m in plan)
    return noisy_value(statistics.description, FrozenMap(values), laws, n, unit)


def _blocks(description: Description, unit: PrivacyUnit) -> tuple[Block, ...]:
    """The blocks of a description whose noisy integers mean something."""
    if not callable(getattr(description, "blocks", None)) or not is_readable(description):
        raise ReleaseError(
            f"{type(description).__name__} does not say what noisy integers of it stand for: give it a method noisy"
        )
    return description.blocks(unit)
