"""Concentrations and centres that move together with tables and records (proofs.md P133), and levels that exchange."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import dpgraph as dg
from dpgraph.inference.chains import Plan, effective_size
from dpgraph.inference.network import _kernels
from dpgraph.inference.network.by_records import RecordChain, draw_by_records, draw_rows, kernel_layout, row_sizes
from dpgraph.inference.network.evidence import Evidence, MeasuredTable, concentration_tables
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.inference.network.scatter import Scatter, same_quantiles
from dpgraph.privacy.noise import DiscreteLaplace
from tests.inference.network.test_by_records import HIERARCHY as ENUMERATED
from tests.inference.network.test_by_records import LAPLACE, assert_agree, enumerated, simulated, uneven

NETWORK = dg.Network.of({"a": [0, 1, 2, 3], "b": [0, 1, 2], "c": [0, 1]}, {"b": ["a"], "c": ["a", "b"]})
LAYOUT = kernel_layout(Evidence(NETWORK, (), 0), concentration_tables(NETWORK, 1.0))
HIERARCHY = HierarchicalPrior()


@pytest.mark.proof
def test_moves_keep_the_prior():
    """300 variables of two levels and three rows, from the prior on: their averages over 2500 moves are the prior's.

    Variables are independent, so each number is a t-test of 300 averages; a false alarm of any has a chance of 1e-6.
    Power: a variance of centres off by a tenth is 17 standard errors away, one of tables 23; moves without
    the ratio of the centres' prior do not pass (a planted fault). An exponent of it off by a tenth moves the variance
    by half a hundredth only, as the centres' sum is drawn anew each time, and is not seen.
    """
    names, rng = [f"x{i}" for i in range(300)], np.random.default_rng(0)
    network = dg.Network.of({"a": [0, 1, 2], **{name: [0, 1] for name in names}}, {name: ["a"] for name in names})
    layout = kernel_layout(Evidence(network, (), 0), concentration_tables(network, 1.0))
    scatter, prior, sizes = Scatter(HIERARCHY, network, layout), layout.prior.copy(), row_sizes(layout)
    first = rng.random(300)
    scatter._centres[3:] = np.stack([first, 1 - first], axis=1).reshape(-1)
    prior[3:] = np.repeat(rng.choice(HIERARCHY.grid, 300), 6) * np.tile(scatter._centres[3:].reshape(-1, 2), 3).ravel()
    theta, seen = draw_rows(rng, prior, sizes), []
    for _ in range(2500):
        proposal = scatter.propose(rng, prior, theta)
        for k in np.flatnonzero(np.log(rng.random(300)) < proposal.log_ratio):
            scatter.take(k, proposal, prior, theta)
        place, entry = np.log(prior[3:].reshape(-1, 6)[:, :2].sum(axis=1)), theta[3:].reshape(-1, 6)[:, 0]
        centre = scatter._centres[3:].reshape(-1, 2)[:, 0]
        seen.append(np.stack([centre, (centre - 0.5) ** 2, place, place**2, entry, (entry - 0.5) ** 2]))
    grid = np.log(HIERARCHY.grid)
    spread = 1 / 12 + (1 / (1 + HIERARCHY.grid)).mean() / 6  # of an entry: of its centre, and about it
    exact = [0.5, 1 / 12, grid.mean(), (grid**2).mean(), 0.5, spread]
    averages = np.mean(seen, axis=0)
    assert np.corrcoef(seen[0][0], seen[-1][0])[0, 1] < 0.5
    assert stats.ttest_1samp(averages, np.array(exact)[:, None], axis=1).pvalue.min() > 1e-6 / 6


@pytest.mark.proof
def test_many_moves_keep_the_enumerated_posterior(monkeypatch):
    """Every multiset of four records, with ten such moves in each sweep.

    Power: moves that are accepted whatever the noise says do not pass (a planted fault).
    """
    sweep = RecordChain.sweep

    def often(self, i):
        sweep(self, i)
        for _ in range(10):
            self._rescatter(self._scatter)

    monkeypatch.setattr(RecordChain, "sweep", often)
    concentration = uneven(LAPLACE.network)
    exact, _ = enumerated(LAPLACE, concentration, [4], ENUMERATED)
    settings = {"rng": np.random.default_rng(13), "draws": 2000, "burn_in": 100, "hierarchy": ENUMERATED}
    assert_agree(simulated(draw_by_records(LAPLACE, concentration, **settings), LAPLACE), exact)


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
    """40 records of one row, nearly all of one level by the prior, and noise that hardly says of which.

    The share of sweeps with most records in the first level is the enumerated one, within five standard errors of a
    chain that seldom changes, .47. Power: it would be .73 if levels exchanged records whatever their concentrations,
    and .25 whatever the noise says (planted faults); without exchanges the chain stays where it is.
    """
    concentration, count = np.array([[0.01], [0.03]]), np.arange(41)
    log = gammaln(0.01 + count) - gammaln(count + 1.0) + gammaln(0.03 + 40 - count) - gammaln(41.0 - count)
    law = np.exp(log - 2 * np.abs(count - 30) / 40)
    exact = law[21:].sum() / law.sum()
    chain, seen = chain_of(np.array([[30], [10]]), 40, 4, concentration), []
    for i in range(16_000):
        chain.sweep(i)
        seen.append(chain.latent[0].counts[-2] > 20)
    kept = np.array(seen[200:], float)
    size = effective_size(kept[None, :, None])[0]
    assert size > 600
    assert abs(kept.mean() - exact) < 5 * np.sqrt(exact * (1 - exact) / size)
