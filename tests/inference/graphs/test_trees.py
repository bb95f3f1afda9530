"""Clique trees: what they hold, what they cost, and a field's probabilities over them against enumeration."""

import itertools
import math
import pickle
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import dpgraph as dg
from dpgraph.inference.graphs import choosing
from dpgraph.inference.graphs import field as field_module
from dpgraph.inference.graphs import learned as learned_module
from dpgraph.inference.graphs.field import Terms
from dpgraph.inference.graphs.pair_estimates import Pairs, contrasts
from dpgraph.inference.graphs.trees import Tree, best_tree
from dpgraph.privacy.measurements import DiscreteGaussian
from dpgraph.structure.margins import Margins

NAMES = tuple("abcdefgh")
DOMAIN = dg.Domain.of({name: list(range(2 + i % 2)) for i, name in enumerate(NAMES)})
PAIRS = list(itertools.combinations(NAMES, 2))
LOOP = [*itertools.pairwise(NAMES), ("a", "h")]


def check(tree, domain):
    """Every clique meets all before it inside the one above it, which its axes begin with."""
    before: set[str] = set()
    for i, (clique, separator) in enumerate(zip(tree.cliques, tree.separators, strict=True)):
        assert set(clique) & before == set(separator)
        assert clique[: len(separator)] == separator
        assert tree.above[i] < max(i, 1)
        assert set(separator) <= set(tree.cliques[tree.above[i]])
        before |= set(clique)
    assert before == set(domain.names)
    assert not any(set(one) <= set(other) for one, other in itertools.permutations(tree.cliques, 2))


def cells(tree, domain):
    return [math.prod(domain.sizes[name] for name in clique) for clique in tree.cliques]


@pytest.mark.parametrize("most", [3, 6, 40, 10_000])
@pytest.mark.parametrize("budget", [60, 400, 1 << 17])
@pytest.mark.parametrize("seed", range(6))
def test_a_tree_is_one_of_cliques_within_its_cells(seed, budget, most):
    rng = np.random.default_rng(seed)
    tree = best_tree(DOMAIN, {pair: rng.random() * (rng.random() < 0.6) for pair in PAIRS}, most, budget)
    check(tree, DOMAIN)
    assert max(cells(tree, DOMAIN)) <= most
    assert sum(cells(tree, DOMAIN)) <= budget


@pytest.mark.parametrize(
    "edges", [LOOP, LOOP[:-1], PAIRS, [], PAIRS[::3]], ids=["loop", "chain", "all", "none", "some"]
)
def test_no_pair_is_left_out_where_there_are_cells(edges):
    tree = best_tree(DOMAIN, dict.fromkeys(edges, 1.0), 10_000)
    check(tree, DOMAIN)
    assert all(tree.smallest(pair) is not None for pair in edges)
    if edges in (LOOP, LOOP[:-1]):  # no wider than a loop or a chain needs
        assert max(map(len, tree.cliques)) == (3 if edges == LOOP else 2)


def test_the_stronger_pairs_are_held_where_cells_are_few():
    scores = {pair: 1.0 if pair in LOOP[:-1] else 0.01 for pair in PAIRS}
    tree = best_tree(DOMAIN, scores, 10_000, 60)
    assert all(tree.smallest(pair) is not None for pair in LOOP[:-1])


TREE = Tree((("a", "b", "c"), ("b", "c", "d"), ("c", "e"), ("f",), ("d", "g"), ("g", "h")), (0, 0, 1, 0, 1, 4))


def random_field(seed):
    """The terms of a tree, random weights, and the logarithms of all cells by enumeration, in the domain's order."""
    rng = np.random.default_rng(seed)
    singles = {name: rng.dirichlet(np.ones(size)) for name, size in DOMAIN.sizes.items()}
    blocks = [pair for pair in PAIRS if TREE.smallest(pair) is not None] + [("a", "b", "c")]
    residuals = {
        block: (np.zeros([DOMAIN.sizes[name] - 1 for name in block]), 1.0)
        for block in [*[(n,) for n in NAMES], *blocks]
    }
    pairs = Pairs(DOMAIN, 100.0, singles, dict.fromkeys(blocks[:-1], 1.0), residuals)
    terms = Terms(pairs, TREE)
    weights = rng.normal(0, 1, terms.size)
    logs = np.zeros(tuple(DOMAIN.sizes.values()))
    for block, place in zip(terms.blocks, terms.place, strict=True):
        wide = [terms.basis[n][:, 1:] if len(block) < 3 else contrasts(DOMAIN.sizes[n]).T for n in block]
        table = weights[place].reshape([part.shape[1] for part in wide])
        for part in wide:
            table = np.tensordot(table, part, (0, 1))
        logs += table.reshape([DOMAIN.sizes[n] if n in block else 1 for n in NAMES])
    return terms, weights, logs


def margin_of(joint, wanted):
    summed = joint.sum(axis=tuple(i for i, name in enumerate(NAMES) if name not in wanted))
    kept = [name for name in NAMES if name in wanted]
    return summed.transpose([kept.index(name) for name in wanted])


@pytest.mark.parametrize("steps", [-100, 10**6], ids=["axis by axis", "by halves"])
@pytest.mark.parametrize("seed", range(4))
def test_messages_give_the_margins_of_the_enumerated_joint(seed, steps, monkeypatch):
    monkeypatch.setattr(field_module, "STEPS_OF_AXIS", steps)
    terms, weights, logs = random_field(seed)
    joint = np.exp(logs) / np.exp(logs).sum()
    field = terms.field(weights)
    check(TREE, DOMAIN)
    for wanted in [*TREE.cliques, ("a",), ("h", "a"), ("e", "b", "h"), ("f", "g"), ("h", "d", "a", "e")]:
        np.testing.assert_allclose(field.margin(wanted), margin_of(joint, wanted), atol=1e-12)
    weights = {name: np.random.default_rng(seed).random(DOMAIN.sizes[name]) for name in ("d", "f")}
    weighed = joint.copy()
    for name, some in weights.items():
        weighed *= some.reshape([-1 if one == name else 1 for one in NAMES])
    for wanted in [("c",), ("h", "a"), ("g",), ()]:
        np.testing.assert_allclose(field.margin(wanted, weights), margin_of(weighed, wanted), atol=1e-12)
    for name in NAMES:
        found = field.pairs_of(name)
        assert found.keys() == set(NAMES) - {name}
        for other, table in found.items():
            np.testing.assert_allclose(table, margin_of(joint, (name, other)), atol=1e-12)
    network, tables = field.network(DOMAIN)
    made = dg.Probabilities(network, {name: table / table.sum(axis=0) for name, table in tables.items()})
    for pair in PAIRS[::5]:
        answer = dg.query(made, list(pair)).mean.reshape([DOMAIN.sizes[name] for name in pair])
        np.testing.assert_allclose(answer, margin_of(joint, pair), atol=1e-10)
    h, d, b = (frozenset(one) for one in ("h", "gh", "g"))
    entropy = {one: -sum(p * np.log(p) for p in margin_of(joint, tuple(one)).ravel()) for one in (h, d, b)}
    assert field.gain("g", (), "h") == pytest.approx(entropy[h] + entropy[b] - entropy[d], abs=1e-10)


@pytest.mark.parametrize("steps", [-100, 10**6], ids=["axis by axis", "by halves"])
@pytest.mark.parametrize("seed", range(2))
def test_the_slope_of_a_fit_is_that_of_its_loss(seed, steps, monkeypatch):
    """By differences of the loss along random directions."""
    monkeypatch.setattr(field_module, "STEPS_OF_AXIS", steps)
    terms, weights, logs = random_field(seed)
    joint = np.exp(logs - logs.max())
    whole, means = terms.sums(weights)
    assert whole == pytest.approx(logs.max() + np.log(joint.sum()), abs=1e-10)
    away = np.random.default_rng(seed).normal(0, 1, terms.size)
    up, down = (terms.sums(weights + step * away)[0] for step in (1e-4, -1e-4))
    assert (up - down) / 2e-4 == pytest.approx(float(means @ away), rel=1e-5)


def loop_release(n=200_000, scale=200.0):
    """Noisy pairs of eight variables in a loop, each like its neighbours; wide enough that no joint is written down."""
    rng = np.random.default_rng(3)
    domain = dg.Domain.of({name: list(range(5)) for name in NAMES})
    logs = np.zeros((5,) * len(NAMES))
    for one, other in LOOP:
        shape = [5 if name in (one, other) else 1 for name in NAMES]
        logs = logs + (1.5 * np.eye(5)).reshape(shape)
    joint = np.exp(logs - logs.max())
    joint = n * joint / joint.sum()
    tables = {pair: np.rint(margin_of(joint, pair) + rng.normal(0, scale, (5, 5))).astype(int) for pair in PAIRS}
    law = dict.fromkeys(PAIRS, DiscreteGaussian(scale))
    return dg.results.NoisyCounts(Margins.of_tables(domain, PAIRS), tables, law, n)


@pytest.mark.proof
def test_a_model_of_a_loop_loses_nothing_and_grows_for_that(monkeypatch):
    """The ratio of a loop that is cut is far above one: neighbours are alike."""
    learned = dg.choose_network(loop_release())
    assert learned.diagnostics["ratio"] < 1.15
    assert learned.diagnostics["left_out"] == 0
    assert {frozenset(pair) for pair in LOOP} <= {
        frozenset((name, other)) for name, parents in learned.network.parents.items() for other in parents
    }
    monkeypatch.setattr(choosing, "MOST_CELLS", 200)
    more = dg.choose_network(loop_release())  # the model has more cells than the tree that its graph is read from
    assert more.diagnostics["cells"] > 200
    assert more.diagnostics["ratio"] < 1.15


@pytest.mark.parametrize("settings", [{}, {"max_cells": 25}], ids=["as many as there are", "as the constraints say"])
def test_a_model_of_few_cells_says_what_it_loses(settings, monkeypatch):
    monkeypatch.setattr(choosing, "MOST_CELLS", 200)
    if not settings:
        monkeypatch.setattr(choosing, "MORE_CELLS", 200)
    cut = dg.choose_network(loop_release(), constraints=dg.Constraints(**settings))
    assert cut.diagnostics["cells"] <= 200
    assert cut.diagnostics["left_out"] > 0
    assert cut.diagnostics["ratio"] > 1.5


def test_a_question_of_a_learned_network_is_answered_by_draws_of_its_model(monkeypatch):
    """Also of pairs that no family of the chosen graph holds: each draw's joint is written down and summed."""
    monkeypatch.setattr(choosing, "FEW_STEPS", 5)
    monkeypatch.setattr(choosing, "MOST_SCALED", 0)
    monkeypatch.setattr(learned_module, "FEW", 4)
    learned = dg.choose_network(loop_release())
    joints = learned._drawn_fields.joints(NAMES, {})
    asked = dg.query(learned, ["a", "e"], {"c": [1, 2], "g": 3})
    some = joints[:, :, :, 1:3, :, :, :, 3].sum(axis=(2, 3, 4, 6, 7))  # of a and e
    np.testing.assert_allclose(asked.draws, (some / some.sum(axis=(1, 2), keepdims=True)).reshape(4, 25), atol=1e-12)
    apart = dg.query(learned.probabilities, ["a", "e"], {"c": [1, 2], "g": 3}).mean
    assert 0.5 * np.abs(asked.predictive - apart).sum() < 0.01  # smoothed, the model itself
    again = pickle.loads(pickle.dumps(learned))
    np.testing.assert_array_equal(dg.query(again, ["a", "e"], {"c": [1, 2], "g": 3}).draws, asked.draws)
    set_to = dg.query(learned, "a", do={"b": 1}).draws  # causes are the chosen graph's
    np.testing.assert_allclose(set_to, dg.query(replace(learned._drawn_fields, joints=None), "a", do={"b": 1}).draws)


def test_two_measured_variables_are_answered_by_their_own_draws(monkeypatch):
    """Also where cells are short: the model loses a strong pair, and the release does not."""
    monkeypatch.setattr(choosing, "FEW_STEPS", 5)
    monkeypatch.setattr(learned_module, "FEW", 30)
    for limit in ("MOST_CELLS", "MORE_CELLS"):
        monkeypatch.setattr(choosing, limit, 200)
    release = loop_release()
    cut = dg.choose_network(release)
    lost = max(LOOP, key=lambda pair: np.abs(dg.query(cut.probabilities, pair).mean - shares_of(release, pair)).sum())
    exact = shares_of(release, lost)
    assert np.abs(dg.query(cut.probabilities, lost).mean - exact).sum() > 0.1
    for pair, shares in ((lost, exact), (lost[::-1], exact.reshape(5, 5).T.ravel())):
        asked = dg.query(cut, pair)
        assert np.abs(asked.predictive - shares).sum() < 0.02
        assert np.mean((asked.low <= shares) & (shares <= asked.high)) > 0.5
    one, other = lost
    given, table = dg.query(cut, one, {other: 2}), exact.reshape(5, 5)[:, 2]
    np.testing.assert_allclose(given.predictive, table / table.sum(), atol=0.01)
    some = dg.query(cut, one, {other: [1, 2]}).draws
    both = dg.query(cut, lost).draws.reshape(-1, 5, 5)[:, :, 1:3].sum(axis=2)
    np.testing.assert_allclose(some, both / both.sum(axis=1, keepdims=True), atol=1e-12)
    centre, three = cut._drawn_fields.centre.joints, (*lost, next(name for name in NAMES if name not in lost))
    np.testing.assert_array_equal(centre(three, {})[0], centre.fields[0].margin(three))  # the model's, not scaled
    monkeypatch.setattr(choosing, "MOST_KEPT", 100)  # too little for the draws of all pairs: the fields answer
    assert np.abs(dg.query(dg.choose_network(release), lost).predictive - exact).sum() > 0.1


def test_three_variables_have_the_errors_of_their_pairs_and_of_rows():
    """Draws of pairs by hand, far from the field's: margins are theirs, and cells scatter as rows of theirs do.

    Cells q of rows have independent errors of variance q / n, to first order. All pairs fixed, they move together by t
    times +-1, where t has the variance 1 / (n sum 1/q). Of 30 000 draws a deviation has a relative standard error of
    .004: within .025 with a false alarm below 1e-6. An empty pair leaves evidence possible.
    """
    domain = dg.Domain.of({name: [0, 1] for name in "abc"})
    rng, draws, n = np.random.default_rng(0), 30_000, 5000
    even = SimpleNamespace(margin=lambda names, weights=None: np.full((2,) * len(names), 0.5 ** len(names)))
    shares = rng.uniform(0.25, 0.33, (3, draws, 1))
    tables = np.stack([shares, 0.5 - shares, 0.5 - shares, shares], axis=2).reshape(3, draws, 2, 2)
    pairs = dict(zip([("a", "b"), ("a", "c"), ("b", "c")], tables, strict=True))
    joints = choosing._Joints(domain, [even] * draws, pairs, n, seed=1)
    found = joints(("c", "a", "b"), {})  # the axes in the order asked for
    for axis, table in (
        (1, pairs["a", "b"]),
        (2, pairs["b", "c"].transpose(0, 2, 1)),
        (3, pairs["a", "c"].transpose(0, 2, 1)),
    ):
        np.testing.assert_allclose(found.sum(axis=axis), table, atol=1e-3)
    signs = np.array([1, -1])
    cells = np.full((draws, 2, 2, 2), 0.125)  # axes (draw, c, a, b)
    for _ in range(60):
        cells *= (pairs["a", "b"] / cells.sum(axis=1))[:, None]
        cells *= (pairs["b", "c"].transpose(0, 2, 1) / cells.sum(axis=2))[:, :, None]
        cells *= (pairs["a", "c"].transpose(0, 2, 1) / cells.sum(axis=3))[..., None]
    moved = np.einsum("dcab,c,a,b->d", found - cells, signs, signs, signs) / 8
    assert abs((moved * np.sqrt(n * (1 / cells).sum(axis=(1, 2, 3)))).std() - 1) < 0.025
    np.testing.assert_allclose(joints(("c",), {"b": signs == 1, "a": signs == 1}), found[:, :, 0, 0], atol=1e-12)
    np.testing.assert_array_equal(joints(("a", "b"), {}), pairs["a", "b"])
    pairs["a", "b"][0] = [[0, 0.5], [0.5, 0]]
    given = joints(("c",), {"a": signs == 1, "b": signs == 1})
    assert (given.sum(axis=1) > 0).all()


def shares_of(release, pair):
    """The released shares of a pair's cells."""
    table = release.tables[pair if pair in release.tables else pair[::-1]]
    table = table if pair in release.tables else table.T
    return (np.asarray(table) / np.sum(table)).ravel()


def test_the_model_is_saved_whole_and_constraints_hold_for_it(tmp_path):
    learned = dg.choose_network(loop_release())
    dg.save(learned.probabilities, tmp_path / "learned.npz")
    assert dg.load(tmp_path / "learned.npz") == learned.probabilities
    chosen = dg.choose_network(loop_release(), constraints=dg.Constraints(max_parents=1))
    assert chosen.probabilities.network == chosen.network
    assert chosen.diagnostics == {}
    assert max(map(len, chosen.network.parents.values())) == 1
