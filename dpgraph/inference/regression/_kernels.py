"""The inner loops of a regression's chains: the density of one chain's coordinates, and trajectories along its slope.

The source is plain Python. numba compiles it; tests hold both against ``Model.density``, which says what is computed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


class Problem(NamedTuple):
    """What is the same in all chains; the attributes of ``density.Layout`` and of the prior, as arrays.

    Attributes:
        source: Which sum an entry of X'X is, shape (d, d); any where ``factor`` is 0.
        factor: What that sum adds to it.
        fixed: The known part of X'X.
        squares: Which sums are squares of numbers.
        features: Which released sums are those of features, and where n is private that of n.
        target: Which released sums are X'y and y'y.
        scale: Of the noise on each released sum.
        mean: The prior mean of the weights.
        numbers: size; n, or -1 where it is private; the prior's shape; exponents of the features' prior: of |S|, of
            mean squares of numbers, and of 1 minus these.
        intercept: Whether the first column is one.
        laplace: Whether the noise is Laplace, or normal.
    """

    source: Integers
    factor: Reals
    fixed: Reals
    squares: Integers
    features: Integers
    target: Integers
    scale: Reals
    mean: Reals
    numbers: Reals
    intercept: bool
    laplace: bool


class Given(NamedTuple):
    """What may differ between chains, one for each: released sums, coordinates of the weights, and their prior.

    Attributes:
        observed: Shape (chains, released sums).
        middle: Shape (chains, d).
        root: Shape (chains, d, d).
        slopes: The precision of the weights without that of the average prediction, shape (chains, d, d).
        first: The precision of the average prediction, shape (chains,).
        rate: Shape (chains,).
    """

    observed: Reals
    middle: Reals
    root: Reals
    slopes: Reals
    first: Reals
    rate: Reals


class Metric(NamedTuple):
    """Trajectories move in units of these: a deviation for each sum, a root of the covariance of all else."""

    scale: Reals
    root: Reals


def inverted(matrix: Reals, root: Reals, inverse: Reals) -> float:
    """The log determinant of a symmetric matrix, nan if it is not positive definite; its inverse is written.

    ``root`` is where the Cholesky root goes.
    """
    d, total = matrix.shape[1], 0.0
    for i in range(d):
        for j in range(i):
            left = matrix[i, j]
            for k in range(j):
                left -= root[i, k] * root[j, k]
            root[i, j] = left / root[j, j]
        left = matrix[i, i]
        for k in range(i):
            left -= root[i, k] * root[i, k]
        if not left > 1e-14:
            return math.nan
        root[i, i] = math.sqrt(left)
        total += math.log(left)
    # the root inverted in place of its upper part, transposed: row j holds column j of the inverse root
    for j in range(d):
        inverse[j, j] = 1.0 / root[j, j]
        for i in range(j + 1, d):
            left = 0.0
            for k in range(j, i):
                left -= root[i, k] * inverse[j, k]
            inverse[j, i] = left / root[i, i]
    for i in range(d):
        for j in range(i, d):
            left = 0.0
            for k in range(j, d):
                left += inverse[i, k] * inverse[j, k]
            root[i, j] = left
    for i in range(d):
        for j in range(i, d):
            inverse[i, j] = root[i, j]
            inverse[j, i] = root[i, j]
    return total


def digamma(x: float) -> float:
    """The derivative of the log gamma function, x above 0."""
    found = 0.0
    while x < 10.0:
        found -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y * (1 / 132 - y * 691 / 32760)))))
    return found + math.log(x) - 0.5 / x - series


def log_noise(problem: Problem, observed: Any, at: Any, value: float) -> tuple[float, float]:
    """The log likelihood of one released sum, and its derivative by the true one."""
    scale: Any = problem.scale[at]
    z = (observed[at] - value) / scale
    if problem.laplace:
        return -abs(z), (1.0 if z > 0 else -1.0 if z < 0 else 0.0) / scale
    return -z * z / 2, z / scale


def density(problem: Problem, given: Given, c: int, x: Reals, slope: Reals, work: Reals, kinks: bool) -> float:
    """The log density of chain c's coordinates, nan where none are possible; its slope is written.

    Args:
        problem: What is the same in all chains.
        given: What is not.
        c: Which chain.
        x: Its coordinates.
        slope: Where the slope goes.
        work: Room for it, shape (6, rows of at least d, d).
        kinks: Whether the slope has that of the noise on the features' sums, which has kinks where it is Laplace.
    """
    d, intercept = problem.mean.shape[0], problem.intercept
    size, n, shape, a, low, high = problem.numbers
    private, last, entries = n < 0, x.shape[0] - 1, problem.features.shape[0]
    gram, before, inverse, covariance, whole = work[0], work[1], work[2], work[3], work[4]
    vectors = work[5]
    observed, root, middle = given.observed[c], given.root[c], given.middle[c]
    share = x[entries - 1] if private else n / size
    n = share * size
    if not share > 0.0:
        return math.nan
    for i in range(d):
        for j in range(d):
            gram[i, j] = problem.fixed[i, j] + problem.factor[i, j] * x[problem.source[i, j]]
    e = math.exp(x[last] / 2)
    residual = e * e
    u = entries
    fitted, average, apart, pulled = vectors[0], vectors[1], vectors[2], vectors[3]
    for i in range(d):
        left = 0.0
        for j in range(i + 1):
            left += root[i, j] * x[u + j]
        fitted[i] = middle[i] + e * left
        average[i] = gram[0, i] / share if intercept else 0.0
    if intercept:
        left = fitted[0]
        for i in range(1, d):
            left -= average[i] * fitted[i]
        fitted[0] = left
    first = given.first[c] if intercept else 0.0
    for i in range(d):
        for j in range(d):
            before[i, j] = given.slopes[c, i, j] + first * average[i] * average[j]
            whole[i, j] = gram[i, j] * size + before[i, j]
        apart[i] = fitted[i] - problem.mean[i]
    log_precision = inverted(whole, work[6], covariance)
    log_gram = inverted(gram, work[6], inverse)
    if math.isnan(log_gram) or math.isnan(log_precision):
        return math.nan

    right, moved, by_fitted, each = vectors[4], vectors[5], vectors[6], vectors[7]
    for i in range(d):
        left = 0.0
        for j in range(d):
            left += before[i, j] * apart[j]
        each[i] = left
    quadratic, square = 0.0, residual
    for i in range(d):
        left, along, to_right = 0.0, 0.0, 0.0
        for j in range(d):
            left += covariance[i, j] * each[j]
            along += gram[i, j] * apart[j]
            to_right += gram[i, j] * fitted[j]
        pulled[i], right[i], moved[i] = left, to_right, apart[i] - left
        quadratic += left * along * size
        square += to_right * fitted[i]
    rate = given.rate[c] + (residual * size + quadratic) / 2
    shape += n / 2
    ratio = shape * size / (2 * rate)
    degrees = max(n - d, 2.0)
    value = (a + 0.5) * log_gram + degrees / 2 * x[last] - log_precision / 2 - shape * math.log(rate) + d / 2 * x[last]
    by_residual = degrees / 2 - ratio * residual

    more, on_square = log_noise(problem, observed, problem.target[d], square)
    value += more
    by_residual += on_square * residual
    for i in range(d):
        more, on_target = log_noise(problem, observed, problem.target[i], right[i])
        value += more
        each[i] = on_target
    for i in range(d):
        left, along = 0.0, 0.0
        for j in range(d):
            left += gram[i, j] * (each[j] + 2 * on_square * fitted[j])
            along += before[i, j] * moved[j]
        by_fitted[i] = left - 2 * ratio * along / size
    for j in range(last + 1):
        slope[j] = 0.0
    inner = 0.0
    for i in range(d):
        inner += moved[i] * average[i]
    by_share = 0.0
    for i in range(d):
        for j in range(d):
            by = (a + 0.5) * inverse[i, j] - size / 2 * covariance[i, j] - ratio * pulled[i] * pulled[j]
            by += each[i] * fitted[j] + on_square * fitted[i] * fitted[j]
            slope[problem.source[i, j]] += problem.factor[i, j] * by
    if intercept:
        for i in range(d):
            left = 0.0
            for j in range(d):
                left += covariance[i, j] * average[j]
            by = -first * (left + 2 * ratio / size * inner * moved[i])
            by_share -= by * average[i] / share
            # the intercept's weight is what is left of the average prediction
            if i > 0:
                by -= by_fitted[0] * fitted[i]
                by_share += by_fitted[0] * fitted[i] * average[i] / share
            slope[problem.source[i, 0]] += problem.factor[i, 0] * by / share
        for i in range(1, d):
            by_fitted[i] -= by_fitted[0] * average[i]
    for k in range(problem.squares.shape[0]):
        at = problem.squares[k]
        square = x[at] / share
        if not 0.0 < square < 1.0:
            return math.nan
        value += low * math.log(square) + high * math.log(1 - square)
        by_square = low / square - high / (1 - square)
        slope[at] += by_square / share
        by_share -= by_square * square / share
    for k in range(entries):
        more, pull = log_noise(problem, observed, problem.features[k], x[k])
        value += more
        if kinks:
            slope[k] += pull
    if private:
        power = a * d + entries - 1
        value += -power * math.log(share) + math.lgamma(shape) - math.lgamma(degrees / 2)
        value += degrees / 2 * math.log(size / 2)
        by_n = digamma(shape) / 2 - math.log(rate) / 2
        if n - d > 2.0:
            by_n += (x[last] + math.log(size / 2) - digamma(degrees / 2)) / 2
        slope[entries - 1] += by_share - power / share + size * by_n
    for j in range(d):
        left = 0.0
        for i in range(j, d):
            left += root[i, j] * by_fitted[i]
        slope[u + j] = e * left
        by_residual += e * left * x[u + j] / 2
    slope[last] = by_residual + d / 2
    return value


def bounced(y: float, v: float, scale: float, force: float, time: float) -> tuple[float, float]:
    """A coordinate and its velocity a time later, pulled towards 0 by a constant force: exact, however often it passes.

    The coordinate moves by ``scale`` times its velocity.
    """
    while y != 0 or v != 0:
        side = 1.0 if y > 0 or (y == 0 and v > 0) else -1.0
        away = side * v
        until = (away + math.sqrt(away * away + 2 * force * abs(y) / scale)) / force
        if not until < time:
            return y + scale * time * (v - side * force * time / 2), v - side * force * time
        time, v, y = time - until, v - side * force * until, 0.0
        orbit = 4 * abs(v) / force
        if orbit > 0 and time > orbit:
            time -= orbit * math.floor(time / orbit)
    return y, v


def kicked(metric: Metric, slope: Reals, v: Reals, step: float) -> None:
    """Velocities in units of the metric, pushed along the slope."""
    sums, others = metric.scale.shape[0], metric.root.shape[0]
    for j in range(sums):
        v[j] += step * metric.scale[j] * slope[j]
    for j in range(others):
        left = 0.0
        for i in range(j, others):
            left += metric.root[i, j] * slope[sums + i]
        v[sums + j] += step * left


def drifted(problem: Problem, given: Given, c: int, metric: Metric, x: Reals, v: Reals, step: float) -> None:
    """Coordinates moved along; under Laplace noise with its pull on the features' sums."""
    sums, others = metric.scale.shape[0], metric.root.shape[0]
    for j in range(sums):
        scale, at = metric.scale[j], problem.features[j]
        if problem.laplace:
            centre = given.observed[c, at]
            y, v[j] = bounced(x[j] - centre, v[j], scale, scale / problem.scale[at], step)
            x[j] = centre + y
        else:
            x[j] += step * scale * v[j]
    for i in range(others):
        left = 0.0
        for j in range(i + 1):
            left += metric.root[i, j] * v[sums + j]
        x[sums + i] += step * left


def trajectories(
    problem: Problem, given: Given, metric: Metric, place: Reals, speed: Reals, step: Reals, steps: int
) -> Reals:
    """Moves every chain along its trajectory, in place; how much its energy fell.

    That is minus infinity where it left what is possible. Leapfrog, where the slope of Laplace noise on the features'
    sums is part of the movement, which is exact for it: the kinks of so many sums would ask for far smaller steps.

    Args:
        problem: What is the same in all chains.
        given: What is not.
        metric: The units of movement.
        place: Coordinates, shape (chains, coordinates).
        speed: Velocities, the same.
        step: Of each chain.
        steps: How many.
    """
    chains, many = place.shape
    d = problem.mean.shape[0]
    fell, slope, work = np.empty(chains), np.empty(many), np.empty((7, max(d, 8), d))
    kinks = not problem.laplace or metric.scale.shape[0] == 0
    for c in range(chains):
        x, v, h = place[c], speed[c], step[c]
        value = density(problem, given, c, x, slope, work, kinks)
        for j in range(many):
            value -= v[j] * v[j] / 2
        begun = value
        for _ in range(steps):
            kicked(metric, slope, v, h / 2)
            drifted(problem, given, c, metric, x, v, h)
            value = density(problem, given, c, x, slope, work, kinks)
            if math.isnan(value):
                break
            kicked(metric, slope, v, h / 2)
        for j in range(many):
            value -= v[j] * v[j] / 2
        fell[c] = value - begun if abs(value - begun) < math.inf else -math.inf
    return fell


@cache
def compiled() -> tuple[Callable[..., float], Callable[..., Reals]]:
    """``density`` and ``trajectories`` compiled; the machine code is kept on disk."""
    import numba
    from numba.extending import register_jitable

    reordered = {"reassoc", "contract"}  # sums may be added in any order; nan stays nan
    for part in (inverted, digamma, log_noise, bounced, kicked, drifted, density):
        register_jitable(fastmath=reordered)(part)
    settings: Any = {"cache": True, "nogil": True, "fastmath": reordered}
    return numba.njit(density, **settings), numba.njit(trajectories, **settings)
