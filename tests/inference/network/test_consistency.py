"""Least squares in closed form against dense linear algebra, and its exact variances."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import dpgraph as dg
from dpgraph.inference.network import consistency
from dpgraph.inference.network.consistency import consistent_variance, reconcile
from dpgraph.mechanisms.additive.fourier import FourierMechanism
from dpgraph.privacy.measurements import DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.tables import (
    NoisyCoefficients,
    NoisyCounts,
    block_slices,
    contrast_blocks,
    margin,
    residual_transform,
    subsets,
)
from tests.tiers import examples

NETWORK = dg.Network.of(
    {"a": [0, 1], "b": [0, 1, 2], "c": [0, 1], "d": [0, 1, 2]}, {"b": ["a"], "c": ["a", "b"], "d": ["b"]}
)


def design(network, tables):
    """The matrix from joint cells to the stacked cells of the tables."""
    names = network.domain.names
    joint = list(itertools.product(*(range(network.domain.sizes[name]) for name in names)))
    blocks = []
    for table in tables:
        block = np.zeros((network.cells(table), len(joint)))
        for column, cell in enumerate(joint):
            row = np.ravel_multi_index([cell[names.index(name)] for name in table], network.shape(table))
            block[row, column] = 1
        blocks.append(block)
    return blocks


def noisy(network, laws, n, seed=0):
    rng = np.random.default_rng(seed)
    tables = {table: rng.integers(-5, 30, network.shape(table)) for table in laws}
    for table, law in laws.items():
        if isinstance(law, SumZeroLaplace):
            tables[table].flat[0] += n - tables[table].sum()
    return NoisyCounts(network, tables, laws, n)


def dense(counts):
    """Weighted least squares over all joint tables, by the normal equations; a known total is a heavy row."""
    network, keys = counts.network, list(counts.tables)
    blocks = design(network, keys)
    rows, right = [], []
    for key, block in zip(keys, blocks, strict=True):
        law, cells = counts.laws[key], network.cells(key)
        spread = law.variance(cells) * (cells / (cells - 1) if isinstance(law, SumZeroLaplace) else 1)
        rows.append(block / math.sqrt(spread))
        right.append(counts.tables[key].ravel() / math.sqrt(spread))
    if counts.n is not None:
        rows.append(np.ones((1, blocks[0].shape[1])) * 1e4)
        right.append(np.array([counts.n * 1e4]))
    solution = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]
    return {key: (block @ solution).reshape(network.shape(key)) for key, block in zip(keys, blocks, strict=True)}


LAWS = {
    "unequal": {("c", "a", "b"): DiscreteLaplace(3.0), ("d", "b"): DiscreteLaplace(1.5)},
    "families": {f: DiscreteLaplace(2.0 + i) for i, f in enumerate(NETWORK.families)},
    "sum-zero": {("c", "a", "b"): SumZeroLaplace(3.0), ("d", "b"): SumZeroLaplace(1.0)},
    "wide": {
        ("a", "b", "c", "d"): DiscreteLaplace(4.0),
        ("d", "b"): DiscreteLaplace(1.0),
        ("c",): DiscreteLaplace(2.0),
    },
}


@pytest.mark.parametrize(
    ("kind", "n"),
    [
        ("unequal", None),
        ("unequal", 150),
        ("families", None),
        ("families", 80),
        ("sum-zero", 120),
        ("wide", None),
        ("wide", 99),
    ],
)
def test_the_closed_form_is_dense_weighted_least_squares(kind, n):
    counts = noisy(NETWORK, LAWS[kind], n)
    ours, reference = reconcile(counts), dense(counts)
    for key, table in reference.items():
        np.testing.assert_allclose(ours.tables[key], table, atol=1e-5 if n else 1e-9)


@pytest.mark.parametrize("kind", ["unequal", "families", "wide"])
def test_all_tables_tell_one_story(kind):
    ours = reconcile(noisy(NETWORK, LAWS[kind], None))
    for one, other in itertools.combinations(ours.tables, 2):
        shared = tuple(name for name in one if name in other)
        np.testing.assert_allclose(
            margin(ours.tables[one], one, shared), margin(ours.tables[other], other, shared), atol=1e-9
        )


@pytest.mark.parametrize(
    ("kind", "n"), [("unequal", None), ("unequal", 150), ("families", None), ("wide", 99), ("sum-zero", 120)]
)
def test_the_variances_are_those_of_the_linear_map(kind, n):
    """Propagated exactly: the estimate is linear in the noisy cells, so push every unit vector through it.

    Noise that sums to zero has no part along equal cells: the unit vectors less their mean are pushed.
    """
    laws = LAWS[kind]
    base = noisy(NETWORK, laws, n)
    zero = reconcile(base)
    variance = dict.fromkeys(NETWORK.families, 0.0)
    for key, law in laws.items():
        cells = NETWORK.cells(key)
        pushed = []
        for cell in range(cells):
            tables = {k: np.array(t) for k, t in base.tables.items()}
            tables[key] -= 1000 if isinstance(law, SumZeroLaplace) else 0
            tables[key].flat[cell] += 1000 * cells
            moved = reconcile(NoisyCounts(NETWORK, tables, laws, n))
            size = 1000 * cells
            pushed.append([(moved.family(f[0]) - zero.family(f[0])).ravel() / size for f in NETWORK.families])
        covariance = law.variance(cells) * np.eye(cells)
        if isinstance(law, SumZeroLaplace):
            covariance = law.variance(cells) * cells / (cells - 1) * (np.eye(cells) - 1 / cells)
        for i, family in enumerate(NETWORK.families):
            jacobian = np.stack([row[i] for row in pushed])
            variance[family] += np.diag(jacobian.T @ covariance @ jacobian).mean()
    declared = consistent_variance(NETWORK, laws, n is not None)
    for family, value in variance.items():
        assert declared[family] == pytest.approx(value, rel=1e-6)


def test_a_variable_of_one_level_changes_no_variance():
    """It may sit in some of the tables that hold a variable, and not in others."""
    laws = {("c", "a", "b"): DiscreteLaplace(3.0), ("d", "b"): DiscreteLaplace(1.5)}
    parents = {**NETWORK.parents, "d": ("b", "one")}
    wider = dg.Network.of({**NETWORK.domain.variables, "one": [0]}, parents)
    moved = {("c", "a", "b"): DiscreteLaplace(3.0), ("d", "b", "one"): DiscreteLaplace(1.5)}
    plain, ours = consistent_variance(NETWORK, laws, False), consistent_variance(wider, moved, False)
    for name in NETWORK.domain.names:
        assert ours[wider.family(name)] == pytest.approx(plain[NETWORK.family(name)])


@pytest.mark.parametrize(
    ("name", "paper", "least_squares"), [("asia", 11.3, 6.91), ("sachs", 15.6, 8.18), ("alarm", 52.3, 29.7)]
)
def test_the_rms_errors_of_known_networks(name, paper, least_squares):
    """proofs.md P30, epsilon 1, add/remove: Algorithm 1, and maximal tables with budgets tuned for least squares."""
    report = dg.privacy_cost(dg.read_network(f"example:{name}"), epsilon=1, unit=dg.PrivacyUnit("add-remove"))
    rmse = {
        row["tables"]: row["rmse"]
        for row in report.mechanisms.to_dict("records")
        if "Laplace" in row["mechanism"] and "merged" not in row["mechanism"]
    }
    assert rmse[max(rmse)] == pytest.approx(paper, rel=5e-3)
    assert rmse[min(rmse)] == pytest.approx(least_squares, rel=5e-3)


def test_the_non_negative_tables_are_nearly_the_nearest():
    """Against a constrained optimiser over the joint table, in the metric of the noise."""
    counts = noisy(NETWORK, LAWS["unequal"], 100, seed=3)
    ours = reconcile(counts, nonnegative=True)
    keys = list(counts.tables)
    blocks = design(NETWORK, keys)
    spread = {key: counts.variance(key) for key in keys}

    def distance(tables):
        return sum(float(((tables[key] - counts.tables[key]) ** 2).sum()) / spread[key] for key in keys)

    def objective(joint):
        gaps = [block @ joint - counts.tables[key].ravel() for key, block in zip(keys, blocks, strict=True)]
        value = sum(float(gap @ gap) / spread[key] for key, gap in zip(keys, gaps, strict=True))
        slope = sum(2 * block.T @ gap / spread[key] for key, block, gap in zip(keys, blocks, gaps, strict=True))
        return value, slope

    size = blocks[0].shape[1]
    best = minimize(
        objective,
        np.full(size, 100 / size),
        jac=True,
        method="SLSQP",
        bounds=[(0, None)] * size,
        constraints={"type": "eq", "fun": lambda joint: joint.sum() - 100, "jac": lambda joint: np.ones(size)},
        options={"maxiter": 500, "ftol": 1e-10},
    )
    assert min(table.min() for table in ours.tables.values()) >= 0
    assert all(table.sum() == pytest.approx(100) for table in ours.tables.values())
    assert distance(ours.tables) == pytest.approx(best.fun, rel=0.01)


def test_all_negative_counts_become_the_empty_table():
    network = dg.Network.of({"a": [0, 1]}, {})
    counts = NoisyCounts(network, {("a",): [-7, -2]}, {("a",): DiscreteLaplace(5.0)}, None)
    assert reconcile(counts, nonnegative=True).tables[("a",)].tolist() == [0, 0]
    assert dg.posterior(counts, method="plug-in").mean().table("a").tolist() == [0.5, 0.5]
    assert dg.posterior(counts, method=dg.methods.PlugIn("expected")).mean().table("a").tolist() == [0.5, 0.5]


@pytest.mark.proof
def test_noise_shrinks_as_declared():
    """400 seeded releases of asia: the measured squared error of all family cells is within 4 % of the closed form
    (its standard error is about 1 %)."""
    network = dg.read_network("example:asia")
    rows = dg.sample_rows(dg.load("example:asia"), 2000, np.random.default_rng(0))
    counts = dg.count(rows, network)
    for unit in (dg.PrivacyUnit("add-remove"), dg.PrivacyUnit("replace")):
        total = 0.0
        for seed in range(400):
            release = dg.release(
                counts, dg.LaplaceMechanism(1), budget=dg.Budget(1, unit=unit), noise=dg.testing.SeededNoise(seed)
            )
            ours = reconcile(release)
            total += sum(((ours.family(f[0]) - counts.sensitive_margin(f)) ** 2).sum() for f in network.families)
        report = dg.privacy_cost(network, epsilon=1, unit=unit)
        declared = report.mechanisms.set_index("mechanism")["rmse"]["Laplace, merged tables (default)"]
        assert math.sqrt(total / 400 / network.cell_count) == pytest.approx(declared, rel=0.04)


def test_shrinking_is_james_stein_on_interactions_alone():
    """One table of three by three: the interaction has four numbers, the margins are left as they are."""
    network = dg.Network.of({"a": [0, 1, 2], "b": [0, 1, 2]}, {"b": ["a"]})
    law = DiscreteLaplace(4.0)
    table = np.array([[30, 9, 4], [8, 20, 3], [11, 2, 25]])
    counts = NoisyCounts(network, {("b", "a"): table}, {("b", "a"): law}, None)
    margins = table.sum(axis=1, keepdims=True) / 3 + table.sum(axis=0, keepdims=True) / 3 - table.sum() / 9
    interaction = table - margins
    factor = 1 - 2 * law.variance(9) / (interaction**2).sum()
    shrunk = reconcile(counts, shrink=True).tables["b", "a"]
    assert 0 < factor < 1
    np.testing.assert_allclose(shrunk, margins + factor * interaction)
    loud = NoisyCounts(network, counts.tables, {("b", "a"): DiscreteLaplace(400.0)}, None)
    np.testing.assert_allclose(reconcile(loud, shrink=True).tables["b", "a"], margins)


@pytest.mark.proof
@pytest.mark.parametrize("epsilon", ["0.05", "1"])
def test_shrinking_never_raises_the_mean_squared_error(epsilon):
    """300 paired releases of sachs: shrinking lowers the error where noise drowns the interactions (by far more than
    chance) and leaves it where they are clear."""
    network = dg.read_network("example:sachs")
    counts = dg.count(dg.sample_rows(dg.load("example:sachs"), 2000, np.random.default_rng(0)), network)
    gaps = []
    for seed in range(300):
        release = dg.release(
            counts, dg.LaplaceMechanism(epsilon), budget=dg.Budget(1), noise=dg.testing.SeededNoise(seed)
        )
        errors = [
            sum(((ours.family(f[0]) - counts.sensitive_margin(f)) ** 2).sum() for f in network.families)
            for ours in (reconcile(release), reconcile(release, shrink=True))
        ]
        gaps.append(math.log(errors[0] / errors[1]))
    z = np.mean(gaps) / (np.std(gaps) / math.sqrt(len(gaps)))
    assert z > 4.9 if epsilon == "0.05" else np.mean(gaps) > -0.01


def coefficients(scale, n=None, seed=0, **settings):
    """Noisy coefficients of the counts of 200 rows: contrasts from the definition, seeded noise."""
    rng = np.random.default_rng(seed)
    joint = rng.multinomial(200, rng.dirichlet(np.ones(36))).reshape(2, 3, 2, 3)
    names = NETWORK.domain.names
    exact = {family: margin(joint, names, family) for family in NETWORK.families}
    blocks = contrast_blocks(NETWORK, iter(exact.items()))
    if n is not None:
        del blocks[()]
    law = DiscreteLaplace(scale)
    noise = dg.testing.SeededNoise(seed)
    drawn = {block: noise.add(values.ravel(), law).reshape(values.shape) for block, values in blocks.items()}
    return exact, NoisyCoefficients(NETWORK, drawn, dict.fromkeys(drawn, law), n, **settings)


def test_noisy_coefficients_are_rebuilt_as_they_are():
    exact, noisy_blocks = coefficients(2.0**-8)
    ours = reconcile(noisy_blocks)
    for family in NETWORK.families:
        np.testing.assert_allclose(ours.family(family[0]), exact[family], atol=1e-9)


@pytest.mark.parametrize("added", [0, 40])
@pytest.mark.parametrize("n", [None, 200])
def test_the_non_negative_tables_of_coefficients_are_near_and_agree(n, added):
    _, noisy_blocks = coefficients(60.0, n, seed=1, pseudo_records=added)
    plain, ours = reconcile(noisy_blocks), reconcile(noisy_blocks, nonnegative=True)
    assert min(table.min() for table in plain.tables.values()) < 0
    assert min(table.min() for table in ours.tables.values()) >= 0
    for table in ours.tables.values():
        assert table.sum() == pytest.approx(plain.n)
    assert n is None or plain.n == 200 + added
    for one, other in itertools.combinations(ours.tables, 2):
        shared = tuple(name for name in one if name in other)
        gap = margin(ours.tables[one], one, shared) - margin(ours.tables[other], other, shared)
        assert np.abs(gap).max() < 0.05 * plain.n


def test_non_negative_coefficients_stay_where_they_are():
    _, noisy_blocks = coefficients(5.0, pseudo_records=2000)
    plain, ours = reconcile(noisy_blocks), reconcile(noisy_blocks, nonnegative=True)
    for key, table in plain.tables.items():
        np.testing.assert_allclose(ours.tables[key], table, atol=1e-6)


def test_shrinking_coefficients_is_james_stein_on_interactions_alone():
    """Block (b, d) of 2 x 2 residuals, by the formula; one-variable blocks stay; loud noise leaves no interaction."""
    _, noisy_blocks = coefficients(3.0)
    held = noisy_blocks.blocks["b", "d"]
    norms = np.sqrt(np.multiply.outer([2, 6], [2, 6]))
    spread = DiscreteLaplace(3.0).variance(1) * (1 / norms**2).mean()
    factor = max(0.0, 1 - 2 * spread / ((held / norms) ** 2).sum())
    ours = residual_transform(np.array(reconcile(noisy_blocks, shrink=True).margin("b", "d")), forward=True)
    assert 0 < factor < 1
    np.testing.assert_allclose(ours[1:, 1:], factor * held / norms, atol=1e-9)
    np.testing.assert_allclose(ours[1:, 0], noisy_blocks.blocks["b",] / np.sqrt([2, 6]), atol=1e-9)
    # Nothing but noise of scale 1e6 in two residuals or fewer cannot be shrunk; four of them nearly vanish on average.
    loud = [reconcile(coefficients(1e6, seed=seed)[1], shrink=True).margin("b", "d") for seed in range(20)]
    plain = [reconcile(coefficients(1e6, seed=seed)[1]).margin("b", "d") for seed in range(20)]
    sizes = [
        [(residual_transform(np.array(table), forward=True)[1:, 1:] ** 2).sum() for table in tables]
        for tables in (loud, plain)
    ]
    assert np.mean(sizes[0]) < 0.7 * np.mean(sizes[1])


def test_a_release_of_coefficients_keeps_its_provenance():
    counts = dg.count(
        dg.sample_rows(dg.load("example:asia"), 50, np.random.default_rng(0)), dg.read_network("example:asia")
    )
    release = dg.release(counts, FourierMechanism(1), budget=dg.Budget(1))
    assert dg.reconcile(release).provenance == release.provenance
    assert dg.reconcile(release.value).provenance is None
    assert dg.posterior(release, method="plug-in").mean().provenance == release.provenance


def one_by_one(counts, tables):
    """The projection of P30 table by table and block by block: averages by name, axes in alphabetical order."""
    sums, weights = {}, {}

    def turned(values, block):
        return np.transpose(values, sorted(range(len(block)), key=block.__getitem__))

    def weight(key, block):
        cells = counts.network.cells(key)
        outside = math.prod(counts.network.domain.sizes[name] for name in set(key) - set(block))
        return 1 / (counts.laws[key].contrast_variance(cells) * outside)

    residuals = {key: residual_transform(np.asarray(table, float), forward=True) for key, table in tables.items()}
    for key, values in residuals.items():
        for block in subsets(key):
            name, mine = frozenset(block), weight(key, block)
            sums[name] = sums.get(name, 0.0) + mine * turned(values[block_slices(key, block)], block)
            weights[name] = weights.get(name, 0.0) + mine
    for key, values in residuals.items():
        for block in subsets(key):
            mean = sums[frozenset(block)] / weights[frozenset(block)]
            mean = np.array(float(counts.n)) if counts.n is not None and not block else mean
            order = sorted(range(len(block)), key=block.__getitem__)
            values[block_slices(key, block)] = np.transpose(mean, np.argsort(order)) if block else mean
    return {key: residual_transform(values, forward=False) for key, values in residuals.items()}


def nearest_one_by_one(counts):
    """Dykstra's rounds with every table moved to the simplex, negative or not."""

    def simplex(table):
        ordered = np.sort(table.ravel())[::-1]
        excess = (np.cumsum(ordered) - total) / np.arange(1, table.size + 1)
        return np.maximum(table - excess[max(1, np.count_nonzero(ordered > excess)) - 1], 0.0)

    tables = one_by_one(counts, counts.tables)
    total = max(0.0, next(iter(tables.values())).sum())
    cut = dict.fromkeys(tables, 0.0)
    for _ in range(consistency.ROUNDS):
        moved = {key: table + cut[key] for key, table in tables.items()}
        positive = {key: simplex(table) for key, table in moved.items()}
        cut = {key: table - positive[key] for key, table in moved.items()}
        tables = one_by_one(counts, positive)
    return {key: simplex(table) for key, table in tables.items()}


@settings(max_examples=examples(40), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([None, 0, 7, 300]), st.booleans())
def test_stacks_of_tables_give_what_tables_one_by_one_give(seed, n, nonnegative):
    """Rejects a block whose axes are read in another table's order, a weight of the wrong block, a table skipped.

    Levels of one, two and three, names whose alphabetical order is not the domain's, and axes in any order.
    """
    rng = np.random.default_rng(seed)
    names = rng.permutation(list("abcdef")).tolist()
    network = dg.Network.of({name: list(range(int(rng.integers(1, 4)))) for name in names}, {})
    wanted = {tuple(rng.permutation(names)[: rng.integers(1, 4)].tolist()) for _ in range(5)}
    kept = {frozenset(table): table for table in sorted(wanted)}.values()
    laws = {table: DiscreteLaplace(float(rng.uniform(0.5, 9))) for table in kept}
    counts = noisy(network, laws, n, seed=int(rng.integers(99)))
    made = reconcile(counts, nonnegative=nonnegative).tables
    wanted = nearest_one_by_one(counts) if nonnegative else one_by_one(counts, counts.tables)
    assert list(made) == list(laws)
    for key in laws:
        np.testing.assert_allclose(made[key], wanted[key], atol=1e-8)


def test_the_transforms_do_not_grow_with_the_tables(monkeypatch):
    """Rejects a transform, and a projection to the simplex, for every table of one shape in every round."""
    calls = []
    for name in ("residual_transform", "onto_simplexes"):
        plain = getattr(consistency, name)
        counted = lambda *a, plain=plain, **k: (calls.append(1), plain(*a, **k))[1]  # noqa: E731
        monkeypatch.setattr(consistency, name, counted)

    def taken(size):
        names = [f"v{i}" for i in range(size)]
        parents = {child: [parent] for parent, child in itertools.pairwise(names)}
        chain = dg.Network.of({name: [0, 1] for name in names}, parents)
        calls.clear()
        reconcile(noisy(chain, dict.fromkeys(chain.maximal_families, DiscreteLaplace(3.0)), None), nonnegative=True)
        return len(calls)

    assert taken(20) == taken(200) <= 4 * (consistency.ROUNDS + 1)
