"""A graph chosen from released pairs: what it recovers, what it obeys, what it refuses, and that it draws nothing."""

import itertools
import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest

import dpgraph as dg
from dpgraph.inference.graphs import choosing
from dpgraph.inference.graphs import learned as learned_module
from dpgraph.inference.graphs.constraints import constraints_within
from dpgraph.inference.graphs.field import fitted_field
from dpgraph.inference.graphs.pair_estimates import Part, fitted, likely_laws, read_pairs
from dpgraph.inference.graphs.trees import one_clique
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.structure.margins import Margins

DOMAIN = dg.Domain.of({"a": [0, 1], "b": [0, 1, 2], "c": [0, 1], "d": [0, 1, 2]})
CHAIN = dg.Network.of(DOMAIN, {"b": ["a"], "c": ["b"], "d": ["c"]})


def exact_pairs(joint, n=100_000, scale=1e-3):
    """A release of all pairs of a joint, with noise so small that it does not matter."""
    pairs = dg.all_pairs(DOMAIN)
    names = DOMAIN.names
    tables = {
        pair: np.rint(n * joint.sum(axis=tuple(i for i, name in enumerate(names) if name not in pair))).astype(int)
        for pair in pairs.tables
    }
    laws = dict.fromkeys(pairs.tables, _law(scale))
    return dg.results.NoisyCounts(pairs, tables, laws, None)


def _law(scale):
    return DiscreteGaussian(scale)


def chain_joint(seed=0):
    rng = np.random.default_rng(seed)
    a = np.array([0.6, 0.4])
    b, c, d = (rng.dirichlet(np.full(k, 0.7), size=p).T for k, p in ((3, 2), (2, 3), (3, 2)))
    return np.einsum("a,ba,cb,dc->abcd", a, b, c, d)


@pytest.fixture(scope="module")
def chain():
    return chain_joint()


def margins_of(probabilities):
    order = probabilities.network.order
    index = {name: chr(97 + i) for i, name in enumerate(DOMAIN.names)}
    terms = [(probabilities.table(n), "".join(index[x] for x in probabilities.network.family(n))) for n in order]
    return np.einsum(",".join(t for _, t in terms) + "->abcd", *(t for t, _ in terms))


@pytest.mark.parametrize("grown", [False, True])
def test_the_joint_of_a_chain_is_found_again(chain, grown, monkeypatch):
    """Its pairs determine it: the maximum-entropy joint with these pairs is the chain itself."""
    if grown:
        monkeypatch.setattr(choosing, "is_small", lambda domain: False)
    learned = dg.choose_network(exact_pairs(chain))
    found = margins_of(learned.probabilities)
    assert np.abs(found - chain).sum() / 2 < 0.01
    skeleton = {frozenset((p, v)) for v, above in learned.network.parents.items() for p in above}
    assert {frozenset("ab"), frozenset("bc"), frozenset("cd")} <= skeleton


def test_an_explicit_joint_has_the_pairs_it_was_fitted_to(chain):
    field = fitted_field(read_pairs(exact_pairs(chain)), one_clique(DOMAIN))
    for pair in itertools.combinations(DOMAIN.names, 2):
        axes = tuple(i for i, name in enumerate(DOMAIN.names) if name not in pair)
        assert field.margin(pair) == pytest.approx(chain.sum(axis=axes), abs=2e-3)


@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {"required": [("d", "a")]},
        {"required": [("a", "d"), ("c", "d")], "forbidden": [("a", "b"), ("b", "a")]},
        {"order": ["d", "c", "b", "a"]},
        {"order": [["c", "d"], ["a"]]},
        {"target": "c"},
        {"max_parents": 1},
        {"max_parents": 0},
        {"max_cells": 6},
        {"order": ["a", "b", "c", "d"], "required": [("a", "d")], "max_parents": 1},
    ],
)
def test_constraints_are_obeyed(chain, grown, settings, monkeypatch):
    if grown:
        monkeypatch.setattr(choosing, "is_small", lambda domain: False)
    network = dg.choose_network(exact_pairs(chain), constraints=dg.Constraints(**settings)).network
    edges = {(parent, name) for name, above in network.parents.items() for parent in above}
    assert set(settings.get("required", ())) <= edges
    assert not set(settings.get("forbidden", ())) & edges
    tier = {name: i for i, item in enumerate(settings.get("order", ())) for name in item}
    assert all(tier[p] <= tier[v] for p, v in edges if p in tier and v in tier)
    assert max(map(len, network.parents.values())) <= (settings.get("max_parents", 9))
    assert all(network.cells(family) <= settings.get("max_cells", 99) for family in network.families)
    if "target" in settings:
        assert {("c", name) for name in "abd"} <= edges
        assert not network.parents["c"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"required": [("a", "b")], "forbidden": [("a", "b")]}, "both required and forbidden"),
        ({"required": [("a", "b"), ("b", "a")]}, "cycle"),
        ({"required": [("b", "a")], "order": ["a", "b"]}, "against the order"),
        ({"required": [("a", "d"), ("b", "d")], "max_parents": 1}, "required parents"),
        ({"required": [("b", "d")], "max_cells": 8}, "cells"),
        ({"required": [("a", "nowhere")]}, "nowhere"),
        ({"required": ["ab"]}, "required holds edges"),
        ({"required": "ab"}, "list of edges"),
        ({"required": [("a", "a")]}, "two variables"),
        ({"order": ["a", "a"]}, "twice"),
        ({"order": "ab"}, "order is a list"),
        ({"order": ["nowhere"]}, "nowhere"),
        ({"target": "nowhere"}, "nowhere"),
        ({"target": "a", "max_parents": 0}, "max_parents is 0"),
        ({"target": "a", "forbidden": [("a", "b")]}, "both required and forbidden"),
        ({"max_parents": -1}, "max_parents"),
        ({"max_parents": True}, "max_parents"),
        ({"max_cells": 0}, "max_cells"),
    ],
)
def test_contradictions_are_refused(chain, settings, words):
    with pytest.raises(dg.errors.NetworkError, match=words):
        dg.choose_network(exact_pairs(chain), constraints=dg.Constraints(**settings))


@pytest.mark.parametrize("value", [None, 3, "release", CHAIN])
def test_what_is_no_release_is_refused(value):
    with pytest.raises(dg.errors.InferenceError, match="noisy counts or coefficients"):
        dg.choose_network(value)


@pytest.mark.parametrize("grown", [False, True])
def test_pairs_that_drown_make_an_empty_graph_and_a_warning(grown, monkeypatch):
    """Noise a thousand times the rows: whatever it says, the graph says nothing."""
    if grown:
        monkeypatch.setattr(choosing, "is_small", lambda domain: False)
    pairs = dg.all_pairs(DOMAIN)
    even = {pair: np.full(pairs.shape(pair), 10_000 // pairs.cells(pair)) for pair in pairs.tables}
    noisy = dg.results.NoisyCounts(pairs, even, dict.fromkeys(pairs.tables, _law(1e4)), None)
    with pytest.warns(dg.errors.PriorWarning, match="no pair stands out"):
        learned = dg.choose_network(noisy)
    assert not any(learned.network.parents.values())
    assert learned.edges.empty


def test_a_release_without_pairs_makes_an_empty_graph():
    alone = Margins.of_tables(DOMAIN, [(name,) for name in DOMAIN.names])
    tables = {table: np.full(alone.shape(table), 60) for table in alone.tables}
    noisy = dg.results.NoisyCounts(alone, tables, dict.fromkeys(tables, _law(1.0)), None)
    with pytest.warns(dg.errors.PriorWarning):
        assert not any(dg.choose_network(noisy).network.parents.values())


def test_a_variable_that_nobody_measured_is_refused():
    some = Margins.of_tables(DOMAIN, [("a", "b")])
    noisy = dg.results.NoisyCounts(some, {("a", "b"): np.full((2, 3), 60)}, {("a", "b"): _law(1.0)}, None)
    with pytest.raises(dg.errors.NetworkError, match="no table holds"):
        dg.choose_network(noisy)


@pytest.mark.proof
def test_the_same_release_has_the_same_graph_and_alternatives(chain, monkeypatch):
    monkeypatch.setattr(learned_module, "DRAWS", 3)
    noisy = exact_pairs(chain, n=500, scale=10.0)
    one, other = dg.choose_network(noisy), dg.choose_network(noisy)
    assert one.network == other.network
    assert all((one.probabilities.table(v) == other.probabilities.table(v)).all() for v in DOMAIN.names)
    assert one.alternatives(3, draws=2) == other.alternatives(3, draws=2)
    shares = [found.share for found in one.alternatives(99, draws=3, seed=1)]
    assert sum(shares) == pytest.approx(1)
    assert shares == sorted(shares, reverse=True)
    assert one.edges["share"].between(0, 1).all()
    assert set(one.to_networkx().edges) == set(zip(one.edges["parent"], one.edges["child"], strict=True))


def test_a_posterior_reads_every_table_where_none_holds_a_family(chain):
    learned = dg.choose_network(
        exact_pairs(chain, n=300, scale=2.0), constraints=dg.Constraints(required=[("a", "d"), ("b", "d"), ("c", "d")])
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        drawn = learned.posterior(graphs="chosen", draws=20, seed=0)
    assert drawn.mean().network == learned.network
    with pytest.raises(dg.errors.InferenceError, match="records alone"):
        learned.posterior(method="tables")


@pytest.mark.proof
def test_a_learned_network_is_saved_as_its_probabilities(chain, tmp_path):
    domain, network = DOMAIN, dg.all_pairs(DOMAIN)
    rows = dg.sample_rows(dg.choose_network(exact_pairs(chain)).probabilities, 400, np.random.default_rng(0))
    noisy = dg.release(dg.count(rows, network), dg.LaplaceMechanism(5), budget=dg.Budget(5))
    learned = dg.choose_network(noisy)
    dg.save(learned, tmp_path / "learned.json")
    loaded = dg.load(tmp_path / "learned.json")
    assert loaded == learned.probabilities
    again = dg.load(tmp_path / "learned.json", release=True)
    assert again == noisy
    assert dg.choose_network(again).network == learned.network
    assert domain == loaded.network.domain


def shrunk(values, variance):
    """The kept part of cells of one pair, by its likely laws."""
    first, second = np.full(4, 0.25), np.full(5, 0.2)
    part = Part(values, np.full(values.shape, variance), 20_000.0, first, second)
    return part.kept(likely_laws(part.nats()[None])[0])


def test_shrinking_keeps_what_stands_out_and_drops_what_does_not():
    strong = np.outer([3.0, -1, -1, -1], [4.0, -1, -1, -1, -1]) * 100
    assert shrunk(strong, 1.0).min() > 0.99
    noise = np.random.default_rng(0).normal(0, 1.0, (4, 5))
    assert shrunk(noise - noise.mean(), 25.0).max() < 0.1


def test_draws_of_a_pair_have_the_errors_of_what_is_shrunk():
    """Worlds of 500 pairs of two levels and three, drawn from a law of the grid, under noise as large.

    Truths, less what is kept, have the mean square of draws, less what is kept: both once margins are taken off. The
    ratio of 500 pairs' squares, two in each, has a standard error of .05; without the share of free cells it is 3.
    """
    first, second, n = np.array([0.5, 0.5]), np.full(3, 1 / 3), 1000.0
    rng, spread = np.random.default_rng(4), 40.0
    off = [np.eye(size) - 1 / size for size in (2, 3)]
    parts, true = [], []
    for _ in range(500):
        exact, noise = (off[0] @ rng.normal(0, spread, (2, 3)) @ off[1] for _ in range(2))
        true.append(exact)
        parts.append(Part(exact + noise, np.full((2, 3), spread**2 / 3), n, first, second))
    laws = likely_laws(np.array([part.nats() for part in parts]))
    missed, drawn = 0.0, 0.0
    for part, likely, exact in zip(parts, laws, true, strict=True):
        part = part._replace(laws=likely)
        missed += ((part.mean - exact) ** 2).sum()
        drawn += ((off[0] @ part.drawn(rng) @ off[1] - part.mean) ** 2).sum()
    assert 0.7 < drawn / missed < 1.4


def test_proportional_fitting_gives_the_margins():
    first, second = np.array([0.2, 0.8]), np.array([0.5, 0.3, 0.2])
    table = fitted(np.array([[0.3, -0.2, 0.1], [0.2, 0.5, 0.1]]), first, second, np.full((2, 3), 1e-6))
    assert (table >= 0).all()
    assert table.sum(axis=1) == pytest.approx(first, abs=1e-4)
    assert table.sum(axis=0) == pytest.approx(second)


def test_tiers_are_read_from_names_and_lists():
    asked = constraints_within(dg.Constraints(order=["a", ["b", "c"]]), DOMAIN)
    assert asked.allows("a", "b")
    assert asked.allows("c", "b")
    assert not asked.allows("b", "a")
    assert asked.allows("d", "a")
    assert not asked.may_enter("b", [])
    assert asked.may_enter("d", [])


@pytest.mark.parametrize("order", [["a", "b"], [["d"], ["a"], [], ["b"]]])
def test_required_edges_that_go_round_the_order_by_a_variable_without_a_tier_are_refused_and_named(chain, order):
    """b -> c -> a is required, and a is before b: no edge of the three is against the order by itself."""
    with pytest.raises(dg.errors.NetworkError, match="contradict") as refused:
        dg.choose_network(
            exact_pairs(chain), constraints=dg.Constraints(required=[("b", "c"), ("c", "a")], order=order)
        )
    for words in ("'b' -> 'c' is required", "'c' -> 'a' is required", "the order has 'a' before 'b'"):
        assert words in str(refused.value)


@pytest.mark.parametrize("seed", range(20))
def test_constraints_are_taken_just_where_some_order_of_all_variables_obeys_them(seed):
    """By enumeration of the orders: one in which every variable may enter after those before it."""
    rng = np.random.default_rng(seed)
    names = DOMAIN.names
    edges = [(p, v) for p, v in itertools.permutations(names, 2) if rng.random() < 0.2]
    tiers = [[name for name in names if rng.random() < 0.4] for _ in range(1)]
    tiers.append([name for name in names if name not in tiers[0] and rng.random() < 0.6])

    def obeys(order):
        at = {name: i for i, name in enumerate(order)}
        return all(at[p] < at[v] for p, v in edges) and all(at[x] < at[y] for x in tiers[0] for y in tiers[1])

    if any(obeys(order) for order in itertools.permutations(names)):
        constraints_within(dg.Constraints(required=edges, order=tiers), DOMAIN)
    else:
        with pytest.raises(dg.errors.NetworkError):
            constraints_within(dg.Constraints(required=edges, order=tiers), DOMAIN)


VERBS = {"plug-in": partial(dg.posterior, method="plug-in"), "auto": dg.posterior}
LAPLACE, FOURIER = dg.LaplaceMechanism(50), dg.FourierMechanism(50)


def released_pairs(mechanism):
    """Of 100 rows in which b, c and d say what a is."""
    a = np.arange(100) % 2
    rows = pd.DataFrame({"a": a, "b": a, "c": a, "d": 2 * a})
    return dg.release(dg.count(rows, dg.all_pairs(DOMAIN)), mechanism, budget=dg.Budget(100))


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("mechanism", [LAPLACE, FOURIER], ids=["counts", "coefficients"])
@pytest.mark.parametrize("given", ["release", "value", "joint", "pooled"])
def test_tables_without_a_graph_have_no_posterior_before_one_is_chosen(verb, mechanism, given):
    """Every variable would be independent of every other, though the tables say that b is a."""
    one, other = released_pairs(mechanism), released_pairs(mechanism)
    made = {"release": one, "value": one.value, "joint": [one, other], "pooled": dg.pooled([one, other])}
    with pytest.raises(dg.errors.InferenceError, match=r"without a graph.*choose_network"):
        VERBS[verb](made[given])


def test_tables_made_consistent_have_no_graph_either():
    with pytest.raises(dg.errors.InferenceError, match=r"without a graph.*choose_network"):
        dg.posterior(dg.reconcile(released_pairs(LAPLACE)), method="plug-in")


@pytest.mark.proof
@pytest.mark.parametrize("verb", VERBS)
def test_margins_are_no_graph_to_learn_and_a_network_is(verb):
    released = released_pairs(LAPLACE)
    with pytest.raises(dg.errors.InferenceError, match="without a graph"):
        VERBS[verb](released, network=dg.all_pairs(DOMAIN))
    made = VERBS[verb](released, network=dg.Network.of(DOMAIN, {"b": ["a"]}))
    assert dg.query(made, "b", given={"a": 1}).mean[1] > 0.8


@pytest.mark.parametrize("mechanism", [LAPLACE, FOURIER], ids=["counts", "coefficients"])
def test_the_posterior_of_a_chosen_network_knows_what_the_tables_say(mechanism):
    """Of the 50 rows with a = 1 all have b = 1; the noise of a cell has a scale below a quarter of a row."""
    learned = dg.choose_network(released_pairs(mechanism), constraints=dg.Constraints(required=[("a", "b")]))
    assert dg.query(learned.posterior(draws=50, seed=0), "b", given={"a": 1}).mean[1] > 0.8


@pytest.mark.parametrize("ask", [lambda one: dg.query(one, "a"), lambda one: dg.sample_rows(one, 5, rng=0)])
def test_probabilities_on_tables_without_a_graph_answer_nothing(ask):
    """Each variable's own could be right; what it has to do with another is not in them."""
    pairs = dg.all_pairs({"a": [0, 1], "b": [0, 1]})
    with pytest.raises(dg.errors.InferenceError, match="without a graph"):
        ask(dg.Probabilities(pairs, {"a": [0.5, 0.5], "b": [0.5, 0.5]}))


@pytest.mark.parametrize("mechanism", [LAPLACE, FOURIER], ids=["counts", "coefficients"])
def test_a_variable_that_no_table_holds_is_named(mechanism):
    rows = pd.DataFrame({name: [0, 1] for name in "abcd"})
    margins = Margins.of_tables(DOMAIN, [("a", "b"), ("d",)])
    released = dg.release(dg.count(rows, margins), mechanism, budget=dg.Budget(100))
    with pytest.raises(dg.errors.NetworkError, match=r"no table holds .?c"):
        dg.choose_network(released)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"constraints": dg.Constraints(order=[1, 2])}, "NetworkError", "an item is 1"),
        ({"constraints": dg.Constraints(order=[["a", ["b"]]])}, "NetworkError", "an item is"),
        ({"constraints": dg.Constraints(order=[{"a": 1}])}, "NetworkError", "an item is"),
        ({"constraints": dg.Constraints(order=[None])}, "NetworkError", "an item is None"),
        ({"constraints": dg.Constraints(target=["a"])}, "NetworkError", "one variable"),
        ({"constraints": dg.Constraints(target=1)}, "NetworkError", "one variable"),
        ({"constraints": {"max_parents": 1}}, "NetworkError", "Constraints"),
    ],
)
def test_settings_of_another_kind_are_refused_in_words(chain, settings, error, words):
    with pytest.raises(getattr(dg.errors, error), match=words):
        dg.choose_network(exact_pairs(chain), **settings)


@pytest.mark.parametrize("seed", [-1, "x", True, None, 1.5])
def test_alternatives_have_a_whole_number_as_a_seed(chain, seed):
    with pytest.raises(dg.errors.InferenceError, match="seed must be a whole number, at least 0"):
        dg.choose_network(exact_pairs(chain)).alternatives(2, draws=2, seed=seed)


@pytest.mark.proof
@pytest.mark.parametrize("grown", [False, True])
def test_what_was_learned_is_pickled_and_chooses_again_as_before(grown, monkeypatch):
    if grown:
        monkeypatch.setattr(choosing, "is_small", lambda domain: False)
    learned = dg.choose_network(released_pairs(dg.LaplaceMechanism(1)))
    copied = pickle.loads(pickle.dumps(learned))
    assert copied.network == learned.network
    assert copied.release == learned.release
    assert copied.alternatives(3, draws=4, seed=1) == learned.alternatives(3, draws=4, seed=1)


@pytest.mark.proof
def test_what_holds_a_release_is_answered_with_where_it_is(tmp_path):
    """What the refusals say is done here."""
    learned = dg.choose_network(released_pairs(dg.LaplaceMechanism(1)))
    with pytest.raises(dg.errors.InferenceError, match=r"got LearnedNetwork: give its \.release$"):
        dg.choose_network(learned)
    dg.save(learned, tmp_path / "m.json")
    with pytest.raises(dg.errors.InferenceError, match=r"dg.load\(path, release=True\)$"):
        dg.choose_network(dg.load(tmp_path / "m.json"))
    again = dg.choose_network(dg.load(tmp_path / "m.json", release=True))
    pd.testing.assert_frame_equal(again.edges, learned.edges)
    with pytest.raises(dg.errors.InferenceError, match=r"got int$"):
        dg.choose_network(7)
