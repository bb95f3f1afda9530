"""Processor seconds of each test, its children's included: ``pytest -p tests.durations --durations-to FOLDER``.

Each worker appends to a file of its own. ``python -m tests.durations FOLDER`` adds them up: the sum of the run, its
slowest tests, and every test above a share of the sum, which fails the command. Processor seconds, since they change
little where the machine has other work, and a share, since one machine needs a third more of them than another. What
numba compiles for a test is not counted as the test's: which test is the first to need a loop is chance.
"""

from __future__ import annotations

import csv
import os
import resource
import sys
from pathlib import Path

import pytest
from numba.core.event import TimingListener, register

folder_of_run = pytest.StashKey[Path]()
compiling = pytest.StashKey[TimingListener]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Where the seconds are written."""
    parser.addoption("--durations-to", type=Path, help="a folder for the processor seconds of each test")


def pytest_configure(config: pytest.Config) -> None:
    """Makes the folder, empty of an earlier run's files."""
    if folder := config.getoption("durations_to"):
        folder = config.stash[folder_of_run] = (config.rootpath / folder).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        config.stash[compiling] = TimingListener()
        register("numba:compile", config.stash[compiling])
        if not hasattr(config, "workerinput"):
            for old in folder.glob("*.csv"):
                old.unlink()


def spent() -> float:
    """Processor seconds of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    """Runs the test with its fixtures and writes a line."""
    before = spent()
    listener = item.config.stash.get(compiling, None)
    compiled = listener.duration if listener and listener.done else 0.0
    try:
        return (yield)
    finally:
        if folder := item.config.stash.get(folder_of_run, None):
            assert listener is not None
            seconds = spent() - before - ((listener.duration if listener.done else 0.0) - compiled)
            worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
            with (folder / f"{worker}.csv").open("a", newline="") as file:
                csv.writer(file).writerow([f"{max(seconds, 0.0):.3f}", item.nodeid])


def read(folder: Path) -> list[tuple[float, str]]:
    """Each test with its seconds, the slowest first."""
    rows = [row for path in folder.glob("*.csv") for row in csv.reader(path.open(newline=""))]
    return sorted(((float(seconds), test) for seconds, test in rows), reverse=True)


def main(folder: str, most: str = "20", share: str = "1") -> int:
    """Prints the sum and the slowest tests; 1 if a test took more than this share of the sum."""
    rows = read(Path(folder))
    total = sum(seconds for seconds, _ in rows)
    print(f"{len(rows)} tests, {total:.0f} processor seconds")
    for seconds, test in rows[: int(most)]:
        print(f"{seconds:8.2f} {test}")
    over = [test for seconds, test in rows if seconds > float(share) * total]
    for test in over:
        print(f"above {float(share) * total:.1f} processor seconds, so of another tier: {test}", file=sys.stderr)
    return int(bool(over))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
