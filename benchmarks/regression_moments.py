"""How fast the moments of a regression are summed: streamed from Parquet, and in memory, beside numpy's X.T @ X.

Twenty numeric features and a target. Each source runs in a process of its own, whose peak memory is reported; times are
the best of some runs, as ratios to numpy's on the same rows in memory in one run.

    python benchmarks/regression_moments.py [rows]        # 1e7 by default: 1.7 GB of Parquet in a temporary folder
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpgraph as dg

FEATURES = tuple(f"x{i}" for i in range(20))
DESIGN = dg.LinearDesign(dict.fromkeys(FEATURES, (-4, 4)), "y", (-10, 10))
SOURCES = ("numpy X.T @ X", "Parquet", "Parquet, decoded only", "Arrow table", "arrays X, y")


def write(path: Path, rows: int) -> None:
    """Normal features, some outside the bounds, a part at a time."""
    rng, writer = np.random.default_rng(0), None
    for start in range(0, rows, 1 << 19):
        X = rng.normal(size=(min(1 << 19, rows - start), len(FEATURES)))
        y = X @ np.linspace(-1, 1, len(FEATURES)) + rng.normal(size=len(X))
        part = pa.table({**dict(zip(FEATURES, X.T, strict=True)), "y": y})
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part)
    if writer:
        writer.close()


def task(source: str, path: Path) -> Callable[[], Any]:
    """What is timed."""
    if source == "Parquet":
        return lambda: dg.statistics.regression_moments(path, DESIGN)
    if source == "Parquet, decoded only":
        return lambda: sum(len(batch) for batch in pq.ParquetFile(path).iter_batches())
    table = pq.read_table(path)
    if source == "Arrow table":
        return lambda: dg.statistics.regression_moments(table, DESIGN)
    X = np.empty((len(table), len(FEATURES)))
    for i, name in enumerate(FEATURES):
        X[:, i] = table[name].to_numpy()
    y = table["y"].to_numpy()
    return (
        (lambda: dg.statistics.regression_moments((X, y), DESIGN)) if source.startswith("arrays") else (lambda: X.T @ X)
    )


def measure(source: str, path: Path) -> None:
    """Prints seconds and peak memory in MB; run in a process of its own."""
    run, taken = task(source, path), []
    for _ in range(3):
        start = time.perf_counter()
        run()
        taken.append(time.perf_counter() - start)
    print(min(taken), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main(rows: int) -> None:
    """Prints the table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, rows)
        print(f"{rows} rows, {len(FEATURES)} features, {path.stat().st_size / 1e6:.0f} MB of Parquet")
        print(f"{'':24}{'seconds':>9}{'numpy is':>12}{'peak MB':>10}")
        reference = None
        for source in SOURCES:
            command = [sys.executable, __file__, source, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            seconds, peak = (float(word) for word in done.stdout.split())
            reference = reference or seconds
            print(f"{source:24}{seconds:9.3f}{seconds / reference:10.1f} x{peak:10.0f}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        measure(sys.argv[1], Path(sys.argv[2]))
    else:
        main(int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000)
