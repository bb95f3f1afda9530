"""What privacy costs on a graph, before any data: every number here follows from the DAG, the levels and the unit."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

import dpgraph as dg

AFFAIRS = dg.read_network(Path(__file__).parents[1] / "datasets" / "affairs.toml")
RESPONDENTS = 6366

UNITS = {
    "one respondent joins or leaves": dg.PrivacyUnit("add-remove"),
    "one respondent answers differently": dg.PrivacyUnit("replace"),
    "the same, with five rows each": dg.PrivacyUnit("replace", rows_per_person=5),
}


def show(frame: pd.DataFrame) -> None:
    """Prints a table to three significant digits."""
    print(frame.to_string(index=False, float_format="{:.3g}".format), end="\n\n")


def mean_tv(epsilon: str, unit: dg.PrivacyUnit) -> float:
    """The expected total variation error, averaged over the families."""
    return dg.privacy_cost(AFFAIRS, epsilon=epsilon, n=RESPONDENTS, unit=unit).nodes["tv"].mean()


def main() -> None:
    """Prices the affairs survey and the asia network."""
    report = dg.privacy_cost(AFFAIRS, epsilon=1, n=RESPONDENTS)
    print(f"The affairs survey, {AFFAIRS}. Three designs at epsilon 1, protecting one respondent's answers:")
    show(report.mechanisms[["mechanism", "tables", "sensitivity", "rmse"]])
    print("rmse is the standard error of a cell, in respondents: fewer tables and a better split of epsilon lower it.")
    print("By family, under the default design; tv is the expected error of the family's distribution, at most:")
    show(report.nodes[["variable", "parents", "cells", "scale", "rmse", "tv"]])

    print("Whom the promise protects changes the price. The mean of tv, by epsilon; near 1 the noise drowns the data:")
    rows = [{"unit": words, **{e: mean_tv(e, unit) for e in ("0.1", "1", "5")}} for words, unit in UNITS.items()]
    show(pd.DataFrame(rows))
    print("Ten times the epsilon costs a tenth, and five rows to a person cost five times as much as one.")

    asia = dg.read_network("example:asia")
    print(f"\nThe asia network, {asia}, at epsilon 1, with patients who may join or leave:")
    small = dg.privacy_cost(asia, epsilon=1, unit=dg.PrivacyUnit("add-remove"))
    show(small.mechanisms[["mechanism", "tables", "sensitivity", "rmse"]])
    print("The default merges small families into fewer tables, so that each gets more of epsilon.")
    print("Shown: the cost of privacy on two graphs, with no data read and nothing spent.")


if __name__ == "__main__":
    main()
