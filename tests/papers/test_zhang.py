"""The paper's statements, checked against simulation and quadrature, and the exact values they bound."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

import dpgraph as dg
from dpgraph.papers.zhang import (
    _log_candidates,
    corrected_divergence_bound,
    count_error_bound,
    dirichlet_divergence,
    divergence_bound,
    expected_divergence,
    lipschitz_failure_bound,
    stochastic_lipschitz_bound,
)
from dpgraph.privacy.measurements import DiscreteLaplace
from tests.selection import compositions
from tests.tiers import examples

pytestmark = pytest.mark.proof


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


@settings(max_examples=examples(100), deadline=None)
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


def test_the_theorems_bound_what_they_stand_beside():
    """asia and alarm: every bound is above its value; Proposition 1 is close, the others are not."""
    for name, rows in (("asia", 5), ("alarm", 4)):
        report = dg.privacy_cost(dg.read_network(f"example:{name}"), epsilon=1, n=1000)
        bounds = dg.papers.error_bounds(report).set_index("statement")
        assert len(bounds) == rows
        assert (bounds["ratio"] >= 1).all()
        assert bounds["ratio"].filter(like="Proposition 1").item() < 1.05
        assert bounds["ratio"].drop(bounds.filter(like="Proposition 1", axis=0).index).min() > 4
    assert len(dg.papers.error_bounds(dg.privacy_cost(dg.read_network("example:asia"), epsilon=1))) == 3


def test_proposition_1_and_theorem_3_hold_on_real_releases():
    """100 releases of asia at level 0.1: more than 27 failures have a chance below 1e-6."""
    network = dg.read_network("example:asia")
    counts = dg.count(dg.sample_rows(dg.load("example:asia"), 1000, np.random.default_rng(0)), network)
    bounds = dg.papers.error_bounds(dg.privacy_cost(network, epsilon=1, n=1000)).set_index("statement")
    most = bounds["bound"].filter(like="Proposition 1").item()
    noise, budget, off = dg.testing.SeededNoise(3), dg.Budget(1000), 0
    paper = dg.LaplaceMechanism(1, tables="families", allocation="uniform")
    for _ in range(100):
        noisy = dg.release(counts, paper, budget=budget, noise=noise).value
        off += max(np.abs(table - counts.sensitive_margin(key)).max() for key, table in noisy.tables.items()) > most
    assert off <= 27


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
