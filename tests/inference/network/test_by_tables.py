"""Draws against the enumerated posterior of a family, or of a table around it, given all that tables say of it."""

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import dpgraph as dg
from dpgraph.inference import interruption
from dpgraph.inference.network import by_tables
from dpgraph.inference.network.by_tables import draw_by_tables
from dpgraph.inference.network.evidence import concentration_tables, evidence
from dpgraph.inference.simplex import dirichlet_draws
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.tables import NoisyCounts

FORK = dg.Network.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}, {"b": ["a"], "c": ["a"]})
BINARY = dg.Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, {"b": ["a"], "c": ["a"]})
APART = dg.Network.of({"a": [0, 1], "b": [0, 1]}, {})
DRAWS, BATCHES, LEVEL = 20_000, 200, 1e-6
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
    "apart, unknown n": (APART, {("a",): [9, 1], ("b",): [1, 3]}, [DiscreteLaplace(0.7), LAPLACE], None),
    "unknown n, merged": (
        BINARY,
        PAIRS | {("a", "b", "c"): [[[2, 1], [0, 0]], [[0, 1], [2, 0]]]},
        [LAPLACE, LAPLACE, DiscreteLaplace(0.7)],
        None,
    ),
}


@pytest.fixture(autouse=True)
def fewer_sweeps(monkeypatch):
    """Errors are of batches' means, so draws may be less independent than users'."""
    monkeypatch.setattr(by_tables, "THIN_SMALL", 6)


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


def enumerated(noisy, prior, name, *, ignoring=None, factors=(1.0,), table=None):
    """E[theta] and E[theta^2] of one variable's table: every table of counts of its family, weighed by definition.

    ``factors`` of the prior are equally likely. Counts may be of a ``table`` around the family, its prior 1 in each
    cell that may have rows. ``ignoring`` plants an error: ``"copies"`` of the noise of summed
    cells, all but the first ``"table"`` of the family, the ``"prior"``, the ``"total"`` of tables that share nothing
    with it, margins of tables that share a ``"part"``, or that cells which cannot be have no ``"mask"``.
    """
    network, own_family = noisy.network, noisy.network.family(name)
    family = table or own_family
    shape = network.shape(family)
    possible = {key: np.ones(t.shape, int) for key, t in noisy.tables.items()}
    for key in noisy.tables if ignoring != "mask" else ():
        for code in np.ndindex(possible[key].shape):
            row = dict(zip(key, code, strict=True))
            possible[key][code] = not any(
                all(row.get(v) in said for v, said in r.items()) for r in network.rules.impossible
            )
    alpha = (prior[name] if table is None else possible[table]).ravel().astype(float)
    if ignoring == "prior":
        alpha = (alpha > 0).astype(float)
    sizes = [noisy.n] if noisy.n is not None else range(36)
    some = np.concatenate([multisets((alpha > 0).sum(), n) for n in sizes])
    counts = np.zeros((len(some), alpha.size), np.int64)
    counts[:, alpha > 0] = some
    n, log = counts.sum(axis=1), np.zeros(len(counts))
    holding = [key for key in noisy.tables if set(family) <= set(key)]
    for key in noisy.tables:
        released, law = noisy.tables[key], noisy.laws[key]
        outside = tuple(i for i, v in enumerate(key) if v not in family)
        inside, kept = [v for v in family if v in key], [v for v in key if v in family]
        nothing_said = noisy.n is not None or ignoring == "total" if not inside else inside != list(family)
        if (key in holding[1:] and ignoring == "table") or (nothing_said and (not inside or ignoring == "part")):
            continue
        margin = np.transpose(released.sum(axis=outside), [kept.index(v) for v in inside]).ravel()
        each = np.transpose(possible[key].sum(axis=outside), [kept.index(v) for v in inside]).ravel()
        axes = tuple(1 + i for i, v in enumerate(family) if v not in key)
        own = counts.reshape(-1, *shape).sum(axis=axes).reshape(len(counts), -1)
        if isinstance(law, SumZeroLaplace) and (each == 2).all():
            log += sum_zero_margin(law.scale)(margin[0] - own[:, 0])
            continue
        for cell, copies in enumerate(np.minimum(each, 1) if ignoring == "copies" else each):
            nothing = np.where(own[:, cell] == 0, 0.0, -np.inf)
            log += log_noise(law, copies)(margin[cell] - own[:, cell]) if copies else nothing
    logs = []
    for factor in factors:
        concentration = factor * alpha[alpha > 0]
        logs.append(log + (gammaln(concentration + some) - gammaln(concentration) - gammaln(some + 1)).sum(axis=1))
        mass = concentration.sum()
        logs[-1] += gammaln(mass) + gammaln(n + 1) - gammaln(n + mass)
    weight = np.exp(np.array(logs) - logsumexp(logs))
    if noisy.n is None:
        assert weight[:, n >= 30].sum() < 1e-6
    moments = [0.0, 0.0]
    letters = dict(zip(family, "abcdef", strict=False))
    inside = f"...{''.join(letters.values())}->...{''.join(letters[v] for v in own_family)}"
    summed, cells = (np.einsum(inside, t.reshape(-1, *shape)) for t in (counts, alpha))
    cells = np.where(cells > 0, cells, prior[name] > 0)  # a level that may be, given parents that may not
    for mine, factor in zip(weight, factors, strict=True):
        after = factor * cells + summed
        whole = after.sum(axis=1, keepdims=True)
        moments[0] += np.tensordot(mine, after / whole, axes=1)
        moments[1] += np.tensordot(mine, after * (after + 1) / whole / (whole + 1), axes=1)
    return moments


def worst_z(drawn, exact):
    """The largest distance between the moments of draws and exact ones, in standard errors of 200 batches' means."""
    first, second = exact
    gaps = []
    for power, wanted in ((1, first), (2, second)):
        values = drawn**power
        fixed = np.isclose(wanted, 0) | np.isclose(wanted, 1)  # the only level that may be, or one that may not
        np.testing.assert_allclose(values[:, fixed], np.broadcast_to(wanted[fixed], (len(drawn), fixed.sum())))
        batches = values[:, ~fixed].reshape(BATCHES, len(drawn) // BATCHES, -1).mean(axis=1)
        off = np.abs(batches.mean(axis=0) - wanted[~fixed])
        gaps.append(off / (batches.std(axis=0, ddof=1) / np.sqrt(BATCHES)))
    return max(gap.max(initial=0) for gap in gaps)


#: 1200 moments in this file and a false alarm once in a million runs of it.
LIMIT = stats.t(BATCHES - 1).isf(LEVEL / 1200 / 2)


#: The tables that each family may be read from: two tables, or one that is merged.
PARTED = {"a": [("b", "a"), ("c", "a")], "b": [("b", "a")], "c": [("c", "a")]}
MERGED = {name: [("a", "b", "c")] for name in "abc"}


def noisy_of(case):
    network, tables, laws, n = CASES[case]
    return NoisyCounts(network, tables, dict(zip(tables, laws, strict=True)), n)


def kind(case):
    """Whether there are rules, the laws of noise, whether the number of rows is known: the first tier has each."""
    network, _, laws, n = CASES[case]
    return network is RULED, frozenset(map(type, laws)), n is None


@pytest.mark.covering(lambda case: kind(case))
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
    ("case", "homes"),
    [
        ("two tables hold a, Laplace", PARTED),
        pytest.param("unknown n, Gaussian", PARTED, marks=pytest.mark.proof),
        pytest.param("rules, Laplace", PARTED, marks=pytest.mark.proof),
        pytest.param("rules, a merged table", MERGED, marks=pytest.mark.proof),
        ("a merged table, Laplace", MERGED),
    ],
)
def test_a_learned_concentration_is_drawn_too(case, homes, monkeypatch):
    """Three factors of a prior of 1 in every cell of a table, from one over the cells to 10, enumerated."""
    monkeypatch.setattr(by_tables, "STEPS", 3)
    noisy = noisy_of(case)
    prior = concentration_tables(noisy.network, 1.0)
    drawn = draw_by_tables(evidence(noisy), None, rng=np.random.default_rng(1), draws=DRAWS)

    def off(name, table, **settings):
        cells = noisy.network.possible_cells(table or noisy.network.family(name))
        three = {"factors": (1 / cells, (10 / cells) ** 0.5, 10.0)}
        return worst_z(drawn.flat(name), enumerated(noisy, prior, name, table=table, **three | settings))

    for name, tables in homes.items():
        assert min(off(name, table) for table in tables) < LIMIT
    assert off("b", homes["b"][0], factors=(1.0,)) > LIMIT
    if homes is MERGED:  # the family alone, as if cells outside it said nothing
        assert off("a", None) > LIMIT


@pytest.mark.parametrize("sparse", ["b", "c"])
def test_a_family_is_read_from_the_table_that_is_surest_of_it(sparse):
    """Of two tables with the same noise one has rows in two cells: that others are empty says more of a."""
    network = dg.Network.of({"a": [0, 1], "b": range(12), "c": range(12)}, {"b": ["a"], "c": ["a"]})
    counts = {key: np.full((12, 2), [30, 20]) for key in (("b", "a"), ("c", "a"))}
    counts[sparse, "a"] = np.zeros((12, 2), int)
    counts[sparse, "a"][[2, 7], [0, 1]] = 360, 240
    noisy = {key: table + np.random.default_rng(3).integers(-12, 13, table.shape) for key, table in counts.items()}
    given = evidence(NoisyCounts(network, noisy, dict.fromkeys(noisy, DiscreteGaussian(8)), 600))
    homes = by_tables._homes(given, by_tables.FamilyMargins(given), np.random.default_rng(0), 100)
    read = {name: table[0] for table, names in homes.items() for name in names}
    assert read == {"a": sparse, "b": "b", "c": "c"}


@pytest.mark.proof
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
        ("two tables hold a, Laplace", "part", "b"),
        ("unknown n, Laplace", "part", "b"),
        ("sum-zero", "part", "b"),
        ("apart, unknown n", "total", "b"),
        ("unknown n, merged", "copies", "b"),
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
    """Rows of 2000 draws, every tenth of a chain: correlations below 6 / sqrt(2000)."""
    noisy = noisy_of("two tables hold a, Laplace")
    drawn = draw_by_tables(evidence(noisy), uneven(FORK), rng=np.random.default_rng(2), draws=DRAWS)
    columns = np.stack([drawn.flat("a")[:, 0], drawn.flat("b")[:, 0, 0], drawn.flat("c")[:, 0, 1]])[:, ::10]
    correlations = np.corrcoef(columns)[np.triu_indices(3, 1)]
    assert np.abs(correlations).max() < 6 / np.sqrt(DRAWS / 10)


def test_a_family_of_large_tables_alone_is_drawn_from_its_sums(monkeypatch):
    monkeypatch.setattr(by_tables, "WHOLE", 3)
    given = evidence(noisy_of("two tables hold a, Laplace"))
    homes = by_tables._homes(given, by_tables.FamilyMargins(given), np.random.default_rng(0), 100)
    assert homes == {("a",): ["a"], ("b", "a"): ["b"], ("c", "a"): ["c"]}


def test_tables_that_have_not_mixed_go_on(monkeypatch):
    """Each time as long again, twice here; not where the concentration is given, or draws are too few to tell."""
    given = evidence(NoisyCounts(APART, {("a",): [3, 1], ("b",): [2, 2]}, {("a",): LAPLACE, ("b",): LAPLACE}, 4))
    asked, made, judged, chain_of = [], [], [], by_tables.margin_chain

    def told(*problem, **settings):
        follow = chain_of(*problem, **settings)

        def recorded(rng, size):
            asked.append(size)
            made.append(follow(rng, size))
            return made[-1]

        return recorded

    monkeypatch.setattr(by_tables, "margin_chain", told)
    monkeypatch.setattr(by_tables, "effective_size", lambda logs: judged.append(logs.reshape(-1)) or np.zeros(1))
    monkeypatch.setattr(by_tables, "LONGEST", 4.5 * 2 * 2 * by_tables.THIN * 200)
    for prior, draws, sizes in ((None, 200, [200, 400, 800]), (uneven(APART), 200, [200]), (None, 199, [199])):
        asked.clear()
        drawn = draw_by_tables(given, prior, rng=np.random.default_rng(4), draws=draws)
        assert sorted(asked) == sorted(2 * sizes)
        np.testing.assert_allclose(drawn.means["a"], drawn.flat("a").mean(axis=0), atol=0.1)
    seconds = [np.log(factor[1::2]) for _, factor in made if len(factor) == 400]  # every second, of both tables
    assert sum((logs == second).all() for logs in judged for second in seconds) == 2


@pytest.mark.parametrize("learned", [True, False])
def test_draws_do_not_depend_on_how_many_tables_are_drawn_at_once(learned, monkeypatch):
    noisy, made = noisy_of("one table inside another"), []
    monkeypatch.setattr(by_tables, "HELD", 200)  # in several parts
    for many in (1, 3):
        monkeypatch.setattr(interruption, "processors", lambda: many)  # noqa: B023  # read at once
        prior = None if learned else uneven(FORK)
        made.append(draw_by_tables(evidence(noisy), prior, rng=np.random.default_rng(4), draws=60))
    for name in FORK.domain.names:
        np.testing.assert_array_equal(made[0].flat(name), made[1].flat(name))


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


def margins_of(size, n=None):
    """What the tables of a star say of its families, and its evidence."""
    names = [f"v{i}" for i in range(size)]
    star = dg.Network.of({name: [0, 1] for name in ["centre", *names]}, {name: ["centre"] for name in names})
    rng = np.random.default_rng(3)
    tables = {key: rng.integers(20, 60, star.shape(key)) for key in star.maximal_families}
    laws = {key: DiscreteLaplace(2.0 + i % 3) for i, key in enumerate(tables)}
    given = evidence(NoisyCounts(star, tables, laws, n))
    return by_tables.FamilyMargins(given), given


def test_margins_that_more_than_four_tables_say_are_one_average():
    """The centre of 8 tables, in the family of a table and in that of no other: inverse variances, by hand."""
    margins, given = margins_of(8)
    measured, _ = margins.inside(("v0", "centre"))
    assert len(measured) == 2
    rest = [table for table in given.tables if "v0" not in table.variables]
    read = [table.values.reshape(2, 2).sum(axis=1 - table.variables.index("centre")) for table in rest]
    weights = np.array([1 / (2 * 2 * table.law.scale**2) for table in rest])
    np.testing.assert_allclose(measured[1].values, weights @ np.array(read) / weights.sum())
    np.testing.assert_allclose([noise.deviation**2 for noise in measured[1].noises], 1 / weights.sum())
    np.testing.assert_array_equal(measured[1].places, [0, 1, 0, 1])


def test_tables_are_read_a_few_times(monkeypatch):
    """Rejects a reading of every table for every family, which is their number squared."""
    calls = []
    plain = by_tables.margin
    monkeypatch.setattr(by_tables, "margin", lambda *given: (calls.append(1), plain(*given))[1])

    def taken(size):
        calls.clear()
        margins, given = margins_of(size)
        for family in given.network.families:
            margins.inside(family)
        return len(calls)

    assert taken(60) <= 4 * 60
    assert taken(240) <= 4 * 240
