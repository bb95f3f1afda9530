"""The page of an audit: what each check found, and what it cannot see.

It is imported where an audit is shown alone: audits bring seeded noise, which nothing else that is shown needs.
"""

from __future__ import annotations

from typing import Any

from dpgraph.audit.reporting import AuditReport
from dpgraph.pages.blocks import Facts, Page, Section, Table, Words
from dpgraph.pages.contents import page_of
from dpgraph.pages.words import neighbours, number
from dpgraph.privacy.records import decimal


@page_of.register
def _of_audit(report: AuditReport) -> Page:
    sections = []
    for name in dict.fromkeys(check.name for check in report.checks):
        checks = [check for check in report.checks if check.name == name]
        rows: list[list[Any]] = [[check.verdict, check.subject, check.found, check.sees] for check in checks]
        blind = Words([f"What it cannot see: {checks[0].blind}"])
        sections.append(Section(name, [Table(["verdict", "of", "found", "what it sees"], rows), blind]))
    facts = Facts(
        [
            ("verdict", report.verdict),
            ("variables", number(len(report.network.families))),
            ("cells", number(report.network.cell_count)),
            ("epsilon", decimal(report.epsilon)),
            ("delta", number(float(report.delta))),
            ("unit", neighbours(report.unit)),
            ("seconds", number(report.seconds, 2)),
        ]
    )
    words = Words(["No check proves privacy: one that fails proves a fault, one that passes has seen none."])
    head = Section("What was asked", [words, facts])
    return Page(f"Audit: {report.verdict}", str(report.unit), [head, *sections])
