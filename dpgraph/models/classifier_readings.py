"""Confusion and reliability tables of a classifier, from a release of its outcomes."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.inference.counts.noisy_counts import latent_count, lattice, share_draws
from dpgraph.inference.simplex import onto_simplex
from dpgraph.models.outcome_readings import (
    Score,
    evidence,
    likely_row_numbers,
    score_of_draws,
    share_score,
    surprise,
)
from dpgraph.structure.domain import Level
from dpgraph.structure.outcomes import Classification, NoisyOutcomes


def commonest_label(noisy: NoisyOutcomes, task: Classification, interval: float) -> tuple[Level, Score]:
    """The label with the largest noisy number of rows, and its share, from that number and from the others'."""
    size, cells = len(task.classes), noisy.block("confusion")
    assert cells is not None
    rows = cells.reshape(size, size).sum(axis=1)
    most = int(rows.argmax())
    within = evidence(noisy, rows[most], ("confusion", size))
    without = evidence(noisy, rows.sum() - rows[most], ("confusion", size * (size - 1)))
    return task.classes[most], share_score(noisy, [within], [without], interval, (1, size - 1))


def confusion_rows(noisy: NoisyOutcomes, task: Classification, interval: float) -> list[dict[str, Any]]:
    """The share of each cell, from its own noisy count and from what the right or wrong rows leave it.

    The estimates are moved to the nearest shares, which sum to 1: no further from the true ones, whatever these are.
    An interval reaches as far as its estimate, where that leaves it.
    """
    size, points = len(task.classes), lattice(3)
    cells = noisy.block("confusion")
    assert cells is not None
    table, diagonal = cells.reshape(size, size), np.eye(size, dtype=bool)
    rows = likely_row_numbers(noisy)
    many = np.quantile(rows, points[:, 1])
    found = []
    for truth, predicted in np.ndindex(size, size):
        alike = diagonal if truth == predicted else ~diagonal
        mine = float(table[truth, predicted])
        others = float(table[alike].sum()) - mine
        own = evidence(noisy, mine, ("confusion", 1))
        total = _direct(noisy, right=truth == predicted)
        left = evidence(noisy, total - others, ("right", 1), ("confusion", int(alike.sum()) - 1))
        count = latent_count([own, left], noisy.n)
        part = np.minimum(count.at(points[:, 0]), many)
        none = count.allows([own, left], 0.0, surprise(interval))
        draws = share_draws(part, many - part, points[:, 2])
        noise = (own.deviation**-2 + left.deviation**-2) ** -0.5 / float(np.median(rows))
        score = score_of_draws(draws, interval, none, False, noise)
        names = {"truth": task.classes[truth], "prediction": task.classes[predicted]}
        found.append(names | dict(zip(("estimate", "low", "high"), score[:3], strict=True)))
    for row, share in zip(found, onto_simplex(np.array([row["estimate"] for row in found])).tolist(), strict=True):
        row |= {"estimate": share, "low": min(row["low"], share), "high": max(row["high"], share)}
    return found


def _direct(noisy: NoisyOutcomes, *, right: bool) -> float:
    """The noisy number of right or wrong predictions from the block of its own."""
    counted = noisy.block("right")
    assert counted is not None
    if right:
        return float(counted[0])
    return float(counted[1]) if noisy.n is None else noisy.n - float(counted[0])


def reliability_rows(noisy: NoisyOutcomes, task: Classification, interval: float) -> list[dict[str, Any]]:
    """The share of right predictions in each bin of the confidence.

    The numbers of rows in the bins are moved to the nearest that sum to that of all rows, or to its estimate.
    """
    cells, points = noisy.block("reliability"), lattice(3)
    assert cells is not None
    found = []
    for k, (low, high) in enumerate(task.bins):
        # Of one bin alone the wrong ones are the rest of a public n, and not released.
        values = (cells[0], (noisy.n or 0) - cells[0]) if len(cells) == 1 else cells[2 * k : 2 * k + 2]
        right, wrong = ([evidence(noisy, value, ("reliability", 1))] for value in values)
        counts = latent_count(right), latent_count(wrong)
        draws = share_draws(counts[0].at(points[:, 0]), counts[1].at(points[:, 1]), points[:, 2])
        none = counts[0].allows(right, 0.0, surprise(interval))
        every = counts[1].allows(wrong, 0.0, surprise(interval))
        score = score_of_draws(draws, interval, none, every, 0.0)
        rows = float(sum(count.nodes @ count.weights for count in counts))
        edges = {"confidence_low": low, "confidence_high": high, "rows": rows}
        found.append(edges | {"right": score.estimate, "low": score.low, "high": score.high})
    total = float(np.median(likely_row_numbers(noisy)))
    for row, rows in zip(found, onto_simplex(np.array([row["rows"] for row in found]), total).tolist(), strict=True):
        row["rows"] = rows
    return found
