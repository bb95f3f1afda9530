"""Gibbs sampling of parameters given noisy sums of statistics, for many problems at once.

Bernstein and Sheldon 2018, Algorithms 1 (bounded statistics) and 2-3 (records outside public bounds contribute 0), in
a corrected form. The sums over records within and outside the bounds are jointly normal, with the covariance between
them that the multinomial split of the records gives; the paper treats the regions as independent, which makes the
total up to 1.2 times too uncertain (MATHS 7). ``form="coded"`` is the paper with independent regions, as its authors
coded it, and ``"printed"`` also draws the sum within the bounds without looking at y (line 10): for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from dpgraph.inference.conjugate import draw_conjugate, from_line, log_prior, possible, projected, to_line
from dpgraph.inference.region_moments import RegionMoments, region_moments
from dpgraph.structure.expfam import ExponentialFamily, Natural
from dpgraph.structure.priors import Prior

Reals = npt.NDArray[np.float64]
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
class _State:
    """Where every chain is: parameters, noise variances, n, and the moments within the bounds at the parameters."""

    theta: Reals
    noise: Reals
    n: Reals
    centre: RegionMoments


def run_chains(
    problems: Problems,
    draws: int,
    *,
    burn_in: int,
    thin: int = 1,
    rng: np.random.Generator,
    form: Form = "corrected",
    progress: Callable[[int], None] | None = None,
) -> tuple[Reals, Reals]:
    """One chain for each problem.

    Args:
        problems: What was released, the family and the prior.
        draws: Draws kept of each chain.
        burn_in: Iterations before them, in which the random walk learns its step.
        thin: Iterations for each draw kept.
        rng: Randomness for post-processing.
        form: ``"corrected"``, ``"coded"`` or ``"printed"``.
        progress: Called with the number of each iteration.

    Returns:
        Parameters, shape (draws, B, parameters), and the n that goes with them, shape (draws, B).
    """
    state = _start(problems, rng)
    kept = np.empty((draws, *state.theta.shape))
    kept_n = np.empty((draws, len(state.n)))
    walk = _Walk.start(problems, state) if form == "corrected" else None
    for i in range(burn_in + draws * thin):
        if not isinstance(problems.family, Natural):
            state = _gibbs(problems, state, rng, form)
        else:
            state = _only_noise(problems, state, rng)
        if walk is not None:
            state, walk = walk.move(problems, state, rng, learning=i < burn_in)
        if i >= burn_in and (i - burn_in) % thin == thin - 1:
            kept[(i - burn_in) // thin], kept_n[(i - burn_in) // thin] = state.theta, state.n
        if progress is not None:
            progress(i)
    return kept, kept_n


def _start(problems: Problems, rng: np.random.Generator) -> _State:
    """A draw given a tenth of what was released with noise once more: spread wider than the posterior, about it."""
    n = np.maximum(problems.n, 1.0)
    tenth = np.minimum(1.0, np.maximum(0.1, 5 / n))
    if isinstance(problems.family, Natural):
        theta = np.tile(np.array(problems.family.start, float), (len(n), 1))
    else:
        jittered = problems.y + rng.laplace(size=problems.y.shape) * problems.scale
        sums = projected(problems.family, jittered, n) * tenth[:, None]
        theta = draw_conjugate(problems.family, problems.prior, sums, n * tenth, rng)
    theta = from_line(problems.prior, to_line(problems.prior, theta))
    return _State(theta, 2 * problems.scale**2, np.rint(n), _centre(problems, theta))


def _centre(problems: Problems, theta: Reals) -> RegionMoments:
    """The moments within the bounds, of everything where there are none."""
    low, high = problems.family.support if problems.bounds is None else problems.bounds
    return region_moments(problems.family, theta, low, high)


def _gibbs(problems: Problems, state: _State, rng: np.random.Generator, form: Form) -> _State:
    """Sums given parameters, parameters given sums, noise variances given sums."""
    within, total = _sums(problems, state, rng, form)
    n = state.n
    for _ in range(REDRAWS):
        bad = np.flatnonzero(~possible(problems.family, total, n))
        if bad.size == 0:
            break
        within[bad], total[bad] = _sums(_some(problems, bad), _some_states(state, bad), rng, form)
    theta = draw_conjugate(problems.family, problems.prior, projected(problems.family, total, n), n, rng)
    theta = from_line(problems.prior, to_line(problems.prior, theta))
    centre = _centre(problems, theta)
    if form == "printed":
        law = n[:, None, None] * centre.covariance()
        within = n[:, None] * centre.first + _times(_root(law), rng.standard_normal(within.shape))
    elif form == "coded":
        within, _ = _sums(problems, _State(theta, state.noise, n, centre), rng, form)
    return _State(theta, _noise_variance(problems.y - within, problems.scale, rng), n, centre)


def _only_noise(problems: Problems, state: _State, rng: np.random.Generator) -> _State:
    """For a family without a conjugate draw: noise variances given the sum within the bounds."""
    n = state.n[:, None]
    within, _ = _matheron(
        problems, state, n * state.centre.first, _root(n[..., None] * state.centre.covariance()), None, None, rng
    )
    return _State(state.theta, _noise_variance(problems.y - within, problems.scale, rng), state.n, state.centre)


def _sums(problems: Problems, state: _State, rng: np.random.Generator, form: Form) -> tuple[Reals, Reals]:
    """The sum within the bounds and the sum of all records, given the parameters, y and the noise variances."""
    n, centre = state.n[:, None], state.centre
    if problems.bounds is None:
        within, _ = _matheron(
            problems, state, n * centre.first, _root(n[..., None] * centre.covariance()), None, None, rng
        )
        return within, within.copy()
    low, high = problems.bounds
    support = problems.family.support
    if form == "corrected":
        outside = region_moments(problems.family, state.theta, *support) - centre
        cross = -centre.first[:, :, None] * outside.first[:, None, :]
        joint = np.concatenate(
            [
                np.concatenate([centre.covariance(), cross], axis=2),
                np.concatenate([cross.transpose(0, 2, 1), outside.covariance()], axis=2),
            ],
            axis=1,
        )
        mean = n * np.concatenate([centre.first, outside.first], axis=1)
        d = problems.y.shape[1]
        within, beyond = _matheron(
            problems,
            state,
            mean,
            _root(n[..., None] * joint),
            n[..., None] * centre.covariance(),
            n[..., None] * cross,
            rng,
            d,
        )
        return within, within + beyond
    below = region_moments(problems.family, state.theta, support[0], np.nextafter(low, -np.inf))
    above = region_moments(problems.family, state.theta, np.nextafter(high, np.inf), support[1])
    within, _ = _matheron(problems, state, n * centre.first, _root(n[..., None] * centre.covariance()), None, None, rng)
    total = within.copy()
    for region in (below, above):
        law = n[..., None] * region.covariance()
        total += n * region.first + _times(_root(law), rng.standard_normal(total.shape))
    return within, total


def _matheron(
    problems: Problems,
    state: _State,
    mean: Reals,
    root: Reals,
    variance: Reals | None,
    cross: Reals | None,
    rng: np.random.Generator,
    d: int | None = None,
) -> tuple[Reals, Reals]:
    """Draws without looking at y, then moves the draw towards y by the Kalman gain; only law + noise is inverted.

    A singular covariance, as that of counts that sum to n, needs no special care.
    """
    free = mean + _times(root, rng.standard_normal(mean.shape))
    d = mean.shape[1] if d is None else d
    within = free[:, :d]
    law = root @ root.transpose(0, 2, 1) if variance is None else variance
    seen = law + _diagonal(state.noise)
    miss = problems.y - within - np.sqrt(state.noise) * rng.standard_normal(within.shape)
    pull = np.linalg.solve(seen, miss[..., None])
    moved = within + (law @ pull)[..., 0]
    if cross is None:
        return moved, moved
    return moved, free[:, d:] + (cross.transpose(0, 2, 1) @ pull)[..., 0]


def _noise_variance(residual: Reals, scale: Reals, rng: np.random.Generator) -> Reals:
    """sigma^2 with 1 / sigma^2 ~ inverse Gaussian(mean 1 / (b |y - s|), shape 1 / b^2).

    Its smaller root is written so that nothing cancels, and |y - s| is kept above 1e-8 b: below, the law is the same.
    """
    mean = 1 / np.clip(np.abs(residual) / scale, 1e-8, 1e12)
    half = mean * rng.standard_normal(mean.shape) ** 2 / 2
    small = mean / (1 + half + np.sqrt(half * (half + 2)))
    inverse = np.where(rng.random(mean.shape) * (mean + small) <= mean, small, mean**2 / small)
    return scale**2 / inverse


def _diagonal(values: Reals) -> Reals:
    """Diagonal matrices, shape (B, d, d)."""
    return values[:, :, None] * np.eye(values.shape[1])


def _times(root: Reals, z: Reals) -> Reals:
    """Matrix times vector, problem by problem."""
    return (root @ z[..., None])[..., 0]


def _root(law: Reals) -> Reals:
    """Lower triangular roots of covariances that may be singular: a pivot that rounding made of nothing is 0."""
    root = np.zeros_like(law)
    d = law.shape[1]
    for j in range(d):
        left = law[:, j:, j] - (root[:, j:, :j] @ root[:, j, :j, None])[..., 0]
        pivot = left[:, 0]
        sound = pivot > 1e-12 * np.maximum(law[:, j, j], 1e-300)
        root[:, j:, j] = np.where(sound[:, None], left / np.sqrt(np.where(sound, pivot, 1.0))[:, None], 0.0)
    return root


def _some(problems: Problems, index: npt.NDArray[np.intp]) -> Problems:
    """Some of the problems."""
    n_scale = None if problems.n_scale is None else problems.n_scale[index]
    return Problems(
        problems.family,
        problems.prior,
        problems.bounds,
        problems.y[index],
        problems.scale[index],
        problems.n[index],
        n_scale,
    )


def _some_states(state: _State, index: npt.NDArray[np.intp]) -> _State:
    """The states of some of the problems."""
    centre = RegionMoments(state.centre.mass[index], state.centre.first[index], state.centre.second[index])
    return _State(state.theta[index], state.noise[index], state.n[index], centre)


@dataclass(frozen=True)
class _Walk:
    """A random walk of the parameters, and of n where it is private, with the sums integrated out.

    The sums follow the parameters only a step of sqrt(n) at a time, which takes thousands of iterations where the noise
    is much larger; this move is not held back by them. Given the noise variances y is normal, so its density is known.
    """

    step: Reals
    shape: Reals
    mean: Reals
    square: Reals
    seen: int

    @classmethod
    def start(cls, problems: Problems, state: _State) -> _Walk:
        line = _coordinates(problems, state)
        width = np.full_like(line, 0.5)
        if problems.n_scale is not None:
            width[:, -1] = problems.n_scale
        return cls(np.ones(len(line)), width, line.copy(), width**2, 1)

    def move(
        self, problems: Problems, state: _State, rng: np.random.Generator, *, learning: bool
    ) -> tuple[_State, _Walk]:
        """Proposes, accepts or not, and learns the step while ``learning``."""
        line = _coordinates(problems, state)
        proposed = line + self.step[:, None] * self.shape * rng.standard_normal(line.shape)
        far = np.zeros(len(line), bool)
        if not isinstance(problems.family, Natural):
            far = rng.random(len(line)) < FAR
            proposed[far] = _from_prior(problems, state, rng)[far]
        there, density = _placed(problems, state, proposed)
        odds = density - _log_density(problems, state)
        if far.any():  # a proposal from the prior is weighed by the likelihood alone
            odds -= far * (_log_prior(problems, there) - _log_prior(problems, state))
        accepted = np.log(rng.random(len(odds))) < np.where(np.isnan(odds), -np.inf, odds)
        moved = _chosen(accepted, there, state)
        if not learning:
            return moved, self
        line = _coordinates(problems, moved)
        seen = self.seen + 1
        rate = 1 / min(seen, 200)
        mean = self.mean + rate * (line - self.mean)
        square = self.square + rate * ((line - self.mean) * (line - mean) - self.square)
        step = self.step * np.exp(~far * (accepted - ACCEPTED) / min(seen, 200) ** 0.6)
        shape = np.sqrt(np.maximum(square, 1e-12 * self.shape**2)) if seen > 50 else self.shape
        return moved, _Walk(np.clip(step, 1e-3, 1e2), shape, mean, square, seen)


def _coordinates(problems: Problems, state: _State) -> Reals:
    """Unconstrained parameters, and n where it is private."""
    line = to_line(problems.prior, state.theta)
    return line if problems.n_scale is None else np.concatenate([line, state.n[:, None]], axis=1)


def _placed(problems: Problems, state: _State, line: Reals) -> tuple[_State, Reals]:
    """The state at coordinates, and its log density; an n is rounded, which keeps the walk symmetric."""
    n = state.n if problems.n_scale is None else state.n + np.rint(line[:, -1] - state.n)
    free = line if problems.n_scale is None else line[:, :-1]
    theta = from_line(problems.prior, free)
    allowed = n >= 0
    if isinstance(problems.family, Natural):
        valid = np.isfinite(problems.family.log_partition(theta))
        theta, allowed = np.where(valid[:, None], theta, state.theta), allowed & valid
    safe = np.where(allowed, n, state.n)
    there = _State(theta, state.noise, safe, _centre(problems, theta))
    return there, np.where(allowed, _log_density(problems, there), -np.inf)


def _log_density(problems: Problems, state: _State) -> Reals:
    """log p(theta, n, y | noise variances), the sums integrated out: y is normal about n E[t; within]."""
    n = state.n[:, None]
    law = n[..., None] * state.centre.covariance() + _diagonal(state.noise)
    miss = problems.y - n * state.centre.first
    pull = np.linalg.solve(law, miss[..., None])[..., 0]
    density = -0.5 * ((miss * pull).sum(axis=1) + np.linalg.slogdet(law)[1])
    density += _log_prior(problems, state)
    return density if problems.n_scale is None else density - np.abs(problems.n - state.n) / problems.n_scale


def _log_prior(problems: Problems, state: _State) -> Reals:
    """The log prior density of the coordinates."""
    return log_prior(problems.family, problems.prior, state.theta)


def _from_prior(problems: Problems, state: _State, rng: np.random.Generator) -> Reals:
    """Coordinates of parameters drawn from the prior, with the n at hand."""
    none = np.zeros(len(state.theta))
    theta = draw_conjugate(problems.family, problems.prior, np.zeros_like(problems.y), none, rng)
    theta = from_line(problems.prior, to_line(problems.prior, theta))
    return _coordinates(problems, _State(theta, state.noise, state.n, state.centre))


def _chosen(accepted: npt.NDArray[np.bool_], there: _State, here: _State) -> _State:
    """One state or the other, problem by problem."""
    one, two = there.centre, here.centre
    centre = RegionMoments(
        np.where(accepted, one.mass, two.mass),
        np.where(accepted[:, None], one.first, two.first),
        np.where(accepted[:, None, None], one.second, two.second),
    )
    theta = np.where(accepted[:, None], there.theta, here.theta)
    return _State(theta, here.noise, np.where(accepted, there.n, here.n), centre)
