"""Networks: families, closures and orders against brute force, and every graph that is refused."""

import dataclasses
import itertools
import math
import pickle
import re
import tracemalloc

import networkx as nx
import pytest
from hypothesis import given

import dpgraph as dg
from dpgraph.structure.frozen import FrozenMap
from dpgraph.structure.margins import measured_families
from tests.strategies import networks

ASIA = dg.read_network("example:asia")
ALARM = dg.read_network("example:alarm")
YES_NO = ["no", "yes"]


@given(networks())
def test_families_are_a_variable_and_its_parents(network):
    assert network.families == tuple((name, *network.parents[name]) for name in network.domain.names)
    assert network.cell_count == sum(
        math.prod(len(network.domain.levels(name)) for name in family) for family in network.families
    )
    for family in network.families:
        assert network.shape(family) == tuple(len(network.domain.levels(name)) for name in family)


@given(networks())
def test_maximal_families_are_those_inside_no_other(network):
    expected = [
        family for family in network.families if not any(set(family) < set(other) for other in network.families)
    ]
    assert list(network.maximal_families) == expected


@given(networks())
def test_the_downward_closure_is_every_subset_of_a_family(network):
    names = network.domain.names
    powerset = itertools.chain.from_iterable(itertools.combinations(names, size) for size in range(len(names) + 1))
    expected = [subset for subset in powerset if any(set(subset) <= set(family) for family in network.families)]
    assert list(network.downward_closure()) == expected


@given(networks())
def test_the_order_is_topological_and_holds_every_variable_once(network):
    assert sorted(network.order) == sorted(network.domain.names)
    place = {name: i for i, name in enumerate(network.order)}
    assert all(place[parent] < place[name] for name, parents in network.parents.items() for parent in parents)


@given(networks())
def test_networkx_graphs_come_and_go(network):
    graph = network.to_networkx()
    assert list(graph) == list(network.domain.names)
    assert set(graph.edges) == {(parent, name) for name, parents in network.parents.items() for parent in parents}
    back = dg.Network.of(network.domain, graph)
    assert {name: set(parents) for name, parents in back.parents.items()} == {
        name: set(parents) for name, parents in network.parents.items()
    }


@given(networks())
def test_a_network_is_a_value(network):
    again = dg.Network.of(
        dict(network.domain.variables), {name: list(parents) for name, parents in network.parents.items()}
    )
    assert again == network
    assert hash(again) == hash(network)
    loaded = pickle.loads(pickle.dumps(network))
    assert loaded == network
    assert measured_families(loaded) == measured_families(network)
    with pytest.raises(dataclasses.FrozenInstanceError):
        network.parents = {}
    with pytest.raises(TypeError):
        network.parents[network.domain.names[0]] = ()


def test_networks_that_lay_their_tables_out_otherwise_are_different():
    one = dg.Network.of({"a": YES_NO, "b": YES_NO}, {})
    other = dg.Network.of({"b": YES_NO, "a": YES_NO}, {})
    assert one != other
    assert len({one, other}) == 2


def test_alarm():
    """Beinlich et al. 1989: 37 variables, 46 arcs; 752 is the sum of the sizes of its tables."""
    assert len(ALARM.families) == 37
    assert sum(map(len, ALARM.parents.values())) == 46
    assert len(ALARM.maximal_families) == 25
    assert ALARM.cell_count == 752


def test_asia():
    """Lauritzen and Spiegelhalter 1988: 8 variables; 10 pairs and 2 triples lie in a family, and the empty set does."""
    closure = ASIA.downward_closure()
    assert len(closure) == 1 + 8 + 10 + 2
    assert [len(subset) for subset in closure] == sorted(len(subset) for subset in closure)
    assert {frozenset(family) for family in ASIA.maximal_families} == {
        frozenset(family)
        for family in [
            ("asia", "tub"),
            ("lung", "smoke"),
            ("bronc", "smoke"),
            ("either", "lung", "tub"),
            ("xray", "either"),
            ("dysp", "bronc", "either"),
        ]
    }


def test_a_variable_that_is_not_named_has_no_parents():
    network = dg.Network.of({"a": YES_NO, "b": YES_NO}, {"b": ["a"]})
    assert network.parents == {"a": (), "b": ("a",)}
    assert dg.Network.of({"a": YES_NO}, {}).families == (("a",),)


def test_a_pgmpy_network_is_a_graph():
    from pgmpy.models import DiscreteBayesianNetwork

    model = DiscreteBayesianNetwork()
    model.add_nodes_from(["a", "b", "c"])
    model.add_edges_from([("a", "b")])
    network = dg.Network.of({"c": YES_NO, "b": YES_NO, "a": YES_NO}, model)
    assert network.parents == {"a": (), "b": ("a",), "c": ()}
    assert network.domain.names == ("c", "b", "a")


def test_the_repr_is_short():
    assert repr(ASIA) == "Network(8 variables, 8 arcs, 36 cells)"


@pytest.mark.parametrize(
    ("arcs", "cycle"),
    [
        ([("a", "a")], "a"),
        ([("a", "b"), ("b", "a")], "ab"),
        ([("a", "b"), ("b", "c"), ("c", "a"), ("a", "d"), ("e", "b")], "abc"),
        ([("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"), ("e", "c")], "cde"),
    ],
)
@pytest.mark.parametrize("as_graph", [False, True])
def test_a_cycle_is_named_along_its_arcs(arcs, cycle, as_graph):
    parents = {name: [parent for parent, child in arcs if child == name] for name in "abcde"}
    graph = nx.DiGraph(arcs) if as_graph else parents
    with pytest.raises(dg.errors.NetworkError, match="the graph has a cycle: ") as caught:
        dg.Network.of(dict.fromkeys("abcde", YES_NO), graph)
    named = str(caught.value).removeprefix("the graph has a cycle: ").split(" -> ")
    assert named[0] == named[-1]
    assert sorted(named[1:]) == sorted(cycle)
    assert all(arc in arcs for arc in itertools.pairwise(named))


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ({"a": ["z"]}, "'a' has an unknown parent 'z'; declare it in the domain"),
        ({"z": ["a"]}, "'z' is in the graph but not in the domain; declare its levels"),
        ({"a": ["b", "b"]}, "'a' names its parent 'b' twice"),
        ({"a": "b"}, "the parents of 'a' must be a list of names; got 'b'"),
        ({"a": None}, "the parents of 'a' must be a list of names; got None"),
        ({"a": 1}, "the parents of 'a' must be a list of names; got 1"),
        ({"a": [1]}, "the parents of 'a' must be names"),
        ({"a": [["b"]]}, "the parents of 'a' must be names"),
        ({1: []}, "1 is in the graph but not in the domain"),
        ([("a", "b")], "a mapping or an nx.DiGraph; got list"),
        (None, "a mapping or an nx.DiGraph; got NoneType"),
        pytest.param(nx.Graph([("a", "b")]), "a mapping or an nx.DiGraph; got Graph", id="a graph without directions"),
        pytest.param(
            nx.DiGraph([("a", "z")]), "'z' is in the graph but not in the domain", id="a graph of another domain"
        ),
    ],
    ids=repr,
)
def test_a_bad_graph_is_refused(parents, message):
    with pytest.raises(dg.errors.NetworkError, match=message):
        dg.Network.of({"a": YES_NO, "b": YES_NO}, parents)


def test_an_empty_level_list_is_named():
    with pytest.raises(dg.errors.NetworkError, match="variable 'b': the level list is empty"):
        dg.Network.of({"a": YES_NO, "b": []}, {})


@pytest.mark.parametrize(("parents", "cells"), [(23, "16,777,216"), (60, f"{2**61:,}")])
def test_an_absurdly_large_family_is_refused_before_memory_is_taken(parents, cells):
    names = [f"v{i}" for i in range(parents)]
    domain = dg.Domain.of(dict.fromkeys([*names, "child"], YES_NO))
    tracemalloc.start()
    with pytest.raises(
        dg.errors.NetworkError, match=re.escape(f"the family of 'child' (child, {', '.join(names)}) has {cells} cells")
    ):
        dg.Network.of(domain, {"child": names})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000


def test_many_large_families_are_refused_together():
    names = [f"v{i}" for i in range(23)]
    children = {f"c{i}": names[:22] for i in range(12)}
    with pytest.raises(dg.errors.NetworkError, match=f"the families have {12 * 2**23 + 23 * 2:,} cells"):
        dg.Network.of(dict.fromkeys([*names, *children], YES_NO), children)


def test_the_largest_allowed_family_is_allowed():
    domain = dg.Domain.of({"a": range(2500), "b": range(4000)})
    assert dg.Network.of(domain, {"a": ["b"]}).cells(("a", "b")) == 10_000_000
    with pytest.raises(dg.errors.NetworkError, match="10,000,000"):
        dg.Network.of({"a": range(2501), "b": range(4000)}, {"a": ["b"]})


def test_a_naive_bayes_network_points_from_the_target():
    network = dg.naive_bayes_network({"a": YES_NO, "t": YES_NO, "b": YES_NO}, "t")
    assert network.parents == {"a": ("t",), "t": (), "b": ("t",)}
    with pytest.raises(dg.errors.NetworkError, match="no variable 'z'"):
        dg.naive_bayes_network({"a": YES_NO}, "z")


def test_a_network_made_directly_is_checked_too():
    domain = dg.Domain.of({"a": [0, 1], "b": [0, 1]})
    with pytest.raises(dg.errors.NetworkError, match="cycle"):
        dg.Network(domain, FrozenMap({"a": ("b",), "b": ("a",)}))
    with pytest.raises(dg.errors.NetworkError, match="every variable needs its parents"):
        dg.Network(domain, FrozenMap({"a": ()}))
