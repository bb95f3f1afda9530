"""Coefficients of log wages from a release of all pairs, beside a release made for them and beside the rows.

For the pairs the truth is least squares of all rows of CPS 1988, binned alike; for the other release that of the
numbers. ``unbinned`` is how far the latter lies from the former. A world replaces one row; the noise is seeded.

    python benchmarks/projection.py [--seeds 20]
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

FILE = Path(__file__).parents[1].parent / "shared/data/cps1988.csv"
FEATURES = ["education", "experience", "parttime"]
EDGES = {
    "education": [0, 8, 11, 12, 13, 16, 18, 20],
    "experience": [0, 5, 10, 15, 20, 25, 30, 40, 50],
    "log_wage": [3.9, 4.7, 5.1, 5.5, 5.9, 6.3, 6.7, 7.1, 8.5],
}


def squares(columns: Any, target: Any) -> np.ndarray:
    """Least squares with an intercept."""
    return np.linalg.lstsq(np.column_stack([np.ones(len(target)), *columns]), target, rcond=None)[0]


@click.command()
@click.option("--seeds", default=20)
@click.option("--epsilon", default=1.0)
def main(seeds: int, epsilon: float) -> None:
    """Print for each way and coefficient the root mean squared error and the coverage of 90 % intervals."""
    rows = pd.read_csv(FILE)
    rows = rows.assign(log_wage=np.log(rows["wage"]))[[*FEATURES, "log_wage"]]
    part = (rows["parttime"] == "yes").to_numpy(float)
    domain = {name: dg.Bins(edges) for name, edges in EDGES.items()} | {"parttime": ["no", "yes"]}
    binned = {}
    for name, edges in EDGES.items():
        middles = (np.array(edges[:-1]) + edges[1:]) / 2
        binned[name] = middles[np.clip(np.searchsorted(edges, rows[name], "right") - 1, 0, len(middles) - 1)]
    truth = squares([binned["education"], binned["experience"], part], binned["log_wage"])
    clipped = {name: np.clip(rows[name], edges[0], edges[-1]) for name, edges in EDGES.items()}
    raw = squares([clipped["education"], clipped["experience"], part], clipped["log_wage"])
    found: dict[str, list[Any]] = {"all pairs": [], "its own release": []}
    spent = dict.fromkeys(found, 0.0)
    bounds = {"education": (0, 20), "experience": (0, 50), "parttime": ["no", "yes"]}
    for seed in range(seeds):
        noise, began = dg.testing.SeededNoise(seed), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learned = dg.learn_network(rows, domain, epsilon=epsilon, delta=1e-6, n=len(rows), noise=noise)
            one = dg.regression(learned, "log_wage", FEATURES)
            found["all pairs"].append((one.mean, one.low, one.high, truth))
            spent["all pairs"] += time.process_time() - began
            began = time.process_time()
            model: Any = dg.PrivateLinearRegression(bounds, (3.9, 8.5), epsilon=epsilon, noise=noise)
            table = model.fit(rows[FEATURES], rows["log_wage"]).coefficients_
            spent["its own release"] += time.process_time() - began
        found["its own release"].append((*table[["mean", *table.columns[2:4]]].to_numpy().T, raw))
    names = ["intercept", *FEATURES]
    for way, results in found.items():
        mean, low, high, wanted = (np.array(part) for part in zip(*results, strict=True))
        error = np.sqrt(((mean - wanted) ** 2).mean(axis=0))
        inside = ((low <= wanted) & (wanted <= high)).mean(axis=0)
        for name, *numbers in zip(names, wanted[0], error, inside, (high - low).mean(axis=0), strict=True):
            value, one, share, width = numbers
            print(f"{way:16} {name:11} truth {value:8.4f}  error {one:.4f}  coverage {share:.2f}  width {width:.4f}")
        print(f"{way:16} {spent[way] / seeds:.1f} processor seconds")
    print("unbinned       ", dict(zip(names, np.round(raw - truth, 4).tolist(), strict=True)))


if __name__ == "__main__":
    main()
