"""Several releases of the same rows: the product of their likelihoods, by enumeration and by dense least squares."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.network.by_records import draw_by_records
from dpgraph.inference.network.by_tables import draw_by_tables
from dpgraph.inference.network.consistency import family_variances, reconcile, residual_estimates
from dpgraph.inference.network.evidence import concentration_tables, evidence
from dpgraph.privacy.errors import InferenceError, ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.joint import JointCounts
from dpgraph.structure.tables import NoisyCounts, residual_transform
from tests.inference.network.likelihoods import log_likelihood
from tests.inference.network.test_by_records import assert_agree, enumerated, simulated, uneven

CHAIN = dg.Network.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}, {"b": ["a"], "c": ["b"]})
FORK = dg.Network.of(CHAIN.domain, {"a": ["c"], "b": ["c"]})
ROWS = pd.DataFrame({"a": [0, 1] * 40, "b": [0, 1, 2, 1] * 20, "c": [1, 1, 0, 1] * 20})
LAPLACE, GAUSSIAN, SUM_ZERO = DiscreteLaplace(1.2), DiscreteGaussian(0.9), SumZeroLaplace(0.8)


def released(network, law, values, n):
    """Noisy counts of the maximal families."""
    keys = network.maximal_families
    tables = {key: np.array(v, np.int64).reshape(network.shape(key)) for key, v in zip(keys, values, strict=True)}
    return NoisyCounts(network, tables, dict.fromkeys(keys, law), n)


FIRST = released(CHAIN, LAPLACE, [[3, -1, 0, 1, 0, 2], [2, 1, -1, 0, 3, 1]], 4)
AGAIN = released(CHAIN, SUM_ZERO, [[2, 0, 0, 1, -1, 2], [3, 0, 1, -1, 1, 0]], 4)
OTHER = released(FORK, GAUSSIAN, [[1, 2, -1, 2], [2, 0, 1, 0, 2, -1]], 4)


@pytest.mark.proof
@pytest.mark.parametrize(
    "joint",
    [JointCounts((FIRST, AGAIN)), JointCounts((FIRST, OTHER), CHAIN), JointCounts((OTHER, FIRST), FORK)],
    ids=["one network", "two networks", "the other of them"],
)
def test_the_joint_posterior_enumerated(joint):
    """Four records, 1365 multisets, two releases: the product of the laws, whichever network is learned.

    Power: the standard error of every moment is below .005; the posterior of either release alone is further off.
    """
    given = evidence(joint)
    concentration = uneven(joint.network)
    exact, _ = enumerated(given, concentration, [4])
    drawn = draw_by_records(given, concentration, rng=np.random.default_rng(11), draws=20_000, burn_in=200)
    assert assert_agree(simulated(drawn, given), exact).max() < 0.005
    if joint.parts[0].network == joint.parts[1].network:
        alone = [enumerated(evidence(part), concentration, [4])[0] for part in joint.parts]
        assert min(np.abs(one - exact).max() for one in alone) > 0.05


def test_every_method_reads_every_release():
    joint = JointCounts((FIRST, AGAIN))
    given = evidence(joint)
    assert len(given.tables) == 4
    assert given.n == 4
    records = {name: np.zeros(4, np.int64) for name in CHAIN.domain.names}
    alone = sum(log_likelihood(evidence(part), records) for part in joint.parts)
    assert log_likelihood(given, records) == pytest.approx(alone, abs=1e-12)


def dense(parts, n, wanted):
    """Weighted least squares over all joint tables; a known total is a heavy row. The wanted margins of it."""
    domain = parts[0].network.domain
    cells = list(itertools.product(*(range(domain.sizes[name]) for name in domain.names)))

    def block(network, table):
        made = np.zeros((network.cells(table), len(cells)))
        for column, cell in enumerate(cells):
            row = np.ravel_multi_index([cell[domain.names.index(name)] for name in table], network.shape(table))
            made[row, column] = 1
        return made

    rows, right = [], []
    for part in parts:
        for key, values in part.tables.items():
            spread = part.laws[key].contrast_variance(values.size)
            rows.append(block(part.network, key) / np.sqrt(spread))
            right.append(values.ravel() / np.sqrt(spread))
    if n is not None:
        rows.append(np.ones((1, len(cells))) * 1e5)
        right.append(np.array([n * 1e5]))
    solution = np.linalg.lstsq(np.vstack(rows), np.concatenate(right), rcond=None)[0]
    return {key: (block(CHAIN, key) @ solution).reshape(CHAIN.shape(key)) for key in wanted}


@pytest.mark.parametrize(
    ("parts", "n"),
    [
        ((FIRST, AGAIN), 4),
        ((FIRST, OTHER), 4),
        ((FIRST, AGAIN, OTHER), 4),
        ((released(CHAIN, LAPLACE, [[9, 1, 4, 7, 0, 2], [2, 9, 6, 4, 3, 1]], None),
          released(FORK, GAUSSIAN, [[8, 6, 4, 7], [9, 0, 2, 7, 3, 5]], None)), None),
    ],
)  # fmt: skip
def test_consistent_tables_are_least_squares_over_all_releases(parts, n):
    """Up to the heavy row, which pins the total to 1e-6."""
    network = CHAIN if len({part.network for part in parts}) > 1 else None
    made = reconcile(list(parts), network=network)
    for key, expected in dense(parts, n, CHAIN.maximal_families).items():
        assert made.tables[key] == pytest.approx(expected, abs=1e-5)
    assert made.n == pytest.approx(n if n is not None else made.tables[("b", "a")].sum())


def test_two_gaussian_releases_are_as_one_with_the_precision_weighted_mean():
    """Two scales and values whose weighted mean is whole: residuals, draws and tables are equal to the last digits."""
    near, far = DiscreteGaussian(5.0), DiscreteGaussian(10.0)  # weights 4 to 1; together a scale of sqrt(20)
    base = released(
        CHAIN, DiscreteGaussian(20**0.5), [[260, 215, 240, 205, 225, 255], [220, 265, 230, 210, 245, 230]], None
    )
    shift = {key: np.arange(table.size).reshape(table.shape) for key, table in base.tables.items()}
    one = NoisyCounts(CHAIN, {k: t + shift[k] for k, t in base.tables.items()}, dict.fromkeys(base.tables, near), None)
    less = {k: t - 4 * shift[k] for k, t in base.tables.items()}
    two = NoisyCounts(CHAIN, less, dict.fromkeys(base.tables, far), None)
    found, expected = residual_estimates(JointCounts((one, two))), residual_estimates(base)
    for block, (values, spread) in expected.items():
        assert found[block][0] == pytest.approx(values, rel=1e-12, abs=1e-10)
        assert found[block][1] == pytest.approx(spread, rel=1e-12)
    together, single = (dg.posterior(it, method="normal", draws=50, seed=3) for it in ([one, two], base))
    for name in CHAIN.domain.names:
        assert together.tables[name] == pytest.approx(single.tables[name], rel=1e-9)
    assert reconcile([one, two], nonnegative=True).tables["b", "a"] == pytest.approx(
        reconcile(base, nonnegative=True).tables["b", "a"], rel=1e-9
    )


def test_several_releases_of_coefficients_are_averaged_block_by_block():
    counts, budget = dg.count(ROWS, CHAIN), dg.Budget(10, unit=dg.PrivacyUnit("add-remove"))
    made = [
        dg.release(counts, dg.FourierMechanism(epsilon), budget=budget, noise=dg.testing.SeededNoise(i)).value
        for i, epsilon in enumerate((1, 3))
    ]
    joint = residual_estimates(JointCounts(tuple(made)))
    single = [residual_estimates(one) for one in made]
    for block, (values, spread) in joint.items():
        weights = np.array([1 / one[block][1] for one in single])
        assert spread == pytest.approx(1 / weights.sum())
        parts = [one[block][0] for one in single]
        assert values == pytest.approx((weights[0] * parts[0] + weights[1] * parts[1]) / weights.sum())
    tables = reconcile(made)
    assert tables.margin("b") == pytest.approx(tables.tables["b", "a"].sum(axis=1))
    assert set(tables.tables) == set(CHAIN.maximal_families)


def test_tables_and_coefficients_of_the_same_rows_are_read_together():
    counts, budget = dg.count(ROWS, CHAIN), dg.Budget(500)
    tables = dg.release(counts, dg.LaplaceMechanism(1), budget=budget, noise=dg.testing.SeededNoise(1))
    sums = dg.release(counts, dg.FourierMechanism(400), budget=budget, noise=dg.testing.SeededNoise(2))
    both = reconcile(tables + sums)
    exact = np.array([[20, 0], [0, 40], [20, 0]])
    assert both.tables["b", "a"] == pytest.approx(exact, abs=1)
    assert both.n == 80
    made = dg.posterior(tables + sums, method="normal", draws=200, seed=1)
    assert made.mean().table("a") == pytest.approx([0.5, 0.5], abs=0.02)
    with pytest.raises(InferenceError, match="needs noisy counts"):
        dg.posterior(tables + sums, method="tables")


@pytest.mark.proof
def test_order_does_not_matter_and_one_of_them_is_itself():
    three = [FIRST, AGAIN, released(CHAIN, GAUSSIAN, [[1, 1, 0, 1, 1, 0], [2, 0, 0, 0, 1, 1]], 4)]
    ways = [residual_estimates(JointCounts(tuple(order))) for order in itertools.permutations(three)]
    for way in ways[1:]:
        for block, (values, spread) in way.items():
            assert values == pytest.approx(ways[0][block][0], abs=1e-12)
            assert spread == pytest.approx(ways[0][block][1], rel=1e-12)
    for method in ("tables", "normal", dg.methods.Records(burn_in=50, passes=4)):
        one, itself = (dg.posterior(it, method=method, draws=2000, seed=1) for it in ([FIRST], FIRST))
        assert one.tables == itself.tables
    assert reconcile([FIRST]).tables == reconcile(FIRST).tables
    assert dg.posterior([FIRST], method="plug-in").concentration == dg.posterior(FIRST, method="plug-in").concentration


def test_more_releases_have_smaller_variances_and_enter_the_plug_in():
    joint = JointCounts((FIRST, OTHER), CHAIN)
    both, alone = family_variances(joint), family_variances(FIRST)
    assert all(both[family] < alone[family] for family in CHAIN.families)
    nearest = dg.posterior([FIRST, OTHER], network=CHAIN, method="plug-in")
    assert nearest.concentration["b"] == pytest.approx(1 + reconcile(joint, nonnegative=True).family("b"))
    expected = dg.posterior(joint, method=dg.methods.PlugIn("expected"))
    assert (expected.concentration["b"] > 1).all()
    with pytest.raises(InferenceError, match='several have "nearest" and "expected"'):
        dg.posterior(joint, method=dg.methods.PlugIn("clipped"))


def test_a_network_that_no_release_names_is_learned_where_tables_hold_its_families():
    alone = dg.Network.of(CHAIN.domain, {})
    made = dg.posterior(FIRST, network=alone, method="tables", draws=10, seed=0)
    assert made.network == alone
    assert reconcile(FIRST, network=alone).family("b") == pytest.approx(reconcile(FIRST).margin("b"))
    with pytest.raises(dg.errors.NetworkError, match="no table holds b, c, a together"):
        dg.posterior([FIRST, OTHER], network=dg.Network.of(CHAIN.domain, {"b": ["c", "a"]}))
    with pytest.raises(dg.errors.NetworkError, match="of different networks; name the one to learn"):
        dg.posterior([FIRST, OTHER])
    with pytest.raises(ReleaseError, match="network= is a Network to learn from noisy counts; got str"):
        dg.posterior(FIRST, network="asia")


def test_a_margin_measured_by_itself_sharpens_the_table_that_holds_it():
    """A transposed key and a smaller table: blocks are matched by their variables, not by the order of axes."""
    law = DiscreteGaussian(2.0)
    table = NoisyCounts(CHAIN, FIRST.tables, dict.fromkeys(FIRST.tables, law), None)
    turned = NoisyCounts(CHAIN, {("a", "b"): FIRST.tables["b", "a"].T + 3}, {("a", "b"): law}, None)
    found = residual_estimates(JointCounts((table, turned), CHAIN))
    own = residual_transform(FIRST.tables["b", "a"].astype(float), forward=True)[1:, 1:]
    again = residual_transform(FIRST.tables["b", "a"] + 3.0, forward=True)[1:, 1:]
    assert found["a", "b"][0] == pytest.approx(((own + again) / 2).T)
    assert found["a", "b"][1] == pytest.approx(law.variance(6) / 2)


@pytest.mark.proof
def test_two_releases_at_half_of_epsilon_are_calibrated_and_one_read_twice_is_not():
    """Coverage of 90 % intervals among 100 draws, 250 simulated data sets of a chain, eight free parameters each.

    About .88 is right, with a standard error of .0073; bounds are 5 of these away. Reading one release as two draws of
    noise halves a variance that is not halved, and its coverage is below the lower bound by more than 5 of its own.
    """
    mechanism, settings = dg.LaplaceMechanism("1/2"), {"draws": 100}
    covered, doubled = [], []
    for trial in range(250):
        rng, noise = np.random.default_rng(trial), dg.testing.SeededNoise(trial)
        tables = {name: rng.gamma(1.0, size=CHAIN.shape(CHAIN.family(name))) for name in CHAIN.domain.names}
        truth = dg.Probabilities(CHAIN, {name: table / table.sum(axis=0) for name, table in tables.items()})
        counts = dg.count(dg.sample_rows(truth, 150, rng), CHAIN)
        one, two = (dg.release(counts, mechanism, budget=dg.Budget(1), noise=noise).value for _ in range(2))
        twice = replace(evidence(one), tables=evidence(one).tables * 2)
        prior = concentration_tables(CHAIN, 1.0)
        right = dg.posterior([one, two], method="tables", seed=trial, **settings)
        wrong = draw_by_tables(twice, prior, rng=np.random.default_rng(trial), **settings)
        for drawn, kept in ((right, covered), (wrong, doubled)):
            for name, (low, high) in drawn.interval(0.9).items():
                exact = truth.table(name)
                kept.extend(((low <= exact) & (exact <= high))[:-1].ravel())
    assert len(covered) == 250 * 8
    assert 0.8435 < np.mean(covered) < 0.9165
    assert np.mean(doubled) < 0.8435
