"""Posteriors of exponential families: exact ones against enumeration, settings, files, and the published errors."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import dpgraph as dg
from dpgraph.inference.draws import ConvergenceWarning, ParameterDraws
from dpgraph.inference.expfam import posterior as exponential_family
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.moments import MomentDescription, NoisyMoments

E = dg.expfam
REPLACE, ADD = dg.PrivacyUnit("replace"), dg.PrivacyUnit("add-remove")


def noisy(family, sums, law, n, bounds=None):
    return NoisyMoments(MomentDescription(family, bounds), np.array(sums), law, n)


def solved(value, prior, *, rng, **settings):
    """The posterior of a release, or of its value."""
    return dg.posterior(value, prior=prior, seed=rng, **settings)


def beta_mixture(y, scale, n, alpha, beta, trials=1):
    """Mean and deviation of p by enumeration over the exact count, with scipy's own beta-binomial."""
    s = np.arange(n * trials + 1)
    weight = stats.betabinom(n * trials, alpha, beta).pmf(s) * np.exp(-np.abs(y - s) / scale)
    weight /= weight.sum()
    a, b = alpha + s, beta + n * trials - s
    mean = weight @ (a / (a + b))
    second = weight @ (a * (a + 1) / ((a + b) * (a + b + 1)))
    return mean, math.sqrt(second - mean**2)


@pytest.mark.parametrize(
    ("y", "scale", "n", "prior", "trials"),
    [
        (40, 10.0, 100, (1.0, 1.0), 1),
        (-30, 10.0, 100, (1.0, 1.0), 1),
        (160, 100.0, 100, (2.0, 0.5), 1),
        (512, 1.0, 1000, (1.0, 1.0), 1),
        (77, 0.05, 100, (1.0, 1.0), 1),
        (140, 30.0, 50, (3.0, 2.0), 4),
        (3, 100.0, 10, (1.0, 1.0), 1),
    ],
)
def test_a_binomial_agrees_with_enumeration(y, scale, n, prior, trials):
    """Mean and deviation within .001; 1 000 000 independent draws have a standard error below .0003."""
    family = E.Binomial(trials)
    release = noisy(family, [y], DiscreteLaplace(scale), n)
    found = solved(release, family.prior(*prior), draws=1_000_000, rng=np.random.default_rng(0))
    mean, deviation = beta_mixture(y, scale, n, *prior, trials)
    assert found.method == "exact"
    assert found.mean()["p"] == pytest.approx(mean, abs=1e-3)
    assert found.parameters["p"].std() == pytest.approx(deviation, abs=1e-3)


def test_the_binomial_in_two_pieces():
    """proofs.md P58: Bin(s; n, p) q^|y - s| is a binomial of a tilted p below y and another above; so is its total."""
    n, p, y, q = 30, 0.3, 12, math.exp(-1 / 4)
    s = np.arange(n + 1)
    weight = stats.binom(n, p).pmf(s) * q ** np.abs(y - s)
    low, high = (p / q) / (1 - p + p / q), p * q / (1 - p + p * q)
    pieces = np.where(
        s <= y,
        (1 - p + p / q) ** n * q**y * stats.binom(n, low).pmf(s),
        (1 - p + p * q) ** n * q**-y * stats.binom(n, high).pmf(s),
    )
    assert np.abs(weight - pieces).max() < 1e-15


@pytest.mark.parametrize("trials", [1, 3])
def test_a_binomial_of_private_n_agrees_with_enumeration(trials):
    """Flat prior on n; successes and failures are both noisy. All pairs of up to 120 trials are enumerated, beyond
    which the posterior has mass below 1e-9; .002 is five standard errors of 400 000 draws."""
    family = E.Binomial(trials)
    y, scale = (14, 7), 3.0
    release = noisy(family, y, DiscreteLaplace(scale), None)
    found = solved(release, family.prior(2.0, 1.0), draws=400_000, rng=np.random.default_rng(1))
    weights, means, seconds = [], [], []
    for total in range(0, 121, trials):
        s = np.arange(total + 1)
        weights.append(
            stats.betabinom(total, 2.0, 1.0).pmf(s) * np.exp(-(np.abs(y[0] - s) + np.abs(y[1] - total + s)) / scale)
        )
        a, b = 2.0 + s, 1.0 + total - s
        means.append(a / (a + b))
        seconds.append(a * (a + 1) / ((a + b) * (a + b + 1)))
    weight = np.concatenate(weights) / np.concatenate(weights).sum()
    mean = weight @ np.concatenate(means)
    deviation = math.sqrt(weight @ np.concatenate(seconds) - mean**2)
    assert found.mean()["p"] == pytest.approx(mean, abs=2e-3)
    assert found.parameters["p"].std() == pytest.approx(deviation, abs=2e-3)


@pytest.mark.parametrize("law", [DiscreteLaplace(2.0), SumZeroLaplace(2.0)], ids=repr)
def test_a_multinomial_agrees_with_enumeration(law):
    """All 66 tables of 10 records in 3 categories; .002 is over four standard errors of 400 000 draws."""
    family, prior, y = E.Multinomial(3), (0.5, 1.0, 2.0), np.array([6, -1, 5])
    tables = [s for s in itertools.product(range(11), repeat=3) if sum(s) == 10]
    log = [
        sum(gammaln(a + c) - gammaln(c + 1) - abs(one - c) / 2 for a, c, one in zip(prior, s, y, strict=True))
        for s in tables
    ]
    weight = np.exp(np.array(log) - max(log))
    weight /= weight.sum()
    mean = weight @ (np.array(tables) + prior) / (10 + sum(prior))
    found = solved(noisy(family, y, law, 10), family.prior(list(prior)), draws=400_000, rng=np.random.default_rng(2))
    assert found.method == "exact"
    assert np.allclose(list(found.mean().values()), mean, atol=2e-3)


@pytest.mark.proof
@pytest.mark.parametrize("scale", [40.0, pytest.param(250.0, marks=pytest.mark.proof)])
def test_exact_and_normal_agree_where_n_is_large(scale):
    """n = 20 000, noise half as wide as sqrt(n) and twice: means within a tenth of a deviation, deviations within 6 %,
    six standard errors of 4000 draws."""
    family = E.Multinomial(["a", "b", "c"])
    release = noisy(family, [9000, 7000, 4000], SumZeroLaplace(scale), 20_000)
    rng = np.random.default_rng(3)
    one = solved(release, family.prior(), draws=4000, rng=rng)
    two = solved(release, family.prior(), method="gibbs", draws=4000, rng=rng)
    assert two.method == "gibbs"
    for name, values in one.parameters.items():
        assert two.parameters[name].mean() == pytest.approx(values.mean(), abs=0.1 * values.std())
        assert two.parameters[name].std() == pytest.approx(values.std(), rel=0.06)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("unit", "epsilon"),
    [
        (REPLACE, 0.02),
        (ADD, 0.1),
        pytest.param(REPLACE, 0.1, marks=pytest.mark.proof),
        pytest.param(ADD, 0.02, marks=pytest.mark.proof),
    ],
    ids=str,
)
def test_the_exact_binomial_is_calibrated(unit, epsilon):
    """SBC, 400 trials at n = 100: KS at level 1e-6 (critical value .136). The plug-in's is over .24 (proofs.md P58),
    refused with power above .999; where n is private it varies, so that a flat prior is fair."""
    family, prior, rng, source = E.Binomial(), E.Binomial().prior(), np.random.default_rng(4), dg.testing.SeededNoise(4)
    ours, plug_in = [], []
    for _ in range(400):
        p = rng.random()
        n = 100 if unit.n_is_public else int(rng.integers(20, 400))
        moments = dg.statistics.sufficient_statistics(rng.random(n) < p, family)
        budget = dg.Budget(epsilon, unit=unit)
        release = dg.release(moments, dg.LaplaceMechanism(epsilon), budget=budget, noise=source)
        for found, method in ((ours, "auto"), (plug_in, "plug-in")):
            drawn = solved(release, prior, method=method, draws=100, rng=rng).parameters["p"]
            found.append(((drawn < p).sum() + rng.random()) / 101)
    assert stats.kstest(ours, "uniform").pvalue > 1e-6
    assert stats.kstest(plug_in, "uniform").pvalue < 1e-6


def exponential_release(n=500, seed=0, unit=REPLACE):
    x = np.random.default_rng(seed).exponential(0.25, n)
    moments = dg.statistics.sufficient_statistics(x, E.Exponential(), bounds=(0, 1))
    return dg.release(
        moments, dg.LaplaceMechanism(1), budget=dg.Budget(1, unit=unit), noise=dg.testing.SeededNoise(seed)
    )


@pytest.mark.proof
def test_a_family_of_ones_own_agrees_with_the_built_in():
    """The exponential in natural form, eta = -rate; 4000 draws of chains, means within .15 deviations."""

    def log_partition(eta):
        return np.where(eta[..., 0] < 0, -np.log(np.where(eta[..., 0] < 0, -eta[..., 0], 1.0)), np.inf)

    own = E.Natural(("x",), lambda x: x[..., None], np.zeros_like, log_partition, (0.0, math.inf), (-1.0,))
    release = exponential_release()
    mine = NoisyMoments(MomentDescription(own, (0, 1)), release.value.sums, release.value.law, release.value.n)
    rng = np.random.default_rng(5)
    one = solved(release, E.Exponential().prior(8, 2), draws=4000, rng=rng).parameters["rate"]
    # Gamma(8, 2) of the rate is the natural prior of 7 records that sum to 2
    two = -solved(mine, own.prior([2.0], 7.0), draws=4000, method=dg.methods.Gibbs(thin=10), rng=rng).parameters["x"]
    assert two.mean() == pytest.approx(one.mean(), abs=0.15 * one.std())
    assert two.std() == pytest.approx(one.std(), rel=0.15)


def test_draws_are_a_frozen_value():
    release = exponential_release()
    settings = {"method": "gibbs", "draws": 410}  # sixteen chains have six more
    drawn = solved(release, E.Exponential().prior(8, 2), rng=np.random.default_rng(6), **settings)
    assert isinstance(drawn, ParameterDraws)
    assert len(drawn) == len(list(drawn)) == len(drawn.flat("rate")) == drawn.diagnostics["draws"] == 410
    assert drawn.mean()["rate"] == drawn.parameters["rate"][:410].mean()
    low, high = drawn.interval(0.9)["rate"]
    assert low < drawn.mean()["rate"] < high
    assert drawn.provenance == release.provenance
    assert set(drawn.r_hat) == set(drawn.effective_sizes) == {"rate"}
    assert (drawn.chains, drawn.reason) == (16, "as asked")
    assert pickle.loads(pickle.dumps(drawn)) == drawn
    with pytest.raises(ValueError, match="read-only"):
        drawn.parameters["rate"][0] = 1.0
    with pytest.raises(InferenceError, match="probability"):
        drawn.interval(1.0)


@pytest.mark.proof
@pytest.mark.parametrize("unit", [REPLACE, ADD], ids=str)
def test_the_posterior_depends_on_the_release_alone(unit):
    """Replay: two data sets whose releases show the same integers have the same posterior, to the last bit."""
    one = exponential_release(unit=unit)
    again = NoisyMoments(one.value.description, one.value.sums, one.value.law, one.value.n)
    first, second = (
        solved(value, E.Exponential().prior(8, 2), draws=400, rng=np.random.default_rng(7))
        for value in (one.value, again)
    )
    assert first == second
    assert (first.parameters["rate"] == second.parameters["rate"]).all()


def test_chains_that_have_not_mixed_warn():
    """Twenty iterations of each chain from dispersed starts, at noise a hundred times sqrt(n)."""
    release = noisy(E.Exponential(), [25_000 << 20], DiscreteLaplace(2.0**34), 100_000, (0, 1))
    settings = {"draws": 320, "method": dg.methods.Gibbs(burn_in=0, thin=1)}
    with pytest.warns(ConvergenceWarning, match="R-hat") as caught:
        solved(release, E.Exponential().prior(8, 2), rng=np.random.default_rng(8), **settings)
    assert caught[0].filename == __file__


BINOMIAL = noisy(E.Binomial(), [4], DiscreteLaplace(1.0), 10)
PRIVATE = noisy(E.Binomial(), [4, 6], DiscreteLaplace(1.0), None)
SUM = noisy(E.Exponential(), [4000], DiscreteLaplace(100.0), 10, (0, 1))
SUM_ADD = noisy(E.Exponential(), [4000, 10], DiscreteLaplace(100.0), None, (0, 1))
GAUSSIAN = noisy(E.Exponential(), [4000], DiscreteGaussian(100.0), 10, (0, 1))


@pytest.mark.parametrize("method", [dg.methods.Gibbs, dg.methods.Hamiltonian])
@pytest.mark.parametrize("setting", [{"burn_in": -1}, {"burn_in": 1.5}, {"thin": 0}, {"thin": True}])
def test_settings_of_chains_are_checked(method, setting):
    with pytest.raises(InferenceError, match=f"{next(iter(setting))} must be a whole number"):
        method(**setting)


@pytest.mark.parametrize("family", [E.Binomial(), E.Multinomial(3)], ids=repr)
def test_counts_have_a_uniform_prior_unless_they_are_given_one(family):
    release = noisy(family, [4] if family == E.Binomial() else [4, 3, 3], DiscreteLaplace(1.0), 10)
    one, two = (solved(release, prior, rng=5, draws=50) for prior in (None, family.prior()))
    assert one == two


@pytest.mark.parametrize(
    ("value", "prior", "settings", "message"),
    [
        (BINOMIAL, E.Exponential().prior(1, 1), {}, "Binomial family"),
        (SUM, E.Binomial().prior(), {}, "Exponential family"),
        (BINOMIAL, 1.0, {}, "family.prior"),
        ("moments", E.Binomial().prior(), {}, "noisy moments"),
        (SUM, None, {}, "Exponential has no default prior"),
        (GAUSSIAN, E.Exponential().prior(1, 1), {}, "Laplace noise"),
        (BINOMIAL, E.Binomial().prior(), {"method": "records"}, "method must be"),
        (BINOMIAL, E.Binomial().prior(), {"method": dg.methods.Records()}, "method must be one of 'auto', 'exact'"),
        (BINOMIAL, E.Binomial().prior(), {"draws": 0}, "draws"),
        (BINOMIAL, E.Binomial().prior(), {"draws": True}, "draws"),
        (SUM, E.Exponential().prior(1, 1), {"method": "exact"}, "exact"),
        (PRIVATE, E.Binomial().prior(), {"method": "gibbs"}, "n is private"),
        (SUM_ADD, E.Exponential().prior(1, 1), {"method": "quadrature"}, "public n"),
    ],
)
def test_settings_that_do_not_fit_are_refused(value, prior, settings, message):
    with pytest.raises(InferenceError, match=message):
        solved(value, prior, rng=np.random.default_rng(0), **settings)


@pytest.mark.parametrize("sums", [[-10_000], [0], [10_000]])
def test_sums_that_no_records_have_still_have_a_posterior(sums):
    """Noise can put the released sum anywhere."""
    release = noisy(E.Exponential(), [one * 1000 for one in sums], DiscreteLaplace(1e6), 10, (0, 1))
    drawn = solved(release, E.Exponential().prior(8, 2), draws=400, rng=np.random.default_rng(10))
    assert np.isfinite(drawn.parameters["rate"]).all()
    for extreme in (-500, 500):
        exact = solved(
            noisy(E.Binomial(), [extreme], DiscreteLaplace(1.0), 10), E.Binomial().prior(), rng=np.random.default_rng(0)
        )
        assert 0 <= exact.mean()["p"] <= 1


@pytest.mark.proof
def test_the_corrected_form_covers_where_the_paper_does_not():
    """Exponential, bounds fixed beforehand, n = 1000, epsilon 5, 300 trials: the paper's 90 % intervals hold the truth
    72-78 % of the time and ours 85-92 % (88 % is nominal for 100 draws). Each limit here is four standard errors
    away, fixed seed."""
    from dpgraph.inference.expfam.chain import draw_conjugate, gibbs_draws

    family, prior, rng, source = (
        E.Exponential(),
        E.Exponential().prior(8, 2),
        np.random.default_rng(11),
        dg.testing.SeededNoise(11),
    )
    truth = draw_conjugate(family, prior, np.zeros((300, 1)), np.zeros(300), rng)[:, 0]
    releases = []
    for rate in truth:
        moments = dg.statistics.sufficient_statistics(rng.exponential(1 / rate, 1000), family, bounds=(0.0063, 0.92))
        releases.append(dg.release(moments, dg.LaplaceMechanism(5), budget=dg.Budget(5), noise=source).value)
    covered = {}
    for form in ("corrected", "coded"):
        kept, _ = gibbs_draws(
            exponential_family.as_problems(releases, prior), 100, burn_in=800, thin=8, rng=rng, form=form
        )
        low, high = np.quantile(kept[:, :, 0], [0.05, 0.95], axis=0)
        covered[form] = float(((low <= truth) & (truth <= high)).mean())
    assert covered["corrected"] > 0.80
    assert covered["coded"] < 0.84
    assert covered["corrected"] > covered["coded"] + 0.05
