"""Exact draws of Dirichlet-multinomial counts given noisy counts: forward convolution, backward sampling.

P(s | y) is proportional to prod_k Gamma(a_k + s_k) / s_k! noise(y_k - s_k) on sum(s) = n (MATHS 7). Cells are
independent but for their sum, so the laws of the partial sums are convolutions, and the cells are drawn from the last
to the first given the sum that is left. Draws are independent; there is no chain.

Tilting every cell by exp(t s) changes nothing given the sum, and puts n where the convolved mass is, so that fast
Fourier transforms lose nothing that matters: what is cut, tails of mass below 1e-15 in each convolution, and windows of
40 noise scales in each cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgraph.inference.cell_noise import CellNoise
from dpgraph.privacy.records import NoiseLaw, ReleaseError, SumZeroLaplace

Reals = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
LogPrior = Callable[[Integers], Reals]

#: Mass that a convolution may lose at each end.
TAIL = 1e-15
#: Convolutions of fewer products than this are done directly.
DIRECT = 1 << 16
#: Rejection rounds before the rest is drawn by inversion, and the weights that inversion holds at once.
ROUNDS, HELD = 12, 1 << 22
#: An unknown n: log weight below the mode's at which to stop, and the most tilts.
NEGLIGIBLE, MOST_BANDS = 35.0, 60


@dataclass(frozen=True)
class _Mass:
    """Non-negative weights of the integers from ``low`` on, summing to 1; ``log_scale`` is what was divided out."""

    low: int
    weight: Reals

    def at(self, values: Integers) -> Reals:
        """The weights of some integers, 0 outside."""
        index = values - self.low
        inside = (index >= 0) & (index < self.weight.size)
        return np.where(inside, self.weight[np.clip(index, 0, self.weight.size - 1)], 0.0)

    @property
    def values(self) -> Integers:
        return np.arange(self.low, self.low + self.weight.size)


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
    """Independent draws of the exact counts behind noisy ones, under a Dirichlet prior of the probabilities.

    Args:
        noisy: The noisy counts, shape (K,).
        law: Their noise law; the likelihood of sum-zero noise is that of independent noise on sum(s) = n.
        concentration: The Dirichlet concentrations, shape (K,), positive.
        n: The number of records, or None where it is not public.
        rng: Randomness for post-processing.
        size: How many draws.
        log_prior_n: Where n is None, log p(n) up to a constant for a vector of n; flat if left out. A noisy
            measurement of n belongs here too.

    Returns:
        Shape (size, K): non-negative, each row summing to n where it is known.

    Raises:
        ReleaseError: If shapes disagree, a concentration is not positive and finite, n is negative, or sum-zero noise
            comes without n.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> rng = np.random.default_rng(0)
    >>> draws = sample_counts(np.array([7, 1, 4]), DiscreteLaplace(2.0), np.ones(3), 10, rng, size=5)
    >>> draws.shape, set(draws.sum(axis=1).tolist())
    ((5, 3), {10})
    """
    y = np.asarray(noisy, np.int64)
    if n is None and isinstance(law, SumZeroLaplace):
        raise ReleaseError("noise that sums to zero shows n; give it")
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
    """The same from several independent noisy versions of the counts, each with its own noise.

    Args:
        measured: Noisy counts of shape (K,), and the law of the noise in each of their cells.
        concentration: The Dirichlet concentrations, shape (K,), positive.
        n: The number of records, or None where it is not public.
        rng: Randomness for post-processing.
        size: How many draws.
        log_prior_n: As for ``sample_counts``.

    Raises:
        ReleaseError: As for ``sample_counts``.
    """
    alpha = np.asarray(concentration, float)
    for y, _ in measured:
        _check(y, alpha, n)
    logs = _cells(measured, alpha, n)
    if n is None:
        return _unknown_total(logs, lambda m: _log_total(m, float(alpha.sum()), log_prior_n), rng, size)
    tilt = _tilt(logs, n)
    cells = [_tilted(low, log, tilt)[0] for low, log in logs]
    return _backward(cells, list(_partial_sums(cells, n)), np.full(size, n), rng)


def _check(noisy: Integers, concentration: Reals, n: int | None) -> None:
    """Refuses what has no posterior."""
    if noisy.ndim != 1 or noisy.size == 0 or concentration.shape != noisy.shape:
        raise ReleaseError(f"concentration must have the shape of noisy, one axis; got {concentration.shape}")
    if not (np.isfinite(concentration).all() and (concentration > 0).all()):
        raise ReleaseError("every concentration must be a finite number above 0")
    if n is not None and n < 0:
        raise ReleaseError(f"n must be at least 0; got {n}")


def _cells(measured: Sequence[tuple[Integers, CellNoise]], alpha: Reals, n: int | None) -> list[tuple[int, Reals]]:
    """For each cell log Gamma(a + s) / s! prod noise(y - s) on the window of s that matters, and where that begins."""
    from scipy.special import gammaln

    best, narrow = min(measured, key=lambda pair: pair[1].deviation)
    if n is None:
        centres, half = np.maximum(best, 0), narrow.reach + 2 * narrow.deviation * np.sqrt(best.size)
    else:
        centres, half = np.clip(best, 0, n), narrow.reach + abs(n - int(np.clip(best, 0, n).sum()))
    lows = np.maximum(0, centres - int(half) - 1)
    highs = centres + int(half) + 1 if n is None else np.minimum(n, centres + int(half) + 1)
    logs: list[tuple[int, Reals]] = []
    for k, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        s = np.arange(low, high + 1)
        log = gammaln(alpha[k] + s) - gammaln(s + 1.0)
        for y, noise in measured:
            log = log + noise.log(y[k] - s)
        logs.append((low, log))
    return logs


def _tilted(low: int, log: Reals, tilt: float) -> tuple[_Mass, float]:
    """The weights times exp(tilt s), normalised, without tails that do not matter; and the log of their sum."""
    moved = log + tilt * np.arange(low, low + log.size)
    top = moved.max()
    weight = np.exp(moved - top)
    return _trimmed(low, weight), float(top + np.log(weight.sum()))


def _trimmed(low: int, weight: Reals) -> _Mass:
    """Cuts both tails, normalises the rest."""
    total = np.cumsum(weight)
    total /= total[-1]
    first = int(np.searchsorted(total, TAIL))
    last = weight.size - int(np.searchsorted(np.cumsum(weight[::-1]), TAIL * weight.sum()))
    kept = weight[first : max(last, first + 1)]
    return _Mass(low + first, kept / kept.sum())


def _moments(logs: list[tuple[int, Reals]], tilt: float) -> tuple[float, float]:
    """Mean and variance of the sum of the tilted cells."""
    mean, variance = 0.0, 0.0
    for low, log in logs:
        s = np.arange(log.size)
        weight = log + tilt * s
        weight = np.exp(weight - weight.max())
        weight /= weight.sum()
        centre = float(weight @ s)
        mean += low + centre
        variance += float(weight @ (s - centre) ** 2)
    return mean, variance


def _tilt(logs: list[tuple[int, Reals]], total: float, tilt: float = 0.0) -> float:
    """The t at which the tilted cells' means sum to the total: Newton on a monotone function, kept in a bracket."""
    below, above = -np.inf, np.inf
    for _ in range(100):
        mean, variance = _moments(logs, tilt)
        if abs(mean - total) <= max(0.1 * np.sqrt(variance), 1e-3):
            break
        below, above = (tilt, above) if mean < total else (below, tilt)
        step = tilt + (total - mean) / variance if variance > 0 else np.inf
        if not below < step < above:
            step = (below + above) / 2 if np.isfinite(below + above) else 2 * tilt + np.sign(total - mean)
        tilt = step
    return tilt


def _partial_sums(cells: list[_Mass], most: int | None = None) -> Iterator[_Mass]:
    """The law of the sum of the first k cells, for each k."""
    running = cells[0]
    yield running
    for cell in cells[1:]:
        weight = _convolved(running.weight, cell.weight)
        low = running.low + cell.low
        running = _trimmed(low, weight if most is None else weight[: max(1, most - low + 1)])
        yield running


def _convolved(one: Reals, other: Reals) -> Reals:
    """The convolution, direct where that is quick."""
    if one.size * other.size <= DIRECT or min(one.size, other.size) < 16:
        return np.convolve(one, other)
    from scipy.fft import irfft, next_fast_len, rfft

    size = one.size + other.size - 1
    length = next_fast_len(size, real=True)
    product = irfft(np.asarray(rfft(one, length)) * np.asarray(rfft(other, length)), length)
    return np.maximum(np.asarray(product)[:size], 0.0)


@dataclass(frozen=True)
class _Band:
    """What one tilt is good for: the totals near its mean, and the log of their posterior weights."""

    cells: list[_Mass]
    sums: list[_Mass]
    tilt: float
    mean: float
    spread: float
    log: Reals

    @property
    def reach(self) -> float:
        return 2 + 4 * self.spread


def _band(logs: list[tuple[int, Reals]], tilt: float, log_total: LogPrior) -> _Band:
    """Convolves the tilted cells; log P(n | y) = log of their law - tilt n + log of their sums + log of the total's."""
    cells, scales = zip(*(_tilted(low, log, tilt) for low, log in logs), strict=True)
    sums = list(_partial_sums(list(cells)))
    n, weight = sums[-1].values, sums[-1].weight
    mean = float(weight @ n)
    with np.errstate(divide="ignore"):
        log = np.log(weight) - tilt * n + sum(scales) + log_total(n)
    return _Band(list(cells), sums, tilt, mean, float(np.sqrt(weight @ (n - mean) ** 2)), log)


def _unknown_total(logs: list[tuple[int, Reals]], log_total: LogPrior, rng: np.random.Generator, size: int) -> Integers:
    """Draws n, then the cells given n.

    n's posterior may be far wider than the tilted cells' sum, so it is pieced together from several tilts, each used
    within four standard deviations of its mean.
    """
    pieces = _pieces(logs, log_total)
    n = np.concatenate([values for _, values, _ in pieces])
    log = np.concatenate([log for _, _, log in pieces])
    weight = np.exp(log - log.max())
    totals = rng.choice(n, size=size, p=weight / weight.sum())
    drawn = np.zeros((size, len(logs)), np.int64)
    for band, values, _ in pieces:
        mine = (totals >= values[0]) & (totals <= values[-1])
        if mine.any():
            drawn[mine] = _backward(band.cells, band.sums, totals[mine], rng)
    return drawn


def _pieces(logs: list[tuple[int, Reals]], log_total: LogPrior) -> list[tuple[_Band, Integers, Reals]]:
    """Bands about the mode of n's posterior, then outwards until nothing is left; their values and log weights."""
    band = _band(logs, 0.0, log_total)
    for _ in range(20):
        weight = np.exp(band.log - band.log.max())
        wanted = float(weight @ band.sums[-1].values / weight.sum())
        if abs(wanted - band.mean) <= 1 + 0.5 * band.spread:
            break
        band = _band(logs, _tilt(logs, wanted, band.tilt), log_total)
    pieces = [(band, *_within(band, band.mean - band.reach, band.mean + band.reach))]
    lowest, highest = sum(low for low, _ in logs), sum(low + log.size - 1 for low, log in logs)
    for side, end in ((-1, lowest), (1, highest)):
        last, values, log = pieces[0]
        while len(pieces) < MOST_BANDS:
            outer = 0 if side < 0 else -1
            edge = int(values[outer])
            if edge == end or log[outer] < max(one.max() for _, _, one in pieces) - NEGLIGIBLE:
                break
            last = _next_band(logs, last, edge, side, log_total)
            values, log = _within(last, *sorted((edge + side, last.mean + side * last.reach)))
            pieces.append((last, values, log))
    return pieces


def _next_band(logs: list[tuple[int, Reals]], last: _Band, edge: int, side: int, log_total: LogPrior) -> _Band:
    """The band beyond an edge that still reaches back to it."""
    lowest, highest = sum(low for low, _ in logs), sum(low + log.size - 1 for low, log in logs)
    step = last.reach
    while True:
        target = float(np.clip(edge + side * step, lowest, highest))
        band = _band(logs, _tilt(logs, target, last.tilt), log_total)
        if abs(band.mean - edge) <= band.reach or step < 1:
            return band
        step /= 2


def _within(band: _Band, low: float, high: float) -> tuple[Integers, Reals]:
    """The totals of a band from low to high, and their log weights."""
    n = band.sums[-1].values
    inside = (n >= low) & (n <= high)
    return n[inside], band.log[inside]


def _log_total(n: Integers, mass: float, log_prior_n: LogPrior | None) -> Reals:
    """log p(n) n! / Gamma(A + n), with A the sum of the concentrations."""
    from scipy.special import gammaln

    log = gammaln(n + 1.0) - gammaln(n + mass)
    return log if log_prior_n is None else log + log_prior_n(n)


def _backward(cells: list[_Mass], sums: list[_Mass], totals: Integers, rng: np.random.Generator) -> Integers:
    """Draws the last cell given the sum, then the one before it given what is left."""
    drawn = np.zeros((totals.size, len(cells)), np.int64)
    left = totals.copy()
    for k in range(len(cells) - 1, 0, -1):
        drawn[:, k] = _given_sum(cells[k], sums[k - 1], left, rng)
        left -= drawn[:, k]
    drawn[:, 0] = left
    return drawn


def _given_sum(cell: _Mass, rest: _Mass, totals: Integers, rng: np.random.Generator) -> Integers:
    """One draw for each total, with weight cell(s) rest(total - s): rejection from the cell, then inversion."""
    below = np.cumsum(cell.weight)
    most = rest.weight.max()
    drawn = np.zeros(totals.size, np.int64)
    waiting = np.arange(totals.size)
    for _ in range(ROUNDS):
        tries = cell.low + np.searchsorted(below, rng.random(waiting.size) * below[-1], side="right")
        accepted = rng.random(waiting.size) * most < rest.at(totals[waiting] - tries)
        drawn[waiting[accepted]] = tries[accepted]
        waiting = waiting[~accepted]
        if waiting.size == 0:
            return drawn
    rows = max(1, HELD // cell.weight.size)
    for start in range(0, waiting.size, rows):
        some = waiting[start : start + rows]
        drawn[some] = _inverted(cell, rest, totals[some], rng)
    return drawn


def _inverted(cell: _Mass, rest: _Mass, totals: Integers, rng: np.random.Generator) -> Integers:
    """The same by the cumulated weights; totals that recur share theirs."""
    unique, which = np.unique(totals, return_inverse=True)
    weight = cell.weight * rest.at(unique[:, None] - cell.values)
    below = np.cumsum(weight, axis=1)
    below /= below[:, -1:]
    flat = (below + np.arange(unique.size)[:, None]).ravel()
    found = np.searchsorted(flat, rng.random(totals.size) + which, side="right") - which * cell.weight.size
    return cell.low + np.clip(found, 0, cell.weight.size - 1)
