"""How far the learned network is from the data: Algorithm 1 of Zhang et al. 2016 beside the default design.

Rows are drawn from three public networks, counted and released once at epsilon 1 under add/remove; a network is learned
from the release alone and rows are drawn from it. The score is the mean over all families of the total variation
distance between the family's margin in those rows and in the data. The noise is seeded: the study repeats.

    python benchmarks/release_error.py [--seeds 20] [--drawn 2000000] [--prior 1]
"""

from __future__ import annotations

import sys
import time

import click
import numpy as np
import pandas as pd
from tqdm import tqdm

import dpgraph as dg
from dpgraph.inference.network.queries import sample_codes
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap

N, EPSILON, UNIT = 10_000, 1, dg.PrivacyUnit("add-remove")
DESIGNS = {
    "Algorithm 1": (dg.LaplaceMechanism(EPSILON, tables="families", allocation="uniform"), "clipped"),
    "default": (dg.LaplaceMechanism(EPSILON), "nearest"),
}
GOALS = {"alarm": (0.027, 0.0155), "child": (0.022, 0.0136), "asia": (0.0021, 0.0014)}


@click.command()
@click.option("--seeds", default=20, show_default=True, help="Data sets per network.")
@click.option("--drawn", default=2_000_000, show_default=True, help="Rows drawn from each learned network.")
@click.option("--prior", default=1.0, show_default=True, help="Dirichlet concentration of every cell.")
def main(seeds: int, drawn: int, prior: float) -> None:
    """Prints the table."""
    scores: list[dict[str, object]] = []
    for name in GOALS:
        truth = dg.load(f"example:{name}")
        for seed in tqdm(range(seeds), desc=name, disable=not sys.stderr.isatty()):
            rng = np.random.default_rng(seed)
            rows = codes_of(truth, N, rng)
            counts = dg.count(rows, truth.network)
            for design, (mechanism, plug_in) in DESIGNS.items():
                started = time.perf_counter()
                released = dg.release(
                    counts, mechanism, budget=dg.Budget(EPSILON, unit=UNIT), noise=dg.testing.SeededNoise(seed)
                )
                learned = dg.posterior(released, prior=prior, method=dg.methods.PlugIn(plug_in)).mean()
                seconds = time.perf_counter() - started
                scores.append(
                    {"network": name, "design": design, "tv": distance(learned, rows, drawn, rng), "s": seconds}
                )
    table = pd.DataFrame(scores).groupby(["network", "design"], sort=False)
    shown = table["tv"].agg(["mean", "std"]).join(table["s"].median().rename("seconds"))
    shown["goal"] = [goal for name in GOALS for goal in GOALS[name]]
    print(
        f"mean total variation of family margins, n = {N}, epsilon {EPSILON}, add/remove, {seeds} seeds, prior {prior}"
    )
    print(shown.to_string(float_format=lambda x: f"{x:.5f}"))


def codes_of(probabilities: dg.Probabilities, n: int, rng: np.random.Generator) -> Codes:
    """Encoded rows of a network, without the detour through a data frame."""
    return Codes(probabilities.network.domain, FrozenMap(sample_codes(probabilities, n, rng)))


def distance(learned: dg.Probabilities, data: Codes, drawn: int, rng: np.random.Generator) -> float:
    """Mean total variation distance of the family margins."""
    network = learned.network
    ours, theirs = dg.count(codes_of(learned, drawn, rng), network), dg.count(data, network)
    gaps = [
        0.5 * np.abs(ours.sensitive_margin(f) / drawn - theirs.sensitive_margin(f) / N).sum() for f in network.families
    ]
    return float(np.mean(gaps))


if __name__ == "__main__":
    main()
