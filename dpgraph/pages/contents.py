"""What a page of each kind of value says: one function for each class, found by ``page_of``.

Only what is public has one: what left through a release, what was learned from that, and what was declared. Rows,
codes, counts and moments have none, and no function here takes a value of a class it does not know.
"""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from dpgraph.files.codecs import refuse_unfitted
from dpgraph.pages.blocks import Facts, Page, Section, Table, Words
from dpgraph.pages.words import AFTERWARDS, NO_RECORD, NOT_PRIVATE, cost, neighbours, number, promise, whom
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Measurement, Provenance

#: The names of a measurement that a page lists.
MOST_NAMES = 8


@singledispatch
def page_of(value: Any) -> Page:
    """The page of a public value.

    Raises:
        FileError: If the value is sensitive, or of a class that has no page.
    """
    refuse_unfitted(value)
    raise FileError(
        f"{type(value).__name__} has no page: only public values do, that were declared, left through a release or "
        "were learned from one"
    )


def protection(record: Provenance | None, *, learned: bool = True) -> Section:
    """What was protected and for whom, of a value that was released or learned."""
    if record is None:
        return Section("What was protected", [Words([NO_RECORD])])
    warning = [] if record.private else [Words([NOT_PRIVATE], "warning")]
    sentences = [whom(record.unit), *promise(record.unit, record.event.epsilon, record.event.delta)]
    spent = f"The release cost {cost(record)}. Other releases of the same people's data add to it."
    facts = [("mechanism", record.event.mechanism), ("cost", cost(record)), ("unit", neighbours(record.unit))]
    if record.receipts:
        facts.append(("paid by ledger rows", ", ".join(digest[:16] for digest in record.receipts)))
    after = [AFTERWARDS] if learned else []
    return Section("What was protected", [*warning, Words([*sentences, spent, *after]), Facts(facts)])


def measurements(record: Provenance) -> Section:
    """Every measurement behind a release: what, with which noise, and how far one person moves it."""
    rows = []
    for event in record.event.events:
        rows += [
            [
                _measured(m),
                m.cells,
                type(m.law).__name__,
                float(m.law.scale),
                float(m.movement.l1),
                float(m.law.variance(m.cells)) ** 0.5,
            ]
            for m in event.measurements
        ]
        for law in dict.fromkeys(selection.law for selection in event.selections):
            draws = sum(selection.draws for selection in event.selections if selection.law == law)
            rows.append([f"choices among public candidates, {law}", draws, "-", "-", "-", "-"])
    columns = ["what was measured", "numbers", "noise law", "scale", "moved by one person (L1)", "noise sd"]
    note = "In the whole numbers that noise was added to: rows for counts, fixed-point units for sums."
    return Section("What was measured", [Table(columns, rows, note)])


def _measured(one: Measurement) -> str:
    """A table by its variables, sums by their names; of many the first."""
    if len(one.table) > MOST_NAMES:
        return f"{', '.join(one.table[:MOST_NAMES])} and {len(one.table) - MOST_NAMES} more"
    return (", " if one.cells == len(one.table) else " x ").join(one.table) or "number of rows"


def facts_of(pairs: dict[str, Any]) -> Facts:
    """Names and numbers as facts."""
    return Facts([(name, number(value)) for name, value in pairs.items()])
