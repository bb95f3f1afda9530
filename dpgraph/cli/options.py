"""Options shared by commands, and their checks before any row is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from dpgraph.privacy.accounting import Budget
    from dpgraph.privacy.records import PrivacyUnit

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


def _needed(ctx: click.Context, option: click.Parameter, out: Path | None) -> Path | None:
    """A destination, without which only a dry run goes on."""
    if out is None and not ctx.params["dry_run"]:
        raise click.MissingParameter(ctx=ctx, param=option)
    return out


# Eager, so that it is known when --out is judged.
DRY_RUN = click.option("--dry-run", is_flag=True, is_eager=True, help="Print what would be spent; touch no rows.")
OUT_UNLESS_DRY = click.option(
    "--out",
    callback=_needed,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write; required without --dry-run.",
)
OUT = click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Where to write.")
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON on stdout.")


def unit_of(neighbours: Any, rows_per_person: int) -> PrivacyUnit:
    """Whom to protect."""
    from dpgraph.privacy.records import PrivacyUnit

    return PrivacyUnit(neighbours, rows_per_person)


def budget_of(epsilon: str, neighbours: str, rows_per_person: int, delta: str = "0") -> Budget:
    """What one command may spend."""
    from dpgraph.privacy.accounting import Budget

    return Budget(epsilon, delta, unit=unit_of(neighbours, rows_per_person))


def only_priced(dry_run: bool, mechanism: Any, graph: Any, budget: Budget) -> bool:
    """For a dry run prints what would be spent; else checks the plan before any row is read."""
    from dpgraph.privacy.records import Provenance

    event = mechanism.event(graph, budget.unit)
    if dry_run:
        click.echo(f"would spend {Provenance(event, budget.unit)}; {len(event.measurements)} tables; nothing was read")
    return dry_run


def writable(out: Path | None, *suffixes: str) -> Path:
    """The destination; a bad one is refused before anything is read or charged."""
    assert out is not None
    if out.suffix.lower() not in suffixes:
        raise click.BadParameter(f"{out} must end in {' or '.join(suffixes)}", param_hint="--out")
    if not out.parent.is_dir():
        raise click.BadParameter(f"there is no folder {out.parent}", param_hint="--out")
    return out
