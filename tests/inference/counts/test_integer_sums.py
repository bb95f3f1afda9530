"""Laws of sums of independent integers, and draws given a sum, against plain convolution and enumeration."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dpgraph.inference.counts import dirichlet_multinomial
from dpgraph.inference.counts.dirichlet_multinomial import SumTree, tilt_to, tilted_law

laws = st.lists(
    st.tuples(st.integers(-5, 5), st.lists(st.floats(-20, 3), min_size=1, max_size=12).map(np.array)),
    min_size=1,
    max_size=5,
)


@given(laws, st.floats(-2, 2))
def test_sums_have_the_laws_of_plain_convolutions(logs, tilt):
    """Tails of 1e-15 at either end of each are all that is missing."""
    cells = [tilted_law(low, log, tilt)[0] for low, log in logs]
    running, low = np.ones(1), 0
    for k, (first, log) in enumerate(logs):
        found = SumTree(tuple(cells[: k + 1])).law
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
    total = SumTree(tuple(tilted_law(low, log, tilt_to(logs, wanted))[0] for low, log in logs)).law
    mean = total.weight @ total.values
    spread = np.sqrt(total.weight @ (total.values - mean) ** 2)
    assert abs(mean - wanted) <= max(0.1 * spread, 1e-3) + 1e-9


@pytest.mark.parametrize("share", [0.0001, 0.02, 0.5, 0.99])
def test_a_tilt_of_wide_laws_is_as_good_as_one_of_narrow_ones(share):
    """Laws of 5000 values, of which few are looked at first; the tilts are such that most weights are nearly 0."""
    rng = np.random.default_rng(5)
    logs = [(int(low), -np.abs(np.arange(5000) - rng.integers(2500)) / 20) for low in rng.integers(0, 50, 30)]
    wanted = sum(low for low, _ in logs) + share * sum(log.size - 1 for _, log in logs)
    laws_of_all = [tilted_law(low, log, tilt_to(logs, wanted))[0] for low, log in logs]
    means = np.array([law.weight @ law.values for law in laws_of_all])
    squares = [law.weight @ (law.values - mean) ** 2 for law, mean in zip(laws_of_all, means, strict=True)]
    assert abs(means.sum() - wanted) <= 0.1 * np.sqrt(np.sum(squares)) + 1e-3


@pytest.mark.parametrize("start", [-1e4, -3.0, 0.0, 2.0, 1e4])
@pytest.mark.parametrize("share", [0.0, 1e-6, 0.5, 0.9999, 1.0])
def test_a_tilt_is_found_from_far_away_and_for_sums_at_the_ends(start, share):
    """From where all mass is on the wrong side; and sums that only the first or the last values have."""
    rng = np.random.default_rng(6)
    logs = [(int(low), -np.abs(np.arange(5000) - rng.integers(5000)) / 100) for low in rng.integers(0, 50, 3)]
    wanted = sum(low for low, _ in logs) + share * sum(log.size - 1 for _, log in logs)
    laws_of_all = [tilted_law(low, log, tilt_to(logs, wanted, start))[0] for low, log in logs]
    means = np.array([law.weight @ law.values for law in laws_of_all])
    squares = [law.weight @ (law.values - mean) ** 2 for law, mean in zip(laws_of_all, means, strict=True)]
    assert abs(means.sum() - wanted) <= 0.11 * np.sqrt(np.sum(squares)) + 2e-3


def test_few_values_are_looked_at_only_where_they_reach_the_sum(monkeypatch):
    """Else the search for a tilt would run away and come back: a sum that only the last values have."""
    tilts = []
    real = dirichlet_multinomial._newton

    def watched(moments, *rest):
        return real(lambda tilt: tilts.append(tilt) or moments(tilt), *rest)

    monkeypatch.setattr(dirichlet_multinomial, "_newton", watched)
    tilt_to([(0, -np.arange(5000) / 100)] * 3, 3 * 4999 - 1.0)
    assert max(map(abs, tilts)) < 100


@pytest.mark.parametrize("direct", [0, 1 << 16])
def test_convolutions_by_transform_are_the_direct_ones(direct, monkeypatch):
    monkeypatch.setattr(dirichlet_multinomial, "DIRECT", direct)
    rng = np.random.default_rng(0)
    one, other = rng.random(50), rng.random(170)
    np.testing.assert_allclose(dirichlet_multinomial._convolution(one, other), np.convolve(one, other), rtol=1e-12)


def test_draws_add_up_to_their_own_totals():
    logs = [(0, np.log([3.0, 2, 1])), (-1, np.log([1.0, 1])), (2, np.log([1.0, 5, 2, 2]))]
    cells = [tilted_law(low, log, 0.0)[0] for low, log in logs]
    totals = np.random.default_rng(1).integers(1, 8, 500)
    drawn = SumTree(tuple(cells)).draw(totals, np.random.default_rng(2))
    assert (drawn.sum(axis=1) == totals).all()
    assert (drawn.min(axis=0) == [0, -1, 2]).all()
    assert (drawn.max(axis=0) == [2, 0, 5]).all()


@pytest.mark.parametrize("few", [0, 1 << 13, 1 << 40], ids=["rejection first", "as it is", "inversion"])
def test_draws_given_a_sum_have_the_enumerated_law(few, monkeypatch):
    """Five integers, halves of two and three: chi-square at 1e-6 over all of their values that add up to 9."""
    monkeypatch.setattr(dirichlet_multinomial, "FEW", few)
    rng = np.random.default_rng(3)
    logs = [(low, rng.normal(size=size)) for low, size in ((0, 4), (-1, 3), (2, 4), (0, 2), (1, 5))]
    cells = tuple(tilted_law(low, log, 0.3)[0] for low, log in logs)
    drawn = SumTree(cells).draw(np.full(40_000, 9), rng)
    weights = {}
    for values in itertools.product(*(cell.values.tolist() for cell in cells)):
        if sum(values) == 9:
            found = (cell.weight[value - cell.low] for cell, value in zip(cells, values, strict=True))
            weights[values] = math.prod(found)
    seen = Counter(map(tuple, drawn.tolist()))
    assert set(seen) <= set(weights)
    expected = len(drawn) * np.array(list(weights.values())) / sum(weights.values())
    observed = np.array([seen[values] for values in weights])
    kept = expected >= 5
    observed, expected = (np.append(one[kept], one[~kept].sum()) for one in (observed, expected))
    assert stats.chisquare(observed, expected).pvalue > 1e-6


def test_sums_above_the_most_are_cut():
    cells = tuple(tilted_law(0, np.zeros(40), 0.0)[0] for _ in range(3))
    assert SumTree(cells, 50).law.values[-1] == 50
    assert SumTree(cells).law.values[-1] == 117
