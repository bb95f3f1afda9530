"""Predictions of a fitted linear regression: an average over draws of its weights and noise variance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from dpgraph.inference.arguments import tails
from dpgraph.inference.draws import mixing_note
from dpgraph.inference.regression.draws import RegressionDraws, scaled_columns
from dpgraph.privacy.display import DataFrame, data_frame
from dpgraph.privacy.records import Provenance
from dpgraph.structure.conversion import columns_to_predict, weighted
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.tables import Reals

#: Draws whose mixture an interval is of, rows taken at once, and halvings of the bracket of an end.
MIXED, BLOCK, HALVINGS = 400, 2048, 30
#: Variances of slopes that predictions choose from, over those of the prior, and the log evidence that slopes need.
SCALES, LEAST_EVIDENCE = np.geomspace(1e-3, 1.0, 41)[:, None], 2.0
#: Variances below this part of the largest, or of the prior's, are rounding.
ROUNDING = 1e-12
#: Coefficients that a model shows of itself.
SHOWN = 12


@dataclass(frozen=True)
class LinearRegressionModel:
    """A fitted linear regression.

    The predictive law of a row is the mixture over draws of normal laws about its weighted columns: it contains the
    noise variance and the uncertainty of the weights. Its mean goes through the target's average as its own released
    sum has it, with slopes drawn to 0 as far as noise covers them (``kept_slopes``); coefficients, and
    ``RegressionDraws.predict``, do neither. The target lies within its declared bounds, where values outside count as
    the nearer bound, so predictions and intervals are cut there.

    Attributes:
        draws: Draws from the posterior.
    """

    draws: RegressionDraws

    @property
    def design(self) -> LinearDesign:
        """The columns and the target, with their public bounds."""
        return self.draws.design

    @property
    def features(self) -> tuple[str, ...]:
        """The features, in order."""
        return tuple(self.draws.design.features)

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.draws.design.target

    @property
    def provenance(self) -> Provenance | None:
        """The release behind it."""
        return self.draws.provenance

    @property
    def intercept_(self) -> float:
        """The posterior mean of the intercept, in the target's units."""
        return float(self.coefficients()["mean"].iloc[0])

    @property
    def coef_(self) -> Reals:
        """The posterior mean of each coefficient, in the units of the rows."""
        return self.coefficients()["mean"].to_numpy()[1:]

    def coefficients(self, probability: float = 0.9) -> DataFrame:
        """The posterior of the intercept and each coefficient, as ``RegressionDraws.coefficients`` has it."""
        return self.draws.coefficients(probability)

    @cached_property
    def _weights(self) -> Reals:
        """The draws for predictions: all moved alike, so that their mean is the line that predicts.

        The prior is wide, for intervals: where the target fills little of its bounds, slopes are mostly noise and the
        average prediction gives way to a residual variance that the prior does not allow.
        """
        weights, averages, prior = self.draws.weights, self.draws.averages, self.draws.prior_covariance
        if averages is None or prior is None or len(weights) <= weights.shape[1]:
            return weights
        mean, spread = weights.mean(axis=0), np.cov(weights.T)
        slopes = kept_slopes(mean[1:], spread[1:, 1:], prior[1:, 1:])
        return weights - mean + np.append(averages[-1] - averages[1:-1] @ slopes, slopes)

    @cached_property
    def _few(self) -> tuple[Reals, Reals]:
        """Weights and deviations of draws that are far apart."""
        count = len(self.draws.variance)
        at = np.unique(np.linspace(0, count - 1, min(count, MIXED)).round().astype(np.intp))
        return self._weights[at], np.sqrt(self.draws.variance[at])

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean of each row, and its standard deviation where asked for, in the target's units.

        Args:
            X: A table, of which the features are read, the path of a CSV or Parquet file, or an array with the features
                in order as its columns; or a mapping, for each feature an array: numbers, or of a feature with levels
                the codes of these.
            return_std: True for the predictive standard deviation as well, beside the mean.

        Raises:
            DomainError: If a feature is missing, does not fit its declaration, or holds nulls of no declared meaning.
        """
        columns = scaled_columns(self.draws.design, X)
        mean = self._in_units(weighted(columns, self._weights.mean(axis=0)))
        if not return_std:
            return mean
        weights = self.draws.weights - self.draws.weights.mean(axis=0)  # before any cut at the bounds
        spread = weights.T @ weights / len(weights)
        variance = np.einsum("ij,jk,ik->i", columns, spread, columns) + self.draws.variance.mean()
        return mean, np.sqrt(variance) * self.draws.design.bounds.half

    def predict_interval(self, X: Any, probability: float = 0.9) -> Reals:
        """The central predictive interval of each row, shape (rows, 2), in the target's units.

        Raises:
            InferenceError: If the probability is not between 0 and 1, or as ``predict``.
        """
        ends = tails(probability)
        columns = scaled_columns(self.draws.design, X)
        blocks = (columns[start : start + BLOCK] for start in range(0, len(columns), BLOCK))
        parts = [np.stack([self._quantile(part, end) for end in ends], axis=1) for part in blocks]
        return self._in_units(np.concatenate(parts) if parts else np.empty((0, 2)))

    def __repr__(self) -> str:
        draws = self.draws
        note = mixing_note(draws.diagnostics)
        kind = f"{len(self.features)} features, {len(draws)} draws, method={draws.method!r}{note and f'; {note}'}"
        table = draws.coefficients()[["mean", "lower", "upper"]]
        more = f"\n... ({len(table)} coefficients)" if len(table) > SHOWN else ""
        shown = table.head(SHOWN).map("{:.4g}".format).to_string()
        return f"LinearRegressionModel({self.target!r}, {kind})\n{shown}{more}"

    def frame(self, X: Any, probability: float = 0.9) -> DataFrame:
        """For each row prediction, std, lower and upper."""
        values = columns_to_predict(X, self.draws.design)
        low, high = self.predict_interval(values, probability).T
        mean, deviation = self.predict(values, return_std=True)
        return data_frame({"prediction": mean, "std": deviation, "lower": low, "upper": high})

    def _quantile(self, columns: Reals, probability: float) -> Reals:
        """The quantile of each row's mixture, scaled, by halving a bracket that holds that of every draw."""
        weights, deviation = self._few
        means = columns @ weights.T
        each = means + deviation * ndtri(probability)
        low, high = each.min(axis=1), each.max(axis=1)
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            below = ndtr((middle[:, None] - means) / deviation).mean(axis=1) < probability
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return (low + high) / 2

    def _in_units(self, scaled: Reals) -> Reals:
        bounds = self.draws.design.bounds
        return bounds.middle + bounds.half * np.clip(scaled, -1.0, 1.0)


def kept_slopes(mean: Reals, covariance: Reals, prior: Reals) -> Reals:
    """Slopes for predictions: the posterior mean under a narrower prior, of g times the covariance, or no slopes.

    With normal laws and h the posterior variance along a direction over that of the prior, the narrower prior leaves
    g / (h + g (1 - h)) of the mean, and the evidence for g over no slopes is known too (proofs.md P132). The g of the
    highest evidence is taken, at most 1 (empirical Bayes); where its log evidence is below 2, slopes are 0.
    Posteriors with heavy tails may be wider than the prior; h counts as 1 there.

    Args:
        mean: Of the posterior, shape (slopes,).
        covariance: Of the posterior, shape (slopes, slopes).
        prior: The prior covariance, shape (slopes, slopes). A g-prior's is the inverse of the columns' own, so that one
            unit of any direction is as large an error of predictions.
    """
    square, axes = np.linalg.eigh(prior)
    deviation = np.sqrt(np.maximum(square, ROUNDING * square[-1]))
    to_prior, from_prior = (axes / deviation).T, axes * deviation  # in units of which the prior covariance is 1
    variance, basis = np.linalg.eigh(to_prior @ covariance @ to_prior.T)
    along, variance = basis.T @ to_prior @ mean, np.maximum(variance, ROUNDING)
    share = np.minimum(variance, 1.0)
    kept = SCALES / (share + SCALES * (1.0 - share))
    evidence = (along**2 / variance * kept + np.log(share * kept / SCALES)).sum(axis=1) / 2
    best = evidence.argmax()
    return from_prior @ basis @ (kept[best] * along) if evidence[best] > LEAST_EVIDENCE else np.zeros_like(mean)
