"""Draws from a Dirichlet law truncated to probabilities above a floor, over real numbers, in floating point.

Exact up to floating point, which privacy proofs over real numbers do not cover: hence ``idealized_numerics=True``.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Reals
from dpgraph.privacy.noise import Noise

#: Beyond this many nats below its peak a density is taken as 0; the mass left out is below 1e-24 of the whole.
DEPTH = 60.0
PANELS = 64


class TruncatedBeta:
    """Beta(a, b) given x >= low and 1 - x >= above, by panels within DEPTH of its peak in ln(x / (1 - x))."""

    def __init__(self, a: float, b: float, low: float, above: float) -> None:
        self.a, self.b = a, b
        first, last = math.log(low) - math.log1p(-low), math.log1p(-above) - math.log(above)
        last = max(first, last)
        mode = min(max(math.log(a) - math.log(b), first), last)
        self.peak = float(self._log_density(mode))
        self.edges = np.linspace(self._reach(mode, first), self._reach(mode, last), PANELS + 1)
        self.cumulative = np.concatenate([[0.0], np.cumsum(self._mass(self.edges[:-1], self.edges[1:]))])

    @property
    def log_mass(self) -> float:
        """ln of the integral of x^(a-1) (1-x)^(b-1) over the region."""
        return self.peak + math.log(max(self.cumulative[-1], 5e-324))

    def draw(self, noise: Noise) -> tuple[float, float]:
        """One draw x and its complement 1 - x, each without cancellation."""
        from scipy.special import expit

        target = _uniform(noise) * self.cumulative[-1]
        panel = min(int(np.searchsorted(self.cumulative, target, side="right")) - 1, PANELS - 1)
        left = low = float(self.edges[panel])
        high = float(self.edges[panel + 1])
        point, wanted = (low + high) / 2, target - self.cumulative[panel]
        for _ in range(60):
            excess = float(self._mass(left, point)) - wanted
            low, high = (point, high) if excess < 0 else (low, point)
            newton = point - excess / math.exp(float(self._log_density(point)) - self.peak)
            following = newton if low < newton < high else (low + high) / 2
            if abs(following - point) <= 1e-15 * max(1.0, abs(point)):
                break
            point = following
        return float(expit(point)), float(expit(-point))

    def _log_density(self, t: npt.ArrayLike) -> Reals:
        point = np.asarray(t, np.float64)
        return -self.a * np.logaddexp(0, -point) - self.b * np.logaddexp(0, point)

    def _reach(self, mode: float, end: float) -> float:
        """The furthest point from the mode towards an end at which the density is within DEPTH of its peak."""
        if self._log_density(end) >= self.peak - DEPTH:
            return end
        inside, outside = mode, end
        for _ in range(60):
            middle = (inside + outside) / 2
            inside, outside = (middle, outside) if self._log_density(middle) >= self.peak - DEPTH else (inside, middle)
        return outside

    def _mass(self, left: npt.ArrayLike, right: npt.ArrayLike) -> Reals:
        """The integral of the density over its peak between two points of one panel; vectorised over panels."""
        start = np.asarray(left, np.float64)
        half = (np.asarray(right, np.float64) - start) / 2
        points = start[..., None] + half[..., None] * (1 + _NODES)
        return half * (_WEIGHTS * np.exp(self._log_density(points) - self.peak)).sum(axis=-1)


def draw_truncated_dirichlet(noise: Noise, concentration: Reals, floor: float, size: int) -> Reals:
    """Draws from Dirichlet(concentration), all at least the floor (proofs.md P25), shape (size, levels)."""
    levels = len(concentration)
    order = np.argsort(concentration, kind="stable")
    shapes = concentration[order]
    later = np.cumsum(shapes[::-1])[::-1][1:]

    def share(i: int, left: float) -> TruncatedBeta:
        return TruncatedBeta(shapes[i], later[i], floor / left, (levels - 1 - i) * floor / left)

    widest = [share(i, 1 - i * floor) for i in range(levels - 1)]
    draws = np.empty((size, levels))
    for draw in draws:
        while not _propose_row(draw, noise, share, widest):
            pass
    restored = np.empty_like(draws)
    restored[:, order] = draws
    return restored


def _propose_row(
    draw: Reals, noise: Noise, share: Callable[[int, float], TruncatedBeta], widest: list[TruncatedBeta]
) -> bool:
    """Proposes one row in place; returns whether it is accepted."""
    left = 1.0
    for i, top in enumerate(widest):
        law = top if i == 0 else share(i, left)
        if i > 0 and math.log(_uniform(noise)) > law.log_mass - top.log_mass:
            return False
        part, rest = law.draw(noise)
        draw[i], left = left * part, left * rest
    draw[-1] = left
    return True


def _uniform(noise: Noise) -> float:
    """A uniform number above 0 and at most 1, from 64 bits."""
    return (noise.bits(64) + 0.5) / 2.0**64


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
