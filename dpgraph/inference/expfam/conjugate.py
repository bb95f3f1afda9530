"""Conjugate updates of exponential families, and their priors on the real line, for many problems at once."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.structure.expfam import (
    BetaPrior,
    Binomial,
    DirichletPrior,
    ExponentialFamily,
    Gamma,
    GammaPrior,
    Multinomial,
    Natural,
    NaturalPrior,
    Normal,
    NormalInverseGammaPrior,
    NormalPrior,
    Prior,
)
from dpgraph.structure.tables import Reals


def sums_are_possible(family: ExponentialFamily, sums: Reals, n: Reals) -> npt.NDArray[np.bool_]:
    """Tests sums, shape (B, d), for being possible of n records, shape (B,)."""
    match family:
        case Binomial():
            return (sums[:, 0] >= 0) & (sums[:, 0] <= n * family.trials)
        case Multinomial():
            return (sums >= 0).all(axis=1)
        case Normal(variance=None):
            return sums[:, 1] * n >= sums[:, 0] ** 2
        case Normal():
            return np.ones(len(sums), bool)
        case _:
            return sums[:, 0] >= 0


def nearest_possible_sums(family: ExponentialFamily, sums: Reals, n: Reals) -> Reals:
    """The nearest possible sums, as the plug-in posterior takes noisy ones."""
    match family:
        case Binomial():
            return np.clip(sums, 0, (n * family.trials)[:, None])
        case Multinomial():
            positive = np.maximum(sums, 0.0)
            total = positive.sum(axis=1, keepdims=True)
            even = np.full_like(positive, 1 / positive.shape[1])
            return np.where(total > 0, positive / np.where(total > 0, total, 1.0), even) * n[:, None]
        case Normal(variance=None):
            return np.stack([sums[:, 0], np.maximum(sums[:, 1], sums[:, 0] ** 2 / np.maximum(n, 1.0))], axis=1)
        case Normal() | Natural():
            return sums
        case _:
            return np.maximum(sums, 0.0)


def draw_conjugate(family: ExponentialFamily, prior: Prior, sums: Reals, n: Reals, rng: np.random.Generator) -> Reals:
    """One draw of the parameters for each problem, given exact sums (B, d) of n (B,) records; shape (B, parameters)."""
    match prior:
        case BetaPrior(alpha=alpha, beta=beta) if isinstance(family, Binomial):
            return rng.beta(alpha + sums[:, 0], beta + n * family.trials - sums[:, 0])[:, None]
        case DirichletPrior(concentration=concentration):
            return dirichlet_draws(np.array(concentration) + sums, rng)
        case GammaPrior(shape=shape, rate=rate) if isinstance(family, Gamma) or hasattr(family, "shape"):
            known = float(getattr(family, "shape"))  # noqa: B009
            return (rng.standard_gamma(shape + n * known) / (rate + sums[:, 0]))[:, None]
        case GammaPrior(shape=shape, rate=rate):
            return (rng.standard_gamma(shape + sums[:, 0]) / (rate + n))[:, None]
        case NormalPrior(mean=mean, variance=variance) if isinstance(family, Normal) and family.variance is not None:
            precision = 1 / variance + n / family.variance
            centre = (mean / variance + sums[:, 0] / family.variance) / precision
            return (centre + rng.standard_normal(len(sums)) / np.sqrt(precision))[:, None]
        case NormalInverseGammaPrior():
            return _normal_inverse_gamma(prior, sums, n, rng)
    raise TypeError(f"no conjugate draw for {type(family).__name__}")


def _normal_inverse_gamma(prior: NormalInverseGammaPrior, sums: Reals, n: Reals, rng: np.random.Generator) -> Reals:
    """Variance, then mean given it."""
    records = prior.records + n
    centre = (prior.records * prior.mean + sums[:, 0]) / records
    spread = sums[:, 1] + prior.records * prior.mean**2 - records * centre**2
    rate = prior.rate + np.maximum(spread, 0.0) / 2
    variance = rate / rng.standard_gamma(prior.shape + n / 2)
    mean = centre + rng.standard_normal(len(n)) * np.sqrt(variance / records)
    return np.stack([mean, variance], axis=1)


def to_line(prior: Prior, theta: Reals) -> Reals:
    """Unconstrained coordinates of parameters: logit, log ratios to the last category, or log."""
    match prior:
        case BetaPrior():
            return np.log(theta) - np.log1p(-theta)
        case DirichletPrior():
            log = np.log(np.maximum(theta, 1e-300))
            return log[:, :-1] - log[:, -1:]
        case GammaPrior():
            return np.log(theta)
        case NormalInverseGammaPrior():
            return np.stack([theta[:, 0], np.log(theta[:, 1])], axis=1)
    return theta


def from_line(prior: Prior, line: Reals) -> Reals:
    """The parameters at unconstrained coordinates."""
    match prior:
        case BetaPrior():
            return 1 / (1 + np.exp(-np.clip(line, -36, 36)))
        case DirichletPrior():
            full = np.concatenate([line, np.zeros((len(line), 1))], axis=1)
            weight = np.exp(full - full.max(axis=1, keepdims=True))
            return weight / weight.sum(axis=1, keepdims=True)
        case GammaPrior():
            return np.exp(np.clip(line, -300, 300))
        case NormalInverseGammaPrior():
            return np.stack([line[:, 0], np.exp(np.clip(line[:, 1], -300, 300))], axis=1)
    return line


def log_prior(family: ExponentialFamily, prior: Prior, theta: Reals) -> Reals:
    """The log prior density of the unconstrained coordinates, up to a constant, shape (B,)."""
    match prior:
        case BetaPrior(alpha=alpha, beta=beta):
            return alpha * np.log(theta[:, 0]) + beta * np.log1p(-theta[:, 0])
        case DirichletPrior(concentration=concentration):
            return np.log(np.maximum(theta, 1e-300)) @ np.array(concentration)
        case GammaPrior(shape=shape, rate=rate):
            return shape * np.log(theta[:, 0]) - rate * theta[:, 0]
        case NormalPrior(mean=mean, variance=variance):
            return -((theta[:, 0] - mean) ** 2) / (2 * variance)
        case NormalInverseGammaPrior():
            mean, variance = theta[:, 0], theta[:, 1]
            about = prior.rate + prior.records * (mean - prior.mean) ** 2 / 2
            return -(prior.shape + 0.5) * np.log(variance) - about / variance
        case NaturalPrior(statistics=statistics, records=records) if isinstance(family, Natural):
            return theta @ np.array(statistics) - records * family.log_partition(theta)
    raise TypeError(f"no prior density for {type(family).__name__}")
