"""The private classifier where noise is as large as the data, beside the base rate alone.

    python benchmarks/small_classifiers.py [--repeats 20]

Simulated rows: features that depend on the label and on nothing else, each a Dirichlet draw whose columns are tilted by
exp(strength z). Log-loss and accuracy on 4000 other rows, and how sure the classifier is of what it predicts. The base
rate alone is the label's noise-aware frequency, released with all of epsilon. All noise is seeded: the study repeats.
"""

from __future__ import annotations

from typing import NamedTuple

import click
import numpy as np
import pandas as pd
from sklearn.naive_bayes import CategoricalNB

import dpgraph as dg

TEST_ROWS = 4000


class World(NamedTuple):
    """How rows come about."""

    features: int
    levels: int
    base: float
    strength: float


WORLDS = {
    "8 binary features, base rate .25": World(8, 2, 0.25, 0.5),
    "7 features of 3 levels, base rate .2": World(7, 3, 0.2, 0.4),
}
CELLS = {
    "8 binary features, base rate .25": ((300, ".01"), (300, ".1"), (3000, ".01"), (3000, ".1")),
    "7 features of 3 levels, base rate .2": ((400, ".02"), (400, ".1"), (2500, ".02"), (2500, ".1")),
}


def columns(world: World, rng: np.random.Generator) -> list[np.ndarray]:
    """P(level | label) of every feature, shape (levels, 2)."""
    made = []
    for _ in range(world.features):
        tilt = np.exp(world.strength * rng.standard_normal((world.levels, 2)))
        table = rng.dirichlet(np.full(world.levels, 3.0))[:, None] * tilt
        made.append(table / table.sum(axis=0))
    return made


def sampled(world: World, laws: list[np.ndarray], n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Rows of a world."""
    label = (rng.random(n) < world.base).astype(int)
    drawn = {f"f{k}": (rng.random(n) > np.cumsum(law, axis=0)[:, label]).sum(axis=0) for k, law in enumerate(laws)}
    return pd.DataFrame({**drawn, "y": label})


def scores(probability: np.ndarray, label: np.ndarray) -> tuple[float, float, float]:
    """Log-loss, accuracy and mean confidence."""
    loss = -np.log(np.maximum(probability[np.arange(len(label)), label], 1e-12)).mean()
    return float(loss), float((probability.argmax(axis=1) == label).mean()), float(probability.max(axis=1).mean())


def one(world: World, n: int, epsilon: str, seed: int) -> dict[str, tuple[float, float, float]]:
    """The scores of each method on one world's rows."""
    rng = np.random.default_rng((seed, n))
    laws = columns(world, rng)
    train, test = sampled(world, laws, n, rng), sampled(world, laws, TEST_ROWS, rng)
    domain = dg.Domain.of({**{f"f{k}": range(world.levels) for k in range(world.features)}, "y": [0, 1]})
    X, y, other, label = train.drop(columns="y"), train["y"], test.drop(columns="y"), test["y"].to_numpy()
    noise = dg.testing.SeededNoise(seed)
    found = {}
    for name, settings in {"default": {}, "plug-in": {"inference": "plug-in"}}.items():
        model = dg.PrivateNaiveBayes(domain, epsilon=epsilon, noise=noise, **settings).fit(X, y)
        found[name] = scores(model.predict_proba(other), label)
    alone = dg.Network.of(domain.restrict(["y"]), {"y": []})
    mechanism, budget = dg.LaplaceMechanism(epsilon), dg.Budget(epsilon)
    released = dg.release(dg.count(train[["y"]], alone), mechanism, budget=budget, noise=noise)
    rate = dg.posterior(released, method="tables", seed=0).mean().table("y")
    found["base rate alone"] = scores(np.tile(rate, (len(label), 1)), label)
    free = CategoricalNB(min_categories=world.levels).fit(X, y)
    found["not private"] = scores(free.predict_proba(other), label)
    return found


@click.command()
@click.option("--repeats", default=20, show_default=True)
def main(repeats: int) -> None:
    """Prints one table for each world, rows and epsilon."""
    for name, world in WORLDS.items():
        for n, epsilon in CELLS[name]:
            every = [one(world, n, epsilon, seed) for seed in range(repeats)]
            print(f"\n{name}, {n} rows, epsilon {epsilon}, {repeats} worlds: log-loss (error), accuracy, confidence")
            for method in every[0]:
                values = np.array([found[method] for found in every])
                error = values[:, 0].std(ddof=1) / np.sqrt(repeats) if repeats > 1 else float("nan")
                loss, accuracy, sure = values.mean(axis=0)
                print(f"  {method:16} {loss:.3f} ({error:.3f})   {accuracy:.3f}   {sure:.3f}", flush=True)


if __name__ == "__main__":
    main()
