"""The posterior of a count given noisy values of it and of sums that hold it, by summation over the count.

Each piece of evidence is a noisy value of one count and the scales of the independent noises in it. The likelihood is
the density of that sum of noises: exact for one noise and for Gaussian noise, by Fourier inversion else. The noise
lies on a grid of 2^-16 rows or finer, so its mass function is a density for all that follows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import betaincinv, gammaln

from dpgraph.inference.arguments import check_probability
from dpgraph.structure.frozen import frozen_array
from dpgraph.structure.tables import Reals

#: Points of the Fourier grid, nodes of a latent count, nats below the best that are kept, log2 of the draws.
GRID, NODES, DEPTH, DRAWS = 1 << 14, 2001, 25.0, 10
#: Density, as a part of the highest, below which the inverted one is continued by its exponential tail.
TAIL = 1e-9
#: sqrt(2 pi).
ROOT = math.sqrt(2 * math.pi)


@dataclass(frozen=True)
class Evidence:
    """A noisy value of a count.

    Attributes:
        value: The value, in rows.
        scales: The scale of each independent noise in it, in rows.
        gaussian: Whether the noise is Gaussian, else Laplace.
    """

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
        """Whether a count's likelihood is no more than so many nats below the best."""
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


def checked_interval(value: object) -> float:
    """The probability of an interval, between 0 and 1.

    Raises:
        InferenceError: If it is not.
    """
    return check_probability("interval", value)
