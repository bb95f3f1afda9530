"""Statistical conclusions that right code reaches but for a chance of 1e-6, whether it is to accept or to reject.

A test states the law of its draws and the wrong laws it must tell from it. It then knows how many draws it needs, and
refuses fewer before the first is made. The bounds hold for every number of draws; none is an approximation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.optimize import brentq

#: Largest chance that one assertion fails on right code, and that a stated wrong law passes.
LEVEL = 1e-6

Law = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LawTest:
    """A multinomial test of some draws of 0, 1, ... by relative entropy, and the wrong laws that it rejects.

    Draws are accepted where n KL(observed || law) is at most ``threshold``.
    """

    law: Law
    wrong: tuple[Law, ...]
    draws: int
    cells: npt.NDArray[np.int64]
    threshold: float

    def check(self, draws: npt.ArrayLike) -> None:
        """Asserts that draws are accepted by the law and rejected by every wrong one."""
        found = np.asarray(draws)
        assert found.shape == (self.draws,), f"{found.shape} draws where {self.draws} were planned"
        inside = (found >= 0) & (found < len(self.cells))
        observed = np.bincount(self.cells[found[inside]], minlength=len(self.law)).astype(float)
        observed[-1] += (~inside).sum()
        entropies = [self.draws * relative_entropy(observed / self.draws, law) for law in (self.law, *self.wrong)]
        assert entropies[0] <= self.threshold, f"not the law: {entropies[0]:.1f} > {self.threshold:.1f}"
        for number, entropy in enumerate(entropies[1:]):
            assert entropy > self.threshold, f"wrong law {number} accepted: {entropy:.1f} <= {self.threshold:.1f}"

    @property
    def error(self) -> float:
        """The largest chance of failing on right code, or of passing on a wrong law."""
        pairs = [pair for other in self.wrong for pair in ((self.law, other), (other, self.law))]
        return max(LEVEL, *(passing(truth, tested, self.draws, self.threshold) for truth, tested in pairs))


def law_test(
    log_law: npt.ArrayLike, wrong: Iterable[npt.ArrayLike], *, draws: int | None = None, most: int = 60_000
) -> LawTest:
    """Plans a test of draws against a law: as many as tell it from every wrong one, in both directions.

    Args:
        log_law: Log probabilities of 0, 1, ..., up to a constant; what lies outside is one rare cell more.
        wrong: Log probabilities of the laws to be rejected; at least one.
        draws: A number of draws; by default the least of a grid, four to a doubling, that suffices.
        most: The largest number to be tried.

    Raises:
        ValueError: If no law is stated as wrong, or the draws cannot tell one from the law.
    """
    laws = [np.exp(log_law - np.logaddexp.reduce(log_law)) for log_law in map(np.asarray, [log_law, *wrong])]
    if len(laws) < 2:
        raise ValueError("state a wrong law that the test must reject; else it may see nothing")
    for number in _numbers(draws, most):
        plan = _planned(laws, number)
        if plan.error <= LEVEL:
            return plan
    raise _powerless(draws or most)


def _numbers(draws: int | None, most: int) -> list[int]:
    """The numbers of draws to try."""
    return [draws] if draws else [n for n in (math.ceil(100 * 2 ** (i / 4)) for i in range(80)) if n <= most]


def _powerless(draws: int) -> ValueError:
    """What is raised for a test that could conclude nothing."""
    return ValueError(f"{draws} draws do not tell the laws apart in both directions at {LEVEL}")


def _planned(laws: Sequence[Law], draws: int) -> LawTest:
    """The test at a number of draws; cells expected fewer than ten times by the first law are one."""
    common = laws[0] * draws >= 10
    cells = np.where(common, np.cumsum(common) - 1, common.sum())
    pooled = [np.bincount(cells, law, common.sum() + 1) for law in laws]
    return LawTest(pooled[0], tuple(pooled[1:]), draws, cells, threshold(len(pooled[0])))


def threshold(cells: int, level: float = LEVEL) -> float:
    """What n KL(observed || law) exceeds with at most a chance of ``level``, for every n and law on some cells.

    Its moment generating function is at most (1 - s)^-(cells - 1) (Agrawal 2020, Theorem 1.3), so its tail beyond
    t > cells - 1 at most exp(-t) (e t / (cells - 1))^(cells - 1).
    """
    free = max(cells - 1, 1)
    return brentq(lambda t: t - free * math.log(math.e * t / free) + math.log(level), free, 100 * free + 1_000)


def passing(truth: Law, tested: Law, draws: int, limit: float) -> float:
    """A bound on the chance that draws of one law pass the test of another: n KL(observed || tested) <= limit.

    What passes is convex, so the chance is at most exp(-n KL(r || truth)) at the r in it nearest to the truth (Csiszar
    1984, Theorem 1). That r is on the curve tested^(1 - s) truth^s, on the border of what passes.
    """
    both = (truth > 0) & (tested > 0)
    logs = np.log(tested[both]), np.log(truth[both])

    def between(s: float) -> Law:
        mixed = (1 - s) * logs[0] + s * logs[1]
        law = np.zeros_like(truth)
        law[both] = np.exp(mixed - np.logaddexp.reduce(mixed))
        return law

    def slack(s: float) -> float:
        return draws * relative_entropy(between(s), tested) - limit

    if not both.any() or slack(0) >= 0:
        return 0.0
    if slack(1) <= 0:
        return 1.0
    return math.exp(-draws * relative_entropy(between(brentq(slack, 0, 1)), truth))


def relative_entropy(one: Law, other: Law) -> float:
    """KL(one || other) in nats; infinite where the other has no mass."""
    some = one > 0
    if (other[some] == 0).any():
        return math.inf
    return float(np.sum(one[some] * np.log(one[some] / other[some])))


Cdf = Callable[[Law], Law]


@dataclass(frozen=True)
class CdfTest:
    """A Kolmogorov-Smirnov test of some draws, and the wrong distribution functions that it rejects."""

    cdf: Cdf
    wrong: tuple[Cdf, ...]
    draws: int
    threshold: float

    def check(self, draws: npt.ArrayLike) -> None:
        """Asserts that draws are accepted by the law and rejected by every wrong one."""
        found = np.asarray(draws)
        assert found.shape == (self.draws,), f"{found.shape} draws where {self.draws} were planned"
        distances = [stats.ks_1samp(found, cdf).statistic for cdf in (self.cdf, *self.wrong)]
        assert distances[0] <= self.threshold, f"not the law: {distances[0]:.4f} > {self.threshold:.4f}"
        for number, distance in enumerate(distances[1:]):
            assert distance > self.threshold, f"wrong law {number} accepted: {distance:.4f} <= {self.threshold:.4f}"


def cdf_test(
    cdf: Cdf, wrong: Iterable[Cdf], points: npt.ArrayLike, *, draws: int | None = None, most: int = 60_000
) -> CdfTest:
    """Plans a test of draws against a distribution function: as many as tell it from every wrong one.

    The level is exact for a continuous law, and not passed by any other. A wrong law passes no more often than the
    share of draws below one point is within the threshold, a binomial tail; the best of ``points`` counts.

    Args:
        cdf: The distribution function, of an array.
        wrong: Distribution functions to be rejected; at least one.
        points: Where the laws may be far apart.
        draws: A number of draws; by default the least of a grid, four to a doubling, that suffices.
        most: The largest number to be tried.

    Raises:
        ValueError: If no law is stated as wrong, or the draws cannot tell one from the law.
    """
    others, at = tuple(wrong), np.asarray(points, dtype=float)
    if not others:
        raise ValueError("state a wrong law that the test must reject; else it may see nothing")
    pairs = [pair for other in others for pair in ((cdf(at), other(at)), (other(at), cdf(at)))]
    for number in _numbers(draws, most):
        distance = float(stats.kstwo(number).isf(LEVEL))
        if all(staying(truth, tested, number, distance) <= LEVEL for truth, tested in pairs):
            return CdfTest(cdf, others, number, distance)
    raise _powerless(draws or most)


def staying(truth: Law, tested: Law, draws: int, distance: float) -> float:
    """A bound on the chance that draws of one law stay within a distance of another's distribution function."""
    within = stats.binom(draws, np.clip(truth, 0, 1))
    chances = within.cdf(draws * (tested + distance)) - within.cdf(np.ceil(draws * (tested - distance)) - 1)
    return float(chances.min())
