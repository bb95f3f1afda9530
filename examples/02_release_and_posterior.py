"""From rows to a private posterior: count, charge a budget, release once, and then learn for free."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np

import dpgraph as dg

sys.path.append(str(Path(__file__).parents[1] / "datasets"))
import export

NETWORK = dg.read_network(export.HERE / "affairs.toml")


def main() -> None:
    """Releases the affairs survey once and learns from the release."""
    with tempfile.TemporaryDirectory() as folder:
        counts = dg.count(export.write("affairs", folder), NETWORK)
    print(f"Counted every family of {NETWORK} from a Parquet file.")
    print(f"Counts are sensitive and show no numbers: {counts}")

    budget = dg.Budget("1.5", unit=dg.PrivacyUnit("replace", rows_per_person=1))
    mechanism = dg.LaplaceMechanism(epsilon=1)
    planned = mechanism.event(NETWORK, budget.unit).measurements
    print(f"\nThe mechanism says beforehand what it would do: add noise to {len(planned)} tables.")
    noisy = dg.release(counts, mechanism, budget=budget)
    print(f"Released at {dg.cost(noisy)}. The budget now: {budget}")

    # The affairs table has many sparse cells: a prior of 1 in each would pull every probability towards one half.
    posterior = dg.posterior(noisy, prior=0.1, method="plug-in")
    learned = posterior.mean()
    print("\nFrom here on everything comes from the release alone, at no cost. P(affairs = yes | rate_marriage):")
    for rating in NETWORK.domain.levels("rate_marriage"):
        print(f"  {rating:>9}  {dg.query(learned, {'affairs': 'yes'}, {'rate_marriage': rating}).mean[0]:.3f}")

    rng = np.random.default_rng(1)
    print(dg.query(posterior, {"affairs": "yes"}, {"rate_marriage": "poor"}))
    print("This posterior takes the noisy counts as exact, so the interval is that of sampling, without the noise.")

    synthetic = dg.sample_rows(learned, 5, rng)
    print("\nFive synthetic respondents, drawn from the released model:")
    print(synthetic[["affairs", "rate_marriage", "age", "yrs_married", "religious"]].to_string(index=False))

    print("\nA second release at epsilon 1 does not fit what is left, and is refused before any noise is drawn:")
    try:
        dg.release(counts, mechanism, budget=budget)
    except dg.errors.BudgetExceededError as error:
        print(f"  BudgetExceededError: {error}")
    print(f"Shown: one release, many answers. Events charged: {len(budget.events)}.")


if __name__ == "__main__":
    main()
