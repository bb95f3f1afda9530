"""Where a fault is planted: its old text is found however it is laid out.

Line breaks, indentation, trailing commas and parentheses are what a formatter adds and removes.
"""

from __future__ import annotations

import ast

BLANK = " \t\n\\"


def replaced(text: str, old: str, new: str, within: str = "") -> str:
    """A module's text with the one occurrence of some old text replaced.

    Exact text is taken where it is there once; else blanks, trailing commas and parentheses do not count.

    Args:
        text: The module.
        old: What is there, in the module or within a definition.
        new: What is to be there.
        within: The name of a function or class, ``Class.method`` for a method; empty for the whole module.

    Raises:
        LookupError: If the old text is not there exactly once, or nothing has that name.
    """
    start, stop = span(text, within) if within else (0, len(text))
    body = text[start:stop]
    if body.count(old) == 1:
        return text[:start] + body.replace(old, new) + text[stop:]
    found, places = squeezed(body)
    wanted, _ = squeezed(old)
    times = found.count(wanted)
    if times != 1:
        raise LookupError(f"the text is there {times} times, not once")
    first = found.index(wanted)
    left, right = balanced(body, places[first], places[first + len(wanted) - 1] + 1, depth(old))
    return text[: start + left] + new.strip() + text[start + right :]


def squeezed(text: str) -> tuple[str, list[int]]:
    """A text without blanks, parentheses and commas before a closing bracket, and where each character of it was."""
    kept = [(letter, i) for i, letter in enumerate(text) if letter not in BLANK]
    kept = [
        (letter, i)
        for (letter, i), (following, _) in zip(kept, [*kept[1:], ("", -1)], strict=True)
        if letter not in "()" and not (letter == "," and following in (")", "]", "}"))
    ]
    return "".join(letter for letter, _ in kept), [i for _, i in kept]


def depth(text: str) -> int:
    """Opening less closing parentheses."""
    return text.count("(") - text.count(")")


def balanced(text: str, left: int, right: int, wanted: int) -> tuple[int, int]:
    """A span grown over the parentheses at its ends until it opens as many as are wanted.

    Raises:
        LookupError: If what is around the span does not balance it.
    """
    while (missing := depth(text[left:right]) - wanted) != 0:
        if missing > 0:
            edge = right + len(text[right:]) - len(text[right:].lstrip(BLANK + ","))
            grown = text[edge : edge + 1] == ")"
            right = edge + 1
        else:
            edge = len(text[:left].rstrip(BLANK))
            grown = text[edge - 1 : edge] == "("
            left = edge - 1
        if not grown:
            raise LookupError("the text is there, but its parentheses are not balanced")
    return left, right


def span(text: str, name: str) -> tuple[int, int]:
    """Where the definition of a function or class begins and ends, decorators included."""
    scope: ast.AST = ast.parse(text)
    for part in name.split("."):
        inner = [
            node
            for node in ast.walk(scope)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == part
        ]
        if len(inner) != 1:
            raise LookupError(f"{len(inner)} definitions are called {name!r}, not one")
        scope = inner[0]
    lines = [0]
    for line in text.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    first = min([scope.lineno, *(decorator.lineno for decorator in scope.decorator_list)])
    return lines[first - 1], lines[scope.end_lineno]
