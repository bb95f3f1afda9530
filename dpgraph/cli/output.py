"""What commands print: tables and JSON on stdout, words on stderr."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import pandas as pd


def plain(frame: pd.DataFrame) -> str:
    """A frame as a plain table of three significant digits, no index."""

    def shown(value: float) -> str:
        return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"

    return frame.to_string(index=False, float_format=shown)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """A frame's rows for JSON; a number that does not apply is null."""
    return json.loads(str(frame.to_json(orient="records", double_precision=15)))


def say(words: str) -> None:
    """A line on stderr."""
    click.echo(words, err=True)


def capture_warnings(make: Callable[[], Any]) -> tuple[Any, list[str]]:
    """Returns what a function returns, and its warnings of convergence, of priors and of approximations as text."""
    from dpgraph.privacy.errors import ApproximationWarning, ConvergenceWarning, PriorWarning

    with warnings.catch_warnings(record=True) as caught:
        for kind in (ApproximationWarning, ConvergenceWarning, PriorWarning):
            warnings.simplefilter("always", kind)
        made = make()
    return made, [str(warning.message) for warning in caught]
