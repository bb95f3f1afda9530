"""Exact draws of the counts of a large table given their sum: cells that are alike share a law (proofs.md P108).

P(s | y) is a product over cells on sum(s) = n. Most cells of a large table hold one of few noisy counts, few laws do.
Half of the cells is drawn freely and kept with a chance proportional to that of the rest for the other half,
then half of that, and so on; the last few cells are drawn by convolution (``integer_sums``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dpgraph.inference._kernels import compiled
from dpgraph.inference.counts import _kernels
from dpgraph.inference.counts.block_proposals import log_prior_of
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.integer_sums import Mass, SumTree, newton
from dpgraph.inference.interruption import side_by_side
from dpgraph.structure.tables import Integers, Reals

Complex = npt.NDArray[np.complex128]

#: Tables of fewer cells are drawn cell after cell.
MANY = 4096
#: The most weights of all laws that are held.
MOST_WEIGHTS = 1.5e7
#: So many cells at most are drawn by convolution at the end.
LAST = 64
#: Mass beyond the window of a cell's law, and how often windows are doubled for it.
EDGE, WIDER = 1e-15, 6
#: Frequencies are added so many at a time, until they carry less than this.
FREQUENCIES, FAINT = 64, 1e-18
#: The sum is known so many standard deviations on each side of its mean, and used where draws are not rejected often.
SEEN, NEAR = 9.0, 1.5


@dataclass(frozen=True, eq=False)
class ManyCells:
    """The laws of independent whole counts, of which many cells have the same.

    ``group`` is the number of each cell's law, shape (cells,); ``lows`` the first value of each law, shape (laws,);
    ``log`` the log weights of its values from there on, -inf past its end, shape (laws, values); ``most`` the largest
    possible count, or None.
    """

    group: Integers
    lows: Integers
    log: Reals
    most: int | None = None

    @cached_property
    def many(self) -> Integers:
        """How many cells have each law."""
        return np.bincount(self.group, minlength=len(self.lows))

    @cached_property
    def ends(self) -> tuple[int, int]:
        """The least and the largest sum of all cells."""
        highs = self.lows + np.isfinite(self.log).sum(axis=1) - 1
        return int(self.many @ self.lows), int(self.many @ highs)

    def tilted(self, tilt: float) -> TiltedCells:
        """The laws times exp(tilt s)."""
        moved = self.log + tilt * np.arange(self.log.shape[1])
        top = moved.max(axis=1, keepdims=True)
        weight = np.exp(moved - top)
        total = weight.sum(axis=1, keepdims=True)
        scales = (top + np.log(total))[:, 0] + tilt * self.lows
        return TiltedCells(self, weight / total, float(self.many @ scales))

    def tilt_to(self, total: float, tilt: float = 0.0) -> float:
        """The tilt at which the means of all cells add up to the total."""
        return newton(lambda t: self.tilted(t).moments, total, tilt)


@dataclass(frozen=True, eq=False)
class TiltedCells:
    """``cells`` with an exponential tilt, normalised: ``weight`` has shape (laws, values), each row summing to 1.

    ``log_scale`` is the log of the product of the sums of all cells' weights.
    """

    cells: ManyCells
    weight: Reals
    log_scale: float

    @cached_property
    def means(self) -> Reals:
        """The mean of each law above where it begins."""
        return self.weight @ np.arange(self.weight.shape[1])

    @cached_property
    def variances(self) -> Reals:
        """The variance of each law."""
        return np.maximum(self.weight @ np.arange(self.weight.shape[1]) ** 2.0 - self.means**2, 0.0)

    @property
    def moments(self) -> tuple[float, float]:
        """Mean and variance of the sum of all cells."""
        many = self.cells.many
        return float(many @ (self.cells.lows + self.means)), float(many @ self.variances)

    @property
    def cut(self) -> bool:
        """True if some law ends where it still has mass."""
        last = np.isfinite(self.cells.log).sum(axis=1) - 1
        highest = self.weight[np.arange(len(last)), last] * (self.cells.lows + last != self.cells.most)
        lowest = self.weight[:, 0] * (self.cells.lows > 0)
        return bool(max(highest.max(), lowest.max()) > EDGE)

    def sum_law(self, many: Integers) -> SumLaw:
        """The law of the sum of so many cells of each law."""
        used = np.flatnonzero(many)
        weight, lows, means, many = self.weight[used], self.cells.lows[used], self.means[used], many[used]
        centre, spread = float(many @ (lows + means)), float(np.sqrt(many @ self.variances[used]))
        values = np.arange(weight.shape[1])
        length = 2 * int(12 * spread + values.size) + 3
        parts: list[Complex] = []
        for start in range(1, (length + 1) // 2, FREQUENCIES):
            turns = 2 * np.pi / length * np.arange(start, min(start + FREQUENCIES, (length + 1) // 2))
            # The mean of each law is taken away before its powers, so that angles stay small.
            angles = np.outer(values, turns)
            single = (weight @ np.cos(angles) + 1j * (weight @ np.sin(angles))) * np.exp(-1j * np.outer(means, turns))
            with np.errstate(divide="ignore"):
                size = np.exp(many @ np.log(np.abs(single)))
            parts.append(size * np.exp(1j * (many @ np.angle(single))))
            if size.max() < FAINT:
                break
        return SumLaw(centre, spread, length, np.concatenate(parts))

    @cached_property
    def _halves(self) -> tuple[list[tuple[Integers, SumLaw]], Integers]:
        """Cells that are drawn together with the law of the sum of those after them; and the last cells."""
        left, group = np.arange(self.cells.group.size), self.cells.group
        parts: list[tuple[Integers, SumLaw]] = []
        while left.size > LAST:
            # Sorted by their laws, so that each half has about as many of each as the other.
            left = left[np.argsort(group[left], kind="stable")] if not parts else left
            mine, left = left[::2], left[1::2]
            parts.append((mine, self.sum_law(np.bincount(group[left], minlength=len(self.weight)))))
        return parts, left

    @cached_property
    def _below(self) -> Reals:
        """Running sums of the weights of each law; the last is beyond every uniform number."""
        below = np.cumsum(self.weight, axis=1)
        below[:, -1] = np.inf
        return below

    def draw(self, totals: Integers, rng: np.random.Generator) -> Integers:
        """A draw of all cells for each total, shape (totals, cells); the same whatever the number of threads."""
        parts, last = self._halves
        below, lows = self._below, self.cells.lows
        pick = compiled(_kernels.picked_counts)
        drawn = np.zeros((totals.size, self.cells.group.size), np.int64)
        left = totals.astype(np.int64)
        seeds = rng.integers(1 << 63, size=totals.size)

        def one(index: int) -> None:
            own = np.random.default_rng(seeds[index])
            for mine, rest in parts:
                group = self.cells.group[mine]
                while True:
                    some = pick(below, lows, group, own.random(mine.size))
                    remaining = int(left[index] - some.sum())
                    if own.random() * rest.bound < rest.at(np.array([remaining]))[0]:
                        break
                drawn[index, mine], left[index] = some, remaining

        side_by_side(one, range(totals.size))
        masses = [Mass(int(lows[g]), self.weight[g]) for g in self.cells.group[last]]
        trimmed = [Mass(mass.low, mass.weight[: int(np.flatnonzero(mass.weight)[-1]) + 1]) for mass in masses]
        drawn[:, last] = SumTree(tuple(trimmed)).draw(left, rng)
        return drawn


@dataclass(frozen=True, eq=False)
class SumLaw:
    """The law of a sum, with this mean and standard deviation, as a Fourier series of an odd period ``length``.

    ``parts`` is the characteristic function about the mean at 2 pi j / length for j = 1, 2, ...; the rest is 0.
    """

    centre: float
    spread: float
    length: int
    parts: Complex

    @property
    def bound(self) -> float:
        """No value has more probability than this."""
        return float(1 + 2 * np.abs(self.parts).sum()) / self.length * (1 + 1e-12)

    def at(self, values: Integers) -> Reals:
        """The probabilities of some values; 0 half a period away, and where rounding left them below."""
        away = values - self.centre
        found = np.empty(values.size)
        step = max(1, (1 << 22) // self.parts.size)
        turns = 2 * np.pi / self.length * np.arange(1, self.parts.size + 1)
        for start in range(0, values.size, step):
            some = slice(start, start + step)
            found[some] = 1 + 2 * (np.exp(-1j * np.outer(away[some], turns)) @ self.parts).real
        return np.where(2 * np.abs(away) < self.length, np.maximum(found, 0.0) / self.length, 0.0)


def many_cells(measured: Sequence[tuple[Integers, CellNoise]], alpha: Reals, n: int | None) -> ManyCells | None:
    """The laws of the cells of a large table, or None where it is small or its cells are too different.

    Where the sum n is known, the windows of all laws hold the mass given it.
    """
    noises = [noise for _, noise in measured]
    if alpha.size < MANY:
        return None
    values, group = _alike([*(y for y, _ in measured), alpha])
    narrow = min(range(len(measured)), key=lambda i: measured[i][1].deviation)
    reach = measured[narrow][1].reach * (2 if n is None else 1)  # for any tilt that an unknown sum may need
    for _ in range(WIDER):
        if 2 * reach * len(values) > MOST_WEIGHTS:
            return None
        lows, log = _laws(values, narrow, noises, int(reach) + 1, n)
        cells = ManyCells(group, lows, log, n)
        low, high = cells.ends
        if n is None or (low <= n <= high and not cells.tilted(cells.tilt_to(n)).cut):
            return cells
        reach *= 2
    return None


def _alike(columns: Sequence[Integers | Reals]) -> tuple[Reals, Integers]:
    """The different rows of some columns, and which of them each row is."""
    group = np.zeros(columns[0].size, np.int64)
    for column in columns:
        _, codes = np.unique(column, return_inverse=True)
        _, group = np.unique(group * (int(codes.max()) + 1) + codes, return_inverse=True)
    first = np.zeros(int(group.max()) + 1, np.int64)
    first[group] = np.arange(group.size)
    return np.stack([column[first].astype(float) for column in columns], axis=1), group


def _laws(values: Reals, narrow: int, noises: list[CellNoise], half: int, n: int | None) -> tuple[Integers, Reals]:
    """Where each law begins, and its log weights within a window about its least noisy count."""
    centre = np.clip(values[:, narrow], 0, n).astype(np.int64)
    lows = np.maximum(0, centre - half)
    highs = centre + half if n is None else np.minimum(n, centre + half)
    counts = lows[:, None] + np.arange(int((highs - lows).max()) + 1)
    log = log_prior_of(values[:, -1:], counts)
    for at, noise in enumerate(noises):
        log += noise.log(values[:, at : at + 1] - counts)
    log[counts > highs[:, None]] = -np.inf
    return lows, log
