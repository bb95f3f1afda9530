"""What a second processor is worth: the same work by one processor and by two.

    python benchmarks/two_threads.py [--rounds 5] [--only hmm]

Each round runs a piece of work once on one processor and once on two, one after the other, so that a busy machine
disturbs both alike; the ratio is of the best times, and the median's is beside it. ``kernel`` is arithmetic in
registers alone, two compiled loops without the interpreter's lock: what this machine's two processors can give at most.
Two hardware threads of one core give less than two.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import numba
import numpy as np
import pandas as pd

import dpgraph as dg

NOISE = dg.testing.SeededNoise
PROCESSORS = sorted(os.sched_getaffinity(0))[:2]


@numba.njit(nogil=True)
def arithmetic(steps: int) -> int:
    """A loop that touches no memory."""
    state = np.uint64(88172645463325252)
    for _ in range(steps):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
    return int(state & np.uint64(1))


def kernel() -> Callable[[], Any]:
    """Two loops side by side."""
    arithmetic(1)

    def run() -> None:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(arithmetic, [60_000_000] * 2))

    return run


def hmm() -> Callable[[], Any]:
    """Two chains of a hidden Markov model: 200 sequences of 100 steps, 3 states, 2 fields, 60 sweeps."""
    rng = np.random.default_rng(1)
    declared: dict[str, Any] = {"who": list(range(200)), "time": list(range(100)), "a": list(range(6)), "b": [0, 1, 2]}
    network = dg.hmm_network(dg.Domain.of(declared), "who", "time")
    log = pd.DataFrame({name: rng.integers(0, len(levels), 40_000) for name, levels in declared.items()})
    noisy = dg.release(dg.count(log, network), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=NOISE(1))
    return lambda: dg.fit_hmm(noisy, 3, sequence="who", time="time", iterations=30, burn_in=30, chains=2, seed=1)


def records() -> Callable[[], Any]:
    """Two chains over the records of 1000 rows of asia."""
    network = dg.read_network("example:asia")
    rows = dg.sample_rows(dg.load("example:asia"), 1000, np.random.default_rng(2))
    noisy = dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=NOISE(2))
    return lambda: dg.posterior(noisy, method="records", draws=300, seed=2)


def tables() -> Callable[[], Any]:
    """Ten draws of one family of 250 000 cells."""
    rng = np.random.default_rng(3)
    network = dg.Network.of({"a": list(range(500)), "b": list(range(500))}, {"b": ["a"]})
    rows = pd.DataFrame({"a": rng.integers(0, 500, 500_000), "b": rng.integers(0, 500, 500_000)})
    noisy = dg.release(dg.count(rows, network), dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=NOISE(3))
    return lambda: dg.posterior(noisy, method="tables", draws=10, seed=3)


def folder() -> Callable[[], Any]:
    """Four Parquet files of 1e5 rows of alarm, counted."""
    network, place = dg.read_network("example:alarm"), tempfile.mkdtemp(prefix="dpgraph-two-threads-")
    rows = dg.sample_rows(dg.load("example:alarm"), 100_000, np.random.default_rng(4))
    for part in range(4):
        rows.astype(object).to_parquet(Path(place) / f"{part}.parquet")
    return lambda: dg.count(place, network)


WORK = {"kernel": kernel, "hmm": hmm, "records": records, "tables": tables, "folder": folder}


def seconds(run: Callable[[], Any], processors: list[int]) -> float:
    """The time of one run on some processors."""
    os.sched_setaffinity(0, processors)
    try:
        start = time.perf_counter()
        run()
        return time.perf_counter() - start
    finally:
        os.sched_setaffinity(0, PROCESSORS)


@click.command()
@click.option("--rounds", default=5)
@click.option("--only", multiple=True, type=click.Choice(list(WORK)))
def main(rounds: int, only: tuple[str, ...]) -> None:
    """Prints the ratio of each piece of work, and the machine's load before and after."""
    import warnings

    warnings.simplefilter("ignore")
    click.echo(f"processors {PROCESSORS}, load before {os.getloadavg()}")
    for name, make in WORK.items():
        if only and name not in only:
            continue
        run = make()
        run()  # compiled, and read once
        one, two = [], []
        for _ in range(rounds):
            one.append(seconds(run, PROCESSORS[:1]))
            two.append(seconds(run, PROCESSORS))
        best, middle = min(one) / min(two), float(np.median(one) / np.median(two))
        click.echo(f"{name:8} one {min(one):6.2f} s, two {min(two):6.2f} s, ratio {best:.2f} (medians {middle:.2f})")
    click.echo(f"load after {os.getloadavg()}")


if __name__ == "__main__":
    main()
