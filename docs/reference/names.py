"""A hook of mkdocs: fills the pages of the API from the lists of names in the package, so that no name is forgotten."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PLACE = re.compile(r"<!-- names: (.*) -->")
NAMESPACES = (
    "methods",
    "questions",
    "results",
    "errors",
    "statistics",
    "papers",
    "testing",
    "extension",
    "audit",
    "datasets",
)


def homes() -> list[tuple[str, list[tuple[str, str]]]]:
    """The groups of names in ``dpgraph/__init__.py``: heading, then names with the modules they live in."""
    text = (ROOT / "dpgraph/__init__.py").read_text()
    groups: list[tuple[str, list[tuple[str, str]]]] = []
    for line in text[text.index("# isort: off\n") :].splitlines()[1:]:
        if heading := re.fullmatch(r"\s*# (.*)", line):
            groups.append((heading[1].capitalize(), []))
        elif entry := re.fullmatch(r"\s*from dpgraph\.?([\w.]*) import (.*)", line):
            for name in re.findall(r"(\w+) as \w+", entry[2]):
                inside = f"{entry[1]}.{name}".lstrip(".")
                file = ROOT / "dpgraph" / inside.replace(".", "/")
                is_module = file.is_dir() or file.with_suffix(".py").exists()
                groups[-1][1].append((name, inside if is_module else entry[1]))
    return groups


def defined(module: str, name: str) -> str:
    """Where a name is defined: its module, or the one that its module imports it from."""
    file = ROOT / "dpgraph" / module.replace(".", "/")
    tree = ast.parse(
        (file.with_suffix(".py") if file.with_suffix(".py").exists() else file / "__init__.py").read_text()
    )
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and any((a.asname or a.name) == name for a in node.names):
            return f"{node.module}.{name}"
    return f"dpgraph.{module}" if module.rpartition(".")[2] == name else f"dpgraph.{module}.{name}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Puts the groups of names that a page asks for into its place."""
    if (place := PLACE.search(markdown)) is None:
        return markdown
    groups, lines = dict(homes()), []
    for heading in place[1].split(", "):
        for name, module in groups[heading.capitalize()]:
            if name in NAMESPACES:
                lines += [f"* `dg.{name}`: the module `dpgraph.{module}`", ""]
            else:
                lines += [f"### dg.{name}", "", f"::: {defined(module, name)}", ""]
    return markdown.replace(place[0], "\n".join(lines))
