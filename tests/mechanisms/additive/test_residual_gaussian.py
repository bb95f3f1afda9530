"""Gaussian noise on residual blocks is rho-zCDP by enumeration, draws what it records, and has the error it states."""

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import dpgraph as dg
from dpgraph.mechanisms.additive.plans import GRID, block_l2_squared, residual_design
from dpgraph.structure.tables import contrast_matrix, contrast_norms, fixed_point
from tests.conclusions import law_test
from tests.mechanisms.additive.test_laplace import APART, TINY, exact_tables, neighbours
from tests.mechanisms.additive.test_sensitivity import small_networks
from tests.tiers import examples

ADD = dg.PrivacyUnit("add-remove")
MECHANISM = dg.GaussianMechanism(delta="1e-6", rho="0.5", basis="residual")


def block_integers(network, table, block):
    """The block's integers from a table over exactly its variables, cell by cell: multiplier times the product of
    the variables' contrasts."""
    total = np.zeros([size - 1 for size in network.shape(block)])
    for cell in np.ndindex(*network.shape(block)):
        outer = np.ones(())
        for size, level in zip(network.shape(block), cell, strict=True):
            outer = np.multiply.outer(outer, contrast_matrix(size)[1:, level])
        total += table[cell] * outer
    return total * fixed_point(network.shape(block), GRID)


@pytest.mark.parametrize("unit", [ADD], ids=str)
@pytest.mark.parametrize("network", [TINY, APART], ids=["arc", "no arc"])
def test_the_largest_renyi_divergence_over_all_neighbours_is_rho(network, unit):
    """sum_A ||T_A - T'_A||_2^2 / (2 scale_A^2) bounds the divergence of order a over a; its maximum is rho."""
    laws = {m.table: m.law for m in MECHANISM.event(network, unit).measurements}
    largest = Fraction(0)
    for one, other in neighbours(3, unit):
        s, t = exact_tables(network, one, laws), exact_tables(network, other, laws)
        moved = Fraction(0)
        for block, law in laws.items():
            gap = block_integers(network, s[block] - t[block], block)
            moved += Fraction(int((gap**2).sum())) / (2 * Fraction(law.scale) ** 2)
        largest = max(largest, moved)
    assert largest <= Fraction(1, 2)
    assert largest >= Fraction(1, 2) * Fraction(999, 1000)


@settings(max_examples=examples(200), deadline=None)
@given(small_networks(), st.integers(1, 3))
def test_the_sensitivity_of_a_block_is_the_largest_over_its_cells(network, rows):
    for block in MECHANISM.event(network, ADD).measurements:
        shape = network.shape(block.table)
        reached = 0
        for cell in np.ndindex(*shape):
            table = np.zeros(shape)
            table[cell] = rows
            reached = max(reached, int((block_integers(network, table, block.table) ** 2).sum()))
        unit = dg.PrivacyUnit("add-remove", rows)
        assert block_l2_squared(network, block.table, GRID, unit) == reached
        exact = GRID**2 * math.prod(1 - 1 / size for size in shape) * rows**2
        rounding = 0.5 * float(contrast_norms(shape).max()) / GRID
        assert abs(math.sqrt(reached / exact) - 1 if exact else 0.0) <= rounding


@pytest.mark.parametrize("name", ["asia", "alarm"])
def test_the_scales_are_those_of_residual_planner(name):
    """Xiao, He, Zhang and Kifer 2023: the integer scales over the grid are the closed-form standard deviations."""
    network = dg.read_network(f"example:{name}")
    design = residual_design(network, 0.5)
    for m in MECHANISM.event(network, ADD).measurements:
        norms = fixed_point(network.shape(m.table), GRID).astype(float)
        assert m.cells == norms.size
        assert m.law.scale / GRID == pytest.approx(math.sqrt(design.variances[m.table]), rel=1e-3)


@pytest.mark.parametrize("source", [None, dg.testing.SeededNoise(4)], ids=["secure", "seeded"])
def test_a_release_draws_the_law_it_records(source):
    """10 000 coordinates of 200 blocks in 41 bins: accepted by the recorded law, and scales wrong by a seventh are
    rejected, each but for 1e-6."""
    domain = {f"v{i}": list(range(51)) for i in range(200)}
    network = dg.Network.of(domain, {})
    counts = dg.count(pd.DataFrame({name: [7, 7, 9] for name in domain}), network)
    budget = dg.Budget(100, "1e-6", unit=ADD)
    released = dg.release(counts, dg.GaussianMechanism(9, "1e-6", basis="residual"), budget=budget, noise=source).value
    exact = block_integers(network, counts.sensitive_margin(("v0",)), ("v0",))
    noise = np.stack([released.blocks[(name,)] - exact for name in domain])
    (scale,) = {released.laws[(name,)].scale for name in domain}

    bins = np.linspace(-3, 3, 40)
    log_law, *wrong = (
        np.log(np.diff(stats.norm.cdf(bins, scale=factor), prepend=0, append=1)) for factor in (1, 6 / 7, 8 / 7)
    )
    test = law_test(log_law, wrong, draws=noise.size)
    test.check(np.searchsorted(bins, noise.ravel() / scale))


@pytest.mark.proof
@pytest.mark.parametrize("name", ["asia", "sachs"])
def test_the_error_of_releases_is_the_one_stated(name):
    """300 releases: the mean squared error of all cells has a standard error below 2.5 %; a scale wrong by a tenth is
    19 % off."""
    network = dg.read_network(f"example:{name}")
    counts = dg.count(pd.DataFrame({v: list(network.domain.levels(v))[:2] * 50 for v in network.domain.names}), network)
    noise, budget, squared = dg.testing.SeededNoise(2), dg.Budget(10_000, "0.01", unit=ADD), 0.0
    for _ in range(300):
        tables = dg.release(counts, MECHANISM, budget=budget, noise=noise).value.tables()
        squared += sum(
            float(((tables.family(v) - counts.sensitive_margin(network.family(v))) ** 2).sum())
            for v in network.domain.names
        )
    stated = MECHANISM.variance(network, ADD)
    expected = sum(stated[family] * network.cells(family) for family in network.families)
    assert squared / 300 == pytest.approx(expected, rel=0.13)


def test_it_is_for_private_n_and_has_no_tables_to_choose():
    with pytest.raises(dg.errors.ReleaseError, match="add-remove"):
        MECHANISM.event(TINY, dg.PrivacyUnit("replace"))
    for setting in ({"tables": "merged"}, {"allocation": "uniform"}, {"basis": "walsh"}):
        with pytest.raises(dg.errors.ReleaseError, match=next(iter(setting)) + "|leave them out"):
            dg.GaussianMechanism(1, "1e-6", **{"basis": "residual"} | setting)
    budget = dg.Budget(1, "1e-6")
    counts = dg.count(pd.DataFrame({"a": [0, 1], "b": [1, 2]}), TINY)
    with pytest.raises(dg.errors.ReleaseError, match="add-remove"):
        dg.release(counts, dg.GaussianMechanism(1, "1e-6", basis="residual"), budget=budget)
    assert budget.spent == 0
