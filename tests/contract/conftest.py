"""What every run of the contract has."""

import pytest


@pytest.fixture(autouse=True)
def one_name(budgets_of_one_name):
    """Files of two runs are equal to the last byte."""
