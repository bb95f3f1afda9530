"""Beta posteriors under both mechanisms, and the error of their samples: Foulds et al. 2016, Figures 1 and 2.

    python benchmarks/foulds_beta.py [--repeats 20000]

Rows of a coin with P(1) = 0.3, uniform prior. Four laws of the parameter: the posterior itself; the posterior tempered
and truncated to [0.2, 0.8], of which one draw is released (OPS); the Beta law of two noisy counts clipped at 0 (Laplace
as in the paper); and the posterior given one noisy count, n public, that knows the law of its noise (noise-aware).
Replace-one. The text of the paper that was at hand lost epsilon and the bounds of Figure 2, so both 0.1 and 1 are here.
All noise is seeded: the study repeats. Needs matplotlib for the figures, which are saved to docs/figures.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from scipy.special import betainc, betaincinv
from scipy.stats import beta

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
Reals = np.ndarray[Any, np.dtype[np.float64]]

THETA, FLOOR = 0.3, 0.2
EPSILONS = (0.1, 1.0)
SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
SHOWN = (20, 200, 2_000)
POSTERIOR, SAMPLE, PAPER, AWARE = "posterior", "OPS", "Laplace, clipped", "Laplace, noise-aware"
COLOURS = {POSTERIOR: "black", SAMPLE: "#d1495b", PAPER: "#edae49", AWARE: "#1b6ca8"}
GRID = np.linspace(0, 1, 2_001)[1:-1]


def temperature(epsilon: float) -> float:
    """T = 2 ln((1 - a) / a) / epsilon, at which one draw from [a, 1 - a] costs epsilon; 1 where that is below 1."""
    return max(1.0, 2 * float(np.log((1 - FLOOR) / FLOOR)) / epsilon)


def tempered(ones: Reals | float, n: int, epsilon: float) -> tuple[Any, Any]:
    """The two parameters of the tempered Beta law, before it is truncated; the prior is uniform."""
    t = temperature(epsilon)
    return 1 + ones / t, 1 + (n - ones) / t


def noise(scale: float, size: tuple[int, ...], rng: np.random.Generator) -> Reals:
    """Discrete Laplace."""
    stop = 1 - np.exp(-1 / scale)
    return (rng.geometric(stop, size) - rng.geometric(stop, size)).astype(float)


def latent_ones(seen: Reals, n: int, epsilon: float, rng: np.random.Generator) -> Reals:
    """Draws of the number of ones given itself plus discrete Laplace noise of scale 1 / epsilon.

    Under a uniform prior of the parameter all numbers from 0 to n are alike, so the law is that of the noise about what
    was seen, cut to 0..n: two geometric laws, drawn by their inverse.
    """
    decay = np.exp(-epsilon)
    centre = np.clip(seen, 0, n)
    below, above = 1 - decay ** (centre + 1), decay - decay ** (n - centre + 1)  # masses of 0..centre and the rest
    u = rng.random(len(seen)) * (below + above)
    down = np.floor(np.log1p(-np.minimum(u, below * (1 - 1e-16))) / -epsilon)
    up = np.floor(np.log1p(-np.minimum(np.maximum(u - below, 0) / decay, 1 - 1e-16)) / -epsilon) + 1
    return np.where(u < below, centre - np.minimum(down, centre), np.minimum(centre + up, n))


def samples(n: int, epsilon: float, repeats: int, rng: np.random.Generator) -> dict[str, Reals]:
    """One sample of each law for each of many data sets."""
    ones = rng.binomial(n, THETA, repeats).astype(float)
    a, b = tempered(ones, n, epsilon)
    low, high = betainc(a, b, FLOOR), betainc(a, b, 1 - FLOOR)
    heads, tails = np.maximum(np.stack([ones, n - ones]) + noise(2 / epsilon, (2, repeats), rng), 0)
    likely = latent_ones(ones + noise(1 / epsilon, (repeats,), rng), n, epsilon, rng)
    return {
        POSTERIOR: rng.beta(1 + ones, 1 + n - ones),
        SAMPLE: np.clip(betaincinv(a, b, low + (high - low) * rng.random(repeats)), FLOOR, 1 - FLOOR),
        PAPER: rng.beta(1 + heads, 1 + tails),
        AWARE: rng.beta(1 + likely, 1 + n - likely),
    }


def errors(repeats: int) -> pd.DataFrame:
    """The mean absolute error of a sample for each n and epsilon, and its standard error."""
    rows = []
    for n, epsilon in product(SIZES, EPSILONS):
        drawn = samples(n, epsilon, repeats, np.random.default_rng([n, round(10 * epsilon)]))
        for method, values in drawn.items():
            error = np.abs(values - THETA)
            rows.append((epsilon, n, method, error.mean(), error.std(ddof=1) / np.sqrt(repeats)))
    return pd.DataFrame(rows, columns=["epsilon", "n", "method", "error", "standard error"])


def laws(n: int, epsilon: float, seed: int) -> dict[str, Reals]:
    """The four densities on a grid for a data set with 0.3 n ones, after one draw of the noise."""
    rng, ones = np.random.default_rng(seed), round(THETA * n)
    inside = (GRID >= FLOOR) & (GRID <= 1 - FLOOR)
    flat = np.where(inside, beta(*tempered(ones, n, epsilon)).pdf(GRID), 0.0)
    heads, tails = np.maximum(np.array([ones, n - ones]) + noise(2 / epsilon, (2,), rng), 0)
    seen = ones + noise(1 / epsilon, (), rng)
    every = np.arange(n + 1)
    weight = np.exp(-epsilon * (np.abs(every - seen) - np.abs(every - seen).min()))
    kept = np.flatnonzero(weight > 1e-9)
    aware = weight[kept] @ beta(1 + every[kept, None], 1 + n - every[kept, None]).pdf(GRID)
    found = {POSTERIOR: beta(1 + ones, 1 + n - ones).pdf(GRID), SAMPLE: flat,
             PAPER: beta(1 + heads, 1 + tails).pdf(GRID), AWARE: aware}  # fmt: skip
    return {name: law / (law.sum() * (GRID[1] - GRID[0])) for name, law in found.items()}


def distances(seeds: int) -> pd.DataFrame:
    """The mean total variation distance from the posterior itself over draws of the noise."""
    rows = []
    for n, epsilon, seed in product(SHOWN, EPSILONS, range(seeds)):
        found = laws(n, epsilon, seed)
        for method in (SAMPLE, PAPER, AWARE):
            gap = np.abs(found[method] - found[POSTERIOR]).sum() * (GRID[1] - GRID[0]) / 2
            rows.append((epsilon, n, method, gap))
    table = pd.DataFrame(rows, columns=["epsilon", "n", "method", "distance"])
    return table.groupby(["epsilon", "n", "method"], sort=False)["distance"].mean().unstack("method")


def overtaken(table: pd.DataFrame, epsilon: float, method: str) -> int:
    """The least n from which on a method's samples are closer than those of OPS."""
    wide = table[table["epsilon"] == epsilon].pivot(index="n", columns="method", values="error")
    behind = wide.index[wide[method] >= wide[SAMPLE]]
    later = wide.index[wide.index > behind.max()] if len(behind) else wide.index
    return int(later.min())


def draw(table: pd.DataFrame) -> None:
    """Saves both figures."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    figure = Figure(figsize=(11, 6), layout="constrained")
    for row, epsilon in zip(figure.subplots(2, 3), EPSILONS[::-1], strict=True):
        for axes, n in zip(row, SHOWN, strict=True):
            for seed in range(5):
                found = laws(n, epsilon, seed)
                for method in (PAPER, AWARE):
                    axes.plot(GRID, found[method], color=COLOURS[method], lw=0.9, alpha=0.8)
            for method in (POSTERIOR, SAMPLE):
                axes.plot(GRID, found[method], color=COLOURS[method], lw=2, ls="--" if method == POSTERIOR else "-")
            ends = (0, 1) if n < 1_000 else (0.1, 0.5)
            height = 1.6 * found[POSTERIOR].max()
            axes.set(title=f"epsilon {epsilon:g}, n = {n}", xlim=ends, ylim=(0, height), xlabel="P(1)")
    first = figure.axes[0]
    handles = [first.plot([], [], color=c, label=m, ls="--" if m == POSTERIOR else "-")[0] for m, c in COLOURS.items()]
    first.legend(handles=handles, fontsize=8)
    figure.savefig(FIGURES / "foulds_beta.png", dpi=120)
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axes, epsilon in zip(figure.subplots(1, 2, sharey=True), EPSILONS, strict=True):
        for method, colour in COLOURS.items():
            mine = table[(table["epsilon"] == epsilon) & (table["method"] == method)]
            axes.plot(mine["n"], mine["error"], color=colour, label=method, ms=3, marker="o")
        axes.set(xscale="log", yscale="log", xlabel="rows n", title=f"epsilon {epsilon:g}")
        axes.legend(fontsize=8)
    figure.axes[0].set_ylabel("mean |sample - P(1)|")
    figure.savefig(FIGURES / "foulds_sample_error.png", dpi=120)
    print("saved docs/figures/foulds_beta.png and foulds_sample_error.png")


@click.command()
@click.option("--repeats", default=20_000, show_default=True, help="Data sets for each n.")
@click.option("--seeds", default=200, show_default=True, help="Draws of the noise for a distance.")
def main(repeats: int, seeds: int) -> None:
    """Prints the tables and saves the figures."""
    table = errors(repeats)
    print(f"mean |sample - {THETA}|, {repeats} data sets, replace-one, OPS in [{FLOOR}, {1 - FLOOR}]")
    for value in ("error", "standard error"):
        print(table.pivot(index=["epsilon", "method"], columns="n", values=value).round(4).to_string())
    for epsilon, method in product(EPSILONS, (PAPER, AWARE)):
        print(f"epsilon {epsilon:g}: {method} is ahead of OPS from n = {overtaken(table, epsilon, method)} on")
    print(f"mean total variation from the posterior, {round(100 * THETA)} % ones, {seeds} draws of the noise")
    print(distances(seeds).round(3).to_string())
    draw(table)


if __name__ == "__main__":
    main()
