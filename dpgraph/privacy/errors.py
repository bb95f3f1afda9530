"""Errors of releases that are refused."""


class ReleaseError(ValueError):
    """A release was refused before anything was charged: a bad privacy parameter or statistics that do not fit."""


class BudgetExceededError(ReleaseError):
    """A release was refused because the budget does not hold it; nothing was charged and nothing was drawn."""
