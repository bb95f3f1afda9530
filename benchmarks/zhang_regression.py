"""Mean squared error of the posterior sampler for linear regression, as in Zhang et al. 2016, Figure 2 (right).

Test error over the target's variance against the prior precision and the norm bound: one draw of the weights at a few
epsilons, and at the price of the paper's untempered sampler, beside ridge regression, which is not private. Rows are
simulated (8 features, uniform on [-1, 1], R^2 of .6) or the wages of the CPS of 1988 where ../shared/data holds them
(log weekly wage; education, experience, its square and four indicators, bounds declared by round numbers). 70 % train.
Replace-one; the noise is seeded, so that the study repeats.

    python benchmarks/zhang_regression.py [--repeats 25]

Needs matplotlib for the figure, which is saved to docs/figures; without it the tables alone are printed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import numpy as np
import pandas as pd
from tqdm import tqdm

import dpgraph as dg
from dpgraph.structure.design import LinearDesign

UNIT = dg.PrivacyUnit("replace")
PRECISIONS = tuple(10.0**k for k in range(-2, 6))
RADII = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
EPSILONS = (0.1, 1, 10)
ROWS, FEATURES = 10_000, 8
CPS = Path(__file__).parents[1].parent / "shared" / "data" / "cps1988.csv"
FREE = "not private"
ERRORS = (0.4, 0.6, 1, 2, 4, 8)


@click.command()
@click.option("--repeats", default=25, show_default=True)
def main(repeats: int) -> None:
    """Prints the tables and saves the figure."""
    sources = {"simulated": simulated} | ({"CPS 1988": wages} if CPS.exists() else {})
    scores = [
        (name, *score)
        for name, source in sources.items()
        for seed in tqdm(range(repeats), disable=not sys.stderr.isatty())
        for score in repeat(*source(seed), seed)
    ]
    columns = ["rows", "panel", "method", "x", "error"]
    table = pd.DataFrame(scores, columns=columns).groupby(columns[:-1], sort=False)["error"]
    shown = table.agg(
        mean="mean", low=lambda e: e.quantile(0.1), high=lambda e: e.quantile(0.9), sem="sem"
    ).reset_index()
    print(f"test MSE / var(y), {repeats} repeats, replace-one: mean, standard error")
    for (rows, panel), part in shown.groupby(["rows", "panel"], sort=False):
        print(f"\n{rows}, against {panel}")
        for value in ("mean", "sem"):
            print(part.pivot(index="method", columns="x", values=value).to_string(float_format=lambda x: f"{x:.3f}"))
    draw(shown)


def simulated(seed: int) -> tuple[pd.DataFrame, LinearDesign]:
    """Rows of a linear model whose target seldom leaves [-1, 1]."""
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(FEATURES)
    weights *= 0.25 * np.sqrt(3) / np.linalg.norm(weights)
    x = rng.uniform(-1, 1, (ROWS, FEATURES))
    y = 0.1 + x @ weights + rng.normal(0, 0.25 * np.sqrt(2 / 3), ROWS)
    frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(FEATURES)]).assign(y=y)
    return frame, LinearDesign({f"x{i}": (-1, 1) for i in range(FEATURES)}, "y", (-1, 1))


def wages(seed: int) -> tuple[pd.DataFrame, LinearDesign]:
    """The CPS's rows in random order."""
    table = pd.read_csv(CPS).sample(frac=1, random_state=seed, ignore_index=True)
    experience = table["experience"].astype(float)
    features = {
        "education": (table["education"].astype(float), (0, 18)),
        "experience": (experience, (-5, 65)),
        "experience squared": ((experience / 10) ** 2, (0, 42)),
        "cauc": ((table["ethnicity"] == "cauc").astype(float), (0, 1)),
        "smsa": ((table["smsa"] == "yes").astype(float), (0, 1)),
        "parttime": ((table["parttime"] == "yes").astype(float), (0, 1)),
        "south": ((table["region"] == "south").astype(float), (0, 1)),
    }
    frame = pd.DataFrame({name: values for name, (values, _) in features.items()}).assign(y=np.log(table["wage"]))
    return frame, LinearDesign({name: bounds for name, (_, bounds) in features.items()}, "y", (3, 10))


def repeat(frame: pd.DataFrame, design: LinearDesign, seed: int) -> Iterator[tuple[str, str, float, float]]:
    """Panel, method, x and error of every setting on one split."""
    cut = int(0.7 * len(frame))
    train, test = frame[:cut], frame[cut:]
    moments = dg.statistics.regression_moments(train, design)

    def private(epsilon: float, radius: float, precision: float) -> float:
        mechanism = dg.papers.RegressionSample(epsilon, radius=radius, precision=precision, idealized_numerics=True)
        budget, noise = dg.Budget(mechanism.epsilon, unit=UNIT), dg.testing.SeededNoise(seed)
        return error(dg.release(moments, mechanism, budget=budget, noise=noise).value.coefficients(), test)

    for precision in PRECISIONS:
        yield "precision", FREE, precision, ridge_error(train, test, design, precision)
        for epsilon in EPSILONS:
            yield "precision", f"epsilon {epsilon:g}", precision, private(epsilon, 1.0, precision)
        for radius in (0.5, 1.0, 4.0):
            price = untempered_price(radius)
            yield (
                "precision, untempered",
                f"B {radius:g}, epsilon {price:g}",
                precision,
                private(price, radius, precision),
            )
        yield "precision, untempered", FREE, precision, ridge_error(train, test, design, precision)
    for radius in RADII:
        yield "norm bound", FREE, radius, ridge_error(train, test, design, 1.0)
        for epsilon in EPSILONS:
            yield "norm bound", f"epsilon {epsilon:g}", radius, private(epsilon, radius, 1.0)


def untempered_price(radius: float) -> float:
    """What a draw costs at T = 1 under replace: (1 + B)^2, the paper's, from a norm bound of 1; 4 B below."""
    return (1 + radius) ** 2 if radius >= 1 else 4 * radius


def ridge_error(train: pd.DataFrame, test: pd.DataFrame, design: LinearDesign, precision: float) -> float:
    """Ridge regression on the same scaled columns, with the prior of the sampler and unit residual variance."""
    names = [column.name for column in design.columns if column.kind == "number"]

    def columns(frame: pd.DataFrame) -> np.ndarray:
        scaled = [design.features[name].scaled(frame[name].to_numpy()) for name in names]
        return np.column_stack([np.ones(len(frame)), *scaled]) / np.sqrt(len(names) + 1)

    z, y = columns(train), design.bounds.scaled(train["y"].to_numpy())
    weights = np.linalg.solve(z.T @ z + precision * np.eye(z.shape[1]), z.T @ y)
    predicted = design.bounds.middle + design.bounds.half * (columns(test) @ weights)
    return float(((test["y"] - predicted) ** 2).mean() / test["y"].var())


def error(coefficients: Mapping[str, np.ndarray], test: pd.DataFrame) -> float:
    """Test error over the target's variance."""
    predicted = sum(value[0] * test[name] for name, value in coefficients.items() if name != "intercept")
    return float(((test["y"] - predicted - coefficients["intercept"][0]) ** 2).mean() / test["y"].var())


def draw(shown: pd.DataFrame) -> None:
    """Saves the error against precision and norm bound."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print("matplotlib is not installed: no figure")
        return
    names, panels = shown["rows"].unique(), ("precision", "norm bound", "precision, untempered")
    figure, grid = pyplot.subplots(
        len(names), 3, figsize=(11.5, 3.4 * len(names)), layout="constrained", sharey="row", squeeze=False
    )
    titles = ("one draw, norm bound B = 1", "one draw, prior precision 1", "the paper's sampler (T = 1) at its price")
    for name, row in zip(names, grid, strict=True):
        for axes, panel, title in zip(row, panels, titles, strict=True):
            part = shown[(shown["rows"] == name) & (shown["panel"] == panel)]
            for i, (method, line) in enumerate(part.groupby("method", sort=False)):
                style = {"color": "black", "ls": "--"} if method == FREE else {"color": f"C{i}"}
                axes.plot(line["x"], line["mean"], label=method, marker="o", ms=3, **style)
                axes.fill_between(line["x"], line["low"], line["high"], alpha=0.15, color=style["color"])
            axes.axhline(1, color="grey", lw=0.8)
            label = "norm bound B" if panel == "norm bound" else "prior precision"
            axes.set(xscale="log", yscale="log", xlabel=label, title=f"{name}: {title}")
            axes.title.set_fontsize(9)
            if panel == "norm bound":
                axes.set_xticks(RADII, [f"{radius:g}" for radius in RADII])
            axes.set_yticks(ERRORS, [f"{tick:g}" for tick in ERRORS])
            axes.minorticks_off()
            axes.legend(fontsize=7)
        row[0].set_ylabel("test MSE / var(y)")
    path = Path(__file__).parents[1] / "docs" / "figures" / "zhang_regression.png"
    figure.savefig(path, dpi=120)
    print(f"saved {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path.name}")


if __name__ == "__main__":
    main()
