"""How fast posteriors from noisy sufficient statistics are drawn: one chain beside many at once, and exact draws.

Ratios within one run, so that the machine matters little. One thread.

    OMP_NUM_THREADS=1 python benchmarks/posterior_speed.py
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.inference.counts.dirichlet_multinomial import sample_counts
from dpgraph.inference.expfam.chain import Problems, gibbs_draws
from dpgraph.privacy.measurements import DiscreteLaplace

MANY, ITERATIONS = 256, 400
ASIA = (4, 4, 4, 4, 8, 8)
FAMILIES = {
    "exponential": (dg.expfam.Exponential(), dg.expfam.Exponential().prior(8, 2), (0.0, 1.0), [200.0], [10.0]),
    "poisson": (dg.expfam.Poisson(), dg.expfam.Poisson().prior(4, 1), (0.0, 20.0), [5000.0], [20.0]),
    "normal": (
        dg.expfam.Normal(),
        dg.expfam.Normal().prior(165.0, records=1.0, shape=2.0, rate=200.0),
        (120.0, 220.0),
        [170e3, 29e6],
        [400.0, 1e5],
    ),
    "multinomial": (
        dg.expfam.Multinomial(4),
        dg.expfam.Multinomial(4).prior(),
        None,
        [300.0, 200, 400, 100],
        [20.0] * 4,
    ),
}


def best(task: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of the fastest of some runs."""
    taken = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        taken.append(time.perf_counter() - start)
    return min(taken)


def main() -> None:
    """Prints both tables."""
    rng = np.random.default_rng(0)
    rows = []
    for name, (family, prior, bounds, y, scale) in FAMILIES.items():
        seconds = {}
        for count in (1, MANY):
            tiled = np.tile(y, (count, 1)), np.tile(scale, (count, 1))
            problems = Problems(family, prior, bounds, *tiled, np.full(count, 1000.0))
            seconds[count] = best(lambda p=problems: gibbs_draws(p, ITERATIONS, burn_in=0, rng=rng)) / ITERATIONS
        ratio = MANY * seconds[1] / seconds[MANY]
        rows.append((name, 1e3 * seconds[1], 1e3 * seconds[MANY], ratio))
    columns = ["family", "ms an iteration, one", f"ms, {MANY} at once", "iterations a second, ratio"]
    print(pd.DataFrame(rows, columns=columns).to_string(index=False, float_format=lambda x: f"{x:.2f}"))
    rows = []
    for n in (1000, None):
        tables = [rng.multinomial(1000, rng.dirichlet(np.ones(k))) + np.rint(rng.laplace(size=k) * 24) for k in ASIA]

        def drawn(n: int | None = n, tables: list[np.ndarray] = tables) -> None:
            for table in tables:
                sample_counts(table.astype(np.int64), DiscreteLaplace(24.0), np.ones(table.size), n, rng, 1000)

        rows.append(("public" if n else "private", 1000 / best(drawn)))
    print("\nexact draws of the six tables of asia, 1000 records, noise scale 24 (epsilon 0.5)")
    print(pd.DataFrame(rows, columns=["n", "draws a second"]).to_string(index=False, float_format=lambda x: f"{x:.0f}"))


if __name__ == "__main__":
    main()
