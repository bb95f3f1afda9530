"""A classifier that plans its release, and chooses and calibrates its model from the release.

One charge pays for up to five releases. The label's counts say about how many rows there are; where features would
drown in noise, the label is counted again. Then it is measured with each feature, and where the noise is small,
features with each other. From these alone come candidates: naive Bayes, a logistic regression of rows drawn from the
learned network, and the average of both. Last, each candidate's score is measured by the label, which says how sure it
may be, and which one is best.
"""

from __future__ import annotations

import copy
import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dpgraph.estimators.fitting import Fit, check_learning, inference_seed, keep_names
from dpgraph.estimators.learning import learn_network
from dpgraph.estimators.measured_pairs import adding, as_one, charged, designed, shared, unseen, whole_event
from dpgraph.estimators.naive_bayes import DeclaredClassifier, PrivateNaiveBayes
from dpgraph.inference.graphs.choosing import check_choosing, choose_within
from dpgraph.inference.graphs.constraints import constraints_within
from dpgraph.inference.graphs.pair_estimates import read_pairs
from dpgraph.inference.network.plug_in import check_posterior, plug_in_posterior
from dpgraph.inference.network.queries import sample_codes
from dpgraph.mechanisms.additive.gaussian import GaussianMechanism
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.mechanisms.reproduction import SCORES_OF_ROWS
from dpgraph.models import weighted
from dpgraph.models.conditional import ConditionalClassifier
from dpgraph.models.naive_bayes import naive_bayes_network
from dpgraph.privacy.accounting import Budget, promised
from dpgraph.privacy.checks import check_whole
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import CLASSIFIER, Event, Number, PrivacyUnit, Release, exact, exact_delta, joint_release
from dpgraph.privacy.release import check_memory, checked_source, release
from dpgraph.privacy.scope import RowsRecord
from dpgraph.statistics.counts import TableCounts, any_tables, count
from dpgraph.statistics.rows.codes import Codes, encode
from dpgraph.statistics.rows.persons import cap_rows
from dpgraph.structure.domain import Domain, warn_of_many_levels
from dpgraph.structure.joint import learning
from dpgraph.structure.margins import Margins, all_pairs
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities
from dpgraph.waiting import waiting

#: What the label's counts and the scores' tables get of the charge (benchmarks/classifiers.py).
LABEL, JUDGED = Fraction(1, 25), Fraction(3, 25)
#: Where noise would move more than so many times the rows of a feature's pair with the label, on average, the label is
#: counted again with this part, up to half of the charge: its shares are then most of what can be learned. Not with
#: Gaussian noise, which is five times that of the whole charge in the first counts, and Laplace noise 25 times.
AGAIN = ((1, Fraction(3, 25)), (2, Fraction(17, 50)))
#: Features are measured with each other where noise moves at most these shares of the rows, of a pair without and with
#: the label, on average; how much more the label's pairs get than the others. Where noise moves at most the last share
#: and the choice would drown, the network is the only candidate. Noise in a cell, halved, adds so much for each.
BEARABLE, LABELLED, LABEL_FIRST, ALIKE, PER_CELL = 0.15, 0.05, 4, 0.035, 0.4
#: Bins of a score for each label that it may favour, or for all: the most for which noise moves at most this share of
#: the rows; and where several candidates are judged.
PARTS, CLEAR, CHOICE = (10, 6, 3), 0.12, 0.01
#: Draws of the learned network's tables, rows drawn from each, and rows drawn of naive Bayes.
DRAWS, ROWS_OF_EACH, ROWS = 20, 1000, 10_000
#: The strengths of dependence, one for each world; rows to judge by; parts of epsilon that are tried; and a point.
STRENGTHS, HELD, TRIED, POINT = (1.0, 3.0), 10_000, (Fraction(1, 10), Fraction(3, 10), Fraction(1)), 0.01
#: At most so many rows are drawn: more are stood for by as many times more epsilon, for noise is told by n epsilon.
MOST_ROWS = 10_000
#: The candidates where pairs were measured; by how much another must beat the first, and by twice its noise.
OFFERS, BETTER = 4, 0.01


@dataclass(eq=False, repr=False)
class PrivateClassifier(DeclaredClassifier):
    """A classifier of declared features, with a plan for this epsilon and number of rows.

    ``fit`` charges once and measures the label with each feature. Where the noise is small enough it measures features
    with each other too. Then it chooses and calibrates its model from the release. Unlike naive Bayes it
    counts dependent features once, so its probabilities are closer to the truth.

    Args:
        domain: The declared levels of every feature and of the target; other columns of a table are not read.
            ``"infer"``, by name, reads it off the rows and warns that this leaks.
        target: The name of the target's column, where ``y`` has no name or the domain has further columns.
        epsilon: The budget of one fit, exact; a float means the decimal it prints as.
        delta: Above 0 for Gaussian noise, which is far less for so many tables; 0 for Laplace noise.
        n: The approximate number of rows, where that is public; else a small part of the charge measures it.
        budget: As of ``PrivateNaiveBayes``, as are ``unit``, ``noise``, ``random_state`` and ``progress``.

    Attributes:
        classes_: The declared labels, in order.
        model_: The fitted ``WeightedNaiveBayes``, or ``ConditionalClassifier`` of the learned network: ``save`` writes
            it with the release.
        choice_: A table of the candidates: the expected log-loss and the standard deviation of its noise, both from the
            release, and which one was chosen. NaN where noise left nothing to judge by.
        release_: Every released table, for further models and questions; a charge is spent once.
        privacy_cost_: The cost of the fit.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"word": ["a", "b"] * 500, "spam": [0, 1] * 500})
    >>> model = PrivateClassifier({"word": ["a", "b"], "spam": [0, 1]}, "spam", epsilon=1)
    >>> model.fit(rows[["word"]], rows["spam"]).predict(rows[["word"]][:2]).tolist()
    [0, 1]
    """

    domain: Domain | Any = None
    target: str | None = None
    epsilon: Number = 1.0
    delta: Number = 0
    n: int | None = None
    budget: Budget | None = None
    random_state: int | np.random.Generator | np.random.RandomState | None = None
    unit: PrivacyUnit | None = None
    noise: Noise | None = None
    progress: bool = False

    classes_: npt.NDArray[Any] = field(init=False)
    model_: weighted.WeightedNaiveBayes | ConditionalClassifier = field(init=False)
    choice_: DataFrame = field(init=False)

    def fit(self, X: Any, y: Any, *, person: Any = None) -> Self:
        """Charges the budget once, releases noisy counts, and learns from them.

        ``X``, ``y`` and ``person`` are as for ``PrivateNaiveBayes.fit``; rows are read into memory. A fit that is
        interrupted between its releases is charged.

        Raises:
            DomainError: If the rows do not fit the domain; nothing is charged.
            ReleaseError, BudgetExceededError: If a setting or the release is refused; nothing is charged.
        """
        with Fit(self) as fit, waiting("fitting a classifier", self.progress):
            new = fit.new
            check_learning("plug-in", self.random_state)
            rows, domain, target, whose = new._read_rows(X, y, person)
            warn_of_many_levels(domain, stacklevel=3)
            plan = _Plan.of(self, domain, target)
            if whose is not None:
                codes = cap_rows(rows, domain, whose, plan.budget.unit.rows_per_person)
            else:
                codes = encode(rows, domain)
            made, candidates = plan.released(fit, codes, X)
            new.model_, new.choice_ = _chosen(candidates, made.provenance)
            new.classes_ = np.array(domain.levels(target))
            if rows is X:
                keep_names(new, new.model_.features)
        return self

    def predict_proba(self, X: Any) -> Any:
        """P(label | features), shape (rows, labels), columns in the order of ``classes_``.

        Raises:
            DomainError: If the rows do not fit the domain.
        """
        return self._probabilities(X)

    def plan(self, n: int, *, seed: int = 0) -> DataFrame:
        """What naive Bayes, this classifier and a learned network can be expected to score with about n rows.

        Each is fitted to rows of random public worlds of the domain, at epsilon and at three
        and one tenths of it. No rows are read and nothing is charged. The worlds' dependence is weak and strong; what
        the rows hold may be neither.

        Returns:
            A frame with the mean ``accuracy`` and ``log_loss`` for each ``plan`` and ``epsilon``, and whether its
            accuracy is ``within_a_point`` of a logistic regression without privacy.
        """
        domain = self._declared()
        if domain is None or self.target is None:
            raise ReleaseError("a plan reads no rows: give domain= and target=")
        check_whole("n", n, 1, 2**53)
        plan = _Plan.of(self, domain, self.target)
        return expected_scores(self, domain, self.target, plan.epsilon, n, seed)


def charged_at_once(epsilon: Number, delta: Number) -> Event:
    """The one charge of a fit."""
    return whole_event(CLASSIFIER, exact(epsilon), exact_delta(delta))


@dataclass(frozen=True, eq=False)
class Judged:
    """A candidate after its score was measured: the calibrated scores and the expected log-loss with its noise."""

    name: str
    scores: weighted.Scores | weighted.NetworkScores
    loss: float
    noise: float


@dataclass(frozen=True, eq=False)
class _Plan:
    """The public settings of a fit."""

    domain: Domain
    target: str
    epsilon: Fraction
    delta: Fraction
    n: int | None
    budget: Budget
    noise: Noise | None
    seed: int

    @classmethod
    def of(cls, settings: PrivateClassifier, domain: Domain, target: str) -> _Plan:
        """Reads and checks the settings; nothing is charged."""
        if settings.n is not None:
            check_whole("n", settings.n, 1, 2**53)
        epsilon, delta, budget = promised(settings.epsilon, settings.delta, settings.budget, settings.unit)
        if budget.group is not None:
            raise ReleaseError("PrivateClassifier needs a budget of all rows, not a group's")
        seed = inference_seed(settings.random_state)
        return cls(domain, target, epsilon, delta, settings.n, budget, copy.deepcopy(settings.noise), seed)

    @property
    def features(self) -> tuple[str, ...]:
        """Every variable but the target."""
        return tuple(name for name in self.domain.names if name != self.target)

    def share(self, part: Fraction) -> Any:
        """The mechanism that spends a part of the charge."""
        return adding(part * shared(self.epsilon, self.delta), self.delta)

    def label(self) -> Margins:
        """The label's own counts."""
        return Margins.of_tables(self.domain, [(self.target,)])

    def pairs(self, part: Fraction, n: float, alone: bool) -> tuple[Margins, Any, bool] | None:
        """The tables of all pairs, how they are measured, and if the network is the only candidate; None if they drown.

        ``alone``: one candidate can be judged at most.
        """
        found = all_pairs(self.domain, beyond="leave-out").tables
        mine = [table for table in found if len(table) == 2 and self.target in table]
        others = [table for table in found if len(table) == 2 and self.target not in table]
        if not others:
            return None
        how: Any = self.share(part)
        ways = [how] if self.delta else [how, LaplaceMechanism(how.epsilon, tables="families")]
        for first, bounds in ((1, (ALIKE, ALIKE)), (LABEL_FIRST, (BEARABLE, LABELLED)))[not alone :]:
            margins = Margins.of_tables(self.domain, found, [first if self.target in t else 1 for t in found])
            moved, best = min(((self._moved(margins, others, way), way) for way in ways), key=lambda one: one[0])
            if moved <= bounds[0] * n and self._moved(margins, mine, best) <= bounds[1] * n:
                if first == 1:
                    return *designed(constraints_within(None, self.domain), how, self.budget.unit, n), True
                return margins, best, False
        return None

    def _drowned(self, part: Fraction, n: float) -> bool:
        """True where noise is expected to move more than n rows of the label's pairs, on average."""
        pairs = [family for family in self.network.families if len(family) == 2]
        return bool(pairs) and self._moved(self.network, pairs, self.share(part)) > n

    def _moved(self, margins: Margins | Network, pairs: list[Family], how: Any) -> float:
        """The number of rows that noise is expected to move in one of these pairs, on average."""
        measured = how.event(margins, self.budget.unit).measurements
        total = 0.0
        for pair in pairs:
            cells = margins.cells(pair)
            inside = [one for one in measured if set(pair) <= set(one.table)]
            least = min(one.law.variance(one.cells) * one.cells for one in inside)
            total += PER_CELL * math.sqrt(cells * least)
        return total / len(pairs)

    @property
    def network(self) -> Network:
        """The label with each feature."""
        return naive_bayes_network(self.domain, self.target)

    def charged(self, statistics: TableCounts) -> RowsRecord:
        """Charges the whole, once all that the one door would ask of its parts is found to fit."""
        checked_source(statistics, self.budget, self.noise)
        check_posterior(self.network)
        check_choosing(constraints_within(None, self.domain))
        for margins, part in ((self.label(), LABEL), (self.network, 1 - LABEL - JUDGED)):
            check_memory(self.share(part).event(margins, self.budget.unit))
        return charged(statistics, self.budget, charged_at_once(self.epsilon, self.delta))

    def released(self, fit: Fit, codes: Codes, rows: Any) -> tuple[Release[Any], list[Judged]]:
        """The released tables as one release, and the judged candidates; all paid from one charge."""
        fit.paying(self.budget, self.domain.names, rows)
        scope = self.charged(any_tables(codes, self.domain))
        purse = Budget(self.epsilon, self.delta, unit=self.budget.unit, accounting="gdp" if self.delta else "basic")
        measured = [release(count(codes, self.label()), self.share(LABEL), budget=purse, noise=self.noise)]
        n, part = self._rows_in(measured[0]), 1 - LABEL
        for times, more in AGAIN:
            if self.delta or not self._drowned(part, times * n):
                break
            measured.append(release(count(codes, self.label()), self.share(more), budget=purse, noise=self.noise))
            n, part = self._rows_in(measured[-1]), part - more
        many, parts, coarse = self._judging(n, (OFFERS, 1))
        wide = self.pairs(part - JUDGED, n, many == 1)
        if not wide:
            many, parts, coarse = self._judging(n, (1,))
        elif wide[2]:
            parts = 0
        part -= JUDGED if parts else 0
        wide = self.pairs(part, n, wide[2]) if wide else None
        description, how, alone = wide or (self.network, self.share(part), False)
        measured.append(release(count(codes, description), how, budget=purse, noise=self.noise))
        noisy = joint_release(measured)
        if alone:
            limits = constraints_within(None, self.domain)
            learned = choose_within(noisy, limits, grow=False).probabilities
            scores = weighted.NetworkScores(ConditionalClassifier(self.target, learned, self.features))
            return fit.keep(as_one(measured, scope, purse)), [Judged("network", scores, math.nan, math.nan)]
        candidates = self._candidates(noisy, wide is not None, parts or PARTS[-1], coarse)[:many]
        if not parts:
            made = fit.keep(as_one(measured, scope, purse))
            return made, [
                Judged(one.name, one.scores.scaled(one.base, one.start), math.nan, math.nan) for one in candidates
            ]
        third = self._scored(codes, candidates, purse)
        made = fit.keep(as_one(measured, scope, purse, unseen(third.event, SCORES_OF_ROWS)))
        return made, [_judged(i, one, third.value) for i, one in enumerate(candidates)]

    def _rows_in(self, first: Release[Any]) -> float:
        """About how many rows there are: as said, as the unit makes public, or as the label's noisy counts tell."""
        value = first.value
        if self.n is not None or value.n is not None:
            return float(self.n or value.n)
        return max(1.0, float(value.tables[self.target,].sum()))

    def _judging(self, n: float, offers: Sequence[int]) -> tuple[int, int, bool]:
        """How many candidates are judged, their bins, and whether for all labels together; (1, 0) where all drown."""
        labels = self.domain.sizes[self.target]
        for many, coarse, parts in itertools.product(offers, (False, True), PARTS):
            if coarse and (labels == 2 or many > 1):
                continue
            bins, outcomes = (parts, 2) if coarse else (parts * labels, labels)
            names = [f"score {i}" for i in range(many)]
            levels = {**{name: list(range(bins)) for name in names}, "label": list(range(outcomes))}
            tables = Margins.of_tables(Domain.of(levels), [(name, "label") for name in names])
            one = self.share(JUDGED).event(tables, self.budget.unit).measurements[0]
            clear = n * (CLEAR if many == 1 else CHOICE)
            if bins <= weighted.MOST_BINS and math.sqrt(one.law.variance(one.cells) * one.cells) <= clear:
                return many, parts, coarse
        return 1, 0, False

    def _candidates(self, noisy: Release[Any], learned: bool, parts: int, coarse: bool) -> list[weighted.Candidate]:
        rng = np.random.default_rng(self.seed)
        tables = plug_in_posterior(learning(noisy.value, self.network), counts="expected").mean()
        base = np.log(tables.table(self.target))
        naive, clear = weighted.Scores.of_tables(tables, self.target).damped(read_pairs(noisy.value))
        start = weighted.naive_part(len(self.features)) ** clear  # noise that damps leaves less to correct
        if not learned:
            apart = sample_codes(tables, ROWS, rng)
            agree = weighted.rows_that_agree(tables, self.target, ROWS, rng)
            codes = {name: np.concatenate([apart[name], agree[name]]) for name in self.features}
            return [weighted.Candidate.of("naive Bayes", naive, base, start, codes, parts, coarse)]
        found = choose_within(noisy, constraints_within(None, self.domain), grow=False)
        draws: Any = found.posterior(method="refitted", draws=DRAWS, seed=rng) if found.refits else found.probabilities
        every: list[Probabilities] = list(draws) if found.refits else [draws]
        some = [sample_codes(one, DRAWS * ROWS_OF_EACH // len(every), rng) for one in every]
        codes = {name: np.concatenate([one[name] for one in some]) for name in self.domain.names}
        regression = weighted.logistic(self.domain, self.target, codes)
        network = weighted.NetworkScores(ConditionalClassifier(self.target, draws, self.features))
        offers: list[tuple[str, weighted.Scores | weighted.NetworkScores, float]] = [
            ("naive Bayes and logistic regression", naive.scaled(base, start).between(regression), weighted.WHOLE),
            ("logistic regression", regression, weighted.WHOLE),
            ("naive Bayes", naive, start),
            ("network", network, 1.0),
        ]
        return [
            weighted.Candidate.of(name, scores, base, begin, codes, parts, coarse) for name, scores, begin in offers
        ]

    def _scored(self, codes: Codes, candidates: list[weighted.Candidate], purse: Budget) -> Release[Any]:
        """The noisy tables of each candidate's score by the label; rows are scored by released weights."""
        levels = {f"score {i}": list(range(one.bins)) for i, one in enumerate(candidates)}
        domain = Domain.of({**levels, "label": list(range(candidates[0].outcomes))})
        features = {name: codes.columns[name] for name in self.features}
        bins = {f"score {i}": one.bin_of(one.scores.of_rows(features)) for i, one in enumerate(candidates)}
        outcome = candidates[0].outcome_of(candidates[0].scores.of_rows(features), codes.columns[self.target])
        scored = encode(data_frame({**bins, "label": outcome}), domain)
        rows = Codes(domain, scored.columns, codes.cap)
        tables = Margins.of_tables(domain, [(name, "label") for name in bins])
        return release(count(rows, tables), self.share(JUDGED), budget=purse, noise=self.noise)


def _judged(place: int, candidate: weighted.Candidate, noisy: Any) -> Judged:
    table = (f"score {place}", "label")
    scores, loss, noise = candidate.calibrated(np.asarray(noisy.tables[table], np.float64), noisy.variance(table))
    return Judged(candidate.name, scores, loss, noise)


def _chosen(candidates: list[Judged], provenance: Any) -> tuple[Any, DataFrame]:
    """The first model, unless another is clearly better, and the table of all."""
    asked = [one.loss + (i > 0) * max(BETTER, 2 * one.noise) for i, one in enumerate(candidates)]
    best = min(range(len(candidates)), key=asked.__getitem__)
    rows = [(one.name, one.loss, one.noise, i == best) for i, one in enumerate(candidates)]
    frame = data_frame(rows, columns=["model", "log_loss", "noise", "chosen"])
    return candidates[best].scores.model(provenance), frame


def world(domain: Domain, target: str, strength: float, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """Codes of rows of one random world, where each feature depends on the target and on one earlier feature.

    The logarithms of its probabilities are normal: those of the target's part with a standard deviation of ``strength``
    over the root of the number of features, times a factor for each feature, those of the other's part with 1.
    """
    features = [name for name in domain.names if name != target]
    labels = domain.sizes[target]
    found = {target: rng.choice(labels, rows, p=rng.dirichlet(np.full(labels, 5.0)))}
    for i, name in enumerate(features):
        size, one = domain.sizes[name], features[rng.integers(i)] if i else None
        scale = strength * rng.exponential() / len(features) ** 0.5
        logs = (scale * rng.standard_normal((labels, size)))[found[target]]
        if one is not None:
            logs += rng.standard_normal((domain.sizes[one], size))[found[one]]
        found[name] = (weighted.softmax(logs).cumsum(axis=1) < rng.random((rows, 1))).sum(axis=1).clip(max=size - 1)
    return found


def expected_scores(model: Any, domain: Domain, target: str, epsilon: Fraction, n: int, seed: int) -> DataFrame:
    """The scores of naive Bayes, the classifier and a learned network of n rows: the mean over the worlds."""
    rows = min(n, MOST_ROWS)
    made: list[tuple[Any, ...]] = []
    for i, strength in enumerate(STRENGTHS):
        codes = world(domain, target, strength, rows + HELD, np.random.default_rng((seed, i)))
        held = {name: column[rows:] for name, column in codes.items()}
        train = {name: column[:rows] for name, column in codes.items()}
        frame = data_frame({name: np.asarray(domain.levels(name), object)[train[name]] for name in domain.names})
        exact = weighted.softmax(
            weighted.logistic(domain, target, train).of_rows({name: held[name] for name in domain.names})
        )
        made.append(("no privacy", np.inf, *_scores(exact, held[target])))
        for part in TRIED:
            for plan, fitted in _fitted(model, domain, target, epsilon * part * n / rows, frame).items():
                found = _scores(fitted.predict_proba(held), held[target])
                made.append((plan, float(epsilon * part), *found))
    table: Any = data_frame(made, columns=["plan", "epsilon", "accuracy", "log_loss"])
    table = table.groupby(["epsilon", "plan"], as_index=False)[["accuracy", "log_loss"]].mean()
    best = table.loc[table["plan"] == "no privacy", "accuracy"].iloc[0]
    return table.assign(within_a_point=table["accuracy"] >= best - POINT)


def _fitted(model: Any, domain: Domain, target: str, epsilon: Fraction, frame: Any) -> dict[str, Any]:
    """The fitted plans by name; each charges a budget of its own, of rows that nobody owns."""
    from sklearn.base import clone

    unit = model.budget.unit if model.budget is not None else model.unit
    features, label = frame.drop(columns=target), frame[target]
    delta = exact_delta(model.delta)
    how: Any = GaussianMechanism(epsilon, delta) if delta else "laplace"
    naive = PrivateNaiveBayes(domain, epsilon, how, "plug-in", target=target, unit=unit)
    judged: Any = clone(model)
    judged.set_params(domain=domain, target=target, epsilon=epsilon, budget=None, unit=unit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        network = learn_network(frame, domain, epsilon=epsilon, delta=delta, unit=unit).probabilities
        return {
            "naive Bayes": naive.fit(features, label).model_,
            "PrivateClassifier": judged.fit(features, label).model_,
            "network": ConditionalClassifier(target, network),
        }


def _scores(probabilities: Any, truth: Any) -> tuple[float, float]:
    right = probabilities.argmax(axis=1) == truth
    return float(right.mean()), float(-np.log(np.maximum(probabilities[np.arange(len(truth)), truth], 1e-12)).mean())
