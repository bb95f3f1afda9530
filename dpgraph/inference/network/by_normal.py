"""The method ``"normal"``: joint draws of all tables under normal noise in the residual basis, for many rows.

Least squares gives every residual R_A an estimate with variance sigma_A^2, and different residuals have independent
errors (proofs.md P30). Under a flat prior on the tables and normal noise their posterior is that normal law, so latent
tables are drawn residual by residual, agree with each other by construction, and n is exact where it is public. Cells
below zero are set to zero, and the conditional tables are Dirichlet given the counts.

With ``shrink`` an interaction, the residuals of two or more variables together, has an unknown size that is learned
from it: R_A ~ N(0, tau^2), with the share B = sigma_A^2 / (sigma_A^2 + tau^2) uniform on (0, 1) (Strawderman 1971). B
given the estimate is a truncated Gamma law and is drawn exactly; R_A given B is N((1 - B) R, (1 - B) sigma_A^2). A cell
that falls below zero is drawn again from its normal law above zero, so tables agree closely instead of exactly. This is
a stronger prior than the Dirichlet alone, that variables are nearly independent unless the release says otherwise, and
better where ratios matter and noise is large, as in classification.

The cost does not depend on n. It is right where counts are well above their noise, whatever the shape of the noise,
since sums of many draws are nearly normal; where most cells are within their noise use ``"tables"`` or ``"records"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import gammainc, gammaincinv, log_ndtr, ndtri_exp

from dpgraph.inference.network.by_tables import dirichlet_draws
from dpgraph.inference.network.consistency import residual_estimates
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.structure.basis import cell_variance, contrast_norms, ordered, subsets, table_of
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import Several
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Reals

#: Cells of all families times draws that are held at once.
HELD = 1 << 23


def draw_by_normal(
    noisy: NoisyCounts | NoisyCoefficients | Several,
    concentration: Mapping[str, Reals],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    shrink: bool = False,
) -> PosteriorDraws:
    """Independent joint draws of every conditional table.

    Args:
        noisy: Noisy counts or coefficients, of one release or of several.
        concentration: The Dirichlet prior of each variable, axes (variable, *parents).
        rng: Randomness for post-processing.
        draws: How many.
        shrink: Whether the sizes of interactions are learned.

    >>> from dpgraph.inference.network.evidence import concentration_tables
    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> noisy = NoisyCounts(network, {("rain",): [8000, 1800]}, {("rain",): DiscreteLaplace(3.0)}, n=9800)
    >>> made = draw_by_normal(noisy, concentration_tables(network, 1.0), rng=np.random.default_rng(0))
    >>> made.tables["rain"].shape
    (1, 1000, 2)
    """
    network, estimates = noisy.network, residual_estimates(noisy)
    assert network is not None
    step = max(1, HELD // max(1, network.cell_count))
    parts: dict[str, list[Reals]] = {name: [] for name in network.domain.names}
    sums = {name: np.zeros(network.shape(network.family(name))) for name in network.domain.names}
    for start in range(0, draws, step):
        size = min(step, draws - start)
        latent = {
            block: _residuals(mean, variance, rng, size, shrink=shrink and len(block) > 1)
            for block, (mean, variance) in estimates.items()
        }
        for name in network.domain.names:
            counts = _counts(network, network.family(name), latent, rng, redraw=shrink)
            posterior = concentration[name] + counts
            parts[name].append(dirichlet_draws(posterior, rng))
            sums[name] += (posterior / posterior.sum(axis=1, keepdims=True)).sum(axis=0)
    tables = FrozenMap((name, np.concatenate(drawn)[None]) for name, drawn in parts.items())
    means = FrozenMap((name, total / draws) for name, total in sums.items())
    return PosteriorDraws(network, tables, "normal", means=means)


@dataclass(frozen=True, eq=False)
class _Latent:
    """Draws of one block: its residuals and their means, leading axis the draw, and the variance of each draw's law."""

    values: Reals
    mean: Reals
    variance: Reals


def _residuals(mean: Reals, variance: float, rng: np.random.Generator, size: int, *, shrink: bool) -> _Latent:
    """Draws of one block."""
    kept = 1 - _shrinkage(mean, variance, rng, size) if shrink and variance > 0 else np.ones(size)
    shaped = kept.reshape(-1, *[1] * mean.ndim)
    centre = shaped * mean
    values = centre + np.sqrt(shaped * variance) * rng.standard_normal((size, *mean.shape))
    return _Latent(values, centre, kept * variance)


def _shrinkage(mean: Reals, variance: float, rng: np.random.Generator, size: int) -> Reals:
    """Draws of B: density proportional to B^(d / 2) exp(-B ||R||^2 / (2 sigma^2)) on (0, 1), by inversion."""
    power, rate = mean.size / 2 + 1, float((mean**2).sum()) / (2 * variance)
    uniform = rng.random(size)
    below = float(gammainc(power, rate))
    if below < 1e-290:  # all mass is next to 1, where exp(-rate B) is B^(-rate) but for a constant
        return uniform ** (1 / (power - rate))
    return np.minimum(gammaincinv(power, uniform * below) / rate, 1.0)


def _counts(
    network: Network, family: Family, latent: Mapping[Family, _Latent], rng: np.random.Generator, *, redraw: bool
) -> Reals:
    """Non-negative counts of a family, leading axis the draw."""
    blocks = subsets(ordered(network, family))
    size = len(latent[()].values)

    def rebuilt(residuals: Mapping[Family, Reals]) -> Reals:
        scaled = {block: contrast_norms(network.shape(block)) * values for block, values in residuals.items()}
        return table_of(network, scaled, family, batch=size)

    counts = rebuilt({block: latent[block].values for block in blocks})
    if not redraw or not (counts < 0).any():
        return np.maximum(counts, 0.0)
    centre = rebuilt({block: latent[block].mean for block in blocks})
    spread = np.sqrt(cell_variance(network, {block: latent[block].variance for block in blocks}, family))
    spread = np.maximum(spread, 1e-12).reshape(-1, *[1] * (centre.ndim - 1))
    tail = np.log(rng.random(centre.shape)) + log_ndtr(centre / spread)
    positive = np.where(counts < 0, np.maximum(centre - spread * ndtri_exp(tail), 0.0), counts)
    axes = tuple(range(1, centre.ndim))
    total = positive.sum(axis=axes, keepdims=True)
    rows = np.maximum(latent[()].values, 0.0).reshape(-1, *[1] * (centre.ndim - 1))
    return positive * np.divide(rows, total, out=np.zeros_like(total), where=total > 0)
