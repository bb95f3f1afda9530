"""The method ``"records"``: the exact posterior of a network, by Markov chains over its tables and the unseen records.

The target is p(theta, x | y), proportional to Dirichlet(theta) prod_i p(x_i | theta) prod_t law_t(y_t - s_t(x)), with
the rows x of the data set as latent variables. One sweep (proofs.md P55): theta given the records; an independent
proposal for each record; coupled moves of a row of theta and its records, without which chains at small epsilon do not
mix; and where the number of records n is private, records that come and go, under a flat prior on n = 0, 1, 2, ...

Releases of different rows have latent rows each (P76). Given the family counts of the others' latent rows, those of
one release and theta have the posterior of that release alone under a Dirichlet prior with these counts added; so
releases take turns, each with a sweep under that prior. A prior that learns reads the counts of all rows (P80).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dpgraph.inference.arguments import check_whole_number
from dpgraph.inference.chains import Plan, run_chains
from dpgraph.inference.network import _kernels
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence
from dpgraph.inference.network.layout import tables_from_flat
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.record_chains import RecordChain, Settings, accepted_shares
from dpgraph.inference.progress import progress_bar
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Reals


def draw_by_records(
    given: Evidence | Sequence[Evidence],
    concentration: Mapping[str, Reals],
    *,
    rng: np.random.Generator,
    draws: int = 1000,
    burn_in: int = 500,
    chains: int = 2,
    passes: int = 2,
    thin: int = 1,
    progress: bool = False,
    compiled: bool = True,
    hierarchy: HierarchicalPrior | None = None,
) -> PosteriorDraws:
    """Draws conditional probability tables from their exact posterior given a release, by Markov chains.

    A sweep costs O(n (variables + tables)) and memory is a byte or two for each variable of each record; chains run in
    threads. Ctrl-C stops between sweeps.

    Args:
        given: The released tables; or a sequence of those of several data sets with different rows.
        concentration: The Dirichlet prior of every variable, axes (variable, *parents), above 0.
        rng: Randomness for post-processing; each chain gets a child of it.
        draws: How many of each chain to keep.
        burn_in: Sweeps before the first kept one; step sizes adapt here and nowhere else.
        chains: Independent chains, started from different perturbations of the release.
        passes: Coupled moves of every row in each sweep.
        thin: Sweeps for each kept draw.
        progress: Whether to show a bar on a terminal.
        hierarchy: Where concentrations and centres are learned, their prior; ``concentration`` is then that of
            variables without parents, and where chains start.
        compiled: False runs the same loops as plain Python: the same draws, a hundred times slower, for tests.

    Returns:
        Draws with method ``"records"``: the tables, the number of latent rows of all releases where one has a private
        number, the last records of the first chain, and the accepted shares after burn-in.

    Raises:
        InferenceError: If a number is out of range, or a concentration has the wrong shape or an entry not above 0.

    >>> from dpgraph.inference.network.evidence import concentration_tables, evidence
    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> coin = Network.of({"coin": ["heads", "tails"]}, {})
    >>> law, prior = {("coin",): DiscreteLaplace(1.0)}, concentration_tables(coin, 1.0)
    >>> may, june = (evidence(NoisyCounts(coin, {("coin",): y}, law, n)) for y, n in (([7, 3], 10), ([15, 5], 20)))
    >>> settings = {"rng": np.random.default_rng(1), "draws": 200, "burn_in": 50}
    >>> [round(float(draw_by_records(one, prior, **settings).mean().table("coin")[0]), 1) for one in (may, [may, june])]
    [0.7, 0.7]
    """
    parts = (given,) if isinstance(given, Evidence) else tuple(given)
    network, plan = parts[0].network, Plan(draws, burn_in, thin)
    _check(network, concentration, {**vars(plan), "passes": passes, "chains": chains})
    sweep = _kernels.compiled_sweep() if compiled else _kernels.sweep
    relearn = _kernels.compiled_relearned() if compiled else _kernels.relearned
    settings = Settings(parts, concentration, plan, passes, sweep, relearn, hierarchy)
    with progress_bar(progress, plan.sweeps, "sweeps of each chain") as tick:
        done = run_chains(lambda _, own: RecordChain(settings, own), plan, rng.spawn(chains), tick)
    last = np.concatenate([one.records[: one.n] for one in done[0].latent])
    columns = {name: last[:, v].astype(np.int64) for v, name in enumerate(network.order)}
    means = np.mean([chain.mean for chain in done], axis=0)
    return PosteriorDraws(
        network,
        FrozenMap(tables_from_flat(network, np.stack([chain.theta for chain in done]))),
        "records",
        n=None if all(one.n is not None for one in parts) else np.stack([chain.n for chain in done]),
        records=FrozenMap((name, columns[name]) for name in network.domain.names),
        means=FrozenMap(tables_from_flat(network, means)),
        acceptance=accepted_shares([chain.tally for chain in done]),
    )


def _check(network: Network, concentration: Mapping[str, Reals], numbers: Mapping[str, int]) -> None:
    """Checks the lengths of chains and the shapes of the prior."""
    for name, value in numbers.items():
        check_whole_number(name, value, 0 if name in ("burn_in", "passes") else 1)
    for name in network.domain.names:
        table, shape = np.asarray(concentration[name]), network.shape(network.family(name))
        if table.shape != shape or not (np.isfinite(table).all() and (table > 0).all()):
            raise InferenceError(f"the concentration of {name!r} must be finite, above 0 and of shape {shape}")
