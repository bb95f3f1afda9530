"""How far one person can move the statistics: exact, from the DAG and the unit alone (proofs.md P1 to P7).

A row adds one to one cell of every table. Under add/remove the L1 sensitivity of m tables is m, for every pair of
neighbours. Under replace it is two for every table that has more than one cell, attained by two rows that differ in
every variable. A person with r rows moves r times as much. Zhang et al. 2016, Lemma 1, is the case of all families.

Coefficients of tables (``structure.basis``) do not all move at once under replace: two rows that differ in a set of
variables D change the parity of exactly those blocks that share an odd number of variables with D. The largest such
number is a sum of local terms, maximised by variable elimination on the moral graph.
The squared L2 sensitivity of m tables is m under add/remove, and two for each table of more than one cell under
replace. A person whose r rows are all alike moves one cell by r, so it grows with r^2, attained in all tables at once.

Records are held to the same movements. The shares of a network's tables follow from its graph, and a model may be of a
graph that was chosen from the release; so the scales of a record are not planned again, but must pay for its claim.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from dpgraph.privacy.arrays import Integers
from dpgraph.privacy.claims import exceeds, total_up
from dpgraph.privacy.descriptions import partition_movement
from dpgraph.privacy.noise import MIN_SCALE
from dpgraph.privacy.records import Event, Measurement, Movement, NoiseLaw, PrivacyUnit, ReleaseError
from dpgraph.structure.basis import (
    MAX_BLOCKS,
    block_shape,
    check_levels,
    coefficient_blocks,
    contrast_matrix,
    fixed_point,
    has_blocks,
)
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.elimination import Factor, elimination_order, largest_sum
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import MAX_FAMILY_CELLS, Family, Network

#: The fixed-point resolution of the residual basis: multipliers err by half of one part in this, before contrasts.
GRID = 1 << 16

#: The most cells of one table of the elimination; beyond it the answer becomes an upper bound.
MAX_ELIMINATION_CELLS = 1 << 21

#: Pairs of cells times coefficients of one block, and pairs of cells of all blocks together, that are enumerated.
MAX_BLOCK_WORK, MAX_PAIRS = 1 << 26, 1 << 23

#: Scales are the smallest floats that pay for a claim, a few units in the last place; this is a thousand times more.
ROUNDING = Fraction(1, 2**40)


def l1_sensitivity(network: Network, tables: Iterable[Family], unit: PrivacyUnit) -> int:
    """The joint L1 sensitivity of several tables: exact, because one pair of rows attains every table's at once."""
    return sum(table_movement(network, table, unit).l1 for table in tables)


@dataclass(frozen=True)
class ParitySensitivity:
    """How many parities one replaced row can change at once.

    ``value`` is M, or an upper bound on it where ``exact`` is False; ``width`` is the width of the elimination order,
    whose largest table has 2^(width + 1) cells.
    """

    value: int
    exact: bool
    width: int


@lru_cache(maxsize=64)
def parity_sensitivity(network: Network, limit: int = MAX_ELIMINATION_CELLS) -> ParitySensitivity:
    """M: the most parities of the downward closure that two rows can differ in (proofs.md P3).

    M = max over sets D of variables of #{blocks A : |A and D| is odd}. It needs no levels: a variable either differs or
    does not, so elimination takes tables of 2^(width + 1) cells. Where that passes ``limit`` the answer is an upper
    bound, by mini-buckets, and says so: at the default limit from width 21 on.

    Zhang et al. 2016, Corollary 2, uses |N_I|, the size of the closure, instead: valid, up to twice as large.
    """
    order, width = elimination_order(network)
    blocks = [block for block in coefficient_blocks(network) if block]
    value, exact = largest_sum(((block, _odd(len(block))) for block in blocks), order, limit)
    return ParitySensitivity(min(value, len(blocks)), exact or value == 0, width)


def block_sensitivity(network: Network, block: Family, grid: int, unit: PrivacyUnit) -> int:
    """The L1 sensitivity of one block of fixed-point contrasts (``basis.fixed_point``).

    Under add/remove it is the sum of the block's multipliers, attained by a row that has the first level everywhere:
    there every contrast is 1 in size. No level does better, since at level k of a variable contrast r is k in size for
    r = k, 1 for r > k and 0 below, and k multipliers a_1 >= ... >= a_k add up to at least k a_k. Under replace it is
    the largest distance between two cells by enumeration, or for a very large block twice the former.
    """
    shape = network.shape(block)
    moved = int(fixed_point(shape, grid).sum())
    if unit.n_is_public:
        moved = 0 if not block else int(_distances(shape, grid).max()) if _is_small(shape) else 2 * moved
    return moved * unit.rows_per_person


def block_l2_squared(network: Network, block: Family, grid: int, unit: PrivacyUnit) -> int:
    """The squared L2 sensitivity of one block of fixed-point contrasts under add/remove, by a look at every cell.

    With exact multipliers every cell of the block's table would give grid^2 prod_{v in A} (1 - 1 / K_v) (proofs.md P6).
    Contrast r of a variable is k in size at its level k = r, 1 above and 0 below, so one pass along each axis adds up
    the squares. A person whose r rows are all alike moves r times as far.
    """
    squares = fixed_point(network.shape(block), grid) ** 2
    for axis, size in enumerate(network.shape(block)):
        rows = np.moveaxis(squares, axis, 0)
        levels = np.zeros((size, *rows.shape[1:]), np.int64)
        levels[:-1] = rows[::-1].cumsum(axis=0)[::-1]
        levels[1:] += (rows.T * np.arange(1, size) ** 2).T
        squares = np.moveaxis(levels, 0, axis)
    return int(squares.max()) * unit.rows_per_person**2


@dataclass(frozen=True)
class JointSensitivity:
    """The largest weighted L1 distance that one person can move several blocks by, and whether it is attained."""

    value: int
    exact: bool


def joint_sensitivity(
    network: Network, weights: Mapping[Family, int], grid: int, unit: PrivacyUnit, limit: int = MAX_ELIMINATION_CELLS
) -> JointSensitivity:
    """max over neighbours of sum_A weight_A ||T_A - T'_A||_1, for blocks T_A of fixed-point contrasts.

    Under add/remove the row of first levels attains every block's maximum, so their sum is exact. Under replace the
    maximum over pairs of rows is found by elimination on pairs of levels, K_v^2 states for each variable; where that is
    too large, or a block has too many pairs of cells, a sum of the blocks' own sensitivities is an upper bound.
    """
    if not unit.n_is_public:
        total = sum(weight * block_sensitivity(network, block, grid, unit) for block, weight in weights.items())
        return JointSensitivity(total, exact=True)
    pairs = {block: network.cells(block) ** 2 for block in weights if block}
    kept = {block for block in pairs if _is_small(network.shape(block))}
    if sum(pairs[block] for block in kept) > MAX_PAIRS:
        kept = set()
    one = PrivacyUnit("replace")
    rest = sum(
        weight * block_sensitivity(network, block, grid, one) for block, weight in weights.items() if block not in kept
    )
    factors = _pair_factors(network, {block: weights[block] for block in weights if block in kept}, grid)
    value, exact = largest_sum(factors, elimination_order(network)[0], limit)
    return JointSensitivity((value + rest) * unit.rows_per_person, exact and len(kept) == len(pairs))


@lru_cache(maxsize=16)
def joint_distance(
    network: Network, blocks: tuple[Family, ...], weights: tuple[int, ...], grid: int, unit: PrivacyUnit
) -> int:
    """``joint_sensitivity`` of a plan, found once for the release, its file and whoever checks it in this process."""
    return joint_sensitivity(network, dict(zip(blocks, weights, strict=True)), grid, unit).value


def _pair_factors(network: Network, weights: Mapping[Family, int], grid: int) -> Iterator[Factor]:
    """For each block its weighted distances, with one axis of K_v^2 pairs of levels for each variable."""
    for block, weight in weights.items():
        shape = network.shape(block)
        cells = _distances(shape, grid).reshape(shape + shape)
        axes = [axis for i in range(len(shape)) for axis in (i, i + len(shape))]
        yield block, weight * cells.transpose(axes).reshape([size**2 for size in shape])


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


@lru_cache(maxsize=64)
def _odd(size: int) -> Integers:
    """1 where an odd number of so many variables differ."""
    parity = np.zeros((), np.int64)
    for _ in range(size):
        parity = np.stack([parity, 1 - parity])
    return parity


def table_movement(network: Network, table: Family, unit: PrivacyUnit) -> Movement:
    """How far one person moves a table of counts: one row moves one cell by one, or two cells where it is replaced.

    Several rows of a person may be alike and move a cell by as many. Under replace the total is n.
    """
    return partition_movement(network.cells(table), unit)


def sum_movement(moved: int, rows_per_person: int) -> Movement:
    """How far one person moves a single sum that one row moves by at most so much."""
    l1 = moved * rows_per_person
    return Movement(l1, l1**2, l1 if l1 <= 1 else None)


@lru_cache(maxsize=16)
def block_movements(
    network: Network, blocks: tuple[Family, ...], grid: int, unit: PrivacyUnit
) -> FrozenMap[Family, Movement]:
    """How far one person moves each block of fixed-point contrasts; blocks of one shape move alike.

    Under replace the squared L2 distance of two rows is bounded by (2 max ||row||_2)^2 and by the square of their L1.
    """
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


def l2_squared(network: Network, tables: Iterable[Family], unit: PrivacyUnit) -> int:
    """The joint squared L2 sensitivity of several tables: exact, because one pair attains every table's at once."""
    return sum(table_movement(network, table, unit).l2_squared for table in tables)


def check_laws(event: Event, laws: Any) -> None:
    """Refuses noise of another law than the mechanism's, and a block that was measured twice."""
    for m in event.measurements:
        if not isinstance(m.law, laws):
            raise ReleaseError(
                f"{event.mechanism} does not draw {type(m.law).__name__} noise, recorded for {', '.join(m.table)}"
            )
    if len({m.table for m in event.measurements}) < len(event.measurements):
        raise ReleaseError(f"{event.mechanism} is recorded to have measured a table twice")


def not_measured(event: Event, description: Any) -> ReleaseError:
    """The error of a record whose blocks are not of its description."""
    return ReleaseError(
        f"{event.mechanism} does not measure what its record says, on this {type(description).__name__}"
    )


def remeasured(event: Event, unit: PrivacyUnit, network: Network) -> tuple[Measurement, ...]:
    """The tables or residual blocks of a record, with the cells and movements that follow from the domain."""
    names = [m.table for m in event.measurements]
    if any(not name for name in names):
        whose = None if unit.n_is_public else whose_blocks(network, names)
        if whose is None:
            raise not_measured(event, network)
        return block_measurements(whose, {m.table: m.law for m in event.measurements}, unit)
    if not names or not all(variable in network.domain for name in names for variable in name):
        raise not_measured(event, network)
    return tuple(
        Measurement(m.table, network.cells(m.table), m.law, table_movement(network, m.table, unit))
        for m in event.measurements
    )


def block_measurements(network: Network, laws: Mapping[Family, NoiseLaw], unit: PrivacyUnit) -> tuple[Measurement, ...]:
    """Blocks of the residual basis with these laws, moved as the network's domain says."""
    moved = block_movements(network, tuple(laws), GRID, unit)
    return tuple(
        Measurement(block, math.prod(block_shape(network, block)), law, moved[block]) for block, law in laws.items()
    )


def whose_blocks(network: Network, measured: Sequence[Family]) -> Network | None:
    """The network whose blocks these are: this one, or tables over its variables; None if there is none.

    A model may be of a graph that was chosen after its blocks were measured.
    """
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


def check_scales(event: Event, claim: Fraction, *ways: Sequence[Fraction]) -> None:
    """Refuses scales that are not the smallest that pay for the claim, as every plan chooses them.

    Each way of adding up the cost is a list of terms, of which the largest sum counts that is no more than the claim.
    At ``MIN_SCALE`` a claim may exceed the cost: no scale is smaller.
    """
    if any(m.law.scale == MIN_SCALE for m in event.measurements):
        return
    fitting = [parts for parts in ways if not exceeds(parts, claim * (1 + ROUNDING))]
    if not any(exceeds(parts, claim * (1 - ROUNDING)) for parts in fitting or ways):
        raise ReleaseError(
            f"{event.mechanism} claims {'rho' if claim == event.rho else 'epsilon'} {float(claim):.9g}, but noise of "
            f"these scales costs {float(total_up(ways[-1])):.9g}: they are not the scales it was made with"
        )
