"""A domain that was found beside one made by hand, at the same total epsilon, a tenth of it for finding.

    python benchmarks/discovery.py [--tables titanic,cps] [--seeds 10] [--epsilons 1,0.1] [--data FOLDER]

The bins and levels by hand are those of a person who knows the tables (``adult-equal``: equal bins); the declaration
has bounds, lists of what may occur, or nothing but "words". Printed for each table and epsilon, by hand and found: the
mean total variation of pairs in neutral cells (tenths of the rows by a number, or its commonest lowest value and the
rest; words of a hundredth or more) of rows sampled from ``learn_network``, numbers uniform in their bins; the log-loss
of ``PrivateClassifier`` on held-out rows; the levels; the mean width of 90 % intervals of six answers. Means over
seeds, with the standard deviation, and the ratios found to by hand.
"""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg

DATA = Path(__file__).parents[2] / "shared" / "data"
SAMPLED, RARE = 400_000, 0.01
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", "?"]


@dataclass
class Table:
    """Rows, the declaration made by hand, the partial one, and a label to predict."""

    rows: pd.DataFrame
    hand: dict[str, Any]
    partial: dict[str, Any]
    target: str


def levels_of(column: pd.Series) -> list[Any]:
    """All levels of a column, as a code book has them."""
    return sorted(column.dropna().unique().tolist())


def titanic() -> Table:
    """Passengers: the age in seven bins, the fare in six."""
    rows = pd.read_csv(DATA / "titanic_survival.csv").iloc[:, 1:]
    hand: dict[str, Any] = {name: levels_of(rows[name]) for name in rows if name != "age"}
    hand["age"] = dg.Bins([0, 10, 20, 30, 40, 60, 100], missing=True)
    partial = {**hand, "age": dg.Numbers(0, 100, missing=True)}
    partial |= {"sex": dg.Words(["female", "male"]), "passengerClass": dg.Words(["1st", "2nd", "3rd", "crew"])}
    return Table(rows, hand, partial, "survived")


def cps() -> Table:
    """Workers of 1988: wage, education and experience in bins."""
    rows = pd.read_csv(DATA / "cps1988.csv").iloc[:, 1:]
    hand: dict[str, Any] = {
        name: levels_of(rows[name]) for name in rows if not pd.api.types.is_numeric_dtype(rows[name])
    }
    partial: dict[str, Any] = {name: dg.Words() for name in hand}
    hand["wage"] = dg.Bins([0, 100, 200, 300, 400, 500, 600, 800, 1000, 1500, 20000])
    hand["education"] = dg.Bins([0, 8, 9, 11, 12, 13, 14, 15, 16, 17, 18])
    hand["experience"] = dg.Bins([-4, 3, 6, 11, 16, 21, 26, 31, 41, 70])
    partial |= {"wage": dg.Numbers(0.0, 20000), "education": dg.Numbers(0, 18), "experience": dg.Numbers(-4, 70)}
    return Table(rows, hand, {**partial, "parttime": hand["parttime"]}, "parttime")


#: Bins of Adult's codes by hand: ages by five years, round weights, no capital apart, forty hours (39) apart.
ADULT = {
    "age": [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 60, 85],
    "fnlwgt": [0, 4, 8, 12, 16, 20, 30, 100],
    "capital-gain": [0, 1, 5, 10, 20, 100],
    "capital-loss": [0, 1, 35, 40, 100],
    "hours-per-week": [0, 20, 34, 39, 40, 45, 50, 60, 99],
}


def adult(equal: bool = False) -> Table:
    """Adult: five numbers in bins by hand, or in some sixteen equal ones, and eight columns of words."""
    rows, sizes = pd.read_csv(DATA / "adult.csv"), json.loads((DATA / "adult-domain.json").read_text())
    words = [name for name in sizes if name not in (*ADULT, "education-num", "income>50K")]
    rows[words] = rows[words].astype(str)
    hand: dict[str, Any] = {name: list(range(size)) for name, size in sizes.items()}
    hand |= {name: [str(level) for level in hand[name]] for name in words}
    for name, edges in ADULT.items():
        size = sizes[name]
        hand[name] = dg.Bins([*range(0, size, -(-size // 16)), size] if equal else edges)
    partial = {**hand, **{name: dg.Words() for name in words}}
    return Table(rows, hand, {**partial, **{name: dg.Numbers(0, sizes[name]) for name in ADULT}}, "income>50K")


def adult_equal() -> Table:
    """Adult, its numbers in equal bins."""
    return adult(equal=True)


def mushroom() -> Table:
    """Mushrooms: letters, of which all are possible."""
    rows = pd.read_csv(DATA / "mushroom.csv").astype(str)
    hand: dict[str, Any] = {name: levels_of(rows[name]) for name in rows}
    return Table(rows, hand, {**dict.fromkeys(rows, dg.Words(LETTERS)), "class": hand["class"]}, "class")


def survey() -> Table:
    """20 000 simulated answers: 40 codes of a trade, twelve of which have 95 %, and two numbers that go with them."""
    rng = np.random.default_rng(11)
    share = np.concatenate([np.full(12, 0.95 / 12), np.full(28, 0.05 / 28)])
    trade = rng.choice(40, 20_000, p=share)
    age = np.clip(rng.normal(35 + trade % 12, 12), 16, 90).astype(int)
    pay = np.where(rng.random(20_000) < 0.3, 0, np.round(np.exp(rng.normal(6 + 0.02 * age + 0.1 * (trade % 5), 0.6))))
    ill = np.where(rng.random(20_000) < 1 / (1 + np.exp(3 - 0.05 * age + (pay > 0))), "yes", "no")
    rows = pd.DataFrame({"trade": [f"{700 + code}" for code in trade], "age": age, "pay": pay.astype(int), "ill": ill})
    hand = {
        "trade": [f"{700 + code}" for code in range(40)],
        "age": dg.Bins([16, 25, 35, 45, 55, 65, 90]),
        "pay": dg.Bins([0, 1, 500, 1000, 1500, 2500, 20000]),
        "ill": ["no", "yes"],
    }
    partial = {**hand, "trade": dg.Words(), "age": dg.Numbers(16, 90), "pay": dg.Numbers(0, 20000)}
    return Table(rows, hand, partial, "ill")


TABLES = {
    "titanic": titanic,
    "cps": cps,
    "survey": survey,
    "adult": adult,
    "adult-equal": adult_equal,
    "mushroom": mushroom,
}


def neutral(table: Table) -> dg.Domain:
    """Cells that neither declaration has: tenths of the rows by a number, words of a hundredth or more of the rows."""
    cells = dict(table.hand)
    for name, one in table.hand.items():
        if isinstance(one, dg.Bins):
            values = table.rows[name].dropna()
            cuts = np.unique(values.quantile(np.linspace(0, 1, 11)).to_numpy() + 1e-3 * (np.arange(11) == 10))
            if len(cuts) == 2:  # nine tenths are one value: it is a cell, and all above it another
                cuts = np.insert(cuts, 1, values[values > cuts[0]].min())
            cells[name] = dg.Bins(cuts, missing=one.missing)
        else:
            share = table.rows[name].value_counts(normalize=True)
            levels = [level for level in one if share.get(level, 0) >= RARE]
            cells[name] = dg.Categories([*map(str, levels), "other"], other="other")
    return dg.Domain.of(cells)


def positions(codes: Any) -> pd.DataFrame:
    """The positions of rows among the levels of each variable."""
    return pd.DataFrame({name: column.astype(np.int64) for name, column in codes.columns.items()})


def distance(one: pd.DataFrame, other: pd.DataFrame) -> float:
    """The mean total variation of pairs of positions."""
    total = []
    for a, b in combinations(one.columns, 2):
        size = int(max(one[b].max(), other[b].max())) + 1
        cells = (int(max(one[a].max(), other[a].max())) + 1) * size
        shares = [np.bincount(frame[a] * size + frame[b], minlength=cells) / len(frame) for frame in (one, other)]
        total.append(np.abs(shares[0] - shares[1]).sum() / 2)
    return float(np.mean(total))


def asked(table: Table) -> list[str]:
    """Up to six variables besides the label."""
    return [name for name in table.hand if name != table.target][:6]


def ask(posterior: Any, table: Table, name: str) -> float:
    """The width of the 90 % interval of the label's chance given a level that both declarations have, or at all."""
    variable = posterior.network.domain[name]
    if isinstance(variable, dg.Bins):
        value: Any = float(table.rows[name].dropna().median())
    else:
        value = table.rows[name].astype(str).mode()[0]
        value = next((level for level in variable.levels if str(level) == value), variable.levels[0])
    answer = dg.query(posterior, table.target, given={name: value}, interval=0.9)
    frame = answer.to_frame()
    return float((frame["high"] - frame["low"]).iloc[-1])


def judged(table: Table, found: Any, epsilon: float, delta: float, seed: int) -> dict[str, float]:
    """Error of pairs and log-loss, spending epsilon on a domain."""
    domain, hand = dg.Domain.of(found), dg.Domain.of(table.hand)
    rng, unit = np.random.default_rng(seed), dg.PrivacyUnit("add-remove")
    order = rng.permutation(len(table.rows))
    train, held = (table.rows.iloc[part].reset_index(drop=True) for part in np.split(order, [len(order) * 3 // 4]))
    learned = dg.learn_network(train, domain, epsilon=epsilon, delta=delta, unit=unit)
    cells, rows = neutral(table), dg.sample_rows(learned.probabilities, SAMPLED, seed)
    made, true = (dg.statistics.encode(one, cells) for one in (rows, table.rows))
    features = [name for name in hand.names if name != table.target]
    model = dg.PrivateClassifier(domain, table.target, epsilon, delta, unit=unit)
    said = model.fit(train[features], train[table.target]).predict_proba(held[features])
    where = held[table.target].map({level: at for at, level in enumerate(model.classes_)}).to_numpy()
    names = asked(table)
    posterior = learned.posterior(draws=300, seed=seed) if names else None
    widths = [ask(posterior, table, name) for name in names]
    return {
        "widths": float(np.mean(widths)) if widths else math.nan,
        "pairs": distance(positions(made), positions(true)),
        "log-loss": float(-np.log(np.maximum(said[np.arange(len(where)), where], 1e-12)).mean()),
        "levels": float(sum(domain.sizes.values())),
    }


@click.command()
@click.option("--tables", default=",".join(TABLES))
@click.option("--seeds", default=10)
@click.option("--epsilons", default="1,0.1")
@click.option("--share", default=0.1, help="The part of epsilon that finding costs.")
@click.option("--data", type=click.Path(path_type=Path), default=DATA)
def main(tables: str, seeds: int, epsilons: str, share: float, data: Path) -> None:
    """Prints the figures."""
    globals()["DATA"] = data
    warnings.simplefilter("ignore")
    for name in tables.split(","):
        table = TABLES[name]()
        for epsilon in map(float, epsilons.split(",")):
            results = []
            for seed in range(seeds):
                unit = dg.PrivacyUnit("add-remove")
                found = dg.discover(
                    table.rows, table.partial, epsilon=str(round(epsilon * share, 9)), delta="1e-7", unit=unit
                )
                if seed == 0:
                    print(found.to_frame().iloc[:, :2].to_string())
                by_hand = judged(table, table.hand, epsilon, 1e-6, seed)
                mine = judged(table, found.domain, round(epsilon * (1 - share), 9), 0.9e-6, seed)
                results.append({**{f"{k} by hand": v for k, v in by_hand.items()}, **mine})
            frame = pd.DataFrame(results)
            line = "  ".join(f"{key} {frame[key].mean():.4f} ({frame[key].std():.4f})" for key in frame)
            ratios = {key: frame[key].mean() / frame[f"{key} by hand"].mean() for key in ("pairs", "log-loss")}
            print(f"{name} epsilon {epsilon:g}: {line}; ratios {ratios}", flush=True)


if __name__ == "__main__":
    main()
