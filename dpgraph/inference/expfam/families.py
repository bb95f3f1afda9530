"""Conjugate updates of exponential families and moments of their statistics, for many problems at once.

Priors are also given on the real line. Moments are for the random-sum central limit theorem: P(x in [low, high]),
E[t(x); x in it] and E[t(x) t(x)'; x in it], not divided by the probability, in closed form and by quadrature for
families of one's own. These are the q, q mu and q (Sigma + mu mu') of Bernstein and Sheldon 2018, Proposition 1 and
Algorithm 3, whose lines 2 and 4 are misprinted (proofs.md P59).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.structure.expfam import (
    BetaPrior,
    Binomial,
    DirichletPrior,
    Exponential,
    ExponentialFamily,
    Gamma,
    GammaPrior,
    Multinomial,
    Natural,
    NaturalPrior,
    Normal,
    NormalInverseGammaPrior,
    NormalPrior,
    Poisson,
    Prior,
)
from dpgraph.structure.tables import Reals

#: Panels of the quadrature, and Gauss-Legendre nodes in each.
PANELS, NODES = 64, 8


def sums_are_possible(family: ExponentialFamily, sums: Reals, n: Reals) -> npt.NDArray[np.bool_]:
    """Tests sums, shape (B, d), for being possible of n records, shape (B,)."""
    match family:
        case Binomial():
            return (sums[:, 0] >= 0) & (sums[:, 0] <= n * family.trials)
        case Multinomial():
            return np.asarray((sums >= 0).all(axis=1))
        case Normal(variance=None):
            return sums[:, 1] * n >= sums[:, 0] ** 2
        case Normal():
            return np.ones(len(sums), bool)
        case _:
            return sums[:, 0] >= 0


def nearest_possible_sums(family: ExponentialFamily, sums: Reals, n: Reals) -> Reals:
    """The nearest possible sums, as the plug-in posterior takes noisy ones."""
    match family:
        case Binomial():
            return np.clip(sums, 0, (n * family.trials)[:, None])
        case Multinomial():
            positive = np.maximum(sums, 0.0)
            total = positive.sum(axis=1, keepdims=True)
            even = np.full_like(positive, 1 / positive.shape[1])
            return np.where(total > 0, positive / np.where(total > 0, total, 1.0), even) * n[:, None]
        case Normal(variance=None):
            return np.stack([sums[:, 0], np.maximum(sums[:, 1], sums[:, 0] ** 2 / np.maximum(n, 1.0))], axis=1)
        case Normal() | Natural():
            return sums
        case _:
            return np.maximum(sums, 0.0)


def draw_conjugate(family: ExponentialFamily, prior: Prior, sums: Reals, n: Reals, rng: np.random.Generator) -> Reals:
    """One draw of the parameters for each problem, given exact sums (B, d) of n (B,) records; shape (B, parameters)."""
    match prior:
        case BetaPrior(alpha=alpha, beta=beta) if isinstance(family, Binomial):
            return rng.beta(alpha + sums[:, 0], beta + n * family.trials - sums[:, 0])[:, None]
        case DirichletPrior(concentration=concentration):
            return dirichlet_draws(np.array(concentration) + sums, rng)
        case GammaPrior(shape=shape, rate=rate) if isinstance(family, Gamma) or hasattr(family, "shape"):
            known = float(getattr(family, "shape"))  # noqa: B009
            return (rng.standard_gamma(shape + n * known) / (rate + sums[:, 0]))[:, None]
        case GammaPrior(shape=shape, rate=rate):
            return (rng.standard_gamma(shape + sums[:, 0]) / (rate + n))[:, None]
        case NormalPrior(mean=mean, variance=variance) if isinstance(family, Normal) and family.variance is not None:
            precision = 1 / variance + n / family.variance
            centre = (mean / variance + sums[:, 0] / family.variance) / precision
            return (centre + rng.standard_normal(len(sums)) / np.sqrt(precision))[:, None]
        case NormalInverseGammaPrior():
            return _normal_inverse_gamma(prior, sums, n, rng)
    raise TypeError(f"no conjugate draw for {type(family).__name__}")


def _normal_inverse_gamma(prior: NormalInverseGammaPrior, sums: Reals, n: Reals, rng: np.random.Generator) -> Reals:
    """Variance, then mean given it."""
    records = prior.records + n
    centre = (prior.records * prior.mean + sums[:, 0]) / records
    spread = sums[:, 1] + prior.records * prior.mean**2 - records * centre**2
    rate = prior.rate + np.maximum(spread, 0.0) / 2
    variance = rate / rng.standard_gamma(prior.shape + n / 2)
    mean = centre + rng.standard_normal(len(n)) * np.sqrt(variance / records)
    return np.stack([mean, variance], axis=1)


def to_line(prior: Prior, theta: Reals) -> Reals:
    """Unconstrained coordinates of parameters: logit, log ratios to the last category, or log."""
    match prior:
        case BetaPrior():
            return np.log(theta) - np.log1p(-theta)
        case DirichletPrior():
            log = np.log(np.maximum(theta, 1e-300))
            return log[:, :-1] - log[:, -1:]
        case GammaPrior():
            return np.log(theta)
        case NormalInverseGammaPrior():
            return np.stack([theta[:, 0], np.log(theta[:, 1])], axis=1)
    return theta


def from_line(prior: Prior, line: Reals) -> Reals:
    """The parameters at unconstrained coordinates."""
    match prior:
        case BetaPrior():
            return 1 / (1 + np.exp(-np.clip(line, -36, 36)))
        case DirichletPrior():
            full = np.concatenate([line, np.zeros((len(line), 1))], axis=1)
            weight = np.exp(full - full.max(axis=1, keepdims=True))
            return weight / weight.sum(axis=1, keepdims=True)
        case GammaPrior():
            return np.exp(np.clip(line, -300, 300))
        case NormalInverseGammaPrior():
            return np.stack([line[:, 0], np.exp(np.clip(line[:, 1], -300, 300))], axis=1)
    return line


def log_prior(family: ExponentialFamily, prior: Prior, theta: Reals) -> Reals:
    """The log prior density of the unconstrained coordinates, up to a constant, shape (B,)."""
    match prior:
        case BetaPrior(alpha=alpha, beta=beta):
            return alpha * np.log(theta[:, 0]) + beta * np.log1p(-theta[:, 0])
        case DirichletPrior(concentration=concentration):
            return np.log(np.maximum(theta, 1e-300)) @ np.array(concentration)
        case GammaPrior(shape=shape, rate=rate):
            return shape * np.log(theta[:, 0]) - rate * theta[:, 0]
        case NormalPrior(mean=mean, variance=variance):
            return -((theta[:, 0] - mean) ** 2) / (2 * variance)
        case NormalInverseGammaPrior():
            mean, variance = theta[:, 0], theta[:, 1]
            about = prior.rate + prior.records * (mean - prior.mean) ** 2 / 2
            return -(prior.shape + 0.5) * np.log(variance) - about / variance
        case NaturalPrior(statistics=statistics, records=records) if isinstance(family, Natural):
            return theta @ np.array(statistics) - records * family.log_partition(theta)
    raise TypeError(f"no prior density for {type(family).__name__}")


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
