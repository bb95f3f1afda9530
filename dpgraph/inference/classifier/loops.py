"""Markov chain moves over the unseen counts of a naive Bayes network; arrays are changed in place.

Given the labels the features are independent, so the rows matter only through the counts of each measured table, whose
columns all sum to the label counts. One chain's moves, all exact for Dirichlet priors with the tables summed out:

* transfer: some rows of one label go from one cell of a measured table to another;
* relabel: some rows go from one label to another in all measured tables at once: they are picked evenly from their
  columns and join the others by their predictive law, so that only the noise and the labels' prior decide
  (proofs.md P74);
* concentration and centre: how far a feature's columns may be from their common centre, and the centre, given counts;
* shift, translate and scale: a feature's columns, drawn for the purpose, move by themselves, with their centre, or
  towards it and away from it, and the rows move with them, so that only the columns' prior and the noise decide: where
  noise drowns the counts, columns given counts would be stuck.

numba compiles this plain Python. It is one file because the machine code on disk is made anew when the file of
``sweep`` changes, and when no other does.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

#: Whole numbers and numbers; an entry is one of Python's, which is what numba makes of it.
Integers = npt.NDArray[Any]
Reals = npt.NDArray[Any]

#: Where ``tally`` counts accepted and tried moves.
TRANSFER, RELABEL, SHIFT, TRANSLATE, SCALE = 0, 2, 4, 6, 8
MOVES = ("transfer", "relabel", "shift", "translate", "scale")
#: The least and the most probability that is shifted at once.
LEAST_SHIFT, MOST_SHIFT = 1e-3, 0.5
#: A binomial draw of fewer trials is made trial by trial.
FEW = 16


class Plan(NamedTuple):
    """The measured tables, all flat: cell u of the features of table g and label y is ``start[g] + u * labels + y``.

    Attributes:
        labels: The number of labels.
        start: Where each table's cells start, and the end, shape (tables + 1,).
        released: The noisy counts, shape (cells,).
        absolute: The cost of a unit of |noise| in each table, shape (tables,).
        squares: The cost of a unit of noise^2 in each table, shape (tables,).
        reach: The most rows that are moved at once, shape (tables + 1,), the last one between labels.
        first: Where each table's features start, and the end, shape (tables + 1,); features are in the order of tables.
        levels: The levels of each feature, shape (features,).
        margin: Where each feature's counts start in ``margins``, shape (features,): level x and label y is
            ``margin[f] + x * labels + y``.
        centre: Where each feature's centre starts in ``centres``, shape (features,).
        prior: The concentration of each label, above 0.
    """

    labels: int
    start: Integers
    released: Integers
    absolute: Reals
    squares: Reals
    reach: Integers
    first: Integers
    levels: Integers
    margin: Integers
    centre: Integers
    prior: float


class Unseen(NamedTuple):
    """The state of one chain.

    Attributes:
        counts: The exact counts of the measured tables, shape (cells,).
        margins: The counts of each feature and label, flat.
        label: The counts of the labels, shape (labels,).
        centres: The centre of each feature's columns, flat.
        concentration: Of each feature, shape (features,).
        laws: The columns of the features, flat as ``margins``; of use within a sweep alone.
        change: Of each cell by the current move; zero between moves.
        room: Numbers of use within a move alone.
        tally: Accepted and tried of each move, shape (10,).
    """

    counts: Integers
    margins: Integers
    label: Integers
    centres: Reals
    concentration: Reals
    laws: Reals
    change: Integers
    room: Reals
    tally: Integers


def fit_gained(plan: Plan, table: int, cell: int, had: Any, has: Any) -> float:
    """ln of the ratio of the noise law at a cell whose count changes."""
    before, after = float(plan.released[cell] - had), float(plan.released[cell] - has)
    cost, square = plan.absolute[table], plan.squares[table]
    return cost * abs(before) + square * before * before - (cost * abs(after) + square * after * after)


def amount(rng: np.random.Generator, most: int) -> int:
    """A number of rows, from 1 to the most, about evenly on a log scale; its law depends on nothing else."""
    return min(most, int(math.exp(rng.random() * math.log(most + 1.0))))


def level_of(plan: Plan, f: int, last: int, u: int) -> int:
    """The level of feature f in cell u of its table, whose features end before ``last``; the last runs fastest."""
    for k in range(last - 1, f, -1):
        u //= plan.levels[k]
    return u % plan.levels[f]


def joined(plan: Plan, state: Unseen, f: int, x: int, y: int, many: int) -> float:
    """ln of the ratio of a feature's probabilities with ``many`` more rows of level x and label y.

    Of a given order of the rows, so without the multinomial coefficient and the columns' totals.
    """
    share = state.centres[plan.centre[f] + x]
    had = state.margins[plan.margin[f] + x * plan.labels + y] + state.concentration[f] * share
    return math.lgamma(had + many) - math.lgamma(had)


def transfer(rng: np.random.Generator, plan: Plan, state: Unseen, g: int) -> bool:
    """Moves rows of one label between two cells of a table."""
    labels = plan.labels
    cells = (plan.start[g + 1] - plan.start[g]) // labels
    y = int(rng.random() * labels)
    u = int(rng.random() * cells)
    v = int(rng.random() * (cells - 1))
    v += v >= u
    many = amount(rng, plan.reach[g])
    source, target = plan.start[g] + u * labels + y, plan.start[g] + v * labels + y
    had, has = state.counts[source], state.counts[target]
    if had < many:
        return False
    log = math.lgamma(had + 1.0)
    log -= math.lgamma(had - many + 1.0) - math.lgamma(has + 1.0) + math.lgamma(has + many + 1.0)
    log += fit_gained(plan, g, source, had, had - many)
    log += fit_gained(plan, g, target, has, has + many)
    last = plan.first[g + 1]
    for f in range(plan.first[g], last):
        x, z = level_of(plan, f, last, u), level_of(plan, f, last, v)
        if x != z:
            log += joined(plan, state, f, x, y, -many) + joined(plan, state, f, z, y, many)
    if log < 0.0 and rng.random() >= math.exp(log):
        return False
    state.counts[source] -= many
    state.counts[target] += many
    for f in range(plan.first[g], last):
        base = plan.margin[f] + y
        state.margins[base + level_of(plan, f, last, u) * labels] -= many
        state.margins[base + level_of(plan, f, last, v) * labels] += many
    return True


def leave(rng: np.random.Generator, plan: Plan, state: Unseen, g: int, y: int, rest: int) -> None:
    """One row of the ``rest`` that are left of a label, picked evenly, leaves a table."""
    at = plan.start[g] + y
    left = rng.random() * rest
    cell = at
    while cell < plan.start[g + 1]:
        left -= state.counts[cell] + state.change[cell]
        if left < 0.0:
            break
        cell += plan.labels
    if cell >= plan.start[g + 1]:
        cell = at
        while state.counts[cell] + state.change[cell] == 0:
            cell += plan.labels
    state.change[cell] -= 1
    u, last = (cell - at) // plan.labels, plan.first[g + 1]
    for f in range(plan.first[g], last):
        state.margins[plan.margin[f] + level_of(plan, f, last, u) * plan.labels + y] -= 1


def join(rng: np.random.Generator, plan: Plan, state: Unseen, g: int, y: int, had: int) -> None:
    """One row joins a table with a label that has ``had`` rows, its levels by their predictive law."""
    u = 0
    for f in range(plan.first[g], plan.first[g + 1]):
        levels, base, at = plan.levels[f], plan.margin[f] + y, plan.centre[f]
        left = rng.random() * (had + state.concentration[f])
        x = 0
        while x < levels - 1:
            left -= state.margins[base + x * plan.labels] + state.concentration[f] * state.centres[at + x]
            if left < 0.0:
                break
            x += 1
        state.margins[base + x * plan.labels] += 1
        u = u * levels + x
    state.change[plan.start[g] + u * plan.labels + y] += 1


def relabel(rng: np.random.Generator, plan: Plan, state: Unseen) -> bool:
    """Some rows of one label get another in all tables."""
    source = int(rng.random() * plan.labels)
    target = int(rng.random() * (plan.labels - 1))
    target += target >= source
    many = amount(rng, plan.reach[-1])
    if state.label[source] < many:
        return False
    for at in range(len(state.margins)):
        state.room[at] = state.margins[at]
    log = moved_labels(plan, state.label[source], state.label[target], many)
    for g in range(len(plan.start) - 1):
        for k in range(many):
            leave(rng, plan, state, g, source, state.label[source] - k)
            join(rng, plan, state, g, target, state.label[target] + k)
        for cell in range(plan.start[g], plan.start[g + 1]):
            if state.change[cell] != 0:
                had = state.counts[cell]
                log += fit_gained(plan, g, cell, had, had + state.change[cell])
    if log < 0.0 and rng.random() >= math.exp(log):
        for at in range(len(state.margins)):
            state.margins[at] = int(state.room[at])
        state.change[:] = 0
        return False
    for cell in range(len(state.change)):
        state.counts[cell] += state.change[cell]
        state.change[cell] = 0
    state.label[source] -= many
    state.label[target] += many
    return True


def moved_labels(plan: Plan, source: int, target: int, many: int) -> float:
    """ln of the ratio of the Dirichlet-multinomial probabilities of the counts of two labels."""
    log = math.lgamma(source - many + plan.prior) - math.lgamma(source + plan.prior)
    log += math.lgamma(source + 1.0) - math.lgamma(source - many + 1.0)
    log += math.lgamma(target + many + plan.prior) - math.lgamma(target + plan.prior)
    return log + math.lgamma(target + 1.0) - math.lgamma(target + many + 1.0)


def log_probability(plan: Plan, state: Unseen, f: int, concentration: float) -> float:
    """ln of the probability of a feature's column of each row, in a given order, with columns summed out."""
    log = 0.0
    for x in range(plan.levels[f]):
        share = state.centres[plan.centre[f] + x]
        for y in range(plan.labels):
            count = state.margins[plan.margin[f] + x * plan.labels + y]
            if count > 0:
                log += math.lgamma(count + concentration * share) - math.lgamma(concentration * share)
    for y in range(plan.labels):
        log += math.lgamma(concentration) - math.lgamma(state.label[y] + concentration)
    return log


def concentrated(rng: np.random.Generator, plan: Plan, state: Unseen, f: int, grid: Reals) -> None:
    """Draws a feature's concentration from its conditional law on the grid."""
    weight, most, total = state.room, -math.inf, 0.0
    for k in range(len(grid)):
        weight[k] = log_probability(plan, state, f, grid[k])
        most = max(most, weight[k])
    for k in range(len(grid)):
        weight[k] = math.exp(weight[k] - most)
        total += weight[k]
    left = rng.random() * total
    k = 0
    while k < len(grid) - 1:
        left -= weight[k]
        if left < 0.0:
            break
        k += 1
    state.concentration[f] = grid[k]


def new_draws(rng: np.random.Generator, rows: Any, share: float) -> int:
    """The number of new draws among rows: row i = 0, 1, ... is one with probability share / (share + i), independently.

    From row 1 on stretches [i, 2 i) are walked in steps to the next new draw if all had the chance of the first, which
    is at most twice their own.
    """
    drawn = 1 if rows > 0 else 0
    first = 1
    while first < rows:
        end = min(2 * first, rows)
        bound = share / (share + first)
        i = first
        while i < end:
            if bound >= 0.5:
                bound = 1.0
            else:
                step = math.log(max(rng.random(), 1e-300)) / math.log1p(-bound)
                if step >= end - i:
                    break
                i += int(step)
            if rng.random() * bound * (share + i) < share:
                drawn += 1
            i += 1
        first = end
    return drawn


def centred(rng: np.random.Generator, plan: Plan, state: Unseen, f: int) -> None:
    """Draws a feature's centre given the numbers of distinct draws from it among the rows, and first these.

    A Dirichlet with concentration a and centre m is a Polya urn: row i of a label is a new draw from m with probability
    a m_x / (a m_x + i) (Teh and coauthors 2006).
    """
    a, at = state.concentration[f], plan.centre[f]
    total = 0.0
    for x in range(plan.levels[f]):
        drawn, share = 0, a * state.centres[at + x]
        for y in range(plan.labels):
            count = state.margins[plan.margin[f] + x * plan.labels + y]
            drawn += new_draws(rng, count, share)
        state.centres[at + x] = max(rng.standard_gamma(drawn + 1.0), 1e-300)
        total += state.centres[at + x]
    for x in range(plan.levels[f]):
        state.centres[at + x] /= total


def binomial(rng: np.random.Generator, trials: int, chance: float) -> int:
    """The number of successes of some trials."""
    if trials <= 0 or chance <= 0.0:
        return 0
    if chance >= 1.0:
        return trials
    if trials >= FEW:
        return rng.binomial(trials, chance)
    many = 0
    for _ in range(trials):
        many += rng.random() < chance
    return many


def carried(
    rng: np.random.Generator, plan: Plan, state: Unseen, g: int, f: int, y: int, x: int, z: int, chance: Any,
) -> None:  # fmt: skip
    """Each row of label y and level x of feature f goes to level z with a chance, its other levels staying."""
    last, labels = plan.first[g + 1], plan.labels
    stride = labels
    for k in range(f + 1, last):
        stride *= plan.levels[k]
    block = stride * plan.levels[f]
    for outer in range(plan.start[g] + x * stride + y, plan.start[g + 1], block):
        for cell in range(outer, outer + stride, labels):
            many = binomial(rng, state.counts[cell] + state.change[cell], chance)
            state.change[cell] -= many
            state.change[cell + (z - x) * stride] += many


def kept_or_not(rng: np.random.Generator, plan: Plan, state: Unseen, g: int, log: float) -> bool:
    """Accepts changed counts of a table by the noise and the rest in ``log``; ``change`` is zero afterwards."""
    first, end = plan.start[g], plan.start[g + 1]
    for cell in range(first, end):
        if state.change[cell] != 0:
            had = state.counts[cell]
            log += fit_gained(plan, g, cell, had, had + state.change[cell])
    accepted = log >= 0.0 or rng.random() < math.exp(log)
    for cell in range(first, end):
        moved = state.change[cell]
        state.change[cell] = 0
        if accepted and moved != 0:
            state.counts[cell] += moved
            u = (cell - first) // plan.labels
            for f in range(plan.first[g], plan.first[g + 1]):
                x = level_of(plan, f, plan.first[g + 1], u)
                state.margins[plan.margin[f] + x * plan.labels + (cell - first) % plan.labels] += moved
    return accepted


def drawn_laws(rng: np.random.Generator, plan: Plan, state: Unseen, f: int) -> None:
    """Draws a feature's columns given the counts."""
    for y in range(plan.labels):
        total = 0.0
        for x in range(plan.levels[f]):
            at = plan.margin[f] + x * plan.labels + y
            alpha = state.margins[at] + state.concentration[f] * state.centres[plan.centre[f] + x]
            # the power is the draw of a small concentration, which would underflow less often
            state.laws[at] = max(rng.standard_gamma(alpha + 1.0) * rng.random() ** (1.0 / alpha), 1e-200)
            total += state.laws[at]
        for x in range(plan.levels[f]):
            state.laws[plan.margin[f] + x * plan.labels + y] /= total


def shift(rng: np.random.Generator, plan: Plan, state: Unseen, g: int, f: int, whole: bool) -> bool:
    """Probability goes from one level to another in one column, or with the centre in all, and its rows with it."""
    levels, at, labels = plan.levels[f], plan.centre[f], plan.labels
    y = int(rng.random() * labels)
    columns = range(0, labels) if whole else range(y, y + 1)
    x = int(rng.random() * levels)
    z = int(rng.random() * (levels - 1))
    z += z >= x
    # about even on a log scale
    delta, a = LEAST_SHIFT * math.exp(rng.random() * math.log(MOST_SHIFT / LEAST_SHIFT)), state.concentration[f]
    m, k = state.centres[at + x], state.centres[at + z]
    less, more = (m - delta, k + delta) if whole else (m, k)
    if less <= 0.0:
        return False
    for y in columns:
        if delta >= state.laws[plan.margin[f] + x * labels + y]:
            return False
    log = 0.0
    if whole:
        log = labels * (math.lgamma(a * m) - math.lgamma(a * less) + math.lgamma(a * k) - math.lgamma(a * more))
    for y in columns:
        p, q = state.laws[plan.margin[f] + x * labels + y], state.laws[plan.margin[f] + z * labels + y]
        log += (a * less - 1.0) * math.log(p - delta) - (a * m - 1.0) * math.log(p)
        log += (a * more - 1.0) * math.log(q + delta) - (a * k - 1.0) * math.log(q)
        carried(rng, plan, state, g, f, y, x, z, delta / p)
    if not kept_or_not(rng, plan, state, g, log):
        return False
    state.centres[at + x], state.centres[at + z] = less, more
    for y in columns:
        state.laws[plan.margin[f] + x * labels + y] -= delta
        state.laws[plan.margin[f] + z * labels + y] += delta
    return True


def scale(rng: np.random.Generator, plan: Plan, state: Unseen, g: int, f: int, grid: Reals) -> bool:
    """The concentration goes to a neighbour on the grid, and the columns towards the centre or away from it."""
    levels, at, labels = plan.levels[f], plan.centre[f], plan.labels
    k = 0
    while grid[k] < state.concentration[f]:
        k += 1
    new = k + (1 if rng.random() < 0.5 else -1)
    if new < 0 or new >= len(grid):
        return False
    a, b = grid[k], grid[new]
    factor = math.sqrt(a / b)
    moved = state.room  # of each label and level, then the changes of one label's
    for y in range(labels):
        for x in range(levels):
            m = state.centres[at + x]
            moved[y * levels + x] = m + factor * (state.laws[plan.margin[f] + x * labels + y] - m)
            if moved[y * levels + x] <= 0.0:
                return False
    log = labels * (levels - 1) * math.log(factor)
    log += labels * (math.lgamma(b) - math.lgamma(a))
    for x in range(levels):
        log += labels * (math.lgamma(a * state.centres[at + x]) - math.lgamma(b * state.centres[at + x]))
    for y in range(labels):
        for x in range(levels):
            m, p = state.centres[at + x], state.laws[plan.margin[f] + x * labels + y]
            log += (b * m - 1.0) * math.log(moved[y * levels + x]) - (a * m - 1.0) * math.log(p)
            moved[labels * levels + x] = moved[y * levels + x] - p
        spread_out(rng, plan, state, g, f, y)
    if not kept_or_not(rng, plan, state, g, log):
        return False
    state.concentration[f] = b
    for y in range(labels):
        for x in range(levels):
            state.laws[plan.margin[f] + x * labels + y] = moved[y * levels + x]
    return True


def spread_out(rng: np.random.Generator, plan: Plan, state: Unseen, g: int, f: int, y: int) -> None:
    """Moves rows from levels whose probability falls to levels whose rises, in proportion to the changes.

    One level after another, so that rows that came do not leave.
    """
    levels, labels = plan.levels[f], plan.labels
    surplus, rise = labels * levels, 0.0
    for x in range(levels):
        rise += max(state.room[surplus + x], 0.0)
    if rise <= 0.0:
        return
    for x in range(levels):
        left = state.laws[plan.margin[f] + x * labels + y]
        for z in range(levels):
            less, more = state.room[surplus + x], state.room[surplus + z]
            if less < 0.0 and more > 0.0:
                gone = -less * more / rise
                carried(rng, plan, state, g, f, y, x, z, gone / left)
                left -= gone


def moved_columns(rng: np.random.Generator, plan: Plan, state: Unseen, grid: Reals) -> None:
    """Shifts, translations and scalings of every feature, columns drawn anew first."""
    for g in range(len(plan.start) - 1):
        for f in range(plan.first[g], plan.first[g + 1]):
            levels = plan.levels[f]
            if levels < 2:
                continue
            drawn_laws(rng, plan, state, f)
            for _ in range(2 * levels):
                for _ in range(plan.labels):
                    state.tally[SHIFT] += shift(rng, plan, state, g, f, False)
                state.tally[TRANSLATE] += shift(rng, plan, state, g, f, True)
            for _ in range(8):
                state.tally[SCALE] += scale(rng, plan, state, g, f, grid)
            state.tally[SHIFT + 1] += 2 * levels * plan.labels
            state.tally[TRANSLATE + 1] += 2 * levels
            state.tally[SCALE + 1] += 8


def sweep(rng: np.random.Generator, plan: Plan, state: Unseen, grid: Reals, transfers: int, relabels: int) -> None:
    """All moves: so many transfers for each cell, so many moves between labels, then those of the columns."""
    for g in range(len(plan.start) - 1):
        cells = plan.start[g + 1] - plan.start[g]
        if cells > plan.labels:
            for _ in range(transfers * cells):
                state.tally[TRANSFER] += transfer(rng, plan, state, g)
            state.tally[TRANSFER + 1] += transfers * cells
    for _ in range(relabels):
        if plan.labels > 1:
            state.tally[RELABEL] += relabel(rng, plan, state)
            state.tally[RELABEL + 1] += 1
    for f in range(len(plan.levels)):
        concentrated(rng, plan, state, f, grid)
        centred(rng, plan, state, f)
    moved_columns(rng, plan, state, grid)
