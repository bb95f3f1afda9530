"""The pages of the site: what they type runs, in the order of the page, and so do the commands that they show."""

import json
import os
import re
import shlex
import subprocess
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
ROWS = {
    "tutorials/own-table.md": "affairs",
    "tutorials/classifier.md": "anes96",
    "tutorials/event-log.md": "event_log",
    "tutorials/regression.md": "affairs",
    "tutorials/cost.md": None,
}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)


def commands(page):
    """The lines of shell blocks that run ``dpgraph``, but for those that need a server."""
    lines = [line for block in blocks(page, "sh") for line in block.replace("\\\n", " ").splitlines()]
    return [line for line in lines if line.startswith("dpgraph ") and "postgresql://" not in line]


@pytest.fixture
def place(page, tmp_path, monkeypatch):
    """A folder with the declared data sets, and the rows of the page's own as ``make rows`` writes them."""
    (tmp_path / "datasets" / "rows").mkdir(parents=True)
    for path in (ROOT / "datasets").glob("*.toml"):
        (tmp_path / "datasets" / path.name).write_text(path.read_text())
    if name := ROWS.get(page):
        monkeypatch.syspath_prepend(ROOT / "datasets")
        import export

        export.rows(name).to_parquet(tmp_path / "datasets" / "rows" / f"{name}.parquet")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", [pytest.param(page, marks=[pytest.mark.proof] * (page in LONG)) for page in PAGES])
def test_a_page_runs_from_top_to_bottom(page, place, capsys):
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
    import notebooks

    path = DOCS / page
    made = notebooks.notebook(path)
    assert path.with_suffix(".ipynb").read_text() == made, "run `make notebooks`"
    cells = json.loads(made)["cells"]
    run = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert [block.strip() for block in blocks(page, "python")] == [
        one for one in run if not one.startswith(("%run", "import os"))
    ]
    assert all(not cell["outputs"] for cell in cells if cell["cell_type"] == "code")


@pytest.mark.proof  # a kernel for each, and the page itself runs above
@pytest.mark.parametrize("page", TUTORIALS)
def test_a_notebook_runs_where_it_lies_in_a_clone(page, tmp_path):
    folder = tmp_path / "docs" / "tutorials"
    folder.mkdir(parents=True)
    (tmp_path / "datasets").mkdir()
    for path in [*(ROOT / "datasets").glob("*.toml"), *(ROOT / "datasets").glob("*.py")]:
        (tmp_path / "datasets" / path.name).write_text(path.read_text())
    path = folder / Path(page).with_suffix(".ipynb").name
    path.write_text((DOCS / page).with_suffix(".ipynb").read_text())
    done = subprocess.run(
        [sys.executable, "-c", "from nbclient.cli import main; main()", "--inplace", str(path)],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(tmp_path / "ipython")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    cells = json.loads(path.read_text())["cells"]
    printed = [one for cell in cells for one in cell.get("outputs", ()) if one.get("name") == "stdout"]
    assert len(printed) >= sum("print(" in block for block in blocks(page, "python"))


def test_every_page_is_in_the_navigation():
    listed = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert listed == {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}


def test_the_page_of_the_api_has_every_public_name():
    sys.path.insert(0, str(DOCS / "reference"))
    try:
        import names
    finally:
        sys.path.remove(str(DOCS / "reference"))
    import dpgraph as dg

    found = [name for _, group in names.homes() for name, _ in group]
    assert sorted(found) == names_of(dg)
    text = names.on_page_markdown(names.PLACE)
    assert all(f"dg.{name}" in text for name in names_of(dg))
