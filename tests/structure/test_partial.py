"""Public grids, and declarations that leave something open."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpgraph as dg
from dpgraph.structure.domain import partial_domain
from tests.tiers import examples

NetworkError = dg.errors.NetworkError
WHOLE = st.tuples(st.integers(-(10**9), 10**9), st.integers(2, 10**9)).map(lambda pair: (pair[0], sum(pair)))
REAL = st.tuples(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6)).map(lambda pair: (pair[0], sum(pair)))


@settings(deadline=None, max_examples=examples(60))
@given(WHOLE | REAL)
def test_a_grid_is_of_public_edges_from_bound_to_bound_and_not_fine_where_it_is_wide(bounds):
    declared = dg.Numbers(*bounds)
    grid = declared.grid
    assert (grid[0], grid[-1]) == bounds
    assert all(a < b for a, b in itertools.pairwise(grid))
    assert 3 <= len(grid) <= 400
    assert max(b - a for a, b in itertools.pairwise(grid)) <= max(declared.whole, (bounds[1] - bounds[0]) / 12)
    assert not declared.whole or all(isinstance(edge, int) for edge in grid)
    assert declared.measured.size == len(grid) - 1


def test_zero_and_small_units_are_apart_where_a_range_is_wide():
    assert {0, 1, 2, 5, 10, 100, 1000, 50_000} <= set(dg.Numbers(0, 99_999).grid)
    assert {-1, 0, 1} <= set(dg.Numbers(-(10**6), 10**6).grid)
    assert dg.Numbers(17, 90).grid == tuple(range(17, 91))


@pytest.mark.parametrize(
    ("declare", "words"),
    [
        (lambda: dg.Numbers(5, 5), "low must be below high"),
        (lambda: dg.Numbers(0, math.inf), "high must be a public bound"),
        (lambda: dg.Numbers("0", 1), "low must be a public bound"),
        (lambda: dg.Numbers(0, 1), r"write 0\.0"),
        (lambda: dg.Numbers(0, 9, bins=1), "bins must be"),
        (lambda: dg.Numbers(0, 9, missing="no"), "missing must be"),
        (lambda: dg.Words([]), "level list is empty"),
        (lambda: dg.Words("abc"), "not the text"),
        (lambda: partial_domain({"a": ["x"]}), "nothing is to be found"),
        (lambda: partial_domain(dg.Domain.of({"a": ["x"]})), "declares every level"),
        (lambda: partial_domain([dg.Words()]), "a declaration is a mapping"),
        (lambda: partial_domain({"": dg.Words()}), "a variable's name"),
        (lambda: partial_domain({"a": dg.Words(), "b": []}), "variable 'b'"),
    ],
)
def test_declarations_that_are_not_valid_are_refused_by_name(declare, words):
    with pytest.raises(NetworkError, match=words):
        declare()


def test_lists_get_levels_for_others_and_for_nulls():
    assert dg.Words([3, 1], missing=True).measured == dg.Categories(
        ["3", "1", "other", "missing"], other="other", missing="missing"
    )
    assert dg.Words(["other", "x"]).measured.levels == ("other", "x")
