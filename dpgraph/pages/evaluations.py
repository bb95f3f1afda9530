"""Pages of evaluations and cross-validations: how good a model, or a way to fit one, is on rows it did not see."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.models.evaluation import CrossValidation, Evaluation
from dpgraph.pages.blocks import Intervals, Page, Section, Table, Words
from dpgraph.pages.contents import facts_of, measurements, page_of, protection
from dpgraph.pages.words import cost, number
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Event


@page_of.register
def _of_evaluation(value: Evaluation) -> Page:
    record = value.release.provenance
    sections = [protection(record), *_scores(value), measurements(record)]
    return Page("Evaluation of a model on held-out rows", str(record), sections)


@page_of.register
def _of_cross_validation(value: CrossValidation) -> Page:
    record = value.evaluation.release.provenance
    fit = Event("one fit", value.training_epsilon, value.training_delta)
    share = f"{value.folds - 1} of {value.folds} parts of the rows"
    about = Words(
        [
            f"Each of {value.folds} models was fitted on {share}, at {cost(fit)}, and predicted the rows of the other "
            "part; the predictions for all rows were judged together and released once. No model was released.",
            f"The scores are about fits at {cost(fit)} on that many rows. A fit at a larger epsilon on all rows is "
            "likely to do better, one at a smaller epsilon worse.",
        ],
        "advice",
    )
    rows = [[at, part.mechanism, float(part.epsilon), float(part.delta)] for at, part in enumerate(value.parts, 1)]
    note = (
        "The parts one by one. One person's rows are in the training sets of some of the fits only, so the whole costs "
        "less than their sum, or as much."
    )
    paid = Section("What was paid for", [Table(["part", "what", "epsilon", "delta"], rows, note)])
    how = Section("How it was judged", [about, facts_of({"folds": value.folds, "fits at epsilon": float(fit.epsilon)})])
    sections = [protection(record), how, *_scores(value.evaluation), paid]
    return Page("Cross-validation of a private estimator", str(record), [*sections, measurements(record)])


def _scores(value: Evaluation) -> list[Section]:
    rows = [[str(row[0]), *map(float, row[1:])] for row in value.to_frame().itertuples(index=False)]
    blocks: list[Any] = []
    bounded = [row for row in rows if row[0] == "accuracy"]
    if bounded:
        parts: list[list[float]] = [[row[at] for row in bounded] for at in (1, 2, 3)]
        axis = f"share of held-out rows, with a {value.interval:.0%} interval"
        blocks.append(Intervals([row[0] for row in bounded], *parts, axis=axis, bounds=(0.0, 1.0)))
    note = (
        f"{value.interval:.0%} intervals hold the population's score: the noise and the luck of the held-out rows are "
        "both in them. noise sd: what the noise alone does to the estimate."
    )
    blocks.append(Table(["score", "estimate", "low", "high", "noise sd"], rows, note))
    sections = [Section("Scores", blocks)]
    for title, name in (("Truth and prediction", "confusion"), ("Are stated probabilities right?", "reliability")):
        try:
            frame = getattr(value, name)
        except InferenceError:
            continue
        cells = [
            [float(part) if isinstance(part, float | np.floating) else str(part) for part in row]
            for row in frame.itertuples(index=False)
        ]
        drawn = [_bins(value)] if name == "reliability" else []
        sections.append(Section(title, [*drawn, Table([str(one).replace("_", " ") for one in frame.columns], cells)]))
    return sections


def _bins(value: Evaluation) -> Intervals:
    """The share of right predictions in each bin of confidence; a calibrated model's dots lie within the names."""
    frame = value.reliability
    names = [
        f"stated {number(low)} to {number(high)}"
        for low, high in zip(frame["confidence_low"], frame["confidence_high"], strict=True)
    ]
    parts = [frame[name].astype(float).tolist() for name in ("right", "low", "high")]
    axis = f"share that is right, with {value.interval:.0%} intervals; calibrated: stated and observed rates agree"
    return Intervals(names, *parts, axis=axis, bounds=(0.0, 1.0))
