"""Pages of the cost of privacy on a network, and of the charges of budgets and ledgers: amount, user, purpose."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

from dpgraph.analysis.candidates import Candidate, ranked, recommended
from dpgraph.analysis.cost import PrivacyReport, compared, family_rows, mechanism_rows, privacy_cost
from dpgraph.analysis.expected import draw_error, expected_counts, of_each, table_errors
from dpgraph.pages.blocks import Costs, Facts, Families, Intervals, Page, Section, Table, Words
from dpgraph.pages.contents import drawn, neighbours, number, page_of, plain_graph, promise, whom
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.ledger.account import Ledger
from dpgraph.privacy.ledger.verification import Verification
from dpgraph.privacy.records import PrivacyCost, decimal, exact
from dpgraph.privacy.risk import Risk
from dpgraph.structure.margins import Margins
from dpgraph.structure.network import Network

#: The rows that a page supposes where a report was made without: its slider starts there.
SUPPOSED_ROWS = 10_000
#: The budgets and the numbers of rows of a grid; beyond ``MANY_VARIABLES`` it has few budgets, and powers of ten alone.
BUDGETS = ("0.01", "0.02", "0.05", "0.1", "0.2", "0.5", "1", "2", "5", "10")
ROWS = tuple(lead * 10**power for power in range(2, 8) for lead in (1, 3))
FEW_BUDGETS, MANY_VARIABLES = ("0.1", "1", "10"), 300
#: What a grid says of each family at one epsilon, in this order; ``tv`` and ``kl`` depend on n too.
GRID_COLUMNS = ("measured in", "sensitivity", "epsilon", "scale", "rmse", "n needed")
CHOOSE = "Choose a variable in the drawing, or in the table of families, to see what its table costs."


@page_of.register
def _of_report(value: PrivacyReport | Network) -> Page:
    report = privacy_cost(value, epsilon=1) if isinstance(value, Network) else value
    network, unit = report.network, report.unit
    facts = [(name, number(value)) for name, value in report.facts.items()]
    given = "the network's own public" if report.given else "where an expected error depends on them, uniform"
    title = f"What privacy costs: {len(network.domain.names)} variables"
    summary = f"{PrivacyCost(report.epsilon, report.delta)}; {neighbours(unit)}"
    source = (
        "No data were read for this page: all of it follows from the declared variables, the arcs and the budget; "
        f"{given} probabilities stand for the data. The attacker's figures are of the recommended mechanism."
    )
    who = Section("Who would be protected", [Words([whom(unit)]), *promise(report.risk), Words([source])])
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


def cost_grid(report: PrivacyReport, n: int) -> dict[str, Any]:
    """Mechanisms, and families under the best (``GRID_COLUMNS``), at every epsilon and n of a grid from ``start``."""
    coarse = len(report.network.families) > MANY_VARIABLES
    epsilons = sorted({report.epsilon, *map(exact, FEW_BUDGETS if coarse else BUDGETS)})
    rows = sorted({n, *(one for one in ROWS if not coarse or str(one).startswith("1"))})
    return {
        "epsilons": [float(epsilon) for epsilon in epsilons],
        "rows": rows,
        "start": [epsilons.index(report.epsilon), rows.index(n)],
        "budgets": [_priced(report, epsilon, rows) for epsilon in epsilons],
    }


def _priced(report: PrivacyReport, epsilon: Fraction, rows: list[int]) -> dict[str, Any]:
    """One budget: its mechanisms and families, for each number of rows where they depend on it."""
    shares = report.shares
    priced = ranked(report.network, epsilon, report.delta, report.unit, expected_counts(shares, rows[0]))
    best = recommended(priced)
    families = family_rows(report.network, best, None, shares)
    rmse = {family: row["rmse"] for family, row in zip(report.network.families, families, strict=True)}
    errors = [table_errors(shares, rmse, n) for n in rows]
    return {
        "typed": f"dg.{best.mechanism!r}",
        "mechanisms": [
            row | {"best": one is best, "paper": one.paper, "rmse": _errors(one, epsilon, report, rows)}
            for one, row in zip(priced, mechanism_rows(priced), strict=True)
        ],
        "families": [[row[name] for name in GRID_COLUMNS] for row in families],
        "tv": [[found[family][0] for family in rmse] for found in errors],
        "kl": [[found[family][1] for family in rmse] for found in errors],
    }


def _errors(one: Candidate, epsilon: Fraction, report: PrivacyReport, rows: list[int]) -> list[float]:
    """The error of a mechanism's cells at each number of rows, on which the error of drawn tables depends."""
    if one.usable:
        return [one.rmse] * len(rows)
    temperature = one.sensitivity / float(epsilon)
    drawn = [of_each(lambda share, n=n: draw_error(n * share, temperature), report.shares) for n in rows]
    return [replace(one, variances=variances).rmse for variances in drawn]


@page_of.register
def _of_budget(budget: Budget) -> Page:
    spent, whole = budget.cost(), PrivacyCost(budget.epsilon, budget.delta)
    facts = [
        ("whole budget", str(whole)),
        ("spent", str(spent)),
        ("left", f"epsilon {decimal(budget.remaining)}"),
        ("accounting", budget.accounting),
        ("unit", neighbours(budget.unit)),
    ]
    used, all_of_it = float(spent.epsilon), float(budget.epsilon)
    bar = Intervals(["spent"], [used], [0.0], [used], "epsilon", (0.0, all_of_it))
    who = [Words([whom(budget.unit), "If all of the budget is spent:"]), *promise(Risk.of(budget))]
    try:
        ledger = budget.ledger
    except ReleaseError:  # it lives in memory
        title, words = "A privacy budget", f"{spent} of {whole}, in memory"
        rows = [[at, one.mechanism, float(one.epsilon), float(one.delta)] for at, one in enumerate(budget.events, 1)]
        kept = [Section("Charges", [Table(["charge", "mechanism", "epsilon", "delta"], rows)])]
    else:
        title, words, kept = f"The privacy ledger of {ledger.dataset}", f"{spent} of {whole}", _kept(ledger)
        facts += _ledger_facts(ledger)
    account = [Words([f"{used / all_of_it:.0%} of epsilon is spent."]), bar, Facts(facts)]
    return Page(title, words, [Section("Who is protected", who), Section("The budget", account), *kept])


def _ledger_facts(ledger: Ledger) -> list[tuple[str, str]]:
    return [("source", ledger.source or "-"), ("newest digest", ledger.head)]


@page_of.register
def _of_ledger_alone(ledger: Ledger) -> Page:
    said = Words(["What each entry cost is below; the page of the budget says how much is left."])
    head = [said, Facts(_ledger_facts(ledger))]
    return Page(f"The privacy ledger of {ledger.dataset}", "", [Section("The ledger", head), *_kept(ledger)])


@page_of.register
def _of_verification(found: Verification) -> Page:
    said = "whole" if found.ok else "something is wrong"
    return Page(f"A check of a privacy ledger: {said}", "", [Section("Is it whole?", [_verified(found)])])


def _kept(ledger: Ledger) -> list[Section]:
    rows = []
    for row in ledger.rows():
        event = row.decoded
        price = "-" if event is None else float(event.epsilon)
        rows.append([row.number, row.time, row.kind, row.who, row.purpose, row.mechanism, price, row.digest[:16]])
    columns = ["entry", "time (UTC)", "kind", "who", "purpose", "mechanism", "epsilon", "digest"]
    sections = [Section("Charges", [Table(columns, rows, "Entries are added and never changed.")])]
    allowances = [
        [who, float(one.limit.epsilon), float(spent.epsilon), "-" if one.expires is None else one.expires.isoformat()]
        for who, (one, spent) in ledger.allowances().items()
    ]
    if allowances:
        sections.append(Section("Allowances", [Table(["who", "at most", "spent", "until"], allowances)]))
    return [*sections, Section("Is it whole?", [_verified(ledger.verify())])]


def _verified(found: Verification) -> Words:
    if not found.ok:
        return Words(["Something is wrong with this ledger:", *found.problems], "warning")
    checked = f"All {found.rows:,} entries have the digest they were written with, and every total was computed again"
    return Words([f"{checked}: nothing is wrong. Against an older copy put in place keep the newest digest elsewhere."])
