"""Gaussian differential privacy: the mu of integer noise and of pure mechanisms, and its epsilon and delta.

A mechanism is mu-GDP if its outputs on two neighbours are no easier to tell apart than draws of N(0, 1) and N(mu, 1)
(Dong, Roth and Su 2022). The squares of mus add, also where each release is chosen after seeing the ones before it
(Smith and Thakurta 2022; proofs.md P92). So costs are kept as squares, in exact fractions, and every number here is
rounded in the direction that promises less: mpmath computes with guard digits, and the twelfth digit is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, Movement, NoiseLaw, Selection

#: Digits that mpmath computes with; far more than cancellation takes from the twelve that are used.
DIGITS = 50
#: A delta below 10 to the minus this is said to be that: no file or setting holds a smaller one.
LEAST_DELTA = 1300
#: Squares of mus beyond these are bounded: delta is at most 1, and at most mu / 2.
LARGEST_SQUARE, LEAST_SQUARE = 10**12, Fraction(1, 10**200)
#: Above this epsilon the mu of a pure mechanism is bounded by sqrt(8 epsilon).
LARGE = 100
#: Below this scale the mu of discrete Gaussian noise is bounded by 2 / scale; above the other its p0 has a closed form.
SMALL_SCALE, LARGE_SCALE = 0.25, 4


def rounded(value: Fraction | float, *, up: bool) -> Fraction:
    """A number rounded up or down to twelve decimal digits, so that no cost is printed or kept too low."""
    context = Context(prec=12, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    number = Fraction(value)
    return Fraction(context.divide(Decimal(number.numerator), Decimal(number.denominator)))


@lru_cache(maxsize=4096)
def unit_shift(scale: float) -> Fraction:
    """The square of the least mu of discrete Gaussian noise on a number that moves by 1 (proofs.md P127)."""
    if scale < SMALL_SCALE:
        return rounded(4 / Fraction(scale) ** 2, up=True)
    import mpmath

    with mpmath.workdps(DIGITS):
        sigma = mpmath.mpf(scale)
        if scale >= LARGE_SCALE:
            total = sigma * mpmath.sqrt(2 * mpmath.pi)
        else:
            total = 1 + 2 * sum(mpmath.exp(-(j**2) / (2 * sigma**2)) for j in range(1, 80))
        return _rounded(8 * mpmath.erfinv(1 / total) ** 2, up=True)


@lru_cache(maxsize=4096)
def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """The square of the least mu of every epsilon-DP mechanism, 2 Phi^-1(e^epsilon / (1 + e^epsilon)) (P128)."""
    if epsilon > LARGE:
        return rounded(8 * epsilon, up=True)
    import mpmath

    with mpmath.workdps(DIGITS + LARGE):
        ratio = mpmath.tanh(mpmath.mpf(epsilon.numerator) / epsilon.denominator / 2)
        return _rounded(8 * mpmath.erfinv(ratio) ** 2, up=True)


def moved_mu_squared(law: NoiseLaw, moved: Movement, least: int = 0) -> Fraction | None:
    """The square of the mu of noise on numbers moved by ``least`` or more (P127, P128); None where there is none."""
    if max(least, moved.l1) == 0:
        return Fraction(0)
    if isinstance(law, DiscreteGaussian):
        return max(least, moved.l2_squared) * unit_shift(law.scale)
    cells, distance = 1, max(least, moved.l1)
    if moved.moved_cells and not law.sums_to_zero:
        cells, distance = moved.moved_cells, 1
    epsilon = law.epsilon(distance)
    return None if epsilon is None else cells * pure_mu_squared(epsilon)


def chosen_mu_squared(chosen: Selection) -> Fraction:
    """The square of the mu of selections."""
    epsilon = Fraction(chosen.epsilon)
    return chosen.draws * pure_mu_squared(epsilon / 2 if chosen.law == "softmax" else epsilon)


@lru_cache(maxsize=4096)
def delta_of_mu(mu_squared: Fraction, epsilon: Fraction) -> Fraction:
    """The least delta of mu-GDP at an epsilon, rounded up (Dong, Roth and Su 2022, Corollary 2.13)."""
    import mpmath

    if mu_squared <= 0:
        return Fraction(0)
    if mu_squared > LARGEST_SQUARE:
        return Fraction(1)
    if mu_squared < LEAST_SQUARE:
        return root(mu_squared, up=True) / 2
    away = 2 * epsilon - mu_squared  # the loss is beyond away / (2 mu) deviations, a chance of exp(-away^2 / (8 mu^2))
    if away > 0 and away**2 > 24_000 * mu_squared:
        return Fraction(1, 10**LEAST_DELTA)
    with mpmath.workdps(DIGITS + max(0, -math.frexp(mu_squared)[1])):
        mu = mpmath.sqrt(mpmath.mpf(mu_squared.numerator) / mu_squared.denominator)
        loss = mpmath.mpf(epsilon.numerator) / epsilon.denominator
        over = mpmath.exp(loss) * mpmath.ncdf(-loss / mu - mu / 2)
        found = mpmath.ncdf(mu / 2 - loss / mu) - over
        return min(Fraction(1), _rounded(max(found, mpmath.mpf(10) ** -LEAST_DELTA), up=True))


@lru_cache(maxsize=1024)
def epsilon_of_mu(mu_squared: Fraction, delta: Fraction) -> Fraction:
    """The least epsilon, to twelve digits, at which every mu-GDP mechanism is (epsilon, delta)-DP; never less."""
    if delta_of_mu(mu_squared, Fraction(0)) <= delta:
        return Fraction(0)
    high = Fraction(1)
    while delta_of_mu(mu_squared, high) > delta:
        high *= 2
    return bisected(Fraction(0), high, lambda epsilon: delta_of_mu(mu_squared, epsilon) > delta)[1]


@lru_cache(maxsize=1024)
def mu_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest mu, to twelve digits, of which every mechanism is (epsilon, delta)-DP; never more."""
    if delta_of_mu(Fraction(1, 2**200), epsilon) > delta:
        raise ReleaseError(f"epsilon {float(epsilon):.3g} at delta {float(delta):.3g} leaves no mu worth having")
    return largest(lambda mu: delta_of_mu(mu**2, epsilon) <= delta)


def largest(fits: Callable[[Fraction], bool]) -> Fraction:
    """The largest number above 0, to twelve digits, that fits as all below it do."""
    low = high = Fraction(1)
    while not fits(low):
        low, high = low / 2, low
    while fits(high):
        low, high = high, 2 * high
    return bisected(low, high, fits)[0]


def bisected(low: Fraction, high: Fraction, is_low: Callable[[Fraction], bool]) -> tuple[Fraction, Fraction]:
    """Two numbers of twelve digits with none between them, of which the first alone is low, as the given ones are."""
    while True:
        middle = rounded((low + high) / 2, up=True)
        middle = middle if middle < high else rounded((low + high) / 2, up=False)
        if not low < middle < high:
            return low, high
        low, high = (middle, high) if is_low(middle) else (low, middle)


def root(square: Fraction, *, up: bool) -> Fraction:
    """The root of a fraction to twelve digits, above or below it."""
    context = Context(prec=40)
    near = Fraction(context.sqrt(context.divide(Decimal(square.numerator), Decimal(square.denominator))))
    return rounded(near * (1 + Fraction(1 if up else -1, 10**35)) if near**2 != square else near, up=up)


def _rounded(value: Any, *, up: bool) -> Fraction:
    """A number of mpmath to twelve digits, in one direction, its last guard digits taken to be wrong."""
    import mpmath

    guard = Fraction(1 if up else -1, 10**20)
    return rounded(Fraction(mpmath.nstr(value, 30)) * (1 + guard), up=up)
