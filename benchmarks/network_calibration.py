"""Are posteriors of whole networks calibrated? Simulation-based calibration of every method, release and relation.

Tables are drawn from the prior, rows from the tables, a release from the rows, a posterior from the release; the rank
of each true parameter among its 100 posterior draws must be uniform. Printed for each setting, by relation and method:
the share of parameters beyond their own 5 % critical value (5 for a right posterior), the coverage of central 50 and
90 % intervals by ranks, all in per cent, and ! where ``Calibration.calibrated`` says no. Uniform priors, epsilon is
the release's, delta of Gaussian noise 1e-6.

    python benchmarks/network_calibration.py [--trials 50] [--networks asia,sachs] [--rows 300] [--figure]

Lines are printed as they are done; ``--into FILE`` keeps each result, and results that the file has are not run again.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
from tqdm import tqdm

import dpgraph as dg

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "network_calibration.png"
COEFFICIENTS = ("fourier", "residual")
#: What is printed side by side: a kind of release and a method.
COLUMNS = (
    ("laplace", "tables"), ("laplace", "normal"), ("gaussian", "tables"), ("gaussian", "normal"),
    ("fourier", "normal"), ("residual", "normal"),
)  # fmt: skip
RELATIONS = ("replace", "add-remove")


@click.command()
@click.option("--trials", default=50, show_default=True, help="Simulated data sets for each setting.")
@click.option("--networks", default="cancer,survey,asia,random,sachs", show_default=True)
@click.option("--rows", default="300,3000", show_default=True, help="Rows of each simulated data set.")
@click.option("--epsilons", default="0.2,1,3", show_default=True)
@click.option("--columns", default=",".join(map(":".join, COLUMNS)), show_default=True, help="Release:method, ...")
@click.option("--seed", default=0, show_default=True)
@click.option("--into", type=click.Path(path_type=Path), default=None, help="A file of results, a line of JSON each.")
@click.option("--figure", is_flag=True, help="Also draw the ranks of asia, n = 300, epsilon 1, one replaced row.")
def main(
    trials: int, networks: str, rows: str, epsilons: str, columns: str, seed: int, into: Path | None, figure: bool
) -> None:
    """Prints a line for each setting, and draws the ranks of one."""
    wanted = [(kind, method) for kind, method in (column.split(":") for column in columns.split(","))]
    done = _kept(into)
    print(f"| network, n | epsilon | neighbours | {' | '.join(f'{k}, {m}' for k, m in wanted)} |")
    print("|---" * (3 + len(wanted)) + "|")
    lines = list(itertools.product(networks.split(","), map(int, rows.split(",")), epsilons.split(","), RELATIONS))
    for name, n, epsilon, relation in tqdm(lines, disable=not sys.stderr.isatty()):
        cells = []
        for kind, method in wanted:
            key = f"{name} {n} {epsilon} {relation} {kind} {method} {trials} {seed}"
            if key not in done:
                done[key] = _studied(name, n, epsilon, relation, kind, method, trials, seed)
                if into is not None:
                    with into.open("a") as file:
                        file.write(json.dumps({"key": key, **done[key]}) + "\n")
            cells.append(_cell(done[key]))
        tqdm.write(f"| {name}, {n} | {epsilon} | {relation} | {' | '.join(cells)} |")
        sys.stdout.flush()
    if figure:
        draw(trials, seed)


def network_of(name: str) -> dg.Network:
    """A bundled network, or eight variables of two to four levels with up to three parents, the same at each call."""
    if name != "random":
        return dg.read_network(f"example:{name}")
    rng = np.random.default_rng(8)
    levels = {f"x{v}": list(range(int(rng.integers(2, 5)))) for v in range(8)}
    parents = {
        f"x{v}": [f"x{u}" for u in rng.choice(v, size=int(rng.integers(0, min(3, v) + 1)), replace=False)]
        for v in range(1, 8)
    }
    return dg.Network.of(levels, parents)


def mechanism_of(kind: str, epsilon: str, network: dg.Network) -> Any:
    """A mechanism by its kind."""
    match kind:
        case "laplace":
            return dg.LaplaceMechanism(epsilon)
        case "gaussian":
            return dg.GaussianMechanism(epsilon, 1e-6)
        case "residual":
            return dg.GaussianMechanism(epsilon, 1e-6, basis="residual")
    binary = all(size == 2 for size in network.domain.sizes.values())
    return dg.FourierMechanism(epsilon, basis="walsh" if binary else "residual")


def _studied(
    name: str, n: int, epsilon: str, relation: Any, kind: str, method: str, trials: int, seed: int
) -> dict[str, Any]:
    """Numbers of one study, or why there are none."""
    network, start = network_of(name), time.perf_counter()
    if method == "tables" and kind in COEFFICIENTS:
        return {"refused": "needs tables"}
    if kind == "residual" and relation == "replace":
        return {"refused": "add-remove only"}
    asked = dg.methods.Records(chains=1, burn_in=300, thin=5) if method == "records" else method
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = dg.audit.calibration(
            network,
            mechanism_of(kind, epsilon, network),
            n=n,
            trials=trials,
            unit=dg.PrivacyUnit(relation),
            method=asked,
            seed=seed,
        )
    return {
        "parameters": len(found.parameters),
        "share": found.share_beyond,
        "limit": found.limits[0],
        "worst": found.worst,
        "worst_limit": found.limits[1],
        "calibrated": found.calibrated,
        "half": found.covered(0.5),
        "ninety": found.covered(0.9),
        "width": float(found.parameters["width"].mean()),
        "rmse": found.rmse,
        "warned": sorted({type(one.message).__name__ for one in caught}),
        "seconds": time.perf_counter() - start,
    }


def _cell(found: dict[str, Any]) -> str:
    """The numbers of a study as they are printed."""
    if "refused" in found:
        return "-"
    verdict = "" if found["calibrated"] else " !"
    return f"{100 * found['share']:.0f}, {100 * found['half']:.0f}, {100 * found['ninety']:.0f}{verdict}"


def _kept(into: Path | None) -> dict[str, dict[str, Any]]:
    """The results that a file has."""

    def lines() -> Iterator[dict[str, Any]]:
        if into is not None and into.exists():
            yield from map(json.loads, into.read_text().splitlines())

    return {line.pop("key"): line for line in lines()}


def draw(trials: int, seed: int) -> None:
    """The ranks of all parameters, sorted, against uniform ones."""
    from dpgraph import plot

    asia, laplace = network_of("asia"), dg.LaplaceMechanism("1")
    found = {
        method: dg.audit.calibration(asia, laplace, n=300, trials=trials, method=method, seed=seed)
        for method in ("exact-counts", "tables", "normal", "plug-in")
    }
    axes = plot.calibration(found)
    axes.set_title("asia, n = 300, epsilon 1, one replaced row", fontsize=10)
    axes.figure.savefig(FIGURE, dpi=150)
    print(f"wrote {FIGURE.name}")


if __name__ == "__main__":
    main()
