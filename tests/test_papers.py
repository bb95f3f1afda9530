"""``dg.papers`` and ``dg.testing``: every name is there, says what it is, and has its row in docs/papers.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpgraph as dg
from tests.names import names_of

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "papers.md").read_text()


@pytest.mark.parametrize("name", names_of(dg.papers))
def test_every_name_resolves_and_says_what_it_is(name):
    value = getattr(dg.papers, name)
    written = {"fourier_error_bound": "theorem_3_bound", "walsh_transform": "contrast_transform"}
    assert value.__name__ == written.get(name, name)
    assert len(value.__doc__.splitlines()[0]) > 20


@pytest.mark.parametrize("name", [name for name in dg.testing.__all__ if isinstance(getattr(dg.testing, name), type)])
def test_noise_for_tests_is_not_private_and_says_so(name):
    assert getattr(dg.testing, name).__doc__
    assert getattr(dg.testing, name).private is False


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"'dpgraph\.papers' has no attribute 'theorem_9'"):
        dg.papers.theorem_9  # noqa: B018


def test_every_name_has_a_row_in_the_page_and_the_page_names_nothing_else():
    rows = "\n".join(line for line in PAGE.splitlines() if line.startswith("| "))
    named = re.findall(r"dg\.papers\.(\w+)", rows)
    assert set(named) == set(names_of(dg.papers))
    for module, name in re.findall(r"dg\.(audit\.|papers\.|)([A-Za-z_]\w*)(?![\w.])", PAGE):
        assert hasattr(getattr(dg, module.rstrip(".")) if module else dg, name), name


def test_a_name_is_imported_when_it_is_first_used():
    program = "import sys, dpgraph as dg; dg.papers; print('scipy' in sys.modules, 'opendp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.split() == ["False", "False"]
