"""Linear regression with a scikit-learn face: sums of products, one release, and a posterior from that alone."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted

from dpgraph.estimators import fitting
from dpgraph.inference.posterior import posterior
from dpgraph.inference.regression.draws import RegressionDraws
from dpgraph.inference.regression.prior import RegressionPrior
from dpgraph.mechanisms.additive.laplace import LaplaceMechanism
from dpgraph.models.regression import LinearRegressionModel
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.checks import Reals, check_whole
from dpgraph.privacy.display import DataFrame
from dpgraph.privacy.errors import PrivacyLeakWarning, ReleaseError
from dpgraph.privacy.noise import Noise
from dpgraph.privacy.records import Number, PrivacyUnit, exact
from dpgraph.statistics.moments import regression_moments
from dpgraph.statistics.rows.features import is_unread, judged_columns, regression_features
from dpgraph.structure.design import LinearDesign, bounds_of, feature_of
from dpgraph.structure.domain import DomainError, NetworkError
from dpgraph.structure.frozen import FrozenMap


@dataclass(eq=False, repr=False)
class PrivateLinearRegression(RegressorMixin, BaseEstimator):
    """Linear regression on declared bounds and levels, differentially private in its rows.

    ``fit`` sums the products of the columns, scaled so that their bounds are -1 and 1, releases the noisy sums once,
    and learns from the release alone. Values outside the bounds count as the nearer bound.

    ``epsilon``, ``budget``, ``unit``, ``random_state``, ``noise`` and ``progress`` are those of ``PrivateNaiveBayes``.

    Args:
        bounds_X: For each feature public bounds (low, high), a list of levels, ``Categories`` or ``Bins``: a mapping by
            name (other columns of a table are not read then), or a list in the order of the columns. ``"infer"``, by
            name, reads bounds off the rows and warns that this leaks. Or a ``LinearDesign``; ``bounds_y``,
            ``fit_intercept`` and ``strict`` are then its own.
        bounds_y: The target's public bounds (low, high), or ``"infer"``.
        mechanism: ``"laplace"`` (default), or a mechanism value, whose own epsilon and delta are spent. One that
            releases weights in place of sums, such as ``dg.papers.RegressionSample``, has no intervals.
        inference: ``"noise-aware"`` (default): the true sums are unknown, and where noise drowns them this falls back
            to the prior. ``"plug-in"``: the nearest possible sums are taken for true.
        prior: A ``RegressionPrior``, whose ``typical=`` is a typical value of the target; None is a weak one.
        fit_intercept: True for an intercept.
        draws: Draws from the posterior.
        strict: True to accept only declarations under which no row can refuse a table, as in ``LinearDesign``.

    Attributes:
        coef_: The mean of each coefficient, in the units of the rows; a feature of levels has one for each but the
            first. ``coefficients_`` names them.
        intercept_: The mean of the intercept, in the target's units.
        coefficients_: A DataFrame of means, deviations, 90 % credible intervals, and how much of each posterior is
            ``prior``, 0 to 1; of sampled weights the mean alone.
        design_: The columns.
        release_, privacy_cost_, unfinished_release: As of ``PrivateNaiveBayes``.
        posterior_: ``RegressionDraws`` of weights and noise variance; not there with sampled weights.
        diagnostics_: The chains' worst R-hat and least effective size; empty with sampled weights.
        model_: The fitted ``LinearRegressionModel``, or the mechanism's own model, which ``save`` writes.

    >>> import pandas as pd
    >>> rows = pd.DataFrame({"age": [20.0, 40.0, 60.0] * 500, "height": [170.0, 172.0, 174.0] * 500})
    >>> model = PrivateLinearRegression({"age": (0, 100)}, (140, 200), epsilon=2, draws=200)
    >>> print(model.fit(rows[["age"]], rows["height"]).privacy_cost_)
    epsilon 2 (pure)
    >>> model.predict(rows[["age"]].head(3)).shape
    (3,)
    """

    bounds_X: Any = None
    bounds_y: Any = None
    epsilon: Number = 1.0
    mechanism: Any = "laplace"
    inference: str = "noise-aware"
    prior: RegressionPrior | None = None
    fit_intercept: bool = True
    draws: int = 2000
    budget: Budget | None = None
    random_state: int | np.random.Generator | np.random.RandomState | None = None
    unit: PrivacyUnit | None = None
    noise: Noise | None = None
    strict: bool = False
    progress: bool = False

    model_: Any = field(init=False)
    design_: LinearDesign = field(init=False)

    def fit(self, X: Any, y: Any, *, person: Any = None) -> Self:
        """Charges the budget, releases noisy sums of products, and learns from them.

        An earlier fit stays as it was if nothing is charged; from the charge on nothing is fitted until all of it is.

        Args:
            X: The features: a table with declared columns, or an array in their order. Or all declared columns where
                they lie, as ``PrivateNaiveBayes.fit`` takes them; ``bounds_X`` is then by name, or a ``LinearDesign``.
            y: The target, one number a row; the name of its column where X holds it. Beside a ``LinearDesign`` it has
                no name or that of the design's target.
            person: Whose row each is, as for ``PrivateNaiveBayes.fit``.

        Raises:
            DomainError: If bounds are missing or the rows do not fit them, or y has the name of a feature; nothing is
                charged.
            ReleaseError, BudgetExceededError: If a setting or the release is refused; nothing is charged.
        """
        with fitting.Fit(self) as fit:
            new = fit.new
            mechanism = new._checked_mechanism()
            rows, design, whose = new._read_design(X, y, person)
            prior = RegressionPrior() if self.prior is None else self.prior
            prior.centre(design)
            cap = fitting.cap_for(whose, self.budget, self.unit, self.noise)
            moments = regression_moments(rows, design, person=cap, progress=self.progress)
            released = fit.release(moments, mechanism, X)
            if callable(getattr(mechanism, "model_of", None)):
                new.model_, new.diagnostics_ = mechanism.model_of(released), FrozenMap(())
                new.design_, new.coefficients_ = new.model_.design, new.model_.coefficients()
            else:
                settings: Any = {"method": "plug-in" if self.inference == "plug-in" else "auto", "draws": self.draws}
                settings |= {"seed": fitting.inference_seed(self.random_state), "progress": self.progress}
                learned = posterior(released, prior=prior, **settings)
                assert isinstance(learned, RegressionDraws)
                new.posterior_, new.design_, new.diagnostics_ = learned, learned.design, learned.diagnostics
                new.model_, new.coefficients_ = LinearRegressionModel(learned), learned.coefficients()
            means = new.coefficients_["mean"].to_numpy()
            new.intercept_, new.coef_ = float(means[0]), means[1:]
            if rows is X:
                fitting.keep_names(new, design.features)
        return self

    def _read_design(self, X: Any, y: Any, person: Any) -> tuple[Any, LinearDesign, str | None]:
        """Rows with the target, their design, and the column of persons."""
        declared, intercept = DeclaredBounds(self.bounds_X, self.bounds_y), bool(self.fit_intercept)
        if fitting.holds_target(X, y, declared=declared.by_name is not None):
            return X, declared.design_in_place(fitting.named_column(y), intercept, self.strict), person
        settings: Any = {"strict": self.strict, "declared": declared.by_name, "public": isinstance(self.bounds_X, str)}
        given = fitting.given_rows(self, X, y, person, declared.names, public_y=declared.infer, **settings)
        frame, name = given.frame, getattr(y, "name", None)
        declared.check_count(frame.shape[1])
        if isinstance(self.bounds_X, LinearDesign):
            fitting.check_target_name(y, self.bounds_X.target)
        elif isinstance(name, str) and name in frame.columns:
            raise DomainError(
                f"y is {name!r}, which is a feature as well, and would predict itself: leave it out of bounds_X and of "
                f"X, X.drop(columns={name!r}); of another column of that name give y.rename(...)"
            )
        values = given.values.astype(np.float64) if declared.infer else given.values
        design = declared.design(frame, (fitting.target_name(name, frame.columns), values), intercept, self.strict)
        rows, whose = given.rows(design.target)
        return rows, design, whose

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean of each row, and its standard deviation where asked for, in the target's units.

        The line goes through the target's released average; slopes for which the release has little evidence count
        less than in ``coef_``, which has their posterior mean, or not at all.

        Raises:
            ReleaseError: If a deviation is asked of sampled weights.
        """
        check_is_fitted(self, "model_")
        if return_std:
            return self._predictive("return_std=True").predict(self._values(X), return_std=True)
        return self.model_.predict(self._values(X))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """R squared of the predictions.

        The score of private rows is private: publish it only if it is charged for. X holds the target too where y is
        left out or names its column: a table, a path or a cursor.

        Raises:
            DomainError: If the rows do not fit the model, or y does not fit them.
        """
        check_is_fitted(self, "model_")
        if fitting.named_in_rows(X, y, self.design_.target):
            read, kept = judged_columns(X, self.design_)
            truth = read.pop(self.design_.target)
            return fitting.scored(r2_score, truth[kept], self.model_.predict(read)[kept], sample_weight)
        return fitting.scored(r2_score, fitting.column_of(y), self.predict(X), sample_weight)

    def predict_interval(self, X: Any, probability: float = 0.9) -> Reals:
        """The central predictive interval of each row, shape (rows, 2), in the target's units.

        Raises:
            ReleaseError: If the weights were sampled.
        """
        return self._predictive("predict_interval").predict_interval(self._values(X), probability)

    def coef_interval(self, probability: float = 0.9) -> DataFrame:
        """The central credible interval of the intercept and of each coefficient: columns lower and upper.

        Raises:
            ReleaseError: If the weights were sampled.
        """
        return self._predictive("coef_interval").draws.coefficients(probability)[["lower", "upper"]]

    def _predictive(self, asked: str) -> Any:
        check_is_fitted(self, "model_")
        if not isinstance(self.model_, LinearRegressionModel):
            raise ReleaseError(
                f"{asked} needs a posterior: sampled weights spread as epsilon demands, and tell of no residual "
                'variance; use mechanism="laplace"'
            )
        return self.model_

    def _checked_mechanism(self) -> Any:
        """The mechanism; refuses bad settings before any row is read."""
        fitting.check_learning(self.inference, self.random_state)
        if self.prior is not None and not isinstance(self.prior, RegressionPrior):
            raise ReleaseError(f"prior must be a RegressionPrior; got {self.prior!r}")
        check_whole("draws", self.draws)
        if isinstance(self.mechanism, str) and self.mechanism == "laplace":
            return LaplaceMechanism(exact(self.epsilon))
        if self.prior is not None and callable(getattr(self.mechanism, "model_of", None)):
            raise ReleaseError("prior is for noisy sums; that of sampled weights is RegressionSample(precision=...)")
        if callable(getattr(self.mechanism, "randomise", None)):
            fitting.one_epsilon(self.mechanism, self.epsilon)
            return self.mechanism
        raise ReleaseError(f'mechanism must be "laplace" or a mechanism value; got {self.mechanism!r}')

    def _values(self, X: Any) -> dict[str, Any]:
        if is_unread(X):
            return regression_features(X, self.design_)
        names, public = list(self.design_.features), isinstance(self.bounds_X, str)
        named = None if DeclaredBounds(self.bounds_X, self.bounds_y).by_name is None else names
        settings: Any = {"public": public, "strict": self.strict, "declared": named}
        frame = fitting.feature_frame(self, X, lambda _: names, reset=False, **settings)
        absent = [name for name in names if name not in frame.columns]
        if absent:
            raise DomainError(f"no column {', '.join(map(repr, absent))}")
        return regression_features(frame, self.design_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        return tags


@dataclass(frozen=True)
class DeclaredBounds:
    """``bounds_X`` and ``bounds_y`` as an estimator was given them."""

    bounds_X: Any
    bounds_y: Any

    def __post_init__(self) -> None:
        if isinstance(self.bounds_X, LinearDesign):
            if self.bounds_y is not None:
                raise DomainError("bounds_X is a LinearDesign, which declares the target's bounds; leave bounds_y out")
            return
        for name in ("bounds_X", "bounds_y"):
            if getattr(self, name) is None:
                raise DomainError(
                    f"PrivateLinearRegression needs {name}=..., public bounds or levels; they are never read off the "
                    f'rows, unless {name}="infer" says so by name, which leaks'
                )

    @property
    def infer(self) -> bool:
        """True if bounds are read off the rows, which are then public."""
        return any(isinstance(bounds, str) and bounds == "infer" for bounds in (self.bounds_X, self.bounds_y))

    def names(self, features: int) -> list[str]:
        """Names for the columns of an array."""
        self.check_count(features, arrays=True)
        return [f"x{i}" for i in range(features)] if self.by_name is None else list(self.by_name)

    @property
    def by_name(self) -> Mapping[str, Any] | None:
        """The columns of a table that are read, as declared by name; None for all of them."""
        declared = self.bounds_X.features if isinstance(self.bounds_X, LinearDesign) else self.bounds_X
        return declared if isinstance(declared, Mapping) else None

    def check_count(self, features: int, *, arrays: bool = False) -> None:
        """Refuses another number of columns than a list declares, or of an array's than a mapping does."""
        by_name = self.by_name
        if isinstance(self.bounds_X, str) or (by_name is not None and not arrays):
            return
        try:
            declared = len(self.bounds_X if by_name is None else by_name)
        except TypeError:
            raise DomainError(f"bounds_X must be a mapping or a list of bounds; got {self.bounds_X!r}") from None
        if declared != features:
            raise DomainError(
                f"X has {features} columns, and bounds_X declares {declared}: give the features alone, without the "
                "target, in the order of bounds_X"
            )

    def design(
        self, frame: DataFrame, target: tuple[str, npt.NDArray[Any]], intercept: bool, strict: bool = False
    ) -> LinearDesign:
        """The design of the declared columns."""
        features, bounds = self._features(frame), self.bounds_y
        if isinstance(self.bounds_X, LinearDesign):
            return self.bounds_X
        if isinstance(bounds, str):
            bounds = self._read_off({target[0]: target[1]}, "bounds_y")[target[0]]
        try:
            return LinearDesign(features, target[0], bounds, intercept=intercept, strict=strict)
        except NetworkError as error:
            raise DomainError(str(error)) from None

    def design_in_place(self, target: str, intercept: bool, strict: bool = False) -> LinearDesign:
        """The design of rows that stay where they lie, so that nothing is read off them."""
        if isinstance(self.bounds_X, LinearDesign):
            if self.bounds_X.target != target:
                raise DomainError(f"y is {target!r}, and the design predicts {self.bounds_X.target!r}")
            return self.bounds_X
        by_name = self.by_name
        if by_name is None or isinstance(self.bounds_y, str):
            raise DomainError(
                "rows in a file, of a query or on a cluster need bounds_X by name and the target's bounds_y"
            )
        features = {name: value for name, value in by_name.items() if name != target}
        try:
            if target in by_name and feature_of(target, by_name[target]) != bounds_of(target, self.bounds_y):
                raise DomainError(
                    f"y names {target!r}, which bounds_X declares otherwise than bounds_y: name the column to predict, "
                    "and leave it out of bounds_X"
                )
            return LinearDesign(features, target, self.bounds_y, intercept=intercept, strict=strict)
        except NetworkError as error:
            raise DomainError(str(error)) from None

    def _features(self, frame: DataFrame) -> dict[str, Any]:
        declared = self.by_name or self.bounds_X
        if isinstance(declared, str):
            return self._read_off({name: frame[name].to_numpy() for name in frame.columns}, "bounds_X")
        if isinstance(declared, Mapping):
            absent = [name for name in declared if name not in frame.columns]
            if absent:
                raise DomainError(f"X has no column {', '.join(map(repr, absent))}, which bounds_X declares")
            return dict(declared)
        return dict(zip(frame.columns, declared, strict=True))

    def _read_off(self, columns: Mapping[str, npt.NDArray[Any]], name: str) -> dict[str, tuple[float, float]]:
        """The least and the largest value of each column; a leak, asked for by name."""
        if getattr(self, name) != "infer":
            raise DomainError(f'{name} must hold bounds or levels, or be "infer" by name; got {getattr(self, name)!r}')
        warnings.warn(
            f'{name}="infer" reads bounds off the rows: the result is not differentially private',
            PrivacyLeakWarning,
            stacklevel=6,  # past design, PrivateLinearRegression's reading and fit
        )
        ends = {column: (float(np.min(v)), float(np.max(v))) for column, v in columns.items()}
        return {column: (low, high if high > low else low + 1.0) for column, (low, high) in ends.items()}
