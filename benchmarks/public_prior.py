"""What a public table as a prior is worth, and what a wrong one costs.

Rows are released with Laplace noise, one replaced. The public table has as many rows (simulated worlds), or the other
rows (CPS 1988, where the private rows' own tables stand for the truth; with ``--south`` the private rows are of the
South and the public ones are not). A share of the cells of its conditional tables is replaced by cells of another
world. Error: the mean total variation between the posterior mean's tables and the truth's, over configurations of
parents as frequent as they are (error) or all alike (alike). Printed is the ratio to the error without a public table,
with the standard error over the seeds, and for simulated worlds how often 90 % intervals of 30 answers hold the truth.

    python benchmarks/public_prior.py [--seeds 10] [--rows 2000] [--cps PATH/cps1988.csv] [--south]
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.inference.network.public import public_rows

SHARES, EPSILONS = (0.0, 0.05, 0.2, 0.8), ("0.1", "1")
#: Levels and parents of simulated worlds.
SIZES = {"a": 2, "b": 5, "c": 3, "d": 4, "e": 2, "f": 6, "g": 3, "h": 2}
PARENTS = {"c": ["a", "b"], "d": ["c"], "e": ["c", "d"], "f": ["b"], "g": ["e", "f"], "h": ["g", "a"]}


@click.command()
@click.option("--seeds", default=10, show_default=True)
@click.option("--rows", default=2000, show_default=True, help="Private rows.")
@click.option("--draws", default=400, show_default=True)
@click.option("--cps", type=click.Path(path_type=Path), help="The file of CPS 1988, instead of simulated worlds.")
@click.option("--south", is_flag=True, help="Private rows of CPS are of the South, public ones of elsewhere.")
def main(seeds: int, rows: int, draws: int, cps: Path | None, south: bool) -> None:
    """Prints a line for each epsilon and share of shifted cells."""
    if cps is not None and not cps.exists():
        print(f"no file {cps}: skipped")
        return
    warnings.simplefilter("ignore")
    print("epsilon  shifted  error            alike            covered")
    for epsilon in EPSILONS:
        found = np.array([one(seed, epsilon, rows, draws, cps, south) for seed in range(seeds)])
        for at, share in enumerate(("none", *SHARES)):
            ratio = found[:, at, :2] / found[:, 0, :2]
            mean, error = ratio.mean(axis=0), ratio.std(axis=0, ddof=1) / np.sqrt(seeds)
            covered = f"{found[:, at, 2].mean():.3f}" if cps is None else ""
            words = "  ".join(f"{m:.3f} +- {e:.3f} " for m, e in zip(mean, error, strict=True))
            print(f"{epsilon:7}  {share!s:7}  {words}  {covered}", flush=True)


def one(seed: int, epsilon: str, rows: int, draws: int, cps: Path | None, south: bool) -> list[tuple[float, ...]]:
    """Both errors and the coverage, without a public table and with one of each share of shifted cells."""
    rng = np.random.default_rng(seed)
    if cps is None:
        domain = dg.Domain.of({name: list(range(size)) for name, size in SIZES.items()})
        network = dg.Network.of(domain, PARENTS)
        truth = world(network, rng)
        private, public, size = dg.sample_rows(truth, rows, rng), truth, rows
    else:
        network, private, others = of_cps(cps, rows, south, rng)
        truth, public, size = fitted(network, private), fitted(network, others), len(others)
    counts = dg.count(private, network)
    noise, budget = dg.testing.SeededNoise(seed), dg.Budget(100)
    released = dg.release(counts, dg.LaplaceMechanism(epsilon), budget=budget, noise=noise)
    tables = [dg.sample_rows(shifted(public, share, rng), size, rng) for share in SHARES]
    method = dg.methods.Records(chains=1, burn_in=800, thin=6)
    return [
        scores(truth, dg.posterior(released, prior=prior, method=method, draws=draws, seed=seed), seed)
        for prior in ("hierarchical", *map(dg.PublicPrior, tables))
    ]


def world(network: dg.Network, rng: np.random.Generator) -> dg.Probabilities:
    """Tables whose rows differ as those of surveys do."""
    return dg.HierarchicalPrior(lowest=2, highest=20).sample(network, rng)


def shifted(model: dg.Probabilities, share: float, rng: np.random.Generator) -> dg.Probabilities:
    """A share of the cells as in another world."""
    tables: Any = {}
    other = world(model.network, rng)
    for name, table in model.tables.items():
        cells = np.where(rng.random(table.shape) < share, other.table(name), table)
        tables[name] = cells / cells.sum(axis=0)
    return dg.Probabilities(model.network, tables)


def scores(truth: dg.Probabilities, drawn: Any, seed: int) -> tuple[float, float, float]:
    """The errors of the mean tables, and the share of answers in their 90 % intervals."""
    mean, network = drawn.mean(), truth.network
    apart = {name: np.abs(mean.table(name) - table).sum(axis=0) / 2 for name, table in truth.tables.items()}
    often = [float(parents_joint(truth, name).ravel() @ apart[name].ravel()) for name in apart]
    rng, inside = np.random.default_rng(seed), []
    for _ in range(30):
        target, given = rng.choice(network.domain.names, 2, replace=False)
        place, other = (int(rng.integers(network.domain.sizes[name])) for name in (target, given))
        known: Any = {given: network.domain.levels(given)[other]}
        real, answer = dg.query(truth, target, known), dg.query(drawn, target, known, interval=0.9)
        inside.append(answer.low[place] <= real.mean[place] <= answer.high[place])
    alike = [one.mean() for one in apart.values()]
    return float(np.mean(often)), float(np.mean(alike)), float(np.mean(inside))


def parents_joint(truth: dg.Probabilities, name: str) -> Any:
    """How frequent each configuration of a variable's parents is."""
    parents = truth.network.parents[name]
    if not parents:
        return np.ones(1)
    return dg.query(truth, list(parents)).mean.ravel()


def of_cps(path: Path, rows: int, south: bool, rng: np.random.Generator) -> tuple[dg.Network, Any, Any]:
    """The network of CPS 1988, and private and other rows of it."""
    table = pd.read_csv(path).drop(columns="rownames")
    words = {"ethnicity": ["cauc", "afam"], "smsa": ["yes", "no"], "parttime": ["yes", "no"]}
    words |= {} if south else {"region": ["northeast", "midwest", "south", "west"]}
    bins = {"wage": [0, 200, 350, 500, 700, 1000, 20000], "education": [0, 9, 12, 13, 16, 19]}
    domain = dg.Domain.of(
        words | {name: dg.Bins(ends) for name, ends in bins.items()} | {"experience": dg.Bins([-10, 5, 10, 20, 30, 80])}
    )
    arcs = {"education": ["ethnicity"], "experience": ["education"], "parttime": ["experience"]}
    arcs |= {"wage": ["education", "experience"], "smsa": ["ethnicity" if south else "region"]}
    arcs |= {} if south else {"ethnicity": ["region"]}
    order = table.sample(frac=1, random_state=int(rng.integers(2**31)))
    private = order[order.region == "south"][:rows] if south else order[:rows]
    others = order[order.region != "south"] if south else order[rows:]
    return dg.Network.of(domain, arcs), private[list(domain.names)], others[list(domain.names)]


def fitted(network: dg.Network, rows: Any) -> dg.Probabilities:
    """The conditional tables of rows; the even ones where there are no rows."""
    tables: Any = public_rows(dg.PublicPrior(rows), network).tables
    return dg.Probabilities(network, tables)


if __name__ == "__main__":
    main()
