"""Predictions beside the truth, summed: how right a model is on held-out rows, exactly, in integers, sensitive.

Law: outcomes of two parts of the rows add to those of both, whichever model predicted each. A loss is clipped and
rounded to a public grid row by row, before it is summed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.privacy.checks import Integers, Reals
from dpgraph.privacy.scope import RowGroup
from dpgraph.statistics.moments import Moments
from dpgraph.structure.domain import DomainError
from dpgraph.structure.outcomes import STEPS, Classification, Entries, OutcomeDescription, Regression
from dpgraph.structure.rowwise import added, in_blocks


def classifier_outcomes(
    task: Classification, truth: npt.NDArray[Any], probabilities: Reals, group: RowGroup | None = None
) -> Moments:
    """Sums a classifier's outcomes: codes of the truth and P(class), shape (rows, classes), of a ``group`` of rows."""
    truth, size = truth.astype(np.int64), len(task.classes)
    assert task.largest_loss is not None
    assert task.edges is not None
    if probabilities.shape != (len(truth), size) or not (np.isfinite(probabilities) & (probabilities >= 0)).all():
        raise DomainError(f"the model's probabilities must be numbers, at least 0, one for each of {size} classes")
    probabilities = np.minimum(probabilities, 1.0)  # squares of any floats would be no numbers, which are not clipped
    predicted = probabilities.argmax(axis=1)
    right = predicted == truth
    confidence = probabilities.max(axis=1) if size else np.zeros(len(truth))
    bins = np.searchsorted(np.asarray(task.edges), confidence, side="left")
    of_truth = probabilities[np.arange(len(truth)), truth]
    brier = (added(probabilities.T**2) - 2 * of_truth + 1) / 2
    found = {
        "right": np.bincount(np.where(right, 0, 1), minlength=2),
        "confusion": np.bincount(truth * size + predicted, minlength=size * size),
        "reliability": np.bincount(2 * bins + np.where(right, 0, 1), minlength=2 * len(task.bins)),
        **_with_squares("log-loss", -in_blocks(np.log, of_truth), task.largest_loss),
        **_with_squares("brier", brier),
    }
    width, half = len(task.cuts) + 1, len(task.bins)
    for k, name in enumerate(task.ranked):
        if size == 2:  # the bins of the confidence, so that both tables place a row alike
            own, place = truth, np.where(predicted == 1, half + bins, half - 1 - bins)
        else:
            own, place = truth == k, np.searchsorted(np.asarray(task.cuts), probabilities[:, k], side="left")
        found[name] = np.bincount(own * width + place, minlength=2 * width)
    return _outcomes(task, found, len(truth), group)


def regression_outcomes(task: Regression, truth: Reals, predicted: Reals, group: RowGroup | None = None) -> Moments:
    """Sums the outcomes of a regression; targets and predictions beyond the bounds count as the nearer bound."""
    assert task.largest_error is not None
    if np.isnan(truth).any() or np.isnan(predicted).any() or truth.shape != predicted.shape:
        raise DomainError("the target and its predictions must be numbers, none missing, one for each row")
    error = np.abs(np.clip(truth, task.low, task.high) - np.clip(predicted, task.low, task.high))
    found = {
        "rows": np.array([len(truth)]),
        **_with_squares("squared error", (np.minimum(error, task.largest_error) / task.largest_error) ** 2),
    }
    return _outcomes(task, found, len(truth), group)


def entry_outcomes(task: Entries, log_probability: Reals, group: RowGroup | None = None) -> Moments:
    """Sums the losses of log entries, -ln P(entry) each."""
    assert task.largest_loss is not None
    if np.isnan(log_probability).any():
        raise DomainError("the log probability of an entry must be a number")
    found = {"rows": np.array([len(log_probability)]), **_with_squares("log-loss", -log_probability, task.largest_loss)}
    return _outcomes(task, found, len(log_probability), group)


def _with_squares(name: str, loss: Reals, largest: float = 1.0) -> dict[str, Integers]:
    """The sums of clipped losses and of their squares, in whole steps of the grid; clipped before it is divided."""
    clipped = np.clip(loss, 0.0, largest) / largest
    return {
        name: np.rint(clipped * STEPS).astype(np.int64).sum(keepdims=True),
        f"{name} squared": np.rint(clipped**2 * STEPS).astype(np.int64).sum(keepdims=True),
    }


def _outcomes(
    task: Classification | Regression | Entries, found: dict[str, Integers], rows: int, group: RowGroup | None
) -> Moments:
    description = OutcomeDescription(task)
    sums = np.concatenate([found[block.name] for block in description.parts])
    return Moments(description, sums, rows, group)
