"""Noisy tables to tables that agree: generalised least squares in closed form (MATHS 3.5).

Each table is written in the residual basis: for a set A of variables, R_A is the part of the table that depends on all
of A and nothing else. Tables that share A each hold an independent unbiased estimate of R_A, and the best linear
combination is their inverse-variance average. Rebuilding every table from the averages gives the weighted
least-squares solution over all consistent tables, without a solver.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import combinations

import numpy as np

from dpgraph.privacy.records import NoiseLaw, Release, SumZeroLaplace, released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import NoisyCounts, Reals, Tables, smallest_holder

#: Rounds of alternating projection; a hundred change the error of family marginals by less than one part in a hundred.
ROUNDS = 30


def consistent(noisy: NoisyCounts | Release[NoisyCounts], *, nonnegative: bool = False, shrink: bool = False) -> Tables:
    """One joint story for all noisy tables: any margin is the same whichever table it is read from.

    Args:
        noisy: A release of noisy counts, or its value.
        nonnegative: Afterwards move to the nearest tables that also have no negative cell, in the metric of the noise:
            Dykstra's alternation between simplex projections and least squares, ending on the simplex, so nothing
            is below zero and tables agree closely instead of exactly.
        shrink: Pull every interaction, the part of a table that depends on two or more variables at once, towards
            none, by the positive-part James-Stein factor max(0, 1 - (d - 2) sigma_A^2 / ||R_A||^2): an interaction
            that is no larger than its noise vanishes, a clear one stays as it is.

    Returns:
        Real-valued tables over the measured variable sets; unbiased unless ``nonnegative`` or ``shrink``.
    """
    counts, provenance = released_value(noisy)
    network, keys = counts.network, tuple(counts.tables)
    solve = _Averaging(network, FrozenMap(counts.laws), counts.n)
    tables = solve.project({key: counts.tables[key].astype(float) for key in keys}, shrink=shrink)
    total = max(0.0, float(tables[keys[0]].sum()))
    if nonnegative:
        tables = _nonnegative(solve, tables, total)
    return Tables(network, FrozenMap(tables), total, provenance)


def _nonnegative(solve: _Averaging, tables: dict[Family, Reals], total: float) -> dict[Family, Reals]:
    """Dykstra's algorithm: each simplex projection starts from what its last one cut off, so the limit is nearest."""
    cut = {key: np.zeros_like(table) for key, table in tables.items()}
    for _ in range(ROUNDS):
        moved = {key: table + cut[key] for key, table in tables.items()}
        positive = {key: _onto_simplex(table, total) for key, table in moved.items()}
        cut = {key: table - positive[key] for key, table in moved.items()}
        tables = solve.project(positive)
    return {key: _onto_simplex(table, total) for key, table in tables.items()}


def consistent_variance(network: Network, laws: Mapping[Family, NoiseLaw], n_is_public: bool) -> dict[Family, float]:
    """The noise variance of one cell of each family table after ``consistent``, from public values alone.

    Var(S) = sum over A inside S of sigma_A^2 prod_{v in A} (1 - 1/K_v) prod_{v in S - A} 1/K_v^2 (MATHS 3.3, 3.5).
    """
    solve = _Averaging(network, FrozenMap(laws), 0 if n_is_public else None)
    variances: dict[Family, float] = {}
    for family in network.families:
        holder = smallest_holder(network, solve.laws, family)
        total = 0.0
        for block in _subsets(family):
            name = tuple(variable for variable in holder if variable in block)
            spread = solve.variance[frozenset(name)]
            for variable in family:
                size = network.domain.sizes[variable]
                spread *= 1 - 1 / size if variable in block else 1 / size**2
            total += spread
        variances[family] = total
    return variances


class _Averaging:
    """The least-squares projection for one set of tables and noise laws."""

    def __init__(self, network: Network, laws: FrozenMap[Family, NoiseLaw], n: int | None) -> None:
        self.network, self.laws, self.n = network, laws, n
        self.weight: dict[tuple[Family, frozenset[str]], float] = {}
        precision: dict[frozenset[str], float] = {}
        for table, law in laws.items():
            spread = _block_variance(law, network.cells(table))
            for block in map(frozenset, _subsets(table)):
                outside = [network.domain.sizes[name] for name in table if name not in block]
                weight = 1 / max(spread * float(np.prod(outside)), 1e-300)
                self.weight[table, block] = weight
                precision[block] = precision.get(block, 0.0) + weight
        self.precision = precision
        self.variance = {block: 1 / total for block, total in precision.items()}
        if n is not None:
            self.variance[frozenset()] = 0.0

    def project(self, tables: Mapping[Family, Reals], *, shrink: bool = False) -> dict[Family, Reals]:
        """The consistent tables nearest to the given ones in the metric of the noise, interactions shrunk if asked."""
        residuals = {table: _transformed(values, forward=True) for table, values in tables.items()}
        mean: dict[frozenset[str], Reals] = {}
        for table, values in residuals.items():
            for block in _subsets(table):
                part = self.weight[table, frozenset(block)] * _aligned(values[_slices(table, block)], block)
                key = frozenset(block)
                mean[key] = mean[key] + part if key in mean else part
        for block, total in mean.items():
            mean[block] = total / self.precision[block]
            if shrink and len(block) > 1:
                mean[block] = mean[block] * _james_stein(mean[block], self.variance[block])
        if self.n is not None:
            mean[frozenset()] = np.array(float(self.n))
        for table, values in residuals.items():
            for block in _subsets(table):
                values[_slices(table, block)] = _unaligned(mean[frozenset(block)], block)
        return {table: _transformed(values, forward=False) for table, values in residuals.items()}


def _block_variance(law: NoiseLaw, cells: int) -> float:
    """The variance of the noise along any direction that sums to zero."""
    spread = law.variance(cells)
    return spread * cells / (cells - 1) if isinstance(law, SumZeroLaplace) and cells > 1 else spread


def _james_stein(residuals: Reals, variance: float) -> float:
    """The positive-part James-Stein factor; 1 for two numbers or fewer, where shrinking cannot dominate."""
    size = float((residuals**2).sum())
    if residuals.size <= 2 or size == 0:
        return 1.0
    return max(0.0, 1 - (residuals.size - 2) * variance / size)


def _subsets(table: Family) -> list[tuple[str, ...]]:
    """Every subset of a table's variables, in the table's order."""
    return [subset for size in range(len(table) + 1) for subset in combinations(table, size)]


def _slices(table: Family, block: tuple[str, ...]) -> tuple[int | slice, ...]:
    """Where a block lies in a transformed table: the sum along the axes outside it, the residuals along its own."""
    return tuple(slice(1, None) if name in block else 0 for name in table)


def _aligned(values: Reals, block: tuple[str, ...]) -> Reals:
    """A block with its axes in alphabetical order, so that blocks of different tables add."""
    return np.transpose(values, sorted(range(len(block)), key=lambda axis: block[axis]))


def _unaligned(values: Reals, block: tuple[str, ...]) -> Reals:
    """The inverse of ``_aligned``."""
    order = sorted(range(len(block)), key=lambda axis: block[axis])
    return np.transpose(values, np.argsort(order)) if block else values


def _transformed(values: Reals, *, forward: bool) -> Reals:
    """Applies the residual transform, or its inverse, along every axis."""
    for axis, size in enumerate(values.shape):
        matrix = _residual_matrix(size)[0 if forward else 1]
        values = np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return np.ascontiguousarray(values)


@cache
def _residual_matrix(size: int) -> tuple[Reals, Reals]:
    """[1; U^T] and its inverse [1/K, U], with U the orthonormal Helmert contrasts, columns that sum to zero."""
    contrasts = np.zeros((size - 1, size))
    for row in range(1, size):
        contrasts[row - 1, :row] = 1 / np.sqrt(row * (row + 1))
        contrasts[row - 1, row] = -row / np.sqrt(row * (row + 1))
    forward = np.vstack([np.ones(size), contrasts])
    inverse = np.hstack([np.full((size, 1), 1 / size), contrasts.T])
    return forward, inverse


def _onto_simplex(table: Reals, total: float) -> Reals:
    """The nearest non-negative table with the given total."""
    flat = table.ravel()
    ordered = np.sort(flat)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(flat) + 1)
    support = max(1, int(np.count_nonzero(ordered > excess)))
    return np.maximum(table - excess[support - 1], 0.0)
