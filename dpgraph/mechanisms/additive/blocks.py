"""Coefficients of tables (``structure.tables``): how far one person moves them, the scale of each block, and the draw.

The residual basis has one block for each subset of a family, whose contrasts are released in fixed point: exact integer
sums, from which sensitivities are computed. Blocks do not all move at once under replace; the largest sums of local
terms are found by variable elimination on the moral graph (proofs.md P3 to P7).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpgraph.mechanisms.additive.plans import Scale, with_noise
from dpgraph.privacy.checks import Integers
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, Joint, Measurement, Movement, NoiseLaw
from dpgraph.privacy.noise import MAX_SCALE, Noise, calibrated_scale
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.elimination import elimination_order, largest_sum
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import MAX_FAMILY_CELLS, Family, Network
from dpgraph.structure.tables import (
    MAX_BLOCKS,
    NoisyCoefficients,
    block_shape,
    cell_variance,
    check_levels,
    coefficient_blocks,
    contrast_blocks,
    contrast_matrix,
    error_weights,
    fixed_point,
    has_blocks,
    residual_variance,
)

#: The fixed-point resolution of the residual basis: multipliers err by half of one part in this, before contrasts.
GRID = 1 << 16
#: Shares of a budget among blocks are whole multiples of one part in this many.
PARTS = 1 << 30
#: Scales of the residual basis are whole fractions of the largest weight; this is how finely.
WEIGHTS = 1 << 16
#: The most cells of one table of the elimination; beyond it the answer becomes an upper bound.
MAX_ELIMINATION_CELLS = 1 << 21
#: Pairs of cells times coefficients of one block, and pairs of cells of all blocks together, that are enumerated.
MAX_BLOCK_WORK, MAX_PAIRS = 1 << 26, 1 << 23


@lru_cache(maxsize=64)
def parity_sensitivity(network: Network, limit: int = MAX_ELIMINATION_CELLS) -> tuple[int, bool]:
    """The most parities of the closure that two rows can differ in, or a bound on it (P3), and whether it is exact."""
    blocks = [block for block in coefficient_blocks(network) if block]
    odd = ((block, np.indices((2,) * len(block)).sum(axis=0) % 2) for block in blocks)
    value, exact = largest_sum(odd, elimination_order(network)[0], limit)
    return min(value, len(blocks)), exact or value == 0


def block_sensitivity(network: Network, block: Family, grid: int, unit: PrivacyUnit) -> int:
    """The L1 sensitivity of a block of fixed-point contrasts (proofs.md P6); twice add-remove's for a large block."""
    shape = network.shape(block)
    moved = int(fixed_point(shape, grid).sum())
    if unit.n_is_public:
        moved = 0 if not block else int(_distances(shape, grid).max()) if _is_small(shape) else 2 * moved
    return moved * unit.rows_per_person


def block_l2_squared(network: Network, block: Family, grid: int, unit: PrivacyUnit) -> int:
    """The squared L2 sensitivity of a block of fixed-point contrasts under add/remove, the largest over cells (P6)."""
    squares = fixed_point(network.shape(block), grid) ** 2
    for axis, size in enumerate(network.shape(block)):
        rows = np.moveaxis(squares, axis, 0)
        levels = np.zeros((size, *rows.shape[1:]), np.int64)
        levels[:-1] = rows[::-1].cumsum(axis=0)[::-1]
        levels[1:] += (rows.T * np.arange(1, size) ** 2).T
        squares = np.moveaxis(levels, 0, axis)
    return int(squares.max()) * unit.rows_per_person**2


@lru_cache(maxsize=16)
def block_movements(
    network: Network, blocks: tuple[Family, ...], grid: int, unit: PrivacyUnit
) -> FrozenMap[Family, Movement]:
    """How far one person moves each block of fixed-point contrasts; under replace the square is a bound (P6)."""
    for size in {size for block in blocks for size in network.shape(block)}:
        check_levels(size)
    if (size := sum(math.prod(block_shape(network, block)) for block in blocks)) > MAX_FAMILY_CELLS:
        raise NetworkError(f"the blocks have {size:,} coefficients, more than {MAX_FAMILY_CELLS:,}; use coarser levels")
    found: dict[tuple[int, ...], Movement] = {}
    for block in blocks:
        shape = network.shape(block)
        if shape not in found:
            l1 = block_sensitivity(network, block, grid, unit)
            square = block_l2_squared(network, block, grid, unit)
            square = min(4 * square, l1**2) if unit.n_is_public else square
            found[shape] = Movement(l1, square, l1 if l1 <= 1 else None)
    return FrozenMap((block, found[network.shape(block)]) for block in blocks)


@lru_cache(maxsize=16)
def joint_sensitivity(
    network: Network, weights: FrozenMap[Family, int], grid: int, unit: PrivacyUnit, limit: int = MAX_ELIMINATION_CELLS
) -> tuple[int, bool]:
    """max over neighbours of sum_A weight_A ||T_A - T'_A||_1, by elimination or a bound, and if it is attained (P7)."""
    paired = [block for block in weights if block and unit.n_is_public and _is_small(network.shape(block))]
    if sum(network.cells(block) ** 2 for block in paired) > MAX_PAIRS:
        paired = []
    factors, rest = [], {block: weight for block, weight in weights.items() if block not in set(paired)}
    for block in paired:
        shape = network.shape(block)
        cells = weights[block] * _distances(shape, grid).reshape(shape + shape)
        axes = [axis for i in range(len(shape)) for axis in (i, i + len(shape))]
        factors.append((block, cells.transpose(axes).reshape([size**2 for size in shape])))
    value, exact = largest_sum(factors, elimination_order(network)[0], limit)
    one = PrivacyUnit(unit.neighbours)
    value += sum(weight * block_sensitivity(network, block, grid, one) for block, weight in rest.items())
    return value * unit.rows_per_person, exact and not (unit.n_is_public and any(rest))


def _is_small(shape: tuple[int, ...]) -> bool:
    """True if all pairs of a block's cells are enumerated."""
    return math.prod(shape) ** 2 * math.prod(size - 1 for size in shape) <= MAX_BLOCK_WORK


@lru_cache(maxsize=64)
def _distances(shape: tuple[int, ...], grid: int) -> Integers:
    """The L1 distance of the fixed-point contrasts of any two rows, by their cells in the block's table."""
    rows = np.ones((1, 1), np.int64)
    for size in shape:
        rows = np.kron(rows, contrast_matrix(size)[1:])
    distances = np.zeros((rows.shape[1],) * 2, np.int64)
    for multiplier, row in zip(fixed_point(shape, grid).ravel(), rows, strict=True):
        distances += multiplier * np.abs(row[:, None] - row[None, :])
    return distances


@dataclass(frozen=True)
class BlockPlan:
    """The noisy blocks, their grid and step, the added pseudo-records, and how far the blocks move together."""

    measurements: tuple[Measurement, ...]
    grid: int = 1
    step: int = 1
    pseudo_records: int = 0
    joint: Joint | None = None

    def variance(self, network: Network) -> dict[Family, float]:
        """The mean noise variance of one cell of each family table, in closed form (proofs.md P5)."""
        variances = dict.fromkeys(coefficient_blocks(network), 0.0)
        for m in self.measurements:
            variances[m.table] = residual_variance(network, m.table, m.law, self.grid, self.step)
        return {family: cell_variance(network, variances, family) for family in network.families}

    def released(self, statistics: Any, unit: PrivacyUnit, noise: Noise) -> NoisyCoefficients:
        """Draws the noisy coefficients; parity counts m are noised where the step is 2, and give back n - 2 m."""
        network, rows = statistics.network, statistics.sensitive_rows
        tables = sorted(network.maximal_families, key=network.cells)
        true = contrast_blocks(network, ((table, statistics.sensitive_margin(table)) for table in tables))
        values = {m.table: true[m.table] * fixed_point(network.shape(m.table), self.grid) for m in self.measurements}
        if self.step == 2:
            values = {block: (rows - value) // 2 for block, value in values.items()}
        noisy = with_noise(self.measurements, values, noise)
        if self.step == 2:
            noisy = {block: rows - 2 * value for block, value in noisy.items()}
        laws = FrozenMap((m.table, m.law) for m in self.measurements)
        n = rows if unit.n_is_public else None
        return NoisyCoefficients(network, FrozenMap(noisy), laws, n, self.grid, self.step, self.pseudo_records)


def laplace_blocks(epsilon: Fraction, network: Network, unit: PrivacyUnit) -> BlockPlan:
    """A law for each block, of scale proportional to (D_A / V_A)^(1/3), in whole weights (proofs.md P28, P32)."""
    blocks = [block for block in coefficient_blocks(network) if block or not unit.n_is_public]
    moved = block_movements(network, tuple(blocks), GRID, unit)
    cost = error_weights(network, blocks)
    ideal = {block: (cost[block] / (moved[block].l1 / GRID)) ** (1 / 3) for block in blocks}
    largest = max(ideal.values(), default=1.0)
    return weighted_blocks(epsilon, network, unit, {b: max(1, round(WEIGHTS * ideal[b] / largest)) for b in blocks})


def weighted_blocks(epsilon: Fraction, network: Network, unit: PrivacyUnit, weights: dict[Family, int]) -> BlockPlan:
    """The plan of given weights: the smallest scales that they allow."""
    together, _ = joint_sensitivity(network, FrozenMap(weights), GRID, unit)
    if weights and Fraction(together) / (epsilon * min(weights.values())) > MAX_SCALE:
        raise ReleaseError(f"epsilon {float(epsilon):g} asks for so much noise that nothing could be learned from it")
    laws: dict[Family, NoiseLaw] = {
        block: DiscreteLaplace(calibrated_scale(together, epsilon * weight)) for block, weight in weights.items()
    }
    joint = Joint(tuple(weights.values()), together) if weights else None
    return BlockPlan(block_measurements(network, laws, unit), grid=GRID, joint=joint)


def gaussian_blocks(scale: Scale, network: Network, unit: PrivacyUnit) -> BlockPlan:
    """Gaussian noise for each block, its share proportional to sqrt(p_A V_A): ResidualPlanner's (proofs.md P29)."""
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
        block: DiscreteGaussian(scale(moved[block], Fraction(part, total))) for block, part in parts.items()
    }
    return BlockPlan(block_measurements(network, laws, unit), grid=GRID)


def block_measurements(network: Network, laws: dict[Family, NoiseLaw], unit: PrivacyUnit) -> tuple[Measurement, ...]:
    """Blocks of the residual basis with these laws, moved as the network's domain says."""
    moved = block_movements(network, tuple(laws), GRID, unit)
    return tuple(
        Measurement(block, math.prod(block_shape(network, block)), law, moved[block]) for block, law in laws.items()
    )


def whose_blocks(network: Network, measured: Sequence[Family]) -> Network | None:
    """The network whose blocks these are: this one, or tables over its variables; None if there is none."""
    found = set(measured)
    if has_blocks(network, found):
        return network
    if () not in found or any(2 ** len(block) > len(found) for block in found):
        return None  # a block is there with its subsets
    if not all(name in network.domain for block in found for name in block):
        return None
    covered = {block[:i] + block[i + 1 :] for block in found for i in range(len(block))}
    largest = sorted(block for block in found - covered if block)
    if not largest or sum(2 ** len(block) for block in largest) > MAX_BLOCKS:
        return None
    tables = Margins.of_tables(network.domain, largest)
    return tables if has_blocks(tables, found) else None
