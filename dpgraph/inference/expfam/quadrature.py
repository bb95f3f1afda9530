"""Independent draws of one parameter given one noisy sum of a known number of records: quadrature, no chain.

The model is that of ``expfam.chain``: the sum within the bounds is normal, given the parameter, with the moments of the
random-sum central limit theorem, and the noise is Laplace. Their convolution has a closed form, so the posterior
density is known on a grid, refined where the mass is. Two modes, which redacted records can make, are no obstacle.
"""

from __future__ import annotations

import numpy as np

from dpgraph.inference.expfam.chain import Problems
from dpgraph.inference.expfam.conjugate import draw_conjugate, from_line, log_prior, to_line
from dpgraph.inference.expfam.region_moments import region_moments
from dpgraph.structure.tables import Reals

#: First points, rounds of refinement, the log density below the mode's that is left alone, and the mass of a cell.
POINTS, FINEST, NEGLIGIBLE, CELL = 4001, 40, 30.0, 1e-3


def quadrature_draws(problems: Problems, draws: int, rng: np.random.Generator) -> Reals:
    """Draws of the parameter of one problem with one statistic and a known n, shape (draws, 1)."""
    line, log = _grid(problems, rng)
    density = np.exp(log - log.max())
    mass = np.diff(line) * (density[:-1] + density[1:]) / 2
    cell = rng.choice(mass.size, size=draws, p=mass / mass.sum())
    start, slope = density[cell], density[cell + 1] - density[cell]
    u = rng.random(draws)
    root = np.sqrt(start**2 + u * slope * (2 * start + slope))
    share = np.where(root + start > 0, u * (2 * start + slope) / np.where(root + start > 0, root + start, 1.0), u)
    return from_line(problems.prior, (line[cell] + share * (line[cell + 1] - line[cell]))[:, None])


def _grid(problems: Problems, rng: np.random.Generator) -> tuple[Reals, Reals]:
    """Points of the unconstrained coordinate and their log posterior, refined until no cell holds much mass."""
    nothing = np.zeros((POINTS, 1))
    before = to_line(problems.prior, draw_conjugate(problems.family, problems.prior, nothing, nothing[:, 0], rng))[:, 0]
    reach = np.ptp(before) / 2
    line = np.linspace(before.min() - reach, before.max() + reach, POINTS)
    log = _log_posterior(problems, line)
    for _ in range(FINEST):
        density = np.exp(log - log.max())
        mass = np.diff(line) * (density[:-1] + density[1:]) / 2
        peak = np.r_[True, log[1:] >= log[:-1]] & np.r_[log[:-1] >= log[1:], True] & (log > log.max() - 1e4)
        coarse = mass > CELL * mass.sum()
        coarse |= (peak[:-1] | peak[1:]) & (np.abs(np.diff(log)) > 0.1)
        if not coarse.any():
            break
        middle = (line[:-1][coarse] + line[1:][coarse]) / 2
        where = np.searchsorted(line, middle)
        line, log = np.insert(line, where, middle), np.insert(log, where, _log_posterior(problems, middle))
    return line, log


def _log_posterior(problems: Problems, line: Reals) -> Reals:
    """The log density of the coordinate, up to a constant: prior times normal law convolved with Laplace noise."""
    theta = from_line(problems.prior, line[:, None])
    low, high = problems.family.support if problems.bounds is None else problems.bounds
    found = region_moments(problems.family, theta, low, high)
    n, b = problems.n[0], problems.scale[0, 0]
    deviation = np.sqrt(np.maximum(n * found.covariance()[:, 0, 0], 0.0))
    miss = problems.y[0, 0] - n * found.first[:, 0]
    return log_prior(problems.family, problems.prior, theta) + log_normal_laplace(miss, deviation, b)


def log_normal_laplace(x: Reals, deviation: Reals, scale: float) -> Reals:
    """The log density at x of a centred normal number plus Laplace noise of this scale, up to a constant."""
    sharp = np.maximum(deviation, 1e-9 * scale)
    z, ratio = x / sharp, sharp / scale
    return np.logaddexp(_one_side(z, ratio), _one_side(-z, ratio))


def _one_side(z: Reals, ratio: Reals) -> Reals:
    """ratio^2 / 2 - ratio z + log Phi(z - ratio), by erfcx where the terms would cancel."""
    from scipy.special import erfcx, log_ndtr

    gap = ratio - z
    scaled = np.log(erfcx(np.maximum(gap, 0.0) / np.sqrt(2)) / 2) - z**2 / 2
    with np.errstate(over="ignore"):
        plain = ratio * (ratio / 2 - z) + log_ndtr(np.maximum(-gap, 0.0))
    return np.where(gap > 0, scaled, plain)
