"""Sums of independent integers: their laws by convolution, and draws of the integers given their sum.

Neighbours are added up in pairs, these in pairs, and so on: a sum is drawn in two halves, each of these in two. Tilting
every law by exp(t s) changes nothing given the sum, and puts the sum that is wanted where the convolved mass
is, so that fast Fourier transforms lose nothing that matters: tails of mass below 1e-15 in each convolution are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpgraph.structure.tables import Integers, Reals

#: Mass that a convolution may lose at each end.
TAIL = 1e-15
#: Convolutions of fewer products than this are done directly.
DIRECT = 1 << 16
#: Inversion is at once where it looks at so few weights; else rejection comes first, for so many rounds.
FEW, ROUNDS = 1 << 13, 12
#: The most weights that inversion holds at once, and those of integers whose moments are computed at once.
HELD, CACHED = 1 << 22, 1 << 13
#: No log weight below the best counts for less: processors are slow with numbers that are nearly 0.
FAINT = -600.0
#: Of integers of more values a tilt is first looked for by so many of them.
COARSE = 1024


@dataclass(frozen=True)
class Mass:
    """Non-negative weights of the integers from ``low`` on, summing to 1."""

    low: int
    weight: Reals

    def at(self, values: Integers) -> Reals:
        """The weights of some integers, 0 outside."""
        return self._between.take(values - (self.low - 1), mode="clip")

    @cached_property
    def _between(self) -> Reals:
        """The weights between two that are 0."""
        return np.concatenate([[0.0], self.weight, [0.0]])

    @property
    def values(self) -> Integers:
        """The integers."""
        return np.arange(self.low, self.low + self.weight.size)


def tilted_law(low: int, log: Reals, tilt: float) -> tuple[Mass, float]:
    """The law of one integer, from ``low`` on with log weights ``log``, times exp(tilt s); and the log of its mass.

    The law is normalised and has no tails that do not matter.
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


def tilt_to(logs: list[tuple[int, Reals]], total: float, tilt: float = 0.0, many: Integers | None = None) -> float:
    """The tilt at which the integers' means sum to the total.

    ``logs`` says where each integer begins, and its log weights; ``many`` how many integers have that law, else one.
    """
    counts = np.ones(len(logs), np.int64) if many is None else many
    step = max(log.size for _, log in logs) // COARSE
    if step > 1 and total < counts @ [low + (log.size - 1) // step * step for low, log in logs]:
        tilt = _newton(_moments_of(logs, counts, step), total, tilt)
    return _newton(_moments_of(logs, counts, 1), total, tilt)


def _moments_of(logs: list[tuple[int, Reals]], many: Integers, step: int) -> Callable[[float], tuple[float, float]]:
    """Mean and variance of the sum at a tilt, from every so many values of each integer."""
    coarse = [(low, log[::step]) for low, log in logs]
    parts = [_moments_of_part(coarse[part], many[part], step) for part in _in_parts([log.size for _, log in coarse])]

    def moments(tilt: float) -> tuple[float, float]:
        means, variances = zip(*(part(tilt) for part in parts), strict=True)
        return sum(means), sum(variances)

    return moments


def _in_parts(sizes: list[int]) -> Iterator[slice]:
    """Groups of integers that fit the processor's cache with the arrays computed of them."""
    first = held = 0
    for at, size in enumerate(sizes):
        if at > first and held + size > CACHED:
            yield slice(first, at)
            first, held = at, 0
        held += size
    yield slice(first, len(sizes))


def _moments_of_part(
    logs: list[tuple[int, Reals]], many: Integers, step: int
) -> Callable[[float], tuple[float, float]]:
    """Mean and variance of the sum of some integers at a tilt, their values side by side."""
    sizes = np.array([log.size for _, log in logs])
    lows, log = int(many @ [low for low, _ in logs]), np.concatenate([log for _, log in logs])
    starts, whose = np.cumsum(sizes) - sizes, np.repeat(np.arange(sizes.size), sizes)
    above = step * (np.arange(log.size) - starts[whose]).astype(float)

    def moments(tilt: float) -> tuple[float, float]:
        moved = log + tilt * above
        weight = np.exp(np.maximum(moved - np.maximum.reduceat(moved, starts)[whose], FAINT))
        totals = np.add.reduceat(weight, starts)
        means = np.add.reduceat(weight * above, starts) / totals
        squares = np.add.reduceat(weight * (above - means[whose]) ** 2, starts)
        return lows + float(many @ means), float(many @ (squares / totals))

    return moments


def _newton(moments: Callable[[float], tuple[float, float]], total: float, tilt: float) -> float:
    """The tilt at which a mean is the total: it grows by the variance. Newton's method, kept in a bracket."""
    below, above, span = -np.inf, np.inf, max(1.0, abs(tilt))
    for _ in range(100):
        mean, variance = moments(tilt)
        if abs(mean - total) <= max(0.1 * np.sqrt(variance), 1e-3):
            break
        below, above = (tilt, above) if mean < total else (below, tilt)
        step = tilt + (total - mean) / variance if variance > 0 else np.inf
        if not below < step < above and np.isfinite(below + above):
            step = (below + above) / 2
        elif not below < step < above or abs(step - tilt) > span:
            step, span = tilt + np.copysign(span, total - mean), 2 * span
        tilt = step
    return tilt


@dataclass(frozen=True, eq=False)
class SumTree:
    """The sum of integers with the laws ``cells`` as that of two halves; sums above ``most`` are not wanted."""

    cells: tuple[Mass, ...]
    most: int | None = None

    @cached_property
    def halves(self) -> tuple[SumTree, SumTree]:
        """Of two integers or more, the first half and the others."""
        half = len(self.cells) // 2
        return SumTree(self.cells[:half], self.most), SumTree(self.cells[half:], self.most)

    @cached_property
    def law(self) -> Mass:
        """The law of the sum."""
        if len(self.cells) == 1:
            return self.cells[0]
        one, other = (half.law for half in self.halves)
        weight, low = _convolution(one.weight, other.weight), one.low + other.low
        return _without_tails(low, weight if self.most is None else weight[: max(1, self.most - low + 1)])

    def draw(self, totals: Integers, rng: np.random.Generator) -> Integers:
        """The integers given their sums, shape (draws, integers), each row adding up to its own total."""
        drawn = np.zeros((totals.size, len(self.cells)), np.int64)
        waiting = [(self, 0, totals)]
        while waiting:
            tree, first, sums = waiting.pop()
            if len(tree.cells) == 1:
                drawn[:, first] = sums
                continue
            one, other = tree.halves
            if other.law.weight.size < one.law.weight.size:  # the half with fewer values is drawn
                some = sums - _draws_given_sum(other.law, one.law, sums, rng)
            else:
                some = _draws_given_sum(one.law, other.law, sums, rng)
            waiting += [(one, first, some), (other, first + len(one.cells), sums - some)]
        return drawn


def _convolution(one: Reals, other: Reals) -> Reals:
    if one.size * other.size <= DIRECT or min(one.size, other.size) < 16:
        return np.convolve(one, other)
    from scipy.fft import irfft, next_fast_len, rfft

    size = one.size + other.size - 1
    length = next_fast_len(size, real=True)
    product = irfft(np.asarray(rfft(one, length)) * np.asarray(rfft(other, length)), length)
    return np.maximum(np.asarray(product)[:size], 0.0)


def _draws_given_sum(one: Mass, other: Mass, totals: Integers, rng: np.random.Generator) -> Integers:
    """One draw for each total, with weight one(s) other(total - s): by inversion, of many by rejection first."""
    drawn, waiting = np.zeros(totals.size, np.int64), np.arange(totals.size)
    if totals.size * one.weight.size > FEW:
        waiting = _accepted(one, other, totals, drawn, rng)
    rows = max(1, HELD // one.weight.size)
    for start in range(0, waiting.size, rows):
        some = waiting[start : start + rows]
        drawn[some] = _draws_by_inversion(one, other, totals[some], rng)
    return drawn


def _accepted(one: Mass, other: Mass, totals: Integers, drawn: Integers, rng: np.random.Generator) -> Integers:
    """Fills in draws that are accepted in a few rounds; returns the places of the others."""
    below, most = np.cumsum(one.weight), other.weight.max()
    waiting = np.arange(totals.size)
    for _ in range(ROUNDS):
        tries = one.low + np.searchsorted(below, rng.random(waiting.size) * below[-1], side="right")
        accepted = rng.random(waiting.size) * most < other.at(totals[waiting] - tries)
        drawn[waiting[accepted]] = tries[accepted]
        waiting = waiting[~accepted]
        if waiting.size == 0:
            break
    return waiting


def _draws_by_inversion(one: Mass, other: Mass, totals: Integers, rng: np.random.Generator) -> Integers:
    """One draw for each total by inversion of the cumulative weights; of many, equal totals share theirs."""
    unique, which = totals, np.arange(totals.size)
    if totals.size * one.weight.size > FEW:
        unique, which = np.unique(totals, return_inverse=True)
    below = (one.weight * other.at(unique[:, None] - one.values)).cumsum(axis=1)
    below /= below[:, -1:]
    flat = (below + np.arange(unique.size)[:, None]).ravel()
    found = np.searchsorted(flat, rng.random(totals.size) + which, side="right") - which * one.weight.size
    return one.low + np.clip(found, 0, one.weight.size - 1)
