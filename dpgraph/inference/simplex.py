"""The nearest non-negative numbers with a given sum: noisy shares and counts moved to where true ones lie."""

from __future__ import annotations

import math

import numpy as np

from dpgraph.privacy.arrays import Reals


def onto_simplex(table: Reals, total: float = 1.0) -> Reals:
    """The nearest non-negative table with the given total.

    >>> onto_simplex(np.array([0.7, 0.5, -0.1])).round(2).tolist()
    [0.6, 0.4, 0.0]
    """
    return onto_simplexes(table[None], total)[0]


def onto_simplexes(tables: Reals, total: float) -> Reals:
    """The nearest non-negative table with the given total to each, axes (table, *shape)."""
    flat = tables.reshape(len(tables), math.prod(tables.shape[1:]))
    ordered = np.sort(flat, axis=1)[:, ::-1]
    excess = (np.cumsum(ordered, axis=1) - total) / np.arange(1, flat.shape[1] + 1)
    support = np.maximum(1, np.count_nonzero(ordered > excess, axis=1))
    cut = np.take_along_axis(excess, support[:, None] - 1, axis=1)
    return np.maximum(flat - cut, 0.0).reshape(tables.shape)
