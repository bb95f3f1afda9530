"""Codes to counts, tables to codes, and both beside peers: ratios from one run, for docs/performance.md.

The yardstick is memcpy, np.copyto of the codes. Each line is the best of several runs, the median in brackets. A peer
that is not installed is skipped with a line; polars and duckdb are no dependencies of dpgraph.

    python benchmarks/counting.py [--rows 10000000] [--repeat 5] [--figures]

With --figures it only measures growth by rows, variables and cells, and saves docs/figures/growth_*.png (matplotlib).
"""

from __future__ import annotations

import importlib
import platform
import time
import tracemalloc
import warnings
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import click
import numpy as np
import pandas as pd
import pyarrow as pa

import dpgraph as dg
from dpgraph.statistics.contingency import add_tables, processors
from dpgraph.statistics.rows.codes import Codes, encode
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import measured_families

FIGURES = Path(__file__).parents[1] / "docs" / "figures"
PACKAGES = ("numpy", "numba", "pandas", "pyarrow", "polars", "duckdb", "pgmpy", "scikit-learn")


@click.command()
@click.option("--rows", default=10_000_000, show_default=True, help="Rows of alarm; the others take a tenth.")
@click.option("--repeat", default=5, show_default=True)
@click.option("--figures", is_flag=True, help="Only measure growth, with a tenth of the rows, and save its figures.")
def main(rows: int, repeat: int, figures: bool) -> None:
    """Prints one table for each question."""
    found = [f"{name} {release}" for name in PACKAGES if (release := _version(name))]
    machine = f"{processors()} processors, Python {platform.python_version()}"
    print(f"{time.strftime('%Y-%m-%d')}, {machine}, {', '.join(found)}")
    if figures:
        growth_figures(rows // 10, repeat)
        return
    codes_to_counts("alarm", rows, repeat, peers=True)
    codes_to_counts("pigs", rows // 10, repeat)
    codes_to_counts("munin", rows // 10, repeat)
    frame_to_counts(rows // 10, repeat)
    naive_bayes(rows // 10, repeat)
    growth(rows, repeat)
    encoding(rows // 10, repeat)


def codes_to_counts(name: str, rows: int, repeat: int, peers: bool = False) -> None:
    """Times each way over the same codes, against memcpy."""
    network, codes = sampled(name, rows)
    columns = list(codes.columns.values())
    copies = [np.empty_like(column) for column in columns]

    def memcpy() -> None:
        for copy, column in zip(copies, columns, strict=True):
            np.copyto(copy, column)

    ways: dict[str, Callable[[], Any]] = {"memcpy": memcpy, "numpy": lambda: counted(codes, network, fast=False)}
    ways["numba, in threads"] = lambda: counted(codes, network, fast=True)
    if peers:
        ways |= peers_of(network, codes)
    print(f"\n{name}, {rows} rows, {len(columns)} variables, {network.cell_count} cells: x memcpy, best (median)")
    timed = report(ways, repeat, "memcpy")
    tracemalloc.start()
    counted(codes, network, fast=False)
    print(f"  memory besides the codes, numpy: {tracemalloc.get_traced_memory()[1] / 1e6:.1f} MB")
    tracemalloc.stop()
    for mine in ("numpy", "numba, in threads"):
        for peer in set(timed) - {"memcpy", "numpy", "numba, in threads"}:
            if mine in timed:
                print(f"  {mine} is {timed[peer] / timed[mine]:.1f}x as fast as {peer}")


def peers_of(network: dg.Network, codes: Codes) -> dict[str, Callable[[], Any]]:
    """One group-by for each family, with all processors."""
    table = pa.table({f"v{at}": column for at, column in enumerate(codes.columns.values())})
    families = [[f"v{network.position[name]}" for name in family] for family in network.maximal_families]
    ways: dict[str, Callable[[], Any]] = {}
    if _version("polars"):
        pl = importlib.import_module("polars")
        lazy = pl.from_arrow(table).lazy()
        ways["polars"] = lambda: pl.collect_all([lazy.group_by(family).len() for family in families])
    if _version("duckdb"):
        connection = importlib.import_module("duckdb").connect()
        connection.register("t", table)
        connection.execute("CREATE TABLE codes AS SELECT * FROM t")

        def duckdb() -> None:
            for family in families:
                names = ", ".join(family)
                connection.execute(f"SELECT {names}, count(*) FROM codes GROUP BY {names}").fetchall()

        ways["duckdb"] = duckdb
    for absent in {"polars", "duckdb"} - set(ways):
        print(f"{absent} is not installed: skipped")
    return ways


def frame_to_counts(rows: int, repeat: int) -> None:
    """A categorical DataFrame to counts, beside pgmpy's fit."""
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteMLE

    probabilities = dg.load("example:alarm")
    network = probabilities.network
    frame = dg.sample_rows(probabilities, rows, np.random.default_rng(1))
    ways: dict[str, Callable[[], Any]] = {"numpy": lambda: counted(frame, network, fast=False)}
    ways["numba, in threads"] = lambda: counted(frame, network, fast=True)
    model = DiscreteBayesianNetwork(network.to_networkx().edges)
    ways["pgmpy DiscreteMLE.fit"] = lambda: DiscreteMLE().fit(model, frame)
    print(f"\nalarm, {rows} rows, categorical DataFrame to counts: best (median) in seconds")
    timed = report(ways, min(repeat, 3))
    ratios(timed, "pgmpy DiscreteMLE.fit")


def naive_bayes(rows: int, repeat: int) -> None:
    """Twenty features of four levels, two classes: counts from codes, beside CategoricalNB.fit."""
    from sklearn.naive_bayes import CategoricalNB

    rng = np.random.default_rng(2)
    domain = dg.Domain.of({"class": [0, 1], **{f"x{k}": range(4) for k in range(20)}})
    network = dg.naive_bayes_network(domain, "class")
    matrix = rng.integers(0, 4, (rows, 20)).astype(np.uint8)
    target = rng.integers(0, 2, rows).astype(np.uint8)
    columns = {"class": target, **{f"x{k}": np.ascontiguousarray(matrix[:, k]) for k in range(20)}}
    codes = dg.statistics.encode(pd.DataFrame(columns), domain)
    ways: dict[str, Callable[[], Any]] = {"numpy": lambda: counted(codes, network, fast=False)}
    ways["numba, in threads"] = lambda: counted(codes, network, fast=True)
    ways["CategoricalNB.fit"] = lambda: CategoricalNB().fit(matrix, target)
    print(f"\nnaive Bayes, {rows} rows, 20 features of 4 levels: best (median) in seconds")
    ratios(report(ways, repeat), "CategoricalNB.fit")


def growth(rows: int, repeat: int) -> None:
    """Time by rows, and by variables and cells, in ns a row."""
    print("\ngrowth: ns a row, numpy / numba (threads where there are enough rows)")
    cases = [("alarm", n) for n in (1_000, 10_000, 100_000, 1_000_000, 10_000_000) if n <= rows]
    for name, n in [*cases, *((name, rows // 10) for name in ("asia", "child", "hailfinder", "pigs"))]:
        network, codes = sampled(name, n)
        times = []
        for fast in (False, True):
            times.append(best(partial(counted, codes, network, fast), repeat)[0] / n * 1e9)
        shown = " / ".join(f"{ns:.1f}" for ns in times)
        print(f"  {name:11s} {n:9d} rows, {len(codes.columns):4d} variables, {network.cell_count:6d} cells: {shown}")


def growth_figures(rows: int, repeat: int) -> None:
    """Time and memory against rows, variables and cells, each with the other two fixed; one figure of each."""
    from matplotlib.figure import Figure

    steps = [n for n in (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000) if n <= rows]
    cases = {
        f"rows (30 variables, {chain(30).cell_count} cells)": [(n, chain(30), n) for n in steps],
        f"variables ({rows // 10} rows, 9 cells each)": [
            (v, chain(v), rows // 10) for v in (3, 10, 30, 100, 300, 1000)
        ],
        f"cells ({rows // 10} rows, one family)": [(2**k, one_family(k), rows // 10) for k in range(1, 22, 2)],
    }
    ways = {"numpy": False, "numba": True}
    time_figure, memory_figure = Figure(figsize=(11, 3.4)), Figure(figsize=(11, 3.4))
    for panel, (label, networks) in enumerate(cases.items()):
        found = {way: [growth_of(network, n, fast, repeat) for _, network, n in networks] for way, fast in ways.items()}
        at = [x for x, _, _ in networks]
        for figure, unit, values in ((time_figure, "seconds", 0), (memory_figure, "MB besides the codes", 1)):
            axes = figure.add_subplot(1, 3, panel + 1, xscale="log", yscale="log", xlabel=label, ylabel=unit)
            for way, measured in found.items():
                axes.plot(at, [pair[values] for pair in measured], marker=".", label=way)
            axes.legend(fontsize=8)
        for way, measured in found.items():
            print(
                f"{label}, {way}: "
                + ", ".join(f"{x}: {s:.4g} s {m:.3g} MB" for x, (s, m) in zip(at, measured, strict=True))
            )
    for name, figure in (("time", time_figure), ("memory", memory_figure)):
        figure.tight_layout()
        figure.savefig(FIGURES / f"growth_{name}.png", dpi=110)
        print(f"saved docs/figures/growth_{name}.png")


def growth_of(network: dg.Network, rows: int, fast: bool, repeat: int) -> tuple[float, float]:
    """Seconds to count random rows, and the most memory besides the codes, in MB, the counts included."""
    rng = np.random.default_rng(4)
    sizes = network.domain.sizes
    codes = Codes(network.domain, FrozenMap((v, rng.integers(0, k, rows, np.uint8)) for v, k in sizes.items()))
    seconds = best(partial(counted, codes, network, fast), repeat)[0]
    tracemalloc.start()
    counted(codes, network, fast)
    memory = tracemalloc.get_traced_memory()[1] / 1e6
    tracemalloc.stop()
    return seconds, memory


def chain(variables: int) -> dg.Network:
    """Variables of three levels, each the parent of the next."""
    names = [f"v{i}" for i in range(variables)]
    parents = {name: [before] for before, name in pairwise(names)}
    return dg.Network.of(dict.fromkeys(names, range(3)), parents)


def one_family(variables: int) -> dg.Network:
    """Binary variables, all but the first parents of it."""
    names = [f"v{i}" for i in range(variables)]
    return dg.Network.of(dict.fromkeys(names, (0, 1)), {names[0]: names[1:]})


def encoding(rows: int, repeat: int) -> None:
    """What a value costs to encode, by the type of its column: three levels."""
    words = ["alpha", "beta", "gamma"]
    code = np.random.default_rng(3).integers(0, 3, rows).astype(np.int8)
    text, numbers = np.array(words, dtype=object)[code], code.astype(np.int64)
    strings = pa.array(text)
    made: dict[str, tuple[Any, Any]] = {
        "pandas category, declared order": (pd.Categorical.from_codes(code, words), words),
        "pandas category, another order": (pd.Categorical.from_codes(code, words), words[::-1]),
        "pandas category, a tenth null": (
            pd.Categorical.from_codes(np.where(np.arange(rows) % 10, code, -1), words),
            dg.Categories(words, missing="beta"),
        ),
        "pandas object": (pd.Series(text, dtype=object), words),
        "pandas str": (pd.Series(text, dtype="str"), words),
        "arrow string": (strings, words),
        "arrow dictionary": (strings.dictionary_encode(), words[::-1]),
        "int64": (numbers, [0, 1, 2]),
        "float64": (numbers.astype(float), [0, 1, 2]),
        "boolean": (numbers > 0, [False, True]),
        "float64 to 4 bins": (code + 0.5, dg.Bins([0, 1, 2, 3, 4])),
    }
    if _version("polars"):
        pl = importlib.import_module("polars")
        made["polars String"] = pl.Series(text, dtype=pl.String), words
        made["polars Enum, another order"] = pl.Series(text, dtype=pl.Enum(words)), words[::-1]
    print("\nencoding: ns a value")
    for name, (values, declared) in made.items():
        frame: Any = pd.DataFrame({"v": values}) if not isinstance(values, pa.Array) else pa.table({"v": values})
        if name.startswith("polars"):
            frame = values.to_frame("v")
        domain = dg.Domain.of({"v": declared})
        low, middle = best(partial(dg.statistics.encode, frame, domain), repeat)
        print(f"  {name:34s} {low / rows * 1e9:6.2f} ({middle / rows * 1e9:.2f})")


def sampled(name: str, rows: int) -> tuple[dg.Network, Codes]:
    """An example network, and codes of rows drawn from it."""
    probabilities = dg.load(f"example:{name}")
    frame = dg.sample_rows(probabilities, rows, np.random.default_rng(0))
    return probabilities.network, dg.statistics.encode(frame, probabilities.network.domain)


def counted(rows: Any, network: dg.Network, fast: bool) -> None:
    """What ``dg.count`` does, by one way of counting."""
    tables = tuple(tuple(network.position[name] for name in table) for table in measured_families(network))
    totals = [np.zeros(network.cells(table), np.int64) for table in measured_families(network)]
    sizes = tuple(network.domain.sizes.values())
    codes = rows if isinstance(rows, Codes) else encode(rows, network.domain)
    add_tables([codes.columns[name] for name in network.domain.names], sizes, tables, totals, fast)


def best(way: Callable[[], Any], repeat: int) -> tuple[float, float]:
    """The shortest and the median time of some runs, after one that warms up."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            way()
        times.append(time.perf_counter() - start)
    return min(times[1:]), median(times[1:])


def report(ways: dict[str, Callable[[], Any]], repeat: int, unit: str | None = None) -> dict[str, float]:
    """Prints and returns the time of each way, in seconds or as multiples of one of them."""
    timed = {name: best(way, repeat) for name, way in ways.items()}
    scale = timed[unit][0] if unit else 1.0
    for name, (low, middle) in timed.items():
        print(f"  {name:24s} {low / scale:8.3f} ({middle / scale:.3f})" + (f"   {low:.4f} s" if unit else ""))
    return {name: low for name, (low, _) in timed.items()}


def ratios(timed: dict[str, float], peer: str) -> None:
    """Prints how much faster each way is than a peer."""
    for name, seconds in timed.items():
        if name != peer:
            print(f"  {name} is {timed[peer] / seconds:.1f}x as fast as {peer}")


def _version(name: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    main()
