"""Exact posterior of a whole network from its noisy tables, by augmentation with the unseen records.

The target is p(theta, x | y), proportional to Dirichlet(theta) prod_i p(x_i | theta) prod_t law_t(y_t - s_t(x)), with
the rows x of the data set as latent variables. One sweep (MATHS 8(B)): theta given the records; an independent proposal
for each record; coupled moves of a row of theta and its records, without which chains at small epsilon do not mix; and
where the number of records n is private, records that come and go, under a flat prior on n = 0, 1, 2, ...

Nothing here sees private data: a chain that has not converged costs accuracy, never privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dpgraph.inference import _kernels
from dpgraph.inference._kernels import RECORDS, RESIZES, SHIFTS
from dpgraph.inference.draws import PosteriorDraws
from dpgraph.inference.evidence import Evidence
from dpgraph.inference.layout import layout_of, unflattened
from dpgraph.inference.record_chains import Plan, Run, run_all
from dpgraph.privacy.records import ReleaseError
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
    fast: bool | None = None,
) -> PosteriorDraws:
    """Draws conditional probability tables from their exact posterior given a release, by Markov chains.

    A sweep costs O(n (variables + tables)) and memory is a byte or two for each variable of each record; chains run in
    threads. Plain Python is some hundred times slower than numba and gives the same draws. Ctrl-C stops between sweeps.

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
        fast: Whether to compile with numba; None where it is installed.

    Returns:
        Draws with method ``"records"``: the tables, n where it is private, the last records of the first chain, and
        the accepted shares after burn-in.

    Raises:
        ReleaseError: If a number is out of range, a concentration has the wrong shape or an entry not above 0, or
            numba is asked for and not installed.

    >>> from dpgraph.inference.evidence import concentration_tables, evidence
    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> network = Network.of({"rain": ["no", "yes"]}, {})
    >>> noisy = NoisyCounts(network, {("rain",): [7, 3]}, {("rain",): DiscreteLaplace(1.0)}, n=10)
    >>> prior = concentration_tables(network, 1.0)
    >>> drawn = draw_by_records(evidence(noisy), prior, rng=np.random.default_rng(1), draws=200, burn_in=50, fast=False)
    >>> drawn.tables["rain"].shape, round(float(drawn.mean().table("rain")[0]), 1)
    ((2, 200, 2), 0.7)
    """
    plan = Plan(draws, burn_in, passes, thin)
    _check(given.network, concentration, plan, chains)
    run = Run(given, layout_of(given, concentration), concentration, plan, _sweep(fast))
    done = run_all(run, rng.spawn(chains), progress)
    network = given.network
    first = done[0]
    columns = {name: first.last[:, v].astype(np.int64) for v, name in enumerate(network.order)}
    accepted = np.sum([chain.tally for chain in done], axis=0)
    return PosteriorDraws(
        network,
        FrozenMap(unflattened(network, np.stack([chain.theta for chain in done]))),
        "records",
        n=None if given.n is not None else np.stack([chain.n for chain in done]),
        records=FrozenMap((name, columns[name]) for name in network.domain.names),
        acceptance={move: float(accepted[at] / accepted[at + 1]) for move, at in MOVES.items() if accepted[at + 1] > 0},
    )


def _sweep(fast: bool | None) -> Callable[..., int]:
    """The compiled sweep, or the plain one where numba is not wanted or not there."""
    if fast is False:
        return _kernels.sweep
    try:
        return _kernels.compiled_sweep()
    except ImportError:
        if fast:
            raise ReleaseError("fast=True needs numba; install dpgraph[fast]") from None
        return _kernels.sweep


def _check(network: Network, concentration: Mapping[str, Reals], plan: Plan, chains: int) -> None:
    """Refuses what cannot be run."""
    lowest = {"draws": 1, "burn_in": 0, "passes": 0, "thin": 1, "chains": 1}
    for name, value in {**vars(plan), "chains": chains}.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < lowest[name]:
            raise ReleaseError(f"{name} must be a whole number, at least {lowest[name]}; got {value!r}")
    for name in network.domain.names:
        table, shape = np.asarray(concentration[name]), network.shape(network.family(name))
        if table.shape != shape or not (np.isfinite(table).all() and (table > 0).all()):
            raise ReleaseError(f"the concentration of {name!r} must be finite, above 0 and of shape {shape}")
