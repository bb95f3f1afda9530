"""A variable of very many levels is priced, with a warning, by the mechanisms that can hold it."""

import pytest

import dpgraph as dg

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
