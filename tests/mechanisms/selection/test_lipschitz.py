"""The Lipschitz calculus: exact where it says so, and bounds that are not violated."""

import itertools
import math

import pytest

import dpgraph as dg
from dpgraph.mechanisms.selection.lattice import (
    lipschitz_constant,
)


@pytest.mark.parametrize("floor", [0.01, 0.1, 0.3])
def test_the_constant_is_the_largest_log_ratio_over_rows_and_corners(floor):
    """Lemma 2, by enumeration: ln p is largest and smallest at corners, where all but one probability is the floor."""
    network = dg.Network.of({"a": [0, 1], "b": [0, 1, 2]}, {"b": ["a"]})
    corners = {k: [[1 - (k - 1) * floor if j == i else floor for j in range(k)] for i in range(k)] for k in (2, 3)}
    largest = 0.0
    for root, first, second in itertools.product(corners[2], corners[3], corners[3]):
        logs = [math.log(root[a] * (first, second)[a][b]) for a in range(2) for b in range(3)]
        largest = max(largest, max(logs) - min(logs))
    assert lipschitz_constant(network, floor) == pytest.approx(largest)


@pytest.mark.parametrize("floor", [0, -0.1, 1, math.nan])
def test_a_floor_out_of_range(floor):
    with pytest.raises(dg.errors.ReleaseError, match="floor"):
        lipschitz_constant(dg.Network.of({"a": [0, 1]}, {}), floor)


def test_a_floor_that_leaves_no_room():
    with pytest.raises(dg.errors.ReleaseError, match="'a' has 4 levels"):
        lipschitz_constant(dg.Network.of({"a": [0, 1, 2, 3]}, {}), 0.25)
