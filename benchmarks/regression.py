"""Test error and coverage of private linear regression on seven tables, beside least squares and a mean alone.

    python benchmarks/regression.py [--sets cps,pums,housing,rand,wage,diabetes,affairs] [--splits 20]
        [--epsilons .01,.1,1,10] [--peers]

``--peers`` adds AdaSSP (Wang 2018) and Boosted AdaSSP (Tang et al. 2023) at (epsilon, 1e-6), with the declared bounds.
Each split tests on a fifth of the rows; all methods see the same split and, at one epsilon, the same released sums. The
noise is seeded, so the figures repeat. Bounds and the guess of the target's average are round or published numbers, not
read off the rows. Rows of CPS 1988, PUMS and California housing are read from ../shared/data where that is there, those
of the wage survey from the package ISLP.
"""

from __future__ import annotations

import importlib.util
import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.inference.regression.draws import scaled_columns
from dpgraph.privacy.gdp import mu_within
from dpgraph.statistics.rows.features import regression_features

HERE = Path(__file__).parents[1]
SHARED = HERE.parent / "shared/data"
#: Of the peers: delta, and the rounds that the paper of Boosted AdaSSP takes.
DELTA, ROUNDS = Fraction(1, 10**6), 100


@dataclass(frozen=True)
class Table:
    """Rows and what is declared of them."""

    rows: Callable[[], pd.DataFrame]
    target: str
    features: dict[str, Any]
    bounds: tuple[float, float]
    typical: float | None = None
    unit: dg.PrivacyUnit | None = None


def cps() -> pd.DataFrame:
    """Log weekly wages; experience about the middle of its bounds, so that its square says something new."""
    rows = pd.read_csv(SHARED / "cps1988.csv")
    return rows.assign(log_wage=np.log(rows["wage"]), experience_square=(rows["experience"] - 25.0) ** 2)


def pums() -> pd.DataFrame:
    """Yearly income of a thousand Californians."""
    return pd.read_csv(SHARED / "pums_ca_1000.csv")


def housing() -> pd.DataFrame:
    """Median house values of census blocks, 1990; rooms and people by household."""
    rows = pd.read_csv(SHARED / "california_housing.csv")
    return rows.assign(rooms=rows["total_rooms"] / rows["households"], people=rows["population"] / rows["households"])


def rand() -> pd.DataFrame:
    """Log of one plus a year's doctor visits."""
    sys.path.insert(0, str(HERE / "datasets"))
    import export

    rows = export.rows("randhie")
    return rows.assign(log_visits=np.log1p(rows["visits"]))


def wage() -> pd.DataFrame:
    """A wage survey of 3000 men, which comes with the package ISLP; held out, nothing was chosen on it."""
    found = importlib.util.find_spec("ISLP")
    if found is None or found.origin is None:
        raise FileNotFoundError("the package ISLP is not installed")
    return pd.read_csv(Path(found.origin).parent / "data/Wage.csv")


def diabetes() -> pd.DataFrame:
    """How far diabetes went in a year (Efron et al. 2004); held out, nothing was chosen on it."""
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True, scaled=False).frame


def affairs() -> pd.DataFrame:
    """Log of one plus a measure of time spent in affairs (Fair 1978); held out, nothing was chosen on it."""
    from statsmodels.datasets import fair

    rows = fair.load_pandas().data
    return rows.assign(log_affairs=np.log1p(rows["affairs"]))


TABLES = {
    # wages of a tenth of to ten times 500 dollars a week
    "cps": Table(
        cps,
        "log_wage",
        {
            "education": (0, 20), "experience": (0, 50), "experience_square": (0, 625), "ethnicity": ["cauc", "afam"],
            "smsa": ["no", "yes"], "region": ["northeast", "midwest", "south", "west"], "parttime": ["no", "yes"],
        },
        (float(np.log(50)), float(np.log(5000))),
    ),
    # the guess: income per head in California, census of 2000
    "pums": Table(
        pums,
        "income",
        {"age": (18, 90), "sex": [0, 1], "educ": (1, 16), "race": [1, 2, 3, 4, 5, 6], "married": [0, 1]},
        (0, 100_000),
        typical=22_711,
    ),
    # the guess: the median value of a house in California, census of 1990
    "housing": Table(
        housing,
        "median_house_value",
        {
            "longitude": (-125, -114), "latitude": (32, 42), "housing_median_age": (0, 52), "median_income": (0, 15),
            "rooms": (0, 10), "people": (0, 6),
            "ocean_proximity": ["<1H OCEAN", "INLAND", "ISLAND", "NEAR BAY", "NEAR OCEAN"],
        },
        (0, 500_000),
        typical=195_500,
    ),
    # up to 15 visits; a person has up to five rows
    "rand": Table(
        rand,
        "log_visits",
        {
            "coinsurance": (0, 100), "individual_deductible": ["no", "yes"], "physical_limitation": ["no", "yes"],
            "chronic_diseases": (0, 60), "health": ["excellent", "good", "fair", "poor"],
        },
        (0, float(np.log(16))),
        unit=dg.PrivacyUnit("replace", 5),
    ),
    "wage": Table(
        wage,
        "wage",
        {
            "age": (18, 80),
            "education": ["1. < HS Grad", "2. HS Grad", "3. Some College", "4. College Grad", "5. Advanced Degree"],
            "jobclass": ["1. Industrial", "2. Information"],
        },
        (20, 320),
    ),
    "diabetes": Table(
        diabetes,
        "target",
        {
            "age": (18, 80), "sex": [1, 2], "bmi": (15, 45), "bp": (60, 140), "s1": (90, 310), "s2": (40, 250),
            "s3": (20, 100), "s4": (2, 10), "s5": (3, 6.5), "s6": (55, 130),
        },
        (0, 350),
    ),
    "affairs": Table(
        affairs,
        "log_affairs",
        {
            "rate_marriage": (1, 5), "age": (15, 45), "yrs_married": (0, 25), "children": (0, 6), "religious": (1, 4),
            "educ": (8, 20),
        },
        (0, float(np.log(61))),
    ),
}  # fmt: skip


def least_squares(design: Any, train: pd.DataFrame, test: pd.DataFrame) -> tuple[np.ndarray, float]:
    """Predictions of ordinary least squares on clipped columns, in the target's units, and the residual deviation."""
    columns = scaled_columns(design, regression_features(train, design))
    y = design.bounds.scaled(train[design.target].to_numpy(float))
    weights = np.linalg.lstsq(columns, y, rcond=None)[0]
    deviation = np.sqrt(((y - columns @ weights) ** 2).sum() / (len(y) - len(weights)))
    fitted = scaled_columns(design, regression_features(test, design)) @ weights
    return design.bounds.middle + design.bounds.half * fitted, design.bounds.half * deviation


def mean_alone(table: Table, train: pd.DataFrame, epsilon: str | None, seed: int) -> float:
    """The average of the clipped target, or what it is with all of epsilon spent on it: what no features would do."""
    y = np.clip(train[table.target].to_numpy(float), *table.bounds)
    if epsilon is None:
        return y.mean()
    unit = table.unit or dg.PrivacyUnit()
    scale = unit.rows_per_person * (table.bounds[1] - table.bounds[0]) / (len(y) * float(epsilon))
    return np.clip(y.mean() + np.random.default_rng(seed).laplace(scale=scale), *table.bounds)


def ada_ssp(
    table: Table, design: Any, train: pd.DataFrame, test: pd.DataFrame, epsilon: str, seed: int, rounds: int
) -> np.ndarray:
    """Predictions of AdaSSP, with more than one round boosted on clipped residuals; its noise is normal.

    The private least eigenvalue, X'X and all rounds of X'r have a third of mu^2 each. Norms follow from the bounds.
    """
    rng, unit = np.random.default_rng([seed, rounds]), table.unit or dg.PrivacyUnit()
    x = scaled_columns(design, regression_features(train, design))
    y, d = np.clip(design.bounds.scaled(train[design.target].to_numpy(float)), -1, 1), x.shape[1]
    many = unit.rows_per_person * math.sqrt(3) / float(mu_within(Fraction(epsilon), DELTA))
    norm = math.sqrt(1 + len(design.features))  # a number counts 1 at most, and so do all levels of a feature
    gram, noise = x.T @ x, rng.standard_normal((d, d))
    of_gram, of_sums = many * math.sqrt(2) * norm**2, many * 2 * norm * math.sqrt(rounds)
    below = math.sqrt(math.log(6 / DELTA))
    least = max(0.0, np.linalg.eigvalsh(gram)[0] + many * norm**2 * (rng.standard_normal() - below))
    ridge = max(0.0, of_gram * math.sqrt(d * math.log(2 * d**2 / 0.05)) - least)
    noisy = gram + of_gram * (np.triu(noise) + np.triu(noise, 1).T) + ridge * np.eye(d)
    weights = np.zeros(d)
    for _ in range(rounds):
        sums = x.T @ np.clip(y - x @ weights, -1, 1) + of_sums * rng.standard_normal(d)
        weights += np.linalg.solve(noisy, sums)
    fitted = scaled_columns(design, regression_features(test, design)) @ weights
    return design.bounds.middle + design.bounds.half * fitted


def full_coefficients(design: Any, rows: pd.DataFrame) -> np.ndarray:
    """Least squares on all rows, in their units: what intervals are asked to hold."""
    columns = scaled_columns(design, regression_features(rows, design))
    y = design.bounds.scaled(rows[design.target].to_numpy(float))
    weights = np.linalg.lstsq(columns, y, rcond=None)[0]
    return dg.results.RegressionDraws(design, weights[None], np.ones(1), "least squares").in_units[0]


def one_fit(
    table: Table, epsilon: str, inference: str, seed: int, parts: tuple[pd.DataFrame, pd.DataFrame], settings: Any
) -> Any:
    """A fitted estimator."""
    train, _ = parts
    prior = dg.RegressionPrior(typical=table.typical, **settings)
    model = dg.PrivateLinearRegression(
        table.features, table.bounds, epsilon, inference=inference, prior=prior, draws=1000, random_state=seed,
        unit=table.unit, noise=dg.testing.SeededNoise(seed),
    )  # fmt: skip
    return model.fit(train[list(table.features)], train[table.target])


def split(
    table: Table, rows: pd.DataFrame, epsilons: list[str], seed: int, settings: Any, peers: bool
) -> list[dict[str, Any]]:
    """Every method's figures on one split."""
    order = np.random.default_rng(seed).permutation(len(rows))
    test, train = rows.iloc[order[: len(rows) // 5]], rows.iloc[order[len(rows) // 5 :]]
    y, found = test[table.target].to_numpy(float), []
    exact, wide = None, 0.0
    for epsilon in (None, *epsilons):
        error = np.mean((y - mean_alone(table, train, epsilon, seed)) ** 2)
        found.append({"method": "mean alone", "epsilon": epsilon or "", "of var(y)": error / y.var()})
    for epsilon in epsilons:
        for inference in ("noise-aware", "plug-in"):
            start = time.perf_counter()
            model = one_fit(table, epsilon, inference, seed, (train, test), settings)
            seconds = time.perf_counter() - start
            if exact is None:
                exact, wide = least_squares(model.design_, train, test)
                held = np.abs(y - exact) < 1.645 * wide
                of_variance = np.mean((y - exact) ** 2) / y.var()
                found.append({"method": "least squares", "epsilon": "", "of var(y)": of_variance, "of OLS": 1.0,
                              "predictive": held.mean()})  # fmt: skip
            low, high = model.predict_interval(test[list(table.features)]).T
            whole = full_coefficients(model.design_, rows)
            inside = (model.coefficients_["lower"] <= whole) & (whole <= model.coefficients_["upper"])
            error = np.mean((y - model.predict(test[list(table.features)])) ** 2)
            clipped = np.clip(y, *table.bounds)
            covered = ((low <= clipped) & (clipped <= high)).mean()
            found.append({
                "method": inference, "epsilon": epsilon, "of var(y)": error / y.var(),
                "of OLS": error / np.mean((y - exact) ** 2), "predictive": covered,
                "coefficients": inside.mean(), "R-hat": model.diagnostics_.get("r_hat", np.nan), "seconds": seconds,
            })  # fmt: skip
        for name, rounds in (("AdaSSP", 1), ("Boosted AdaSSP", ROUNDS)) if peers else ():
            error = np.mean((y - ada_ssp(table, model.design_, train, test, epsilon, seed, rounds)) ** 2)
            found.append({"method": name, "epsilon": epsilon, "of var(y)": error / y.var()})
    return [{"seed": seed, **one} for one in found]


def _value(text: str) -> float | bool:
    """A setting of the prior."""
    return text == "True" if text in ("True", "False") else float(text)


@click.command()
@click.option("--sets", default=",".join(TABLES), help="Which tables.")
@click.option("--splits", default=20)
@click.option("--epsilons", default="0.01,0.1,1,10")
@click.option("--prior", default="", help="Settings of the prior besides typical, such as explained=.5.")
@click.option("--peers", is_flag=True, help="Beside AdaSSP and Boosted AdaSSP.")
def main(sets: str, splits: int, epsilons: str, prior: str, peers: bool) -> None:
    """Prints one table of figures for each data set."""
    warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
    warnings.simplefilter("ignore", dg.errors.PriorWarning)
    for name in sets.split(","):
        table = TABLES[name]
        try:
            rows = table.rows()
        except FileNotFoundError:
            print(f"{name}: its rows are not here, skipped")
            continue
        settings = {key: _value(value) for key, value in (one.split("=") for one in prior.split(",") if one)}
        each = (split(table, rows, epsilons.split(","), seed, settings, peers) for seed in range(splits))
        found = pd.DataFrame([one for some in each for one in some])
        by = found.groupby(["method", "epsilon"], sort=False)
        shown = by[["of var(y)", "of OLS", "predictive", "coefficients"]].mean()
        shown["worst of var(y)"], shown["spread"] = by["of var(y)"].max(), by["of var(y)"].std()
        shown["median R-hat"], shown["seconds"] = by["R-hat"].median(), by["seconds"].median()
        print(f"\n{name}: {len(rows)} rows, {len(table.features)} features, target {table.target}, "
              f"{splits} splits, protecting {table.unit or dg.PrivacyUnit()}")  # fmt: skip
        print(shown.round(3).to_string(), flush=True)


if __name__ == "__main__":
    main()
