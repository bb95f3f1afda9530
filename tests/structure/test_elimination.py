"""Variable elimination against brute force, and its upper bound where tables are too small."""

import itertools

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.structure.elimination import elimination_order, largest_sum, moral_graph
from tests.mechanisms.additive.test_sensitivity import small_networks

SIZES = {"a": 2, "b": 3, "c": 1, "d": 2, "e": 3}


@st.composite
def factors(draw):
    scopes = draw(
        st.lists(st.permutations(list(SIZES)).flatmap(lambda p: st.integers(0, 3).map(lambda k: tuple(p[:k]))))
    )
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    return [(scope, rng.integers(-9, 10, [SIZES[name] for name in scope])) for scope in scopes]


def brute_force(made):
    best = None
    for levels in itertools.product(*(range(size) for size in SIZES.values())):
        row = dict(zip(SIZES, levels, strict=True))
        total = sum(int(values[tuple(row[name] for name in scope)]) for scope, values in made)
        best = total if best is None else max(best, total)
    return best


@settings(max_examples=150, deadline=None)
@given(factors(), st.permutations(list(SIZES)), st.sampled_from([1, 6, 12, 10**6]))
def test_the_largest_sum_is_exact_or_an_upper_bound(made, order, limit):
    value, exact = largest_sum(made, order, limit)
    truth = brute_force(made)
    assert value >= truth
    assert not exact or value == truth
    assert exact or limit < 10**6


def test_a_small_limit_is_noticed():
    """A triangle of disagreements: at most two of three edges can differ, but edge by edge all three could."""
    differ = np.array([[0, 1], [1, 0]])
    made = [(("a", "b"), differ), (("b", "c"), differ), (("a", "c"), differ)]
    assert largest_sum(made, "abc", 8) == (2, True)
    assert largest_sum(made, "abc", 4) == (3, False)


@settings(max_examples=60, deadline=None)
@given(small_networks())
def test_the_width_is_the_largest_neighbourhood_in_the_order(network):
    order, width = elimination_order(network)
    assert sorted(order) == sorted(network.domain.names)
    graph = nx.Graph()
    graph.add_nodes_from(network.domain.names)
    graph.add_edges_from(pair for family in network.families for pair in itertools.combinations(family, 2))
    assert {name: set(graph[name]) for name in graph} == moral_graph(network)
    seen = 0
    for name in order:
        around = list(graph[name])
        seen = max(seen, len(around))
        graph.add_edges_from(itertools.combinations(around, 2))
        graph.remove_node(name)
    assert width == seen


@pytest.mark.parametrize(("name", "width"), [("asia", 2), ("sachs", 3), ("alarm", 4), ("win95pts", 8)])
def test_the_widths_of_known_networks(name, width):
    """No wider than networkx's own min-fill order."""
    network = dg.read_network(f"example:{name}")
    graph = nx.Graph(
        pair for family in network.families for pair in itertools.combinations(family, 2) if len(family) > 1
    )
    assert elimination_order(network)[1] == width <= nx.approximation.treewidth_min_fill_in(graph)[0]
