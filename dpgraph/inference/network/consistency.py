"""Projects noisy tables to tables that agree on all common margins: least squares in closed form (proofs.md P30).

Each table is written in the residual basis: for a set A of variables, R_A is the part of the table that depends on all
of A and nothing else. Tables that share A each hold an independent unbiased estimate of R_A, and the best linear
combination is their inverse-variance average. Rebuilding every table from the averages gives the weighted
least-squares solution over all consistent tables, without a solver.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from dpgraph.inference.network.joint_releases import (
    joint_estimates,
    measured_tables,
    pooled_estimates,
    read_released,
    rebuilt_table,
)
from dpgraph.inference.simplex import onto_simplexes
from dpgraph.privacy.records import InferenceError, NoiseLaw, Release, released_value
from dpgraph.structure.basis import (
    block_shape,
    cell_variance,
    coefficient_blocks,
    contrast_norms,
    residual_transform,
    subsets,
)
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import JointCounts, PooledCounts, Several, learning
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Integers, NoisyCoefficients, NoisyCounts, Reals, Tables
from dpgraph.waiting import counted

#: Rounds of alternating projection; a hundred change the error of family marginals by less than one part in a hundred.
ROUNDS = 30


def reconcile(
    noisy: NoisyCounts | NoisyCoefficients | Several | Release | Sequence[Any],
    *,
    network: Network | None = None,
    nonnegative: bool = False,
    shrink: bool = False,
) -> Tables:
    """Projects noisy tables to consistency: any margin is the same whichever table it is read from.

    Noisy coefficients are consistent already: their tables are rebuilt as they are. Tables of several releases of the
    same rows are averaged by the inverse of their variances; those of pooled releases are the sums of the rows' tables,
    one for each maximal family.

    Args:
        noisy: A release of noisy counts or coefficients, or its value; or a list of releases of the same rows.
        network: The network whose tables are wanted, over the same domain; None for the one that was released.
        nonnegative: Afterwards move to the nearest tables that also have no negative cell, in the metric of the noise:
            Dykstra's alternation between simplex projections and least squares, ending on the simplex, so nothing
            is below zero and tables agree closely instead of exactly.
        shrink: Pull every interaction, the part of a table that depends on two or more variables at once, towards
            none, by the positive-part James-Stein factor max(0, 1 - (d - 2) sigma_A^2 / ||R_A||^2): an interaction
            that is no larger than its noise vanishes, a clear one stays as it is.

    Returns:
        Real-valued tables over the measured variable sets; unbiased unless ``nonnegative`` or ``shrink``.

    Raises:
        InferenceError: If several releases make no joint release.
        NetworkError: If several are of different networks and none is named, or no table holds a family of it.
    """
    _check_counts(noisy)
    counts, provenance = read_released(noisy, network)
    if isinstance(counts, NoisyCoefficients):
        return replace(_tables_from_coefficients(counts, nonnegative=nonnegative, shrink=shrink), provenance=provenance)
    if not _is_tables(counts):
        made = _tables_from_estimates(counts, nonnegative=nonnegative, shrink=shrink)
        return replace(made, provenance=provenance)
    network = counts.network
    assert network is not None
    measured, spreads = measured_tables(counts)
    solve = _Averaging(network, spreads, counts.n)
    tables = solve.unstacked(solve.project(solve.stacked(measured), shrink=shrink))
    total = max(0.0, float(next(iter(tables.values())).sum()))
    if nonnegative:
        tables = _nonnegative_tables(solve, tables, total)
    return Tables(network, FrozenMap(tables), total, provenance)


def _check_counts(noisy: Any) -> None:
    """Refuses what holds no tables, such as a learned network.

    Raises:
        InferenceError: Naming it, and where its release is.
    """
    value = noisy if isinstance(noisy, list | tuple) else released_value(noisy)[0]
    if not isinstance(value, NoisyCounts | NoisyCoefficients | JointCounts | PooledCounts | list | tuple):
        raise InferenceError(
            "tables are read from a release of noisy counts or coefficients, or a list of such releases; got "
            f"{type(value).__name__}{', whose release is in .release' if hasattr(value, 'release') else ''}"
        )


def _tables_from_coefficients(noisy: NoisyCoefficients, *, nonnegative: bool, shrink: bool) -> Tables:
    """The tables of noisy coefficients; non-negative ones are nearest in the metric of each table's mean variance."""
    contrasts = noisy.contrasts()
    for block, values in contrasts.items():
        if shrink and len(block) > 1:
            residuals = values / contrast_norms(noisy.network.shape(block))
            contrasts[block] = values * _james_stein(residuals, noisy.residual_variance(block))
    tables = noisy.rebuilt(contrasts)
    if not nonnegative:
        return tables
    spreads = {key: noisy.variance(key) for key in tables.tables}
    solve = _Averaging(noisy.network, spreads, tables.n)
    return replace(tables, tables=FrozenMap(_nonnegative_tables(solve, dict(tables.tables), tables.n)))


def _is_tables(noisy: Any) -> bool:
    """Whether every release is of tables of the same rows, so that least squares reads the tables themselves."""
    parts = noisy.parts if isinstance(noisy, JointCounts) else (noisy,)
    return all(isinstance(part, NoisyCounts) for part in parts)


def _tables_from_estimates(noisy: Several, *, nonnegative: bool, shrink: bool) -> Tables:
    """The maximal families' tables from estimates of their residuals; non-negative ones as for coefficients."""
    network, estimates = noisy.network, residual_estimates(noisy)
    assert network is not None
    if shrink:
        estimates = {
            block: (values * (_james_stein(values, spread) if len(block) > 1 else 1.0), spread)
            for block, (values, spread) in estimates.items()
        }
    tables = {key: rebuilt_table(network, estimates, key) for key in network.maximal_families}
    total = max(0.0, float(estimates[()][0]))
    if nonnegative:
        variances = {block: spread for block, (_, spread) in estimates.items()}
        spreads = {key: cell_variance(network, variances, key) for key in tables}
        tables = _nonnegative_tables(_Averaging(network, spreads, total), tables, total)
    return Tables(network, FrozenMap(tables), total)


def _nonnegative_tables(solve: _Averaging, tables: dict[Family, Reals], total: float) -> dict[Family, Reals]:
    """Dykstra's algorithm: each simplex projection starts from what its last one cut off, so the limit is nearest."""
    stacks = solve.stacked(tables)
    cuts = [np.zeros_like(stack) for stack in stacks]
    for _ in counted(range(ROUNDS)):
        moved = [stack + cut for stack, cut in zip(stacks, cuts, strict=True)]
        positive = [_nonnegative(stack, total) for stack in moved]
        cuts = [stack - kept for stack, kept in zip(moved, positive, strict=True)]
        stacks = solve.project(positive)
    return solve.unstacked([_nonnegative(stack, total) for stack in stacks])


def consistent_variance(network: Network, laws: Mapping[Family, NoiseLaw], n_is_public: bool) -> dict[Family, float]:
    """The noise variance of one cell of each family table after ``reconcile``, from public values alone.

    Var(S) = sum over A inside S of sigma_A^2 prod_{v in A} (1 - 1/K_v) prod_{v in S - A} 1/K_v^2 (proofs.md P5, P30).
    """
    variances = _Averaging(network, _spreads(network, laws), 0 if n_is_public else None).variance
    return {family: cell_variance(network, variances, family) for family in network.families}


def family_variances(noisy: NoisyCounts | NoisyCoefficients | Several) -> dict[Family, float]:
    """The noise variance of one cell of each family table after ``reconcile``, from all that was released."""
    assert noisy.network is not None
    variances = {block: spread for block, (_, spread) in residual_estimates(noisy).items()}
    return {family: cell_variance(noisy.network, variances, family) for family in noisy.network.families}


def residual_estimates(noisy: NoisyCounts | NoisyCoefficients | Several) -> dict[Family, tuple[Reals, float]]:
    """The least-squares estimate of every residual block and the variance of each of its coordinates.

    Keyed in the domain's order, over variables of more than one level; () holds the number of rows, with variance 0
    where it is public. Errors of different blocks, and of the coordinates of one, are uncorrelated. Of several releases
    it is what they say together; pseudo-records that one added count for nothing then.
    """
    if isinstance(noisy, PooledCounts):
        assert noisy.network is not None
        return pooled_estimates([residual_estimates(learning(_plain(part), noisy.network)) for part in noisy.parts])
    if isinstance(noisy, JointCounts) and not _is_tables(noisy):
        assert noisy.network is not None
        tables, blocks = _own_kind(noisy, NoisyCounts), _own_kind(noisy, NoisyCoefficients)
        found = [residual_estimates(_plain(part)) for part in blocks]
        if tables:
            together = tables[0] if len(tables) == 1 else JointCounts(tables)
            found.append(_table_estimates(noisy.network, together))
        return joint_estimates(found, noisy.n)
    if isinstance(noisy, NoisyCoefficients):
        return {
            block: (values / contrast_norms(noisy.network.shape(block)), noisy.residual_variance(block))
            for block, values in noisy.contrasts().items()
        }
    assert noisy.network is not None
    return _table_estimates(noisy.network, noisy)


def _table_estimates(network: Network, noisy: NoisyCounts | JointCounts) -> dict[Family, tuple[Reals, float]]:
    """The estimates of those of a network's blocks that lie in measured tables of the same rows."""
    tables, spreads = measured_tables(noisy)
    solve = _Averaging(network, spreads, noisy.n)
    mean, variance = solve.averages(tables), solve.variance
    return {block: (mean[block], variance[block]) for block in coefficient_blocks(network) if block in mean}


def _own_kind(noisy: JointCounts, kind: Any) -> Any:
    """The parts of one kind."""
    return tuple(part for part in noisy.parts if isinstance(part, kind))


def _plain(part: Any) -> Any:
    """A release without the pseudo-records that a single one is read with."""
    return replace(part, pseudo_records=0) if isinstance(part, NoisyCoefficients) else part


@dataclass(frozen=True, eq=False)
class _Stack:
    """Tables of one shape, side by side.

    Attributes:
        keys: Their variables.
        index: The coordinate that each number of a transformed table belongs to, axes (table, *shape).
        weight: The precision of each such number.
    """

    keys: tuple[Family, ...]
    index: Integers
    weight: Reals


class _Averaging:
    """The least-squares projection for tables with given noise variances, and a total if it is known.

    The residuals of all blocks are one vector, block after block, the axes of each in the domain's order, so that an
    average over tables is one weighted sum by coordinate. Tables of one shape are transformed together.
    """

    def __init__(self, network: Network, spreads: Mapping[Family, float], n: float | None) -> None:
        self.network, self.n, self._order = network, n, tuple(spreads)
        self._start: dict[tuple[int, ...], int] = {}
        self._sizes: list[int] = []
        self._length = 0
        by_shape: dict[tuple[int, ...], list[Family]] = {}
        for table in spreads:
            by_shape.setdefault(network.shape(table), []).append(table)
        self._stacks = [self._stack(shape, keys, spreads) for shape, keys in by_shape.items()]
        self._precision = self._summed([stack.weight for stack in self._stacks])
        self._variance = 1 / self._precision
        if n is not None:
            self._variance[self._start[()]] = 0.0

    @property
    def variance(self) -> dict[Family, float]:
        """The variance of each block's coordinates, keyed in the domain's order, without variables of one level."""
        names = self.network.domain.names
        variances = self._variance[list(self._start.values())].tolist()
        return {tuple(names[i] for i in block): v for block, v in zip(self._start, variances, strict=True)}

    def averages(self, tables: Mapping[Family, Reals]) -> dict[Family, Reals]:
        """The average residuals of every block, keyed and with axes in the domain's order."""
        mean = self._mean(self._transformed(self.stacked(tables)))
        names = self.network.domain.names
        keyed = (
            (tuple(names[i] for i in block), start, size)
            for (block, start), size in zip(self._start.items(), self._sizes, strict=True)
        )
        return {
            block: mean[start : start + size].reshape(block_shape(self.network, block)) for block, start, size in keyed
        }

    def project(self, stacks: Sequence[Reals], *, shrink: bool = False) -> list[Reals]:
        """The consistent tables nearest to the given ones in the metric of the noise, interactions shrunk if asked."""
        mean = self._mean(self._transformed(stacks), shrink=shrink)
        return [residual_transform(mean[stack.index], forward=False, batched=True) for stack in self._stacks]

    def stacked(self, tables: Mapping[Family, Reals]) -> list[Reals]:
        """The tables of each shape side by side, axes (table, *shape)."""
        return [np.stack([np.asarray(tables[key], float) for key in stack.keys]) for stack in self._stacks]

    def unstacked(self, stacks: Sequence[Reals]) -> dict[Family, Reals]:
        """The inverse of ``stacked``, in the order of the variances given."""
        pairs = zip(self._stacks, stacks, strict=True)
        found = {key: table for stack, values in pairs for key, table in zip(stack.keys, values, strict=True)}
        return {key: found[key] for key in self._order}

    def _stack(self, shape: tuple[int, ...], keys: Sequence[Family], spreads: Mapping[Family, float]) -> _Stack:
        """Numbers the coordinates of the tables of one shape."""
        place = self.network.position
        positions = [[place[name] for name in key] for key in keys]
        index = np.zeros((len(keys), *shape), np.int64)
        for axes in subsets(tuple(range(len(shape)))):
            sizes = tuple(shape[axis] - 1 for axis in axes)
            if not (size := math.prod(sizes)):
                continue
            mine = [[row[axis] for axis in axes] for row in positions]
            within = self._starts(mine, size).reshape(-1, *[1] * len(axes))
            if size > 1:
                orders = (tuple(sorted(range(len(axes)), key=row.__getitem__)) for row in mine)
                within = within + np.stack([_numbered(sizes, order) for order in orders])
            index[(slice(None), *(slice(1, None) if axis in axes else 0 for axis in range(len(shape))))] = within
        outside = np.ones(())
        for size in shape:
            outside = np.multiply.outer(outside, np.where(np.arange(size) == 0, size, 1))
        spread = np.array([spreads[key] for key in keys]).reshape(-1, *[1] * len(shape))
        return _Stack(tuple(keys), index, 1 / np.maximum(spread * outside, 1e-300))

    def _starts(self, blocks: Sequence[Sequence[int]], size: int) -> Integers:
        """Where each block of so many coordinates begins in the vector; new ones are added at its end."""
        found = []
        for block in (tuple(sorted(block)) for block in blocks):
            if block not in self._start:
                self._start[block] = self._length
                self._sizes.append(size)
                self._length += size
            found.append(self._start[block])
        return np.array(found, np.int64)

    def _transformed(self, stacks: Sequence[Reals]) -> list[Reals]:
        return [residual_transform(values, forward=True, batched=True) for values in stacks]

    def _summed(self, parts: Sequence[Reals]) -> Reals:
        """The sum over tables of numbers by coordinate."""
        total = np.zeros(self._length)
        for stack, part in zip(self._stacks, parts, strict=True):
            total += np.bincount(stack.index.ravel(), part.ravel(), minlength=self._length)
        return total

    def _mean(self, residuals: Sequence[Reals], *, shrink: bool = False) -> Reals:
        """The average residual of every coordinate."""
        weighted = [stack.weight * values for stack, values in zip(self._stacks, residuals, strict=True)]
        mean = self._summed(weighted) / self._precision
        if shrink:
            mean = mean * self._kept(mean)
        if self.n is not None:
            mean[self._start[()]] = float(self.n)
        return mean

    def _kept(self, mean: Reals) -> Reals:
        """The positive-part James-Stein factor of each coordinate's block, 1 outside interactions."""
        starts, sizes = np.array(list(self._start.values())), np.array(self._sizes)
        norms = np.add.reduceat(mean**2, starts)
        large = (sizes > 2) & (norms > 0) & (np.array([len(block) for block in self._start]) > 1)
        ratio = np.divide((sizes - 2) * self._variance[starts], norms, out=np.zeros(len(norms)), where=large)
        return np.repeat(np.maximum(0.0, 1 - ratio), sizes)


@lru_cache(maxsize=256)
def _numbered(sizes: tuple[int, ...], order: tuple[int, ...]) -> Integers:
    """The coordinates of a block from 0 on, in C order of its axes taken in the given order."""
    numbers = np.arange(math.prod(sizes)).reshape([sizes[axis] for axis in order])
    return numbers.transpose([order.index(axis) for axis in range(len(order))])


def _spreads(network: Network, laws: Mapping[Family, NoiseLaw]) -> dict[Family, float]:
    """The variance of each table's noise along any direction that sums to zero."""
    return {table: law.contrast_variance(network.cells(table)) for table, law in laws.items()}


def _james_stein(residuals: Reals, variance: float) -> float:
    """The positive-part James-Stein factor; 1 for two numbers or fewer, where shrinking cannot dominate."""
    size = float((residuals**2).sum())
    if residuals.size <= 2 or size == 0:
        return 1.0
    return max(0.0, 1 - (residuals.size - 2) * variance / size)


def _nonnegative(tables: Reals, total: float) -> Reals:
    """The same where only tables with a negative cell are moved: those without have the total (proofs.md P102)."""
    negative = (tables < 0).any(axis=tuple(range(1, tables.ndim)))
    made = tables.copy()
    made[negative] = onto_simplexes(tables[negative], total)
    return made
