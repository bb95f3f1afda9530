"""The posterior of a population's mean of a bounded loss, given noisy sums of the loss and of its square.

The sum of n independent losses is taken as normal about n m with n times their variance, and its noise as what it is:
the likelihood of m is their convolution, in closed form. The variance itself is known by the noisy sum of squares, and
summed out within what a mean m allows: m^2 <= E u^2 <= m for u between 0 and 1. So is n where it is private.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr

from dpgraph.inference.counts.noisy_counts import ROOT, Evidence
from dpgraph.structure.tables import Reals

#: Points of the mean and of the second moment, values of the latter that are kept, standard deviations on each side.
POINTS, MOMENTS, QUANTILES, WIDE = 401, 49, 7, 14.0


def mean_law(total: Evidence, squares: Evidence, rows: Reals) -> tuple[Reals, Reals]:
    """Means m in [0, 1] and their weights, which sum to 1, under a flat prior.

    Given are the noisy sums of the losses and of their squares, and equally likely numbers of rows.
    """
    middle = float(np.median(rows))
    m = _window(total.value / middle, total.deviation / middle + 1 / math.sqrt(middle))
    for _ in range(2):
        log = _log_likelihood(total, squares, rows, m)
        kept = np.flatnonzero(log >= log.max() - 30)
        m = np.linspace(m[max(kept[0] - 1, 0)], m[min(kept[-1] + 1, len(m) - 1)], POINTS)
    log = _log_likelihood(total, squares, rows, m)
    weights = np.exp(log - log.max())
    return m, weights / weights.sum()


def allows_zero(total: Evidence, squares: Evidence, rows: Reals, best: Reals, surprise: float) -> bool:
    """Whether the likelihood of a mean of 0 is no more than so many nats below that of the best mean."""
    log = _log_likelihood(total, squares, rows, np.append(best, 0.0))
    return bool(log[-1] >= log.max() - surprise)


def _window(centre: float, spread: float) -> Reals:
    """A part of [0, 1] that holds all that matters."""
    low, high = (min(max(centre + side * WIDE * spread, 0.0), 1.0) for side in (-1, 1))
    if low == high:
        low, high = max(0.0, low - WIDE * spread), min(1.0, high + WIDE * spread)
    return np.linspace(low, high, POINTS)


def _log_likelihood(total: Evidence, squares: Evidence, rows: Reals, m: Reals) -> Reals:
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
    """ln of the density of a normal variable plus the noise."""
    if noise.gaussian:
        wide = np.hypot(deviation, noise.deviation)
        return -((off / wide) ** 2) / 2 - np.log(wide * ROOT)
    (b,) = noise.scales
    up, down = (side * off / b + log_ndtr(-side * off / deviation - deviation / b) for side in (-1, 1))
    return np.logaddexp(up, down) + (deviation / b) ** 2 / 2 - math.log(2 * b)
