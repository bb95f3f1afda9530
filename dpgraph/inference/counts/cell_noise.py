"""The distribution of a sum of independent noise draws: the noise of each cell of a margin of a noisy table.

Adding up ``copies`` cells adds up their noise. Its law is a convolution; where noise sums to zero over a table, the
margin's likelihood is that of independent noise again, as conditioning on the total commutes with adding cells up.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, NoiseLaw
from dpgraph.structure.tables import Reals

#: Above this scale the law is tabulated at every step of scale / FINE, and interpolated.
FINE = 256


@dataclass(frozen=True)
class CellNoise:
    """The law of the sum of ``copies`` independent draws of a noise law."""

    law: NoiseLaw
    copies: int = 1

    @property
    def deviation(self) -> float:
        """The standard deviation."""
        return self.law.independent.sum_deviation(self.copies)

    @property
    def reach(self) -> float:
        """Beyond this distance from zero there is less than exp(-36) of the mass."""
        return self.law.independent.sum_reach(self.copies)

    def log(self, distance: npt.NDArray[np.number]) -> Reals:
        """log P(noise = distance) up to a constant."""
        size = np.abs(np.asarray(distance, float))
        if self.copies == 1:
            return self.law.log_density(size)
        law = self.law.independent
        step, table = _tabulated(law, self.copies)
        last = table.size - 1
        inside = np.interp(size / step, np.arange(table.size), table)
        edge = last * step
        beyond = law.sum_tail(table[-1], edge, np.maximum(size, edge), self.copies)
        return np.where(size > edge, beyond, inside)


@lru_cache(maxsize=256)
def _tabulated(law: DiscreteLaplace | DiscreteGaussian, copies: int) -> tuple[float, Reals]:
    """log of the convolved law at 0, step, 2 step, ... as far as Fourier transforms see it: to 1e-13 of its peak."""
    step = max(1.0, law.scale / FINE)
    scale = law.scale / step
    reach = int(12 * np.sqrt(2 * copies) * scale + 40 * scale) + 2
    length = 1 << int(np.ceil(np.log2(2 * reach + 1)))
    place = np.minimum(np.arange(length), length - np.arange(length)).astype(float)
    single = np.exp(type(law)(scale).log_density(place))
    whole = np.fft.irfft(np.fft.rfft(single / single.sum()) ** copies, length)[: length // 2]
    seen = int(np.argmax(whole < 1e-13 * whole[0])) if (whole < 1e-13 * whole[0]).any() else whole.size
    return step, np.log(whole[: max(seen, 2)])
