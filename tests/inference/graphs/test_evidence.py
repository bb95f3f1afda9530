"""The estimated evidence of a graph, against the sum over all tables of rows that could have been."""

import itertools
import warnings
from math import comb, lgamma

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.inference.graphs.entropy import fitted_joint
from dpgraph.inference.graphs.joint import Joint, can_weigh, log_evidence
from dpgraph.inference.graphs.pair_estimates import read_pairs
from dpgraph.privacy.measurements import DiscreteGaussian

DOMAIN = dg.Domain.of({"a": [0, 1], "b": [0, 1]})
APART, JOINED = dg.Network.of(DOMAIN, {}), dg.Network.of(DOMAIN, {"b": ["a"]})


def released(table, scale):
    pair = dg.all_pairs(DOMAIN)
    return dg.results.NoisyCounts(pair, {("a", "b"): table}, {("a", "b"): DiscreteGaussian(scale)}, int(table.sum()))


def beta(ones, others):
    """ln of the probability of a sequence of so many ones and others, its probability uniform."""
    return lgamma(ones + 1) + lgamma(others + 1) - lgamma(ones + others + 2)


def exact(table, scale, network):
    """ln of the sum over all tables of n rows of their probability under the graph and of the noise's."""
    n = int(table.sum())
    found = []
    for cuts in itertools.combinations(range(n + 3), 3):
        cells = np.diff([-1, *cuts, n + 3]) - 1
        x = cells.reshape(2, 2)
        ways = np.log(float(comb(n, cells[0]) * comb(n - cells[0], cells[1]) * comb(n - cells[0] - cells[1], cells[2])))
        prior = beta(*x.sum(1))
        prior += beta(*x.sum(0)) if network is APART else beta(*x[0]) + beta(*x[1])
        found.append(ways + prior - ((table - x) ** 2).sum() / (2 * scale**2))
    return float(np.logaddexp.reduce(found))


@pytest.mark.parametrize("scale", [1.0, 3.0])
@pytest.mark.parametrize(
    "table", [[[12, 8], [9, 11]], [[17, 3], [4, 16]], [[25, 3], [8, 4]], [[10, 10], [10, 10]], [[19, 1], [11, 9]]]
)
def test_the_weight_of_an_edge_is_near_that_of_the_sum_over_all_tables(table, scale):
    table = np.array(table)
    pairs = read_pairs(released(table, scale))
    joint = Joint(DOMAIN.names, fitted_joint(pairs))
    found = log_evidence(pairs, joint, JOINED) - log_evidence(pairs, joint, APART)
    wanted = exact(table, scale, JOINED) - exact(table, scale, APART)
    assert abs(found - wanted) <= 0.15 + 0.2 * abs(wanted)
    assert can_weigh(pairs)


@pytest.mark.proof
def test_alternatives_weigh_as_much_as_their_evidence():
    """Of a pair alone: the empty graph and the edge, in one direction."""
    table = np.array([[30, 10], [10, 30]])
    noisy = released(table, 8.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = dg.choose_network(noisy).alternatives(5, draws=200)
    assert sum(one.weight for one in found) == pytest.approx(1)
    joined = sum(one.weight for one in found if any(one.network.parents.values()))
    odds = np.exp(exact(table, 8.0, JOINED) - exact(table, 8.0, APART))
    assert len(found) > 1
    assert joined == pytest.approx(odds / (1 + odds), abs=0.1)


def test_a_domain_too_large_for_its_joint_has_alternatives_without_weights():
    domain = dg.Domain.of({name: list(range(60)) for name in "abc"})
    pairs = dg.all_pairs(domain)
    tables = {pair: np.diag(np.full(60, 100)) for pair in pairs.tables}
    law = dict.fromkeys(pairs.tables, DiscreteGaussian(1.0))
    learned = dg.choose_network(dg.results.NoisyCounts(pairs, tables, law, 6000))
    assert all(one.weight is None for one in learned.alternatives(2, draws=2))
