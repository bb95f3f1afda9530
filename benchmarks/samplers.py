"""How fast the samplers of noise-aware posteriors are, and how well they mix.

Rows are drawn from a public network, counted and released once for each seed; the sampler sees the release alone. Times
are of this machine: milliseconds a sweep of one chain, burn-in included, compilation and diagnostics not. The effective
size is the smallest bulk ESS over all entries of all tables, per 3500 sweeps after burn-in. The noise is seeded.

    python benchmarks/samplers.py [--seeds 3] [--sweeps 3500] [--only records]

A sampler is a function that yields rows of a table; add it to SAMPLERS.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import click
import numpy as np
import pandas as pd
from tqdm import tqdm

import dpgraph as dg
from dpgraph.inference.network.by_records import draw_by_records
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.evidence import Evidence, concentration_tables, evidence
from dpgraph.inference.network.queries import sample_codes
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap

REPORTED = 3500
ASIA = [("asia", neighbours, e) for neighbours in ("replace", "add-remove") for e in ("0.1", "0.5", "2")]
LARGER = [("sachs", "replace", "1"), ("alarm", "replace", "1"), ("alarm", "add-remove", "1")]


@click.command()
@click.option("--seeds", default=3, show_default=True, help="Data sets and releases of each setting.")
@click.option("--sweeps", default=REPORTED, show_default=True, help="Kept sweeps on asia; a fifth on larger networks.")
@click.option("--rows", default=1000, show_default=True, help="Rows of each data set.")
@click.option("--only", multiple=True, help="Samplers to run; all where none is named.")
def main(seeds: int, sweeps: int, rows: int, only: tuple[str, ...]) -> None:
    """Prints a table for each sampler: medians over the seeds, and the worst effective size."""
    for name in only or SAMPLERS:
        table = pd.DataFrame(list(SAMPLERS[name](seeds, sweeps, rows)))
        print(f"{name}, n = {rows}, {seeds} seeds")
        print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))


def released(name: str, mechanism: dg.LaplaceMechanism, neighbours: str, rows: int, seed: int) -> Evidence:
    """The evidence of one release about rows of a bundled network."""
    truth = dg.load(f"example:{name}")
    drawn = Codes(truth.network.domain, FrozenMap(sample_codes(truth, rows, np.random.default_rng(seed))))
    budget = dg.Budget(mechanism.epsilon, unit=dg.PrivacyUnit(neighbours))
    counts = dg.count(drawn, truth.network)
    return evidence(dg.release(counts, mechanism, budget=budget, noise=dg.testing.SeededNoise(seed)).value)


def records(seeds: int, sweeps: int, rows: int) -> Iterator[dict[str, object]]:
    """Exact record augmentation, one chain, two passes of coupled moves."""
    timed("asia", dg.LaplaceMechanism(1), "replace", 10, 0, 5)
    settings = [(*setting, tables) for setting in ASIA + LARGER for tables in ("merged", "maximal")]
    for name, neighbours, epsilon, tables in tqdm(settings, desc="records", disable=not sys.stderr.isatty()):
        kept = sweeps if name == "asia" else sweeps // 5
        mechanism = dg.LaplaceMechanism(epsilon, tables=tables)
        runs = [timed(name, mechanism, neighbours, rows, seed, kept) for seed in range(seeds)]
        sizes = [np.concatenate([v.ravel() for v in drawn.effective_sizes.values()]) for _, drawn in runs]
        per = REPORTED / kept
        accepted = pd.DataFrame([drawn.acceptance for _, drawn in runs]).median()
        yield {
            "network": name,
            "neighbours": neighbours,
            "tables": tables,
            "epsilon": epsilon,
            "ms a sweep": np.median([milliseconds for milliseconds, _ in runs]),
            "least ESS": ", ".join(f"{size.min() * per:.0f}" for size in sizes),
            "median ESS": np.median([np.median(size) for size in sizes]) * per,
            **accepted.add_suffix(" accepted").to_dict(),
            "sd of n": np.nan if runs[0][1].n is None else np.median([drawn.n.std() for _, drawn in runs]),
        }


def timed(
    name: str, mechanism: dg.LaplaceMechanism, neighbours: str, rows: int, seed: int, kept: int
) -> tuple[float, PosteriorDraws]:
    """One chain, and its milliseconds a sweep."""
    given = released(name, mechanism, neighbours, rows, seed)
    prior = concentration_tables(given.network, 1.0)
    started = time.perf_counter()
    drawn = draw_by_records(given, prior, rng=np.random.default_rng(seed), draws=kept, burn_in=500, chains=1)
    return 1e3 * (time.perf_counter() - started) / (kept + 500), drawn


SAMPLERS = {"records": records}


if __name__ == "__main__":
    main()
