"""Whether chains have mixed: split R-hat and effective sample size (Gelman et al. 2013, section 11.5)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Reals = npt.NDArray[np.float64]


def _split(chains: Reals) -> Reals:
    """Each chain's halves as chains of their own."""
    half = chains.shape[1] // 2
    return np.concatenate([chains[:, :half], chains[:, -half:]])


def split_r_hat(chains: Reals) -> float:
    """How much wider all chains together are than each by itself; 1 when they have mixed.

    Args:
        chains: Draws of one parameter, shape (chains, draws), at least four draws each.

    >>> round(split_r_hat(np.random.default_rng(0).normal(size=(4, 500))), 2)
    1.0
    """
    halves = _split(chains)
    length = halves.shape[1]
    within = halves.var(axis=1, ddof=1).mean()
    between = halves.mean(axis=1).var(ddof=1)
    return 1.0 if within == 0 else float(np.sqrt((length - 1) / length + between / within))


def effective_size(chains: Reals) -> float:
    """How many independent draws would say as much about the mean (Geyer's initial monotone sequence).

    Args:
        chains: Draws of one parameter, shape (chains, draws), at least four draws each.

    >>> 1000 < effective_size(np.random.default_rng(0).normal(size=(4, 500))) <= 2000
    True
    """
    halves = _split(chains)
    count, length = halves.shape
    centred = halves - halves.mean(axis=1, keepdims=True)
    spectrum = np.abs(np.fft.rfft(centred, 2 * length)) ** 2
    lagged = np.fft.irfft(spectrum)[:, :length].mean(axis=0) / length
    within = halves.var(axis=1, ddof=1).mean()
    pooled = within * (length - 1) / length + halves.mean(axis=1).var(ddof=1)
    if pooled <= 0:
        return float(count * length)
    correlation = 1 - (within - lagged * length / (length - 1)) / pooled
    correlation[0] = 1.0
    pairs = correlation[: length - length % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0]] if negative.size else pairs)
    return float(min(count * length, count * length / max(2 * pairs.sum() - 1, 1e-12)))
