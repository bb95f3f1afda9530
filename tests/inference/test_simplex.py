"""The nearest non-negative numbers with a given sum, by the condition of optimality."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.inference.simplex import onto_simplex, onto_simplexes
from tests.tiers import examples


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=1, max_size=8), st.floats(0, 100))
def test_it_is_the_nearest_point(values, total):
    table = np.array(values)
    ours = onto_simplex(table, total)
    assert ours.min() >= 0
    assert ours.sum() == pytest.approx(total, abs=1e-8)
    # Optimality: moving mass from any positive cell to any other cannot bring the point closer.
    gradient = ours - table
    assert (gradient[ours > 1e-9][:, None] <= gradient[None, :] + 1e-7).all()


def test_several_tables_are_moved_as_each_alone():
    tables = np.random.default_rng(1).normal(1, 3, (5, 2, 3))
    for moved, table in zip(onto_simplexes(tables, 7.0), tables, strict=True):
        np.testing.assert_allclose(moved, onto_simplex(table, 7.0), atol=1e-12)
        np.testing.assert_allclose(moved.ravel(), onto_simplex(table.ravel(), 7.0), atol=1e-12)
