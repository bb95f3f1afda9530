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
    left = budget.remaining
    share = float(spent.epsilon / budget.epsilon)
    facts = [
        ("whole budget", str(whole)),
        ("spent", str(spent)),
        ("left", f"epsilon {decimal(left)}"),
        ("accounting", budget.accounting),
        ("unit", neighbours(budget.unit)),
    ]
    bar = Intervals(
        ["spent"], [float(spent.epsilon)], [0.0], [float(spent.epsilon)], "epsilon", (0.0, float(budget.epsilon))
    )
    who = Section(
        "Who is protected",
        [
            Words(
                [
                    whom(budget.unit),
                    "If all of the budget is spent:",
                    *promise(budget.unit, budget.epsilon, budget.delta),
                ]
            )
        ],
    )
    account = Section("The budget", [Words([f"{share:.0%} of epsilon is spent."]), bar, Facts(facts)])
    try:
        ledger = budget.ledger
    except ReleaseError:  # it lives in memory
        rows = [
            [at, event.mechanism, float(event.epsilon), float(event.delta)] for at, event in enumerate(budget.events, 1)
        ]
        charges = Section("Charges", [Table(["charge", "mechanism", "epsilon", "delta"], rows)])
        return Page("A privacy budget", f"{spent} of {whole}, in memory", [who, account, charges])
    return _of_ledger(budget, ledger, [who, account], facts)


def _of_ledger(budget: Budget, ledger: Ledger, head: list[Section], facts: list[tuple[str, str]]) -> Page:
    """A budget that a ledger keeps: with its rows, its allowances, and whether its digests hold."""
    facts += [("source", ledger.source or "-"), ("newest digest", ledger.head)]
    spent = budget.cost()
    words = f"{spent} of {PrivacyCost(budget.epsilon, budget.delta)}"
    return Page(f"The privacy ledger of {ledger.dataset}", words, [*head, *_kept(ledger)])


@page_of.register
def _of_ledger_alone(ledger: Ledger) -> Page:
    """Whose ledger it is, by its first row, and all that it keeps; a page of the budget says what is left of it."""
    facts = [("source", ledger.source or "-"), ("newest digest", ledger.head)]
    head = [Words(["What each row cost is below; the page of the budget says how much is left."]), Facts(facts)]
    return Page(f"The privacy ledger of {ledger.dataset}", "", [Section("The ledger", head), *_kept(ledger)])


@page_of.register
def _of_verification(found: Verification) -> Page:
    said = "whole" if found.ok else "something is wrong"
    return Page(f"A check of a privacy ledger: {said}", "", [Section("Is it whole?", [_verified(found)])])


def _kept(ledger: Ledger) -> list[Section]:
    """The rows of a ledger, its allowances, and whether its digests hold."""
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
    """What a check of all digests and totals found."""
    if found.ok:
        return Words(
            [
                f"All {found.rows:,} rows have the digest they were written with, and every total was computed again: "
                "nothing is wrong. Against an older copy put in place keep the newest digest elsewhere."
            ]
        )
    return Words(["Something is wrong with this ledger:", *found.problems], "warning")
