"""Exact draws of counts whose sum is not known, where noise is wide: proposals by blocks, then rejection.

P(s | y) is proportional to prod_k w_k(s_k) f_k(s_k) h(sum(s)): w_k the Dirichlet prior's factor, f_k the noise laws at
what was measured less s_k, h what is left of the prior and what is known of the number of rows. With bounds of w_k f_k
on blocks of g numbers in place of them, the sum T of all blocks and the sum R of all places within them are drawn with
h(g T + R), then blocks that add up to T and places that add up to R; that is kept with probability prod_k w_k f_k over
its bounds (proofs.md P123). The time grows with the rows over the scale of the noise, and linearly, by a few operations
for each, with the numbers of rows that the release allows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from dpgraph.inference.counts import _kernels
from dpgraph.inference.counts.block_proposals import (
    LEAST_BLOCK,
    LEAST_MASS,
    block_bounds,
    block_size,
    kept_proposals,
    ways,
)
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.structure.tables import Integers, Reals

LogTotal = Callable[[Integers], Reals]

#: Sums of blocks whose log weight is further below the best than this, and than K log K, are left out.
DEPTH = 60.0
#: Additions of the convolutions of one table above which other methods are as quick; they are slow without a known sum.
MOST_WORK = 2e8
#: The most weights of numbers of rows, one for each sum of blocks that leads to it.
MOST_TOTALS = 3e7


def draw_by_free_blocks(
    measured: Sequence[tuple[Integers, CellNoise]],
    alpha: Reals,
    lows: Integers,
    highs: Integers,
    log_prior_n: LogTotal | None,
    rng: np.random.Generator,
    size: int,
    *,
    compiled: bool = True,
) -> Integers | None:
    """Independent draws of counts.

    Args:
        measured: Noisy versions of the counts, flat, shape (cells,), and the law of the noise in each cell.
        alpha: The Dirichlet concentrations, shape (cells,).
        lows: The least number of each cell that matters, shape (cells,).
        highs: The largest.
        log_prior_n: For a vector of numbers of rows the log of what is known of each besides; None for nothing.
        rng: Randomness for post-processing.
        size: How many draws.
        compiled: Whether numba compiles the loop; else it is plain Python.

    Returns:
        Shape (size, cells); None where blocks would be small, or too few proposals are kept.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> coin = [(np.array([700, -600]), CellNoise(DiscreteLaplace(200.0)))]
    >>> none, many = np.zeros(2, np.int64), np.full(2, 9000)
    >>> drawn = draw_by_free_blocks(coin, np.ones(2), none, many, None, np.random.default_rng(0), 5)
    >>> drawn.shape, bool((drawn >= 0).all())
    ((5, 2), True)
    """
    block = block_size(measured, lows.size)
    if block < LEAST_BLOCK:
        return None
    proposals = _Proposals(measured, alpha, lows, highs, log_prior_n, block, compiled=compiled)
    return proposals.draw(rng, size) if proposals.prepared() else None


class _Proposals:
    """Blocks of one size, what bounds their laws, and how to draw from the bounds."""

    def __init__(
        self,
        measured: Sequence[tuple[Integers, CellNoise]],
        alpha: Reals,
        lows: Integers,
        highs: Integers,
        log_prior_n: LogTotal | None,
        block: int,
        *,
        compiled: bool,
    ) -> None:
        self._measured, self._alpha, self._block = measured, alpha, block
        self._log_prior_n = (lambda n: np.zeros(n.size)) if log_prior_n is None else log_prior_n
        self._run = _kernels.compiled_blocks() if compiled else (_kernels.partial_sums, _kernels.propose)
        first = lows // block
        self._cells, self._width = lows.size, int((highs // block - first).max()) + 1
        self._firsts, self._base = first * block, int(first.sum()) * block

    def prepared(self) -> bool:
        """Adds the bounds of all cells up, and weighs each sum of blocks; False where that would take long."""
        cells, block = self._cells, self._block
        reach = cells * (self._width - 1) + 1
        if float(cells) * self._width * reach > MOST_WORK:
            return False
        starts = self._firsts[:, None] + block * np.arange(self._width)
        self._bounds = block_bounds(self._measured, self._alpha, starts, block)
        self._weights = np.exp(self._bounds - self._bounds.max(axis=1, keepdims=True))
        self._sums = np.zeros((cells, reach))
        self._run[0](self._weights, self._sums)
        there = self._sums[-1] >= LEAST_MASS
        self._log_sums = np.where(there, np.log(np.where(there, self._sums[-1], 1.0)), -np.inf)
        grid = self._base + block * np.arange(reach + cells - 1)  # those of one sum are as many as there are cells
        middle = grid[:reach] + cells * (block - 1) // 2
        rough = self._log_sums + self._log_mass(middle) + _sliding_maximum(self._log_prior_n(grid), cells)
        inside = np.flatnonzero(rough >= rough.max() - DEPTH - cells * np.log(cells))
        low, high = (max(0, int(inside[0]) - 1), min(reach - 1, int(inside[-1]) + 1)) if inside.size else (0, -1)
        self._ways = ways(cells, block)
        if not inside.size or float(high - low + 1) * self._ways.size > MOST_TOTALS:
            return False
        totals = self._base + np.arange(block * low, block * high + self._ways.size)
        self._log_h, self._from = self._log_mass(totals) + self._log_prior_n(totals), self._base + block * low
        logs = [self._log_of_places(whole) for whole in range(low, high + 1)]
        top = max(float(log.max()) for log in logs)
        likely = np.zeros(reach)
        likely[low : high + 1] = [np.exp(log - top) @ self._ways for log in logs]
        self._share = np.cumsum(likely)
        return bool(self._share[-1] > 0)

    def _log_mass(self, n: Integers) -> Reals:
        """log of n! / Gamma(A + n), A the sum of the concentrations."""
        from scipy.special import gammaln

        return gammaln(n + 1.0) - gammaln(n + float(self._alpha.sum()))

    def _log_of_places(self, whole: int) -> Reals:
        """For one sum of blocks the log weight of each sum of places, but for the ways to make it."""
        start = self._base + self._block * whole - self._from
        return self._log_sums[whole] + self._log_h[start : start + self._ways.size]

    def draw(self, rng: np.random.Generator, size: int) -> Integers | None:
        """So many draws, or None where too few proposals are kept."""
        cells, nothing = self._cells, np.zeros(self._share.size, np.int64)

        def propose(many: int) -> tuple[Integers, Integers]:
            blocks, ignored = np.zeros((many, cells), np.int64), np.zeros((many, cells), np.int64)
            self._run[1](rng, self._weights, self._sums, self._share, nothing, 1, blocks, ignored)
            places = _places_that_add_up(self._sums_of_places(blocks.sum(axis=1), rng), cells, self._block, rng)
            return blocks, self._firsts + blocks * self._block + places

        return kept_proposals(propose, self._measured, self._alpha, self._bounds, rng, size)

    def _sums_of_places(self, wholes: Integers, rng: np.random.Generator) -> Integers:
        """A sum of places for each sum of blocks."""
        uniforms, found = rng.random(wholes.size), np.zeros(wholes.size, np.int64)
        for whole in np.unique(wholes):
            mine = wholes == whole
            log = self._log_of_places(int(whole))
            below = np.cumsum(np.exp(log - log.max()) * self._ways)
            found[mine] = np.searchsorted(below, uniforms[mine] * below[-1], side="right")
        return np.minimum(found, self._ways.size - 1)


def _places_that_add_up(sums: Integers, cells: int, block: int, rng: np.random.Generator) -> Integers:
    """For each sum even draws of that many places that add up to it: the last by how many ways are left, and so on.

    Of more than half of the largest sum the places are counted from above, where sums of few ways lose no digits.
    """
    places, left = np.zeros((sums.size, cells), np.int64), sums.copy()
    for k in range(cells - 1, 0, -1):
        above = 2 * left > (k + 1) * (block - 1)
        short = np.where(above, (k + 1) * (block - 1) - left, left)
        below = _running_ways(k, block)
        first, last = np.maximum(short - block + 1, 0), np.minimum(short, below.size - 2)
        point = below[first] + rng.random(sums.size) * (below[last + 1] - below[first])
        others = np.clip(np.searchsorted(below, point, side="right") - 1, first, last)
        places[:, k] = np.where(above, block - 1 - (short - others), short - others)
        left -= places[:, k]
    places[:, 0] = left
    return places


@lru_cache(maxsize=64)
def _running_ways(cells: int, block: int) -> Reals:
    """Running sums of ``ways`` from 0 on."""
    return np.concatenate([[0.0], np.cumsum(ways(cells, block))])


def _sliding_maximum(values: Reals, length: int) -> Reals:
    """The largest of so many values in a row, from each on: by maxima from the edges of pieces of that length."""
    pieces = -(-values.size // length)
    padded = np.full(pieces * length, -np.inf)
    padded[: values.size] = values
    cut = padded.reshape(pieces, length)
    onward = np.maximum.accumulate(cut, axis=1).ravel()
    back = np.maximum.accumulate(cut[:, ::-1], axis=1)[:, ::-1].ravel()
    many = values.size - length + 1
    return np.maximum(back[:many], onward[length - 1 : length - 1 + many])
