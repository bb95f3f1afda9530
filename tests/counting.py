"""Counts the tests by kind and by rule of docs/promise.md, those of each tier.

``python -m tests.counting`` prints two tables. A test counts for every rule that names its file; a planted fault
for every rule that names it or the file of a test that must notice it, in the first tier where it is planted there too.
"""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from tests.mutants.faults import MUTANTS

ROOT = Path(__file__).parents[1]
TIERS = ("test", "proof", "systems")


class Collected:
    """A plugin that keeps each test that is collected: its file and names, and its tier."""

    def __init__(self) -> None:
        self.tests: list[tuple[str, str]] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Called once, after all."""
        for item in session.items:
            marks = {mark.name for mark in item.iter_markers()}
            tier = "systems" if "systems" in marks else "proof" if "proof" in marks else "test"
            self.tests.append((item.nodeid, tier))


def collected() -> list[tuple[str, str]]:
    """Every test with its tier."""
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


def rules(promise: str, proofs: str) -> dict[str, tuple[set[str], set[str]]]:
    """By the number of each rule the test files that guard it and its planted faults, those of proofs it names too."""
    found, of_proofs = {}, {}
    for section in [*proofs.split("\n### ")[1:], *promise.split("\n### ")[1:]]:
        guarded, _, planted = section.partition("**Faults.**")
        planted = re.split(r"\n\n|\*\*Open", planted)[0].replace("\n", " ")
        faults = set(re.findall(r"`([^`]+)`", planted))
        for first, last in re.findall(r"\bP(\d+)(?: to P(\d+))?\b", planted):
            faults.update(*(of_proofs[f"P{i}"] for i in range(int(first), int(last or first) + 1)))
        number = section.split()[0]
        if number.startswith("P"):
            of_proofs[number] = faults
        else:
            found[number] = set(re.findall(r"`(tests/[\w/]+\.py)", guarded)), faults
    return found


def table(head: str, tiers: Iterable[str], rows: Iterable[tuple[str, Counter[str]]]) -> str:
    """Lines of Markdown."""
    tiers = list(tiers)
    lines = [f"| {head} | {' | '.join(tiers)} |", "|---|" + "---|" * len(tiers)]
    return "\n".join(
        [*lines, *(f"| {name} | {' | '.join(str(count[one]) for one in tiers)} |" for name, count in rows)]
    )


def main() -> None:
    """Prints both tables."""
    tests = collected()
    kinds = sorted({kind(test) for test, _ in tests})
    counts = [(one, Counter(tier for test, tier in tests if kind(test) == one)) for one in kinds]
    print(table("kind", TIERS, [*counts, ("together", Counter(tier for _, tier in tests))]))
    rows = []
    pages = [(ROOT / f"docs/{page}.md").read_text() for page in ("promise", "proofs")]
    for rule, (files, faults) in rules(*pages).items():
        count = Counter(tier for test, tier in tests if test.split("::")[0] in files)
        guarding = [
            mutant
            for mutant in MUTANTS
            if mutant.name in faults or any(test.split("::")[0] in files for test in mutant.tests)
        ]
        first = sum(mutant.first for mutant in guarding)
        rows.append((rule, count + Counter({"faults in test": first, "faults in proof": len(guarding)})))
    print(table("rule", (*TIERS, "faults in test", "faults in proof"), rows))


if __name__ == "__main__":
    main()
