"""The inner loops of a regression's chains: the density of one chain's coordinates, and trajectories along its slope.

The source is plain Python, compiled by numba; tests hold both against the density in plain numpy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dpgraph.inference import _kernels

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

#: Degrees of freedom left for the residuals where there are hardly more rows than columns.
LEAST_DEGREES = 2.0


class Problem(NamedTuple):
    """The part of the problem that all chains share: ``density.Layout``, the noise and the prior, as arrays.

    Attributes:
        source: The place of an entry of X'X among the sums, shape (d, d); any where ``factor`` is 0.
        factor: A unit of that sum adds this to it.
        fixed: The known part of X'X.
        squares: The places of squares of numbers among the sums.
        features: The places of sums of features, and where n is private of n, among the released sums.
        target: The places of X'y and y'y among the released sums.
        scale: Of the noise on each released sum.
        mean: The prior mean of the weights.
        numbers: size; n, or -1 where it is private; the prior's shape; exponents of the features' prior: of |S|, of
            mean squares of numbers, and of 1 minus these.
        order: The columns, those that are not numbers first.
        others: How many these are.
        intercept: True if the first column is one.
        laplace: True if the noise is Laplace, False if it is normal.
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
    order: Integers
    others: int
    intercept: bool
    laplace: bool


class Given(NamedTuple):
    """The part that may differ between chains: released sums, coordinates of the weights, and their prior.

    Attributes:
        observed: Shape (chains, released sums).
        middle: Shape (chains, d).
        root: Shape (chains, d, d).
        slopes: The factors of the columns' covariance in the precision of the weights, shape (chains, d, d).
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

    ``work`` is scratch, shape (7, rows of at least d, d). ``kinks`` adds the slope of the noise on the features' sums,
    which has kinks where it is Laplace.
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
            before[i, j] = given.slopes[c, i, j] * (gram[i, j] / share - average[i] * average[j])
            before[i, j] += first * average[i] * average[j]
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
    degrees = max(n - d, LEAST_DEGREES)
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
    value += (log_gram - d * math.log(share)) / 2
    by_share = -d / 2 / share
    for i in range(d):
        for j in range(d):
            through = -given.slopes[c, i, j] * (covariance[i, j] / 2 + ratio / size * moved[i] * moved[j]) / share
            by = (a + 1.0) * inverse[i, j] - size / 2 * covariance[i, j] - ratio * pulled[i] * pulled[j]
            by += each[i] * fitted[j] + on_square * fitted[i] * fitted[j] + through
            by_share -= through * gram[i, j] / share
            slope[problem.source[i, j]] += problem.factor[i, j] * by
    if intercept:
        for i in range(d):
            left = 0.0
            for j in range(d):
                left += covariance[i, j] * average[j]
            by = -first * (left + 2 * ratio / size * inner * moved[i])
            for j in range(d):
                through = covariance[i, j] + 2 * ratio / size * moved[i] * moved[j]
                by += given.slopes[c, i, j] * through * average[j]
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
        if n - d > LEAST_DEGREES:
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


def rows_begun(problem: Problem, x: Reals, root: Reals) -> float:
    """The share of n; writes the Cholesky root of S = A / n among the columns that are not numbers, in ``order``.

    nan where that part of A is not positive definite.
    """
    share: Any = problem.numbers[1] / problem.numbers[0]
    if problem.numbers[1] < 0:
        share = x[problem.features.shape[0] - 1]
    if not share > 0.0:
        return math.nan
    for r in range(problem.others):
        i = problem.order[r]
        for c in range(r + 1):
            j = problem.order[c]
            left = (problem.fixed[i, j] + problem.factor[i, j] * x[problem.source[i, j]]) / share
            for k in range(c):
                left -= root[r, k] * root[c, k]
            if c < r:
                root[r, c] = left / root[c, c]
            elif left > 1e-14:
                root[r, r] = math.sqrt(left)
            else:
                return math.nan
    return share


def unfolded(problem: Problem, y: Reals, x: Reals, root: Reals) -> float:
    """Coordinates from factors; the log of the volume that a unit of volume of these becomes, nan if impossible.

    Factors hold in the place of each number's sums its row of the Cholesky root of S = A / n: in the place of its
    square the logit of S_jj, and of the others the row relative to its last entry (proofs.md P98). A is positive
    definite whatever they are, and if no row is large none is near singular.
    """
    d = problem.mean.shape[0]
    for j in range(x.shape[0]):
        x[j] = y[j]
    share = rows_begun(problem, y, root)
    if math.isnan(share):
        return math.nan
    volume = 0.0
    for k in range(problem.others):
        volume += (d - problem.others) * math.log(root[k, k])
    for r in range(problem.others, d):
        i = problem.order[r]
        square, length = 1.0 / (1.0 + math.exp(-y[problem.source[i, i]])), 1.0
        for k in range(r):
            length += y[problem.source[i, problem.order[k]]] ** 2
        last = math.sqrt(square / length)
        if not 0.0 < last < 1.0 or not square < 1.0:
            return math.nan
        for k in range(r):
            root[r, k] = last * y[problem.source[i, problem.order[k]]]
        root[r, r] = last
        volume += (r + 1) / 2 * math.log(square / length) + math.log(1.0 - square) + (d - r) * math.log(last)
        volume += (r + 1) * math.log(share)
        for c in range(r + 1):
            j = problem.order[c]
            left = 0.0
            for k in range(c + 1):
                left += root[r, k] * root[c, k]
            x[problem.source[i, j]] = share * left / problem.factor[i, j]
    return volume


def folded(problem: Problem, x: Reals, y: Reals, root: Reals) -> None:
    """The inverse of ``unfolded``: factors of possible coordinates."""
    d = problem.mean.shape[0]
    for j in range(x.shape[0]):
        y[j] = x[j]
    share = rows_begun(problem, x, root)
    for r in range(problem.others, d):
        i = problem.order[r]
        for c in range(r + 1):
            j = problem.order[c]
            left = problem.factor[i, j] * x[problem.source[i, j]] / share
            if c == r:
                y[problem.source[i, i]] = math.log(left / (1.0 - left))
            for k in range(c):
                left -= root[r, k] * root[c, k]
            root[r, c] = left / root[c, c] if c < r else math.sqrt(left)
        for c in range(r):
            y[problem.source[i, problem.order[c]]] = root[r, c] / root[r, r]


def slope_by_factors(problem: Problem, y: Reals, x: Reals, slope: Reals, root: Reals, work: Reals) -> None:
    """The slope by factors, in place of that by coordinates; with that of the volume."""
    d, m, size = problem.mean.shape[0], problem.others, problem.numbers[0]
    private, at_share = problem.numbers[1] < 0, problem.features.shape[0] - 1
    share = y[at_share] if private else problem.numbers[1] / size
    by_sum, by_root, inner = work[0], work[1], work[2]
    by_share = 0.0
    for r in range(m, d):
        i = problem.order[r]
        for c in range(r + 1):
            at = problem.source[i, problem.order[c]]
            by_sum[r, c] = slope[at] * share / problem.factor[i, problem.order[c]]
            by_share += (slope[at] * x[at] + 1.0) / share
    for r in range(d):
        for k in range(r + 1):
            left = 0.0
            for above in range(max(m, r + 1), d):
                left += by_sum[above, r] * root[above, k]
            by_root[r, k] = left
        if r < m:
            by_root[r, r] += (d - m) / root[r, r]
            continue
        by_root[r, r] += (d - r) / root[r, r]
        for j in range(r + 1):
            twice = 2.0 if j == r else 1.0
            for k in range(j + 1):
                by_root[r, k] += twice * by_sum[r, j] * root[j, k]
    for r in range(m, d):
        i = problem.order[r]
        last = root[r, r]
        square, length, along = 1.0 / (1.0 + math.exp(-y[problem.source[i, i]])), 1.0, by_root[r, r]
        for k in range(r):
            one = y[problem.source[i, problem.order[k]]]
            length += one * one
            along += by_root[r, k] * one
        for k in range(r):
            at = problem.source[i, problem.order[k]]
            slope[at] = last * by_root[r, k] - (along * last + r + 1) * y[at] / length
        slope[problem.source[i, i]] = (along * last + r + 1) * (1.0 - square) / 2 - square
    # through the root of the other columns: L^-T (L' by_root, its lower half) L^-1, made symmetric
    for r in range(m):
        for c in range(r + 1):
            left = 0.0
            for k in range(r, m):
                left += root[k, r] * by_root[k, c]
            inner[r, c] = left if c < r else left / 2
            inner[c, r] = inner[r, c] if c == r else 0.0
    for c in range(m):
        for r in range(m - 1, -1, -1):
            left = inner[r, c]
            for k in range(r + 1, m):
                left -= root[k, r] * inner[k, c]
            inner[r, c] = left / root[r, r]
    for r in range(m):
        for c in range(m - 1, -1, -1):
            left = inner[r, c]
            for k in range(c + 1, m):
                left -= inner[r, k] * root[k, c]
            inner[r, c] = left / root[c, c]
    for r in range(m):
        i = problem.order[r]
        for c in range(m):
            j = problem.order[c]
            by = (inner[r, c] + inner[c, r]) / 2 / share
            slope[problem.source[i, j]] += problem.factor[i, j] * by
            by_share -= by * (problem.fixed[i, j] + problem.factor[i, j] * y[problem.source[i, j]]) / share
    if private:
        slope[at_share] += by_share


def density_of_factors(problem: Problem, given: Given, c: int, y: Reals, x: Reals, slope: Reals, work: Reals) -> float:
    """The log density of chain c's factors, nan where none are possible; coordinates and the slope are written."""
    root = work[7]
    volume = unfolded(problem, y, x, root)
    if math.isnan(volume):
        return math.nan
    value = density(problem, given, c, x, slope, work, True)
    if not math.isnan(value):
        slope_by_factors(problem, y, x, slope, root, work)
    return value + volume


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


def drifted(
    problem: Problem, given: Given, c: int, metric: Metric, x: Reals, v: Reals, step: float, pull: bool
) -> None:
    """Coordinates moved along; with the pull of Laplace noise on the features' sums if these are coordinates."""
    sums, others = metric.scale.shape[0], metric.root.shape[0]
    for j in range(sums):
        scale, at = metric.scale[j], problem.features[j]
        if pull:
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
    problem: Problem, given: Given, metric: Metric, place: Reals, speed: Reals, step: Reals, steps: int, factors: bool
) -> Reals:
    """Moves every chain along its trajectory, in place; the fall of its energy, -inf where it left possible places.

    Leapfrog; in coordinates the slope of Laplace noise on the features' sums is part of the movement, which is exact
    for it: the kinks of so many sums would ask for far smaller steps. In factors it is not, as there are no straight
    lines. ``place`` has coordinates, or factors, and ``speed`` velocities, shape (chains, coordinates).
    """
    chains, many = place.shape
    d = problem.mean.shape[0]
    fell, slope, other, work = np.empty(chains), np.empty(many), np.empty(many), np.empty((8, max(d, 8), d))
    pull = problem.laplace and not factors
    for c in range(chains):
        x, v, h = place[c], speed[c], step[c]
        begun, value = 0.0, 0.0
        for k in range(steps + 1):
            if k > 0:
                kicked(metric, slope, v, h / 2)
                drifted(problem, given, c, metric, x, v, h, pull)
            if factors:
                value = density_of_factors(problem, given, c, x, other, slope, work)
            else:
                value = density(problem, given, c, x, slope, work, not pull or metric.scale.shape[0] == 0)
            if math.isnan(value):
                break
            if k > 0:
                kicked(metric, slope, v, h / 2)
            else:
                begun = value
                for j in range(many):
                    begun -= v[j] * v[j] / 2
        for j in range(many):
            value -= v[j] * v[j] / 2
        fell[c] = value - begun if abs(value - begun) < math.inf else -math.inf
    return fell


def all_folded(problem: Problem, place: Reals, back: bool) -> Reals:
    """The factors of each chain's coordinates; or if ``back`` the coordinates of each chain's factors."""
    found, d = np.empty_like(place), problem.mean.shape[0]
    root = np.empty((d, d))
    for c in range(place.shape[0]):
        if back:
            unfolded(problem, place[c], found[c], root)
        else:
            folded(problem, place[c], found[c], root)
    return found


@cache
def compiled() -> tuple[Callable[..., float], Callable[..., Reals], Callable[..., Reals]]:
    """``density``, ``trajectories`` and ``all_folded`` compiled; the machine code is kept on disk."""
    settings: Any = {"inlined": False, "fastmath": ("reassoc", "contract")}  # sums in any order; nan stays nan
    return (
        _kernels.compiled(density, **settings),
        _kernels.compiled(trajectories, **settings),
        _kernels.compiled(all_folded, **settings),
    )
