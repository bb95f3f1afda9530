"""Convergence diagnostics of Markov chains: rank-normalised split R-hat and bulk effective sample size, by arviz."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.structure.tables import Reals

#: A split chain shorter than this says nothing.
SHORTEST = 4


def r_hat(draws: Reals) -> Reals:
    """Rank-normalised split R-hat, 1 for chains that have mixed (Vehtari et al. 2021).

    The halves of a single chain are compared with each other.

    Args:
        draws: Axes (chain, draw, *parameters).

    Returns:
        Axes (*parameters): 1 where a parameter never moves, such as the probability of a sole level; nan where chains
        are too short to say, nan or infinite where they are stuck in different places.

    >>> r_hat(np.random.default_rng(0).normal(size=(4, 500, 2))).round(2)
    array([1., 1.])
    """
    from arviz_stats.base.array import array_stats

    half = draws.shape[1] // 2
    chains = draws if draws.shape[0] > 1 else np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])
    return _of_moving_parameters(chains, array_stats.rhat, 1.0)


def effective_size(draws: Reals) -> Reals:
    """Bulk effective sample size: so many independent draws would be as precise (Vehtari et al. 2021).

    Args:
        draws: Axes (chain, draw, *parameters).

    Returns:
        Axes (*parameters): the number of draws where a parameter never moves; nan where chains are too short to say.

    >>> bool(1000 < effective_size(np.random.default_rng(0).normal(size=(4, 500, 1)))[0] < 3000)
    True
    """
    from arviz_stats.base.array import array_stats

    return _of_moving_parameters(draws, array_stats.ess, float(draws.shape[0] * draws.shape[1]))


def _of_moving_parameters(draws: Reals, statistic: Any, constant: float) -> Reals:
    """A statistic of every parameter that moves, and a constant for the others."""
    moving = np.ptp(draws, axis=(0, 1)) > 1e-12 if draws.size else np.zeros(draws.shape[2:], bool)
    found = np.full(draws.shape[2:], constant)
    if moving.any():
        found[moving] = np.nan
    if moving.any() and draws.shape[1] >= SHORTEST:
        with np.errstate(divide="ignore", invalid="ignore"):  # chains stuck in different places
            found[moving] = statistic(draws[:, :, moving], chain_axis=0, draw_axis=1)
    return found
