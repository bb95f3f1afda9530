"""The posterior of a regression: what it says of good and bad releases, and what it refuses."""

import itertools
import math
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy

import dpgraph as dg
from dpgraph.inference import draws as thresholds
from dpgraph.inference.draws import warn_if_mostly_prior, warn_if_not_mixed
from dpgraph.inference.regression import posterior
from dpgraph.inference.regression.chain import Kept, as_model, sampled
from dpgraph.inference.regression.draws import scaled_columns
from dpgraph.inference.regression.posterior import _excess, _mixing, nearest_moment_matrix, target_average
from dpgraph.structure.design import RESOLUTION, LinearDesign
from tests.inference.regression.problems import moments

#: A few draws of each chain are enough for what is tested here, and too few for R-hat.

DESIGN = LinearDesign({"age": (20, 60), "sex": ["F", "M"], "job": ["a", "b", "c"]}, "pay", (0, 100))


def rows(n, seed=0):
    """Scaled columns and a target that they explain."""
    rng = np.random.default_rng(seed)
    values = {"age": rng.uniform(20, 60, n), "sex": rng.integers(0, 2, n), "job": rng.integers(0, 3, n)}
    pay = 20 + 0.5 * values["age"] + 8 * values["sex"] + 6 * (values["job"] == 2) + rng.normal(0, 6, n)
    return values, pay


def released(scale, n=5000, seed=0, design=DESIGN, *, private=False, gaussian=False, alter=None):
    """A release of the sums of such rows with ideal noise."""
    values, pay = rows(n, seed)
    if alter is not None:
        values, pay = alter(values, pay)
    z = np.column_stack([scaled_columns(design, values), design.bounds.scaled(pay)])
    sums = np.array([(z.T @ z)[pair] for pair in design.pairs] + ([float(n)] if private else []))
    noise = np.random.default_rng([seed, 1]).laplace(size=sums.size)
    relative = np.append(design.steps, [1 / RESOLUTION**2] * private) * RESOLUTION**2
    return moments(design, sums + scale * relative * noise, scale, None if private else n, gaussian=gaussian)


def solved(noisy, seed=0, draws=400, **settings):
    settings = {"method": dg.methods.Hamiltonian(burn_in=150)} | settings
    return dg.posterior(noisy, draws=draws, seed=seed, **settings)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("gaussian", "private"),
    [
        (False, False),
        (True, True),
        pytest.param(False, True, marks=pytest.mark.proof),
        pytest.param(True, False, marks=pytest.mark.proof),
    ],
)
@pytest.mark.parametrize("method", [dg.methods.Hamiltonian(burn_in=150), "plug-in"], ids=str)
def test_with_little_noise_it_is_least_squares(method, gaussian, private):
    """Noise of .01 on 5000 rows: coefficients within four posterior deviations of those behind the rows; the deviation
    of the noise, 6 of 100, within 5 %; and the spread of each weight that of least squares, within a quarter."""
    made = solved(released(0.01, private=private, gaussian=gaussian), method=method)
    found = made.coefficients()
    assert list(found.index) == ["intercept", "age", "sex=M", "job=b", "job=c"]
    truth = np.array([20, 0.5, 8, 0, 6])
    assert (np.abs(found["mean"] - truth) < 4 * found["std"]).all()
    assert abs(made.noise_deviation()[0] / 6 - 1) < 0.05
    values, _ = rows(5000)
    columns = scaled_columns(DESIGN, values)
    spread = 0.12 * np.sqrt(np.diag(np.linalg.inv(columns.T @ columns)))
    assert np.allclose(made.weights.std(axis=0), spread, rtol=0.25)
    assert ((found["lower"] < found["mean"]) & (found["mean"] < found["upper"])).all()


@pytest.mark.parametrize("n", [0, 1, 4, 30, 1000])
@pytest.mark.parametrize("method", [dg.methods.Hamiltonian(burn_in=150), "plug-in"], ids=str)
def test_few_rows_are_defined(n, method):
    """Fewer rows than columns too: draws are finite, and with noise about them wide."""
    made = solved(released(5.0, n=n), method=method)
    assert np.isfinite(made.weights).all()
    assert made.weights.shape == (400, 5)


ODD = {
    "constant": lambda values, pay: (values | {"age": np.full(len(pay), 60.0)}, pay),
    "at the middle": lambda values, pay: (values | {"age": np.full(len(pay), 40.0)}, pay),
    "one level": lambda values, pay: (values | {"sex": np.zeros(len(pay), int)}, pay),
    "an empty level": lambda values, pay: (values | {"job": np.zeros(len(pay), int)}, pay),
    "no second level": lambda values, pay: (values | {"job": 2 * (values["job"] > 0)}, pay),
    "a constant target": lambda values, pay: (values, np.full(len(pay), 30.0)),
    "collinear": lambda values, pay: (values | {"age": 20.0 + 40 * values["sex"]}, pay),
}


@pytest.mark.proof
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("scale", [pytest.param(0.5, marks=pytest.mark.proof), 20.0])
def test_degenerate_columns_are_defined(name, scale):
    """A singular X'X: draws are finite, and average predictions near the average target."""
    made = solved(released(scale, alter=ODD[name]), draws=200)
    values, pay = ODD[name](*rows(5000))
    assert np.isfinite(made.weights).all()
    assert abs(made.predict(values).mean() - pay.mean()) < 4


def test_noise_that_drowns_the_rows_leaves_the_g_prior():
    """Predictions stay near what the target is said to be about, and slopes are those of columns that the release says
    nothing of: in the root of their inverse covariance, at the columns' own squares, within a factor of two and a
    half."""
    values, _ = rows(2000, 9)
    made = solved(released(1e6, n=2000), draws=2000, prior=dg.RegressionPrior(typical=20))
    assert abs(made.predict(values).mean() - 20) < 3
    spread = np.quantile(np.abs(made.weights[:, 1:]) / np.sqrt(made.variance)[:, None], 0.5, axis=0)
    # the deviations of the slopes were numbers uniform, signs even and three levels equally frequent
    unrelated = np.array([1 / np.sqrt(1 / 3), 1, np.sqrt(6), np.sqrt(6)])
    at_unrelated = 0.73 * dg.RegressionPrior().scale(DESIGN)[1:] * unrelated
    assert (np.abs(np.log(spread / at_unrelated)) < np.log(2.5)).all()


@pytest.mark.proof
def test_plug_in_falls_for_noise_and_noise_aware_does_not():
    """Noise of half the rows, six releases: squared errors in the target's variance, beside those of ``typical``."""
    values, pay = rows(2000, 9)
    errors = {dg.methods.Hamiltonian(burn_in=150): [], dg.methods.PlugIn(): []}
    for seed in range(6):
        for method, found in errors.items():
            made = solved(released(1e3, n=2000, seed=seed), seed, 1000, method=method)
            found.append(np.mean((made.predict(values) - pay) ** 2) / np.mean((50 - pay) ** 2))
    aware, plug_in = map(np.mean, errors.values())
    assert aware < 1.2
    assert plug_in > 2 * aware


@pytest.mark.proof
def test_it_is_reached_by_its_release_and_repeats():
    noisy = released(20.0)
    one, other = (dg.posterior(noisy, draws=100, seed=3) for _ in range(2))
    assert isinstance(one, dg.results.RegressionDraws)
    assert one.method == "hamiltonian"
    assert np.array_equal(one.weights, other.weights)
    assert not np.array_equal(one.weights, dg.posterior(noisy, draws=100, seed=4).weights)
    assert dg.posterior(noisy, method="plug-in", draws=100, seed=3).method == "plug-in"
    assert set(one.mixing) == {"chains", "r_hat", "effective_size"}


@pytest.mark.parametrize("fault", ["levels apart", "slow", "one weight alone", "the noise variance alone"])
def test_chains_that_have_not_mixed_are_warned_of(fault):
    """Chains made up: independent draws pass; moved apart by half a deviation, or held for 25 draws, they do not."""
    rng = np.random.default_rng(0)
    weights, variance = rng.standard_normal((16, 100, 3)), np.exp(rng.standard_normal((16, 100)))
    made = dg.results.RegressionDraws(DESIGN, np.zeros((1600, 5)), np.ones(1600), "hamiltonian")
    warn_if_not_mixed({"draws": len(made), **_mixing(weights, variance)})
    apart = np.linspace(-1, 1, 16)[:, None]
    if fault == "levels apart":
        weights += apart[..., None]
    elif fault == "slow":
        weights = np.repeat(weights[:, :4], 25, axis=1)
    elif fault == "one weight alone":
        weights[..., 1] += apart
    else:
        variance *= np.exp(apart)
    with pytest.warns(dg.errors.ConvergenceWarning, match="have not mixed"):
        warn_if_not_mixed({"draws": len(made), **_mixing(weights, variance)})


@pytest.fixture
def lengths(monkeypatch):
    """How many draws of each chain were asked for, one round after another."""
    seen = []

    def listening(chains, draws, *others):
        seen.append(draws)
        return sampled(chains, draws, *others)

    monkeypatch.setattr(posterior.chain, "sampled", listening)
    return seen


def test_a_posterior_judges_its_chains(monkeypatch, lengths):
    """Whatever the chains are: a stricter rule refuses them, and they go on to eight times the length."""
    monkeypatch.setattr(thresholds, "MOST_R_HAT", 1.0)
    with pytest.warns(dg.errors.ConvergenceWarning, match="have not mixed"):
        solved(released(300.0), draws=64, method=dg.methods.Hamiltonian(burn_in=1))
    assert lengths == [60, 60, 120, 240]


def test_chains_go_on_until_they_have_mixed(monkeypatch, lengths):
    """Those that have not mixed at first go on, and have then: none warns, and as many draws are returned as were asked
    for. What is said of them is said of all that is kept."""
    verdicts = iter([2.0, 2.0])

    def judged(weights, variance):
        return _mixing(weights, variance) | {"r_hat": next(verdicts, 1.01)}

    monkeypatch.setattr(posterior, "_mixing", judged)
    with warnings.catch_warnings():
        warnings.simplefilter("error", dg.errors.ConvergenceWarning)
        made = solved(released(1.0), draws=100)
    assert lengths == [60, 60]
    assert len(made) == 100
    assert made.diagnostics["r_hat"] == 1.01


def test_a_later_half_that_has_mixed_is_kept(monkeypatch):
    """Chains that were apart at first: what is kept are draws after that."""
    apart = iter([10.0, 10.0, 0.0, 0.0])

    def made(chains, draws, *others):
        chains, kept = sampled(chains, draws, *others)
        normal = np.random.default_rng(draws).standard_normal(kept.weights.shape)
        return chains, Kept(normal + next(apart), kept.variance, kept.prior, kept.products)

    monkeypatch.setattr(posterior.chain, "sampled", made)
    judged = lambda weights, _: {"r_hat": 1.0 + (weights.max() > 8), "effective_size": 200.0}  # noqa: E731
    monkeypatch.setattr(posterior, "_mixing", judged)
    found = solved(released(20.0), draws=100, method=dg.methods.Hamiltonian(burn_in=1))
    assert found.weights.max() < 8


def test_what_chance_in_chains_adds_to_predictions_is_measured():
    """proofs.md P106. 4000 times eight chains of 50 independent draws of weights of a known covariance: the average is
    trace(V S) / 400 over the residual variance, within 5 %, which is five standard errors; a variance of chains' means
    that is not that of their average is eight times as large."""
    rng, many = np.random.default_rng(0), 4000
    root, products = np.array([[0.5, 0.0], [0.4, 0.3]]), np.array([[1.0, 0.2], [0.2, 0.3]])
    variance, apart = np.full((8, 50), 0.1), np.zeros((1, 50, 2, 2))
    found = [
        _excess(Kept(rng.standard_normal((8, 50, 2)) @ root.T, variance, apart, apart + products)) for _ in range(many)
    ]
    expected = np.trace(root @ root.T @ products) / 400 / 0.1
    assert 5 * np.std(found) / np.sqrt(many) < 0.05 * expected, "the docstring's claim"
    assert np.mean(found) == pytest.approx(expected, rel=0.05)


@pytest.mark.proof
def test_chains_go_on_while_their_means_make_predictions_worse(monkeypatch, lengths):
    """Chains that have mixed, of a release that says nothing: they go on, to eight times the length at most, and
    nothing warns. Those of a clear release do not."""
    monkeypatch.setattr(posterior, "_mixing", lambda *_: {"r_hat": 1.0, "effective_size": 1000.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error", dg.errors.ConvergenceWarning)
        solved(released(0.01), draws=480)
        assert lengths == [60]
        solved(released(1e6), draws=480)
    assert lengths[1:3] == [60, 60]
    assert sum(lengths[1:]) <= 480


def test_draws_that_are_given_back_have_the_average_of_all(monkeypatch):
    """Four times as many are made as asked for: the predictive mean is that of all of them, to the last digits."""
    all_of_them = []
    monkeypatch.setattr(posterior, "_mixing", lambda *_: {"r_hat": 1.0, "effective_size": 1000.0})
    monkeypatch.setattr(posterior, "_excess", lambda _: 0.0)

    def listening(chains, draws, *others):
        chains, kept = sampled(chains, draws, *others)
        all_of_them.append(kept)
        return chains, kept

    monkeypatch.setattr(posterior.chain, "sampled", listening)
    made = solved(released(100.0), draws=60)
    assert len(made) == 60
    weights = all_of_them[0].weights
    assert weights[:, :, 1].size >= 480
    assert len(all_of_them) == 1
    assert made.weights.mean(axis=0) == pytest.approx(weights.mean(axis=(0, 1)), rel=1e-9)


@pytest.mark.proof
def test_the_share_that_is_prior_is_near_nothing_or_all():
    """With little noise no coefficient's posterior is prior, and nothing warns; where noise drowns the rows all are, to
    the error of 2000 draws of heavy tails, and the warning names them. An empty level, of which no row tells, is left
    as wide as an empty column allows."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", dg.errors.PriorWarning)
        clear = solved(released(0.01))
    assert (clear.coefficients()["prior"] < 0.01).all()
    with pytest.warns(dg.errors.PriorWarning, match=r"of 5 of 5 coefficients is prior.*intercept, age"):
        drowned = solved(released(1e6), draws=2000)
    assert (drowned.coefficients()["prior"].iloc[1:] > 0.6).all()
    wide = solved(released(0.5, alter=ODD["no second level"])).coefficients()["std"]
    assert wide["job=b"] > 20 * wide["job=c"]


@pytest.mark.parametrize("method", [dg.methods.Hamiltonian(burn_in=1), "plug-in"], ids=str)
def test_the_share_that_is_prior_is_a_ratio_of_variances(method):
    made = solved(released(5.0), draws=64, method=method)
    by_hand = made.weights.var(axis=0) / np.diag(made.prior_covariance)
    assert made.prior_share[1:] == pytest.approx(np.minimum(by_hand[1:], 1.0))
    unknown = replace(made, prior_covariance=None)
    assert np.isnan(unknown.prior_share).all()
    for bad in (np.eye(4), np.full((5, 5), math.nan)):
        with pytest.raises(dg.errors.InferenceError, match="prior's covariance"):
            replace(made, prior_covariance=bad)
    with pytest.raises(dg.errors.InferenceError, match="above 0"):
        replace(made, prior_covariance=np.zeros((5, 5)))


def test_intercept_or_not():
    """Without one the scaled target is a multiple of scaled columns: y = x in units of both."""
    design = LinearDesign({"x": (0, 10)}, "y", (0, 20), intercept=False)
    x = np.random.default_rng(0).uniform(0, 10, 4000)
    z = np.column_stack([scaled_columns(design, {"x": x}), design.bounds.scaled(2 * x)])
    sums = [(z.T @ z)[pair] for pair in design.pairs]
    made = solved(moments(design, sums, 1.0, 4000), prior=dg.RegressionPrior(half_cauchy=0.1))
    assert made.coefficients()["mean"].to_numpy() == pytest.approx([0, 2], abs=0.05)


def test_projection_keeps_what_is_known_and_is_possible():
    rng = np.random.default_rng(0)
    for scale in (1.0, 100.0, 1e5):
        values = released(scale).values + scale * rng.laplace(size=len(DESIGN.pairs))
        made = nearest_moment_matrix(values, 5000.0, DESIGN)
        again = DESIGN.matrix(np.array([made[pair] for pair in DESIGN.pairs]), 5000.0)
        assert np.allclose(made, again)
        assert np.linalg.eigvalsh(made)[0] > 0
    sound = released(0.01).values
    assert np.allclose([nearest_moment_matrix(sound, 5000.0, DESIGN)[pair] for pair in DESIGN.pairs], sound)


BAD = [
    ({"method": "normal"}, "method"),
    ({"method": None}, "method"),
    ({"draws": 0}, "draws"),
    ({"draws": 1.5}, "draws"),
    ({"draws": True}, "draws"),
    ({"method": dg.methods.Records()}, "method must be one of 'auto', 'hamiltonian', 'plug-in'"),
    ({"prior": 1.0}, "prior must be a RegressionPrior"),
    ({"prior": dg.RegressionPrior(typical=101)}, "typical"),
]


@pytest.mark.parametrize(("settings", "message"), BAD, ids=str)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(dg.errors.InferenceError, match=message):
        solved(released(1.0), **settings)


def test_other_releases_are_refused():
    family = dg.expfam.Binomial()
    noisy = dg.release(dg.statistics.sufficient_statistics([1, 0], family), dg.LaplaceMechanism(1), budget=dg.Budget(1))
    with pytest.raises(dg.errors.InferenceError, match="method must be one of 'auto', 'exact'"):
        solved(noisy)
    design = LinearDesign({"x": (0, 1)}, "y", (0, 1), intercept=False)
    with pytest.raises(dg.errors.InferenceError, match="has none"):
        solved(moments(design, np.zeros(3), 1.0, 10), prior=dg.RegressionPrior(typical=0.5))


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "1", True, None])
@pytest.mark.parametrize("name", ["intercept", "explained", "degrees", "shape", "rate", "half_cauchy"])
def test_priors_are_checked(name, value):
    if (name, value) in (("degrees", math.inf), ("half_cauchy", None)):
        dg.RegressionPrior(**{name: value})
        return
    with pytest.raises(dg.errors.InferenceError, match=name):
        dg.RegressionPrior(**{name: value})


@pytest.mark.parametrize(
    "value", [(1.0, 1.0), [1.0, 1.0, 1.0], (-1.0, 1.0, 1.0), (1.0, math.nan, 1.0), (1.0, 0.0, 1.0), 2.0]
)
def test_priors_of_features_are_checked(value):
    with pytest.raises(dg.errors.InferenceError, match="features"):
        dg.RegressionPrior(features=value)
    with pytest.raises(dg.errors.InferenceError, match="typical"):
        dg.RegressionPrior(typical=math.inf)


def test_draws_fit_their_design():
    with pytest.raises(dg.errors.InferenceError, match="shape"):
        dg.results.RegressionDraws(DESIGN, np.zeros((3, 4)), np.ones(3), "plug-in")
    with pytest.raises(dg.errors.InferenceError, match="finite"):
        dg.results.RegressionDraws(DESIGN, np.full((3, 5), math.nan), np.ones(3), "plug-in")
    with pytest.raises(dg.errors.InferenceError, match="above 0"):
        dg.results.RegressionDraws(DESIGN, np.zeros((3, 5)), np.zeros(3), "plug-in")


@pytest.mark.parametrize("averages", [np.zeros(5), np.full(6, 1.1), np.full(6, math.nan)])
def test_averages_fit_the_design(averages):
    with pytest.raises(dg.errors.InferenceError, match="averages must be numbers from -1 to 1"):
        dg.results.RegressionDraws(DESIGN, np.zeros((3, 5)), np.ones(3), "plug-in", averages=averages)


@pytest.mark.parametrize("gaussian", [False, True])
@pytest.mark.parametrize("degrees", [5.0, math.inf])
def test_the_target_average_is_that_of_its_own_sum(gaussian, degrees):
    """The mean of prior times noise by quadrature, whatever all other sums say: near the released one where noise is
    small, and the prior's where it drowns all."""
    prior = dg.RegressionPrior(typical=70, degrees=degrees)
    deviation, law = 0.3 * 0.4, scipy.stats.norm if gaussian else scipy.stats.laplace
    for scale in (0.01, 300.0, 1e6):
        model = as_model(released(scale, gaussian=gaussian), prior, DESIGN)
        seen, width = (one[model.layout.target[0]] for one in (model.noise.observed, model.noise.scale))

        def weight(average, seen=seen, width=width):
            before = scipy.stats.norm if math.isinf(degrees) else scipy.stats.t(degrees)
            return before.pdf((average - 0.4) / deviation) * law.pdf((average - seen) / width)

        ends = np.clip([seen - 30 * width, seen, 0.4, seen + 30 * width], -1, 1)
        parts = [[scipy.integrate.quad(f, *pair)[0] for pair in itertools.pairwise(np.unique(ends))]
                 for f in (weight, lambda a: a * weight(a))]  # fmt: skip
        expected = sum(parts[1]) / sum(parts[0])
        found = target_average(model, 0.4)
        assert found == pytest.approx(expected, abs=1e-4)
        assert scale == 300 or abs(found - (seen if scale < 1 else 0.4)) < 0.05


@pytest.mark.parametrize("probability", [0, 1, -0.1, 1.5, math.nan, True, "0.9"])
def test_probabilities_are_checked(probability):
    made = dg.results.RegressionDraws(DESIGN, np.zeros((3, 5)), np.ones(3), "plug-in")
    with pytest.raises(dg.errors.InferenceError, match="probability"):
        made.coefficients(probability)


def test_coefficients_in_units_predict_what_weights_do():
    rng = np.random.default_rng(0)
    made = dg.results.RegressionDraws(DESIGN, rng.standard_normal((7, 5)), np.ones(7), "plug-in")
    values, _ = rows(50)
    plain = np.column_stack([
        np.ones(50), values["age"], values["sex"], values["job"] == 1, values["job"] == 2
    ]) @ made.in_units.mean(axis=0)  # fmt: skip
    assert np.allclose(made.predict(values), plain)
    with pytest.raises(dg.errors.DomainError, match="no values"):
        made.predict({"age": [1.0]})
    with pytest.raises(dg.errors.DomainError, match="nulls"):
        made.predict(values | {"age": np.full(50, math.nan)})


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ({"x": 0.8, "z": 0.1}, "about 2.0 times the rows"),
        ({"x": 0.9, "z": 0.6}, "about 3.0 times the rows"),
        ({"x": 0.995}, "more than ten times the rows"),
        ({"x": 1.0}, "more than ten times the epsilon"),
    ],
)
def test_a_posterior_that_is_mostly_prior_says_how_many_rows_would_do(shares, words):
    """A half of the variance is at sqrt(s / (1 - s)) times n epsilon: 2 of .8, 3 of .9."""
    with pytest.warns(dg.errors.PriorWarning, match=words):
        warn_if_mostly_prior(shares)
