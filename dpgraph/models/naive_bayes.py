"""Naive Bayes: a network in which one variable, the target, is the only parent of every other.

With independent Dirichlet posteriors the predictive probability of a label is the product of posterior means
(Zhang et al. 2016, Appendix C.1), so prediction needs the mean tables alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network.queries import row_count
from dpgraph.inference.queries.tables import DrawnTables, tables_given
from dpgraph.models.label_scores import label_scores
from dpgraph.privacy.display import MOST_ROWS, as_html, counted, short, summary
from dpgraph.privacy.records import InferenceError, Provenance, Release, joined, released_value
from dpgraph.structure.domain import Domain, NetworkError
from dpgraph.structure.network import Network
from dpgraph.structure.rows_to_predict import columns_to_predict
from dpgraph.structure.rowwise import added
from dpgraph.structure.tables import Probabilities, Reals

#: What the arcs of these models are called where an intervention is refused.
ARCS = "a naive Bayes model"


def naive_bayes_network(domain: Domain, target: str) -> Network:
    """The network with an arc from the target to every other variable.

    >>> naive_bayes_network(Domain.of({"spam": [0, 1], "word": [0, 1]}), "spam").families
    (('spam',), ('word', 'spam'))
    """
    domain = Domain.of(domain)
    domain[target]
    return Network.of(domain, {name: [] if name == target else [target] for name in domain.names})


@dataclass(frozen=True)
class NaiveBayes:
    """A fitted naive Bayes classifier: the target's name and the predictive tables.

    The tables are posterior means: intervals of its predictions are in a posterior, as ``predict_proba`` says.

    Raises:
        NetworkError: If the network is not a naive Bayes network of that target.
    """

    target: str
    probabilities: Probabilities

    def __post_init__(self) -> None:
        network = self.probabilities.network
        if network.parents != naive_bayes_network(network.domain, self.target).parents:
            raise NetworkError(
                f"not a naive Bayes network: every other variable must have {self.target!r} as its parent"
            )

    @property
    def provenance(self) -> Provenance | None:
        """The record of the release behind the tables; None where none is known."""
        return self.probabilities.provenance

    @property
    def features(self) -> tuple[str, ...]:
        """Every variable but the target, in order."""
        return tuple(name for name in self.probabilities.network.domain.names if name != self.target)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The declared labels, in order, as scikit-learn names them."""
        return np.array(self.probabilities.network.domain.levels(self.target))

    @cached_property
    def _log_tables(self) -> dict[str, Reals]:
        with np.errstate(divide="ignore"):
            names = self.probabilities.network.domain.names
            return {name: np.log(self.probabilities.table(name)) for name in names}

    def predict_log_joint(self, X: Any) -> Reals:
        """ln P(label, features) of each row, shape (rows, labels).

        Args:
            X: A pandas, polars or Arrow table, of which the features are read, the path of a CSV or Parquet file, or an
                array with the features in order as its columns; or codes, an encoded column for each feature.

        Raises:
            DomainError: If a feature is missing, the rows do not fit the domain, or codes are out of bounds or of
                another length.
        """
        codes = self._codes(X)
        return _array_of_rows(self._scores(codes), len(self._log_tables[self.target]), codes)

    def predict_proba(self, X: Any, *, return_interval: bool = False) -> Reals:
        """P(label | features) of each row, shape (rows, labels); uniform where the features are impossible.

        Args:
            X: As for ``predict_log_joint``.
            return_interval: Of a fitted estimator alone, which has the posterior's draws; mean tables have no
                intervals, and the refusal says where they are to be had.

        Raises:
            DomainError: As for ``predict_log_joint``.
            InferenceError: If intervals are asked for.
        """
        if return_interval:
            raise InferenceError(
                "this model keeps mean tables, which have no intervals. A posterior has: save the estimator's, "
                "dg.save(estimator.posterior_, path), or learn one from the release in the model's file, free, "
                "posterior = dg.posterior(dg.load(path, release=True), method=dg.methods.Normal("
                f"shrink=True)); then dg.query_rows(posterior, {self.target!r}, X), X without the target"
            )
        codes = self._codes(X)
        blocks = ((block, _normalised(scores)) for block, scores in self._scores(codes))
        return _array_of_rows(blocks, len(self._log_tables[self.target]), codes)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable label of each row.

        Args:
            X: As for ``predict_log_joint``.

        Raises:
            DomainError: As for ``predict_log_joint``.
        """
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def __repr__(self) -> str:
        return _in_words(self, "NaiveBayes", self.provenance)

    def _repr_html_(self) -> str:
        return _as_html(self, self.probabilities, [] if self.provenance is None else [self.provenance])

    def _codes(self, X: Any) -> Mapping[str, npt.NDArray[Any]]:
        """The features as codes."""
        return columns_to_predict(X, self.probabilities.network.domain.restrict(self.features))

    def _scores(self, codes: Mapping[str, npt.NDArray[Any]]) -> Iterator[tuple[slice, Reals]]:
        """Blocks of ln P(label, features), shape (labels, rows of the block)."""
        tables = {name: self._log_tables[name] for name in self.features}
        return label_scores(self._log_tables[self.target], tables, codes)


@dataclass(frozen=True)
class NaiveBayesEnsemble:
    """Naive Bayes over several draws of the tables, such as a ``PosteriorSample`` releases.

    The predictive probability of a label and its features is the average over the draws of their joint probability,
    normalised at the end (Zhang et al. 2016, Appendix C.2). It is not the product of average tables: a draw that
    explains the features well counts for more.

    Args:
        target: The label.
        draws: The tables, or their release. ``provenance`` is the record of all releases behind them; None where none
            is known.

    Raises:
        ReleaseError: If the draws were released under different units.
        NetworkError: If there are no draws, or the network of one is not a naive Bayes network of that target or
            differs from that of another.

    >>> network = naive_bayes_network(Domain.of({"spam": [0, 1], "word": [0, 1]}), "spam")
    >>> draw = Probabilities(network, {"spam": [0.5, 0.5], "word": [[0.9, 0.2], [0.1, 0.8]]})
    >>> NaiveBayesEnsemble("spam", (draw, draw)).predict_proba({"word": np.array([0])}).round(3).tolist()
    [[0.818, 0.182]]
    """

    target: str
    draws: tuple[Probabilities, ...]
    provenance: Provenance | None = field(init=False, compare=False)

    def __init__(self, target: str, draws: tuple[Probabilities, ...] | Release[tuple[Probabilities, ...]]) -> None:
        value, behind = released_value(draws)
        if not isinstance(value, tuple | list) or not value:
            raise NetworkError("an ensemble needs at least one draw of the tables")
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "draws", tuple(value))
        _ = self._members
        if any(draw.network != value[0].network for draw in value):
            raise NetworkError("the draws of an ensemble must be tables of one network")
        object.__setattr__(self, "provenance", joined([behind, *(draw.provenance for draw in value)]))

    def __repr__(self) -> str:
        return _in_words(self, "NaiveBayesEnsemble", counted(len(self.draws), "draw"), self.provenance)

    def _repr_html_(self) -> str:
        notes = [counted(len(self.draws), "draw of the tables, the first shown"), *filter(None, [self.provenance])]
        return _as_html(self, self.draws[0], notes)

    @cached_property
    def _members(self) -> tuple[NaiveBayes, ...]:
        return tuple(NaiveBayes(self.target, draw) for draw in self.draws)

    @property
    def features(self) -> tuple[str, ...]:
        """Every variable but the target, in order."""
        return self._members[0].features

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The declared labels, in order, as scikit-learn names them."""
        return self._members[0].classes_

    def predict_log_joint(self, X: Any) -> Reals:
        """ln of the average over the draws of P(label, features), shape (rows, labels).

        Args:
            X: Rows or codes, as ``NaiveBayes`` takes them.

        Raises:
            DomainError: If a feature is missing, the rows do not fit the domain, or codes are out of bounds or of
                another length.
        """
        codes = self._members[0]._codes(X)
        return _array_of_rows(self._scores(codes), self._labels, codes)

    def predict_proba(self, X: Any) -> Reals:
        """P(label | features) of each row, shape (rows, labels); uniform where the features are impossible.

        Args:
            X: Rows or codes, as ``NaiveBayes`` takes them.

        Raises:
            DomainError: As for ``predict_log_joint``.
        """
        codes = self._members[0]._codes(X)
        blocks = ((block, _normalised(scores)) for block, scores in self._scores(codes))
        return _array_of_rows(blocks, self._labels, codes)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable label of each row.

        Args:
            X: Rows or codes, as ``NaiveBayes`` takes them.

        Raises:
            DomainError: As for ``predict_log_joint``.
        """
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @property
    def _labels(self) -> int:
        return self.draws[0].network.domain.sizes[self.target]

    @cached_property
    def _log_tables(self) -> dict[str, Reals]:
        """The members' log tables side by side: every label of every draw is a column."""
        members = [member._log_tables for member in self._members]
        return {name: np.concatenate([tables[name] for tables in members], axis=-1) for name in members[0]}

    def _scores(self, codes: Mapping[str, npt.NDArray[Any]]) -> Iterator[tuple[slice, Reals]]:
        """Blocks of ln of the average joint probability, shape (labels, rows of the block)."""
        tables = {name: self._log_tables[name] for name in self.features}
        for block, scores in label_scores(self._log_tables[self.target], tables, codes):
            yield block, _log_mean(scores.reshape(len(self.draws), self._labels, -1))


@tables_given.register
def _tables(model: NaiveBayes) -> DrawnTables:
    return replace(tables_given(model.probabilities), arcs=ARCS)


@tables_given.register
def _tables_of_ensemble(model: NaiveBayesEnsemble) -> DrawnTables:
    return replace(tables_given(model.draws), arcs=ARCS)


def _in_words(model: NaiveBayes | NaiveBayesEnsemble, kind: str, *more: Any) -> str:
    """A model in one line: its target, labels and number of features."""
    labels = short(tuple(model.classes_.tolist()))
    return summary(kind, f"{model.target!r}, one of {labels}, from {counted(len(model.features), 'feature')}", *more)


def _as_html(model: NaiveBayes | NaiveBayesEnsemble, tables: Probabilities, notes: list[Any]) -> str:
    """A model for a notebook: how probable the first level of a feature is under each label, for the first features."""
    levels = tables.network.domain.levels
    rows = [
        {"feature": name, "level": str(levels(name)[0])}
        | {
            f"given {label}": float(value)
            for label, value in zip(levels(model.target), tables.table(name)[0], strict=True)
        }
        for name in model.features[: MOST_ROWS + 1]
    ]
    return as_html(f"Naive Bayes of {model.target!r}", rows, notes, total=len(model.features))


def _array_of_rows(blocks: Iterator[tuple[slice, Reals]], labels: int, codes: Mapping[str, npt.NDArray[Any]]) -> Reals:
    """Blocks of shape (labels, rows) as one array of shape (rows, labels)."""
    found = np.empty((row_count(codes), labels))
    for block, scores in blocks:
        found[block] = scores.T[: block.stop - block.start]
    return found


def _log_mean(scores: Reals) -> Reals:
    """ln of the average over axis 0 of exp(scores)."""
    top = scores.max(axis=0)
    top[np.isneginf(top)] = 0.0
    with np.errstate(divide="ignore"):
        return np.log(added(np.exp(scores - top)) / len(scores)) + top


def _normalised(scores: Reals) -> Reals:
    """Columns of log weights as probabilities, in place; uniform where every weight is 0."""
    top = scores.max(axis=0)
    impossible = np.isneginf(top)
    if impossible.any():
        top[impossible] = 0.0
        scores[:, impossible] = 0.0
    scores -= top
    np.exp(scores, out=scores)
    scores /= added(scores)
    return scores
