"""Plain forms of records and arrays, as they stand in JSON, and back: exact numbers, checked shapes, nothing run."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, get_args

import numpy as np

from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    Measurement,
    NoiseLaw,
    PrivacyUnit,
    Provenance,
    ReleaseError,
    Selection,
    SelectionLaw,
    SumZeroLaplace,
    exact,
)
from dpgraph.structure.domain import NetworkError
from dpgraph.structure.frozen import FrozenMap

_LAWS: dict[str, Any] = {
    "discrete-laplace": DiscreteLaplace,
    "sum-zero-laplace": SumZeroLaplace,
    "discrete-gaussian": DiscreteGaussian,
}


def plain_provenance(provenance: Provenance | None) -> dict[str, Any]:
    """The record of a release; None stands for none."""
    if provenance is None:
        return {"event": None, "unit": None, "cost": None, "private": None}
    event, unit = provenance.event, provenance.unit
    return {
        "event": {
            "mechanism": event.mechanism,
            "epsilon": str(event.epsilon),
            "delta": str(event.delta),
            **({} if event.rho is None else {"rho": str(event.rho)}),
            "measurements": [
                {"variables": list(m.table), "cells": m.cells, "law": plain_law(m.law), "sensitivity": m.sensitivity}
                for m in event.measurements
            ],
            **({"selections": [_plain_selection(s) for s in event.selections]} if event.selections else {}),
        },
        "unit": {"neighbours": unit.neighbours, "rows_per_person": unit.rows_per_person},
        "cost": {"epsilon": str(event.epsilon), "delta": str(event.delta)},
        "private": provenance.private,
    }


def provenance_of(plain: dict[str, Any]) -> Provenance | None:
    """The inverse of ``plain_provenance``."""
    if plain["event"] is None:
        return None
    event = plain["event"]
    measurements = tuple(
        Measurement(family_of(m["variables"]), whole(m["cells"]), law_of(m["law"]), whole(m["sensitivity"]))
        for m in event["measurements"]
    )
    epsilon, delta = fraction(event["epsilon"]), fraction(event["delta"], zero=True)
    rho = fraction(event["rho"]) if event.get("rho") is not None else None
    unit = PrivacyUnit(plain["unit"]["neighbours"], plain["unit"]["rows_per_person"])
    if not isinstance(event["mechanism"], str) or not isinstance(plain["private"], bool):
        raise ReleaseError("the record of the release is not whole")
    selections = tuple(_selection(entry) for entry in event.get("selections", []))
    done = Event(event["mechanism"], epsilon, delta, measurements, rho, selections)
    provenance = Provenance(done, unit, plain["private"])
    if plain["cost"] != plain_provenance(provenance)["cost"]:
        raise ReleaseError("the cost is not that of the event")
    return provenance


def _plain_selection(selection: Selection) -> dict[str, Any]:
    return {"law": selection.law, "epsilon": str(selection.epsilon), "draws": selection.draws}


def _selection(plain: dict[str, Any]) -> Selection:
    if plain["law"] not in get_args(SelectionLaw) or whole(plain["draws"]) < 1:
        raise ReleaseError("a selection's law is not known or it has no draws")
    return Selection(plain["law"], fraction(plain["epsilon"]), plain["draws"])


def plain_law(law: NoiseLaw) -> dict[str, Any]:
    """A noise law by name and scale."""
    name = next(name for name, kind in _LAWS.items() if isinstance(law, kind))
    return {"name": name, "scale": law.scale}


def law_of(plain: dict[str, Any]) -> NoiseLaw:
    """The inverse of ``plain_law``."""
    scale = plain["scale"]
    if (
        plain["name"] not in _LAWS
        or isinstance(scale, bool)
        or not isinstance(scale, int | float)
        or not 0 < scale < np.inf
    ):
        raise ReleaseError("a noise law is not known or its scale is not a finite number above 0")
    return _LAWS[plain["name"]](float(scale))


def plain_tables(tables: FrozenMap[str, Any]) -> dict[str, Any]:
    """Arrays as nested lists."""
    return {name: table.tolist() for name, table in tables.items()}


def tables_of(plain: dict[str, Any]) -> FrozenMap[str, Any]:
    """The inverse of ``plain_tables``, for real numbers."""
    tables = {name: np.array(values) for name, values in plain.items()}
    if any(table.dtype.kind not in "fi" for table in tables.values()):
        raise ReleaseError("a table holds something that is not a number")
    return FrozenMap((name, table.astype(float)) for name, table in tables.items())


def integers_of(plain: Any) -> np.ndarray:
    """An array of 64-bit whole numbers."""
    table = np.array(plain)
    if table.dtype.kind != "i":
        raise ReleaseError("a table of counts holds something that is not a 64-bit whole number")
    return table


def family_of(plain: Any) -> tuple[str, ...]:
    """The names of a table's variables."""
    if not isinstance(plain, list) or not all(isinstance(name, str) for name in plain):
        raise NetworkError("a table's variables are a list of names")
    return tuple(plain)


def whole(plain: Any) -> int:
    """A whole number that fits 64 bits."""
    if isinstance(plain, bool) or not isinstance(plain, int) or not 0 <= plain < 2**63:
        raise ReleaseError("a whole number from 0 to 2^63 was expected")
    return plain


def fraction(plain: Any, *, zero: bool = False) -> Fraction:
    """An exact number, written as text."""
    if not isinstance(plain, str):
        raise ReleaseError("epsilon, delta and rho are written as text, so that they stay exact")
    return exact(plain, "epsilon, delta or rho", zero=zero)
