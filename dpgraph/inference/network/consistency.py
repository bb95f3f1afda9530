"""Projects noisy tables to tables that agree on all common margins: least squares in closed form (proofs.md P30).

Tables that share a set A of variables each hold an independent unbiased estimate of the residual R_A, the part that
depends on all of A and nothing else; tables rebuilt from inverse-variance averages of these solve least squares.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_no_rules
from dpgraph.inference.network.evidence import read_released
from dpgraph.inference.simplex import onto_simplexes
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import NoiseLaw
from dpgraph.privacy.records import Release, released_value
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import JointCounts, PooledCounts, Several, learning
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import (
    Integers,
    NoisyCoefficients,
    NoisyCounts,
    Reals,
    Tables,
    block_shape,
    cell_variance,
    coefficient_blocks,
    contrast_norms,
    residual_transform,
    subsets,
)
from dpgraph.waiting import counted

#: Rounds of alternating projection; a hundred change the error of family marginals by less than one part in a hundred.
ROUNDS = 30

#: The estimate of every residual block, and the variance of each of its coordinates.
Estimates = Mapping[Family, tuple[Reals, float]]


def reconcile(
    noisy: NoisyCounts | NoisyCoefficients | Several | Release | Sequence[Any],
    *,
    network: Network | None = None,
    nonnegative: bool = False,
    shrink: bool = False,
) -> Tables:
    """Projects noisy tables to consistency: any margin is the same whichever table it is read from.

    Noisy coefficients are consistent already: their tables are rebuilt as they are. Tables of several releases of the
    same rows are averaged by the inverse of their variances; pooled releases give the sums of their tables, one for
    each maximal family.

    Args:
        noisy: A release of noisy counts or coefficients, or its value; or a list of releases of the same rows.
        network: The network whose tables are wanted, over the same domain; None for the one that was released.
        nonnegative: Afterwards move to the nearest tables that also have no negative cell, in the metric of the noise:
            Dykstra's alternation between simplex projections and least squares, ending on the simplex, so nothing
            is below zero and tables agree closely instead of exactly. Cells that a network's rules forbid are 0.
        shrink: Pull every interaction, the part of a table that depends on two or more variables at once, towards
            none, by the positive-part James-Stein factor max(0, 1 - (d - 2) sigma_A^2 / ||R_A||^2): an interaction
            that is no larger than its noise vanishes, a clear one stays as it is.

    Returns:
        Real-valued tables over the measured variable sets; unbiased unless ``nonnegative`` or ``shrink``.

    Raises:
        InferenceError: If several releases make no joint release, or this is not a release of tables or coefficients.
        NetworkError: If several are of different networks and none is named, or no table holds a family of it.
    """
    value = noisy if isinstance(noisy, list | tuple) else released_value(noisy)[0]
    if not isinstance(value, NoisyCounts | NoisyCoefficients | JointCounts | PooledCounts | list | tuple):
        raise InferenceError(
            "tables are read from a release of noisy counts or coefficients, or a list of such releases; got "
            f"{type(value).__name__}{', whose release is in .release' if hasattr(value, 'release') else ''}"
        )
    value, provenance = read_released(noisy, network)
    graph: Network = value.network
    if shrink or not nonnegative:
        check_no_rules(graph, "least squares", "leave shrink= out and give nonnegative=True")
    if _is_tables(value):
        measured, spreads = measured_tables(value)
        solve = _Averaging(graph, spreads, value.n)
        mean, variance = solve.averaged(solve.stacked(measured)), solve.variance
    else:
        estimates = residual_estimates(value)
        variances = {block: spread for block, (_, spread) in estimates.items()}
        spreads = {key: cell_variance(graph, variances, key) for key in graph.maximal_families}
        solve = _Averaging(graph, spreads, max(0.0, float(estimates[()][0])))
        mean = solve.vector({block: values for block, (values, _) in estimates.items()})
        variance = solve.vector({block: np.full(values.shape, spread) for block, (values, spread) in estimates.items()})
    if shrink:
        mean = mean * solve.james_stein(mean, variance)
    total, stacks = max(0.0, float(mean[solve.start[()]])), solve.rebuilt(mean)
    if nonnegative:
        stacks = _nonnegative_stacks(solve, stacks, total, solve.possible())
    return Tables(graph, FrozenMap(solve.unstacked(stacks)), total, provenance)


def _is_tables(noisy: Any) -> bool:
    """True for releases of tables of the same rows: least squares reads the tables themselves."""
    parts = noisy.parts if isinstance(noisy, JointCounts) else (noisy,)
    return all(isinstance(part, NoisyCounts) for part in parts)


def _nonnegative_stacks(
    solve: _Averaging, stacks: Sequence[Reals], total: float, possible: Sequence[npt.NDArray[np.bool_]]
) -> list[Reals]:
    """Dykstra's algorithm: each projection starts from the part that its last one cut off: the limit is nearest."""
    cuts = [np.zeros_like(stack) for stack in stacks]
    for _ in counted(range(ROUNDS)):
        moved = [stack + cut for stack, cut in zip(stacks, cuts, strict=True)]
        positive = [_nonnegative(*each, total) for each in zip(moved, possible, strict=True)]
        cuts = [stack - kept for stack, kept in zip(moved, positive, strict=True)]
        stacks = solve.rebuilt(solve.averaged(positive))
    return [_nonnegative(*each, total) for each in zip(stacks, possible, strict=True)]


def _nonnegative(tables: Reals, possible: npt.NDArray[np.bool_], total: float) -> Reals:
    """The same where only tables with a cell that is wrong are moved: the others have the total (proofs.md P102)."""
    wrong = ((tables < 0) | (~possible & (tables != 0))).any(axis=tuple(range(1, tables.ndim)))
    made = tables.copy()
    made[wrong] = onto_simplexes(np.where(possible[wrong], tables[wrong], -np.inf), total)
    return made


def consistent_variance(network: Network, laws: Mapping[Family, NoiseLaw], n_is_public: bool) -> dict[Family, float]:
    """The noise variance of one cell of each family table after ``reconcile``, from public values alone.

    Var(S) = sum over A inside S of sigma_A^2 prod_{v in A} (1 - 1/K_v) prod_{v in S - A} 1/K_v^2 (proofs.md P5, P30).
    """
    check_no_rules(network, "least squares")
    spreads = {table: law.contrast_variance(network.cells(table)) for table, law in laws.items()}
    variances = _Averaging(network, spreads, 0 if n_is_public else None).variances
    return {family: cell_variance(network, variances, family) for family in network.families}


def family_variances(noisy: NoisyCounts | NoisyCoefficients | Several) -> dict[Family, float]:
    """The noise variance of one cell of each family table after ``reconcile``, from all that was released."""
    assert noisy.network is not None
    variances = {block: spread for block, (_, spread) in residual_estimates(noisy).items()}
    return {family: cell_variance(noisy.network, variances, family) for family in noisy.network.families}


def residual_estimates(noisy: NoisyCounts | NoisyCoefficients | Several) -> dict[Family, tuple[Reals, float]]:
    """The least-squares estimate of every residual block and the variance of each of its coordinates.

    Keyed in the domain's order, over variables of more than one level; () holds the number of rows, with variance 0
    where it is public. Errors of different blocks and coordinates are uncorrelated. Several releases have one joint
    estimate, without the pseudo-records of any.
    """
    network = noisy.network
    assert network is not None
    if isinstance(noisy, PooledCounts):
        return pooled_estimates([residual_estimates(learning(_plain(part), network)) for part in noisy.parts])
    if isinstance(noisy, NoisyCoefficients):
        return {
            block: (values / contrast_norms(network.shape(block)), noisy.residual_variance(block))
            for block, values in noisy.contrasts().items()
        }
    if isinstance(noisy, NoisyCounts) or _is_tables(noisy):
        return _table_estimates(network, noisy)
    tables = tuple(part for part in noisy.parts if isinstance(part, NoisyCounts))
    found = [residual_estimates(_plain(part)) for part in noisy.parts if isinstance(part, NoisyCoefficients)]
    if tables:
        found.append(_table_estimates(network, tables[0] if len(tables) == 1 else JointCounts(tables)))
    return joint_estimates(found, noisy.n)


def _table_estimates(network: Network, noisy: NoisyCounts | JointCounts) -> dict[Family, tuple[Reals, float]]:
    """The estimates of those of a network's blocks that lie in measured tables of the same rows."""
    check_no_rules(network, "least squares")
    tables, spreads = measured_tables(noisy)
    solve = _Averaging(network, spreads, noisy.n)
    mean, variances = solve.by_block(solve.averaged(solve.stacked(tables))), solve.variances
    return {block: (mean[block], variances[block]) for block in coefficient_blocks(network) if block in mean}


def measured_tables(noisy: NoisyCounts | JointCounts) -> tuple[dict[Family, Reals], dict[Family, float]]:
    """The measured tables, and the variance of their noise along any direction that sums to zero.

    A table of several releases is their inverse-variance average, which loses nothing for least squares (proofs.md
    P75).
    """
    parts: Any = noisy.parts if isinstance(noisy, JointCounts) else (noisy,)
    each = [
        {
            key: (table.astype(float), part.laws[key].contrast_variance(part.network.possible_cells(key)))
            for key, table in part.tables.items()
        }
        for part in parts
    ]
    found = joint_estimates(each, None)
    return {key: mean for key, (mean, _) in found.items()}, {key: spread for key, (_, spread) in found.items()}


def joint_estimates(parts: Iterable[Estimates], n: int | None) -> dict[Family, tuple[Reals, float]]:
    """The inverse-variance average of each residual block from releases of the same rows; exact ones win, as does n."""
    met: dict[Family, list[tuple[Reals, float]]] = {}
    for part in parts:
        for block, estimate in part.items():
            met.setdefault(block, []).append(estimate)
    found: dict[Family, tuple[Reals, float]] = {}
    for block, mine in met.items():
        weights = [1 / max(spread, 1e-300) for _, spread in mine]
        total = sum(weights)
        mean = sum((weight / total * values for weight, (values, _) in zip(weights, mine, strict=True)), np.zeros(()))
        exact = any(spread == 0 for _, spread in mine)
        found[block] = mine[0] if len(mine) == 1 else (np.asarray(mean), 0.0 if exact else 1 / total)
    return found if n is None else found | {(): (np.array(float(n)), 0.0)}


def pooled_estimates(parts: Sequence[Estimates]) -> dict[Family, tuple[Reals, float]]:
    """The estimate of each residual block of all rows together from releases of different rows: sums."""
    return {
        block: (np.asarray(sum(part[block][0] for part in parts)), sum(part[block][1] for part in parts))
        for block in parts[0]
    }


def _plain(part: Any) -> Any:
    """A release without the pseudo-records that a single one is read with."""
    return replace(part, pseudo_records=0) if isinstance(part, NoisyCoefficients) else part


@dataclass(frozen=True, eq=False)
class _Stack:
    """Tables of one shape, side by side.

    ``index`` is the coordinate of each number of a transformed table, axes (table, *shape), ``weight`` its precision.
    """

    keys: tuple[Family, ...]
    index: Integers
    weight: Reals


class _Averaging:
    """The least-squares projection for tables with given noise variances, and a total if it is known.

    The residuals of all blocks are one vector, axes of each block in the domain's order; ``start`` has the place of
    each block, ``variance`` the variance of each coordinate. So an average over tables is one weighted sum by
    coordinate. Tables of one shape are transformed together.
    """

    def __init__(self, network: Network, spreads: Mapping[Family, float], n: float | None) -> None:
        self._network, self._n, self._order = network, n, tuple(spreads)
        self._places: dict[tuple[int, ...], int] = {}  # of each block, by positions of its variables
        self._sizes: list[int] = []
        self._length = 0
        by_shape: dict[tuple[int, ...], list[Family]] = {}
        for table in spreads:
            by_shape.setdefault(network.shape(table), []).append(table)
        self._stacks = [self._stack(shape, keys, spreads) for shape, keys in by_shape.items()]
        names = network.domain.names
        self.start = {tuple(names[i] for i in block): place for block, place in self._places.items()}
        self._precision = self._summed([stack.weight for stack in self._stacks])
        self.variance = 1 / self._precision
        if n is not None:
            self.variance[self.start[()]] = 0.0

    @property
    def variances(self) -> dict[Family, float]:
        """The variance of the coordinates of each block, keyed in the domain's order."""
        return dict(zip(self.start, self.variance[list(self.start.values())].tolist(), strict=True))

    def by_block(self, vector: Reals) -> dict[Family, Reals]:
        """A vector's part of each block, keyed and with axes in the domain's order."""
        parts = np.split(vector, list(self.start.values())[1:])
        shapes = (block_shape(self._network, block) for block in self.start)
        return {block: part.reshape(shape) for block, part, shape in zip(self.start, parts, shapes, strict=True)}

    def vector(self, blocks: Mapping[Family, Reals]) -> Reals:
        """The inverse of ``by_block``."""
        return np.concatenate([blocks[block].ravel() for block in self.start])

    def averaged(self, stacks: Sequence[Reals]) -> Reals:
        """The average residual of every coordinate over the tables of all stacks."""
        residuals = [residual_transform(values, forward=True, batched=True) for values in stacks]
        weighted = [stack.weight * values for stack, values in zip(self._stacks, residuals, strict=True)]
        mean = self._summed(weighted) / self._precision
        if self._n is not None:
            mean[self.start[()]] = float(self._n)
        return mean

    def rebuilt(self, mean: Reals) -> list[Reals]:
        """The consistent tables with these residuals, stacked."""
        return [residual_transform(mean[stack.index], forward=False, batched=True) for stack in self._stacks]

    def possible(self) -> list[npt.NDArray[np.bool_]]:
        """The cells of the stacked tables that may have rows."""
        found = []
        for stack in self._stacks:
            masks = [self._network.possible(key) for key in stack.keys]
            ones = np.ones(stack.index.shape[1:], bool)
            found.append(np.stack([ones if mask is None else mask for mask in masks]))
        return found

    def stacked(self, tables: Mapping[Family, Reals]) -> list[Reals]:
        """The tables of each shape side by side, axes (table, *shape)."""
        return [np.stack([np.asarray(tables[key], float) for key in stack.keys]) for stack in self._stacks]

    def unstacked(self, stacks: Sequence[Reals]) -> dict[Family, Reals]:
        """The inverse of ``stacked``, in the order of the variances given."""
        pairs = zip(self._stacks, stacks, strict=True)
        found = {key: table for stack, values in pairs for key, table in zip(stack.keys, values, strict=True)}
        return {key: found[key] for key in self._order}

    def james_stein(self, mean: Reals, variance: Reals) -> Reals:
        """The positive-part James-Stein factor of each coordinate's block; 1 outside interactions of three or more."""
        starts, sizes = np.array(list(self.start.values())), np.array(self._sizes)
        norms = np.add.reduceat(mean**2, starts)
        large = (sizes > 2) & (norms > 0) & (np.array([len(block) for block in self.start]) > 1)
        ratio = np.divide((sizes - 2) * variance[starts], norms, out=np.zeros(len(norms)), where=large)
        return np.repeat(np.maximum(0.0, 1 - ratio), sizes)

    def _stack(self, shape: tuple[int, ...], keys: Sequence[Family], spreads: Mapping[Family, float]) -> _Stack:
        """Numbers the coordinates of the tables of one shape."""
        place = self._network.position
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
            if block not in self._places:
                self._places[block] = self._length
                self._sizes.append(size)
                self._length += size
            found.append(self._places[block])
        return np.array(found, np.int64)

    def _summed(self, parts: Sequence[Reals]) -> Reals:
        total = np.zeros(self._length)
        for stack, part in zip(self._stacks, parts, strict=True):
            total += np.bincount(stack.index.ravel(), part.ravel(), minlength=self._length)
        return total


@lru_cache(maxsize=256)
def _numbered(sizes: tuple[int, ...], order: tuple[int, ...]) -> Integers:
    """The coordinates of a block from 0 on, in C order of its axes taken in the given order."""
    numbers = np.arange(math.prod(sizes)).reshape([sizes[axis] for axis in order])
    return numbers.transpose([order.index(axis) for axis in range(len(order))])
