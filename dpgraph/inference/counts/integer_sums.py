"""Sums of independent integers: their laws by convolution, and draws of the integers given their sum.

Neighbours are added up in pairs, these in pairs, and so on: a sum is drawn in two halves, each of these in two. Tilting
every law by exp(t s) changes nothing given the sum, and puts the sum that is wanted where the convolved mass
is, so that fast Fourier transforms lose nothing that matters: tails of mass below 1e-15 in each convolution are cut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpgraph.structure.tables import Integers, Reals

#: Mass that a convolution may lose at each end.
TAIL = 1e-15
#: Convolutions of fewer products than this are done directly.
DIRECT = 1 << 16
#: Rejection rounds before the rest is drawn by inversion, and the weights that inversion holds at once.
ROUNDS, HELD = 12, 1 << 22


@dataclass(frozen=True)
class Mass:
    """Non-negative weights of the integers from ``low`` on, summing to 1."""

    low: int
    weight: Reals

    def at(self, values: Integers) -> Reals:
        """The weights of some integers, 0 outside."""
        index = values - self.low
        inside = (index >= 0) & (index < self.weight.size)
        return np.where(inside, self.weight[np.clip(index, 0, self.weight.size - 1)], 0.0)

    @property
    def values(self) -> Integers:
        """The integers."""
        return np.arange(self.low, self.low + self.weight.size)


def tilted_law(low: int, log: Reals, tilt: float) -> tuple[Mass, float]:
    """The law of one integer, from ``low`` on with log weights ``log``, times exp(tilt s).

    Returns:
        The law, normalised, without tails that do not matter; and the log of what the weights summed to.
    """
    moved = log + tilt * np.arange(low, low + log.size)
    top = moved.max()
    weight = np.exp(moved - top)
    return _without_tails(low, weight), float(top + np.log(weight.sum()))


def _without_tails(low: int, weight: Reals) -> Mass:
    """Weights without tails of negligible mass, normalised."""
    total = np.cumsum(weight)
    total /= total[-1]
    first = int(np.searchsorted(total, TAIL))
    last = weight.size - int(np.searchsorted(np.cumsum(weight[::-1]), TAIL * weight.sum()))
    kept = weight[first : max(last, first + 1)]
    return Mass(low + first, kept / kept.sum())


def _moments(logs: list[tuple[int, Reals]], tilt: float) -> tuple[float, float]:
    """Mean and variance of the sum of the tilted integers."""
    mean, variance = 0.0, 0.0
    for low, log in logs:
        s = np.arange(log.size)
        weight = log + tilt * s
        weight = np.exp(weight - weight.max())
        weight /= weight.sum()
        centre = float(weight @ s)
        mean += low + centre
        variance += float(weight @ (s - centre) ** 2)
    return mean, variance


def tilt_to(logs: list[tuple[int, Reals]], total: float, tilt: float = 0.0) -> float:
    """The t at which the tilted integers' means sum to the total: Newton on a monotone function, kept in a bracket.

    Args:
        logs: For each integer where its values begin, and their log weights.
        total: The sum that is wanted.
        tilt: Where to start.
    """
    return newton(lambda t: _moments(logs, t), total, tilt)


def newton(moments: Callable[[float], tuple[float, float]], total: float, tilt: float) -> float:
    """The tilt at which a mean, which grows with it by the variance, is the total.

    Args:
        moments: Mean and variance at a tilt.
        total: The mean that is wanted.
        tilt: Where to start.
    """
    below, above = -np.inf, np.inf
    for _ in range(100):
        mean, variance = moments(tilt)
        if abs(mean - total) <= max(0.1 * np.sqrt(variance), 1e-3):
            break
        below, above = (tilt, above) if mean < total else (below, tilt)
        step = tilt + (total - mean) / variance if variance > 0 else np.inf
        if not below < step < above:
            step = (below + above) / 2 if np.isfinite(below + above) else 2 * tilt + np.sign(total - mean)
        tilt = step
    return tilt


@dataclass(frozen=True, eq=False)
class SumTree:
    """The sum of some integers as that of two halves; of one integer its law.

    Attributes:
        cells: The law of each integer.
        most: Sums above it are not wanted, if it is a number.
    """

    cells: tuple[Mass, ...]
    most: int | None = None

    @cached_property
    def halves(self) -> tuple[SumTree, SumTree]:
        """Of two integers or more, the first half and the others."""
        half = len(self.cells) // 2
        return SumTree(self.cells[:half], self.most), SumTree(self.cells[half:], self.most)

    @cached_property
    def law(self) -> Mass:
        """That of the sum."""
        if len(self.cells) == 1:
            return self.cells[0]
        one, other = (half.law for half in self.halves)
        weight, low = _convolution(one.weight, other.weight), one.low + other.low
        return _without_tails(low, weight if self.most is None else weight[: max(1, self.most - low + 1)])

    def draw(self, totals: Integers, rng: np.random.Generator) -> Integers:
        """The integers given their sum; its own law is not asked for.

        Args:
            totals: The sums, one for each draw.
            rng: Randomness for post-processing.

        Returns:
            Shape (draws, integers), each row adding up to its total.
        """
        drawn = np.zeros((totals.size, len(self.cells)), np.int64)
        waiting = [(self, 0, totals)]
        while waiting:
            tree, first, sums = waiting.pop()
            if len(tree.cells) == 1:
                drawn[:, first] = sums
                continue
            one, other = tree.halves
            some = _draws_given_sum(one.law, other.law, sums, rng)
            waiting += [(one, first, some), (other, first + len(one.cells), sums - some)]
        return drawn


def _convolution(one: Reals, other: Reals) -> Reals:
    """The convolution, direct where that is quick."""
    if one.size * other.size <= DIRECT or min(one.size, other.size) < 16:
        return np.convolve(one, other)
    from scipy.fft import irfft, next_fast_len, rfft

    size = one.size + other.size - 1
    length = next_fast_len(size, real=True)
    product = irfft(np.asarray(rfft(one, length)) * np.asarray(rfft(other, length)), length)
    return np.maximum(np.asarray(product)[:size], 0.0)


def _draws_given_sum(cell: Mass, rest: Mass, totals: Integers, rng: np.random.Generator) -> Integers:
    """One draw for each total, with weight cell(s) rest(total - s): rejection from the cell, then inversion."""
    below = np.cumsum(cell.weight)
    most = rest.weight.max()
    drawn = np.zeros(totals.size, np.int64)
    waiting = np.arange(totals.size)
    for _ in range(ROUNDS):
        tries = cell.low + np.searchsorted(below, rng.random(waiting.size) * below[-1], side="right")
        accepted = rng.random(waiting.size) * most < rest.at(totals[waiting] - tries)
        drawn[waiting[accepted]] = tries[accepted]
        waiting = waiting[~accepted]
        if waiting.size == 0:
            return drawn
    rows = max(1, HELD // cell.weight.size)
    for start in range(0, waiting.size, rows):
        some = waiting[start : start + rows]
        drawn[some] = _draws_by_inversion(cell, rest, totals[some], rng)
    return drawn


def _draws_by_inversion(cell: Mass, rest: Mass, totals: Integers, rng: np.random.Generator) -> Integers:
    """One draw for each total by inversion of the cumulative weights; equal totals share theirs."""
    unique, which = np.unique(totals, return_inverse=True)
    weight = cell.weight * rest.at(unique[:, None] - cell.values)
    below = np.cumsum(weight, axis=1)
    below /= below[:, -1:]
    flat = (below + np.arange(unique.size)[:, None]).ravel()
    found = np.searchsorted(flat, rng.random(totals.size) + which, side="right") - which * cell.weight.size
    return cell.low + np.clip(found, 0, cell.weight.size - 1)
