"""Common factors of pairs (proofs.md P126): the bound that each step raises, what is found, and what is not."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from dpgraph.inference.graphs import factors as fa
from dpgraph.inference.graphs.factors import common_factors

WIDTHS = {"a": 2, "b": 1, "c": 3, "d": 1, "e": 2, "f": 1, "g": 2}


def blocks_of(loadings, spread, rng, left_out=(), alone=None, sure=0.0):
    """The blocks of a factor model: of variables, measured with noise ``sure``, and of pairs, with noise ``spread``."""
    alone = alone or {name: np.zeros(len(rows)) for name, rows in loadings.items()}
    singles = {name: (values + sure * rng.standard_normal(len(values)), sure**2) for name, values in alone.items()}
    pairs = {}
    for one, other in itertools.combinations(loadings, 2):
        if (one, other) not in left_out:
            exact = np.outer(alone[one], alone[other]) + loadings[one] @ loadings[other].T
            pairs[one, other] = exact + spread * rng.standard_normal(exact.shape), spread**2
    return singles, pairs


def loadings_of(widths, factors, rng, scale=0.3):
    return {name: scale * rng.standard_normal((width, factors)) for name, width in widths.items()}


def common(found, one, other):
    """What factors alone give a pair."""
    return found.loadings[one][:, 1:] @ found.loadings[other][:, 1:].T


def started(blocks):
    singles, pairs = blocks
    names = tuple(WIDTHS)
    fit = fa._Fit.of(names, [singles[name] for name in names], pairs)
    fit.covariances = np.stack([0.01 * np.eye(fit.means.shape[1]) for _ in names])
    return fit


def gain_of_rows(fit):
    """What the rows of the loadings add to the bound: their prior's mean logarithm and entropy, with those of sizes."""
    total = 0.0
    for i, (start, width) in enumerate(zip(fit.starts, fit.widths, strict=True)):
        rows, known = fit.rows[i], fit.known[start : start + width]
        for places, likely, means, covariance in zip(
            rows.sizes, rows.likely, rows.means, rows.covariances, strict=True
        ):
            if likely == 0:
                continue
            sizes = fa.SIZES[places]
            precisions = np.array([a / s**2 if s else fa.NONE for a, s in zip(fit.scales, sizes, strict=True)])
            given = sum(np.log(fit.size_shares[f, k]) for f, k in enumerate(places)) - np.log(likely)
            for row, own in zip(means, known, strict=True):
                second = np.diag(np.outer(row, row) + covariance)
                given += 0.5 * np.log(precisions).sum() - 0.5 * (precisions * second[1:]).sum()
                given -= 0.5 * fit.sure[i] * (second[0] - 2 * own * row[0] + own**2)
                given += 0.5 * np.linalg.slogdet(covariance)[1]
            total += likely * given
    return total


def missed_by_hand(fit, i, j):
    """The mean of the squares that factors leave, from the first two moments of every row."""
    total = 0.0
    for r in range(fit.starts[i], fit.starts[i] + fit.widths[i]):
        for s in range(fit.starts[j], fit.starts[j] + fit.widths[j]):
            one = np.outer(fit.means[r], fit.means[r]) + fit.covariances[i]
            other = np.outer(fit.means[s], fit.means[s]) + fit.covariances[j]
            product = fit.means[r] @ fit.means[s]
            total += fit.blocks[r, s] ** 2 - 2 * fit.blocks[r, s] * product + np.trace(one @ other)
    return total


def strengths_by_hand(fit, i, j):
    """For each strength the variance of a coordinate, and the mean logarithm of the density of a pair's block."""
    a, b = fit.widths[i], fit.widths[j]
    whole = fit.noise[i, j] + 6.25 * fa.STRENGTHS**2 / (a * b * (a + 1) * (b + 1))
    return whole, -0.5 * (a * b * np.log(whole) + missed_by_hand(fit, i, j) / whole)


def measured(fit):
    return [(i, j) for i, j in itertools.combinations(range(len(fit.widths)), 2) if np.isfinite(fit.noise[i, j])]


def bound(fit):
    """The bound of the evidence, strengths at their best: what each step is to raise."""
    total = gain_of_rows(fit) + fa.WORTH * fa.SHARES @ np.log(fit.shares)
    total += fa.ALIKE / fa.SIZES.size * np.log(fit.size_shares).sum()
    for pair in measured(fit):
        logs = strengths_by_hand(fit, *pair)[1] + np.log(fit.shares)
        total += logs.max() + np.log(np.exp(logs - logs.max()).sum())
    return total


def bound_given(fit):
    """The part of the bound that loadings move, what coordinates count being given."""
    counted = sum(fit.precisions[i, j] * missed_by_hand(fit, i, j) for i, j in measured(fit))
    return gain_of_rows(fit) - 0.5 * counted


@pytest.fixture
def noisy():
    rng = np.random.default_rng(1)
    alone = {name: 0.3 * rng.standard_normal(width) for name, width in WIDTHS.items()}
    return blocks_of(loadings_of(WIDTHS, 2, rng), 0.05, rng, [("a", "c"), ("d", "g")], alone, sure=0.03)


def test_each_step_raises_the_bound(noisy):
    fit = started(noisy)
    fit.learn_strengths()
    fit.learn_loadings()
    first = last = bound(fit)
    for turn in range(15):
        for step in (fit.learn_scales, fit.learn_strengths, lambda turn=turn: fit.learn_loadings(turn % 2 == 0)):
            step()
            now = bound(fit)
            assert now >= last - 1e-9 * abs(last)
            last = now
    assert last > first + 1
    assert max(len(rows.likely) for rows in fit.rows) > 1  # several sizes are likely, so the mixture is tried


def test_rows_are_a_posterior_over_all_tried_sizes():
    """By enumeration: one row of one coordinate and two factors, sizes summed over on a grid of the row."""
    rng = np.random.default_rng(7)
    seen, root = rng.standard_normal((1, 3)), rng.standard_normal((3, 3))
    weight, scales = root @ root.T, np.array([0.5, 2.0])
    shares = rng.dirichlet(np.ones(fa.SIZES.size), 2)
    tried = np.array([*itertools.product((1, 2), repeat=2)])  # sizes that a grid can tell
    rows = fa.Rows.of(seen, weight, 0.7, scales, shares, tried)
    grid = np.stack(np.meshgrid(*[np.linspace(-9, 9, 121)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    logs = grid @ seen[0] - 0.5 * np.einsum("gp,pq,gq->g", grid, weight, grid) - 0.35 * grid[:, 0] ** 2
    mass = []
    for places in tried:
        spread = fa.SIZES[places] / np.sqrt(scales)
        prior = (-0.5 * (grid[:, 1:] / spread) ** 2 - np.log(spread)).sum(axis=1)
        mass.append(shares[0, places[0]] * shares[1, places[1]] * np.exp(logs + prior))
    mass = np.array(mass) / np.sum(mass)
    np.testing.assert_allclose(rows.likely, mass.sum(axis=1), rtol=1e-5)
    mean, covariance = rows.moments()
    exact = mass.sum(axis=0) @ grid
    np.testing.assert_allclose(mean[0], exact, rtol=1e-5)
    np.testing.assert_allclose(covariance, np.einsum("g,gp,gq->pq", mass.sum(axis=0), *[grid - exact] * 2), rtol=1e-4)


def test_variables_without_a_factor_have_nothing_of_it():
    """Six of thirty variables share a cause; noise of .1 leaves others' pairs less than a tenth of it."""
    rng, widths = np.random.default_rng(8), {f"x{i}": 2 for i in range(30)}
    few = loadings_of(widths, 1, rng, scale=0.0) | loadings_of({f"x{i}": 2 for i in range(6)}, 1, rng, scale=0.5)
    found = common_factors(*blocks_of(few, 0.1, rng))
    left, kept = [], []
    for one, other in itertools.combinations(widths, 2):
        away = np.square(common(found, one, other) - few[one] @ few[other].T).mean()
        (kept if few[one].any() and few[other].any() else left).append(away)
    assert np.sqrt(np.mean(left)) < 0.01
    assert np.sqrt(np.mean(kept)) < 0.05


def test_no_move_of_loadings_or_scales_from_where_a_step_leads_is_better(noisy):
    fit, rng = started(noisy), np.random.default_rng(2)
    for _ in range(5):
        fit.learn_loadings()
        fit.learn_scales()
        fit.learn_strengths()
    fit.learn_loadings()
    last = len(fit.widths) - 1  # the last variable's, the others given
    at = slice(int(fit.starts[last]), int(fit.starts[last] + fit.widths[last]))
    best, rows = bound_given(fit), fit.rows[last]
    seldom = rows.likely < 0.01
    assert seldom.any()
    assert not seldom.all()
    for _ in range(20):
        means = rows.means + 1e-3 * rng.standard_normal(rows.means.shape)
        root = np.eye(means.shape[2]) + 0.03 * np.diag(rng.standard_normal(means.shape[2]))
        likely = rows.likely * np.exp(0.03 * rng.standard_normal(seldom.size))
        for moved in (
            replace(rows, means=means),
            replace(rows, covariances=root @ rows.covariances @ root.T),
            replace(rows, likely=likely / likely.sum()),
            replace(rows, likely=np.where(seldom, rows.likely, 0) / rows.likely[seldom].sum()),
        ):
            fit.rows[last] = moved
            fit.means[at], fit.covariances[last] = moved.moments()
            assert bound_given(fit) < best
    fit.rows[last] = rows
    fit.means[at], fit.covariances[last] = rows.moments()
    fit.learn_scales()
    best, scales = bound_given(fit), fit.scales
    for factor in (0.97, 1.03):
        fit.scales = scales * factor
        assert bound_given(fit) < best


def test_what_a_coordinate_counts_is_the_mean_over_strengths(noisy):
    fit = started(noisy)
    fit.learn_loadings()
    fit.learn_strengths()
    for i, j in measured(fit):
        whole, logs = strengths_by_hand(fit, i, j)
        likely = np.exp(logs - logs.max()) * fit.shares
        assert fit.precisions[i, j] == pytest.approx((likely / whole).sum() / likely.sum(), rel=1e-9)
        assert fit.precisions[j, i] == fit.precisions[i, j]
    assert fit.precisions[0, 2] == 0 == fit.precisions[0, 0]  # a with c was not measured
    assert fit.shares.sum() == pytest.approx(1)


def test_without_noise_what_few_factors_give_is_found():
    rng = np.random.default_rng(3)
    loadings = loadings_of(WIDTHS, 2, rng)
    alone = {name: 0.3 * rng.standard_normal(width) for name, width in WIDTHS.items()}
    found = common_factors(*blocks_of(loadings, 0.0, rng, alone=alone))
    for one, other in itertools.combinations(WIDTHS, 2):
        exact = loadings[one] @ loadings[other].T
        np.testing.assert_allclose(common(found, one, other), exact, atol=2e-3)
        own = np.outer(alone[one], alone[other])
        np.testing.assert_allclose(found.without(one, other, exact + own)[0], exact, atol=2e-3)


@pytest.mark.proof
@pytest.mark.parametrize("sure", [0.0, 0.03], ids=["variables known", "variables with noise"])
def test_noise_alone_has_nothing_in_common(sure):
    """Noise in variables is of low rank in all of their pairs: it must not be taken for a factor."""
    rng, widths = np.random.default_rng(4), {f"x{i}": 3 for i in range(20)}
    none = loadings_of(widths, 1, rng, scale=0.0)
    pairs = list(itertools.combinations(widths, 2))
    for spread in (0.1, 0.01):
        left = []
        for _ in range(10):
            alone = {name: np.sign(rng.standard_normal(3)) * 0.4 for name in widths}
            found = common_factors(*blocks_of(none, spread, rng, alone=alone, sure=sure))
            left += [np.square(common(found, *pair)).mean() for pair in pairs]
        assert np.mean(left) < 0.02 * spread**2


@pytest.mark.proof
def test_one_factor_under_noise_is_told_by_all_pairs_together():
    """190 pairs of one coordinate, 20 numbers: noise of .1 beside products of about .1 leaves a fraction of it."""
    rng, widths = np.random.default_rng(5), {f"x{i}": 1 for i in range(20)}
    missed = []
    for _ in range(20):
        loadings = loadings_of(widths, 1, rng, scale=0.35)
        found = common_factors(*blocks_of(loadings, 0.1, rng))
        missed += [
            common(found, *pair)[0, 0] - (loadings[pair[0]] @ loadings[pair[1]].T)[0, 0]
            for pair in itertools.combinations(widths, 2)
        ]
    assert np.sqrt(np.mean(np.square(missed))) < 0.045  # .1 / sqrt(10), were all signs known and the factor strong


def test_a_pair_of_its_own_is_no_factor_of_others():
    """One pair that depends strongly among 45 that do not: no other pair gets any of it."""
    rng, widths = np.random.default_rng(6), {f"x{i}": 1 for i in range(10)}
    singles, pairs = blocks_of(loadings_of(widths, 1, rng, scale=0.0), 0.01, rng)
    pairs["x0", "x1"] = np.array([[0.5]]), 1e-4
    found = common_factors(singles, pairs)
    others = [abs(common(found, *pair)[0, 0]) for pair in pairs if pair != ("x0", "x1")]
    assert max(others) < 0.02


def test_the_order_of_a_pair_does_not_matter(noisy):
    singles, pairs = noisy
    turned = {(other, one): (values.T, variance) for (one, other), (values, variance) in pairs.items()}
    one, other = common_factors(singles, pairs), common_factors(singles, turned)
    for pair in pairs:
        np.testing.assert_allclose(common(one, *pair), common(other, *pair), atol=1e-9)


def test_few_variables_many_coordinates_and_single_levels():
    rng = np.random.default_rng(7)
    singles, pairs = blocks_of(loadings_of(WIDTHS, 1, rng), 0.1, rng)
    assert common_factors(singles, {pair: found for pair, found in pairs.items() if set(pair) <= set("abcd")}) is None
    assert common_factors(singles, {}) is None
    wide = {f"x{i}": (np.zeros(499), 1.0) for i in range(5)}
    assert common_factors(wide, {("x0", other): (np.zeros((499, 499)), 1.0) for other in list(wide)[1:]}) is None
    more = {**singles, "one": (np.zeros(0), 0.0), "unseen": (np.zeros(2), 1.0)}
    found = common_factors(more, pairs | {("a", "one"): (np.zeros((2, 0)), 1.0)})
    assert found.names == tuple(WIDTHS)


@pytest.mark.proof
def test_what_others_say_of_a_pair_is_what_they_say_without_it():
    """Against fits that never saw the pair: without its pull towards itself, a prediction misses as much and knows it.

    45 pairs in 8 worlds; a squared error over its stated variance and noise has mean 1, in all of them a standard error
    of about .05. Where the pull stays in, errors are those of a fit to the pair: half of that and less.
    """
    rng, widths = np.random.default_rng(5), {f"x{i}": 1 + i % 3 for i in range(10)}
    missed, apart, inside = [], [], []
    for _ in range(8):
        singles, pairs = blocks_of(loadings_of(widths, 2, rng), 0.05, rng)
        found = common_factors(singles, pairs)
        for pair, (block, variance) in list(pairs.items())[::3]:
            said, away, more = found.without(*pair, block)
            alone = common_factors(singles, {other: pairs[other] for other in pairs if other != pair})
            apart.append(np.square(said - common(alone, *pair)).mean() / variance)
            inside.append(np.square(common(found, *pair) - common(alone, *pair)).mean() / variance)
            missed.append(np.square(away).mean() / (more + variance))
    assert np.mean(apart) < 0.5 * np.mean(inside)
    assert 0.75 < np.mean(missed) < 1.35


@pytest.mark.parametrize("spread", [0.0, 1e-9, 1e-6, 100.0])
@pytest.mark.parametrize("sure", [0.0, 1e-9, 1e-5, 100.0])
def test_others_say_something_finite_however_much_or_little_noise_there_is(spread, sure):
    rng = np.random.default_rng(9)
    for scale in (0.0, 1e-4, 2.0):
        alone = {name: rng.uniform(-0.7, 0.7, width) for name, width in WIDTHS.items()}
        singles, pairs = blocks_of(loadings_of(WIDTHS, 2, rng, scale), spread, rng, alone=alone, sure=sure)
        said, away, more = common_factors(singles, pairs).without("a", "c", pairs["a", "c"][0])
        assert np.isfinite(said).all()
        assert np.isfinite(away).all()
        assert 0 <= more < np.inf
