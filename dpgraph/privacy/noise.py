"""Sources of noise: OpenDP's exact samplers and selection, sum-zero noise built on them, and selection on lattices.

Nothing here takes a seed or draws a float. ``SecureNoise`` is the only source the release path uses.

A composition is a list of parts j_1, ..., j_K >= 0 with a fixed sum: a point of a lattice on the simplex. A path is a
state at each of several time steps. Their bits come from the caller, so the same code serves the seeded source.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.gdp import rounded, unit_shift
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, NoiseLaw, SumZeroLaplace
from dpgraph.waiting import counted

#: Above this scale nothing could be learned, and sums of draws would leave 64 bits.
MAX_SCALE = 2.0**40
#: The same for statistics in steps of a fine grid, of which one row moves a sum by up to 2^30; draws still fit 64 bits.
MAX_SCALE_IN_STEPS = 2.0**50
#: Below this scale the noise is zero but for one draw in e^256; a larger epsilon gets no less noise.
MIN_SCALE = 2.0**-8
#: So many cells are drawn by one call of OpenDP, some tenths of a second in which no interruption is heard.
BLOCK = 1 << 15


class Noise:
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
        raise NotImplementedError

    def choose(self, scores: npt.ArrayLike, scale: float) -> int:
        """The index i with probability proportional to exp(scores[i] / scale): the exponential mechanism."""
        raise NotImplementedError

    def flip(self, scores: npt.ArrayLike, scale: float) -> int:
        """The index by permute-and-flip: closer to the best score than ``choose`` at the same privacy; another law."""
        raise NotImplementedError

    def choose_composition(self, scores: npt.NDArray[Any], scale: float, size: int) -> Integers:
        """``choose`` among all compositions of total into parts, scored by the sum of their parts' scores.

        Integer scores, shape (parts, total + 1), are divided by ``scale``; ``size`` independent draws, shape (size,
        parts), each row of which sums to total.
        """
        return draw_compositions(scores, scale, size, self.bits)

    def choose_path(self, scores: npt.NDArray[Any], scale: float, start: Reals, transition: Reals) -> Integers:
        """``choose`` among all paths of states, scored by the sum over time, on a public Markov base measure.

        Integer scores, shape (steps, states), are divided by ``scale``; ``start`` and ``transition`` are public weights
        of the first state, shape (states,), and of a state after a state, shape (states, states). One path, shape
        (steps,).
        """
        return draw_path(scores, scale, start, transition, self.bits)

    def bits(self, count: int) -> int:
        """A uniform integer below 2^count."""
        raise NotImplementedError


class SecureNoise(Noise):
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


def _additive(law: Literal["laplace", "gaussian"], scale: float) -> Any:
    """OpenDP's mechanism of integer noise; refuses a scale that OpenDP would accept: a scale of 0 returns the data."""
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian, make_laplace
    from opendp.metrics import l1_distance, l2_distance
    from opendp.mod import enable_features

    if not 0 < scale <= 2 * MAX_SCALE_IN_STEPS:
        raise ReleaseError(f"a noise scale must be above 0 and finite; got {scale!r}")
    enable_features("contrib")
    domain = vector_domain(atom_domain(T="i64"))
    if law == "laplace":
        return make_laplace(domain, l1_distance(T="i64"), scale=scale)
    return make_gaussian(domain, l2_distance(T="f64"), scale=scale)


_laplace = lru_cache(maxsize=256)(partial(_additive, "laplace"))
_gaussian = lru_cache(maxsize=256)(partial(_additive, "gaussian"))


def word_threshold(scale: float, words: int, largest: int, delta: Fraction) -> int:
    """The lowest threshold of counts with Gaussian noise, by OpenDP's account of delta.

    One person moves so many ``words`` by at most ``largest`` each; delta is the chance that a word which one of two
    neighbouring tables lacks is named.
    """
    from opendp.domains import atom_domain, map_domain
    from opendp.measurements import make_gaussian_threshold
    from opendp.metrics import absolute_distance, l02inf_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    space = map_domain(atom_domain(T=str), atom_domain(T="i64")), l02inf_distance(absolute_distance(T="i64"))

    def enough(threshold: int) -> bool:
        map_ = make_gaussian_threshold(*space, scale=scale, threshold=threshold).map
        return Fraction(map_((words, words * largest, largest))[1]) <= delta

    low, high = largest, largest + 1
    while not enough(high):
        low, high = high, 2 * high
        if high > MAX_SCALE_IN_STEPS:
            raise ReleaseError(f"delta {float(delta):.3g} asks for a threshold that no count would exceed")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


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


def scale_of_mu(l2_squared: int, mu_squared: Fraction, largest: float = MAX_SCALE) -> float:
    """The smallest float scale, to twelve digits, with l2_squared * unit_shift(scale) <= mu_squared (P127)."""
    if l2_squared < 1 or mu_squared <= 0:
        raise ReleaseError(f"a noise scale needs sensitivity >= 1 and mu > 0; got {l2_squared}, {mu_squared}")
    step = mu_squared / l2_squared  # the largest square of mu for a shift by 1
    if step * Fraction(largest) ** 2 < 1:
        raise ReleaseError(
            f"mu {math.sqrt(mu_squared):.3g} asks for so much noise that nothing could be learned from it"
        )
    scale = max(1 / math.sqrt(step), MIN_SCALE)
    for _ in range(60):  # the scale times its mu is between 1 and 2 and falls slowly: a fixed point
        found = max(scale * math.sqrt(unit_shift(scale) / step), MIN_SCALE)
        scale, last = found, scale
        if abs(scale / last - 1) < 1e-13:
            break
    while unit_shift(scale) > step:
        scale *= 1 + 1e-12
    return scale


def _root_up(square: Fraction) -> float:
    """The smallest float that is at least the root of a fraction."""
    root = math.sqrt(float(square))
    while Fraction(root) ** 2 < square:
        root = math.nextafter(root, math.inf)
    return root


@lru_cache(maxsize=1024)
def epsilon_of_rho(rho: Fraction, delta: Fraction) -> Fraction:
    """The epsilon at a delta of any rho-zCDP mechanism, by OpenDP's conversion, never rounded down."""
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
    """One exact draw of P(z) proportional to exp(-||z||_1 / scale) on integer z with sum zero (proofs.md P18)."""
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
    """Exact draws of P(k) proportional to exp(-k / scale), k >= 0, by folding discrete Laplace draws (P107)."""
    drawn = _by_blocks(_laplace(scale), np.zeros(count, dtype=np.int64))
    return drawn ^ (drawn >> 63)


def _composition(total: int, parts: int) -> Integers:
    """A uniform composition of a total into non-negative parts: gaps between a uniform set of bars."""
    slots = total + parts - 1
    if slots >= 1 << 63:
        raise ReleaseError(f"noise over {parts} cells that sums to zero has a total of {total}, which leaves 64 bits")
    return np.diff(_subset(parts - 1, slots), prepend=-1, append=slots) - 1


def _subset(size: int, slots: int) -> Integers:
    """A uniform set of numbers below ``slots``: the first distinct of independent ones, or all but such (P107)."""
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
    """At most so many independent uniform numbers below a bound of at most 2^63, from the operating system's bits."""
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
    """Bounds on NB(total) / NB(mode), a power of q times prod (t + K) / (t + 1), with each Decimal step's error."""
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


#: Integers up to this are exact as floats; a score this far below the best is raised to it.
DEEPEST = 2**53


def bounded_scores(scores: npt.ArrayLike) -> Reals:
    """Scores as floats without rounding, those far below the best raised to ``-DEEPEST``: differences never grow."""
    array = np.asarray(scores)
    if array.ndim != 1 or array.size == 0:
        raise ReleaseError(f"selection needs a list of at least one score; got shape {array.shape}")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ReleaseError("a score is not a finite number")
        return np.ascontiguousarray(array, dtype=np.float64)
    if array.dtype.kind not in "iO":
        raise ReleaseError(f"scores must be numbers; got {array.dtype}")
    return np.maximum(_below_best(array), -DEEPEST).astype(np.float64)


def draw_compositions(scores: npt.NDArray[Any], scale: float, size: int, bits: Callable[[int], int]) -> Integers:
    """Independent exact draws of a composition with probability proportional to exp(sum_a scores[a, j_a] / scale).

    The weights are a product over the parts, so the parts follow one after the other: P(j_1) is proportional to
    w_1(j_1) times the convolution of w_2, ..., w_K at the remaining total (forward filter, backward sample). Each part
    is an inverse-CDF draw. Floats propose it with a bound on their error that holds eight units in the last place in
    every exp and log; where a boundary is nearer than that bound, decimal arithmetic with rigorous bounds and further
    bits decides. So the law is exact whatever the scores.
    """
    relative = _below_best(scores)
    weights = relative.astype(np.float64) / scale
    suffixes = _suffixes(weights)
    error = _float_error(weights)
    draws = np.empty((size, len(weights)), np.int64)
    for draw in draws:
        left = weights.shape[1] - 1
        for i in range(len(weights) - 1):
            uniform = bits(64)
            log_mass = weights[i, : left + 1] + suffixes[i + 1][left::-1]
            part = _float_choice(log_mass, uniform, error)
            if part is None:
                part = _exact_choice(partial(_cumulative_bounds, relative[i:], scale, left), uniform, bits)
            draw[i] = part
            left -= draw[i]
        draw[-1] = left
    return draws


def draw_path(
    scores: npt.NDArray[Any], scale: float, start: Reals, transition: Reals, bits: Callable[[int], int]
) -> Integers:
    """One exact draw of a path, P proportional to a public base measure times exp(sum of scores / scale) (P24)."""
    base = np.concatenate([start, np.ravel(transition)])
    if not ((base >= 2.0**-64) & (base <= 1)).all():
        raise ReleaseError("the base measure of a path must be from 2^-64 to 1 everywhere")
    relative = _below_best(scores)
    steps, states = relative.shape
    filtered = _filter_weights(relative, scale, start, transition)
    # A likelihood that is not 0 errs by 750 units in the last place, and every sum and product by one for each term.
    error = (steps + 2) * (states + 800) * 2.0**-49
    path = np.empty(steps, np.int64)
    for t in range(steps - 1, -1, -1):
        onward = np.ones(states) if t == steps - 1 else transition[:, path[t + 1]]
        with np.errstate(divide="ignore"):
            log_mass = np.log(filtered[t] * onward)
        uniform = bits(64)
        state = _float_choice(log_mass, uniform, error)
        if state is None:
            bounds = partial(_path_bounds, relative[: t + 1], scale, start, transition, onward)
            state = _exact_choice(bounds, uniform, bits)
        path[t] = state
    return path


def _filter_weights(relative: npt.NDArray[Any], scale: float, start: Reals, transition: Reals) -> Reals:
    """The weight of each state at each step given the scores so far; every row sums to 1."""
    likelihood = np.exp(relative.astype(np.float64) / scale)
    filtered = np.empty_like(likelihood)
    for t, here in enumerate(likelihood):
        weight = (start if t == 0 else filtered[t - 1] @ transition) * here
        filtered[t] = weight / weight.sum()
    return filtered


def _path_bounds(
    relative: npt.NDArray[Any], scale: float, start: Reals, transition: Reals, onward: Reals, digits: int
) -> tuple[list[Fraction], Fraction]:
    """Cumulative probabilities of the last of some states, and a bound on their error, as ``_cumulative_bounds``."""
    context = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    divisor, largest = Fraction(scale), Fraction(0)
    arcs = [[Decimal(float(value)) for value in row] for row in transition]
    weight = [Decimal(float(value)) for value in start]
    for t, row in enumerate(relative):
        powers = [Fraction(int(score)) / divisor for score in row]
        largest += max(abs(power) for power in powers)
        if t > 0:
            weight = [_dot(weight, [arc[k] for arc in arcs], context) for k in range(len(weight))]
        weight = [context.multiply(w, _exp(power, context)) for w, power in zip(weight, powers, strict=True)]
    terms = [context.multiply(w, Decimal(float(value))) for w, value in zip(weight, onward, strict=True)]
    return _cumulative_shares(terms, len(relative) * (2 * len(weight) + 8) + 2 * largest, context)


def _dot(left: list[Decimal], right: list[Decimal], context: Context) -> Decimal:
    total = Decimal(0)
    for a, b in zip(left, right, strict=True):
        total = context.add(total, context.multiply(a, b))
    return total


def _below_best(scores: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Exact differences from the highest score of each row."""
    if scores.dtype.kind == "i" and max(abs(int(scores.max())), abs(int(scores.min()))) >= 2**62:
        scores = scores.astype(object)
    return scores - scores.max(axis=-1, keepdims=True)


def _suffixes(weights: Reals) -> list[Reals]:
    """For each i, the log of the convolution of the weights of parts i, i + 1, ... at every sum from 0 to total."""
    total = weights.shape[1] - 1
    suffixes = [weights[-1]]
    backwards = np.arange(total + 1)[:, None] - np.arange(total + 1)[None, :]
    for row in weights[-2:0:-1]:
        terms = np.where(backwards >= 0, row + suffixes[0][np.maximum(backwards, 0)], -np.inf)
        top = terms.max(axis=1)
        suffixes.insert(0, top + np.log(np.exp(terms - top[:, None]).sum(axis=1)))
    return [np.empty(0), *suffixes]


def _float_error(weights: Reals) -> float:
    """A bound on a cumulative probability's error: some units in the last place of the log weights and of each sum."""
    parts, values = weights.shape
    largest = float(np.abs(weights).max(axis=1).sum()) + parts * np.log(values)
    return parts * 2.0**-46 * (largest + values + 10)


def _float_choice(log_mass: Reals, uniform: int, error: float) -> int | None:
    """The value whose probability interval certainly contains the uniform; None where the error bound is too wide."""
    cumulative = np.cumsum(np.exp(log_mass - log_mass.max()))
    cumulative /= cumulative[-1]
    point, last = uniform / 2.0**64, len(cumulative) - 1
    value = min(int(np.searchsorted(cumulative, point, side="right")), last)
    after_low = value == 0 or cumulative[value - 1] + error <= point
    before_high = value == last or point + 2.0**-64 <= cumulative[value] - error
    return value if after_low and before_high and error < np.inf else None


def _exact_choice(
    bounds: Callable[[int], tuple[list[Fraction], Fraction]], uniform: int, bits: Callable[[int], int]
) -> int:
    """The value whose probability interval holds the uniform; more digits and more bits until the bounds decide."""
    count, digits = 64, 40
    while True:
        cumulative, slack = bounds(digits)
        low, high = Fraction(uniform, 1 << count), Fraction(uniform + 1, 1 << count)
        last = len(cumulative) - 1
        for value, edge in enumerate(cumulative):
            if value == last or high <= edge - slack:
                if value == 0 or low >= cumulative[value - 1] + slack:
                    return value
                break
        uniform = (uniform << 64) | bits(64)
        count, digits = count + 64, digits + 20


def _cumulative_bounds(
    scores: npt.NDArray[Any], scale: float, left: int, digits: int
) -> tuple[list[Fraction], Fraction]:
    """Cumulative probabilities of the first part, and a bound on their absolute error; exp is correctly rounded."""
    context = Context(prec=digits, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[])
    divisor, largest = Fraction(scale), Fraction(0)
    masses: list[list[Decimal]] = []
    for row in scores:
        powers = [Fraction(int(score)) / divisor for score in row[: left + 1]]
        largest += max(abs(power) for power in powers)
        masses.append([_exp(power, context) for power in powers])
    suffix = masses[-1]
    for row in masses[-2:0:-1]:
        suffix = [_dot(row[: at + 1], suffix[at::-1], context) for at in range(left + 1)]
    terms = [context.multiply(mass, suffix[left - value]) for value, mass in enumerate(masses[0])]
    return _cumulative_shares(terms, len(masses) * (2 * left + 8) + 2 * largest, context)


def _cumulative_shares(terms: list[Decimal], steps: Fraction, context: Context) -> tuple[list[Fraction], Fraction]:
    """The cumulative shares of positive terms, and a bound on their absolute error after so many operations."""
    running, cumulative = Decimal(0), []
    for term in terms:
        running = context.add(running, term)
        cumulative.append(running)
    shares = [context.divide(edge, running) for edge in cumulative]
    edges = [Fraction(share) if share.adjusted() > -2 * context.prec else Fraction(0) for share in shares]
    return edges, (steps + len(terms) + 1) * Fraction(1, 10 ** (context.prec - 2))


def _exp(power: Fraction, context: Context) -> Decimal:
    return context.exp(context.divide(Decimal(power.numerator), Decimal(power.denominator)))
