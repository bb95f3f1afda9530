"""Exact posterior of a whole network from its noisy tables, by augmentation with the unseen records.

The target is p(theta, x | y), proportional to Dirichlet(theta) prod_i p(x_i | theta) prod_t law_t(y_t - s_t(x)), with
the rows x of the data set as latent variables. One sweep (MATHS 8(B)): theta given the records; an independent proposal
for each record; coupled moves of a row of theta and its records, without which chains at small epsilon do not mix; and
where the number of records n is private, records that come and go, under a flat prior on n = 0, 1, 2, ...

Nothing here sees private data: a chain that has not converged costs accuracy, never privacy.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference import _kernels
from dpgraph.inference._kernels import LEVELS, RECORDS, RESIZES, SHIFTS, THETA, Layout
from dpgraph.inference.draws import PosteriorDraws
from dpgraph.inference.evidence import Evidence, counted, rows_estimate
from dpgraph.inference.layout import flattened, layout_of, unflattened
from dpgraph.inference.starts import starting_records
from dpgraph.privacy.records import ReleaseError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Reals

#: The share of accepted proposals that step sizes are adapted to while a chain burns in.
WANTED_ACCEPTANCE = 0.35
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
    >>> drawn.tables["rain"].shape, 0.6 < drawn.mean().table("rain")[0] < 0.72
    ((2, 200, 2), True)
    """
    plan = _Plan(draws, burn_in, passes, thin)
    _check(given.network, concentration, plan, chains)
    run = _Run(given, layout_of(given, concentration), concentration, plan, _sweep(fast))
    done = _run_all(run, rng.spawn(chains), progress)
    network = given.network
    first = done[0]
    columns = {name: first.last[:, v].astype(np.int64) for v, name in enumerate(network.order)}
    accepted = sum(chain.tally for chain in done)
    return PosteriorDraws(
        network,
        FrozenMap(unflattened(network, np.stack([chain.theta for chain in done]))),
        "records",
        n=None if given.n is not None else np.stack([chain.n for chain in done]),
        records=FrozenMap((name, columns[name]) for name in network.domain.names),
        acceptance={move: float(accepted[at] / accepted[at + 1]) for move, at in MOVES.items() if accepted[at + 1] > 0},
    )


@dataclass(frozen=True)
class _Plan:
    """How long chains run, and how."""

    draws: int
    burn_in: int
    passes: int
    thin: int

    @property
    def sweeps(self) -> int:
        """All sweeps of a chain."""
        return self.burn_in + self.draws * self.thin


@dataclass(frozen=True, eq=False)
class _Run:
    """What all chains share."""

    given: Evidence
    layout: Layout
    concentration: Mapping[str, Reals]
    plan: _Plan
    sweep: Callable[..., int]


@dataclass(frozen=True, eq=False)
class _Chain:
    """What a chain leaves: its draws of the flat tables and of n, its last records, accepted and tried moves."""

    theta: Reals
    n: Integers
    last: npt.NDArray[Any]
    tally: Integers


@dataclass(eq=False)
class _Steps:
    """Step sizes, adapted by stochastic approximation on the log scale (Andrieu and Thoms 2008, algorithm 4)."""

    reach: Reals
    most: float
    spread: float
    sweeps: int = 0

    @property
    def most_records(self) -> int:
        """The most records a resize adds or removes."""
        return max(1, round(self.most))

    @property
    def attempts(self) -> int:
        """Resizes in a sweep: enough for their random walk to cross the posterior of n, within reason."""
        return 0 if self.spread == 0 else int(np.clip(4 * (self.spread / self.most_records) ** 2, 8, 64))

    def adapt(self, shifts: Integers, resizes: Integers) -> None:
        """Takes one step towards the wanted acceptance."""
        self.sweeps += 1
        gain = 2 * self.sweeps**-0.6
        tried = np.maximum(shifts[1], 1)
        drift = np.where(shifts[1] > 0, shifts[0] / tried - WANTED_ACCEPTANCE, 0.0)
        self.reach = np.clip(self.reach * np.exp(gain * drift), 1e-6, 1.0)
        if resizes[1]:
            self.most *= float(np.exp(gain * (resizes[0] / resizes[1] - WANTED_ACCEPTANCE)))
            self.most = min(max(self.most, 1.0), 4 * self.spread + 1)


def _run_all(run: _Run, streams: list[np.random.Generator], progress: bool) -> list[_Chain]:
    """Runs the chains in threads; an interruption stops them all after their current sweep."""
    from tqdm import tqdm

    stop = threading.Event()
    shown = progress and sys.stderr.isatty()
    with (
        tqdm(total=run.plan.sweeps, desc="sweeps of each chain", disable=not shown) as bar,
        ThreadPoolExecutor(len(streams)) as pool,
    ):
        try:
            ticks: list[Callable[[], Any]] = [bar.update, *[_silent] * (len(streams) - 1)]
            waiting = [pool.submit(_run_chain, run, *pair, stop) for pair in zip(streams, ticks, strict=True)]
            return [one.result() for one in waiting]
        except BaseException:
            stop.set()
            raise


def _silent() -> None:
    """No progress is shown."""


def _run_chain(run: _Run, rng: np.random.Generator, tick: Callable[[], Any], stop: threading.Event) -> _Chain:
    """One chain from its own start."""
    layout, plan = run.layout, run.plan
    records, counts, residual = _start(run, rng)
    n = records.shape[0]
    steps = _Steps(np.full(_rows(layout).size, 0.1), 1.0, rows_estimate(run.given)[1])
    kept, sizes = np.empty((plan.draws, counts.size)), np.empty(plan.draws, np.int64)
    tally = np.zeros(6, np.int64)
    for i in range(plan.sweeps):
        if stop.is_set():
            break
        theta = drawn_rows(rng, layout, counts)
        records = _with_room(records, n, n + steps.attempts * steps.most_records)
        shifts, this = np.zeros((2, steps.reach.size), np.int64), np.zeros(6, np.int64)
        n = run.sweep(
            rng, layout, theta, records, n, residual, counts, plan.passes, steps.reach, shifts,
            steps.attempts, steps.most_records, this,
        )  # fmt: skip
        if i < plan.burn_in:
            steps.adapt(shifts, this[RESIZES:])
        else:
            tally += this
            tally[SHIFTS : SHIFTS + 2] += shifts.sum(axis=1)
            at, rest = divmod(i - plan.burn_in, plan.thin)
            if rest == plan.thin - 1:
                kept[at], sizes[at] = theta, n
        tick()
    return _Chain(kept, sizes, records[:n].copy(), tally)


def drawn_rows(rng: np.random.Generator, layout: Layout, counts: Integers) -> Reals:
    """Every row of theta given the family counts: Dirichlet, by gammas in log space so that none is all zeros."""
    concentration = layout.prior + counts
    log_gamma = np.log(rng.standard_gamma(concentration + 1)) + np.log1p(-rng.random(counts.size)) / concentration
    sizes = _rows(layout)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    theta = np.exp(log_gamma - np.repeat(np.maximum.reduceat(log_gamma, starts), sizes))
    return theta / np.repeat(np.add.reduceat(theta, starts), sizes)


def _rows(layout: Layout) -> Integers:
    """The number of levels in each row of theta."""
    many = np.diff(layout.nodes[:, THETA], append=layout.prior.size) // layout.nodes[:, LEVELS]
    return np.repeat(layout.nodes[:, LEVELS], many)


def _with_room(records: npt.NDArray[Any], n: int, needed: int) -> npt.NDArray[Any]:
    """The records in an array with room for more, the same one if it has it."""
    if needed <= records.shape[0]:
        return records
    roomy = np.zeros((needed + needed // 4, records.shape[1]), records.dtype)
    roomy[:n] = records[:n]
    return roomy


def _start(run: _Run, rng: np.random.Generator) -> tuple[npt.NDArray[Any], Integers, Integers]:
    """Starting records in the network's order, their family counts and the residual they leave."""
    network = run.given.network
    columns = starting_records(run.given, run.concentration, rng)
    widest = np.min_scalar_type(max(network.domain.sizes.values()) - 1)
    records = np.stack([columns[name].astype(widest) for name in network.order], axis=1)
    families = {name: counted(columns, network.family(name), network.shape(network.family(name))) for name in columns}
    left = [
        table.values - table.statistics(counted(columns, table.variables, table.shape)) for table in run.given.tables
    ]
    return np.ascontiguousarray(records), flattened(network, families), np.concatenate(left)


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


def _check(network: Network, concentration: Mapping[str, Reals], plan: _Plan, chains: int) -> None:
    """Refuses what cannot be run."""
    lowest = {"draws": 1, "burn_in": 0, "passes": 0, "thin": 1, "chains": 1}
    for name, value in {**vars(plan), "chains": chains}.items():
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < lowest[name]:
            raise ReleaseError(f"{name} must be a whole number, at least {lowest[name]}; got {value!r}")
    for name in network.domain.names:
        table, shape = np.asarray(concentration[name]), network.shape(network.family(name))
        if table.shape != shape or not (np.isfinite(table).all() and (table > 0).all()):
            raise ReleaseError(f"the concentration of {name!r} must be finite, above 0 and of shape {shape}")
