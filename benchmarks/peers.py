"""Three jobs beside diffprivlib: a classifier of breast cancer, regressions of years married and visits to a doctor.

    pip install diffprivlib "scikit-learn==1.6.1"  # its 0.6.6 does not import beside later ones
    python benchmarks/peers.py [--splits 20]

Rows are those that scikit-learn and statsmodels ship. Each split tests on 30 % of them, the same for all. Bounds are
round numbers of the data sets' descriptions, the same for both libraries: the outer edges of
datasets/breast_cancer.toml, and BOUNDS below. dpgraph's noise is seeded, diffprivlib's by its ``random_state``. Prints
quartiles over splits, of the accuracy and of the squared error over that of the training rows' average, and processor
seconds of a fit.
"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import click
import diffprivlib.models
import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LinearRegression
from sklearn.naive_bayes import GaussianNB

import dpgraph as dg

BREAST = Path(__file__).parents[1] / "datasets" / "breast_cancer.toml"
#: Of the RAND Health Insurance Experiment: what the code book allows; logarithms of percents and dollars.
BOUNDS = {
    **{"lncoins": (0, 4.62), "idp": (0, 1), "lpi": (0, 7.2), "fmde": (0, 8.6), "physlm": (0, 1), "disea": (0, 60)},
    **{"hlthg": (0, 1), "hlthf": (0, 1), "hlthp": (0, 1)},
}
TARGET = (0, 100)
#: Of Fair's survey of married women, by the questionnaire; the target is the years that they have been married.
MARRIED = {"age": (17, 43), "children": (0, 6), "religious": (1, 4), "educ": (9, 20)}
YEARS = (0, 25)


def halves(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the rows to learn from and to test on."""
    order = np.random.default_rng(seed).permutation(n)
    return order[: n * 7 // 10], order[n * 7 // 10 :]


def classifiers(epsilon: float, seed: int, bounds: tuple[np.ndarray, np.ndarray], domain: dg.Domain) -> dict[str, Any]:
    """Each by its name."""
    made: dict[str, Any] = {"no privacy (GaussianNB)": GaussianNB()}
    for neighbours in ("add-remove", "replace"):
        made[f"dpgraph, {neighbours}"] = dg.PrivateNaiveBayes(
            domain,
            target="diagnosis",
            epsilon=epsilon,
            unit=dg.PrivacyUnit(neighbours),
            noise=dg.testing.SeededNoise(seed),
            random_state=seed,
        )
    made["diffprivlib GaussianNB"] = diffprivlib.models.GaussianNB(epsilon=epsilon, bounds=bounds, random_state=seed)
    return made


def regressions(epsilon: float, seed: int, bounds: dict[str, Any], target: tuple[int, int]) -> dict[str, Any]:
    """Each by its name."""
    low, high = np.array(list(bounds.values())).T
    return {
        "no privacy (least squares)": LinearRegression(),
        "dpgraph": dg.PrivateLinearRegression(
            bounds, target, epsilon=epsilon, noise=dg.testing.SeededNoise(seed), random_state=seed
        ),
        "diffprivlib LinearRegression": diffprivlib.models.LinearRegression(
            epsilon=epsilon, bounds_X=(low, high), bounds_y=target, random_state=seed
        ),
    }


def breast_cancer(epsilon: float, seed: int) -> list[tuple[str, float, float]]:
    """Accuracy and seconds of each classifier on one split."""
    raw = load_breast_cancer(as_frame=True)
    X = raw.data.rename(columns=lambda name: name.replace(" ", "_"))
    y = raw.target.map({0: "malignant", 1: "benign"}).rename("diagnosis")
    domain = dg.read_domain(BREAST)
    edges = np.array([[domain[name].edges[0], domain[name].edges[-1]] for name in X.columns], float).T
    train, test = halves(len(X), seed)
    found = []
    for name, model in classifiers(epsilon, seed, (edges[0], edges[1]), domain).items():
        start = time.process_time()
        model.fit(X.iloc[train], y.iloc[train])
        took = time.process_time() - start
        found.append((name, float(np.mean(model.predict(X.iloc[test]) == y.iloc[test])), took))
    return found


def visits(epsilon: float, seed: int) -> list[tuple[str, float, float]]:
    """Of the visits to a doctor in a year; a row is a person-year."""
    from statsmodels.datasets import randhie

    rows = randhie.load_pandas().data.astype(float)
    return judged(rows[list(BOUNDS)], rows["mdvis"].clip(*TARGET), regressions(epsilon, seed, BOUNDS, TARGET), seed)


def years_married(epsilon: float, seed: int) -> list[tuple[str, float, float]]:
    """Of the years that a woman has been married."""
    from statsmodels.datasets import fair

    rows = fair.load_pandas().data.astype(float)
    return judged(rows[list(MARRIED)], rows["yrs_married"], regressions(epsilon, seed, MARRIED, YEARS), seed)


def judged(X: pd.DataFrame, y: pd.Series, models: dict[str, Any], seed: int) -> list[tuple[str, float, float]]:
    """Squared error over that of the average, and seconds, of each regression on one split."""
    train, test = halves(len(X), seed)
    truth = y.iloc[test].to_numpy()
    base = np.mean((truth - y.iloc[train].mean()) ** 2)
    found = []
    for name, model in models.items():
        start = time.process_time()
        model.fit(X.iloc[train], y.iloc[train])
        took = time.process_time() - start
        found.append((name, float(np.mean((truth - model.predict(X.iloc[test])) ** 2) / base), took))
    return found


@click.command()
@click.option("--splits", default=20, show_default=True)
@click.option("--epsilons", default=".1,1,10", show_default=True)
def main(splits: int, epsilons: str) -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    for job in (breast_cancer, years_married, visits):
        for epsilon in map(float, epsilons.split(",")):
            rows = [one for seed in range(splits) for one in job(epsilon, seed)]
            table = pd.DataFrame(rows, columns=["method", "score", "seconds"]).groupby("method", sort=False)
            shown = table["score"].quantile([0.25, 0.5, 0.75]).unstack().assign(seconds=table["seconds"].median())
            print(f"{job.__name__}, epsilon {epsilon:g}, {splits} splits\n{shown.round(3).to_string()}\n", flush=True)


if __name__ == "__main__":
    main()
