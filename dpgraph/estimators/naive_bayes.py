"""Naive Bayes with a scikit-learn face: counts, one release, then a classifier learned from the release alone."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dpgraph.estimators import fitting
from dpgraph.inference.arguments import check_above_zero
from dpgraph.inference.classifier.posterior import check_classifier, classifier_posterior
from dpgraph.inference.network.plug_in import check_posterior, plug_in_posterior
from dpgraph.mechanisms.additive.laplace import label_first
from dpgraph.models.naive_bayes import NaiveBayes, naive_bayes_network
from dpgraph.privacy.accounting import Budget, cost
from dpgraph.privacy.checks import near
from dpgraph.privacy.errors import PrivacyLeakWarning, ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Number, PrivacyUnit, Release, exact
from dpgraph.statistics.counts import Counts, count
from dpgraph.statistics.rows.codes import encode
from dpgraph.statistics.rows.features import is_unread
from dpgraph.structure.conversion import is_table
from dpgraph.structure.domain import Domain, DomainError, show_levels, warn_of_many_levels
from dpgraph.structure.network import Network

#: The mechanisms of counts that have a name.
MECHANISMS = ("auto", "laplace", "gaussian", "fourier")


class DeclaredClassifier(ClassifierMixin, BaseEstimator):
    """What classifiers of declared rows share: how rows are read, and predictions of a fitted ``model_``."""

    domain: Any
    target: str | None
    model_: Any
    classes_: npt.NDArray[Any]
    predict_proba: Any

    def _read_rows(self, X: Any, y: Any, person: Any) -> tuple[Any, Domain, str, str | None]:
        """Rows with the target, their domain, the target and the column of persons."""
        declared = self._declared()
        if fitting.holds_target(X, y, declared=declared is not None):
            if declared is None:
                raise DomainError(
                    "domain must be a Domain for a path, a query or a table on a cluster; "
                    f'"infer", by name, takes a table; got {self.domain!r}'
                )
            target = fitting.named_column(y)
            if self.target is not None and target != self.target:
                raise DomainError(f"y names {target!r}, and the target is {self.target!r}")
            _check_labels(declared, target)
            return X, declared, target, person
        public = declared is None
        settings: Any = {"public": public, "declared": None if declared is None else declared.names}
        settings["strict"] = declared is not None and declared.strict
        given = fitting.given_rows(
            self, X, y, person, lambda many: self._names(many, declared, y), public_y=public, **settings
        )
        domain, target = self._inferred(given, y) if declared is None else self._checked(declared, given, y)
        _check_labels(domain, target)
        rows, whose = given.rows(target)
        return rows, domain, target, whose

    def _declared(self) -> Domain | None:
        if self.domain is None:
            raise DomainError(
                f"{type(self).__name__} needs domain=..., the declared levels of every feature and of the target; "
                'domain="infer" reads them off the rows, which leaks'
            )
        if isinstance(self.domain, str):
            if self.domain != "infer":
                raise DomainError(f'domain must be a Domain, or "infer" by name; got {self.domain!r}')
            return None
        declared = Domain.of(self.domain)
        if self.target is not None and self.target not in declared.names:
            names, hint = ", ".join(declared.names), near(self.target, declared.names)
            raise DomainError(f"target must be a declared variable, one of {names}; got {self.target!r}{hint}")
        return declared

    def _names(self, features: int, declared: Domain | None, y: Any) -> list[str]:
        """Names for the columns of an array: the declared variables in order, without the target."""
        if declared is None:
            return [f"x{i}" for i in range(features)]
        names, target = declared.names, fitting.name_of(y) if self.target is None else self.target
        if target not in names:
            has = "has no name" if target is None else "has a name that is not declared"
            raise DomainError(
                f"X is an array, whose columns have no names, and y {has}: name the target, "
                f"{type(self).__name__}(domain, target=...), one of {', '.join(names)}"
            )
        named = tuple(name for name in names if name != target)
        if len(named) != features:
            raise DomainError(
                f"X has {features} columns, and the domain declares {len(named)} features and the target {target!r}: "
                f"an array holds the features alone, in the order of declaration, {show_levels(named)}"
            )
        return list(named)

    def _checked(self, declared: Domain, given: fitting.Given, y: Any) -> tuple[Domain, str]:
        left = [name for name in declared.names if name not in given.frame.columns]
        said = self.target or fitting.name_of(y)
        if len(left) != 1:
            absent = ", ".join(name for name in left if name != said)
            dropped = f": X.drop(columns={said!r})" if said else ""
            found = f"not in X: {absent}" if left else f"X holds them all, the target too{dropped}"
            raise DomainError(f"every declared variable but the target must be a column of X; {found}")
        if self.target is not None and left[0] != self.target:
            raise DomainError(
                f"target is {self.target!r}, but the declared variable that X does not hold is {left[0]!r}"
            )
        fitting.check_target_name(y, left[0])
        return declared, left[0]

    def _inferred(self, given: fitting.Given, y: Any) -> tuple[Domain, str]:
        from dpgraph.statistics.rows.features import domain_of_rows

        check_classification_targets(given.values)
        warnings.warn(
            'domain="infer" reads levels, bins and labels off the rows: the result is not differentially private',
            PrivacyLeakWarning,
            stacklevel=4,
        )
        columns = given.frame.columns
        target = fitting.target_name(getattr(y, "name", None), columns) if self.target is None else self.target
        if target in columns:
            raise DomainError(f"target is {target!r}, which is a column of X; leave it out of X")
        if self.target is not None:
            fitting.check_target_name(y, target)
        levels = {target: list(np.unique(given.values))}
        return Domain.of({**domain_of_rows(given.frame).variables, **levels}), target

    def _frame(self, X: Any) -> Any:
        features, public = self.model_.features, isinstance(self.domain, str)
        settings: Any = {"public": public, "declared": None if public else features}
        settings["strict"] = self.model_.network.domain.strict
        return fitting.feature_frame(self, X, lambda _: list(features), reset=False, **settings)

    def _probabilities(self, X: Any) -> Any:
        """P(label | features) of each row."""
        check_is_fitted(self, "model_")
        if is_unread(X):
            return self.model_.predict_proba(X)
        domain = self.model_.network.domain.restrict(self.model_.features)
        return self.model_.predict_proba(encode(self._frame(X), domain).columns)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The most probable label of each row."""
        check_is_fitted(self, "model_")
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """The share of rows whose label is predicted.

        The score of private rows is private: publish it only if it is charged for. X holds the target too where y is
        left out or names its column: a table, a path or a cursor.

        Raises:
            DomainError: If the rows do not fit the model, or y does not fit them.
        """
        check_is_fitted(self, "model_")
        if fitting.named_in_rows(X, y, self.model_.target):
            model = self.model_
            codes = dict(encode(X, model.network.domain.restrict((*model.features, model.target))).columns)
            truth = codes.pop(model.target)
            return fitting.scored(accuracy_score, truth, model.predict_proba(codes).argmax(axis=1), sample_weight)
        return fitting.scored(accuracy_score, fitting.column_of(y), self.predict(X), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = False
        return tags


def _check_labels(domain: Domain, target: str) -> None:
    """Refuses a target that is not observed in some rows: nulls would be one more label."""
    if target in domain.holes:
        raise DomainError(
            f"the labels {target!r} are declared unobserved, and a classifier learns of rows that have one: leave the "
            "others out before, or take dg.classifier of a network's posterior, which fills them"
        )


@dataclass(eq=False, repr=False)
class PrivateNaiveBayes(DeclaredClassifier):
    """A naive Bayes classifier of declared categorical and binned features, differentially private in its rows.

    ``fit`` counts, releases noisy counts once, and learns from the release alone; the features' levels, the labels
    and their order come from the declared domain, so nothing but the released counts depends on the rows.

    Args:
        domain: The declared levels of every feature and of the target; other columns of a table are not read.
            ``"infer"``, by name, reads it off the rows and warns that this leaks.
        epsilon: The budget of one fit, exact; a float means the decimal it prints as.
        mechanism: ``"laplace"`` (default), with a part of epsilon for the label's own counts where the features' tables
            would leave them unclear; ``"fourier"``; ``"auto"``, which ``privacy_cost`` recommends; or a mechanism
            value, whose own epsilon and delta are spent.
        inference: ``"noise-aware"`` (default) averages over what the true counts may be given the released ones;
            ``"plug-in"`` treats their expectation as exact.
        prior: The Dirichlet concentration of every cell; of the labels alone where the counts are near their noise, and
            the size of each feature's effect is learned from the release (``posterior_.reason`` says so).
        budget: The ``Budget`` to charge, shared by clones, whose charges add. That holds for rows chosen
            without looking at them; splitters lose more: use ``cross_validate``. None makes one for each fit.
        random_state: A seed or a Generator for the inference after the release, never for the noise; None is a fixed
            seed, so that equal releases give equal models.
        unit: Whom to protect where ``budget`` is None; one replaced row by default.
        noise: Leave it out. ``SeededNoise(seed)``, for tests and studies, makes the fit reproducible and not private.
        progress: True for a bar on a terminal during ``fit``.
        target: The declared variable to predict. None: for a table the one declared variable that is not a column of
            X, for an array the name of y.

    Attributes:
        classes_: The declared labels, in order.
        release_: The release of noisy counts, with its event and unit.
        privacy_cost_: The cost of the fit.
        posterior_: The posterior of every table, ``PosteriorDraws``, or for plug-in inference Dirichlet laws.
        model_: The fitted ``NaiveBayes``, which holds the posterior too; ``save`` writes both.
        unfinished_release: The release of a fit that was interrupted after its charge, to learn from for free.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"word": ["a", "b"] * 50, "spam": [0, 1] * 50})
    >>> domain = Domain.of({"word": ["a", "b"], "spam": [0, 1]})
    >>> model = PrivateNaiveBayes(domain, epsilon=5).fit(rows[["word"]], rows["spam"])
    >>> print(model.privacy_cost_)
    epsilon 5 (pure)
    """

    domain: Domain | Any = None
    epsilon: Number = 1.0
    mechanism: Any = "laplace"
    inference: str = "noise-aware"
    prior: float = 1.0
    budget: Budget | None = None
    random_state: int | np.random.Generator | np.random.RandomState | None = None
    unit: PrivacyUnit | None = None
    noise: Noise | None = None
    progress: bool = False
    target: str | None = None

    classes_: npt.NDArray[Any] = field(init=False)
    model_: NaiveBayes = field(init=False)
    release_: Any = field(init=False)
    privacy_cost_: Any = field(init=False)
    posterior_: Any = field(init=False)

    def fit(self, X: Any, y: Any, *, person: Any = None) -> Self:
        """Charges the budget, releases noisy counts, and learns from them.

        An earlier fit stays as it was if nothing is charged; from the charge on nothing is fitted until all of it is.

        Args:
            X: The features: a table with declared columns; or an array of all declared variables but the target, whose
                columns are read in the order of declaration, as nothing in it tells names. Or all declared columns
                where they lie, never loaded whole: the path of a CSV file, a Parquet file or a folder of them, the
                cursor of a query, or a pyspark or dask DataFrame.
            y: The labels, one a row, with no name or the target's; the name of their column where X holds them.
            person: Whose row each is, where one person may have several: a column of X, or one id a row. As many rows
                of a person count as the unit protects, chosen as ``count`` chooses. None leaves it to you that nobody
                has more.

        Raises:
            DomainError: If no domain is declared, the rows do not fit it, the target of an array is not said or y has
                another name than the target; nothing is charged.
            ReleaseError, BudgetExceededError: If a setting or the release is refused; nothing is charged.
            InferenceError: If memory is short for the posterior (``DPGRAPH_MEMORY``); nothing is charged.

        Warns:
            DomainWarning: If a variable has more than 1000 levels.
            SplitWarning: If the budget paid for a fit on other rows before; once for each budget.
            OwnBudgetWarning: At the second, fourth, eighth ... fit of the same variables without ``budget``.
            PrivacyLeakWarning: If an earlier step of a scikit-learn pipeline is fitted to the rows.
        """
        with fitting.Fit(self) as fit:
            new = fit.new
            new._check_settings()
            rows, domain, target, whose = new._read_rows(X, y, person)
            warn_of_many_levels(domain, stacklevel=3)
            network = naive_bayes_network(domain, target)
            if self.inference == "plug-in":
                check_posterior(network)
            else:
                check_classifier(network, self.prior)
            cap = fitting.cap_for(whose, self.budget, self.unit, self.noise)
            counts = count(rows, network, person=cap, progress=self.progress)
            released = fit.release(counts, new._planned(network, target, counts), X)
            if self.inference == "plug-in":
                learned = plug_in_posterior(released.value, prior=self.prior, counts="expected")
                new.posterior_ = replace(learned, provenance=released.provenance)
            else:
                seed = fitting.inference_seed(self.random_state)
                new.posterior_ = classifier_posterior(released, target, prior=self.prior, seed=seed)
            new.model_ = NaiveBayes(target, new.posterior_.mean(), new.posterior_)
            fitting.warn_if_drowned(released.value)
            new.classes_ = np.array(domain.levels(target))
            if rows is X:
                fitting.keep_names(new, new.model_.features)
        return self

    @classmethod
    def from_release(cls, release: Release[Any], target: str, *, prior: float = 1.0, random_state: Any = None) -> Self:
        """A fitted classifier of an existing release whose tables hold each variable with the target; free.

        ``prior`` and ``random_state`` are those of the class; refusals are those of ``NaiveBayes.from_release``.
        """
        settings: Any = {"prior": prior, "random_state": random_state, "unit": release.unit, "target": target}
        model = NaiveBayes.from_release(release, target, prior=prior, seed=fitting.inference_seed(random_state))
        new = cls(model.probabilities.network.domain, release.event.epsilon, **settings)
        new.release_, new.privacy_cost_ = release, cost(release)
        new.model_, new.posterior_, new.classes_ = model, model.posterior, model.classes_
        fitting.keep_names(new, model.features)
        return new

    def _check_settings(self) -> None:
        fitting.check_learning(self.inference, self.random_state)
        check_above_zero("prior", self.prior)
        if isinstance(self.mechanism, str) and self.mechanism in MECHANISMS:
            exact(self.epsilon)
        elif not callable(getattr(self.mechanism, "randomise", None)):
            names, hint = ", ".join(map(repr, MECHANISMS)), near(self.mechanism, MECHANISMS)
            raise ReleaseError(f"mechanism must be one of {names} or a mechanism value; got {self.mechanism!r}{hint}")
        else:
            fitting.one_epsilon(self.mechanism, self.epsilon)

    def _planned(self, network: Network, target: str, counts: Counts) -> Any:
        """The mechanism value, by public values alone: the number of rows counts where the unit makes it public."""
        unit = getattr(self.budget, "unit", self.unit) or PrivacyUnit()
        if not isinstance(self.mechanism, str):
            return self.mechanism
        if self.mechanism != "laplace":
            from dpgraph.analysis.candidates import mechanism_named

            return mechanism_named(self.mechanism, network, epsilon=self.epsilon, unit=unit)
        return label_first(network, target, self.epsilon, unit, counts.sensitive_rows if unit.n_is_public else None)

    def predict_proba(self, X: Any, *, return_interval: bool = False, interval: float = 0.9) -> Any:
        """P(label | features), shape (rows, labels), columns in the order of ``classes_``.

        Args:
            X: The features, or the path of a CSV or Parquet file, or the cursor of a query. With intervals a table may
                hold some of the features: the others count as not observed.
            return_interval: True to return central posterior intervals of each probability as well.
            interval: The probability of those intervals.

        Returns:
            The probabilities; with intervals a tuple of predictive probabilities, over the draws of ``posterior_``, of
            low ends and of high ends, each of shape (rows, labels).

        Raises:
            DomainError: If the rows do not fit the domain.
            InferenceError: If the interval is not a probability.
        """
        check_is_fitted(self, "model_")
        if not return_interval:
            return self._probabilities(X)
        names = {str(name) for name in getattr(X, "column_names", X.columns)} if is_table(X) else None
        some = names is not None and not set(self.model_.features) <= names
        frame = X if some or is_unread(X) else self._frame(X)
        return self.model_.predict_proba(frame, return_interval=True, interval=interval)
