"""Selection in exact arithmetic: scores that cannot overflow, and exact draws of compositions and of state paths.

A composition is a list of parts j_1, ..., j_K >= 0 with a fixed sum: a point of a lattice on the simplex. A path is a
state at each of several time steps. Bits come from the caller, so the same code serves the secure and the seeded
source.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.errors import ReleaseError

#: Integers up to this are exact as floats; a score this far below the best is raised to it.
DEEPEST = 2**53


def bounded_scores(scores: npt.ArrayLike) -> Reals:
    """Candidates' scores as floats without rounding or overflow.

    Integer scores are taken relative to the best one and raised to ``-DEEPEST`` where they are lower. Both laws of
    selection depend on score differences only, and raising is monotone and moves no two scores apart, so neighbours'
    scores that differ by values in an interval of length r still do: the privacy bound exp(r / scale) holds.
    """
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


def draw_compositions(
    scores: npt.NDArray[Any], scale: float, size: int, bits: Callable[[int], int], *, precise: bool = False
) -> Integers:
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
    error = np.inf if precise else _float_error(weights)
    draws = np.empty((size, len(weights)), np.int64)
    for draw in draws:
        left = weights.shape[1] - 1
        for i in range(len(weights) - 1):
            uniform = bits(64)
            log_mass = weights[i, : left + 1] + suffixes[i + 1][left::-1]
            part = _float_choice(log_mass, uniform, error)
            draw[i] = _exact_part(relative[i:], scale, left, uniform, bits) if part is None else part
            left -= draw[i]
        draw[-1] = left
    return draws


def draw_path(
    scores: npt.NDArray[Any],
    scale: float,
    start: Reals,
    transition: Reals,
    bits: Callable[[int], int],
    *,
    precise: bool = False,
) -> Integers:
    """One exact draw of a path z with P(z) proportional to m(z) exp(sum_t scores[t, z_t] / scale).

    m(z) = start[z_0] prod_t transition[z_t, z_t+1] is a public base measure. Forward filter, backward sample: the last
    state first, each from its exact conditional law given the later ones, as ``draw_compositions`` draws parts.
    """
    base = np.concatenate([start, np.ravel(transition)])
    if not ((base >= 2.0**-64) & (base <= 1)).all():
        raise ReleaseError("the base measure of a path must be from 2^-64 to 1 everywhere")
    relative = _below_best(scores)
    steps, states = relative.shape
    filtered = _filter_weights(relative, scale, start, transition)
    # A likelihood that is not 0 errs by 750 units in the last place, and every sum and product by one for each term.
    error = np.inf if precise else (steps + 2) * (states + 800) * 2.0**-49
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
    """A bound on the error of a cumulative probability.

    Each stage adds a few units in the last place of the largest log weight, and of the number of terms summed.
    """
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


def _exact_part(scores: npt.NDArray[Any], scale: float, left: int, uniform: int, bits: Callable[[int], int]) -> int:
    """The first part given the remaining total, by bounds that narrow until one interval contains the uniform."""
    return _exact_choice(lambda digits: _cumulative_bounds(scores, scale, left, digits), uniform, bits)


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
    """Cumulative probabilities of the first part, and a bound on their absolute error.

    Every Decimal operation errs by a factor within 1 +- 10^(1 - digits), exp is correctly rounded, and all terms are
    positive; a probability written as 0 because it is tiny is below the absolute part of the bound.
    """
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
