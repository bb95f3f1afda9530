"""The plug-in posterior: released counts treated as if they were exact.

Conjugate and instant, and overconfident, because the noise is not in it: each row of a conditional probability table
is Dirichlet(prior + counts). Zhang et al. 2016, Example 1 and Algorithm 1, line by line, is ``counts="clipped"`` on a
release with ``tables="families", allocation="uniform"``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpgraph import memory
from dpgraph.inference.arguments import check_above_zero, check_no_rules, generator, tails
from dpgraph.inference.network.consistency import family_variances, reconcile
from dpgraph.inference.network.evidence import concentration_tables
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.privacy.display import as_html, summary
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.joint import JointCounts, PooledCounts, Several
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities, Reals, Tables, of_every_variable
from dpgraph.waiting import waiting

#: Bytes that the plug-in posterior takes for each cell and each family while it is made, as measured.
BYTES_PER_CELL, BYTES_PER_FAMILY = 170, 2000


@dataclass(frozen=True)
class DirichletPosterior:
    """Independent Dirichlet laws, one for each parent configuration of each variable.

    ``concentration[name]`` has axes (variable, *parents); entries are above 0, or 0 where the network's rules say so.
    """

    network: Network
    concentration: FrozenMap[str, Reals]
    provenance: Provenance | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "concentration", of_every_variable(self.network, self.concentration, "concentrations"))
        for name, table in self.concentration.items():
            allowed = self.network.allowed(name)
            above = (table > 0) == (allowed is None or allowed)
            if not (np.isfinite(table).all() and (table >= 0).all() and above.all()):
                raise NetworkError(
                    f"the concentrations of {name!r} must be positive and finite, and 0 where rules say so"
                )

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

    def interval(self, probability: float = 0.9) -> dict[str, Reals]:
        """Central intervals of every entry, axes (low and high, variable, *parents): its law is a beta distribution.

        They take the released numbers as exact, and are too narrow where the noise matters.

        Raises:
            InferenceError: If the probability is not strictly between 0 and 1.
        """
        from scipy.special import betaincinv

        ends = np.array(tails(probability))
        found: dict[str, Reals] = {}
        for name, table in self.concentration.items():
            rest = np.maximum(table.sum(axis=0) - table, 1e-12)
            inside = betaincinv(np.where(table > 0, table, 1.0), rest, ends.reshape(2, *[1] * table.ndim))
            found[name] = np.where(table > 0, inside, 0.0)
        return found

    def sample(self, rng: np.random.Generator | int, size: int = 1) -> tuple[Probabilities, ...]:
        """Independent draws from the posterior.

        Args:
            rng: Randomness for post-processing, or a seed for it; the release is already public.
            size: How many draws.
        """
        drawn = self.sample_tables(generator(rng), size)
        return tuple(self._probabilities({name: tables[i] for name, tables in drawn.items()}) for i in range(size))

    def sample_tables(self, rng: np.random.Generator, size: int) -> dict[str, Reals]:
        """Independent draws of every table, for each variable axes (draw, variable, *parents)."""
        every = self.concentration.items()
        return {name: dirichlet_draws(np.broadcast_to(table, (size, *table.shape)), rng) for name, table in every}

    def _probabilities(self, unnormalised: Mapping[str, Reals]) -> Probabilities:
        tables = FrozenMap((name, table / table.sum(axis=0)) for name, table in unnormalised.items())
        return Probabilities(self.network, tables, self.provenance)

    def __repr__(self) -> str:
        return summary("DirichletPosterior", self.network, self.provenance)

    def _repr_html_(self) -> str:
        words = "mean(), mode() and sample(rng, size) give probabilities"
        return as_html(f"Dirichlet posterior of {self.network!r}", notes=[n for n in (words, self.provenance) if n])


def plug_in_posterior(
    noisy: NoisyCounts | NoisyCoefficients | Several | Tables,
    *,
    prior: float = 1.0,
    counts: str = "nearest",
    progress: bool = False,
) -> DirichletPosterior:
    """Dirichlet laws of every probability table, the released counts taken as exact (``dg.methods.PlugIn``)."""
    check_above_zero("prior", prior)
    graph = getattr(noisy, "network", None)
    if not isinstance(noisy, NoisyCounts | NoisyCoefficients | Several | Tables) or graph is None:
        raise InferenceError(f"a plug-in posterior takes noisy counts or coefficients; got {type(noisy).__name__}")
    check_posterior(graph)
    if isinstance(noisy, Tables):
        plugged = {name: np.maximum(noisy.family(name), 0.0) for name in graph.domain.names}
    else:
        with waiting("fitting", progress):
            plugged = _PLUG_INS[counts](noisy)
    before = concentration_tables(graph, prior)
    concentration = FrozenMap((name, before[name] + table * (before[name] > 0)) for name, table in plugged.items())
    return DirichletPosterior(graph, concentration, getattr(noisy, "provenance", None))


def check_posterior(network: Network) -> None:
    """Refuses a plug-in posterior that there is no room for; whoever spends before calling ``posterior`` asks this."""
    way_out = "learn a network of fewer or smaller families"
    memory.check(posterior_bytes(network), "this posterior", way_out, InferenceError)


def posterior_bytes(network: Network) -> int:
    """About how much memory the plug-in posterior of a network takes while it is made."""
    return network.cell_count * BYTES_PER_CELL + len(network.families) * BYTES_PER_FAMILY


def _nearest(noisy: Any) -> dict[str, Reals]:
    tables = reconcile(noisy, nonnegative=True)
    return {name: np.maximum(tables.family(name), 0.0) for name in noisy.network.domain.names}


def _clipped(noisy: Any) -> dict[str, Reals]:
    names = noisy.network.domain.names
    if isinstance(noisy, JointCounts | PooledCounts):
        raise InferenceError('counts="clipped" cuts the tables of one release; several have "nearest" and "expected"')
    if isinstance(noisy, NoisyCounts):
        tables = noisy.clipped()
        return {name: tables.family(name) for name in names}
    tables = noisy.tables()
    highest = None if noisy.n is None else noisy.n + noisy.pseudo_records
    return {name: np.clip(tables.family(name), 0, highest) for name in names}


def _expected(noisy: Any) -> dict[str, Reals]:
    """E[s | y] = y + sd phi(y / sd) / Phi(y / sd): a flat prior on s >= 0, normal noise; then scaled to the total.

    The ratio phi / Phi is written with erfcx, which neither overflows nor cancels far below zero.
    """
    from scipy.special import erfcx

    check_no_rules(noisy.network, 'counts="expected"', 'counts="nearest" does')
    tables = reconcile(noisy, shrink=True)
    network = tables.network
    variance = family_variances(noisy)
    expected: dict[str, Reals] = {}
    for name in network.domain.names:
        estimate, spread = tables.family(name), np.sqrt(variance[network.family(name)])
        if spread > 0:
            hazard = np.sqrt(2 / np.pi) / erfcx(-estimate / spread / np.sqrt(2))
            estimate = np.maximum(estimate + spread * hazard, 0.0)
        total = estimate.sum()
        expected[name] = estimate * (max(tables.n, 0.0) / total) if total > 0 else np.zeros_like(estimate)
    return expected


_PLUG_INS = {"nearest": _nearest, "expected": _expected, "clipped": _clipped}
