"""Arc prices from the changed tables alone equal those of the whole network priced again."""

import pytest
from hypothesis import given, settings

import dpgraph as dg
from dpgraph.analysis.cost import arc_costs
from dpgraph.structure.margins import weights
from tests.mechanisms.additive.test_sensitivity import small_networks
from tests.tiers import examples


def root_sum(network):
    return sum(weight ** (1 / 3) for weight in weights(network, network.maximal_families))


def priced_again(network, parent, child):
    parents = {name: [p for p in above if (p, name) != (parent, child)] for name, above in network.parents.items()}
    return (root_sum(network) / root_sum(dg.Network.of(network.domain, parents))) ** 1.5


@settings(max_examples=examples(200), deadline=None)
@given(small_networks())
def test_every_arc_of_random_networks(network):
    for row in arc_costs(network):
        assert row["cost"] == pytest.approx(priced_again(network, row["parent"], row["child"]), rel=1e-9)


@pytest.mark.parametrize("name", ["asia", "sachs", "alarm", "insurance"])
def test_every_arc_of_known_networks(name):
    network = dg.read_network(f"example:{name}")
    prices = arc_costs(network)
    assert len(prices) == network.to_networkx().number_of_edges()
    costs = [row["cost"] for row in prices]
    assert costs == sorted(costs, reverse=True)
    for row in prices:
        assert row["cost"] == pytest.approx(priced_again(network, row["parent"], row["child"]), rel=1e-9)
        cells, levels = network.cells(network.family(row["child"])), network.domain.sizes[row["parent"]]
        assert row["cells"] == cells - cells // levels


def test_a_network_without_arcs_has_no_prices():
    network = dg.Network.of({"a": [0, 1]}, {})
    assert arc_costs(network) == []
    assert list(dg.privacy_cost(network, epsilon=1).arcs.columns) == ["parent", "child", "cells", "cost"]
