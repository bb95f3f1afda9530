"""The command that audits: mechanisms, a pipeline and a posterior on a network. It reads no rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpgraph.cli.budgets import unit_of
from dpgraph.cli.options import DELTA, EPSILON, JSON, NEIGHBOURS, ROWS_PER_PERSON, writable
from dpgraph.cli.output import show
from dpgraph.cli.reporting import HTML, write_page

#: The exit code of an audit that found a fault.
FAULT_FOUND = 4


@click.command()
@click.argument("network")
@EPSILON
@DELTA
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=click.Choice(["auto", "laplace", "gaussian", "fourier", "posterior-sample", "map"]),
    help="Repeat for several; all by default. auto is the one that `dpgraph cost` recommends.",
)
@NEIGHBOURS
@ROWS_PER_PERSON
@click.option(
    "--pipeline",
    metavar="FILE.py:NAME",
    help="A function of your own, NAME(rows, budget) or NAME(release), to be replayed. The file is run.",
)
@click.option("--worlds", type=click.IntRange(min=0), default=100, show_default=True, help="For calibration; 0: none.")
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=45,
    show_default=True,
    help="About how long; large networks try less and say so.",
)
@JSON
@HTML
@click.pass_context
def audit(
    ctx: click.Context,
    network: str,
    epsilon: str,
    delta: str,
    mechanisms: tuple[str, ...],
    neighbours: str,
    rows_per_person: int,
    pipeline: str | None,
    worlds: int,
    seconds: float,
    as_json: bool,
    html: Path | None,
) -> None:
    """Look for faults on NETWORK: exact losses, a pipeline's replay, calibration; reads no rows.

    Says what each check can and cannot see. Exit code 0: no fault was found. 4: one was found, and the report is
    written all the same. 1: the audit was refused.
    """
    page = None if html is None else writable(html, ".html")
    made = None if pipeline is None else function_of(pipeline)
    from dpgraph.analysis.choice import mechanism_named
    from dpgraph.audit import report
    from dpgraph.files.networks import read_network

    graph, unit = read_network(network), unit_of(neighbours, rows_per_person)
    chosen: Any = [
        mechanism_named(name, graph, epsilon=epsilon, delta=delta, unit=unit) if name == "auto" else name
        for name in mechanisms
    ]
    asked: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "mechanisms": chosen or None, "unit": unit}
    found = report(graph, **asked, pipeline=made, worlds=worlds, seconds=seconds, progress=True)
    if page is not None:
        write_page(found, page)
    show(found.to_json() if as_json else f"{network}: {found!r}")
    ctx.exit(FAULT_FOUND if found.verdict == "fail" else 0)


def function_of(words: str) -> Callable[..., Any]:
    """The function of a name in a Python file, which is run."""
    import importlib.util

    file, _, name = words.rpartition(":")
    if not file or not Path(file).is_file():
        raise click.BadParameter(f"{words!r} is not FILE.py:NAME of a file that is there", param_hint="--pipeline")
    spec = importlib.util.spec_from_file_location("dpgraph_pipeline", file)
    if spec is None or spec.loader is None:
        raise click.BadParameter(f"{file} is not a Python file", param_hint="--pipeline")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise click.BadParameter(f"{file} fails: {type(error).__name__}: {error}", param_hint="--pipeline") from None
    found = getattr(module, name, None)
    if not callable(found):
        raise click.BadParameter(f"{file} has no function {name!r}", param_hint="--pipeline")
    return found
