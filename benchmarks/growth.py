"""How each step grows with the graph: seconds, exponents and peak memory on chains, stars, random graphs and grids.

Every graph runs in a process of its own, under a limit of time and of memory; a step that it did not reach is a dash.
Seconds are of processor time, so that other work on the machine matters less.

    python benchmarks/growth.py --rows 100000 --timeout 300
    python benchmarks/growth.py --rows 2000 --figure docs/figures/growth_graph.png
    python benchmarks/growth.py --kinds chain star --sizes 100 1000 --steps order count
    python benchmarks/growth.py --kinds family --sizes 10000 100000 1000000
    python benchmarks/growth.py --kinds log steps entries --sizes 10000 100000
    python benchmarks/growth.py --kinds noise --sizes 100000 1000000

A ``family`` has so many cells: a variable of ten levels and its parents. A ``log`` has so many entries in sequences of
twenty steps, ``steps`` is one sequence of so many steps, ``entries`` so many sequences of one step and one entry,
``tens`` has so many entries in sequences of ten steps, one entry a cell; an HMM of three states is learned.
``noise`` of so many cells is drawn in turns with OpenDP's own call on as many.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

KINDS = ("chain", "star", "random", "grid")
#: One family of so many cells; logs of so many entries, of so many steps, of so many sequences of one entry.
FAMILY, LOGS, NOISE = "family", ("log", "steps", "entries", "tens"), "noise"
#: The scale of noise, and how often each law is drawn.
SCALE, TURNS = 2.0, 3
#: Draws and sweeps before them of the chains of a log.
SWEEPS = {"iterations": 200, "burn_in": 100}
SIZES = (100, 1000, 10_000)
#: Graphs that ship with pgmpy, for steps that must not become slower.
BUNDLED = ("asia", "alarm", "munin")
#: The steps of the figure, by their names in its legend.
LINES = {
    "privacy_cost": "privacy_cost",
    "count": "count",
    "release": "release",
    "posterior": "posterior",
    "draws, 100": "100 draws, tables",
    "load draws": "load draws",
}
#: Above this many bytes of address space a process is refused memory.
MEMORY = 12 << 30


def parents_of(kind: str, size: int) -> dict[str, list[str]]:
    """The parents of each variable of a graph of a kind."""
    names = [f"v{i}" for i in range(size)]
    if kind == FAMILY:
        return {"v0": names[1 : round(math.log10(size))], **{name: [] for name in names[1 : round(math.log10(size))]}}
    if kind == "chain":
        return {names[i]: names[max(0, i - 1) : i] for i in range(size)}
    if kind == "star":
        return {names[i]: names[: min(i, 1)] for i in range(size)}
    if kind == "grid":
        side = math.isqrt(size)
        left = {i: [i - 1] if i % side else [] for i in range(side * side)}
        return {names[i]: [names[j] for j in [*left[i], *([i - side] if i >= side else [])]] for i in left}
    rng = np.random.default_rng(0)
    return {names[i]: [names[j] for j in rng.choice(i, min(3, i), replace=False)] for i in range(size)}


def way(kind: str, size: int, rows: int, folder: Path) -> list[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """The steps in order; each reads what earlier ones made."""
    import dpgraph as dg
    from dpgraph.statistics.rows.codes import Codes
    from dpgraph.structure.frozen import FrozenMap

    if kind in LOGS:
        return way_of_log(kind, size)
    if kind == NOISE:
        return way_of_noise(size)
    parents = None if kind in BUNDLED else parents_of(kind, size)
    unit = dg.PrivacyUnit("replace")
    mechanism = dg.LaplaceMechanism(epsilon=1)

    def made(_: dict[str, Any]) -> Any:
        if parents is None:
            return dg.read_network(f"example:{kind}")
        return dg.Network.of({name: list(range(10 if kind == FAMILY else 2)) for name in parents}, parents)

    def codes(done: dict[str, Any]) -> Any:
        domain, rng = done["network"].domain, np.random.default_rng(1)
        columns = ((name, rng.integers(k, size=rows, dtype=np.uint8)) for name, k in domain.sizes.items())
        return Codes(domain, FrozenMap(columns))

    def draws(number: int) -> Callable[[dict[str, Any]], Any]:
        return lambda done: dg.posterior(done["release"], method="tables", draws=number, seed=0)

    def saved(name: str, suffix: str) -> Callable[[dict[str, Any]], Any]:
        return lambda done: dg.save(done[name], folder / f"{name.replace(' ', '_')}{suffix}")

    def loaded(name: str, suffix: str) -> Callable[[dict[str, Any]], Any]:
        return lambda _: dg.load(folder / f"{name.replace(' ', '_')}{suffix}")

    def budget() -> Any:
        return dg.Budget(epsilon=1, unit=unit)

    return [
        ("network", made),
        ("order", lambda done: done["network"].order),
        ("event", lambda done: mechanism.event(done["network"], unit)),
        ("privacy_cost", lambda done: dg.privacy_cost(done["network"], epsilon=1, unit=unit, n=rows)),
        ("codes", codes),
        ("count", lambda done: dg.count(done["codes"], done["network"])),
        ("release", lambda done: dg.release(done["count"], mechanism, budget=budget())),
        ("reconcile", lambda done: dg.reconcile(done["release"])),
        ("posterior", lambda done: dg.posterior(done["release"], method="plug-in").mean()),
        ("draws, 10", draws(10)),
        ("draws, 100", draws(100)),
        ("save release", saved("release", ".json")),
        ("load release", loaded("release", ".json")),
        ("save draws", saved("draws, 100", ".npz")),
        ("load draws", loaded("draws, 100", ".npz")),
        ("rows, 1000", lambda done: dg.sample_rows(done["posterior"], 1000, np.random.default_rng(2))),
    ]


def way_of_log(kind: str, size: int) -> list[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """The steps of a log: entries in two states of three fields' laws, released at epsilon 1, learned noise-aware."""
    import dpgraph as dg
    from dpgraph.statistics.rows.codes import Codes, code_dtype
    from dpgraph.structure.frozen import FrozenMap

    shapes = {"log": (max(1, size // 100), 20), "steps": (1, size), "entries": (size, 1), "tens": (size // 10, 10)}
    sequences, steps = shapes[kind]
    entries = max(size, 5 * sequences * steps) if kind == "log" else size
    domain = dg.Domain.of({"region": range(sequences), "month": range(steps), "kind": list("abcd")})
    unit = dg.PrivacyUnit("replace")

    def codes(_: dict[str, Any]) -> Any:
        rng = np.random.default_rng(1)
        region, month = rng.integers(sequences, size=entries), rng.integers(steps, size=entries)
        state = (region + month // 5) % 3
        kinds = (state + (rng.random(entries) < 0.2)).astype(np.uint8)
        columns = {"region": region, "month": month, "kind": kinds}
        return Codes(
            domain, FrozenMap((name, codes.astype(code_dtype(domain.sizes[name]))) for name, codes in columns.items())
        )

    return [
        ("network", lambda _: dg.hmm_network(domain, "region", "month")),
        ("codes", codes),
        ("count", lambda done: dg.count(done["codes"], done["network"])),
        (
            "release",
            lambda done: dg.release(done["count"], dg.LaplaceMechanism(1), budget=dg.Budget(epsilon=1, unit=unit)),
        ),
        (
            "fit, 3 states",
            lambda done: dg.fit_hmm(
                done["release"], 3, sequence="region", time="month", seed=0, progress=False, **SWEEPS
            ),
        ),
        ("predict", lambda done: done["fit, 3 states"].predict()),
    ]


def way_of_noise(size: int) -> list[tuple[str, Callable[[dict[str, Any]], Any]]]:
    """Noise of so many cells of each law, ours and by one call of OpenDP's measurement, in turns."""
    from dpgraph.privacy import measurements, noise

    source, zeros = noise.SecureNoise(), np.zeros(size, np.int64)
    laws = {
        "discrete Laplace": measurements.DiscreteLaplace(SCALE),
        "discrete Gaussian": measurements.DiscreteGaussian(SCALE),
        "sum-zero": measurements.SumZeroLaplace(SCALE),
    }
    calls = {"OpenDP Laplace": noise._laplace(SCALE), "OpenDP Gaussian": noise._gaussian(SCALE)}

    def drawn(law: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda _: source.add(zeros, law).nbytes

    def called(call: Any) -> Callable[[dict[str, Any]], Any]:
        return lambda _: np.array(call(zeros), dtype=np.int64).nbytes

    steps = [*((name, drawn(law)) for name, law in laws.items()), *((name, called(c)) for name, c in calls.items())]
    return [(f"{name} {turn}", step) for turn in range(1, TURNS + 1) for name, step in steps]


def worker(kind: str, size: int, rows: int, only: list[str], memory: int) -> None:
    """Runs the steps of one graph, and prints seconds and peak memory of each as it ends."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    with tempfile.TemporaryDirectory() as folder:
        done: dict[str, Any] = {}
        for name, step in way(kind, size, rows, Path(folder)):
            if only and name not in only and name not in ("network", "codes", "count", "release", "posterior"):
                continue
            started, used = time.perf_counter(), time.process_time()
            try:
                done[name] = step(done)
                failed = ""
            except Exception as error:  # a step that fails is a line of the table, and what needs it fails too
                failed = f"{type(error).__name__}: {error}"[:200]
            taken, used = time.perf_counter() - started, time.process_time() - used
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            line = {"step": name, "seconds": taken, "processor": used, "MB": peak, "failed": failed}
            print(json.dumps(line), flush=True)


def run(kind: str, size: int, arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """What a process of its own printed before it ended or its time was up."""
    command = [sys.executable, __file__, "--worker", kind, str(size), "--rows", str(arguments.rows)]
    command += ["--memory", str(arguments.memory), *(["--steps", *arguments.steps] if arguments.steps else [])]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(command, stdout=out, stderr=err, timeout=arguments.timeout, check=False)
        out.seek(0)
        lines = [json.loads(line) for line in out if line.startswith("{")]
    return {line["step"]: line for line in lines}


def shown(found: dict[int, dict[str, dict[str, Any]]], kind: str) -> None:
    """A table of one kind of graph: seconds at each size, exponents from each size to the next, peak memory so far."""
    sizes = list(found)
    print(f"\n{kind}: load {os.getloadavg()[0]:.1f}")
    print("| step |", " | ".join(f"{size} (s)" for size in sizes), "| exponents | peak MB |")
    print("|---" * (len(sizes) + 3) + "|")
    steps = max((list(found[size]) for size in sizes), key=len, default=[])
    for step in steps:
        lines = [found[size].get(step) for size in sizes]
        cells = ["-" if x is None else x["failed"][:20] or f"{x['processor']:.3g}" for x in lines]
        exponents = [
            f"{math.log(max(b['processor'], 1e-4) / max(a['processor'], 1e-4)) / math.log(m / n):.2f}"
            for n, m, a, b in zip(sizes, sizes[1:], lines, lines[1:], strict=False)
            if a and b and not (a["failed"] or b["failed"])
        ]
        peak = [f"{x['MB']:.0f}" for x in lines if x]
        print(f"| {step} |", " | ".join(cells), "|", ", ".join(exponents), "|", ", ".join(peak), "|", flush=True)


def drawn(found: dict[str, dict[int, dict[str, dict[str, Any]]]], path: str) -> None:
    """A panel for each kind of graph: processor seconds of the longest steps against variables, and what is linear."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(1.6 + 2.6 * len(found), 3.4), sharey=True, layout="constrained")
    for axis, (kind, sizes) in zip(np.atleast_1d(axes), found.items(), strict=True):
        for (step, label), marker in zip(LINES.items(), "osv^D*", strict=True):
            at = [(size, lines[step]["processor"]) for size, lines in sizes.items() if step in lines]
            axis.plot([x for x, _ in at], [y for _, y in at], marker=marker, markersize=4, label=label)
        ends = [min(sizes), max(sizes)]
        axis.plot(ends, [1e-3 * size / ends[0] for size in ends], color="#888888", linestyle=":", label="linear")
        axis.set(xscale="log", yscale="log", title=kind, xlabel="variables")
    np.atleast_1d(axes)[0].set_ylabel("processor seconds")
    figure.legend(*np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Runs all that is asked for and prints a table of each kind of graph."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=(*KINDS, FAMILY, *LOGS, NOISE, *BUNDLED), default=list(KINDS))
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES))
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--timeout", type=float, default=300, help="seconds for one graph")
    parser.add_argument("--memory", type=int, default=MEMORY, help="bytes for one graph")
    parser.add_argument("--steps", nargs="*", default=[], help="only these, and what they need")
    parser.add_argument("--figure", help="where to draw the graphs' steps")
    parser.add_argument("--worker", nargs=2, metavar=("KIND", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        worker(arguments.worker[0], int(arguments.worker[1]), arguments.rows, arguments.steps, arguments.memory)
        return
    found: dict[str, dict[int, dict[str, dict[str, Any]]]] = {}
    for kind in arguments.kinds:
        sizes = [0] if kind in BUNDLED else arguments.sizes
        found[kind] = {size: run(kind, size, arguments) for size in sizes}
        shown(found[kind], kind)
    if arguments.figure:
        drawn({kind: sizes for kind, sizes in found.items() if kind in KINDS}, arguments.figure)


if __name__ == "__main__":
    main()
