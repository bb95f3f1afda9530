"""The pages on the promise and its proofs: what cites them finds it there, and what they name is in the repository."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.faults import MUTANTS

ROOT = Path(__file__).parents[1]
PAGES = {"P": "docs/proofs.md", "S": "docs/promise.md"}
HEADING = re.compile(r"^### ([PS]\d+) ", re.MULTILINE)
NUMBER = re.compile(r"\b[PS]\d+\b")
CITATION = re.compile(r"\b(?:proofs|promise)\.md\s+([PS]\d+(?:(?:, | and | to )[PS]\d+)*)")
SOURCES = sorted(
    path
    for folder in ("dpgraph", "tests", "docs", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in (".py", ".md") and path != Path(__file__)
)


@cache
def page(letter):
    return (ROOT / PAGES[letter]).read_text()


def sections(letter):
    """The text under each numbered heading."""
    parts = HEADING.split(page(letter))[1:]
    return dict(zip(parts[::2], [re.split(r"^# ", part, flags=re.MULTILINE)[0] for part in parts[1::2]], strict=True))


def items(text, label):
    """The code words after a bold label."""
    found = re.findall(rf"\*\*{label}\.\*\* (.*?)(?=\*\*[A-Z]|^#|^$|\Z)", text, re.MULTILINE | re.DOTALL)
    return [re.sub(r"\s+", " ", word) for item in found for word in re.findall(r"`([^`]+)`", item)]


@cache
def functions_of(path):
    """The test functions of a file."""
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


NUMBERED = [(letter, number) for letter in PAGES for number in sections(letter)]


def test_no_number_is_missing_and_rules_are_in_order():
    assert set(sections("P")) == {f"P{i}" for i in range(1, len(sections("P")) + 1)}
    assert list(sections("S")) == [f"S{i}" for i in range(1, 26)]


def test_citations_name_what_exists():
    known = {*sections("P"), *sections("S")}
    for path in SOURCES:
        text = path.read_text()
        cited = NUMBER.findall(text) if path.name in ("proofs.md", "promise.md", "papers.md") else []
        for found in CITATION.findall(text):
            cited += NUMBER.findall(found)
        assert set(cited) <= known, path


def test_pages_are_cited_by_number_and_nothing_that_is_not_here():
    for path in SOURCES:
        text = path.read_text()
        assert not re.search(r"\bMATHS\b|\bPRIVACY\.md", text), path
        if path.suffix == ".py":
            named = re.findall(r"(?<!docs/)\b(?:proofs|promise)\.md", text)
            assert len(named) == len(CITATION.findall(text)), path
            assert not re.search(r'\(S\d+[,)]|"""S\d+\b', text), f"{path} cites a rule by its bare number"


@pytest.mark.parametrize("letter", PAGES)
def test_paths_and_tests_that_a_page_names_exist(letter):
    words = re.findall(r"`((?:dpgraph|tests|docs|benchmarks|examples)/[^`\s]+)`", page(letter))
    assert len(words) > 50
    for word in words:
        path, _, test = word.partition("::")
        assert (ROOT / path).exists(), word
        assert not test or test in functions_of(path), word


@pytest.mark.parametrize(("letter", "number"), NUMBERED, ids=lambda part: part)
def test_each_is_guarded_by_tests_and_says_which_faults_are_planted(letter, number):
    text = sections(letter)[number]
    assert any(word.startswith("tests/") for word in items(text, "Tests"))
    faults = items(text, "Faults")
    assert set(faults) <= {mutant.name for mutant in MUTANTS}
    assert faults or re.search(r"\*\*Faults\.\*\* (none|all)\b", text)
