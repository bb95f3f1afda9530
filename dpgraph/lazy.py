"""Names that a module exports without importing where they live, and functions that the package's root provides."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from typing import Any


def lazy_names(module: str) -> tuple[Callable[..., Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a module that exports names of others and imports each at its first use.

    The module's own lines ``from HOME import NAME as NAME``, which type checkers read and nothing runs, are the one
    list of names. It has no ``__all__``: by that list ``help`` would print every class in full.

    >>> get, _ = lazy_names("dpgraph.extension")
    >>> get("exact")("0.5")
    Fraction(1, 2)
    """
    own = vars(sys.modules[module])
    with open(own["__file__"], encoding="utf-8") as source:
        lines = re.findall(r"^    from (\S+) import (.+?)(?:  #.*)?$", source.read(), re.MULTILINE)
    named = [(home, *part.split(" as ")) for home, parts in lines for part in parts.split(", ")]
    homes = {name: (home, there) for home, there, name in named}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, there = homes[name]
        home = importlib.import_module(place)
        own[name] = vars(home)[there] if there in vars(home) else importlib.import_module(f"{place}.{there}")
        return own[name]

    def names() -> list[str]:
        return [*homes, *(name for name in own if name.startswith("__"))]

    return get, names


#: Functions that lower layers call and do not know: for each name the module it lives in.
_PROVIDED: dict[str, str] = {}


def provide(name: str, home: str) -> None:
    """Says where a function lives that layers below its own ask for by name; it is imported when first asked for."""
    _PROVIDED[name] = home


def provided(name: str) -> Callable[..., Any]:
    """The provided function of that name.

    >>> provided("read_features").__module__
    'dpgraph.statistics.rows.features'
    """
    return getattr(importlib.import_module(f"dpgraph.{_PROVIDED[name]}"), name)


#: Modules that register kinds of files and mechanisms when they are imported, by the names of these.
_REGISTERING: dict[str, str] = {}


def registers(home: str, *names: str) -> None:
    """Says which module registers kinds of files and mechanisms; it is imported when a file or a record names one."""
    _REGISTERING.update(dict.fromkeys(names, home))


def register_by_name(name: str) -> None:
    """Imports the module that registers a kind of files, or a mechanism, if there is one of that name."""
    if name in _REGISTERING:
        importlib.import_module(f"dpgraph.{_REGISTERING[name]}")
