"""Pages of an audit, with the findings and limits of each check, and of a calibration.

It is imported where an audit is shown alone: audits bring seeded noise, which nothing else that is shown needs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpgraph.audit.calibrating import Calibration
from dpgraph.audit.reporting import AuditReport
from dpgraph.pages.blocks import Page, Section, Table, Words
from dpgraph.pages.contents import facts_of, neighbours, page_of
from dpgraph.privacy.records import decimal


@page_of.register
def _of_audit(report: AuditReport) -> Page:
    sections = []
    for name, checks in report.groups():
        rows: list[list[Any]] = [[check.verdict, check.subject, check.found, check.sees] for check in checks]
        blind = Words([f"What it cannot see: {checks[0].blind}"])
        sections.append(Section(name, [Table(["verdict", "of", "found", "what it sees"], rows), blind]))
    facts = {
        "verdict": report.verdict,
        "variables": len(report.network.families),
        "cells": report.network.cell_count,
        "epsilon": decimal(report.epsilon),
        "delta": float(report.delta),
        "unit": neighbours(report.unit),
        "seconds": report.seconds,
    }
    words = Words(["No check proves privacy: one that fails proves a fault, one that passes has seen none."])
    head = Section("What was asked", [words, facts_of(facts)])
    return Page(f"Audit: {report.verdict}", str(report.unit), [head, *sections])


@page_of.register
def _of_calibration(found: Calibration) -> Page:
    share, worst = found.limits
    words = [
        "Everything here was simulated: tables from the prior, rows from the tables, a release from the rows, and a "
        "posterior from the release. No person's data were asked, and nothing is said of privacy.",
        "Where the posterior is right, the rank of each truth among its posterior's draws is equally likely to be "
        "anything. distance: how far the ranks are from that.",
    ]
    facts = {
        "method": found.method,
        "simulated data sets": found.trials,
        "parameters": len(found.parameters),
        "draws of each posterior": found.draws,
        "error of the posterior mean": found.rmse,
        "parameters beyond their 5 % limit": found.share_beyond,
        "a right posterior: up to": share,
        "largest distance": found.worst,
        "of a right posterior: up to": worst,
    }
    verdict = Words([f"{found.verdict[:1].upper()}{found.verdict[1:]}."], "advice" if found.calibrated else "warning")
    held = Table(
        ["intervals of probability", "held the truth"],
        [[level, found.covered(level)] for level in (0.5, 0.8, 0.9, 0.95)],
        "The share of all parameters in all simulated data sets; as it should be where it is what they are called.",
    )
    order = np.argsort(-found.parameters["ks"].to_numpy(float), kind="stable")
    rows = [[*map(str, row[:3]), *map(float, row[3:])] for row in found.parameters.iloc[order].itertuples(index=False)]
    columns = ["variable", "level", "given", "distance", "coverage of 90 %", "error", "width"]
    sections = [
        Section("What was asked", [Words(words), verdict, facts_of(facts)]),
        Section("How often intervals held the truth", [held]),
        Section("Parameters", [Table(columns, rows, "Largest Kolmogorov-Smirnov distance from uniform ranks first.")]),
    ]
    return Page("Calibration of a posterior", f"{found.method}, {found.trials:,} simulated data sets", sections)
