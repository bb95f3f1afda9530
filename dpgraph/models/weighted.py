"""Classifiers whose log odds are sums over features, with weights that need not be those of naive Bayes.

Naive Bayes counts what dependent features tell together once for each of them, and is too sure. Two remedies, both from
released values alone: log odds are scaled by a number below 1; and weights are those of a logistic regression, fitted
to rows that were drawn from a learned network. How far either is right is then told by one more released table, of
the score by the label (``calibrated``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.graphs.pair_estimates import Pairs
from dpgraph.inference.queries.tables import DrawnTables, tables_given
from dpgraph.models.conditional import ConditionalClassifier
from dpgraph.models.naive_bayes import NaiveBayes, label_scores, naive_bayes_network
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance
from dpgraph.structure.domain import Domain
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import Probabilities, Reals

Codes = Mapping[str, npt.NDArray[Any]]

#: The ridge of a logistic regression of drawn rows, in units of its log-likelihood, and its most steps.
RIDGE, STEPS = 2.5, 100
#: How much of naive Bayes' log odds is taken before anything is known, of one feature and of many, and within how many
#: it falls; how much of a regression's; the standard deviations of both and of a label's shift
#: (benchmarks/classifiers.py).
ONE, MANY, WITHIN, WHOLE, SPREAD, SHIFT = 0.95, 0.55, 6.0, 0.95, 0.25, 0.3
#: The cells of a strongly dependent feature, as parts of independence away from it (benchmarks/classifiers.py).
STRONG = 3.0
#: The correlation of features that agree, in normal scores.
COMMON = 0.5
#: Bins of a score at most: over all labels that it may favour.
MOST_BINS = 60
#: Why such a classifier answers no question.
NO_TABLES = (
    "the tables of this classifier give P(label | features) alone, and are not the population's: ask its release, "
    "dg.choose_network(dg.load(path, release=True))"
)
#: A probability is at least this where a loss is estimated.
LEAST = 1e-6


@dataclass(frozen=True, repr=False)
class WeightedNaiveBayes(NaiveBayes):
    """A classifier of the form of naive Bayes with corrected weights, for P(label | features).

    The tables give these probabilities by Bayes' rule, and nothing else: they are not those of the population, so
    questions are asked of the release.
    """


@tables_given.register
def _no_tables(model: WeightedNaiveBayes) -> DrawnTables:
    raise InferenceError(NO_TABLES)


@dataclass(frozen=True, eq=False)
class Scores:
    """Log odds that are sums over features: ``start`` has a number for each label, ``weights`` axes (level, label)."""

    domain: Domain
    target: str
    start: Reals
    weights: Mapping[str, Reals]

    @classmethod
    def of_tables(cls, tables: Probabilities, target: str) -> Scores:
        """The scores of a naive Bayes network."""
        logs = {name: np.log(np.maximum(table, 1e-300)) for name, table in tables.tables.items()}
        start = logs.pop(target)
        return cls(tables.network.domain, target, start, logs)

    def of_rows(self, codes: Codes) -> Reals:
        """The numbers of each row, shape (rows, labels); their softmax is P(label | features)."""
        rows = len(next(iter(codes.values())))
        found = np.empty((rows, len(self.start)))
        for block, scores in label_scores(self.start, self.weights, codes):
            found[block] = scores.T[: block.stop - block.start]
        return found

    def scaled(self, base: Reals, part: float, shift: Reals | float = 0.0) -> Scores:
        """The scores with a part of their distance from ``base``, the log probabilities of the labels, and a shift."""
        weights = {name: part * table for name, table in self.weights.items()}
        return Scores(self.domain, self.target, base + part * (self.start - base) + shift, weights)

    def between(self, other: Scores) -> Scores:
        """The average of two scores."""
        weights = {name: (table + other.weights[name]) / 2 for name, table in self.weights.items()}
        return Scores(self.domain, self.target, (self.start + other.start) / 2, weights)

    def model(self, provenance: Provenance | None) -> WeightedNaiveBayes:
        """The classifier as a naive Bayes network with these log odds."""
        logs, tables = self.start.copy(), {}
        for name, table in self.weights.items():
            top = table.max(axis=0)
            cells = np.exp(table - top)
            tables[name] = cells / cells.sum(axis=0)
            logs += top + np.log(cells.sum(axis=0))
        network = naive_bayes_network(self.domain, self.target)
        whole = {self.target: softmax(logs), **tables}
        return WeightedNaiveBayes(self.target, Probabilities(network, FrozenMap(whole), provenance))

    @property
    def features(self) -> tuple[str, ...]:
        """Every variable but the target."""
        return tuple(self.weights)

    def damped(self, pairs: Pairs) -> tuple[Scores, float]:
        """The scores, each table mixed with an independent one as far as its excess is noise; the share that is not.

        The excess over independence of a feature and the label is squared, and noise alone would have its variance for
        each free coordinate. The share that is not noise is at most that of a feature as dependent as ``STRONG`` says,
        for noise larger than any excess has large ones by chance. Mixed before the logarithm, so that a rare label's
        noisy cells have no odds without bound.
        """
        label = softmax(self.start)
        weights, real, all_of_it = {}, 0.0, 1e-9
        for name, table in self.weights.items():
            pair = (name, self.target) if (name, self.target) in pairs.excess else (self.target, name)
            if pair not in pairs.excess:  # a variable of one level
                weights[name] = 0.0 * table
                continue
            excess = pairs.excess[pair]
            noise = pairs.spread[pair] ** 2 * (excess.shape[0] - 1) * (excess.shape[1] - 1)
            seen = max(float((excess**2).sum()), 1e-9)
            cells = np.exp(table)
            alone = cells @ label
            strong = float(((STRONG * pairs.n * np.outer(alone, label * (1 - label))) ** 2).sum())
            clear = min(max(0.0, seen - noise), seen * strong / (strong + noise))
            part = math.sqrt(clear / seen)
            weights[name] = np.log(part * cells + (1 - part) * alone[:, None] + 1e-300)
            real, all_of_it = real + clear, all_of_it + seen
        return Scores(self.domain, self.target, self.start, weights), real / all_of_it


@dataclass(frozen=True, eq=False)
class NetworkScores:
    """The scores of a network's own conditional, which are not sums over features and are taken as they are."""

    classifier: ConditionalClassifier

    def of_rows(self, codes: Codes) -> Reals:
        """As of ``Scores``."""
        return np.log(np.maximum(self.classifier.predict_proba(codes), LEAST))

    def scaled(self, base: Reals, part: float, shift: Reals | float = 0.0) -> NetworkScores:
        """The same scores."""
        return self

    def model(self, provenance: Provenance | None) -> ConditionalClassifier:
        """The classifier behind them."""
        return self.classifier


def naive_part(features: int) -> float:
    """How much of naive Bayes' log odds is taken before anything is known: the less, the more features may repeat."""
    return MANY + (ONE - MANY) * math.exp(-(features - 1) / WITHIN)


def rows_that_agree(tables: Probabilities, target: str, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Rows of features that lean to one label together, by a normal copula, with the margins of a naive Bayes network.

    Where features depend on each other scores are larger than the network says; bins of scores need such rows too.
    """
    from scipy.special import ndtr

    label, found = tables.table(target), {}
    leaning = rng.choice(label.size, rows, p=label / label.sum())
    common = rng.standard_normal(rows)
    for name in tables.network.domain.names:
        if name == target:
            continue
        table = tables.table(name)
        place = ndtr(math.sqrt(COMMON) * common + math.sqrt(1 - COMMON) * rng.standard_normal(rows))
        codes = np.empty(rows, np.intp)
        for k in range(label.size):
            order = np.argsort(table[:, k] / (table @ label), kind="stable")
            ends = np.cumsum((table @ label)[order])
            mine = leaning == k
            codes[mine] = order[np.minimum(np.searchsorted(ends, place[mine]), order.size - 1)]
        found[name] = codes
    return found


def softmax(logs: Reals) -> Reals:
    """Probabilities along the last axis."""
    made = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return made / made.sum(axis=-1, keepdims=True)


def logistic(domain: Domain, target: str, codes: Codes) -> Scores:
    """The scores of a multinomial logistic regression of rows that were drawn from a release, with a ridge."""
    from scipy.optimize import minimize
    from scipy.sparse import csr_array

    features = [name for name in domain.names if name != target]
    sizes, labels = [domain.sizes[name] for name in features], domain.sizes[target]
    starts = np.cumsum([0, *sizes])
    rows = len(codes[target])
    places = np.stack([codes[name] + first for name, first in zip(features, starts, strict=False)], axis=1)
    inside = csr_array(
        (np.ones(places.size), places.ravel(), np.arange(0, places.size + 1, len(features))), (rows, int(starts[-1]))
    )
    true = np.eye(labels)[codes[target]]
    seen = inside.T @ true

    def loss(flat: Reals) -> tuple[float, Reals]:
        weights = flat.reshape(-1, labels)
        logs = inside @ weights[1:] + weights[0]
        top = logs.max(axis=1, keepdims=True)
        made = np.exp(logs - top)
        whole = made.sum(axis=1, keepdims=True)
        value = float((top + np.log(whole)).sum() - (weights[1:] * seen).sum() - weights[0] @ true.sum(axis=0))
        away = made / whole - true
        slope = np.vstack([away.sum(axis=0), inside.T @ away + 2 * RIDGE * weights[1:]])
        return (value + RIDGE * float((weights[1:] ** 2).sum())) / rows, slope.ravel() / rows

    first = np.zeros((int(starts[-1]) + 1, labels))
    found = minimize(loss, first.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x
    weights = found.reshape(-1, labels)
    parts = np.split(weights[1:], starts[1:-1])
    return Scores(domain, target, weights[0], dict(zip(features, parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Candidate:
    """Scores that may become the classifier, and the bins of rows by which they are judged.

    ``start`` is the part of their log odds that is taken beforehand. A row's bin is the label that it favours and how
    strongly; ``edges`` has for each label the strengths between bins. Where it has one line for all labels, a bin says
    how strongly alone, and rows are counted by whether the favoured label is theirs.
    """

    name: str
    scores: Scores | NetworkScores
    base: Reals
    start: float
    edges: Reals
    logs: Reals

    @classmethod
    def of(
        cls,
        name: str,
        scores: Scores | NetworkScores,
        base: Reals,
        start: float,
        codes: Codes,
        parts: int,
        coarse: bool = False,
    ) -> Candidate:
        """The candidate with so many bins for each label, or for all, which hold equally many public rows."""
        logs = scores.of_rows(codes)
        favoured, strength = _favoured(logs, base, start)
        labels = len(base)
        at = np.arange(1, parts) / parts
        every = np.quantile(strength, at)
        some = [strength] if coarse else [strength[favoured == label] for label in range(labels)]
        edges = np.stack([np.quantile(one, at) if len(one) >= 10 * parts else every for one in some])
        return cls(name, scores, base, start, edges, logs)

    @property
    def coarse(self) -> bool:
        """True where the favoured label is not part of a bin."""
        return len(self.edges) < len(self.base)

    @property
    def outcomes(self) -> int:
        """How many outcomes a row may have beside its bin."""
        return 2 if self.coarse else len(self.base)

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return self.edges.shape[0] * (self.edges.shape[1] + 1)

    def bin_of(self, logs: Reals) -> npt.NDArray[np.intp]:
        """The bin of each row."""
        favoured, strength = _favoured(logs, self.base, self.start)
        line = 0 * favoured if self.coarse else favoured
        place = (strength[:, None] > self.edges[line]).sum(axis=1)
        return line * (self.edges.shape[1] + 1) + place

    def outcome_of(self, logs: Reals, labels: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What rows are counted by beside their bin: the label, or whether it is another than the favoured."""
        return (_favoured(logs, self.base, self.start)[0] != labels).astype(np.intp) if self.coarse else labels

    def calibrated(self, counts: Reals, variance: float) -> tuple[Scores | NetworkScores, float, float]:
        """The scores with the part and shifts that a noisy table of bins by labels allows, and the expected log-loss.

        Returns:
            The scores, the estimated mean log-loss in nats, and the standard deviation of its noise.
        """
        from scipy.optimize import minimize

        bins, labels, outcomes = self.bin_of(self.logs), len(self.base), self.outcomes
        order = np.argsort(bins, kind="stable")
        away = (self.logs - self.base)[order]
        firsts = np.searchsorted(bins[order], np.arange(self.bins))
        many = np.bincount(bins, minlength=self.bins)
        there = many > 0
        total = np.maximum(counts.sum(axis=1), 1.0)
        favoured = _favoured(self.logs, self.base, self.start)[0][order, None]
        free = 0 if self.coarse else labels - 1

        def shifts(unknown: Reals) -> Reals:
            return np.zeros(labels) if self.coarse else np.append(0.0, unknown[1:])

        def shares(unknown: Reals) -> Reals:
            made = softmax(self.base + unknown[0] * away + shifts(unknown))
            if self.coarse:
                top = np.take_along_axis(made, favoured, axis=1)
                made = np.hstack([top, 1 - top])
            return np.add.reduceat(made, firsts[there], axis=0) / many[there, None]

        def loss(unknown: Reals) -> float:
            expected = shares(unknown)
            spread = variance * (1 + outcomes * expected**2) + total[there, None] * expected * (1 - expected) + 1
            miss = (counts[there] - total[there, None] * expected) ** 2 / spread
            prior = ((unknown[0] - self.start) / SPREAD) ** 2 + ((unknown[1:] / SHIFT) ** 2).sum()
            return 0.5 * float((miss + np.log(spread)).sum() + prior)

        first = np.append(self.start, np.zeros(free))
        bounds = [(0.02, 1.5), *[(-3.0, 3.0)] * free]
        if isinstance(self.scores, NetworkScores):
            found = np.append(1.0, np.zeros(free))
        else:
            found = minimize(loss, first, method="L-BFGS-B", bounds=bounds, options={"maxiter": 60}).x
        logs = np.log(np.maximum(shares(found), LEAST))
        rows = max(1.0, float(counts.sum()))
        estimate = -float((counts[there] * logs).sum()) / rows
        if self.coarse:  # which other label it is costs as much as the scores expect
            made = np.maximum(softmax(self.base + found[0] * away), LEAST)
            top = np.minimum(np.take_along_axis(made, favoured, axis=1), 1 - LEAST)
            others = -(made * np.log(made)).sum(axis=1) + (top * np.log(top) + (1 - top) * np.log(1 - top)).ravel()
            estimate += float(others.mean() / (1 - top).mean() * counts[:, 1].sum()) / rows
        noise = math.sqrt(variance * float((logs - logs.mean()).var() * logs.size)) / rows
        return self.scores.scaled(self.base, float(found[0]), shifts(found)), estimate, noise


def _favoured(logs: Reals, base: Reals, start: float) -> tuple[npt.NDArray[np.intp], Reals]:
    """For each row the label with the largest probability, and its log odds against the next."""
    scaled = base + start * (logs - base)
    favoured = scaled.argmax(axis=1)
    best = scaled.max(axis=1)
    np.put_along_axis(scaled, favoured[:, None], -np.inf, axis=1)
    return favoured, best - scaled.max(axis=1)
