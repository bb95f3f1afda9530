"""Runs each tutorial: `make notebooks` writes the outputs into the page, its picture, and the page as a notebook.

A page is the source; nobody edits a notebook, an output or a picture. Names of pages as arguments run those alone.
"""

from __future__ import annotations

import base64
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbformat import v4

HERE = Path(__file__).parent
PARTS = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```output\n(.*?)^```\n)?(?:\n(!\[[^\n]*\]\((\S+)\)\n))?", re.MULTILINE | re.DOTALL
)


def link(page: Path) -> str:
    """The line below a page's title that leads to its notebook; the notebook has an introduction there."""
    return f"This page as a notebook: [{page.stem}.ipynb]({page.stem}.ipynb)."


def introduction(page: Path) -> str:
    """The paragraph below a notebook's title."""
    return (
        f"Made from the tutorial `docs/tutorials/{page.name}` by `make notebooks`; its outputs are of one run, and\n"
        "noise differs in each. It runs wherever `dpgraph`, `jupyterlab` and `matplotlib` are installed."
    )


def notebook(page: Path) -> Any:
    """A page as a notebook, with the outputs and the picture that the page shows."""
    title, text = page.read_text().split(link(page))
    cells, end = [], 0
    words = title + introduction(page)
    for part in PARTS.finditer(text):
        code, printed, _, picture = part.groups()
        words += text[end : part.start()]
        end = part.end()
        outputs = [] if printed is None else [v4.new_output("stream", name="stdout", text=printed)]
        if picture and (page.parent / picture).is_file():
            image = base64.b64encode((page.parent / picture).read_bytes()).decode()
            outputs.append(v4.new_output("display_data", {"image/png": image}))
        cells += [v4.new_markdown_cell(words.strip())] if words.strip() else []
        cells.append(v4.new_code_cell(code.strip(), outputs=outputs))
        words = ""
    cells.append(v4.new_markdown_cell((words + text[end:]).strip()))
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    made = v4.new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.validate(made)
    return made


def run(page: Path) -> None:
    """Runs a page in an empty folder, and writes its outputs and its picture into it."""
    from nbclient import NotebookClient

    with tempfile.TemporaryDirectory() as folder:
        done = NotebookClient(notebook(page), resources={"metadata": {"path": folder}}).execute()
    found = iter([cell["outputs"] for cell in done["cells"] if cell["cell_type"] == "code"])

    def shown(part: re.Match[str]) -> str:
        code, _, line, picture = part.groups()
        outputs = next(found)
        printed = "".join(one["text"] for one in outputs if one.get("name") == "stdout")
        printed = re.sub(r" +$", "", printed, flags=re.MULTILINE)
        for one in outputs:
            if picture and "image/png" in one.get("data", {}):
                (page.parent / picture).write_bytes(base64.b64decode(one["data"]["image/png"]))
        block = f"```python\n{code}```\n"
        return block + (f"\n```output\n{printed}```\n" if printed else "") + (f"\n{line}" if line else "")

    page.write_text(PARTS.sub(shown, page.read_text()))


def pages() -> list[Path]:
    """The tutorials, by name."""
    return sorted(HERE.glob("*.md"))


if __name__ == "__main__":
    os.environ["PYTHONWARNINGS"] = "ignore"
    for one in pages():
        if len(sys.argv) == 1 or one.stem in sys.argv[1:]:
            run(one)
            one.with_suffix(".ipynb").write_text(nbformat.writes(notebook(one)) + "\n")
            print(one.stem)
