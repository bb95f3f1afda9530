"""Values of several releases: what fits together and what is refused by name."""

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.measurements import DiscreteGaussian, DiscreteLaplace
from dpgraph.structure.joint import JointCounts, PooledCounts, joint_counts, learning, pooled
from dpgraph.structure.tables import NoisyCoefficients, NoisyCounts

CHAIN = dg.Network.of({"a": [0, 1], "b": [0, 1]}, {"b": ["a"]})
BACK = dg.Network.of(CHAIN.domain, {"a": ["b"]})
APART = dg.Network.of(CHAIN.domain, {})
LAW = DiscreteLaplace(30.0)


def counts(network, values, n=None, law=LAW):
    key = network.maximal_families[0]
    return NoisyCounts(network, {key: np.reshape(values, network.shape(key))}, {key: law}, n)


def sums(network, first, n=None):
    blocks = {(): [60], ("a",): [first], ("b",): [4], ("a", "b"): [[9]]}
    blocks = {key: np.reshape(values, (1,) * len(key)) for key, values in blocks.items()}
    return NoisyCoefficients(network, blocks, dict.fromkeys(blocks, LAW), n)


ONE, TWO = counts(CHAIN, [1, 20, 30, 9]), counts(CHAIN, [8, 25, 21, 2])


def test_parts_of_joint_releases_are_taken_apart_and_keep_their_order():
    three = counts(BACK, [3, 3, 50, 4], 60)
    joint = joint_counts(joint_counts(ONE, TWO), three)
    assert joint.parts == (ONE, TWO, three)
    assert joint.n == 60
    assert joint.network is None
    assert learning(joint, BACK).network == BACK == learning(joint, BACK).description
    assert joint_counts(ONE, joint_counts(TWO, three)) == joint
    assert joint_counts(JointCounts((ONE, three), APART), TWO).network is None
    assert joint_counts(joint_counts(ONE, TWO), counts(CHAIN, [0, 0, 0, 5])).network == CHAIN


def test_pooled_values_add_their_rows():
    may, june = counts(CHAIN, [1, 20, 30, 9], 60), counts(CHAIN, [8, 25, 21, 2], 50)
    assert pooled([may, june]).n == 110
    assert pooled([may, TWO]).n is None
    assert pooled([may]) is may
    assert pooled([joint_counts(ONE, TWO), june]).singles == (ONE, TWO, june)
    assert pooled([may, june], network=APART).network == APART
    assert pooled([may], network=APART).network == APART


DOMAINS = {
    "another level": dg.Network.of({"a": [0, 1, 2], "b": [0, 1]}, {"b": ["a"]}),
    "another variable": dg.Network.of({"a": [0, 1], "c": [0, 1]}, {"c": ["a"]}),
    "another order": dg.Network.of({"b": [0, 1], "a": [0, 1]}, {"b": ["a"]}),
}
NAMED = {"another level": "declare a differently", "another variable": "declare b, c differently"}
NAMED["another order"] = "declare the variables in their order differently"


@pytest.mark.parametrize("kind", DOMAINS)
@pytest.mark.parametrize("join", [JointCounts, PooledCounts])
def test_other_domains_are_refused(kind, join):
    other = DOMAINS[kind]
    with pytest.raises(dg.errors.NetworkError, match=NAMED[kind]):
        join((ONE, counts(other, np.arange(other.cells(other.maximal_families[0])))))
    with pytest.raises(dg.errors.NetworkError, match=NAMED[kind]):
        join((ONE, TWO), other)


def test_numbers_of_rows_that_disagree_are_refused_for_the_same_rows_only():
    may, june = counts(CHAIN, [1, 20, 30, 9], 60), counts(CHAIN, [8, 25, 21, 2], 50)
    with pytest.raises(ReleaseError, match="have one n, not 50 and 60"):
        JointCounts((may, june))
    assert PooledCounts((may, june)).n == 110


@pytest.mark.parametrize("join", [JointCounts, PooledCounts])
def test_other_kinds_and_other_numbers_of_parts_are_refused(join):
    with pytest.raises(ReleaseError, match="has at least two parts"):
        join((ONE,))
    with pytest.raises(ReleaseError, match="is of noisy counts or coefficients of a network; got str"):
        join((ONE, "two"))
    with pytest.raises(ReleaseError, match="network= is a Network; got str"):
        join((ONE, TWO), "chain")
    with pytest.raises(ReleaseError, match="is of noisy counts or coefficients of a network; got PooledCounts"):
        join((ONE, PooledCounts((ONE, TWO))))


def test_pooled_releases_are_closed():
    both = PooledCounts((ONE, TWO))
    with pytest.raises(ReleaseError, match="is not joined with others"):
        joint_counts(both, ONE)
    with pytest.raises(ReleaseError, match="is not pooled again"):
        pooled([both, ONE])


@pytest.mark.parametrize("join", [JointCounts, PooledCounts])
def test_the_same_release_twice_is_refused_unless_noise_may_agree(join):
    with pytest.raises(ReleaseError, match="the same release twice"):
        join((ONE, TWO, counts(CHAIN, [1, 20, 30, 9])))
    exact = counts(CHAIN, [1, 20, 30, 9], law=DiscreteLaplace(0.1))  # e^-10 of being anything but the truth
    assert join((exact, counts(CHAIN, [1, 20, 30, 9], law=DiscreteLaplace(0.1)))).n is None
    near = counts(CHAIN, [1, 20, 30, 9], law=DiscreteGaussian(3.0))  # once in a thousand
    assert join((near, counts(CHAIN, [1, 20, 30, 9], law=DiscreteGaussian(3.0)))).n is None


def test_coefficients_are_read_in_their_own_network():
    one, two = sums(CHAIN, 3), sums(CHAIN, 5)
    assert JointCounts((one, two)).network == CHAIN
    assert JointCounts((one, ONE)).network == CHAIN
    for network in (BACK, APART):
        with pytest.raises(ReleaseError, match="coefficients are read in the network they were released of"):
            JointCounts((one, two), network)
        with pytest.raises(ReleaseError, match="coefficients are read in the network they were released of"):
            learning(one, network)
    assert learning(one, CHAIN) == one


def test_a_family_that_no_part_or_not_every_part_holds_is_refused():
    single = NoisyCounts(APART, {("a",): [4, 5], ("b",): [1, 8]}, {("a",): LAW, ("b",): LAW}, None)
    assert JointCounts((single, ONE), CHAIN).network == CHAIN
    with pytest.raises(dg.errors.NetworkError, match="no table holds b, a together"):
        PooledCounts((single, ONE), CHAIN)
    assert PooledCounts((single, ONE), APART).network == APART
    with pytest.raises(dg.errors.NetworkError, match="no table holds b, a together"):
        learning(single, CHAIN)
