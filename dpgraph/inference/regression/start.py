"""Starting points of a regression's chains: possible sums near the released ones, spread wider than their posterior."""

from __future__ import annotations

import numpy as np

from dpgraph.inference.regression.chain import Model
from dpgraph.inference.regression.density import Layout, Noise, Point, matrix_vector, sums_are_possible, sums_layout
from dpgraph.inference.regression.prior import RegressionPrior, columns_by_feature, level_share
from dpgraph.structure.design import LinearDesign
from dpgraph.structure.moments import NoisyMoments
from dpgraph.structure.tables import Reals

#: How far towards uniform, unrelated features impossible sums are moved, in tries.
SHRINKING = (0.0, *(0.01 * 1.3**k for k in range(18)), 1.0)
#: The share of the target's square that residuals begin with at least.
LEAST_RESIDUAL = 0.2


def as_model(noisy: NoisyMoments, prior: RegressionPrior, design: LinearDesign) -> Model:
    """The model of a release, in coordinates of order 1."""
    size = _size(noisy)
    layout = sums_layout(design, None if noisy.n is None else max(1.0, float(noisy.n)), size)
    noise = Noise(noisy.values / size, noisy.scales / size, not noisy.law.gaussian)
    centre, (middle, root) = prior.centre(design), _rough(layout, noise, prior, design)
    structure, alike = prior.structure(design), columns_by_feature(design)
    return Model(layout, noise, prior, centre, prior.scale(design), middle, root, structure, alike)


def starting_points(model: Model, design: LinearDesign, chains: int, rng: np.random.Generator) -> Reals:
    """A starting point for each chain, shape (chains, coordinates)."""
    layout, noise = model.layout, model.noise
    scale = np.minimum(noise.scale[layout.features], 0.3)
    sums = noise.observed[..., layout.features] + scale * rng.laplace(size=(chains, layout.entries))
    share = np.full((chains, 1), 1.0 if layout.n is None else layout.n / layout.size)
    if layout.n is None:
        near = noise.observed[..., -1:] + min(noise.scale[-1], 0.3) * rng.laplace(size=(chains, 1))
        share = np.clip(near, 0.3, 3.0)
    sums = possible_sums(sums / share, layout, design) * share
    sums = np.hstack([sums, share]) if layout.n is None else sums
    gram = layout.matrix(sums)
    square = _square(layout, noise)
    u = rng.standard_normal((chains, layout.d))
    fitted = model.uncentred(sums, model.middle + np.sqrt(square)[..., None] * matrix_vector(model.root, u))
    explained = (fitted * matrix_vector(gram, fitted)).sum(axis=1)
    residual = np.maximum(noise.observed[..., layout.target[-1]] - explained, LEAST_RESIDUAL * square)
    log_residual = np.log(residual) + 0.2 * rng.standard_normal(chains)
    return model.flat(Point(sums, fitted, log_residual))


def possible_sums(sums: Reals, layout: Layout, design: LinearDesign) -> Reals:
    """Sums over n, moved towards unrelated features as little as makes them possible; shape (chains, sums)."""
    centre = unrelated_averages(layout, design)
    made, open_ = np.clip(sums, -1.0, 1.0), np.ones(len(sums), bool)
    shares = np.ones((len(sums), 1)) if layout.n is None else np.full((len(sums), 1), layout.n / layout.size)
    clipped = made.copy()
    for weight in SHRINKING:
        moved = (1 - weight) * clipped + weight * centre
        # further than needed where it is needed: at the very edge the density has no scale
        inner = moved + weight / 2 * (centre - moved)
        whole = np.hstack([moved * shares, shares]) if layout.n is None else moved * shares
        fits = sums_are_possible(whole, layout) & open_
        made[fits], open_ = inner[fits], open_ & ~fits
    return made


def unrelated_averages(layout: Layout, design: LinearDesign) -> Reals:
    """The averages of products of independent features, numbers uniform in their bounds and levels alike."""
    columns = design.columns[:-1]
    averages, squares = [], []
    for column in columns:
        chance = level_share(design, column)
        averages.append(1.0 if column.kind == "intercept" else chance)
        squares.append({"number": 1 / 3, "level": chance}.get(column.kind, 1.0))
    pairs = (design.pairs[k] for k in layout.features)
    return np.array([squares[i] if i == j else averages[i] * averages[j] for i, j in pairs])


def _size(noisy: NoisyMoments) -> float:
    """The rows, or where they are private a number that cannot be far below them."""
    if noisy.n is not None:
        return max(1.0, float(noisy.n))
    return float(max(noisy.values[-1], noisy.scales[-1], len(noisy.description.names)))


def _square(layout: Layout, noise: Noise) -> Reals:
    """A plausible y'y / n."""
    return np.clip(noise.observed[..., layout.target[-1]], 0.02, 0.5)


def _rough(layout: Layout, noise: Noise, prior: RegressionPrior, design: LinearDesign) -> tuple[Reals, Reals]:
    """A rough estimate of the centred weights, and a root of its covariance over the residuals' share."""
    share = 1.0 if layout.n is None else layout.n / layout.size
    sums = possible_sums(noise.observed[..., layout.features][None] / share, layout, design) * share
    gram = layout.matrix(np.hstack([sums, [[share]]]) if layout.n is None else sums)[0]
    square, centre = _square(layout, noise), prior.centre(design)
    scale = prior.scale(design) ** -2.0 / square
    before = np.diag(scale)
    if design.intercept:
        before[0, 0] = 0.0
        before += scale[0] * np.outer(gram[0], gram[0]) / share**2
    known = 1 / (4 * noise.scale[layout.target[:-1]] ** 2)
    covariance = np.linalg.inv(gram @ (known[:, None] * gram) + before)
    right = noise.observed[..., layout.target[:-1]] - gram @ centre
    middle = centre + covariance @ gram @ (known * right)
    if design.intercept:
        to_centred = np.eye(layout.d)
        to_centred[0] = gram[0] / share
        middle, covariance = to_centred @ middle, to_centred @ covariance @ to_centred.T
    return middle, np.linalg.cholesky((covariance + covariance.T) / 2) / np.sqrt(square)
