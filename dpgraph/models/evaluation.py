"""The evaluation of a model, and its cross-validation, from a release: scores with intervals for noise and sampling.

Everything here is read off the released integers and public settings. An interval is for the score in the population
that the held-out rows are a sample of, rows drawn independently: the noise and the luck of the rows are both in it.
Where a person holds several rows, how alike these are is not known, and the luck of persons is not in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpgraph.inference.arguments import check_probability
from dpgraph.inference.counts.noisy_counts import (
    Evidence,
    allows_zero,
    latent_count,
    lattice,
    mean_law,
    share_draws,
)
from dpgraph.inference.simplex import onto_simplex
from dpgraph.privacy.checks import near
from dpgraph.privacy.display import as_html
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, Release
from dpgraph.structure.domain import Level
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.outcomes import Classification, Entries, NoisyOutcomes, Regression
from dpgraph.structure.tables import Reals

if TYPE_CHECKING:
    import pandas as pd


#: Numbers of rows that stand for a private n, each the mean of an equally likely slice, and points of a slice.
ROWS, SLICES = 15, 50


class Score(NamedTuple):
    """An estimate, its interval, and the standard deviation that the noise alone gives it."""

    estimate: float
    low: float
    high: float
    noise_sd: float


@dataclass(frozen=True, eq=False)
class Evaluation:
    """A model's scores on held-out rows, from one release.

    Args:
        release: The noisy outcomes, with their event and unit; ``cost`` prices it, ``save`` writes it.
        interval: The probability with which each interval is to hold the population's score.

    Raises:
        InferenceError: If it is no release of outcomes, or the probability is not between 0 and 1.
    """

    release: Release[NoisyOutcomes]
    interval: float = 0.9

    def __post_init__(self) -> None:
        if not isinstance(self.release, Release) or not isinstance(self.release.value, NoisyOutcomes):
            raise InferenceError("an evaluation is read off a release of outcomes, such as evaluate(...).release")
        object.__setattr__(self, "interval", check_probability("interval", self.interval))

    @cached_property
    def scores(self) -> FrozenMap[str, Score]:
        """Each score by its name: estimate, low, high, and the standard deviation of the noise in it."""
        return FrozenMap(all_scores(self.release.value, self.interval))

    def __getitem__(self, name: str) -> Score:
        """One score by its name."""
        if name not in self.scores:
            hint = near(name, self.scores)
            raise InferenceError(f"no score {name!r} was released{hint}; there are {', '.join(self.scores)}")
        return self.scores[name]

    def to_frame(self) -> pd.DataFrame:
        """The scores: score, estimate, low, high, noise_sd."""
        import pandas as pd

        rows = [(name, *score) for name, score in self.scores.items()]
        return pd.DataFrame(rows, columns=["score", "estimate", "low", "high", "noise_sd"])

    @cached_property
    def confusion(self) -> pd.DataFrame:
        """The share of the rows of each truth and prediction: truth, prediction, estimate, low, high.

        The estimates sum to 1.

        Raises:
            InferenceError: If it was not released.
        """
        import pandas as pd

        return pd.DataFrame(confusion_rows(*self._block("confusion"), self.interval))

    @cached_property
    def commonest(self) -> tuple[Any, Score]:
        """The label that most rows seem to have and their share, with its interval: the accuracy of always giving it.

        Where the interval is wide, the noise may have made another label the commonest.

        Raises:
            InferenceError: If no confusion table was released.
        """
        return commonest_label(*self._block("confusion"), self.interval)

    @cached_property
    def reliability(self) -> pd.DataFrame:
        """How often predictions of a confidence are right: confidence_low, confidence_high, rows, right, low, high.

        Each bin holds the confidences in the predicted class above its lower edge up to its upper one; their mean lies
        between the two. ``rows`` is the estimated number of rows in the bin, ``right`` the share of right ones; the
        numbers of rows sum to the public number of all, or to its estimate.

        Raises:
            InferenceError: If it was not released.
        """
        import pandas as pd

        return pd.DataFrame(reliability_rows(*self._block("reliability"), self.interval))

    def _block(self, name: str) -> tuple[NoisyOutcomes, Classification]:
        task = self.release.value.description.task
        if not isinstance(task, Classification) or name not in task.scores:
            raise InferenceError(f"no {name} table was released")
        return self.release.value, task

    def __repr__(self) -> str:
        name, (estimate, low, high, _) = next(iter(self.scores.items()))
        event, note = self.release.event, "" if self.release.private else "; NOT PRIVATE: the noise was seeded"
        return (
            f"Evaluation({name} {estimate:.4g} ({low:.4g} to {high:.4g}), {PrivacyCost(event.epsilon, event.delta)}, "
            f"protecting {self.release.unit}{note})"
        )

    def _repr_html_(self) -> str:
        return as_html(
            "Evaluation", _rows(self.to_frame()), [f"{self.interval:.0%} intervals", self.release.provenance]
        )


@dataclass(frozen=True)
class CrossValidation:
    """The released score of fits at one epsilon, on rows that each fit did not see.

    Attributes:
        evaluation: The ``Evaluation`` of all held-out rows together. The score is about fits at ``training_epsilon``
            on (k - 1) / k of the rows, not about a fit at another epsilon.
        folds: The number of folds k.
        training_epsilon: The epsilon of each fit.
        training_delta: Its delta.
        parts: The events of the k fits, then that of the evaluation, as they were priced one by one. The record of
            ``evaluation.release`` is of the whole call: ``cost``, ``unit`` and ``private`` are read off it.
    """

    evaluation: Evaluation
    folds: int
    training_epsilon: Fraction
    training_delta: Fraction
    parts: tuple[Event, ...]

    @property
    def cost(self) -> PrivacyCost:
        """The charge of the whole call."""
        return PrivacyCost(self.evaluation.release.event.epsilon, self.evaluation.release.event.delta)

    @property
    def unit(self) -> PrivacyUnit:
        """Whom the promise protects."""
        return self.evaluation.release.unit

    @property
    def private(self) -> bool:
        """True if all noise was private."""
        return self.evaluation.release.private

    def to_frame(self) -> pd.DataFrame:
        """The evaluation's table."""
        return self.evaluation.to_frame()

    def _in_words(self) -> tuple[str, str]:
        note = "" if self.private else "; NOT PRIVATE: the noise was seeded"
        fit = PrivacyCost(self.training_epsilon, self.training_delta)
        return f"{self.cost} for everything, protecting {self.unit}{note}", f"each fit at {fit}"

    def __repr__(self) -> str:
        whole, fit = self._in_words()
        return f"CrossValidation: {self.folds} folds, {whole}\n{fit}, on the rows of the other folds\n{self.evaluation}"

    def _repr_html_(self) -> str:
        whole, fit = self._in_words()
        words = f"{self.folds} folds, {fit}, {self.evaluation.interval:.0%} intervals"
        return as_html("Cross-validation", _rows(self.to_frame()), [words, whole])


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def all_scores(noisy: NoisyOutcomes, interval: float) -> Iterator[tuple[str, Score]]:
    """The scores of a release, the headline first."""
    match noisy.description.task:
        case Classification() as task:
            yield "accuracy", share_score(noisy, *right_and_wrong(noisy, task), interval)
            if "log_loss" in task.scores:
                yield "log-loss", _scaled(_mean(noisy, "log-loss", interval), task.largest_loss or 0.0)
            if "brier" in task.scores:
                yield "Brier score", _scaled(_mean(noisy, "brier", interval), 2.0)
        case Regression() as task:
            squared = _scaled(_mean(noisy, "squared error", interval), (task.largest_error or 0.0) ** 2)
            yield "mean squared error", squared
            yield "root mean squared error", _root(squared)
        case Entries() as task:
            loss = _scaled(_mean(noisy, "log-loss", interval), task.largest_loss or 0.0)
            yield "nats an entry", Score(-loss.estimate, -loss.high, -loss.low, loss.noise_sd)


def surprise(interval: float) -> float:
    """How many nats below the best a boundary value may be and still belong to an interval.

    One-sided: a Laplace noise exceeds b ln(1 / (1 - interval)) on one side with half the probability left out.
    """
    return -math.log(1 - interval)


def evidence(noisy: NoisyOutcomes, value: float, *blocks: tuple[str, int]) -> Evidence:
    """A noisy value and the noises in it: so many cells of each block."""
    scales = tuple(scale for name, times in blocks for scale in (noisy.scale(name),) * times)
    return Evidence(float(value), scales, noisy.law.gaussian)


def _cells(noisy: NoisyOutcomes, name: str) -> Reals:
    cells = noisy.block(name)
    assert cells is not None
    return cells


def likely_row_numbers(noisy: NoisyOutcomes) -> Reals:
    """The number of rows where it is public, else equally likely values of it, from all noisy totals."""
    if noisy.n is not None:
        return np.array([float(noisy.n)])
    found = []
    for block in noisy.description.parts:
        cells = noisy.block(block.name)
        if block.counts and cells is not None:
            found.append(evidence(noisy, cells.sum(), (block.name, block.cells)))
    fine = latent_count(found).at((np.arange(ROWS * SLICES) + 0.5) / (ROWS * SLICES))
    return np.maximum(fine.reshape(ROWS, SLICES).mean(axis=1), 1.0)


def right_and_wrong(noisy: NoisyOutcomes, task: Classification) -> tuple[list[Evidence], list[Evidence]]:
    """Every noisy value of the number of right predictions, and of wrong ones: all blocks that tell."""
    right: list[Evidence] = []
    wrong: list[Evidence] = []
    counted = _cells(noisy, "right")
    right.append(evidence(noisy, counted[0], ("right", 1)))
    if noisy.n is None:
        wrong.append(evidence(noisy, counted[1], ("right", 1)))
    size = len(task.classes)
    if (table := noisy.block("confusion")) is not None:
        diagonal = table.reshape(size, size).trace()
        right.append(evidence(noisy, diagonal, ("confusion", size)))
        wrong.append(evidence(noisy, table.sum() - diagonal, ("confusion", size * (size - 1))))
    if (bins := noisy.block("reliability")) is not None and len(bins) > 1:
        right.append(evidence(noisy, bins[::2].sum(), ("reliability", len(bins) // 2)))
        wrong.append(evidence(noisy, bins[1::2].sum(), ("reliability", len(bins) // 2)))
    return right, wrong


def share_score(
    noisy: NoisyOutcomes,
    within: list[Evidence],
    without: list[Evidence],
    interval: float,
    kinds: tuple[int, int] = (1, 1),
) -> Score:
    """The share of some rows among all, from noisy numbers of these and of all others.

    ``within`` are noisy numbers of the rows, of which the first has the noise of the estimate; ``without`` are those of
    the others; ``kinds`` are the numbers of kinds, all alike beforehand, among these rows and the others.
    """
    rows, points = float(np.median(likely_row_numbers(noisy))), lattice(3)
    noise = within[0].deviation / rows
    if noisy.n is not None:
        known = [*within, *(Evidence(noisy.n - e.value, e.scales, e.gaussian) for e in without)]
        count = latent_count(known, noisy.n, kinds)
        part = count.at(points[:, 0])
        draws = share_draws(part, noisy.n - part, points[:, 2], kinds)
        none, every = (count.allows(known, end, surprise(interval)) for end in (0, noisy.n))
    else:
        counts = latent_count(within, kinds=kinds), latent_count(without, kinds=(kinds[1], kinds[0]))
        draws = share_draws(counts[0].at(points[:, 0]), counts[1].at(points[:, 1]), points[:, 2], kinds)
        none = counts[0].allows(within, 0, surprise(interval))
        every = counts[1].allows(without, 0, surprise(interval))
        share = float(np.median(draws))
        noise *= math.hypot(share, 1 - share)
    return score_of_draws(draws, interval, none, every, noise)


def score_of_draws(draws: Reals, interval: float, none: bool, every: bool, noise: float) -> Score:
    """The median and the central interval, up to 0 or 1 where these are as likely as the best."""
    low, middle, high = np.quantile(draws, [(1 - interval) / 2, 0.5, (1 + interval) / 2])
    return Score(float(middle), 0.0 if none else float(low), 1.0 if every else float(high), noise)


def _mean(noisy: NoisyOutcomes, name: str, interval: float) -> Score:
    """The mean of a loss between 0 and 1."""
    rows, cells, squared = likely_row_numbers(noisy), _cells(noisy, name), _cells(noisy, f"{name} squared")
    total, squares = evidence(noisy, cells[0], (name, 1)), evidence(noisy, squared[0], (f"{name} squared", 1))
    m, weights = mean_law(total, squares, rows)
    below = np.cumsum(weights)
    low, middle, high = np.interp([(1 - interval) / 2, 0.5, (1 + interval) / 2], below, m)
    best = m[[weights.argmax()]]
    if allows_zero(total, squares, rows, best, surprise(interval)):
        low = 0.0
    return Score(float(middle), float(low), float(high), total.deviation / float(np.median(rows)))


def _scaled(score: Score, largest: float) -> Score:
    return Score(*(float(part) * largest for part in score))


def _root(squared: Score) -> Score:
    """The root of each part; its noise by the slope at the estimate."""
    estimate, low, high = (math.sqrt(part) for part in squared[:3])
    return Score(estimate, low, high, squared.noise_sd / (2 * estimate) if estimate > 0 else 0.0)


def commonest_label(noisy: NoisyOutcomes, task: Classification, interval: float) -> tuple[Level, Score]:
    """The label with the largest noisy number of rows, and its share, from that number and from the others'."""
    size, cells = len(task.classes), _cells(noisy, "confusion")
    rows = cells.reshape(size, size).sum(axis=1)
    most = int(rows.argmax())
    within = evidence(noisy, rows[most], ("confusion", size))
    without = evidence(noisy, rows.sum() - rows[most], ("confusion", size * (size - 1)))
    return task.classes[most], share_score(noisy, [within], [without], interval, (1, size - 1))


def confusion_rows(noisy: NoisyOutcomes, task: Classification, interval: float) -> list[dict[str, Any]]:
    """The share of each cell, from its own noisy count and from that of the right or wrong rows less the other cells.

    The estimates are moved to the nearest shares, which sum to 1: no further from the true ones, whatever these are.
    An interval is widened to contain its estimate.
    """
    size, points = len(task.classes), lattice(3)
    cells = _cells(noisy, "confusion")
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
    counted = _cells(noisy, "right")
    if right:
        return float(counted[0])
    return float(counted[1]) if noisy.n is None else noisy.n - float(counted[0])


def reliability_rows(noisy: NoisyOutcomes, task: Classification, interval: float) -> list[dict[str, Any]]:
    """The share of right predictions in each bin of the confidence.

    The numbers of rows in the bins are moved to the nearest ones whose sum is the number of all rows, or its estimate.
    """
    cells, points = _cells(noisy, "reliability"), lattice(3)
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
