"""Concentrations and centres that move together with tables and records (proofs.md P133), and levels that exchange."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import dpgraph as dg
from dpgraph.inference.chains import Plan, effective_size
from dpgraph.inference.network import _kernels
from dpgraph.inference.network.by_records import RecordChain, draw_rows, kernel_layout, row_sizes
from dpgraph.inference.network.evidence import Evidence, MeasuredTable, concentration_tables
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.scatter import Scatter, same_quantiles
from dpgraph.privacy.noise import DiscreteLaplace

NETWORK = dg.Network.of({"a": [0, 1, 2, 3], "b": [0, 1, 2], "c": [0, 1]}, {"b": ["a"], "c": ["a", "b"]})
LAYOUT = kernel_layout(Evidence(NETWORK, (), 0), concentration_tables(NETWORK, 1.0))
SIZES = row_sizes(LAYOUT)
HIERARCHY = HierarchicalPrior()
B, C = slice(4, 16), slice(16, 40)


def drawn_from_the_prior(rng):
    """A scatter whose centres and concentrations are as before any row, with the flat prior and tables."""
    scatter, prior = Scatter(HIERARCHY, NETWORK, LAYOUT), LAYOUT.prior.copy()
    for cells, shares in ((B, slice(4, 7)), (C, slice(7, 9))):
        levels = shares.stop - shares.start
        scatter._centres[shares] = rng.dirichlet(np.ones(levels))
        prior[cells] = rng.choice(HIERARCHY.grid) * np.tile(
            scatter._centres[shares], (cells.stop - cells.start) // levels
        )
    return scatter, prior, draw_rows(rng, prior, SIZES)


def state(scatter, prior, theta):
    return np.concatenate([np.log([prior[4:7].sum(), prior[16:18].sum()]), scatter._centres[4:], theta])


@pytest.mark.proof
def test_moves_keep_the_prior():
    """20 moves of 2000 states that were drawn from it; a false alarm of any of the 47 numbers has a chance of 1e-6.

    Power: the numbers differ from those before the moves, and without the ratio of the centres' prior they do not
    pass (a planted fault).
    """
    rng, before, after = np.random.default_rng(0), [], []
    for _ in range(2000):
        scatter, prior, theta = drawn_from_the_prior(rng)
        before.append(state(scatter, prior, theta))
        for _ in range(20):
            proposal = scatter.propose(rng, prior, theta)
            for k in np.flatnonzero(np.log(rng.random(2)) < proposal.log_ratio):
                scatter.take(k, proposal, prior, theta)
        after.append(state(scatter, prior, theta))
    one, other = np.array(before), np.array(after)
    assert max(np.corrcoef(a, b)[0, 1] for a, b in zip(one.T[:6], other.T[:6], strict=True)) < 0.6
    assert min(stats.ks_2samp(a, b).pvalue for a, b in zip(one.T, other.T, strict=True)) > 1e-6 / 47


def test_quantiles_stay_and_rows_stay_tables():
    """The same law leaves a row as it is; laws so sparse that entries are 0 by rounding have rows that sum to 1."""
    rng, sizes = np.random.default_rng(1), np.full(500, 3)
    before = np.repeat(rng.choice(HIERARCHY.grid, 500), 3) * rng.dirichlet(np.ones(3), 500).reshape(-1)
    theta = draw_rows(rng, before, sizes)
    np.testing.assert_allclose(same_quantiles(rng, theta, before, before, sizes), theta, atol=1e-7)
    sparse = before * np.repeat(rng.choice([1e-4, 1.0, 1e3], 500), 3)
    moved = same_quantiles(rng, theta, before, sparse, sizes).reshape(-1, 3)
    assert np.isfinite(moved).all()
    np.testing.assert_allclose(moved.sum(axis=1), 1.0)
    impossible = before.reshape(-1, 3) * [1, 0, 1]
    again = same_quantiles(rng, draw_rows(rng, np.maximum(impossible, 1e-300).reshape(-1), sizes),
                           impossible.reshape(-1), impossible.reshape(-1) * 2, sizes)  # fmt: skip
    assert (again.reshape(-1, 3)[:, 1] == 0).all()


@pytest.mark.parametrize("prior", [HierarchicalPrior(1e-3, 1e-3, 1), HierarchicalPrior(1e3, 1e3, 1)], ids=str)
def test_extreme_laws_leave_tables_of_probabilities(prior):
    """Rows far from what their law says, and laws that put all on one level: a chain goes on, its tables sum to 1."""
    chain = chain_of(np.array([[5000, 0, 10], [0, 5000, 10]]), 1, 5, hierarchy=prior)
    for i in range(30):
        chain.sweep(i)
        assert np.isfinite(chain._theta).all()
        np.testing.assert_allclose(np.add.reduceat(chain._theta, [0, 3, 5, 7]), 1.0)


def test_records_follow_their_tables_and_as_few_move_as_need_to():
    """40 000 records of one variable, from a table to another: their levels follow it, and min(p, q) of them stay."""
    rng, n = np.random.default_rng(2), 40_000
    theta, proposed = np.full(40, 0.5), np.full(40, 0.5)
    theta[:4], theta[4:16], proposed[4:16] = [1, 0, 0, 0], np.tile([0.6, 0.3, 0.1], 4), np.tile([0.3, 0.45, 0.25], 4)
    records = np.zeros((n, 3), np.uint8)
    records[:, 1] = rng.choice(3, n, p=theta[4:7])
    old, counts, residual = records.copy(), np.zeros(40, np.int64), np.zeros(0, np.int64)
    room = _kernels.Room(np.empty_like(records), np.empty(41, np.int64), np.empty(n, np.int64), np.empty(n, np.int64))
    gain, many = _kernels.relevelled(rng, LAYOUT, theta, proposed, records, n, residual, 1, room)
    assert gain == 0
    assert np.array_equal(records, old)
    _kernels.settled(LAYOUT, records, residual, counts, 1, many, True, room)
    assert stats.chisquare(np.bincount(records[:, 1]), n * proposed[4:7]).pvalue > 1e-6
    assert stats.binomtest(many, n, 0.3).pvalue > 1e-6
    assert (records != old)[:, 1].sum() == many
    assert counts[4:7].tolist() == (np.bincount(records[:, 1]) - np.bincount(old[:, 1])).tolist()


def chain_of(values, scale, seed, concentration=None, hierarchy=None):
    """A chain of two variables, given one noisy table of both, axes (b, a)."""
    network = dg.Network.of({"a": list(range(values.shape[1])), "b": list(range(len(values)))}, {"b": ["a"]})
    table = MeasuredTable(("b", "a"), values.shape, values.reshape(-1), DiscreteLaplace(scale))
    given, rng = Evidence(network, (table,), int(values.sum())), np.random.default_rng(seed)
    prior = concentration_tables(network, 1.0) | ({} if concentration is None else {"b": concentration})
    return RecordChain((given,), prior, Plan(1, 200), 2, hierarchy, rng)


@pytest.mark.proof
def test_a_concentration_that_noise_hides_mixes():
    """60 rows of two levels, 50 records each, and noise of scale 300: an effective size of 61 and 66 in 3000 sweeps.

    Power: without these moves it was 3 and 8 (seeds 3 and 4).
    """
    chain, seen = chain_of(np.stack([np.full(60, 2), np.full(60, 48)]), 300, 3, hierarchy=HIERARCHY), []
    for i in range(3200):
        chain.sweep(i)
        seen.append(np.log(chain._prior[-2:].sum()))
    size = effective_size(np.array(seen[200:])[None, :, None])[0]
    assert size > 25


def test_a_row_whose_records_share_one_level_reaches_another():
    """40 records of one row, nearly all of one level by the prior, and noise that does not say of which.

    The share of sweeps with most records in the first level is the enumerated one, within five standard errors of a
    chain that seldom changes. Power: were levels to exchange records whatever their concentrations it would be near a
    half, 12 standard errors away; without exchanges the chain stays where it is.
    """
    concentration, count = np.array([[0.01], [0.03]]), np.arange(41)
    log = gammaln(0.01 + count) - gammaln(count + 1.0) + gammaln(0.03 + 40 - count) - gammaln(41.0 - count)
    law = np.exp(log - 2 * np.abs(count - 20) / 40)
    exact = law[21:].sum() / law.sum()
    chain, seen = chain_of(np.array([[20], [20]]), 40, 4, concentration), []
    for i in range(8000):
        chain.sweep(i)
        seen.append(chain.latent[0].counts[-2] > 20)
    kept = np.array(seen[200:], float)
    size = effective_size(kept[None, :, None])[0]
    assert size > 300
    assert abs(kept.mean() - exact) < 5 * np.sqrt(exact * (1 - exact) / size)
