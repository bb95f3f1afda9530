"""Draws of the counts of one table given all that was measured inside it, by a Markov chain on whole numbers.

P(s | y) is proportional to prod_k Gamma(a_k + s_k) / s_k! times the law of every noise (proofs.md P56): of noisy cells,
of noisy linear statistics, such as the coefficients of a basis, and of an unknown total. Moves are slice samples: from
one cell to another, along the direction that changes one statistic alone, and of one cell where the total is unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpgraph.inference._kernels import compiled
from dpgraph.inference.counts import _kernels
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.simplex import whole_numbers
from dpgraph.structure.tables import Integers, Reals

#: Sweeps before the first draw and for each draw; fewer for each draw where a sweep takes long, and from then on.
BURN_IN, THIN, LEAST_THIN, WORK = 300, 10, 3, 3e8
#: Log densities that a law of summed noise is tabulated at.
TABULATED = 2048


@dataclass(frozen=True, eq=False)
class Statistics:
    """Noisy linear statistics of a table: ``values`` were released, shape (statistics,).

    ``weights`` has the statistics of one row in each cell, shape (cells, statistics); ``directions`` for each a move of
    the table that changes no other, shape (statistics, cells); ``costs`` the fall of its log density with |noise| and
    noise^2, shape (statistics, 2).
    """

    values: Integers
    weights: Integers
    directions: Integers
    costs: Reals

    @classmethod
    def none(cls, cells: int) -> Statistics:
        """No statistics of so many cells."""
        empty = np.zeros((cells, 0), np.int64)
        return cls(np.zeros(0, np.int64), empty, empty.T.copy(), np.zeros((0, 2)))


def draw_table(
    measured: Sequence[tuple[Integers, CellNoise]],
    statistics: Statistics | None,
    concentration: Reals,
    n: int | None,
    start: Reals,
    rng: np.random.Generator,
    size: int,
    *,
    totals: Sequence[tuple[int, CellNoise]] = (),
) -> Integers:
    """Draws of the exact counts of a table, shape (size, cells), each row adding up to n where it is known.

    Given are noisy versions of the counts, flat, with the law of the noise in each cell; noisy statistics of them or
    None; the Dirichlet concentrations; n, or None, which is then flat beforehand, and further noisy versions of it in
    ``totals``. The chain begins at ``start``, any real numbers.
    """
    alpha = np.ascontiguousarray(concentration, np.float64).reshape(-1)
    linear = Statistics.none(alpha.size) if statistics is None else statistics
    problem = _problem(measured, linear, alpha, n, totals)
    counts = _whole(start.reshape(-1), n)
    residuals = linear.values - counts @ linear.weights
    drawn = np.zeros((size, alpha.size), np.int64)
    sweep = alpha.size * (linear.values.size + 4) + linear.values.size * (4 if problem.flat else alpha.size)
    thin = int(np.clip(WORK / (max(size, 1) * sweep), LEAST_THIN, THIN))
    compiled(_kernels.run)(rng, problem, counts, residuals, drawn, BURN_IN, thin)
    return drawn


def _problem(
    measured: Sequence[tuple[Integers, CellNoise]],
    linear: Statistics,
    alpha: Reals,
    n: int | None,
    totals: Sequence[tuple[int, CellNoise]],
) -> _kernels.Problem:
    noises, tables = [], []
    start = 1
    for noise in [law for _, law in measured] + [law for _, law in totals]:
        if noise.copies == 1:
            noises.append((*noise.law.penalties, 0.0, 0.0, 0.0))
            continue
        step, slope, table = _tabulated(noise)
        noises.append((slope, 0.0, step, float(start), float(table.size)))
        tables.append(table)
        start += table.size
    return _kernels.Problem(
        prior=alpha,
        flat=bool((alpha == 1).all()),
        noisy=np.array([values for values, _ in measured], np.int64).reshape(-1, alpha.size),
        totals=np.array([value for value, _ in totals], np.int64),
        noises=np.array(noises, np.float64).reshape(-1, 5),
        tabulated=np.concatenate([np.zeros(1), *tables]),
        weights=np.ascontiguousarray(linear.weights, np.int64),
        costs=np.ascontiguousarray(linear.costs, np.float64),
        directions=np.ascontiguousarray(linear.directions, np.int64),
        gains=(linear.directions * linear.weights.T).sum(axis=1).astype(np.int64),
        lifts=linear.directions.sum(axis=1).astype(np.int64),
        known=n is not None,
    )


@lru_cache(maxsize=256)
def _tabulated(noise: CellNoise) -> tuple[float, float, Reals]:
    """How far apart, how steep beyond, and the log densities of a sum of noises."""
    step = noise.reach / (TABULATED - 1)
    table = noise.log(step * np.arange(TABULATED))
    return step, float((table[-2] - table[-1]) / step), table


def _whole(start: Reals, n: int | None) -> Integers:
    """Whole counts near the start, not below 0, that add up to n where it is known."""
    positive = np.maximum(start, 0.0)
    if n is None:
        return np.rint(positive).astype(np.int64)
    return whole_numbers(positive if positive.any() else np.ones(start.size), n)
