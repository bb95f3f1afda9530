"""The Lipschitz calculus: exact where it says so, and bounds that are not violated."""

import itertools
import math

import numpy as np
import pytest
from scipy import special, stats

import dpgraph as dg
from dpgraph.mechanisms.selection.lipschitz import (
    lipschitz_constant,
    lipschitz_failure_bound,
    stochastic_lipschitz_bound,
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


def test_lemma_3_is_not_violated_by_uniform_bernoulli_variables():
    """L(theta) = |ln(theta / (1 - theta))| of a uniform theta: P(L > l) = 2 / (1 + e^l) <= exp(-(l - ln 2)), so c = 1
    and L0 = ln 2. Three of them: the sum exceeds L less often than either bound, by 4 10^5 draws."""
    uniform = np.random.default_rng(0).random((400_000, 3))
    total = np.abs(np.log(uniform / (1 - uniform))).sum(axis=1)
    for level in (6.0, 9.0, 14.0):
        actual = (total > level).mean()
        bounds = [
            lipschitz_failure_bound([1.0] * 3, level, offsets=[math.log(2)] * 3, split=s) for s in ("optimal", "equal")
        ]
        assert actual < min(bounds)
        assert bounds[0] == pytest.approx(bounds[1])


def test_the_split_of_the_paper_and_the_better_one():
    """Lemma 3's printed rate c' = min c / V - ln V / L, and that sharing by 1 / c never does worse in its exponent."""
    rates, level = [0.5, 1.0, 4.0], 60.0
    equal = lipschitz_failure_bound(rates, level, split="equal")
    assert equal <= math.exp(-(min(rates) / 3 - math.log(3) / level) * level)
    assert lipschitz_failure_bound(rates, level) == pytest.approx(3 * math.exp(-level / (2 + 1 + 0.25)))
    assert lipschitz_failure_bound(rates, level) < equal
    assert lipschitz_failure_bound(rates, 0.1) == lipschitz_failure_bound(rates, 0.1, split="equal") == 1


@pytest.mark.parametrize("wrong", [{"rates": []}, {"rates": [0.0]}, {"rates": [1.0], "offsets": [1.0, 2.0]}])
def test_rates_that_make_no_sense(wrong):
    with pytest.raises(dg.errors.ReleaseError):
        lipschitz_failure_bound(level=1.0, **wrong)
    with pytest.raises(dg.errors.ReleaseError, match="split"):
        lipschitz_failure_bound([1.0], 1.0, split="best")


def test_the_stochastic_bound_holds_for_uniform_bernoulli_and_is_vacuous_for_data_sets():
    """Total variation of Beta posteriors of neighbours, n < 40, by integration; the bound is loose, and 1 from the
    first row on: it is no mechanism's guarantee."""
    grid = np.linspace(0, 1, 4001)[1:-1]
    worst = 0.0
    for n in range(1, 40):
        peaks = []
        for k in range(n + 1):
            top = special.xlogy(k, k / n) + special.xlogy(n - k, 1 - k / n)
            peaks.append(math.exp(top - special.betaln(k + 1, n - k + 1)))
        peak = max(peaks)
        raw = math.sqrt(peak * (math.log(2) + 1))
        for k in range(n):
            one, other = stats.beta(k + 1, n - k + 1), stats.beta(k + 2, n - k)
            distance = 0.5 * np.abs(one.pdf(grid) - other.pdf(grid)).mean()
            worst = max(worst, distance / raw)
        assert stochastic_lipschitz_bound(1.0, math.log(2), peak, 1) == 1.0
    assert 0.01 < worst < 1
    assert stochastic_lipschitz_bound(4.0, 0.0, 1.0, 0.01) == pytest.approx(0.05)


@pytest.mark.parametrize("wrong", [(0, 1, 1, 1), (1, -1, 1, 1), (1, 1, 0.5, 1), (1, 1, 1, -1), (math.nan, 1, 1, 1)])
def test_a_stochastic_bound_needs_its_constants(wrong):
    with pytest.raises(dg.errors.ReleaseError):
        stochastic_lipschitz_bound(*wrong)
