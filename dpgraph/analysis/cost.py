"""What privacy costs on a graph, in closed form, before any row is read.

Everything here is a function of the DAG, the numbers of levels and the privacy parameters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpgraph.inference.consistency import consistent_variance
from dpgraph.mechanisms.laplace import LaplaceMechanism
from dpgraph.mechanisms.sensitivity import l1_sensitivity
from dpgraph.privacy.records import Number, PrivacyUnit, ReleaseError, exact
from dpgraph.structure.network import Network

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PrivacyReport:
    """The cost of one network under one budget.

    ``nodes`` has a row for each family: its cells, and under the default mechanism the table it is read from, that
    table's sensitivity, epsilon and noise scale, the standard error of one cell after ``consistent`` (``rmse``, in
    rows), and, where n was given, the expected total variation error of the family's margin (``tv``, an upper
    estimate: negative cells are not yet mended). ``mechanisms`` compares whole mechanisms, best first.
    """

    network: Network
    unit: PrivacyUnit
    nodes: pd.DataFrame
    mechanisms: pd.DataFrame


def privacy_cost(
    network: Network, *, epsilon: Number, n: int | None = None, unit: PrivacyUnit | None = None
) -> PrivacyReport:
    """Prices a network before any data: sensitivities, noise scales and expected errors.

    Args:
        network: The DAG over its declared domain.
        epsilon: The budget to price.
        n: A public or supposed number of rows, for errors relative to it.
        unit: Whom to protect; one replaced row by default.

    Raises:
        ReleaseError: If epsilon is not a finite number above 0, or n is not a whole number above 0.

    >>> from dpgraph.files.networks import read_network
    >>> report = privacy_cost(read_network("example:asia"), epsilon=1, unit=PrivacyUnit("add-remove"))
    >>> [round(rmse, 1) for rmse in report.mechanisms["rmse"]]
    [6.4, 6.9, 11.3]
    """
    import pandas as pd

    budget, protected = exact(epsilon), unit or PrivacyUnit()
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        raise ReleaseError(f"n must be a whole number, at least 1; got {n!r}")
    rows = [_mechanism_row(network, mechanism, label, protected) for label, mechanism in _candidates(budget)]
    mechanisms = pd.DataFrame(rows).sort_values("rmse", ignore_index=True, kind="stable")
    nodes = pd.DataFrame(_node_rows(network, LaplaceMechanism(budget), n, protected))
    return PrivacyReport(network, protected, nodes, mechanisms)


def _candidates(epsilon: Number) -> list[tuple[str, LaplaceMechanism]]:
    """The designs worth comparing, from the paper's to the default."""
    return [
        ("Zhang et al. 2016, Algorithm 1", LaplaceMechanism(epsilon, tables="families", allocation="uniform")),
        ("maximal tables, least squares", LaplaceMechanism(epsilon, tables="maximal")),
        ("merged tables, least squares (default)", LaplaceMechanism(epsilon)),
    ]


def _mechanism_row(network: Network, mechanism: LaplaceMechanism, label: str, unit: PrivacyUnit) -> dict[str, object]:
    """A mechanism's sensitivity, scales, and root mean squared error over all family cells."""
    measured = mechanism.event(network, unit).measurements
    if mechanism.tables == "families":
        variances = {m.table: m.law.variance(m.cells) for m in measured}
    else:
        variances = consistent_variance(network, {m.table: m.law for m in measured}, unit.n_is_public)
    total = sum(variances[family] * network.cells(family) for family in network.families)
    scales = [m.law.scale for m in measured]
    return {
        "mechanism": label,
        "tables": len(measured),
        "cells": sum(m.cells for m in measured),
        "sensitivity": l1_sensitivity(network, [m.table for m in measured], unit),
        "lowest scale": min(scales),
        "highest scale": max(scales),
        "rmse": math.sqrt(total / network.cell_count),
    }


def _node_rows(
    network: Network, mechanism: LaplaceMechanism, n: int | None, unit: PrivacyUnit
) -> list[dict[str, object]]:
    """One row for each family under one mechanism."""
    from dpgraph.structure.merging import holders

    measured = {m.table: m for m in mechanism.event(network, unit).measurements}
    held = holders(network, list(measured))
    variances = consistent_variance(network, {table: m.law for table, m in measured.items()}, unit.n_is_public)
    rows: list[dict[str, object]] = []
    for family in network.families:
        table = measured[held[family]]
        rmse, cells = math.sqrt(variances[family]), network.cells(family)
        row: dict[str, object] = {
            "variable": family[0],
            "parents": ", ".join(family[1:]),
            "cells": cells,
            "measured in": " x ".join(table.table),
            "sensitivity": table.sensitivity,
            "epsilon": table.sensitivity / table.law.scale,
            "scale": table.law.scale,
            "rmse": rmse,
        }
        if n is not None:
            row["tv"] = min(1.0, 0.5 * cells * rmse * math.sqrt(2 / math.pi) / n)
        rows.append(row)
    return rows
