"""Batches of noisy sums to make inference on, and the linear algebra of normal sums with noise of known variance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dpgraph.inference.expfam.region_moments import RegionMoments, region_moments
from dpgraph.structure.expfam import ExponentialFamily
from dpgraph.structure.priors import Prior
from dpgraph.structure.tables import Reals


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


def moments_within_bounds(problems: Problems, theta: Reals) -> RegionMoments:
    """The moments within the bounds, of everything where there are none."""
    low, high = problems.family.support if problems.bounds is None else problems.bounds
    return region_moments(problems.family, theta, low, high)


def matheron(
    problems: Problems,
    state: State,
    mean: Reals,
    root: Reals,
    variance: Reals | None,
    cross: Reals | None,
    rng: np.random.Generator,
    d: int | None = None,
) -> tuple[Reals, Reals]:
    """Draws normal sums given noisy ones, by Matheron's rule: draw freely, then correct by the Kalman gain.

    Only law + noise is inverted, so a singular covariance, as that of counts that sum to n, needs no special care.
    """
    free = mean + matrix_vector(root, rng.standard_normal(mean.shape))
    d = mean.shape[1] if d is None else d
    within = free[:, :d]
    law = root @ root.transpose(0, 2, 1) if variance is None else variance
    seen = law + diagonal(state.noise)
    miss = problems.y - within - np.sqrt(state.noise) * rng.standard_normal(within.shape)
    pull = np.linalg.solve(seen, miss[..., None])
    moved = within + (law @ pull)[..., 0]
    if cross is None:
        return moved, moved
    return moved, free[:, d:] + (cross.transpose(0, 2, 1) @ pull)[..., 0]


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


def matrix_vector(root: Reals, z: Reals) -> Reals:
    """The product of a matrix and a vector, for each problem."""
    return (root @ z[..., None])[..., 0]


def lower_root(law: Reals) -> Reals:
    """Lower triangular (Cholesky) roots of covariances that may be singular: pivots within rounding of 0 are 0."""
    root = np.zeros_like(law)
    d = law.shape[1]
    for j in range(d):
        left = law[:, j:, j] - (root[:, j:, :j] @ root[:, j, :j, None])[..., 0]
        pivot = left[:, 0]
        sound = pivot > 1e-12 * np.maximum(law[:, j, j], 1e-300)
        root[:, j:, j] = np.where(sound[:, None], left / np.sqrt(np.where(sound, pivot, 1.0))[:, None], 0.0)
    return root


def some_problems(problems: Problems, index: npt.NDArray[np.intp]) -> Problems:
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


def some_states(state: State, index: npt.NDArray[np.intp]) -> State:
    """The states of some of the problems."""
    centre = RegionMoments(state.centre.mass[index], state.centre.first[index], state.centre.second[index])
    return State(state.theta[index], state.noise[index], state.n[index], centre)
