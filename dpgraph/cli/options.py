"""Options shared by commands, and their checks before any row is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

EPSILON = click.option("--epsilon", required=True, metavar="E", help="The privacy budget; read as an exact decimal.")
DELTA = click.option("--delta", default="0", show_default=True, metavar="D", help="0 for pure differential privacy.")
NEIGHBOURS = click.option(
    "--neighbours",
    type=click.Choice(["replace", "add-remove"]),
    default="replace",
    show_default=True,
    help="What one person may change: replace makes the number of rows public, add-remove keeps it private.",
)
ROWS_PER_PERSON = click.option(
    "--rows-per-person", type=int, default=1, show_default=True, help="How many rows one person may hold."
)
INFERENCE = click.option(
    "--inference", type=click.Choice(["noise-aware", "plug-in"]), default="noise-aware", show_default=True
)
SEED = click.option("--seed", type=click.IntRange(min=0), default=None, help="Of the draws; it is not the noise's.")
INTERVAL = click.option(
    "--interval",
    type=click.FloatRange(0, 100, min_open=True, max_open=True),
    default=90,
    show_default=True,
    help="The probability of the intervals, in percent.",
)

#: A place to write to; ``-`` is stdout.
OUT_PATH = click.Path(dir_okay=False, allow_dash=True, path_type=Path)


def _needed(ctx: click.Context, option: click.Parameter, out: Path | None) -> Path | None:
    """A destination, without which only a dry run goes on."""
    if out is None and not ctx.params["dry_run"]:
        raise click.MissingParameter(ctx=ctx, param=option)
    return out


OUT_UNLESS_DRY = click.option(
    "--out", callback=_needed, type=OUT_PATH, help="Where to write; required without --dry-run."
)
OUT = click.option("--out", required=True, type=OUT_PATH, help="Where to write.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")


def apart(targets: Mapping[str, Path | None]) -> None:
    """Refuses two options that write to one file, by whatever links: the second would overwrite the first.

    A pipe or stdout takes one after the other.
    """
    from dpgraph.files.atomic_write import is_stream

    met: dict[str, str] = {}
    for option, target in targets.items():
        if target is None or str(target) == "-" or is_stream(target):
            continue
        first = met.setdefault(os.path.realpath(target), option)
        if first != option:
            raise click.UsageError(f"{first} and {option} are one file, {target}: give each a file of its own")


def writable(out: Path | None, *suffixes: str) -> Path:
    """The destination; a bad one is refused before anything is read or charged.

    A pipe or stdout takes what it is given, whatever its name.
    """
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
