"""Which joint tables to measure, from the DAG and the numbers of levels alone.

Merging two tables into one doubles the budget of each but sums more noisy cells into every margin. With Laplace noise
and optimal budgets the total squared error is 2 (sum_m W_m^(1/3))^3 / epsilon^2, where W_m is the cells of table m
times the families read from it (proofs.md P2), so a merge pays exactly when it lowers sum_m W_m^(1/3).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from dpgraph.structure.network import Family, Network


def holders(network: Network, tables: Sequence[Family]) -> dict[Family, Family]:
    """For each family the smallest of the tables that contains it, ties to the first."""
    members = [(frozenset(table), network.cells(table), table) for table in tables]
    by_name: dict[str, list[tuple[frozenset[str], int, Family]]] = {name: [] for name in network.domain.names}
    for entry in members:
        for name in entry[0]:
            by_name[name].append(entry)
    chosen: dict[Family, Family] = {}
    for family in network.families:
        inside = [entry for entry in by_name[family[0]] if entry[0].issuperset(family)]
        chosen[family] = min(inside, key=lambda entry: entry[1])[2]
    return chosen


def weights(network: Network, tables: Sequence[Family]) -> list[int]:
    """W_m for each table: its cells times the number of families read from it, at least one."""
    holder = holders(network, tables)
    served = dict.fromkeys(tables, 0)
    for family in network.families:
        served[holder[family]] += 1
    return [network.cells(table) * max(1, served[table]) for table in tables]


@lru_cache(maxsize=64)
def measured_families(network: Network) -> tuple[Family, ...]:
    """The maximal families, small ones merged where that lowers the noise: what is counted, and measured by default.

    Greedily merges the pair of tables that lowers the total error most, until none does. A merged table has its
    variables in the domain's order. The result depends on nothing but public structure.
    """
    names = network.domain.names
    log_size = np.log([network.domain.sizes[name] for name in names])
    tables = list(network.maximal_families)
    member = np.array([[name in table for name in names] for table in tables], dtype=float)
    log_cells = member @ log_size
    served = np.array(weights(network, tables)) / np.round(np.exp(log_cells))
    cost = np.cbrt(served * np.exp(log_cells))
    gain = _gains(member, log_size, log_cells, served, cost)
    alive = np.ones(len(tables), dtype=bool)
    while True:
        best = int(np.argmax(gain))
        one, two = divmod(best, len(tables))
        if gain[one, two] <= 1e-9:
            break
        member[one] = np.maximum(member[one], member[two])
        log_cells[one], served[one] = member[one] @ log_size, served[one] + served[two]
        cost[one] = np.cbrt(served[one] * np.exp(log_cells[one]))
        tables[one] = tuple(name for name, inside in zip(names, member[one], strict=True) if inside)
        alive[two] = False
        gain[two, :] = gain[:, two] = -np.inf
        row = _gains(member, log_size, log_cells, served, cost, only=one)
        row[~alive] = -np.inf
        gain[one, :] = gain[:, one] = row
        gain[one, one] = -np.inf
    return tuple(table for table, kept in zip(tables, alive, strict=True) if kept)


def _gains(
    member: np.ndarray,
    log_size: np.ndarray,
    log_cells: np.ndarray,
    served: np.ndarray,
    cost: np.ndarray,
    only: int | None = None,
) -> np.ndarray:
    """How much merging lowers sum W^(1/3), for all pairs or for the pairs of one table."""
    rows = slice(None) if only is None else slice(only, only + 1)
    shared = (member[rows] * log_size) @ member.T
    log_joint = log_cells[rows, None] + log_cells[None, :] - shared
    joint = np.cbrt((served[rows, None] + served[None, :]) * np.exp(np.minimum(log_joint, 60.0)))
    gain = cost[rows, None] + cost[None, :] - joint
    if only is not None:
        return gain[0]
    np.fill_diagonal(gain, -np.inf)
    return gain
