"""Plans of additive noise: the tables or blocks to measure, their shares of epsilon, and the noise of any description.

A description without a plan of its own has one scale for all blocks. Sensitivity: one person's rows move block m by at
most ``movement.l1``, so all by at most the sum, and every integer gets its own draw of scale sum / epsilon (proofs.md
P73); of Gaussian noise the squares add up. One draw shared by all sums would show their differences.

The residual basis (``structure.tables``) has one block for each subset of a family, whose contrasts are released in
fixed point: exact integer sums, from which sensitivities are computed. Blocks do not all move at once under replace;
the largest sums of local terms are found by variable elimination on the moral graph (proofs.md P3 to P7).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import (
    Block,
    Description,
    DiscreteGaussian,
    DiscreteLaplace,
    Joint,
    Measurement,
    Movement,
    Name,
    NoiseLaw,
    Statistics,
    SumZeroLaplace,
    is_readable,
    noisy_value,
)
from dpgraph.privacy.noise import MAX_SCALE, MAX_SCALE_IN_STEPS, Noise, calibrated_scale
from dpgraph.privacy.records import Number, PrivacyUnit, exact
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.elimination import elimination_order, largest_sum
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import Margins, measured_families, weights
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
    ordered,
    residual_variance,
    subsets,
)
from dpgraph.waiting import counted

if TYPE_CHECKING:
    from dpgraph.structure.design import LinearDesign

Tables = Literal["merged", "maximal", "families"]
Allocation = Literal["optimal", "uniform"]
#: The most updates of optimal budgets; ten are enough on every bundled network.
ROUNDS = 30
#: Shares are whole multiples of one part in this many, so that they are exact and short to write.
RESOLUTION = 1_000_000
#: The deviation of the noise on a regression's target mean that is aimed at, in halves of the target's bounds.
WANTED = 0.018
#: The largest weight of the target's sum, and that where n is private. More hardly lowers its noise: 2 / epsilon ends.
LARGEST, WITHOUT_N = 256, 6
#: What a sum times its weight stays below, with room for noise.
MOST_SUM = 1 << 62
#: The largest where noise is Gaussian: movement adds in squares, so the weighted sum's soon is nearly all of it.
LARGEST_GAUSSIAN = 25
Plan = tuple[Measurement, ...]
#: Of a squared L2 sensitivity and a share of a budget, and of a largest scale: the smallest scale that it pays for.
Scale = Callable[..., float]


def measured_tables(network: Network, tables: Tables) -> tuple[Family, ...]:
    """The measured sets: each variable's family (Zhang et al. 2016), the maximal ones, or these merged."""
    match tables:
        case "families":
            return network.families
        case "maximal":
            return network.maximal_families
        case "merged":
            return measured_families(network)


def shares(
    network: Network,
    tables: Sequence[Family],
    allocation: Allocation,
    *,
    power: float = 1 / 3,
    spreads: Sequence[float] = (),
    n_is_public: bool = False,
) -> tuple[Fraction, ...]:
    """Each table's part of the budget, exact: least error after least squares (P30), margins' own, or uniform."""
    if allocation == "uniform":
        return (Fraction(1, len(tables)),) * len(tables)
    if isinstance(network, Margins) and network.shares and tuple(tables) == network.tables:
        return tuple(Fraction(share, sum(network.shares)) for share in network.shares)
    ideal = closed_form_shares(network, tables, power)
    if len(tables) > 1:
        ideal = _least_squares_shares(network, tables, np.asarray(spreads, float), ideal, 1 / power - 1, n_is_public)
    parts = [max(1, round(float(part) * RESOLUTION)) for part in ideal]
    return tuple(Fraction(part, sum(parts)) for part in parts)


def closed_form_shares(network: Network, tables: Sequence[Family], power: float) -> Reals:
    """The shares with the least error where each family is read from one measured table (proofs.md P28)."""
    roots = np.array([weight**power for weight in weights(network, tables)])
    return roots / roots.sum()


def _least_squares_shares(
    network: Network, tables: Sequence[Family], spreads: Reals, start: Reals, order: float, n_is_public: bool
) -> Reals:
    """Minimises the error after least squares by s_m <- s_m g_m^(1 / (order + 1)), g_m minus its slope (P30)."""
    blocks = [block for block in coefficient_blocks(network) if block or not n_is_public]
    cost = np.array(list(error_weights(network, blocks).values()))
    index = {frozenset(block): i for i, block in enumerate(blocks)}
    entries = [
        (index[frozenset(block)], m, 1 / (spreads[m] * math.prod(network.shape(tuple(set(table) - set(block))))))
        for m, table in enumerate(tables)
        for block in subsets(ordered(network, table))
        if frozenset(block) in index
    ]
    if not entries:  # nothing is unknown: variables of one level and a public n
        return start
    rows, columns, values = (np.array(part) for part in zip(*entries, strict=True))
    part = start
    for _ in range(ROUNDS):
        precision = np.bincount(rows, values * (part**order)[columns], len(blocks))
        slope = np.bincount(columns, values * (cost / precision**2)[rows], len(tables)) * part ** (order - 1)
        moved = part * slope ** (1 / (order + 1))
        moved = np.maximum(moved / max(moved.sum(), 1e-300), 1 / RESOLUTION)
        moved = moved / moved.sum()
        close = np.abs(moved / part - 1).max() < 1e-7
        part = moved
        if close:
            break
    return part


class ResidualDesign(NamedTuple):
    """Noise variances of the residual basis: one for each subset of a family, and the total squared error."""

    variances: dict[Family, float]
    total: float


def residual_design(network: Network, rho: Fraction | float) -> ResidualDesign:
    """The optimal Gaussian noise in the residual basis under add/remove (ResidualPlanner; proofs.md P29)."""
    sizes = network.domain.sizes
    counted = network.shares if isinstance(network, Margins) else ()
    weight = error_weights(network, network.downward_closure(), counted)
    moved = {block: math.prod(1 - 1 / sizes[name] for name in block) for block in weight}
    live = [block for block in weight if moved[block] > 0]
    whole = sum(math.sqrt(moved[block] * weight[block]) for block in live)
    variances = {block: math.sqrt(moved[block] / weight[block]) * whole / (2 * float(rho)) for block in live}
    return ResidualDesign(variances, whole**2 / (2 * float(rho)))


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
    alone, together = DiscreteLaplace(scale), SumZeroLaplace(scale)
    laws = [together if one.movement.fixed_total and shape != "independent" else alone for one in blocks]
    return tuple(Measurement(one.name, one.cells, law, one.movement) for one, law in zip(blocks, laws, strict=True))


def gaussian_plan(description: Description, scale: Scale, unit: PrivacyUnit) -> Plan:
    """One measurement a block, with Gaussian noise of one scale."""
    blocks = _blocks(description, unit)
    moved = sum(block.movement.l2_squared for block in blocks)
    law = DiscreteGaussian(scale(max(1, moved), Fraction(1), MAX_SCALE_IN_STEPS))
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
            f"a {type(description).__name__} needs a method noisy, which reads the noisy integers of its release"
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
    """The design with the weight on the target's sum that a release of n rows chooses; n is None where private."""
    if not design.intercept or design.mean_weight is not None:
        return design
    weight = advised_weight(design, exact(epsilon), unit, n)
    return design.with_mean_weight(min(weight, LARGEST_GAUSSIAN) if gaussian else weight)


def advised_weight(design: LinearDesign, epsilon: Fraction, unit: PrivacyUnit, n: int | None) -> int:
    """The least weight with which the noise on the target's mean is ``WANTED``, or the largest worth having (P11)."""
    if n is None:
        return max(design.copies, WITHOUT_N)
    movement = design.sensitivity(unit) / design.weight / unit.rows_per_person
    room = WANTED * float(epsilon) * n / math.sqrt(2) / unit.rows_per_person - 2
    needed = LARGEST if room <= 0 else math.ceil((movement - 2 * design.copies) / room)
    quiet = MAX_SCALE_IN_STEPS * float(epsilon) / design.weight / unit.rows_per_person - movement
    allowed = design.copies + math.ceil(quiet / 2) - 1
    room_for_sums = MOST_SUM // (design.weight * max(1, n))
    return max(design.copies, min(LARGEST, needed, allowed, room_for_sums))


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
