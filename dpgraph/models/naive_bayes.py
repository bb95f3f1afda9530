"""Naive Bayes: a network in which one variable, the target, is the only parent of every other.

With independent Dirichlet posteriors the predictive probability of a label is the product of posterior means
(Zhang et al. 2016, Appendix C.1), so prediction needs the mean tables alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.network.queries import code_columns, row_count
from dpgraph.inference.queries.tables import DrawnTables, drawn_tables, tables_given
from dpgraph.privacy.display import MOST_ROWS, as_html, counted, short, summary
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance, Release, joined, joint_release, released_value
from dpgraph.structure.conversion import added, columns_to_predict, is_table
from dpgraph.structure.domain import Domain, DomainError, NetworkError
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts, Probabilities, Reals

#: What the arcs of these models are called where an intervention is refused.
ARCS = "a naive Bayes model"
#: Joint levels of a group, whatever the number of rows: their table takes hardly longer than one row's scores.
JOINT_LEVELS = 256

#: Numbers in one group's joint table, and scores that are worked on at once.
JOINT_CELLS, BLOCK_CELLS = 1 << 20, 1 << 15


def naive_bayes_network(domain: Domain, target: str) -> Network:
    """The network with an arc from the target to every other variable.

    >>> naive_bayes_network(Domain.of({"spam": [0, 1], "word": [0, 1]}), "spam").families
    (('spam',), ('word', 'spam'))
    """
    domain = Domain.of(domain)
    domain[target]
    return Network.of(domain, {name: [] if name == target else [target] for name in domain.names})


class _Predictions:
    """Predictions of a naive Bayes model over the draws of its tables, or over mean tables alone."""

    target: str
    provenance: Any
    _tables: Any
    _drawn: Any = None  #: how many draws there are, in words; None of mean tables

    @property
    def network(self) -> Network:
        """The network over the declared variables."""
        return self._tables[0].network

    @property
    def features(self) -> tuple[str, ...]:
        """Every variable but the target, in order."""
        return tuple(name for name in self.network.domain.names if name != self.target)

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The declared labels, in order, as scikit-learn names them."""
        return np.array(self.network.domain.levels(self.target))

    def predict_log_joint(self, X: Any) -> Reals:
        """ln P(label, features) of each row, P averaged over draws where there are several, shape (rows, labels).

        Args:
            X: A pandas, polars or Arrow table, of which the features are read, the path of a CSV or Parquet file, or an
                array with the features in order as its columns; or codes, an encoded column for each feature.

        Raises:
            DomainError: If a feature is missing, the rows do not fit the domain, or codes are out of bounds or of
                another length.
        """
        return self._of_rows(X, lambda scores: scores)

    def predict_proba(self, X: Any) -> Reals:
        """P(label | features) of each row, shape (rows, labels); uniform where the features are impossible.

        ``X`` and refusals are as for ``predict_log_joint``.
        """
        return self._of_rows(X, _normalised)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable label of each row; ``X`` and refusals are as for ``predict_log_joint``."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    @cached_property
    def _log_tables(self) -> dict[str, Reals]:
        """The log tables of all draws side by side: every label of every draw is a column."""
        with np.errstate(divide="ignore"):
            names = self.network.domain.names
            return {name: np.log(np.concatenate([one.table(name) for one in self._tables], axis=-1)) for name in names}

    def _of_rows(self, X: Any, read: Callable[[Reals], Reals]) -> Reals:
        """A reading of ln P(label, features), a block of shape (labels, rows) after another; shape (rows, labels)."""
        codes = columns_to_predict(X, self.network.domain.restrict(self.features))
        tables = {name: self._log_tables[name] for name in self.features}
        draws, labels = len(self._tables), self.classes_
        found = np.empty((row_count(codes), len(labels)))
        for block, scores in label_scores(self._log_tables[self.target], tables, codes):
            joint = scores if draws == 1 else _log_mean(scores.reshape(draws, len(labels), -1))
            found[block] = read(joint).T[: block.stop - block.start]
        return found

    def __repr__(self) -> str:
        features = f"from {counted(len(self.features), 'feature')}"
        words = f"{self.target!r}, one of {short(tuple(self.classes_.tolist()))}, {features}"
        return summary(type(self).__name__, words, self._drawn, self.provenance)

    def _repr_html_(self) -> str:
        """For a notebook: how probable the first level of a feature is under each label, for the first features."""
        tables, levels, rows = self._tables[0], self.network.domain.levels, []
        for name in self.features[: MOST_ROWS + 1]:
            given = zip(levels(self.target), tables.table(name)[0].tolist(), strict=True)
            rows.append({"feature": name, "level": str(levels(name)[0])} | {f"given {k}": v for k, v in given})
        title = f"Naive Bayes of {self.target!r}"
        notes = [self._drawn and f"{self._drawn} of the tables, the first shown", self.provenance]
        return as_html(title, rows, list(filter(None, notes)), total=len(self.features))


def _check_network(network: Network, target: str) -> None:
    if network.parents != naive_bayes_network(network.domain, target).parents:
        raise NetworkError(f"not a naive Bayes network: every other variable must have {target!r} as its parent")


def features_in(X: Any, features: tuple[str, ...]) -> tuple[str, ...]:
    """The features that rows hold: all, or of a table without other columns some."""
    if not is_table(X):
        return features
    there = {str(name) for name in getattr(X, "column_names", X.columns)}
    some = tuple(name for name in features if name in there)
    if not some or (len(some) < len(features) and there - set(some)):
        raise DomainError(
            f"X must hold all of the features, or some of them and no other column: {', '.join(features)}"
        )
    return some


@dataclass(frozen=True, repr=False)
class NaiveBayes(_Predictions):
    """A fitted naive Bayes classifier: the target's name and the predictive tables.

    Args:
        target: The label.
        probabilities: The tables: of a posterior its means.
        posterior: The posterior behind the tables, which intervals of predictions need; None where it is not kept.

    Raises:
        NetworkError: If the network is not a naive Bayes network of that target, or the posterior has another one.
    """

    target: str
    probabilities: Probabilities
    posterior: PosteriorDraws | DirichletPosterior | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        _check_network(self.probabilities.network, self.target)
        if self.posterior is not None and self.posterior.network != self.probabilities.network:
            raise NetworkError("the posterior is of another network than the tables")
        if self.posterior is not None:
            means = self.posterior.mean()
            for name, table in self.probabilities.tables.items():
                if not np.allclose(table, means.table(name), rtol=1e-6, atol=1e-12):
                    raise InferenceError("the tables are not the means of the posterior: they are of another release")

    @classmethod
    def from_release(cls, release: Any, target: str, *, prior: float = 1.0, seed: int = 0) -> NaiveBayes:
        """The model of a release whose tables hold each variable with the target, such as ``all_pairs``; free.

        It learns as ``PrivateNaiveBayes`` does; ``prior`` and ``seed`` are those of ``classifier_posterior``.

        Raises:
            NetworkError: If the target is not a variable, or some feature is in no table with it.
            InferenceError: If it is no release of counts or coefficients, or the prior is refused.
        """
        from dpgraph.inference.classifier.posterior import classifier_posterior
        from dpgraph.inference.network.evidence import read_released, single_releases

        value = released_value(joint_release(release) if isinstance(release, list | tuple) else release)[0]
        parts = single_releases(value)
        if not all(isinstance(part, NoisyCounts | NoisyCoefficients) for part in parts):
            raise InferenceError(f"a naive Bayes model is learned from noisy tables; got {type(value).__name__}")
        network = naive_bayes_network(parts[0].network.domain, target)
        tables = [key for part in parts for key in (part.tables if isinstance(part, NoisyCounts) else part.blocks)]
        apart = [name for name in network.domain.names if not any({name, target} <= {*key} for key in tables)]
        if apart:
            raise NetworkError(
                f"no table of this release holds {target!r} with {', '.join(apart)}: a naive Bayes model of it needs a "
                "table of each with it, as dg.all_pairs(domain) and dg.naive_bayes_network(domain, target) have"
            )
        given, provenance = read_released(release, network)
        posterior = replace(classifier_posterior(given, target, prior=prior, seed=seed), provenance=provenance)
        return cls(target, posterior.mean(), posterior)

    @property
    def _tables(self) -> tuple[Probabilities, ...]:
        return (self.probabilities,)

    @property
    def provenance(self) -> Provenance | None:
        """The record of the release behind the tables; None where none is known."""
        return self.probabilities.provenance

    def predict_proba(self, X: Any, *, return_interval: bool = False, interval: float = 0.9) -> Any:
        """P(label | features) of each row, shape (rows, labels); uniform where the features are impossible.

        Args:
            X: As for ``predict_log_joint``. With intervals a table may hold some of the features: the others
                count as not observed.
            return_interval: True to return central posterior intervals of each probability as well.
            interval: The probability of those intervals.

        Returns:
            The probabilities; with intervals a tuple of predictive probabilities, over the draws of the posterior, of
            low ends and of high ends, each of shape (rows, labels).

        Raises:
            DomainError: As for ``predict_log_joint``.
            InferenceError: If the interval is not a probability, or the model keeps no posterior.
        """
        if not return_interval:
            return super().predict_proba(X)
        if self.posterior is None:
            raise InferenceError(
                "this model keeps mean tables alone, which have no intervals: save the estimator again to .npz, "
                "or learn a posterior from the release in the model's file, free, "
                "posterior = dg.posterior(dg.load(path, release=True), method=dg.methods.Normal("
                f"shrink=True)); then dg.query_rows(posterior, {self.target!r}, X), X without the target"
            )
        from dpgraph.inference.queries.rows import answers_of_codes

        some = features_in(X, self.features)
        codes = columns_to_predict(X, self.probabilities.network.domain.restrict(some))
        if not row_count(codes):
            raise DomainError("there are no rows; give at least one")
        wide = {name: np.asarray(codes[name], np.int64) for name in some}
        found = answers_of_codes(drawn_tables(self), (self.target,), wide, interval)
        return found["predictive"], found["low"], found["high"]


@dataclass(frozen=True, repr=False)
class NaiveBayesEnsemble(_Predictions):
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
        for draw in value:
            _check_network(draw.network, target)
        if any(draw.network != value[0].network for draw in value):
            raise NetworkError("the draws of an ensemble must be tables of one network")
        object.__setattr__(self, "provenance", joined([behind, *(draw.provenance for draw in value)]))

    @property
    def _tables(self) -> tuple[Probabilities, ...]:
        return self.draws

    @property
    def _drawn(self) -> str:
        return counted(len(self.draws), "draw")


@tables_given.register
def _mean_tables(model: NaiveBayes) -> DrawnTables:
    return replace(tables_given(model.posterior or model.probabilities), arcs=ARCS)


@tables_given.register
def _tables_of_ensemble(model: NaiveBayesEnsemble) -> DrawnTables:
    return replace(tables_given(model.draws), arcs=ARCS)


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


def label_scores(start: Reals, tables: Mapping[str, Reals], codes: Mapping[str, Any]) -> Iterator[tuple[slice, Reals]]:
    """start + the sum over features f of tables[f][code of f, :], a block of rows at a time.

    Features are packed into groups whose levels, taken together, are few: a row looks up one number for each group and
    label in the joint table of a group. Groups and the order of sums are public, so that a row's scores depend on that
    row alone, to the last bit (promise.md S24).

    >>> blocks = label_scores(np.zeros(2), {"f": np.array([[1.0, 2], [3, 4]])}, {"f": [1, 0]})
    >>> [scores[:, :2].tolist() for _, scores in blocks]
    [[[3.0, 1.0], [4.0, 2.0]]]
    """
    rows = row_count(codes)
    levels = {name: len(table) for name, table in tables.items()}
    columns = code_columns(codes, levels)
    groups = _groups(levels, min(JOINT_LEVELS, JOINT_CELLS // max(1, len(start))))
    joint = [(sizes, _joint_table([tables[name] for name in sizes])) for sizes in groups]
    length = max(256, BLOCK_CELLS // max(1, len(start)))
    scores, looked_up = np.zeros((len(start), length)), np.empty(length)
    for first in range(0, rows, length):
        block = slice(first, min(rows, first + length))
        part, one = scores[:, : block.stop - first], looked_up[: block.stop - first]
        part[:] = start[:, None]
        for sizes, table in joint:
            position = _positions({name: columns[name][block] for name in sizes}, sizes)
            for label, values in enumerate(table):
                part[label] += np.take(values, position, out=one, mode="clip")
        yield block, scores


def _groups(sizes: Mapping[str, int], most: int) -> list[dict[str, int]]:
    """Features in order, with their levels, in groups of at most so many joint levels, or of one feature."""
    groups: list[dict[str, int]] = []
    joint = 0
    for name, size in sizes.items():
        if groups and joint * size <= most:
            groups[-1][name] = size
            joint *= size
        else:
            groups.append({name: size})
            joint = size
    return groups


def _joint_table(tables: list[Reals]) -> Reals:
    """The sums of some features' numbers, shape (labels, joint levels), the last feature running fastest."""
    joint = np.ascontiguousarray(tables[0].T)
    for table in tables[1:]:
        joint = (joint[:, :, None] + table.T[:, None, :]).reshape(len(joint), -1)
    return joint


def _positions(columns: Mapping[str, npt.NDArray[np.integer[Any]]], sizes: Mapping[str, int]) -> npt.NDArray[np.intp]:
    (_, first), *others = columns.items()
    if not others:
        return first.astype(np.intp)
    position = first.astype(np.uint16)
    for name, column in others:
        position *= np.uint16(sizes[name])
        position += column.astype(np.uint16)
    return position.astype(np.intp)
