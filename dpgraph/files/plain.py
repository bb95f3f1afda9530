"""Plain forms of records and arrays, as they stand in JSON, and back: exact numbers, checked shapes, nothing run."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, get_args

import numpy as np

from dpgraph.mechanisms.reproduction import Recorded, Structure, check_reproduced, remeasured
from dpgraph.privacy.records import (
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    FileError,
    Joint,
    Measurement,
    Movement,
    NoiseLaw,
    PrivacyUnit,
    Provenance,
    Selection,
    SelectionLaw,
    SumZeroLaplace,
    exact,
)
from dpgraph.privacy.rows import Fixed, RowsRecord

_LAWS: dict[str, Any] = {
    "discrete-laplace": DiscreteLaplace,
    "sum-zero-laplace": SumZeroLaplace,
    "discrete-gaussian": DiscreteGaussian,
}


def plain_provenance(provenance: Provenance | None, structure: Structure) -> dict[str, Any]:
    """The record of a release, checked as it will be when it is read; None stands for none.

    Raises:
        ReleaseError: If the record could not be read back: see ``mechanisms.reproduction``.
    """
    if provenance is None:
        return {"event": None, "unit": None, "cost": None, "private": None}
    check_reproduced(provenance, structure)
    event, unit = provenance.event, provenance.unit
    return {
        "event": _plain_event(event),
        "unit": {"neighbours": unit.neighbours, "rows_per_person": unit.rows_per_person},
        "cost": {"epsilon": str(event.epsilon), "delta": str(event.delta)},
        "private": provenance.private,
    }


def _plain_event(event: Event) -> dict[str, Any]:
    """An event; that of several releases has their events for its parts."""
    return {
        "mechanism": event.mechanism,
        "epsilon": str(event.epsilon),
        "delta": str(event.delta),
        **({} if event.rho is None else {"rho": str(event.rho)}),
        "measurements": [
            {"variables": list(m.table), "cells": m.cells, "law": plain_law(m.law), "movement": vars(m.movement)}
            for m in event.measurements
        ],
        **({} if event.joint is None else {"joint": _plain_joint(event.joint)}),
        **({"selections": [_plain_selection(s) for s in event.selections]} if event.selections else {}),
        **({"parts": [_plain_event(part) for part in event.parts]} if event.parts else {}),
    }


def provenance_of(plain: dict[str, Any], structure: Structure) -> Provenance | None:
    """The inverse of ``plain_provenance``: nothing in it is believed that public structure or its noise can tell.

    Args:
        plain: The file.
        structure: What was measured, from the same file: its network or design, or the description of its moments.

    Raises:
        FileError: If the record is not whole.
        ReleaseError: If no mechanism could have made it.
    """
    if plain["event"] is None:
        return None
    unit = PrivacyUnit(plain["unit"]["neighbours"], plain["unit"]["rows_per_person"])
    if not isinstance(plain["event"]["mechanism"], str) or not isinstance(plain["private"], bool):
        raise FileError("the record of the release is not whole")
    event = _event(plain["event"], plain["version"], unit, structure)
    if plain["cost"] != {"epsilon": str(event.epsilon), "delta": str(event.delta)}:
        raise FileError("the cost is not that of the event")
    provenance = Provenance(event, unit, plain["private"])
    check_reproduced(provenance, structure)
    written = plain_provenance(provenance, structure)
    if plain["version"] != 1 and any(written[part] != plain[part] for part in ("event", "unit")):
        raise FileError("the record of the release has entries that dpgraph does not write there")
    return provenance


def _event(plain: dict[str, Any], version: int, unit: PrivacyUnit, structure: Structure) -> Event:
    """The inverse of ``_plain_event``."""
    epsilon, delta = fraction(plain["epsilon"]), fraction(plain["delta"], zero=True)
    rho = fraction(plain["rho"]) if plain.get("rho") is not None else None
    selections = tuple(_selection(entry) for entry in plain.get("selections", []))
    if version == 1:
        label, (measurements, joint) = _first_version(plain, unit, structure)
        return Event(label, epsilon, delta, measurements, rho, selections, joint)
    measurements = tuple(_measurement(entry) for entry in plain["measurements"])
    joint = None if plain.get("joint") is None else _joint(plain["joint"])
    parts = plain.get("parts", [])
    if not isinstance(parts, list) or any("parts" in part for part in parts):
        raise FileError("the parts of an event are a list of single events")
    made = tuple(_event(part, version, unit, structure) for part in parts)
    return Event(plain["mechanism"], epsilon, delta, measurements, rho, selections, joint, made)


def plain_scope(scope: RowsRecord | None) -> dict[str, Any]:
    """Which rows a release is of; nothing where its record does not tell."""
    if scope is None:
        return {}
    return {"scope": {"budget": scope.budget, "group": [dict(vars(fixed)) for fixed in scope.group]}}


def scope_of(plain: dict[str, Any]) -> RowsRecord | None:
    """The inverse of ``plain_scope``.

    Raises:
        FileError: If it is not whole.
    """
    scope = plain.get("scope")
    if scope is None:
        return None
    group = scope["group"]
    texts = isinstance(group, list) and all(
        set(fixed) == {"name", "level", "declaration"} and all(isinstance(text, str) for text in fixed.values())
        for fixed in group
    )
    if set(scope) != {"budget", "group"} or not isinstance(scope["budget"], str) or not texts:
        raise FileError("the record of the rows behind a release is not whole")
    return RowsRecord(scope["budget"], tuple(Fixed(**fixed) for fixed in group))


def _measurement(plain: dict[str, Any]) -> Measurement:
    if set(plain["movement"]) != {"l1", "l2_squared", "moved_cells", "fixed_total"}:
        raise FileError("a movement is not whole")
    return Measurement(
        family_of(plain["variables"]), whole(plain["cells"]), law_of(plain["law"]), Movement(**plain["movement"])
    )


def _first_version(event: dict[str, Any], unit: PrivacyUnit, structure: Structure) -> tuple[str, Any]:
    """The label and the measurements of a file of version 1, which held L1 sensitivities alone."""
    label = event["mechanism"].removesuffix(" on moments")
    recorded = [
        Recorded(family_of(m["variables"]), whole(m["cells"]), law_of(m["law"]), whole(m["sensitivity"]))
        for m in event["measurements"]
    ]
    return label, remeasured(label, unit, structure, recorded) if recorded else ((), None)


def _plain_joint(joint: Joint) -> dict[str, Any]:
    return {"weights": list(joint.weights), "distance": joint.distance}


def _joint(plain: dict[str, Any]) -> Joint:
    if not isinstance(plain["weights"], list):
        raise FileError("joint weights are a list")
    return Joint(tuple(plain["weights"]), plain["distance"])


def _plain_selection(selection: Selection) -> dict[str, Any]:
    return {"law": selection.law, "epsilon": str(selection.epsilon), "draws": selection.draws}


def _selection(plain: dict[str, Any]) -> Selection:
    if plain["law"] not in get_args(SelectionLaw) or whole(plain["draws"]) < 1:
        raise FileError("a selection's law is not known or it has no draws")
    return Selection(plain["law"], fraction(plain["epsilon"]), plain["draws"])


def register_law(name: str, kind: type) -> None:
    """Lets files hold a noise law from outside the package: a frozen dataclass of finite numbers above 0.

    Raises:
        FileError: If it is none, or the name is taken.
    """
    if not is_dataclass(kind) or not fields(kind):
        raise FileError(f"a noise law is a frozen dataclass with its scale; got {kind!r:.60}")
    if _LAWS.setdefault(name, kind) is not kind:
        raise FileError(f"{name!r} is the name of another noise law")


def plain_law(law: NoiseLaw) -> dict[str, Any]:
    """A noise law by its name and its numbers, such as its scale.

    Raises:
        FileError: If it is not one of those that files know.
    """
    known = [name for name, kind in _LAWS.items() if type(law) is kind]
    if not known:
        raise FileError(f"the noise law {type(law).__name__} is not one that files know; register_law adds it")
    return {"name": known[0]} | {part: getattr(law, part) for part in _numbers_of(type(law))}


def law_of(plain: dict[str, Any]) -> NoiseLaw:
    """The inverse of ``plain_law``."""
    kind = _LAWS.get(plain["name"])
    numbers = [] if kind is None else [plain[part] for part in _numbers_of(kind)]
    if kind is None or not all(
        isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < np.inf for number in numbers
    ):
        raise FileError("a noise law is not known or its scale is not a finite number above 0")
    return kind(*map(float, numbers))


def _numbers_of(kind: Any) -> tuple[str, ...]:
    """The settings of a noise law."""
    return tuple(field.name for field in fields(kind))


def family_of(plain: Any) -> tuple[str, ...]:
    """The names of a table's variables."""
    if not isinstance(plain, list) or not all(isinstance(name, str) for name in plain):
        raise FileError("a table's variables are a list of names")
    return tuple(plain)


def whole(plain: Any) -> int:
    """A whole number that fits 64 bits."""
    if isinstance(plain, bool) or not isinstance(plain, int) or not 0 <= plain < 2**63:
        raise FileError("a whole number from 0 to 2^63 was expected")
    return plain


def fraction(plain: Any, *, zero: bool = False) -> Fraction:
    """An exact number, written as text."""
    if not isinstance(plain, str):
        raise FileError("epsilon, delta and rho are written as text, so that they stay exact")
    return exact(plain, "epsilon, delta or rho", zero=zero)
