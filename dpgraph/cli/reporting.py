"""``dpgraph report``: the content of a file, in words and small tables or as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpgraph.cli.options import OUT_PATH, writable
from dpgraph.cli.output import plain, say, show, write_page
from dpgraph.privacy.display import escaped

if TYPE_CHECKING:
    from dpgraph.models.hmm import HiddenMarkovModel


@click.command()
@click.argument("source", metavar="FILE")
@click.option("--html", type=OUT_PATH, help="Write a page instead: one file, for people without Python.")
@click.option("--dataset", metavar="NAME", help="FILE is a ledger: the page of this data set's budget.")
@click.option("--release", "beside", is_flag=True, help="Of a fitted model: the page of the release it keeps.")
def report(source: str, html: Path | None, dataset: str | None, beside: bool) -> None:
    """Say what FILE holds: who is protected, what was measured or learned; free.

    FILE is a network, a release, a posterior or a model; or a ledger, with --dataset. Of a hidden Markov model: how
    states follow each other, what each of them emits, and how well the chains mixed. The page of --html has drawings
    and needs no network to be read. All of it is of public values alone.
    """
    page = None if html is None else writable(html, ".html")
    if beside and dataset is not None:
        raise click.UsageError("--release is of a model's file, --dataset of a ledger")
    if dataset is None:
        _deliver(_value_of(source, beside), source, page)
    else:
        from dpgraph.privacy.accounting import Budget

        budget = Budget.open(source, dataset=dataset)
        try:
            _deliver(budget, source, page)
        finally:
            budget.ledger.close()
    if page is not None:
        say(f"wrote {html}")


def _deliver(value: Any, source: str, page: Path | None) -> None:
    """A page of a value, or words where no page is asked for."""
    if page is not None:
        return write_page(value, page)
    show(f"{escaped(source)}: {value!r}")
    made = getattr(value, "provenance", None)
    if made is not None:
        show(f"learned from {made}")
    from dpgraph.models.hmm import HiddenMarkovModel

    if isinstance(value, HiddenMarkovModel):
        _show_states(value)
    return None


def _value_of(source: str, beside: bool) -> Any:
    """The value in a file."""
    if Path(source).suffix.lower() == ".toml":
        from dpgraph.files.networks import read_network

        return read_network(source)
    from dpgraph.files.documents import load

    return load(source, release=beside, progress=True)


def _show_states(model: HiddenMarkovModel) -> None:
    """Transitions, emissions and mixing of a hidden Markov model."""
    states = range(model.n_states)
    cells = model.state_probabilities.sum(axis=(0, 1))
    moves: list[dict[str, Any]] = [
        {"state": state, "cells": float(cells[state])}
        | {f"to {other}": float(model.mean_transition[state, other]) for other in states}
        for state in states
    ]
    where = f"{model.sequence} by {model.time}"
    show(f"\nstates, the cells ({where}) in each, and the next one's probability:\n{plain(moves)}")
    for name in model.fields:
        levels, law = model.network.domain.levels(name), model.mean_emission(name)
        rows = [
            {str(name): str(level)} | {f"state {k}": float(law[k, i]) for k in states} for i, level in enumerate(levels)
        ]
        show(f"\n{plain(rows)}")
    found = model.diagnostics
    show(
        f"\nR-hat {found['r_hat']:.3g}, effective size {found['effective_size']:.3g}: above 1.05 the chains have not "
        "mixed, and\n`dpgraph refit` learns again from the release that the file keeps, free"
    )
