"""Laws of sums of independent integers, and draws given a sum, against plain convolution and enumeration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpgraph.inference.counts import integer_sums
from dpgraph.inference.counts.integer_sums import draw_given_sum, partial_sums, tilt_to, tilted_law

laws = st.lists(
    st.tuples(st.integers(-5, 5), st.lists(st.floats(-20, 3), min_size=1, max_size=12).map(np.array)),
    min_size=1,
    max_size=5,
)


@given(laws, st.floats(-2, 2))
def test_partial_sums_have_the_laws_of_plain_convolutions(logs, tilt):
    """Tails of 1e-15 at either end of each are all that is missing."""
    cells = [tilted_law(low, log, tilt)[0] for low, log in logs]
    running, low = np.ones(1), 0
    for (first, log), found in zip(logs, partial_sums(cells), strict=True):
        weight = np.exp(log + tilt * np.arange(first, first + log.size))
        running, low = np.convolve(running, weight / weight.sum()), low + first
        np.testing.assert_allclose(found.at(np.arange(low, low + running.size)), running, rtol=0, atol=1e-13)
        assert found.at(np.array([low - 1, low + running.size])).tolist() == [0, 0]
        assert found.values.size == found.weight.size


@given(laws, st.floats(-2, 2))
def test_what_was_divided_out_puts_the_weights_back(logs, tilt):
    for low, log in logs:
        law, scale = tilted_law(low, log, tilt)
        assert scale == pytest.approx(np.logaddexp.reduce(log + tilt * np.arange(low, low + log.size)), abs=1e-9)
        kept = log[law.values - low] + tilt * law.values
        np.testing.assert_allclose(np.log(law.weight), kept - scale, atol=1e-9)


@given(laws, st.floats(0.05, 0.95))
def test_a_tilt_puts_the_mean_where_it_is_wanted(logs, share):
    """Within a tenth of a standard deviation, or a thousandth."""
    lowest = sum(low for low, _ in logs)
    wanted = lowest + share * sum(log.size - 1 for _, log in logs)
    *_, total = partial_sums([tilted_law(low, log, tilt_to(logs, wanted))[0] for low, log in logs])
    mean = total.weight @ total.values
    spread = np.sqrt(total.weight @ (total.values - mean) ** 2)
    assert abs(mean - wanted) <= max(0.1 * spread, 1e-3) + 1e-9


@pytest.mark.parametrize("direct", [0, 1 << 16])
def test_convolutions_by_transform_are_the_direct_ones(direct, monkeypatch):
    monkeypatch.setattr(integer_sums, "DIRECT", direct)
    rng = np.random.default_rng(0)
    one, other = rng.random(50), rng.random(170)
    np.testing.assert_allclose(integer_sums._convolution(one, other), np.convolve(one, other), rtol=1e-12)


def test_draws_add_up_to_their_own_totals():
    logs = [(0, np.log([3.0, 2, 1])), (-1, np.log([1.0, 1])), (2, np.log([1.0, 5, 2, 2]))]
    cells = [tilted_law(low, log, 0.0)[0] for low, log in logs]
    totals = np.random.default_rng(1).integers(1, 8, 500)
    drawn = draw_given_sum(cells, list(partial_sums(cells)), totals, np.random.default_rng(2))
    assert (drawn.sum(axis=1) == totals).all()
    assert (drawn.min(axis=0) == [0, -1, 2]).all()
    assert (drawn.max(axis=0) == [2, 0, 5]).all()
