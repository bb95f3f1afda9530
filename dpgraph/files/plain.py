"""Plain forms of records and arrays, as they stand in JSON, and back: exact numbers, checked shapes, nothing run."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dpgraph.mechanisms.reproduction import Recorded, Structure, check_reproduced, remeasured
from dpgraph.privacy import plain_events
from dpgraph.privacy.records import Event, FileError, NoiseLaw, PrivacyUnit, Provenance, ReleaseError
from dpgraph.privacy.rows import Fixed, RowsRecord

P = ParamSpec("P")
T = TypeVar("T")


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
        "event": plain_events.plain_event(event),
        "unit": {"neighbours": unit.neighbours, "rows_per_person": unit.rows_per_person},
        "cost": {"epsilon": str(event.epsilon), "delta": str(event.delta)},
        "private": provenance.private,
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
    provenance = Provenance(event, unit, plain["private"], _receipts_of(plain))
    check_reproduced(provenance, structure)
    written = plain_provenance(provenance, structure)
    if plain["version"] != 1 and any(written[part] != plain[part] for part in ("event", "unit")):
        raise FileError("the record of the release has entries that dpgraph does not write there")
    return provenance


def plain_receipts(provenance: Provenance | None) -> dict[str, Any]:
    """The ledger's rows that paid for what a value was learned from; nothing where no ledger did."""
    return {} if provenance is None or not provenance.receipts else {"receipts": list(provenance.receipts)}


def _receipts_of(plain: dict[str, Any]) -> tuple[str, ...]:
    """Digests of a ledger's rows.

    Raises:
        FileError: If they are not a list of texts.
    """
    receipts = plain.get("receipts", [])
    if not isinstance(receipts, list) or not all(isinstance(text, str) for text in receipts):
        raise FileError("the record of the ledger's rows behind a value is not whole")
    return tuple(receipts)


def _event(plain: dict[str, Any], version: int, unit: PrivacyUnit, structure: Structure) -> Event:
    """An event; files of version 1 held less of it."""
    if version != 1:
        try:
            return plain_events.event_of(plain)
        except ReleaseError as error:
            raise FileError(str(error)) from None
    epsilon, delta = fraction(plain["epsilon"]), fraction(plain["delta"], zero=True)
    rho = fraction(plain["rho"]) if plain.get("rho") is not None else None
    selections = tuple(map(plain_events.selection_of, plain.get("selections", [])))
    label, (measurements, joint) = _first_version(plain, unit, structure)
    return Event(label, epsilon, delta, measurements, rho, selections, joint)


def plain_scope(scope: RowsRecord | None) -> dict[str, Any]:
    """Which rows a release is of; nothing where its record does not tell."""
    if scope is None:
        return {}
    choice = {"choice": scope.choice} if scope.choice else {}
    choice |= {"receipts": list(scope.receipts)} if scope.receipts else {}
    return {"scope": {"budget": scope.budget, "group": [dict(vars(fixed)) for fixed in scope.group], **choice}}


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
    receipts = _receipts_of(scope)
    names = [scope[name] for name in ("budget", "choice") if name in scope]
    known = set(scope) - {"choice", "receipts"} == {"budget", "group"}
    if not known or not all(isinstance(one, str) for one in names) or not texts:
        raise FileError("the record of the rows behind a release is not whole")
    fixed = tuple(Fixed(**one) for one in group)
    return RowsRecord(scope["budget"], fixed, scope.get("choice", ""), receipts)


def _first_version(event: dict[str, Any], unit: PrivacyUnit, structure: Structure) -> tuple[str, Any]:
    """The label and the measurements of a file of version 1, which held L1 sensitivities alone."""
    label = event["mechanism"].removesuffix(" on moments")
    recorded = [
        Recorded(family_of(m["variables"]), whole(m["cells"]), law_of(m["law"]), whole(m["sensitivity"]))
        for m in event["measurements"]
    ]
    return label, remeasured(label, unit, structure, recorded) if recorded else ((), None)


def _for_files(function: Callable[P, T]) -> Callable[P, T]:
    """The same function, with the error of this layer."""

    @wraps(function)
    def checked(*args: P.args, **settings: P.kwargs) -> T:
        try:
            return function(*args, **settings)
        except ReleaseError as error:
            raise FileError(str(error)) from None

    return checked


@_for_files
def register_law(name: str, kind: type) -> None:
    """Lets files hold a noise law from outside the package: a frozen dataclass of finite numbers above 0.

    Raises:
        FileError: If it is none, or the name is taken.
    """
    plain_events.register_law(name, kind)


@_for_files
def plain_law(law: NoiseLaw) -> dict[str, Any]:
    """A noise law by its name and its numbers, such as its scale.

    Raises:
        FileError: If it is not one of those that files know.
    """
    return plain_events.plain_law(law)


@_for_files
def law_of(plain: dict[str, Any]) -> NoiseLaw:
    """The inverse of ``plain_law``."""
    return plain_events.law_of(plain)


@_for_files
def family_of(plain: Any) -> tuple[str, ...]:
    """The names of a table's variables."""
    return plain_events.family_of(plain)


@_for_files
def whole(plain: Any) -> int:
    """A whole number that fits 64 bits."""
    return plain_events.whole(plain)


@_for_files
def fraction(plain: Any, *, zero: bool = False) -> Fraction:
    """An exact number, written as text."""
    return plain_events.fraction(plain, zero=zero)
