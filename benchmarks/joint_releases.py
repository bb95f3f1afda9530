"""What a second release is worth: widths, errors and calibration of posteriors from several releases.

Tables are drawn from the uniform prior, rows from the tables, releases from the rows. Of the same rows: one release at
half of epsilon, two of them read together, one at the whole of epsilon. Of different rows: one half of the rows
released at epsilon, both halves pooled, all rows in one release at epsilon. A line for each says the mean width of 90 %
intervals, their coverage, the error of the posterior mean, and the share of parameters whose ranks are further from
uniform than the 5 % critical value, with standard errors over the simulated data sets.

    python benchmarks/joint_releases.py [--trials 100] [--network asia] [--rows 500]
"""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg

RECORDS = dg.methods.Records(chains=1, burn_in=300, thin=5)
HEAD = "noise     method   releases                      width        covered        rmse     beyond 5 %"


@click.command()
@click.option("--trials", default=100, show_default=True, help="Simulated data sets.")
@click.option("--network", "name", default="asia", show_default=True)
@click.option("--rows", default=500, show_default=True, help="Rows of each data set.")
@click.option("--epsilon", default="1", show_default=True)
@click.option("--methods", default="records,tables,normal", show_default=True)
@click.option("--noises", default="laplace,gaussian", show_default=True)
def main(trials: int, name: str, rows: int, epsilon: str, methods: str, noises: str) -> None:
    """Prints a line for each mechanism, method and way to release."""
    network, whole = dg.read_network(f"example:{name}"), Fraction(epsilon)
    print(HEAD)
    for noise in noises.split(","):
        released = [releases(network, noise, rows, whole, trial) for trial in range(trials)]
        for method in methods.split(","):
            for way in released[0][1]:
                if method == "tables" and way.startswith("pooled"):
                    continue
                found = [judged(truth, made[way], method, trial) for trial, (truth, made) in enumerate(released)]
                print(f"{noise:10}{method:9}{way:26}{line(found)}", flush=True)


def releases(network: dg.Network, noise: str, n: int, epsilon: Fraction, trial: int) -> tuple[Any, dict[str, Any]]:
    """The true tables, and what is released of rows drawn from them in each way."""
    rng, source = np.random.default_rng(trial), dg.testing.SeededNoise(trial)
    tables = {name: drawn(rng, network.shape(network.family(name))) for name in network.domain.names}
    truth = dg.Probabilities(network, tables)
    rows = dg.sample_rows(truth, n, rng)
    every = dg.count(rows, network)
    halves = [dg.count(part, network) for part in (rows.iloc[: n // 2], rows.iloc[n // 2 :])]

    def release(counts: Any, share: Fraction) -> Any:
        budget = dg.Budget(1000, delta="1e-2")
        return dg.release(counts, mechanism(noise, share * epsilon), budget=budget, noise=source)

    one, two = release(every, Fraction(1, 2)), release(every, Fraction(1, 2))
    may, june = (release(half, Fraction(1)) for half in halves)
    return truth, {
        "one at half": one,
        "two at half": one + two,
        "one at the whole": release(every, Fraction(1)),
        "half of the rows": may,
        "pooled halves": dg.pooled([may, june]),
    }


def mechanism(noise: str, epsilon: Fraction) -> Any:
    """Laplace noise at an epsilon, or Gaussian noise whose rho is epsilon / 40: half the rho at half the epsilon."""
    return dg.LaplaceMechanism(epsilon) if noise == "laplace" else dg.GaussianMechanism(rho=epsilon / 40, delta="1e-6")


def drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    """A table of probabilities from the uniform prior."""
    gammas = rng.standard_gamma(1.0, shape)
    return gammas / gammas.sum(axis=0)


def judged(truth: dg.Probabilities, release: Any, method: str, seed: int) -> pd.DataFrame:
    """A row for each free parameter: width, whether it is covered, squared error, rank among 100 draws."""
    asked: Any = RECORDS if method == "records" else method
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)  # 100 draws of one chain are asked for
        warnings.simplefilter("ignore", dg.errors.ApproximationWarning)  # what it warns of is what is measured
        made = dg.posterior(release, prior=1.0, method=asked, draws=100, seed=seed)
    mean, found = made.mean(), []
    for name in truth.network.domain.names:
        draws = made.flat(name)[:, :-1].reshape(100, -1)
        exact, middle = truth.table(name)[:-1].reshape(-1), mean.table(name)[:-1].reshape(-1)
        low, high = np.quantile(draws, [0.05, 0.95], axis=0)
        found.append(
            pd.DataFrame(
                {
                    "width": high - low,
                    "covered": (low <= exact) & (exact <= high),
                    "square": (middle - exact) ** 2,
                    "rank": ((draws < exact).sum(axis=0) + np.random.default_rng(seed).random(exact.size)) / 101,
                }
            )
        )
    return pd.concat(found, ignore_index=True)


def line(found: list[pd.DataFrame]) -> str:
    """The figures of one way, each mean with its standard error over the data sets."""
    ranks = np.sort(np.stack([one["rank"] for one in found]), axis=0)
    trials = len(found)
    edges = np.arange(trials + 1)[:, None] / trials
    distance = np.maximum(np.abs(ranks - edges[1:]), np.abs(ranks - edges[:-1])).max(axis=0)
    critical = 1.358 / (np.sqrt(trials) + 0.12 + 0.11 / np.sqrt(trials))
    width, covered = (spread([one[column].mean() for one in found]) for column in ("width", "covered"))
    rmse = np.sqrt(np.mean([one["square"].mean() for one in found]))
    return f"{width:>14}{covered:>15}{rmse:10.4f}{np.mean(distance > critical):12.2f}"


def spread(values: list[float]) -> str:
    """A mean and its standard error."""
    return f"{np.mean(values):.3f} +- {np.std(values, ddof=1) / np.sqrt(len(values)):.3f}"


if __name__ == "__main__":
    main()
