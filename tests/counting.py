"""Counts the tests by kind and by rule of docs/promise.md, those of every run beside those of the long runs.

``python -m tests.counting`` prints the tables of docs/testing.md. A test counts for every rule that names its file.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LONG = ("slow", "planted")


class Collected:
    """A plugin that keeps each test that is collected: its file, its line of names, and its long run, if any."""

    def __init__(self) -> None:
        self.tests: list[tuple[str, str]] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Called once, after all."""
        for item in session.items:
            marks = [mark.name for mark in item.iter_markers() if mark.name in LONG]
            self.tests.append((item.nodeid, marks[0] if marks else "every run"))


def collected() -> list[tuple[str, str]]:
    """Every test with the run it is in."""
    plugin = Collected()
    with redirect_stdout(io.StringIO()):
        pytest.main(["--collect-only", "-qq", "-m", "", "-p", "no:cacheprovider"], plugins=[plugin])
    return plugin.tests


def kind(test: str) -> str:
    """The folder of a test, or what else it is."""
    parts = test.split("::")[0].split("/")
    if parts[0] != "tests":
        return "doctests"
    return parts[1] if len(parts) > 2 else "of the whole"


def rules(promise: str) -> dict[str, tuple[set[str], set[str]]]:
    """By the number of each rule the test files that guard it and its planted faults."""
    found = {}
    for section in promise.split("\n### ")[1:]:
        guarded, _, planted = section.partition("* Planted faults:")
        files = set(re.findall(r"`(tests/[\w/]+\.py)", guarded))
        found[section.split()[0]] = files, set(re.findall(r"`([^`]+)`", planted.split("\n\n")[0].replace("\n  ", " ")))
    return found


def table(head: str, rows: Iterable[tuple[str, Counter[str]]]) -> str:
    """Lines of Markdown."""
    runs = ("every run", *LONG)
    lines = [f"| {head} | {' | '.join(runs)} |", "|---|" + "---|" * len(runs)]
    return "\n".join([*lines, *(f"| {name} | {' | '.join(str(count[run]) for run in runs)} |" for name, count in rows)])


def main() -> None:
    """Prints both tables."""
    tests = collected()
    kinds = sorted({kind(test) for test, _ in tests})
    print(table("kind", ((one, Counter(run for test, run in tests if kind(test) == one)) for one in kinds)))
    print(table("all", [("together", Counter(run for _, run in tests))]))
    rows = []
    for rule, (files, faults) in rules((ROOT / "docs/promise.md").read_text()).items():
        count = Counter(run for test, run in tests if test.split("::")[0] in files and run != "planted")
        rows.append((rule, count + Counter({"planted": len(faults)})))
    print(table("rule", rows))


if __name__ == "__main__":
    main()
