"""Noise on blocks of coefficients (``structure.basis``): the choice of blocks, the scale of each, and the draw.

The residual basis has one block for each subset of a family. Its contrasts are released in fixed point, so every
statistic is an exact integer sum, and the plans here are computed from those integers themselves.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dpgraph.mechanisms.additive.moment_noise import with_noise
from dpgraph.mechanisms.additive.sensitivity import GRID as GRID
from dpgraph.mechanisms.additive.sensitivity import block_measurements, block_movements, joint_distance
from dpgraph.privacy.noise import MAX_SCALE, Noise, calibrated_gaussian_scale, calibrated_scale
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Joint,
    Measurement,
    NoiseLaw,
    PrivacyUnit,
    ReleaseError,
)
from dpgraph.structure.basis import coefficient_blocks, error_weights, fixed_point
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Integers

#: Shares of a budget among blocks are whole multiples of one part in this many.
PARTS = 1 << 30

#: Scales of the residual basis are whole fractions of the largest weight; this is how finely.
WEIGHTS = 1 << 16


@dataclass(frozen=True)
class BlockPlan:
    """The noisy blocks, their grid and step, the added pseudo-records, and how far the blocks move together."""

    measurements: tuple[Measurement, ...]
    grid: int = 1
    step: int = 1
    pseudo_records: int = 0
    joint: Joint | None = None


def laplace_blocks(epsilon: Fraction, network: Network, unit: PrivacyUnit) -> BlockPlan:
    """A law for each block: scale proportional to 1 / weight, weight to (V_A / D_A)^(1/3), all in whole numbers.

    With L the largest sum of weight_A ||T_A - T'_A||_1 over neighbours and scale_A at least L / (epsilon weight_A), the
    log ratio is at most sum of ||T_A - T'_A||_1 / scale_A <= epsilon.
    """
    blocks = [block for block in coefficient_blocks(network) if block or not unit.n_is_public]
    moved = block_movements(network, tuple(blocks), GRID, unit)
    cost = error_weights(network, blocks)
    ideal = {block: (cost[block] / (moved[block].l1 / GRID)) ** (1 / 3) for block in blocks}
    largest = max(ideal.values(), default=1.0)
    return weighted_blocks(epsilon, network, unit, {b: max(1, round(WEIGHTS * ideal[b] / largest)) for b in blocks})


def weighted_blocks(epsilon: Fraction, network: Network, unit: PrivacyUnit, weights: dict[Family, int]) -> BlockPlan:
    """The plan of given weights: the smallest scales that they allow."""
    together = joint_distance(network, tuple(weights), tuple(weights.values()), GRID, unit)
    if weights and Fraction(together) / (epsilon * min(weights.values())) > MAX_SCALE:
        raise ReleaseError(f"epsilon {float(epsilon):g} asks for so much noise that nothing could be learned from it")
    laws: dict[Family, NoiseLaw] = {
        block: DiscreteLaplace(calibrated_scale(together, epsilon * weight)) for block, weight in weights.items()
    }
    joint = Joint(tuple(weights.values()), together) if weights else None
    return BlockPlan(block_measurements(network, laws, unit), grid=GRID, joint=joint)


def gaussian_blocks(rho: Fraction, network: Network, unit: PrivacyUnit) -> BlockPlan:
    """Discrete Gaussian noise for each block: rho_A proportional to sqrt(p_A V_A), scale_A^2 at least L_A / (2 rho_A).

    L_A is the squared L2 sensitivity of the block's integers, GRID^2 p_A but for rounding. With exact p_A these are
    the optimal variances of ``allocation.residual_design`` (ResidualPlanner).
    """
    if unit.n_is_public:
        raise ReleaseError(
            'basis="residual" is optimal for an add-remove unit; under replace use basis="tables", which is within a '
            "few per cent of the best"
        )
    blocks = coefficient_blocks(network)
    cost = error_weights(network, blocks, network.shares if isinstance(network, Margins) else ())
    moved = {block: one.l2_squared for block, one in block_movements(network, tuple(blocks), GRID, unit).items()}
    roots = {block: (moved[block] * cost[block]) ** 0.5 for block in blocks}
    whole = sum(roots.values())
    parts = {block: max(1, round(PARTS * root / whole)) for block, root in roots.items()}
    total = sum(parts.values())
    laws: dict[Family, NoiseLaw] = {
        block: DiscreteGaussian(calibrated_gaussian_scale(moved[block], rho * Fraction(part, total)))
        for block, part in parts.items()
    }
    return BlockPlan(block_measurements(network, laws, unit), grid=GRID)


def noisy_coefficients(
    network: Network, plan: BlockPlan, true: dict[Family, Integers], rows: int, noise: Noise
) -> dict[Family, Integers]:
    """Adds noise; parity counts m are noised where the step is 2, and give back n - 2 m."""
    values = {m.table: true[m.table] * fixed_point(network.shape(m.table), plan.grid) for m in plan.measurements}
    if plan.step == 1:
        return with_noise(plan.measurements, values, noise)
    parities = {block: (rows - value) // 2 for block, value in values.items()}
    return {block: rows - 2 * value for block, value in with_noise(plan.measurements, parities, noise).items()}
