"""Questions as they are typed: NAME=LEVEL pairs, levels as they are declared, and whole questions in one line."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click


def pairs(given: Iterable[str], option: str, domain: Any) -> dict[str, Any]:
    """NAME=LEVEL pairs, levels as they are declared; several levels, apart by |, as a list."""
    found: dict[str, Any] = {}
    for pair in given:
        name, equals, text = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not NAME=LEVEL", param_hint=option)
        if name in found:
            raise click.BadParameter(f"{name!r} is there twice", param_hint=option)
        whole = any(text in _spellings(level) for level in domain.levels(name))
        levels = [_level(name, one, domain) for one in ([text] if whole else text.split("|"))]
        found[name] = levels[0] if len(levels) == 1 else levels
    return found


def target_of(names: tuple[str, ...], option: str, domain: Any) -> Any:
    """A variable, several, or an event."""
    if any("=" in name for name in names):
        return pairs(names, option, domain)
    return names[0] if len(names) == 1 else list(names)


def question_of(text: str, domain: Any) -> dict[str, Any]:
    """A question in one line: ``"work=Private | sex=F, age=17-25"``, evidence after `` | ``, parts apart by ``, ``."""
    target, bar, evidence = text.partition(" | ")
    asked = tuple(part.strip() for part in target.split(", "))
    known = [part.strip() for part in evidence.split(", ")] if bar else []
    return {"target": target_of(asked, "--question", domain), "given": pairs(known, "--question", domain)}


def _level(name: str, text: str, domain: Any) -> Any:
    """A level by how it prints, or by a number."""
    level: Any = next((level for level in domain.levels(name) if text in _spellings(level)), None)
    if level is None:
        try:
            level = float(text)
        except ValueError:
            level = text
    return domain.levels(name)[domain.code(name, level)]


def _spellings(level: Any) -> set[str]:
    """How a level may be typed: as it prints, and a boolean as a file of variables and JSON write it, too."""
    return {str(level), str(level).lower()} if isinstance(level, bool) else {str(level)}
