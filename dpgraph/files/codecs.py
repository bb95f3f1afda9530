"""Codecs of the values that a file can hold, one for each kind, of the package and of families outside it alike.

A codec turns a value into plain JSON values and back. Files write the record of the release themselves, and check it
when they read, before a codec reads the rest. Only a registered codec reads a kind: nothing in a file is executed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Literal

from dpgraph.lazy import register_by_name
from dpgraph.mechanisms.reproduction import Structure, check_reproduced
from dpgraph.privacy.errors import FileError
from dpgraph.privacy.records import Event, PrivacyUnit, Provenance
from dpgraph.privacy.structural import event_of, plain_of, value_of
from dpgraph.structure.network import Network

Plain = dict[str, Any]
Role = Literal["description", "released", "fitted"]
Read = Callable[[Plain, Any, "Provenance | None"], Any]
#: The fields in which values hold their description and their record; both stand in the head of a file.
_BESIDE = ("network", "description", "design", "provenance")
#: The entries of a file that are not of its value.
HEAD = frozenset(["format", "version", "kind", "network", "event", "unit", "cost", "private"]) | frozenset(
    ["scope", "receipts", "description", "release", "digest"]
)


def described_in(plain: Plain, network: Network | None) -> Any:
    """The network of a file, or the description beside the record, by its own kind."""
    if network is not None:
        if "description" in plain:
            raise FileError("a file has a network or a description, not both")
        return network
    inner = plain["description"]
    codec = codec_of_kind(inner["kind"], released=False)
    if codec is None or codec.role != "description":
        raise FileError(f"a description of kind {inner['kind']!r:.60} is not known")
    return codec.read(inner, None, None)


def needed_network(plain: Plain, network: Network | None) -> Network:
    """The network of a file that must have one."""
    if network is None:
        raise FileError(f"a file of format {plain['format']!r} needs a network")
    return network


def without_network(read: Callable[[Plain], Any]) -> Callable[[Plain, Network | None], Any]:
    """Reads the description of a file that has it in a place of its own and must have no network."""

    def measured_in(plain: Plain, network: Network | None) -> Any:
        if network is not None:
            raise FileError(f"a file of format {plain['format']!r} has a network where it has none")
        return read(plain)

    return measured_in


def structural(
    type_: type, check: Callable[[Any, Any], None] | None = None, *, without: str = ""
) -> tuple[Callable[[Any], Plain], Read]:
    """The writer and reader of a dataclass's fields but ``without`` one; ``check`` refuses what the class does not."""
    names = {field.name for field in fields(type_)}
    beside = tuple(name for name in (*_BESIDE, without) if name in names)

    def write(value: Any) -> Plain:
        return plain_of(value, type_, beside)

    def read(plain: Plain, structure: Any, provenance: Provenance | None) -> Any:
        given = dict.fromkeys(beside, structure) | {"provenance": provenance, without: None}
        body = {name: part for name, part in plain.items() if name not in HEAD}
        value = value_of(body, type_, "the file", **{name: given[name] for name in beside})
        if check is not None:
            check(value, provenance)
        return value

    return write, read


@dataclass(frozen=True)
class Codec:
    """How values of one type stand in a file.

    Args:
        role: ``"description"``: the measured statistics, public from the start. ``"released"``: the value of a
            ``Release``. ``"fitted"``: a model or a posterior, with an attribute ``provenance``.
        kind: The name in the file.
        type: The type of the values.
        write: The value as plain JSON values, without its description and its record; None if it cannot be saved.
        read: The inverse, ``read(plain, description, provenance)``; the last two are None for a description. It must
            check its input as any other, and that noise laws and shapes are those of the event.
        measured: The description of a value: by default its attribute ``description``.
        measured_in: The same from a file; by default the network or the description that files write themselves.
        recorded: The record of a fitted value; by default its attribute ``provenance``.
    """

    role: Role
    kind: str
    type: type
    write: Callable[[Any], Plain | None]
    read: Callable[[Plain, Any, Provenance | None], Any]
    measured: Callable[[Any], Any] = attrgetter("description")
    measured_in: Callable[[Plain, Network | None], Any] = described_in
    recorded: Callable[[Any], Provenance | None] = attrgetter("provenance")


_KINDS: dict[tuple[bool, str], Codec] = {}
_TYPES: dict[tuple[bool, type], list[Codec]] = {}


def register_codecs(*codecs: Codec) -> None:
    """Lets ``save`` and ``load`` take values of further types: of a family outside the package, in one call.

    Raises:
        FileError: If another codec has the kind already; none of them is registered then.
    """
    for codec in codecs:
        if _KINDS.get((codec.role == "released", codec.kind), codec) != codec:
            raise FileError(f"a file of kind {codec.kind!r} is read by another codec")
    for codec in codecs:
        released = codec.role == "released"
        _KINDS[released, codec.kind] = codec
        if codec not in (known := _TYPES.setdefault((released, codec.type), [])):
            known.append(codec)


def codec_of_kind(kind: Any, *, released: bool) -> Codec | None:
    """The codec that reads a kind; None if there is none."""
    if not isinstance(kind, str):
        return None
    register_by_name(kind)
    return _KINDS.get((released, kind))


def refuse_unfitted(value: Any) -> None:
    """Refuses an estimator of this package that has learned nothing yet."""
    ours = type(value).__module__.startswith("dpgraph.") and not isinstance(value, type)
    if ours and callable(getattr(value, "fit", None)) and not hasattr(value, "model_"):
        raise FileError(f"this {type(value).__name__} has learned nothing yet: fit it first")


def written(value: Any, *, released: bool) -> tuple[Codec, Plain]:
    """A value's codec, and the value as plain JSON values."""
    for codec in _TYPES.get((released, type(value)), []):
        if (plain := codec.write(value)) is not None:
            return codec, plain
    refuse_unfitted(value)
    raise FileError(
        f"{type(value).__name__} is not saved: save a public value, which was declared, released or learned"
    )


def plain_provenance(provenance: Provenance | None, structure: Structure) -> Plain:
    """The record of a release, checked as a reader checks it; None stands for none."""
    if provenance is None:
        return {"event": None, "unit": None, "cost": None, "private": None}
    check_reproduced(provenance, structure)
    event, unit = provenance.event, provenance.unit
    return {
        "event": plain_of(event, Event),
        "unit": plain_of(unit, PrivacyUnit),
        "cost": {"epsilon": str(event.epsilon), "delta": str(event.delta)},
        "private": provenance.private,
    }


def provenance_of(plain: Plain, structure: Structure) -> Provenance | None:
    """The record in a file, checked against public structure and its own noise, such as its cost."""
    if plain["event"] is None:
        return None
    if not isinstance(plain["private"], bool):
        raise FileError("the record of the release is not whole")
    unit, event = value_of(plain["unit"], PrivacyUnit, "unit"), event_of(plain["event"])
    if plain["cost"] != {"epsilon": str(event.epsilon), "delta": str(event.delta)}:
        raise FileError("the cost is not that of the event")
    receipts = value_of(plain.get("receipts", []), tuple[str, ...], "receipts")
    provenance = Provenance(event, unit, plain["private"], receipts)
    check_reproduced(provenance, structure)
    if (plain_of(unit, PrivacyUnit), plain_of(event, Event)) != (plain["unit"], plain["event"]):
        raise FileError("the record of the release has entries that dpgraph does not write there")
    return provenance
