"""Log-loss of PrivateClassifier beside naive Bayes, the learned network and the base rate, on held-out rows.

    python benchmarks/classifiers.py [--tables adult,titanic] [--seeds 10] [--settings "1:1e-6,0.1:0"]

Adult, mushroom and titanic from ../shared/data where they are there (columns of more than 16 levels in equal public
bins, but for the country); rows sampled from asia, child and alarm anywhere. Three quarters of the rows are fitted.
Constants were set by looking at adult's income, titanic, votes, child and asia; the others were not looked at.
Printed: means over seeds with their standard deviation, the calibration error over ten bins, and seconds of a fit.
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg

DATA = Path(__file__).parents[2] / "shared" / "data"
MOST = 16


def adult(target: str) -> tuple[pd.DataFrame, dict[str, int], str]:
    """Adult's rows."""
    rows, sizes = pd.read_csv(DATA / "adult.csv"), json.loads((DATA / "adult-domain.json").read_text())
    for name, size in sizes.items():
        if size > MOST and name != "native-country":
            width = -(-size // MOST)
            rows[name], sizes[name] = rows[name] // width, -(-size // width)
    return rows, sizes, target


def coded(frame: pd.DataFrame, target: str) -> tuple[pd.DataFrame, dict[str, int], str]:
    """Rows as codes."""
    found = {str(name): pd.factorize(column.astype(str), sort=True) for name, column in frame.items()}
    return (
        pd.DataFrame({name: codes for name, (codes, _) in found.items()}),
        {n: len(u) for n, (_, u) in found.items()},
        target,
    )


def titanic() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Titanic's passengers."""
    rows = pd.read_csv(DATA / "titanic_survival.csv").iloc[:, 1:]
    rows["age"] = pd.cut(rows["age"].fillna(-1), [-2, 0, 10, 20, 30, 40, 60, 100]).astype(str)
    return coded(rows, "survived")


def mushroom() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Mushrooms, edible or not."""
    return coded(pd.read_csv(DATA / "mushroom.csv"), "class")


def votes() -> tuple[pd.DataFrame, dict[str, int], str]:
    """Congressional votes."""
    return coded(pd.read_csv(DATA / "house_votes_84.csv"), "party")


def sampled(network: str, target: str, n: int = 5000) -> tuple[pd.DataFrame, dict[str, int], str]:
    """Rows of a bundled network."""
    rows = dg.sample_rows(dg.load(f"example:{network}"), n, 5)
    return coded(rows, target)


TABLES: dict[str, Any] = {
    "adult": lambda: adult("income>50K"),
    "adult-marital": lambda: adult("marital-status"),
    "adult-sex": lambda: adult("sex"),
    "titanic": titanic,
    "votes": votes,
    "mushroom": mushroom,
    "asia": lambda: sampled("asia", "lung"),
    "child": lambda: sampled("child", "Disease"),
    "alarm": lambda: sampled("alarm", "LVFAILURE"),
}


def log_loss(found: Any, truth: Any) -> float:
    """The mean loss in nats."""
    return float(-np.log(np.maximum(np.asarray(found)[np.arange(len(truth)), truth], 1e-12)).mean())


def off(found: Any, truth: Any) -> float:
    """The mean distance of what a label's probability says from its share, over ten parts of the rows."""
    label = np.ones(len(truth), int) if found.shape[1] == 2 else found.argmax(axis=1)
    said = found[np.arange(len(truth)), label]
    parts = np.array_split(np.argsort(said), 10)
    return float(np.mean([abs(said[part].mean() - (truth == label)[part].mean()) for part in parts]))


def losses(
    rows: pd.DataFrame, sizes: dict[str, int], target: str, epsilon: float, delta: float, unit: Any, seed: int
) -> dict[str, float]:
    """The losses of one split."""
    order = np.random.default_rng(seed).permutation(len(rows))
    train, held = rows.iloc[order[: len(rows) * 3 // 4]], rows.iloc[order[len(rows) * 3 // 4 :]]
    domain = {name: list(range(size)) for name, size in sizes.items()}
    features, truth = [name for name in sizes if name != target], held[target].to_numpy()
    start = time.perf_counter()
    model = dg.PrivateClassifier(domain, target, epsilon, delta, unit=unit).fit(train[features], train[target])
    found = {"seconds": time.perf_counter() - start}
    said = model.predict_proba(held[features])
    found |= {"classifier": log_loss(said, truth), "off": off(said, truth)}
    how = dg.GaussianMechanism(epsilon, delta) if delta else "laplace"
    naive = dg.PrivateNaiveBayes(domain, epsilon, how, "plug-in", target=target, unit=unit)
    found["naive"] = log_loss(naive.fit(train[features], train[target]).predict_proba(held[features]), truth)
    network = dg.learn_network(train, domain, epsilon=epsilon, delta=delta, unit=unit)
    found["network"] = log_loss(dg.classifier(network.probabilities, target).predict_proba(held[features]), truth)
    base = np.bincount(train[target], minlength=sizes[target]) / len(train)
    return found | {"base": log_loss(np.tile(base, (len(truth), 1)), truth)}


@click.command()
@click.option("--tables", default=",".join(TABLES), show_default=True)
@click.option("--settings", default="1:1e-6,0.1:1e-6,0.01:1e-6,1:0,0.1:0,0.01:0", show_default=True)
@click.option("--seeds", default=10, show_default=True)
@click.option("--unit", default="add-remove", show_default=True)
def main(tables: str, settings: str, seeds: int, unit: str) -> None:
    """Prints a line for each table and setting."""
    warnings.simplefilter("ignore")
    for name in tables.split(","):
        try:
            rows, sizes, target = TABLES[name]()
        except FileNotFoundError:
            print(f"{name}: no data; skipped")
            continue
        for setting in settings.split(","):
            epsilon, delta = map(float, setting.split(":"))
            made = [losses(rows, sizes, target, epsilon, delta, dg.PrivacyUnit(unit), seed) for seed in range(seeds)]
            table = pd.DataFrame(made)
            means = " ".join(f"{one} {table[one].mean():.3f} ({table[one].std():.3f})" for one in table)
            print(f"{name} epsilon {epsilon:g} delta {delta:g} {unit} n {len(rows) * 3 // 4}: {means}", flush=True)


if __name__ == "__main__":
    main()
