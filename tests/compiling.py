"""Compiles the loops of the package on tiny problems, so that what numba keeps on disk is there for every worker.

``tests/conftest.py`` runs it in a process of its own while the workers collect their tests. Where all is there already
it takes the seconds of its imports. At its end it makes the file that its argument names.
"""

import sys
import warnings
from itertools import product
from pathlib import Path

import pandas as pd

import dpgraph as dg


def main() -> None:
    """Draws from each kind of posterior that has compiled loops; one chain and several are two types to numba."""
    warnings.simplefilter("ignore")
    rows = pd.DataFrame({"region": [0, 1, 1, 0], "month": [0, 1, 0, 1], "kind": [0, 1, 1, 1]})
    domain = dg.Domain.of({name: [0, 1] for name in rows})
    counts = dg.count(rows, dg.Network.of(domain, {"kind": ["month"]}))
    noise, budget = dg.testing.SeededNoise(0), dg.Budget(5)
    release = dg.release(counts, dg.LaplaceMechanism(1), budget=budget, noise=noise)
    sums = dg.release(counts, dg.FourierMechanism(4), budget=budget, noise=noise)
    dg.posterior(release, method=dg.methods.Records(chains=1, burn_in=2), draws=2, seed=0)
    dg.posterior(release, method="normal", draws=2, seed=0)
    dg.posterior(release + sums, method="normal", draws=2, seed=0)
    few = {"noise": dg.testing.SeededNoise(0), "random_state": 0}
    dg.PrivateNaiveBayes(domain, epsilon=0.5, **few).fit(rows[["region", "month"]], rows["kind"])
    numbers = pd.DataFrame({"size": [1.0, 2.0, 3.0, 4.0], "pay": [1.0, 2.0, 2.0, 3.0]})
    dg.PrivateLinearRegression({"size": (0, 5)}, (0, 5), epsilon=5, draws=16, **few).fit(
        numbers[["size"]], numbers["pay"]
    )
    for sampler, inference, chains in product(("blocked", "collapsed"), ("noise-aware", "plug-in"), (1, 2)):
        settings = {"sampler": sampler, "inference": inference, "chains": chains, "noise": dg.testing.SeededNoise(0)}
        fitted = dg.PrivateHMM(2, domain, 1, iterations=2, burn_in=2, **settings).fit(rows)
        if sampler == "blocked":
            fitted.baselines()
        if inference == "noise-aware" and chains == 2:
            settings |= {"sequence_effects": True}
            dg.PrivateHMM(2, domain, 1, iterations=2, burn_in=2, **settings).fit(rows)


if __name__ == "__main__":
    try:
        main()
    finally:
        for path in sys.argv[1:]:
            Path(path).touch()
