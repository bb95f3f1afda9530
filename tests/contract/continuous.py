"""The losses of draws of real numbers, which a noise source only sees as bits.

The sampler of such draws is replaced by one that records the law it was asked for and answers with a fixed point. Its
law has floating-point parameters, so these losses hold to about 1e-12.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any
from unittest import mock

import numpy as np

from dpgraph.papers import regression_sample
from dpgraph.privacy.exact_loss import NoiseCall, RecordingNoise

#: Directions in the plane; a range over them is at most 1e-6 of itself too small.
TURNS = 4096


@dataclass(frozen=True, eq=False)
class DensityCall(NoiseCall):
    """A draw from a density; ``reach(differences)`` is the range of the difference of two log densities."""

    reach: Any = None

    def moved(self, differences: Any) -> Any:
        """The range of the difference, over all draws."""
        return np.vectorize(Fraction, otypes=[object])(self.times * self.reach(differences))

    def moved_squared(self, differences: Any) -> Any:
        """As of the exponential mechanism."""
        return np.vectorize(lambda r: Fraction(r) ** 2, otypes=[object])(self.reach(differences)) * self.times


def _record(noise: RecordingNoise, inputs: Any, public: tuple[Any, ...], size: int, reach: Any) -> None:
    noise.calls.append(DensityCall("choose", public, np.asarray(inputs), Fraction(1), size, reach))


def _ball(noise: RecordingNoise, gram: Any, ridge: float, linear: Any, radius: float, size: int) -> Any:
    """ln of the density differs by b'v - v'Gv / 2, a quadratic along each direction; one or two dimensions."""
    many = len(linear)
    angle = np.arange(TURNS) * 2 * np.pi / TURNS
    turn = np.array([[1.0]]) if many == 1 else np.stack([np.cos(angle), np.sin(angle)], axis=1)[: TURNS // 2]

    def reach(differences: Any) -> Any:
        g, b = differences[..., : many * many].reshape(-1, many, many), differences[..., many * many :]
        slope, bend = b @ turn.T, np.einsum("ti,nij,tj->nt", turn, g, turn)
        with np.errstate(divide="ignore", invalid="ignore"):
            top = np.nan_to_num(np.clip(slope / bend, -radius, radius))
        ends = np.stack([slope * v - bend * v**2 / 2 for v in (top, radius, -radius)])
        return np.maximum(ends.max(axis=(0, 2)), 0) - np.minimum(ends.min(axis=(0, 2)), 0)

    inputs = np.concatenate([np.ravel(gram), linear])
    _record(noise, inputs, (ridge, radius, size, many), size, reach)
    return np.zeros((size, many))


@contextmanager
def recorded_densities() -> Iterator[None]:
    """The sampler records what it is asked for."""
    with mock.patch.object(regression_sample, "draw_ball_gaussian", _ball):
        yield
