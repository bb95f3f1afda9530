"""The numbers from which a page computes what ``privacy_cost`` does, for any epsilon and n: closed forms, no data.

Noise scales are proportional to 1 / epsilon for Laplace noise, to 1 / sqrt(rho) for Gaussian noise, and to the
temperature for draws of tables; how a budget is shared among tables depends on neither. So a page needs, for each
mechanism, the tables and one constant for each. ``templates/forms.js`` has the formulas (docs/pages.md).
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from dpgraph.analysis.candidates import Candidate
from dpgraph.analysis.cost import DRAWN, PrivacyReport, candidates_of, margins_of
from dpgraph.analysis.expected import normal_quadrature
from dpgraph.privacy.records import PrivacyUnit, decimal
from dpgraph.structure.basis import coefficient_blocks, contrast_norms, fixed_point
from dpgraph.structure.merging import holders

#: Cells beyond which a page does not hold the margins of public probabilities; tv and kl are not computed anew then.
MOST_MARGINS = 200_000

#: What stands for epsilon in the words of a mechanism.
EPSILON = "{epsilon}"


def closed_forms(report: PrivacyReport) -> dict[str, Any]:
    """The constants of every mechanism of a report, as plain values."""
    network = report.network
    position = network.position
    margins = margins_of(report)
    nodes, weights = normal_quadrature()
    held = None
    if margins is not None and network.cell_count <= MOST_MARGINS:
        held = [np.rint(margins[family] * DRAWN).astype(int).ravel().tolist() for family in network.families]
    return {
        "epsilon": float(report.epsilon),
        "delta": float(report.delta),
        "n": report.n,
        "public_n": report.unit.n_is_public,
        "sizes": [network.domain.sizes[name] for name in network.domain.names],
        "families": [[position[name] for name in family] for family in network.families],
        "own": margins is not None,
        "margins": held,
        "drawn": DRAWN,
        "nodes": nodes.tolist(),
        "weights": weights.tolist(),
        "candidates": [_plain(candidate, report) for candidate in candidates_of(report)],
    }


def _plain(candidate: Candidate, report: PrivacyReport) -> dict[str, Any]:
    """One mechanism: its form, and constants that epsilon, rho or a temperature divides."""
    head = {
        "label": candidate.label,
        "note": candidate.note,
        "usable": candidate.usable,
        "paper": candidate.paper,
        "sensitivity": candidate.sensitivity,
        "code": words_of(candidate, report.delta),
    }
    if not candidate.measured:
        return head | {
            "form": "draws",
            "temperature": candidate.sensitivity,
            "note": "draws tables, so nothing else can be learned; its error depends on n",
        }
    network, measured = candidate.network, candidate.measured
    gaussian = measured[0].law.gaussian
    rho = Fraction(candidate.mechanism.rho) if gaussian else None
    # Scales are exact to the last bits of a float; so are these.
    constants = [m.law.scale**2 * float(rho) if rho else m.law.scale * float(report.epsilon) for m in measured]
    position = network.position
    form = _form(candidate)
    # A family with a variable of one level is inside no block.
    inside = form != "blocks" or min(network.domain.sizes.values()) > 1
    served = holders(network, [m.table for m in measured]) if inside else {}
    where = {m.table: i for i, m in enumerate(measured)}
    head |= {
        "form": form,
        "law": "gaussian" if gaussian else "sum zero" if measured[0].law.sums_to_zero else "laplace",
        "grid": candidate.grid,
        "tables": [[position[name] for name in m.table] for m in measured],
        "moved": [m.sensitivity for m in measured],
        "cells": [m.cells for m in measured],
        "constants": constants,
        "holders": [where[served[family]] for family in network.families] if served else None,
    }
    if form == "blocks":
        factors = {m.table: _factor(candidate, m.table, report.unit) for m in measured}
        blocks = coefficient_blocks(network)
        head |= {
            "blocks": [[position[name] for name in block] for block in blocks],
            "measured": [where.get(block, -1) for block in blocks],
            "factors": [factors[m.table] for m in measured],
        }
    return head


def _form(candidate: Candidate) -> str:
    """Which formula gives the variance of a family's cell."""
    if candidate.paper:
        return "raw"
    return "least squares" if candidate.note.startswith("least squares") else "blocks"


def _factor(candidate: Candidate, block: tuple[str, ...], unit: PrivacyUnit) -> float:
    """What a unit of a block's integer noise variance is of its residual's: mean of (step / (multiplier norm))^2."""
    levels = candidate.network.shape(block)
    parities = candidate.grid == 1 and unit.n_is_public and candidate.mechanism.sensitivity == "exact"
    scale = (2 if parities else 1) / (fixed_point(levels, candidate.grid) * contrast_norms(levels))
    return float((scale**2).mean())


def words_of(candidate: Candidate, delta: Fraction) -> str:
    """A mechanism as it is typed, ``{epsilon}`` in the place of its budget."""
    mechanism, name = candidate.mechanism, type(candidate.mechanism).__name__
    settings = [f'"{EPSILON}"']
    if name == "GaussianMechanism":
        settings += [f'"{decimal(delta)}"'] + ([] if mechanism.basis == "tables" else ['basis="residual"'])
    elif name == "LaplaceMechanism":
        settings += [] if mechanism.tables == "merged" else [f'tables="{mechanism.tables}"']
        settings += [] if mechanism.allocation == "optimal" else [f'allocation="{mechanism.allocation}"']
    elif name == "FourierMechanism" and mechanism.sensitivity != "exact":
        settings.append(f'sensitivity="{mechanism.sensitivity}"')
    elif name == "MapEstimate":
        settings.append(f'selector="{mechanism.selector}"')
    return f"dg.{name}({', '.join(settings)})"
