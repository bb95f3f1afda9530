"""The chains over a naive Bayes release's unseen counts against the exact posterior, summed over every table."""

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln, roots_legendre

from dpgraph.inference._kernels import compiled
from dpgraph.inference.classifier import loops, posterior
from dpgraph.inference.classifier.loops import new_draws
from dpgraph.inference.classifier.posterior import draw_by_counts, is_star, label_last, star_of, starting_state
from dpgraph.inference.network.evidence import evidence
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.network import Network
from dpgraph.structure.tables import NoisyCounts

PAIR = Network.of({"y": [0, 1], "a": [0, 1], "b": [0, 1]}, {"a": ["y"], "b": ["y"]})
GRID = (1.0, 8.0)
NODES = tuple((roots_legendre(40)[0] + 1) / 2)
WEIGHTS = tuple(roots_legendre(40)[1] / 2)


def released(tables, law, n):
    """Noisy counts, cell by cell."""
    made = {key: np.array(values) for key, values in tables.items()}
    return evidence(NoisyCounts(PAIR, made, dict.fromkeys(made, law), n=n))


def log_noise(law, noisy, exact):
    """ln of the law of the noise, up to a constant."""
    apart = np.asarray(noisy) - np.asarray(exact)
    return (
        -(apart**2).sum() / (2 * law.scale**2)
        if isinstance(law, DiscreteGaussian)
        else -np.abs(apart).sum() / law.scale
    )


def log_choose(total, part):
    return gammaln(total + 1) - gammaln(part + 1) - gammaln(total - part + 1)


def polya(counts, a, share):
    """ln P of an order of rows of two levels, columns summed out; the last axis of ``counts`` is (level, rows)."""
    made = 0.0
    for first, whole in counts:
        made += gammaln(a) - gammaln(a + whole)
        made += gammaln(first + a * share) - gammaln(a * share)
        made += gammaln(whole - first + a * (1 - share)) - gammaln(a * (1 - share))
    return made


def feature(counts):
    """P(order of rows) and, of the same, weighted by P(level 0 | label 0) and by the second concentration."""
    whole = other = second = 0.0
    for a in GRID:
        for share, weight in zip(NODES, WEIGHTS, strict=True):
            chance = weight * np.exp(polya(counts, a, share))
            whole += chance
            other += chance * (counts[0][0] + a * share) / (counts[0][1] + a)
            second += chance * (a == GRID[1])
    return whole, other, second


def apart(law, n_values, noisy_a, noisy_b, prior):
    """Posterior means of P(y = 0), P(a = 0 | y = 0), P(second concentration of a) and n: a and b measured apart."""
    sums = np.zeros(5)
    for n in n_values:
        for c in range(n + 1):
            labels = gammaln(c + prior) + gammaln(n - c + prior) - gammaln(n + 2 * prior) + log_choose(n, c)
            both = []
            for noisy in (noisy_a, noisy_b):
                found = np.zeros(3)
                for first, second in product(range(c + 1), range(n - c + 1)):
                    table = [[first, second], [c - first, n - c - second]]
                    log = log_choose(c, first) + log_choose(n - c, second) + log_noise(law, noisy, table)
                    found += np.exp(log) * np.array(feature(((first, c), (second, n - c))))
                both.append(found)
            (of_a, mean_a, wide_a), (of_b, _, _) = both
            weight = np.exp(labels) * of_b
            share = (c + prior) / (n + 2 * prior)
            sums += weight * np.array([of_a, of_a * share, mean_a, wide_a, of_a * n])
    return sums[1:] / sums[0]


def chained(given, prior, draws=30_000):
    """The same means from one long compiled chain, with Monte Carlo errors from fifty batches."""
    star = star_of(given, "y", prior)
    state, rng = starting_state(star, np.random.default_rng(3)), np.random.default_rng(4)
    sweep, found = compiled(loops.sweep), np.empty((draws, 4))
    for i in range(-500, draws):
        sweep(rng, star.plan, state, np.array(GRID), 2, 4)
        if i >= 0:
            a, centre = state.concentration[0], state.centres[0]
            n = state.label.sum()
            mean = (state.margins[0] + a * centre) / (state.label[0] + a)
            found[i] = (state.label[0] + prior) / (n + 2 * prior), mean, a == GRID[1], n
    batches = found.reshape(50, -1, 4).mean(axis=1)
    return found.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(50)


A, B = [[4, -1], [0, 3]], [[2, 0], [-1, 5]]


@pytest.mark.proof
@pytest.mark.parametrize("law", [DiscreteLaplace(2.0), SumZeroLaplace(2.0), DiscreteGaussian(2.0)])
def test_chains_agree_with_enumeration_where_n_is_public(law):
    """Within 5 Monte Carlo errors, which are below .005: a wrong ratio of any move is dozens away (planted faults)."""
    exact = apart(law, [6], A, B, 0.7)
    found, error = chained(released({("a", "y"): A, ("b", "y"): B}, law, 6), 0.7)
    assert (error[:3] < 0.005).all()
    assert (np.abs(found - exact)[:3] < 5 * error[:3] + 1e-9).all(), (found, exact, error)


@pytest.mark.proof
def test_features_measured_together_and_the_label_alone_agree_with_enumeration():
    """A merged table of two features, axes in another order, and the label's own counts."""
    law, n, prior = DiscreteLaplace(2.0), 4, 1.0
    noisy, alone = np.array([[[2, 0], [1, 1]], [[-1, 1], [0, 2]]]), np.array([3, 1])  # axes a, y, b
    sums = np.zeros(4)
    for c in range(n + 1):
        labels = gammaln(c + prior) + gammaln(n - c + prior) + log_choose(n, c) + log_noise(law, alone, [c, n - c])
        columns = [
            [cells for cells in product(range(total + 1), repeat=4) if sum(cells) == total] for total in (c, n - c)
        ]
        for zero, one in product(*columns):
            table = np.stack([np.reshape(zero, (2, 2)), np.reshape(one, (2, 2))], axis=1)  # a, y, b
            ways = sum(gammaln(sum(cells) + 1) - gammaln(np.array(cells) + 1).sum() for cells in (zero, one))
            of_a, mean_a, wide_a = feature(((zero[0] + zero[1], c), (one[0] + one[1], n - c)))
            of_b, _, _ = feature(((zero[0] + zero[2], c), (one[0] + one[2], n - c)))
            weight = np.exp(labels + ways + log_noise(law, noisy, table)) * of_b
            sums += weight * np.array([of_a, of_a * (c + prior) / (n + 2 * prior), mean_a, wide_a])
    given = released({("a", "y", "b"): noisy, ("y",): alone}, law, n)
    found, error = chained(given, prior)
    assert (error[:3] < 0.005).all()
    assert (np.abs(found[:3] - sums[1:] / sums[0]) < 5 * error[:3]).all(), (found, sums[1:] / sums[0], error)


def test_compiled_and_plain_loops_give_the_same_draws(plain):
    given = released({("a", "y"): A, ("b", "y"): B}, DiscreteLaplace(2.0), 6)
    settings = {"draws": 5, "burn_in": 3, "thin": 1}
    fast = draw_by_counts(given, "y", rng=np.random.default_rng(1), **settings)
    plain(posterior)
    slow = draw_by_counts(given, "y", rng=np.random.default_rng(1), **settings)
    for name in "yab":
        np.testing.assert_allclose(slow.tables[name], fast.tables[name], rtol=1e-9)


@pytest.mark.parametrize(("rows", "share"), [(1, 0.3), (40, 0.3), (40, 30.0), (300, 4.0)])
def test_new_draws_have_the_law_of_the_urn(rows, share):
    """Mean and variance of a sum of independent events, each within 5 standard errors of 20 000 draws."""
    rng, fast = np.random.default_rng(5), _jit(new_draws)
    found = np.array([fast(rng, rows, share) for _ in range(20_000)])
    chance = share / (share + np.arange(rows))
    variance = (chance * (1 - chance)).sum()
    assert abs(found.mean() - chance.sum()) <= 5 * np.sqrt(variance / len(found)) + 1e-12
    assert abs(found.var() - variance) <= 5 * variance * np.sqrt(3 / len(found)) + 1e-12


def _jit(function):
    import numba

    return numba.njit(function)


@pytest.mark.proof
def test_where_noise_drowns_everything_features_have_no_effect_and_labels_are_even():
    """A release that says next to nothing of 50 rows: predictive columns differ by less than .1 of .5."""
    law = DiscreteLaplace(1e6)
    given = released({("a", "y"): [[10, -20], [5, 0]], ("b", "y"): [[0, 1], [2, 3]]}, law, 50)
    mean = draw_by_counts(given, "y", rng=np.random.default_rng(0), draws=1000).mean()
    assert np.abs(mean.table("a") - 0.5).max() < 0.1
    assert np.abs(mean.table("y") - 0.5).max() < 0.1


def test_a_strong_effect_is_found():
    law = DiscreteLaplace(3.0)
    given = released({("a", "y"): [[400, 100], [100, 400]], ("b", "y"): [[252, 250], [249, 251]]}, law, 1000)
    drawn = draw_by_counts(given, "y", rng=np.random.default_rng(0))
    mean = drawn.mean()
    assert np.abs(mean.table("a") - [[0.8, 0.2], [0.2, 0.8]]).max() < 0.02
    assert np.abs(mean.table("b") - 0.5).max() < 0.03
    assert max(float(value.max()) for value in drawn.r_hat.values()) < 1.1


def test_only_tables_that_share_the_label_alone_are_a_star():
    law = DiscreteLaplace(2.0)
    assert is_star(released({("a", "y"): A, ("b", "y"): B}, law, 6), "y")
    assert not is_star(released({("a", "y"): A, ("b", "y"): B}, law, 6), "a")
    twice = released({("a", "y"): A, ("a", "b", "y"): [[[1, 0], [0, 2]], [[1, 1], [0, 1]]]}, law, 6)
    assert not is_star(twice, "y")
    assert not is_star(released({("a", "y"): A, ("b", "y"): B}, law, None), "y")


def test_tables_are_read_with_the_label_last():
    given = released({("y", "a"): [[4, 0], [-1, 3]], ("b", "y"): B}, DiscreteLaplace(2.0), 6)
    assert label_last(given.tables[0], "y").tolist() == A


def test_every_move_is_made():
    given = released({("a", "y"): A, ("b", "y"): B}, DiscreteLaplace(2.0), 6)
    drawn = draw_by_counts(given, "y", rng=np.random.default_rng(1))
    assert set(drawn.acceptance) == set(loops.MOVES)
    assert min(drawn.acceptance.values()) > 0.02


def test_a_row_of_several_levels_that_nobody_has_is_possible_in_every_draw():
    """The product of its probabilities is above 0 for some label; with draws of 1e-300 it is 0 in some draw."""
    levels = list(range(8))
    network = Network.of({"y": [0, 1], "a": levels, "b": levels}, {"a": ["y"], "b": ["y"]})
    counts = np.zeros((8, 2), np.int64)
    counts[0] = 300
    keys = [("a", "y"), ("b", "y")]
    noisy = NoisyCounts(network, dict.fromkeys(keys, counts), dict.fromkeys(keys, DiscreteLaplace(0.5)), n=600)
    drawn = draw_by_counts(evidence(noisy), "y", rng=np.random.default_rng(3), draws=400, burn_in=200)
    rare = drawn.flat("a")[:, 1:, None] * drawn.flat("b")[:, None, 1:]
    assert rare.max(axis=-1).min() > 0
