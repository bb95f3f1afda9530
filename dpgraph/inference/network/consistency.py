"""Projects noisy tables to tables that agree on all common margins: least squares in closed form (proofs.md P30).

Each table is written in the residual basis: for a set A of variables, R_A is the part of the table that depends on all
of A and nothing else. Tables that share A each hold an independent unbiased estimate of R_A, and the best linear
combination is their inverse-variance average. Rebuilding every table from the averages gives the weighted
least-squares solution over all consistent tables, without a solver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpgraph.inference.network.several import (
    joint_estimates,
    measured_tables,
    pooled_estimates,
    read_released,
    rebuilt_table,
)
from dpgraph.privacy.records import NoiseLaw, Release
from dpgraph.structure.basis import (
    block_slices,
    cell_variance,
    coefficient_blocks,
    contrast_norms,
    residual_transform,
    subsets,
)
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import JointCounts, PooledCounts, Several, learning
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Reals, Tables

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
    tables = solve.project(measured, shrink=shrink)
    total = max(0.0, float(next(iter(tables.values())).sum()))
    if nonnegative:
        tables = _nonnegative_tables(solve, tables, total)
    return Tables(network, FrozenMap(tables), total, provenance)


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
    cut = {key: np.zeros_like(table) for key, table in tables.items()}
    for _ in range(ROUNDS):
        moved = {key: table + cut[key] for key, table in tables.items()}
        positive = {key: _simplex_projection(table, total) for key, table in moved.items()}
        cut = {key: table - positive[key] for key, table in moved.items()}
        tables = solve.project(positive)
    return {key: _simplex_projection(table, total) for key, table in tables.items()}


def consistent_variance(network: Network, laws: Mapping[Family, NoiseLaw], n_is_public: bool) -> dict[Family, float]:
    """The noise variance of one cell of each family table after ``reconcile``, from public values alone.

    Var(S) = sum over A inside S of sigma_A^2 prod_{v in A} (1 - 1/K_v) prod_{v in S - A} 1/K_v^2 (proofs.md P5, P30).
    """
    found = _Averaging(network, _spreads(network, laws), 0 if n_is_public else None).variance
    position = {name: i for i, name in enumerate(network.domain.names)}
    variances = {tuple(sorted(block, key=position.__getitem__)): spread for block, spread in found.items()}
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
    mean = solve.averages(tables)
    found: dict[Family, tuple[Reals, float]] = {}
    for block in coefficient_blocks(network):
        if frozenset(block) in mean:
            alphabetical = tuple(sorted(block))
            values = np.transpose(mean[frozenset(block)], [alphabetical.index(name) for name in block])
            found[block] = (values, solve.variance[frozenset(block)])
    return found


def _own_kind(noisy: JointCounts, kind: Any) -> Any:
    """The parts of one kind."""
    return tuple(part for part in noisy.parts if isinstance(part, kind))


def _plain(part: Any) -> Any:
    """A release without the pseudo-records that a single one is read with."""
    return replace(part, pseudo_records=0) if isinstance(part, NoisyCoefficients) else part


class _Averaging:
    """The least-squares projection for tables with given noise variances, and a total if it is known."""

    def __init__(self, network: Network, spreads: Mapping[Family, float], n: float | None) -> None:
        self.network, self.n = network, n
        self.weight: dict[tuple[Family, frozenset[str]], float] = {}
        precision: dict[frozenset[str], float] = {}
        for table, spread in spreads.items():
            for block in map(frozenset, subsets(table)):
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
        residuals = {table: residual_transform(values, forward=True) for table, values in tables.items()}
        mean = self._means(residuals, shrink=shrink)
        for table, values in residuals.items():
            for block in subsets(table):
                values[block_slices(table, block)] = _original_axes(mean[frozenset(block)], block)
        return {table: residual_transform(values, forward=False) for table, values in residuals.items()}

    def averages(self, tables: Mapping[Family, Reals]) -> dict[frozenset[str], Reals]:
        """The average residuals of every block, axes in alphabetical order."""
        return self._means({table: residual_transform(values, forward=True) for table, values in tables.items()})

    def _means(self, residuals: Mapping[Family, Reals], *, shrink: bool = False) -> dict[frozenset[str], Reals]:
        mean: dict[frozenset[str], Reals] = {}
        for table, values in residuals.items():
            for block in subsets(table):
                part = self.weight[table, frozenset(block)] * _sorted_axes(values[block_slices(table, block)], block)
                key = frozenset(block)
                mean[key] = mean[key] + part if key in mean else part
        for block, total in mean.items():
            mean[block] = total / self.precision[block]
            if shrink and len(block) > 1:
                mean[block] = mean[block] * _james_stein(mean[block], self.variance[block])
        if self.n is not None:
            mean[frozenset()] = np.array(float(self.n))
        return mean


def _spreads(network: Network, laws: Mapping[Family, NoiseLaw]) -> dict[Family, float]:
    """The variance of each table's noise along any direction that sums to zero."""
    return {table: law.contrast_variance(network.cells(table)) for table, law in laws.items()}


def _james_stein(residuals: Reals, variance: float) -> float:
    """The positive-part James-Stein factor; 1 for two numbers or fewer, where shrinking cannot dominate."""
    size = float((residuals**2).sum())
    if residuals.size <= 2 or size == 0:
        return 1.0
    return max(0.0, 1 - (residuals.size - 2) * variance / size)


def _sorted_axes(values: Reals, block: tuple[str, ...]) -> Reals:
    """A block with its axes in alphabetical order, so that blocks of different tables add."""
    return np.transpose(values, sorted(range(len(block)), key=lambda axis: block[axis]))


def _original_axes(values: Reals, block: tuple[str, ...]) -> Reals:
    """The inverse of ``_aligned``."""
    order = sorted(range(len(block)), key=lambda axis: block[axis])
    return np.transpose(values, np.argsort(order)) if block else values


def _simplex_projection(table: Reals, total: float) -> Reals:
    """The nearest non-negative table with the given total."""
    flat = table.ravel()
    ordered = np.sort(flat)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(flat) + 1)
    support = max(1, int(np.count_nonzero(ordered > excess)))
    return np.maximum(table - excess[support - 1], 0.0)
