"""Exact draws of Dirichlet-multinomial counts given noisy counts: sums by convolution, then draws given the sum.

P(s | y) is proportional to prod_k Gamma(a_k + s_k) / s_k! noise(y_k - s_k) on sum(s) = n (proofs.md P56). Cells are
independent but for their sum. Counts far from the noisy ones are left out.

Neighbours are added up in pairs, these in pairs, and so on: a sum is drawn in two halves, each of these in two. Tilting
every law by exp(t s) changes nothing given the sum, and puts the sum that is wanted where the convolved mass
is, so that fast Fourier transforms lose nothing that matters: tails of mass below 1e-15 in each convolution are cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import NoiseLaw
from dpgraph.structure.tables import Integers, Reals

LogPrior = Callable[[Integers], Reals]
#: Mass beyond the window of a cell.
EDGE = 1e-15
#: An unknown n: log weight below the mode's at which to stop, and the most tilts.
NEGLIGIBLE, MOST_BANDS = 35.0, 60


def sample_counts(
    noisy: Integers,
    law: NoiseLaw,
    concentration: Reals,
    n: int | None,
    rng: np.random.Generator,
    size: int,
    *,
    log_prior_n: LogPrior | None = None,
) -> Integers:
    """Independent draws of the exact counts behind noisy ones, shape (size, K).

    Counts are not negative and add up to n where it is known. ``concentration`` has the Dirichlet concentrations of the
    cells' probabilities. Where n is None ``log_prior_n`` is log p(n) up to a constant for a vector of n, flat if left
    out; a noisy measurement of n belongs there too.
    """
    y, alpha = np.asarray(noisy, np.int64), np.asarray(concentration, float)
    if n is None and law.sums_to_zero:
        raise InferenceError("noise that sums to zero shows n; give it")
    if y.ndim != 1 or y.size == 0 or alpha.shape != y.shape:
        raise InferenceError(f"concentration must have the shape of noisy, one axis; got {alpha.shape}")
    if not (np.isfinite(alpha).all() and (alpha > 0).all()):
        raise InferenceError("every concentration must be a finite number above 0")
    if n is not None and n < 0:
        raise InferenceError(f"n must be at least 0; got {n}")
    noise = CellNoise(law)  # the likelihood of sum-zero noise is that of independent noise

    if n is not None:
        return SumTree(_given_total(y, noise, alpha, n), n).draw(np.full(size, n), rng)
    half = noise.reach + 2 * noise.deviation * np.sqrt(y.size)
    laws = _Laws.of(y, noise, alpha, int(half) + 1, None)
    return _unknown_total(laws, lambda m: _log_mass(alpha, m) + (log_prior_n(m) if log_prior_n else 0.0), rng, size)


@dataclass(frozen=True, eq=False)
class _Laws:
    """Log weights of the counts of cells: where each law begins and its weights, and the law of each cell."""

    logs: list[tuple[int, Reals]]
    group: Integers

    @classmethod
    def of(cls, y: Integers, noise: CellNoise, alpha: Reals, half: int, n: int | None) -> _Laws:
        """log Gamma(a + s) / s! noise(y - s) for s near y; cells of the same y and a have one law."""
        values, group = np.unique(np.stack([y, alpha]), axis=1, return_inverse=True)
        logs: list[tuple[int, Reals]] = []
        for value, a in values.T.tolist():
            centre = int(np.clip(value, 0, n))
            s = np.arange(max(0, centre - half), 1 + min(centre + half, centre + half if n is None else n))
            prior = 0.0 if a == 1 else gammaln(a + s) - gammaln(s + 1.0)
            logs.append((int(s[0]), prior + noise.log(value - s)))
        return cls(logs, group.reshape(-1))

    @cached_property
    def many(self) -> Integers:
        """How many cells have each law."""
        return np.bincount(self.group)

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest sum."""
        highest = [low + log.size - 1 for low, log in self.logs]
        return int(self.many @ [low for low, _ in self.logs]), int(self.many @ highest)

    def tilt_to(self, total: float, tilt: float = 0.0) -> float:
        """The tilt at which the means of the cells add up to the total."""
        return tilt_to(self.logs, total, tilt, self.many)

    def tilted(self, tilt: float) -> tuple[tuple[Mass, ...], float]:
        """The law of each cell times exp(tilt s), and the log of the mass of all."""
        laws, scales = zip(*(tilted_law(low, log, tilt) for low, log in self.logs), strict=True)
        return tuple(laws[which] for which in self.group.tolist()), float(self.many @ scales)


def _given_total(y: Integers, noise: CellNoise, alpha: Reals, n: int) -> tuple[Mass, ...]:
    """The laws of cells tilted to n, on windows that are doubled until hardly any mass lies beyond."""
    half = int(noise.reach) + 1
    while True:
        laws = _Laws.of(y, noise, alpha, half, n)
        least, most = laws.ends
        if least <= n <= most:
            tilt = laws.tilt_to(n)
            if not any(_cut(low, log, tilt, n) for low, log in laws.logs):
                return laws.tilted(tilt)[0]
        half *= 2


def _cut(low: int, log: Reals, tilt: float, n: int) -> bool:
    """True for a law with mass at an end of its window and possible counts beyond."""
    moved = log + tilt * np.arange(log.size)
    ends = moved[[0, -1]][[low > 0, low + log.size - 1 < n]]
    return bool((ends > moved.max() + np.log(EDGE)).any())


def _log_mass(alpha: Reals, n: Integers) -> Reals:
    """log of n! / Gamma(A + n), A the sum of the concentrations."""
    return gammaln(n + 1.0) - gammaln(n + float(alpha.sum()))


@dataclass(frozen=True)
class _Band:
    """The totals ``n`` near the mean of one exponential tilt, and the log of their posterior weights."""

    tree: SumTree
    n: Integers
    tilt: float
    mean: float
    spread: float
    log: Reals

    @property
    def reach(self) -> float:
        """How far from the mean the totals are used."""
        return 2 + 4 * self.spread

    def between(self, low: float, high: float) -> tuple[Integers, Reals]:
        """The totals from low to high, and their log weights."""
        inside = (self.n >= low) & (self.n <= high)
        return self.n[inside], self.log[inside]


def _band(laws: _Laws, tilt: float, log_total: LogPrior) -> _Band:
    """Adds up the tilted cells; log P(n | y) = log of their law - tilt n + log of their sums + log of the total's."""
    cells, scale = laws.tilted(tilt)
    tree = SumTree(cells)
    n, weight = tree.law.values, tree.law.weight
    mean = float(weight @ n)
    spread = float(np.sqrt(weight @ (n - mean) ** 2))
    with np.errstate(divide="ignore"):
        log = np.log(weight) - tilt * n + scale + log_total(n)
    return _Band(tree, n, tilt, mean, spread, log)


def _unknown_total(laws: _Laws, log_total: LogPrior, rng: np.random.Generator, size: int) -> Integers:
    """Draws n, then the cells given n.

    n's posterior may be far wider than the tilted cells' sum, so it is pieced together from several tilts, each used
    within four standard deviations of its mean.
    """
    pieces = _pieces(laws, log_total)
    log = np.concatenate([log for _, _, log in pieces])
    weight = np.exp(log - log.max())
    totals = rng.choice(np.concatenate([n for _, n, _ in pieces]), size=size, p=weight / weight.sum())
    drawn = np.zeros((size, len(laws.group)), np.int64)
    for band, n, _ in pieces:
        mine = (totals >= n[0]) & (totals <= n[-1])
        if mine.any():
            drawn[mine] = band.tree.draw(totals[mine], rng)
    return drawn


def _pieces(laws: _Laws, log_total: LogPrior) -> list[tuple[_Band, Integers, Reals]]:
    """Bands about the mode of n's posterior, then outwards until nothing is left; their values and log weights."""
    band = _band(laws, 0.0, log_total)
    for _ in range(20):
        weight = np.exp(band.log - band.log.max())
        wanted = float(weight @ band.n / weight.sum())
        if abs(wanted - band.mean) <= 1 + 0.5 * band.spread:
            break
        band = _band(laws, laws.tilt_to(wanted, band.tilt), log_total)
    pieces = [(band, *band.between(band.mean - band.reach, band.mean + band.reach))]
    lowest, highest = laws.ends
    for side, end in ((-1, lowest), (1, highest)):
        last, values, log = pieces[0]
        while len(pieces) < MOST_BANDS:
            outer = 0 if side < 0 else -1
            edge = int(values[outer])
            if edge == end or log[outer] < max(one.max() for _, _, one in pieces) - NEGLIGIBLE:
                break
            last = _next_band(laws, last, edge, side, log_total)
            values, log = last.between(*sorted((edge + side, last.mean + side * last.reach)))
            pieces.append((last, values, log))
    return pieces


def _next_band(laws: _Laws, last: _Band, edge: int, side: int, log_total: LogPrior) -> _Band:
    """The band beyond an edge that still reaches back to it."""
    lowest, highest = laws.ends
    step = last.reach
    while True:
        target = float(np.clip(edge + side * step, lowest, highest))
        band = _band(laws, laws.tilt_to(target, last.tilt), log_total)
        if abs(band.mean - edge) <= band.reach or step < 1:
            return band
        step /= 2


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
