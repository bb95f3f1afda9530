"""Whether intervals hold when the graph was chosen: with one stage, and after choices that saw exact scores.

    python benchmarks/learned_coverage.py [--worlds 100] [--rows 1000] [--epsilon 2]

A world has six binary variables, a network with two v-structures whose tables are drawn from Beta(1, 1), and so many
rows. Each is learned with zCDP at delta 1e-6, add-remove, in one stage, in two, and by greedy choices that are paid
for. Printed: in how many worlds the 90 % interval of the posterior given the release holds the true answer, of four
questions (two pairs of neighbours, one pair two arcs apart, one with two variables given), and processor seconds.
"""

from __future__ import annotations

import time
import warnings

import click
import numpy as np

import dpgraph as dg
from dpgraph.testing import SeededNoise

NAMES = list("abcdef")
TRUTH = {"a": [], "b": [], "c": ["a", "b"], "d": ["c"], "e": ["c", "d"], "f": ["e"]}
QUESTIONS = (("c", {"a": 1}), ("f", {"e": 0}), ("d", {"b": 1}), ("e", {"c": 1, "d": 0}))
WAYS = {
    "one stage": {"method": "pairs"},
    "two stages": {"method": "pairs", "stages": 2},
    "greedy": {"method": "greedy"},
}


def held(seed: int, rows: int, epsilon: str) -> dict[str, list[bool]]:
    """Whether each question's interval holds the truth, by way."""
    rng = np.random.default_rng(seed)
    network = dg.Network.of({name: [0, 1] for name in NAMES}, TRUTH)
    tables = {}
    for name, parents in TRUTH.items():
        p = rng.beta(1, 1, (2,) * len(parents))
        tables[name] = np.stack([1 - p, p])
    truth = dg.Probabilities(network, tables)
    drawn = dg.sample_rows(truth, rows, rng)
    found: dict[str, list[bool]] = {}
    for way, settings in WAYS.items():
        made = dg.learn_network(
            drawn, network.domain, epsilon=epsilon, delta="1e-6", unit=dg.PrivacyUnit("add-remove"), n=rows, seed=seed,
            noise=SeededNoise(seed), max_parents=2, **settings,
        )  # fmt: skip
        draws = made.posterior(draws=400, seed=seed)
        found[way] = []
        for target, given in QUESTIONS:
            true = float(dg.query(truth, target, given).to_frame()["mean"].iloc[1])
            row = dg.query(draws, target, given, interval=0.9).to_frame().iloc[1]
            found[way].append(bool(row["low"] <= true <= row["high"]))
    return found


@click.command()
@click.option("--worlds", default=100, show_default=True)
@click.option("--rows", default=1000, show_default=True)
@click.option("--epsilon", default="2", show_default=True)
@click.option("--seconds", default=400, show_default=True, help="After so many no further world is begun.")
def main(worlds: int, rows: int, epsilon: str, seconds: float) -> None:
    """Prints a row for each way."""
    warnings.simplefilter("ignore")
    started, found = time.process_time(), []
    for seed in range(worlds):
        if time.process_time() - started > seconds:
            break
        found.append(held(seed, rows, epsilon))
    print(f"{len(found)} worlds, {rows} rows, epsilon {epsilon}; {time.process_time() - started:.0f} s")
    for way in WAYS:
        each = np.mean([one[way] for one in found], axis=0)
        print(f"{way:11} {' '.join(f'{share:.2f}' for share in each)}  together {each.mean():.3f}")


if __name__ == "__main__":
    main()
