"""The plug-in posterior: released counts treated as if they were exact.

Conjugate and instant, and overconfident, because the noise is not in it: each row of a conditional probability table
is Dirichlet(prior + counts). Zhang et al. 2016, Example 1 and Algorithm 1, line by line, is ``consistency=False`` on a
release with ``tables="families", allocation="uniform"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpgraph.inference.consistency import consistent
from dpgraph.privacy.records import Provenance, Release, ReleaseError, released_value
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap, frozen_array
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCounts, Probabilities, Reals, Tables


@dataclass(frozen=True)
class DirichletPosterior:
    """Independent Dirichlet laws, one for each parent configuration of each variable.

    ``concentration[name]`` has axes (variable, *parents) and positive entries.
    """

    network: Network
    concentration: FrozenMap[str, Reals]
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        frozen: dict[str, Reals] = {}
        for name in self.network.domain.names:
            table = frozen_array(self.concentration[name], np.float64)
            if table.shape != self.network.shape(self.network.family(name)):
                raise NetworkError(f"the concentrations of {name!r} have the wrong shape {table.shape}")
            if not (np.isfinite(table).all() and (table > 0).all()):
                raise NetworkError(f"the concentrations of {name!r} must be positive and finite")
            frozen[name] = table
        object.__setattr__(self, "concentration", FrozenMap(frozen))

    def mean(self) -> Probabilities:
        """The posterior mean, which is also the posterior predictive distribution of one more row."""
        return self._probabilities(self.concentration)

    def mode(self) -> Probabilities:
        """The posterior mode where every concentration is at least 1, its boundary limit elsewhere.

        A row whose concentrations are all at most 1 has no single mode; its mean is given.
        """
        modes: dict[str, Reals] = {}
        for name, table in self.concentration.items():
            excess = np.maximum(table - 1, 0.0)
            modes[name] = np.where(excess.sum(axis=0) > 0, excess, table)
        return self._probabilities(modes)

    def sample(self, rng: np.random.Generator, size: int = 1) -> tuple[Probabilities, ...]:
        """Independent draws from the posterior.

        Args:
            rng: Randomness for post-processing; the release is already public, so a seed is fine here.
            size: How many draws.
        """
        return tuple(self._probabilities(self._draw(rng)) for _ in range(size))

    def _draw(self, rng: np.random.Generator) -> dict[str, Reals]:
        """Gamma draws in log space, so that small concentrations do not underflow to an empty row."""
        draws: dict[str, Reals] = {}
        for name, table in self.concentration.items():
            log_gamma = np.log(rng.standard_gamma(table + 1)) + np.log(rng.random(table.shape)) / table
            draws[name] = np.exp(log_gamma - log_gamma.max(axis=0))
        return draws

    def _probabilities(self, unnormalised: Mapping[str, Reals]) -> Probabilities:
        tables = FrozenMap((name, table / table.sum(axis=0)) for name, table in unnormalised.items())
        return Probabilities(self.network, tables, self.provenance)


def posterior(
    noisy: NoisyCounts | Tables | Release, *, prior: float = 1.0, consistency: bool = True
) -> DirichletPosterior:
    """The plug-in posterior of every conditional probability table, given released counts.

    Args:
        noisy: A release of noisy counts, its value, or tables already made consistent.
        prior: The Dirichlet concentration of every cell before any row, above 0.
        consistency: Reconcile the noisy tables by least squares first, then make them non-negative. False clips
            each table by itself, as Zhang et al. 2016 do.

    Raises:
        ReleaseError: If the prior is not a finite number above 0, or the value is not of noisy counts.

    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> noisy = NoisyCounts(network, {("rain",): [8, 2]}, {("rain",): DiscreteLaplace(1.0)}, n=10)
    >>> posterior(noisy).mean().table("rain")
    array([0.75, 0.25])
    """
    value, provenance = released_value(noisy)
    if isinstance(prior, bool) or not isinstance(prior, int | float) or not 0 < prior < np.inf:
        raise ReleaseError(f"prior must be a finite number above 0; got {prior!r}")
    if isinstance(value, NoisyCounts):
        tables = consistent(value, nonnegative=True) if consistency else value.clipped()
    elif isinstance(value, Tables):
        tables, provenance = value, provenance or value.provenance
    else:
        raise ReleaseError(f"posterior takes noisy counts or their release; got {type(value).__name__}")
    network = tables.network
    counts = {name: np.maximum(tables.family(name), 0.0) for name in network.domain.names}
    concentration = FrozenMap((name, prior + table) for name, table in counts.items())
    return DirichletPosterior(network, concentration, provenance)
