"""Exact draws of counts where noise is wide: proposals that are constant on blocks, then rejection.

P(s | y) is proportional to prod_k f_k(s_k) on sum(s) = n, f_k the law of the noise at y_k - s_k times the Dirichlet
prior's Gamma(a_k + s_k) / s_k!. Whole numbers are cut into blocks of g; on block t the noise's law is at most its value
at the number of the block nearest to y_k, as noise is symmetric and falls with distance, and the prior's factor rises
or falls throughout, so it is at most its value at an end. A table is proposed with these bounds in place of the laws,
first its blocks and then its places within them, and kept with probability prod_k f_k(s_k) / bound_k(t_k), so what is
kept has the posterior exactly (proofs.md P109). The time grows with n over the scale of the noise, not with n.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from dpgraph.inference.counts import _kernels
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.structure.tables import Integers, Reals

#: Blocks of fewer numbers than this save nothing.
LEAST_BLOCK = 4
#: The steepest fall of all log laws together over one block, in standard deviations of noise; and the least blocks that
#: the average count spans, as places within blocks must be able to add up.
FALL, SPAN = 1.0, 4
#: Additions of the convolutions of one table above which other methods are as quick.
MOST_WORK = 3e7
#: Proposals for each draw that is still wanted, at first; accepted ones below this share give up.
FIRST, LEAST_ACCEPTED = 3, 0.01
#: The least mass of an unnormalised sum that doubles still hold in full.
LEAST_MASS = 1e-250


def draw_by_blocks(
    measured: Sequence[tuple[Integers, CellNoise]],
    alpha: Reals,
    lows: Integers,
    highs: Integers,
    n: int,
    rng: np.random.Generator,
    size: int,
    *,
    compiled: bool = True,
) -> Integers | None:
    """Independent draws of counts that add up to n.

    Args:
        measured: Noisy versions of the counts, flat, shape (cells,), and the law of the noise in each cell.
        alpha: The Dirichlet concentrations, shape (cells,); where all are 1 every table of n rows is as likely.
        lows: The least number of each cell that matters, shape (cells,).
        highs: The largest.
        n: The number of rows.
        rng: Randomness for post-processing.
        size: How many draws.
        compiled: Whether numba compiles the loop; else it is plain Python.

    Returns:
        Shape (size, cells); None where blocks would be small, or too few proposals are kept.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> coin = [(np.array([700, -600]), CellNoise(DiscreteLaplace(200.0)))]
    >>> none, all_of_them = np.zeros(2, np.int64), np.full(2, 1000)
    >>> drawn = draw_by_blocks(coin, np.ones(2), none, all_of_them, 1000, np.random.default_rng(0), 5)
    >>> drawn.shape, set(drawn.sum(axis=1).tolist())
    ((5, 2), {1000})
    """
    cells = lows.size
    block = block_size(measured, cells, n)
    if cells < 2 or block < LEAST_BLOCK:
        return None
    first = lows // block
    width = int((highs // block - first).max()) + 1
    reach = n // block - int(first.sum())  # the largest sum of blocks, counted from the first ones
    if reach < 0 or float(cells) * min(width, reach + 1) * (reach + 1) > MOST_WORK:
        return None
    starts = (first[:, None] + np.arange(min(width, reach + 1))) * block
    bounds = block_bounds(measured, alpha, starts, block)
    tops = bounds.max(axis=1, keepdims=True)
    sums = np.zeros((cells, reach + 1))
    weights = np.exp(bounds - tops)
    run = _kernels.compiled_blocks() if compiled else (_kernels.partial_sums, _kernels.propose)
    run[0](weights, sums)
    whole = np.arange(reach + 1)
    counted = ways(cells, block)
    left = n - (whole + int(first.sum())) * block
    likely = np.where(left < counted.size, sums[-1] * counted[np.minimum(left, counted.size - 1)], 0.0)
    if not likely.sum() > LEAST_MASS:
        return None
    share = np.cumsum(likely / likely.sum())

    def propose(many: int) -> tuple[Integers, Integers]:
        blocks, tables = np.zeros((many, cells), np.int64), np.zeros((many, cells), np.int64)
        run[1](rng, weights, sums, share, left, block, blocks, tables)
        return blocks, tables + starts[:, 0]

    return kept_proposals(propose, measured, alpha, bounds, rng, size)


def kept_proposals(
    propose: Callable[[int], tuple[Integers, Integers]],
    measured: Sequence[tuple[Integers, CellNoise]],
    alpha: Reals,
    bounds: Reals,
    rng: np.random.Generator,
    size: int,
) -> Integers | None:
    """Draws by rejection from proposed blocks and tables, (proposals, cells) each; None where too few are kept."""
    cells = len(bounds)
    drawn, found, tried, proposals = np.zeros((size, cells), np.int64), 0, 0, FIRST * size
    while found < size:
        blocks, tables = propose(proposals)
        log = log_prior_of(alpha, tables).sum(axis=1) - bounds[np.arange(cells), blocks].sum(axis=1)
        for y, noise in measured:
            log += noise.log(y - tables).sum(axis=1)
        kept = tables[np.log1p(-rng.random(proposals)) <= log][: size - found]
        drawn[found : found + len(kept)] = kept
        found, tried = found + len(kept), tried + proposals
        if found < LEAST_ACCEPTED * tried:
            return None
        proposals = int(1.2 * (size - found) * tried / max(found, 1)) + 8
    return drawn


def block_size(measured: Sequence[tuple[Integers, CellNoise]], cells: int, n: float = np.inf) -> int:
    """How many numbers one block has: few enough that all log laws together fall by little over a block."""
    steepness = sum(1 / noise.deviation for _, noise in measured)
    return int(min(FALL / (cells * steepness), n / (SPAN * cells)))


def log_prior_of(alpha: Reals, tables: Integers) -> Reals:
    """log of Gamma(a + s) / s! for counts s, cells on the last axis."""
    if (alpha == 1).all():
        return np.zeros(tables.shape)
    from scipy.special import gammaln

    return gammaln(alpha + tables) - gammaln(tables + 1.0)


def block_bounds(measured: Sequence[tuple[Integers, CellNoise]], alpha: Reals, starts: Integers, block: int) -> Reals:
    """The log of what bounds the laws on every block, axes (cell, block)."""
    ends = [log_prior_of(alpha, (starts + end).T).T for end in (0, block - 1)]
    total = np.maximum(*ends)
    for y, noise in measured:
        below, above = starts - y[:, None], y[:, None] - (starts + block - 1)
        total += noise.log(np.maximum(np.maximum(below, above), 0))
    return total


@lru_cache(maxsize=16)
def ways(cells: int, block: int) -> Reals:
    """In how many ways places 0 to block - 1 of so many cells add up to each sum, as a share of the most there are."""
    found = np.ones(block)
    for _ in range(cells - 1):
        below = np.concatenate([[0.0], np.cumsum(found)])
        ends = np.arange(1, found.size + block)
        found = below[np.minimum(ends, found.size)] - below[np.maximum(ends - block, 0)]
        half = found[: (found.size + 1) // 2] / found.max()  # the lower half, where sums of few terms lose nothing
        found = np.concatenate([half, half[: found.size // 2][::-1]])
    found.setflags(write=False)
    return found
