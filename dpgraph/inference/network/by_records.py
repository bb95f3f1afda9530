"""The method ``"records"``: the exact posterior of a network, by Markov chains over its tables and the unseen records.

The target is p(theta, x | y), proportional to Dirichlet(theta) prod_i p(x_i | theta) prod_t law_t(y_t - s_t(x)), with
the rows x of the data set as latent variables. One sweep (proofs.md P55): theta given the records; an independent
proposal for each record; coupled moves of a row of theta and its records, without which chains at small epsilon do not
mix; and where the number of records n is private, records that come and go, under a flat prior on n = 0, 1, 2, ...

Nothing here sees private data: a chain that has not converged costs accuracy, never privacy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpgraph.inference.arguments import check_whole_number
from dpgraph.inference.network import _kernels
from dpgraph.inference.network._kernels import RECORDS, RESIZES, SHIFTS
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence
from dpgraph.inference.network.layout import kernel_layout, tables_from_flat
from dpgraph.inference.network.record_chains import Plan, Run, run_all
from dpgraph.privacy.records import InferenceError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Reals

MOVES = {"records": RECORDS, "shifts": SHIFTS, "resizes": RESIZES}


def draw_by_records(
    given: Evidence,
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
) -> PosteriorDraws:
    """Draws conditional probability tables from their exact posterior given a release, by Markov chains.

    A sweep costs O(n (variables + tables)) and memory is a byte or two for each variable of each record; chains run in
    threads. Ctrl-C stops between sweeps.

    Args:
        given: The released tables.
        concentration: The Dirichlet prior of every variable, axes (variable, *parents), above 0.
        rng: Randomness for post-processing; each chain gets a child of it.
        draws: How many of each chain to keep.
        burn_in: Sweeps before the first kept one; step sizes adapt here and nowhere else.
        chains: Independent chains, started from different perturbations of the release.
        passes: Coupled moves of every row in each sweep.
        thin: Sweeps for each kept draw.
        progress: Whether to show a bar on a terminal.
        compiled: False runs the same loops as plain Python: the same draws, a hundred times slower, for tests.

    Returns:
        Draws with method ``"records"``: the tables, n where it is private, the last records of the first chain, and
        the accepted shares after burn-in.

    Raises:
        InferenceError: If a number is out of range, or a concentration has the wrong shape or an entry not above 0.

    >>> from dpgraph.inference.network.evidence import concentration_tables, evidence
    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> noisy = NoisyCounts(network, {("rain",): [7, 3]}, {("rain",): DiscreteLaplace(1.0)}, n=10)
    >>> prior = concentration_tables(network, 1.0)
    >>> drawn = draw_by_records(evidence(noisy), prior, rng=np.random.default_rng(1), draws=200, burn_in=50)
    >>> drawn.tables["rain"].shape, round(float(drawn.mean().table("rain")[0]), 1)
    ((2, 200, 2), 0.7)
    """
    plan = Plan(draws, burn_in, passes, thin)
    _check(given.network, concentration, plan, chains)
    sweep = _kernels.compiled_sweep() if compiled else _kernels.sweep
    run = Run(given, kernel_layout(given, concentration), concentration, plan, sweep)
    done = run_all(run, rng.spawn(chains), progress)
    network = given.network
    first = done[0]
    columns = {name: first.last[:, v].astype(np.int64) for v, name in enumerate(network.order)}
    accepted = np.sum([chain.tally for chain in done], axis=0)
    return PosteriorDraws(
        network,
        FrozenMap(tables_from_flat(network, np.stack([chain.theta for chain in done]))),
        "records",
        n=None if given.n is not None else np.stack([chain.n for chain in done]),
        records=FrozenMap((name, columns[name]) for name in network.domain.names),
        acceptance={move: float(accepted[at] / accepted[at + 1]) for move, at in MOVES.items() if accepted[at + 1] > 0},
    )


def _check(network: Network, concentration: Mapping[str, Reals], plan: Plan, chains: int) -> None:
    """Checks the lengths of chains and the shapes of the prior."""
    lowest = {"draws": 1, "burn_in": 0, "passes": 0, "thin": 1, "chains": 1}
    for name, value in {**vars(plan), "chains": chains}.items():
        check_whole_number(name, value, lowest[name])
    for name in network.domain.names:
        table, shape = np.asarray(concentration[name]), network.shape(network.family(name))
        if table.shape != shape or not (np.isfinite(table).all() and (table > 0).all()):
            raise InferenceError(f"the concentration of {name!r} must be finite, above 0 and of shape {shape}")
