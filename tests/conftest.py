"""Settings of every test: neither a busy machine nor an unlucky example is a reason to fail.

A property is tried on the same examples in every run: on few of them in ``make test``, on all in ``make proof``.
``make search`` tries new ones, and ten times as many. Planted faults are tried on all, and a counterexample is not made
smaller.
"""

import gc
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, Phase, settings

from dpgraph.privacy import accounts
from tests.tiers import EXAMPLES, mark_crossings, mark_systems, of_systems_alone

UNHURRIED = [HealthCheck.too_slow]  # it reads a clock

settings.register_profile("repeated", deadline=None, derandomize=True, database=None, suppress_health_check=UNHURRIED)
settings.register_profile("first", settings.get_profile("repeated"), max_examples=EXAMPLES)
settings.register_profile("search", deadline=None, max_examples=1_000, suppress_health_check=UNHURRIED)
settings.register_profile(
    "planted", settings.get_profile("repeated"), phases=set(Phase) - {Phase.shrink, Phase.explain}
)
settings.load_profile("repeated")

#: Rooms whose tests run no compiled loop: they come first, while the loops are compiled. But those of hidden Markov
#: models, by their names, run some wherever they are.
WITHOUT_LOOPS = ("privacy", "statistics", "structure", "mechanisms")
WITH_LOOPS = ("HMM", "hidden_markov")
#: In a worker, the file that is there once all loops are compiled.
COMPILED = "DPGRAPH_TESTS_COMPILED"


def pytest_configure(config):
    """Before workers start on all tests: compiles loops once for all of them, while they run what needs none.

    On a fresh clone that is two minutes of one processor, which every worker would take for itself.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job no test of Ctrl-C could pass
        signal.signal(signal.SIGINT, signal.default_int_handler)
    workers = getattr(config.option, "numprocesses", None)
    if workers and config.args_source is config.ArgsSource.TESTPATHS:
        config.compiled = Path(tempfile.mkdtemp()) / "compiled"
        os.environ[COMPILED] = str(config.compiled)
        config.compiling = subprocess.Popen(
            [sys.executable, "-m", "tests.compiling", config.compiled], cwd=config.rootpath
        )


def pytest_unconfigure(config):
    """Waits for what was started; if it failed, so did the tests that need what it compiles."""
    if hasattr(config, "compiling"):
        config.compiling.wait()
        config.compiled.unlink(missing_ok=True)
        config.compiled.parent.rmdir()


def runs_loops(item):
    """Whether a test runs compiled loops, by its room or its name."""
    elsewhere = not any(room in item.path.parts for room in WITHOUT_LOOPS)
    return elsewhere or any(word in item.name for word in WITH_LOOPS)


def spread(items, workers, last):
    """Items in an order such that each worker, who gets a run of them, ends with its share of those that are last."""
    parts = [[one for one in items if last(one) == wanted] for wanted in (False, True)]
    ends = [[len(part) * k // workers for k in range(workers + 1)] for part in parts]
    return [
        one for k in range(workers) for part, end in zip(parts, ends, strict=True) for one in part[end[k] : end[k + 1]]
    ]


def is_unplanted(item):
    """Whether a test plants no fault: it comes after the faults, whose last check would else keep one worker alone."""
    return item.get_closest_marker("planted") is None


def pytest_runtest_setup(item):
    """A test of a room with loops waits until they are compiled."""
    if os.environ.get(COMPILED) and runs_loops(item):
        while not os.path.exists(os.environ[COMPILED]):
            time.sleep(0.1)


def pytest_ignore_collect(collection_path, config):
    """A file of tests that all need a system is imported where systems are tested, or where it is named."""
    if "not systems" in config.option.markexpr and collection_path.name.startswith("test_"):
        return True if of_systems_alone(collection_path) else None
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """The doctests of the package, and of the few files of tests that have some: none is imported to look for them."""
    found = yield
    if file_path.suffix != ".py" or ">>> " in file_path.read_text():
        return found
    return [one for one in found if not isinstance(one, DoctestModule)]


@pytest.hookimpl(wrapper=True, tryfirst=True)  # before the tests of other tiers are left out
def pytest_collection_modifyitems(config, items):
    """Says which tier each test is of: of large crossings the first has a cover."""
    mark_systems(items)
    mark_crossings(items)
    yield
    if hasattr(config, "workerinput"):
        last = runs_loops if os.environ.get(COMPILED) else is_unplanted
        items[:] = spread(items, config.workerinput["workercount"], last)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that cannot run fails under CI: a proof that is skipped in silence is none."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI: {report.longrepr}"
    return report


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
