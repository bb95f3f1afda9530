"""Is the time of chains of records forecast well? Processor seconds of a sweep beside their forecast, without judging.

Rows are drawn from each bundled network and released by the Laplace mechanism, add-remove. One chain sweeps for a few
seconds; the median of its last ten sweeps counts, once step sizes have settled. Larger forecasts than ``--most`` for
700 sweeps are printed alone.

    python benchmarks/forecasts.py [--networks asia,andes] [--rows 1000,5000,100000] [--epsilons .1,1,10] [--seconds 4]
"""

from __future__ import annotations

import time

import click
import numpy as np

import dpgraph as dg
from dpgraph.inference.chains import Plan
from dpgraph.inference.network.by_records import RecordChain
from dpgraph.inference.network.evidence import concentration_tables, evidence
from dpgraph.inference.network.posterior import seconds_of_records
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.queries import sample_codes
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap

ALL = (
    "asia,survey,sachs,child,insurance,water,alarm,hailfinder,win95pts,hepar2,mildew,barley,andes,pathfinder,diabetes,"
    "pigs,munin1,munin2,munin3,munin4,munin,link"
)


@click.command()
@click.option("--networks", default=ALL)
@click.option("--rows", default="1000,5000,100000", show_default=True)
@click.option("--epsilons", default=".1,1,10", show_default=True)
@click.option("--seconds", default=4.0, show_default=True)
@click.option("--most", default=500.0, show_default=True)
def main(networks: str, rows: str, epsilons: str, seconds: float, most: float) -> None:
    """Prints a line for each network, number of rows and epsilon."""
    print("network         n epsilon  forecast s   sweep ms  forecast ms  ratio")
    records = dg.methods.Records(chains=1)
    for name in networks.split(","):
        truth = dg.load(f"example:{name}")
        for n in map(int, rows.split(",")):
            codes = FrozenMap(sample_codes(truth, n, np.random.default_rng(0)))
            counts = dg.count(Codes(truth.network.domain, codes), truth.network)
            for epsilon in epsilons.split(","):
                budget = dg.Budget(epsilon, unit=dg.PrivacyUnit("add-remove"))
                noise = dg.testing.SeededNoise(0)
                noisy = dg.release(counts, dg.LaplaceMechanism(epsilon), budget=budget, noise=noise).value
                given = evidence(noisy)
                whole = seconds_of_records(given, records, 200)
                line = f"{name:11}{n:7}{epsilon:>8}{whole:12.1f}"
                if whole < most:
                    spent = sweeping(RecordChain(
                        (given,), concentration_tables(truth.network, 1.0), Plan(200, 500), records.passes,
                        HierarchicalPrior(), np.random.default_rng(1),
                    ), seconds)  # fmt: skip
                    burning = dg.methods.Records(chains=1, burn_in=0)
                    each = (whole - seconds_of_records(given, burning, 200)) / records.burn_in
                    line += f"{1e3 * spent:11.2f}{1e3 * each:13.2f}{each / spent:7.2f}"
                print(line, flush=True)


def sweeping(chain: RecordChain, seconds: float) -> float:
    """The median processor seconds of the last ten sweeps of so many seconds, at least six and at most 150."""
    taken: list[float] = []
    while len(taken) < 6 or (sum(taken) < seconds and len(taken) < 150):
        start = time.thread_time()
        chain.sweep(len(taken))
        taken.append(time.thread_time() - start)
    return float(np.median(taken[-10:]))


if __name__ == "__main__":
    main()
