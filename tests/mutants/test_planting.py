"""A fault finds its place by name and by what is written there, not by how it is laid out."""

import ast
import os
import subprocess
import sys
from functools import cache

import pytest

from tests.mutants.anchors import replaced, span
from tests.mutants.faults import MUTANTS
from tests.mutants.planting import ROOT, plant, planted, run

MODULE = '''\
"""A module."""


def one(a, b):
    return larger(a, b) + 1


class Two:
    @property
    def one(self):
        return larger(
            self.a,
            self.b,
        ) + 1
'''


@cache
def text_of(file):
    """A module of the package."""
    return (ROOT / "dpgraph" / file).read_text()


@cache
def names_in(file):
    """The functions and classes of a test module."""
    tree = ast.parse((ROOT / file).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}


@pytest.mark.parametrize("part", range(4))
def test_every_fault_has_its_place_and_its_tests(part):
    """Cheap enough for every run; whether the tests notice is for the planted runs."""
    for mutant in MUTANTS[part::4]:
        assert "".join(mutant.old.split()) != "".join(mutant.new.split()), mutant.name
        assert planted(mutant) != text_of(mutant.file), mutant.name
        for test in mutant.tests:
            file, *names = test.split("[")[0].split("::")
            assert set(names) <= names_in(file), (mutant.name, test)


def test_no_two_faults_share_a_name():
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.proof
def test_faults_keep_their_places_when_the_package_is_laid_out_anew(tmp_path):
    plant(tmp_path, None)
    package = tmp_path / "dpgraph"
    for path in package.rglob("*.py"):  # links lead to a shared copy
        text = path.read_text()
        path.unlink()
        path.write_text(text)
    command = [sys.executable, "-m", "ruff", "format", "--quiet", "--isolated", "--line-length", "88", str(package)]
    subprocess.run(command, check=True)
    moved = sum(planted(mutant, package) != planted(mutant) for mutant in MUTANTS)
    assert moved > len(MUTANTS) / 2


def test_parentheses_added_by_a_formatter_are_replaced_with_what_they_hold():
    loop = "    while (\n        a < largest(b)\n        and b > 0\n    ):\n        a = step(a)\n"
    text = f"def f(a, b):\n{loop}    return a\n"
    old = "    while a < largest(b) and b > 0:\n        a = step(a)\n"
    assert replaced(text, old, "").replace(" ", "") == "deff(a,b):\n\nreturna\n"
    there = replaced(text, "while a < largest(b) and b > 0:", "while a < b:")
    assert "    while a < b:\n        a = step(a)\n" in there
    assert "return -a" in replaced("def f(a):\n    return (\n        a\n    )\n", "return a", "return -a")
    with pytest.raises(LookupError, match="not balanced"):
        replaced("x = [a (b]", "a b", "c")


def test_blanks_and_trailing_commas_do_not_count():
    text = MODULE.replace("def one(a, b):\n    return larger(a, b) + 1\n", "")
    there = replaced(text, "larger(self.a, self.b) + 1", "larger(self.a, self.b)")
    assert "return larger(self.a, self.b)\n" in there
    assert "+ 1" not in there


def test_a_name_says_which_of_two_is_meant():
    with pytest.raises(LookupError, match="2 times"):
        replaced(MODULE, "+ 1", "- 1")
    with pytest.raises(LookupError, match="2 definitions are called 'one'"):
        replaced(MODULE, "+ 1", "- 1", "one")
    there = replaced(MODULE, "+ 1", "- 1", "Two.one")
    assert there.count("+ 1") == 1
    assert there.endswith(") - 1\n")
    start, stop = span(MODULE, "Two.one")
    assert MODULE[start:stop].startswith("    @property")
    with pytest.raises(LookupError, match="0 definitions"):
        span(MODULE, "Three")


def test_text_that_is_not_there_is_no_fault():
    with pytest.raises(LookupError, match="0 times"):
        replaced(MODULE, "smaller(a, b)", "larger(a, b)")


def test_a_fault_changes_one_folder_alone(tmp_path):
    """Folders share their files by links, so a fault must be a file of its own."""
    mutant = MUTANTS[0]
    before = (ROOT / "dpgraph" / mutant.file).read_text()
    for name in ("planted", "clean"):
        (tmp_path / name).mkdir()
        plant(tmp_path / name, mutant if name == "planted" else None)
    assert (tmp_path / "clean" / "dpgraph" / mutant.file).read_text() == before
    assert (ROOT / "dpgraph" / mutant.file).read_text() == before
    assert (tmp_path / "planted" / "dpgraph" / mutant.file).read_text() == planted(mutant)
    other = next(file for file in (tmp_path / "clean" / "dpgraph").rglob("*.py") if file.name != "__init__.py")
    assert os.stat(other).st_nlink > 1
    assert not os.path.samefile(other, ROOT / "dpgraph" / other.relative_to(tmp_path / "clean" / "dpgraph"))


def test_a_run_forgets_the_one_before(tmp_path):
    """A child that changes modules, the environment and the folder leaves no trace in the next."""
    plant(tmp_path, None)
    for number in (1, 2):
        (tmp_path / "tests" / f"test_trace_{number}.py").write_text(
            "import math, os, sys\n\n\n"
            "def test_trace():\n"
            "    assert not hasattr(math, 'trace') and 'TRACE' not in os.environ\n"
            "    assert not any('test_trace' in name for name in set(sys.modules) - {__name__})\n"
            "    math.trace = os.environ['TRACE'] = 'here'\n"
        )
        assert "1 passed" in run(tmp_path, (f"tests/test_trace_{number}.py",)).output
