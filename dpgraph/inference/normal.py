"""Joint draws of all latent tables under normal noise in the residual basis: the method ``"normal"``, for many rows.

Least squares gives every residual R_A an estimate with variance sigma_A^2, and different residuals have independent
errors (MATHS 3.5). Under a flat prior on the tables and normal noise their posterior is that normal law, so latent
tables are drawn residual by residual, agree with each other by construction, and n is exact where it is public. Cells
below zero are set to zero, and the conditional tables are Dirichlet given the counts.

The cost does not depend on n. It is right where counts are well above their noise, whatever the shape of the noise,
since sums of many draws are nearly normal; where most cells are within their noise use ``"tables"`` or ``"records"``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpgraph.inference.consistency import residual_estimates
from dpgraph.inference.draws import PosteriorDraws
from dpgraph.inference.per_table import dirichlet_draws
from dpgraph.structure.basis import contrast_norms, ordered, subsets, table_of
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Reals

#: Cells of all families times draws that are held at once.
HELD = 1 << 23


def draw_by_normal(
    noisy: NoisyCounts | NoisyCoefficients,
    concentration: Mapping[str, Reals],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
) -> PosteriorDraws:
    """Independent joint draws of every conditional table.

    Args:
        noisy: Noisy counts or coefficients.
        concentration: The Dirichlet prior of each variable, axes (variable, *parents).
        rng: Randomness for post-processing.
        draws: How many.

    >>> from dpgraph.inference.evidence import concentration_tables
    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> from dpgraph.structure.network import Network
    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> noisy = NoisyCounts(network, {("rain",): [8000, 1800]}, {("rain",): DiscreteLaplace(3.0)}, n=9800)
    >>> made = draw_by_normal(noisy, concentration_tables(network, 1.0), rng=np.random.default_rng(0))
    >>> made.tables["rain"].shape
    (1, 1000, 2)
    """
    network = noisy.network
    estimates = residual_estimates(noisy)
    blocks = {block: (mean, float(np.sqrt(variance))) for block, (mean, variance) in estimates.items()}
    step = max(1, HELD // max(1, network.cell_count))
    parts: dict[str, list[Reals]] = {name: [] for name in network.domain.names}
    for start in range(0, draws, step):
        size = min(step, draws - start)
        latent = {
            block: contrast_norms(network.shape(block)) * (mean + spread * rng.standard_normal((size, *mean.shape)))
            for block, (mean, spread) in blocks.items()
        }
        for name in network.domain.names:
            family = network.family(name)
            near = {block: latent[block] for block in subsets(ordered(network, family))}
            counts = np.maximum(table_of(network, near, family, batch=size), 0.0)
            parts[name].append(dirichlet_draws(concentration[name] + counts, rng))
    tables = FrozenMap((name, np.concatenate(drawn)[None]) for name, drawn in parts.items())
    return PosteriorDraws(network, tables, "normal")
