"""``dpgraph learn``: a network, its graph and its probabilities, from rows without a graph."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpgraph.cli.budgets import Payer, charging, only_priced, spends
from dpgraph.cli.options import DELTA, OUT_PATH, OUT_UNLESS_DRY, apart, whole, writable
from dpgraph.cli.output import delivering, plain, save_charged, say, show, telling

if TYPE_CHECKING:
    from dpgraph.inference.graphs.learned import LearnedNetwork


@click.command()
@click.argument("rows")
@click.option("--domain", required=True, help="The variables and their levels, declared.")
@DELTA
@click.option("--method", default="auto", show_default=True, help="How; auto says which it chose and why.")
@whole("--max-parents", 0, help="The most parents of a variable.")
@whole("--max-cells", 1, help="The most cells of a family's table.")
@click.option("--required", metavar="A->B", multiple=True, help="An edge that must be there; may be repeated.")
@click.option("--forbidden", metavar="A->B", multiple=True, help="An edge that must not be; may be repeated.")
@click.option("--order", metavar="A,B,...", help="Variables first to last: no edge leads backwards.")
@click.option("--target", help="A variable that is a parent of every other: tree-augmented naive Bayes.")
@whole("--n", 1, help="About how many rows there are, if that is public.")
@spends
@OUT_UNLESS_DRY
@click.option(
    "--shares",
    is_flag=True,
    help="Print how often each edge is chosen on draws of the pairs, too: twenty times as long as choosing took.",
)
@click.option("--release", "release_out", type=OUT_PATH, help="Where to write every noisy table as well.")
@click.option("--model", "model_out", type=OUT_PATH, help="Where to write the probabilities as well.")
def learn(
    payer: Payer,
    rows: str,
    domain: str,
    delta: str,
    required: tuple[str, ...],
    forbidden: tuple[str, ...],
    order: str | None,
    max_parents: int | None,
    max_cells: int | None,
    target: str | None,
    out: Path | None,
    shares: bool,
    release_out: Path | None,
    model_out: Path | None,
    **settings: Any,
) -> None:
    """Learn a network of ROWS that have no graph: pairs are measured once, and the graph is chosen for free."""
    from dpgraph.estimators.learning import planned_events
    from dpgraph.files.documents import save
    from dpgraph.files.networks import read_domain
    from dpgraph.inference.graphs.constraints import Constraints

    apart({"--out": out, "--release": release_out, "--model": model_out})
    declared = read_domain(domain)
    budget = payer.budget(delta)
    settings |= {"epsilon": payer.epsilon, "delta": delta, "budget": budget}
    settings["constraints"] = Constraints(
        max_parents=max_parents,
        max_cells=max_cells,
        required=[_edge(text) for text in required],
        forbidden=[_edge(text) for text in forbidden],
        order=None if order is None else [name.strip() for name in order.split(",")],
        target=target,
    )
    if only_priced(payer, planned_events(declared, **settings), budget):
        return
    from dpgraph.estimators.learning import learn_network

    out = writable(out, ".toml", ".json")
    beside = [None if path is None else writable(path, ".json", ".npz") for path in (release_out, model_out)]
    with charging(budget):
        learned = telling(lambda: learn_network(rows, declared, person=payer.person, progress=True, **settings))
        if beside[0] is not None:
            save_charged(learned.release, beside[0])
            say(f"wrote {beside[0]}")
        with delivering(out):
            save(learned.network, out, progress=True)
        say(f"wrote {out}: {learned.provenance}; {learned.reason}")
        if beside[1] is not None:
            save_charged(learned.probabilities, beside[1])
            say(f"wrote {beside[1]}")
    edges = _edges(learned, shares)
    show(plain(edges) if edges else "no edge stands out of the noise")
    if edges and not shares and learned.method == "pairs":
        where = "learned.edges" if release_out is None else f"dg.choose_network(dg.load({str(release_out)!r})).edges"
        say(f"how often each edge is chosen on draws of the pairs: --shares prints it; in Python it is in {where}")


def _edges(learned: LearnedNetwork, shares: bool) -> list[dict[str, str]]:
    """The edges, strongest first; with the share of draws that have them, a dash where that would cost epsilon."""
    if not shares:  # which ``learned.edges`` would compute
        found = sorted(learned.to_networkx().edges(data=True), key=lambda edge: -edge[2]["strength"])
        return [{"parent": one, "child": other, "strength": f"{data['strength']:.4f}"} for one, other, data in found]
    rows: Any = learned.edges[["parent", "child", "strength", "share"]]
    rows = rows.to_dict("records")
    for row in rows:
        share = row["share"]
        row |= {"strength": f"{row['strength']:.4f}", "share": "-" if share != share else f"{share:.2f}"}
    return rows


def _edge(text: str) -> tuple[str, str]:
    parent, arrow, child = text.partition("->")
    if not arrow or not parent.strip() or not child.strip():
        raise click.UsageError(f"an edge is written PARENT->CHILD; got {text!r:.60}")
    return parent.strip(), child.strip()
