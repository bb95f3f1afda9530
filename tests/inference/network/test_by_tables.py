"""Draws family by family against the enumerated posterior of a family given every table that holds it."""

from itertools import combinations, pairwise, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import dpgraph as dg
from dpgraph.inference.counts.cell_noise import CellNoise
from dpgraph.inference.network import by_tables
from dpgraph.inference.network.by_tables import draw_by_tables
from dpgraph.inference.network.evidence import concentration_tables, evidence
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.tables import NoisyCounts

FORK = dg.Network.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}, {"b": ["a"], "c": ["a"]})
BINARY = dg.Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, {"b": ["a"], "c": ["a"]})
APART = dg.Network.of({"a": [0, 1], "b": [0, 1]}, {})
DRAWS, LEVEL = 20_000, 1e-6
LAPLACE, GAUSSIAN = DiscreteLaplace(1.5), DiscreteGaussian(1.3)
TWO = {("b", "a"): [[3, 0], [0, 1], [2, -1]], ("c", "a"): [[1, 3], [-2, 2]]}
WHOLE = {("a", "b", "c"): [[[2, 1], [-1, 0], [1, 0]], [[0, 3], [1, -2], [0, 1]]]}
PAIRS = {("b", "a"): [[4, -1], [2, 1]], ("c", "a"): [[0, 3], [1, 4]]}
RULES = dg.Rules([{"a": 0, "b": [0, 2]}, {"a": 1, "c": 1}])
RULED = dg.Network.of(FORK.domain, FORK.parents, RULES)
RULED_TWO = {("b", "a"): [[0, 2], [3, 0], [0, 1]], ("c", "a"): [[2, 3], [1, 0]]}
RULED_WHOLE = {("a", "b", "c"): [[[0, 0], [3, -1], [0, 0]], [[2, 0], [0, 0], [1, 0]]]}
CASES = {
    "two tables hold a, Laplace": (FORK, TWO, [LAPLACE, DiscreteLaplace(0.8)], 5),
    "two tables hold a, Gaussian": (FORK, TWO, [GAUSSIAN, DiscreteGaussian(2.5)], 5),
    "two tables hold a, both kinds": (FORK, TWO, [GAUSSIAN, LAPLACE], 5),
    "sum-zero": (
        FORK,
        {("b", "a"): [[3, 0], [0, 1], [2, -1]], ("c", "a"): [[1, 3], [-2, 3]]},
        [SumZeroLaplace(1.5), SumZeroLaplace(2.2)],
        5,
    ),
    "a merged table, Laplace": (FORK, WHOLE, [LAPLACE], 6),
    "a merged table, Gaussian": (FORK, WHOLE, [GAUSSIAN], 6),
    "a merged table, sum-zero": (APART, {("a", "b"): [[2, 4], [-1, 1]]}, [SumZeroLaplace(1.5)], 6),
    "one table inside another": (FORK, TWO | WHOLE, [LAPLACE, LAPLACE, DiscreteLaplace(0.9)], 6),
    "unknown n, Laplace": (BINARY, PAIRS, [DiscreteLaplace(1.0), DiscreteLaplace(0.6)], None),
    "unknown n, Gaussian": (BINARY, PAIRS, [DiscreteGaussian(1.5), DiscreteGaussian(1.0)], None),
    "rules, Laplace": (RULED, RULED_TWO, [LAPLACE, DiscreteLaplace(0.8)], 5),
    "rules, sum-zero": (
        RULED,
        {("b", "a"): [[0, 2], [3, 0], [0, 1]], ("c", "a"): [[1, 3], [2, 0]]},
        [SumZeroLaplace(1.5), SumZeroLaplace(2.2)],
        6,
    ),
    "rules, a merged table": (RULED, RULED_WHOLE, [GAUSSIAN], 6),
    "rules, one table inside another": (RULED, RULED_TWO | RULED_WHOLE, [LAPLACE, LAPLACE, DiscreteLaplace(0.9)], 5),
    "rules, unknown n": (RULED, RULED_TWO, [DiscreteLaplace(0.8), DiscreteGaussian(0.9)], None),
    "unknown n, merged": (
        BINARY,
        PAIRS | {("a", "b", "c"): [[[2, 1], [0, 0]], [[0, 1], [2, 0]]]},
        [LAPLACE, LAPLACE, DiscreteLaplace(0.7)],
        None,
    ),
}


def uneven(network):
    """Concentrations on both sides of 1, so that a prior that is not used, or used flat, shows."""
    rng = np.random.default_rng(7)
    return {name: t * rng.uniform(0.5, 3.0, t.shape) for name, t in concentration_tables(network, 1.0).items()}


def multisets(cells, n):
    """Every way to put n records into cells, shape (ways, cells): stars and bars."""
    bars = np.array(list(combinations(range(n + cells - 1), cells - 1)), np.int64).reshape(-1, cells - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + cells - 1)])
    return np.diff(edges, axis=1) - 1


def log_noise(law, copies):
    """log P(z) of the sum of independent draws, by convolving the pmf with itself, as a function of z."""
    z = np.arange(-100, 101)
    single = np.exp(-(z**2) / (2 * law.scale**2) if isinstance(law, DiscreteGaussian) else -np.abs(z) / law.scale)
    whole = single
    for _ in range(copies - 1):
        whole = np.convolve(whole, single)
    with np.errstate(divide="ignore"):
        logs = np.log(whole)
    return lambda distance: logs[distance + len(logs) // 2]


def sum_zero_margin(scale):
    """log P of the noise of the first row's sum of a 2 x 2 table, by enumerating the noise of all four cells."""
    z = np.array(list(product(range(-30, 31), repeat=3)))
    mass = np.exp(-(np.abs(z).sum(axis=1) + np.abs(z.sum(axis=1))) / scale)
    total = np.bincount(z[:, 0] + z[:, 1] + 60, mass, minlength=121)
    return lambda distance: np.log(total[distance + 60])


def enumerated(noisy, prior, name, *, ignoring=None):
    """E[theta] and E[theta^2] of one variable's table: every table of counts of its family, weighed by definition.

    ``ignoring`` plants an error: ``"copies"`` of the noise of summed cells, all but the first ``"table"``, the
    ``"prior"``, what other tables say of the ``"total"``, or that cells which cannot be have no ``"mask"``.
    """
    network, family = noisy.network, noisy.network.family(name)
    shape, alpha = network.shape(family), prior[name].ravel()
    possible = {key: np.ones(t.shape, int) for key, t in noisy.tables.items()}
    for key in noisy.tables if ignoring != "mask" else ():
        for code in np.ndindex(possible[key].shape):
            row = dict(zip(key, code, strict=True))
            possible[key][code] = not any(
                all(row.get(v) in said for v, said in r.items()) for r in network.rules.impossible
            )
    if ignoring == "prior":
        alpha = (alpha > 0).astype(float)
    sizes = [noisy.n] if noisy.n is not None else range(36)
    some = np.concatenate([multisets((alpha > 0).sum(), n) for n in sizes])
    counts = np.zeros((len(some), alpha.size), np.int64)
    counts[:, alpha > 0] = some
    n, own = counts.sum(axis=1), alpha[alpha > 0]
    log = (gammaln(own + some) - gammaln(some + 1)).sum(axis=1) + gammaln(n + 1) - gammaln(n + alpha.sum())
    holding = [key for key in noisy.tables if set(family) <= set(key)]
    for key in holding[:1] if ignoring == "table" else holding:
        released, law = noisy.tables[key], noisy.laws[key]
        outside = tuple(i for i, v in enumerate(key) if v not in family)
        kept = [v for v in key if v in family]
        margin = np.transpose(released.sum(axis=outside), [kept.index(v) for v in family]).ravel()
        each = np.transpose(possible[key].sum(axis=outside), [kept.index(v) for v in family]).ravel()
        if isinstance(law, SumZeroLaplace) and (each == 2).all():
            log += sum_zero_margin(law.scale)(margin[0] - counts[:, 0])
            continue
        for cell, copies in enumerate(np.minimum(each, 1) if ignoring == "copies" else each):
            nothing = np.where(counts[:, cell] == 0, 0.0, -np.inf)
            log += log_noise(law, copies)(margin[cell] - counts[:, cell]) if copies else nothing
    if noisy.n is None and ignoring != "total":
        for key in set(noisy.tables) - set(holding):
            table = noisy.tables[key]
            log += log_noise(noisy.laws[key], possible[key].sum())(table.sum() - n)
    weight = np.exp(log - logsumexp(log))
    if noisy.n is None:
        assert weight[n >= 30].sum() < 1e-6
    after = (prior[name] if ignoring != "prior" else prior[name] > 0) + counts.reshape(-1, *shape)
    whole = after.sum(axis=1, keepdims=True)
    return (
        np.tensordot(weight, moment, axes=1) for moment in (after / whole, after * (after + 1) / whole / (whole + 1))
    )


def worst_z(drawn, exact):
    """The largest distance between the moments of independent draws and exact ones, in standard errors."""
    first, second = exact
    gaps = []
    for power, wanted in ((1, first), (2, second)):
        values = drawn**power
        fixed = np.isclose(wanted, 0) | np.isclose(wanted, 1)  # the only level that may be, or one that may not
        np.testing.assert_allclose(values[:, fixed], np.broadcast_to(wanted[fixed], (len(drawn), fixed.sum())))
        off = np.abs(values.mean(axis=0) - wanted)[~fixed]
        gaps.append(off / (values.std(axis=0, ddof=1)[~fixed] / np.sqrt(len(drawn))))
    return max(gap.max(initial=0) for gap in gaps)


#: 600 moments in this file and a false alarm once in a million runs of it.
LIMIT = stats.norm.isf(LEVEL / 600 / 2)


def noisy_of(case):
    network, tables, laws, n = CASES[case]
    return NoisyCounts(network, tables, dict(zip(tables, laws, strict=True)), n)


@pytest.mark.parametrize("case", CASES)
def test_every_family_follows_its_enumerated_posterior(case):
    """20 000 draws see a mean that is off by 1 % of the unit interval, or a spread by 5 %."""
    noisy = noisy_of(case)
    prior = uneven(noisy.network)
    drawn = draw_by_tables(evidence(noisy), prior, rng=np.random.default_rng(1), draws=DRAWS)
    assert drawn.shape == (1, DRAWS)
    for name in noisy.network.domain.names:
        assert worst_z(drawn.flat(name), enumerated(noisy, prior, name)) < LIMIT


@pytest.mark.parametrize(
    ("case", "ignoring", "name"),
    [
        ("a merged table, Laplace", "copies", "a"),
        ("a merged table, Gaussian", "copies", "c"),
        ("one table inside another", "copies", "b"),
        ("two tables hold a, Laplace", "table", "a"),
        ("two tables hold a, Gaussian", "table", "a"),
        ("sum-zero", "table", "a"),
        ("two tables hold a, Laplace", "prior", "b"),
        ("sum-zero", "prior", "c"),
        ("unknown n, Laplace", "table", "a"),
        ("unknown n, Laplace", "prior", "c"),
        ("unknown n, Gaussian", "total", "b"),
        ("unknown n, merged", "copies", "a"),
        ("rules, a merged table", "copies", "a"),
        ("rules, a merged table", "mask", "c"),
    ],
)
def test_the_comparison_sees_planted_errors(case, ignoring, name):
    """Power: the same draws against an enumeration with one thing left out are rejected."""
    noisy = noisy_of(case)
    prior = uneven(noisy.network)
    drawn = draw_by_tables(evidence(noisy), prior, rng=np.random.default_rng(1), draws=DRAWS)
    assert worst_z(drawn.flat(name), enumerated(noisy, prior, name, ignoring=ignoring)) > LIMIT


def test_the_merged_sum_zero_margin_is_that_of_independent_noise_given_its_total():
    """Ground of the shortcut: adding cells up commutes with conditioning on the total."""
    direct, independent = sum_zero_margin(1.5), log_noise(DiscreteLaplace(1.5), 2)
    z = np.arange(-12, 13)
    np.testing.assert_allclose(
        direct(z) - direct(np.array(0)), 2 * (independent(z) - independent(np.array(0))), atol=1e-6
    )


def test_draws_of_different_families_are_independent():
    """Rows of 20 000 draws: correlations below 6 / sqrt(20 000)."""
    noisy = noisy_of("two tables hold a, Laplace")
    drawn = draw_by_tables(evidence(noisy), uneven(FORK), rng=np.random.default_rng(2), draws=DRAWS)
    columns = np.stack([drawn.flat("a")[:, 0], drawn.flat("b")[:, 0, 0], drawn.flat("c")[:, 0, 1]])
    correlations = np.corrcoef(columns)[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 6 / np.sqrt(DRAWS)


def test_dirichlet_draws_have_the_moments_of_the_law_and_survive_tiny_concentrations():
    alpha = np.array([0.3, 1.0, 4.0])
    drawn = dirichlet_draws(np.tile(alpha, (DRAWS, 1)), np.random.default_rng(0))
    np.testing.assert_allclose(drawn.sum(axis=1), 1)
    share = alpha / alpha.sum()
    assert worst_z(drawn, (share, alpha * (alpha + 1) / alpha.sum() / (alpha.sum() + 1))) < LIMIT
    tiny = dirichlet_draws(np.full((500, 4), 1e-8), np.random.default_rng(0))
    assert np.isfinite(tiny).all()
    assert set(np.unique(tiny.argmax(axis=1))) == {0, 1, 2, 3}


def test_variables_of_one_level_are_certain():
    network = dg.Network.of({"a": [0, 1], "here": ["x"]}, {"a": ["here"]})
    noisy = NoisyCounts(network, {("a", "here"): [[5], [2]]}, {("a", "here"): LAPLACE}, n=7)
    drawn = draw_by_tables(evidence(noisy), uneven(network), rng=np.random.default_rng(0), draws=50)
    assert (drawn.flat("here") == 1).all()
    assert drawn.flat("a").shape == (50, 2, 1)


def test_coefficients_are_refused():
    counts = dg.count(pd.DataFrame({"a": [0, 1, 1], "b": [0, 0, 1]}), APART)
    released = dg.release(counts, dg.FourierMechanism(1), budget=dg.Budget(1), noise=dg.testing.SeededNoise(0))
    with pytest.raises(dg.errors.InferenceError, match="needs noisy counts"):
        draw_by_tables(evidence(released.value), uneven(APART), rng=np.random.default_rng(0))


def totals_of(size, n=None):
    """What a chain's tables say of a private n, and its evidence."""
    names = [f"v{i}" for i in range(size)]
    chain = dg.Network.of({name: [0, 1] for name in names}, {b: [a] for a, b in pairwise(names)})
    rng = np.random.default_rng(3)
    tables = {key: rng.integers(20, 60, chain.shape(key)) for key in chain.maximal_families}
    laws = {key: DiscreteLaplace(2.0 + i % 3) for i, key in enumerate(tables)}
    given = evidence(NoisyCounts(chain, tables, laws, n))
    return by_tables._Totals(given), given


def test_the_likelihood_of_n_leaves_out_the_family_s_own_tables():
    """Rejects a table counted twice or left out, and windows of n that are joined wrongly, in any order of asking."""
    totals, given = totals_of(6)
    for family, window in zip(
        given.network.families, [(40, 60), (70, 80), (10, 90), (45, 46), (0, 5), (85, 120)], strict=True
    ):
        holding, n = given.holding(family), np.arange(*window)
        others = [table for table in given.tables if table not in holding]
        wanted = sum(CellNoise(t.law, t.values.size).log(int(t.values.sum()) - n) for t in others)
        np.testing.assert_allclose(totals.without(holding)(n), wanted, atol=1e-9)


def test_a_private_n_is_read_from_each_table_a_few_times(monkeypatch):
    """Rejects a reading of every table for every family, which is their number squared."""
    calls = []
    plain = CellNoise.log
    monkeypatch.setattr(CellNoise, "log", lambda self, z: (calls.append(1), plain(self, z))[1])

    def taken(size):
        totals, given = totals_of(size)
        calls.clear()
        for family in given.network.families:
            totals.without(given.holding(family))(np.arange(100, 200))
        return len(calls)

    assert taken(60) <= 6 * 60
    assert taken(240) <= 6 * 240
