"""An extension of griffe: a doctest in a docstring is shown as code, with or without a heading above it."""

from __future__ import annotations

import re
from typing import Any

import griffe

PARAGRAPH = re.compile(r"(?:^>>> .*(?:\n(?!\s*$).*)*)", re.MULTILINE)


def fenced(text: str) -> str:
    """The text with each paragraph that begins with a prompt in a fence."""
    return PARAGRAPH.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```", text)


class Doctests(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Called by griffe for each module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
