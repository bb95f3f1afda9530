"""Losses are those of the real laws, and what the rows decide past the noise is refused."""

import itertools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.audit import privacy_loss
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.exact_loss import RecordingNoise, difference, loss_of_calls
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.privacy.records import Event
from tests.selection import compositions, counted, permute_and_flip, softmax

COIN = dg.Network.of({"side": [0, 1]}, {})
ONE, OTHER = counted(COIN, {(0,): 3}), counted(COIN, {(0,): 2, (1,): 1})
LESS = counted(COIN, {(0,): 2})
whole = st.integers(-50, 50)


def recorded(ask):
    noise = RecordingNoise()
    ask(noise)
    return noise.calls


def loss(ask, one, other):
    """Epsilon and rho of one call on two inputs."""
    a, b = (recorded(lambda noise, values=values: ask(noise, np.array(values))) for values in (one, other))
    return loss_of_calls(a, b)


@pytest.mark.parametrize(("one", "other"), [((3, 0), (2, 1)), ((3, 0, 1), (1, 1, 2)), ((0, 5), (5, 0))])
@pytest.mark.parametrize("law", [DiscreteLaplace(1.7), SumZeroLaplace(1.7)], ids=["independent", "sum-zero"])
def test_the_loss_of_laplace_noise_is_the_largest_log_ratio_of_the_real_pmf(law, one, other):
    """Over a grid of outputs: both have the same normaliser, so the weights are compared."""
    side = range(-6, 8)
    outputs = [y for y in itertools.product(side, repeat=len(one)) if law != SumZeroLaplace(1.7) or sum(y) == sum(one)]
    ratios = [sum(abs(y - t) - abs(y - s) for y, s, t in zip(out, one, other, strict=True)) / 1.7 for out in outputs]
    epsilon, rho = loss(lambda noise, values: noise.add(values, law), one, other)
    assert float(epsilon) == pytest.approx(max(ratios), rel=1e-12)
    moved = np.array(one) - other
    squared = (moved**2).sum() if isinstance(law, DiscreteLaplace) else np.abs(moved).sum() ** 2
    assert float(rho) == pytest.approx(squared / (2 * 1.7**2), rel=1e-12)


def test_gaussian_noise_has_a_rho_and_no_epsilon():
    def ask(noise, values):
        return noise.add(values, DiscreteGaussian(2.0))

    assert loss(ask, (3, 0), (1, 1)) == (math.inf, Fraction(5, 8))
    assert loss(ask, (3, 0), (3, 0)) == (0, 0)


@pytest.mark.parametrize("alpha", [2, 5, 20])
def test_the_rho_of_gaussian_noise_bounds_the_real_renyi_divergence_and_is_met(alpha):
    """sum p^alpha q^(1 - alpha) over the integers; a move by a whole number attains alpha rho."""
    z = np.arange(-400, 401)
    one, other = (-((z - shift) ** 2) / (2 * 4.0) for shift in (0, 3))
    p, q = one - np.logaddexp.reduce(one), other - np.logaddexp.reduce(other)
    divergence = np.logaddexp.reduce(alpha * p + (1 - alpha) * q) / (alpha - 1)
    _, rho = loss(lambda noise, values: noise.add(values, DiscreteGaussian(2.0)), (0,), (3,))
    assert divergence == pytest.approx(alpha * float(rho), rel=1e-9)


@given(st.lists(st.tuples(whole, whole), min_size=1, max_size=6), st.floats(0.5, 9))
def test_no_real_selection_loses_more_than_the_recorded_range(pairs, scale):
    one, other = np.array(pairs).T
    for name, law in (("choose", softmax), ("flip", permute_and_flip)):
        epsilon, rho = loss(lambda noise, scores, name=name: getattr(noise, name)(scores, scale), one, other)
        assert epsilon == Fraction(int(np.ptp(one - other))) / Fraction(scale)
        assert rho == epsilon**2 / (8 if name == "choose" else 2)
        assert np.abs(law(one / scale) - law(other / scale)).max() <= float(epsilon) * (1 + 1e-9) + 1e-9


def test_a_selection_comes_as_near_its_range_as_one_likes_where_other_rows_are_many():
    """Candidate 0 is far ahead, and the person's rows speak for candidate 1 and against it."""
    for law in (softmax, permute_and_flip):
        far = np.array([60.0, 0.0])
        assert np.abs(law(far) - law(far + np.array([-1, 1]))).max() > 2 - 1e-9


@given(st.integers(1, 3), st.integers(1, 4), st.data())
def test_the_range_over_compositions_is_that_of_all_of_them(parts, total, data):
    cells = parts * (total + 1)
    scores = data.draw(st.lists(whole, min_size=2 * cells, max_size=2 * cells))
    one, other = np.array(scores).reshape(2, parts, total + 1)
    every = [sum(int((one - other)[a, j]) for a, j in enumerate(z)) for z in compositions(parts, total)]
    epsilon, rho = loss(lambda noise, scores: noise.choose_composition(scores, 2.0, 3), one, other)
    assert epsilon == 3 * Fraction(max(every) - min(every), 2)
    assert rho == 3 * Fraction(max(every) - min(every), 2) ** 2 / 8


@given(st.lists(st.tuples(whole, whole, whole, whole), min_size=1, max_size=4))
def test_the_range_over_paths_is_that_of_all_of_them(steps):
    both = np.array(steps)
    one, other = both[:, :2], both[:, 2:]
    paths = itertools.product(range(2), repeat=len(both))
    every = [sum(int((one - other)[t, k]) for t, k in enumerate(z)) for z in paths]
    start, transition = np.full(2, 0.5), np.full((2, 2), 0.5)
    epsilon, _ = loss(lambda noise, scores: noise.choose_path(scores, 4.0, start, transition), one, other)
    assert epsilon == Fraction(max(every) - min(every), 4)


def test_scores_are_compared_exactly_however_large_and_fractions_as_they_are():
    far = 2**62 - 1
    assert loss(lambda noise, scores: noise.choose(scores, 1.0), (far, -far), (-far, far))[0] == 4 * far
    assert loss(lambda noise, scores: noise.choose(scores, 1.0), (0.1, 0.0), (0.0, 0.0))[0] == Fraction(0.1)


@dataclass(frozen=True)
class Own:
    """A mechanism of a user's own, with a fault or without."""

    fault: str = ""

    def event(self, network, unit):
        return Event("Own", Fraction(1), Fraction(0))

    def randomise(self, statistics, unit, noise):
        counts = statistics.sensitive_margin(("side",))
        scale = (2.0 if unit.n_is_public else 1.0) * unit.rows_per_person
        match self.fault:
            case "half the scale":
                scale /= 2
            case "a scale that depends on the rows":
                scale += counts[1]
            case "noise where there is something":
                counts = counts[counts > 0]
            case "twice, at the price of once":
                noise.add(counts, DiscreteLaplace(scale))
            case "another law":
                return noise.add(counts, SumZeroLaplace(scale)).tolist()
        answer = noise.add(counts, DiscreteLaplace(scale)).tolist()
        return (answer, counts.tolist()) if self.fault == "the rows besides" else answer


def test_a_mechanism_of_ones_own_is_audited():
    found = privacy_loss(Own(), ONE, OTHER)
    assert (found.epsilon, found.rho, found.share) == (1, Fraction(1, 4), 1)
    assert found.event == Own().event(None, None)
    assert privacy_loss(Own("half the scale"), ONE, OTHER).share == 2
    assert privacy_loss(Own("twice, at the price of once"), ONE, OTHER).share == 2
    assert privacy_loss(Own(), ONE, LESS, unit=dg.PrivacyUnit("add-remove")).share == 1


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("a scale that depends on the rows", "noise call 1 depends on the rows"),
        ("noise where there is something", "noise call 1 depends on the rows"),
        ("the rows besides", "show past the noise"),
    ],
)
def test_what_shows_past_the_noise_is_refused(fault, message):
    with pytest.raises(ReleaseError, match=message):
        privacy_loss(Own(fault), ONE, OTHER)


def test_a_total_that_differs_under_noise_that_sums_to_zero_is_refused():
    with pytest.raises(ReleaseError, match="shows a total"):
        privacy_loss(Own("another law"), ONE, LESS)


def test_a_call_more_is_refused():
    noise = RecordingNoise()
    noise.bits(3)
    with pytest.raises(ReleaseError, match="noise call 1"):
        loss_of_calls(noise.calls, [])


def test_a_claim_with_a_delta_is_compared_in_rho():
    found = privacy_loss(dg.GaussianMechanism(1, "1e-6"), ONE, OTHER)
    assert found.epsilon == math.inf
    assert 0.999 < found.share <= 1


def test_the_worst_past_is_reported():
    """An adaptive sampler's states cost nothing where the scripted emissions are the same."""
    log = dg.hmm_network(dg.Domain.of({"region": ["N"], "month": [1], "kind": [0, 1]}), "region", "month")
    one, other = counted(log, {(0, 0, 0): 1}), counted(log, {(0, 0, 1): 1})
    sampler = dg.papers.GibbsSample(1, 2, 1, grid=2)
    apart = [privacy_loss(sampler, one, other, scripts=scripts).epsilon for scripts in (1, 6)]
    assert apart[0] <= apart[1] <= 1


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ((1, [2, np.array([3])]), (1, [2, np.array([3])]), True),
        ((1, [2, np.array([3])]), (1, [2, np.array([4])]), False),
        (np.array([1]), np.array([1.0]), False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"a": np.array([1])}, {"a": np.array([1])}, True),
        ([1], (1,), False),
        ([1], [1, 2], False),
        (Own("x"), Own("x"), True),
        (Own("x"), Own("y"), False),
    ],
)
def test_alike_is_equality_of_all_parts(one, other, same):
    assert (difference(one, other) is None) == same
