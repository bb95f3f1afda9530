"""Options shared by commands, how options are declared, and checks of destinations before any row is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click


class Known(click.Choice[str]):
    """One of several known values; a refusal has the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The value, or the refusal of click with a hint."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            from dpgraph.privacy.checks import near

            raise click.BadParameter(error.message.rstrip(".") + near(value, self.choices), ctx, param) from None


def choice(name: str, known: Sequence[str], default: str | None = None, help: str | None = None) -> Callable[..., Any]:
    """An option with several known values."""
    return click.option(name, type=Known(known), default=default, help=help)


def whole(name: str, least: int, default: int | None = None, help: str | None = None, **how: Any) -> Callable[..., Any]:
    """An option that is a whole number of at least so much."""
    return click.option(name, type=click.IntRange(min=least), default=default, help=help, **how)


def number(name: str, below: float | None = None, default: int | None = None, help: str = "") -> Callable[..., Any]:
    """An option that is a number above 0, and below another."""
    kind = click.FloatRange(0, below, min_open=True, max_open=below is not None)
    return click.option(name, type=kind, default=default, help=help)


MECHANISMS = ["auto", "laplace", "gaussian", "fourier", "posterior-sample", "map"]
#: A file to read; and a place to write to, where ``-`` is stdout.
FILE = click.Path(dir_okay=False, path_type=Path)
OUT_PATH = click.Path(dir_okay=False, allow_dash=True, path_type=Path)
RELATIONS = ("replace", "add-remove")
EPSILON = click.option("--epsilon", required=True, metavar="E", help="The privacy budget; read as an exact decimal.")
DELTA = click.option("--delta", default="0", metavar="D", help="0 for pure differential privacy.")
NEIGHBOURS = choice("--neighbours", RELATIONS, "replace", "replace makes the number of rows public, add-remove not.")
ROWS_PER_PERSON = click.option("--rows-per-person", type=int, default=1, help="How many rows one person may hold.")
INFERENCE = choice("--inference", ["noise-aware", "plug-in"], "noise-aware")
SEED = whole("--seed", 0, help="Seed of the draws, never of the noise.")
INTERVAL = number("--interval", 100, 90, "The probability of the intervals, in percent.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")
#: Where a page is written; of commands that have one beside their other results.
HTML = click.option("--html", type=OUT_PATH, help="Write a page too: one file, for people without Python.")
OUT = click.option("--out", required=True, type=OUT_PATH, help="Where to write.")


def _needed(ctx: click.Context, option: click.Parameter, out: Path | None) -> Path | None:
    """A destination, without which only a dry run goes on."""
    if out is None and not ctx.params["dry_run"]:
        raise click.MissingParameter(ctx=ctx, param=option)
    return out


OUT_UNLESS_DRY = click.option("--out", callback=_needed, type=OUT_PATH, help="Where to write; not with --dry-run.")


def apart(targets: Mapping[str, Path | None]) -> None:
    """Refuses two options that write to one file, by whatever links; a pipe or stdout takes both."""
    from dpgraph.files.atomic_write import is_stream

    met: dict[str, str] = {}
    for option, target in targets.items():
        if target is None or str(target) == "-" or is_stream(target):
            continue
        first = met.setdefault(os.path.realpath(target), option)
        if first != option:
            raise click.UsageError(f"{first} and {option} are one file, {target}: give each a file of its own")


def writable(out: Path | None, *suffixes: str) -> Path:
    """The destination, a bad one refused before anything is read or charged; a pipe takes any content."""
    from dpgraph.files.atomic_write import check_writable, is_stream

    assert out is not None
    hint = "--html" if suffixes == (".html",) else "--out"
    out = Path("/dev/stdout") if str(out) == "-" else out
    if is_stream(out):
        return out
    if out.suffix.lower() not in suffixes:
        raise click.BadParameter(f"{out} must end in {' or '.join(suffixes)}", param_hint=hint)
    if not out.parent.is_dir():
        raise click.BadParameter(f"there is no folder {out.parent}", param_hint=hint)
    check_writable(out)
    return out
