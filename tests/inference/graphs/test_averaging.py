"""Posteriors that leave the graph open: the exact law by enumeration, and what such draws obey and refuse."""

import itertools
import math

import numpy as np
import pytest
from scipy.special import betaln, gammaln

import dpgraph as dg
from dpgraph.inference.graphs.averaging import Graphs, draw_averaged, possible_graphs
from dpgraph.inference.graphs.constraints import read_constraints
from dpgraph.inference.network.evidence import evidence_for
from dpgraph.inference.network.prior import HierarchicalPrior
from dpgraph.privacy.records import DiscreteLaplace

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
    constraints = read_constraints(THREE, max_parents=max_parents, order=["a", "b", "c"])
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
