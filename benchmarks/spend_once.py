"""Five jobs from one release at epsilon 1 beside five releases, one made for each job, at epsilon .2.

    python benchmarks/spend_once.py [--seeds 10] [--epsilon 1]

The rows are Fair's survey of 6366 married women, which comes with statsmodels, declared as in the tutorial "One
release, five questions"; add-remove, delta 1e-6 together. Four fifths of the rows are released, in another split for
each seed. Errors are against those rows themselves, but for the log-loss, which is of the others:

* classifier: log-loss of whether there was an affair, in nats;
* regression: root mean square error of five standardised slopes of the rating, from the release and from draws;
* effect: mean absolute error of the effects of religion on affairs, adjusted for age and schooling;
* query: total variation of P(affair | rating), the mean over the five ratings;
* synthetic rows: total variation of a pair of columns, the mean over all, of as many rows as were released.

Printed: means over seeds (standard deviation), in how many seeds the one release was better, and how many of its 90 %
intervals held what all released rows say.
"""

from __future__ import annotations

import warnings
from itertools import combinations
from typing import Any

import click
import numpy as np
import pandas as pd
from statsmodels.datasets import fair

import dpgraph as dg

DOMAIN = dg.Domain.of(
    {
        "age": dg.Bins([15, 20, 25, 30, 35, 40, 50]),
        "educ": dg.Bins([9, 13, 15, 17, 21]),
        "religious": [1, 2, 3, 4],
        "occupation": [1, 2, 3, 4, 5, 6],
        "yrs_married": dg.Bins([0, 1, 5, 10, 15, 25], whole=False),
        "children": dg.Bins([0, 1, 2, 3, 4, 10]),
        "rating": [1, 2, 3, 4, 5],
        "affair": ["no", "yes"],
    }
)
KNOWN = [("religious", "affair"), ("rating", "affair"), ("yrs_married", "affair")]
SLOPES = {"age": (15, 50), "educ": (9, 21), "religious": (1, 4), "yrs_married": (0, 25), "children": (0, 10)}
UNIT = dg.PrivacyUnit("add-remove")
DELTA = 1e-6


def survey() -> pd.DataFrame:
    """The rows."""
    rows = fair.load_pandas().data.rename(columns={"rate_marriage": "rating"})
    return rows.assign(affair=np.where(rows["affairs"] > 0, "yes", "no"))


def learned(rows: pd.DataFrame, names: Any, epsilon: float, delta: float = 0) -> Any:
    """A release of tables of these columns, and the network from it."""
    domain = DOMAIN.restrict(list(names))
    known = dg.Constraints(order=domain.names, required=[arc for arc in KNOWN if arc[0] in domain.names])
    return dg.learn_network(rows, domain, epsilon=epsilon, delta=delta, unit=UNIT, n=5000, constraints=known)


def log_loss(model: Any, held: pd.DataFrame) -> float:
    """The mean loss of held-out rows."""
    said = np.asarray(model.predict_proba(held[[name for name in DOMAIN.names if name != "affair"]]))
    return float(-np.log(said[np.arange(len(held)), (held["affair"] == "yes").to_numpy().astype(int)]).mean())


def slopes(rows: pd.DataFrame) -> np.ndarray:
    """Of least squares without privacy."""
    design = np.column_stack([np.ones(len(rows)), rows[list(SLOPES)]])
    return np.linalg.lstsq(design, rows["rating"], rcond=None)[0][1:]


def effects(rows: pd.DataFrame) -> np.ndarray:
    """Adjusted differences without privacy; strata where a level is absent are left out."""
    parts = [pd.cut(rows[name], DOMAIN[name].edges, right=False) for name in ("age", "educ")]
    shares = rows.assign(yes=rows["affair"] == "yes").groupby([*parts, "religious"], observed=True)["yes"].mean()
    weights = rows.groupby(parts, observed=True).size()
    table = shares.unstack()
    found = table.sub(table[1.0], axis=0)
    return np.array([np.average(found[z].dropna(), weights=weights[found[z].notna()]) for z in (2.0, 3.0, 4.0)])


def asked(model: Any) -> Any:
    """P(affair | rating), mean, low and high."""
    found = [dg.query(model, {"affair": "yes"}, {"rating": level}) for level in DOMAIN.levels("rating")]
    return np.array([(one.mean[0], one.low[0], one.high[0]) for one in found]).T


def apart(rows: pd.DataFrame, made: pd.DataFrame) -> float:
    """The mean total variation of all pairs."""
    a, b = (dg.statistics.encode(one, DOMAIN).columns for one in (rows, made))
    sizes, far = DOMAIN.sizes, []
    for one, two in combinations(DOMAIN.names, 2):
        cells = sizes[one] * sizes[two]
        p, q = (np.bincount(x[one] * sizes[two] + x[two], minlength=cells) / len(x[one]) for x in (a, b))
        far.append(abs(p - q).sum() / 2)
    return float(np.mean(far))


def jobs(seed: int, epsilon: float) -> tuple[dict[str, tuple[float, float]], dict[str, float]]:
    """The errors of both ways, and the share of intervals of the one release that held."""
    order = np.random.default_rng(seed).permutation(len(rows := survey()))
    held, rows = rows.iloc[order[: len(rows) // 5]], rows.iloc[order[len(rows) // 5 :]]
    part, slack = round(epsilon / 5, 6), DELTA / 5
    once = learned(rows, DOMAIN.names, epsilon, DELTA)
    draws = once.posterior(draws=200, method="refitted", seed=seed)
    features = [name for name in DOMAIN.names if name != "affair"]
    single = dg.PrivateClassifier(DOMAIN, "affair", part, slack, unit=UNIT).fit(rows[features], rows["affair"])
    found = {"classifier": (log_loss(dg.classifier(draws, "affair"), held), log_loss(single, held))}
    truth, scale = slopes(rows), (rows["rating"].std() / rows[list(SLOPES)].std()).to_numpy()
    paid = dg.PrivateLinearRegression(SLOPES, (1, 5), epsilon=part, unit=UNIT).fit(rows[list(SLOPES)], rows["rating"])
    held_by = {}
    for job, source in (("regression", once), ("regression of draws", draws)):
        free = dg.regression(source, "rating", list(SLOPES)).to_frame().iloc[1:]
        sides = (free["mean"].to_numpy(float), paid.coefficients_.loc[list(SLOPES), "mean"].to_numpy(float))
        found[job] = tuple(float(np.sqrt(np.mean(((one - truth) / scale) ** 2))) for one in sides)
        held_by[job] = np.mean((free["low"] <= truth) & (truth <= free["high"]))
    truth = effects(rows)
    both = [draws, learned(rows, ["age", "educ", "religious", "affair"], part).probabilities]
    made = [dg.effect(one, "religious", {"affair": "yes"}, ["age", "educ"], baseline=1).to_frame() for one in both]
    found["effect"] = tuple(float(abs(one["mean"].to_numpy(float) - truth).mean()) for one in made)
    held_by["effect"] = np.mean((made[0]["low"] <= truth) & (truth <= made[0]["high"]))
    truth = (rows["affair"] == "yes").groupby(rows["rating"]).mean().to_numpy()
    (mean, low, high), (other, _, _) = asked(draws), asked(learned(rows, ["rating", "affair"], part).probabilities)
    found["query"] = (abs(mean - truth).mean(), abs(other - truth).mean())
    held_by["query"] = np.mean((low <= truth) & (truth <= high))
    pair = (once.probabilities, learned(rows, DOMAIN.names, part, slack).probabilities)
    rng = np.random.default_rng(seed)
    found["synthetic rows"] = tuple(apart(rows, dg.sample_rows(one, len(rows), rng)) for one in pair)
    return found, held_by


@click.command()
@click.option("--seeds", default=10, show_default=True)
@click.option("--epsilon", default=1.0, show_default=True)
def main(seeds: int, epsilon: float) -> None:
    """Prints the table."""
    warnings.simplefilter("ignore")
    made = [jobs(seed, epsilon) for seed in range(seeds)]
    for job in made[0][0]:
        one, five = np.array([found[job] for found, _ in made]).T
        held = f"{np.mean([held_by[job] for _, held_by in made]):.2f}" if job in made[0][1] else "-"
        print(f"| {job} | {one.mean():.4f} ({one.std():.4f}) | {five.mean():.4f} ({five.std():.4f}) ", end="")
        print(f"| {(one < five).sum()} of {seeds} | {held} |")


if __name__ == "__main__":
    main()
