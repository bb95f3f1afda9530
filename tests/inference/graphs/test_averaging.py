"""Posteriors that leave the graph open: the exact law by enumeration, and what such draws obey and refuse."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import betaln, gammaln
from scipy.stats import binom

import dpgraph as dg
from dpgraph.inference.graphs import averaging
from dpgraph.inference.graphs.averaging import Graphs, draw_averaged, possible_graphs, with_causes
from dpgraph.inference.graphs.constraints import constraints_within
from dpgraph.inference.network import by_records
from dpgraph.inference.network.evidence import evidence_for
from dpgraph.inference.network.holes import Holes
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.privacy.measurements import DiscreteLaplace

THREE = dg.Domain.of({name: [0, 1] for name in "abc"})
EMPTY = dg.Network.of(THREE, {})
N, SCALE = 4, 1.0
SEEN = {("a", "b"): [[2, 1], [-1, 2]], ("a", "c"): [[1, 1], [0, 2]], ("b", "c"): [[0, 1], [1, 3]]}
HIERARCHY = HierarchicalPrior(lowest=0.3, highest=6.0, steps=2)
NODES, WEIGHTS = (lambda x, w: ((x + 1) / 2, w / 2))(*np.polynomial.legendre.leggauss(400))


def release():
    pairs = dg.all_pairs(THREE)
    tables = {key: np.array(table) for key, table in SEEN.items()}
    return dg.results.NoisyCounts(pairs, tables, dict.fromkeys(SEEN, DiscreteLaplace(SCALE)), N)


def column(counts):
    """The probability of a binary column: rows of (level 0, level 1) counts, their law integrated, by quadrature."""
    if len(counts) == 1:
        return math.exp(betaln(1 + counts[0][0], 1 + counts[0][1]))
    total = 0.0
    for a in HIERARCHY.grid:
        each = sum(
            betaln(a * (1 - NODES) + zero, a * NODES + one) - betaln(a * (1 - NODES), a * NODES) for zero, one in counts
        )
        total += float(WEIGHTS @ np.exp(each)) / HIERARCHY.grid.size
    return total


def exact():
    """P(parents of b, parents of c | release), each set of at most one parent, by every table of four rows."""
    sets = {"b": [(), ("a",)], "c": [(), ("a",), ("b",)]}
    prior = {(): 1 / 2, ("a",): 1 / 2}, {(): 1 / 2, ("a",): 1 / 4, ("b",): 1 / 4}
    found = dict.fromkeys(itertools.product(sets["b"], sets["c"]), 0.0)
    for bars in itertools.combinations(range(N + 7), 7):
        ends = (-1, *bars, N + 7)
        flat = [ends[i + 1] - ends[i] - 1 for i in range(8)]
        table = np.array(flat).reshape(2, 2, 2)
        many = math.exp(gammaln(N + 1) - sum(gammaln(k + 1) for k in flat))
        apart = sum(
            np.abs(np.array(SEEN[key]) - table.sum(axis=axis)).sum()
            for key, axis in ((("a", "b"), 2), (("a", "c"), 1), (("b", "c"), 0))
        )
        weight = many * math.exp(-apart / SCALE) * column([table.sum(axis=(1, 2))])
        b = {(): column([table.sum(axis=(0, 2))]), ("a",): column(table.sum(axis=2))}
        c = {(): column([table.sum(axis=(0, 1))]), ("a",): column(table.sum(axis=1)), ("b",): column(table.sum(axis=0))}
        for one, other in found:
            found[one, other] += weight * b[one] * c[other] * prior[0][one] * prior[1][other]
    total = sum(found.values())
    return {key: value / total for key, value in found.items()}


def graphs_of(max_parents):
    constraints = constraints_within(dg.Constraints(max_parents=max_parents, order=["a", "b", "c"]), THREE)
    return Graphs(
        ("a", "b", "c"), *(getattr(possible_graphs(EMPTY, constraints), f) for f in ("may", "fixed", "most", "cells"))
    )


def shares(drawn):
    """Which sets of parents each draw has, told by the tables: one without a parent does not vary with it."""
    wide = drawn.network
    found = {}
    for name in "bc":
        table = drawn.tables[name]
        on = {}
        for axis, parent in enumerate(wide.parents[name], 3):
            first, last = np.take(table, 0, axis=axis), np.take(table, 1, axis=axis)
            on[parent] = np.abs(first - last).reshape(*first.shape[:2], -1).max(axis=2) > 0
        found[name] = on
    return found


@pytest.fixture(scope="module")
def long_run():
    given = evidence_for(EMPTY, release())
    return draw_averaged(
        given, EMPTY, graphs_of(1), rng=np.random.default_rng(1), draws=4000, burn_in=300, hierarchy=HIERARCHY
    )


@pytest.mark.proof
def test_graphs_are_drawn_by_their_exact_posterior_probability(long_run):
    """By every table of four rows and every graph; rejects a prior alike for all sets, of which one with none loses.

    Batches of 200 draws are nearly independent; 40 of them, and six standard errors, which are at most .02.
    """
    found = shares(long_run)
    none = np.zeros(long_run.shape, bool)
    b, c = found["b"].get("a", none), (found["c"].get("a", none), found["c"].get("b", none))
    assert not (c[0] & c[1]).any()
    for (above_b, above_c), share in exact().items():
        here = (b == ("a" in above_b)) & (c[0] == ("a" in above_c)) & (c[1] == ("b" in above_c))
        batches = here.reshape(-1, 200).mean(axis=1)
        error = batches.std(ddof=1) / math.sqrt(batches.size)
        assert error < 0.02
        assert abs(batches.mean() - share) < 6 * error


#: A variable z, and a, whose level of nulls stands between its own.
HOLED = dg.Network.of({"z": [0, 1], "a": dg.Categories([0, -1, 1], missing=dg.UNOBSERVED(-1))}, {})
COUNTED = [[2, 1, -1], [0, 2, 2]]


def exact_with_holes():
    """P(z is a parent of a, z is a cause of a's holes | release) by every table of z, a and mask of four rows."""
    found = dict.fromkeys(itertools.product((False, True), repeat=2), 0.0)
    for bars in itertools.combinations(range(N + 7), 7):
        ends = (-1, *bars, N + 7)
        flat = [ends[i + 1] - ends[i] - 1 for i in range(8)]
        table = np.array(flat).reshape(2, 2, 2)
        seen = np.stack([table[:, 0, 0], table[:, :, 1].sum(axis=1), table[:, 1, 0]], axis=1)
        weight = math.exp(gammaln(N + 1) - sum(gammaln(k + 1) for k in flat))
        weight *= math.exp(-np.abs(np.array(COUNTED) - seen).sum() / SCALE) * column([table.sum(axis=(1, 2))])
        value = {False: column([table.sum(axis=(0, 2))]), True: column(table.sum(axis=2))}
        hole = {False: column([table.sum(axis=(0, 1))]), True: column(table.sum(axis=1))}
        for one, other in found:
            found[one, other] += weight * value[one] * hole[other]
    total = sum(found.values())
    return {key: value / total for key, value in found.items()}


@pytest.mark.proof
def test_the_causes_of_holes_are_drawn_with_the_graph():
    """As above; the values of unseen rows are filled given each graph."""
    noisy = dg.results.NoisyCounts(
        dg.all_pairs(HOLED.domain), {("z", "a"): np.array(COUNTED)}, {("z", "a"): DiscreteLaplace(SCALE)}, N
    )
    holes = Holes.of(HOLED, None)
    constraints = constraints_within(dg.Constraints(max_parents=1, order=["z", "a"]), HOLED.domain)
    graphs = with_causes(possible_graphs(HOLED, constraints), holes, ())
    drawn = holes.of_records(
        draw_averaged(
            holes.evidence(evidence_for(HOLED, noisy)), holes.records, graphs, rng=np.random.default_rng(1),
            draws=4000, burn_in=300, hierarchy=HIERARCHY, fixed=holes.follows,
        )
    )  # fmt: skip
    assert drawn.network.parents == {"z": (), "a": ("z",), "a missing": ("z",)}
    value, hole = (np.abs(np.diff(drawn.tables[name], axis=3)).max(axis=(2, 3)) > 0 for name in ("a", "a missing"))
    for (one, other), share in exact_with_holes().items():
        batches = ((value == one) & (hole == other)).reshape(-1, 200).mean(axis=1)
        error = batches.std(ddof=1) / math.sqrt(batches.size)
        assert error < 0.02
        assert abs(batches.mean() - share) < 6 * error


@pytest.mark.proof
def test_compiled_and_plain_loops_give_the_same_draws(plain):
    given = evidence_for(EMPTY, release())
    settings = {"draws": 6, "burn_in": 6}
    fast = draw_averaged(given, EMPTY, graphs_of(2), rng=np.random.default_rng(2), **settings)
    plain(averaging)
    plain(by_records)
    slow = draw_averaged(given, EMPTY, graphs_of(2), rng=np.random.default_rng(2), **settings)
    assert fast.network == slow.network
    for name in THREE.names:
        assert np.array_equal(fast.tables[name], slow.tables[name])


def learned(**settings):
    return dg.choose_network(release(), constraints=dg.Constraints(order=["a", "b", "c"], **settings))


@pytest.mark.proof
def test_rows_are_less_alike_beforehand_than_where_the_graph_is_known():
    found = learned(max_parents=1)

    def totals(**settings):
        drawn = found.posterior(graphs="averaged", draws=20, seed=1, **settings)
        return [float((drawn.tables[name] ** 2).sum()) for name in "abc"]

    assert totals() == totals(prior=dg.HierarchicalPrior(highest=20, steps=16))
    assert totals(prior="hierarchical") == totals(prior=dg.HierarchicalPrior())
    assert totals() != totals(prior="hierarchical")


def test_constraints_hold_in_every_drawn_graph():
    drawn = learned(required=[("a", "c")], forbidden=[("b", "c")]).posterior(graphs="averaged", draws=40, seed=0)
    assert drawn.network.parents["c"] == ("a",)
    assert drawn.network.parents["a"] == ()
    assert np.allclose(drawn.flat("c").sum(axis=1), 1)


@pytest.mark.parametrize(
    ("parents", "limits", "may"),
    [
        ({}, {"order": ["c", "b", "a"]}, {"cb", "ca", "ba"}),
        ({}, {"order": [["b", "c"], ["a"]]}, {"bc", "ba", "ca"}),
        ({}, {"forbidden": [("a", "b"), ("a", "c"), ("b", "c")]}, {"cb", "ca", "ba"}),
        ({"b": ["a"]}, {"forbidden": [("a", "c")]}, {"ca", "ab", "cb"}),
        ({"c": ["a"]}, {"forbidden": [("a", "b"), ("b", "c")]}, {"ac", "cb", "ba"} - {"ba"}),
    ],
)
def test_two_variables_that_one_direction_alone_may_join_stand_in_it(parents, limits, may):
    """Whatever the graph's own order of variables that no arc joins; the last graph's arc leaves one of both ways."""
    found = possible_graphs(dg.Network.of(THREE, parents), constraints_within(dg.Constraints(**limits), THREE))
    drawn = {found.order[u] + found.order[v] for v, u in zip(*np.nonzero(found.may), strict=True)}
    assert drawn == may


def test_a_chosen_graph_and_an_averaged_one_say_different_things_of_an_arc_that_drowned():
    """Four rows and noise: no arc is chosen, and b is then the same whatever a is; averaged, it may differ."""
    with pytest.warns(dg.errors.PriorWarning):
        empty = dg.choose_network(
            release(), constraints=dg.Constraints(forbidden=list(itertools.permutations("abc", 2)))
        )
    apart = [
        np.ptp([dg.query(drawn, "b", given={"a": level}).mean[1] for level in (0, 1)])
        for drawn in (
            empty.posterior(graphs="chosen", draws=40, seed=0),
            learned().posterior(graphs="averaged", draws=200, seed=0),
        )
    ]
    assert apart[0] == pytest.approx(0, abs=1e-12)
    assert apart[1] > 1e-3


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"graphs": "all"}, "'chosen' or 'averaged'"),
        ({"graphs": "averaged", "method": "tables"}, "records alone"),
        ({"graphs": "averaged", "prior": 1.0}, "hierarchical"),
        ({"graphs": "averaged", "draws": 0}, "draws"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(settings, words):
    with pytest.raises(dg.errors.InferenceError, match=words):
        learned().posterior(**settings)


def test_graphs_are_averaged_where_that_is_affordable(monkeypatch):
    """Unless another method, a numeric prior or the chosen graph is asked for."""
    found, settings = learned(), {"draws": 20, "seed": 1}

    def reason(**more):
        return found.posterior(**settings | more).reason

    averaged = reason(graphs="averaged")
    assert reason() == reason(method="records") == averaged
    short = dg.methods.Records(chains=3, burn_in=10)
    assert found.posterior(method=short, **settings).tables["a"].shape[0] == 3
    for more in ({"graphs": "chosen"}, {"method": "tables"}, {"prior": 1.0}):
        assert reason(**more) != averaged
    monkeypatch.setattr(averaging, "PATIENCE", -1.0)
    assert reason() != averaged
    assert reason(graphs="averaged") == averaged


def test_averaging_stops_with_the_draws_that_it_has():
    """Any sweep is later than a nanosecond: of 30 draws the least four are made, the first of those of a whole run."""
    settings = {"chains": 2, "burn_in": 10, "thin": 2}
    whole = learned().posterior(graphs="averaged", draws=30, seed=1, method=dg.methods.Records(**settings))
    short = dg.methods.Records(**settings, seconds=1e-9)
    with pytest.warns(dg.errors.ConvergenceWarning, match="stopped after 0 s with 8 draws in all"):
        made = learned().posterior(graphs="averaged", draws=30, seed=1, method=short)
    assert made.shape == (2, 4)
    assert made.diagnostics["stopped_after"] == 1e-9
    assert "stopped_after" not in whole.diagnostics
    root = next(name for name in whole.network.order if not whole.network.parents[name])
    assert made.tables[root].tobytes() == whole.tables[root][:, :4].tobytes()


def test_so_many_cells_are_not_averaged_over():
    domain = dg.Domain.of({f"x{i}": list(range(6)) for i in range(6)})
    empty = dg.Network.of(domain, {})
    tables = {(name,): np.arange(6) for name in domain.names}
    noisy = dg.results.NoisyCounts(empty, tables, dict.fromkeys(tables, DiscreteLaplace(1.0)), 15)
    with pytest.warns(dg.errors.PriorWarning):
        found = dg.choose_network(noisy)
    with pytest.raises(dg.errors.InferenceError, match="46,656 cells"):
        found.posterior(graphs="averaged", draws=5)
    assert found.posterior(draws=5, seed=0).network == found.network


def test_a_graph_that_was_paid_for_is_not_averaged_over():
    rows = dg.sample_rows(learned().probabilities, 30, rng=0)
    budget = dg.Budget(1)
    paid = dg.learn_network(rows, THREE, epsilon=1, budget=budget, method="greedy", n=30)
    with pytest.raises(dg.errors.InferenceError, match="paid for its choices"):
        paid.posterior(graphs="averaged")


def world(seed):
    """Tables of a graph over three binary variables, both drawn from the prior, and a release of 60 of its rows."""
    rng = np.random.default_rng([121, seed])
    parents = {"b": [["a"], []][rng.integers(2)], "c": [[], ["a"], [], ["b"]][rng.integers(4)]}
    truth = HIERARCHY.sample(dg.Network.of(THREE, parents), rng)
    rows = dg.sample_rows(truth, 60, rng)
    tables = {
        key: pd.crosstab(rows[key[0]], rows[key[1]]).reindex(index=[0, 1], columns=[0, 1], fill_value=0).to_numpy()
        for key in SEEN
    }
    tables = {key: np.rint(table + rng.laplace(0, 3, (2, 2))).astype(int) for key, table in tables.items()}
    return truth, dg.results.NoisyCounts(dg.all_pairs(THREE), tables, dict.fromkeys(tables, DiscreteLaplace(3.0)), 60)


@pytest.mark.proof
def test_intervals_hold_what_was_drawn_from_the_prior():
    """40 worlds, graph and tables by the prior, one question each: intervals of 90 % hold most.

    Where they hold 84 %, as short chains may, fewer than that has a chance below 1e-6; rejected are intervals that hold
    less than half.
    """
    held = 0
    for seed in range(40):
        truth, noisy = world(seed)
        drawn = draw_averaged(
            evidence_for(EMPTY, noisy), EMPTY, graphs_of(1), rng=np.random.default_rng(seed), draws=300,
            hierarchy=HIERARCHY,
        )  # fmt: skip
        row = dg.query(drawn, "c", given={"b": 1}, interval=0.9).to_frame().iloc[1]
        true = float(dg.query(truth, "c", given={"b": 1}).to_frame()["mean"].iloc[1])
        held += row["low"] <= true <= row["high"]
    assert held >= binom.ppf(1e-6, 40, 0.84)
