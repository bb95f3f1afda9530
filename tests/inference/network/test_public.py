"""A public table as a prior: the posterior enumerated, what is read of public values, and what is refused."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln, logsumexp

import dpgraph as dg
from dpgraph.inference._kernels import compiled
from dpgraph.inference.network import _kernels
from dpgraph.inference.network.by_records import PublicRows, draw_by_records
from dpgraph.inference.network.evidence import concentration_tables
from dpgraph.inference.network.public import public_rows
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace
from tests.inference.network.test_by_records import (
    HIERARCHY,
    PAIR,
    assert_agree,
    enumerated,
    multisets,
    over_the_prior,
    simulated,
    tables_evidence,
)
from tests.inference.network.test_prior import NETWORK, RANKED, rank, released, uniform

PUBLIC = PublicRows(
    {"a": np.array([0.3, 0.7]), "b": np.array([[0.9, 0.2], [0.1, 0.8]])},
    {"a": np.array(np.inf), "b": np.array([20.0, 4.0])},
    np.array([2.0, 50.0]),
    np.array([1.0, 0.5, 0.5]),
)
ROWS = pd.DataFrame(dg.sample_rows(dg.HierarchicalPrior().sample(NETWORK, np.random.default_rng(3)), 200, 4))


def followed_or_not(given, public, sizes):
    """Exact posterior means over every multiset of rows, choices of the rows of PAIR, and what is under them."""
    joint = np.concatenate([multisets(4, n) for n in sizes]).reshape(-1, 2, 2)
    n = joint.sum(axis=(1, 2))
    noise = np.abs(given.tables[0].values - np.moveaxis(joint, 1, 2).reshape(-1, 4)) / given.tables[0].scale
    exponent = noise**2 / 2 if isinstance(given.tables[0].law, DiscreteGaussian) else noise
    shared = gammaln(n + 1) - gammaln(joint + 1).sum(axis=(1, 2)) - exponent.sum(axis=1)
    rows = [joint.sum(axis=2), joint[:, 0], joint[:, 1]]
    shares = [public.tables["a"], public.tables["b"][:, 0], public.tables["b"][:, 1]]
    learned = {
        own: over_the_prior(HIERARCHY, np.stack([rows[row] for row in own], axis=2)) for own in ((1,), (2,), (1, 2))
    }
    logs, means = [], []
    for choice in product(range(len(public.before)), repeat=3):
        held, log, first = public.before.copy(), shared.copy(), [None] * 3
        for row, g in enumerate(choice):
            log += np.log(held[g] / held.sum())
            held[g] += 1
            if g or not row:
                worth = float(public.worth["b"][row - 1] if row else public.worth["a"])
                alpha = shares[row] / (1 / public.grid[g - 1] + 1 / worth) if g else np.ones(2)
                total = alpha + rows[row]
                log += gammaln(total).sum(axis=1) - gammaln(total.sum(axis=1))
                log += gammaln(alpha.sum()) - gammaln(alpha).sum()
                first[row] = total / total.sum(axis=1, keepdims=True)
        if own := tuple(row for row in (1, 2) if not choice[row]):
            marginal, mean, _ = learned[own]
            log += marginal
            for at, row in enumerate(own):
                first[row] = mean.reshape(len(joint), 2, -1)[:, :, at]
        logs.append(log)
        means.append(np.concatenate([first[0], np.stack(first[1:], axis=2).reshape(-1, 4), n[:, None]], axis=1))
    weight = np.exp(np.array(logs) - logsumexp(logs))
    return np.tensordot(weight, np.array(means), 2)


GAUSSIAN = tables_evidence(PAIR, DiscreteGaussian(1.5), [[5, -1, 0, 2]], 4)
PRIVATE = tables_evidence(PAIR, DiscreteLaplace(1.5), [[5, -2, 1, 2]], None)


@pytest.mark.proof
@pytest.mark.parametrize(("given", "sizes"), [(GAUSSIAN, [4]), (PRIVATE, range(30))], ids=["gaussian", "private n"])
def test_the_posterior_under_a_public_table_enumerated(given, sizes):
    """Every multiset of records, every choice of each row, every concentration, and every centre by exact quadrature.

    Power: without the public table some mean is off by more than .05.
    """
    exact = followed_or_not(given, PUBLIC, sizes)
    concentration = concentration_tables(PAIR, 1.0)
    without, _ = enumerated(given, concentration, sizes, HIERARCHY)
    assert np.abs(exact - without[[*range(6), -2]]).max() > 0.05
    unused = followed_or_not(
        given, PublicRows(PUBLIC.tables, PUBLIC.worth, PUBLIC.grid, np.array([1, 1e-12, 1e-12])), sizes
    )
    assert np.abs(unused - without[[*range(6), -2]]).max() < 1e-9
    settings = {"draws": 10_000, "burn_in": 500, "hierarchy": HIERARCHY, "public": PUBLIC}
    drawn = draw_by_records(given, concentration, rng=np.random.default_rng(17), **settings)
    error = assert_agree(simulated(drawn, given)[:, :, [*range(6), -2]], exact)
    assert error[:-1].max() < 0.005


@pytest.mark.proof
def test_the_posterior_is_calibrated_where_worlds_are_near_the_public_one():
    """60 worlds from the prior itself, 20 parameters."""
    prior, ranks = dg.PublicPrior(ROWS), []
    for stream in np.random.SeedSequence(5).spawn(60):
        rng = np.random.default_rng(stream)
        truth = prior.sample(NETWORK, rng)
        made = dg.posterior(released(truth, rng), prior=prior, seed=rng, **RANKED)
        parts = [rank(truth.table(v)[:-1], made.flat(v)[:, :-1], rng).ravel() for v in NETWORK.domain.names]
        ranks.append(np.concatenate(parts))
    assert uniform(np.stack(ranks))


def test_public_rows_are_counted_in_the_tables_whose_values_they_have():
    rows = {"a": [0, 0, 1, None, 1, 0], "b": [1, None, 0, 0, 0, None]}
    found = public_rows(dg.PublicPrior(rows), PAIR)
    # a is 3 to 2, and a record for each level is spread as 4 to 3; b as 3 to 2 in three complete rows
    assert found.tables["a"].tolist() == pytest.approx([(3 + 8 / 7) / 7, (2 + 6 / 7) / 7])
    assert found.tables["b"].T.tolist() == [pytest.approx([1.2 / 3, 1.8 / 3]), pytest.approx([3.2 / 4, 0.8 / 4])]
    assert found.worth["b"].tolist() == pytest.approx([3, 4])
    with_more = pd.DataFrame(rows).assign(c="x")
    assert np.array_equal(public_rows(dg.PublicPrior(with_more), PAIR).tables["b"], found.tables["b"])


def test_nulls_of_public_rows_count_as_the_declared_missing_level():
    domain = {"age": dg.Bins([0, 20, 90], missing=True), "job": dg.Categories(["x", "?"], missing="?")}
    rows = pd.DataFrame({"age": [5.0, 30.0, None, 40.0], "job": ["x", None, None, "x"]})
    found = public_rows(dg.PublicPrior(rows), dg.Network.of(domain, {}))
    assert found.tables["age"].tolist() == pytest.approx(
        [(1 + 3 * 2 / 7) / 7, (2 + 3 * 3 / 7) / 7, (1 + 3 * 2 / 7) / 7]
    )
    assert found.tables["job"].tolist() == [0.5, 0.5]


def test_a_public_model_of_other_families_is_read_by_its_joint():
    turned = dg.Network.of(PAIR.domain, {"a": ["b"]})
    model = dg.Probabilities(turned, {"b": [0.25, 0.75], "a": [[0.2, 0.6], [0.8, 0.4]]})
    found = public_rows(dg.PublicPrior(model), PAIR)
    assert found.tables["a"] == pytest.approx(np.array([0.5, 0.5]))
    assert found.tables["b"] == pytest.approx(np.array([[0.1, 0.4], [0.9, 0.6]]), abs=1e-4)
    assert np.isinf(found.worth["b"]).all()
    certain = dg.Probabilities(PAIR, {"a": [1.0, 0.0], "b": [[1.0, 0.0], [0.0, 1.0]]})
    assert all((table > 0).all() for table in public_rows(dg.PublicPrior(certain), PAIR).tables.values())


RELEASED = released(dg.HierarchicalPrior().sample(NETWORK, np.random.default_rng(1)), np.random.default_rng(2))


@pytest.mark.parametrize(
    ("public", "message"),
    [
        (dg.count(ROWS, NETWORK), "got Counts. Exact counts are private until they are released"),
        (RELEASED, r"got Release.*dg.PublicPrior\(dg.posterior\(release\).mean\(\)\)"),
        ("table.csv", "takes a data frame of public rows, or Probabilities of a public model; got str"),
        (ROWS[["a", "b", "d"]], "the public table has no column 'c'"),
        (ROWS.assign(b=5), "column 'b' has values outside its levels; declared: 0, 1"),
        (dg.Probabilities(PAIR, PUBLIC.tables), "the public model declares 'a' otherwise than the network"),
        (dg.Probabilities(dg.Network.of({"b": [0, 1]}, {}), {"b": [0.5, 0.5]}), "the public model has no variable 'a'"),
    ],
)
def test_what_is_no_public_table_of_the_domain_is_refused(public, message):
    with pytest.raises(dg.errors.DPGraphError, match=message):
        dg.posterior(RELEASED, prior=dg.PublicPrior(public), draws=10)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lowest": 0}, "lowest must be a finite number above 0; got 0"),
        ({"highest": float("inf")}, "highest must be a finite number above 0"),
        ({"steps": 0}, "steps must be a whole number, at least 1"),
        ({"lowest": 2.0, "highest": 1.0}, "highest must be at least lowest; got 1.0 below 2.0"),
        ({"otherwise": 1.0}, "otherwise must be a HierarchicalPrior; got float"),
    ],
)
def test_a_public_prior_out_of_range_is_refused(settings, message):
    with pytest.raises(dg.errors.InferenceError, match=message):
        dg.PublicPrior(ROWS, **settings)


@pytest.mark.parametrize("method", ["tables", "normal", "plug-in"])
def test_methods_that_cannot_learn_refuse_a_public_prior(method):
    with pytest.raises(
        dg.errors.InferenceError, match=f"number for method '{method}': one that learns needs method 'rec"
    ):
        dg.posterior(RELEASED, prior=dg.PublicPrior(ROWS), method=method)


def test_the_release_behind_a_model_is_in_the_record_and_counts_once():
    model = dg.posterior(RELEASED, method="plug-in").mean()
    with pytest.raises(dg.errors.InferenceError, match="the public model was learned from this release, which would"):
        dg.posterior(RELEASED, prior=dg.PublicPrior(model))
    truth = dg.HierarchicalPrior().sample(NETWORK, np.random.default_rng(6))
    this_year = released(truth, np.random.default_rng(7))
    made = dg.posterior(this_year, prior=dg.PublicPrior(model), method=dg.methods.Records(burn_in=10), draws=10, seed=0)
    assert made.provenance.event.epsilon == 2


def test_draws_under_it_are_saved_and_a_learned_network_takes_it(tmp_path):
    settings = {"prior": dg.PublicPrior(ROWS), "method": dg.methods.Records(burn_in=10), "draws": 10, "seed": 0}
    made = dg.posterior(RELEASED, **settings)
    dg.save(made, tmp_path / "m.npz")
    assert np.array_equal(dg.load(tmp_path / "m.npz").flat("c"), made.flat("c"))
    learned = dg.learn_network(ROWS, NETWORK.domain, epsilon=5, noise=dg.testing.SeededNoise(1))
    assert learned.posterior(**settings).method == "records"
    with pytest.raises(dg.errors.InferenceError, match="a public prior is for "):
        learned.posterior(graphs="averaged", **settings)


def test_compiled_and_plain_choices_are_the_same():
    """Five rows of three levels, one of them public and without records, twenty times."""
    counts, sizes = np.array([9, 1, 0, 3, 3, 4, 0, 0, 0, 1, 0, 0, 50, 20, 30], np.int64), np.full(5, 3)
    public = np.random.default_rng(0).dirichlet(np.ones(3), 5).reshape(-1)
    found = []
    for loop in (compiled(_kernels.followed), _kernels.followed):
        rng, held, choice = np.random.default_rng(1), np.array([6.0, 0.5, 0.5]), np.zeros(5, np.int64)
        for _ in range(20):
            prior = np.full(15, 0.7)
            loop(rng, prior, counts, sizes, public, np.full(5, 40.0), PUBLIC.grid, held, choice, np.empty(3))
            found.append(np.concatenate([prior, held, choice]))
    assert len({tuple(one[15:]) for one in found}) > 3
    assert np.allclose(found[:20], found[20:], rtol=1e-12)
    assert held.sum() == 7
