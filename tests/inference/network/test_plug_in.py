"""The plug-in posterior: conjugacy, moments, and what each way of plugging in does."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

import dpgraph as dg
from dpgraph.inference.network.plug_in import DirichletPosterior
from dpgraph.privacy.measurements import DiscreteLaplace
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts

NETWORK = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]})


def noisy(tables, scale=1.0, n=None):
    return NoisyCounts(NETWORK, tables, dict.fromkeys(tables, DiscreteLaplace(scale)), n)


def test_exact_counts_give_the_conjugate_posterior():
    joint = np.array([[5, 1], [0, 2], [3, 4]])
    learned = dg.posterior(noisy({("b", "a"): joint}, n=15), prior=0.5, method="plug-in")
    np.testing.assert_allclose(learned.concentration["b"], joint + 0.5)
    np.testing.assert_allclose(learned.concentration["a"], joint.sum(axis=0) + 0.5)
    np.testing.assert_allclose(learned.mean().table("b"), (joint + 0.5) / (joint + 0.5).sum(axis=0))


def test_clipping_is_algorithm_1():
    """Zhang et al. 2016: each noisy count cut to [0, n] by itself, added to the prior."""
    tables = {("a",): np.array([-3, 40]), ("b", "a"): np.array([[5, 31], [-1, 2], [3, 4]])}
    learned = dg.posterior(noisy(tables, n=30), method=dg.methods.PlugIn("clipped"))
    assert learned.concentration["a"].tolist() == [1, 31]
    assert learned.concentration["b"].tolist() == [[6, 31], [1, 3], [4, 5]]


@pytest.mark.parametrize("estimate", [-30.0, -2.0, 0.0, 1.0, 25.0])
def test_the_expected_count_is_the_mean_of_a_normal_cut_at_zero(estimate):
    spread = math.sqrt(DiscreteLaplace(2.0).variance(2))
    weight = lambda s: math.exp(-0.5 * ((s - estimate) / spread) ** 2)  # noqa: E731
    top = max(estimate, 0) + 12 * spread
    shift = 0.5 * (estimate / spread) ** 2 if estimate < 0 else 0.0
    scaled = lambda s: math.exp(shift - 0.5 * ((s - estimate) / spread) ** 2) if shift else weight(s)  # noqa: E731
    mean = integrate.quad(lambda s: s * scaled(s), 0, top)[0] / integrate.quad(scaled, 0, top)[0]
    network = dg.Network.of({"a": [0, 1]}, {})
    other = 400
    counts = NoisyCounts(network, {("a",): [int(estimate), other]}, {("a",): DiscreteLaplace(2.0)}, None)
    learned = dg.posterior(counts, method=dg.methods.PlugIn("expected"))
    cell, rest = learned.concentration["a"] - 1
    assert cell / rest == pytest.approx(mean / other, rel=1e-6)
    assert cell + rest == pytest.approx(estimate + other)


@pytest.mark.parametrize("scale", [2.0**-8, 1e-2, 1e3, 1e9])
@pytest.mark.parametrize("cell", [0, -1, -(10**6), 10**6])
def test_the_expected_count_is_finite_at_any_noise(scale, cell):
    network = dg.Network.of({"a": [0, 1, 2]}, {})
    counts = NoisyCounts(network, {("a",): [cell, 1000, -1]}, {("a",): DiscreteLaplace(scale)}, None)
    learned = dg.posterior(counts, method=dg.methods.PlugIn("expected")).concentration["a"]
    assert np.isfinite(learned).all()
    assert learned.min() >= 1


@pytest.mark.parametrize("prior", [0, -1, math.nan, math.inf, True, "1"])
def test_a_prior_is_a_positive_number(prior):
    with pytest.raises(dg.errors.InferenceError, match="prior"):
        dg.posterior(noisy({("b", "a"): np.ones((3, 2), int)}), prior=prior, method="plug-in")


def test_what_is_not_noisy_counts_is_refused():
    with pytest.raises(dg.errors.InferenceError, match="noisy counts"):
        dg.posterior(NETWORK, method="plug-in")
    with pytest.raises(dg.errors.InferenceError, match="counts must be"):
        dg.posterior(noisy({("b", "a"): np.ones((3, 2), int)}), method=dg.methods.PlugIn("naive"))


@pytest.mark.proof
def test_draws_have_the_dirichlet_moments():
    """20 000 draws; the means by a z test at level 1e-6, which sees a mean wrong by a tenth."""
    concentration = {"a": np.array([0.05, 0.2]), "b": np.array([[2.0, 9.0], [0.5, 1.0], [4.0, 0.01]])}
    learned = DirichletPosterior(NETWORK, FrozenMap(concentration))
    draws = learned.sample(np.random.default_rng(0), 20_000)
    for name, alpha in concentration.items():
        stack = np.stack([draw.table(name) for draw in draws])
        mean = alpha / alpha.sum(axis=0)
        variance = mean * (1 - mean) / (alpha.sum(axis=0) + 1)
        z = (stack.mean(axis=0) - mean) / np.sqrt(variance / len(draws))
        assert np.abs(z).max() < stats.norm.isf(1e-7)
        steady = alpha >= 0.5  # the variance of a rarer cell is itself too noisy to check
        np.testing.assert_allclose(stack.var(axis=0)[steady], variance[steady], rtol=0.08)
        np.testing.assert_allclose(stack.sum(axis=1), 1)


def test_tiny_concentrations_do_not_underflow():
    learned = DirichletPosterior(NETWORK, FrozenMap({"a": np.full(2, 1e-5), "b": np.full((3, 2), 1e-5)}))
    for draw in learned.sample(np.random.default_rng(1), 200):
        assert np.isfinite(draw.table("b")).all()


def test_the_mode():
    learned = DirichletPosterior(
        NETWORK, FrozenMap({"a": np.array([3.0, 1.0]), "b": np.array([[1.0, 3], [1, 2], [1, 1]])})
    )
    assert learned.mode().table("a").tolist() == [1, 0]
    np.testing.assert_allclose(learned.mode().table("b"), [[1 / 3, 2 / 3], [1 / 3, 1 / 3], [1 / 3, 0]])


def test_provenance_travels_with_what_is_learned():
    import pandas as pd

    release = dg.release(
        dg.count(pd.DataFrame({"a": [0], "b": [1]}), NETWORK), dg.LaplaceMechanism(1), budget=dg.Budget(1)
    )
    assert dg.posterior(release, method="plug-in").mean().provenance == release.provenance
    assert dg.posterior(release.value, method="plug-in").provenance is None
    assert dg.posterior(dg.reconcile(release), method="plug-in").provenance == release.provenance


def coefficients(joint, scale=2.0**-8, **settings):
    """Contrasts of a table with axes (b, a), from the definition, as if released with little noise."""
    b = np.array([[1, -1, 0], [1, 1, -2]])
    a = np.array([1, -1])
    blocks = {
        (): joint.sum(),
        ("a",): [joint.sum(axis=0) @ a],
        ("b",): b @ joint.sum(axis=1),
        ("a", "b"): [b @ joint @ a],
    }
    return NoisyCoefficients(NETWORK, blocks, dict.fromkeys(blocks, DiscreteLaplace(scale)), **({"n": None} | settings))


@pytest.mark.parametrize("plug_in", ["nearest", "expected", "clipped"])
def test_exact_coefficients_give_the_conjugate_posterior(plug_in):
    joint = np.array([[50, 100], [70, 20], [30, 40]])
    learned = dg.posterior(coefficients(joint), prior=0.5, method=dg.methods.PlugIn(plug_in))
    np.testing.assert_allclose(learned.concentration["b"], joint + 0.5, atol=1e-6)
    np.testing.assert_allclose(learned.concentration["a"], joint.sum(axis=0) + 0.5, atol=1e-6)


def test_clipped_coefficients_are_cut_one_family_at_a_time():
    joint = np.array([[-5, 31], [-1, 2], [3, 0]])
    learned = dg.posterior(coefficients(joint, n=28), method=dg.methods.PlugIn("clipped"))
    np.testing.assert_allclose(learned.concentration["b"] - 1, np.clip(joint, 0, 28), atol=1e-9)
    np.testing.assert_allclose(learned.concentration["a"] - 1, [0, 28], atol=1e-9)
    lifted = dg.posterior(coefficients(joint, n=28, pseudo_records=6), method=dg.methods.PlugIn("clipped"))
    np.testing.assert_allclose(lifted.concentration["b"] - 1, np.clip(joint + 1, 0, 34), atol=1e-9)


def test_negative_coefficients_give_proper_posteriors():
    joint = np.array([[-500, 31], [-1, 2], [3, 0]])
    for plug_in in ("nearest", "expected", "clipped"):
        learned = dg.posterior(coefficients(joint, scale=300.0), method=dg.methods.PlugIn(plug_in))
        assert all(np.isfinite(table).all() and table.min() >= 1 for table in learned.concentration.values())


def test_the_expected_count_of_coefficients_uses_their_own_variance():
    """One variable, a Walsh pair: cells (w0 + w1) / 2 and (w0 - w1) / 2, each of variance (var + var) / 4."""
    network = dg.Network.of({"a": [0, 1]}, {})
    law = DiscreteLaplace(6.0)
    noisy_pair = NoisyCoefficients(network, {(): 404, ("a",): [-396]}, {(): law, ("a",): law}, None)
    spread = math.sqrt(law.variance(1) / 2)
    mean = stats.truncnorm.mean(-4 / spread, np.inf, loc=4, scale=spread)
    cell, rest = dg.posterior(noisy_pair, method=dg.methods.PlugIn("expected")).concentration["a"] - 1
    assert cell / rest == pytest.approx(mean / 400, rel=1e-6)
    assert cell + rest == pytest.approx(404)
