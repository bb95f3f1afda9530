"""Networks learned without a graph: how far the pairs and triples of their synthetic rows are from those of the rows.

    python benchmarks/structure.py [--sets votes,titanic] [--epsilons 0.1,1,10] [--seeds 3] [--first 1] [--delta 1e-6]

Adult (14 columns of up to 100 levels as coded), mushroom, titanic and house votes are read from ../shared/data where
that is there, or from where the environment's SHARED_DATA says. ``survey`` is simulated: 16 binary columns of 21 574
rows of six hidden classes; asia, alarm and child are 10 000 rows of pgmpy's networks. Printed for each: the mean total
variation of all pairs and of 200 triples, of as many synthetic rows as there are rows, over the seeds; beside it
independent columns, each variable measured by itself with the whole budget; where the truth is known the structural
Hamming distance, counted on the skeletons; and seconds of the processor. Further, from a network learned on nine tenths
of the rows, the mean natural log-likelihood of the others, and of independent columns learned alike. Peers are in
benchmarks/rivals.py.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.testing import SeededNoise

SHARED = Path(os.environ.get("SHARED_DATA", Path(__file__).parents[1].parent / "shared/data"))
TRIPLES = 200


def adult() -> tuple[pd.DataFrame, dg.Domain, None]:
    """Adult as coded."""
    sizes = json.loads((SHARED / "adult-domain.json").read_text())
    return pd.read_csv(SHARED / "adult.csv"), dg.Domain.of({name: list(range(k)) for name, k in sizes.items()}), None


def _text(file: str) -> tuple[pd.DataFrame, dg.Domain, None]:
    rows = pd.read_csv(SHARED / file, dtype=str, keep_default_na=False)
    return rows, dg.Domain.of({name: sorted(rows[name].unique()) for name in rows}), None


def titanic() -> tuple[pd.DataFrame, dg.Domain, None]:
    """Titanic: age in decades."""
    rows = pd.read_csv(SHARED / "titanic_survival.csv")
    domain = {
        "survived": ["no", "yes"],
        "sex": ["female", "male"],
        "age": dg.Bins([0, 10, 20, 30, 40, 50, 60, 90], missing=True),
        "passengerClass": ["1st", "2nd", "3rd"],
    }
    return rows[list(domain)], dg.Domain.of(domain), None


def survey(rows: int = 21574) -> tuple[pd.DataFrame, dg.Domain, None]:
    """16 binary columns of six hidden classes, with log-odds of each class's own and of two earlier columns."""
    rng = np.random.default_rng(11)
    classes = rng.choice(6, rows, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    columns: dict[str, np.ndarray] = {}
    for i in range(16):
        odds = rng.normal(0, 2, 6)[classes]
        for name in rng.choice(list(columns), min(2, len(columns)), replace=False) if columns else ():
            odds = odds + rng.normal(0, 2) * (columns[name] - 0.5)
        columns[f"q{i:02d}"] = (rng.random(rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return pd.DataFrame(columns), dg.Domain.of({name: [0, 1] for name in columns}), None


def bundled(name: str, rows: int) -> Callable[[], tuple[pd.DataFrame, dg.Domain, dg.Network]]:
    """Rows of one of pgmpy's networks."""

    def made() -> tuple[pd.DataFrame, dg.Domain, dg.Network]:
        truth = dg.load(f"example:{name}")
        return dg.sample_rows(truth, rows, np.random.default_rng(5)), truth.network.domain, truth.network

    return made


SETS: dict[str, Callable[[], tuple[pd.DataFrame, dg.Domain, dg.Network | None]]] = {
    "adult": adult,
    "mushroom": lambda: _text("mushroom.csv"),
    "titanic": titanic,
    "votes": lambda: _text("house_votes_84.csv"),
    "survey": survey,
    "asia": bundled("asia", 10_000),
    "asia-1000": bundled("asia", 1_000),
    "child": bundled("child", 10_000),
    "alarm": bundled("alarm", 10_000),
}


class Compared:
    """The exact tables of some pairs and triples, which others are held to."""

    def __init__(self, rows: pd.DataFrame, domain: dg.Domain) -> None:
        self.domain = domain
        self.n = len(rows)
        rng = np.random.default_rng(0)
        triples = list(itertools.combinations(domain.names, 3))
        chosen = rng.choice(len(triples), min(TRIPLES, len(triples)), replace=False)
        self.sets = {2: list(itertools.combinations(domain.names, 2)), 3: [triples[i] for i in sorted(chosen)]}
        columns = self._columns(rows)
        self.true = {names: self._table(columns, names) for size in self.sets for names in self.sets[size]}

    def _columns(self, rows: pd.DataFrame) -> dict[str, np.ndarray]:
        codes = dg.statistics.encode(rows, self.domain)
        return {name: codes.columns[name].astype(np.int64) for name in self.domain.names}

    def _table(self, columns: dict[str, np.ndarray], names: tuple[str, ...]) -> np.ndarray:
        shape = [self.domain.sizes[name] for name in names]
        flat = np.ravel_multi_index([columns[name] for name in names], shape)
        return np.bincount(flat, minlength=int(np.prod(shape))) / len(flat)

    def likelihood(self, model: dg.Probabilities, rows: pd.DataFrame) -> float:
        """The mean natural log-probability of rows."""
        columns = self._columns(rows)
        return float(
            sum(
                np.log(model.table(name)[tuple(columns[one] for one in model.network.family(name))]).mean()
                for name in self.domain.names
            )
        )

    def distance(self, rows: pd.DataFrame) -> tuple[float, float]:
        """The mean total variation of pairs, and of triples."""
        columns = self._columns(rows)
        found = [
            float(np.mean([abs(self._table(columns, names) - self.true[names]).sum() / 2 for names in self.sets[size]]))
            for size in (2, 3)
        ]
        return found[0], found[1]


def hamming(found: dg.Network, true: dg.Network) -> int:
    """Edges, directions aside, that only one of two graphs has."""
    edges = [{frozenset((p, v)) for v, above in one.parents.items() for p in above} for one in (found, true)]
    return len(edges[0] ^ edges[1])


def independent(
    rows: pd.DataFrame, domain: dg.Domain, epsilon: str, delta: str, seed: int
) -> tuple[dg.Probabilities, None]:
    """Every column by itself."""
    network = dg.Network.of(domain, {})
    unit = dg.PrivacyUnit("add-remove")
    mechanism = dg.GaussianMechanism(epsilon, delta) if float(delta) else dg.LaplaceMechanism(epsilon, tables="maximal")
    noisy = dg.release(
        dg.count(rows, network), mechanism, budget=dg.Budget(epsilon, delta, unit=unit), noise=SeededNoise(seed)
    )
    tables = dg.reconcile(noisy, nonnegative=True)
    found = {}
    for name in domain.names:
        table = np.maximum(tables.family(name), 0) + 1e-9
        found[name] = table / table.sum()
    return dg.Probabilities(network, found), None


def learned(rows, domain, epsilon, delta, seed):
    """All pairs, then a graph."""
    unit = dg.PrivacyUnit("add-remove")
    made = dg.learn_network(rows, domain, epsilon=epsilon, delta=delta, unit=unit, noise=SeededNoise(seed))
    return made.probabilities, made.network


@click.command()
@click.option("--sets", default=",".join(SETS), show_default=True)
@click.option("--epsilons", default="0.1,1,10", show_default=True)
@click.option("--seeds", default=3, show_default=True)
@click.option("--first", default=1, show_default=True, help="The first seed.")
@click.option("--delta", default="1e-6", show_default=True, help="0 for pure differential privacy.")
def main(sets: str, epsilons: str, seeds: int, first: int, delta: str) -> None:
    """Prints a row for each set and epsilon."""
    print(f"add-remove, delta {delta}, {seeds} seeds: mean total variation of pairs / triples (sd over seeds)")
    print(
        f"{'set':10} {'epsilon':>7}  {'independent':>15}  {'learned':>27}  {'arcs':>5} {'shd':>5} {'seconds':>8} "
        f"{'alone':>8} {'told':>8}"
    )
    for name in sets.split(","):
        rows, domain, truth = SETS[name]()
        compared = Compared(rows, domain)
        for epsilon in epsilons.split(","):
            held = np.random.default_rng(first).random(len(rows)) < 0.1
            found: dict[str, list[tuple[float, ...]]] = {"independent": [], "learned": []}
            for seed in range(first, first + seeds):
                for way, run in (("independent", independent), ("learned", learned)):
                    started = time.process_time()
                    model, graph = run(rows, domain, epsilon, delta, seed)
                    taken = time.process_time() - started
                    drawn = dg.sample_rows(model, len(rows), np.random.default_rng(seed))
                    arcs = 0 if graph is None else sum(map(len, graph.parents.values()))
                    part, _ = run(rows[~held].reset_index(drop=True), domain, epsilon, delta, seed)
                    told = compared.likelihood(part, rows[held])
                    apart = float("nan") if truth is None or graph is None else hamming(graph, truth)
                    found[way].append((*compared.distance(drawn), arcs, apart, taken, told))
            alone, mean = (np.mean(found[way], axis=0) for way in found)
            sd = np.std(found["learned"], axis=0)
            print(
                f"{name:10} {epsilon:>7}  {alone[0]:.4f}/{alone[1]:.4f}   {mean[0]:.4f}/{mean[1]:.4f} "
                f"({sd[0]:.4f}/{sd[1]:.4f})  {mean[2]:5.0f} {mean[3]:5.0f} {mean[4]:8.1f} "
                f"{alone[5]:8.2f} {mean[5]:8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
