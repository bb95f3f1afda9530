"""A variable of very many levels is priced, with a warning, by the mechanisms that can hold it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import dpgraph as dg
from dpgraph.analysis import expected
from dpgraph.analysis.expected import log_gamma_divergence

NETWORK = dg.naive_bayes_network(dg.Domain.of({"code": list(range(60_000)), "y": [0, 1]}), "y")


def test_it_is_priced_with_advice_and_without_a_basis():
    with pytest.warns(dg.errors.DomainWarning, match=r"code \(60,000\).*coarser levels"):
        report = dg.privacy_cost(NETWORK, epsilon=1, n=1000)
    assert not any("Fourier" in row["mechanism"] for row in report.mechanism_rows)
    assert max(row["tv"] for row in report.family_rows) == pytest.approx(1.0, abs=0.01)


def test_a_basis_of_it_is_refused_before_memory_is_taken():
    budget = dg.Budget(1)
    with pytest.raises(dg.errors.NetworkError, match=r"at most 10,000 levels; one has 60,000"):
        dg.FourierMechanism(1).event(NETWORK, budget.unit)
    assert budget.spent == 0


@pytest.mark.proof
def test_a_million_levels_are_priced_by_the_few_counts_that_differ(monkeypatch):
    """Of a bare network all counts of a table are alike: 61 nodes for one of them, not for two million; few are not
    compared. Of code one count and two rows are asked for, of y two counts and one row."""
    asked = []

    def recorded(y, x):
        asked.append(np.size(y))
        return log_gamma_divergence(y, x)

    monkeypatch.setattr(expected, "log_gamma_divergence", recorded)
    network = dg.naive_bayes_network(dg.Domain.of({"code": list(range(1_000_000)), "y": [0, 1]}), "y")
    with pytest.warns(dg.errors.DomainWarning, match=r"code \(1,000,000\)"):
        report = dg.privacy_cost(network, epsilon=1, n=1000)
    assert len(report.family_rows) == 2
    assert sum(asked) == (1 + 2 + 2 + 1) * 61


@given(
    hnp.arrays(float, st.tuples(*[st.integers(1, 4)] * 3), elements=st.sampled_from([0.0, 1.0, 2.5, 40.0])),
    st.sampled_from([0.3, 5.0]),
)
def test_the_divergence_of_a_table_is_the_sum_of_those_of_its_rows(counts, rmse):
    """However often a count or a row is there."""
    rows = counts.reshape(len(counts), -1).T
    parts = [expected.expected_kl(row, rmse) for row in rows]
    assert expected.expected_kl(counts, rmse) == pytest.approx(sum(parts), rel=1e-9, abs=1e-12)
    nodes, weights = expected.normal_quadrature()
    clipped = np.maximum(rows[0][:, None] + rmse * nodes, 0)
    total, spread = (clipped @ weights).sum(), np.sqrt((clipped**2 @ weights - (clipped @ weights) ** 2).sum())
    whole = log_gamma_divergence(len(counts) + np.maximum(total + spread * nodes, 0), len(counts) + rows[0].sum())
    cells = log_gamma_divergence(1 + clipped, 1 + rows[0][:, None])
    assert parts[0] == pytest.approx((cells @ weights).sum() - whole @ weights, rel=1e-9, abs=1e-12)
