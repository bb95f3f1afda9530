"""The density of a regression's sums is the one it says, and its gradient is its own."""

import numpy as np
import pytest
from scipy import stats

from dpgraph.inference.regression.chain import (
    Noise,
    Point,
    WeightPrior,
    conjugate_update,
    sums_are_possible,
    sums_layout,
)
from dpgraph.inference.regression.prior import RegressionPrior
from dpgraph.structure.design import LinearDesign
from tests.inference.regression.plain_density import log_density
from tests.inference.regression.problems import features

FEATURES = {"a": (0, 1), "s": ["x", "y"], "l": ["p", "q", "r"], "b": (0, 1)}


def point_of(design, n, size, rng, *, private):
    """Coordinates of true sums of simulated rows, and the sums themselves."""
    x = features(design, n, rng)
    z = np.column_stack([x, 0.3 * rng.standard_normal(n)])
    gram = z.T @ z
    layout = sums_layout(design, None if private else float(n), size)
    released = np.array([gram[pair] for pair in design.pairs]) / size
    fitted = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
    residual = gram[-1, -1] - fitted @ gram[:-1, :-1] @ fitted
    sums = np.append(released[layout.features], n / size) if private else released[layout.features]
    observed = np.append(released, n / size) if private else released
    return layout, Point(sums[None], fitted[None], np.log([residual / size])), gram, observed


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("private", [True, False])
def test_the_gradient_is_that_of_the_density(private, intercept, laplace):
    design, rng = LinearDesign(FEATURES, "y", (0, 1), intercept=intercept), np.random.default_rng(0)
    layout, point, gram, observed = point_of(design, 200, 180.0, rng, private=private)
    assert np.allclose(layout.matrix(point.sums)[0] * 180, gram[:-1, :-1])
    d, k = layout.d, point.sums.shape[1]
    flat = np.concatenate([point.sums[0], point.fitted[0], point.log_residual])
    flat = flat + 0.002 * rng.standard_normal((3, flat.size))
    prior = WeightPrior(0.1 * rng.standard_normal((3, d)), np.full((3, d), 1.5), 2.0, np.full(3, 0.1))
    noise = Noise(observed + 0.01, np.full(observed.size, 0.05), laplace)

    def density(x):
        value, slope = log_density(Point(x[:, :k], x[:, k:-1], x[:, -1]), layout, prior, (1.5, -0.7, 0.5), noise)
        return value, np.concatenate([slope.sums, slope.fitted, slope.log_residual[:, None]], axis=1)

    assert sums_are_possible(flat[:, :k], layout).all()
    _, slope = density(flat)
    step = 1e-6 * np.eye(flat.shape[1])
    measured = np.stack([(density(flat + e)[0] - density(flat - e)[0]) / 2e-6 for e in step], axis=1)
    assert np.abs(measured - slope).max() < 1e-6 * np.abs(slope).max()


@pytest.mark.parametrize("n", [3, 12])
def test_weights_and_variance_are_integrated_out(n):
    """One feature, no intercept: p(r, y'y | A) by quadrature over weight and variance, from the normal law of r and the
    chi-square law of the residuals, at points relative to one another; then through the Jacobian A R. The weight's
    precision is the prior's times A / n."""
    design = LinearDesign({"x": (-1, 1)}, "y", (-1, 1), intercept=False)
    layout, shape, rate, mean, precision = sums_layout(design, float(n), 1.0), 2.0, 0.3, 0.2, 1.7
    prior = WeightPrior(np.array([[mean]]), np.array([[precision]]), shape, np.array([rate]))
    flat_noise = Noise(np.zeros(3), np.full(3, 1e9), False)

    nodes, weights = np.polynomial.legendre.leggauss(400)
    low, high = np.log(1e-3), np.log(1e4)
    variance = np.exp((low + high) / 2 + (high - low) / 2 * nodes)[:, None]
    over_variance = variance * (high - low) / 2 * weights[:, None]

    def by_quadrature(a, fitted, residual):
        """Over ln variance, and over twelve deviations of the weight to both sides of where the two normals meet."""
        by_column = precision * a / n
        deviation = 12 * np.sqrt(variance / (a + by_column))
        weight = (a * fitted + by_column * mean) / (a + by_column) + deviation * nodes
        law = stats.norm.pdf(a * fitted, a * weight, np.sqrt(variance * a))
        law *= stats.chi2.pdf(residual / variance, n - 1) / variance
        law *= stats.norm.pdf(weight, mean, np.sqrt(variance / by_column))
        law *= stats.invgamma.pdf(variance, shape, scale=rate)
        return (law * over_variance * deviation * weights).sum() * a * residual

    places = [(0.9, 0.2, 0.8), (0.9, 0.7, 0.8), (0.9, 0.2, 2.0), (2.0, -0.4, 1.1)]
    expected = np.log([by_quadrature(*place) for place in places])
    points = np.array(places)
    point = Point(points[:, :1], points[:, 1:2], np.log(points[:, 2]))
    many = WeightPrior(*(np.repeat(v, 4, axis=0) for v in (prior.mean, prior.precision)), shape, np.full(4, rate))
    found, _ = log_density(point, layout, many, (0.0, 0.0, 0.0), flat_noise)
    assert np.allclose(found - found[0], expected - expected[0], rtol=0, atol=1e-8)


def test_mean_squares_have_a_beta_law_whatever_the_other_columns():
    """proofs.md P81: |S|^a times powers of S_jj and 1 - S_jj, summed over a grid of averages and cross products of two
    numbers beside an intercept, is the product of two Beta densities; with the exponents of no columns it is not."""
    prior = RegressionPrior(features=(2.0, 1.5, 4.0))
    a, low, high = prior.exponents(3)
    at = np.linspace(-1, 1, 161)
    one, two, cross = at[:, None, None], at[None, :, None], at[None, None, :]

    def weight(p, q, low):
        determinant = (p - one**2) * (q - two**2) - (cross - one * two) ** 2
        sound = (one**2 < p) & (two**2 < q) & (determinant > 0)
        return np.where(sound, determinant, 0).__pow__(a).sum() * (p * q) ** low * ((1 - p) * (1 - q)) ** high

    squares = [(0.2, 0.2), (0.1, 0.3), (0.5, 0.25), (0.7, 0.6)]
    law = stats.beta(1.5, 4.0)
    expected = np.array([law.pdf(p) * law.pdf(q) for p, q in squares])
    found, wrong = (np.array([weight(p, q, power) for p, q in squares]) for power in (low, prior.exponents(1)[1]))
    assert found / found[0] == pytest.approx(expected / expected[0], rel=0.01)
    assert (np.abs(wrong / wrong[0] / (expected / expected[0]) - 1)[1:] > 0.1).all()


@pytest.mark.parametrize("private", [True, False])
def test_the_features_prior_is_in_the_density(private):
    """Two priors of features apart by their formula, of S = A / n, at a point with each number's mean square."""
    design = LinearDesign(FEATURES, "y", (0, 1))
    layout, point, gram, observed = point_of(design, 200, 180.0, np.random.default_rng(0), private=private)
    prior = WeightPrior(np.zeros((1, 6)), np.ones((1, 6)), 2.0, np.array([0.1]))
    noise = Noise(observed, np.full(observed.size, 0.05), True)
    base, other = (log_density(point, layout, prior, three, noise)[0] for three in ((0.0, 0.0, 0.0), (1.5, -2.5, 3.0)))
    s = gram[:-1, :-1] / 200
    numbers = np.array([s[i, i] for i, column in enumerate(design.columns[:-1]) if column.kind == "number"])
    expected = 1.5 * np.linalg.slogdet(s)[1] + (-2.5 * np.log(numbers) + 3 * np.log(1 - numbers)).sum()
    constant = 0.0 if private else 1.5 * layout.d * np.log(200 / 180)
    assert other - base == pytest.approx(expected + constant)


def test_the_update_is_the_textbooks():
    """proofs.md P63: L_n = X'X + L_0, m_n = L_n^-1 (X'y + L_0 m_0), a_n, b_n; the intercept's prior: the average's."""
    design, rng = LinearDesign(FEATURES, "y", (0, 1)), np.random.default_rng(1)
    n = 50
    layout, point, gram, _ = point_of(design, n, 1.0, rng, private=False)
    d, average = layout.d, gram[0, :-1] / n
    prior = WeightPrior(rng.standard_normal((1, d)), rng.uniform(0.5, 2, (1, d)), 2.0, np.array([0.4]))
    root = np.sqrt(prior.precision[0])
    before = np.outer(root, root) * (gram[:-1, :-1] / n - np.outer(average, average))
    before += prior.precision[0, 0] * np.outer(average, average)
    precision = gram[:-1, :-1] + before
    mean = np.linalg.solve(precision, gram[:-1, -1] + before @ prior.mean[0])
    rate = 0.4 + (gram[-1, -1] + prior.mean[0] @ before @ prior.mean[0] - mean @ precision @ mean) / 2
    found = conjugate_update(gram[None, :-1, :-1], point.fitted, np.exp(point.log_residual), np.array([n]), prior, True)
    assert np.allclose(found.mean[0], mean)
    assert np.allclose(found.rate, rate)
    assert found.shape == [27.0]
    assert np.allclose(found.covariance[0], np.linalg.inv(precision))


def test_a_g_prior_is_that_of_the_columns():
    """proofs.md P99: slopes have the columns' covariance times the scales as their precision, the average prediction
    one of its own; without an intercept it is the mean products."""
    for intercept in (True, False):
        design, rng = LinearDesign(FEATURES, "y", (0, 1), intercept=intercept), np.random.default_rng(1)
        n, first = 200, int(intercept)
        layout, _, gram, _ = point_of(design, n, 180.0, rng, private=False)
        d, products = layout.d, gram[:-1, :-1] / n
        root = np.sqrt(rng.uniform(0.5, 2, d))
        apart = products - first * np.outer(products[0], products[0])
        by_columns = WeightPrior(np.zeros((1, d)), root[None] ** 2, 2.0, np.array([0.4]))
        expected = np.zeros((d, d))
        expected[first:, first:] = (np.outer(root, root) * apart)[first:, first:]
        if intercept:
            expected += root[0] ** 2 * np.outer(products[0], products[0])
        assert np.allclose(by_columns.matrix(products[None], intercept)[0], expected)


def test_impossible_sums_are_seen():
    design = LinearDesign({"a": (0, 1), "b": (0, 1)}, "y", (0, 1))
    layout = sums_layout(design, 10.0, 10.0)
    assert [design.names[k] for k in layout.features] == ["intercept*a", "intercept*b", "a*a", "a*b", "b*b"]
    sums = np.array([
        [0.1, 0.1, 0.5, 0.1, 0.5],
        [0.9, 0.1, 0.5, 0.1, 0.5],  # a mean square below the squared mean
        [0.1, 0.1, 1.1, 0.1, 0.5],  # a square above 1
        [0.1, 0.1, 0.5, 0.6, 0.5],  # a correlation above 1
        [np.nan, 0.1, 0.5, 0.1, 0.5],
    ])  # fmt: skip
    assert sums_are_possible(sums, layout).tolist() == [True, False, False, False, False]
