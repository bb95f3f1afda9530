"""Pairs that borrow from each other: nearer the truth where causes are common, no nearer dependence where none are."""

import itertools

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.graphs.pair_estimates import read_pairs
from dpgraph.inference.graphs.trees import is_small
from dpgraph.testing import SeededNoise

ADD = dg.PrivacyUnit("add-remove")
LEVELS = {f"x{i}": list("abc")[: 2 + i % 2] for i in range(16)}


def table(seed, n, causes):
    """Rows whose columns depend through one hidden class of two, or not at all; and the pairs of the population."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(2, size=n)
    cells, laws = {}, {}
    for name, levels in LEVELS.items():
        law = rng.dirichlet(np.ones(len(levels)), 2 if causes else 1)
        laws[name] = law if causes else np.repeat(law, 2, axis=0)
        cells[name] = np.array(levels)[(rng.random(n)[:, None] > laws[name].cumsum(axis=1)[hidden]).sum(axis=1)]
    true = {pair: 0.5 * laws[pair[0]].T @ laws[pair[1]] for pair in itertools.combinations(LEVELS, 2)}
    return pd.DataFrame(cells), true


def released(rows, seed, mechanism):
    counts = dg.count(rows, dg.all_pairs(dg.Domain.of(LEVELS)))
    budget = dg.Budget(100, "1e-3", unit=ADD, accounting="zcdp" if mechanism.event else "basic")
    return dg.release(counts, mechanism, budget=budget, noise=SeededNoise(seed))


MECHANISMS = {
    "Gaussian, residual basis": dg.GaussianMechanism(1, "1e-6", basis="residual"),
    "Gaussian, tables": dg.GaussianMechanism(1, "1e-6"),
    "Laplace": dg.LaplaceMechanism(1),
}


def missed(pairs, true):
    return np.mean([np.abs(pairs.table(*pair) - exact).sum() / 2 for pair, exact in true.items()])


@pytest.mark.proof
@pytest.mark.parametrize("mechanism", MECHANISMS.values(), ids=MECHANISMS.keys())
def test_pairs_of_one_cause_are_much_nearer_the_truth(mechanism):
    apart = []
    for seed in range(4):
        rows, true = table(seed, 1000, causes=True)
        value = released(rows, seed, mechanism).value
        apart.append(missed(read_pairs(value, borrow=True), true) / missed(read_pairs(value), true))
    assert np.mean(apart) < 0.85, apart


@pytest.mark.proof
def test_pairs_of_no_cause_are_as_near_the_truth():
    apart = []
    for seed in range(6):
        rows, true = table(seed, 1000, causes=False)
        value = released(rows, seed, MECHANISMS["Gaussian, residual basis"]).value
        apart.append(missed(read_pairs(value, borrow=True), true) / missed(read_pairs(value), true))
    assert np.mean(apart) < 1.02, apart


@pytest.mark.proof
@pytest.mark.parametrize("borrow", [False, True])
def test_draws_of_the_pairs_lie_around_what_is_shrunk(borrow):
    """The mean over draws of a pair's excess is what the population's estimate is, with and without factors."""
    rows, _ = table(1, 1000, causes=True)
    pairs = read_pairs(released(rows, 1, MECHANISMS["Gaussian, residual basis"]).value, borrow=borrow)
    rng = np.random.default_rng(2)
    drawn = [pairs.redrawn(rng).excess for _ in range(300)]
    far = []
    for pair in pairs.excess:
        every = np.stack([one[pair] for one in drawn])
        spread = every.std(axis=0).mean()
        first, second = (pairs.singles[name] for name in pair)
        centre = (pairs.table(*pair) - np.outer(first, second)) * pairs.n
        far.append(np.abs(every.mean(axis=0) - centre).mean() / spread)
    assert np.mean(far) < 0.5  # chance alone: .06; the population's pairs are shrunk somewhat more than the rows'


def test_a_domain_whose_joint_is_not_written_down_borrows():
    rows, true = table(3, 1000, causes=True)
    domain = dg.Domain.of(LEVELS)
    assert not is_small(domain)
    noisy = released(rows, 3, MECHANISMS["Gaussian, residual basis"])
    learned = dg.choose_network(noisy)
    some = {pair: true[pair] for pair in list(true)[::5]}
    made = [dg.query(learned.probabilities, list(pair)).draws[0].reshape(some[pair].shape) for pair in some]
    apart = [np.abs(table - exact).sum() / 2 for table, exact in zip(made, some.values(), strict=True)]
    assert np.mean(apart) < 0.85 * missed(read_pairs(noisy.value), some)


@pytest.mark.proof
@pytest.mark.filterwarnings("ignore::dpgraph.privacy.errors.PriorWarning")
def test_columns_of_no_cause_have_few_edges_however_uneven():
    """190 pairs: noise in uneven variables, taken for a cause that all share, would join some fifty of them."""
    rng = np.random.default_rng(1)
    levels = {f"x{i}": list("abcd") for i in range(20)}
    rows = pd.DataFrame({name: rng.choice(found, 4000, p=rng.dirichlet(np.ones(4))) for name, found in levels.items()})
    learned = dg.learn_network(rows, levels, unit=ADD, epsilon="0.3", delta="1e-6", noise=SeededNoise(1))
    assert sum(map(len, learned.network.parents.values())) <= 25
    assert (learned.edges["share"] >= 0.9).sum() <= 1


def test_what_is_chosen_is_a_function_of_the_release():
    rows, _ = table(3, 1000, causes=True)
    noisy = released(rows, 3, MECHANISMS["Gaussian, residual basis"])
    one, other = dg.choose_network(noisy), dg.choose_network(noisy)
    assert one.network == other.network
    assert one.probabilities == other.probabilities
