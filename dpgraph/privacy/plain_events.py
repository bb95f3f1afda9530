"""Events as plain JSON values, and back: exact numbers as text, nothing executed.

Release files and the rows of a ledger hold events in this one form. What is read is checked as ``Event`` checks what is
made: a claim below what its noise costs is refused.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any, get_args

from dpgraph.privacy.errors import ReleaseError
from dpgraph.privacy.events import Event, exact
from dpgraph.privacy.measurements import (
    DiscreteGaussian,
    DiscreteLaplace,
    Joint,
    Measurement,
    Movement,
    NoiseLaw,
    Selection,
    SelectionLaw,
    SumZeroLaplace,
)

_LAWS: dict[str, Any] = {
    "discrete-laplace": DiscreteLaplace,
    "sum-zero-laplace": SumZeroLaplace,
    "discrete-gaussian": DiscreteGaussian,
}


def event_text(event: Event) -> str:
    """An event as one line of JSON that reads back as an equal event.

    Raises:
        ReleaseError: If it would not: its noise law is not registered, or a name in it is no text.

    >>> event_text(Event("count", Fraction(1, 3)))
    '{"delta":"0","epsilon":"1/3","measurements":[],"mechanism":"count"}'
    """
    try:
        text = json.dumps(plain_event(event), sort_keys=True, separators=(",", ":"), allow_nan=False)
        same = event_of_text(text) == event
    except (TypeError, ValueError, AttributeError) as error:
        reason = str(error) if isinstance(error, ReleaseError) else type(error).__name__
        raise ReleaseError(f"{event.mechanism} cannot be written down: {reason}") from None
    if not same:
        raise ReleaseError(f"{event.mechanism} cannot be written down: it would read back as another event")
    return text


def event_of_text(text: str) -> Event:
    """The inverse of ``event_text``.

    Raises:
        ReleaseError: If it is not whole, or claims less than its noise costs.
    """
    try:
        return event_of(json.loads(text))
    except ReleaseError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ReleaseError(f"the record of an event is not whole ({type(error).__name__})") from None


def plain_event(event: Event) -> dict[str, Any]:
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
        **({"parts": [plain_event(part) for part in event.parts]} if event.parts else {}),
    }


def event_of(plain: dict[str, Any]) -> Event:
    """The inverse of ``plain_event``.

    Raises:
        ReleaseError: If a number, a law or the parts are not what an event has.
    """
    parts = plain.get("parts", [])
    if not isinstance(parts, list) or any("parts" in part for part in parts):
        raise ReleaseError("the parts of an event are a list of single events")
    if not isinstance(plain["mechanism"], str):
        raise ReleaseError("a mechanism's label is text")
    return Event(
        plain["mechanism"],
        fraction(plain["epsilon"]),
        fraction(plain["delta"], zero=True),
        tuple(_measurement(entry) for entry in plain["measurements"]),
        None if plain.get("rho") is None else fraction(plain["rho"]),
        tuple(selection_of(entry) for entry in plain.get("selections", [])),
        None if plain.get("joint") is None else _joint(plain["joint"]),
        tuple(event_of(part) for part in parts),
    )


def _measurement(plain: dict[str, Any]) -> Measurement:
    if set(plain["movement"]) != {"l1", "l2_squared", "moved_cells", "fixed_total"}:
        raise ReleaseError("a movement is not whole")
    return Measurement(
        family_of(plain["variables"]), whole(plain["cells"]), law_of(plain["law"]), Movement(**plain["movement"])
    )


def _plain_joint(joint: Joint) -> dict[str, Any]:
    return {"weights": list(joint.weights), "distance": joint.distance}


def _joint(plain: dict[str, Any]) -> Joint:
    if not isinstance(plain["weights"], list):
        raise ReleaseError("joint weights are a list")
    return Joint(tuple(plain["weights"]), plain["distance"])


def _plain_selection(selection: Selection) -> dict[str, Any]:
    return {"law": selection.law, "epsilon": str(selection.epsilon), "draws": selection.draws}


def selection_of(plain: dict[str, Any]) -> Selection:
    """The inverse of how an event writes a selection."""
    if plain["law"] not in get_args(SelectionLaw) or whole(plain["draws"]) < 1:
        raise ReleaseError("a selection's law is not known or it has no draws")
    return Selection(plain["law"], fraction(plain["epsilon"]), plain["draws"])


def register_law(name: str, kind: type) -> None:
    """Lets records hold a noise law from outside the package: a frozen dataclass of finite numbers above 0.

    Raises:
        ReleaseError: If it is none, or the name is taken.
    """
    if not is_dataclass(kind) or not fields(kind):
        raise ReleaseError(f"a noise law is a frozen dataclass with its scale; got {kind!r:.60}")
    if _LAWS.setdefault(name, kind) is not kind:
        raise ReleaseError(f"{name!r} is the name of another noise law")


def plain_law(law: NoiseLaw) -> dict[str, Any]:
    """A noise law by its name and its numbers, such as its scale.

    Raises:
        ReleaseError: If it is not one of those that are registered.
    """
    known = [name for name, kind in _LAWS.items() if type(law) is kind]
    if not known:
        raise ReleaseError(f"the noise law {type(law).__name__} is not one that files know; register_law adds it")
    return {"name": known[0]} | {part: getattr(law, part) for part in _numbers_of(type(law))}


def law_of(plain: dict[str, Any]) -> NoiseLaw:
    """The inverse of ``plain_law``.

    Raises:
        ReleaseError: If the law is not registered or a number of it is not finite and above 0.
    """
    kind = _LAWS.get(plain["name"])
    numbers = [] if kind is None else [plain[part] for part in _numbers_of(kind)]
    if kind is None or not all(
        isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < math.inf for number in numbers
    ):
        raise ReleaseError("a noise law is not known or its scale is not a finite number above 0")
    return kind(*map(float, numbers))


def _numbers_of(kind: Any) -> tuple[str, ...]:
    """The settings of a noise law."""
    return tuple(field.name for field in fields(kind))


def family_of(plain: Any) -> tuple[str, ...]:
    """The names of a table's variables.

    Raises:
        ReleaseError: If they are no list of texts.
    """
    if not isinstance(plain, list) or not all(isinstance(name, str) for name in plain):
        raise ReleaseError("a table's variables are a list of names")
    return tuple(plain)


def whole(plain: Any) -> int:
    """A whole number that fits 64 bits.

    Raises:
        ReleaseError: If it is none.
    """
    if isinstance(plain, bool) or not isinstance(plain, int) or not 0 <= plain < 2**63:
        raise ReleaseError("a whole number from 0 to 2^63 was expected")
    return plain


def fraction(plain: Any, *, zero: bool = False) -> Fraction:
    """An exact number, written as text.

    Raises:
        ReleaseError: If it is no text, or no number in range.
    """
    if not isinstance(plain, str):
        raise ReleaseError("epsilon, delta and rho are written as text, so that they stay exact")
    return exact(plain, "epsilon, delta or rho", zero=zero)
