"""Regressions simulated from their own prior, released with ideal noise, and all solved at once."""

from dataclasses import replace

import numpy as np

from dpgraph.inference.regression.chain import as_model, sampled, settled_chains, starting_points
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace
from dpgraph.structure.design import RESOLUTION
from dpgraph.structure.moments import NoisyMoments


def moments(design, sums, scale, n, *, gaussian=False):
    """A release whose noisy sums are these; n is None where it is the last of them.

    The scale is that of sums of features; those with the target may have less noise, as the design says.
    """
    law = (DiscreteGaussian if gaussian else DiscreteLaplace)(scale * RESOLUTION**2)
    steps = np.array(design.steps) if n is not None else np.append(design.steps, 1 / design.weight)
    return NoisyMoments(design, np.rint(np.asarray(sums) / steps).astype(np.int64), law, n)


def features(design, n, rng):
    """Bounded columns, skewed, uniform or of levels, whatever the parameters; the target is left out."""
    x, level = np.ones((n, len(design.columns) - 1)), np.zeros(n)
    for i, column in enumerate(design.columns[:-1]):
        if column.kind == "number":
            x[:, i] = rng.uniform(-1, 1, n) if i % 2 else 2 * rng.beta(2, 4, n) - 1
        elif column.kind == "sign":
            x[:, i] = rng.choice([-1, 1], n, p=[0.3, 0.7])
        elif column.kind == "level":
            level = rng.integers(0, design.features[column.variable].size, n) if column.level == 1 else level
            x[:, i] = level == column.level
    return x


def parameters(design, prior, x, rng):
    """Weights and variance from the prior."""
    variance = prior.rate / rng.standard_gamma(prior.shape)
    if prior.half_cauchy is not None:
        variance = (prior.half_cauchy * rng.standard_cauchy()) ** 2
    tails = np.ones(x.shape[1])
    if np.isfinite(prior.degrees):
        own, common = np.sqrt(prior.degrees / rng.chisquare(prior.degrees, 2))
        tails[:] = common
        tails[: int(design.intercept)] = own
    weights = np.sqrt(variance) * prior.scale(design) * tails * rng.standard_normal(x.shape[1])
    first = int(design.intercept)
    apart = x[:, first:] - first * x[:, first:].mean(axis=0)
    root = np.linalg.cholesky(np.linalg.inv(apart.T @ apart / len(x)))
    weights[first:] = root @ weights[first:]
    if design.intercept:
        weights[0] -= weights[1:] @ x[:, 1:].mean(axis=0)
    return weights + prior.centre(design), variance


def simulated(design, prior, n, scale, rng, *, gaussian=False, private=False):
    """A release and the weights and variance behind it."""
    x = features(design, n, rng)
    weights, variance = parameters(design, prior, x, rng)
    y = x @ weights + np.sqrt(variance) * rng.standard_normal(n)
    z = np.column_stack([x, y])
    sums = np.array([(z.T @ z)[pair] for pair in design.pairs] + ([n] if private else []), float)
    noise = rng.standard_normal(sums.size) if gaussian else rng.laplace(size=sums.size)
    relative = np.append(design.steps, [1 / RESOLUTION**2] * private) * RESOLUTION**2
    noisy = moments(design, sums + scale * relative * noise, scale, None if private else n, gaussian=gaussian)
    return noisy, np.append(weights, variance)


def solved(design, prior, noisy, rng, *, draws, burn_in, thin):
    """One chain for each release of a design and a number of rows: draws of weights and variance.

    The chains have one metric and step sizes of their own; each must have moved.
    """
    models = [as_model(one, prior, design) for one in noisy]
    size = models[0].layout.size
    observed = np.stack([one.noise.observed * one.layout.size / size for one in models])
    rough = {name: np.stack([getattr(one, name) for one in models]) for name in ("middle", "root")}
    model = replace(models[0], noise=replace(models[0].noise, observed=observed), **rough)
    settled = settled_chains(model, starting_points(model, design, len(noisy), rng), burn_in, rng)
    after, kept = sampled(settled, draws, thin, rng)
    assert (after.state.flat != settled.state.flat).any(axis=1).all(), "a chain has not moved"
    return np.concatenate([kept.weights, kept.variance[..., None]], axis=2)


def ranks(draws, truth, rng):
    """Where the truth falls among its draws, uniform in [0, 1] if these are from the posterior; ties at random."""
    below = (draws < truth[:, None]).sum(axis=1)
    return (below + rng.random(below.shape)) / (draws.shape[1] + 1)
