"""Exact draws of Dirichlet-multinomial counts given noisy counts: sums by convolution, then draws given the sum.

P(s | y) is proportional to prod_k Gamma(a_k + s_k) / s_k! noise(y_k - s_k) on sum(s) = n (proofs.md P56). Cells are
independent but for their sum, which is drawn in halves (``integer_sums``). Counts far from the noisy ones and tails of
mass below 1e-15 of a convolution are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.counts.integer_sums import Mass, SumTree, tilt_to, tilted_law
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
