"""Expected errors of released tables at hypothetical counts, by closed forms and quadrature; no data."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.arrays import Reals

#: Values whose quadrature is held at once.
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
    by quadrature, once for each different count, and the noise of a row's total is taken to be normal with the cells'
    clipped moments.
    ``dg.papers.expected_divergence`` is exact for Algorithm 1, within a few per cent of this where the row is not tiny.
    """
    different, place = np.unique(counts, return_inverse=True)  # of a bare graph most are alike
    place = place.reshape(counts.shape)
    means, squares, apart = (np.empty(different.size) for _ in range(3))
    for held in _blocks(different.size):
        noisy, apart[held] = _clipped(different[held], different[held], rmse, prior)
        means[held], squares[held] = noisy
    spread = np.sqrt(np.maximum((squares - means**2)[place].sum(axis=0), 0.0))
    of_rows = np.stack([np.ravel(part) for part in (counts.sum(axis=0), means[place].sum(axis=0), spread)])
    (exact, total, spread), times = np.unique(of_rows, axis=1, return_counts=True)
    whole = len(counts) * prior
    cells = float(apart @ np.bincount(place.ravel(), minlength=different.size))
    rows = sum(
        float(_clipped(exact[held], total[held], spread[held], whole)[1] @ times[held]) for held in _blocks(times.size)
    )
    return cells - rows


def _blocks(size: int) -> list[slice]:
    """Slices of so many values that are held at once."""
    return [slice(start, start + HELD) for start in range(0, size, HELD)]


def _clipped(exact: Reals, mean: Reals, spread: Reals | float, prior: float) -> tuple[tuple[Reals, Reals], Reals]:
    """Values with normal noise, set to 0 where they are negative: their first two moments, and expected divergence."""
    nodes, weights = normal_quadrature()
    noisy = np.maximum(mean[:, None] + np.multiply.outer(spread, nodes), 0.0)
    divergence = log_gamma_divergence(prior + noisy, (prior + exact)[:, None]) @ weights
    return (noisy @ weights, noisy**2 @ weights), divergence


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


def log_gamma_divergence(y: npt.ArrayLike, x: npt.ArrayLike) -> Reals:
    """The Bregman divergence of ln Gamma: ln Gamma(y) - ln Gamma(x) - psi(x) (y - x), at least 0."""
    from scipy.special import gammaln, psi

    y, x = np.asarray(y, float), np.asarray(x, float)
    return gammaln(y) - gammaln(x) - psi(x) * (y - x)
