"""Gibbs sampling of parameters given noisy sums of statistics, for many problems at once.

Bernstein and Sheldon 2018, Algorithms 1 (bounded statistics) and 2-3 (records outside public bounds contribute 0), in
a corrected form: the sums within and outside the bounds are jointly normal, where the paper treats the regions as
independent, which makes the total up to 1.2 times too uncertain (proofs.md P59). For comparison ``form="coded"`` is the
paper as its authors coded it, and ``"printed"`` also draws the sum within the bounds without looking at y (line 10).
Gibbs is slow where noise is large, as sums follow the parameters only a step of sqrt(n) at a time; so the corrected
form also moves the parameters by random-walk Metropolis with the sums integrated out: y is normal given the noise
variances.

Conjugate updates and moments are for many problems at once. Priors are also given on the real line. Moments are for the
random-sum central limit theorem: P(x in [low, high]), E[t(x); x in it] and E[t(x) t(x)'; x in it], not divided by the
probability, in closed form and by quadrature for families of one's own. These are the q, q mu and q (Sigma + mu mu') of
Proposition 1 and Algorithm 3, whose lines 2 and 4 are misprinted (proofs.md P59).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dpgraph.inference.chains import Plan, run_chains
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.structure.expfam import (
    BetaPrior,
    Binomial,
    DirichletPrior,
    Exponential,
    ExponentialFamily,
    Gamma,
    GammaPrior,
    Multinomial,
    Natural,
    NaturalPrior,
    Normal,
    NormalInverseGammaPrior,
    NormalPrior,
    Poisson,
    Prior,
)
from dpgraph.structure.tables import Reals

Form = Literal["corrected", "coded", "printed"]

#: Redraws of sums that no records could have, before they are projected.
REDRAWS = 20
#: The share of proposals that the random walk aims to accept.
ACCEPTED = 0.35
#: The share of proposals from the prior: redacted records can make the posterior have two modes, far apart.
FAR = 0.25


@dataclass(frozen=True)
class Problems:
    """B problems of one family: noisy sums ``y`` and noise scales ``scale`` (B, d), public n (B,) or noisy n.

    Where n is private ``n`` is its noisy value and ``n_scale`` the scale of that noise; else ``n_scale`` is None.
    """

    family: ExponentialFamily
    prior: Prior
    bounds: tuple[float, float] | None
    y: Reals
    scale: Reals
    n: Reals
    n_scale: Reals | None = None


@dataclass(frozen=True)
class State:
    """The current state of every chain: parameters, noise variances, n, and the moments within the bounds."""

    theta: Reals
    noise: Reals
    n: Reals
    centre: RegionMoments


def gibbs_draws(
    problems: Problems,
    draws: int,
    *,
    burn_in: int,
    thin: int = 1,
    rng: np.random.Generator,
    form: Form = "corrected",
    progress: Callable[[int], None] | None = None,
) -> tuple[Reals, Reals]:
    """One chain for each of B problems: parameters, shape (draws, B, parameters), and the n with them, (draws, B).

    The random walk learns its step in the first ``burn_in`` iterations; one in ``thin`` later ones is kept.
    """
    plan = Plan(draws, burn_in, thin)
    (done,) = run_chains(lambda _, own: _Chains(problems, plan, own, form), plan, [rng], progress)
    return done.kept, done.kept_n


class _Chains:
    """The chains of all problems, side by side in arrays."""

    def __init__(self, problems: Problems, plan: Plan, rng: np.random.Generator, form: Form) -> None:
        self._problems, self._plan, self._rng = problems, plan, rng
        self._form: Form = form
        self._state = _start(problems, rng)
        self._walk = Walk.start(problems, self._state) if form == "corrected" else None
        self.kept = np.empty((plan.draws, *self._state.theta.shape))
        self.kept_n = np.empty((plan.draws, len(self._state.n)))

    def sweep(self, i: int) -> None:
        """Sums, parameters and noise variances; then the random walk."""
        problems, rng = self._problems, self._rng
        if isinstance(problems.family, Natural):  # there is no conjugate draw of the parameters
            within, _ = _sums(replace(problems, bounds=None), self._state, rng, self._form)
            self._state = replace(self._state, noise=noise_variance(problems.y - within, problems.scale, rng))
        else:
            self._state = _gibbs(problems, self._state, rng, self._form)
        if self._walk is not None:
            learning = i < self._plan.burn_in
            self._state, self._walk = self._walk.move(problems, self._state, rng, learning=learning)

    def keep(self, draw: int) -> None:
        """Keeps parameters and n."""
        self.kept[draw], self.kept_n[draw] = self._state.theta, self._state.n


def _mapped(function: Callable[..., Reals], *values: Any) -> Any:
    """A dataclass with a function of its arrays in the place of each; other fields as they are."""

    def part(*parts: Any) -> Any:
        if isinstance(parts[0], np.ndarray):
            return function(*parts)
        return _mapped(function, *parts) if isinstance(parts[0], RegionMoments) else parts[0]

    names = [field.name for field in fields(values[0])]
    return replace(values[0], **{name: part(*(getattr(value, name) for value in values)) for name in names})


def _start(problems: Problems, rng: np.random.Generator) -> State:
    """A draw given a tenth of the released sums with noise once more: spread wider than the posterior, about it."""
    n = np.maximum(problems.n, 1.0)
    tenth = np.minimum(1.0, np.maximum(0.1, 5 / n))
    if isinstance(problems.family, Natural):
        theta = np.tile(np.array(problems.family.start, float), (len(n), 1))
    else:
        jittered = problems.y + rng.laplace(size=problems.y.shape) * problems.scale
        sums = nearest_possible_sums(problems.family, jittered, n) * tenth[:, None]
        theta = _parameters(problems, sums, n * tenth, rng)
    return State(theta, 2 * problems.scale**2, np.rint(n), moments_within_bounds(problems, theta))


def _parameters(problems: Problems, sums: Reals, n: Reals, rng: np.random.Generator) -> Reals:
    """The parameters given exact sums, as near the ends of their range as coordinates on the line go."""
    theta = draw_conjugate(problems.family, problems.prior, sums, n, rng)
    return from_line(problems.prior, to_line(problems.prior, theta))


def moments_within_bounds(problems: Problems, theta: Reals) -> RegionMoments:
    """The moments within the bounds, of everything where there are none."""
    low, high = problems.family.support if problems.bounds is None else problems.bounds
    return region_moments(problems.family, theta, low, high)


def _gibbs(problems: Problems, state: State, rng: np.random.Generator, form: Form) -> State:
    """Sums given parameters, parameters given sums, noise variances given sums."""
    within, total = _sums(problems, state, rng, form)
    n = state.n
    for _ in range(REDRAWS):
        bad = np.flatnonzero(~sums_are_possible(problems.family, total, n))
        if bad.size == 0:
            break
        some_problems, some_states = (_mapped(lambda array, at=bad: array[at], value) for value in (problems, state))
        within[bad], total[bad] = _sums(some_problems, some_states, rng, form)
    theta = _parameters(problems, nearest_possible_sums(problems.family, total, n), n, rng)
    centre = moments_within_bounds(problems, theta)
    if form == "printed":
        within = _free(n, centre, rng)
    elif form == "coded":
        within, _ = _sums(problems, State(theta, state.noise, n, centre), rng, form)
    return State(theta, noise_variance(problems.y - within, problems.scale, rng), n, centre)


def _sums(problems: Problems, state: State, rng: np.random.Generator, form: Form) -> tuple[Reals, Reals]:
    """The sum within the bounds and the sum of all records, given the parameters, y and the noise variances."""
    n, centre, support = state.n, state.centre, problems.family.support
    if problems.bounds is None or form != "corrected":
        within = _given_noisy(problems, state, n[:, None] * centre.first, n[:, None, None] * centre.covariance(), rng)
        total = within.copy()
        if problems.bounds is not None:
            low, high = problems.bounds
            for ends in ((support[0], np.nextafter(low, -np.inf)), (np.nextafter(high, np.inf), support[1])):
                total += _free(n, region_moments(problems.family, state.theta, *ends), rng)
        return within, total
    outside = region_moments(problems.family, state.theta, *support) - centre
    cross = -centre.first[:, :, None] * outside.first[:, None, :]
    joint = np.block([[centre.covariance(), cross], [cross.transpose(0, 2, 1), outside.covariance()]])
    mean = n[:, None] * np.concatenate([centre.first, outside.first], axis=1)
    drawn, d = _given_noisy(problems, state, mean, n[:, None, None] * joint, rng), problems.y.shape[1]
    return drawn[:, :d], drawn[:, :d] + drawn[:, d:]


def _free(n: Reals, region: RegionMoments, rng: np.random.Generator) -> Reals:
    """Normal draws of the sum over the records in a region, whatever was released."""
    root = lower_root(n[:, None, None] * region.covariance())
    return n[:, None] * region.first + (root @ rng.standard_normal(region.first.shape)[..., None])[..., 0]


def _given_noisy(problems: Problems, state: State, mean: Reals, covariance: Reals, rng: np.random.Generator) -> Reals:
    """Draws normal sums whose first ones were released with noise: freely, then corrected by the Kalman gain.

    This is Matheron's rule; only law + noise is inverted, so a singular covariance, of counts that sum to n, is no
    problem.
    """
    d = problems.y.shape[1]
    free = mean + (lower_root(covariance) @ rng.standard_normal(mean.shape)[..., None])[..., 0]
    miss = problems.y - free[:, :d] - np.sqrt(state.noise) * rng.standard_normal(problems.y.shape)
    pull = np.linalg.solve(covariance[:, :d, :d] + diagonal(state.noise), miss[..., None])
    return free + (covariance[:, :, :d] @ pull)[..., 0]


def noise_variance(residual: Reals, scale: Reals, rng: np.random.Generator) -> Reals:
    """sigma^2 with 1 / sigma^2 ~ inverse Gaussian(mean 1 / (b |y - s|), shape 1 / b^2).

    Its smaller root is written so that nothing cancels, and |y - s| is kept above 1e-8 b: below, the law is the same.
    """
    mean = 1 / np.clip(np.abs(residual) / scale, 1e-8, 1e12)
    half = mean * rng.standard_normal(mean.shape) ** 2 / 2
    small = mean / (1 + half + np.sqrt(half * (half + 2)))
    inverse = np.where(rng.random(mean.shape) * (mean + small) <= mean, small, mean**2 / small)
    return scale**2 / inverse


def diagonal(values: Reals) -> Reals:
    """Diagonal matrices, shape (B, d, d)."""
    return values[:, :, None] * np.eye(values.shape[1])


def lower_root(law: Reals) -> Reals:
    """Lower triangular (Cholesky) roots of covariances that may be singular: pivots within rounding of 0 are 0."""
    root = np.zeros_like(law)
    for j in range(law.shape[1]):
        left = law[:, j:, j] - (root[:, j:, :j] @ root[:, j, :j, None])[..., 0]
        pivot = left[:, 0]
        sound = pivot > 1e-12 * np.maximum(law[:, j, j], 1e-300)
        root[:, j:, j] = np.where(sound[:, None], left / np.sqrt(np.where(sound, pivot, 1.0))[:, None], 0.0)
    return root


@dataclass(frozen=True)
class Walk:
    """A random walk of the parameters, and of n where it is private, and the step that it has learned."""

    step: Reals
    shape: Reals
    mean: Reals
    square: Reals
    seen: int

    @classmethod
    def start(cls, problems: Problems, state: State) -> Walk:
        """Steps of half a unit in the coordinates, and of the noise scale in n."""
        line = _coordinates(problems, state.theta, state.n)
        width = np.full_like(line, 0.5)
        if problems.n_scale is not None:
            width[:, -1] = problems.n_scale
        return cls(np.ones(len(line)), width, line.copy(), width**2, 1)

    def move(self, problems: Problems, state: State, rng: np.random.Generator, *, learning: bool) -> tuple[State, Walk]:
        """Proposes, accepts or not, and learns the step while ``learning``."""
        line = _coordinates(problems, state.theta, state.n)
        proposed = line + self.step[:, None] * self.shape * rng.standard_normal(line.shape)
        far = np.zeros(len(line), bool)
        if not isinstance(problems.family, Natural):
            far = rng.random(len(line)) < FAR
            theta = _parameters(problems, np.zeros_like(problems.y), np.zeros(len(line)), rng)
            proposed[far] = _coordinates(problems, theta, state.n)[far]  # of the prior, with the n at hand
        there, density = _state_at(problems, state, proposed)
        odds = density - _log_density(problems, state)
        if far.any():  # a proposal from the prior is weighed by the likelihood alone
            before, after = (log_prior(problems.family, problems.prior, one.theta) for one in (state, there))
            odds -= far * (after - before)
        accepted = np.log(rng.random(len(odds))) < np.where(np.isnan(odds), -np.inf, odds)
        moved = _mapped(lambda new, old: np.where(accepted.reshape(-1, *[1] * (new.ndim - 1)), new, old), there, state)
        if not learning:
            return moved, self
        line = _coordinates(problems, moved.theta, moved.n)
        seen = self.seen + 1
        rate = 1 / min(seen, 200)
        mean = self.mean + rate * (line - self.mean)
        square = self.square + rate * ((line - self.mean) * (line - mean) - self.square)
        step = self.step * np.exp(~far * (accepted - ACCEPTED) / min(seen, 200) ** 0.6)
        shape = np.sqrt(np.maximum(square, 1e-12 * self.shape**2)) if seen > 50 else self.shape
        return moved, Walk(np.clip(step, 1e-3, 1e2), shape, mean, square, seen)


def _coordinates(problems: Problems, theta: Reals, n: Reals) -> Reals:
    """Unconstrained parameters, and n where it is private."""
    line = to_line(problems.prior, theta)
    return line if problems.n_scale is None else np.concatenate([line, n[:, None]], axis=1)


def _state_at(problems: Problems, state: State, line: Reals) -> tuple[State, Reals]:
    """The state at coordinates, and its log density; an n is rounded, which keeps the walk symmetric."""
    n = state.n if problems.n_scale is None else state.n + np.rint(line[:, -1] - state.n)
    theta = from_line(problems.prior, line if problems.n_scale is None else line[:, :-1])
    allowed = n >= 0
    if isinstance(problems.family, Natural):
        valid = np.isfinite(problems.family.log_partition(theta))
        theta, allowed = np.where(valid[:, None], theta, state.theta), allowed & valid
    safe = np.where(allowed, n, state.n)
    there = State(theta, state.noise, safe, moments_within_bounds(problems, theta))
    return there, np.where(allowed, _log_density(problems, there), -np.inf)


def _log_density(problems: Problems, state: State) -> Reals:
    """log p(theta, n, y | noise variances), the sums integrated out: y is normal about n E[t; within]."""
    n = state.n[:, None]
    law = n[..., None] * state.centre.covariance() + diagonal(state.noise)
    miss = problems.y - n * state.centre.first
    pull = np.linalg.solve(law, miss[..., None])[..., 0]
    density = -0.5 * ((miss * pull).sum(axis=1) + np.linalg.slogdet(law)[1])
    density += log_prior(problems.family, problems.prior, state.theta)
    return density if problems.n_scale is None else density - np.abs(problems.n - state.n) / problems.n_scale


#: Panels of the quadrature, and Gauss-Legendre nodes in each.
PANELS, NODES = 64, 8


def sums_are_possible(family: ExponentialFamily, sums: Reals, n: Reals) -> npt.NDArray[np.bool_]:
    """Tests sums, shape (B, d), for being possible of n records, shape (B,)."""
    match family:
        case Binomial():
            return (sums[:, 0] >= 0) & (sums[:, 0] <= n * family.trials)
        case Multinomial():
            return np.asarray((sums >= 0).all(axis=1))
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


@dataclass(frozen=True)
class RegionMoments:
    """Of B problems with d statistics: ``mass`` (B,), ``first`` (B, d), ``second`` (B, d, d)."""

    mass: Reals
    first: Reals
    second: Reals

    def __sub__(self, other: RegionMoments) -> RegionMoments:
        return RegionMoments(self.mass - other.mass, self.first - other.first, self.second - other.second)

    def covariance(self) -> Reals:
        """The covariance of t(x) 1[x in the region], shape (B, d, d)."""
        return self.second - self.first[:, :, None] * self.first[:, None, :]


def region_moments(family: ExponentialFamily, theta: Reals, low: float, high: float) -> RegionMoments:
    """The moments of t(x) for x in [low, high], ends included, at parameters of shape (B, parameters)."""
    match family:
        case Binomial(trials=trials):
            p = theta[:, 0]
            return _single_statistic(np.ones_like(p), trials * p, trials * p * (1 - p) + (trials * p) ** 2)
        case Multinomial():
            second = np.zeros((*theta.shape, theta.shape[1]))
            index = np.arange(theta.shape[1])
            second[:, index, index] = theta
            return RegionMoments(np.ones(len(theta)), theta, second)
        case Poisson():
            return _poisson(theta[:, 0], low, high)
        case Gamma(shape=shape):
            return _gamma(theta[:, 0], shape, low, high)
        case Exponential():
            return _gamma(theta[:, 0], 1.0, low, high)
        case Normal(variance=None):
            return _normal(theta[:, 0], theta[:, 1], low, high, squares=True)
        case Normal(variance=known):
            return _normal(theta[:, 0], np.full(len(theta), known), low, high, squares=False)
        case Natural():
            return _quadrature(family, theta, low, high)
    raise TypeError(f"no moments for {type(family).__name__}")


def _single_statistic(mass: Reals, first: Reals, second: Reals) -> RegionMoments:
    return RegionMoments(mass, first[:, None], second[:, None, None])


def _poisson(rate: Reals, low: float, high: float) -> RegionMoments:
    """E[x (x - 1) ... (x - j + 1); region] = rate^j P(x + j in region)."""
    from scipy.special import pdtr

    def between(j: int) -> Reals:
        above = np.ones_like(rate) if math.isinf(high) else _cdf(math.floor(high) - j)
        return above - _cdf(math.ceil(max(low, 0)) - 1 - j)

    def _cdf(k: int) -> Reals:
        return np.zeros_like(rate) if k < 0 else np.asarray(pdtr(k, rate))

    first = rate * between(1)
    return _single_statistic(between(0), first, rate**2 * between(2) + first)


def _gamma(rate: Reals, shape: float, low: float, high: float) -> RegionMoments:
    """E[x^j; region] = Gamma(k + j) / Gamma(k) / rate^j P(k + j, region): incomplete gamma functions."""
    from scipy.special import gammainc, gammaincc

    def between(k: float) -> Reals:
        start, end = rate * max(low, 0.0), rate * max(high, 0.0)
        upper = gammaincc(k, start) - gammaincc(k, end)
        lower = gammainc(k, end) - gammainc(k, start)
        return np.where(start > k, upper, lower)  # the tail that is small loses no digits

    return _single_statistic(
        between(shape), shape / rate * between(shape + 1), shape * (shape + 1) / rate**2 * between(shape + 2)
    )


def _normal(mean: Reals, variance: Reals, low: float, high: float, *, squares: bool) -> RegionMoments:
    """Standard moments by the recursion m_j = (j - 1) m_(j-2) + a^(j-1) phi(a) - b^(j-1) phi(b), then the binomial."""
    from scipy.special import ndtr

    deviation = np.sqrt(variance)
    start, end = (low - mean) / deviation, (high - mean) / deviation
    mass = np.where(start > 0, ndtr(-start) - ndtr(-end), ndtr(end) - ndtr(start))
    moments = [mass, _edge(start, 0) - _edge(end, 0)]
    for j in (2, 3, 4):
        moments.append((j - 1) * moments[j - 2] + _edge(start, j - 1) - _edge(end, j - 1))
    scaled = [deviation**j * moment for j, moment in enumerate(moments)]
    raw = [np.sum([math.comb(k, j) * mean ** (k - j) * scaled[j] for j in range(k + 1)], axis=0) for k in range(5)]
    if not squares:
        return _single_statistic(raw[0], raw[1], raw[2])
    second = np.stack([np.stack([raw[2], raw[3]], -1), np.stack([raw[3], raw[4]], -1)], -2)
    return RegionMoments(raw[0], np.stack([raw[1], raw[2]], -1), second)


def _edge(x: Reals, power: int) -> Reals:
    """x^power phi(x), 0 at infinity."""
    finite = np.where(np.isfinite(x), x, 0.0)
    density = np.exp(-0.5 * finite**2) / math.sqrt(2 * math.pi)
    return np.where(np.isfinite(x), finite**power * density, 0.0)


def _quadrature(family: Natural, eta: Reals, low: float, high: float) -> RegionMoments:
    """Sums over whole numbers, or Gauss-Legendre in equal panels, of the density and its products with t."""
    x, weight, t = _nodes(family, low, high)
    log = eta @ t.T + family.log_base(x) - family.log_partition(eta)[:, None]
    mass = np.exp(np.where(np.isnan(log), -np.inf, log)) * weight
    return RegionMoments(mass.sum(1), mass @ t, np.einsum("bx,xi,xj->bij", mass, t, t, optimize=True))


@lru_cache(maxsize=32)
def _nodes(family: Natural, low: float, high: float) -> tuple[Reals, Reals, Reals]:
    if family.discrete:
        x = np.arange(math.ceil(low), math.floor(high) + 1, dtype=float)
        return x, np.ones_like(x), family.statistic(x)
    node, weight = np.polynomial.legendre.leggauss(NODES)
    edges = np.linspace(low, high, PANELS + 1)
    half = np.diff(edges) / 2
    x = ((edges[:-1] + edges[1:]) / 2)[:, None] + half[:, None] * node
    return x.ravel(), (half[:, None] * weight).ravel(), family.statistic(x.ravel())
