"""Least squares from noisy tables of pairs: second moments are sums over pairs, so no graph is needed.

Counts are linear in the residual blocks of the release, whose noise is uncorrelated with one known variance in each
block (proofs.md P30). Draws of the blocks given the release, under a flat prior, give draws of the covariance A of the
features and of theirs c with the target. Where A is as small as its noise, A b = c says nothing, so slopes are normal
beforehand: in every draw b minimises (c - A b)' W^-1 (c - A b) + |b - z|^2, with W the covariance of the noise and of
sampling in c - A b at the likeliest b, and z a draw of the prior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np

from dpgraph.inference.graphs.pair_estimates import Pairs, contrasts
from dpgraph.structure.network import Family
from dpgraph.structure.tables import Reals

#: Draws at most and at least, and the numbers in all their moments at most in between.
MOST_DRAWS, LEAST_DRAWS, ALL_MOMENTS = 1000, 100, 1 << 24
#: Rounds by which the weight of the prior and the slopes are found together.
ROUNDS = 4


def least_squares(pairs: Pairs, names: Family, maps: list[Reals], rng: np.random.Generator) -> Reals:
    """Draws of the coefficients in the population, axes (draw, coefficient), intercept first; the target comes last.

    ``maps`` has the columns of each variable at each level, on scales on which a slope of 1 is large.
    """
    moments = _moments(pairs, names, maps, rng)
    means = moments[:, 0, 1:]
    covariance = moments[:, 1:, 1:] - means[:, :, None] * means[:, None, :]
    square, right, spread = covariance[:, :-1, :-1], covariance[:, :-1, -1], max(float(covariance[0, -1, -1]), 1e-6)
    values, vectors = np.linalg.eigh(square[0])
    root = vectors * np.sqrt(np.maximum(values, 0) / pairs.n)
    slopes, left, weight = np.zeros(len(root)), spread, np.empty(0)
    for _ in range(ROUNDS):
        noise = (right[1:] - right[0]) - (square[1:] - square[0]) @ slopes
        made = noise.T @ noise / len(noise) + left * root @ root.T
        share = len(root) / (len(root) + len(noise))  # few draws know variances better than covariances
        weight = np.linalg.inv(made + share * (np.diag(np.diag(made)) - made) + 1e-14 * np.eye(len(root)))
        slopes = _solved(square[:1], right[:1], weight, np.zeros((1, len(root))))[0]
        left = float(np.clip(covariance[0, -1, -1] - (2 * right[0] - square[0] @ slopes) @ slopes, 0, spread))
    normal = rng.standard_normal((3, *right[1:].shape))
    slopes = _solved(square[1:], right[1:] + math.sqrt(left) * normal[0] @ root.T, weight, normal[1])
    first = means[1:, -1] - (slopes * means[1:, :-1]).sum(axis=1) + math.sqrt(left / pairs.n) * normal[2, :, 0]
    return np.column_stack([first, slopes])


def _solved(square: Reals, right: Reals, weight: Reals, prior: Reals) -> Reals:
    """The slopes that fit each system of equations, and draws of the prior, best."""
    turned = square @ weight
    both = (turned @ right[..., None])[..., 0] + prior
    return np.linalg.solve(turned @ square + np.eye(square.shape[1]), both[..., None])[..., 0]  # type: ignore[return-value]


def _moments(pairs: Pairs, names: Family, maps: list[Reals], rng: np.random.Generator) -> Reals:
    """The second moments of 1 and all columns: of the release as it is, then draws of them given the release."""
    width = 1 + sum(one.shape[1] for one in maps)
    draws = min(MOST_DRAWS, max(LEAST_DRAWS, ALL_MOMENTS // width**2))

    def noise(variance: float, *shape: int) -> Reals:
        return np.concatenate([np.zeros((1, *shape)), math.sqrt(variance) * rng.standard_normal((draws, *shape))])

    total = np.maximum(pairs.n + noise(pairs.residuals[()][1]), 1.0)[:, None]
    uneven = []
    for name, size in ((name, len(columns)) for name, columns in zip(names, maps, strict=True)):
        values, variance = pairs.residuals[name,]
        uneven.append((values + noise(variance, size - 1)) @ contrasts(size) / total)

    def product(a: int, b: int) -> Reals:
        turned = (names[a], names[b]) not in pairs.residuals
        values, variance = pairs.residuals[(names[b], names[a]) if turned else (names[a], names[b])]
        first, second = (contrasts(len(maps[one])) @ maps[one] for one in (a, b))
        left, right = (np.linalg.qr(one)[1] for one in (first, second))  # the noise of as few sums as there are
        made = first.T @ (values.T if turned else values) @ second
        made = (made + left.T @ noise(variance, len(left), len(right)) @ right) / total[..., None]
        one, other = maps[a].mean(axis=0), maps[b].mean(axis=0)  # where levels are even
        made += (one + uneven[a] @ maps[a])[:, :, None] * other
        return made + one[:, None] * (uneven[b] @ maps[b])[:, None, :]

    return second_moments(maps, [one + 1 / one.shape[1] for one in uneven], product)


def second_moments(maps: list[Reals], shares: list[Reals], product: Callable[[int, int], Reals]) -> Reals:
    """E[x x'] of 1 and the columns of each variable, draw by draw, from shares of levels and products of two."""
    ends = np.cumsum([1, *(one.shape[1] for one in maps)])
    parts = [slice(*part) for part in pairwise(ends)]
    moments = np.ones((len(shares[0]), ends[-1], ends[-1]))
    for columns, share, here in zip(maps, shares, parts, strict=True):
        moments[:, 0, here] = moments[:, here, 0] = share @ columns
        moments[:, here, here] = np.einsum("dk,ki,kj->dij", share, columns, columns)
    for a, b in combinations(range(len(maps)), 2):
        moments[:, parts[a], parts[b]] = made = product(a, b)
        moments[:, parts[b], parts[a]] = made.transpose(0, 2, 1)
    return moments
