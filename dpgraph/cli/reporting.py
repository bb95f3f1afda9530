"""``dpgraph report``: what a file of dpgraph's holds, in words and small tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dpgraph.cli.output import plain, show
from dpgraph.privacy.printed import escaped

if TYPE_CHECKING:
    from dpgraph.models.hmm import HiddenMarkovModel


@click.command()
@click.argument("file")
def report(file: str) -> None:
    """Say what FILE holds: a model, a posterior, a release or a network; free.

    Of a hidden Markov model: how states follow each other, what each of them emits, and how well the chains mixed.
    """
    from dpgraph.files.documents import load
    from dpgraph.models.hmm import HiddenMarkovModel

    value = load(file)
    show(f"{escaped(file)}: {value!r}")
    made = getattr(value, "provenance", None)
    if made is not None:
        show(f"learned from {made}")
    if isinstance(value, HiddenMarkovModel):
        _show_states(value)


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
