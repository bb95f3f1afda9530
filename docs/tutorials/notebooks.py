"""Makes a notebook of each tutorial: `make notebooks`. The page is the source; nobody edits a notebook."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
from nbformat import v4

HERE = Path(__file__).parent
FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n?", re.MULTILINE | re.DOTALL)
PLACE = """\
import os
from pathlib import Path

os.chdir(next(folder for folder in (Path.cwd(), *Path.cwd().parents) if (folder / "datasets").is_dir()))"""


def link(page: Path) -> str:
    """The line below a page's title that leads to its notebook; the notebook has an introduction there."""
    return f"This page as a notebook: [{page.stem}.ipynb]({page.stem}.ipynb)."


def introduction(page: Path) -> str:
    """What a notebook says below its title."""
    return (
        f"Made from the tutorial `docs/tutorials/{page.name}` by `make notebooks`. Run it in a clone of the\n"
        "repository, after `pip install '.[demo]' jupyterlab` there: its paths are relative to the root,\n"
        "which the next cell looks for."
    )


def code(language: str, block: str, rows: str | None) -> str | None:
    """The code of a block, where it is to be run: Python, and what writes the page's rows."""
    if language == "python":
        return block.strip()
    return f"%run datasets/export.py {rows}" if block.strip() == "make rows" else None


def notebook(page: Path) -> str:
    """The text of a page's notebook, without outputs.

    Args:
        page: The path of a tutorial in Markdown.

    Returns:
        JSON that is the same in each run: cells are numbered.
    """
    title, text = page.read_text().split(link(page))
    found = re.search(r"datasets/rows/(\w+)\.parquet", text)
    rows = found[1] if found else None
    sources: list[tuple[str, str]] = [("markdown", title + introduction(page)), ("code", PLACE)]
    words, end = "", 0
    for fence in FENCE.finditer(text):
        words += text[end : fence.start()]
        end = fence.end()
        if (lines := code(fence[1], fence[2], rows)) is None:
            words += fence[0]
            continue
        sources += [("markdown", words.strip()), ("code", lines)]
        words = ""
    sources.append(("markdown", (words + text[end:]).strip()))
    made = {"markdown": v4.new_markdown_cell, "code": v4.new_code_cell}
    kept = [(kind, source) for kind, source in sources if source]
    value = v4.new_notebook(
        cells=[made[kind](source, id=f"cell-{number}") for number, (kind, source) in enumerate(kept, 1)],
        metadata={"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
    )
    nbformat.validate(value)
    return nbformat.writes(value) + "\n"


def pages() -> list[Path]:
    """The tutorials, by name."""
    return sorted(HERE.glob("*.md"))


if __name__ == "__main__":
    for one in pages():
        one.with_suffix(".ipynb").write_text(notebook(one))
