"""The inner loops of chains over one table of counts: arrays in, arrays out.

The source is plain Python. numba compiles it; tests run it plain too, and both give the same draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

#: The kinds of moves: from one cell to another; along a direction; one cell alone, where the total is unknown.
PAIR, ALONG, ALONE = 0, 1, 2
#: Columns of ``MarginProblem.noises``.
LINEAR, QUADRATIC, STEP, START, SIZE = range(5)
#: How far apart in size partners are, in ranks.
NEAR = 8
#: How often two cells change places.
SWAPS = 0.2
#: Sweeps for each joint move of the factor and the counts, and how many lengths this has: 1, 2, 4, ... grid places.
EVERY, LEAPS = 2, 4
#: A count is never above this.
MOST = 1 << 50


class Problem(NamedTuple):
    """The posterior of a table of counts given linear statistics as a few arrays.

    ``prior`` has the Dirichlet concentrations, shape (cells,), ``flat`` where all are 1, which say nothing; ``known``
    is true where the total is. ``weights`` has the statistics of one row in each cell, shape (cells, statistics);
    ``costs`` the cost of a unit of |residual| and of residual^2 of each statistic, shape (statistics, 2);
    ``directions`` for each statistic a move of the table that changes no other, shape (statistics, cells), a step along
    which adds ``gains`` to the statistic.
    """

    prior: Reals
    flat: bool
    weights: Integers
    costs: Reals
    directions: Integers
    gains: Integers
    known: bool


class MarginProblem(NamedTuple):
    """The posterior of a table of counts given noisy margins as a few arrays.

    ``prior`` has the Dirichlet concentrations up to a common factor, one of ``grid``, shape (cells,). ``places`` has
    the noisy sum that each cell adds to, for each margin, shape (margins, cells), ``laws`` the row of ``noises`` of
    each sum: the cost of a unit of |noise| and of noise^2 in log density; or, where STEP is above 0, the distance of
    its ``tabulated`` values, their start and their number, LINEAR being the cost beyond. ``order`` has the cells by
    size, ``rank`` where each stands; ``widest`` is the longest step; ``known`` is true where the total is.
    """

    prior: Reals
    grid: Reals
    places: Integers
    laws: Integers
    noises: Reals
    tabulated: Reals
    order: Integers
    rank: Integers
    widest: float
    known: bool


def noise_log(problem: MarginProblem, law: int, noise: float) -> float:
    """The log density of a noise, up to a constant."""
    size, step = float(abs(noise)), problem.noises[law, STEP]
    if step == 0.0:
        return -problem.noises[law, LINEAR] * size - problem.noises[law, QUADRATIC] * size * size
    start, many = int(problem.noises[law, START]), int(problem.noises[law, SIZE])
    place = size / step
    if place >= many - 1:
        return problem.tabulated[start + many - 1] - problem.noises[law, LINEAR] * (size - step * (many - 1))
    below = int(place)
    one, two = problem.tabulated[start + below], problem.tabulated[start + below + 1]
    return one + (place - below) * (two - one)


def cell_log(problem: Problem, cell: int, count: int) -> float:
    """The part of one cell of the table in the log posterior."""
    return math.lgamma(problem.prior[cell] + count) - math.lgamma(count + 1.0)


def total_log(problem: Problem, total: int) -> float:
    """The part of an unknown total: n! / Gamma(A + n), of a flat prior."""
    return math.lgamma(total + 1.0) - math.lgamma(total + problem.prior.sum())


def statistic_log(problem: Problem, at: int, residual: int) -> float:
    """The part of the residual of a statistic."""
    size = float(abs(residual))
    return -problem.costs[at, 0] * size - problem.costs[at, 1] * size * size


def chosen_move(problem: Problem, kind: int, one: int, other: int, change: Integers, shift: Integers) -> None:
    """Sets ``change`` and ``shift``, which one step of a move adds to the cells and to the statistics."""
    shift[:] = 0
    if kind == ALONG:
        change[:] = problem.directions[one]
        shift[one] = problem.gains[one]
        return
    change[:] = 0
    if kind == PAIR:
        change[one], change[other] = -1, 1
        shift[:] = problem.weights[other] - problem.weights[one]
    else:
        change[one] = 1
        shift[:] = problem.weights[one]


def bounds(counts: Integers, change: Integers) -> tuple[int, int]:
    """The fewest and the most steps of a move that leave no count below 0."""
    low, high = -MOST, MOST
    for cell in range(counts.size):
        if change[cell] > 0:
            low = max(low, -(counts[cell] // change[cell]))
        elif change[cell] < 0:
            high = min(high, counts[cell] // -change[cell])
    return low, high


def moved_log(
    problem: Problem, counts: Integers, residuals: Integers, change: Integers, shift: Integers, steps: int
) -> float:
    """The log posterior after so many steps of a move, up to its unchanged parts."""
    log, lift = 0.0, change.sum()
    for cell in range(0 if problem.flat else counts.size):
        if change[cell] != 0:
            log += cell_log(problem, cell, counts[cell] + steps * change[cell])
    for at in range(residuals.size):
        if shift[at] != 0:
            log += statistic_log(problem, at, residuals[at] - steps * shift[at])
    return log if lift == 0 else log + total_log(problem, counts.sum() + steps * lift)


def moved(
    rng: np.random.Generator, problem: Problem, counts: Integers, residuals: Integers,
    change: Integers, shift: Integers, width: int,
) -> int:  # fmt: skip
    """Makes a move by slice sampling on the whole numbers, stepping out (Neal 2003); returns how many steps."""
    low, high = bounds(counts, change)
    if low == high:
        return 0
    level = moved_log(problem, counts, residuals, change, shift, 0) + math.log(1.0 - rng.random())
    left = -int(rng.random() * width)
    right = left + width
    while left > low and moved_log(problem, counts, residuals, change, shift, left) >= level:
        left -= width
    while right <= high and moved_log(problem, counts, residuals, change, shift, right) >= level:
        right += width
    left, right = max(left, low), min(right, high + 1)
    steps = 0
    while True:
        steps = left + int(rng.random() * (right - left))
        if steps == 0 or moved_log(problem, counts, residuals, change, shift, steps) >= level:
            break
        if steps < 0:
            left = steps + 1
        else:
            right = steps
    counts += steps * change
    residuals -= steps * shift
    return steps


def run(
    rng: np.random.Generator, problem: Problem, counts: Integers, residuals: Integers,
    drawn: Integers, burn_in: int, thin: int,
) -> None:  # fmt: skip
    """Draws of the table into ``drawn``, shape (draws, cells); widths follow the moves made while burning in."""
    cells, statistics = counts.size, residuals.size
    change, shift = np.zeros_like(counts), np.zeros_like(residuals)
    typical = np.full((3, max(cells, statistics, 1)), 1.0 + counts.sum() / (4.0 * cells))
    for sweep in range(burn_in + drawn.shape[0] * thin):
        for kind in range(3):
            if (kind == PAIR and cells == 1) or (kind == ALONE and problem.known):
                continue
            for one in range(statistics if kind == ALONG else cells):
                other = 0
                if kind == PAIR:
                    other = int(rng.random() * (cells - 1))
                    other += other >= one
                chosen_move(problem, kind, one, other, change, shift)
                steps = moved(rng, problem, counts, residuals, change, shift, max(2, int(3.0 * typical[kind, one])))
                if sweep < burn_in:
                    typical[kind, one] += (abs(steps) - typical[kind, one]) * max(0.05, 1.0 / (sweep + 2))
        if sweep >= burn_in and (sweep - burn_in + 1) % thin == 0:
            drawn[(sweep - burn_in) // thin] = counts


def sums_log(problem: MarginProblem, rest: Reals, one: int, other: int, steps: int) -> float:
    """The gain in log density of rows for a cell, from ``other`` if at least 0; ``rest`` has the noise of all sums."""
    log = 0.0
    for m in range(problem.places.shape[0]):
        to: int = problem.places[m, one]
        source: int = problem.places[m, other] if other >= 0 else -1
        if to == source:
            continue
        law: int = problem.laws[to]
        log += noise_log(problem, law, rest[to] - steps) - noise_log(problem, law, rest[to])
        if source >= 0:
            law = problem.laws[source]
            log += noise_log(problem, law, rest[source] + steps) - noise_log(problem, law, rest[source])
    return log


def prior_log(concentration: float, count: int, steps: int) -> float:
    """The gain in the log prior of a cell with ``steps`` more rows."""
    if concentration == 1.0:
        return 0.0
    more = math.lgamma(concentration + count + steps) - math.lgamma(count + steps + 1.0)
    return more - math.lgamma(concentration + count) + math.lgamma(count + 1.0)


def factor_log(problem: MarginProblem, counts: Integers, total: int, factor: float) -> float:
    """The log probability of the counts given a factor of the concentrations, up to a constant."""
    mass = factor * problem.prior.sum()
    log = math.lgamma(mass) - math.lgamma(mass + total)
    for cell in range(counts.size):
        if counts[cell] > 0:
            own = factor * problem.prior[cell]
            log += math.lgamma(own + counts[cell]) - math.lgamma(own)
    return log


def log_gamma(rng: np.random.Generator, shape: float) -> float:
    """The logarithm of a gamma draw, whose shape may be tiny."""
    return math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape


def log_sum(one: float, other: float) -> float:
    """The logarithm of the sum of two numbers, of which logarithms are given."""
    return max(one, other) + math.log1p(math.exp(-abs(one - other)))


def normalised(logs: Reals) -> None:
    """Logarithms become shares of the sum, in place."""
    most, total = -math.inf, 0.0
    for log in logs:
        most = max(most, log)
    for cell in range(logs.size):
        logs[cell] = math.exp(logs[cell] - most)
        total += logs[cell]
    for cell in range(logs.size):
        logs[cell] /= total


def shares_drawn(
    rng: np.random.Generator, problem: MarginProblem, counts: Integers, old: float, new: float, shares: Reals
) -> None:
    """The cells' shares given the counts, and shares that go along where the factor is new, shape (2, cells), in place.

    Shares times a gamma variable of their whole concentration are independent gamma variables. One becomes larger by
    another gamma variable, or smaller by a beta variable, so that it has the new law and the way back is as likely.
    """
    for cell in range(counts.size):
        own = log_gamma(rng, old * problem.prior[cell] + counts[cell])
        other = log_gamma(rng, abs(new - old) * problem.prior[cell])
        shares[0, cell] = own
        if new > old:
            shares[1, cell] = other
        else:
            kept = log_gamma(rng, new * problem.prior[cell])
            shares[1, cell] = own + kept - log_sum(kept, other)
    if new > old:
        total = shares[0, 0]
        for cell in range(1, counts.size):
            total = log_sum(total, shares[0, cell])
        whole = log_gamma(rng, old * problem.prior.sum())
        for cell in range(counts.size):
            shares[1, cell] = log_sum(shares[0, cell] - total + whole, shares[1, cell])
    normalised(shares[0])
    normalised(shares[1])


def rescaled(rng: np.random.Generator, problem: MarginProblem, counts: Integers, rest: Reals, factor: Integers) -> None:
    """Proposes another factor, shares that go along, and counts whose rows keep their cell as likely as both allow.

    Given the counts alone a factor hardly moves, as they were drawn under it (proofs.md P134).
    """
    to = int(factor[0]) + (1 if rng.random() < 0.5 else -1) * (1 << int(LEAPS * rng.random()))
    if to < 0 or to >= problem.grid.size:
        return
    shares, change, moved = np.empty((2, counts.size)), np.zeros(counts.size, np.int64), np.empty(rest.size)
    shares_drawn(rng, problem, counts, float(problem.grid[factor[0]]), float(problem.grid[to]), shares)
    left, room, log = 0, 0.0, 0.0
    for cell in range(counts.size):
        room += max(0.0, shares[1, cell] - shares[0, cell])
        if shares[1, cell] < shares[0, cell]:
            change[cell] = -rng.binomial(counts[cell], 1.0 - shares[1, cell] / shares[0, cell])
            left -= change[cell]
    for at in range(rest.size):
        moved[at] = rest[at]
    for cell in range(counts.size):
        more = shares[1, cell] - shares[0, cell]
        if left > 0 and more > 0.0:
            change[cell] = rng.binomial(left, min(1.0, more / room))
            left -= change[cell]
            room -= more
        for m in range(problem.places.shape[0]):
            moved[problem.places[m, cell]] -= change[cell]
    for at in range(rest.size):
        if moved[at] != rest[at]:
            log += noise_log(problem, problem.laws[at], moved[at]) - noise_log(problem, problem.laws[at], rest[at])
    if left == 0 and (log >= 0 or rng.random() < math.exp(log)):
        for cell in range(counts.size):
            counts[cell] += change[cell]
        for at in range(rest.size):
            rest[at] = moved[at]
        factor[0] = to


def partner(rng: np.random.Generator, problem: MarginProblem, one: int) -> int:
    """Another cell: half of the time one that is near in size, else any, full ones more often; whatever the counts."""
    cells = problem.rank.size
    if rng.random() < 0.5:
        away = 1 + int(rng.random() * min(NEAR, cells - 1))
        return int(problem.order[(problem.rank[one] + (away if rng.random() < 0.5 else cells - away)) % cells])
    other = int(problem.order[int(cells * rng.random() ** 3)])
    return other if other != one else (one + 1) % cells


def follow(
    rng: np.random.Generator, problem: MarginProblem, counts: Integers, rest: Reals, factor: Integers, drawn: Integers,
    factors: Integers, burn_in: int, thin: int,
) -> None:  # fmt: skip
    """Draws counts and factors, shape (draws, cells) and (draws,); all arrays but these are where the chain is."""
    cells, total, mass = counts.size, counts.sum(), problem.prior.sum()
    for sweep in range(burn_in + drawn.shape[0] * thin):
        for kind in (PAIR, ALONE):
            if (kind == PAIR and cells == 1) or (kind == ALONE and problem.known):
                continue
            for one in range(cells):
                other = partner(rng, problem, one) if kind == PAIR else -1
                width = int(problem.widest ** math.sqrt(rng.random()))
                steps = int(rng.random() * (2 * width + 1)) - width
                if other >= 0 and rng.random() < SWAPS:
                    steps = counts[other] - counts[one]
                if steps != 0 and counts[one] + steps >= 0 and (other < 0 or counts[other] >= steps):
                    scale = problem.grid[factor[0]]
                    log = sums_log(problem, rest, one, other, steps)
                    log += prior_log(scale * problem.prior[one], counts[one], steps)
                    if other >= 0:
                        log += prior_log(scale * problem.prior[other], counts[other], -steps)
                    else:  # n! / Gamma(A + n), of a flat prior of n
                        log -= prior_log(scale * mass, total, steps)
                    if log >= 0 or rng.random() < math.exp(log):
                        counts[one] += steps
                        total += steps if other < 0 else 0
                        for m in range(problem.places.shape[0]):
                            rest[problem.places[m, one]] -= steps
                            if other >= 0:
                                rest[problem.places[m, other]] += steps
                        if other >= 0:
                            counts[other] -= steps
        if problem.grid.size > 1:
            to = int(rng.random() * problem.grid.size)
            log = factor_log(problem, counts, total, float(problem.grid[to]))
            log -= factor_log(problem, counts, total, float(problem.grid[factor[0]]))
            if log >= 0 or rng.random() < math.exp(log):
                factor[0] = to
            if sweep % EVERY == 0:
                rescaled(rng, problem, counts, rest, factor)
        if sweep >= burn_in and (sweep - burn_in + 1) % thin == 0:
            drawn[(sweep - burn_in) // thin] = counts
            factors[(sweep - burn_in) // thin] = factor[0]
