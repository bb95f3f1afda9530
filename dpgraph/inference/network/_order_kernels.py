"""The inner loop of the prior along a number's bins: arrays in, arrays changed in place."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network._kernels import picked, row_weighed, tables_opened

Integers = npt.NDArray[np.int64]
Reals = npt.NDArray[np.float64]

#: Places of two concentrations: of a centre about the centre of the bin below, and about the common centre.
NEIGHBOURS, COMMON = 0, 1


def below(row: int, stride: int, size: int, bins: int) -> int:
    """The place of the centre that a row's centre scatters about, one above the row's number; 0 is the common one.

    ``stride`` is how far apart the bins of the number are among the rows, ``size`` how many levels it has, of which the
    first ``bins`` are in order.
    """
    level = row // stride % size
    return row - stride + 1 if 0 < level < bins else 0


def centre_set(rng: np.random.Generator, centre: Reals, about: Reals, concentration: float, opened: Integers) -> None:
    """Draws a centre, Dirichlet(concentration about + opened), by gammas in log space so that none is all zeros."""
    most, total = -math.inf, 0.0
    for k in range(centre.size):
        shape = concentration * about[k] + opened[k]
        centre[k] = math.log(rng.standard_gamma(shape + 1.0)) + math.log(1.0 - rng.random()) / shape
        most = max(most, centre[k])
    for k in range(centre.size):
        centre[k] = math.exp(max(centre[k] - most, -600.0))
        total += centre[k]
    for k in range(centre.size):
        centre[k] /= total


def relearned_along(
    rng: np.random.Generator, prior: Reals, counts: Integers, grid: Reals, bounds: Reals, spread: float,
    chosen: Reals, centres: Reals, stride: int, size: int, bins: int, opened: Integers, weight: Reals,
) -> None:  # fmt: skip
    """Draws the centres and concentrations of a variable along a parent whose bins are in order (proofs.md P109).

    ``prior`` and ``counts`` have shape (rows, levels), ``centres`` a common centre before the centres of the rows.
    ``chosen`` has the two concentrations of centres, ``bounds`` the least and the most of each, shape (2, 2), ``grid``
    the possible concentrations of rows. ``spread`` is the Dirichlet concentration of a level of the common centre.
    ``opened`` and ``weight`` are room, as large as ``centres`` and ``grid``.
    """
    rows, levels = counts.shape
    for g in range(grid.size):
        weight[g] = 0.0
    for row in range(rows):
        row_weighed(grid, centres[row + 1], counts[row], weight)
    own = grid[picked(rng, weight)]
    opened[:] = 0
    tables, rate = np.zeros(2), np.zeros(2)
    for row in range(rows - 1, -1, -1):
        at, to = row + 1, below(row, stride, size, bins)
        kind = NEIGHBOURS if to > 0 else COMMON
        tables_opened(rng, own, centres[at], counts[row], opened[at])
        held = opened[at].sum()
        if held > 0:
            tables[kind] += tables_opened(rng, chosen[kind], centres[to], opened[at], opened[to])
            rate[kind] -= math.log(max(rng.beta(chosen[kind], held), 1e-300))
    for kind in range(2):
        least, most = bounds[kind, 0], bounds[kind, 1]
        if tables[kind] == 0.0:
            chosen[kind] = least * (most / least) ** rng.random()
        else:
            proposed = rng.standard_gamma(tables[kind]) / rate[kind]
            if least <= proposed <= most:
                chosen[kind] = proposed
    for k in range(levels):
        centres[0, k] = 1.0
    centre_set(rng, centres[0], centres[0], spread, opened[0])
    for row in range(rows):
        at, to = row + 1, below(row, stride, size, bins)
        centre_set(rng, centres[at], centres[to], chosen[NEIGHBOURS if to > 0 else COMMON], opened[at])
        for k in range(levels):
            prior[row, k] = own * centres[at, k]
