"""Effects from one release: do 90 % intervals hold the known effect, beside adjusting the noisy counts directly?

In each world a treatment acts on an outcome, with a confounder, a mediator or an M: a collider of two other causes. The
graph is given, its tables are drawn anew for each data set, and the effect on P(second level) is known from them. The
peer spends all of epsilon on the one table of treatment, outcome and adjustment set, adjusts in it as if it were exact,
and has the normal interval of sampling.

    python benchmarks/effects.py [--repeat 50]
"""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg

Z90 = 1.6448536269514722
PARENTS = {
    "confounder": {"t": ["z"], "y": ["t", "z"]},
    "mediator": {"t": ["z"], "m": ["t"], "y": ["m", "z"]},
    "M-bias": {"c": ["a", "b"], "t": ["a"], "y": ["b", "t"]},
}


def world(kind: str, rng: np.random.Generator) -> dg.Probabilities:
    """Binary tables, the confounder of four levels; every probability between .15 and .85."""
    names = dict.fromkeys(n for family in PARENTS[kind].items() for n in (*family[1], family[0]))
    network = dg.Network.of({n: range(4) if n == "z" else range(2) for n in names}, PARENTS[kind])
    tables: dict[str, Any] = {}
    for name in network.domain.names:
        shape = network.shape(network.family(name))
        second = rng.uniform(0.15, 0.85, shape[1:])
        tables[name] = rng.dirichlet(np.full(4, 4.0)) if name == "z" else np.stack([1 - second, second])
    return dg.Probabilities(network, tables)


def plugged_in(rows: Any, chosen: tuple[str, ...], domain: Any, epsilon: str, seed: int) -> tuple[float, float]:
    """The adjusted difference of one noisy table, clipped at 0 and taken as exact, and its standard error."""
    names = (*chosen, "t", "y")
    network = dg.Network.of(domain.restrict(names), {"t": chosen, "y": (*chosen, "t")})
    settings: Any = {"budget": dg.Budget(epsilon), "noise": dg.testing.SeededNoise(seed)}
    released = dg.release(dg.count(rows, network), dg.LaplaceMechanism(epsilon, tables="maximal"), **settings)
    ((axes, table),) = released.value.tables.items()
    joint = np.maximum(np.transpose(table, [axes.index(name) for name in names]), 0.5).reshape(-1, 2, 2)
    joint, n = joint / joint.sum(), len(rows)
    strata, treated = joint.sum(axis=(1, 2)), joint.sum(axis=2)
    law = joint[:, :, 1] / treated
    inside = (strata[:, None] ** 2 * law * (1 - law) / treated).sum()
    difference = law[:, 1] - law[:, 0]
    effect = (strata * difference).sum()
    return float(effect), float(np.sqrt((inside + (strata * difference**2).sum() - effect**2) / n))


@click.command()
@click.option("--repeat", default=50, show_default=True, help="Worlds and releases of each line.")
def main(repeat: int) -> None:
    """Prints a line for each world, epsilon and n: coverage, mean width and mean absolute error of both."""
    warnings.simplefilter("ignore")
    lines = []
    for kind, epsilon, n in itertools.product(PARENTS, ("0.5", "2"), (1000, 5000)):
        found = []
        for seed in range(repeat):
            rng = np.random.default_rng(seed)
            truth = world(kind, rng)
            network = truth.network
            rows = dg.sample_rows(truth, n, rng)
            noise = dg.testing.SeededNoise(seed)
            counts = dg.count(rows, network)
            released = dg.release(counts, dg.LaplaceMechanism(epsilon), budget=dg.Budget(epsilon), noise=noise)
            exact = dg.effect(truth, "t", "y")
            known = float(exact.answer.mean[0])
            posterior = dg.posterior(released, method=dg.methods.Records(chains=2), draws=150, seed=seed)
            mine = dg.effect(posterior, "t", "y").answer
            estimate, error = plugged_in(rows, exact.adjust, network.domain, epsilon, seed)
            naive = abs(float(exact.naive.mean[0]) - known)
            ends = (mine.low[0], mine.high[0]), (estimate - Z90 * error, estimate + Z90 * error)
            for who, middle, (low, high) in zip(("dpgraph", "plug-in"), (mine.mean[0], estimate), ends, strict=True):
                found.append((who, low <= known <= high, high - low, abs(middle - known), naive))
        frame = pd.DataFrame(found, columns=["who", "coverage", "width", "error", "naive bias"])
        mean = frame.groupby("who").mean()
        lines.append(
            {"world": kind, "epsilon": epsilon, "n": n, "naive bias": mean["naive bias"].iloc[0]}
            | {f"{who} {name}": mean.loc[who, name] for who in mean.index for name in ("coverage", "width", "error")}
        )
        print(pd.DataFrame(lines[-1:]).round(3).to_string(index=False, header=len(lines) == 1), flush=True)
    whole = pd.DataFrame(lines)[["dpgraph coverage", "plug-in coverage"]].mean()
    print(f"coverage over all: dpgraph {whole.iloc[0]:.3f}, plug-in {whole.iloc[1]:.3f}")


if __name__ == "__main__":
    main()
