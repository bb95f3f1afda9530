"""A classifier of any variable of a network: P(target | features), whatever the network was learned for.

Where a row has every variable that its target depends on, the joint probability of a label and the row is a product of
one number from each table; else variable elimination sums the others out, as for any question.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dpgraph.inference.arguments import check_probability, tails
from dpgraph.inference.network.draws import PosteriorDraws
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.inference.network.queries import code_columns, row_count
from dpgraph.inference.queries.contraction import ancestors
from dpgraph.inference.queries.rows import UNSEEN, answers_of_codes
from dpgraph.inference.queries.tables import UNDERFLOWN, DrawnTables, drawn_tables, tables_given
from dpgraph.models.naive_bayes import features_in
from dpgraph.privacy.display import as_html, counted, short, summary
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.records import Provenance, released_value
from dpgraph.structure.conversion import added, columns_to_predict
from dpgraph.structure.domain import Domain, DomainError
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.network import Family, Network
from dpgraph.structure.tables import Probabilities, Reals

#: Numbers of a block of rows; its rows are a multiple of the second, so that no sum has a tail (promise.md S24).
BLOCK_NUMBERS, MULTIPLE = 1 << 18, 64


def classifier(posterior: Any, target: str, features: Iterable[str] | None = None) -> ConditionalClassifier:
    """A classifier from an earlier release or posterior; free.

    Its probabilities are exactly those of the network, P(target | features in a row). Variables that a row lacks are
    summed out: a feature that its table lacks, a null where no level is declared for nulls, and any variable that is
    not a feature.

    Args:
        posterior: As for ``query``: a release of tables or pairs, a learned network, posterior draws by any method,
            probabilities, a fitted estimator.
        target: The variable to predict.
        features: The variables to predict it from; None for all others.

    Raises:
        NetworkError: If a variable is unknown.
        DomainError: If there are no features, one is there twice, or one is the target.
        InferenceError: If there is no network to read, as of moments or of a regression.

    >>> import dpgraph as dg
    >>> model = classifier(dg.load("example:asia"), "lung", ["smoke", "xray"])
    >>> import pandas as pd
    >>> model.predict_proba(pd.DataFrame({"smoke": ["yes", "no"], "xray": ["yes", None]})).round(3).tolist()
    [[0.646, 0.354], [0.01, 0.99]]
    """
    from dpgraph.inference.graphs.choosing import domain_of

    chosen = _checked(domain_of(posterior), target, features)
    return ConditionalClassifier(target, _kept(posterior), chosen)


def _checked(domain: Domain, target: str, given: Iterable[str] | None) -> Family:
    """The features, of None all other variables of the rows; raises the errors of ``classifier``."""
    domain[target]
    others = [name for name in domain.names if name != target and name not in domain.indicators.values()]
    features = tuple(others if given is None else given)
    for name in features:
        domain[name]
    if not features or len(set(features)) < len(features) or target in features:
        raise DomainError(
            f"features must be one or more variables, each once, without the target {target!r}; got {short(features)}"
        )
    return features


def _kept(model: Any) -> PosteriorDraws | DirichletPosterior | Probabilities:
    """The posterior or the tables behind a model, in a form that a file keeps."""
    from dpgraph.inference.graphs.choosing import learned_from

    model = learned_from(model)
    value = released_value(model)[0]
    for name in ("", "few_draws", "posterior_", "posterior", "probabilities"):
        one = getattr(value, name, None) if name else value
        if isinstance(one, PosteriorDraws | DirichletPosterior | Probabilities):
            return one
    tables = drawn_tables(model)
    drawn = FrozenMap((name, np.asarray(tables.tables[name])[None]) for name in tables.tables)
    return PosteriorDraws(tables.network, drawn, "draws", provenance=getattr(model, "provenance", None))


@dataclass(frozen=True, eq=False)
class ConditionalClassifier:
    """A fitted classifier: a posterior of a network, the target, and the features; ``dg.classifier`` makes it.

    Args:
        target: The variable to predict.
        posterior: The posterior of the network's tables, or one set of them, which gives no intervals.
        features: The variables to predict from; None for all others.

    Raises:
        NetworkError, DomainError: As for ``classifier``.
    """

    target: str
    posterior: PosteriorDraws | DirichletPosterior | Probabilities
    features: Family = None  # type: ignore[assignment]  # None is replaced below

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", _checked(self.network.domain, self.target, self.features))

    @property
    def network(self) -> Network:
        """The network over its domain."""
        return self.posterior.network

    @property
    def provenance(self) -> Provenance | None:
        """The record of the release behind the tables; None where none is known."""
        return self.posterior.provenance

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The declared labels, in order, as scikit-learn names them."""
        return np.array(self.network.domain.levels(self.target))

    @cached_property
    def _tables(self) -> DrawnTables:
        """The draws, no cell at 0: a row that the tables exclude gets the label that excludes it least."""
        found = drawn_tables(self.posterior)
        if isinstance(self.posterior, Probabilities):
            tables = {name: np.maximum(table, UNDERFLOWN) for name, table in found.tables.items()}
            return DrawnTables(found.network, tables)
        return found

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable label of each row; ``X`` and refusals are as for ``predict_proba``."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_proba(self, X: Any, *, return_interval: bool = False, interval: float = 0.9) -> Any:
        """P(label | features) of each row, shape (rows, labels), predictive as that of ``query_rows``.

        Args:
            X: A table that holds the features, or some of them and no other column; the path of a CSV or Parquet file
                with the features; an array with the features in order as its columns; or codes, an encoded column for
                each feature, where the code after the last level stands for nothing observed.
            return_interval: True to return central posterior intervals of each probability as well.
            interval: The probability of those intervals.

        Returns:
            The probabilities; with intervals a tuple of these, of low ends and of high ends, all of one shape.

        Raises:
            DomainError: If the rows do not fit the domain.
            InferenceError: If the interval is not a probability, or the model holds one set of probabilities.
        """
        check_probability("interval", interval)
        if return_interval and len(self._tables) == 1:
            raise InferenceError(
                "one set of probabilities has no intervals: give dg.classifier draws, dg.posterior(release)"
            )
        domain, some = self.network.domain, features_in(X, self.features)
        sizes = {name: domain.sizes[name] for name in some}
        read = columns_to_predict(X, domain.restrict(some), unseen=True)
        codes = code_columns(read, {name: size + 1 for name, size in sizes.items()})
        wide = {name: column.astype(np.int64) for name, column in codes.items()}
        for name, column in wide.items():
            column[column == sizes[name]] = UNSEEN
        whole = np.full(row_count(codes), ancestors(self.network, (self.target, *some)) == {self.target, *some})
        for column in wide.values():
            whole &= column != UNSEEN
        statistics = ("predictive", "low", "high")[: 3 if return_interval else 1]
        found = np.empty((len(statistics), len(whole), domain.sizes[self.target]))
        centre: Any = self._tables.centre
        if whole.any():  # every family is observed but for the target
            part = {name: column[whole] for name, column in wide.items()}
            found[:1, whole] = self._joint(self._logs if centre is None else self._log_tables(centre), part, None)
            if return_interval:
                found[1:, whole] = self._joint(self._logs, part, tails(interval))
        if not whole.all():
            part = {name: column[~whole] for name, column in wide.items()}
            tables = self._tables if centre is None or return_interval else centre
            answers = answers_of_codes(tables, (self.target,), part, interval)
            found[:, ~whole] = np.stack([answers[name] for name in statistics])
        return tuple(found) if return_interval else found[0]

    def _joint(self, logs: list[tuple[Family, Reals]], codes: Mapping[str, npt.NDArray[np.int64]], ends: Any) -> Reals:
        """From ln P(label, row) of all draws: the average over draws, normalised, or ends of each label's draws."""
        sizes, rows = self.network.domain.sizes, row_count(codes)
        draws, labels = len(logs[0][1]), sizes[self.target]
        length = max(1, BLOCK_NUMBERS // (draws * labels * MULTIPLE)) * MULTIPLE
        found = np.empty((1 if ends is None else 2, rows, labels))
        for start in range(0, rows, length):
            part = {name: np.zeros(length, np.int64) for name in codes}
            stop = min(rows, start + length)
            for name, column in codes.items():
                part[name][: stop - start] = column[start:stop]
            scores = np.zeros((draws, labels, length))
            for names, table in logs:
                place = np.zeros(length, np.int64)
                for name in names:
                    place = place * sizes[name] + part[name]
                scores += table.take(place, axis=2)
            scores -= scores.max(axis=1 if ends is not None else (0, 1), keepdims=True)
            values = np.exp(scores, out=scores)
            if ends is None:
                total = added(values)
                made = (total / added(total))[None]
            else:
                values /= added(values.transpose(1, 0, 2))[:, None]
                made = np.quantile(values, ends, axis=0)
            found[:, start:stop] = made[:, :, : stop - start].transpose(0, 2, 1)
        return found

    @cached_property
    def _logs(self) -> list[tuple[Family, Reals]]:
        return self._log_tables(self._tables)

    def _log_tables(self, tables: DrawnTables) -> list[tuple[Family, Reals]]:
        """For each table the other variables, and its logs, axes (draw, label or 1, their joint level)."""
        found: list[tuple[Family, Reals]] = []
        for name in sorted(ancestors(self.network, (self.target, *self.features)), key=self.network.order.index):
            family, table = self.network.family(name), np.asarray(tables.tables[name])
            others = tuple(one for one in family if one != self.target)
            order = [family.index(one) + 1 for one in (self.target, *others) if one in family]
            made = np.log(table.transpose(0, *order))
            labels = made.shape[1] if self.target in family else 1
            found.append((others, made.reshape(len(made), labels, math.prod(self.network.shape(others)))))
        return found

    def __repr__(self) -> str:
        made = f"{counted(len(self.features), 'feature')}, {counted(len(self._tables), 'draw')}"
        words = f"{self.target!r}, one of {short(tuple(self.classes_.tolist()))}, from {made}"
        return summary("ConditionalClassifier", words, self.provenance)

    def _repr_html_(self) -> str:
        rows = [{"feature": name, "levels": short(self.network.domain.levels(name))} for name in self.features]
        notes = [counted(len(self._tables), "draw"), *filter(None, [self.provenance])]
        return as_html(f"Classifier of {self.target!r}", rows, notes, total=len(rows))


@tables_given.register
def _tables_behind(model: ConditionalClassifier) -> DrawnTables:
    return tables_given(model.posterior)
