"""Are posteriors of whole networks calibrated? Simulation-based calibration of every method beside the plug-in.

Tables are drawn from the prior, rows from the tables, a release from the rows, a posterior from the release; the rank
of each true parameter among its posterior draws must be uniform. Printed for each setting and method: the mean and
largest Kolmogorov-Smirnov distance over the parameters with the 5 % critical value of one, the coverage of 90 %
intervals (among 100 draws a perfect posterior covers about 88 %), their width, and the error of the posterior mean.

    python benchmarks/network_calibration.py [--trials 150] [--networks asia,sachs] [--workers 2]
"""

from __future__ import annotations

import itertools
import time
import warnings
from pathlib import Path

import click

import dpgraph as dg

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "network_calibration.png"
METHODS = ("exact-counts", "records", "tables", "normal", "plug-in")
HEAD = "network      n  epsilon neighbours  method         mean ks    max    5 %  cover   width    rmse  seconds"


@click.command()
@click.option("--trials", default=100, show_default=True, help="Simulated data sets for each setting.")
@click.option("--networks", default="asia,sachs", show_default=True)
@click.option("--rows", default="500,1000,2000", show_default=True, help="Rows of each simulated asia data set.")
@click.option("--workers", default=2, show_default=True, help="Threads.")
@click.option("--methods", default=",".join(METHODS), show_default=True)
def main(trials: int, networks: str, rows: str, workers: int, methods: str) -> None:
    """Prints a line for each setting and method, and draws the ranks of one setting."""
    print(HEAD)
    kept = {}
    for name in networks.split(","):
        network = dg.read_network(f"example:{name}")
        sizes = [int(size) for size in rows.split(",")] if name == "asia" else [1000]
        epsilons = ("0.1", "0.5", "2") if name == "asia" else ("1",)
        for n, epsilon, neighbours in itertools.product(sizes, epsilons, ("replace", "add-remove")):
            for method in methods.split(","):
                start = time.perf_counter()
                asked = dg.methods.Records(chains=1, burn_in=300, thin=5) if method == "records" else method
                with warnings.catch_warnings():
                    # 100 draws of one chain are asked for
                    warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)
                    found = dg.audit.calibration(
                        network,
                        dg.LaplaceMechanism(epsilon),
                        n=n,
                        trials=trials,
                        unit=dg.PrivacyUnit(neighbours),
                        method=asked,
                        workers=workers,
                    )
                frame, spent = found.parameters, time.perf_counter() - start
                print(
                    f"{name:8}{n:6}{epsilon:>9} {neighbours:12}{method:14}{found.mean_ks:8.3f}{frame['ks'].max():7.3f}"
                    f"{found.critical():7.3f}{found.coverage:7.3f}{frame['width'].mean():8.3f}{found.rmse:8.4f}{spent:9.1f}",
                    flush=True,
                )
                if (name, n, epsilon, neighbours) == ("asia", 500, "0.5", "replace"):
                    kept[method] = found
    if kept:
        draw(kept)


def draw(found: dict[str, dg.audit.Calibration]) -> None:
    """The ranks of all parameters, sorted, against uniform ones."""
    from dpgraph import plot

    axes = plot.calibration(found)
    axes.set_title("asia, n = 500, epsilon 0.5, one replaced row", fontsize=10)
    axes.figure.savefig(FIGURE, dpi=150)
    print(f"wrote {FIGURE.name}")


if __name__ == "__main__":
    main()
