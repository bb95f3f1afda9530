"""Fixtures for the contract of everything that spends."""

import pytest

from dpgraph.privacy import accounting


@pytest.fixture(autouse=True)
def budgets_of_one_name(monkeypatch):
    """Every budget gets the same name, so that files of two runs are equal to the last byte.

    A budget draws its name before any row is read, so the name says nothing of rows.
    """
    monkeypatch.setattr(accounting.secrets, "token_hex", lambda size: "0" * (2 * size))
