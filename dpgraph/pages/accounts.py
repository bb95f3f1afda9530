"""Pages of budgets and ledgers: what was spent, by whom and for what."""

from __future__ import annotations

from dpgraph.pages.blocks import Facts, Intervals, Page, Section, Table, Words
from dpgraph.pages.contents import page_of
from dpgraph.pages.words import neighbours, promise, whom
from dpgraph.privacy.accounting import Budget
from dpgraph.privacy.ledger.book import Ledger
from dpgraph.privacy.ledger.checking import Verification
from dpgraph.privacy.records import PrivacyCost, ReleaseError, decimal


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
    promised = promise(budget.unit, budget.epsilon, budget.delta)
    who = Words([whom(budget.unit), "If all of the budget is spent:", *promised])
    try:
        ledger = budget.ledger
    except ReleaseError:  # it lives in memory
        title, words = "A privacy budget", f"{spent} of {whole}, in memory"
        rows = [
            [at, event.mechanism, float(event.epsilon), float(event.delta)] for at, event in enumerate(budget.events, 1)
        ]
        kept = [Section("Charges", [Table(["charge", "mechanism", "epsilon", "delta"], rows)])]
    else:
        title, words, kept = f"The privacy ledger of {ledger.dataset}", f"{spent} of {whole}", _kept(ledger)
        facts += _ledger_facts(ledger)
    account = [Words([f"{used / all_of_it:.0%} of epsilon is spent."]), bar, Facts(facts)]
    return Page(title, words, [Section("Who is protected", [who]), Section("The budget", account), *kept])


def _ledger_facts(ledger: Ledger) -> list[tuple[str, str]]:
    return [("source", ledger.source or "-"), ("newest digest", ledger.head)]


@page_of.register
def _of_ledger_alone(ledger: Ledger) -> Page:
    said = Words(["What each row cost is below; the page of the budget says how much is left."])
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
    columns = ["row", "time (UTC)", "kind", "who", "purpose", "mechanism", "epsilon", "digest"]
    sections = [Section("Charges", [Table(columns, rows, "Rows are added and never changed.")])]
    allowances = [
        [who, float(one.limit.epsilon), float(spent.epsilon), "-" if one.expires is None else one.expires.isoformat()]
        for who, (one, spent) in ledger.allowances().items()
    ]
    if allowances:
        sections.append(Section("Allowances", [Table(["who", "at most", "spent", "until"], allowances)]))
    return [*sections, Section("Is it whole?", [_verified(ledger.verify())])]


def _verified(found: Verification) -> Words:
    if found.ok:
        return Words(
            [
                f"All {found.rows:,} rows have the digest they were written with, and every total was computed again: "
                "nothing is wrong. Against an older copy put in place keep the newest digest elsewhere."
            ]
        )
    return Words(["Something is wrong with this ledger:", *found.problems], "warning")
