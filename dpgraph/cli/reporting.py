"""The command that writes a page of what a file holds: a network, a release, a posterior, a model, or a ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dpgraph.cli.options import OUT_PATH, writable
from dpgraph.cli.output import delivering, say

#: Where a page is written; of commands that have one beside their other results.
HTML = click.option("--html", type=OUT_PATH, help="Write a page too: one file, for people without Python.")


@click.command()
@click.argument("source", metavar="FILE")
@click.option("--html", type=OUT_PATH, required=True, help="The page to write.")
@click.option("--dataset", metavar="NAME", help="FILE is a ledger: the page of this data set's budget.")
@click.option("--release", "beside", is_flag=True, help="Of a fitted model: the page of the release it keeps.")
def report(source: str, html: Path, dataset: str | None, beside: bool) -> None:
    """Write a page of FILE: who is protected, what was measured or learned, with drawings; free.

    FILE is a network, a release, a posterior or a model; or a ledger, with --dataset. The page is one file that needs
    no network to be read. It shows public values alone.
    """
    page = writable(html, ".html")
    if beside and dataset is not None:
        raise click.UsageError("--release is of a model's file, --dataset of a ledger")
    if dataset is None:
        write_page(_value_of(source, beside), page)
    else:
        from dpgraph.privacy.accounting import Budget

        budget = Budget.open(source, dataset=dataset)
        try:
            write_page(budget, page)
        finally:
            budget.ledger.close()
    say(f"wrote {html}")


def _value_of(source: str, beside: bool) -> Any:
    """What a file holds."""
    if Path(source).suffix.lower() == ".toml":
        from dpgraph.files.networks import read_network

        return read_network(source)
    from dpgraph.files.documents import load

    return load(source, release=beside)


def write_page(value: Any, page: Path) -> None:
    """Writes a page where it can be written.

    Raises:
        Undelivered: If a stream took a part of it alone.
    """
    from dpgraph.pages.writing import write_html

    with delivering(page):
        write_html(value, page)
