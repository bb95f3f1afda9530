"""Selection has its law exactly, survives any scores, and its scale rounds up (promise.md S11, S12).

Statistical tests reject a right sampler with probability at most 1e-6, and with no more miss a scale wrong by a third.
"""

import inspect
import itertools
import math
import random
from collections import Counter
from fractions import Fraction
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest

from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.noise import (
    DEEPEST,
    SecureNoise,
    _cumulative_bounds,
    _exact_choice,
    _float_choice,
    _float_error,
    _path_bounds,
    _selector,
    _suffixes,
    bounded_scores,
    draw_compositions,
    draw_path,
    selection_scale,
)
from dpgraph.privacy.seeded_noise import SeededNoise
from tests.conclusions import law_test
from tests.selection import compositions, permute_and_flip, softmax

#: Decimal arithmetic alone decides: no float is near enough.
decimals = patch("dpgraph.privacy.noise._float_choice", lambda *_: None)
SCORES = np.array([0, -3, 4, 0, -20, 1], np.int64)
SCALE = 2.5
FACTORS = (2 / 3, 3 / 2)


@pytest.mark.proof
@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(5)], ids=["secure", "seeded"])
@pytest.mark.parametrize("shift", [0, 10**17])
def test_choose_and_flip_have_their_own_laws_and_not_each_others(source, shift):
    laws = {"choose": softmax, "flip": permute_and_flip}
    for name, other in (("choose", "flip"), ("flip", "choose")):
        wrong = [laws[other](SCORES / SCALE), *(laws[name](SCORES / (SCALE * factor)) for factor in FACTORS)]
        test = law_test(laws[name](SCORES / SCALE), wrong)
        test.check([getattr(source, name)(SCORES + shift, SCALE) for _ in range(test.draws)])


MATRIX = -np.array([[0, 3, 9, 2, 30], [5, 0, 1, 7, 8], [2, 2, 0, 40, 11]], np.int64)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("way", "shift"),
    [("secure", 0), ("secure", 2**61), ("secure", 2**80), ("seeded", 0), ("precise", 0), ("precise", 2**80)],
)
def test_compositions_have_their_law_and_not_that_of_a_wrong_scale(way, shift):
    scores = MATRIX + np.array(shift, dtype=object) if shift >= 2**63 else MATRIX + shift
    every = compositions(3, 4)
    sums = np.array([sum(int(MATRIX[a, j]) for a, j in enumerate(z)) for z in every])
    wrong = [softmax(sums / (4.0 * factor)) for factor in FACTORS]
    test = law_test(softmax(sums / 4.0), wrong, draws=None if way == "precise" else 12_000)
    match way:
        case "secure":
            drawn = SecureNoise().choose_composition(scores, 4.0, test.draws)
        case "seeded":
            drawn = SeededNoise(8).choose_composition(scores, 4.0, test.draws)
        case "precise":
            drawn = decimals(draw_compositions)(scores, 4.0, test.draws, SecureNoise().bits)
    test.check([every.index(tuple(z)) for z in drawn.tolist()])


@pytest.mark.parametrize("scale", [0.5, 4.0, 1e6])
def test_the_sequence_of_parts_is_exact(scale):
    """Enumerated: the product of the conditional laws, from the rigorous bounds, is the joint law to 25 digits."""
    every = compositions(3, 4)
    exact = [sum(Fraction(int(MATRIX[a, j])) for a, j in enumerate(z)) / Fraction(scale) for z in every]

    def power(fraction):
        from decimal import Context, Decimal

        context = Context(prec=60)
        return Fraction(context.exp(context.divide(Decimal(fraction.numerator), Decimal(fraction.denominator))))

    masses = [power(exponent) for exponent in exact]
    for z, mass in zip(every, masses, strict=True):
        sequence, left = Fraction(1), 4
        for i in range(2):
            cumulative, slack = _cumulative_bounds(MATRIX[i:], scale, left, 40)
            assert slack < Fraction(1, 10**25)
            sequence *= cumulative[z[i]] - (cumulative[z[i] - 1] if z[i] else 0)
            left -= z[i]
        assert abs(sequence - mass / sum(masses)) < Fraction(1, 10**25)


def test_floats_propose_only_what_decimals_confirm():
    """The same bits through both routes give the same compositions, whatever the scores."""
    rng = np.random.default_rng(0)
    for trial in range(150):
        scores = -rng.integers(0, 10 ** rng.integers(1, 12), (rng.integers(2, 5), rng.integers(2, 9)))
        scale = float(10 ** rng.uniform(-2, 8))
        routes = [
            draw(scores, scale, 3, SeededNoise(trial).bits) for draw in (draw_compositions, decimals(draw_compositions))
        ]
        assert (routes[0] == routes[1]).all()


def near(edges, rng):
    """64-bit uniforms 2^-60 to 2^-30 beside the edges between two intervals, on both sides."""
    for edge in edges:
        if 2**-20 < edge < 1 - 2**-20:
            for size in 1 << rng.integers(4, 35, 6):
                for side in (-1, 1):
                    yield int(edge * 2**64) + side * int(size)


def first(uniform):
    """Bits of which the first 64 are given."""
    given = iter([uniform])
    return lambda count: next(given, 0x5DEECE66D5DEECE6 % (1 << count))


def test_floats_decide_nothing_wrong_near_an_edge():
    """A float that errs by more than its bound decides wrongly for some uniform between the true edge and its own.

    The edges are rational, with 60 digits. Floats err by up to 2^-50 here. With a bound 2^20 times smaller the true
    error passes it in 72 of the 120 trials, and 96 of 1512 uniforms are decided wrongly; one is enough.
    """
    rng = np.random.default_rng(4)
    tried = closer = decided = 0
    for _ in range(120):
        scores = -rng.integers(0, 10 ** rng.integers(2, 6), (rng.integers(2, 4), rng.integers(2, 8)))
        scale = float(np.abs(scores).max() / rng.uniform(1, 40) / 3)
        relative = scores - scores.max(axis=1, keepdims=True)
        edges, slack = _cumulative_bounds(relative, scale, scores.shape[1] - 1, 60)
        assert slack < Fraction(1, 2**150)
        weights = relative / scale
        log_mass, error = weights[0] + _suffixes(weights)[1][::-1], _float_error(weights)
        floats = np.cumsum(np.exp(log_mass - log_mass.max()))
        off = [abs(Fraction(value / floats[-1]) - edge) for value, edge in zip(floats.tolist(), edges, strict=True)]
        assert max(off) <= Fraction(error)
        closer += max(off) > Fraction(error) / 2**20
        for uniform in near(edges, rng):
            value = _float_choice(log_mass, uniform, error)
            decided += value is not None
            if value is not None:
                assert value == len(edges) - 1 or Fraction(uniform + 1, 2**64) <= edges[value]
                assert value == 0 or Fraction(uniform, 2**64) >= edges[value - 1]
            tried += 1
    assert tried > 1000
    assert decided > 100
    assert closer > 40


def test_floats_decide_no_state_wrongly_near_an_edge():
    """The same for paths of states, whose error bound is inside ``draw_path``: decimals alone give the same path.

    With a bound 2^20 times smaller 45 of 588 uniforms are decided wrongly.
    """
    rng = np.random.default_rng(5)
    tried = 0
    for _ in range(60):
        steps, states = rng.integers(1, 4), rng.integers(2, 5)
        scores = -rng.integers(0, 10 ** rng.integers(2, 6), (steps, states))
        scale = float(np.abs(scores).max() / rng.uniform(1, 40) / 3)
        start, transition = (rng.uniform(0.05, 1, shape) for shape in (states, (states, states)))
        relative = scores - scores.max(axis=1, keepdims=True)
        edges, _ = _path_bounds(relative, scale, start, transition, np.ones(states), 60)
        for uniform in near(edges, rng):
            routes = [
                draw(scores, scale, start, transition, first(uniform)) for draw in (draw_path, decimals(draw_path))
            ]
            assert routes[0].tolist() == routes[1].tolist()
            tried += 1
    assert tried > 400


def test_a_uniform_on_a_boundary_is_decided_by_more_bits():
    """Two parts, three values with probabilities 1/3: 64 bits of 0101... lie on the boundary, the next bits decide."""
    scores = np.zeros((2, 3), np.int64)
    third = (2**64 - 1) // 3
    assert _float_choice(np.zeros(3), third, 1e-12) is None
    for more, part in ((0, 0), (2**64 - 1, 1)):
        asked = []

        def bits(count, more=more, asked=asked):
            asked.append(count)
            return more

        assert _exact_choice(partial(_cumulative_bounds, scores, 1.0, 2), third, bits) == part
        assert asked == [64]


@pytest.mark.parametrize("pick", [SecureNoise().choose, SecureNoise().flip, SeededNoise(1).choose, SeededNoise(1).flip])
def test_any_finite_scores_are_selected_from(pick):
    """promise.md S12: the ends of the floats, ties, one candidate, ten thousand."""
    assert pick([1e308, -1e308, 0.0], 1.0) == 0
    assert pick(np.array([-(2**70), 0, -(2**80)], dtype=object), 1.0) == 1
    assert pick([-1e308, -1e308], 1e-3) in (0, 1)
    assert pick([5.0], 1.0) == 0
    ties = Counter(pick(np.zeros(10_000), 1.0) for _ in range(30))
    assert len(ties) > 20
    assert all(0 <= index < 10_000 for index in ties)


@pytest.mark.parametrize("scores", [[], [math.nan, 0.0], [math.inf, 0.0], [[1.0]], ["a"], [True]])
def test_scores_that_are_no_scores_are_refused(scores):
    for source in (SecureNoise(), SeededNoise(1)):
        for pick in (source.choose, source.flip):
            with pytest.raises(ReleaseError):
                pick(scores, 1.0)


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_a_scale_of_selection_must_be_above_zero(scale):
    with pytest.raises(ReleaseError, match="scale"):
        SecureNoise().choose([0.0, 1.0], scale)


def test_bounding_scores_moves_no_two_further_apart():
    """The range of the difference of two neighbours' scores is the same or smaller after the bound (privacy)."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        size = int(rng.integers(2, 9))
        one = [int(x) for x in rng.integers(-(2**62), 2**62, size)]
        other = [x + int(d) for x, d in zip(one, rng.integers(-1000, 1000, size), strict=True)]
        before = [a - b for a, b in zip(one, other, strict=True)]
        bounded = [bounded_scores(np.array(scores, dtype=object)) for scores in (one, other)]
        after = [int(a) - int(b) for a, b in zip(*bounded, strict=True)]
        assert max(after) - min(after) <= max(before) - min(before)
        assert all(scores.max() == 0 and scores.min() >= -DEEPEST for scores in bounded)


@pytest.mark.proof
def test_selection_scales_round_up():
    """promise.md S11: OpenDP's own account of the scale never passes epsilon; nor does the exact ratio."""
    rng = random.Random(2)
    for _ in range(3_000):
        epsilon = Fraction(rng.randint(1, 10**6), rng.choice([10, 1000, 10**5, 3 * 10**6]))
        reach = rng.randint(1, 2**44)
        scale = selection_scale(reach, epsilon)
        assert Fraction(_selector("permute-and-flip", scale).map(float(reach))) <= epsilon
        assert Fraction(reach) / Fraction(scale) <= epsilon
        if Fraction(reach) / epsilon > 1:
            assert Fraction(scale) <= Fraction(reach) / epsilon * (1 + Fraction(1, 10**14))


def test_opendp_prices_the_exponential_mechanism_as_bounded_range():
    """epsilon^2 / 8-zCDP for a score range of epsilon scales."""
    assert _selector("softmax", 5.0).map(10.0) == pytest.approx(2.0**2 / 8)


@pytest.mark.parametrize(("reach", "epsilon"), [(-1, Fraction(1)), (1, Fraction(0)), (10, Fraction(1, 2**120))])
def test_no_selection_without_a_range_and_an_epsilon(reach, epsilon):
    with pytest.raises(ReleaseError):
        selection_scale(reach, epsilon)


def test_permute_and_flip_is_nearer_the_best_than_the_exponential_mechanism():
    """McKenna and Sheldon 2020: its loss is stochastically smaller; enumerated over many score lists."""
    for scores in itertools.product([0.0, -0.5, -2.0], repeat=5):
        logits = np.array(scores)
        flip, choose = np.exp(permute_and_flip(logits)), np.exp(softmax(logits))
        assert flip.sum() == pytest.approx(1)
        for loss in (0.25, 1.0):
            bad = logits < logits.max() - loss
            assert flip[bad].sum() <= choose[bad].sum() + 1e-12


def test_two_selections_differ():
    for pick in (SecureNoise().choose, SecureNoise().flip):
        assert len({pick(np.zeros(1000), 1.0) for _ in range(10)}) > 5
    assert SecureNoise().bits(64) != SecureNoise().bits(64)
    assert SeededNoise(4).bits(64) == SeededNoise(4).bits(64) < 2**64
    assert {SeededNoise(seed).bits(3) for seed in range(60)} == set(range(8))


def test_selection_takes_no_seed():
    """promise.md S3: nothing in its signatures could carry one."""
    for function in (SecureNoise.choose, SecureNoise.flip, SecureNoise.choose_composition, SecureNoise.bits):
        assert not set(inspect.signature(function).parameters) & {"seed", "rng", "random_state", "generator"}


PATH_SCORES = np.array([[0, -3, -9], [-2, 0, -30], [-5, -1, 0]], np.int64)
START, STEP = np.array([0.5, 0.3, 0.2]), np.array([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25], [0.001, 0.009, 0.99]])
EVERY_PATH = list(itertools.product(range(3), repeat=3))


def path_logits(scale):
    """ln m(z) + score(z) / scale of every path, from the definition."""
    log = [np.log(START[z[0]]) + np.log(STEP[z[0], z[1]]) + np.log(STEP[z[1], z[2]]) for z in EVERY_PATH]
    return np.array(log) + [sum(PATH_SCORES[t, k] for t, k in enumerate(z)) / scale for z in EVERY_PATH]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("way", "shift"),
    [
        ("secure", 0),
        ("secure", 2**80),
        ("seeded", 2**61),
        pytest.param("precise", 0, marks=pytest.mark.proof),
        ("precise", 2**80),
    ],
)
def test_paths_have_their_law_and_not_that_of_a_wrong_scale(way, shift):
    scores = PATH_SCORES + np.array(shift, dtype=object) if shift >= 2**63 else PATH_SCORES + shift
    noise = SeededNoise(2) if way == "seeded" else SecureNoise()
    wrong = [softmax(path_logits(4.0 * factor)) for factor in FACTORS]
    test = law_test(softmax(path_logits(4.0)), wrong, draws=None if way == "precise" else 12_000)
    if way == "precise":
        drawn = [decimals(draw_path)(scores, 4.0, START, STEP, noise.bits) for _ in range(test.draws)]
    else:
        drawn = [noise.choose_path(scores, 4.0, START, STEP) for _ in range(test.draws)]
    test.check([EVERY_PATH.index(tuple(z)) for z in np.array(drawn).tolist()])


def test_floats_propose_only_the_paths_that_decimals_confirm():
    """The same bits through both routes give the same paths, whatever the scores, also where likelihoods vanish."""
    rng = np.random.default_rng(1)
    for trial in range(100):
        steps, states = rng.integers(1, 7), rng.integers(1, 5)
        scores = -rng.integers(0, 10 ** rng.integers(1, 14), (steps, states))
        scale = float(10.0 ** rng.integers(-2, 10))
        start, transition = (np.maximum(rng.random(shape) ** 8, 1e-6) for shape in (states, (states, states)))
        routes = [
            draw(scores, scale, start, transition, SeededNoise(trial).bits) for draw in (draw_path, decimals(draw_path))
        ]
        assert routes[0].tolist() == routes[1].tolist()


def test_the_sequence_of_states_is_exact():
    """Enumerated: the conditional laws from the rigorous bounds multiply to the joint law to 25 digits."""
    from decimal import Context, Decimal

    context = Context(prec=60)

    def power(score):
        return Fraction(context.exp(context.divide(Decimal(int(score)), Decimal(4))))

    def mass(z):
        base = Fraction(START[z[0]]) * Fraction(STEP[z[0], z[1]]) * Fraction(STEP[z[1], z[2]])
        return base * power(sum(PATH_SCORES[t, k] for t, k in enumerate(z)))

    whole = sum(mass(z) for z in EVERY_PATH)
    for z in EVERY_PATH:
        sequence = Fraction(1)
        for t in (2, 1, 0):
            onward = np.ones(3) if t == 2 else STEP[:, z[t + 1]]
            cumulative, slack = _path_bounds(PATH_SCORES[: t + 1], 4.0, START, STEP, onward, 40)
            assert slack < Fraction(1, 10**25)
            sequence *= cumulative[z[t]] - (cumulative[z[t] - 1] if z[t] else 0)
        assert abs(sequence - mass(z) / whole) < Fraction(1, 10**25)


@pytest.mark.parametrize("bad", [0.0, 1e-30, 2.0, np.nan])
def test_a_base_measure_out_of_range_is_refused(bad):
    transition = STEP.copy()
    transition[1, 2] = bad
    for measures in ((START, transition), (np.array([0.5, 0.3, bad]), STEP)):
        with pytest.raises(ReleaseError, match="base measure"):
            SecureNoise().choose_path(PATH_SCORES, 4.0, *measures)
