"""What benchmarks/foulds_figures.py computes, against enumeration, quadrature and a grid search."""

import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import foulds_figures as study

#: Two-sided normal quantile of a false alarm of 1e-6.
FAR = 4.9


def test_a_tempered_draw_is_as_inefficient_as_enumeration_says():
    """100 000 repeats: a standard error of 0.4 %, so T = 5 is told from 4.8 and from 5.2; the level is 1e-6."""
    for t in (1, 5):
        found, error = study.efficiency(study.sampled_estimates(200, 100_000, t, np.random.default_rng(t)), 200)
        assert abs(found - study.sampled_theory(200, t)) < FAR * error
        assert error < 0.006 * found


def test_the_efficiency_of_a_tempered_draw_goes_to_one_plus_the_temperature():
    for t in study.TEMPERATURES:
        assert study.sampled_theory(100_000, t) == pytest.approx(1 + t, rel=1e-3)


@pytest.mark.parametrize("sum_zero", [False, True])
def test_the_mean_from_noisy_counts_is_as_inefficient_as_enumeration_says(sum_zero):
    """All data, and noise within 30 scales; 100 000 repeats see a noise scale wrong by 5 % or more (level 1e-6)."""
    n, q = 30, np.exp(-study.EPSILON / (1 if sum_zero else 2))
    z = np.arange(-60, 61)
    law = (1 - q) / (1 + q) * q ** np.abs(z)
    data = binom.pmf(np.arange(n + 1), n, study.THETA)[:, None, None]
    a = 1 + np.maximum(np.arange(n + 1)[:, None, None] + z[:, None], 0)
    other = -z[:, None] if sum_zero else z
    b = 1 + np.maximum(n - np.arange(n + 1)[:, None, None] + other, 0)
    weight = data * law[:, None] * (1 if sum_zero else law)
    squared = n * (weight * (a / (a + b) - study.THETA) ** 2).sum() / (study.THETA * (1 - study.THETA))
    mean, _ = study.laplace_estimates(n, 100_000, sum_zero, np.random.default_rng(1))
    found, error = study.efficiency(mean, n)
    assert abs(found - squared) < FAR * error


def test_first_order_theory_of_the_noisy_mean_holds_for_many_rows():
    """proofs.md P45 with the exact variance of the noise; 100 000 repeats, level 1e-6, and 0.005 for higher orders."""
    mean, draw = study.laplace_estimates(2_000, 100_000, False, np.random.default_rng(2))
    for estimates, theory in ((mean, study.laplace_theory(2_000)), (draw, 1 + study.laplace_theory(2_000))):
        found, error = study.efficiency(estimates, 2_000)
        assert abs(found - theory) < FAR * error + 0.005


def test_local_epsilon_is_the_largest_log_ratio_of_two_posterior_densities():
    """By quadrature of both normalisers and a grid over the parameter."""
    for ones, zeros, floor in ((0, 0, 0.2), (3, 1, 0.2), (0, 6, 0.05), (10, 10, 0.3)):

        def density(x, a, b):
            return x**a * (1 - x) ** b

        ends = (floor, 1 - floor)
        mass = [quad(density, *ends, args=args)[0] for args in ((ones + 1, zeros), (ones, zeros + 1))]
        x = np.linspace(*ends, 1001)
        ratio = density(x, ones + 1, zeros) / mass[0] / (density(x, ones, zeros + 1) / mass[1])
        assert study.local_epsilon(ones, zeros, floor) == pytest.approx(np.abs(np.log(ratio)).max(), abs=1e-9)


def test_the_adversary_rises_from_delta_towards_twice_delta():
    """All rows alike are the greedy choice, and their masses are rational: 400 rows are checked exactly."""
    path = study.adversary(400, 0.2)
    assert path[0] == pytest.approx(np.log(4), abs=1e-12)
    assert (np.diff(path) > 0).all()
    assert path[-1] < 2 * np.log(4)
    high, low = Fraction(4, 5), Fraction(1, 5)
    up = (high**402 - low**402) / 402
    down = (high**401 - low**401) / 401 - up
    assert path[-1] == pytest.approx(np.log(4) + np.log(float(up / down)), abs=1e-9)


def test_emissions_above_the_floor_are():
    drawn = study.above_floor(np.full((500, 5), 0.3), np.random.default_rng(0))
    assert drawn.min() >= study.FLOOR
    np.testing.assert_allclose(drawn.sum(axis=1), 1)


def test_every_method_has_a_score_at_every_epsilon():
    """At epsilon 10 on 260 rows each is near the open model: one draw loses about 8 / 260 nats, a wrong model 0.5."""
    scores = {(method, epsilon): nats for method, epsilon, nats in study.one_state(1.0, seed=3)}
    assert set(scores) == {(method, epsilon) for method in study.METHODS for epsilon in study.EPSILONS}
    for method in study.METHODS:
        assert abs(scores[method, 10] - scores["not private", 10]) < 0.2


def test_the_charged_sampler_has_a_score_between_nothing_and_the_truth():
    """At epsilon 1000 on 11 500 entries it is within 0.15 nats of the simulation's own model, at 0.01 it is not."""
    log = study.event_log.simulate(40.0, 2)
    held = np.zeros(log.states.shape, bool)
    held[:, ::9] = True
    good, poor = (study.charged_sweeps(log, held, epsilon, 1, "adaptive") for epsilon in (1000, 0.01))
    codes = study.dg.statistics.encode(log.rows, study.DOMAIN).columns
    inside = held[codes["region"], codes["month"]]
    states = log.states[codes["region"], codes["month"]][inside]
    known = sum(np.log(study.event_log.EMISSIONS[f][states, codes[f][inside]]) for f in study.FIELDS).mean()
    assert known - 0.15 < good < known + 0.05
    assert poor < good - 0.1
