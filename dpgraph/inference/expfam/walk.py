"""Random-walk Metropolis moves of the parameters, sums integrated out: Gibbs alone is slow where noise is large."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgraph.inference.expfam.conjugate import draw_conjugate, from_line, log_prior, to_line
from dpgraph.inference.expfam.noisy_sums import Problems, State, diagonal, moments_within_bounds
from dpgraph.inference.expfam.region_moments import RegionMoments
from dpgraph.structure.expfam import Natural
from dpgraph.structure.tables import Reals

#: The share of proposals that the random walk aims to accept.
ACCEPTED = 0.35
#: The share of proposals from the prior: redacted records can make the posterior have two modes, far apart.
FAR = 0.25


@dataclass(frozen=True)
class Walk:
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
    def start(cls, problems: Problems, state: State) -> Walk:
        """Steps of half a unit in the coordinates, and of the noise scale in n."""
        line = _coordinates(problems, state)
        width = np.full_like(line, 0.5)
        if problems.n_scale is not None:
            width[:, -1] = problems.n_scale
        return cls(np.ones(len(line)), width, line.copy(), width**2, 1)

    def move(self, problems: Problems, state: State, rng: np.random.Generator, *, learning: bool) -> tuple[State, Walk]:
        """Proposes, accepts or not, and learns the step while ``learning``."""
        line = _coordinates(problems, state)
        proposed = line + self.step[:, None] * self.shape * rng.standard_normal(line.shape)
        far = np.zeros(len(line), bool)
        if not isinstance(problems.family, Natural):
            far = rng.random(len(line)) < FAR
            proposed[far] = _from_prior(problems, state, rng)[far]
        there, density = _state_at(problems, state, proposed)
        odds = density - _log_density(problems, state)
        if far.any():  # a proposal from the prior is weighed by the likelihood alone
            odds -= far * (_log_prior(problems, there) - _log_prior(problems, state))
        accepted = np.log(rng.random(len(odds))) < np.where(np.isnan(odds), -np.inf, odds)
        moved = states_after(accepted, there, state)
        if not learning:
            return moved, self
        line = _coordinates(problems, moved)
        seen = self.seen + 1
        rate = 1 / min(seen, 200)
        mean = self.mean + rate * (line - self.mean)
        square = self.square + rate * ((line - self.mean) * (line - mean) - self.square)
        step = self.step * np.exp(~far * (accepted - ACCEPTED) / min(seen, 200) ** 0.6)
        shape = np.sqrt(np.maximum(square, 1e-12 * self.shape**2)) if seen > 50 else self.shape
        return moved, Walk(np.clip(step, 1e-3, 1e2), shape, mean, square, seen)


def _coordinates(problems: Problems, state: State) -> Reals:
    """Unconstrained parameters, and n where it is private."""
    line = to_line(problems.prior, state.theta)
    return line if problems.n_scale is None else np.concatenate([line, state.n[:, None]], axis=1)


def _state_at(problems: Problems, state: State, line: Reals) -> tuple[State, Reals]:
    """The state at coordinates, and its log density; an n is rounded, which keeps the walk symmetric."""
    n = state.n if problems.n_scale is None else state.n + np.rint(line[:, -1] - state.n)
    free = line if problems.n_scale is None else line[:, :-1]
    theta = from_line(problems.prior, free)
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
    density += _log_prior(problems, state)
    return density if problems.n_scale is None else density - np.abs(problems.n - state.n) / problems.n_scale


def _log_prior(problems: Problems, state: State) -> Reals:
    """The log prior density of the coordinates."""
    return log_prior(problems.family, problems.prior, state.theta)


def _from_prior(problems: Problems, state: State, rng: np.random.Generator) -> Reals:
    """Coordinates of parameters drawn from the prior, with the n at hand."""
    none = np.zeros(len(state.theta))
    theta = draw_conjugate(problems.family, problems.prior, np.zeros_like(problems.y), none, rng)
    theta = from_line(problems.prior, to_line(problems.prior, theta))
    return _coordinates(problems, State(theta, state.noise, state.n, state.centre))


def states_after(accepted: npt.NDArray[np.bool_], there: State, here: State) -> State:
    """The new state of each problem where its proposal was accepted, else the old one."""
    one, two = there.centre, here.centre
    centre = RegionMoments(
        np.where(accepted, one.mass, two.mass),
        np.where(accepted[:, None], one.first, two.first),
        np.where(accepted[:, None, None], one.second, two.second),
    )
    theta = np.where(accepted[:, None], there.theta, here.theta)
    return State(theta, here.noise, np.where(accepted, there.n, here.n), centre)
