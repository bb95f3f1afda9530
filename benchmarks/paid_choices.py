"""Which way of learning a network is best, on simulated worlds: what the rule of ``method="auto"`` was chosen by.

    python benchmarks/paid_choices.py [--worlds 40] [--seed 0]

A world has 6 to 24 variables of 2 to 4, 2 to 12 or 2 to 60 levels, 1 000 to 50 000 rows from a random network of up to
two parents with random strength, epsilon from .05 to 10, delta 0 or 1e-6, add-remove. Printed for each: the mean total
variation of all pairs of as many synthetic rows, by each method, and what is public of the world.
"""

from __future__ import annotations

import itertools
import time

import click
import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.testing import SeededNoise

METHODS = ("pairs", "greedy")


def world(rng: np.random.Generator) -> tuple[pd.DataFrame, dg.Domain]:
    """Rows of a random network."""
    d, most = int(rng.integers(6, 25)), int(rng.choice([4, 12, 60]))
    n = int(10 ** rng.uniform(3, 4.7))
    strength = 10 ** rng.uniform(-0.7, 0.7)
    sizes = {f"v{i:02d}": round(2 * (most / 2) ** rng.random()) for i in range(d)}
    names = list(sizes)
    columns: dict[str, np.ndarray] = {}
    for i, name in enumerate(names):
        parents = list(rng.choice(names[:i], min(i, int(rng.integers(0, 3))), replace=False))
        logits = rng.normal(0, 1, sizes[name]) + np.zeros((n, 1))
        for parent in parents:
            logits = logits + strength * rng.normal(0, 1, (sizes[parent], sizes[name]))[columns[parent]]
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        cumulative = np.cumsum(weights / weights.sum(axis=1, keepdims=True), axis=1)
        columns[name] = (rng.random((n, 1)) > cumulative).sum(axis=1).clip(0, sizes[name] - 1)
    return pd.DataFrame(columns), dg.Domain.of({name: list(range(size)) for name, size in sizes.items()})


def distance(one: pd.DataFrame, other: pd.DataFrame, domain: dg.Domain) -> float:
    """The mean total variation of all pairs."""
    found = []
    for a, b in itertools.combinations(domain.names, 2):
        size = domain.sizes[b]
        tables = [
            np.bincount(f[a].to_numpy(int) * size + f[b].to_numpy(int), minlength=domain.sizes[a] * size) / len(f)
            for f in (one, other)
        ]
        found.append(np.abs(tables[0] - tables[1]).sum() / 2)
    return float(np.mean(found))


def alone(rows: pd.DataFrame, domain: dg.Domain, epsilon: str, delta: str) -> pd.DataFrame:
    """Independent columns, each measured with the whole budget's share."""
    network = dg.Network.of(domain, {})
    mechanism = dg.GaussianMechanism(epsilon, delta) if float(delta) else dg.LaplaceMechanism(epsilon, tables="maximal")
    budget = dg.Budget(epsilon, delta, unit=dg.PrivacyUnit("add-remove"))
    noisy = dg.release(dg.count(rows, network), mechanism, budget=budget, noise=SeededNoise(1))
    return dg.sample_rows(dg.posterior(noisy, prior=0.01, method="plug-in").mean(), len(rows), np.random.default_rng(1))


@click.command()
@click.option("--worlds", default=40, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(worlds: int, seed: int) -> None:
    """Prints a row for each world."""
    rng = np.random.default_rng(seed)
    print("d mean_pair_cells n epsilon delta independent " + " ".join(METHODS) + " seconds")
    for _ in range(worlds):
        rows, domain = world(rng)
        epsilon, delta = f"{10 ** rng.uniform(-1.3, 1):.3g}", str(rng.choice(["0", "1e-6"]))
        cells = np.mean([domain.sizes[a] * domain.sizes[b] for a, b in itertools.combinations(domain.names, 2)])
        found = [distance(alone(rows, domain, epsilon, delta), rows, domain)]
        started = time.process_time()
        for method in METHODS:
            unit, noise = dg.PrivacyUnit("add-remove"), SeededNoise(1)
            settings = {"epsilon": epsilon, "delta": delta, "unit": unit, "noise": noise}
            made = dg.learn_network(rows, domain, method=method, **settings)
            drawn = dg.sample_rows(made.probabilities, len(rows), np.random.default_rng(1))
            found.append(distance(drawn, rows, domain))
        taken = time.process_time() - started
        printed = " ".join(f"{one:.4f}" for one in found)
        print(f"{len(domain.names)} {cells:.0f} {len(rows)} {epsilon} {delta} {printed} {taken:.1f}", flush=True)


if __name__ == "__main__":
    main()
