"""Draws of the counts of one table given noisy statistics or margins of it, by Markov chains on whole numbers.

P(s | y) is proportional to prod_k Gamma(a_k + s_k) / s_k! times the law of every noise (proofs.md P56); statistics are
such as the coefficients of a basis. Moves are slice samples: from one cell to another, along the direction that changes
one statistic alone, and of one cell where the total is unknown.

Given margins moves are Metropolis steps. Half of the partners are near in size, so that rows pass between full cells of
a sparse table. A common factor of the concentrations may be unknown too, and uniform on a grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
    linear: Statistics, concentration: Reals, n: int | None, start: Reals, rng: np.random.Generator, size: int
) -> Integers:
    """Draws of the exact counts of a table, shape (size, cells), each row adding up to n where it is known.

    Given are noisy statistics of the counts, the Dirichlet concentrations, and n, or None, which is then flat
    beforehand. The chain begins at ``start``, any real numbers.
    """
    alpha = np.ascontiguousarray(concentration, np.float64).reshape(-1)
    problem = _kernels.Problem(
        prior=alpha,
        flat=bool((alpha == 1).all()),
        weights=np.ascontiguousarray(linear.weights, np.int64),
        costs=np.ascontiguousarray(linear.costs, np.float64),
        directions=np.ascontiguousarray(linear.directions, np.int64),
        gains=(linear.directions * linear.weights.T).sum(axis=1).astype(np.int64),
        known=n is not None,
    )
    counts = whole(start.reshape(-1), n)
    residuals = linear.values - counts @ linear.weights
    drawn = np.zeros((size, alpha.size), np.int64)
    sweep = alpha.size * (linear.values.size + 4) + linear.values.size * (4 if problem.flat else alpha.size)
    thin = int(np.clip(WORK / (max(size, 1) * sweep), LEAST_THIN, THIN))
    compiled(_kernels.run)(rng, problem, counts, residuals, drawn, BURN_IN, thin)
    return drawn


def whole(start: Reals, n: int | None) -> Integers:
    """Whole counts near the start, not below 0, that add up to n where it is known."""
    positive = np.maximum(start, 0.0)
    if n is None:
        return np.rint(positive).astype(np.int64)
    return whole_numbers(positive if positive.any() else np.ones(start.size), n)


@dataclass(frozen=True, eq=False)
class NoisyMargin:
    """Noisy sums of cells: ``places`` is the sum of each cell of the table, ``values`` and ``noises`` those of each."""

    places: Integers
    values: Reals
    noises: Sequence[CellNoise]


def margin_chain(
    measured: Sequence[NoisyMargin],
    concentration: Reals,
    n: int | None,
    start: Reals,
    *,
    factors: Reals | None = None,
    thin: int = 10,
) -> Callable[[np.random.Generator, int], tuple[Integers, Reals]]:
    """A chain of the counts of a table, as a function that draws the next so many: counts, and factors of the prior.

    Counts have shape (draws, cells) and add up to n where it is known, else n is flat beforehand. ``concentration`` has
    the Dirichlet concentrations up to one of ``factors``. The chain begins at ``start``, any real numbers.
    """
    problem = margin_problem(measured, concentration, n, start, np.ones(1) if factors is None else factors)
    counts = whole(start.reshape(-1), n)
    rest = np.concatenate([margin.values for margin in measured])
    rest -= sum(np.bincount(one, counts, rest.size) for one in problem.places)
    factor = np.array([problem.grid.size // 2])
    burn_in = [BURN_IN]

    def drawn(rng: np.random.Generator, size: int) -> tuple[Integers, Reals]:
        made, chosen = np.zeros((size, counts.size), np.int64), np.zeros(size, np.int64)
        first = burn_in.pop() if burn_in else 0
        compiled(_kernels.follow)(rng, problem, counts, rest, factor, made, chosen, first, thin)
        return made, problem.grid[chosen]

    return drawn


def margin_problem(
    measured: Sequence[NoisyMargin], concentration: Reals, n: int | None, start: Reals, factors: Reals
) -> _kernels.MarginProblem:
    """The posterior of a table of counts as arrays for the compiled loops; arguments as of ``margin_chain``."""
    ends = np.cumsum([0, *(margin.values.size for margin in measured)])[:-1]
    noises = [noise for margin in measured for noise in margin.noises]
    number = {noise: law for law, noise in enumerate(dict.fromkeys(noises))}
    laws, tables = _laws(list(number))
    order = np.argsort(-start.reshape(-1), kind="stable")
    spread = float(sum(margin.noises[0].deviation ** -2 for margin in measured)) ** -0.5
    return _kernels.MarginProblem(
        prior=np.ascontiguousarray(concentration, np.float64).reshape(-1),
        grid=factors,
        places=np.stack([at + margin.places for at, margin in zip(ends, measured, strict=True)]),
        laws=np.array([number[noise] for noise in noises], np.int64),
        noises=laws,
        tabulated=tables,
        order=order,
        rank=np.argsort(order),
        widest=1.0 + min(3.0 * spread, np.inf if n is None else n),
        known=n is not None,
    )


def _laws(laws: Sequence[CellNoise]) -> tuple[Reals, Reals]:
    """The laws of noises as loops read them: ``MarginProblem.noises`` and ``MarginProblem.tabulated``."""
    noises, tables, start = [], [np.zeros(1)], 1
    for noise in laws:
        if noise.copies == 1:
            noises.append((*noise.law.penalties, 0.0, 0.0, 0.0))
            continue
        step, slope, table = _tabulated(noise)
        noises.append((slope, 0.0, step, float(start), float(table.size)))
        tables.append(table)
        start += table.size
    return np.array(noises, np.float64).reshape(-1, 5), np.concatenate(tables)


@lru_cache(maxsize=256)
def _tabulated(noise: CellNoise) -> tuple[float, float, Reals]:
    """How far apart, how steep beyond, and the log densities of a sum of noises."""
    step = noise.reach / (TABULATED - 1)
    table = noise.log(step * np.arange(TABULATED))
    return step, float((table[-2] - table[-1]) / step), table
