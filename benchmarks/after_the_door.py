"""What is done with a release, beside peers: prediction, sampling, likelihood, consistency, files, start-up.

Each line is the best of several runs, the median in brackets; ratios are of the best. Everything runs in one thread.

    python benchmarks/after_the_door.py [--rows 1000000] [--repeat 5]
"""

from __future__ import annotations

import platform
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import pandas as pd

import dpgraph as dg
from dpgraph.inference.network.queries import log_likelihood, sample_codes
from dpgraph.structure.tables import contrast_transform, residual_transform

PACKAGES = ("numpy", "pandas", "pgmpy", "scikit-learn")


@click.command()
@click.option("--rows", default=1_000_000, show_default=True, help="Of naive Bayes and alarm; munin takes a tenth.")
@click.option("--repeat", default=5, show_default=True, help="Runs of each way; pgmpy's take one.")
def main(rows: int, repeat: int) -> None:
    """Prints one table for each question."""
    warnings.simplefilter("ignore")
    found = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    print(f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, {found}")
    naive_bayes(rows, repeat)
    sampling(rows, repeat)
    large(rows // 10, repeat)
    start_up(repeat)


def naive_bayes(rows: int, repeat: int) -> None:
    """Twenty features of four levels, two labels, and an ensemble of 100 draws."""
    from sklearn.naive_bayes import CategoricalNB

    rng = np.random.default_rng(0)
    matrix, labels = rng.integers(0, 4, (rows, 20)).astype(np.uint8), rng.integers(0, 2, rows)
    theirs = CategoricalNB().fit(matrix, labels)
    domain = dg.Domain.of({"label": [0, 1], **{f"x{k}": range(4) for k in range(20)}})
    network = dg.naive_bayes_network(domain, "label")
    tables: Any = {f"x{k}": np.exp(log.T) for k, log in enumerate(theirs.feature_log_prob_)}
    tables["label"] = np.exp(theirs.class_log_prior_)
    learned = dg.Probabilities(network, tables)
    mine, ensemble = dg.results.NaiveBayes("label", learned), dg.results.NaiveBayesEnsemble("label", (learned,) * 100)
    codes = {f"x{k}": np.ascontiguousarray(matrix[:, k]) for k in range(20)}
    integers = pd.DataFrame(codes)
    category = integers.astype(pd.CategoricalDtype(range(4)))
    features, few = domain.restrict(mine.features), {name: column[: rows // 100] for name, column in codes.items()}
    assert np.allclose(mine.predict_proba(codes), theirs.predict_proba(matrix), rtol=1e-9)
    print(f"\nnaive Bayes, predict_proba of {rows} rows, 20 features of 4 levels: seconds")
    timed = {
        "codes": best(lambda: mine.predict_proba(codes), repeat),
        "columns of one matrix": best(lambda: mine.predict_proba({f"x{k}": matrix[:, k] for k in range(20)}), repeat),
        "categorical frame": best(lambda: mine.predict_proba(dg.statistics.encode(category, features).columns), repeat),
        "integer frame": best(lambda: mine.predict_proba(dg.statistics.encode(integers, features).columns), repeat),
        "CategoricalNB": best(lambda: theirs.predict_proba(matrix), repeat),
    }
    report(timed, "CategoricalNB")
    report({f"100 draws, {rows // 100} rows of codes": best(lambda: ensemble.predict_proba(few), repeat)})


def sampling(rows: int, repeat: int) -> None:
    """Alarm: rows and their log-likelihood, sampling beside pgmpy."""
    learned = dg.load("example:alarm")
    theirs = dg.to_pgmpy(learned)
    codes = sample_codes(learned, rows, np.random.default_rng(0))
    print(f"\nalarm, {rows} rows: seconds")
    timed = {
        "sample_codes": best(lambda: sample_codes(learned, rows, np.random.default_rng(0)), repeat),
        "sample_rows": best(lambda: dg.sample_rows(learned, rows, np.random.default_rng(0)), repeat),
        "pgmpy simulate": best(lambda: theirs.simulate(rows, seed=0, show_progress=False), 1, warm=False),
    }
    report(timed, "pgmpy simulate")
    report({"log_likelihood": best(lambda: log_likelihood(learned, codes), repeat)})


def large(rows: int, repeat: int) -> None:
    """Munin, 1041 variables: from a release to what is read off it. The noise is seeded: a study, not a release."""
    learned = dg.load("example:munin")
    network = learned.network
    codes = sample_codes(learned, rows, np.random.default_rng(0))
    counts = dg.count(dg.sample_rows(learned, rows // 10, np.random.default_rng(1)), network)
    release: Any = dg.release(counts, dg.LaplaceMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
    fourier = dg.release(counts, dg.FourierMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(1))
    tables = [table.astype(np.int64) for table in release.value.tables.values()]
    real = [table.astype(float) for table in tables]
    binary = np.random.default_rng(2).integers(0, 100, (2,) * 16)
    posterior = dg.posterior(release, method="plug-in")
    print(f"\nmunin, {len(network.domain.names)} variables, {network.cell_count} cells: seconds")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release.json"
        dg.save(release, path)
        size = path.stat().st_size / 1e6
        ways: dict[str, Callable[[], Any]] = {
            f"save a release ({size:.1f} MB)": lambda: dg.save(release, path),
            "load it": lambda: dg.load(path),
            "Walsh transform of 2^16 cells": lambda: contrast_transform(binary),
            "integer contrasts of every table": lambda: [contrast_transform(table) for table in tables],
            "residuals of every table": lambda: [residual_transform(table, forward=True) for table in real],
            "tables from noisy coefficients": lambda: dg.reconcile(fourier),
            "least squares": lambda: dg.reconcile(release),
            "least squares, no negative cell": lambda: dg.reconcile(release, nonnegative=True),
            "posterior": lambda: dg.posterior(release, method="plug-in"),
            "its mean": lambda: posterior.mean(),
            f"sample {rows} rows": lambda: sample_codes(learned, rows, np.random.default_rng(0)),
            f"log-likelihood of {rows} rows": lambda: log_likelihood(learned, codes),
        }
        report({name: best(way, min(repeat, 3)) for name, way in ways.items()})


def start_up(repeat: int) -> None:
    """Whole processes, beside one that does nothing."""
    print("\nwhole processes: seconds")
    programs = {
        "python -c pass": "pass",
        "import dpgraph": "import dpgraph",
        "dpgraph --help": "from dpgraph.cli import main; main(['--help'])",
        "dpgraph cost --help": "from dpgraph.cli import main; main(['cost', '--help'])",
        "import numpy": "import numpy",
        "import pgmpy.models": "import pgmpy.models",
    }

    def run(program: str) -> None:
        subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)

    report({name: best(lambda text=text: run(text), repeat) for name, text in programs.items()})


def best(way: Callable[[], Any], repeat: int, *, warm: bool = True) -> tuple[float, float]:
    """The shortest and the median time of some runs, after one that warms up."""
    times = []
    if warm:
        way()
    for _ in range(repeat):
        start = time.perf_counter()
        way()
        times.append(time.perf_counter() - start)
    return min(times), median(times)


def report(timed: dict[str, tuple[float, float]], peer: str | None = None) -> None:
    """Prints the time of each way, and how much faster it is than a peer."""
    for name, (low, middle) in timed.items():
        ratio = f"   {timed[peer][0] / low:.1f}x as fast as {peer}" if peer and name != peer else ""
        print(f"  {name:36s} {low:8.4f} ({middle:.4f}){ratio}", flush=True)


if __name__ == "__main__":
    main()
