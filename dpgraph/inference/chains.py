"""Markov chains: the driver of every sampler, and convergence diagnostics by arviz.

A chain is an object with ``sweep(i)`` and ``keep(draw)``; the driver starts the chains, sweeps, thins, keeps, shows
progress and hears interruptions. Nothing here sees private data: a chain that has not converged costs accuracy alone.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from dpgraph.inference.interruption import heed, interruptible, processors, side_by_side
from dpgraph.structure.tables import Reals
from dpgraph.waiting import at_terminal

#: A split chain shorter than this says nothing.
SHORTEST = 4
#: The last sweeps, whose speed says how long all take.
RECENT = 10


@dataclass(frozen=True)
class Plan:
    """The length of Markov chains: draws of each, sweeps before the first draw, sweeps for each draw."""

    draws: int
    burn_in: int
    thin: int = 1

    @property
    def sweeps(self) -> int:
        """All sweeps of a chain."""
        return self.burn_in + self.draws * self.thin


@dataclass(eq=False)
class TimeLimit:
    """The seconds that chains may take, by the clock, so results depend on the speed of the machine.

    After ``seconds`` chains end with the draws that they have, at least ``SHORTEST``. Before any chain draws, all end
    once the last sweeps tell that they would take more than ``patience``; ``needed`` then has how long.
    """

    seconds: float
    patience: float = math.inf
    needed: float = 0.0

    def ends(self, plan: Plan, made: int, ended: deque[float], rounds: int) -> bool:
        """True for a chain that is over after ``made`` sweeps, the last of which ended at so many seconds."""
        draws, rest = divmod(made - plan.burn_in, plan.thin)
        if made > plan.burn_in:
            self.patience = math.inf
        elif len(ended) > RECENT:
            whole = rounds * (ended[-1] + (ended[-1] - ended[0]) / RECENT * (plan.sweeps - made))
            if whole > self.patience:
                self.needed = whole
        return self.needed > 0 or (draws >= SHORTEST and not rest and rounds * ended[-1] > self.seconds)


class Chain(Protocol):
    """A Markov chain at its current state."""

    def sweep(self, i: int) -> Any:
        """Makes sweep ``i``, counted from the first of burn-in."""

    def keep(self, draw: int) -> Any:
        """Keeps the current state as a draw."""


C = TypeVar("C", bound=Chain)


def run_chains(
    start: Callable[[int, np.random.Generator], C],
    plan: Plan,
    streams: Sequence[np.random.Generator],
    progress: Callable[[int], None] | None = None,
    *,
    in_threads: bool = True,
    limit: TimeLimit | None = None,
) -> list[C]:
    """Runs independent Markov chains, one for each stream, as many at a time as there are processors.

    ``start`` makes the chain of a number and a stream; ``progress`` is called with the number of each sweep once chains
    have made as many more on average. Without ``in_threads``, for short sweeps, chains run one after another. An
    interruption stops every chain after its current sweep; ``interruption.stop_flag`` stops compiled loops sooner, and
    a ``limit`` ends chains before their last sweep.
    """
    made, lock = [0], threading.Lock()
    rounds = turns(len(streams)) if in_threads else len(streams)

    def tick() -> None:
        if progress is None:
            return
        with lock:
            made[0] += 1
            if made[0] % len(streams) == 0:
                progress(made[0] // len(streams) - 1)

    def run(numbered: tuple[int, np.random.Generator]) -> C:
        begun, ended = time.perf_counter(), deque[float](maxlen=RECENT + 1)
        chain = start(*numbered)
        for i in range(plan.sweeps):
            heed()
            chain.sweep(i)
            heed()
            draw, rest = divmod(i - plan.burn_in, plan.thin)
            if i >= plan.burn_in and rest == plan.thin - 1:
                chain.keep(draw)
            tick()
            ended.append(time.perf_counter() - begun)
            if limit is not None and limit.ends(plan, i + 1, ended, rounds):
                break
        return chain

    workers = None if in_threads else 1
    return interruptible(lambda _: side_by_side(run, enumerate(streams), workers))


def turns(chains: int) -> int:
    """How many chains run one after another where as many run at once as there are processors."""
    return math.ceil(chains / processors())


@contextmanager
def progress_bar(wanted: bool, total: int, what: str) -> Iterator[Callable[[int], None] | None]:
    """A progress bar: a function to call with the number of each iteration, or None where no bar is shown.

    ``total`` is the number of iterations of ``what``, a public number.
    """
    if not wanted or not at_terminal():
        yield None
        return
    from tqdm import tqdm

    with tqdm(total=total, desc=what) as bar:

        def advance(iteration: int) -> None:
            bar.update(iteration + 1 - bar.n)

        yield advance


def r_hat(draws: Reals) -> Reals:
    """Rank-normalised split R-hat of draws with axes (chain, draw, *parameters), 1 for chains that have mixed.

    The halves of a single chain are compared (Vehtari et al. 2021). It is 1 where a parameter never moves, nan where
    chains are too short, nan or infinite where they are stuck in different places.
    """
    from arviz_stats.base.array import array_stats

    half = draws.shape[1] // 2
    chains = draws if draws.shape[0] > 1 else np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])
    return _of_moving_parameters(chains, array_stats.rhat, 1.0)


def effective_size(draws: Reals) -> Reals:
    """Bulk effective sample size (Vehtari et al. 2021): of a still parameter all draws, of short chains nan."""
    from arviz_stats.base.array import array_stats

    return _of_moving_parameters(draws, array_stats.ess, float(draws.shape[0] * draws.shape[1]))


def _of_moving_parameters(draws: Reals, statistic: Any, constant: float) -> Reals:
    """A statistic of every parameter that moves, and a constant for the others."""
    moving = np.ptp(draws, axis=(0, 1)) > 1e-12 if draws.size else np.zeros(draws.shape[2:], bool)
    found = np.full(draws.shape[2:], constant)
    if moving.any():
        found[moving] = np.nan
    if moving.any() and draws.shape[1] >= SHORTEST:
        with np.errstate(divide="ignore", invalid="ignore"):  # chains stuck in different places
            found[moving] = statistic(draws[:, :, moving], chain_axis=0, draw_axis=1)
    return found
