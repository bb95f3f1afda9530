"""Noise has the stated law exactly, its scale rounds up, and nothing seeds it (promise.md S3, S11).

Statistical tests here reject a right sampler with probability at most 1e-6, and with no more miss a stated wrong one: a
scale wrong by a tenth, a twentieth or, for vectors of sum zero, a fifth.
"""

import inspect
import itertools
import math
import multiprocessing
import random
import sys
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from dpgraph.privacy import noise as noise_module
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.privacy.noise import (
    MAX_SCALE,
    SecureNoise,
    _accept,
    _composition,
    _gaussian,
    _geometrics,
    _laplace,
    _negative_binomial_mode,
    _ratio_bounds,
    _subset,
    _sum_zero,
    _uniforms,
    calibrated_gaussian_scale,
    calibrated_scale,
    epsilon_of_rho,
    exp_bounds,
    rho_of_epsilon,
)
from dpgraph.privacy.seeded_noise import SeededNoise
from tests.conclusions import law_test

ZEROS = np.zeros(200_000, np.int64)


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(5)], ids=["secure", "seeded"])
@pytest.mark.parametrize("scale", [0.7, 3.0])
def test_discrete_laplace_noise_has_its_law_and_not_that_of_a_wrong_scale(source, scale):
    z = np.arange(-120, 121)
    test = law_test(-abs(z) / scale, [-abs(z) / (scale * factor) for factor in (2 / 3, 0.9, 1.1, 3 / 2)])
    test.check(source.add(ZEROS[: test.draws], DiscreteLaplace(scale)) - z[0])


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(8)], ids=["secure", "seeded"])
@pytest.mark.parametrize("scale", [0.6, 3.4])
def test_discrete_gaussian_noise_has_its_law_and_not_that_of_a_wrong_scale(source, scale):
    z = np.arange(-60, 61)
    wrong = [-(z**2) / (2 * (scale * factor) ** 2) for factor in (2 / 3, 0.95, 1.05, 3 / 2)]
    test = law_test(-(z**2) / (2 * scale**2), [*wrong, -abs(z) / scale], most=70_000)
    test.check(source.add(ZEROS[: test.draws], DiscreteGaussian(scale)) - z[0])


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(6)], ids=["secure", "seeded"])
@pytest.mark.parametrize(("cells", "scale"), [(2, 1.5), pytest.param(3, 2.0, marks=pytest.mark.proof), (5, 0.8)])
def test_sum_zero_noise_has_its_law_and_not_that_of_a_wrong_scale(source, cells, scale):
    """The whole vector: probability exp(-||z||_1 / scale) up to the constant, on the plane of sum zero."""
    side = range(-9, 10) if cells > 3 else range(-25, 26)
    plane = [(*free, -sum(free)) for free in itertools.product(side, repeat=cells - 1)]
    number = {vector: i for i, vector in enumerate(plane)}
    norms = np.abs(plane).sum(axis=1)
    wrong = [-norms / (scale * factor) for factor in (2 / 3, 0.8, 1.25, 3 / 2)]
    test = law_test(-norms / scale, wrong, draws=None if source.private else 12_000)
    vectors = [tuple(source.add(np.zeros(cells, np.int64), SumZeroLaplace(scale)).tolist()) for _ in range(test.draws)]
    assert all(sum(vector) == 0 for vector in vectors)
    test.check([number.get(vector, -1) for vector in vectors])


@pytest.mark.parametrize("cells", [2, 3, 4])
def test_the_construction_of_sum_zero_noise_is_exact(cells):
    """Enumerated: T ~ NB^2, two uniform compositions of T, and their difference has mass q^||z||_1.

    At q = 0.3 the totals left out carry less than 1e-6 of the mass.
    """
    q, mass = 0.3, Counter()
    for total in range(11):
        parts = [
            tuple(b - a - 1 for a, b in itertools.pairwise((-1, *bars, total + cells - 1)))
            for bars in itertools.combinations(range(total + cells - 1), cells - 1)
        ]
        weight = (math.comb(total + cells - 1, cells - 1) * q**total) ** 2 / len(parts) ** 2
        for first, second in itertools.product(parts, repeat=2):
            mass[tuple(a - b for a, b in zip(first, second, strict=True))] += weight
    origin = mass[(0,) * cells]
    for vector in [(1, -1), (2, -2), (-3, 3)]:
        z = vector + (0,) * (cells - 2)
        assert mass[z] / origin == pytest.approx(q ** sum(map(abs, z)), rel=1e-4)


@pytest.mark.parametrize("scale", [0.4, 2.5])
def test_geometrics_have_their_law(scale):
    k = np.arange(80)
    test = law_test(-k / scale, [-k / (1.1 * scale), -k / (0.9 * scale)])
    test.check(_geometrics(test.draws, scale))


def test_compositions_are_uniform():
    """And would be seen not to be if those with an empty part were a fifth too rare; each is there: 15 (14/15)^n."""
    everyone = [z for z in itertools.product(range(5), repeat=3) if sum(z) == 4]
    test = law_test(np.zeros(15), [np.log([0.8 if 0 in z else 1.0 for z in everyone])])
    draws = [everyone.index(tuple(_composition(4, 3).tolist())) for _ in range(test.draws)]
    assert set(draws) == set(range(15))
    test.check(draws)


def test_a_composition_of_more_than_64_bits_is_refused():
    assert sum(_composition((1 << 63) - 2, 2).tolist()) == (1 << 63) - 2
    with pytest.raises(ReleaseError, match="leaves 64 bits"):
        _composition((1 << 63) - 1, 2)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 6])
def test_sets_drawn_all_at_once_are_uniform(size):
    """Of six numbers, few of them and, by leaving others out, many; a number a fifth too rare would be seen."""
    sets = list(itertools.combinations(range(6), size))
    number = {chosen: i for i, chosen in enumerate(sets)}
    if len(sets) == 1:
        assert _subset(size, 6).tolist() == list(sets[0])
        return
    rare = np.log([0.8 if 0 in chosen else 1.0 for chosen in sets])
    test = law_test(np.zeros(len(sets)), [rare])
    test.check([number[tuple(_subset(size, 6).tolist())] for _ in range(test.draws)])


@pytest.mark.parametrize("below", [1, 5, 8])
def test_uniform_numbers_are_uniform(below):
    """Three numbers twice as likely, as remainders of three bits would be, would be seen; none is out of range."""
    if below == 1:
        assert set(_uniforms(100, 1).tolist()) == {0}
        return
    test = law_test(np.zeros(below), [np.log(np.r_[2.0, 2.0, 2.0, np.ones(below - 3)])])
    drawn = np.concatenate([_uniforms(test.draws, below) for _ in range(4)])
    test.check(drawn[: test.draws])


def test_uniform_numbers_use_every_bit():
    """In 4096 numbers below 2^62 no bit stands still: chance 62 x 2^-4095; one below 2^61 + 1 is kept in range."""
    drawn = _uniforms(4096, 1 << 62)
    assert np.bitwise_or.reduce(drawn) == (1 << 62) - 1
    assert np.bitwise_and.reduce(drawn) == 0
    assert _uniforms(4096, (1 << 61) + 1).max() <= 1 << 61
    assert _uniforms(4096, 1 << 63).min() >= 0


def test_folding_a_discrete_laplace_law_gives_the_geometric_law():
    """Enumerated: k is z or -z - 1, and no other z falls on k."""
    z = np.arange(-60, 60)
    mass = np.bincount(z ^ (z >> 63), weights=0.3 ** np.abs(z))
    assert mass / mass[0] == pytest.approx(0.3 ** np.arange(60))


@pytest.mark.parametrize("law", [DiscreteLaplace(3.0), DiscreteGaussian(3.0)], ids=["laplace", "gaussian"])
def test_blocks_have_noise_of_their_own_and_no_cell_is_left_out(law, monkeypatch):
    """Thousands of cells in blocks of 7: no two blocks alike, every cell within 60 scales of its own value."""
    monkeypatch.setattr(noise_module, "BLOCK", 7)
    values = 10_000 * np.arange(700)
    drawn = SecureNoise().add(values, law) - values
    assert (np.abs(drawn) < 180).all()
    assert len({tuple(block) for block in drawn.reshape(100, 7).tolist()}) > 50
    assert len(SecureNoise().add(values[:8], law)) == 8


@pytest.mark.parametrize("scale", [0.5, 300.0])
def test_a_large_table_of_sum_zero_noise_has_the_variance_of_its_law(scale):
    """3000 cells at once: their mean square is within a third, 9 of its standard deviations, of the formula's."""
    law = SumZeroLaplace(scale)
    drawn = SecureNoise().add(np.zeros(3000, np.int64), law)
    assert drawn.sum() == 0
    assert np.mean(drawn.astype(float) ** 2) == pytest.approx(law.variance(3000), rel=1 / 3)


@pytest.mark.parametrize(("total", "cells", "scale"), [(0, 2, 1.5), (9, 3, 2.0), (40, 12, 5.0), (7, 40, 0.3)])
def test_ratio_bounds_hold_the_exact_ratio_and_close_in(total, cells, scale):
    exponent = -1 / Fraction(scale)
    mode = _negative_binomial_mode(cells, exponent)
    exact_part = Fraction(math.comb(total + cells - 1, cells - 1), math.comb(mode + cells - 1, cells - 1))
    reference = exp_bounds((total - mode) * exponent, 200)
    for digits in (30, 50):
        low, high = _ratio_bounds(cells, total, mode, exponent, digits)
        assert low <= exact_part * reference[0] <= exact_part * reference[1] <= high
        assert high - low <= high * Fraction(1, 10 ** (digits - 8))
        assert low <= 1


@pytest.mark.parametrize(("cells", "scale"), [(2, 0.1), (2, 3.0), (7, 11.0), (500, 40.0), (30, 0.01)])
def test_the_mode_is_where_the_mass_stops_growing(cells, scale):
    mode = _negative_binomial_mode(cells, -1 / Fraction(scale))

    def log_mass(t):
        return math.lgamma(t + cells) - math.lgamma(t + 1) - t / scale

    assert log_mass(mode) >= log_mass(mode + 1)
    assert mode == 0 or log_mass(mode) >= log_mass(mode - 1)


def test_the_coin_has_its_bias():
    """NB(4) / NB(mode) for two cells at scale 1.5; a bias wrong by a tenth is seen."""
    exponent = -1 / Fraction(1.5)
    mode = _negative_binomial_mode(2, exponent)
    bias = math.exp(-(4 - mode) / 1.5) * 5 / (mode + 1)
    test = law_test(np.log([1 - bias, bias]), [np.log([1 - factor * bias, factor * bias]) for factor in (0.9, 1.1)])
    test.check([int(_accept(2, 4, mode, exponent)) for _ in range(test.draws)])


def test_exp_bounds_are_tight_and_right():
    low, high = exp_bounds(Fraction(-7, 3), 40)
    assert low <= Fraction(math.exp(-7 / 3)) * (1 + Fraction(1, 10**14))
    assert high >= Fraction(math.exp(-7 / 3)) * (1 - Fraction(1, 10**14))
    assert 0 < high - low < Fraction(1, 10**35)


#: How many random settings a scale is calibrated for: a thousand in every run, ten thousand in the long ones.
SETTINGS = [1_000, pytest.param(10_000, marks=pytest.mark.proof)]


@pytest.mark.parametrize("settings", SETTINGS)
def test_scales_round_up(settings):
    """promise.md S11: OpenDP's own account of the calibrated scale never passes epsilon, over random settings."""
    rng = random.Random(1)
    for _ in range(settings):
        epsilon = Fraction(rng.randint(1, 10**6), rng.choice([10, 1000, 10**5, 3 * 10**6]))
        sensitivity = rng.randint(1, 3000)
        scale = calibrated_scale(sensitivity, epsilon)
        assert Fraction(_laplace(scale).map(sensitivity)) <= epsilon
        assert Fraction(sensitivity) / Fraction(scale) <= epsilon
        if Fraction(sensitivity) / epsilon > 1:
            assert Fraction(scale) <= Fraction(sensitivity) / epsilon * (1 + Fraction(1, 10**14))
    _laplace.cache_clear()


@pytest.mark.parametrize("settings", SETTINGS)
def test_gaussian_scales_round_up(settings):
    """promise.md S11 for rho: OpenDP's own account of the scale never passes rho, over random settings."""
    rng = random.Random(2)
    for _ in range(settings):
        rho = Fraction(rng.randint(1, 10**6), rng.choice([10, 1000, 10**5, 3 * 10**6]))
        squared = rng.randint(1, 3000)
        scale = calibrated_gaussian_scale(squared, rho)
        assert Fraction(_gaussian(scale).map(math.nextafter(math.sqrt(squared), 0.0))) <= rho
        assert Fraction(squared) / (2 * Fraction(scale) ** 2) <= rho
        if squared > 2 * rho:
            assert Fraction(squared) / (2 * Fraction(scale) ** 2) >= rho * (1 - Fraction(1, 10**13))
    _gaussian.cache_clear()


@pytest.mark.parametrize(("squared", "rho"), [(0, 1), (1, 0), (-2, 1), (1, -1)])
def test_no_gaussian_scale_without_sensitivity_and_rho(squared, rho):
    with pytest.raises(ReleaseError):
        calibrated_gaussian_scale(squared, Fraction(rho))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_gaussian_scale_that_is_not_above_zero_and_finite_is_refused(scale):
    with pytest.raises(ReleaseError, match="above 0 and finite"):
        _gaussian(scale)


def test_a_rho_too_small_to_learn_from_is_refused_and_a_huge_one_still_gets_noise():
    with pytest.raises(ReleaseError, match="nothing could be learned"):
        calibrated_gaussian_scale(2, Fraction(1, 2**81))
    assert 0 < calibrated_gaussian_scale(1, Fraction(1, 2**80)) <= MAX_SCALE * 1.001
    assert calibrated_gaussian_scale(1, Fraction(10**12)) > 0


@pytest.mark.parametrize("delta", ["1e-3", "1e-6", "1e-12"])
@pytest.mark.parametrize("rho", ["1e-6", "0.005", "0.1", "0.5", "7", "60"])
def test_the_conversion_of_rho_is_the_least_bound_over_all_orders(rho, delta):
    """Canonne, Kamath and Steinke 2020, Corollary 13: delta = min over a > 1 of
    exp((a - 1)(a rho - epsilon)) / (a - 1) (1 - 1/a)^a, here by a fine grid over a, to 1e-4 and never below."""
    rho, delta = Fraction(rho), Fraction(delta)
    order = 1 + np.geomspace(1e-4, 1e7, 400_000)
    r, log_delta = float(rho), math.log(delta)
    bound = float((r * order + np.log1p(-1 / order) - (log_delta + np.log(order)) / (order - 1)).min())
    assert float(epsilon_of_rho(rho, delta)) == pytest.approx(max(bound, 0.0), rel=1e-4, abs=1e-9)
    if bound > 0:
        back = rho_of_epsilon(epsilon_of_rho(rho, delta), delta)
        assert float(back) == pytest.approx(r, rel=1e-8)
        assert epsilon_of_rho(back, delta) <= epsilon_of_rho(rho, delta)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_that_is_not_above_zero_and_finite_is_refused(scale):
    with pytest.raises(ReleaseError, match="above 0 and finite"):
        _laplace(scale)


@pytest.mark.parametrize(("sensitivity", "epsilon"), [(0, 1), (1, 0), (-2, 1), (1, -1)])
def test_no_scale_without_sensitivity_and_epsilon(sensitivity, epsilon):
    with pytest.raises(ReleaseError):
        calibrated_scale(sensitivity, Fraction(epsilon))


def test_an_epsilon_too_small_to_learn_from_is_refused():
    with pytest.raises(ReleaseError, match="nothing could be learned"):
        calibrated_scale(2, Fraction(1, 2**41))
    assert calibrated_scale(1, Fraction(1, 2**40)) <= MAX_SCALE * 1.001


def test_a_huge_epsilon_still_gets_a_scale_above_zero():
    assert calibrated_scale(1, Fraction(10**9)) > 0
    assert (SecureNoise().add(np.array([3, 4]), DiscreteLaplace(calibrated_scale(1, Fraction(10**9)))) == [3, 4]).all()


@pytest.mark.parametrize(
    "law",
    [DiscreteLaplace(4.0), SumZeroLaplace(4.0), DiscreteGaussian(4.0)],
    ids=["independent", "sum-zero", "gaussian"],
)
def test_noise_is_integer_and_on_the_same_grid_whatever_the_values(law):
    """promise.md S2: inputs 0 and 1 give outputs of the same integer type."""
    for values in (np.zeros(6, np.int64), np.ones(6, np.int64)):
        noisy = SecureNoise().add(values, law)
        assert noisy.dtype == np.int64
        assert noisy.shape == (6,)
        if isinstance(law, SumZeroLaplace):
            assert noisy.sum() == values.sum()


def test_two_draws_differ():
    values = np.zeros(40, np.int64)
    for law in (DiscreteLaplace(1000.0), SumZeroLaplace(1000.0), DiscreteGaussian(1000.0)):
        assert (SecureNoise().add(values, law) != SecureNoise().add(values, law)).any()


def test_two_forked_children_differ():
    context = multiprocessing.get_context("fork")
    SecureNoise().add(np.zeros(1, np.int64), DiscreteLaplace(5.0))  # whatever state there is exists before the fork

    def child(queue):
        drawn = [
            SecureNoise().add(np.zeros(20, np.int64), law) for law in (DiscreteLaplace(999.0), SumZeroLaplace(999.0))
        ]
        queue.put([part.tolist() for part in drawn])

    queues = [context.SimpleQueue() for _ in range(2)]
    processes = [context.Process(target=child, args=(queue,)) for queue in queues]
    for process in processes:
        process.start()
    one, two = (queue.get() for queue in queues)
    for process in processes:
        process.join()
    assert one[0] != two[0]
    assert one[1] != two[1]


def test_the_secure_source_takes_no_seed():
    """promise.md S3: nothing in its signatures could carry one."""
    for function in (SecureNoise, SecureNoise.add, _sum_zero, _geometrics, _composition, _accept, _subset, _uniforms):
        names = set(inspect.signature(function).parameters)
        assert not names & {"seed", "rng", "random_state", "generator", "random"}


def test_without_opendp_there_is_no_source_and_no_fallback(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.measurements", None)
    noise_module._laplace.cache_clear()
    with pytest.raises(ReleaseError, match="no secure noise source"):
        SecureNoise()


def test_seeded_noise_repeats_and_says_that_it_is_not_private():
    values, law = np.zeros(10, np.int64), DiscreteLaplace(9.0)
    assert (SeededNoise(3).add(values, law) == SeededNoise(3).add(values, law)).all()
    assert SeededNoise.private is False
    assert SecureNoise.private is True
