"""The words and results of commands: tables and JSON on stdout, words on stderr.

Names of variables and levels come from files, so whatever is printed for people has its control characters escaped.
Words on stderr that cannot be printed stop nothing; a result that cannot is exit code 3 (``cli.exit_codes``).
"""

from __future__ import annotations

import errno
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

import dpgraph as dg
from dpgraph.privacy.display import Rows, escaped
from dpgraph.privacy.display import aligned as aligned
from dpgraph.privacy.display import plain as plain

#: What a command says when a signal stops it.
AT_STOP: list[Callable[[], None]] = []


class Undelivered(click.ClickException):
    """The work was done, and charged where it costs, but its result is lost or in part."""

    exit_code = 3

    def __init__(self, message: str, silent: bool = False) -> None:
        super().__init__(message)
        self.silent = silent


def records(rows: Rows) -> list[dict[str, Any]]:
    """Rows for JSON; a number that does not apply is null.

    >>> records([{"rmse": float("nan"), "cells": 4}])
    [{'rmse': None, 'cells': 4}]
    """
    return [
        {str(name): None if isinstance(x, float) and not math.isfinite(x) else x for name, x in row.items()}
        for row in rows
    ]


def show(text: str) -> None:
    """A result for people on stdout, its line ends kept and any other control character escaped."""
    _print(escaped(text, keep="\n"))


def show_json(value: Any, indent: int | None = None) -> None:
    """A result for programs on stdout."""
    _print(json.dumps(value, indent=indent))


def say(words: str) -> None:
    """A line on stderr; where that is closed or full nothing is said."""
    with suppress(OSError, ValueError):
        click.echo(_encodable(escaped(words), sys.stderr), err=True)


def _print(text: str) -> None:
    """A text on stdout, flushed; refused where that is closed or full."""
    try:
        click.echo(_encodable(text, sys.stdout))
    except OSError as error:
        reason = "it is closed" if error.errno == errno.EBADF else os.strerror(error.errno or errno.EIO)
        raise Undelivered(f"the result is lost: stdout: {reason}", silent=error.errno == errno.EPIPE) from None


def _encodable(text: str, stream: Any) -> str:
    """Text that a stream can print: characters beyond its encoding as their escapes."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


@contextmanager
def delivering(out: Path, charged: bool = False) -> Iterator[None]:
    """For writing to ``out``: a failure after a charge, or half way through a stream, has an exit code of its own."""
    from dpgraph.files.atomic_write import is_stream

    try:
        yield
    except dg.errors.FileError as error:
        lost = "; the charge stands and what it paid for is lost" if charged else ""
        if charged or is_stream(out):
            raise Undelivered(f"{error}{lost} [FileError]") from None
        raise


def save_charged(value: Any, out: Path, told: object = "") -> None:
    """Writes a value that has been charged, and says so, with words about it."""
    replaced = out.is_file()
    with delivering(out, charged=True):
        telling(lambda: dg.save(value, out, progress=True))
    say(f"wrote {out}: {told}" if told else f"wrote {out}")
    if replaced:
        say(f"{out} held something before, which is replaced; if it was of the same rows, both were charged and add up")


def write_page(value: Any, page: Path) -> None:
    """Writes a page where it can be written."""
    with delivering(page):
        dg.write_html(value, page, progress=True)


def telling(make: Callable[[], Any]) -> Any:
    """Returns what a function returns, and says its warnings of chains, priors, approximations and lost intervals."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in ("Approximation", "Convergence", "File", "Prior"):
            warnings.simplefilter("always", getattr(dg.errors, f"{kind}Warning"))
        made = make()
    for warning in caught:
        say(f"warning: {warning.message}")
    return made
