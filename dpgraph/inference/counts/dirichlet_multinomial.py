"""Exact draws of Dirichlet-multinomial counts given noisy counts: sums by convolution, then draws given the sum.

P(s | y) is proportional to prod_k Gamma(a_k + s_k) / s_k! noise(y_k - s_k) on sum(s) = n (proofs.md P56). Cells are
independent but for their sum, which is drawn in halves (``integer_sums``), or by rejection from blocks where noise is
wide. Cut are counts beyond 40 noise scales of a cell, and tails of mass below 1e-15 of a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dpgraph.inference.counts.block_proposals import LogPrior, draw_by_blocks, log_mass, log_prior_of
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.integer_sums import SumTree, tilt_to, tilted_law
from dpgraph.inference.counts.many_cells import NEAR, SEEN, ManyCells, many_cells
from dpgraph.inference.interruption import interruptible
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import NoiseLaw
from dpgraph.structure.tables import Integers, Reals

#: The numbers of all windows together from which on counts are drawn by blocks.
WIDE = 2048
#: Noisy versions from which on windows are cut by what all say; points they are searched at; log likelihoods below the
#: best that are kept.
MANY, POINTS, DEPTH = 16, 256, 45.0
#: An unknown n: log weight below the mode's at which to stop, and the most tilts.
NEGLIGIBLE, MOST_BANDS = 35.0, 60


def sample_counts(
    noisy: Integers,
    law: NoiseLaw,
    concentration: Reals,
    n: int | None,
    rng: np.random.Generator,
    size: int,
    *,
    log_prior_n: LogPrior | None = None,
) -> Integers:
    """``sample_latent_counts`` of one noisy version; the likelihood of sum-zero noise is that of independent noise."""
    y = np.asarray(noisy, np.int64)
    if n is None and law.sums_to_zero:
        raise InferenceError("noise that sums to zero shows n; give it")
    return sample_latent_counts([(y, CellNoise(law))], concentration, n, rng, size, log_prior_n=log_prior_n)


def sample_latent_counts(
    measured: Sequence[tuple[Integers, CellNoise]],
    concentration: Reals,
    n: int | None,
    rng: np.random.Generator,
    size: int,
    *,
    log_prior_n: LogPrior | None = None,
) -> Integers:
    """Independent draws of exact counts behind noisy versions of them, each with the law of the noise in its cells.

    Shape (size, K): not negative, each row summing to n where it is known. ``concentration`` has the Dirichlet
    concentrations of the cells' probabilities. Where n is None ``log_prior_n`` is log p(n) up to a constant for a
    vector of n, flat if left out; a noisy measurement of n belongs there too.
    """
    sampled = counts_sampler(measured, concentration, n, log_prior_n=log_prior_n)
    # Compiled loops take the random generator, which numba unpacks: no signal may be heard there.
    return interruptible(lambda _: sampled(rng, size))


def counts_sampler(
    measured: Sequence[tuple[Integers, CellNoise]],
    concentration: Reals,
    n: int | None,
    *,
    log_prior_n: LogPrior | None = None,
) -> Callable[[np.random.Generator, int], Integers]:
    """``sample_latent_counts`` as a function that draws so many: the rest is computed once."""
    alpha = np.asarray(concentration, float)
    for y, _ in measured:
        if y.ndim != 1 or y.size == 0 or alpha.shape != y.shape:
            raise InferenceError(f"concentration must have the shape of noisy, one axis; got {alpha.shape}")
    if not (np.isfinite(alpha).all() and (alpha > 0).all()):
        raise InferenceError("every concentration must be a finite number above 0")
    if n is not None and n < 0:
        raise InferenceError(f"n must be at least 0; got {n}")
    lows, highs = _windows(measured, n)
    by_sums = cache(lambda: _by_sums(measured, alpha, n, lows, highs, log_prior_n))
    if int((highs - lows).sum()) < WIDE:
        return by_sums()

    def sampled(rng: np.random.Generator, size: int) -> Integers:
        drawn = draw_by_blocks(measured, alpha, lows, highs, n, rng, size, log_prior_n=log_prior_n)
        return by_sums()(rng, size) if drawn is None else drawn

    return sampled


def _by_sums(
    measured: Sequence[tuple[Integers, CellNoise]],
    alpha: Reals,
    n: int | None,
    lows: Integers,
    highs: Integers,
    log_prior_n: LogPrior | None,
) -> Callable[[np.random.Generator, int], Integers]:
    """Draws given the sum, half by half."""
    laws = many_cells(measured, alpha, n) or FewCells(_cells(measured, alpha, lows, highs))
    if n is None:
        return _unknown_total(laws, lambda m: log_mass(alpha, m) + (0.0 if log_prior_n is None else log_prior_n(m)))
    if isinstance(laws, ManyCells):
        tilted = laws.tilted(laws.tilt_to(n))
        return lambda rng, size: tilted.draw(np.full(size, n), rng)
    tilt = laws.tilt_to(n)
    tree = SumTree(tuple(tilted_law(low, log, tilt)[0] for low, log in laws.logs), n)
    return lambda rng, size: tree.draw(np.full(size, n), rng)


@dataclass(frozen=True)
class FewCells:
    """Where the values of each cell begin, and their log weights."""

    logs: list[tuple[int, Reals]]

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest sum."""
        return sum(low for low, _ in self.logs), sum(low + log.size - 1 for low, log in self.logs)

    def tilt_to(self, total: float, tilt: float = 0.0) -> float:
        """The tilt at which the means add up to the total."""
        return tilt_to(self.logs, total, tilt)


def _windows(measured: Sequence[tuple[Integers, CellNoise]], n: int | None) -> tuple[Integers, Integers]:
    """The least and the largest count of each cell that matters."""
    best, narrow = min(measured, key=lambda pair: pair[1].deviation)
    if n is None:
        centres, half = np.maximum(best, 0), narrow.reach + 2 * narrow.deviation * np.sqrt(best.size)
    else:
        centres, half = np.clip(best, 0, n), narrow.reach + abs(n - int(np.clip(best, 0, n).sum()))
    lows = np.maximum(0, centres - int(half) - 1)
    highs = centres + int(half) + 1 if n is None else np.minimum(n, centres + int(half) + 1)
    return _narrowed(measured, lows, highs, n) if n is not None and len(measured) >= MANY else (lows, highs)


def _narrowed(
    measured: Sequence[tuple[Integers, CellNoise]], lows: Integers, highs: Integers, n: int
) -> tuple[Integers, Integers]:
    """Windows of many noisy versions together, each cut where their log-concave likelihood is negligible.

    As far as the modes of the cells miss n together, each window is wider at both ends.
    """
    cells = np.arange(lows.size)
    for _ in range(2):
        grid = lows + (highs - lows) * np.arange(POINTS + 1)[:, None] // POINTS
        log = sum((noise.log(y - grid) for y, noise in measured), np.zeros(grid.shape))
        kept = log >= log.max(axis=0) - DEPTH
        first = np.maximum(kept.argmax(axis=0) - 1, 0)
        last = np.minimum(POINTS - kept[::-1].argmax(axis=0) + 1, POINTS)
        between = -(-(highs - lows).sum() // POINTS)  # how far the modes may be from the best points together
        missed = abs(n - int(grid[log.argmax(axis=0), cells].sum())) + between
        lows, highs = np.maximum(lows, grid[first, cells] - missed), np.minimum(highs, grid[last, cells] + missed)
    return lows, highs


def _cells(
    measured: Sequence[tuple[Integers, CellNoise]], alpha: Reals, lows: Integers, highs: Integers
) -> list[tuple[int, Reals]]:
    """For each cell log Gamma(a + s) / s! prod noise(y - s) on its window, and where that begins."""
    logs: list[tuple[int, Reals]] = []
    for k, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        s = np.arange(low, high + 1)
        log = log_prior_of(alpha[k : k + 1], s[:, None])[:, 0]
        for y, noise in measured:
            log = log + noise.log(y[k] - s)
        logs.append((low, log))
    return logs


@dataclass(frozen=True)
class _Band:
    """The totals ``n`` near the mean of one exponential tilt, and the log of their posterior weights."""

    draw: Callable[[Integers, np.random.Generator], Integers]
    n: Integers
    tilt: float
    mean: float
    reach: float
    spread: float
    log: Reals

    def between(self, low: float, high: float) -> tuple[Integers, Reals]:
        """The totals from low to high, and their log weights."""
        inside = (self.n >= low) & (self.n <= high)
        return self.n[inside], self.log[inside]


def _band(laws: FewCells | ManyCells, tilt: float, log_total: LogPrior) -> _Band:
    """Adds up the tilted cells; log P(n | y) = log of their law - tilt n + log of their sums + log of the total's."""
    if isinstance(laws, ManyCells):
        tilted = laws.tilted(tilt)
        total = tilted.sum_law(laws.many)
        lowest, highest = laws.ends
        ends = total.centre - SEEN * total.spread - 2, total.centre + SEEN * total.spread + 2
        n = np.arange(max(lowest, int(ends[0])), min(highest, int(ends[1])) + 1)
        weight, scale, draw, near = total.at(n), tilted.log_scale, tilted.draw, NEAR
    else:
        cells, scales = zip(*(tilted_law(low, log, tilt) for low, log in laws.logs), strict=True)
        tree = SumTree(cells)
        n, weight, scale, draw, near = tree.law.values, tree.law.weight, sum(scales), tree.draw, 4.0
    weight = weight / weight.sum()
    mean = float(weight @ n)
    spread = float(np.sqrt(weight @ (n - mean) ** 2))
    with np.errstate(divide="ignore"):
        log = np.log(weight) - tilt * n + scale + log_total(n)
    return _Band(draw, n, tilt, mean, 2 + near * spread, spread, log)


def _unknown_total(laws: FewCells | ManyCells, log_total: LogPrior) -> Callable[[np.random.Generator, int], Integers]:
    """Draws n, then the cells given n.

    n's posterior may be far wider than the tilted cells' sum, so it is pieced together from several tilts, each used
    within four standard deviations of its mean, or fewer where cells are many.
    """
    pieces = _pieces(laws, log_total)
    n = np.concatenate([values for _, values, _ in pieces])
    log = np.concatenate([log for _, _, log in pieces])
    weight = np.exp(log - log.max())
    weight /= weight.sum()

    def draw(rng: np.random.Generator, size: int) -> Integers:
        totals = rng.choice(n, size=size, p=weight)
        drawn: Integers | None = None
        for band, values, _ in pieces:
            mine = (totals >= values[0]) & (totals <= values[-1])
            if mine.any():
                some = band.draw(totals[mine], rng)
                drawn = np.zeros((size, some.shape[1]), np.int64) if drawn is None else drawn
                drawn[mine] = some
        assert drawn is not None
        return drawn

    return draw


def _pieces(laws: FewCells | ManyCells, log_total: LogPrior) -> list[tuple[_Band, Integers, Reals]]:
    """Bands about the mode of n's posterior, then outwards until nothing is left; their values and log weights."""
    band = _band(laws, 0.0, log_total)
    for _ in range(20):
        weight = np.exp(band.log - band.log.max())
        wanted = float(weight @ band.n / weight.sum())
        if abs(wanted - band.mean) <= 1 + 0.5 * band.spread:
            break
        band = _band(laws, laws.tilt_to(wanted, band.tilt), log_total)
    pieces = [(band, *band.between(band.mean - band.reach, band.mean + band.reach))]
    lowest, highest = laws.ends
    for side, end in ((-1, lowest), (1, highest)):
        last, values, log = pieces[0]
        while len(pieces) < MOST_BANDS:
            outer = 0 if side < 0 else -1
            edge = int(values[outer])
            if edge == end or log[outer] < max(one.max() for _, _, one in pieces) - NEGLIGIBLE:
                break
            last = _next_band(laws, last, edge, side, log_total)
            values, log = last.between(*sorted((edge + side, last.mean + side * last.reach)))
            pieces.append((last, values, log))
    return pieces


def _next_band(laws: FewCells | ManyCells, last: _Band, edge: int, side: int, log_total: LogPrior) -> _Band:
    """The band beyond an edge that still reaches back to it."""
    lowest, highest = laws.ends
    step = last.reach
    while True:
        target = float(np.clip(edge + side * step, lowest, highest))
        band = _band(laws, laws.tilt_to(target, last.tilt), log_total)
        if abs(band.mean - edge) <= band.reach or step < 1:
            return band
        step /= 2
