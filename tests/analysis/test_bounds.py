"""The paper's statements, checked against simulation and quadrature, and the exact values they bound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

import dpgraph as dg
from dpgraph.analysis.bounds import (
    corrected_divergence_bound,
    count_error_bound,
    dirichlet_divergence,
    divergence_bound,
    expected_divergence,
)
from dpgraph.analysis.bounds_table import _log_candidates
from dpgraph.privacy.records import DiscreteLaplace
from tests.selection import compositions


@pytest.mark.parametrize(
    ("cells", "scale", "delta"), [(36, 16.0, 0.1), (1, 2.0, 0.5), (752, 74.0, 0.01), (5, 0.3, 0.2)]
)
def test_proposition_1_is_the_smallest_bound_that_holds(cells, scale, delta):
    """The coverage at z is computed from the pmf; one less does not cover."""
    z = count_error_bound(cells, scale, delta).exact
    support = np.arange(-int(200 * scale) - 50, int(200 * scale) + 51)
    mass = np.exp(-np.abs(support) / scale)
    mass /= mass.sum()

    def covered(bound):
        return mass[np.abs(support) <= bound].sum() ** cells

    assert covered(z) >= 1 - delta - 1e-12
    assert z == 0 or covered(z - 1) < 1 - delta
    assert z <= math.ceil(count_error_bound(cells, scale, delta).union)


def test_the_divergence_of_beta_laws_by_quadrature():
    one, other = np.array([3.5, 2.0]), np.array([1.5, 6.0])
    left, right = stats.beta(*one), stats.beta(*other)
    direct = integrate.quad(lambda x: left.pdf(x) * (left.logpdf(x) - right.logpdf(x)), 0, 1)[0]
    assert dirichlet_divergence(one, other) == pytest.approx(direct, rel=1e-7)
    assert dirichlet_divergence(one, one) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("counts", "scale", "n"), [([7, 3], 2.0, 10), ([0, 20, 5], 5.0, 25), ([400, 600], 20.0, 1000)])
def test_the_expected_divergence_is_the_mean_over_the_noise(counts, scale, n):
    """20 000 draws of the clipped noise; the exact value is within 4.9 standard errors (level 1e-6)."""
    counts = np.array(counts)
    noise = dg.testing.SeededNoise(3).add(np.zeros(20_000 * len(counts), np.int64), DiscreteLaplace(scale))
    noisy = np.clip(counts + noise.reshape(-1, len(counts)), 0, n)
    draws = np.array([dirichlet_divergence(1.0 + counts, 1.0 + row) for row in noisy])
    exact = expected_divergence(counts, scale, n)
    assert abs(draws.mean() - exact) < 4.9 * draws.std() / math.sqrt(len(draws))
    assert draws.std() / math.sqrt(len(draws)) < 0.02 * exact  # so an error of a tenth would be seen


def test_the_exact_expectation_of_the_reference_row():
    """proofs.md P36: a binary row of n = 1000, scale 20: 1.116 nats; .110 at n = 10^4."""
    assert expected_divergence([300, 700], 20.0, 1000) == pytest.approx(1.1156, abs=5e-5)
    assert expected_divergence([3000, 7000], 20.0, 10_000) == pytest.approx(0.11045, abs=5e-5)
    small = [expected_divergence([n // 2, n // 2], 20.0, n) for n in (1000, 10_000)]
    assert small[0] / small[1] == pytest.approx(10, rel=0.03)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 200), st.floats(0.5, 30), st.data())
def test_the_corrected_bound_holds_row_by_row(n, scale, data):
    levels = data.draw(st.integers(2, 4))
    cuts = sorted(data.draw(st.lists(st.integers(0, n), min_size=levels - 1, max_size=levels - 1)))
    counts = np.diff([0, *cuts, n])
    network = dg.Network.of({"a": list(range(levels))}, {})
    bound = corrected_divergence_bound(network, scale, n, 0.1)
    assert expected_divergence(counts, scale, n) <= bound.expectation * (1 + 1e-9)
    assert bound.expectation <= bound.high_probability


def test_the_papers_bound_grows_while_the_truth_falls():
    network = dg.Network.of({"a": [0, 1]}, {})
    paper = [divergence_bound(network, 20.0, n, 0.1).expectation for n in (1000, 100_000)]
    truth = [expected_divergence([n // 2, n // 2], 20.0, n) for n in (1000, 100_000)]
    assert paper[0] > 100 * truth[0]
    assert paper[1] >= paper[0]
    assert truth[1] < truth[0] / 50


def test_settings_outside_the_theorems_are_refused():
    network = dg.Network.of({"a": [0, 1]}, {})
    for call in (
        lambda: count_error_bound(0, 1.0, 0.1),
        lambda: count_error_bound(3, 1.0, 1.0),
        lambda: divergence_bound(network, 1.0, 10, 0.1, prior=1.0),
        lambda: corrected_divergence_bound(network, 0.0, 10, 0.1),
        lambda: expected_divergence([11, 0], 1.0, 10),
    ):
        with pytest.raises(dg.errors.ReleaseError):
            call()


def test_candidates_are_counted_by_stars_and_bars():
    for levels, steps in ((1, 5), (2, 7), (3, 4), (4, 6)):
        assert _log_candidates(levels, steps) == pytest.approx(math.log(len(compositions(levels, steps))))
