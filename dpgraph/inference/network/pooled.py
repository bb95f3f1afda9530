"""The posterior of a network given releases of different rows: each keeps latent rows of its own (proofs.md P76).

The rows of all releases have the same probabilities theta, and given theta the releases are independent. Given the
family counts of the other releases' latent rows, those of one release and theta have the posterior of that release
alone under a Dirichlet prior with these counts added, so a sweep of the chain of one release, under that prior, leaves
the whole posterior as it is. Releases take turns. A prior that learns its concentrations and centres reads the counts
of all rows together (P80).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network import _kernels
from dpgraph.inference.network._kernels import RECORDS, RESIZES, SHIFTS, Layout
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, rows_estimate
from dpgraph.inference.network.layout import kernel_layout, tables_from_flat
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.record_chains import (
    FIRST_REACH,
    Chain,
    Plan,
    Steps,
    draw_rows,
    row_shares,
    row_sizes,
    run_all,
    starting_state,
    uniform_centres,
    with_room,
)
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import Integers, Reals

MOVES = {"records": RECORDS, "shifts": SHIFTS, "resizes": RESIZES}


@dataclass(frozen=True, eq=False)
class PooledRun:
    """The settings that all chains share: the evidence of each release, and its arrays."""

    given: tuple[Evidence, ...]
    layouts: tuple[Layout, ...]
    concentration: Mapping[str, Reals]
    plan: Plan
    sweep: Callable[..., int]
    relearn: Callable[..., None]
    hierarchy: HierarchicalPrior | None = None


@dataclass(eq=False)
class Latent:
    """The latent rows of one release in a chain, what they leave unexplained, and the sizes of its steps."""

    records: npt.NDArray[Any]
    n: int
    counts: Integers
    residual: Integers
    steps: Steps


def draw_pooled(
    given: tuple[Evidence, ...],
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
    """Draws from the exact posterior given releases of different rows; the arguments are those of ``draw_by_records``.

    A sweep goes over the rows of every release, so it costs what the sweeps of all cost together.

    Returns:
        Draws with method ``"records"``; ``n`` counts the latent rows of all releases where one has a private number,
        and the last latent rows are those of all.

    >>> from dpgraph.inference.network.evidence import concentration_tables, evidence
    >>> from dpgraph.privacy.records import DiscreteLaplace
    >>> from dpgraph.structure.network import Network
    >>> from dpgraph.structure.tables import NoisyCounts
    >>> coin = Network.of({"coin": ["heads", "tails"]}, {})
    >>> tosses = [([7, 3], 10), ([15, 5], 20)]
    >>> law = {("coin",): DiscreteLaplace(1.0)}
    >>> months = tuple(evidence(NoisyCounts(coin, {("coin",): y}, law, n)) for y, n in tosses)
    >>> prior = concentration_tables(coin, 1.0)
    >>> made = draw_pooled(months, prior, rng=np.random.default_rng(0), draws=200, burn_in=50)
    >>> made.shape, round(float(made.mean().table("coin")[0]), 1)
    ((2, 200), 0.7)
    """
    plan, network = Plan(draws, burn_in, passes, thin), given[0].network
    sweep = _kernels.compiled_sweep() if compiled else _kernels.sweep
    relearn = _kernels.compiled_relearned() if compiled else _kernels.relearned
    layouts = tuple(kernel_layout(one, concentration) for one in given)
    run = PooledRun(given, layouts, concentration, plan, sweep, relearn, hierarchy)
    done = run_all(run, rng.spawn(chains), progress, _run_pooled)
    columns = {name: done[0].last[:, v].astype(np.int64) for v, name in enumerate(network.order)}
    accepted = np.sum([chain.tally for chain in done], axis=0)
    return PosteriorDraws(
        network,
        FrozenMap(tables_from_flat(network, np.stack([chain.theta for chain in done]))),
        "records",
        n=None if all(one.n is not None for one in given) else np.stack([chain.n for chain in done]),
        records=FrozenMap((name, columns[name]) for name in network.domain.names),
        means=FrozenMap(tables_from_flat(network, np.mean([chain.mean for chain in done], axis=0))),
        acceptance={move: float(accepted[at] / accepted[at + 1]) for move, at in MOVES.items() if accepted[at + 1] > 0},
    )


def _run_pooled(run: PooledRun, rng: np.random.Generator, tick: Callable[[], Any], stop: threading.Event) -> Chain:
    """One chain from its own start."""
    plan, layout = run.plan, run.layouts[0]._replace(prior=run.layouts[0].prior.copy())
    prior, sizes, centres = layout.prior, row_sizes(layout), uniform_centres(layout)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    latent = [_latent(one, run.concentration, rng, sizes.size) for one in run.given]
    kept, many = np.empty((plan.draws, prior.size)), np.empty(plan.draws, np.int64)
    tally, mean = np.zeros(6, np.int64), np.zeros(prior.size)
    for i in range(plan.sweeps):
        if stop.is_set():
            break
        every = sum((one.counts for one in latent), np.zeros(prior.size, np.int64))
        if run.hierarchy is not None:
            run.relearn(rng, layout, every, run.hierarchy.grid, run.hierarchy.centre, centres)
        theta = draw_rows(rng, prior + every, sizes, starts)
        for release, (own, mine) in enumerate(zip(run.layouts, latent, strict=True)):
            others = sum((one.counts for at, one in enumerate(latent) if at != release), np.zeros(prior.size))
            this = _sweep(run, rng, own._replace(prior=prior + others), theta, mine, adapting=i < plan.burn_in)
            tally += this if i >= plan.burn_in else 0
        if i >= plan.burn_in:
            mean += row_shares(prior + sum(one.counts for one in latent), sizes, starts)
        at, rest = divmod(i - plan.burn_in, plan.thin)
        if i >= plan.burn_in and rest == plan.thin - 1:
            kept[at], many[at] = theta, sum(one.n for one in latent)
        tick()
    last = np.concatenate([one.records[: one.n] for one in latent])
    return Chain(kept, mean / (plan.draws * plan.thin), many, last, tally)


def _latent(given: Evidence, concentration: Mapping[str, Reals], rng: np.random.Generator, rows: int) -> Latent:
    """The start of one release's latent rows."""
    records, counts, residual = starting_state(given, concentration, rng)
    return Latent(
        records, records.shape[0], counts, residual, Steps(np.full(rows, FIRST_REACH), 1.0, rows_estimate(given)[1])
    )


def _sweep(
    run: PooledRun, rng: np.random.Generator, layout: Layout, theta: Reals, mine: Latent, *, adapting: bool
) -> Integers:
    """One sweep of one release given the others, in place; the accepted and the tried moves."""
    steps = mine.steps
    mine.records = with_room(mine.records, mine.n, mine.n + steps.attempts * steps.most_records)
    shifts, this = np.zeros((2, steps.reach.size), np.int64), np.zeros(6, np.int64)
    mine.n = run.sweep(
        rng, layout, theta, mine.records, mine.n, mine.residual, mine.counts, run.plan.passes, steps.reach, shifts,
        steps.attempts, steps.most_records, this,
    )  # fmt: skip
    if adapting:
        steps.adapt(shifts, this[RESIZES:])
    this[SHIFTS : SHIFTS + 2] += shifts.sum(axis=1)
    return this
