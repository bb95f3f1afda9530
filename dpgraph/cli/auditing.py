"""The command that audits: mechanisms, a pipeline and a posterior on a network. It reads no rows."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import dpgraph as dg
from dpgraph.cli import options
from dpgraph.cli.output import show, write_page

#: The exit code of an audit that found a fault.
FAULT_FOUND = 4


@click.command()
@click.argument("network")
@options.EPSILON
@options.DELTA
@click.option(
    "--mechanism",
    "mechanisms",
    multiple=True,
    type=options.Known(options.MECHANISMS),
    help="Repeat for several; else all.",
)
@options.NEIGHBOURS
@options.ROWS_PER_PERSON
@click.option("--pipeline", metavar="FILE.py:NAME", help="NAME(rows, budget) or NAME(release) to replay; FILE is run.")
@options.whole("--worlds", 0, 100, "For calibration; 0: none.")
@options.number("--seconds", default=45, help="About how long; large networks try less and say so.")
@options.JSON
@options.HTML
@click.pass_context
def audit(
    ctx: click.Context, network: str, mechanisms: Any, pipeline: Any, as_json: bool, html: Any, **asked: Any
) -> None:
    """Look for faults on NETWORK: exact losses, a pipeline's replay, calibration; reads no rows.

    Says which faults each check can and cannot see. Exit code 0: no fault was found. 4: one was found; the report is
    written all the same. 1: the audit was refused.
    """
    page = None if html is None else options.writable(html, ".html")
    replayed = None if pipeline is None else function_of(pipeline)
    from dpgraph.analysis.candidates import mechanism_named
    from dpgraph.audit import report

    graph, unit = dg.read_network(network), dg.PrivacyUnit(asked.pop("neighbours"), asked.pop("rows_per_person"))
    promise = {"epsilon": asked["epsilon"], "delta": asked["delta"], "unit": unit}
    chosen: Any = [mechanism_named(name, graph, **promise) if name == "auto" else name for name in mechanisms]
    found = report(graph, mechanisms=chosen or None, unit=unit, pipeline=replayed, progress=True, **asked)
    if page is not None:
        write_page(found, page)
    show(found.to_json() if as_json else f"{network}: {found!r}")
    ctx.exit(FAULT_FOUND if found.verdict == "fail" else 0)


def function_of(words: str) -> Callable[..., Any]:
    """The function of a name in a Python file, which is run."""
    file, _, name = words.rpartition(":")
    problem = None if Path(file).is_file() else f"{words!r} is not FILE.py:NAME of a file that is there"
    found: Any = None
    if problem is None:
        try:
            found = runpy.run_path(file, run_name="dpgraph_pipeline").get(name)
            problem = None if callable(found) else f"{file} has no function {name!r}"
        except Exception as error:
            problem = f"{file} fails: {type(error).__name__}: {error}"
    if problem is not None:
        raise click.BadParameter(problem, param_hint="--pipeline")
    return found
