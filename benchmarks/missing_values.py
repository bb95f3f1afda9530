"""Posteriors of networks with unobserved values, beside complete cases and a level for nulls.

    python benchmarks/missing_values.py [--worlds 20] [--settings 12] [--n 1000 10000]

Every second variable has holes: completely at random, or three times as many at the first level of a parent as at its
last. Printed are the mean total variation of all pairs of neighbours and the share of 90 % intervals of their cells
that hold the truth.
"""

from __future__ import annotations

import argparse
import itertools
import time
import warnings

import numpy as np
import pandas as pd

import dpgraph as dg

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


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--worlds", type=int, default=20)
    parser.add_argument("--n", type=int, nargs="+", default=[1000])
    parser.add_argument("--networks", nargs="+", default=["asia", "random", "child"])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[0.2, 1, 5])
    parser.add_argument("--share", type=float, nargs="+", default=[0.1, 0.3, 0.5])
    parser.add_argument("--kind", nargs="+", default=["at random", "parent"])
    args = parser.parse_args()
    warnings.simplefilter("ignore")
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
