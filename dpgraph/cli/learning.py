"""``dpgraph learn``: a network, its graph and its probabilities, from rows without a graph."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpgraph.cli.options import (
    DELTA,
    DRY_RUN,
    EPSILON,
    NEIGHBOURS_SPENT,
    OUT_PATH,
    OUT_UNLESS_DRY,
    PERSON,
    ROWS_PER_PERSON_SPENT,
    apart,
    writable,
)
from dpgraph.cli.output import capture_warnings, delivering, plain, save_charged, say, show
from dpgraph.cli.paying import Payer, charging, only_priced, spends

if TYPE_CHECKING:
    from dpgraph.inference.graphs.learned import LearnedNetwork


@click.command()
@click.argument("rows")
@click.option("--domain", required=True, help="The variables and their levels, declared.")
@EPSILON
@DELTA
@click.option("--method", default="auto", show_default=True, help="How; auto says which it chose and why.")
@click.option("--max-parents", type=click.IntRange(min=0), help="The most parents of a variable.")
@click.option("--max-cells", type=click.IntRange(min=1), help="The most cells of a family's table.")
@click.option("--required", metavar="A->B", multiple=True, help="An edge that must be there; may be repeated.")
@click.option("--forbidden", metavar="A->B", multiple=True, help="An edge that must not be; may be repeated.")
@click.option("--order", metavar="A,B,...", help="Variables first to last: no edge leads backwards.")
@click.option("--target", help="A variable that is a parent of every other: tree-augmented naive Bayes.")
@click.option("--n", type=click.IntRange(min=1), help="About how many rows there are, if that is public.")
@click.option(
    "--stages",
    type=click.IntRange(1, 2),
    default=1,
    show_default=True,
    help="2 measures tables of three variables after the pairs.",
)
@NEIGHBOURS_SPENT
@PERSON
@ROWS_PER_PERSON_SPENT
@spends
@DRY_RUN
@OUT_UNLESS_DRY
@click.option(
    "--shares",
    is_flag=True,
    help="Print how often each edge is chosen on draws of the pairs, too: twenty times as long as choosing took.",
)
@click.option("--release", "release_out", type=OUT_PATH, help="Where to write every noisy table as well.")
@click.option("--model", "model_out", type=OUT_PATH, help="Where to write the probabilities as well.")
def learn(
    rows: str,
    domain: str,
    epsilon: str,
    delta: str,
    method: str,
    max_parents: int | None,
    max_cells: int | None,
    required: tuple[str, ...],
    forbidden: tuple[str, ...],
    order: str | None,
    target: str | None,
    n: int | None,
    stages: int,
    neighbours: str | None,
    person: str | None,
    rows_per_person: int | None,
    payer: Payer,
    dry_run: bool,
    out: Path | None,
    shares: bool,
    release_out: Path | None,
    model_out: Path | None,
) -> None:
    """Learn a network of ROWS that have no graph: pairs are measured once, and the graph is chosen for free."""
    from dpgraph.estimators.learning import planned_events
    from dpgraph.files.documents import save
    from dpgraph.files.networks import read_domain

    apart({"--out": out, "--release": release_out, "--model": model_out})
    declared = read_domain(domain)
    budget = payer.budget(epsilon, neighbours, rows_per_person, delta=delta, person=person)
    settings: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": delta,
        "budget": budget,
        "method": method,
        "max_parents": max_parents,
        "max_cells": max_cells,
        "required": [_edge(text) for text in required],
        "forbidden": [_edge(text) for text in forbidden],
        "order": None if order is None else [name.strip() for name in order.split(",")],
        "target": target,
        "n": n,
        "stages": stages,
    }
    planned = planned_events(declared, **settings)
    if only_priced(dry_run, _Planned(planned), declared, budget):
        return
    from dpgraph.estimators.learning import learn_network

    out = writable(out, ".toml", ".json")
    beside = [None if path is None else writable(path, ".json", ".npz") for path in (release_out, model_out)]
    with charging(budget):
        learned, said = capture_warnings(
            lambda: learn_network(rows, declared, person=person, progress=True, **settings)
        )
        for words in said:
            say(f"warning: {words}")
        if beside[0] is not None:
            save_charged(learned.release, beside[0])
            say(f"wrote {beside[0]}")
        with delivering(out):
            save(learned.network, out, progress=True)
        say(f"wrote {out}: {learned.provenance}; {learned.reason}")
        if beside[1] is not None:
            save_charged(learned.probabilities, beside[1])
            say(f"wrote {beside[1]}")
    edges = _with_shares(learned) if shares else _edges(learned)
    show(plain(edges) if edges else "no edge stands out of the noise")
    if edges and not shares and learned.method == "pairs":
        where = "learned.edges" if release_out is None else f"dg.choose_network(dg.load({str(release_out)!r})).edges"
        say(f"how often each edge is chosen on draws of the pairs: --shares prints it; in Python it is in {where}")


def _edges(learned: LearnedNetwork) -> list[dict[str, str]]:
    """The edges, strongest first."""
    found = sorted(learned.to_networkx().edges(data=True), key=lambda edge: -edge[2]["strength"])
    return [{"parent": one, "child": other, "strength": f"{data['strength']:.4f}"} for one, other, data in found]


def _with_shares(learned: LearnedNetwork) -> list[dict[str, str]]:
    """The edges with the share of draws on which they are chosen; a dash where that would cost more epsilon."""
    rows = learned.edges.to_dict("records")
    return [
        {
            "parent": row["parent"],
            "child": row["child"],
            "strength": f"{row['strength']:.4f}",
            "share": "-" if math.isnan(row["share"]) else f"{row['share']:.2f}",
        }
        for row in rows
    ]


class _Planned:
    """What a dry run asks of a mechanism: the event, which is known."""

    def __init__(self, event: Any) -> None:
        self._event = event

    def event(self, description: Any, unit: Any) -> Any:
        """The event."""
        return self._event


def _edge(text: str) -> tuple[str, str]:
    """An edge from what was typed."""
    parent, arrow, child = text.partition("->")
    if not arrow or not parent.strip() or not child.strip():
        raise click.UsageError(f"an edge is written PARENT->CHILD; got {text!r:.60}")
    return parent.strip(), child.strip()
