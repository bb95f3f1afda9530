"""Coefficients from a release of all pairs beside a release made for them and beside the rows: error and coverage.

    python benchmarks/projection.py [--sets cps,pums,housing,parttime,simulated] [--releases 40] [--peers 0] [--as-is]

Numbers are binned first, so every way sees the same rows, and the truth is least squares, or logistic regression
(``parttime``, ``simulated``), of all of them. For each release as many rows are drawn from them with replacement: they
stand for a population, of which intervals speak. With ``--as-is`` the rows are the same each time and only the noise is
drawn anew. ``--graph`` reads the draws of the learned network instead. One replaced row, n public, zCDP at delta 1e-6,
seeded noise. Errors are in standard errors of the regression on the rows: a coefficient's root mean square over
releases, then the median slope. ``--peers`` fits ``PrivateLinearRegression`` to so many of the samples. ``unbinned`` is
by how much the slopes of the unbinned rows differ, in the same unit. Rows are read from ../shared/data, or ``--data``.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg

DATA = Path(__file__).parents[1].parent / "shared/data"
#: The target of each set, its numbers with their edges, and its words; of ``parttime`` the rows are those of ``cps``.
SETS: dict[str, tuple[str, dict[str, list[float]], dict[str, list[Any]]]] = {
    "cps": (
        "log_wage",
        {
            "education": [0, 8, 11, 12, 13, 16, 18, 20], "experience": [0, 5, 10, 15, 20, 25, 30, 40, 50],
            "log_wage": [3.9, 4.7, 5.1, 5.5, 5.9, 6.3, 6.7, 7.1, 8.5],
        },
        {
            "ethnicity": ["cauc", "afam"], "smsa": ["no", "yes"],
            "region": ["northeast", "midwest", "south", "west"], "parttime": ["no", "yes"],
        },
    ),
    "pums": (
        "income",
        {
            "age": list(range(15, 100, 10)), "educ": [1, 5, 9, 10, 12, 13, 14, 17],
            "income": [0, 1e4, 2e4, 3e4, 4e4, 6e4, 1e5],
        },
        {"sex": [0, 1], "married": [0, 1]},
    ),
    "housing": (
        "median_house_value",
        {
            "housing_median_age": [0, 10, 20, 30, 40, 53], "median_income": [0, 2, 3, 4, 5, 6, 8, 15],
            "rooms": [0, 3, 4, 5, 6, 7, 10], "people": [0, 2, 2.5, 3, 3.5, 4, 6],
            "median_house_value": [0, 75e3, 125e3, 175e3, 225e3, 300e3, 400e3, 500e3],
        },
        {"ocean_proximity": ["<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"]},
    ),
    "simulated": (
        "ill",
        {"age": [18, 30, 40, 50, 60, 70, 90], "income": [0, 10, 20, 30, 50, 80]},
        {"sex": ["f", "m"], "region": ["a", "b", "c"], "smoke": ["no", "yes"], "ill": ["no", "yes"]},
    ),
}  # fmt: skip
SETS["parttime"] = ("parttime", {k: v for k, v in SETS["cps"][1].items() if k != "log_wage"}, SETS["cps"][2])


def simulated(n: int = 20_000) -> pd.DataFrame:
    """Dependent features and an illness whose odds are log-linear in them."""
    rng = np.random.default_rng(5)
    z = rng.normal(size=n)
    age = np.clip(50 + 15 * z + 8 * rng.normal(size=n), 18, 89.9)
    income = np.clip(np.exp(3 + 0.3 * z + 0.5 * rng.normal(size=n)), 0, 79.9)
    sex, region = rng.random(n) < 0.45, rng.choice(3, n, p=[0.5, 0.3, 0.2])
    smoke = rng.random(n) < 1 / (1 + np.exp(0.8 - 0.5 * sex + 0.4 * z))
    eta = -3 + 0.05 * (age - 50) - 0.02 * (income - 20) + 0.4 * sex + np.array([0, 0.5, -0.5])[region] + 0.9 * smoke
    ill = rng.random(n) < 1 / (1 + np.exp(-eta))
    words = {"sex": sex, "region": region, "smoke": smoke, "ill": ill}
    levels = {name: np.array(SETS["simulated"][2][name])[column.astype(int)] for name, column in words.items()}
    return pd.DataFrame({"age": age, "income": income, **levels})


def read(name: str, folder: Path) -> pd.DataFrame:
    """The rows of a set, numbers as they are, clipped to their edges."""
    if name == "simulated":
        return simulated()
    files = {"pums": "pums_ca_1000.csv", "housing": "california_housing.csv"}
    rows = pd.read_csv(folder / files.get(name, "cps1988.csv"))
    if name == "housing":
        rows = rows.assign(rooms=rows["total_rooms"] / rows["households"])
        rows = rows.assign(people=rows["population"] / rows["households"])
    if "wage" in rows:
        rows = rows.assign(log_wage=np.log(rows["wage"]))
    _, edges, words = SETS[name]
    clipped = {one: np.clip(rows[one].astype(float), ends[0], ends[-1]) for one, ends in edges.items()}
    return rows.assign(**clipped)[[*edges, *words]]


def declared(rows: pd.DataFrame, edges: dict[str, list[float]]) -> dict[str, dg.Bins]:
    """The bins of numbers, whole ones where the published rows hold no other."""
    return {name: dg.Bins(ends, whole=bool((rows[name] % 1 == 0).all())) for name, ends in edges.items()}


def binned(rows: pd.DataFrame, edges: dict[str, list[float]]) -> pd.DataFrame:
    """The same with every number at the mean of its bin's."""
    made = rows.copy()
    for name, bins in declared(rows, edges).items():
        middles = np.array(bins.middles)
        made[name] = middles[np.clip(np.searchsorted(bins.edges, rows[name], "right") - 1, 0, len(middles) - 1)]
    return made


def fitted(name: str, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients of the rows, intercept first, and their standard errors."""
    target, edges, words = SETS[name]
    columns = [np.ones(len(rows))]
    for one in [*edges, *words]:
        if one in edges and one != target:
            columns.append(rows[one].to_numpy(float))
        elif one != target:
            columns += [(rows[one] == level).to_numpy(float) for level in words[one][1:]]
    x = np.column_stack(columns)
    size = np.abs(x).max(axis=0)
    x, b = x / size, np.zeros(x.shape[1])
    if target in edges:
        y = rows[target].to_numpy(float)
        b = np.linalg.lstsq(x, y, rcond=None)[0]
        return b / size, np.sqrt(np.diag(np.linalg.inv(x.T @ x)) * ((y - x @ b) ** 2).mean()) / size
    y, inverse = (rows[target] == words[target][-1]).to_numpy(float), np.eye(len(b))
    for _ in range(30):
        mu = 1 / (1 + np.exp(-x @ b))
        inverse = np.linalg.inv((x * (mu * (1 - mu))[:, None]).T @ x)
        b = b + inverse @ (x.T @ (y - mu))
    return b / size, np.sqrt(np.diag(inverse)) / size


def report(said: str, results: list[Any], truth: np.ndarray, error: np.ndarray, names: Any, seconds: float) -> None:
    """Prints what all slopes have together, then each coefficient."""
    mean, low, high = (np.array(part) for part in zip(*results, strict=True))
    inside = (low <= truth) & (truth <= high)
    spread = np.sqrt(((mean - truth) ** 2).mean(axis=0))
    each = inside[:, 1:].mean(axis=1)
    print(
        f"{said}: {len(results)} releases, coverage of slopes {each.mean():.3f} +- {each.std() / len(each) ** 0.5:.3f},"
        f" error {np.median((spread / error)[1:]):.2f} standard errors, {seconds / len(results):.2f} s"
    )
    for one, *numbers in zip(names, truth, spread, error, inside.mean(axis=0), strict=True):
        print("    {:28} truth {:10.4g}  error {:9.3g}  of the rows {:9.3g}  coverage {:.2f}".format(one, *numbers))


@click.command()
@click.option("--sets", default="cps,pums,housing,parttime,simulated", show_default=True)
@click.option("--releases", default=40, show_default=True)
@click.option("--peers", default=0, show_default=True)
@click.option("--epsilon", default=1.0, show_default=True)
@click.option("--as-is", is_flag=True)
@click.option("--graph", is_flag=True)
@click.option("--data", default=DATA, type=Path, help="The folder with the rows.")
def main(sets: str, releases: int, peers: int, epsilon: float, as_is: bool, graph: bool, data: Path) -> None:
    """Print for each set the error and the coverage of 90 % intervals."""
    warnings.simplefilter("ignore")
    for name in sets.split(","):
        target, edges, words = SETS[name]
        raw = read(name, data)
        rows = binned(raw, edges)
        truth, error = fitted(name, rows)
        domain: dict[str, Any] = declared(raw, edges) | words
        features = [one for one in domain if one != target]
        family: Any = "linear" if target in edges else "logistic"
        ways: dict[str, list[Any]] = {"all pairs": [], "its own release": []}
        spent, names = dict.fromkeys(ways, 0.0), ("",)
        for seed in range(releases):
            drawn = rows if as_is else rows.sample(len(rows), replace=True, random_state=seed)
            noise, began = dg.testing.SeededNoise(seed), time.process_time()
            # the graph is not read by a linear regression from pairs
            alone = dg.Constraints(max_parents=0) if family == "linear" and not graph else None
            settings: Any = {"epsilon": epsilon, "delta": 1e-6, "n": len(rows), "noise": noise, "constraints": alone}
            learned = dg.learn_network(drawn, domain, **settings)
            posterior = learned.posterior(method="refitted", draws=100, seed=0) if graph else learned
            found = dg.regression(posterior, target, features, family)
            ways["all pairs"].append((found.mean, found.low, found.high))
            names, spent["all pairs"] = found.names, spent["all pairs"] + time.process_time() - began
            if seed < peers and family == "linear":
                began = time.process_time()
                bounds = {one: (ends[0], ends[-1]) for one, ends in edges.items()} | words
                ends = bounds.pop(target)
                model: Any = dg.PrivateLinearRegression(bounds, ends, epsilon=epsilon, noise=noise)
                table = model.fit(drawn[features], drawn[target]).coefficients_
                ways["its own release"].append(table[["mean", *table.columns[2:4]]].to_numpy().T)
                spent["its own release"] += time.process_time() - began
        for way, results in ways.items():
            if results:
                report(f"{name}, {way}", results, truth, error, names, spent[way])
        away = np.abs(fitted(name, raw)[0] - truth) / error
        print(f"{name}, unbinned: {np.median(away[1:]):.1f} standard errors, at most {away[1:].max():.1f}", flush=True)


if __name__ == "__main__":
    main()
