"""The pages of the site: what they type runs, in the order of the page, and so do the commands that they show."""

import re
import shlex
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dpgraph.cli import main
from tests.names import names_of

pytestmark = pytest.mark.systems

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LONG = {"tutorials/event-log.md"}  # a hidden Markov model is learned there
PAGES = sorted(
    path.relative_to(DOCS).as_posix() for folder in ("tutorials", "how-to") for path in (DOCS / folder).glob("*.md")
)


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def commands(page):
    """The lines of shell blocks that run ``dpgraph``, but for those that need a server."""
    lines = [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("dpgraph ") and "postgresql://" not in line]


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.proof] * (page in LONG)) for page in PAGES])
def test_a_page_runs_from_top_to_bottom_in_an_empty_folder(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": page}
    for number, block in enumerate(blocks(page, "python"), 1):
        exec(compile(block, f"{page}, block {number}", "exec"), names)
    assert "nan" not in capsys.readouterr().out
    for line in commands(page):
        words = shlex.split(line)[1:]
        # Learning a hidden Markov model takes long and is done above: here its arguments are read and priced.
        done = CliRunner().invoke(main, [*words, "--dry-run"] if words[:2] == ["fit", "hmm"] else words)
        assert done.exit_code == 0, (line, done.output)


TUTORIALS = [page for page in PAGES if page.startswith("tutorials/")]


@pytest.mark.parametrize("page", TUTORIALS)
def test_a_notebook_is_what_its_tutorial_makes_of_it(page, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tutorials")
    import nbformat
    import notebooks

    path = DOCS / page
    made = notebooks.notebook(path)
    assert path.with_suffix(".ipynb").read_text() == nbformat.writes(made) + "\n", "run `make notebooks`"
    cells = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    assert [block.strip() for block in blocks(page, "python")] == [cell["source"] for cell in cells]
    for cell in cells:
        printed = [one["name"] for one in cell["outputs"] if one["output_type"] == "stream"]
        assert printed == ["stdout"] * ("print(" in cell["source"])
    pictures = [one for cell in cells for one in cell["outputs"] if one["output_type"] == "display_data"]
    assert len(pictures) == 1


@pytest.mark.proof  # a kernel, and the pages themselves run above
def test_a_page_is_run_and_its_outputs_are_written_into_it(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "tutorials")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    import notebooks

    page = tmp_path / "page.md"
    page.write_text(f"# Page\n\n{notebooks.link(page)}\n\n```python\nprint(6 * 7)\n```\n\nThe end.\n")
    notebooks.run(page)
    once = page.read_text()
    assert once.endswith("```python\nprint(6 * 7)\n```\n\n```output\n42\n```\n\nThe end.\n")
    notebooks.run(page)
    assert page.read_text() == once


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_a_page_of_the_api_has_each_public_name_once():
    sys.path.insert(0, str(DOCS / "reference"))
    try:
        import names
    finally:
        sys.path.remove(str(DOCS / "reference"))
    import dpgraph as dg

    found = [name for _, group in names.homes() for name, _ in group]
    assert sorted(found) == names_of(dg)
    pages = [page.read_text() for page in (DOCS / "reference").glob("*.md")]
    text = "\n".join(map(names.on_page_markdown, pages))
    assert sorted(re.findall(r"^(?:### |\* `)dg\.(\w+)", text, re.MULTILINE)) == names_of(dg)
