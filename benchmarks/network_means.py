"""How close is the posterior mean of a network's tables? The default beside the plug-in, on eight bundled networks.

Rows are drawn from each network and released at epsilon 1, n = 10 000, add-remove. Printed for each method: the mean
over families of the total variation between the mean's family tables and those of the rows, and those of the network
that made the rows, each with its ratio to ``posterior(counts="nearest")``; seconds of processor time; the share of
parameters whose R-hat is below 1.1, and the worst.

    python benchmarks/network_means.py [--networks asia,alarm] [--seeds 0,1] [--methods auto,tables] [--rows 10000]

``--networks random:0.5`` is a simulated world, another one for each seed: twelve variables of two to five levels with
up to three parents, every cell of every table with a Dirichlet concentration of 0.5.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from typing import Any

import click
import numpy as np

import dpgraph as dg
from dpgraph.inference.network.evidence import contingency_table
from dpgraph.inference.network.queries import sample_codes
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap

EIGHT = "asia,child,insurance,water,alarm,hailfinder,win95pts,hepar2"
HEAD = "network     seed method                   rows  ratio  truth  ratio  cpu s  R-hat<1.1  worst  reason"

#: Synthetic rows that stand for a network's joint law; the same uniforms are used for each network.
MANY = 1_000_000


@click.command()
@click.option("--networks", default=EIGHT, show_default=True)
@click.option("--seeds", default="0", show_default=True)
@click.option("--methods", default="auto", show_default=True, help="Methods, or a number for records with that prior.")
@click.option("--rows", default=10_000, show_default=True)
@click.option("--epsilon", default="1", show_default=True)
@click.option("--chains", default=2, show_default=True)
@click.option("--burn-in", default=500, show_default=True)
@click.option("--draws", default=1000, show_default=True)
def main(
    networks: str, seeds: str, methods: str, rows: int, epsilon: str, chains: int, burn_in: int, draws: int
) -> None:
    """Prints a line for each network, seed and method."""
    warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)  # the table says how well chains mixed
    print(HEAD)
    for name in networks.split(","):
        for seed in map(int, seeds.split(",")):
            truth = world(name, seed)
            records = sample_codes(truth, rows, np.random.default_rng(seed))
            counts = dg.count(Codes(truth.network.domain, FrozenMap(records)), truth.network)
            budget = dg.Budget(epsilon, unit=dg.PrivacyUnit("add-remove"))
            noisy = dg.release(counts, dg.LaplaceMechanism(epsilon), budget=budget, noise=dg.testing.SeededNoise(seed))
            target = family_tables(truth.network, records), model_tables(truth)
            plug_in = dg.posterior(noisy, method="plug-in").mean()
            beside = [distance(model_tables(plug_in), one) for one in target]
            print(f"{name:12}{seed:4} {'nearest':20}{beside[0]:9.4f}        {beside[1]:.4f}", flush=True)
            for method in methods.split(","):
                settings = dg.methods.Records(chains=chains, burn_in=burn_in)
                start, made = time.process_time(), draw(noisy, method, settings, draws, seed)
                spent = time.process_time() - start
                own, other = (distance(model_tables(made.mean()), one) for one in target)
                r_hat = np.concatenate([values.ravel() for values in made.r_hat.values()])
                figures = f"{own:9.4f}{own / beside[0]:7.3f} {other:.4f}{other / beside[1]:7.3f}{spent:7.1f}"
                mixed = f"{(r_hat < 1.1).mean():11.4f}{r_hat.max():7.3f}"
                label = f"{made.method} {method}"
                print(f"{name:12}{seed:4} {label:20}{figures}{mixed}  {made.reason}", flush=True)


def world(name: str, seed: int) -> dg.Probabilities:
    """The tables of a bundled network, or of a simulated one: ``random:`` and the concentration of every cell."""
    if not name.startswith("random:"):
        return dg.load(f"example:{name}")
    rng, names = np.random.default_rng((8, seed)), [f"x{v}" for v in range(12)]
    levels = {v: list(range(int(rng.integers(2, 6)))) for v in names}
    parents = {
        names[v]: [names[u] for u in rng.choice(v, size=int(rng.integers(0, min(3, v) + 1)), replace=False)]
        for v in range(1, len(names))
    }
    network, concentration = dg.Network.of(levels, parents), float(name.removeprefix("random:"))
    tables = {v: np.full(network.shape(network.family(v)), concentration) for v in names}
    return dg.results.DirichletPosterior(network, tables).sample(rng)[0]


def draw(noisy: Any, method: str, records: dg.methods.Records, draws: int, seed: int) -> dg.results.PosteriorDraws:
    """The posterior by a method."""
    if method in ("tables", "normal"):
        return dg.posterior(noisy, method=method, draws=draws, seed=seed)
    if method == "auto":
        from dpgraph.inference.methods import Automatic

        return dg.posterior(noisy, method=Automatic(records), draws=draws, seed=seed)
    prior = method if method == "hierarchical" else float(method)
    return dg.posterior(noisy, prior=prior, method=records, draws=draws, seed=seed)


def family_tables(network: dg.Network, records: Mapping[str, Any]) -> dict[str, Any]:
    """The shares of the cells of every family."""
    n = len(next(iter(records.values())))
    return {
        name: contingency_table(records, network.family(name), network.shape(network.family(name))) / n
        for name in network.domain.names
    }


def model_tables(model: dg.Probabilities) -> dict[str, Any]:
    """The joint probabilities of every family: its parents' by simulation, the rest as the tables say."""
    made = sample_codes(model, MANY, np.random.default_rng(5))
    return {name: model.table(name) * table.sum(axis=0) for name, table in family_tables(model.network, made).items()}


def distance(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The mean over families of the total variation between two sets of family tables."""
    return float(np.mean([np.abs(one[name] - other[name]).sum() / 2 for name in one]))


if __name__ == "__main__":
    main()
