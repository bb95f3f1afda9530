"""Chains on a regression's sums: calibrated for weights and variance, where treating noisy sums as true is not."""

import numpy as np
import pytest
from scipy import stats

from dpgraph.inference.regression import chain
from dpgraph.inference.regression.chain import (
    _first_prior,
    _hyperparameters,
    as_model,
    sampled,
    settled_chains,
    starting_points,
    sums_are_possible,
)
from dpgraph.inference.regression.posterior import plug_in_draws
from dpgraph.inference.regression.prior import RegressionPrior
from dpgraph.privacy.records import PrivacyUnit
from dpgraph.structure.design import RESOLUTION, LinearDesign
from tests.inference.regression.plain_density import log_density, model_density
from tests.inference.regression.problems import moments, ranks, simulated, solved

TWO = {"a": (0, 1), "b": (0, 1)}
MIXED = {"a": (0, 1), "s": ["x", "y"], "l": ["p", "q", "r"]}


def calibration(features, n, epsilon, prior, replicates, seed, *, gaussian=False, private=False, length=(300, 50, 4)):
    """KS distance of the ranks of each weight and the variance from uniform: noise-aware, plug-in."""
    design, rng = LinearDesign(features, "y", (0, 1)), np.random.default_rng(seed)
    unit = PrivacyUnit("add-remove" if private else "replace")
    scale = design.sensitivity(unit) / RESOLUTION**2 / epsilon
    made = [simulated(design, prior, n, scale, rng, gaussian=gaussian, private=private) for _ in range(replicates)]
    noisy, truth = [one for one, _ in made], np.stack([one for _, one in made])
    burn_in, draws, thin = length
    aware = ranks(solved(design, prior, noisy, rng, draws=draws, burn_in=burn_in, thin=thin), truth, rng)
    naive = [np.column_stack(plug_in_draws(one, prior, design, 200, rng)[:2]) for one in noisy]
    return [
        np.array([stats.kstest(u, "uniform").statistic for u in found.T])
        for found in (aware, ranks(np.stack(naive), truth, rng))
    ]


@pytest.mark.proof
def test_intervals_are_calibrated_and_plug_in_ones_are_not():
    """SBC, 120 regressions of 1000 rows at epsilon .5. Each KS test at level 1e-6; plug-in posteriors, which take the
    noise for data, are beyond it for every weight and the variance."""
    aware, naive = calibration(TWO, 1000, 0.5, RegressionPrior(), 120, 0, length=(150, 25, 4))
    critical = stats.kstwo(120).isf(1e-6)
    assert (aware < critical).all()
    assert (naive > critical).all()


@pytest.mark.proof
@pytest.mark.parametrize(
    ("features", "n", "epsilon", "settings", "how"),
    [
        (TWO, 1000, 0.5, {}, {}),
        (TWO, 500, 1.0, {"degrees": np.inf}, {}),
        (MIXED, 2000, 0.5, {}, {}),
        (TWO, 1000, 0.5, {}, {"gaussian": True}),
        (TWO, 1000, 0.5, {}, {"private": True}),
    ],
    ids=["two numbers", "normal weights", "levels", "normal noise", "private n"],
)
def test_calibration_at_length(features, n, epsilon, settings, how):
    """SBC, 500 regressions: every KS distance within the critical value of one parameter at 1e-6, and plug-in beyond it
    for every parameter. Power: draws of half their deviation or less are further from uniform than that."""
    aware, naive = calibration(features, n, epsilon, RegressionPrior(**settings), 500, 1, length=(400, 60, 10), **how)
    critical = stats.kstwo(500).isf(1e-6 / len(aware))
    print(f"{n=} {epsilon=} {settings} {how} KS {aware.round(3)} plug-in {naive.round(3)} critical {critical:.3f}")
    assert (aware < critical).all()
    assert (naive > critical).all()


@pytest.mark.parametrize("settings", [{"half_cauchy": 0.3}, {"degrees": 3.0}, {"half_cauchy": 0.2, "degrees": 5.0}])
def test_hyperparameters_leave_the_prior_as_it_is(settings):
    """Draw variance and weights from the prior, hyperparameters given these, and both again given hyperparameters:
    their laws are what they were. 40 000 draws; at level 1e-6 KS sees a scale wrong by 10 %. Columns of the g-prior
    have mean squares .3 and .5 and average product .3: slopes times a root of that are white."""
    rng, count = np.random.default_rng(0), 40_000
    design, prior = (
        LinearDesign({"x": (-1, 1), "z": (-1, 1)}, "y", (-1, 1)),
        RegressionPrior(**settings),
    )
    model = as_model(moments(design, np.zeros(9), 1.0, 10), prior, design)
    half_cauchy = prior.half_cauchy
    if half_cauchy is None:
        variance = prior.rate / rng.standard_gamma(prior.shape, count)
    else:
        variance = (half_cauchy * np.abs(rng.standard_cauchy(count))) ** 2
    tails = np.sqrt(prior.degrees / rng.chisquare(prior.degrees, (count, 2)))[:, [0, 1, 1]]
    weights = np.sqrt(variance)[:, None] * model.scale * tails * rng.standard_normal((count, 3))
    products = np.array([[1.0, 0, 0], [0, 0.3, 0.3], [0, 0.3, 0.5]])
    weights = weights @ np.linalg.inv(np.linalg.cholesky(products))
    products = np.tile(products, (count, 1, 1))
    found = _hyperparameters(model, weights, variance, products, rng)
    again = found.rate / rng.standard_gamma(found.shape, count)
    redrawn = np.sqrt(variance)[:, None] / np.sqrt(found.precision) * rng.standard_normal((count, 3))
    standard = redrawn / np.sqrt(variance)[:, None] / model.scale
    assert stats.kstest(standard[:, 1], stats.t(prior.degrees).cdf).pvalue > 1e-6
    assert stats.kstest(standard[:, 1] * 1.1, stats.t(prior.degrees).cdf).pvalue < 1e-6
    together = (standard[:, 1] ** 2 + standard[:, 2] ** 2) / 2
    assert stats.kstest(together, stats.f(2, prior.degrees).cdf).pvalue > 1e-6, "one scale for all features"
    assert stats.kstest((standard[:, 0] ** 2 + standard[:, 1] ** 2) / 2, stats.f(2, prior.degrees).cdf).pvalue < 1e-6
    if half_cauchy is not None:
        deviation = np.sqrt(again)
        assert stats.kstest(deviation, stats.halfcauchy(scale=half_cauchy).cdf).pvalue > 1e-6
        assert stats.kstest(deviation * 1.1, stats.halfcauchy(scale=half_cauchy).cdf).pvalue < 1e-6
        assert stats.spearmanr(deviation, np.sqrt(variance)).statistic > 0.2


def test_every_chain_moves_however_unlike_the_others():
    """Forty releases with normal noise whose residual variances are .03 to 4: with one step size for all, a seventh of
    the chains stay where they began."""
    design, prior, rng = LinearDesign(TWO, "y", (0, 1)), RegressionPrior(), np.random.default_rng(1)
    scale = design.sensitivity(PrivacyUnit("replace")) / RESOLUTION**2 / 0.5
    noisy = [simulated(design, prior, 1000, scale, rng, gaussian=True)[0] for _ in range(40)]
    assert np.isfinite(solved(design, prior, noisy, rng, draws=20, burn_in=100, thin=1)).all(), "it asserts that"


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("private", [True, False])
def test_a_chains_density_counts_its_coordinates_and_has_its_own_gradient(private, intercept):
    """By finite differences: the log determinant of the Jacobian of (sums, least-squares weights, log residual)."""
    design, rng = LinearDesign(MIXED | {"b": (0, 1)}, "y", (0, 1), intercept=intercept), np.random.default_rng(4)
    noisy, _ = simulated(design, RegressionPrior(), 300, 3.0, rng, private=private)
    model = as_model(noisy, RegressionPrior(), design)
    flat = starting_points(model, design, 3, rng)
    prior, step = _first_prior(model, 3), 1e-6 * np.eye(flat.shape[1])
    value, slope = model_density(model, flat, prior)
    ahead, behind = (np.stack([model_density(model, flat + way * e, prior)[0] for e in step]) for way in (1, -1))
    measured = (ahead - behind) / 2e-6
    assert np.abs(measured.T - slope).max() < 1e-5 * np.abs(slope).max()

    def coordinates(x):
        point = model.point(x)
        return np.concatenate([point.sums, point.fitted, point.log_residual[:, None]], axis=1)

    jacobian = np.stack([(coordinates(flat + e) - coordinates(flat - e)) / 2e-6 for e in step], axis=2)
    by_point, _ = log_density(
        model.point(flat), model.layout, prior, model.prior.exponents(model.layout.d), model.noise
    )
    apart = value - by_point - np.linalg.slogdet(jacobian)[1]
    assert np.ptp(apart) < 1e-6, "but for a constant"


@pytest.mark.proof
@pytest.mark.parametrize("private", [False, True])
def test_factors_and_coordinates_have_one_law(monkeypatch, private):
    """proofs.md P98. Eighty chains that move in factors alone and eighty in coordinates alone, of a release with noise
    as large as the columns' covariance: averages of a chain's weights, their squares, log variance and log
    determinant by a two-sample t test at level 1e-6 together; it sees averages that are 1.2 deviations of one chain's
    apart, and that of another release's."""
    design, rng = LinearDesign({"a": (0, 1), "s": ["x", "y"], "b": (0, 1)}, "y", (0, 1)), np.random.default_rng(4)
    noisy = [simulated(design, RegressionPrior(), 300, 15.0, rng, private=private)[0] for _ in range(2)]
    models = [as_model(one, RegressionPrior(), design) for one in noisy]
    both = chain._first_tunings

    def averages(model, factors):
        kind = lambda model, chains: tuple(one for one in both(model, chains) if one.factors == factors)  # noqa: E731
        monkeypatch.setattr(chain, "_first_tunings", kind)
        settled = settled_chains(model, starting_points(model, design, 80, rng), 160, rng)
        shown = []
        for _ in range(12):
            settled, kept = sampled(settled, 10, 1, rng)
            products = model.layout.matrix(model.point(settled.state.flat).sums)
            weights, last = kept.weights.mean(axis=1), np.linalg.slogdet(products)[1]
            shown.append(
                np.column_stack([weights, (kept.weights**2).mean(axis=1), np.log(kept.variance).mean(axis=1), last])
            )
        return np.mean(shown, axis=0)

    by_factors, by_coordinates, other = averages(models[0], True), averages(models[0], False), averages(models[1], True)
    assert stats.ttest_ind(by_factors, by_coordinates).pvalue.min() > 1e-6 / by_factors.shape[1]
    assert stats.ttest_ind(by_factors, other).pvalue.min() < 1e-6 / by_factors.shape[1]


@pytest.mark.proof
def test_kinds_of_far_shorter_steps_are_left_off():
    """Factors where noise drowns the sums, coordinates where it is small, and both between; columns of levels alone
    have no factors."""
    found, rng = {}, np.random.default_rng(4)
    for scale in (1e5, 20.0, 1e-3):
        design = LinearDesign({f"x{i}": (0, 1) for i in range(8)}, "y", (0, 1))
        model = as_model(simulated(design, RegressionPrior(), 1000, scale, rng)[0], RegressionPrior(), design)
        settled = settled_chains(model, starting_points(model, design, 4, rng), 120, rng)
        found[scale] = [one.factors for one in settled.tunings]
    assert found[1e5] == [True]
    assert False in found[1e-3]
    design = LinearDesign({"l": ["p", "q", "r"]}, "y", (0, 1))
    model = as_model(simulated(design, RegressionPrior(), 1000, 1.0, rng)[0], RegressionPrior(), design)
    settled = settled_chains(model, starting_points(model, design, 4, rng), 12, rng)
    assert [one.factors for one in settled.tunings] == [False]


def test_chains_go_on_from_where_they_were():
    """Three draws and then four are seven, with the same randomness; and the value gone on from is as it was."""
    design, rng = LinearDesign(MIXED, "y", (0, 1)), np.random.default_rng(4)
    noisy, _ = simulated(design, RegressionPrior(), 300, 3.0, rng)
    model = as_model(noisy, RegressionPrior(), design)
    settled = settled_chains(model, starting_points(model, design, 3, rng), 12, rng)
    chains, first = sampled(settled, 3, 2, np.random.default_rng(1))
    after_three = np.random.default_rng(1)
    sampled(settled, 3, 2, after_three)
    _, rest = sampled(chains, 4, 2, after_three)
    _, whole = sampled(settled, 7, 2, np.random.default_rng(1))
    assert np.array_equal(first.then(rest).weights, whole.weights)
    assert np.array_equal(first.then(rest).variance, whole.variance)
    assert np.array_equal(whole.later_half().variance, whole.variance[:, 3:])
    assert np.ptp(whole.variance, axis=1).min() > 0, "they move"


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e5])
@pytest.mark.parametrize("n", [None, 0, 1, 3, 1000])
def test_chains_begin_where_rows_could_be(scale, n):
    design, rng = LinearDesign(MIXED | {"b": (0, 1)}, "y", (0, 1)), np.random.default_rng(3)
    sums = 300 * rng.standard_normal(len(design.pairs) + (n is None))
    model = as_model(moments(design, sums, scale, n), RegressionPrior(), design)
    begin = starting_points(model, design, 8, rng)
    point = model.point(begin)
    assert sums_are_possible(point.sums, model.layout).all()
    assert np.isfinite(begin).all()
    assert np.allclose(model.flat(point), begin)
