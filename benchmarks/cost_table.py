"""What privacy costs on seven public networks, in closed form and measured on real releases.

The root mean squared error of one cell over all family tables, in rows. The first table sets the closed forms of
``dpgraph cost`` beside the figures the project was given; the second sets them beside the errors of seeded releases of
rows drawn from each network, every mechanism, both neighbour relations. Laplace and Fourier at epsilon 1; Gaussian at
rho 1/2.

    python benchmarks/cost_table.py [--networks asia,sachs,...] [--releases 400]
"""

from __future__ import annotations

import math
import time
from typing import Any

import click
import numpy as np
import pandas as pd
from tqdm import tqdm

import dpgraph as dg
from dpgraph.inference.network.consistency import consistent_variance
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.margins import weights
from dpgraph.structure.tables import NoisyCoefficients

ADD, REPLACE = PrivacyUnit("add-remove"), PrivacyUnit("replace")
RHO: dict[str, Any] = {"delta": "1e-6", "rho": "1/2"}
FORMS = {
    "L paper": (dg.LaplaceMechanism(1, tables="families", allocation="uniform"), "single"),
    "L max": (dg.LaplaceMechanism(1, tables="maximal", allocation="uniform"), "single"),
    "L GLS-opt": (dg.LaplaceMechanism(1, tables="maximal"), "joint"),
    "L merged": (dg.LaplaceMechanism(1), "joint"),
    "Helmert": (dg.FourierMechanism(1, basis="residual"), "joint"),
    "G GLS-opt": (dg.GaussianMechanism(**RHO), "joint"),
    "G residual": (dg.GaussianMechanism(**RHO, basis="residual"), "joint"),
}
GIVEN = {
    "asia": (11.3, 8.94, 6.91, 6.39, 12.1, 2.01, 1.93),
    "sachs": (15.6, 10.5, 8.18, 7.98, 38.8, 2.43, 2.31),
    "alarm": (52.3, 42.3, 29.7, 29.3, 123, 4.39, 4.12),
    "insurance": (38.2, 35.3, 27.2, 25.8, 159, 4.08, 3.95),
    "hepar2": (99.0, 85.2, 47.6, 42.8, 218, 4.88, 4.59),
    "win95pts": (107, 82.6, 44.9, 42.9, 184, 5.43, 4.86),
    "munin": (1472, 1239, 960, math.nan, 7197, 25.6, 23.8),
}
MEASURED = {
    "Laplace, paper": (dg.LaplaceMechanism(1, tables="families", allocation="uniform"), "single"),
    "Laplace, maximal": (dg.LaplaceMechanism(1, tables="maximal"), "joint"),
    "Laplace, independent noise": (dg.LaplaceMechanism(1, tables="maximal", noise="independent"), "joint"),
    "Laplace, merged": (dg.LaplaceMechanism(1), "joint"),
    "Fourier, exact": (dg.FourierMechanism(1), "joint"),
    "Fourier, paper": (dg.FourierMechanism(1, "paper"), "joint"),
    "Fourier, residual": (dg.FourierMechanism(1, basis="residual"), "joint"),
    "Gaussian, tables": (dg.GaussianMechanism(**RHO), "joint"),
    "Gaussian, residual": (dg.GaussianMechanism(**RHO, basis="residual"), "joint"),
}


@click.command()
@click.option("--networks", default=",".join(GIVEN), show_default=True)
@click.option("--releases", default=400, show_default=True, help="Seeded releases of each mechanism; 0 for none.")
def main(networks: str, releases: int) -> None:
    """Prints both tables."""
    rows, clock = [], {}
    for name in networks.split(","):
        network = dg.read_network(f"example:{name}")
        start = time.perf_counter()
        dg.privacy_cost(network, epsilon=1, delta="1e-6", n=10_000, unit=ADD)
        clock[name] = time.perf_counter() - start
        ours = [closed_form(network, *form, ADD) for form in FORMS.values()]
        rows.append({"network": name, "": "ours", **dict(zip(FORMS, ours, strict=True))})
        rows.append({"network": name, "": "given", **dict(zip(FORMS, GIVEN[name], strict=True))})
    print("add-remove, closed forms\n" + pd.DataFrame(rows).to_string(index=False, float_format=lambda v: f"{v:.4g}"))
    print("\nprivacy_cost, seconds: " + ", ".join(f"{name} {spent:.2f}" for name, spent in clock.items()))
    measured = [name for name in ("asia", "sachs", "alarm") if name in networks.split(",") and releases]
    found = [row for name in measured for unit in (ADD, REPLACE) for row in study(name, unit, releases)]
    if found:
        print("\nreal releases beside the closed form\n" + pd.DataFrame(found).round(3).to_string(index=False))


def closed_form(network: dg.Network, mechanism: Any, reading: str, unit: PrivacyUnit) -> float:
    """The expected error: each family read from one table, or after least squares."""
    event = mechanism.event(network, unit)
    laws = {m.table: m.law for m in event.measurements}
    if isinstance(mechanism, dg.FourierMechanism) or getattr(mechanism, "basis", "tables") == "residual":
        variances = mechanism.variance(network, unit)
    elif reading == "joint":
        variances = consistent_variance(network, laws, unit.n_is_public)
    else:
        total = sum(
            laws[table].variance(network.cells(table)) * weight
            for table, weight in zip(laws, weights(network, list(laws)), strict=True)
        )
        return math.sqrt(total / network.cell_count)
    return math.sqrt(sum(variances[f] * network.cells(f) for f in network.families) / network.cell_count)


def study(name: str, unit: PrivacyUnit, releases: int) -> list[dict[str, Any]]:
    """Measured and expected errors of every mechanism on rows drawn from one network."""
    truth = dg.load(f"example:{name}")
    network, noise = truth.network, dg.testing.SeededNoise(0)
    counts = dg.count(dg.sample_rows(truth, 2000, np.random.default_rng(0)), network)
    exact = {v: counts.sensitive_margin(network.family(v)) for v in network.domain.names}
    rows = []
    for label, (mechanism, reading) in tqdm(MEASURED.items(), desc=f"{name}, {unit.neighbours}", disable=None):
        try:
            expected = closed_form(network, mechanism, reading, unit)
        except dg.errors.ReleaseError:  # a design for two-level variables, or for the other relation
            continue
        event, squares = mechanism.event(network, unit), []
        budget = dg.Budget(event.epsilon * releases, event.delta * releases, unit=unit)
        for _ in range(releases):
            released = dg.release(counts, mechanism, budget=budget, noise=noise).value
            tables = read(released, reading)
            squares.append(sum(float(((tables[v] - exact[v]) ** 2).sum()) for v in exact) / network.cell_count)
        mean = float(np.mean(squares))
        spread = float(np.std(squares)) / math.sqrt(releases) / (2 * mean)
        rows.append(
            {
                "network": name,
                "neighbours": unit.neighbours,
                "mechanism": label,
                "expected": expected,
                "measured": math.sqrt(mean),
                "ratio": math.sqrt(mean) / expected,
                "standard error of the ratio": spread,
            }
        )
    return rows


def read(released: Any, reading: str) -> dict[str, Any]:
    """The family tables of a release, before anything is clipped."""
    names = released.network.domain.names
    if isinstance(released, NoisyCoefficients) or reading == "joint":
        tables = dg.reconcile(released)
        return {v: tables.family(v) for v in names}
    return {v: released.tables[released.network.family(v)] for v in names}


if __name__ == "__main__":
    main()
