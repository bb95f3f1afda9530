"""A hidden Markov model of an event log: what happens in each region and month, learned from one noisy release."""

from __future__ import annotations

import sys
import warnings
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd

import dpgraph as dg

ROOT = Path(__file__).parents[1]
INCIDENTS = ROOT.parent / "shared/data/iraq_sigacts_monthly.csv"
sys.path.append(str(ROOT / "datasets"))


def simulated() -> None:
    """Fits a log whose states are known, for entries and for whole persons."""
    import event_log

    domain = dg.read_domain("example:event_log")
    log = event_log.simulate(seed=1)
    print(f"{len(log.rows)} simulated incidents, {domain.sizes['region']} regions, {domain.sizes['month']} months.")
    incident, reporter = dg.Budget(5), dg.Budget(5, unit=dg.PrivacyUnit("add-remove", rows_per_person=3))
    whom = {
        "an incident": {"budget": incident},
        "everything of a reporter": {"budget": reporter, "person": "reporter", "rows_per_person": 3},
    }
    for name, settings in whom.items():
        model = dg.PrivateHMM(3, domain, epsilon=5, iterations=100, burn_in=100, **settings).fit(log.rows)
        found = model.predict()["state"].to_numpy().reshape(log.states.shape)
        right = max((np.array(order)[found] == log.states).mean() for order in permutations(range(3)))
        print(f"\nProtecting {name}: {model.privacy_cost_}, {model.release_.unit}")
        print(f"  {right:.0%} of the months are in the state that made them")
    print("\nP(kind | state):")
    print(model.emissions_["kind"].round(2).to_string())
    print("\nThe first months:")
    print(model.predict().head(4).round(2).to_string(index=False))


def incidents() -> None:
    """Fits public incident records, where they are there, with a tenth of the cells held out."""
    if not INCIDENTS.exists():
        print(f"\nNo {INCIDENTS.name} beside the repository; the real log is left out.")
        return
    log = pd.read_csv(INCIDENTS)
    domain = dg.Domain.of({name: sorted(log[name].unique().tolist()) for name in log.columns})  # public records
    cells = pd.DataFrame([(c, m) for c in domain.levels("city") for m in domain.levels("month")])
    held = cells.set_axis(["city", "month"], axis=1)[np.random.default_rng(0).random(len(cells)) < 0.1]
    print(f"\n{len(log)} public incident records, {domain.sizes['city']} cities, {domain.sizes['month']} months.")
    budget = dg.Budget(2)  # both fits read the same records
    for inference in ("noise-aware", "plug-in"):
        settings = {"inference": inference, "budget": budget, "iterations": 100, "burn_in": 100}
        model = dg.PrivateHMM(3, domain, 1, "city", "month", **settings)
        model.fit(log, held_out=held)
        # Events held out are private as any others; those of cells, which are public, that the fit did not read.
        score = dg.evaluate(model, log.merge(held), epsilon=1, budget=dg.Budget(1))["nats an entry"]
        print(f"  {inference:12} epsilon 1: {score.estimate:.3f} nats an event in the cells held out, "
              f"{score.low:.3f} to {score.high:.3f}, released at epsilon 1")  # fmt: skip


def main() -> None:
    """Both logs."""
    warnings.simplefilter("ignore", dg.errors.ConvergenceWarning)  # a hundred sweeps are for show
    simulated()
    incidents()
    print("Shown: states, transitions and emissions from one release; treating noisy cells as true misleads.")


if __name__ == "__main__":
    main()
