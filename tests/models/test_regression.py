"""Predictions of a regression: the mixture over draws, cut at the target's bounds."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import multivariate_normal

import dpgraph as dg
from dpgraph.models.regression import SCALES, kept_slopes
from dpgraph.structure.design import LinearDesign
from tests.small_tables import labelled

DESIGN = LinearDesign({"x": (0, 10), "k": ["a", "b", "c"]}, "y", (0, 200))


def model(draws=300, seed=0, deviation=0.1):
    rng = np.random.default_rng(seed)
    weights = np.array([0.1, 0.3, -0.1, 0.2]) + 0.03 * rng.standard_normal((draws, 4))
    variance = (deviation * rng.uniform(0.5, 2, draws)) ** 2
    return dg.results.LinearRegressionModel(dg.results.RegressionDraws(DESIGN, weights, variance, "plug-in"))


def values(rows=40, seed=1):
    rng = np.random.default_rng(seed)
    return {"x": rng.uniform(0, 10, rows), "k": rng.integers(0, 3, rows)}


def test_mean_and_deviation_and_interval_are_those_of_the_mixture():
    """Against a million draws of each of five rows: three standard errors."""
    made, given = model(), values(5)
    rng = np.random.default_rng(2)
    draws = made.draws
    x = np.column_stack([np.ones(5), given["x"] / 5 - 1, given["k"] == 1, given["k"] == 2])
    at = rng.integers(0, len(draws.variance), 1_000_000)
    low, high = made.predict_interval(given, 0.8).T
    for i in range(5):
        y = 100 + 100 * (draws.weights[at] @ x[i] + np.sqrt(draws.variance[at]) * rng.standard_normal(at.size))
        assert made.predict(given)[i] == pytest.approx(y.mean(), abs=3 * y.std() / 1000)
        assert made.predict(given, return_std=True)[1][i] == pytest.approx(y.std(), rel=0.01)
        assert np.mean(y < low[i]) == pytest.approx(0.1, abs=0.001)
        assert np.mean(y < high[i]) == pytest.approx(0.9, abs=0.001)


def exact_draws(mean, spread, count=1000):
    """Draws whose mean and covariance are these exactly."""
    normal = np.random.default_rng(3).standard_normal((count, len(mean)))
    normal -= normal.mean(axis=0)
    normal = np.linalg.solve(np.linalg.cholesky(np.cov(normal.T)), normal.T).T
    return mean + normal @ np.linalg.cholesky(spread).T


def test_slopes_near_0_in_their_spread_count_less_in_predictions_alone():
    """Draws of known mean and covariance: weak slopes are left out, clear ones drawn a little to 0; the line goes
    through the averages; coefficients and widths stay."""
    design = LinearDesign({"x": (-1, 1), "z": (-1, 1)}, "y", (-10, 10))
    root = np.array([[0.03, 0.0, 0.0], [0.01, 0.02, 0.0], [-0.005, 0.01, 0.02]])
    spread, prior, averages = root @ root.T, np.diag([0.1, 0.04, 0.02]), np.array([1.0, 0.3, -0.2, 0.1])
    x, widths, kept = np.column_stack([np.ones(3), [-1.0, 0.2, 1.0], [0.5, 1.0, -1.0]]), [], []
    for middle in (np.array([0.01, 0.02, 0.01]), np.array([0.01, 0.1, -0.1])):
        weights = exact_draws(middle, spread)
        draws = dg.results.RegressionDraws(
            design, weights, np.full(1000, 1e-4), "hamiltonian", prior_covariance=prior, averages=averages
        )
        slopes = kept_slopes(middle[1:], spread[1:, 1:], prior[1:, 1:])
        expected = 10 * (0.1 + (x[:, 1:] - averages[1:3]) @ slopes)
        found, given = dg.results.LinearRegressionModel(draws), {"x": x[:, 1], "z": x[:, 2]}
        assert found.predict(given) == pytest.approx(expected, abs=1e-9)
        assert draws.predict(given) == pytest.approx(10 * x @ middle, abs=1e-9)  # as its coefficients
        assert found.coef_ == pytest.approx(10 * middle[1:], abs=1e-9)
        kept.append(slopes / middle[1:])
        widths.append(found.predict_interval(given) - found.predict(given)[:, None])
    assert widths[1] == pytest.approx(widths[0], abs=1e-6)  # intervals move with the mean, as wide as they were
    assert (kept[0] == 0).all()
    assert ((kept[1] > 0.9) & (kept[1] < 1)).all()


def test_slopes_are_those_of_a_narrower_prior():
    """Bayes' rule with a normal likelihood, by matrices, each variance of the prior in turn: the likeliest is taken, or
    no slopes where it is no more than exp(2) times as likely as these."""
    rng = np.random.default_rng(0)
    draw, other = rng.standard_normal((2, 4, 4))
    prior, noise = draw @ draw.T + np.eye(4), 0.05 * (other @ other.T + np.eye(4))
    covariance = np.linalg.inv(np.linalg.inv(prior) + np.linalg.inv(noise))
    left_out = 0
    for size in np.linspace(0.1, 1.5, 8):
        seen = size * rng.standard_normal(4)
        means, evidence = [], []
        for scale in SCALES.ravel():
            whole = scale * prior + noise
            means.append(scale * prior @ np.linalg.solve(whole, seen))
            evidence.append(multivariate_normal.logpdf(seen, cov=whole) - multivariate_normal.logpdf(seen, cov=noise))
        best = np.argmax(evidence)
        expected = means[best] if evidence[best] > 2 else np.zeros(4)
        left_out += evidence[best] <= 2
        assert kept_slopes(means[-1], covariance, prior) == pytest.approx(expected, abs=1e-9)
    assert 0 < left_out < 8


def test_a_target_in_a_corner_of_its_bounds_is_predicted_as_well_as_by_its_average():
    """Nine features that say nothing, a target that fills a tenth of its bounds: two fits are no worse than the
    average by 5 %. Their coefficients have twice its error, also less exp(-Q/2) of the slopes, the rule before."""
    rng = np.random.default_rng(1)
    names = [f"x{i}" for i in range(9)]
    rows = pd.DataFrame(rng.uniform(-1, 1, (6000, 9)), columns=names)
    target = pd.Series(np.clip(3 + 1.5 * rng.standard_normal(6000), 0, 100), name="y")
    for seed in (1, 3):
        estimator = dg.PrivateLinearRegression(dict.fromkeys(names, (-1, 1)), (0, 100), 2, draws=300)
        estimator.set_params(random_state=seed, noise=dg.testing.SeededNoise(seed))
        found = estimator.fit(rows, target)
        assert np.mean((found.predict(rows) - target) ** 2) < 1.05 * target.var()
        assert np.mean((found.posterior_.predict(rows) - target) ** 2) > 2 * target.var()
        weights = found.posterior_.weights
        mean, spread = weights.mean(axis=0), np.cov(weights.T)
        steps = np.linalg.solve(spread[1:, 1:], mean[1:])
        before = mean - np.exp(-mean[1:] @ steps / 2) * spread[:, 1:] @ steps
        fitted = 50 + 50 * (before[0] + rows.to_numpy() @ before[1:])
        assert np.mean((fitted - target) ** 2) > 2 * target.var()


def test_predictions_and_intervals_stay_within_the_bounds():
    wide = model(deviation=50.0)
    low, high = wide.predict_interval(values()).T
    assert (low == 0).all()
    assert (high == 200).all()
    far = dg.results.LinearRegressionModel(
        dg.results.RegressionDraws(DESIGN, np.full((3, 4), 9.0), np.ones(3), "plug-in")
    )
    assert set(far.predict(values())) <= {0.0, 200.0}


def test_a_frame_of_all_of_it():
    frame = model().frame(values())
    assert list(frame.columns) == ["prediction", "std", "lower", "upper"]
    assert (frame["lower"] <= frame["upper"]).all()
    assert model().frame(values(0)).shape == (0, 4)
    wider = model().predict_interval(values(), 0.99)
    assert (wider[:, 0] <= frame["lower"]).all()
    assert (wider[:, 1] >= frame["upper"]).all()
    assert model().features == ("x", "k")
    assert model().target == "y"


def test_what_counts_as_missing():
    design = LinearDesign({"x": dg.Bounded(0, 10, missing=5)}, "y", (0, 1))
    made = dg.results.RegressionDraws(design, np.ones((3, 2)), np.ones(3), "plug-in")
    assert np.allclose(made.predict({"x": [np.nan, 10.0]}), made.predict({"x": [5.0, 12.0]}))


def test_a_model_shows_itself_in_a_line_and_a_small_table():
    """Whatever the draws are many: a coefficient a line with the ends of its 90 % interval, at most twelve of them."""
    made = model(5000)
    head, columns, *lines = repr(made).splitlines()
    assert head == "LinearRegressionModel('y', 2 features, 5000 draws, method='plug-in')"
    assert columns.split() == ["mean", "lower", "upper"]
    assert [line.split()[0] for line in lines] == ["intercept", "x", "k=b", "k=c"]
    found = made.draws.coefficients()[["mean", "lower", "upper"]].to_numpy()
    assert np.allclose([[float(word) for word in line.split()[1:]] for line in lines], found, rtol=1e-3)
    wide = LinearDesign({f"x{i}": (0, 1) for i in range(30)}, "y", (0, 1))
    many = dg.results.RegressionDraws(wide, np.ones((40, 31)), np.ones(40), "plug-in")
    shown = repr(dg.results.LinearRegressionModel(many)).splitlines()
    assert len(shown) == 15
    assert shown[-1] == "... (31 coefficients)"


@pytest.mark.parametrize("call", [lambda m: dg.query(m, "y"), lambda m: dg.sample_rows(m, 5, 0), dg.to_datatree])
def test_a_regression_says_what_to_ask_it_where_a_network_is_meant(call):
    frame = labelled()
    model = dg.PrivateLinearRegression({"a": (1, 3)}, (1, 2), epsilon=1).fit(frame[["a"]], frame.y).model_
    with pytest.raises(dg.errors.DPGraphError, match="ask its own predict or predict_interval"):
        call(model)
