"""R-hat and effective size agree with what is known of autoregressive chains, and see chains apart."""

import numpy as np
import pytest

from dpgraph.inference.chains import effective_size, split_r_hat


def autoregressive(rho, shape, seed=0):
    rng = np.random.default_rng(seed)
    x = np.empty(shape)
    x[:, 0] = rng.standard_normal(shape[0])
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(shape[0])
    return x


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
def test_effective_size_of_an_autoregressive_chain(rho):
    """The truth is N (1 - rho) / (1 + rho); within 15 % at 80 000 draws."""
    found = effective_size(autoregressive(rho, (4, 20_000)))
    assert found == pytest.approx(80_000 * (1 - rho) / (1 + rho), rel=0.15)


def test_r_hat_is_one_for_mixed_chains_and_more_for_chains_apart_or_drifting():
    mixed = autoregressive(0.3, (4, 2000))
    assert split_r_hat(mixed) < 1.01
    assert split_r_hat(mixed + np.arange(4)[:, None]) > 1.2
    assert split_r_hat(mixed + np.linspace(0, 3, 2000)) > 1.2
    assert effective_size(mixed + np.arange(4)[:, None]) < 50


def test_it_agrees_with_arviz():
    """Against the reference implementation's plain (not rank-normalised) versions, where it is installed."""
    reference = pytest.importorskip("arviz_stats.base").array_stats
    chains = autoregressive(0.7, (4, 3000), seed=2)
    assert split_r_hat(chains) == pytest.approx(float(reference.rhat(chains, method="split")), rel=1e-3)
    assert effective_size(chains) == pytest.approx(float(reference.ess(chains, method="mean")), rel=0.05)


def test_constant_chains_do_not_divide_by_zero():
    assert split_r_hat(np.ones((4, 10))) == 1.0
    assert effective_size(np.ones((4, 10))) == 40
