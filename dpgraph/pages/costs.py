"""The page of the cost of privacy on a network: sliders, mechanisms compared, the DAG, families, arcs."""

from __future__ import annotations

import math
from typing import Any

from dpgraph.analysis.cost import PrivacyReport, compared, privacy_cost
from dpgraph.analysis.grid import cost_grid
from dpgraph.pages.blocks import Costs, Facts, Families, Page, Section, Table, Words
from dpgraph.pages.contents import drawn, page_of, plain_graph
from dpgraph.pages.words import neighbours, number, promise, whom
from dpgraph.privacy.records import PrivacyCost
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Network

#: The rows that a page supposes where a report was made without: its slider starts there.
SUPPOSED_ROWS = 10_000

CHOOSE = "Choose a variable in the drawing, or in the table of families, to see what its table costs."


@page_of.register
def _of_network(network: Network) -> Page:
    return _of_report(privacy_cost(network, epsilon=1))


@page_of.register
def _of_report(report: PrivacyReport) -> Page:
    network, unit = report.network, report.unit
    facts = [(name, number(value)) for name, value in report.facts.items()]
    whose = (
        "the network's own public probabilities stand for the data"
        if report.given
        else "uniform probabilities stand for the data where an expected error depends on them"
    )
    title = f"What privacy costs: {len(network.domain.names)} variables"
    summary = f"{PrivacyCost(report.epsilon, report.delta)}; {neighbours(unit)}"
    source = (
        "No data were read for this page: all of it follows from the declared variables, the arcs and the budget; "
        f"{whose}."
    )
    words = Words([whom(unit), *promise(unit, report.epsilon, report.delta), source])
    who = Section("Who would be protected", [words])
    if isinstance(network, Margins):
        return Page(title, summary, [who, *_of_tables(report, facts)])
    graph = drawn(network, "the network, coloured by what each variable's table costs", CHOOSE, report.arc_shares)
    sections = [
        who,
        Section("What it would cost", [Costs(float(report.delta), report.n is not None)]),
        Section("The network", [graph, Facts(facts)]),
        Section("Families", [Families()]),
        Section("Arcs", _arcs(report)),
    ]
    if report.question is not None:
        sections.append(_question(report.question))
    data = {
        "graph": plain_graph(network),
        "cost": _plain(cost_grid(report, report.n or SUPPOSED_ROWS)),
        "arcs": [
            {"parent": network.position[row["parent"]], "child": network.position[row["child"]], "cost": row["cost"]}
            for row in report.arc_rows
        ],
    }
    return Page(title, summary, sections, data)


def _plain(value: Any) -> Any:
    """Numbers to six digits, as a page shows three; None for those that do not apply."""
    match value:
        case float():
            return float(f"{value:.6g}") if math.isfinite(value) else None
        case dict():
            return {name: _plain(one) for name, one in value.items()}
        case list():
            return list(map(_plain, value))
    return value


def _of_tables(report: PrivacyReport, facts: list[tuple[str, str]]) -> list[Section]:
    """The cost of tables without a graph, by their own names: there is no drawing to choose a variable in."""
    compared_rows = compared(report.mechanism_rows)
    mechanisms = Table(list(compared_rows[0]), [list(row.values()) for row in compared_rows])
    rows = [
        [", ".join(family), *(row[name] for name in ("cells", "sensitivity", "scale", "rmse", "n needed"))]
        for family, row in zip(report.network.families, report.family_rows, strict=True)
    ]
    note = "Under the recommended mechanism; rmse: standard error of one cell, in rows."
    tables = Table(["table", "cells", "sensitivity", "scale", "rmse", "n needed"], rows, note)
    advised = Words([f"recommended: {report.recommended!r}", report.reason])
    sections = [Section("What it would cost", [mechanisms, advised]), Section("The tables", [Facts(facts), tables])]
    return sections if report.question is None else [*sections, _question(report.question)]


def _arcs(report: PrivacyReport) -> list[Any]:
    rows = report.arc_rows
    if not rows:
        return [Words(["There are no arcs."])]
    first = rows[0]
    saved = 1 - 1 / first["cost"]
    words = (
        f"Without the arc from {first['parent']} to {first['child']} the standard error of all released counts would "
        f"be {saved:.0%} smaller. Leave an arc out only if it says little."
        if saved >= 0.005
        else "No arc costs anything to speak of: their tables are measured anyway, or small."
    )
    note = (
        "cost: factor on the standard error of all released counts; 1 is free, and below 1 the tables without the arc "
        "would need more of epsilon. cells: of the child's table saved."
    )
    shown = [[row[name] for name in ("parent", "child", "cost", "cells")] for row in rows]
    return [Words([words]), Table(["from", "to", "cost", "cells"], shown, note)]


def _question(question: Any) -> Section:
    frame = question.widths
    rows = [list(row) for row in frame.itertuples(index=False)]
    note = (
        f"Mean widths of {question.interval:.0%} intervals over {question.worlds} simulated data sets of "
        f"{question.n:,} rows, at the epsilon the page was made for; noise: its share of the squared width."
    )
    return Section(f"How well it would answer {question.question}", [Table(list(map(str, frame.columns)), rows, note)])
