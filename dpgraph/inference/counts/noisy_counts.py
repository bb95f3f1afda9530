"""Posteriors of a count, and of a mean of bounded losses, given noisy values, by summation over the unknown number.

Each piece of evidence is a noisy value of one count and the scales of the independent noises in it. The likelihood is
the density of that sum of noises: exact for one noise and for Gaussian noise, by Fourier inversion else. The noise
lies on a grid of 2^-16 rows or finer, so its mass function is a density for all that follows.

The sum of n independent losses in [0, 1] is taken as normal about n m with n times their variance, its noise exactly:
the likelihood of m is their convolution. The variance is known by the noisy sum of squares, and summed out within
m^2 <= E u^2 <= m; so is n where it is private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, gammaln, log_ndtr

from dpgraph.structure.frozen import frozen_array
from dpgraph.structure.tables import Reals

#: Points of the Fourier grid, nodes of a latent count, nats below the best that are kept, log2 of the draws.
GRID, NODES, DEPTH, DRAWS = 1 << 14, 2001, 25.0, 10
#: Density, as a part of the highest, below which the inverted one is continued by its exponential tail.
TAIL = 1e-9
#: Points of the mean and of the second moment, values of the latter that are kept, standard deviations on each side.
POINTS, MOMENTS, QUANTILES, WIDE = 401, 49, 7, 14.0
#: sqrt(2 pi).
ROOT = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Evidence:
    """A noisy value of a count, in rows, with the scale of each independent noise in it, Laplace or Gaussian."""

    value: float
    scales: tuple[float, ...]
    gaussian: bool = False

    @property
    def deviation(self) -> float:
        """The standard deviation of the noise."""
        return math.sqrt((1 if self.gaussian else 2) * sum(scale**2 for scale in self.scales))

    def log_likelihood(self, count: Reals) -> Reals:
        """ln of the density of the value at each count."""
        off = np.abs(self.value - count)
        if self.gaussian:
            return -((off / self.deviation) ** 2) / 2 - math.log(self.deviation * ROOT)
        if len(self.scales) == 1:
            return -off / self.scales[0] - math.log(2 * self.scales[0])
        at, log = _laplace_sum(tuple(sorted(self.scales)))
        beyond = np.maximum(off - at[-1], 0.0) / max(self.scales)
        return np.interp(off, at, log) - beyond


@lru_cache(maxsize=256)
def _laplace_sum(scales: tuple[float, ...]) -> tuple[Reals, Reals]:
    """Distances from 0 and the log density there of a sum of Laplace noises, by inverting prod 1 / (1 + b^2 t^2)."""
    unit = max(scales)
    half = 12 * math.sqrt(2 * sum((scale / unit) ** 2 for scale in scales)) + 40
    step = 2 * half / GRID
    t = 2 * math.pi * np.arange(GRID // 2 + 1) / (GRID * step)
    transform = np.exp(-sum(np.log1p((scale / unit * t) ** 2) for scale in scales))
    density: Reals = np.asarray(np.fft.irfft(transform, GRID)[: GRID // 2] / step, np.float64)
    sound = int(np.argmax(np.append(density, 0.0) < TAIL * density[0]))
    return np.arange(sound, dtype=np.float64) * (step * unit), np.log(density[:sound] / unit)


@dataclass(frozen=True)
class LatentCount:
    """A count given its evidence: nodes, weights that sum to 1, and the log likelihood at each node."""

    nodes: Reals
    weights: Reals
    log_likelihood: Reals

    def at(self, uniform: Reals) -> Reals:
        """Quantiles."""
        below = np.cumsum(self.weights)
        return self.nodes[np.minimum(np.searchsorted(below, uniform * below[-1]), len(self.nodes) - 1)]

    def allows(self, evidence: Sequence[Evidence], count: float, surprise: float) -> bool:
        """Tests a count's likelihood for being at most so many nats below the best."""
        there = _log_likelihood(evidence, np.array([count]))[0]
        return bool(there >= self.log_likelihood.max() - surprise)


def latent_count(evidence: Sequence[Evidence], most: int | None = None, kinds: tuple[int, int] = (1, 1)) -> LatentCount:
    """The law of a count c given independent evidence.

    The prior weight is Gamma(c + 1/2) / c!, and of n - c likewise where n is known: Jeffreys' for a share of n; for two
    counts of unknown sum it is Jeffreys' for the share and flat in the sum. Where the rows counted, and the rest, are
    of k kinds, the two numbers of ``kinds``, it is Gamma(c + k/2) / c!: Jeffreys' for the shares of all kinds. A known
    n is ``most``; no evidence then leaves the prior.
    """
    mine, others = kinds
    high = float(most) if most is not None else max(1.0, max(e.value + 60 * e.deviation for e in evidence))
    low = 0.0
    while True:
        nodes = np.unique(np.round(np.linspace(low, high, NODES)))
        log = _log_likelihood(evidence, nodes)
        weighted = log + gammaln(nodes + mine / 2) - gammaln(nodes + 1)
        if most is not None:
            weighted += gammaln(most - nodes + others / 2) - gammaln(most - nodes + 1)
        kept = np.flatnonzero(weighted >= weighted.max() - DEPTH)
        first, last = max(kept[0] - 1, 0), min(kept[-1] + 1, len(nodes) - 1)
        if len(nodes) < NODES or (last - first) > NODES / 2:
            weights = np.exp(weighted - weighted.max())
            return LatentCount(nodes, weights / weights.sum(), log)
        low, high = nodes[first], nodes[last]


def _log_likelihood(evidence: Sequence[Evidence], count: Reals) -> Reals:
    return np.sum([e.log_likelihood(count) for e in evidence], axis=0) + np.zeros_like(count)


@lru_cache(maxsize=64)
def lattice(dimensions: int) -> Reals:
    """Evenly spread points of the unit cube, shape (1024, dimensions): Sobol's, not scrambled, in mid-cell."""
    from scipy.stats.qmc import Sobol

    return frozen_array(Sobol(dimensions, scramble=False).random_base2(DRAWS) + 0.5 ** (DRAWS + 1), np.float64)


def share_draws(part: Reals, rest: Reals, uniform: Reals, kinds: tuple[int, int] = (1, 1)) -> Reals:
    """Draws of a population's share given counts of the rows in it and not in it: Beta(part + 1/2, rest + 1/2).

    Where the rows in it and not in it are of several kinds each, 1/2 for each kind.
    """
    return betaincinv(part + kinds[0] / 2, rest + kinds[1] / 2, uniform)


def mean_law(total: Evidence, squares: Evidence, rows: Reals) -> tuple[Reals, Reals]:
    """Means m in [0, 1] and their weights, which sum to 1, under a flat prior.

    Given are the noisy sums of the losses and of their squares, and equally likely numbers of rows.
    """
    middle = float(np.median(rows))
    centre, spread = total.value / middle, total.deviation / middle + 1 / math.sqrt(middle)
    low, high = (min(max(centre + side * WIDE * spread, 0.0), 1.0) for side in (-1, 1))
    if low == high:
        low, high = max(0.0, low - WIDE * spread), min(1.0, high + WIDE * spread)
    m = np.linspace(low, high, POINTS)
    for _ in range(2):
        log = _mean_log_likelihood(total, squares, rows, m)
        kept = np.flatnonzero(log >= log.max() - 30)
        m = np.linspace(m[max(kept[0] - 1, 0)], m[min(kept[-1] + 1, len(m) - 1)], POINTS)
    log = _mean_log_likelihood(total, squares, rows, m)
    weights = np.exp(log - log.max())
    return m, weights / weights.sum()


def allows_zero(total: Evidence, squares: Evidence, rows: Reals, best: Reals, surprise: float) -> bool:
    """Tests the likelihood of a mean of 0 for being at most so many nats below the best mean's."""
    log = _mean_log_likelihood(total, squares, rows, np.append(best, 0.0))
    return bool(log[-1] >= log.max() - surprise)


def _mean_log_likelihood(total: Evidence, squares: Evidence, rows: Reals, m: Reals) -> Reals:
    """ln of the average, over numbers of rows and second moments, of the likelihood of each mean."""
    variance = np.maximum(_second_moments(squares, float(np.median(rows)), m) - m**2, 0.0)
    n = rows[:, None, None]
    each = _log_density(total.value - n * m, np.sqrt(np.maximum(n * variance, 1e-12)), total)
    return np.logaddexp.reduce(each, axis=(0, 1)) - math.log(len(rows) * QUANTILES)


def _second_moments(squares: Evidence, n: float, m: Reals) -> Reals:
    """Equally likely values of E u^2 at each mean, given its noisy sum and within [m^2, m], shape (7, means)."""
    at = m**2 + (m - m**2) * np.linspace(0.0, 1.0, MOMENTS)[:, None]
    log = squares.log_likelihood(n * at)
    below = np.cumsum(np.exp(log - log.max(axis=0)), axis=0)
    wanted = (np.arange(QUANTILES) + 0.5) / QUANTILES
    place = (below[None] < wanted[:, None, None] * below[-1]).sum(axis=1)
    coarse = np.take_along_axis(at, place, axis=0)
    # Where the noise is finer than the grid, the value itself is nearer.
    fine = np.clip(squares.value / n, m**2, m)
    return np.where(n * (m - m**2) / (MOMENTS - 1) > squares.deviation / 2, fine, coarse)


def _log_density(off: Reals, deviation: Reals, noise: Evidence) -> Reals:
    if noise.gaussian:
        wide = np.hypot(deviation, noise.deviation)
        return -((off / wide) ** 2) / 2 - np.log(wide * ROOT)
    (b,) = noise.scales
    up, down = (side * off / b + log_ndtr(-side * off / deviation - deviation / b) for side in (-1, 1))
    return np.logaddexp(up, down) + (deviation / b) ** 2 / 2 - math.log(2 * b)
