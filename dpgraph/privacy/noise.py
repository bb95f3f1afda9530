"""Sources of noise: OpenDP's exact samplers and selection, and sum-zero noise built on them.

Nothing here takes a seed or draws a float. ``SecureNoise`` is the only source the release path uses.
"""

from __future__ import annotations

import math
import secrets
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, NoiseLaw, SumZeroLaplace
from dpgraph.privacy.records import rounded
from dpgraph.privacy.selection import bounded_scores, draw_compositions, draw_path
from dpgraph.waiting import counted

#: Above this scale nothing could be learned, and sums of draws would leave 64 bits.
MAX_SCALE = 2.0**40

#: The same for statistics in steps of a fine grid, of which one row moves a sum by up to 2^30; draws still fit 64 bits.
MAX_SCALE_IN_STEPS = 2.0**50

#: Below this scale the noise is zero but for one draw in e^256; a larger epsilon gets no less noise.
MIN_SCALE = 2.0**-8


#: So many cells are drawn by one call of OpenDP, some tenths of a second in which no interruption is heard.
BLOCK = 1 << 15

#: With more parts, and fewer slots than 62 bits number, the bars of a composition are drawn all at once.
FEW_PARTS = 256


class Noise(Protocol):
    """A source of integer noise and of selections. ``private`` says whether its draws are unpredictable.

    A selection's privacy: if two neighbours' scores differ by values within an interval of length r, the log ratio
    of the probabilities of any candidate is at most r / scale, for ``choose``, ``flip``, ``choose_composition`` and
    ``choose_path``.
    """

    private: ClassVar[bool]

    def add(self, values: Integers, law: NoiseLaw) -> Integers:
        """Returns the values with one fresh draw of the law added; a vector in, a vector of the same length out.

        A law other than the three of ``privacy.measurements`` adds itself by ``law.add_to(values, source)``, from other
        calls of the source; a recording source sees those calls.
        """
        ...

    def choose(self, scores: npt.ArrayLike, scale: float) -> int:
        """The index i with probability proportional to exp(scores[i] / scale): the exponential mechanism."""
        ...

    def flip(self, scores: npt.ArrayLike, scale: float) -> int:
        """The index by permute-and-flip: closer to the best score than ``choose`` at the same privacy; another law."""
        ...

    def choose_composition(self, scores: npt.NDArray[Any], scale: float, size: int) -> Integers:
        """``choose`` among all compositions of total into parts, scored by the sum of their parts' scores.

        Integer scores, shape (parts, total + 1), are divided by ``scale``; ``size`` independent draws, shape (size,
        parts), each row of which sums to total.
        """
        ...

    def choose_path(self, scores: npt.NDArray[Any], scale: float, start: Reals, transition: Reals) -> Integers:
        """``choose`` among all paths of states, scored by the sum over time, on a public Markov base measure.

        Integer scores, shape (steps, states), are divided by ``scale``; ``start`` and ``transition`` are public weights
        of the first state, shape (states,), and of a state after a state, shape (states, states). One path, shape
        (steps,).
        """
        ...

    def bits(self, count: int) -> int:
        """A uniform integer below 2^count."""
        ...


class SecureNoise:
    """Exact samplers driven by the operating system's randomness; there is no seed and no fallback."""

    private: ClassVar[bool] = True

    def __init__(self) -> None:
        try:
            _laplace(1.0)
        except ImportError as error:
            raise ReleaseError("no secure noise source: OpenDP cannot be loaded") from error

    def add(self, values: Integers, law: NoiseLaw) -> Integers:
        """Adds discrete Laplace or Gaussian noise by OpenDP, sum-zero noise by ``_sum_zero``; other laws add theirs."""
        match law:
            case DiscreteGaussian(scale=scale):
                return _by_blocks(_gaussian(scale), values)
            case DiscreteLaplace(scale=scale):
                return _by_blocks(_laplace(scale), values)
            case SumZeroLaplace(scale=scale):
                return values + np.array(_sum_zero(len(values), scale), dtype=np.int64)
        return law.add_to(values, self)

    def choose(self, scores: npt.ArrayLike, scale: float) -> int:
        """OpenDP's noisy maximum with Gumbel noise, compared in exact arithmetic."""
        return int(_selector("softmax", scale)(bounded_scores(scores)))

    def flip(self, scores: npt.ArrayLike, scale: float) -> int:
        """OpenDP's permute-and-flip, whose coins are exact."""
        return int(_selector("permute-and-flip", scale)(bounded_scores(scores)))

    def choose_composition(self, scores: npt.NDArray[Any], scale: float, size: int) -> Integers:
        """``selection.draw_compositions`` over the operating system's bits."""
        return draw_compositions(scores, scale, size, self.bits)

    def choose_path(self, scores: npt.NDArray[Any], scale: float, start: Reals, transition: Reals) -> Integers:
        """``selection.draw_path`` over the operating system's bits."""
        return draw_path(scores, scale, start, transition, self.bits)

    def bits(self, count: int) -> int:
        """The operating system's bits."""
        return secrets.randbits(count)


def selection_scale(score_range: int, epsilon: Fraction) -> float:
    """The smallest float scale at which selection is epsilon-DP by OpenDP's own, rounded up, account.

    Args:
        score_range: The length of an interval that holds all differences of two neighbours' integer scores; 0 where
            nothing depends on the rows.
        epsilon: The exact budget of the selection.

    Raises:
        ReleaseError: If the range is negative, or epsilon too small.

    >>> selection_scale(12, Fraction(3))
    4.0
    """
    if score_range < 0 or epsilon <= 0:
        raise ReleaseError(f"selection needs a score range >= 0 and epsilon > 0; got {score_range}, {epsilon}")
    if Fraction(score_range) / epsilon > 2**100:
        raise ReleaseError(f"epsilon {float(epsilon):g} is too small: nothing could be learned from a selection")
    scale = max(float(Fraction(score_range) / epsilon), MIN_SCALE)
    while (
        Fraction(scale) * epsilon < score_range
        or Fraction(_selector("permute-and-flip", scale).map(float(score_range))) > epsilon
    ):
        scale = math.nextafter(scale, math.inf)
    return scale


@lru_cache(maxsize=64)
def _selector(law: Literal["softmax", "permute-and-flip"], scale: float) -> Any:
    """OpenDP's selection of an index; the distance of its map is the score range (its ``monotonic`` distance)."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_noisy_max
    from opendp.measures import max_divergence, zero_concentrated_divergence
    from opendp.metrics import linf_distance
    from opendp.mod import enable_features

    if not 0 < scale < math.inf:
        raise ReleaseError(f"a selection's scale must be above 0 and finite; got {scale!r}")
    enable_features("contrib")
    measure = zero_concentrated_divergence() if law == "softmax" else max_divergence()
    space = vector_domain(atom_domain(T="f64", nan=False)), linf_distance(T="f64", monotonic=True)
    return make_noisy_max(*space, measure, scale=scale)


def calibrated_scale(sensitivity: int, epsilon: Fraction, largest: float = MAX_SCALE) -> float:
    """The smallest float scale whose discrete Laplace noise is epsilon-DP by OpenDP's own, rounded up, account.

    Args:
        sensitivity: The L1 sensitivity of the integer statistics that share this scale.
        epsilon: The exact budget of those statistics.
        largest: The largest scale from which something could be learned.

    Raises:
        ReleaseError: If the scale would be larger.

    >>> calibrated_scale(74, Fraction(1))
    74.0
    """
    if sensitivity < 1 or epsilon <= 0:
        raise ReleaseError(f"a noise scale needs sensitivity >= 1 and epsilon > 0; got {sensitivity}, {epsilon}")
    target = Fraction(sensitivity) / epsilon
    if target > largest:
        raise ReleaseError(
            f"epsilon {float(epsilon):.3g} asks for noise of a scale above 2^{math.log2(largest):g}: nothing could be "
            "learned from it"
        )
    scale = max(float(target), MIN_SCALE)
    while Fraction(scale) < target or Fraction(_laplace(scale).map(sensitivity)) > epsilon:
        scale = math.nextafter(scale, math.inf)
    return scale


@lru_cache(maxsize=256)
def _laplace(scale: float) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_laplace
    from opendp.metrics import l1_distance
    from opendp.mod import enable_features

    _check_scale(scale)
    enable_features("contrib")
    return make_laplace(vector_domain(atom_domain(T="i64")), l1_distance(T="i64"), scale=scale)


def _check_scale(scale: float) -> None:
    """Refuses a scale that OpenDP would accept: a scale of 0 returns the data."""
    if not 0 < scale <= 2 * MAX_SCALE_IN_STEPS:
        raise ReleaseError(f"a noise scale must be above 0 and finite; got {scale!r}")


def calibrated_gaussian_scale(l2_squared: int, rho: Fraction, largest: float = MAX_SCALE) -> float:
    """The smallest float scale whose discrete Gaussian noise is rho-zCDP by OpenDP's own account, rounded up.

    The exact condition is scale^2 >= l2_squared / (2 rho) (Canonne, Kamath and Steinke 2020, Theorem 4).

    Args:
        l2_squared: The squared L2 sensitivity of the integer statistics.
        rho: Their exact zero-concentrated budget.
        largest: The largest scale from which something could be learned.

    Raises:
        ReleaseError: If the scale would be larger.

    >>> calibrated_gaussian_scale(1, Fraction(1, 8))
    2.0
    """
    if l2_squared < 1 or rho <= 0:
        raise ReleaseError(f"a noise scale needs sensitivity >= 1 and rho > 0; got {l2_squared}, {float(rho):g}")
    square = Fraction(l2_squared) / (2 * rho)
    if square > Fraction(largest) ** 2:
        raise ReleaseError(f"rho {float(rho):.3g} asks for so much noise that nothing could be learned from it")
    distance = _root_up(Fraction(l2_squared))
    scale = max(math.sqrt(float(square)), MIN_SCALE)
    while Fraction(scale) ** 2 < square or Fraction(_gaussian(scale).map(distance)) > rho:
        scale = math.nextafter(scale, math.inf)
    return scale


def _root_up(square: Fraction) -> float:
    """The smallest float that is at least the root of a fraction."""
    root = math.sqrt(float(square))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


@lru_cache(maxsize=256)
def _gaussian(scale: float) -> Any:
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    _check_scale(scale)
    enable_features("contrib")
    return make_gaussian(vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=scale)


@lru_cache(maxsize=1024)
def epsilon_of_rho(rho: Fraction, delta: Fraction) -> Fraction:
    """The epsilon at a delta of any rho-zCDP mechanism, by OpenDP's conversion, never rounded down.

    Canonne, Kamath and Steinke 2020, Corollary 13; the least of its bounds over all orders.
    """
    from opendp.combinators import make_zCDP_to_approxDP
    from opendp.mod import OpenDPException

    unit = _gaussian(1.0)
    distance = _root_up(2 * rho)
    while Fraction(unit.map(distance)) < rho:
        distance = math.nextafter(distance, math.inf)
    below = float(delta)
    while Fraction(below) > delta:
        below = math.nextafter(below, 0.0)
    try:
        return Fraction(make_zCDP_to_approxDP(unit).map(distance).epsilon(below))
    except OpenDPException:
        pass
    raise ReleaseError(
        f"rho {float(rho):.3g} at delta {float(delta):.3g} is beyond what can be converted to an epsilon"
    )


@lru_cache(maxsize=256)
def rho_of_epsilon(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, to ten digits, that ``epsilon_of_rho`` prices at no more than epsilon."""
    depth = math.log(1 / delta)
    low = rounded((epsilon / (math.sqrt(depth + epsilon) + math.sqrt(depth))) ** 2 / 2, up=False)
    high = low
    while epsilon_of_rho(high, delta) <= epsilon:
        low, high = high, 2 * high
    while high - low > low / 10**11:
        middle = (low + high) / 2
        low, high = (middle, high) if epsilon_of_rho(middle, delta) <= epsilon else (low, middle)
    return rounded(low, up=False)


def _by_blocks(draw: Any, values: npt.ArrayLike) -> Integers:
    """The values with noise of independent cells, a block at a time: between two blocks an interruption is heard."""
    flat = np.ascontiguousarray(values, dtype=np.int64)
    if len(flat) <= BLOCK:
        return np.array(draw(flat), dtype=np.int64)
    noisy = np.empty_like(flat)
    for start in counted(range(0, len(flat), BLOCK)):
        noisy[start : start + BLOCK] = draw(flat[start : start + BLOCK])
    return noisy


def _sum_zero(cells: int, scale: float) -> Integers:
    """One exact draw of P(z) proportional to exp(-||z||_1 / scale) on integer z with sum zero.

    z is the difference of two uniform compositions of T into K parts, P(T) proportional to NB(T)^2 where NB is the
    law of a sum of K geometrics. So: draw K geometrics, keep them with probability NB(T) / max NB (0.7 on average),
    and given T they are the first composition; the second is stars and bars.
    """
    if cells == 1:
        return np.zeros(1, np.int64)
    q_exponent = -1 / Fraction(scale)
    mode = _negative_binomial_mode(cells, q_exponent)
    while True:
        first = _geometrics(cells, scale)
        total = sum(first.tolist())
        if _accept(cells, total, mode, q_exponent):
            return first - _composition(total, cells)


def _geometrics(count: int, scale: float) -> Integers:
    """Exact draws of P(k) proportional to exp(-k / scale), k >= 0, by folding discrete Laplace draws (proofs.md P107).

    z and -z - 1 fall on the same k: P(z = k) + P(z = -k - 1) is proportional to q^k (1 + q).
    """
    drawn = _by_blocks(_laplace(scale), np.zeros(count, dtype=np.int64))
    return drawn ^ (drawn >> 63)


def _composition(total: int, parts: int) -> Integers:
    """A uniform composition of a total into non-negative parts: gaps between a uniform set of bars."""
    slots = total + parts - 1
    if parts > FEW_PARTS and slots < 1 << 62:
        bars = _subset(parts - 1, slots)
    else:
        bars = np.array(sorted(_floyd(parts - 1, slots)), dtype=np.int64)
    return np.diff(bars, prepend=-1, append=slots) - 1


def _floyd(size: int, slots: int) -> set[int]:
    """A uniform set of so many of the numbers below ``slots``, one at a time (Floyd)."""
    chosen: set[int] = set()
    for top in range(slots - size, slots):
        position = secrets.randbelow(top + 1)
        chosen.add(top if position in chosen else position)
    return chosen


def _subset(size: int, slots: int) -> Integers:
    """The same set in rising order, many at once: the first distinct ones of independent uniform numbers (P107).

    Of more than half the numbers, the others are drawn and left out.
    """
    if 2 * size > slots:
        kept = np.ones(slots, bool)
        kept[_subset(slots - size, slots)] = False
        return np.flatnonzero(kept)
    drawn = np.zeros(0, np.int64)
    while True:
        numbers, first = np.unique(drawn, return_index=True)
        if len(numbers) >= size:
            latest = np.partition(first, size - 1)[size - 1] if size else -1
            return numbers[first <= latest]
        missing = size - len(numbers)
        drawn = np.concatenate([drawn, _uniforms(missing + missing // 2 + 16, slots)])


def _uniforms(count: int, below: int) -> Integers:
    """At most so many independent uniform numbers below a bound of at most 2^62, from the operating system's bits."""
    words = np.frombuffer(secrets.token_bytes(8 * count), dtype="<u8")
    width = (below - 1).bit_length()
    numbers = (words >> np.uint64(64 - width)).astype(np.int64) if width else np.zeros(count, np.int64)
    return numbers[numbers < below]


def _negative_binomial_mode(cells: int, q_exponent: Fraction) -> int:
    """The m with NB(m + 1) <= NB(m) >= NB(m - 1), where NB(t + 1) / NB(t) = q (t + K) / (t + 1)."""
    q = math.exp(float(q_exponent))
    mode = max(0, math.floor(((cells - 1) * q - (1 - q)) / -math.expm1(float(q_exponent))))
    while not _below_one(mode, cells, q_exponent):
        mode += 1
    while mode > 0 and _below_one(mode - 1, cells, q_exponent):
        mode -= 1
    return mode


def _below_one(t: int, cells: int, q_exponent: Fraction) -> bool:
    """Decides q (t + K) / (t + 1) < 1 in rigorous arithmetic; q is transcendental, so never equal."""
    digits = 40
    while True:
        low, high = exp_bounds(q_exponent, digits)
        ratio = Fraction(t + cells, t + 1)
        if ratio * high < 1 or ratio * low > 1:
            return ratio * high < 1
        digits *= 2


def _accept(cells: int, total: int, mode: int, q_exponent: Fraction) -> bool:
    """An exact coin of bias NB(total) / NB(mode): bits of U are drawn until the bounds decide."""
    bits, digits = 64, 30
    uniform = secrets.randbits(bits)
    while True:
        low, high = _ratio_bounds(cells, total, mode, q_exponent, digits)
        if Fraction(uniform + 1, 1 << bits) <= low:
            return True
        if Fraction(uniform, 1 << bits) >= high:
            return False
        uniform = (uniform << 64) | secrets.randbits(64)
        bits, digits = bits + 64, digits + 20


def _ratio_bounds(cells: int, total: int, mode: int, q_exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Bounds on NB(total) / NB(mode) = exp((total - mode) * q_exponent) * product of (t + K) / (t + 1).

    The product telescopes to at most min(K - 1, |total - mode|) factors; each Decimal step errs by a factor within
    1 +- 10^(1 - digits), so the bounds widen by the number of steps.
    """
    if total == mode:
        return Fraction(1), Fraction(1)
    low, high = exp_bounds((total - mode) * q_exponent, digits)
    context, ratio = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX), Decimal(1)
    if abs(total - mode) < cells - 1:
        start, stop = sorted((total, mode))
        pairs = ((t + cells, t + 1) for t in range(start, stop))
        pairs = pairs if total > mode else ((b, a) for a, b in pairs)
    else:
        pairs = ((total + i, mode + i) for i in range(1, cells))
    steps = 0
    for numerator, denominator in pairs:
        ratio = context.divide(context.multiply(ratio, Decimal(numerator)), Decimal(denominator))
        steps += 2
    slack = Fraction(steps + 1, 10 ** (digits - 2))
    return Fraction(ratio) * low * (1 - slack), Fraction(ratio) * high * (1 + slack)


def exp_bounds(exponent: Fraction, digits: int) -> tuple[Fraction, Fraction]:
    """Rigorous bounds on exp(exponent): Decimal's exp is correctly rounded, and the exponent's rounding is covered."""
    context = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX)
    power = context.divide(Decimal(exponent.numerator), Decimal(exponent.denominator))
    value = Fraction(context.exp(power))
    slack = (1 + abs(exponent)) * Fraction(1, 10 ** (digits - 2))
    return value * (1 - slack), value * (1 + slack)
