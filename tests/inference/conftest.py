"""Loops as they are written."""

import pytest


@pytest.fixture
def plain(monkeypatch):
    """A function after which the loops of a module run as plain Python."""
    return lambda module: monkeypatch.setattr(module, "compiled", lambda loop: loop)
