"""Expected errors of released tables at hypothetical counts, by closed forms and quadrature; no data."""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from dpgraph.analysis.bounds import log_gamma_divergence
from dpgraph.privacy.arrays import Reals

#: Cells whose quadrature is held at once.
HELD = 1 << 14


def expected_variation(counts: Reals, rmse: float) -> float:
    """Half the expected absolute error of hypothetical counts under normal noise, negative results set to 0.

    E|max(c + e, 0) - c| = s / sqrt(2 pi) (2 - exp(-c^2 / 2 s^2)) + c Phi(-c / s), summed over cells.
    """
    from scipy.special import ndtr

    if rmse == 0:
        return 0.0
    ratio = counts / rmse
    errors = rmse / math.sqrt(2 * math.pi) * (2 - np.exp(-0.5 * ratio**2)) + counts * ndtr(-ratio)
    return min(float(counts.sum()), 0.5 * float(errors.sum()))


def expected_kl(counts: Reals, rmse: float, prior: float = 1.0) -> float:
    """The expected divergence of the plug-in posterior from the exact one in nats, under normal noise clipped at 0.

    Counts have axes (variable, *parents); the divergences of the parent configurations add. Each cell's expectation is
    by quadrature, and the noise of a row's total is taken to be normal with the cells' clipped moments.
    ``bounds.expected_divergence`` is exact for Algorithm 1, within a few per cent of this where the row is not tiny.
    """
    flat = counts.reshape(len(counts), -1)
    alike, times = np.unique(flat, axis=1, return_counts=True)  # of a bare graph all are alike
    step = max(1, HELD // alike[:, 0].size)
    starts = range(0, times.size, step)
    return sum(float(times[at : at + step] @ _kl_of_rows(alike[:, at : at + step], rmse, prior)) for at in starts)


def _kl_of_rows(counts: Reals, rmse: float, prior: float) -> Reals:
    """The same for each parent configuration, counts of shape (levels, configurations)."""
    nodes, weights = normal_quadrature()
    noisy = np.maximum(counts[..., None] + rmse * nodes, 0.0)
    cells = (log_gamma_divergence(prior + noisy, (prior + counts)[..., None]) @ weights).sum(axis=0)
    mean, square = noisy @ weights, noisy**2 @ weights
    total, spread = mean.sum(axis=0), np.sqrt(np.maximum(square - mean**2, 0.0).sum(axis=0))
    whole = len(counts) * prior
    sums = np.maximum(total[..., None] + spread[..., None] * nodes, 0.0)
    return cells - log_gamma_divergence(whole + sums, (whole + counts.sum(axis=0))[..., None]) @ weights


@cache
def normal_quadrature() -> tuple[Reals, Reals]:
    """Nodes and weights of the mean of a function of a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(61)
    return nodes, weights / weights.sum()


def draw_error(counts: Reals, temperature: float, prior: float = 1.0) -> float:
    """The mean squared error of one cell, in rows, of tables drawn from a posterior tempered by T.

    A row of a table is drawn from Dirichlet(prior + counts / T), which misses counts / total by its bias and by its
    variance m (1 - m) / (A + 1); times the row's total that is rows.

    Args:
        counts: Hypothetical counts with axes (variable, *parents).
        temperature: T.
        prior: The Dirichlet concentration of every cell.
    """
    total = counts.sum(axis=0)
    concentration = prior + counts / temperature
    size = concentration.sum(axis=0)
    mean = concentration / size
    share = counts / np.where(total > 0, total, 1.0)
    return float((total**2 * ((mean - share) ** 2 + mean * (1 - mean) / (size + 1))).mean())
