"""Barker's step and annealed importance sampling against enumeration on a truncated Bernoulli model."""

from itertools import pairwise, product

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.papers import foulds as gibbs
from dpgraph.papers.foulds import annealed_path, barker_step
from tests.conclusions import law_test

pytestmark = pytest.mark.proof

#: Bernoulli parameters in [1/4, 3/4]: Delta = ln 3.
GRID = np.linspace(0.25, 0.75, 5)
DELTA = float(np.log(3))
POWERS = (0.0, 0.2, 0.5, 1.0)


def log_likelihood(i, ones=6, n=8):
    return ones * np.log(GRID[i]) + (n - ones) * np.log(1 - GRID[i])


def log_prior(i):
    return -0.3 * i


def neighbour(i, noise):
    """One step left or right; at the ends it may stay: symmetric."""
    return min(max(i + 2 * noise.bits(1) - 1, 0), len(GRID) - 1)


def walk(i, move):
    return min(max(i + move, 0), len(GRID) - 1)


class Coin:
    """A direction, then a uniform that is compared with the acceptance."""

    private = False

    def __init__(self, up, uniform):
        self.answers = [up, int(uniform * 2**64)]

    def bits(self, count):
        return self.answers.pop(0)


def acceptance(i, up, ones, n, power=1.0):
    """The probability that ``barker_step`` accepts, by bisection over its own uniform."""
    low, high = 0.0, 1.0
    for _ in range(45):
        middle = (low + high) / 2
        taken = barker_step(
            Coin(up, middle), i, lambda j: log_prior(j) + power * log_likelihood(j, ones, n), neighbour
        )[1]
        low, high = (middle, high) if taken else (low, middle)
    return (low + high) / 2


def test_a_step_costs_at_most_its_price_and_nearly_all_of_it():
    """All data sets of 9 rows, all neighbours, all states, directions and answers, read off the step itself."""
    price, worst = float(gibbs.barker_cost(DELTA).epsilon), 0.0
    ends = lambda i, noise: len(GRID) - 1 - i if noise.bits(1) else i  # noqa: E731
    for i, n in product((0, len(GRID) - 1), (1, 9)):
        accepted = []
        for ones in range(n + 1):
            low, high = 0.0, 1.0
            for _ in range(45):
                middle = (low + high) / 2
                taken = barker_step(Coin(1, middle), i, lambda j, o=ones, n=n: log_likelihood(j, o, n), ends)[1]
                low, high = (middle, high) if taken else (low, middle)
            accepted.append((low + high) / 2)
        for law in (np.array(accepted), 1 - np.array(accepted)):
            worst = max(worst, np.abs(np.diff(np.log(law))).max())
    assert 0.9 * price < worst <= price + 1e-6


@pytest.mark.parametrize("power", [0.3, 1.0])
def test_a_step_leaves_the_density_as_it_is(power):
    kernel = np.zeros((5, 5))
    for i, up in product(range(5), (0, 1)):
        share = acceptance(i, up, 6, 8, power)
        kernel[i, walk(i, 2 * up - 1)] += share / 2
        kernel[i, i] += (1 - share) / 2
    log = np.array([log_prior(i) + power * log_likelihood(i) for i in range(5)])
    target = np.exp(log - np.logaddexp.reduce(log))
    np.testing.assert_allclose(target @ kernel, target, atol=1e-10)


def test_plain_metropolis_would_prove_a_row():
    """The example of ``private_gibbs``: theta 0.4, 0.6 proposed. Only x = 0 is ever rejected, with probability 1/3."""
    rejected = {x: 1 - min(1.0, (0.6 if x else 0.4) / (0.4 if x else 0.6)) for x in (0, 1)}
    assert rejected[1] == 0
    assert rejected[0] == pytest.approx(1 / 3)
    barker = {x: 1 - float(gibbs.barker_acceptance(np.log((0.6 if x else 0.4) / (0.4 if x else 0.6)))) for x in (0, 1)}
    assert abs(np.log(barker[0] / barker[1])) <= float(gibbs.barker_cost(np.log(0.6 / 0.4)).epsilon)
    assert min(barker.values()) > 0


def test_the_weights_average_to_the_probability_of_the_rows():
    """6 000 paths: the mean weight is p(rows) within 5 standard errors, an error of at most 2 %."""
    log = np.array([log_prior(i) for i in range(5)])
    prior = np.exp(log - np.logaddexp.reduce(log))
    wanted = prior @ np.exp([log_likelihood(i) for i in range(5)])
    noise, rng = dg.testing.SeededNoise(3), np.random.default_rng(3)
    how = {"log_prior": log_prior, "log_likelihood": log_likelihood, "propose": neighbour}
    paths = [annealed_path(noise, int(i), POWERS, **how) for i in rng.choice(5, 6_000, p=prior)]
    weights = np.exp([path.log_weight for path in paths])
    error = weights.std(ddof=1) / np.sqrt(len(weights))
    assert error < 0.02 * wanted
    assert abs(weights.mean() - wanted) < 5 * error
    steps = np.diff(POWERS)
    for path in paths[:50]:
        assert len(path.states) == 3
        assert path.log_weight == pytest.approx(steps @ [log_likelihood(i) for i in path.states])
    posterior = prior * np.exp([log_likelihood(i) for i in range(5)]) / wanted
    last = np.array([path.states[-1] for path in paths])
    assert (weights * last).mean() / weights.mean() == pytest.approx(posterior @ np.arange(5), abs=0.05)


class Script:
    """Directions and uniforms as listed, then zeros."""

    private = False

    def __init__(self, answers):
        self.answers = [int(one) for pair in answers for one in pair]

    def bits(self, count):
        return self.answers.pop(0) if self.answers else 0


YES, NO = 0, 2**64 - 1
HOW = {"log_prior": log_prior, "log_likelihood": log_likelihood, "propose": neighbour}


def accepted(start, powers, before, up):
    """The probability that ``annealed_path`` takes a direction after given steps, by bisection over its uniform."""
    low, high = 0.0, 1.0
    for _ in range(52):
        middle = (low + high) / 2
        states = annealed_path(Script([*before, (up, middle * 2**64)]), start, powers, **HOW).states
        low, high = (middle, high) if states[len(before) + 1] != states[len(before)] else (low, middle)
    return (low + high) / 2


def all_paths(start, powers, before=(), chance=1.0):
    """Every path from a start with its probability, one Barker step a power, read off ``annealed_path`` itself."""
    states = annealed_path(Script(before), start, powers, **HOW).states
    if len(before) == len(powers) - 2:
        yield chance, annealed_path(Script(before), start, powers, **HOW)
        return
    here = states[len(before)]
    for up in (0, 1):
        stays = walk(here, 2 * up - 1) == here
        share = 1.0 if stays else accepted(start, powers, before, up)
        for answer, part in ((YES, share), (NO, 1 - share)):
            if part > 0:
                yield from all_paths(start, powers, (*before, (up, answer)), chance * part / 2)


@pytest.mark.parametrize("powers", [(0.0, 1.0), (0.0, 0.4, 1.0), POWERS, (0.0, 0.05, 0.9, 1.0)])
def test_the_weight_is_unbiased_by_enumeration_of_all_paths(powers):
    """E w = p(rows) and E w f(last state) = p(rows) E(f | rows), over all starts and paths, to eight digits.

    Two steps at the powers before theirs, or after, miss p(rows) by over 1 % (the test below).
    """
    log = np.array([log_prior(i) for i in range(5)])
    prior = np.exp(log - np.logaddexp.reduce(log))
    joint = prior * np.exp([log_likelihood(i) for i in range(5)])
    paths = [(prior[i] * chance, path) for i in range(5) for chance, path in all_paths(i, powers)]
    assert sum(chance for chance, _ in paths) == pytest.approx(1, abs=1e-12)
    found = np.zeros(5)
    for chance, path in paths:
        assert len(path.states) == len(powers) - 1
        found[path.states[-1]] += chance * np.exp(path.log_weight)
    assert found.sum() == pytest.approx(joint.sum(), rel=1e-8)
    np.testing.assert_allclose(found, joint, rtol=1e-8)


def test_a_weight_of_the_wrong_steps_is_seen():
    """What the test above rejects: steps that leave the law of the power before, or weights of the states after."""
    log = np.array([log_prior(i) for i in range(5)])
    prior = np.exp(log - np.logaddexp.reduce(log))
    score = np.array([log_likelihood(i) for i in range(5)])
    wanted = prior @ np.exp(score)

    def kernel(power):
        moves = np.zeros((5, 5))
        for i, up in product(range(5), (0, 1)):
            share = acceptance(i, up, 6, 8, power)
            moves[i, walk(i, 2 * up - 1)] += share / 2
            moves[i, i] += (1 - share) / 2
        return moves

    def mean_weight(steps):
        law = prior
        for (a, b), power in zip(pairwise(POWERS), (*steps, None), strict=True):
            law = law * np.exp((b - a) * score)
            law = law if power is None else law @ kernel(power)
        return law.sum()

    assert mean_weight((0.2, 0.5)) == pytest.approx(wanted, rel=1e-8)
    assert abs(mean_weight((0.0, 0.2)) / wanted - 1) > 0.01
    assert abs(mean_weight((0.5, 1.0)) / wanted - 1) > 0.01


def test_a_path_costs_the_sum_of_its_powers_times_two_delta():
    """All paths of two updates from each end, all outcomes of 2 rows: never more, and over half is attained."""
    price = float(gibbs.annealed_cost(DELTA, [0.2, 0.5]).epsilon)
    assert price == pytest.approx(2 * DELTA * 0.7)

    def jump(i, noise):
        return noise.bits(1) * 4

    def kernel(ones, n, power, i, j):
        log = [power * (log_likelihood(k, ones, n) - log_likelihood(i, ones, n)) for k in (0, 4)]
        moved = {k: float(gibbs.barker_acceptance(gain)) / 2 for k, gain in zip((0, 4), log, strict=True)}
        stay = 1 - sum(moved.values())
        return moved.get(j, 0) + (stay if i == j else 0)

    worst = 0.0
    for i, n in product((0, 4), (1, 2, 8)):
        for ends in product((0, 4), repeat=2):
            log = [
                np.log(kernel(ones, n, 0.2, i, ends[0])) + np.log(kernel(ones, n, 0.5, *ends)) for ones in range(n + 1)
            ]
            worst = max(worst, max(abs(a - b) for a, b in pairwise(log)))
    assert 0.5 * price < worst <= price + 1e-9


def test_steps_at_one_power_repeat():
    """With the likelihood constant the chain forgets its start: 600 chains of 60 steps end uniformly.

    With one step a power every chain would end at the first two points. The test tells the uniform law from one of
    masses .35, .25, .2, .15, .05 but for a chance of 1e-6 on either side.
    """
    flat = {"log_prior": lambda i: 0.0, "log_likelihood": lambda i: 0.0, "propose": neighbour}
    test = law_test(np.log(np.full(5, 0.2)), [np.log([0.35, 0.25, 0.2, 0.15, 0.05])], draws=600)
    noise = dg.testing.SeededNoise(4)
    ends = [annealed_path(noise, 0, (0.0, 0.5, 1.0), steps=60, **flat).states[-1] for _ in range(test.draws)]
    test.check(ends)


@pytest.mark.parametrize("powers", [(0.0,), (0.1, 1.0), (0.0, 0.9), (0.0, 0.5, 0.5, 1.0), ()])
def test_powers_that_make_no_path_are_refused(powers):
    with pytest.raises(dg.errors.ReleaseError, match="powers must increase"):
        annealed_path(
            dg.testing.SeededNoise(1), 0, powers, log_prior=log_prior, log_likelihood=log_likelihood, propose=neighbour
        )


def test_steps_and_starts_are_checked():
    how = {"log_prior": log_prior, "log_likelihood": log_likelihood, "propose": neighbour}
    with pytest.raises(dg.errors.ReleaseError, match="steps must be"):
        annealed_path(dg.testing.SeededNoise(1), 0, POWERS, steps=0, **how)
    with pytest.raises(dg.errors.ReleaseError, match="density is above 0"):
        barker_step(dg.testing.SeededNoise(1), 0, lambda i: -np.inf, neighbour)
