"""A public value as one HTML file: styles, program and numbers inside it, nothing fetched from anywhere.

The file says so itself: its content security policy lets no address be asked and no program run but its own, which it
names by digest. So a name in the data that reads like a program is not one, even if it were not escaped.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpgraph.files.atomic_write import is_stream, write_text
from dpgraph.pages import costs, learned, releases  # noqa: F401 - they register their pages
from dpgraph.pages.contents import number, page_of
from dpgraph.privacy.errors import FileError
from dpgraph.waiting import waiting

if TYPE_CHECKING:
    import jinja2

TEMPLATES = Path(__file__).parent / "templates"


def write_html(value: Any, path: str | Path, *, progress: bool = False) -> None:
    """Writes a page of a public value: one file, to be opened without a network, for people who hold no Python.

    The page states the protection and its unit in words; docs/pages.md lists the other parts for each kind of value.

    Args:
        value: A Network, a Release, a posterior or its draws, Probabilities, an answer, a fitted model or estimator, an
            Evaluation, a CrossValidation, a Budget, in a ledger or not, a Ledger, or a result of ``privacy_cost``,
            ``audit.report``, ``audit.calibration`` or ``Ledger.verify``.
        path: A file that ends in ``.html``; it appears whole or not at all.
        progress: A bar on a terminal.

    Raises:
        FileError: If the value is sensitive or has no page, the name ends otherwise, or the file cannot be written.

    >>> import tempfile
    >>> import dpgraph as dg
    >>> place = Path(tempfile.mkdtemp()) / "asia.html"
    >>> write_html(dg.privacy_cost(dg.read_network("example:asia"), epsilon=1), place)
    >>> place.read_text().startswith("<!doctype html>")
    True
    """
    target = Path(path)
    if target.suffix.lower() != ".html" and not is_stream(target):
        raise FileError(f"{target}: the name must end in .html")
    with waiting("writing a page", progress):
        write_text(target, html_of(value))


def html_of(value: Any) -> str:
    """The page as text, or a FileError if the value is sensitive or has no page."""
    if type(value).__module__.startswith("dpgraph.audit."):
        from dpgraph.pages import audits  # noqa: F401 - it registers its page
    known = page_of.dispatch(type(value)) is not page_of.dispatch(object)
    page = page_of(value if known else getattr(value, "model_", value))
    style, program = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    policy = (
        f"default-src 'none'; script-src '{_digest(program)}'; style-src '{_digest(style)}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )
    return _environment().get_template("page.html").render(page=page, style=style, program=program, policy=policy)


def _digest(text: str) -> str:
    """How a content security policy names a program or a style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> jinja2.Environment:
    """Every value is escaped where it is written; this package's own style and program alone are marked as safe."""
    import jinja2

    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["number"] = number
    made.filters["kind"] = lambda block: type(block).__name__
    made.tests["number"] = lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    return made
