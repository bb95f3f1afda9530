"""Plain forms of records and arrays, as they stand in JSON, and back: exact numbers, checked shapes, nothing run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from dpgraph.mechanisms.reproduction import Structure, check_reproduced
from dpgraph.privacy import plain_events
from dpgraph.privacy.records import Event, FileError, NoiseLaw, PrivacyUnit, Provenance, ReleaseError
from dpgraph.privacy.rows import RowsRecord
from dpgraph.privacy.structural import plain_of, value_of

P = ParamSpec("P")
T = TypeVar("T")


def plain_provenance(provenance: Provenance | None, structure: Structure) -> dict[str, Any]:
    """The record of a release, checked as it will be when it is read; None stands for none."""
    if provenance is None:
        return {"event": None, "unit": None, "cost": None, "private": None}
    check_reproduced(provenance, structure)
    event, unit = provenance.event, provenance.unit
    return {
        "event": plain_events.plain_event(event),
        "unit": plain_of(unit, PrivacyUnit),
        "cost": {"epsilon": str(event.epsilon), "delta": str(event.delta)},
        "private": provenance.private,
    }


def provenance_of(plain: dict[str, Any], structure: Structure) -> Provenance | None:
    """The inverse of ``plain_provenance``: nothing in it is believed that public structure or its noise can tell."""
    if plain["event"] is None:
        return None
    if not isinstance(plain["private"], bool):
        raise FileError("the record of the release is not whole")
    unit, event = _unit_and_event(plain)
    if plain["cost"] != {"epsilon": str(event.epsilon), "delta": str(event.delta)}:
        raise FileError("the cost is not that of the event")
    provenance = Provenance(event, unit, plain["private"], _receipts_of(plain))
    check_reproduced(provenance, structure)
    if (plain_of(unit, PrivacyUnit), plain_events.plain_event(event)) != (plain["unit"], plain["event"]):
        raise FileError("the record of the release has entries that dpgraph does not write there")
    return provenance


def plain_receipts(provenance: Provenance | None) -> dict[str, Any]:
    """The ledger's rows that paid for what a value was learned from; nothing where no ledger did."""
    return {} if provenance is None or not provenance.receipts else {"receipts": list(provenance.receipts)}


def _receipts_of(plain: dict[str, Any]) -> tuple[str, ...]:
    """Digests of a ledger's rows."""
    return value_of(plain.get("receipts", []), tuple[str, ...], "receipts")


def plain_scope(scope: RowsRecord | None) -> dict[str, Any]:
    """Which rows a release is of; nothing where its record does not tell."""
    return {} if scope is None else {"scope": plain_of(scope, RowsRecord)}


def scope_of(plain: dict[str, Any]) -> RowsRecord | None:
    """The inverse of ``plain_scope``."""
    return None if plain.get("scope") is None else value_of(plain["scope"], RowsRecord, "scope")


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
def _unit_and_event(plain: dict[str, Any]) -> tuple[PrivacyUnit, Event]:
    return value_of(plain["unit"], PrivacyUnit, "unit"), plain_events.event_of(plain["event"])


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
    return value_of(plain, tuple[str, ...], "the variables of a table")


@_for_files
def whole(plain: Any) -> int:
    """A whole number that fits 64 bits."""
    number = value_of(plain, int, "a number")
    if not 0 <= number < 2**63:
        raise FileError("a whole number from 0 to 2^63 was expected")
    return number
