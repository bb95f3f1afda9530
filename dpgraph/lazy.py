"""Names that a module exports without importing where they live, and functions that the package's root provides."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(module: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a module whose names live elsewhere in the package.

    Args:
        module: The ``__name__`` of the module.
        homes: For each name the module it lives in, below ``dpgraph``; after a colon, what it is called there. A name
            that its home does not hold is the home itself.

    >>> get, _ = lazy_names("dpgraph.privacy", {"exact": "privacy.records"})
    >>> get("exact")("0.5")
    Fraction(1, 2)
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        place, _, there = homes[name].partition(":")
        home = importlib.import_module(f"dpgraph.{place}")
        value = getattr(home, there) if there else vars(home).get(name, home)
        vars(sys.modules[module])[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return get, names


#: Functions that lower layers call and do not know: for each name the module it lives in.
_PROVIDED: dict[str, str] = {}


def provide(name: str, home: str) -> None:
    """Says where a function lives that layers below its own ask for by name; it is imported when first asked for."""
    _PROVIDED[name] = home


def provided(name: str) -> Callable[..., Any]:
    """The function of that name.

    >>> provided("read_features").__module__
    'dpgraph.statistics.rows.features'
    """
    return getattr(importlib.import_module(f"dpgraph.{_PROVIDED[name]}"), name)
