"""A simulated event log whose hidden states, transitions and emissions are known.

python datasets/export.py event_log            its rows, to datasets/rows/event_log.parquet
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

REGIONS = ("North", "East", "South", "West", "Centre", "Coast", "Hills", "Plain")
MONTHS = tuple(f"{year}-{month:02d}" for year in (2021, 2022, 2023) for month in range(1, 13))
FIELDS = {
    "kind": ("network", "power", "software", "security", "other"),
    "severity": ("low", "medium", "high"),
    "hours": ("office", "evening", "night"),
    "resolved": ("no", "yes"),
}

#: P(next state | state): calm, busy and crisis months.
TRANSITION = np.array([[0.90, 0.08, 0.02], [0.15, 0.75, 0.10], [0.05, 0.25, 0.70]])

#: P(level | state) of each field, a row for each state.
EMISSIONS = {
    "kind": np.array([[0.30, 0.20, 0.35, 0.05, 0.10], [0.45, 0.30, 0.10, 0.05, 0.10], [0.15, 0.05, 0.20, 0.50, 0.10]]),
    "severity": np.array([[0.70, 0.25, 0.05], [0.35, 0.45, 0.20], [0.15, 0.35, 0.50]]),
    "hours": np.array([[0.75, 0.20, 0.05], [0.50, 0.30, 0.20], [0.35, 0.30, 0.35]]),
    "resolved": np.array([[0.10, 0.90], [0.35, 0.65], [0.60, 0.40]]),
}


@dataclass(frozen=True)
class EventLog:
    """A log and what is behind it: the state of each region and month, shape (regions, months)."""

    rows: pd.DataFrame
    states: npt.NDArray[np.int64]


def simulate(entries: float = 40.0, seed: int = 0, people: int = 4000) -> EventLog:
    """Draws a log: states along each region's chain, a geometric number of entries a cell, fields given the state.

    Args:
        entries: The mean number of entries of a region and month.
        seed: Of everything.
        people: How many reporters there are; each entry names one, in the column ``reporter``.
    """
    rng = np.random.default_rng(seed)
    states = np.empty((len(REGIONS), len(MONTHS)), np.int64)
    states[:, 0] = rng.integers(0, 3, len(REGIONS))
    for t in range(1, len(MONTHS)):
        below = np.cumsum(TRANSITION[states[:, t - 1]], axis=1)
        states[:, t] = (rng.random((len(REGIONS), 1)) > below[:, :-1]).sum(axis=1)
    many = rng.geometric(1 / (1 + entries), states.shape) - 1
    region, month = np.repeat(np.indices(states.shape).reshape(2, -1), many.ravel(), axis=1)
    columns: dict[str, Any] = {"region": np.array(REGIONS)[region], "month": np.array(MONTHS)[month]}
    for name, law in EMISSIONS.items():
        below = np.cumsum(law[states[region, month]], axis=1)
        columns[name] = np.array(FIELDS[name])[(rng.random((len(region), 1)) > below[:, :-1]).sum(axis=1)]
    columns["reporter"] = rng.integers(0, people, len(region))
    rows = pd.DataFrame(columns).sample(frac=1, random_state=seed).reset_index(drop=True)
    return EventLog(rows, states)
