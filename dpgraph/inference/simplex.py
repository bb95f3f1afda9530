"""Numbers that are not negative and have a given sum: the nearest ones to noisy numbers, and Dirichlet draws."""

from __future__ import annotations

import math

import numpy as np

from dpgraph.privacy.checks import Integers, Reals


def onto_simplex(table: Reals, total: float = 1.0) -> Reals:
    """The nearest non-negative table with the given total."""
    return onto_simplexes(table[None], total)[0]


def onto_simplexes(tables: Reals, total: float) -> Reals:
    """The nearest non-negative table with the given total to each, axes (table, *shape)."""
    flat = tables.reshape(len(tables), math.prod(tables.shape[1:]))
    ordered = np.sort(flat, axis=1)[:, ::-1]
    excess = (np.cumsum(ordered, axis=1) - total) / np.arange(1, flat.shape[1] + 1)
    support = np.maximum(1, np.count_nonzero(ordered > excess, axis=1))
    cut = np.take_along_axis(excess, support[:, None] - 1, axis=1)
    return np.maximum(flat - cut, 0.0).reshape(tables.shape)


def dirichlet_draws(concentration: Reals, rng: np.random.Generator, axis: int = 1) -> Reals:
    """Dirichlet draws along one axis, in log space: small concentrations do not underflow to an empty row."""
    logs = log_gammas(concentration, rng)
    weights = np.exp(logs - logs.max(axis=axis, keepdims=True))
    return weights / weights.sum(axis=axis, keepdims=True)


def log_gammas(concentration: Reals, rng: np.random.Generator) -> Reals:
    """Logs of gamma draws; -inf at a concentration of 0, a level that cannot be."""
    logs, uniform = np.log(rng.standard_gamma(concentration + 1)), np.log1p(-rng.random(concentration.shape))
    return logs + np.divide(uniform, concentration, out=np.full_like(logs, -np.inf), where=concentration > 0)


def whole_numbers(weights: Reals, total: int) -> Integers:
    """Whole numbers in proportion to weights, which sum to a total: the largest remainders are rounded up.

    >>> whole_numbers(np.array([1.0, 1.0, 2.0]), 5).tolist()
    [1, 1, 3]
    """
    ideal = weights / weights.sum() * total
    made = np.floor(ideal).astype(np.int64)
    made[np.argsort(made - ideal, kind="stable")[: total - int(made.sum())]] += 1
    return made
