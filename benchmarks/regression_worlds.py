"""The prior of a regression chosen on simulated worlds: intervals that hold least squares, and what they cost.

    python benchmarks/regression_worlds.py [--worlds 40] [--epsilons .01,.1,1,10] [--priors "explained=.5;explained=1"]

A world, all drawn anew and independently: 300 to 30 000 rows (log-uniform); 3 to 20 features (log-uniform), each a
number or with chance .3 a factor of 2 to 8 levels (log-uniform) of unequal size (chances Dirichlet(2)). Latent normals
of common correlation 0 to .8 lie behind all features; in half of the worlds one pair of them is correlated by .8 to
.98, positively or negatively (``--pairs 0``: in none). A number's deviation is .15 to .6 of half its bounds (uniform
within them it would be .58), its centre -.4 to .4. Features share the explained variance unequally (Dirichlet(1)
shares); R^2 is .05 to .8. The target's deviation is .15 to .6 of half its bounds, its centre -.3 to .3; values beyond
bounds are clipped. Coefficients of all rows' least squares are what 90 % intervals should hold, and excess error is the
mean squared error on 2000 new rows above least squares', over var(y). Beside them: plug-in; the target's average alone
with all of epsilon spent on it; and no release, where predictions are the middle of the bounds and intervals the
prior's.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.inference.regression.draws import scaled_columns
from dpgraph.statistics.rows.features import regression_features

TEST_ROWS, DRAWS, BURN_IN = 2000, 1000, 150


@dataclass(frozen=True)
class World:
    """Rows to learn from, rows to predict, and what is declared of them."""

    train: pd.DataFrame
    test: pd.DataFrame
    features: dict[str, Any]

    @property
    def design(self) -> dg.LinearDesign:
        """The columns."""
        return dg.LinearDesign(self.features, "y", (-1, 1))


def world(seed: int, pairs: float = 0.5) -> World:
    """One world of the stated range; ``pairs`` is the chance of a nearly collinear pair."""
    rng = np.random.default_rng(seed)
    n, many = (round(np.exp(rng.uniform(*np.log(ends)))) for ends in ((300, 30_000), (3, 20)))
    correlation, r2, whole = rng.uniform(0, 0.8), rng.uniform(0.05, 0.8), n + TEST_ROWS
    latent = np.sqrt(correlation) * rng.standard_normal((whole, 1))
    latent = latent + np.sqrt(1 - correlation) * rng.standard_normal((whole, many))
    latent = _with_a_pair(latent, np.random.default_rng([seed, 1]), pairs)
    shares, features, columns, signal = rng.dirichlet(np.ones(many)), {}, {}, np.zeros(whole)
    for k in range(many):
        name = f"x{k}"
        if rng.random() < 0.7:
            made = rng.uniform(-0.4, 0.4) + rng.uniform(0.15, 0.6) * latent[:, k]
            columns[name], features[name] = np.clip(made, -1, 1), (-1, 1)
            effect = rng.choice([-1, 1]) * columns[name]
        else:
            levels = int(np.exp(rng.uniform(np.log(2), np.log(9))))
            ends = np.quantile(latent[:, k], np.cumsum(rng.dirichlet(np.full(levels, 2.0)))[:-1])
            columns[name] = rng.permutation(levels)[np.searchsorted(ends, latent[:, k])]
            features[name] = list(range(levels))
            effect = rng.standard_normal(levels)[columns[name]]
        signal += np.sqrt(shares[k]) * (effect - effect.mean()) / max(effect.std(), 1e-3)
    y = np.sqrt(r2) * signal / signal.std() + np.sqrt(1 - r2) * rng.standard_normal(whole)
    columns["y"] = np.clip(rng.uniform(-0.3, 0.3) + rng.uniform(0.15, 0.6) * y, -1, 1)
    rows = pd.DataFrame(columns)
    return World(rows[:n], rows[n:], features)


def _with_a_pair(latent: np.ndarray, rng: np.random.Generator, pairs: float) -> np.ndarray:
    """Latent normals of which two are nearly the same, by the chance ``pairs``."""
    if rng.random() < pairs:
        one, other = rng.permutation(latent.shape[1])[:2]
        r = rng.choice([-1, 1]) * rng.uniform(0.8, 0.98)
        latent[:, other] = r * latent[:, one] + np.sqrt(1 - r**2) * rng.standard_normal(len(latent))
    return latent


def weights_in_units(design: dg.LinearDesign, weights: np.ndarray) -> np.ndarray:
    """The intercept and the coefficients of scaled weights."""
    return dg.results.RegressionDraws(design, weights[None], np.ones(1), "least squares").in_units[0]


def from_prior(x: np.ndarray, design: dg.LinearDesign, rng: np.random.Generator) -> dg.results.RegressionDraws:
    """Draws of the default prior where there is no release, given the columns of the rows."""
    count, prior, columns = 4000, dg.RegressionPrior(), x.shape[1]
    variance = prior.rate / rng.standard_gamma(prior.shape, count)
    first, others = rng.chisquare(prior.degrees, (2, count, 1)) / prior.degrees
    precision = np.concatenate([first, np.broadcast_to(others, (count, columns - 1))], axis=1)
    root = np.linalg.cholesky(np.linalg.pinv(np.cov(x[:, 1:].T, ddof=0)) + 1e-9 * np.eye(columns - 1))
    weights = prior.scale(design) * np.sqrt(variance[:, None] / precision) * rng.standard_normal((count, columns))
    weights[:, 1:] = weights[:, 1:] @ root.T
    weights[:, 0] -= weights[:, 1:] @ x[:, 1:].mean(axis=0)
    return dg.results.RegressionDraws(design, weights, variance, "prior")


def figures(made: World, epsilon: str, priors: dict[str, dg.RegressionPrior], seed: int) -> list[dict[str, Any]]:
    """Each prior's figures from one release of a world, and the baselines'."""
    design = made.design
    x, y = scaled_columns(design, regression_features(made.train, design)), made.train["y"].to_numpy()
    least_squares = np.linalg.lstsq(x, y, rcond=None)[0]
    aim, new = weights_in_units(design, least_squares), scaled_columns(design, regression_features(made.test, design))
    target = made.test["y"].to_numpy()
    error = lambda weights: np.mean((target - new @ weights) ** 2) / target.var()  # noqa: E731
    moments, noise = dg.statistics.regression_moments(made.train, design), dg.testing.SeededNoise(seed)
    release = dg.release(moments, dg.LaplaceMechanism(epsilon), budget=dg.Budget(epsilon), noise=noise)
    found = []
    for name, prior in [*priors.items(), ("plug-in", dg.RegressionPrior())]:
        begun = time.process_time()
        method = "plug-in" if name == "plug-in" else dg.methods.Hamiltonian(burn_in=BURN_IN)
        draws = dg.posterior(release, prior=prior, method=method, draws=DRAWS, seed=seed)
        low, high = np.quantile(draws.in_units, [0.05, 0.95], axis=0)
        found.append({
            "prior": name, "held": np.mean((low <= aim) & (aim <= high)), "width": np.median((high - low)[1:]),
            "excess error": error(draws.weights.mean(axis=0)) - error(least_squares),
            "R-hat": draws.mixing.get("r_hat", np.nan), "seconds": time.process_time() - begun,
        })  # fmt: skip
    alone, scale = np.zeros(len(least_squares)), 2 / (len(y) * float(epsilon))
    alone[0] = np.clip(y.mean() + np.random.default_rng(seed).laplace(scale=scale), -1, 1)
    found.append({"prior": "mean alone", "excess error": error(alone) - error(least_squares)})
    excess = error(np.zeros(len(least_squares))) - error(least_squares)
    low, high = np.quantile(
        from_prior(x, design, np.random.default_rng(seed)).in_units,
        [0.05, 0.95],
        axis=0,
    )
    found.append({"prior": "no release", "held": np.mean((low <= aim) & (aim <= high)), "excess error": excess})
    return [{"epsilon": epsilon, "seed": seed, **one} for one in found]


def parsed(priors: str) -> dict[str, dg.RegressionPrior]:
    """Priors by their settings, as they are written on the command line."""
    settings = {text: dict(one.split("=") for one in text.split(",") if one) for text in priors.split(";")}
    return {text: dg.RegressionPrior(**{k: _number(v) for k, v in one.items()}) for text, one in settings.items()}


def _number(text: str) -> Any:
    """A setting; several numbers stand between slashes."""
    return tuple(map(float, text.split("/"))) if "/" in text else float(text)


@click.command()
@click.option("--worlds", default=40)
@click.option("--first", default=0, help="The first world's seed.")
@click.option("--epsilons", default="0.01,0.1,1,10")
@click.option("--priors", default="explained=.5;explained=1")
@click.option("--pairs", default=0.5, help="The chance of a nearly collinear pair of features.")
@click.option("--columns", default=14, help="Worlds with more columns are passed over; time grows with their cube.")
@click.option("--rows", default="", help="A CSV file to which every figure goes as it is known.")
def main(worlds: int, first: int, epsilons: str, priors: str, pairs: float, columns: int, rows: str) -> None:
    """Prints shares held and excess errors of each prior at each epsilon."""
    warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
    warnings.simplefilter("ignore", dg.errors.PriorWarning)
    found = []
    narrow = (seed for seed in count(first) if len(world(seed, pairs).design.columns) - 1 <= columns)
    for seed in islice(narrow, worlds):
        made = world(seed, pairs)
        for epsilon in epsilons.split(","):
            found += figures(made, epsilon, parsed(priors), seed)
        if rows:
            pd.DataFrame(found).to_csv(rows, index=False)
    table = pd.DataFrame(found)
    by = table.groupby(["epsilon", "prior"], sort=False)
    shown = by[["held", "width", "excess error", "R-hat", "seconds"]].mean()
    shown.insert(1, "of held", by["held"].sem())
    shown.insert(4, "of error", by["excess error"].sem())
    print(f"{worlds} worlds of at most {columns} columns\n{shown.round(3).to_string()}\n")
    print(table.groupby("prior", sort=False)[["held", "excess error"]].mean().round(3).to_string())


if __name__ == "__main__":
    main()
