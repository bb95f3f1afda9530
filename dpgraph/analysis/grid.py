"""The cost of privacy at other budgets and numbers of rows than those of a report; no data."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpgraph.analysis.choice import Candidate, draw_variances, ranked, recommended
from dpgraph.analysis.cost import PrivacyReport, distinct_tables, expected_counts, family_rows, mechanism_rows
from dpgraph.analysis.expected import expected_kl, expected_variation
from dpgraph.privacy.records import exact

#: The budgets and the numbers of rows of a grid; beyond ``MANY_VARIABLES`` it has few budgets, and powers of ten alone.
BUDGETS = ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10")
ROWS = tuple(lead * 10**power for power in range(2, 8) for lead in (1, 3))
FEW_BUDGETS, MANY_VARIABLES = ("0.1", "1", "10"), 300

#: What a grid says of each family at one epsilon, in this order; ``tv`` and ``kl`` depend on n too.
COLUMNS = ("measured in", "sensitivity", "epsilon", "scale", "rmse", "n needed")


def cost_grid(report: PrivacyReport, n: int) -> dict[str, Any]:
    """The comparison of mechanisms, and each family under the best one, at every epsilon and n of a grid.

    The report's epsilon and ``n`` are on the grid, at ``start``. Each of the ``budgets`` has the recommendation in
    Python, the mechanisms (``rmse`` for each n), the ``COLUMNS`` of families, and their ``tv`` and ``kl`` for each n.

    >>> from dpgraph.analysis.cost import privacy_cost
    >>> from dpgraph.files.networks import read_network
    >>> grid = cost_grid(privacy_cost(read_network("example:asia"), epsilon=1), 700)
    >>> len(grid["budgets"]), grid["rows"][:3]
    (10, [100, 300, 700])
    """
    coarse = len(report.network.families) > MANY_VARIABLES
    epsilons = sorted({report.epsilon, *map(exact, FEW_BUDGETS if coarse else BUDGETS)})
    rows = sorted({n, *(one for one in ROWS if not coarse or str(one).startswith("1"))})
    return {
        "epsilons": [float(epsilon) for epsilon in epsilons],
        "rows": rows,
        "start": [epsilons.index(report.epsilon), rows.index(n)],
        "budgets": [_priced(report, epsilon, rows) for epsilon in epsilons],
    }


def _priced(report: PrivacyReport, epsilon: Fraction, rows: list[int]) -> dict[str, Any]:
    """One budget: its mechanisms and families, for each number of rows where they depend on it."""
    shares = report.shares
    priced = ranked(report.network, epsilon, report.delta, report.unit, expected_counts(shares, rows[0]))
    best = recommended(priced)
    families = family_rows(report.network, best, None, shares)
    rmse = {family: row["rmse"] for family, row in zip(report.network.families, families, strict=True)}
    place = {(id(share), error): at for at, (share, error) in enumerate(distinct_tables(shares, rmse))}
    places = np.array([place[id(shares[family]), error] for family, error in rmse.items()])
    tv, kl = (
        np.array([[measure(n * share, error) for n in rows] for share, error in distinct_tables(shares, rmse)]).T
        for measure in (expected_variation, expected_kl)
    )
    return {
        "typed": f"dg.{best.mechanism!r}",
        "mechanisms": [
            row | {"best": one is best, "paper": one.paper, "rmse": _errors(one, epsilon, report, rows)}
            for one, row in zip(priced, mechanism_rows(priced), strict=True)
        ],
        "families": [[row[name] for name in COLUMNS] for row in families],
        "tv": (tv / np.array(rows)[:, None])[:, places].tolist(),
        "kl": kl[:, places].tolist(),
    }


def _errors(one: Candidate, epsilon: Fraction, report: PrivacyReport, rows: list[int]) -> list[float]:
    """The error of a mechanism's cells at each number of rows, on which the error of drawn tables depends."""
    if one.usable:
        return [one.rmse] * len(rows)
    temperature = one.sensitivity / float(epsilon)
    counts = [expected_counts(report.shares, n) or {} for n in rows]
    return [replace(one, variances=draw_variances(supposed, temperature)).rmse for supposed in counts]
