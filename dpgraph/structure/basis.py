"""Bases of family tables in which tables that share variables share coordinates.

A table over S splits into one block for each subset A of S: the part that depends on all of A and on nothing else. The
block of A is the same whichever table it is read from, so tables rebuilt from one set of blocks always agree.

Three scalings of the same blocks, for a variable of K levels:

* contrasts, integer: row r is (1, ..., 1, -r, 0, ..., 0) with r ones, r = 1 to K - 1. At K = 2 this is (1, -1), and the
  contrasts of binary tables are their Walsh sums, sum over records of (-1)^<A, x> (Zhang et al. 2016, section 3.2);
* residuals, real: row r divided by sqrt(r (r + 1)), the orthonormal Helmert matrix (proofs.md P5; the blocks of
  ResidualPlanner, Xiao et al. 2023);
* fixed point: contrasts times whole numbers close to ``grid`` / sqrt(r (r + 1)), so that noise of one scale on a whole
  block is nearly orthonormal while every sum stays an exact integer.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.network import Family, Network

Spread = TypeVar("Spread", float, Reals)
Item = TypeVar("Item")
#: More blocks than this are refused before any memory is taken.
MAX_BLOCKS = 1_000_000
#: The most levels of a variable in a basis: its matrix has the square of them.
MOST_LEVELS = 10_000


def subsets(table: tuple[Item, ...]) -> list[tuple[Item, ...]]:
    """Every subset of a table's variables, in the table's order, the empty one first."""
    return [subset for size in range(len(table) + 1) for subset in combinations(table, size)]


def block_slices(table: Family, block: Family) -> tuple[int | slice, ...]:
    """Where a block lies in a transformed table: the sum along the axes outside it, the contrasts along its own."""
    return tuple(slice(1, None) if name in block else 0 for name in table)


def ordered(network: Network, names: Family) -> Family:
    """The variables that have more than one level, in the domain's order: the key of a block."""
    return tuple(sorted((name for name in names if network.domain.sizes[name] > 1), key=network.position.__getitem__))


@lru_cache(maxsize=64)
def coefficient_blocks(network: Network) -> tuple[Family, ...]:
    """The informative blocks: the families' downward closure without variables of one level, at most ``MAX_BLOCKS``."""
    sizes = network.domain.sizes
    if sum(2 ** len(family) for family in network.maximal_families) > MAX_BLOCKS:
        raise NetworkError(f"the families have more than {MAX_BLOCKS:,} subsets; give variables fewer parents")
    return tuple(block for block in network.downward_closure() if all(sizes[name] > 1 for name in block))


def has_blocks(network: Network, blocks: Collection[Family]) -> bool:
    """True if blocks are all of a network's; counts them before it lists the network's, 2^k of k variables."""
    sizes = network.domain.sizes
    widest = max(sum(sizes[name] > 1 for name in family) for family in network.maximal_families)
    return 2**widest <= len(blocks) and set(blocks) == set(coefficient_blocks(network))


def block_shape(network: Network, block: Family) -> tuple[int, ...]:
    """The coordinates of a block along each of its variables: one fewer than the levels."""
    return tuple(size - 1 for size in network.shape(block))


def contrast_transform(table: Integers) -> Integers:
    """The sum (index 0) and the integer contrasts (from index 1) along every axis: exact.

    Of two-level variables the Walsh sums, sum over cells x of (-1)^<g, x> table[x], for every g (Zhang et al. 2016,
    section 3.2), by name ``dg.papers.walsh_transform``: its own inverse up to 2^axes.
    """
    for axis, size in enumerate(table.shape):
        table = _butterfly(table, axis) if size == 2 else _along(contrast_matrix(size), table, axis)
    return table


def inverse_contrasts(values: Reals, *, batched: bool = False) -> Reals:
    """The inverse of ``contrast_transform``; with ``batched``, of every item along axis 0."""
    for axis in range(int(batched), values.ndim):
        size = values.shape[axis]
        shape = [size if other == axis else 1 for other in range(values.ndim)]
        values = values / _squared_norms(size).reshape(shape)
        values = _butterfly(values, axis) if size == 2 else _along(contrast_matrix(size).T.astype(float), values, axis)
    return values


def table_of(network: Network, contrasts: Mapping[Family, Reals], table: Family, *, batch: int | None = None) -> Reals:
    """The table over some variables from contrast blocks of all its subsets; with ``batch`` all have a leading axis."""
    lead: tuple[slice, ...] = () if batch is None else (slice(None),)
    values = np.zeros((() if batch is None else (batch,)) + network.shape(table))
    for block in subsets(table):
        key = tuple(sorted(block, key=network.position.__getitem__))
        if key in contrasts:
            axes = [len(lead) + key.index(name) for name in block]
            values[lead + block_slices(table, block)] = np.transpose(contrasts[key], [*range(len(lead)), *axes])
    return inverse_contrasts(values, batched=batch is not None)


def contrast_blocks(network: Network, tables: Iterator[tuple[Family, Integers]]) -> dict[Family, Integers]:
    """The integer contrasts of every block of exact tables, keyed in the domain's order; the first holder is read."""
    found: dict[Family, Integers] = {}
    for table, counts in tables:
        values = contrast_transform(counts)
        for block in subsets(table):
            key = tuple(sorted(block, key=network.position.__getitem__))
            if key not in found and all(network.domain.sizes[name] > 1 for name in block):
                part = values[block_slices(table, block)]
                found[key] = np.asarray(np.transpose(part, [block.index(name) for name in key]))
    return found


def residual_transform(values: Reals, *, forward: bool, batched: bool = False) -> Reals:
    """The orthonormal residual transform along every axis, or its inverse; with ``batched``, of each item of axis 0."""
    for axis in range(int(batched), values.ndim):
        values = _along(residual_matrix(values.shape[axis])[0 if forward else 1], values, axis)
    return np.ascontiguousarray(values)


@lru_cache(maxsize=64)
def residual_matrix(size: int) -> tuple[Reals, Reals]:
    """[1; U^T] and its inverse [1/K, U], with U the orthonormal Helmert contrasts, columns that sum to zero."""
    norms = np.sqrt(_squared_norms(size))
    norms[0] = 1.0
    forward = contrast_matrix(size) / norms[:, None]
    inverse = np.hstack([np.full((size, 1), 1 / size), forward[1:].T])
    return forward, inverse


def check_levels(size: int) -> None:
    """Refuses a variable of too many levels before memory is taken for its contrasts."""
    if size > MOST_LEVELS:
        raise NetworkError(f"a basis of contrasts is for variables of at most {MOST_LEVELS:,} levels; one has {size:,}")


@lru_cache(maxsize=64)
def contrast_matrix(size: int) -> Integers:
    """[1; C]: a row of ones, then row r with r ones and -r after them."""
    check_levels(size)
    matrix = np.tril(np.ones((size, size), np.int64), -1)
    matrix[0] = 1
    matrix[np.arange(1, size), np.arange(1, size)] = -np.arange(1, size)
    return matrix


@lru_cache(maxsize=256)
def contrast_norms(sizes: tuple[int, ...]) -> Reals:
    """The length of each contrast of a block relative to its residual: the product over levels of sqrt(r (r + 1))."""
    norms = np.ones(())
    for size in sizes:
        norms = np.multiply.outer(norms, np.sqrt(_squared_norms(size)[1:]))
    return norms


@lru_cache(maxsize=256)
def fixed_point(sizes: tuple[int, ...], grid: int) -> Integers:
    """The whole number each contrast is multiplied by, ``grid`` / norm rounded, at least 1; falls along each axis."""
    return np.maximum(1, np.rint(grid / contrast_norms(sizes))).astype(np.int64)


def cell_variance(network: Network, variances: Mapping[Family, Spread], table: Family) -> Spread:
    """The mean variance of a cell of a table rebuilt from blocks, by the variances of their residuals (P5)."""
    table = ordered(network, table)
    total: Any = 0.0
    for block in subsets(table):
        sizes = [(network.domain.sizes[name], name in block) for name in table]
        share = math.prod(1 - 1 / size if inside else 1 / size**2 for size, inside in sizes)
        total = total + variances[block] * share  # never in place: a variance may be an array
    return total


def error_weights(network: Network, blocks: Iterable[Family], counted: Sequence[float] = ()) -> dict[Family, float]:
    """V_A of each block: how many squared cells of the families, as ``counted``, a unit of variance costs (P28)."""
    sizes = network.domain.sizes
    count = dict(zip(network.families, counted or (1,) * len(network.families), strict=True))
    by_name: dict[str, list[Family]] = {name: [] for name in network.domain.names}
    for family in network.families:
        for name in family:
            by_name[name].append(family)
    weights: dict[Family, float] = {}
    for block in blocks:
        holding = min((by_name[name] for name in block), key=len, default=network.families)
        near = [family for family in holding if set(block) <= set(family)]
        outside = sum(count[family] / math.prod(sizes[name] for name in family if name not in block) for family in near)
        weights[block] = math.prod(block_shape(network, block)) * outside
    return weights


@lru_cache(maxsize=256)
def _squared_norms(size: int) -> Reals:
    """The squared length of each row of ``contrast_matrix``: K, then r (r + 1)."""
    rows = np.arange(size, dtype=float)
    norms = rows * (rows + 1)
    norms[0] = size
    return norms


def _along(matrix: npt.NDArray[Any], values: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    return np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)


def _butterfly(values: npt.NDArray[Any], axis: int) -> npt.NDArray[Any]:
    first, second = np.take(values, 0, axis), np.take(values, 1, axis)
    return np.stack([first + second, first - second], axis)
