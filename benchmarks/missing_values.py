"""Posteriors of networks with unobserved values, beside complete cases and a level for nulls.

    python benchmarks/missing_values.py [--worlds 20] [--n 1000 10000]
    python benchmarks/missing_values.py --real [--worlds 5]
    python benchmarks/missing_values.py --own [--worlds 5]
    python benchmarks/missing_values.py --wrong [--worlds 20]

Every second variable has holes: completely at random, or three times as many at the first level of a parent as at its
last. Printed are the mean total variation of all pairs of neighbours and the share of 90 % intervals of their cells
that hold the truth. ``--real`` deletes values of Adult and of votes at random given education and party; ``--own``
releases how many of Adult's own values are missing; ``--wrong`` has holes that the value itself explains.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import dpgraph as dg

DATA = Path(__file__).parents[2] / "shared" / "data"
DRAWS = 250


def world(name: str, seed: int):
    """The true probabilities of a network: bundled, or of eight binary and ternary variables at random."""
    if name != "random":
        return dg.load(f"example:{name}")
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 4, 8)
    levels = {f"v{i}": [f"l{k}" for k in range(size)] for i, size in enumerate(sizes)}
    parents = {f"v{i}": [f"v{j}" for j in rng.permutation(i)[: rng.integers(0, 3)]] for i in range(8)}
    network = dg.Network.of(levels, parents)
    tables = {}
    for v in network.domain.names:
        shape = network.shape(network.family(v))
        drawn = rng.dirichlet(np.ones(shape[0]), shape[1:] or None)
        tables[v] = np.moveaxis(drawn, -1, 0)
    return dg.Probabilities(network, tables)


def with_holes(rows: pd.DataFrame, network, share: float, kind: str, rng) -> pd.DataFrame:
    """Rows in which every second variable has holes."""
    made = rows.astype(object)
    for v in network.order[1::2]:
        chance = np.full(len(rows), share)
        if kind == "parent" and network.parents[v]:
            parent = network.parents[v][0]
            levels = network.domain.levels(parent)
            at = rows[parent].map({level: i for i, level in enumerate(levels)}).astype(int).to_numpy()
            tilt = np.linspace(1.5, 0.5, len(levels))
            chance = share * tilt[at]
        made.loc[rng.random(len(rows)) < chance, v] = None
    return made


def pair_draws(posterior, network) -> dict:
    """Draws of the joint of each arc's ends, axes (draw, parent, child)."""
    found = {}
    for child, parents in network.parents.items():
        for parent in parents:
            answer = dg.query(posterior, [parent, child])
            shape = posterior.network.shape((parent, child))
            found[parent, child] = np.asarray(answer.draws).reshape(-1, *shape)
    return found


def measured(model, share: float, kind: str, epsilon: float, n: int, seed: int) -> dict:
    """Errors and coverage in one world."""
    rng = np.random.default_rng(seed)
    network = model.network
    rows = dg.sample_rows(model, n, rng).astype(object)
    holed = with_holes(rows, network, share, kind, rng)
    holes = set(network.order[1::2])
    as_level = {
        v: dg.Categories([*map(str, network.domain.levels(v)), "gone"], missing="gone")
        if v in holes
        else list(map(str, network.domain.levels(v)))
        for v in network.domain.names
    }
    unseen = {
        v: dg.Categories(list(map(str, network.domain.levels(v))), missing=dg.UNOBSERVED)
        if v in holes
        else list(map(str, network.domain.levels(v)))
        for v in network.domain.names
    }
    texts = holed.map(lambda x: None if x is None else str(x))
    plain = {v: list(map(str, network.domain.levels(v))) for v in network.domain.names}
    truth = {pair: drawn[0] for pair, drawn in pair_draws(model, network).items()}

    def errors(domain, table, keep=None):
        graph = dg.Network.of(domain, network.parents)
        release = dg.release(dg.count(table, graph), dg.LaplaceMechanism(epsilon=epsilon), budget=dg.Budget(epsilon))
        started = time.perf_counter()
        drawn = pair_draws(dg.posterior(release, draws=DRAWS, seed=seed), network)
        seconds = time.perf_counter() - started
        tv, held, width = [], [], []
        for pair, right in truth.items():
            cells = drawn[pair]
            cells = cells[:, : right.shape[0], : right.shape[1]]
            cells = cells / cells.sum(axis=(1, 2), keepdims=True)
            tv.append(abs(cells.mean(axis=0) - right).sum() / 2)
            low, high = np.quantile(cells, [0.05, 0.95], axis=0)
            sure = right > 0.005
            held += list(((low <= right) & (right <= high))[sure])
            width += list((high - low)[sure])
        return float(np.mean(tv)), float(np.mean(held)), float(np.mean(width)), seconds

    complete = texts.dropna()
    found = {"unobserved": errors(unseen, texts), "level": errors(as_level, texts)}
    found["complete"] = errors(plain, complete) if len(complete) else (np.nan,) * 4
    return found


def coarse(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of Adult by few levels."""
    return pd.DataFrame(
        {
            "age": (rows["age"] // 15).clip(upper=3).astype(str),
            "education": pd.cut(rows["education-num"], [-1, 7, 9, 12, 16], labels=["0", "1", "2", "3"]).astype(str),
            "sex": rows["sex"].astype(str),
            "work": rows["workclass"].astype(str),
            "occupation": rows["occupation"].astype(str),
            "income": rows["income>50K"].astype(str),
        }
    )


def own(worlds: int) -> None:
    """The shares of Adult's own question marks, the last code of three columns, as a posterior has them."""
    rows = pd.read_csv(DATA / "adult.csv")
    made = coarse(rows).assign(country=rows["native-country"].astype(str))
    marks = {"work": "8", "occupation": "14", "country": "41"}
    real = {name: float((made[name] == mark).mean()) for name, mark in marks.items()}
    domain = {
        name: dg.Categories(sorted(made[name].unique()), missing=dg.UNOBSERVED(marks[name]))
        if name in marks
        else sorted(made[name].unique())
        for name in made
    }
    parents = {"occupation": ["education", "sex"], "work": ["education"], "country": ["education"]}
    network = dg.Network.of(domain, parents)
    for epsilon in (0.1, 1):
        found: dict = {}
        for seed in range(worlds):
            noisy = dg.release(dg.count(made, network), dg.LaplaceMechanism(epsilon=epsilon), budget=dg.Budget(epsilon))
            lines = dg.questions.missing(dg.posterior(noisy, draws=DRAWS, seed=seed))
            for name, line in lines.to_dict("index").items():
                found.setdefault(name, []).append([line[one] for one in ("missing", "low", "high", "moved")])
        for name, each in found.items():
            table = np.array(each)
            held = int(((table[:, 1] <= real[name]) & (real[name] <= table[:, 2])).sum())
            said = " ".join(f"{value:.4f}" for value in (*table[0], np.sqrt(np.mean((table[:, 0] - real[name]) ** 2))))
            print(f"{name} {epsilon}: real {real[name]:.4f}, first: missing low high moved, error {said}, held {held}")


def adult() -> tuple:
    """Rows of Adult whose work is known, a network, the variables to delete, and how often by education."""
    rows = pd.read_csv(DATA / "adult.csv")
    made = coarse(rows[(rows["workclass"] < 8) & (rows["occupation"] < 14)])  # the last codes are question marks
    parents = {
        "occupation": ["education", "sex"],
        "work": ["occupation", "education"],
        "income": ["occupation", "education", "sex"],
        "education": ["age"],
        "sex": ["age", "education"],
    }
    chance = made["education"].map({"0": 0.4, "1": 0.25, "2": 0.15, "3": 0.05}).to_numpy()
    return made.reset_index(drop=True), parents, ["occupation", "work", "income"], chance


def votes() -> tuple:
    """Votes of 1984 with their question marks, given the party."""
    rows = pd.read_csv(DATA / "house_votes_84.csv").replace("?", None)
    names = [name for name in rows if name != "party"]
    chance = rows["party"].map({"democrat": 0.28, "republican": 0.08}).to_numpy()
    return rows, {name: ["party"] for name in names}, names, chance


def real(worlds: int) -> None:
    """Answers against those of the rows before deletion."""
    for title, make, levels in (("adult", adult, (0.1, 1)), ("votes", votes, (1, 5))):
        rows, parents, names, chance = make()
        plain = {name: sorted(rows[name].dropna().unique()) for name in rows}
        asked = [(name, None) for name in names]
        if title == "adult":
            asked += [("occupation", {"sex": "0"}), ("income", {"sex": "1"})]
            before = rows
        else:  # the truth of votes is of those that are known, by party
            rng = np.random.default_rng(0)
            before = rows.copy()
            for name in names:
                for party in plain["party"]:
                    gap = rows[name].isna() & (rows["party"] == party)
                    known = rows.loc[rows["party"] == party, name].dropna().to_numpy()
                    before.loc[gap, name] = rng.choice(known, int(gap.sum()))
        exact = [before[name].value_counts(normalize=True).reindex(plain[name], fill_value=0) for name in names]
        if title == "adult":
            exact += [
                before.loc[before["sex"] == v, name].value_counts(normalize=True).reindex(plain[name], fill_value=0)
                for name, v in (("occupation", "0"), ("income", "1"))
            ]
        right = [one.to_numpy() for one in exact]
        for epsilon in levels:
            kept: dict = {}
            for seed in range(worlds):
                rng = np.random.default_rng(seed)
                holed = rows.copy()
                for name in names:
                    holed.loc[rng.random(len(rows)) < chance, name] = None
                whole = holed.dropna()
                unseen = {n: dg.Categories(v, missing=dg.UNOBSERVED) if n in names else v for n, v in plain.items()}
                gone = {n: dg.Categories([*v, "gone"], missing="gone") if n in names else v for n, v in plain.items()}
                for way, domain, table in (
                    ("unobserved", unseen, holed),
                    ("level", gone, holed),
                    ("complete", plain, whole),
                ):
                    graph = dg.Network.of(domain, parents)
                    noisy = dg.release(
                        dg.count(table, graph), dg.LaplaceMechanism(epsilon=epsilon), budget=dg.Budget(epsilon)
                    )
                    made = dg.posterior(noisy, draws=DRAWS, seed=seed)
                    error, held = [], []
                    for (target, given), truth in zip(asked, right, strict=True):
                        drawn = np.asarray(dg.query(made, target, given).draws)[:, : len(truth)]
                        drawn = drawn / drawn.sum(axis=1, keepdims=True)
                        error.append(abs(drawn.mean(axis=0) - truth).sum() / 2)
                        low, high = np.quantile(drawn, [0.05, 0.95], axis=0)
                        held += list((low <= truth) & (truth <= high))
                    kept.setdefault(way, []).append((np.mean(error), np.mean(held)))
            said = []
            for way, values in kept.items():
                mean, spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
                said.append(f"{way} tv {mean[0]:.4f} ({spread[0]:.4f}) held {mean[1]:.3f}")
            print(title, len(rows), epsilon, "|", " | ".join(said), flush=True)


def wrong(worlds: int) -> None:
    """Holes of a binary value that are three times as likely where it is 1, and odds of ``sensitivity``."""
    levels = ["0", "1"]
    network = dg.Network.of(
        {"z": levels, "a": dg.Categories(levels, missing=dg.UNOBSERVED), "c": levels}, {"a": ["z"], "c": ["a"]}
    )
    found: dict = {}
    for seed in range(worlds):
        rng = np.random.default_rng(seed)
        z = rng.integers(0, 2, 5000)
        a = (rng.random(5000) < np.array([0.3, 0.7])[z]).astype(int)
        c = (rng.random(5000) < np.array([0.3, 0.6])[a]).astype(int)
        gone = rng.random(5000) < np.array([0.15, 0.45])[a]
        text = np.array(levels)
        rows = pd.DataFrame({"z": text[z], "a": np.where(gone, None, text[a]), "c": text[c]})
        noisy = dg.release(dg.count(rows, network), dg.LaplaceMechanism(epsilon=1), budget=dg.Budget(1))
        made = dg.posterior(noisy, draws=DRAWS, seed=seed)
        true_odds = (0.45 / 0.55) / (0.15 / 0.85)
        for odds, one in dg.questions.sensitivity(made, "a", [1, 2, true_odds, 8]).items():
            drawn = np.asarray(dg.query(one, "a").draws)[:, 1]
            low, high = np.quantile(drawn, [0.05, 0.95])
            found.setdefault(round(odds, 2), []).append((drawn.mean() - a.mean(), low <= a.mean() <= high))
    for odds, values in found.items():
        mean = np.mean(values, axis=0)
        print(f"odds {odds}: P(a=1) less the truth {mean[0]:+.4f}, held {mean[1]:.2f}", flush=True)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--n", type=int, nargs="+", default=[1000])
    parser.add_argument("--networks", nargs="+", default=["asia", "random", "child"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1, 5])
    parser.add_argument("--share", type=float, nargs="+", default=[0.1, 0.3, 0.5])
    parser.add_argument("--kind", nargs="+", default=["at random", "parent"])
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--own", action="store_true")
    parser.add_argument("--wrong", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.real or args.own or args.wrong:
        (real if args.real else own if args.own else wrong)(args.worlds)
        return
    for setting in itertools.product(args.networks, args.n, args.epsilon, args.share, args.kind):
        name, n, epsilon, share, kind = setting
        kept: dict = {}
        for seed in range(args.worlds):
            for way, values in measured(world(name, seed), share, kind, epsilon, n, seed).items():
                kept.setdefault(way, []).append(values)
        line = []
        for way, values in kept.items():
            table = np.array(values, float)
            mean = np.nanmean(table, axis=0)
            error = np.nanstd(table[:, 0], ddof=1) / np.sqrt(len(table))
            line.append(f"{way} tv {mean[0]:.4f} ({error:.4f}) held {mean[1]:.3f} width {mean[2]:.3f} {mean[3]:.1f} s")
        print(name, n, epsilon, share, kind, "|", " | ".join(line), flush=True)


if __name__ == "__main__":
    main()
