"""Naive Bayes with a scikit-learn face: counts, one release, then a classifier learned from the release alone."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from dpgraph.analysis.choice import mechanism_named
from dpgraph.estimators.fitting import (
    check_seed,
    check_target_name,
    column_of,
    feature_frame,
    fit_budget,
    holds_target,
    inference_seed,
    keep_names,
    name_of,
    named_column,
    named_in_rows,
    one_epsilon,
    scored,
    target_name,
    warn_if_drowned,
    with_target,
)
from dpgraph.estimators.labelled import class_probabilities
from dpgraph.estimators.persons import cap_for, with_persons, without_persons
from dpgraph.estimators.refitting import Spend, refit
from dpgraph.estimators.splits import warn_of_other_rows
from dpgraph.inference.classifier.posterior import check_classifier, classifier_posterior
from dpgraph.inference.network.plug_in import check_posterior, check_prior, plug_in_posterior
from dpgraph.inference.queries.rows import RowAnswers, answers_of_codes
from dpgraph.inference.queries.tables import drawn_tables
from dpgraph.mechanisms.additive.label_share import label_first
from dpgraph.models.naive_bayes import NaiveBayes, naive_bayes_network
from dpgraph.privacy.accounting import Budget, cost
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Number, PrivacyLeakWarning, PrivacyUnit, ReleaseError, exact
from dpgraph.statistics.counts import Counts, count
from dpgraph.statistics.rows.codes import encode
from dpgraph.statistics.rows.features import is_unread, table_frame
from dpgraph.statistics.rows.infer import domain_of_rows
from dpgraph.structure.conversion import is_table
from dpgraph.structure.domain import Domain, DomainError, warn_of_many_levels
from dpgraph.structure.network import Network

#: The mechanisms a classifier is fitted from by name: those that release counts.
MECHANISMS = ("auto", "laplace", "gaussian", "fourier")


class PrivateNaiveBayes(ClassifierMixin, BaseEstimator):
    """A naive Bayes classifier of declared categorical and binned features, differentially private in its rows.

    ``fit`` counts, releases noisy counts once, and learns from the release alone; the features' levels, the labels
    and their order come from the declared domain, so nothing but the released counts depends on the rows.

    Args:
        domain: The declared levels of every feature and of the target; other columns of a table are not read, at
            ``fit`` or later. ``"infer"``, by name, reads it off the rows and warns that this leaks.
        epsilon: The budget of one fit, exact; a float means the decimal it prints as.
        mechanism: ``"laplace"`` (default), with a part of epsilon for the label's own counts where the features' tables
            would leave them unclear, at most 95 % and by public values alone; ``"fourier"``, ``"auto"`` for the one
            that ``privacy_cost`` recommends, or a mechanism value, whose own epsilon and delta are then what is spent
            (another ``epsilon`` beside it is refused).
        inference: ``"noise-aware"`` (default): the predictive probabilities average over what the true counts may be
            given the released ones. ``"plug-in"``: their expectation is treated as exact.
        prior: The Dirichlet concentration of every cell; of the labels alone where the counts are near their noise, and
            the size of each feature's effect is learned from the release (``posterior_.reason`` says so).
        budget: What to charge; shared by clones. The charges of several fits add, which covers rows that were chosen
            without looking at rows; splitters lose more: use ``cross_validate``. None makes a budget of exactly one
            fit each time.
        random_state: A seed or a Generator for the inference after the release; None is a fixed seed, so that equal
            releases give equal models. It never reaches the noise; plug-in inference draws nothing, and ignores it.
        unit: Whom to protect where ``budget`` is None; one replaced row by default.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, makes the fit reproducible and not private.
        progress: Whether ``fit`` shows a bar on a terminal: what share of a path's rows is counted.
        target: The declared variable that is predicted. None: of a table X the one declared variable that is not a
            column of X, of an array X the name of y, which must have one then.

    Attributes:
        classes_: The declared labels, in order.
        release_: The release of noisy counts, with its event and unit.
        privacy_cost_: What the fit cost.
        posterior_: The posterior of every table: ``PosteriorDraws``, or for plug-in inference Dirichlet laws. ``save``
            writes the model without it: save it by itself, and ``query_rows`` has the intervals of its predictions.
        model_: The fitted ``NaiveBayes``.
        unfinished_release: After a fit that was interrupted past its charge, what it released, to learn from for free;
            there is no model then.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"word": ["a", "b"] * 50, "spam": [0, 1] * 50})
    >>> domain = Domain.of({"word": ["a", "b"], "spam": [0, 1]})
    >>> model = PrivateNaiveBayes(domain, epsilon=5).fit(rows[["word"]], rows["spam"])
    >>> print(model.privacy_cost_)
    epsilon 5 (pure)
    """

    def __init__(
        self,
        domain: Domain | Any = None,
        epsilon: Number = 1.0,
        mechanism: Any = "laplace",
        inference: str = "noise-aware",
        prior: float = 1.0,
        budget: Budget | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
        unit: PrivacyUnit | None = None,
        noise: Noise | None = None,
        progress: bool = False,
        target: str | None = None,
    ) -> None:
        self.domain = domain
        self.epsilon = epsilon
        self.mechanism = mechanism
        self.inference = inference
        self.prior = prior
        self.budget = budget
        self.random_state = random_state
        self.unit = unit
        self.noise = noise
        self.progress = progress
        self.target = target

    def fit(self, X: Any, y: Any, *, person: Any = None) -> Self:
        """Charges the budget, releases noisy counts, and learns from them.

        An earlier fit stays as it was if nothing is charged; from the charge on nothing is fitted until all of it is.

        Args:
            X: The features, a DataFrame with declared columns, or an array of all declared variables but the target, in
                the domain's order. Or all declared columns where they lie, which are never loaded whole: the path of a
                CSV file, a Parquet file or a folder of Parquet files, the cursor of a query, or a pyspark or dask
                DataFrame.
            y: The labels, one a row, with no name or the target's; the name of their column where X holds them.
            person: Whose row each is, where one person may have several: a column of X, which is then no feature, or
                one id a row; the name of a column where X holds the labels too. As many rows of a person count as the
                unit protects; which, is chosen as ``count`` chooses. None leaves it to you that nobody has more.

        Raises:
            DomainError: If no domain is declared, the rows do not fit it, the target of an array is not said or y has
                another name than the target; nothing is charged.
            ReleaseError, BudgetExceededError: If a setting or the release is refused; nothing is charged.
            InferenceError: If there is no room for what is learned from it (``DPGRAPH_MEMORY``); nothing is charged.

        Warns:
            DomainWarning: If a variable has more than 1000 levels.
            SplitWarning: If the budget paid for a fit on other rows before; once for each budget.
        """
        return refit(self, lambda fresh, spend: fresh._learn(X, y, person, spend))

    def _learn(self, X: Any, y: Any, person: Any, spend: Spend) -> None:
        """Reads the rows, releases, and sets what is fitted."""
        if self.inference not in ("noise-aware", "plug-in"):
            raise ReleaseError(f'inference must be "noise-aware" or "plug-in"; got {self.inference!r}')
        check_prior(self.prior)
        self._check_mechanism()
        if holds_target(X, y, declared=not isinstance(self.domain, str)):
            rows, domain, target = X, self._declared("a path, a query or a table on a cluster"), named_column(y)
            if self.target is not None and target != self.target:
                raise DomainError(f"y names {target!r}, and the target is {self.target!r}")
            whose = person
        else:
            features, persons = without_persons(X, person)
            frame, labels = self._rows(features, y)
            domain, target = self._domain(frame, labels)
            rows, whose = with_persons(with_target(frame, target, labels.values), persons)
        warn_of_many_levels(domain, stacklevel=6)
        network = naive_bayes_network(domain, target)
        check_seed(self.random_state)
        self._check_room(network)
        mechanism = self._mechanism(network)
        counts = self._counts(rows, network, whose)
        budget = fit_budget(mechanism, self.budget, self.unit)
        if self.mechanism == "laplace" and isinstance(budget, Budget):
            n = counts.sensitive_rows if budget.unit.n_is_public else None
            mechanism = label_first(network, target, self.epsilon, budget.unit, n)
        warn_of_other_rows(budget, X)
        self.release_ = spend(counts, mechanism, budget, self.noise)
        self.privacy_cost_ = cost(self.release_)
        self.posterior_ = self._posterior(target)
        self.model_ = NaiveBayes(target, self.posterior_.mean())
        warn_if_drowned(self.release_.value, stacklevel=6)
        self.classes_ = np.array(domain.levels(target))
        if rows is X:
            keep_names(self, self.model_.features)

    def _counts(self, rows: Any, network: Network, person: Any) -> Counts:
        """The counts, of as many rows of each person as the unit protects where there is a column of persons."""
        cap = None if person is None else cap_for(person, self.budget, self.unit, self.noise)
        return count(rows, network, person=cap, progress=self.progress)

    def _check_room(self, network: Network) -> None:
        """Refuses what is learned from the release if there is no room for it, before any row is counted."""
        if self.inference == "plug-in":
            check_posterior(network)
        else:
            check_classifier(network, self.prior)

    def _posterior(self, target: str) -> Any:
        """What is learned from the release."""
        if self.inference == "plug-in":
            learned = plug_in_posterior(self.release_.value, prior=self.prior, counts="expected")
            return replace(learned, provenance=self.release_.provenance)
        seed = inference_seed(self.random_state)
        return classifier_posterior(self.release_, target, prior=self.prior, seed=seed)

    def predict_proba(self, X: Any, *, return_interval: bool = False, interval: float = 0.9) -> Any:
        """P(label | features), shape (rows, labels), columns in the order of ``classes_``.

        Args:
            X: The features; without intervals also the path of a CSV or Parquet file, or the cursor of a query. With
                intervals some of them are enough, as a table: what is not there is not observed.
            return_interval: Whether to return the ends of central intervals as well: of the posterior of each
                probability given the release, row by row.
            interval: The probability of those intervals.

        Returns:
            The probabilities; with intervals a tuple of the probabilities, their low ends and their high ends, each of
            shape (rows, labels). The probabilities are then predictive, over the draws of ``posterior_`` with the
            features that were given: near those without intervals, not the same to the last digit.

        Raises:
            DomainError: If the rows do not fit the domain.
            InferenceError: If the interval is not a probability.
        """
        check_is_fitted(self, "model_")
        if return_interval:
            found = self._answers(X, interval).values
            return found["predictive"], found["low"], found["high"]
        if is_unread(X):
            return self.model_.predict_proba(X)
        frame = self._features(X, reset=False)
        domain = self.model_.probabilities.network.domain.restrict(self.model_.features)
        return self.model_.predict_proba(encode(frame, domain).columns)

    def _answers(self, X: Any, interval: float) -> RowAnswers:
        """The posterior of P(label | features) for each row, from the features that are there."""
        domain, target = self.model_.probabilities.network.domain, self.model_.target
        features = self.model_.features
        there = [str(name) for name in getattr(X, "column_names", X.columns)] if is_table(X) else list(features)
        some = [name for name in features if name in there]
        if not some or (set(there) - set(features) and len(some) < len(features)):
            raise DomainError(
                f"X must hold all of the features, or some of them and no other column: {', '.join(features)}"
            )
        frame = self._features(X, reset=False) if len(some) == len(features) else table_frame(X)
        codes = encode(frame, domain.restrict(some)).columns
        if not len(codes[some[0]]):
            raise DomainError("there are no rows; give at least one")
        wide = {name: column.astype(np.int64) for name, column in codes.items()}
        return answers_of_codes(drawn_tables(self.posterior_), (target,), wide, interval)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable label of each row."""
        check_is_fitted(self, "model_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of rows whose label is predicted.

        The score of private rows is private: publish it only if it is charged for.

        Args:
            X: The features, as ``predict`` takes them; or rows that hold the target too, a table, a path or a cursor.
            y: The label of each row; left out, or its name, where X holds it.
            sample_weight: How much each row counts.

        Raises:
            DomainError: If the rows do not fit the model, or y does not fit them.
        """
        check_is_fitted(self, "model_")
        if named_in_rows(X, y, self.model_.target):
            truth, probabilities = class_probabilities(self.model_, X, None)
            return scored(accuracy_score, truth, probabilities.argmax(axis=1), sample_weight)
        labels = column_of(y, "y must be one column, a label for each row")
        return scored(accuracy_score, labels, self.predict(X), sample_weight)

    def _check_mechanism(self) -> None:
        """Refuses a mechanism or an epsilon that is none, before any row is read."""
        if isinstance(self.mechanism, str) and self.mechanism in MECHANISMS:
            exact(self.epsilon)
        elif not callable(getattr(self.mechanism, "randomise", None)):
            names = ", ".join(map(repr, MECHANISMS))
            raise ReleaseError(f"mechanism must be one of {names} or a mechanism value; got {self.mechanism!r}")
        else:
            one_epsilon(self.mechanism, self.epsilon)

    def _mechanism(self, network: Network) -> Any:
        """The mechanism value for this network."""
        if not isinstance(self.mechanism, str):
            return self.mechanism
        unit = getattr(self.budget, "unit", self.unit)
        return mechanism_named(self.mechanism, network, epsilon=self.epsilon, unit=unit)

    def _declared(self, rows: str) -> Domain:
        """The domain, declared; that of such rows cannot be read off them."""
        self._check_domain()
        if isinstance(self.domain, str):
            raise DomainError(
                f'domain must be a Domain for {rows}; "infer", by name, takes a table; got {self.domain!r}'
            )
        return Domain.of(self.domain)

    def _check_domain(self) -> None:
        """Refuses to go on without one."""
        if self.domain is None:
            raise DomainError(
                "PrivateNaiveBayes needs domain=..., the declared levels of every feature and of the target; "
                'domain="infer" reads them off the rows, which leaks'
            )
        if self.target is None or isinstance(self.domain, str):
            return
        names = Domain.of(self.domain).names
        if self.target not in names:
            raise DomainError(f"target must be a declared variable, one of {', '.join(names)}; got {self.target!r}")

    def _rows(self, X: Any, y: Any) -> tuple[Any, Any]:
        """The features as a frame, and the labels."""
        self._check_domain()
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        frame = self._features(X, reset=True, y=y)
        labels = self._labels(y)
        if len(labels) != len(frame):
            raise DomainError("X and y must have the same number of rows")
        return frame, _Labels(labels, y)

    def _labels(self, y: Any) -> npt.NDArray[Any]:
        """y as one column; with a declared domain encoding judges it, as scikit-learn's checks count labels aloud."""
        import pandas as pd

        infer = isinstance(self.domain, str)
        if not infer:
            return column_of(y, "y must be one column, a label for each row", strict=self._strict)
        labels = column_or_1d(y, warn=True)
        if pd.isna(np.asarray(labels, dtype=object)).any():
            raise DomainError("y holds nulls")
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        return labels

    def _features(self, X: Any, *, reset: bool, y: Any = None) -> Any:
        """X as a DataFrame whose columns are the features' names."""
        names = (lambda features: self._names(features, y)) if reset else (lambda _: list(self.model_.features))
        public = isinstance(self.domain, str)
        declared = None if public else Domain.of(self.domain).names if reset else self.model_.features
        return feature_frame(self, X, names, reset=reset, public=public, strict=self._strict, declared=declared)

    @property
    def _strict(self) -> bool:
        return bool(getattr(self.domain, "strict", False))

    def _names(self, features: int, y: Any) -> list[str]:
        """Names for the columns of an array: the declared variables in order, without the target."""
        if isinstance(self.domain, str):
            return [f"x{i}" for i in range(features)]
        names = Domain.of(self.domain).names
        target = self._said_target(names, y)
        if len(names) != features + 1:
            raise DomainError(f"X has {features} columns; the domain declares {len(names) - 1} features and a target")
        return [name for name in names if name != target]

    def _said_target(self, names: tuple[str, ...], y: Any) -> str:
        """The target of an array, whose columns have no names: the parameter, or the name of y."""
        if self.target is not None:
            return self.target
        if name_of(y) not in names:
            has = "has no name" if name_of(y) is None else "has a name that is not declared"
            raise DomainError(
                f"X is an array, whose columns have no names, and y {has}: say what is predicted, "
                f"PrivateNaiveBayes(domain, target=...), one of {', '.join(names)}"
            )
        return str(name_of(y))

    def _domain(self, frame: Any, labels: _Labels) -> tuple[Domain, str]:
        """The declared domain of the features and the target, and the target's name."""
        if isinstance(self.domain, str):
            return self._inferred(frame, labels)
        declared = Domain.of(self.domain)
        left = [name for name in declared.names if name not in frame.columns]
        if len(left) != 1:
            target = self.target or name_of(labels.y)
            absent = [name for name in left if name != target]
            found = (
                f"not in X: {', '.join(absent)}"
                if left
                else f"X holds them all, the target too{self._dropped(labels.y)}"
            )
            raise DomainError(f"every declared variable but the target must be a column of X; {found}")
        if self.target is not None and left[0] != self.target:
            raise DomainError(
                f"target is {self.target!r}, but the declared variable that X does not hold is {left[0]!r}"
            )
        check_target_name(labels.y, left[0])
        return declared, left[0]

    def _dropped(self, y: Any) -> str:
        """How to leave the target out of X."""
        target = self.target or name_of(y)
        return f": X.drop(columns={target!r})" if target else ""

    def _inferred(self, frame: Any, labels: _Labels) -> tuple[Domain, str]:
        if self.domain != "infer":
            raise DomainError(f'domain must be a Domain, or "infer" by name; got {self.domain!r}')
        warnings.warn(
            'domain="infer" reads levels, bins and labels off the rows: the result is not differentially private',
            PrivacyLeakWarning,
            stacklevel=7,
        )
        target = target_name(getattr(labels.y, "name", None), frame.columns) if self.target is None else self.target
        if target in frame.columns:
            raise DomainError(f"target is {target!r}, which is a column of X; leave it out of X")
        if self.target is not None:
            check_target_name(labels.y, target)
        variables = dict(domain_of_rows(frame).variables)
        variables |= {target: list(np.unique(labels.values))}
        return Domain.of(variables), target

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = False
        return tags


class _Labels:
    """Labels beside the column they are of; not an ndarray subclass, so that nothing of it travels on."""

    def __init__(self, values: npt.NDArray[Any], y: Any) -> None:
        self.values, self.y = values, y
