"""Markov chains over the records behind a release and the tables they came from: starting, stepping, adapting."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network import _kernels
from dpgraph.inference.network._kernels import LEVELS, RESIZES, SHIFTS, THETA, Layout
from dpgraph.inference.network.evidence import Evidence, concentration_tables, contingency_table, rows_estimate
from dpgraph.inference.network.layout import flat_tables, kernel_layout, tables_from_flat
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.starts import starting_records
from dpgraph.structure.network import Network
from dpgraph.structure.tables import Integers, Reals
from dpgraph.waiting import at_terminal, result_of

#: The share of accepted proposals that step sizes are adapted to while a chain burns in.
WANTED_ACCEPTANCE = 0.35
#: The records that a shift moves at most, to begin with.
FIRST_REACH = 5.0
#: Given exact counts: steps of concentrations and centres for each draw, and draws before the first that is kept.
BETWEEN, FORGOTTEN = 5, 20


@dataclass(frozen=True)
class Plan:
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
class Run:
    """The settings that all chains share."""

    given: Evidence
    layout: Layout
    concentration: Mapping[str, Reals]
    plan: Plan
    sweep: Callable[..., int]
    relearn: Callable[..., None]
    hierarchy: HierarchicalPrior | None = None


@dataclass(frozen=True, eq=False)
class Chain:
    """The result of a chain: its draws of the flat tables and of n, its last records, accepted and tried moves.

    ``mean`` is the average over kept sweeps of the mean of the flat tables given the records and their prior.
    """

    theta: Reals
    mean: Reals
    n: Integers
    last: npt.NDArray[Any]
    tally: Integers


@dataclass(eq=False)
class Steps:
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
        return 0 if self.spread == 0 else int(np.clip(4 * (self.spread / self.most_records) ** 2, 16, 64))

    def adapt(self, shifts: Integers, resizes: Integers) -> None:
        """Takes one step towards the wanted acceptance."""
        self.sweeps += 1
        gain = 2 * self.sweeps**-0.6
        tried = np.maximum(shifts[1], 1)
        drift = np.where(shifts[1] > 0, shifts[0] / tried - WANTED_ACCEPTANCE, 0.0)
        self.reach = np.clip(self.reach * np.exp(gain * drift), 1.0, 1e9)
        if resizes[1]:
            self.most *= float(np.exp(gain * (resizes[0] / resizes[1] - WANTED_ACCEPTANCE)))
            self.most = min(max(self.most, 1.0), 4 * self.spread + 1)


def run_all(
    run: Any, streams: list[np.random.Generator], progress: bool, chain: Callable[..., Chain] | None = None
) -> list[Chain]:
    """Runs the chains in threads; an interruption stops them all after their current sweep.

    Args:
        run: What all chains share: a ``Run``, or another value with a ``plan`` that ``chain`` takes.
        streams: Randomness, one for each chain.
        progress: Whether to show a bar on a terminal.
        chain: One chain, ``chain(run, rng, tick, stop)``; by default over the records of one data set.
    """
    from tqdm import tqdm

    stop = threading.Event()
    shown = progress and at_terminal()
    with (
        tqdm(total=run.plan.sweeps, desc="sweeps of each chain", disable=not shown) as bar,
        ThreadPoolExecutor(len(streams)) as pool,
    ):
        try:
            ticks: list[Callable[[], Any]] = [bar.update, *[_silent] * (len(streams) - 1)]
            waiting = [pool.submit(chain or _run_chain, run, *pair, stop) for pair in zip(streams, ticks, strict=True)]
            return _results(waiting)
        except BaseException:
            stop.set()
            raise


def _results(waiting: list[Future[Chain]]) -> list[Chain]:
    """The results of the chains, in order."""
    return [result_of(one) for one in waiting]


def _silent() -> None:
    """No progress is shown."""


def _run_chain(run: Run, rng: np.random.Generator, tick: Callable[[], Any], stop: threading.Event) -> Chain:
    """One chain from its own start."""
    layout, plan = run.layout._replace(prior=run.layout.prior.copy()), run.plan
    records, counts, residual = _start(run, rng)
    n = records.shape[0]
    sizes = row_sizes(layout)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    steps = Steps(np.full(sizes.size, FIRST_REACH), 1.0, rows_estimate(run.given)[1])
    kept, many = np.empty((plan.draws, counts.size)), np.empty(plan.draws, np.int64)
    tally, centres, mean = np.zeros(6, np.int64), uniform_centres(layout), np.zeros(counts.size)
    for i in range(plan.sweeps):
        if stop.is_set():
            break
        if run.hierarchy is not None:
            run.relearn(rng, layout, counts, run.hierarchy.grid, run.hierarchy.centre, centres)
        theta = draw_rows(rng, layout.prior + counts, sizes, starts)
        records = with_room(records, n, n + steps.attempts * steps.most_records)
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
            mean += row_shares(layout.prior + counts, sizes, starts)
            at, rest = divmod(i - plan.burn_in, plan.thin)
            if rest == plan.thin - 1:
                kept[at], many[at] = theta, n
        tick()
    return Chain(kept, mean / (plan.draws * plan.thin), many, records[:n].copy(), tally)


def draw_rows(rng: np.random.Generator, concentration: Reals, sizes: Integers, starts: Integers) -> Reals:
    """Every row of theta given the records: Dirichlet, by gammas in log space so that none is all zeros.

    Args:
        rng: The chain's stream.
        concentration: Prior plus family counts, row after row.
        sizes: The number of levels of each row.
        starts: Where each row starts.
    """
    log_gamma = (
        np.log(rng.standard_gamma(concentration + 1)) + np.log1p(-rng.random(concentration.size)) / concentration
    )
    return row_shares(np.exp(log_gamma - np.repeat(np.maximum.reduceat(log_gamma, starts), sizes)), sizes, starts)


def row_shares(values: Reals, sizes: Integers, starts: Integers) -> Reals:
    """Each value's share of the sum of its row."""
    return values / np.repeat(np.add.reduceat(values, starts), sizes)


def tables_given_counts(
    network: Network, hierarchy: HierarchicalPrior, counts: Mapping[str, Integers], rng: np.random.Generator, draws: int
) -> dict[str, Reals]:
    """Draws of the tables given exact counts under a prior that learns, by one chain of concentrations and centres.

    Args:
        network: The DAG over its domain.
        hierarchy: The prior.
        counts: The counts of every family, axes (variable, *parents).
        rng: Randomness for post-processing or simulation.
        draws: How many; ``BETWEEN`` steps lie between two.

    Returns:
        For each variable its draws, shape (draws, variable, *parents).

    >>> pair = Network.of({"rain": ["no", "yes"], "wet": ["no", "yes"]}, {"wet": ["rain"]})
    >>> seen = {"rain": np.array([6000, 4000]), "wet": np.array([[5000, 1000], [1000, 3000]])}
    >>> made = tables_given_counts(pair, HierarchicalPrior(), seen, np.random.default_rng(0), 20)
    >>> made["wet"].shape, made["wet"].mean(axis=0).round(2).tolist()
    ((20, 2, 2), [[0.83, 0.25], [0.17, 0.75]])
    """
    layout = kernel_layout(Evidence(network, (), 0), concentration_tables(network, 1.0))
    flat, sizes, centres = flat_tables(network, counts).astype(np.int64), row_sizes(layout), uniform_centres(layout)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    relearn, kept = _kernels.compiled_relearned(), np.empty((draws, flat.size))
    for i in range((draws + FORGOTTEN) * BETWEEN):
        relearn(rng, layout, flat, hierarchy.grid, hierarchy.centre, centres)
        at, rest = divmod(i, BETWEEN)
        if at >= FORGOTTEN and rest == BETWEEN - 1:
            kept[at - FORGOTTEN] = draw_rows(rng, layout.prior + flat, sizes, starts)
    return tables_from_flat(network, kept)


def uniform_centres(layout: Layout) -> Reals:
    """The even share of every level of each variable, one variable after another."""
    levels = layout.nodes[:, LEVELS]
    return np.repeat(1 / levels, levels)


def row_sizes(layout: Layout) -> Integers:
    """The number of levels in each row of theta."""
    many = np.diff(layout.nodes[:, THETA], append=layout.prior.size) // layout.nodes[:, LEVELS]
    return np.repeat(layout.nodes[:, LEVELS], many)


def with_room(records: npt.NDArray[Any], n: int, needed: int) -> npt.NDArray[Any]:
    """The records in an array with room for more, the same one if it has it."""
    if needed <= records.shape[0]:
        return records
    roomy = np.zeros((needed + needed // 4, records.shape[1]), records.dtype)
    roomy[:n] = records[:n]
    return roomy


def _start(run: Run, rng: np.random.Generator) -> tuple[npt.NDArray[Any], Integers, Integers]:
    return starting_state(run.given, run.concentration, rng)


def starting_state(
    given: Evidence, concentration: Mapping[str, Reals], rng: np.random.Generator
) -> tuple[npt.NDArray[Any], Integers, Integers]:
    """Starting records in the network's order, their family counts and the residual they leave."""
    network = given.network
    columns = starting_records(given, concentration, rng)
    widest = np.min_scalar_type(max(network.domain.sizes.values()) - 1)
    records = np.stack([columns[name].astype(widest) for name in network.order], axis=1)
    families = {
        name: contingency_table(columns, network.family(name), network.shape(network.family(name))) for name in columns
    }
    left = [
        table.values - table.statistics(contingency_table(columns, table.variables, table.shape))
        for table in given.tables
    ]
    return np.ascontiguousarray(records), flat_tables(network, families), np.concatenate(left)
