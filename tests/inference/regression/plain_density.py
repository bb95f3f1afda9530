"""The log posterior density of a regression's coordinates and its gradient in plain numpy: the oracle of the loops."""

import numpy as np
from scipy.special import digamma, gammaln

from dpgraph.inference.regression._kernels import LEAST_DEGREES
from dpgraph.inference.regression.chain import Point, conjugate_update, matrix_vector


def outer(weight, vector):
    """Weighted outer products of vectors with themselves, for each chain."""
    return weight[:, None, None] * vector[:, :, None] * vector[:, None, :]


def basis_of(layout):
    """What each sum of features (and n) adds to the flattened X'X, shape (sums, d^2)."""
    made = np.zeros((layout.entries + (layout.n is None), layout.d**2))
    made[layout.source.ravel(), np.arange(layout.d**2)] = layout.factor.ravel()
    return made


def log_noise(noise, sums):
    """The log likelihood of sums, shape (chains,), and its gradient."""
    z = (noise.observed - sums) / noise.scale
    if noise.laplace:
        return -np.abs(z).sum(axis=1), np.sign(z) / noise.scale
    return -(z**2).sum(axis=1) / 2, z / noise.scale


def model_density(model, flat, weights):
    """The log density of a model's vectors and its gradient, given the prior of the weights."""
    point, d, layout = model.point(flat), model.layout.d, model.layout
    value, slope = log_density(point, layout, weights, model.prior.exponents(d), model.noise)
    by_sums, by_centred, apart = slope.sums, slope.fitted, np.exp(flat[:, -1:] / 2) * flat[:, -d - 1 : -1]
    if layout.intercept:
        averages, along = layout.averages(point.sums), slope.fitted[:, :1]
        by_sums = by_sums + slope_by_sums(layout, point.sums, -along * point.fitted)
        by_centred = np.hstack([along, slope.fitted[:, 1:] - along * averages[:, 1:]])
    by_apart = matrix_vector(np.swapaxes(model.root, -1, -2), by_centred)
    by_log_residual = slope.log_residual + (by_apart * apart).sum(axis=1) / 2 + d / 2
    by_u = np.exp(flat[:, -1:] / 2) * by_apart
    return value + d / 2 * flat[:, -1], np.concatenate([by_sums, by_u, by_log_residual[:, None]], axis=1)


def slope_by_sums(layout, sums, slope):
    """Chain rule from averages to sums: ``slope`` is the derivative by all averages but the first, which is 1."""
    slope = np.hstack([np.zeros((len(slope), 1)), slope[:, 1:]])
    share = (layout.rows(sums) / layout.size)[:, None]
    made = slope / share @ basis_of(layout)[:, : layout.d].T
    if layout.n is None:
        made[:, -1:] -= (slope * layout.averages(sums)).sum(axis=1, keepdims=True) / share
    return made


def log_density(point, layout, prior, features, noise):
    """The log posterior density of points by their coordinates, shape (chains,), and its gradient.

    The prior of S = A / n is proportional to |S|^a times the product of S_jj^low (1 - S_jj)^high over numbers, on
    positive definite matrices of bounded columns, with ``features`` = (a, low, high). Where sums are not possible
    the density has no meaning.
    """
    a, low, high = features
    sums, fitted, size = point.sums, point.fitted, layout.size
    gram, n = layout.matrix(sums), layout.rows(sums)
    degrees, share = np.maximum(n - layout.d, LEAST_DEGREES), n / size
    residual = np.exp(point.log_residual)
    right = matrix_vector(gram, fitted)
    average = gram[:, :, 0] / share[:, None] if layout.intercept else None
    after = conjugate_update(gram * size, fitted, residual * size, n, prior, layout.intercept)
    ratio, pulled = after.shape * size / (2 * after.rate), fitted - after.mean

    squares = sums[:, layout.squares] / share[:, None]
    by_squares = low / squares - high / (1 - squares)
    # the Jacobian of (r, y'y) by (f, log R) is |A| R
    value = (a + 0.5) * np.linalg.slogdet(gram)[1] + degrees / 2 * point.log_residual
    value += (low * np.log(squares) + high * np.log1p(-squares)).sum(axis=1)
    value -= np.linalg.slogdet(gram * size + after.prior)[1] / 2 + after.shape * np.log(after.rate)
    by_gram = (a + 0.5) * np.linalg.inv(gram) - size / 2 * after.covariance - outer(ratio, pulled)
    by_fitted = -2 * ratio[:, None] * matrix_vector(after.prior, after.mean - prior.mean) / size
    by_log_residual = degrees / 2 - ratio * residual

    likelihood, pull = log_noise(noise, _all_sums(layout, sums, right, residual + (right * fitted).sum(axis=1)))
    on_target, on_square = pull[:, layout.target[:-1]], pull[:, layout.target[-1]]
    by_fitted += matrix_vector(gram, on_target + 2 * on_square[:, None] * fitted)
    by_log_residual += on_square * residual
    by_gram += on_target[:, :, None] * fitted[:, None, :] + outer(on_square, fitted)
    by_prior = -after.covariance / 2 - outer(ratio / size, after.mean - prior.mean)
    by_average = _slope_by_averages(average, by_prior, prior)
    by_gram[:, :, 0] += by_average / share[:, None]
    # what the prior's precision is made of, and the root of its determinant
    value += (np.linalg.slogdet(gram)[1] - layout.d * np.log(share)) / 2
    apart = prior.of_slopes(layout.intercept) * by_prior / share[:, None, None]
    by_gram += apart + np.linalg.inv(gram) / 2
    by_share = -((apart * gram).sum(axis=(1, 2)) + layout.d / 2) / share
    by_sums = by_gram.reshape(len(n), -1) @ basis_of(layout).T
    by_sums[:, : layout.entries] += pull[:, layout.features]
    by_sums[:, layout.squares] += by_squares / share[:, None]
    if layout.n is None:
        more, slope = _rows_term(n, point.log_residual, after, layout, a)
        value, slope = value + more, slope + by_share
        if average is not None:
            slope = slope - (by_average * average).sum(axis=1) / share
        by_sums[:, -1] += slope - (by_squares * squares).sum(axis=1) / share + pull[:, -1]
    return value + likelihood, Point(by_sums, by_fitted, by_log_residual)


def _all_sums(layout, sums, right, square):
    """All sums in the order they were released."""
    made = np.empty((len(sums), layout.entries + layout.d + 1 + (layout.n is None)))
    made[:, layout.features] = sums[:, : layout.entries]
    made[:, layout.target[:-1]], made[:, layout.target[-1]] = right, square
    if layout.n is None:
        made[:, -1] = sums[:, -1]
    return made


def _slope_by_averages(average, by_prior, prior):
    """The derivative by the columns' averages, through the prior's precision, by which it is ``by_prior``."""
    if average is None:
        return np.zeros(by_prior.shape[:2])
    return 2 * matrix_vector((prior.precision[:, 0, None, None] - prior.of_slopes(True)) * by_prior, average)


def _rows_term(n, log_residual, after, layout, a):
    """What depends on a private n beside the sums, and its derivative by n / size."""
    size, share, power = layout.size, n / layout.size, a * layout.d + layout.entries
    degrees = np.maximum(n - layout.d, LEAST_DEGREES)
    value = -power * np.log(share) + gammaln(after.shape) - gammaln(degrees / 2) + degrees / 2 * np.log(size / 2)
    slope = digamma(after.shape) / 2 - np.log(after.rate) / 2
    slope += np.where(n - layout.d > LEAST_DEGREES, (log_residual + np.log(size / 2) - digamma(degrees / 2)) / 2, 0.0)
    return value, -power / share + size * slope
