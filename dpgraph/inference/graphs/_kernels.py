"""The inner loop of averaging over graphs: one parent of each variable comes, goes or is exchanged.

The source is plain Python. numba compiles it; tests run it plain too, and both give the same draws.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network._kernels import row_weighed

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]


def evidence_of(
    records: npt.NDArray[Any], n: int, levels: Integers, v: int, on: npt.NDArray[np.bool_], grid: Reals, centre: Reals
) -> float:
    """ln of the probability of the column of variable v given its parents' columns, table and concentration integrated.

    Rows of the table are Dirichlet(a m) with the centre m and a uniform on the grid; without parents the one row is
    uniform (proofs.md P118). Records have the shape (room, variables), of which n are there; ``on`` marks the parents.
    """
    size, rows = levels[v], 1
    for u in range(levels.size):
        if on[u]:
            rows *= levels[u]
    counts = np.zeros(rows * size, np.int64)
    for i in range(n):
        row = 0
        for u in range(levels.size):
            if on[u]:
                row = row * levels[u] + records[i, u]
        counts[row * size + records[i, v]] += 1
    if rows == 1:
        total = math.lgamma(float(size)) - math.lgamma(float(size + n))
        for k in range(size):
            total += math.lgamma(1.0 + counts[k])
        return total
    weight = np.zeros(grid.size)
    for row in range(rows):
        row_weighed(grid, centre, counts[row * size : (row + 1) * size], weight)
    most = weight.max()
    return most + math.log(np.exp(weight - most).mean())


def log_prior(many: int, possible: int, most: int) -> float:
    """ln of the prior probability of so many parents: numbers of parents are equally likely, and sets of one number."""
    every = math.lgamma(possible + 1.0) - math.lgamma(many + 1.0) - math.lgamma(possible - many + 1.0)
    return -every - math.log(1.0 + min(most, possible))


def toggled(
    rng: np.random.Generator, records: npt.NDArray[Any], n: int, levels: Integers, on: npt.NDArray[np.bool_],
    may: npt.NDArray[np.bool_], most: Integers, cells: int, grid: Reals, centres: Reals, tally: Integers,
) -> None:  # fmt: skip
    """One Metropolis step on the parents of every variable given the records, in place.

    A possible parent is picked at random. It goes if it is there, comes if there is room, or is exchanged for another:
    moves that are as likely as their reverse. ``on`` and ``may`` have axes (variable, other); ``most`` bounds the
    parents that come and go, ``cells`` a family's table; ``tally`` counts accepted and tried moves.
    """
    d = levels.size
    trial = np.empty(d, np.bool_)
    for v in range(d):
        possible, now = 0, 0
        for u in range(d):
            possible += may[v, u]
            now += may[v, u] and on[v, u]
        if possible == 0 or most[v] == 0 or levels[v] < 2:
            continue
        place = int(rng.random() * possible)
        picked, trial[:] = v, on[v]
        for u in range(d):
            if may[v, u]:
                if place == 0:
                    picked = u
                place -= 1
        after = now
        if on[v, picked]:
            trial[picked] = False
            after -= 1
        else:
            trial[picked] = True
            if now < most[v]:
                after += 1
            else:
                leaving = int(rng.random() * now)
                for u in range(d):
                    if may[v, u] and on[v, u]:
                        if leaving == 0:
                            trial[u] = False
                        leaving -= 1
        size = levels[v]
        for u in range(d):
            if trial[u]:
                size *= levels[u]
        tally[1] += 1
        if size > cells:
            continue
        centre = centres[v, : levels[v]]
        gain = evidence_of(records, n, levels, v, trial, grid, centre)
        gain -= evidence_of(records, n, levels, v, on[v], grid, centre)
        gain += log_prior(after, possible, most[v]) - log_prior(now, possible, most[v])
        if gain >= 0.0 or rng.random() < math.exp(gain):
            on[v] = trial
            tally[0] += 1
