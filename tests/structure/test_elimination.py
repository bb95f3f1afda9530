"""Variable elimination against brute force, and its upper bound where tables are too small."""

import itertools
import math

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.structure import elimination
from dpgraph.structure.elimination import elimination_order, largest_sum, moral_graph
from tests.mechanisms.additive.test_sensitivity import small_networks
from tests.tiers import examples

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


@settings(max_examples=examples(150), deadline=None)
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


@settings(max_examples=examples(60), deadline=None)
@given(small_networks())
def test_the_width_is_the_largest_neighbourhood_in_the_order(network):
    order, width = elimination_order(network)
    assert sorted(order) == sorted(network.domain.names)
    graph = nx.Graph()
    graph.add_nodes_from(network.domain.names)
    graph.add_edges_from(pair for family in network.families for pair in itertools.combinations(family, 2))
    assert {name: set(graph[name]) for name in graph} == moral_graph(network.families)
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


def naive(neighbours, position, sizes, rule, kept):
    """The greedy order by its definition: every rank is computed anew at every step."""
    neighbours, order = {name: set(mine) for name, mine in neighbours.items()}, []

    def rank(name):
        mine = neighbours[name]
        fill = sum(two not in neighbours[one] for one, two in itertools.combinations(sorted(mine), 2))
        weight = math.prod(sizes[other] for other in mine) * sizes[name]
        return (weight if rule == "weight" else fill), len(mine), position[name]

    while waiting := [name for name in neighbours if name not in kept]:
        gone = min(waiting, key=rank)
        mine = neighbours.pop(gone)
        order.append(gone)
        for other in mine:
            neighbours[other] = (neighbours[other] | mine) - {other, gone}
    return tuple(order)


@pytest.mark.parametrize("rule", ["fill", "weight"])
def test_the_order_is_the_greedy_one(rule):
    """Ranks that are kept up to date are those of the graph at each step: the orders are equal, ties and all."""
    rng, longest = np.random.default_rng(0), 0
    for _ in range(60):
        n = int(rng.integers(1, 22))
        sizes = {f"x{i}": int(rng.integers(1, 5)) for i in range(n)}
        arcs = {f"x{i}": [f"x{j}" for j in rng.choice(i, min(i, 3), replace=False)] for i in range(1, n)}
        network = dg.Network.of({name: list(range(size)) for name, size in sizes.items()}, arcs)
        graph, kept = (
            elimination.moral_graph(network.families),
            frozenset(rng.choice(sorted(sizes), n // 4, replace=False)),
        )
        wanted = naive(graph, network.position, sizes, rule, kept)
        found, width, _ = elimination._eliminated(graph, network.position, sizes, rule, kept)
        assert found == wanted
        longest = max(longest, width)
    assert longest > 4


def test_a_hub_is_no_matter_of_pairs(monkeypatch):
    """Two thousand leaves of one variable: what is joined or looked at grows as they do, not as their pairs."""
    joined = []
    real = elimination._Shrinking._join
    monkeypatch.setattr(elimination._Shrinking, "_join", lambda self, *them: joined.append(1) or real(self, *them))
    names = {f"x{i}": [0, 1] for i in range(2000)}
    order, width = elimination.elimination_order(dg.Network.of(names, {f"x{i}": ["x0"] for i in range(1, 2000)}))
    assert (len(order), width, len(joined)) == (2000, 1, 0)


def test_from_a_wide_clique_on_the_order_is_that_of_the_domain(monkeypatch):
    monkeypatch.setattr(elimination, "WIDEST", 3)
    names = {f"x{i}": [0, 1] for i in range(8)}
    clique = {f"x{i}": [f"x{j}" for j in range(i)] for i in range(1, 7)} | {"x7": ["x0"]}
    graph = elimination.moral_graph(dg.Network.of(names, clique).families)
    position = {name: place for place, name in enumerate(names)}
    found = elimination._eliminated(graph, position, dict.fromkeys(names, 2), "fill")
    assert found == (("x7", *(f"x{i}" for i in range(7))), 6, 2**7)
