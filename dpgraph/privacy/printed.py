"""What is shown, and whether anybody looks: names come from files, and a terminal obeys control characters."""

from __future__ import annotations

import sys
from typing import Any


def at_terminal() -> bool:
    """Whether somebody sees what goes to stderr; a process without one has nobody."""
    return sys.stderr is not None and sys.stderr.isatty()


def escaped(text: Any, keep: str = "") -> str:
    r"""Text with every character that does not print as itself as its escape: controls, line ends, bidirectional marks.

    Args:
        text: Anything, as ``str`` shows it.
        keep: Characters that stay, such as the line ends of a table.

    >>> escaped("a\x1b[2Jb\n\u202ec é 'd'")
    "a\\x1b[2Jb\\n\\u202ec é 'd'"
    """
    found = str(text)
    if found.isprintable():
        return found
    return "".join(one if one.isprintable() or one in keep else one.encode("unicode_escape").decode() for one in found)
