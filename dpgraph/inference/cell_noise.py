"""The law of a sum of independent noise draws: what a margin of a noisy table carries in each cell.

Adding up ``copies`` cells adds up their noise. Its law is a convolution; where noise sums to zero over a table, the
margin's likelihood is that of independent noise again, as conditioning on the total commutes with adding cells up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.records import DiscreteGaussian, NoiseLaw

Reals = npt.NDArray[np.float64]

#: Above this scale the law is tabulated at every step of scale / FINE, and interpolated.
FINE = 256


@dataclass(frozen=True)
class CellNoise:
    """The law of the sum of ``copies`` independent draws of a noise law.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> noise = CellNoise(DiscreteLaplace(2.0), copies=3)
    >>> round(float(noise.log(np.array(0)) - noise.log(np.array(4))), 3)
    0.561
    """

    law: NoiseLaw
    copies: int = 1

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        scale = self.law.scale
        return float(np.sqrt(self.copies) * scale * (1 if isinstance(self.law, DiscreteGaussian) else np.sqrt(2)))

    @property
    def reach(self) -> float:
        """Beyond this distance there is nothing that matters: below exp(-36) of the mass."""
        if isinstance(self.law, DiscreteGaussian):
            return 10 * self.deviation + 1
        return 40 * self.law.scale + 9 * (self.deviation if self.copies > 1 else 0.0)

    def log(self, distance: npt.NDArray[np.number]) -> Reals:
        """log P(noise = distance) up to a constant."""
        size = np.abs(np.asarray(distance, float))
        if self.copies == 1:
            return _log_law(self.law, size)
        step, table = _tabulated(self.law, self.copies)
        last = table.size - 1
        inside = np.interp(size / step, np.arange(table.size), table)
        edge = last * step
        far = np.maximum(size, edge)
        if isinstance(self.law, DiscreteGaussian):
            beyond = table[-1] - (far**2 - edge**2) / (2 * self.copies * self.law.scale**2)
        else:  # a sum of m two-sided geometrics falls off as z^(m - 1) exp(-z / scale)
            beyond = table[-1] - (far - edge) / self.law.scale + (self.copies - 1) * np.log(far / edge)
        return np.where(size > edge, beyond, inside)


def _log_law(law: NoiseLaw, size: Reals) -> Reals:
    return -(size**2) / (2 * law.scale**2) if isinstance(law, DiscreteGaussian) else -size / law.scale


@lru_cache(maxsize=256)
def _tabulated(law: NoiseLaw, copies: int) -> tuple[float, Reals]:
    """log of the convolved law at 0, step, 2 step, ... as far as Fourier transforms see it: to 1e-13 of its peak."""
    step = max(1.0, law.scale / FINE)
    scale = law.scale / step
    reach = int(12 * np.sqrt(2 * copies) * scale + 40 * scale) + 2
    length = 1 << int(np.ceil(np.log2(2 * reach + 1)))
    place = np.minimum(np.arange(length), length - np.arange(length)).astype(float)
    single = np.exp(_log_law(type(law)(scale), place))
    whole = np.fft.irfft(np.fft.rfft(single / single.sum()) ** copies, length)[: length // 2]
    seen = int(np.argmax(whole < 1e-13 * whole[0])) if (whole < 1e-13 * whole[0]).any() else whole.size
    return step, np.log(whole[: max(seen, 2)])
