"""Moments of a record's sufficient statistics within an interval, for the random-sum central limit theorem.

For parameters of many problems at once: P(x in [low, high]), E[t(x); x in it] and E[t(x) t(x)'; x in it], not divided
by the probability, in closed form for the families of ``dg.expfam`` and by quadrature for one's own. These are the q, q
mu and q (Sigma + mu mu') of Bernstein and Sheldon 2018, Proposition 1 and Algorithm 3, whose lines 2 and 4 are
misprinted (proofs.md P59).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpgraph.structure.expfam import (
    Binomial,
    Exponential,
    ExponentialFamily,
    Gamma,
    Multinomial,
    Natural,
    Normal,
    Poisson,
)
from dpgraph.structure.tables import Reals

#: Panels of the quadrature, and Gauss-Legendre nodes in each.
PANELS, NODES = 64, 8


@dataclass(frozen=True)
class RegionMoments:
    """Of B problems with d statistics: ``mass`` (B,), ``first`` (B, d), ``second`` (B, d, d)."""

    mass: Reals
    first: Reals
    second: Reals

    def __sub__(self, other: RegionMoments) -> RegionMoments:
        return RegionMoments(self.mass - other.mass, self.first - other.first, self.second - other.second)

    def covariance(self) -> Reals:
        """The covariance of t(x) 1[x in the region], shape (B, d, d)."""
        return self.second - self.first[:, :, None] * self.first[:, None, :]


def region_moments(family: ExponentialFamily, theta: Reals, low: float, high: float) -> RegionMoments:
    """The moments of t(x) for x in [low, high], ends included, at parameters of shape (B, parameters)."""
    match family:
        case Binomial(trials=trials):
            p = theta[:, 0]
            return _single_statistic(np.ones_like(p), trials * p, trials * p * (1 - p) + (trials * p) ** 2)
        case Multinomial():
            second = np.zeros((*theta.shape, theta.shape[1]))
            index = np.arange(theta.shape[1])
            second[:, index, index] = theta
            return RegionMoments(np.ones(len(theta)), theta, second)
        case Poisson():
            return _poisson(theta[:, 0], low, high)
        case Gamma(shape=shape):
            return _gamma(theta[:, 0], shape, low, high)
        case Exponential():
            return _gamma(theta[:, 0], 1.0, low, high)
        case Normal(variance=None):
            return _normal(theta[:, 0], theta[:, 1], low, high, squares=True)
        case Normal(variance=known):
            return _normal(theta[:, 0], np.full(len(theta), known), low, high, squares=False)
        case Natural():
            return _quadrature(family, theta, low, high)
    raise TypeError(f"no moments for {type(family).__name__}")


def _single_statistic(mass: Reals, first: Reals, second: Reals) -> RegionMoments:
    """Adds the axes of a single statistic."""
    return RegionMoments(mass, first[:, None], second[:, None, None])


def _poisson(rate: Reals, low: float, high: float) -> RegionMoments:
    """E[x (x - 1) ... (x - j + 1); region] = rate^j P(x + j in region)."""
    from scipy.special import pdtr

    def between(j: int) -> Reals:
        above = np.ones_like(rate) if math.isinf(high) else _cdf(math.floor(high) - j)
        return above - _cdf(math.ceil(max(low, 0)) - 1 - j)

    def _cdf(k: int) -> Reals:
        return np.zeros_like(rate) if k < 0 else np.asarray(pdtr(k, rate))

    first = rate * between(1)
    return _single_statistic(between(0), first, rate**2 * between(2) + first)


def _gamma(rate: Reals, shape: float, low: float, high: float) -> RegionMoments:
    """E[x^j; region] = Gamma(k + j) / Gamma(k) / rate^j P(k + j, region): incomplete gamma functions."""
    from scipy.special import gammainc, gammaincc

    def between(k: float) -> Reals:
        start, end = rate * max(low, 0.0), rate * max(high, 0.0)
        upper = gammaincc(k, start) - gammaincc(k, end)
        lower = gammainc(k, end) - gammainc(k, start)
        return np.where(start > k, upper, lower)  # the tail that is small loses no digits

    return _single_statistic(
        between(shape), shape / rate * between(shape + 1), shape * (shape + 1) / rate**2 * between(shape + 2)
    )


def _normal(mean: Reals, variance: Reals, low: float, high: float, *, squares: bool) -> RegionMoments:
    """Standard moments by the recursion m_j = (j - 1) m_(j-2) + a^(j-1) phi(a) - b^(j-1) phi(b), then the binomial."""
    from scipy.special import ndtr

    deviation = np.sqrt(variance)
    start, end = (low - mean) / deviation, (high - mean) / deviation
    mass = np.where(start > 0, ndtr(-start) - ndtr(-end), ndtr(end) - ndtr(start))
    moments = [mass, _edge(start, 0) - _edge(end, 0)]
    for j in (2, 3, 4):
        moments.append((j - 1) * moments[j - 2] + _edge(start, j - 1) - _edge(end, j - 1))
    scaled = [deviation**j * moment for j, moment in enumerate(moments)]
    raw = [np.sum([math.comb(k, j) * mean ** (k - j) * scaled[j] for j in range(k + 1)], axis=0) for k in range(5)]
    if not squares:
        return _single_statistic(raw[0], raw[1], raw[2])
    second = np.stack([np.stack([raw[2], raw[3]], -1), np.stack([raw[3], raw[4]], -1)], -2)
    return RegionMoments(raw[0], np.stack([raw[1], raw[2]], -1), second)


def _edge(x: Reals, power: int) -> Reals:
    """x^power phi(x), 0 at infinity."""
    finite = np.where(np.isfinite(x), x, 0.0)
    density = np.exp(-0.5 * finite**2) / math.sqrt(2 * math.pi)
    return np.where(np.isfinite(x), finite**power * density, 0.0)


def _quadrature(family: Natural, eta: Reals, low: float, high: float) -> RegionMoments:
    """Sums over whole numbers, or Gauss-Legendre in equal panels, of the density and its products with t."""
    x, weight, t = _nodes(family, low, high)
    log = eta @ t.T + family.log_base(x) - family.log_partition(eta)[:, None]
    mass = np.exp(np.where(np.isnan(log), -np.inf, log)) * weight
    return RegionMoments(mass.sum(1), mass @ t, np.einsum("bx,xi,xj->bij", mass, t, t, optimize=True))


@lru_cache(maxsize=32)
def _nodes(family: Natural, low: float, high: float) -> tuple[Reals, Reals, Reals]:
    if family.discrete:
        x = np.arange(math.ceil(low), math.floor(high) + 1, dtype=float)
        return x, np.ones_like(x), family.statistic(x)
    node, weight = np.polynomial.legendre.leggauss(NODES)
    edges = np.linspace(low, high, PANELS + 1)
    half = np.diff(edges) / 2
    x = ((edges[:-1] + edges[1:]) / 2)[:, None] + half[:, None] * node
    return x.ravel(), (half[:, None] * weight).ravel(), family.statistic(x.ravel())
