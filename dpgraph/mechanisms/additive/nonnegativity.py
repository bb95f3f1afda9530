"""How many uniform pseudo-records keep noisy tables from going below zero: a function of the noise law alone.

Adding C records spread evenly over all cells adds C / cells to every cell of a table, so all cells are non-negative
whatever the data as soon as C is at least the largest deficit, max over tables S of cells(S) times the most negative
noise of a cell of S: true counts are never below zero.

This is the one place outside ``privacy.seeded_noise`` that draws from a seeded generator, and it is no release path: it
sees the public plan of a mechanism and never a statistic, and its result is a public constant, the same for everyone.
Knowing the seed tells nothing, because none of its draws is added to anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.basis import fixed_point, table_of
from dpgraph.structure.network import Family, Network

Reals = npt.NDArray[np.float64]

#: Simulations of small networks; of large ones as many as ``BUDGET`` cells allow, at least ``FEWEST``.
SIMULATIONS, FEWEST, BUDGET = 20_000, 1_000, 40_000_000

#: The chance that the reported quantile is below the true one, by the order statistic's binomial law.
MISS = 1e-3

_PUBLIC_SEED = 20160221


def pseudo_records(network: Network, scales: Mapping[Family, float], grid: int, step: int, probability: float) -> int:
    """The fewest pseudo-records that keep every cell of every family table non-negative with a given probability.

    An upper confidence bound, at level 1 - ``MISS``, on the quantile of the largest deficit over simulated noise,
    rounded up to whole records.
    """
    from scipy.special import bdtrc

    cells = sum(network.cells(table) for table in network.maximal_families)
    count = max(FEWEST, min(SIMULATIONS, BUDGET // cells))
    missed = bdtrc(np.arange(count), count, probability)  # P(more than k of the deficits are below the quantile)
    rank = int(np.count_nonzero(missed > MISS)) + 1
    if rank > count:
        raise ReleaseError(f"nonnegative={probability} is out of reach of {count} simulations; use 0.99 or less")
    generator = np.random.default_rng(_PUBLIC_SEED)
    deficits = np.concatenate(list(_deficits(network, scales, grid, step, count, generator)))
    return max(0, math.ceil(np.sort(deficits)[rank - 1]))


def _deficits(
    network: Network, scales: Mapping[Family, float], grid: int, step: int, count: int, generator: np.random.Generator
) -> Iterator[Reals]:
    """The largest deficit of each simulated release, in batches."""
    tables = network.maximal_families
    width = sum(network.cells(table) for table in tables)
    batch = max(1, min(count, 4_000_000 // width))
    for start in range(0, count, batch):
        size = min(batch, count - start)
        noise: dict[Family, Reals] = {}
        for block, scale in scales.items():
            multiplier = fixed_point(network.shape(block), grid)
            draws = generator.geometric(-math.expm1(-1 / scale), (2, size, *multiplier.shape))
            noise[block] = step * (draws[0] - draws[1]) / multiplier
        lowest = [
            network.cells(table) * table_of(network, noise, table, batch=size).reshape(size, -1).min(axis=1)
            for table in tables
        ]
        yield np.maximum(0.0, -np.min(lowest, axis=0))
