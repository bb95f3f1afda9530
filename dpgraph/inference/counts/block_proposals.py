"""Exact draws of counts where noise is wide: proposals that are constant on blocks, then rejection.

P(s | y) is proportional to prod_k w_k(s_k) f_k(s_k) h(sum(s)): w_k(s) = Gamma(a_k + s) / s! of the Dirichlet prior, f_k
the laws of the noise, h one at a known n, else the law of n. On blocks of g whole numbers w_k f_k is replaced by a
bound; sums of blocks and of places within them are drawn, then blocks and places that add up to them, and a table is
kept with probability prod_k w_k f_k over its bounds, so draws are exact (proofs.md P109, P123).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from dpgraph.inference._kernels import compiled
from dpgraph.inference.counts import _kernels
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.structure.tables import Integers, Reals

LogPrior = Callable[[Integers], Reals]
#: Cumulative shares of the sums of blocks, and how a sum of places is drawn for each of some sums of blocks.
Totals = tuple[Reals, Callable[[Integers, np.random.Generator], Integers]]

#: Blocks of fewer numbers than this save nothing.
LEAST_BLOCK = 4
#: The steepest fall of all log laws together over one block, in standard deviations of noise; and the least blocks that
#: the average count spans.
FALL, SPAN = 1.0, 4
#: Additions of the convolutions of one table above which other methods are as quick, where n is known and where not.
MOST_WORK, MOST_WORK_UNKNOWN = 3e7, 2e8
#: The most weights of numbers of rows, one for each sum of blocks that leads to it.
MOST_TOTALS = 3e7
#: Sums of blocks whose log weight is further below the best than this, and than K log K, are left out.
DEPTH = 60.0
#: Proposals for each draw that is still wanted, at first; accepted ones below this share give up.
FIRST, LEAST_ACCEPTED = 3, 0.01
#: The least mass of an unnormalised sum that doubles still hold in full.
LEAST_MASS = 1e-250


def draw_by_blocks(
    measured: Sequence[tuple[Integers, CellNoise]],
    alpha: Reals,
    lows: Integers,
    highs: Integers,
    n: int | None,
    rng: np.random.Generator,
    size: int,
    *,
    log_prior_n: LogPrior | None = None,
) -> Integers | None:
    """Independent draws of counts, shape (size, cells); None where blocks would be small or too few proposals are kept.

    Given are noisy versions of the counts, flat, with the law of the noise in each cell; the Dirichlet concentrations;
    the least and the largest number of each cell that matters; n, or None and log p(n) up to a constant, if not flat.
    """
    cells = lows.size
    block = block_size(measured, cells, np.inf if n is None else n)
    if block < LEAST_BLOCK:
        return None
    first = lows // block
    base, width = int(first.sum()) * block, int((highs // block - first).max()) + 1
    reach = cells * (width - 1) + 1  # as many sums of blocks, counted from the first ones
    if n is not None:
        reach = min(reach, (n - base) // block + 1)
    width = min(width, reach)
    if reach < 1 or float(cells) * width * reach > (MOST_WORK_UNKNOWN if n is None else MOST_WORK):
        return None
    bounds = block_bounds(measured, alpha, (first[:, None] + np.arange(width)) * block, block)
    weights, sums = np.exp(bounds - bounds.max(axis=1, keepdims=True)), np.zeros((cells, reach))
    compiled(_kernels.partial_sums)(weights, sums)
    log_sums = np.where(sums[-1] >= LEAST_MASS, np.log(np.maximum(sums[-1], LEAST_MASS)), -np.inf)
    if log_sums.max() == -np.inf:
        return None
    if n is None:
        log_prior = log_prior_n or (lambda totals: np.zeros(totals.size))
        found = _unknown_total(base, block, alpha, log_prior, log_sums)
    else:
        found = _known_total(n - base, block, ways(cells, block), log_sums)
    if found is None:
        return None
    share, sums_of_places = found

    def proposed(many: int) -> tuple[Integers, Integers]:
        blocks = np.zeros((many, cells), np.int64)
        compiled(_kernels.propose)(rng, weights, sums, share, blocks)
        places = _places_that_add_up(sums_of_places(blocks.sum(axis=1), rng), cells, block, rng)
        return blocks, (first + blocks) * block + places

    return _kept_proposals(proposed, measured, alpha, bounds, rng, size)


def _kept_proposals(
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


def block_size(measured: Sequence[tuple[Integers, CellNoise]], cells: int, n: float) -> int:
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
    """The log of the bounds of the laws on every block, axes (cell, block)."""
    ends = [log_prior_of(alpha, (starts + end).T).T for end in (0, block - 1)]
    total = np.maximum(*ends)
    for y, noise in measured:
        below, above = starts - y[:, None], y[:, None] - (starts + block - 1)
        total += noise.log(np.maximum(np.maximum(below, above), 0).T).T
    return total


def _known_total(rest: int, block: int, counted: Reals, log_sums: Reals) -> Totals | None:
    """The sums of blocks where blocks and places add up to ``rest``: the rest for the places is known."""
    left = rest - block * np.arange(log_sums.size)
    made = np.where(left < counted.size, counted[np.minimum(left, counted.size - 1)], 0.0)
    likely = np.exp(log_sums - log_sums.max()) * made
    return (np.cumsum(likely), lambda wholes, rng: left[wholes]) if likely.any() else None


def _unknown_total(base: int, block: int, alpha: Reals, log_prior: LogPrior, log_sums: Reals) -> Totals | None:
    """The sums of blocks, each with the numbers of rows that it and the sums of places lead to."""
    counted = ways(alpha.size, block)
    low, high = _likely_sums(log_sums, alpha, log_prior, base, block)
    if high < low or float(high - low + 1) * counted.size > MOST_TOTALS:
        return None
    totals = base + np.arange(block * low, block * high + counted.size)
    log_h = log_mass(alpha, totals) + log_prior(totals)

    def log_places(whole: int) -> Reals:
        """For one sum of blocks the log weight of each sum of places, but for the ways to make it."""
        start = block * (whole - low)
        return log_sums[whole] + log_h[start : start + counted.size]

    def drawn(wholes: Integers, rng: np.random.Generator) -> Integers:
        uniforms, rest = rng.random(wholes.size), np.zeros(wholes.size, np.int64)
        for whole in np.unique(wholes):
            log, mine = log_places(int(whole)), wholes == whole
            below = np.cumsum(np.exp(log - log.max()) * counted)
            rest[mine] = np.searchsorted(below, uniforms[mine] * below[-1], side="right")
        return np.minimum(rest, counted.size - 1)

    logs = [log_places(whole) for whole in range(low, high + 1)]
    top, likely = max(float(log.max()) for log in logs), np.zeros(log_sums.size)
    likely[low : high + 1] = [np.exp(log - top) @ counted for log in logs]
    return (np.cumsum(likely), drawn) if likely.any() else None


def log_mass(alpha: Reals, n: Integers) -> Reals:
    """log of n! / Gamma(A + n), A the sum of the concentrations."""
    from scipy.special import gammaln

    return gammaln(n + 1.0) - gammaln(n + float(alpha.sum()))


def _likely_sums(log_sums: Reals, alpha: Reals, log_prior: LogPrior, base: int, block: int) -> tuple[int, int]:
    """The first and the last sum of blocks whose weight matters where n is unknown; (0, -1) where none has any."""
    cells, reach = alpha.size, log_sums.size
    grid = base + block * np.arange(reach + cells - 1)  # those of one sum are as many as there are cells
    middle = grid[:reach] + cells * (block - 1) // 2
    rough = log_sums + log_mass(alpha, middle) + _sliding_maximum(log_prior(grid), cells)
    inside = np.flatnonzero(rough >= rough.max() - DEPTH - cells * np.log(cells))
    return (max(0, int(inside[0]) - 1), min(reach - 1, int(inside[-1]) + 1)) if inside.size else (0, -1)


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


@lru_cache(maxsize=64)
def _running_ways(cells: int, block: int) -> Reals:
    return np.concatenate([[0.0], np.cumsum(ways(cells, block))])


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


def _sliding_maximum(values: Reals, length: int) -> Reals:
    """The largest of so many values in a row, from each on."""
    from scipy.ndimage import maximum_filter1d

    return maximum_filter1d(values, length, origin=-(length // 2))[: values.size - length + 1]
