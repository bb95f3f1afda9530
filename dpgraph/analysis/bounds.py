"""Error bounds of Zhang et al. 2016, section 3.1, and the exact values they bound.

All are about Algorithm 1: discrete Laplace noise of one scale on every family count, clipped to [0, n]. None looks at
data: counts are hypothetical, or noisy ones that are already public. Exact values of private counts must not be shown.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.arrays import Reals
from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.network import Network


@dataclass(frozen=True)
class NoiseBound:
    """A bound on the error of all noisy counts of a release, which holds with probability 1 - delta (Proposition 1).

    ``exact`` is the smallest such whole number; ``union`` is the paper's union bound b ln(M / delta).
    """

    exact: int
    union: float


def count_error_bound(cells: int, scale: float, delta: float) -> NoiseBound:
    """A bound on the largest error of any noisy count, which holds with probability 1 - delta.

    Zhang et al. 2016, Proposition 1; the exact quantile stands beside the paper's union bound.

    Args:
        cells: M, the number of noisy counts.
        scale: b, the scale of the discrete Laplace noise; 2 |V| / epsilon in the paper.
        delta: The probability of exceeding the bound.

    >>> count_error_bound(cells=36, scale=16.0, delta=0.1)
    NoiseBound(exact=93, union=94.1776645032025)
    """
    if cells < 1 or not scale > 0 or not 0 < delta < 1:
        raise ReleaseError(
            f"count_error_bound needs cells >= 1, scale > 0 and 0 < delta < 1; got {cells}, {scale}, {delta}"
        )
    tail = -math.expm1(math.log1p(-delta) / cells)
    # P(|Z| > z) = 2 q^(z + 1) / (1 + q) <= tail, with q = exp(-1 / b).
    q = math.exp(-1 / scale)
    exact = math.ceil(-scale * math.log(tail * (1 + q) / 2) - 1 - 1e-12)
    return NoiseBound(max(0, exact), scale * math.log(cells / delta))


def dirichlet_divergence(one: Reals, other: Reals) -> float:
    """The Kullback-Leibler divergence KL(Dir(one) || Dir(other)) in nats (proofs.md P36)."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    return float(log_gamma_divergence(other, one).sum() - log_gamma_divergence(other.sum(), one.sum()))


def expected_divergence(counts: npt.ArrayLike, scale: float, n: int, prior: float = 1.0) -> float:
    """The mean of KL(Dir(prior + counts) || Dir(prior + noisy counts)) in nats, exact, for one parent configuration.

    The noisy counts are clipped to [0, n]. The sum over each cell's law needs one pass; the row total's law is the
    convolution of the cells' laws.

    Args:
        counts: Hypothetical counts of the levels.
        scale: The scale of the discrete Laplace noise.
        n: The clipping bound, the number of rows.
        prior: The Dirichlet concentration of every cell.
    """
    true = np.asarray(counts, dtype=np.int64)
    if true.ndim != 1 or true.min() < 0 or true.max() > n:
        raise ReleaseError("counts must be a list of whole numbers between 0 and n")
    support = np.arange(n + 1)
    law, total = np.ones(1), 0.0
    for count in true:
        mass = _clipped_mass(int(count), scale, n)
        total += float(mass @ log_gamma_divergence(prior + support, prior + count))
        law = _convolved(law, mass)
    whole = prior * len(true)
    sums = np.arange(len(law))
    return total - float(np.maximum(law, 0.0) @ log_gamma_divergence(whole + sums, whole + true.sum()))


@dataclass(frozen=True)
class DivergenceBound:
    """Theorem 1: bounds in nats on the divergence of the private posterior from the exact one.

    ``expectation`` bounds its mean and ``high_probability`` is not exceeded with probability 1 - delta.
    """

    expectation: float
    high_probability: float


def divergence_bound(network: Network, scale: float, n: int, delta: float, prior: float = 2.0) -> DivergenceBound:
    """The bound of Zhang et al. 2016, Theorem 1, as best its constants can be recovered (proofs.md P37, uncertain).

    It grows as n ln n while the truth falls as 1 / n, so it says nothing useful; ``expected_divergence`` is exact.
    The refinement for n >= scale, which replaces the leading n, is applied.
    """
    _check_theorem(scale, n, delta, prior, least=2.0)
    mean = spread = 0.0
    lead = min(float(n), scale + 0.5 * n * math.exp(-n / scale)) if n >= scale else float(n)
    for family in network.families:
        levels, rows = network.domain.sizes[family[0]], network.cells(family[1:])
        size = levels * math.log(prior + n + 1)
        mean += rows * lead * size
        spread += rows * levels * ((2 * n + 1) * size) ** 2
    return DivergenceBound(mean, mean + math.sqrt(0.5 * spread * math.log(1 / delta)))


def corrected_divergence_bound(
    network: Network, scale: float, n: int, delta: float, prior: float = 1.0
) -> DivergenceBound:
    """What can be proved in place of Theorem 1: E KL <= sum E|Z| [psi(prior + n) - psi(prior)] over all cells.

    One noise draw moves the sum by at most n [psi(A + (K - 1) n) - psi(prior)], A = K prior, so McDiarmid's inequality
    gives the second bound. Still far above ``expected_divergence``, which should be used instead.
    """
    from scipy.special import psi

    _check_theorem(scale, n, delta, prior, least=0.0)
    q = math.exp(-1 / scale)
    magnitude = 2 * q / (1 - q * q)
    mean = spread = 0.0
    for family in network.families:
        levels, cells = network.domain.sizes[family[0]], network.cells(family)
        mean += cells * magnitude * float(psi(prior + n) - psi(prior))
        spread += cells * (n * float(psi(levels * prior + (levels - 1) * n) - psi(prior))) ** 2
    return DivergenceBound(mean, mean + math.sqrt(0.5 * spread * math.log(1 / delta)))


def _check_theorem(scale: float, n: int, delta: float, prior: float, *, least: float) -> None:
    if not (scale > 0 and n >= 1 and 0 < delta < 1 and prior > 0 and prior >= least):
        raise ReleaseError(
            f"needs scale > 0, n >= 1, 0 < delta < 1, prior >= {least}; got {scale}, {n}, {delta}, {prior}"
        )


def log_gamma_divergence(y: npt.ArrayLike, x: npt.ArrayLike) -> Reals:
    """The Bregman divergence of ln Gamma: ln Gamma(y) - ln Gamma(x) - psi(x) (y - x), at least 0."""
    from scipy.special import gammaln, psi

    y, x = np.asarray(y, float), np.asarray(x, float)
    return gammaln(y) - gammaln(x) - psi(x) * (y - x)


def _convolved(one: Reals, other: Reals) -> Reals:
    """The law of a sum of two independent whole numbers, by Fourier transforms."""
    length = len(one) + len(other) - 1
    room = 1 << length.bit_length()
    return np.fft.irfft(np.fft.rfft(one, room) * np.fft.rfft(other, room), room)[:length]


def _clipped_mass(count: int, scale: float, n: int) -> Reals:
    """The law of a count plus discrete Laplace noise, clipped to [0, n]: the tails are at the ends."""
    q = math.exp(-1 / scale)
    mass = (1 - q) / (1 + q) * q ** np.abs(np.arange(n + 1) - float(count))
    mass[0], mass[n] = q**count / (1 + q), q ** (n - count) / (1 + q)
    return mass
