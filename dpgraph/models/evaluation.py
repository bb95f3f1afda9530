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
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from dpgraph.inference.arguments import check_probability
from dpgraph.inference.counts.noisy_counts import Evidence, allows_zero, latent_count, lattice, mean_law, share_draws
from dpgraph.inference.simplex import onto_simplex
from dpgraph.privacy.checks import near
from dpgraph.privacy.display import DataFrame, as_html, data_frame
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Event, PrivacyCost, PrivacyUnit, Release
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.moments import Classification, Entries, NoisyOutcomes, Regression
from dpgraph.structure.tables import Reals

#: Values of an area under the ROC curve that are tried.
AREAS = 1001
#: Each rate: its cells and the rest of them, (true, given) as 1 for the class and 0 for the others.
RATES = {
    "sensitivity": ((1, 1), (1, 0)),
    "specificity": ((0, 0), (0, 1)),
    "positive predictive value": ((1, 1), (0, 1)),
}
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
        InferenceError: If it is not a release of outcomes, or the probability is not between 0 and 1.
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

    def to_frame(self) -> DataFrame:
        """The scores: score, estimate, low, high, noise_sd."""
        rows = [(name, *score) for name, score in self.scores.items()]
        return data_frame(rows, columns=["score", "estimate", "low", "high", "noise_sd"])

    @cached_property
    def confusion(self) -> DataFrame:
        """The share of the rows of each truth and prediction: truth, prediction, estimate, low, high.

        The estimates sum to 1.

        Raises:
            InferenceError: If it was not released.
        """
        noisy, task = self._block("confusion")
        size, points, cells = len(task.classes), lattice(3), _cells(noisy, "confusion")
        table, diagonal, rows = cells.reshape(size, size), np.eye(size, dtype=bool), likely_row_numbers(noisy)
        many = np.quantile(rows, points[:, 1])
        right, *wrong = _cells(noisy, "right").tolist()
        direct = {True: right, False: wrong[0] if noisy.n is None else noisy.n - right}
        found = []
        for truth, predicted in np.ndindex(size, size):  # by its own count, and the right or wrong ones less the others
            alike = diagonal if truth == predicted else ~diagonal
            mine = float(table[truth, predicted])
            others, cells_of_others = float(table[alike].sum()) - mine, int(alike.sum()) - 1
            own = evidence(noisy, mine, ("confusion", 1))
            left = evidence(noisy, direct[truth == predicted] - others, ("right", 1), ("confusion", cells_of_others))
            count = latent_count([own, left], noisy.n)
            part = np.minimum(count.at(points[:, 0]), many)
            none = count.allows([own, left], 0.0, surprise(self.interval))
            draws = share_draws(part, many - part, points[:, 2])
            noise = (own.deviation**-2 + left.deviation**-2) ** -0.5 / float(np.median(rows))
            score = score_of_draws(draws, self.interval, none, False, noise)
            found.append((task.classes[truth], task.classes[predicted], *score[:3]))
        frame = data_frame(found, columns=["truth", "prediction", "estimate", "low", "high"])
        share = onto_simplex(frame["estimate"].to_numpy())  # no further from the true shares, whatever these are
        return frame.assign(estimate=share, low=np.minimum(frame["low"], share), high=np.maximum(frame["high"], share))

    @cached_property
    def classes(self) -> DataFrame:
        """Each class against all others: class, score, estimate, low, high, noise_sd. Of two, the second alone.

        The scores are the AUC, sensitivity, specificity and positive predictive value of the predicted class. The AUC
        is that of P(class) rounded to its bin, ties counting half; its interval reaches up by the most that ties hide.

        Raises:
            InferenceError: If it is no classifier's, or nothing of it was released.
        """
        task = self.release.value.description.task
        if not isinstance(task, Classification):
            raise InferenceError("only a classifier has scores of each class")
        one, size = self.release.value, len(task.classes)
        rows = [
            (task.classes[k], name, *score)
            for k in ((1,) if size == 2 else range(size))
            for name, score in class_scores(one, task, k, self.interval)
        ]
        return data_frame(rows, columns=["class", "score", "estimate", "low", "high", "noise_sd"])

    @cached_property
    def thresholds(self) -> DataFrame:
        """The rates of giving the second of two classes where its probability is above a threshold.

        threshold, sensitivity, specificity, positive predictive value, each with its low and high. Below .5 a
        probability of exactly the threshold counts as above.

        Raises:
            InferenceError: If the scores of two classes were not released.
        """
        noisy, task = self._of_two()
        rows: list[dict[str, float]] = []
        for place, cut in enumerate(task.cuts, 1):
            cells, row = _beyond(noisy, "scores", place), {"threshold": cut}
            sizes = (place, len(task.cuts) + 1 - place)
            found = {at: [evidence(noisy, value, ("scores", sizes[at[1]]))] for at, value in np.ndenumerate(cells)}
            for name, (part, rest) in RATES.items():
                score = part_score(found[part], found[rest], self.interval)
                row |= {name: score.estimate, f"{name} low": score.low, f"{name} high": score.high}
            rows.append(row)
        return data_frame(rows)

    def threshold(self, *, false_positive: float, false_negative: float) -> tuple[float, Score]:
        """The threshold with the least expected cost of a row, and that cost: free, of the released counts.

        0 stands for always giving the second class, 1 for never. The interval holds the costs at all thresholds at
        once. The estimate is the least of several noisy ones, and may be too small by the noise.

        Args:
            false_positive: The cost of giving the second class where it is not true, at least 0.
            false_negative: The cost of not giving it where it is true, at least 0.

        Raises:
            InferenceError: If a cost is below 0, or the scores of two classes were not released.
        """
        costs = float(false_positive), float(false_negative)
        if not (min(costs) >= 0 and 0 < max(costs) < math.inf):
            raise InferenceError(f"costs are finite numbers, at least 0, and not both 0; got {costs}")
        noisy, task = self._of_two()
        cells, scale = _cells(noisy, "scores"), evidence(noisy, 0, ("scores", 1)).deviation
        place, cuts = np.arange(len(cells) // 2), np.array([0.0, *task.cuts, 1.0])
        said = place >= np.arange(len(cuts))[:, None]
        prices = np.hstack([costs[0] * said, costs[1] * ~said])
        rows = likely_row_numbers(noisy)
        n, middle = float(np.median(rows)), prices.mean(axis=1, keepdims=True)
        cost = middle[:, 0] + (prices - middle) @ cells / n
        counts = onto_simplex(cells, n)
        noise, luck = scale * (prices - middle), np.sqrt(counts) * (prices - (prices @ counts / n)[:, None])
        number = (cost - middle[:, 0])[:, None] * rows.std()
        every = np.hstack([noise, luck, number]) / n
        sd = np.maximum(np.sqrt((every**2).sum(axis=1)), 1e-12)
        draws = np.abs(np.random.default_rng(0).standard_normal((4000, every.shape[1])) @ every.T) / sd
        best, reach = int(cost.argmin()), float(np.quantile(draws.max(axis=1), self.interval))
        low, value, high = np.clip(cost[best] + reach * sd[best] * np.array([-1, 0, 1]), 0, max(costs)).tolist()
        return float(cuts[best]), Score(value, low, high, float(np.sqrt((noise[best] ** 2).sum()) / n))

    def _of_two(self) -> tuple[NoisyOutcomes, Classification]:
        noisy, task = self._block("auc")
        if len(task.classes) != 2:
            raise InferenceError(f"thresholds are of two classes; these are {len(task.classes)}")
        return noisy, task

    @cached_property
    def commonest(self) -> tuple[Any, Score]:
        """The label that most rows seem to have and their share, with its interval: the accuracy of always giving it.

        Where the interval is wide, the noise may have made another label the commonest.

        Raises:
            InferenceError: If no confusion table was released.
        """
        noisy, task = self._block("confusion")
        size, cells = len(task.classes), _cells(noisy, "confusion")
        rows = cells.reshape(size, size).sum(axis=1)
        most = int(rows.argmax())
        within = evidence(noisy, rows[most], ("confusion", size))
        without = evidence(noisy, rows.sum() - rows[most], ("confusion", size * (size - 1)))
        return task.classes[most], share_score(noisy, [within], [without], self.interval, (1, size - 1))

    @cached_property
    def reliability(self) -> DataFrame:
        """How often predictions of a confidence are right: confidence_low, confidence_high, rows, right, low, high.

        Each bin holds the confidences in the predicted class above its lower edge up to its upper one; their mean lies
        between the two. ``rows`` is the estimated number of rows in the bin, ``right`` the share of right ones; the
        numbers of rows sum to the public number of all, or to its estimate.

        Raises:
            InferenceError: If it was not released.
        """
        noisy, task = self._block("reliability")
        name, many = ("scores", 2) if len(task.ranked) == 1 else ("reliability", 1)
        cells, found = _cells(noisy, name), []
        if many == 2:  # a confident row is one of either class, so two noisy numbers make one
            half = len(task.bins)
            (low, high), (low_of, high_of) = (row.reshape(2, half) for row in cells.reshape(2, -1))
            cells = np.column_stack([low[::-1] + high_of, low_of[::-1] + high]).ravel()
        for k, edges in enumerate(task.bins):
            # Of one bin alone the wrong ones are the rest of a public n, and not released.
            values = (cells[0], (noisy.n or 0) - cells[0]) if len(cells) == 1 else cells[2 * k : 2 * k + 2]
            right, wrong = ([evidence(noisy, value, (name, many))] for value in values)
            rows = float(sum(count.nodes @ count.weights for count in (latent_count(right), latent_count(wrong))))
            found.append((*edges, rows, *part_score(right, wrong, self.interval)[:3]))
        frame = data_frame(found, columns=["confidence_low", "confidence_high", "rows", "right", "low", "high"])
        return frame.assign(rows=onto_simplex(frame["rows"].to_numpy(), float(np.median(likely_row_numbers(noisy)))))

    def _block(self, name: str) -> tuple[NoisyOutcomes, Classification]:
        task = self.release.value.description.task
        if not isinstance(task, Classification) or name not in task.scores:
            raise InferenceError(f"no {name} table was released")
        return self.release.value, task

    def __repr__(self) -> str:
        shown = [(name, score) for name, score in self.scores.items() if name == "AUC"]
        first = [next(iter(self.scores.items())), *shown]
        told = ", ".join(f"{name} {score[0]:.4g} ({score[1]:.4g} to {score[2]:.4g})" for name, score in first)
        event, note = self.release.event, "" if self.release.private else "; NOT PRIVATE: the noise was seeded"
        return f"Evaluation({told}, {PrivacyCost(event.epsilon, event.delta)}, protecting {self.release.unit}{note})"

    def _repr_html_(self) -> str:
        notes = [f"{self.interval:.0%} intervals", self.release.provenance]
        return as_html("Evaluation", self.to_frame().to_dict("records"), notes)


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

    def to_frame(self) -> DataFrame:
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
        return as_html("Cross-validation", self.to_frame().to_dict("records"), [words, whole])


def all_scores(noisy: NoisyOutcomes, interval: float) -> Iterator[tuple[str, Score]]:
    """The scores of a release, the headline first."""
    match noisy.description.task:
        case Classification() as task:
            yield "accuracy", share_score(noisy, *right_and_wrong(noisy, task), interval)
            if len(task.classes) == 2:
                yield from class_scores(noisy, task, 1, interval)
            if "log_loss" in task.scores:
                yield "log-loss", _mean(noisy, "log-loss", task.largest_loss or 0.0, interval)
            if "brier" in task.scores:
                yield "Brier score", _mean(noisy, "brier", 2.0, interval)
        case Regression() as task:
            squared = _mean(noisy, "squared error", (task.largest_error or 0.0) ** 2, interval)
            yield "mean squared error", squared
            estimate, low, high = (math.sqrt(part) for part in squared[:3])
            noise = squared.noise_sd / (2 * estimate) if estimate > 0 else 0.0  # by the slope at the estimate
            yield "root mean squared error", Score(estimate, low, high, noise)
        case Entries() as task:
            loss = _mean(noisy, "log-loss", task.largest_loss or 0.0, interval)
            yield "nats an entry", Score(-loss.estimate, -loss.high, -loss.low, loss.noise_sd)


def surprise(interval: float) -> float:
    """How many nats below the best a boundary value may be and still belong to an interval: one-sided Laplace noise."""
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
    known, size = [evidence(noisy, value, ("right", 1)) for value in _cells(noisy, "right")], len(task.classes)
    right, wrong = known[:1], known[1:]  # where n is public the wrong ones are the rest, and not released
    if (table := noisy.block("confusion")) is not None:
        diagonal = table.reshape(size, size).trace()
        right.append(evidence(noisy, diagonal, ("confusion", size)))
        wrong.append(evidence(noisy, table.sum() - diagonal, ("confusion", size * (size - 1))))
    if len(task.ranked) == 1:
        (tn, fp), (fn, tp) = _beyond(noisy, "scores", len(task.bins))
        right.append(evidence(noisy, tn + tp, ("scores", 2 * len(task.bins))))
        wrong.append(evidence(noisy, fp + fn, ("scores", 2 * len(task.bins))))
    elif (bins := noisy.block("reliability")) is not None and len(bins) > 1:
        right.append(evidence(noisy, bins[::2].sum(), ("reliability", len(bins) // 2)))
        wrong.append(evidence(noisy, bins[1::2].sum(), ("reliability", len(bins) // 2)))
    return right, wrong


def _beyond(noisy: NoisyOutcomes, name: str, place: int) -> Reals:
    """The noisy numbers of rows by class (others, the class) and score (before the bin, from it on), shape (2, 2)."""
    cells = _cells(noisy, name).reshape(2, -1)
    return np.stack([cells[:, :place].sum(axis=1), cells[:, place:].sum(axis=1)], axis=1)


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
    points, noise = lattice(3), within[0].deviation / float(np.median(likely_row_numbers(noisy)))
    if noisy.n is None:
        score = part_score(within, without, interval, kinds)
        return score._replace(noise_sd=noise * math.hypot(score.estimate, 1 - score.estimate))
    known = [*within, *(Evidence(noisy.n - e.value, e.scales, e.gaussian) for e in without)]
    count = latent_count(known, noisy.n, kinds)
    part = count.at(points[:, 0])
    draws = share_draws(part, noisy.n - part, points[:, 2], kinds)
    none, every = (count.allows(known, end, surprise(interval)) for end in (0, noisy.n))
    return score_of_draws(draws, interval, none, every, noise)


def part_score(
    within: list[Evidence], without: list[Evidence], interval: float, kinds: tuple[int, int] = (1, 1)
) -> Score:
    """The share of some rows among themselves and others, from noisy numbers of both, whose sum nothing else tells."""
    counts, points = (latent_count(within, kinds=kinds), latent_count(without, kinds=(kinds[1], kinds[0]))), lattice(3)
    draws = share_draws(counts[0].at(points[:, 0]), counts[1].at(points[:, 1]), points[:, 2], kinds)
    none, every = (
        count.allows(known, 0, surprise(interval)) for count, known in zip(counts, (within, without), strict=True)
    )
    share, rows = float(np.median(draws)), max(1.0, sum(float(count.nodes @ count.weights) for count in counts))
    sds = [sum(e.deviation**-2 for e in known) ** -0.5 for known in (within, without)]
    return score_of_draws(draws, interval, none, every, math.hypot((1 - share) * sds[0], share * sds[1]) / rows)


def class_scores(noisy: NoisyOutcomes, task: Classification, k: int, interval: float) -> Iterator[tuple[str, Score]]:
    """AUC, sensitivity, specificity and positive predictive value of a class against all others, as far as released."""
    if task.ranked:
        name = task.ranked[k if len(task.ranked) > 1 else 0]
        cells, deviation = _cells(noisy, name).reshape(2, -1), evidence(noisy, 0, (name, 1)).deviation
        yield "AUC", area_score(cells, task.cuts, deviation, interval)
    size, found = len(task.classes), {}
    if (cells := noisy.block("confusion")) is not None:
        table, own = cells.reshape(size, size), np.arange(size) == k
        for truth, said in np.ndindex(2, 2):
            there = np.ix_(own == truth, own == said)
            found[truth, said] = [evidence(noisy, table[there].sum(), ("confusion", table[there].size))]
    if task.ranked == ("scores",):
        for at, value in np.ndenumerate(_beyond(noisy, "scores", len(task.bins))):
            found.setdefault(at, []).append(evidence(noisy, value, ("scores", len(task.bins))))
    if found:
        for name, (part, rest) in RATES.items():
            kinds = [(size - 1) ** (2 - sum(at)) for at in (part, rest)]
            yield name, part_score(found[part], found[rest], interval, (kinds[0], kinds[1]))


def area_score(cells: Reals, cuts: tuple[float, ...], deviation: float, interval: float) -> Score:
    """The area under the ROC curve of noisy numbers of rows by class and bin of the score, shape (2, bins).

    Each value a is tested: the sum over pairs of a row of each class, 1 where the class has the larger bin, 1/2 where
    they share one, less a, has mean 0 at the true value and a known variance. The interval holds the values that are
    not refused (Fieller), and reaches to the largest area that ties may hide: where odds in a bin are calibrated and
    differ by a factor r at most, its rows have an area of at most 1 / (1 + r^(-1/2)) (P71).
    """
    others, own = cells
    width, a = len(own), np.linspace(0.0, 1.0, AREAS)
    order = (np.tri(width) + np.tri(width, k=-1)) / 2
    edges = np.array([0.0, *cuts, 1.0])
    with np.errstate(divide="ignore"):
        odds = edges / (1 - edges)
    finer = order + np.diag(1 / (1 + np.sqrt(odds[:-1] / odds[1:])) - 0.5)
    z, found = float(ndtri((1 + interval) / 2)), []
    for pairs in (order, finer):
        over, under = (pairs @ others)[:, None] - a * others.sum(), (own @ pairs)[:, None] - a * own.sum()
        both = deviation**2 * ((pairs**2).sum() - 2 * a * pairs.sum() + a**2 * width**2)
        noise = np.maximum(deviation**2 * ((over**2).sum(axis=0) + (under**2).sum(axis=0) - both), deviation**2 * both)
        luck = np.maximum(own, 0) @ over**2 + np.maximum(others, 0) @ under**2
        off = own @ over
        found.append((off**2 / np.maximum(noise + luck, 1e-12), noise))
    kept = [np.flatnonzero(off <= max(z**2, off.min())) for off, _ in found]
    best = int(found[0][0].argmin())
    many = max(float(own.sum() * others.sum()), 1.0)
    low, high = a[min(kept[0][0], kept[1][0])], a[max(kept[0][-1], kept[1][-1])]
    return Score(float(a[best]), float(low), float(high), math.sqrt(found[0][1][best]) / many)


def score_of_draws(draws: Reals, interval: float, none: bool, every: bool, noise: float) -> Score:
    """The median and the central interval, up to 0 or 1 where these are as likely as the best."""
    low, middle, high = np.quantile(draws, [(1 - interval) / 2, 0.5, (1 + interval) / 2])
    return Score(float(middle), 0.0 if none else float(low), 1.0 if every else float(high), noise)


def _mean(noisy: NoisyOutcomes, name: str, largest: float, interval: float) -> Score:
    """The mean of a loss between 0 and its largest value, which a release counts as 1."""
    rows, cells, squared = likely_row_numbers(noisy), _cells(noisy, name), _cells(noisy, f"{name} squared")
    total, squares = evidence(noisy, cells[0], (name, 1)), evidence(noisy, squared[0], (f"{name} squared", 1))
    m, weights = mean_law(total, squares, rows)
    below = np.cumsum(weights)
    low, middle, high = np.interp([(1 - interval) / 2, 0.5, (1 + interval) / 2], below, m)
    best = m[[weights.argmax()]]
    if allows_zero(total, squares, rows, best, surprise(interval)):
        low = 0.0
    noise = total.deviation / float(np.median(rows))
    return Score(*(float(part) * largest for part in (middle, low, high, noise)))
