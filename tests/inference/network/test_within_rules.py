"""Posteriors, answers and rows of a network with rules: exact, 0 where rules say so, and refusals of the rest."""

import itertools
import warnings

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import gammaln

import dpgraph as dg
from dpgraph.inference.network import _kernels, posterior
from dpgraph.inference.network.by_records import draw_by_records, tables_given_counts
from dpgraph.inference.network.evidence import Evidence, MeasuredTable, concentration_tables
from dpgraph.inference.network.queries import level_thresholds, sample_codes
from dpgraph.inference.queries.asking import levels_drawn
from dpgraph.privacy.errors import ConvergenceWarning, DomainError, InferenceError, NetworkError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace, SumZeroLaplace
from dpgraph.statistics.rows.codes import Codes
from dpgraph.structure.frozen import FrozenMap
from tests.inference.network.test_by_records import assert_agree, multisets

RULES = dg.Rules([{"a": 0, "b": [1, 2]}, {"a": 1, "b": 2}, {"b": 0, "c": 1}])
NETWORK = dg.Network.of(
    {"a": [0, 1, 2], "b": [0, 1, 2], "c": [0, 1], "d": [0, 1]}, {"b": ["a"], "c": ["a", "b"], "d": ["c"]}, RULES
)
TRUTH = dg.HierarchicalPrior().sample(NETWORK, np.random.default_rng(3))


def released(network=NETWORK, mechanism=None, unit="replace", n=400):
    codes = Codes(NETWORK.domain, FrozenMap(sample_codes(TRUTH, n, np.random.default_rng(4))))
    budget = dg.Budget(10, "1e-6", unit=dg.PrivacyUnit(unit))
    noise = dg.testing.SeededNoise(5)
    return dg.release(dg.count(codes, network), mechanism or dg.LaplaceMechanism(1), budget=budget, noise=noise)


def broken(codes):
    """How many rows of codes break a rule."""
    found = 0
    for rule in NETWORK.rules.impossible:
        found += np.logical_and.reduce([np.isin(codes[name], levels) for name, levels in rule.items()]).sum()
    return int(found)


@pytest.mark.parametrize("unit", ["add-remove", "replace"])
@pytest.mark.parametrize("mechanism", [dg.LaplaceMechanism("0.1"), dg.GaussianMechanism(1, "1e-6")], ids=type)
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
def test_nothing_is_estimated_answered_or_sampled_where_rules_say_0(mechanism, unit):
    made = dg.posterior(
        released(mechanism=mechanism, unit=unit), draws=100, seed=0, method=dg.methods.Records(burn_in=50)
    )
    for name in NETWORK.domain.names:
        allowed = NETWORK.allowed(name)
        if allowed is not None:
            assert not made.flat(name)[:, ~allowed].any()
            assert (made.flat(name).mean(axis=0)[allowed] > 0).all()
    assert broken(made.records) == 0
    joint = dg.query(made, ["a", "b"])
    cells = dict(zip(joint.labels, joint.draws.max(axis=0), strict=True))
    assert cells[0, 1] == cells[0, 2] == cells[1, 2] == 0
    assert all(value > 0 for cell, value in cells.items() if cell not in {(0, 1), (0, 2), (1, 2)})
    assert dg.query(made, {"b": 0, "c": 1}).high == 0
    assert dg.query(made, {"b": 0, "c": 1}, method="sampling", samples=500).high == 0
    with pytest.raises(DomainError, match="probability 0"):
        dg.query(made, "c", {"a": 0, "b": 1})
    rows = dg.sample_rows(made.mean(), 20_000, 1)
    assert broken({name: rows[name].to_numpy() for name in rows}) == 0


def test_the_default_keeps_rules_and_says_so():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        made = dg.posterior(released(n=50), draws=20, seed=0)
    assert made.method == "records"
    assert made.reason.startswith("exact: about")


def test_where_chains_take_too_long_a_method_that_keeps_rules_stands_in(monkeypatch):
    monkeypatch.setattr(posterior, "PATIENCE", -1.0)
    noisy = released(n=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert dg.posterior(noisy, draws=20, seed=0).method == "tables"
        pooled = dg.posterior(dg.pooled([noisy.value, released(n=60).value]), draws=20, seed=0)
    assert "the only method of pooled releases that keeps rules" in pooled.reason


@pytest.mark.parametrize("method", ["normal", dg.methods.PlugIn("expected")])
def test_methods_that_do_not_keep_rules_say_which_does(method):
    with pytest.raises(InferenceError, match=r"does not keep the network's rules: .*(records|nearest)"):
        dg.posterior(released(), method=method)


@pytest.mark.parametrize("unit", ["add-remove", "replace"])
@pytest.mark.parametrize(
    "method", ["tables", "plug-in", dg.methods.PlugIn("clipped")], ids=["tables", "nearest", "clipped"]
)
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
def test_quick_methods_give_nothing_where_rules_say_0(method, unit, tmp_path):
    """At epsilon .1 noise is larger than most counts: nothing is 0 but what cannot be."""
    made = dg.posterior(released(mechanism=dg.LaplaceMechanism("0.1"), unit=unit), method=method, draws=100, seed=0)
    drawn = made.tables if method == "tables" else made.sample_tables(np.random.default_rng(0), 100)
    for name in NETWORK.domain.names:
        allowed = NETWORK.allowed(name)
        allowed = np.ones(NETWORK.shape(NETWORK.family(name)), bool) if allowed is None else allowed
        flat = drawn[name].reshape(-1, *allowed.shape)
        assert not flat[:, ~allowed].any()
        assert (flat.mean(axis=0)[allowed] > 0).all()
        np.testing.assert_allclose(flat.sum(axis=1), 1)
        low, high = made.interval(0.9)[name]
        assert not high[~allowed].any()
        assert (high[allowed] > 0).all()
        assert (low <= high).all()
    assert broken(sample_codes(made.mean(), 20_000, np.random.default_rng(1))) == 0
    assert dg.query(made, {"b": 0, "c": 1}).high == 0
    assert dg.query(made, {"b": 0, "c": 0}).low > 0
    dg.save(made, tmp_path / "model.npz")
    assert dg.load(tmp_path / "model.npz").network == NETWORK


def test_concentrations_are_above_0_where_a_level_may_be_and_nowhere_else():
    good = concentration_tables(NETWORK, 1.0)
    dg.results.DirichletPosterior(NETWORK, FrozenMap(good))
    for cell, value in (((1, 0), 0.1), ((0, 0), 0.0), ((0, 0), -1.0)):
        bad = good["b"].copy()
        bad[cell] = value
        with pytest.raises(NetworkError, match="0 where rules say so"):
            dg.results.DirichletPosterior(NETWORK, FrozenMap(good | {"b": bad}))


def test_the_nearest_tables_within_rules_are_those_of_a_general_solver():
    """Least squares under bounds, where tables that differ in what they share cost a million times as much.

    Power: the same without rules is 1 away in some cell.
    """
    keys, sizes = (("b", "a"), ("c", "b", "a")), ((3, 3), (2, 3, 3))
    network = dg.Network.of(
        {name: NETWORK.domain[name] for name in "abc"}, {"b": ["a"], "c": ["a", "b"]}, NETWORK.rules
    )
    rng, n = np.random.default_rng(3), 60
    masks = [network.possible(key) for key in keys]
    values = [np.where(mask, rng.integers(-6, 18, size), 0) for mask, size in zip(masks, sizes, strict=True)]
    laws = dict(zip(keys, [DiscreteGaussian(3.0), DiscreteGaussian(5.0)], strict=True))
    noisy = dg.results.NoisyCounts(network, FrozenMap(zip(keys, values, strict=True)), FrozenMap(laws), n)
    found = dg.reconcile(noisy, nonnegative=True)
    whole = np.eye(27)[:18].reshape(2, 3, 3, 27)
    first = np.zeros((3, 3, 27))
    first[..., 18:] = np.eye(9).reshape(3, 3, 9)
    rows = [whole.reshape(18, 27) / 5, first.reshape(9, 27) / 3, 1e3 * (whole.sum(axis=0) - first).reshape(9, 27)]
    rows.append(1e3 * first.sum(axis=(0, 1))[None])
    targets = np.concatenate([values[1].ravel() / 5, values[0].ravel() / 3, np.zeros(9), [1e3 * n]])
    free = np.concatenate([masks[1].ravel(), masks[0].ravel()])
    exact = np.zeros(27)
    exact[free] = optimize.lsq_linear(np.concatenate(rows)[:, free], targets, (0, np.inf), tol=1e-14).x
    np.testing.assert_allclose(found.tables["c", "b", "a"], exact[:18].reshape(2, 3, 3), atol=0.02)
    np.testing.assert_allclose(found.tables["b", "a"], exact[18:].reshape(3, 3), atol=0.02)
    assert not found.tables["b", "a"][~masks[0]].any()
    plain = dg.results.NoisyCounts(dg.Network.of(network.domain, network.parents), noisy.tables, noisy.laws, n)
    assert np.abs(dg.reconcile(plain, nonnegative=True).tables["b", "a"] - exact[18:].reshape(3, 3)).max() > 1


def test_readings_that_do_not_keep_rules_refuse():
    noisy = released()
    with pytest.raises(InferenceError, match="least squares does not keep"):
        dg.reconcile(noisy)
    with pytest.raises(InferenceError, match="name one, laplace or gaussian"):
        dg.privacy_cost(NETWORK, epsilon=1)
    with pytest.raises(InferenceError, match="a public prior does not keep"):
        dg.posterior(noisy, prior=dg.PublicPrior(TRUTH))
    with pytest.raises(InferenceError, match="a calibration does not keep"):
        dg.audit.calibration(NETWORK, dg.LaplaceMechanism(1))
    with pytest.raises(InferenceError, match="an audit makes up rows"):
        dg.audit.report(NETWORK, epsilon=1)
    plain = dg.Network.of(NETWORK.domain, NETWORK.parents)
    for network, value in ((plain, noisy), (NETWORK, released(plain))):
        with pytest.raises(NetworkError, match="the same rules="):
            dg.posterior(value, network=network)
    with pytest.raises(NetworkError, match="the same rules="):
        dg.posterior([noisy, released(plain)])


def test_releases_of_one_set_of_rules_are_joined_and_pooled():
    two = [released(n=50), released(n=50, mechanism=dg.LaplaceMechanism(2))]
    other = released(n=70)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        drawn = [dg.posterior(two, draws=30, seed=1)]
        drawn.append(dg.posterior(dg.pooled([two[0].value, other.value]), draws=30, seed=1))
    for made in drawn:
        assert all(not made.flat(name)[:, ~NETWORK.allowed(name)].any() for name in "bc")


def test_files_hold_what_rules_leave(tmp_path):
    noisy = released(n=50)
    dg.save(noisy, tmp_path / "release.json")
    back = dg.load(tmp_path / "release.json")
    assert back.value == noisy.value
    assert back.value.network.rules == NETWORK.rules
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        made = dg.posterior(back, draws=30, seed=1)
    dg.save(made, tmp_path / "posterior.npz")
    assert dg.load(tmp_path / "posterior.npz").network == NETWORK
    dg.write_html(noisy, tmp_path / "release.html")


def test_a_last_level_of_probability_0_is_never_drawn():
    """Tenths sum to just below 1: the largest uniform number passed them all."""
    table = np.array([0.1] * 10 + [0.0])
    assert table.cumsum()[-2] < 1
    last = np.nextafter(1, 0)
    assert (last >= table.cumsum()[:-1]).sum() == 10
    assert (last >= level_thresholds(table, 0)).sum() == 9
    assert levels_drawn(table[None], np.zeros((1, 1), int), (), np.array([[last]])).item() == 9

    class Last:
        def random(self):
            return last

    layout_nodes = np.array([[0, 11, 0, 0, 0]])
    records = np.zeros((1, 1), np.int64)
    _kernels.draw(Last(), layout_nodes, table, 0, records, 0)
    assert records.item() == 9


PAIR = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]}, dg.Rules([{"a": 0, "b": [0, 2]}, {"a": 1, "b": 2}]))


def pair_evidence(law, n):
    values = np.array([[0, 3], [4, 2], [0, 0]])
    if n is None:
        values = np.array([[0, 2], [1, -1], [0, 0]])
    return Evidence(PAIR, (MeasuredTable(("b", "a"), (3, 2), values.reshape(-1), law),), n)


@pytest.mark.proof
@pytest.mark.parametrize(
    ("law", "n"),
    [(DiscreteLaplace(1.0), 6), (DiscreteGaussian(0.8), 6), (SumZeroLaplace(0.7), 9), (DiscreteLaplace(1.2), None)],
    ids=["laplace", "gaussian", "sum-zero", "private n"],
)
def test_the_posterior_within_rules_enumerated(law, n):
    """Three cells may hold rows: all counts of them, with tables integrated out.

    Power: moments are known to .01; the same without rules has cells of .1 or more where these are 0.
    """
    given = pair_evidence(law, n)
    prior = {name: table * 1.5 for name, table in concentration_tables(PAIR, 1.0).items()}
    joint = np.concatenate([multisets(3, size) for size in ([n] if n else range(41))])  # (b, a): (1, 0), (0, 1), (1, 1)
    away = np.zeros((len(joint), 3, 2))
    for place, cell in enumerate([(1, 0), (0, 1), (1, 1)]):
        away[:, cell[0], cell[1]] = joint[:, place]
    off = given.tables[0].values.reshape(3, 2) - away
    absolute, square = law.penalties
    log = -(absolute * np.abs(off) + square * off**2).sum(axis=(1, 2))
    total = joint.sum(axis=1)
    ones = joint[:, 1:].sum(axis=1)
    log += gammaln(1.5 + total - ones) + gammaln(1.5 + ones) - gammaln(3 + total)  # a
    log += gammaln(1.5 + joint[:, 1]) + gammaln(1.5 + joint[:, 2]) - gammaln(3 + ones)  # b given a = 1
    log += gammaln(total + 1) - gammaln(joint + 1).sum(axis=1)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    exact = [weight @ ((1.5 + ones) / (3 + total)), weight @ ((1.5 + joint[:, 1]) / (3 + ones)), weight @ total]
    drawn = draw_by_records(given, prior, rng=np.random.default_rng(2), draws=20_000, burn_in=500)
    size = np.full(drawn.shape, n) if drawn.n is None else drawn.n
    found = np.stack([drawn.tables["a"][..., 1], drawn.tables["b"][..., 0, 1], size], axis=2)
    error = assert_agree(found, np.array(exact))
    assert error[:2].max() < 0.01
    assert (drawn.tables["b"][..., 1, 0] == 1).all()
    assert not drawn.tables["b"][..., [0, 2], 0].any()
    assert broken_pair(drawn.records) == 0


def broken_pair(records):
    return int((~PAIR.possible(("a", "b"))[records["a"], records["b"]]).sum())


@pytest.mark.proof
def test_a_centre_and_a_concentration_within_rules():
    """Given counts, rows with different possible levels: moments against a sum over the simplex (proofs.md P108).

    Power: moments are known to .01; leaving the exponents out moves the centre by .05.
    """
    counts = np.array([[5, 1, 0], [0, 6, 2], [9, 0, 3], [0, 0, 0]], np.int64)
    mask = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1]], bool)
    grid, spread, side = np.array([0.5, 4.0, 30.0]), 2.0, (np.arange(200) + 0.5) / 200
    centres = np.array([(x, y, 1 - x - y) for x, y in itertools.product(side, side) if x + y < 1 - 1e-9])
    log = np.zeros((len(grid), len(centres)))
    for row, kept in zip(counts, mask, strict=True):
        for g, concentration in enumerate(grid):
            share = concentration * centres[:, kept] / centres[:, kept].sum(axis=1, keepdims=True)
            log[g] += gammaln(concentration) - gammaln(concentration + row.sum())
            log[g] += (gammaln(share + row[kept]) - gammaln(share)).sum(axis=1)
    log += stats.dirichlet([spread] * 3).logpdf(centres.T)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    exact = np.concatenate([weight.sum(axis=0) @ centres, weight.sum(axis=0) @ centres**2, weight.sum(axis=1)])
    rng, centre, room, prior = np.random.default_rng(8), np.full(3, 1 / 3), np.empty(3), mask.astype(float).reshape(-1)
    found = []
    for _ in range(40_000):
        _kernels.relearned_within(rng, prior, counts.reshape(-1), grid, spread, centre, room)
        rows = prior.reshape(4, 3)
        assert ((rows > 0) == mask).all()
        found.append([*centre, *centre**2, *np.isclose(rows[3].sum(), grid)])
    error = assert_agree(np.array(found)[None], exact)
    assert error.max() < 0.01


@pytest.mark.proof
def test_intervals_of_worlds_of_the_prior_hold_the_truth():
    """Ranks of tables drawn from the hierarchical prior among draws given their exact counts are uniform."""
    prior, rng, ranks = dg.HierarchicalPrior(), np.random.default_rng(9), []
    for _ in range(300):
        truth = prior.sample(PAIR, rng)
        codes = Codes(PAIR.domain, FrozenMap(sample_codes(truth, 20, rng)))
        counts = dg.count(codes, PAIR)
        exact = {name: counts.sensitive_margin(PAIR.family(name)) for name in "ab"}
        drawn = tables_given_counts(PAIR, prior, exact, rng, 40)
        ranks.append((drawn["b"][:, 0, 1] < truth.table("b")[0, 1]).mean())
    assert stats.kstest(np.array(ranks) + rng.random(300) / 41, "uniform").pvalue > 1e-6
