"""R-hat and effective size agree with what is known of autoregressive chains, and see chains apart."""

import numpy as np
import pytest

from dpgraph.inference.chains import effective_size, r_hat


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
    assert r_hat(mixed) < 1.01
    assert r_hat(mixed + np.arange(4)[:, None]) > 1.2
    assert r_hat(mixed + np.linspace(0, 3, 2000)) > 1.2
    assert effective_size(mixed + np.arange(4)[:, None]) < 50


def test_one_chain_is_compared_with_itself():
    mixed = autoregressive(0.3, (1, 4000))
    assert 0.99 < r_hat(mixed) < 1.02
    assert r_hat(mixed + np.linspace(0, 3, 4000)) > 1.2
    assert 1000 < effective_size(mixed) < 4000


def test_every_parameter_is_diagnosed_by_itself():
    """Several axes at once are the same as one by one; one that never moves is neither nan nor in the way."""
    draws = autoregressive(0.5, (3, 600, 2, 3), seed=1)
    draws[:, :, 1, 2] = 0.25
    draws[1, :, 0, 0] += 2
    many = r_hat(draws), effective_size(draws)
    for found, one in zip(many, (r_hat, effective_size), strict=True):
        assert found.shape == (2, 3)
        for place in np.ndindex(2, 3):
            assert found[place] == pytest.approx(float(one(draws[(slice(None), slice(None), *place)])))
    assert many[0][1, 2] == 1.0
    assert many[1][1, 2] == 1800.0
    assert many[0][0, 0] > 1.2 > many[0][0, 1]


def test_chains_that_stick_in_different_places_are_not_called_mixed():
    stuck = np.repeat(np.array([[0.1], [0.9]]), 200, axis=1)[:, :, None]
    assert not r_hat(stuck)[0] < 1.05


def test_chains_too_short_to_say_say_nan():
    short = autoregressive(0.0, (2, 3, 2))
    assert np.isnan(r_hat(short)).all()
    assert np.isnan(effective_size(short)).all()


def test_constant_chains_do_not_divide_by_zero():
    assert r_hat(np.ones((4, 10))) == 1.0
    assert effective_size(np.ones((4, 10))) == 40
