"""Settings of every test: neither a busy machine nor an unlucky example is a reason to fail.

A property is tried on the same examples in every run; ``make search`` tries new ones, and ten times as many. Planted
faults are tried on those of every run, and what they break is not made smaller.
"""

import gc
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, Phase, settings

from dpgraph.privacy import accounts

UNHURRIED = [HealthCheck.too_slow]  # it reads a clock

settings.register_profile("repeated", deadline=None, derandomize=True, database=None, suppress_health_check=UNHURRIED)
settings.register_profile("search", deadline=None, max_examples=1_000, suppress_health_check=UNHURRIED)
settings.register_profile(
    "planted", settings.get_profile("repeated"), phases=set(Phase) - {Phase.shrink, Phase.explain}
)
settings.load_profile("repeated")


def pytest_configure(config):
    """Before workers start on all tests: compiles loops once for all of them, while they collect.

    On a fresh clone that is three quarters of a minute of one processor, which every worker would take for itself.
    """
    workers = getattr(config.option, "numprocesses", None)
    if workers and config.args_source is config.ArgsSource.TESTPATHS:
        config.compiling = subprocess.Popen([sys.executable, "-m", "tests.compiling"], cwd=config.rootpath)


def pytest_unconfigure(config):
    """Waits for what was started; if it failed, so did the tests that need what it compiles."""
    if hasattr(config, "compiling"):
        config.compiling.wait()


@pytest.fixture
def budgets_of_one_name(monkeypatch):
    """Every budget gets the same name, so that outputs of two runs are equal to the last byte.

    A budget draws its name before any row is read, so the name says nothing of rows.
    """
    monkeypatch.setattr(accounts.secrets, "token_hex", lambda size: "0" * (2 * size))


@pytest.fixture
def uncollected():
    """Garbage is not collected meanwhile: hypothesis listens to the collector, and an interruption there is lost."""
    gc.disable()
    yield
    gc.enable()
