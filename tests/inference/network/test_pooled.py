"""Releases of different rows: latent counts of their own, by enumeration of both data sets."""

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

import dpgraph as dg
from dpgraph.inference.network import _kernels, by_records
from dpgraph.inference.network.by_records import draw_by_records
from dpgraph.inference.network.consistency import reconcile, residual_estimates
from dpgraph.inference.network.evidence import contingency_table, evidence
from dpgraph.privacy.errors import InferenceError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.structure.joint import JointCounts, PooledCounts
from dpgraph.structure.tables import NoisyCounts
from tests.inference.network.test_by_records import HIERARCHY, assert_agree, multisets, over_the_prior, uneven

PAIR = dg.Network.of({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]})
KEY = ("b", "a")


def released(values, law, n):
    return NoisyCounts(PAIR, {KEY: np.reshape(np.array(values, np.int64), (2, 2))}, {KEY: law}, n)


MAY = released([3, -2, 2, 1], DiscreteLaplace(1.5), 4)
JUNE = released([0, 3, 1, 2], SumZeroLaplace(0.6), 6)
JUNE_AGAIN = released([2, 2, -1, 3], DiscreteGaussian(1.2), 6)
JULY, AUGUST = released([3, -2, 2, 1], DiscreteLaplace(1.0), None), released([0, 2, 1, 1], DiscreteGaussian(1.0), None)


def enumerated(parts, concentration, hierarchy=None):
    """Exact posterior means of every entry of theta, of its square, and of the number of all rows and its square.

    ``parts`` are pairs of a part and the numbers of rows it may have. Pairs of data sets with the same sum of their
    tables are one term: theta is integrated out of that sum, and with a ``hierarchy`` its prior too.
    """
    keys, weights, base = [], [], 1 + sum(max(sizes) for _, sizes in parts)
    digits = base ** np.arange(4)
    for part, sizes in parts:
        rows = np.concatenate([multisets(4, n) for n in sizes])
        log = gammaln(rows.sum(axis=1) + 1) - gammaln(rows + 1).sum(axis=1)
        for measured in evidence(part).tables:
            away = (measured.values - rows) / measured.law.scale
            log = log + (-0.5 * away**2 if isinstance(measured.law, DiscreteGaussian) else -np.abs(away)).sum(axis=1)
        keys.append(rows @ digits)
        weights.append(np.exp(log - log.max()))
    together = np.bincount(np.add.outer(*keys).ravel(), np.multiply.outer(*weights).ravel())
    seen = np.flatnonzero(together)
    total, log = (seen[:, None] // digits % base).reshape(-1, 2, 2), np.log(together[seen])  # axes (sum, b, a)
    moments, squares = [], []
    for name, counts in (("a", total.sum(axis=1)), ("b", total)):
        if hierarchy is not None and name == "b":
            marginal, first, second = over_the_prior(hierarchy, counts)
            log += marginal
            moments.append(first)
            squares.append(second)
            continue
        cells = concentration[name] + counts
        whole = cells.sum(axis=1, keepdims=True)
        log += (gammaln(cells).sum(axis=1) - gammaln(cells.sum(axis=1))).reshape(len(log), -1).sum(axis=1)
        moments.append((cells / whole).reshape(len(log), -1))
        squares.append((cells * (cells + 1) / whole / (whole + 1)).reshape(len(log), -1))
    n = total.sum(axis=(1, 2))[:, None]
    return np.exp(log - logsumexp(log)) @ np.hstack([*moments, *squares, n, n**2])


def simulated(drawn, n):
    flat = np.concatenate([drawn.tables[name].reshape(*drawn.shape, -1) for name in ("a", "b")], axis=2)
    rows = np.full(drawn.shape, n) if drawn.n is None else drawn.n
    return np.concatenate([flat, flat**2, rows[..., None], rows[..., None] ** 2], axis=2)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("parts", "sizes"),
    [
        ((MAY, JUNE), ([4], [6])),
        ((MAY, JointCounts((JUNE, JUNE_AGAIN))), ([4], [6])),
        ((JULY, AUGUST), (range(19), range(14))),
    ],
    ids=["public n", "a joint release of one month", "private n"],
)
def test_the_posterior_of_two_data_sets_enumerated(parts, sizes):
    """Every pair of data sets. Beyond 18 and 13 records lies less than 1e-5 of the posterior.

    Power: the standard error of every moment of theta is below .005, so a moment off by .06 is missed less than once
    in 1e7; one list of tables for rows of both months together, or a chain that lets one release's rows forget the
    others', is further off.
    """
    concentration = uneven(PAIR)
    exact = enumerated(list(zip(parts, sizes, strict=True)), concentration)
    given = tuple(evidence(part) for part in parts)
    drawn = draw_by_records(given, concentration, rng=np.random.default_rng(5), draws=8_000, burn_in=500)
    error = assert_agree(simulated(drawn, 10), exact)
    assert error[:-2].max() < 0.005
    assert (drawn.n is None) == (parts[0].n is not None)


@pytest.mark.proof
def test_a_prior_that_learns_reads_the_rows_of_both_data_sets():
    """Every pair of data sets, every concentration, and every centre by exact quadrature.

    Power: a prior that learned from the first data set alone, or the given one, moves some mean by more than .05, and
    standard errors are below .005.
    """
    concentration, sizes = uneven(PAIR), [(MAY, [4]), (JUNE, [6])]
    exact = enumerated(sizes, concentration, HIERARCHY)
    assert np.abs(exact - enumerated(sizes, concentration))[:6].max() > 0.05
    given = tuple(evidence(part) for part in (MAY, JUNE))
    settings = {"draws": 8_000, "burn_in": 500, "hierarchy": HIERARCHY}
    drawn = draw_by_records(given, concentration, rng=np.random.default_rng(8), **settings)
    error = assert_agree(simulated(drawn, 10), exact)
    assert error[:-2].max() < 0.005


@pytest.mark.proof
def test_the_order_of_releases_does_not_matter():
    concentration = uneven(PAIR)
    one = enumerated([(MAY, [4]), (JUNE, [6])], concentration)
    assert one == pytest.approx(enumerated([(JUNE, [6]), (MAY, [4])], concentration))
    given = tuple(evidence(part) for part in (JUNE, MAY))
    drawn = draw_by_records(given, concentration, rng=np.random.default_rng(6), draws=8_000, burn_in=500)
    assert_agree(simulated(drawn, 10), one)


def test_compiled_equals_plain_and_the_state_stays_that_of_the_rows(monkeypatch, plain):
    given = (evidence(MAY), evidence(AUGUST), evidence(JUNE))
    settings = {"draws": 15, "burn_in": 10, "chains": 2}
    fast = draw_by_records(given, uneven(PAIR), rng=np.random.default_rng(4), **settings)
    plain(by_records)
    slow = draw_by_records(given, uneven(PAIR), rng=np.random.default_rng(4), **settings)
    assert slow.tables == fast.tables
    assert slow.records == fast.records
    assert np.array_equal(slow.n, fast.n)
    seen = []

    def checked(rng, layout, theta, records, n, residual, counts, *rest):
        release = len(seen) % len(given)
        n = _kernels.sweep(rng, layout, theta, records, n, residual, counts, *rest)
        columns = {name: records[:n, v].astype(np.int64) for v, name in enumerate(PAIR.order)}
        left = [
            t.values - t.statistics(contingency_table(columns, t.variables, t.shape)) for t in given[release].tables
        ]
        assert np.array_equal(residual, np.concatenate(left))
        seen.append((layout.prior.sum(), counts.sum()))
        return n

    monkeypatch.setattr(by_records, "compiled", lambda _: checked)
    drawn = draw_by_records(given, uneven(PAIR), rng=np.random.default_rng(4), draws=5, burn_in=5, chains=1)
    assert len(seen) == 30
    before = sum(table.sum() for table in uneven(PAIR).values())
    for first, second, third in zip(seen[::3], seen[1::3], seen[2::3], strict=True):  # two families count every row
        assert third[0] == pytest.approx(before + first[1] + second[1])
    assert drawn.n[0, -1] == len(drawn.records["a"]) == sum(counts // 2 for _, counts in seen[-3:])


def test_residuals_and_their_variances_add():
    pooled = PooledCounts((MAY, JointCounts((JUNE, JUNE_AGAIN))))
    parts = [residual_estimates(part) for part in pooled.parts]
    for block, (values, spread) in residual_estimates(pooled).items():
        assert values == pytest.approx(parts[0][block][0] + parts[1][block][0])
        assert spread == pytest.approx(parts[0][block][1] + parts[1][block][1])
    assert pooled.n == 10
    made = reconcile(pooled)
    assert made.n == 10
    assert made.tables[KEY] == pytest.approx(reconcile(MAY).tables[KEY] + reconcile(pooled.parts[1]).tables[KEY])
    nearest = reconcile(pooled, nonnegative=True).tables[KEY]
    assert nearest.min() >= 0
    assert nearest.sum() == pytest.approx(10)
    assert dg.posterior(pooled, method="plug-in").concentration["b"] == pytest.approx(1 + nearest)
    assert (dg.posterior(pooled, method=dg.methods.PlugIn("expected")).concentration["b"] > 1).all()


def test_two_months_of_gaussian_noise_are_as_their_sum_to_the_normal_method():
    law = DiscreteGaussian(6.0)
    months = [
        released(values, law, n)
        for values, n in (([6000, 2000, 3500, 8500], 20_000), ([4000, 3000, 1500, 2500], 11_000))
    ]
    total = released([10_000, 5000, 5000, 11_000], DiscreteGaussian(72**0.5), 31_000)
    one, other = (dg.posterior(it, method="normal", draws=40, seed=2) for it in (dg.pooled(months), total))
    assert one.tables["b"] == pytest.approx(other.tables["b"], rel=1e-9)


@pytest.mark.proof
def test_methods_that_are_not_right_are_refused():
    with pytest.raises(InferenceError, match='method="records" or "normal"'):
        dg.posterior(dg.pooled([MAY, JUNE]), method="tables")
    with pytest.raises(InferenceError, match='several have "nearest"'):
        dg.posterior(dg.pooled([MAY, JUNE]), method=dg.methods.PlugIn("clipped"))
    quick = dg.posterior(dg.pooled([MAY, JUNE]), seed=0)
    assert quick.method == "records"
    assert quick.reason.startswith("exact: about")
    large = [released([5000 * k, 9000, 7000, 8000], DiscreteLaplace(9.0), None) for k in (1, 2)]
    assert dg.posterior(dg.pooled(large), draws=40_000, seed=0).method == "normal"


COIN = dg.Network.of({"a": [0, 1]}, {})


def tosses(values, scale, n):
    return NoisyCounts(COIN, {("a",): values}, {("a",): DiscreteLaplace(scale)}, n)


@pytest.mark.proof
def test_a_sum_of_tables_within_its_noise_is_warned_of_and_records_are_right():
    """Two months of one coin whose noise exceeds its rows, against summation over both counts.

    Power: the sum of both tables taken as normal and cut at zero is off by more than .3.
    """
    months = dg.pooled([tosses([700, -600], 200.0, 100), tosses([150, -80], 100.0, 60)])
    exact = coin_mean([(100, 700, -600, 200.0), (60, 150, -80, 100.0)])
    with pytest.warns(dg.errors.ApproximationWarning, match="normal noise is too rough for 'a'.*records") as caught:
        rough = dg.posterior(months, method="normal", draws=4000, seed=0)
    assert caught[0].filename == __file__
    right = dg.posterior(months, method="records", draws=20_000, seed=0)
    assert right.mean().table("a")[0] == pytest.approx(exact, abs=0.03)
    assert rough.mean().table("a")[0] > exact + 0.3


def coin_mean(months):
    """The posterior mean of a coin by summation over the count of every month."""
    total = np.ones(1)
    for n, one, other, scale in months:
        s = np.arange(n + 1)
        ways = gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1)
        total = np.convolve(total, np.exp(ways - (np.abs(one - s) + np.abs(other - (n - s))) / scale))
    n, s = len(total) - 1, np.arange(len(total))
    weight = np.log(total) + gammaln(s + 1) + gammaln(n - s + 1)
    weight = np.exp(weight - logsumexp(weight))
    return weight @ ((s + 1) / (n + 2))


def test_auto_takes_pooled_tables_as_normal_only_where_they_are_settled(monkeypatch):
    from dpgraph.inference.network import posterior as networks

    monkeypatch.setattr(networks, "PATIENCE", 0.0)
    clear, rare = tosses([4000, 5000], 9.0, 9000), tosses([8990, 10], 9.0, 9000)
    made = dg.posterior(dg.pooled([clear, tosses([4100, 4900], 9.0, 9000)]), draws=20, seed=0)
    assert (made.method, "would take" in made.reason) == ("normal", True)
    few = dg.methods.Records(chains=1, burn_in=5)
    exact = dg.posterior(dg.pooled([rare, rare_again(rare)]), draws=20, seed=0, method=networks.Automatic(few))
    assert exact.method == "records"
    assert "normal noise is too rough for 'a'" in exact.reason


def rare_again(one):
    return tosses(one.tables[("a",)] + np.array([-3, 3]), 9.0, 9000)


@pytest.mark.proof
@pytest.mark.parametrize("prior", ["hierarchical", dg.HierarchicalPrior(steps=3)])
def test_pooled_releases_learn_a_prior_by_records_alone(prior):
    with pytest.raises(InferenceError, match="prior must be a number for method 'normal'"):
        dg.posterior(dg.pooled([MAY, JUNE]), prior=prior, method="normal")
    made = dg.posterior(dg.pooled([MAY, JUNE]), prior=prior, seed=0)
    assert (made.method, made.reason) == ("records", "the only method for a hierarchical prior")
