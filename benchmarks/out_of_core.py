"""Parquet that does not fit in memory, and rows on a cluster: ratios to decoding alone and to peers, from one run.

Rows of alarm as text columns are written to a temporary folder: a million are drawn and repeated. Each measurement of
a whole process is a process of its own, started afresh, with the network read from a file of our own; its memory is
the peak of its resident set, as Linux tells it. A peer that is not installed is left out. Spark needs Java 17 or newer:
JAVA_HOME or java on the path.

    python benchmarks/out_of_core.py [--rows 10000000] [--peer-rows 1000000] [--repeat 3] [--no-spark]
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dpgraph as dg

PACKAGES = ("numpy", "numba", "pandas", "pyarrow", "duckdb", "pgmpy", "pyspark", "dask")
BLOCK = 1_000_000

#: Programs of one process each, from start to counts; the path is the argument.
OURS = """
import dpgraph as dg
counts = dg.count(PATH, dg.read_network(NETWORK))
"""
PEER = """
import pandas as pd
from pgmpy.models import DiscreteBayesianNetwork
from pgmpy.parameter_estimator import DiscreteMLE
rows = pd.read_parquet(PATH).astype("category")
model = DiscreteMLE().fit(DiscreteBayesianNetwork(ARCS), rows)
"""
#: The peak of this program alone, in KiB: getrusage would count the memory of the process that started it.
PEAK = """
import re
print(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1])
"""


@click.command()
@click.option("--rows", default=10_000_000, show_default=True)
@click.option("--peer-rows", default=1_000_000, show_default=True, help="For pandas + pgmpy, which holds every row.")
@click.option("--repeat", default=3, show_default=True)
@click.option("--spark/--no-spark", default=True)
def main(rows: int, peer_rows: int, repeat: int, spark: bool) -> None:
    """Prints one table for each question."""
    found = [f"{name} {release}" for name in PACKAGES if (release := _version(name))]
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} processors, Python {platform.python_version()}")
    print(", ".join(found))
    with tempfile.TemporaryDirectory(prefix="dpgraph-bench-") as folder:
        dg.save(dg.read_network("example:alarm"), Path(folder) / "alarm.json")
        paths = {n: written(n, Path(folder) / f"{n}.parquet") for n in {rows, rows // 10, rows // 100, peer_rows}}
        one_machine(paths[rows], rows, repeat)
        growth({n: paths[n] for n in (rows // 100, rows // 10, rows)}, repeat)
        whole_process(paths[peer_rows], peer_rows, paths[rows], rows)
        clusters(paths[rows], rows, repeat, spark)


def written(rows: int, path: Path) -> Path:
    """Rows of alarm as text, in row groups of a million."""
    drawn = dg.sample_rows(dg.load("example:alarm"), min(rows, BLOCK), np.random.default_rng(0)).astype(str)
    block = pa.table({name: pa.array(drawn[name]).cast(pa.string()) for name in drawn})
    with pq.ParquetWriter(path, block.schema) as file:
        for start in range(0, rows, BLOCK):
            file.write_table(block.slice(0, min(BLOCK, rows - start)))
    return path


def one_machine(path: Path, rows: int, repeat: int) -> None:
    """Decoding alone, counting, and DuckDB's GROUP BY of each family, both with two threads."""
    network = dg.read_network("example:alarm")
    tasks: dict[str, Callable[[], object]] = {
        "decoding alone": lambda: decoded(path),
        "dg.count": lambda: dg.count(path, network),
    }
    if importlib.util.find_spec("duckdb"):
        tasks["DuckDB, SQL per family"] = lambda: queried(path, network)
    seconds = fastest(tasks, repeat)
    table("one machine", rows, seconds, "decoding alone")


def decoded(path: Path) -> int:
    """The rows of a file whose text is decoded as dictionaries, by two threads."""
    names = pq.read_schema(path).names

    def group(number: int) -> int:
        with pq.ParquetFile(path, read_dictionary=names) as file:
            return sum(len(batch) for batch in file.iter_batches(1 << 17, row_groups=[number], use_threads=False))

    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(group, range(pq.read_metadata(path).num_row_groups)))


def queried(path: Path, network: dg.Network) -> None:
    """DuckDB's counts of each family, a query each."""
    import duckdb

    with duckdb.connect(config={"threads": 2}) as connection:
        for family in network.families:
            columns = ", ".join(f'"{name}"' for name in family)
            connection.sql(f"select {columns}, count(*) from read_parquet('{path}') group by all").fetchall()


def growth(paths: dict[int, Path], repeat: int) -> None:
    """Time and memory as the rows grow, each in a process of its own."""
    print("\nwhole processes as rows grow\n" + f"{'rows':>12} {'seconds':>9} {'peak MB':>9}")
    for rows, path in paths.items():
        seconds, megabytes = min(process(OURS, path) for _ in range(repeat))
        print(f"{rows:>12,} {seconds:>9.2f} {megabytes:>9.0f}")


def whole_process(path: Path, rows: int, long: Path, long_rows: int) -> None:
    """From start to counts, beside pandas and pgmpy on the same file."""
    ours, peer = process(OURS, path), process(PEER, path)
    print(f"\nwhole process from text Parquet, {rows:,} rows")
    print(f"dg.count       {ours[0]:8.2f} s {ours[1]:8.0f} MB")
    print(f"pandas + pgmpy {peer[0]:8.2f} s {peer[1]:8.0f} MB: {peer[0] / ours[0]:.1f}x, {peer[1] / ours[1]:.1f}x")
    last = process(OURS, long)
    print(f"dg.count on {long_rows:,} rows: {last[0]:.2f} s, {last[1]:.0f} MB")


def process(program: str, path: Path) -> tuple[float, float]:
    """Seconds and peak megabytes of one process."""
    network = dg.read_network(path.with_name("alarm.json"))
    words = {"PATH": str(path), "NETWORK": str(path.with_name("alarm.json")), "ARCS": list(network.to_networkx().edges)}
    text = program + PEAK
    for word, value in words.items():
        text = text.replace(word, repr(value))
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", text], capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(done.stderr)
    return time.perf_counter() - start, int(done.stdout.split()[-1]) / 1024


def clusters(path: Path, rows: int, repeat: int, spark: bool) -> None:
    """Row groups handed to Dask and to a warm Spark, and the same rows through a Spark DataFrame."""
    network = dg.read_network("example:alarm")
    tasks: dict[str, Callable[[], object]] = {"dg.count": lambda: dg.count(path, network)}
    if importlib.util.find_spec("dask"):
        tasks['engine="dask", threads'] = lambda: dg.count(path, network, engine="dask")
    java = os.environ.get("JAVA_HOME") or shutil.which("java")
    session = spark_session() if spark and java and importlib.util.find_spec("pyspark") else None
    if session is not None:
        tasks["engine=SparkSession, local[2]"] = lambda: dg.count(path, network, engine=session)
        tasks["engine=SparkSession, local[2]"]()
    seconds = fastest(tasks, repeat)
    if session is not None:
        seconds |= fastest({"Spark DataFrame": lambda: dg.count(session.read.parquet(str(path)), network)}, 1)
        session.stop()
    table("clusters", rows, seconds, "dg.count")


def spark_session() -> object:
    """Two cores, quiet."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    return builder.config("spark.ui.showConsoleProgress", "false").config("spark.log.level", "ERROR").getOrCreate()


def fastest(tasks: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """The best of some runs of each task, taken in turns so that a busy minute meets them all."""
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(repeat):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            best[name] = min(best[name], time.perf_counter() - start)
    return best


def table(title: str, rows: int, seconds: dict[str, float], unit: str) -> None:
    """Prints seconds, and how many times the unit they are."""
    print(f"\n{title}, {rows:,} rows\n{'':32} {'seconds':>9} {'ratio':>7}")
    for name, taken in seconds.items():
        print(f"{name:32} {taken:>9.2f} {taken / seconds[unit]:>6.2f}x")


def _version(package: str) -> str | None:
    """The installed version, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
