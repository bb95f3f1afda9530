"""Rules beside none: the error of posterior means with and without cells that cannot be, and rows that break a rule.

    python benchmarks/rules.py [--worlds simulated,cps] [--n 2000] [--epsilons 0.1,1] [--seeds 5]

Released by ``LaplaceMechanism(epsilon)``, add-remove. ``none`` is the release without rules, ``zeroed`` its means with
0 where the rules say so, rows renormalised. Printed: the mean over tables of the total variation distance between
posterior means and the truth, parents as frequent as they are; means over seeds with standard deviations; in how many
seeds rules are better than ``zeroed``; and how many of a million rows of the mean break a rule, with rules and without.

Simulated: six variables with all kinds of rules but sums, their tables drawn from the hierarchical prior. CPS 1988:
years since the age of 6 are those of school and of experience, as experience is defined; the whole table is the truth,
and rows are drawn without replacement.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.inference.network.queries import sample_codes
from dpgraph.structure.network import codes

DATA = Path(__file__).parents[2] / "shared" / "data"
METHODS = {"records": dg.methods.Records(burn_in=400, thin=2), "tables": "tables", "plug-in": "plug-in"}
World = tuple[dg.Network, dict[str, Any], dict[str, Any], pd.DataFrame]


def simulated(n: int, rng: np.random.Generator) -> World:
    """Rows of tables drawn from the prior within rules."""
    districts = [f"d{at}" for at in range(10)]
    network = dg.Network.of(
        {
            "age": dg.Bins([0, 6, 16, 25, 45, 65, 100]),
            "work": ["none", "school", "half", "full"],
            "years": dg.Bins([0, 6, 16, 25, 45, 65, 100]),
            "district": districts,
            "county": ["c1", "c2", "c3", "c4", "c5"],
            "house": ["flat", "farm", "own"],
        },
        {"work": ["age"], "years": ["age"], "county": ["district"], "house": ["county"]},
        dg.Rules(
            impossible=[{"age": "0-6", "work": ["school", "half", "full"]}, {"age": "6-16", "work": ["half", "full"]}],
            determines={"district": {"county": {name: f"c{1 + at // 2}" for at, name in enumerate(districts)}}},
            order=[("years", "age")],
        ),
    )
    truth = dg.HierarchicalPrior().sample(network, rng)
    weights = {name: dg.query(truth, list(above)).mean if above else 1.0 for name, above in network.parents.items()}
    return network, {name: truth.table(name) for name in network.parents}, weights, dg.sample_rows(truth, n, rng)


def cps(n: int, rng: np.random.Generator) -> World:
    """Rows of CPS 1988; the whole table is the truth."""
    rows = pd.read_csv(DATA / "cps1988.csv")
    rows["since-six"] = rows["education"] + rows["experience"]
    domain = {
        "education": dg.Bins([0, 12, 13, 16, 19]),
        "experience": dg.Bins([-4, 5, 10, 20, 30, 70]),
        "since-six": dg.Bins([0, 15, 20, 25, 30, 40, 50, 80]),
        "parttime": ["no", "yes"],
        "wage": dg.Bins([0, 200, 300, 400, 500, 600, 800, 1000, 20000]),
    }
    parents = {"experience": ["education"], "since-six": ["education", "experience"]}
    parents |= {"parttime": ["since-six"], "wage": ["education"]}
    network = dg.Network.of(domain, parents, dg.Rules(sums={"since-six": ["education", "experience"]}))
    every, truth, weights = dg.count(rows[list(domain)], network), {}, {}
    for name in domain:
        counts = every.sensitive_margin(network.family(name)).astype(float)
        above = counts.sum(axis=0)
        truth[name], weights[name] = counts / np.maximum(above, 1), above / len(rows)
    return network, truth, weights, rows[list(domain)].sample(n, random_state=rng)


WORLDS = {"simulated": simulated, "cps": cps}


def error(truth: dict[str, Any], weights: dict[str, Any], means: dict[str, Any]) -> float:
    """The mean over tables of the distance of rows, weighed by how frequent their parents are."""
    off = {name: np.abs(truth[name] - means[name]).sum(axis=0) / 2 for name in truth}
    return float(np.mean([(np.reshape(weights[name], off[name].shape) * off[name]).sum() for name in truth]))


def broken(network: dg.Network, mean: Any) -> int:
    """How many of a million rows break a rule."""
    rows, found = sample_codes(mean, 1_000_000, np.random.default_rng(1)), np.zeros(1_000_000, bool)
    for rule in network.rules.impossible:
        held = [np.isin(rows[name], codes(network.domain, name, levels)) for name, levels in rule.items()]
        found |= np.logical_and.reduce(held)
    return int(found.sum())


@click.command(help=__doc__)
@click.option("--worlds", default="simulated,cps")
@click.option("--n", default=2000)
@click.option("--epsilons", default="0.1,1")
@click.option("--seeds", default=5)
def main(worlds: str, n: int, epsilons: str, seeds: int) -> None:
    """Prints the errors."""
    warnings.simplefilter("ignore")
    for world in worlds.split(","):
        for epsilon in epsilons.split(","):
            found: dict[str, list[list[float]]] = {method: [] for method in METHODS}
            bad = [0, 0]
            for seed in range(seeds):
                network, truth, weights, rows = WORLDS[world](n, np.random.default_rng(seed))
                released = []
                for described in (network, dg.Network.of(network.domain, network.parents)):
                    budget = dg.Budget(float(epsilon), unit=dg.PrivacyUnit("add-remove"))
                    released.append(
                        dg.release(
                            dg.count(rows, described),
                            dg.LaplaceMechanism(epsilon),
                            budget=budget,
                            noise=dg.testing.SeededNoise(seed),
                        )
                    )
                for method, settings in METHODS.items():
                    made = [
                        dg.posterior(
                            one, method=settings, prior=None if method == "records" else 1.0, draws=500, seed=seed
                        ).mean()
                        for one in released
                    ]
                    tables = [{name: one.table(name) for name in network.domain.names} for one in made]
                    zeroed = {}
                    for name, table in tables[1].items():
                        allowed = network.allowed(name)
                        kept = table if allowed is None else table * allowed
                        zeroed[name] = kept / kept.sum(axis=0)
                    found[method].append([error(truth, weights, one) for one in (*tables, zeroed)])
                    if method == "records" and seed == 0:
                        bad = [broken(network, one) for one in made]
            cells = sum(map(network.cells, network.families))
            impossible = 1 - sum(map(network.possible_cells, network.families)) / cells
            print(f"{world}, n {n}, epsilon {epsilon}: {impossible:.0%} of {cells} cells impossible; broken rows {bad}")
            for method, errors in found.items():
                each = np.array(errors)
                words = [f"{m:.4f} ({s:.4f})" for m, s in zip(each.mean(axis=0), each.std(axis=0, ddof=1), strict=True)]
                better = int((each[:, 0] < each[:, 2]).sum())
                print(f"  {method:8} rules {words[0]}  none {words[1]}  zeroed {words[2]}  better {better}/{seeds}")


if __name__ == "__main__":
    main()
