"""Draws by record augmentation against the whole posterior enumerated, and the compiled sweep against the plain one."""

import threading
from itertools import combinations, count, pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

import dpgraph as dg
from dpgraph.inference import draws as draws_module
from dpgraph.inference import interruption
from dpgraph.inference._kernels import compiled
from dpgraph.inference.chains import Plan
from dpgraph.inference.network import _kernels, by_records
from dpgraph.inference.network.by_records import draw_by_records
from dpgraph.inference.network.evidence import (
    Evidence,
    MeasuredTable,
    concentration_tables,
    contingency_table,
    evidence,
)
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.queries import sample_codes
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap

CHAIN = dg.Network.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1]}, {"b": ["a"], "c": ["b"]})
BINARY = dg.Network.of({"a": [0, 1], "b": [0, 1], "c": [0, 1]}, {"b": ["a"], "c": ["b"]})
PAIR = dg.Network.of({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]})
LEVEL, BATCHES = 1e-6, 100


def uneven(network):
    """Concentrations on both sides of 1, so that a prior ratio left out, or upside down, shows."""
    rng = np.random.default_rng(7)
    return {name: rng.uniform(0.6, 3.0, t.shape) for name, t in concentration_tables(network, 1.0).items()}


def tables_evidence(network, law, values, n):
    families = network.maximal_families
    return Evidence(
        network,
        tuple(
            MeasuredTable(f, network.shape(f), np.array(v, np.int64), law)
            for f, v in zip(families, values, strict=True)
        ),
        n,
    )


def fourier_evidence(network, epsilon, neighbours, basis, records):
    counts = dg.count(Codes(network.domain, FrozenMap(records)), network)
    budget = dg.Budget(1000, unit=dg.PrivacyUnit(neighbours))
    mechanism = dg.FourierMechanism(epsilon, basis=basis)
    return evidence(dg.release(counts, mechanism, budget=budget, noise=dg.testing.SeededNoise(5)).value)


def multisets(cells, n):
    """Every way to put n records into cells, shape (ways, cells): stars and bars."""
    bars = np.array(list(combinations(range(n + cells - 1), cells - 1)), np.int64).reshape(-1, cells - 1)
    edges = np.hstack([np.full((len(bars), 1), -1), bars, np.full((len(bars), 1), n + cells - 1)])
    return np.diff(edges, axis=1) - 1


def enumerated(given, concentration, sizes, hierarchy=None):
    """Exact posterior means of every entry of theta, of its square, and of n and n^2, flat; the weight of each n."""
    network = given.network
    names, shape = network.domain.names, network.shape(network.domain.names)
    joint = np.concatenate([multisets(int(np.prod(shape)), n) for n in sizes]).reshape(-1, *shape)
    rows = joint.reshape(len(joint), -1)
    n = rows.sum(axis=1)
    log_weight = gammaln(n + 1) - gammaln(rows + 1).sum(axis=1)

    def table(variables):
        kept = [name for name in names if name in variables]
        summed = joint.sum(axis=tuple(i + 1 for i, name in enumerate(names) if name not in variables))
        return np.transpose(summed, [0, *(1 + kept.index(name) for name in variables)])

    first, second = [], []
    for name in names:
        if hierarchy is not None and network.parents[name]:
            log, mean, square = over_the_prior(hierarchy, table(network.family(name)))
            log_weight += log
            first.append(mean)
            second.append(square)
            continue
        total = concentration[name] + table(network.family(name))
        log_weight += (gammaln(total).sum(axis=1) - gammaln(total.sum(axis=1))).reshape(len(joint), -1).sum(axis=1)
        whole = total.sum(axis=1, keepdims=True)
        first.append((total / whole).reshape(len(joint), -1))
        second.append((total * (total + 1) / whole / (whole + 1)).reshape(len(joint), -1))
    for measured in given.tables:
        statistics = table(measured.variables).reshape(len(joint), -1)
        if measured.weights is not None:
            statistics = statistics @ measured.weights
        residual = (measured.values - statistics) / (measured.law.scale * measured.step)
        gaussian = isinstance(measured.law, DiscreteGaussian)
        log_weight += (-0.5 * residual**2 if gaussian else -np.abs(residual)).sum(axis=1)
    weight = np.exp(log_weight - logsumexp(log_weight))
    moments = np.hstack([*first, *second, n[:, None], n[:, None] ** 2])
    return weight @ moments, np.bincount(n, weight)


def simulated(drawn, given):
    """The same moments of every draw, shape (chains, draws, moments)."""
    shape = drawn.shape
    flat = np.concatenate([drawn.tables[name].reshape(*shape, -1) for name in given.network.domain.names], axis=2)
    n = np.full(shape, given.n) if drawn.n is None else drawn.n
    return np.concatenate([flat, flat**2, n[..., None], n[..., None] ** 2], axis=2)


def assert_agree(found, exact, comparisons=400):
    """Batch means: each moment's mean is within its own Monte Carlo error of the exact one.

    A false alarm has probability 1e-6 over ``comparisons`` moments (t with 99 degrees of freedom: 6.7 standard errors).
    """
    chains, draws, _ = found.shape
    batches = found.reshape(chains, BATCHES // chains, draws * chains // BATCHES, -1).mean(axis=2)
    batches = batches.reshape(BATCHES, -1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(BATCHES)
    allowed = stats.t.isf(LEVEL / comparisons / 2, BATCHES - 1) * error + 1e-9
    gap = np.abs(batches.mean(axis=0) - exact)
    worst = int(np.argmax(gap / allowed))
    assert (gap <= allowed).all(), f"moment {worst}: off by {gap[worst]:.4f}, allowed {allowed[worst]:.4f}"
    return error


LAPLACE = tables_evidence(CHAIN, DiscreteLaplace(1.0), [[3, -1, 0, 1, 0, 2], [2, 1, -1, 0, 3, 1]], 4)
SUM_ZERO = tables_evidence(CHAIN, SumZeroLaplace(0.7), [[3, -1, 0, 0, 0, 2], [2, 0, -1, 0, 3, 0]], 4)
GAUSSIAN = tables_evidence(CHAIN, DiscreteGaussian(0.8), [[3, -1, 0, 1, 0, 1], [2, 1, -1, 0, 2, 1]], 4)
RECORDS = {"a": np.array([0, 0, 1, 0], np.uint8), "b": np.array([0, 0, 2, 1], np.uint8)}
RECORDS["c"] = np.array([0, 0, 1, 1], np.uint8)
LOW = {name: np.minimum(column, 1) for name, column in RECORDS.items()}
WALSH = fourier_evidence(BINARY, 8, "replace", "walsh", LOW)
RESIDUAL = fourier_evidence(CHAIN, 12, "replace", "residual", RECORDS)
#: Without and with moves of the tables; what is done by default has both kinds, and is in every run.
PASSES = [pytest.param(0, marks=pytest.mark.proof), 2]


@pytest.mark.proof
@pytest.mark.parametrize("passes", PASSES)
@pytest.mark.parametrize(
    "given",
    [LAPLACE, SUM_ZERO, GAUSSIAN, WALSH, RESIDUAL],
    ids=["laplace", "sum-zero", "gaussian", "walsh", "residual"],
)
def test_all_record_multisets_enumerated(given, passes):
    """Four records on three nodes: 1365 multisets (330 for two levels).

    Power: the standard error of every moment is below .005, so a moment off by .06 is missed less than once in 1e7.
    """
    concentration = uneven(given.network)
    exact, _ = enumerated(given, concentration, [4])
    rng = np.random.default_rng(11)
    drawn = draw_by_records(given, concentration, rng=rng, draws=20_000, burn_in=500, passes=passes)
    error = assert_agree(simulated(drawn, given), exact)
    assert error[:-2].max() < 0.005
    assert set(drawn.acceptance) == ({"records", "shifts"} if passes else {"records"})
    assert drawn.n is None


def test_the_enumeration_has_every_multiset():
    assert multisets(12, 4).shape == (1365, 12)
    assert (multisets(12, 4).sum(axis=1) == 4).all()
    assert len(np.unique(multisets(12, 4), axis=0)) == 1365


PRIVATE_LAPLACE = tables_evidence(PAIR, DiscreteLaplace(1.5), [[5, -2, 1, 2]], None)
PRIVATE_GAUSSIAN = tables_evidence(PAIR, DiscreteGaussian(1.5), [[3, -1, 1, 2]], None)
FEW = {"a": np.array([0, 0, 1, 0], np.uint8), "b": np.array([0, 1, 1, 1], np.uint8)}
PRIVATE_WALSH = fourier_evidence(PAIR, 6, "add-remove", "walsh", FEW)
SINGLE = dg.Network.of({"b": [0, 1, 2]}, {})
PRIVATE_RESIDUAL = fourier_evidence(SINGLE, 3, "add-remove", "residual", {"b": RECORDS["b"]})


@pytest.mark.proof
@pytest.mark.parametrize(
    ("given", "most"),
    [(PRIVATE_LAPLACE, 45), (PRIVATE_GAUSSIAN, 30), (PRIVATE_WALSH, 40), (PRIVATE_RESIDUAL, 45)],
    ids=["laplace", "gaussian", "walsh", "residual"],
)
@pytest.mark.parametrize("passes", PASSES)
def test_a_private_number_of_records_enumerated(given, most, passes):
    """Every multiset of 0 to ``most`` records in three or four cells; beyond lies less than 1e-6 of the posterior.

    Power: n is known to .1, so a posterior of n off by one record is always seen.
    """
    concentration = uneven(given.network)
    exact, sizes = enumerated(given, concentration, range(most + 1))
    assert sizes[-1] < 1e-7
    rng = np.random.default_rng(12)
    drawn = draw_by_records(given, concentration, rng=rng, draws=20_000, burn_in=500, passes=passes)
    assert drawn.n is not None
    error = assert_agree(simulated(drawn, given), exact)
    assert error[:-2].max() < 0.005
    assert error[-2] < 0.1
    assert drawn.acceptance["resizes"] > 0.1


def asia_evidence(mechanism, neighbours, n=40):
    truth = dg.load("example:asia")
    records = sample_codes(truth, n, np.random.default_rng(3))
    counts = dg.count(Codes(truth.network.domain, FrozenMap(records)), truth.network)
    budget = dg.Budget(1000, delta=0.1, unit=dg.PrivacyUnit(neighbours))
    return evidence(dg.release(counts, mechanism, budget=budget, noise=dg.testing.SeededNoise(2)).value)


SMALL = [
    (dg.LaplaceMechanism(1), "replace"),
    (dg.GaussianMechanism(1, 1e-3), "add-remove"),
    (dg.FourierMechanism(2), "add-remove"),
]


@pytest.mark.proof
@pytest.mark.parametrize("hierarchy", [None, HierarchicalPrior()], ids=["given", "learned"])
@pytest.mark.parametrize(("mechanism", "neighbours"), SMALL)
def test_compiled_equals_plain(plain, mechanism, neighbours, hierarchy):
    given = asia_evidence(mechanism, neighbours)
    settings = {"draws": 15, "burn_in": 10, "chains": 2, "hierarchy": hierarchy}
    prior = uneven(given.network)
    fast = draw_by_records(given, prior, rng=np.random.default_rng(4), **settings)
    plain(by_records)
    slow = draw_by_records(given, prior, rng=np.random.default_rng(4), **settings)
    assert slow.tables == fast.tables
    assert slow.records == fast.records
    assert slow.acceptance == fast.acceptance
    assert np.array_equal(slow.n, fast.n) if given.n is None else slow.n is None


@pytest.mark.parametrize(("giving", "taking"), [(0, 1), (0, 3), (2, 1), (3, 0)])
def test_records_that_flip_change_their_part_of_the_list(giving, taking):
    levels = np.repeat(np.arange(4), [3, 1, 5, 4])
    start, held = np.array([10, 13, 14, 19, 23]), np.arange(100, 123)[np.r_[0:10, 10:23]]
    level = dict(zip(held[10:].tolist(), levels.tolist(), strict=True))
    flipped = np.array([p for p in range(start[giving], start[giving + 1]) if p % 2 == 0] + [0, 0], np.int64)
    many = flipped.size - 2
    for place in flipped[:many]:
        level[int(held[place])] = taking
    _kernels.relabelled(start, held, flipped, many, giving, taking)
    assert (start[0], start[4], sorted(held)) == (10, 23, list(range(100, 123)))
    for one in range(4):
        assert {level[int(i)] for i in held[start[one] : start[one + 1]]} <= {one}


@pytest.mark.parametrize(("mechanism", "neighbours"), SMALL)
def test_counts_and_residuals_stay_those_of_the_records(monkeypatch, mechanism, neighbours):
    given = asia_evidence(mechanism, neighbours)
    network = given.network
    sweeps = []

    def checked(rng, layout, theta, records, n, residual, counts, *rest):
        n = fast(rng, layout, theta, records, n, residual, counts, *rest)
        columns = {name: records[:n, v].astype(np.int64) for v, name in enumerate(network.order)}
        left = [t.values - t.statistics(contingency_table(columns, t.variables, t.shape)) for t in given.tables]
        assert np.array_equal(residual, np.concatenate(left))
        families = {f[0]: contingency_table(columns, f, network.shape(f)) for f in network.families}
        assert np.array_equal(counts, by_records.flat_tables(network, families))
        assert np.allclose(np.add.reduceat(theta, np.cumsum([0, *by_records.row_sizes(layout)[:-1]])), 1)
        sweeps.append(n)
        return n

    fast = compiled(_kernels.sweep)
    monkeypatch.setattr(by_records, "compiled", lambda _: checked)
    drawn = draw_by_records(given, uneven(network), rng=np.random.default_rng(5), draws=50, burn_in=50, chains=1)
    assert len(sweeps) == 100
    assert all(len(column) == sweeps[-1] for column in drawn.records.values())


def test_steps_adapt_in_burn_in_and_nowhere_else(monkeypatch):
    given = asia_evidence(dg.LaplaceMechanism(1), "add-remove")
    seen = []

    def watched(*arguments):
        seen.append((arguments[8].copy(), *arguments[10:12]))
        return fast(*arguments)

    fast = compiled(_kernels.sweep)
    monkeypatch.setattr(by_records, "compiled", lambda _: watched)
    draw_by_records(given, uneven(given.network), rng=np.random.default_rng(6), draws=30, burn_in=20, chains=1)
    reach, *_ = zip(*seen, strict=True)
    assert all(not np.array_equal(one, two) for one, two in pairwise(reach[:21]))
    assert all(np.array_equal(reach[20], later) for later in reach[21:])
    assert len({tuple(rest) for _, *rest in seen[20:]}) == 1


def test_an_interruption_stops_every_chain_after_its_sweep(monkeypatch):
    swept, before = threading.Event(), set(threading.enumerate())
    swept_after = []

    def endless(rng, layout, theta, records, n, *rest):
        swept_after.append(swept.is_set())
        swept.set()
        return n

    main, waiting = threading.get_ident(), interruption.result_of

    def interrupted(work):
        if threading.get_ident() != main:
            return waiting(work)
        assert swept.wait(600)  # a guard against a hang, no clock: the first sweep sets it
        raise KeyboardInterrupt

    monkeypatch.setattr(by_records, "compiled", lambda _: endless)
    monkeypatch.setattr(interruption, "result_of", interrupted)
    with pytest.raises(KeyboardInterrupt):
        draw_by_records(LAPLACE, uneven(CHAIN), rng=np.random.default_rng(1), draws=10_000_000, burn_in=0)
    left = set(threading.enumerate()) - before
    assert not any(thread.name.startswith(("ThreadPoolExecutor", "dpgraph")) for thread in left)


def test_draws_repeat_with_the_generator_and_chains_differ():
    one, two = (
        draw_by_records(LAPLACE, uneven(CHAIN), rng=np.random.default_rng(9), draws=20, burn_in=5, thin=3)
        for _ in range(2)
    )
    assert one.tables == two.tables
    assert not np.array_equal(one.tables["b"][0], one.tables["b"][1])
    assert one.method == "records"
    assert one.latent_tables().n == 4


@pytest.mark.proof
def test_chains_that_have_not_mixed_go_on_and_keep_the_enumerated_posterior(monkeypatch):
    """Three rounds by a clock that counts its readings: a draw is kept of every eighth sweep."""
    clock, concentration, settings = count(), uneven(CHAIN), {"draws": 4_000, "burn_in": 0}
    monkeypatch.setattr(by_records, "time", SimpleNamespace(perf_counter=clock.__next__))
    monkeypatch.setattr(draws_module, "MOST_R_HAT", 0.9)
    drawn = draw_by_records(LAPLACE, concentration, rng=np.random.default_rng(12), longest=6, **settings)
    assert next(clock) == 5
    exact, _ = enumerated(LAPLACE, concentration, [4])
    assert_agree(simulated(drawn, LAPLACE), exact)
    assert np.abs(drawn.means["b"] - drawn.flat("b").mean(axis=0)).max() < 0.01


def test_every_second_draw_stays_where_chains_go_on(monkeypatch):
    monkeypatch.setattr(draws_module, "MOST_R_HAT", 0.9)
    plans, go_on = [], by_records.RecordChain.go_on

    def told(chain, plan):
        before = chain.theta.copy()
        go_on(chain, plan)
        plans.append(plan)
        assert (chain.theta[:100] == before[1:201:2]).all()
        assert chain.kept == 100

    monkeypatch.setattr(by_records.RecordChain, "go_on", told)
    clock = count()
    monkeypatch.setattr(by_records, "time", SimpleNamespace(perf_counter=clock.__next__))
    settings = {"rng": np.random.default_rng(2), "draws": 201, "burn_in": 10, "longest": 4}
    drawn = draw_by_records(LAPLACE, uneven(CHAIN), **settings)
    assert plans == 2 * [Plan(101, 0, 2)] + 2 * [Plan(101, 0, 4)]
    assert drawn.tables["b"].shape[:2] == (2, 201)
    few = draw_by_records(LAPLACE, uneven(CHAIN), **settings | {"draws": 99, "longest": np.inf})
    assert len(plans) == 4
    assert not few.mixing


@pytest.mark.proof
def test_many_levels_take_two_bytes(plain):
    network = dg.Network.of({"a": range(300), "b": [0, 1]}, {"b": ["a"]})
    values = np.zeros(600, np.int64)
    values[[7, 599]] = 3
    given = Evidence(network, (MeasuredTable(("b", "a"), (2, 300), values, DiscreteLaplace(0.2)),), 6)
    plain(by_records)
    drawn = draw_by_records(given, concentration_tables(network, 0.01), rng=np.random.default_rng(1), draws=3)
    assert drawn.records["a"].max() <= 299
    assert np.isfinite(drawn.tables["a"]).all()


def over_the_prior(hierarchy, totals):
    """The exact law of a variable's counts, and moments of its rows, over every concentration and centre.

    Given a concentration the law of counts is a polynomial in the centre, so Gauss-Legendre sums are exact.

    Args:
        hierarchy: The prior; its ``centre`` is a whole number.
        totals: Counts, shape (tables, levels, *parents).
    """
    nodes, gauss = np.polynomial.legendre.leggauss(16)
    nodes, gauss, levels = (nodes + 1) / 2, gauss / 2, totals.shape[1]
    grid = np.meshgrid(*[nodes] * (levels - 1), indexing="ij")
    left, centre, weight = np.ones_like(grid[0]), [], np.ones_like(grid[0])
    for axis, stick in enumerate(grid):
        shaped = gauss.reshape(-1, *[1] * (levels - 2 - axis))
        centre.append(left * stick)
        weight = weight * left * shaped
        left = left * (1 - stick)
    centre = np.stack([*centre, left]).reshape(levels, -1)
    weight = weight.reshape(-1) * np.prod(centre ** (hierarchy.centre - 1), axis=0)
    total = hierarchy.grid[:, None]
    alpha = (total * centre[:, None]).reshape(levels, -1)
    prior = np.log(np.broadcast_to(weight, (total.size, weight.size)).reshape(-1) / total.size / weight.sum())
    counts = totals.reshape(len(totals), levels, -1, 1)
    shaped, whole = alpha[:, None], alpha.sum(axis=0)
    log = (gammaln(shaped + counts) - gammaln(shaped)).sum(axis=(1, 2)) + prior
    log += (gammaln(whole) - gammaln(whole + counts.sum(axis=1))).sum(axis=1)
    marginal = logsumexp(log, axis=1)
    chosen = np.exp(log - marginal[:, None])[:, None, None]
    sums = whole + counts.sum(axis=1, keepdims=True)
    first = (chosen * (shaped + counts) / sums).sum(axis=-1)
    second = (chosen * (shaped + counts) * (shaped + counts + 1) / sums / (sums + 1)).sum(axis=-1)
    return marginal, first.reshape(len(totals), -1), second.reshape(len(totals), -1)


HIERARCHY = HierarchicalPrior(lowest=0.2, highest=20, steps=3, centre=2)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("given", "sizes"),
    [(LAPLACE, [4]), (RESIDUAL, [4]), (PRIVATE_LAPLACE, range(46))],
    ids=["laplace", "residual", "private n"],
)
def test_concentrations_and_centres_enumerated(given, sizes):
    """Every multiset of records, every concentration, and every centre by exact quadrature.

    Power: the uniform prior in place of the hierarchical one moves some mean by more than .05.
    """
    concentration = uneven(given.network)
    exact, _ = enumerated(given, concentration, sizes, HIERARCHY)
    assert np.abs(exact - enumerated(given, concentration, sizes)[0])[: exact.size // 2 - 1].max() > 0.05
    rng = np.random.default_rng(13)
    drawn = draw_by_records(given, concentration, rng=rng, draws=10_000, burn_in=500, hierarchy=HIERARCHY)
    error = assert_agree(simulated(drawn, given), exact)
    assert error[:-2].max() < 0.005


@pytest.mark.proof
def test_a_centre_and_a_concentration_given_counts():
    """The pair alone, counts held fixed: moments of both against quadrature."""
    counts = np.array([[5, 1, 0], [2, 0, 0], [0, 3, 1], [0, 0, 0]], np.int64)
    marginals = []
    for grid in HIERARCHY.grid:
        one = HierarchicalPrior(lowest=grid, highest=grid, steps=1, centre=2)
        marginals.append(over_the_prior(one, counts.T[None])[0][0])
    exact = np.exp(np.array(marginals) - logsumexp(marginals))
    rng, centre, weight = np.random.default_rng(14), np.full(3, 1 / 3), np.empty(3)
    chosen = []
    for _ in range(40_000):
        chosen.append(_kernels.concentration_chosen(rng, HIERARCHY.grid, centre, counts.reshape(-1), weight))
        _kernels.centre_drawn(rng, chosen[-1], HIERARCHY.centre, centre, counts.reshape(-1))
    shares = np.array(chosen)[:, None] == HIERARCHY.grid
    assert_agree(shares[None].astype(float), exact, comparisons=3)


@pytest.mark.proof
def test_tables_given_exact_counts_enumerated():
    """A variable of three levels and four rows: moments of its tables against quadrature.

    Power: rows under the uniform prior have means off by more than .05.
    """
    network = dg.Network.of({"a": [0, 1, 2, 3], "b": [0, 1, 2]}, {"b": ["a"]})
    counts = np.array([[5, 1, 0], [2, 0, 0], [0, 3, 1], [0, 0, 0]], np.int64).T
    seen = {"a": counts.sum(axis=0), "b": counts}
    _, first, second = over_the_prior(HIERARCHY, counts[None])
    made = by_records.tables_given_counts(network, HIERARCHY, seen, np.random.default_rng(15), 20_000)["b"].reshape(
        1, 20_000, -1
    )
    error = assert_agree(np.concatenate([made, made**2], axis=2), np.concatenate([first[0], second[0]]))
    assert error.max() < 0.005
    assert np.abs(first[0].reshape(3, 4) - (counts + 1) / (counts.sum(axis=0) + 3)).max() > 0.05
