"""The three tiers of the suite: which tests ``make test``, ``make proof`` and ``make systems`` run.

A test without a marker is of the first tier, ``proof`` and ``systems`` name the other two. A test function that crosses
several parameters in more than ``CASES`` cases keeps a cover of them in the first tier, and the full crossing is proof.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from importlib import import_module
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestItem
from hypothesis import settings

#: Cases of a crossing that the first tier runs whole.
CASES = 8

TIERS = ("proof", "systems")

#: A doctest that simulates worlds.
WORLDS = re.compile(r"\b(worlds|trials)=[1-9]")
#: Examples of a property in the first tier.
EXAMPLES = 15

#: A test that asks for one of these fixtures, or names one of these in its name or parameters, is of systems.
FIXTURES = {"browser", "cluster", "connected", "distributed", "postgres_url", "server", "spark"}
ENGINES = ("dask", "duckdb", "postgres", "spark")


def examples(full: int) -> int:
    """How many examples of a property are tried: all of them in ``make proof``, few in the first tier."""
    return min(full, EXAMPLES) if settings.default.max_examples == EXAMPLES else full


class Later:
    """A library of another tier, imported when a test first uses it, so that the file is collected without it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("__", "pytest")):  # a collector's questions
            raise AttributeError(name)
        return getattr(import_module(self._name), name)


def cover(rows: Sequence[tuple[Hashable, ...]], strength: int) -> list[int]:
    """Positions of few rows that hold every combination of ``strength`` values that any row holds, found greedily.

    >>> cover([(a, b) for a in range(3) for b in range(4)], 1)
    [0, 5, 10, 3]
    >>> len(cover([(a, b, c) for a in range(2) for b in range(2) for c in range(2)], 2))
    4
    """
    held = [
        {(axes, tuple(row[axis] for axis in axes)) for axes in combinations(range(len(row)), strength)} for row in rows
    ]
    left = set().union(*held)
    chosen = []
    while left:
        best = max(range(len(rows)), key=lambda row: (len(held[row] & left), -row))
        chosen.append(best)
        left -= held[best]
    return chosen


def first_tier(items: Sequence[pytest.Item]) -> set[int]:
    """Positions of the cases of one test function that the first tier keeps."""
    key: Callable[..., tuple[Hashable, ...]] | None = None
    if mark := items[0].get_closest_marker("covering"):
        (key,) = mark.args
    cases: list[Any] = [item.callspec for item in items]  # type: ignore[attr-defined]
    if key:
        rows = [key(**case.params) for case in cases]
        return set(cover(rows, 1))
    rows = [tuple(case._idlist) for case in cases]  # an id for each list of parameters that is crossed
    if len(items) <= CASES or len(rows[0]) < 2 or items[0].get_closest_marker("crossed"):
        return set(range(len(items)))
    return set(cover(rows, 1 if len(rows[0]) == 2 else 2))


def mark_systems(items: Sequence[pytest.Item]) -> None:
    """Gives the marker ``systems`` to the tests that need one."""
    for item in items:
        name = item.name.lower()
        if FIXTURES & set(getattr(item, "fixturenames", ())) or any(engine in name for engine in ENGINES):
            item.add_marker("systems")


def mark_crossings(items: Sequence[pytest.Item]) -> None:
    """Gives the marker ``proof`` to the cases of large crossings, and to doctests of simulations."""
    functions: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if hasattr(item, "callspec") and not any(item.get_closest_marker(tier) for tier in TIERS):
            functions[item.nodeid.partition("[")[0]].append(item)
        if isinstance(item, DoctestItem) and any(WORLDS.search(one.source) for one in item.dtest.examples):
            item.add_marker("proof")
    for cases in functions.values():
        kept = first_tier(cases)
        for position, item in enumerate(cases):
            if position not in kept:
                item.add_marker("proof")


def of_systems_alone(path: os.PathLike[str]) -> bool:
    """Whether all tests of a file need a system, so that another tier does not even import it."""
    with open(path) as file:
        return any(
            line.startswith(("pytestmark = pytest.mark.systems", "pytestmark = [pytest.mark.systems")) for line in file
        )


def is_of_systems(test: str) -> bool:
    """Whether a test, or a file of the package, is of systems: by its file, marker, fixtures or an engine's name."""
    if any(engine in test for engine in ENGINES):
        return True
    if "::" not in test:
        return False
    path = Path(__file__).parents[1] / test.partition("::")[0]
    function = re.escape(test.rpartition("::")[2].partition("[")[0])
    marked = re.compile(rf"^@pytest\.mark\.systems\n(?:[^\n]+\n)*def {function}\(", re.MULTILINE)
    source = path.read_text()
    asked = re.search(rf"def {function}\(([^)]*)\)", source)
    fixtures = set(re.findall(r"\w+", asked[1])) if asked else set()
    return of_systems_alone(path) or bool(marked.search(source) or FIXTURES & fixtures)
