"""Reproducible noise for tests and studies. It is not private, and the release path never imports this module."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, NoiseLaw, SumZeroLaplace
from dpgraph.privacy.noise import Noise, bounded_scores


@dataclass(frozen=True)
class SeededNoise(Noise):
    """The noise laws of ``SecureNoise``, drawn fast and reproducibly; releases made with it are marked not private.

    Whoever knows the seed can subtract the noise. Use it for studies that repeat a release thousands of times on
    public or simulated rows.

    >>> first = SeededNoise(7).add(np.zeros(3, np.int64), DiscreteLaplace(5.0))
    >>> bool((first == SeededNoise(7).add(np.zeros(3, np.int64), DiscreteLaplace(5.0))).all())
    True
    """

    seed: int
    private: ClassVar[bool] = False
    _generator: np.random.Generator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_generator", np.random.default_rng(self.seed))

    def add(self, values: Integers, law: NoiseLaw) -> Integers:
        """Adds one draw of the law; successive calls continue the stream."""
        match law:
            case DiscreteLaplace(scale=scale):
                q = -np.expm1(-1 / scale)
                draws = self._generator.geometric(q, (2, len(values)))
                return values + draws[0] - draws[1]
            case SumZeroLaplace(scale=scale):
                return values + self._sum_zero(len(values), scale)
            case DiscreteGaussian(scale=scale):
                return values + self._gaussian(len(values), scale)
        return law.add_to(values, self)

    def _gaussian(self, count: int, scale: float) -> Integers:
        """Rejection from a discrete Laplace (Canonne, Kamath and Steinke 2020, Algorithm 3), many at once."""
        width = math.floor(scale) + 1
        draws = np.zeros(0, np.int64)
        while len(draws) < count:
            tries = self._generator.geometric(-np.expm1(-1 / width), (2, 2 * (count - len(draws)) + 16))
            candidate = tries[0] - tries[1]
            exponent = (np.abs(candidate) - scale**2 / width) ** 2 / (2 * scale**2)
            kept = candidate[self._generator.random(len(candidate)) < np.exp(-exponent)]
            draws = np.concatenate([draws, kept])
        return draws[:count]

    def choose(self, scores: npt.ArrayLike, scale: float) -> int:
        """The largest score with Gumbel noise."""
        logits = _logits(scores, scale)
        return int((logits + self._generator.gumbel(size=len(logits))).argmax())

    def flip(self, scores: npt.ArrayLike, scale: float) -> int:
        """The largest score with exponential noise."""
        logits = _logits(scores, scale)
        return int((logits + self._generator.exponential(size=len(logits))).argmax())

    def bits(self, count: int) -> int:
        """Bits of the generator."""
        size = -(-count // 8)
        return int.from_bytes(self._generator.bytes(size)) >> (8 * size - count)

    def _sum_zero(self, cells: int, scale: float) -> Integers:
        """The rejection of ``noise._sum_zero`` in floating point."""
        from scipy.special import gammaln

        if cells == 1:
            return np.zeros(1, np.int64)
        mode = max(0, int((cells - 1) / np.expm1(1 / scale)))

        def log_mass(total: int) -> float:
            return float(gammaln(total + cells) - gammaln(total + 1) - total / scale)

        while True:
            first = self._generator.geometric(-np.expm1(-1 / scale), cells) - 1
            total = int(first.sum())
            if np.log(self._generator.random()) < log_mass(total) - log_mass(mode):
                break
        bars = np.sort(self._generator.choice(total + cells - 1, cells - 1, replace=False))
        edges = np.concatenate([[-1], bars, [total + cells - 1]])
        return first - (np.diff(edges) - 1)


def _logits(scores: npt.ArrayLike, scale: float) -> Reals:
    bounded = bounded_scores(scores)
    with np.errstate(over="ignore"):
        return np.maximum((bounded - bounded.max()) / scale, -1e300)
