"""The page of a network that was learned: its edges, how they were chosen, its tables, and what was measured."""

from __future__ import annotations

from dpgraph.inference.graphs.learned import LearnedNetwork
from dpgraph.pages.blocks import Page, Section, Table, Words
from dpgraph.pages.contents import measurements, page_of, protection
from dpgraph.pages.learned import MOST_EDGES, STRENGTH, tables_section

SHARE = "share: the part of draws of the released pairs, from their posterior, on which the two are joined."


@page_of.register
def _of_learned(value: LearnedNetwork) -> Page:
    section, data = tables_section(value.network, value.probabilities.tables, None)
    record = value.provenance
    behind = [] if record is None else [measurements(record)]
    many = len(value.network.domain.names)
    sections = [protection(record), _chosen(value), section, *behind]
    return Page(
        f"Learned network of {many} variable{'s' if many > 1 else ''}", f"method {value.method}", sections, data
    )


def _chosen(value: LearnedNetwork) -> Section:
    """The edges with how often they are chosen, and what that means."""
    frame = value.edges
    known = bool(frame["share"].notna().any())
    rows = [
        [edge["parent"], edge["child"], float(edge["strength"]), *([float(edge["share"])] if known else [])]
        for edge in frame.head(MOST_EDGES).to_dict("records")
    ]
    how = (
        "The graph was chosen from what was released, so the choice cost nothing. An edge says that two variables "
        "depend on each other in the model, never which of them is a cause."
        if value.method == "pairs"
        else "The graph was chosen with a part of the budget. An edge is no finding about causes."
    )
    words = Words([f"Why this method: {value.reason}.", how])
    if not rows:
        return Section("Edges", [words, Words(["No pair stands out of its noise: the graph has no edge."])])
    columns = ["parent", "child", "strength", *(["share"] if known else [])]
    left = f" The strongest {MOST_EDGES} of {len(frame)} are listed." if len(frame) > MOST_EDGES else ""
    return Section("Edges", [words, Table(columns, rows, STRENGTH + (f" {SHARE}" if known else "") + left)])
