"""The prior along a number's bins beside the one without an order, in simulated worlds and on real tables.

    python benchmarks/ordered_prior.py [--worlds smooth,rough,flat,cps,adult] [--n 2000] [--epsilons 1,0.1] [--seeds 8]

Conditional tables of children of a number of 10 bins, given ``LaplaceMechanism(epsilon)``, add-remove. In smooth worlds
logits walk from bin to bin by steps of deviation .4, in rough ones rows are uniform, in flat ones all alike. Printed:
the mean total variation between posterior means and the truth, configurations as frequent as they are, without an
order, and the ratio with it to without, of the same releases; means over seeds and tables with standard errors.
"""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg

DATA = Path(__file__).parents[2] / "shared" / "data"
METHOD = dg.methods.Records(burn_in=600, thin=4)
Truth = tuple[dg.Network, dict[str, Any], pd.DataFrame]


def simulated(kind: str, n: int, rng: np.random.Generator) -> Truth:
    """A number of 10 bins, a group, and a child of both of 2, 4 and 8 levels."""
    edges = list(range(0, 110, 10))
    children = {"two": 2, "four": 4, "eight": 8}
    network = dg.Network.of(
        {"age": dg.Bins(edges), "group": [0, 1], **{name: list(range(size)) for name, size in children.items()}},
        {name: ["age", "group"] for name in children},
    )
    tables = {"age": np.full(10, 0.1), "group": np.full(2, 0.5)}
    for name, size in children.items():
        logits = rng.standard_normal((size, 1, 1)) + np.zeros((size, 10, 2))
        if kind == "smooth":
            logits = logits + np.cumsum(0.4 * rng.standard_normal((size, 10, 2)), axis=1)
        if kind == "rough":
            logits = np.log(rng.standard_gamma(1.0, (size, 10, 2)))
        tables[name] = np.exp(logits) / np.exp(logits).sum(axis=0)
    age, group = rng.integers(0, 10, n), rng.integers(0, 2, n)
    rows = {"age": 10 * age + 5, "group": group}
    for name in children:
        below = np.cumsum(tables[name][:, age, group], axis=0)[:-1]
        rows[name] = (rng.random(n) > below).sum(axis=0)
    weights = np.full((10, 2), 1 / 20)
    return network, {name: (tables[name], weights) for name in children}, pd.DataFrame(rows)


def real(kind: str, n: int, rng: np.random.Generator) -> Truth:
    """Rows of CPS 1988 or Adult, drawn without replacement; the whole table is the truth."""
    if kind == "cps":
        rows = pd.read_csv(DATA / "cps1988.csv")
        cut = {
            "wage": [0, 100, 200, 300, 400, 500, 600, 800, 1000, 1500, 20000],
            "education": [0, 8, 9, *range(11, 19)],
        }
        cut["experience"] = [-4, 3, 6, 11, 16, 21, 26, 31, 41, 70]
        parents = {"wage": ["education"], "parttime": ["experience"], "smsa": ["wage"], "region": ["education"]}
    else:
        rows = pd.read_csv(DATA / "adult.csv")
        numbers = {"age": 10, "hours-per-week": 6, "education-num": 8}
        cut = {
            name: sorted({int(q) for q in np.quantile(rows[name], np.linspace(0, 1, k + 1))})
            for name, k in numbers.items()
        }
        parents = {"marital-status": ["age"], "income>50K": ["age", "marital-status"], "hours-per-week": ["age"]}
        parents |= {"relationship": ["age", "sex"], "workclass": ["education-num"]}
    names = [name for name in rows if name in parents or any(name in mine for mine in parents.values())]
    declared = {name: dg.Bins(cut[name]) if name in cut else sorted(rows[name].unique().tolist()) for name in names}
    network = dg.Network.of(declared, parents)
    codes = {name: [network.domain[name].code(value) for value in rows[name].tolist()] for name in names}
    truth = {}
    for name in parents:
        counts = np.zeros(network.shape(network.family(name)))
        np.add.at(counts, tuple(codes[one] for one in network.family(name)), 1)
        seen = np.maximum(counts.sum(axis=0), 1e-9)
        truth[name] = (counts / seen, seen / seen.sum())
    return network, truth, rows[names].sample(n, random_state=rng)


def errors(truth: dict[str, Any], noisy: Any, ordered: bool, seed: int) -> list[float]:
    """The total variation of each table's mean from the truth."""
    prior = dg.HierarchicalPrior(ordered=ordered)
    drawn = dg.posterior(noisy, prior=prior, draws=200, seed=seed, method=METHOD)
    assert drawn.means is not None
    return [
        float((weights * np.abs(drawn.means[name].reshape(table.shape) - table).sum(axis=0) / 2).sum())
        for name, (table, weights) in truth.items()
    ]


@click.command()
@click.option("--worlds", default="smooth,rough,flat,cps,adult", show_default=True)
@click.option("--n", default=2000, show_default=True)
@click.option("--epsilons", default="1,0.1", show_default=True)
@click.option("--seeds", default=8, show_default=True)
def main(worlds: str, n: int, epsilons: str, seeds: int) -> None:
    """Prints a line for each world and epsilon."""
    warnings.simplefilter("ignore")
    for world, epsilon in product(worlds.split(","), epsilons.split(",")):
        found, seconds = np.zeros((2, seeds)), np.zeros(2)
        for seed in range(seeds):
            rng = np.random.default_rng(seed)
            network, truth, rows = (real if world in ("cps", "adult") else simulated)(world, n, rng)
            mechanism, noise = dg.LaplaceMechanism(epsilon), dg.testing.SeededNoise(seed)
            noisy = dg.release(dg.count(rows, network), mechanism, budget=dg.Budget(epsilon), noise=noise)
            for ordered in (0, 1):
                begun = perf_counter()
                found[ordered, seed] = np.mean(errors(truth, noisy, bool(ordered), seed))
                seconds[ordered] += perf_counter() - begun
        ratios, error = found[1] / found[0], found[0].mean()
        print(
            f"{world:8} epsilon {epsilon:4} without {error:.4f}  ratio {found[1].mean() / error:.3f}"
            f" ({ratios.std(ddof=1) / np.sqrt(seeds):.3f})  seconds {seconds[0] / seeds:.1f} {seconds[1] / seeds:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
