"""The hierarchical prior: what it is, who can use it, and whether the posterior under it is calibrated."""

import numpy as np
import pytest
from scipy import stats

import dpgraph as dg
from dpgraph.inference.network.queries import sample_codes
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap

NETWORK = dg.Network.of(
    {"a": [0, 1, 2], "b": [0, 1], "c": [0, 1, 2], "d": [0, 1]}, {"b": ["a"], "c": ["a", "b"], "d": ["c"]}
)
PRIOR = dg.HierarchicalPrior()
#: Draws that a truth is ranked among, and their chain.
RANKED = {"draws": 40, "method": dg.methods.Records(chains=1, burn_in=300, thin=8)}


def released(truth, rng, n=300, neighbours="add-remove", mechanism=None):
    counts = dg.count(Codes(truth.network.domain, FrozenMap(sample_codes(truth, n, rng))), truth.network)
    budget = dg.Budget(100, delta=0.1, unit=dg.PrivacyUnit(neighbours))
    noise = dg.testing.SeededNoise(int(rng.integers(2**31)))
    return dg.release(counts, mechanism or dg.LaplaceMechanism(1), budget=budget, noise=noise)


@pytest.mark.proof
def test_sampled_tables_have_the_moments_of_the_prior():
    """Given a concentration a and a centre m, a cell's variance is m (1 - m) / (a + 1); m is uniform on the simplex.

    Power: 20 000 worlds know the variance between rows to 2 %, and a sum that leaves out the + 1 is off by half.
    """
    prior, rng = dg.HierarchicalPrior(lowest=2, highest=2, steps=1), np.random.default_rng(0)
    drawn = np.stack([prior.sample(NETWORK, rng).table("b")[0] for _ in range(20_000)])
    within = drawn.var(axis=1, ddof=1)
    z = stats.norm.isf(1e-6 / 2)
    assert abs(drawn.mean() - 0.5) < z * drawn.mean(axis=1).std() / np.sqrt(len(drawn))
    assert abs(within.mean() - 1 / 6 / 3) < z * within.std() / np.sqrt(len(drawn)) < 0.01
    roots = np.stack([prior.sample(NETWORK, rng).table("a") for _ in range(2000)])
    assert stats.kstest(roots[:, 0], stats.beta(1, 2).cdf).pvalue > 1e-6


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lowest": 0}, "lowest must be a finite number above 0; got 0"),
        ({"highest": float("inf")}, "highest must be a finite number above 0"),
        ({"centre": -1}, "centre must be a finite number above 0"),
        ({"steps": 0}, "steps must be a whole number, at least 1"),
        ({"lowest": 2.0, "highest": 1.0}, "highest must be at least lowest; got 1.0 below 2.0"),
    ],
)
def test_a_prior_out_of_range_is_refused(settings, message):
    with pytest.raises(dg.errors.InferenceError, match=message):
        dg.HierarchicalPrior(**settings)


@pytest.mark.parametrize("prior", ["hierarchical", dg.HierarchicalPrior(steps=5)])
@pytest.mark.parametrize("method", ["tables", "normal"])
def test_methods_that_cannot_learn_it_refuse_it(prior, method):
    noisy = released(PRIOR.sample(NETWORK, np.random.default_rng(1)), np.random.default_rng(2))
    with pytest.raises(dg.errors.InferenceError, match=f"prior must be a number for method '{method}'"):
        dg.posterior(noisy, prior=prior, method=method)


@pytest.mark.proof
def test_records_learn_the_prior_unless_it_is_given(monkeypatch):
    from dpgraph.inference.network import posterior as networks

    noisy = released(PRIOR.sample(NETWORK, np.random.default_rng(1)), np.random.default_rng(2))
    settings = {"draws": 20, "seed": 0}
    records = dg.methods.Records(burn_in=20)
    learned, default, uniform = (
        dg.posterior(noisy, method=records, **settings, **prior).flat("b").tobytes()
        for prior in ({"prior": "hierarchical"}, {}, {"prior": 1.0})
    )
    assert learned == default != uniform
    more = dg.posterior(noisy, method=dg.methods.Records(burn_in=20, thin=8), **settings)
    quick = dg.posterior(noisy, method=networks.Automatic(records), **settings)
    given = dg.posterior(noisy, method=networks.Automatic(records), prior=1.0, **settings)
    assert quick.flat("b").tobytes() == more.flat("b").tobytes()
    assert given.flat("b").tobytes() == uniform
    monkeypatch.setattr(networks, "PATIENCE", 1e-9)
    asked = dg.posterior(noisy, prior="hierarchical", **settings)
    assert (asked.method, asked.reason) == ("records", "the only method for a hierarchical prior")


@pytest.mark.proof
def test_the_mean_is_that_given_the_latent_counts():
    """Nearer the average of many draws than their own error allows, and not that average itself."""
    noisy = released(PRIOR.sample(NETWORK, np.random.default_rng(1)), np.random.default_rng(2))
    made = dg.posterior(noisy, method=dg.methods.Records(chains=2, burn_in=300), draws=4000, seed=0)
    for name in NETWORK.domain.names:
        average = made.flat(name).mean(axis=0)
        error = made.flat(name).std(axis=0) / np.sqrt(made.effective_sizes[name])
        assert made.means is not None
        assert (np.abs(made.means[name] - average) < 6 * error + 1e-9).all()
        assert not np.array_equal(made.means[name], average)


def rank(truth, draws, rng):
    """The rank of the truth among draws, in (0, 1); tables so sparse that draws are 0 tie at random."""
    below, ties = (draws < truth).sum(axis=0), (draws == truth).sum(axis=0)
    return (below + rng.random(truth.shape) * (ties + 1)) / (len(draws) + 1)


def calibration_ranks(trials, neighbours, mechanism, prior=PRIOR, believed=PRIOR, seed=0, network=NETWORK):
    """Worlds from ``prior``, rows, a release, a posterior under ``believed``: ranks of all free probabilities."""
    ranks = []
    for stream in np.random.SeedSequence(seed).spawn(trials):
        rng = np.random.default_rng(stream)
        truth = prior.sample(network, rng)
        noisy = released(truth, rng, neighbours=neighbours, mechanism=mechanism)
        made = dg.posterior(noisy, prior=believed, seed=rng, **RANKED)
        parts = [rank(truth.table(v)[:-1], made.flat(v)[:, :-1], rng).ravel() for v in network.domain.names]
        ranks.append(np.concatenate(parts))
    return np.stack(ranks)


def uniform(ranks):
    """Whether ranks, shape (worlds, parameters), are as a right posterior's: a false alarm has a chance of 1e-6.

    Half of it is the distance of each parameter's ranks from uniform, half the mean over worlds of a world's mean of
    (2 rank - 1)^2: 1 / 3, above it where draws are too narrow. Worlds are independent, parameters of one need not be.
    """
    worlds, parameters = ranks.shape
    distances = [stats.kstest(column, "uniform").statistic for column in ranks.T]
    spread = ((2 * ranks - 1) ** 2).mean(axis=1)
    away = abs(spread.mean() - 1 / 3) / (spread.std(ddof=1) / np.sqrt(worlds))
    return max(distances) < stats.kstwo.isf(5e-7 / parameters, worlds) and away < stats.t.isf(5e-7 / 2, worlds - 1)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("neighbours", "mechanism"),
    [("add-remove", dg.LaplaceMechanism(1)), ("replace", dg.LaplaceMechanism(1)), ("replace", dg.FourierMechanism(1))],
    ids=["add-remove", "replace", "coefficients"],
)
def test_the_posterior_under_the_learned_prior_is_calibrated(neighbours, mechanism):
    """20 parameters in 60 worlds.

    Power: the uniform prior believed in these worlds is to be seen, ``test_a_wrong_prior_is_seen``.
    """
    assert uniform(calibration_ranks(60, neighbours, mechanism))


@pytest.mark.proof
def test_a_wrong_prior_is_seen():
    """In 60 worlds of two other seeds its mean was 7.6 and 7.0 standard errors from 1 / 3; the limit is 5.7."""
    assert not uniform(calibration_ranks(60, "add-remove", dg.LaplaceMechanism(1), believed=1.0))
